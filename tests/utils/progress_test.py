"""Progress of loops where there is a terminal and where there is none."""

import io
import re

import pytest
from absl import logging

from ctd_jax.utils import output


class Terminal(io.StringIO):
  def isatty(self) -> bool:
    return True


@pytest.fixture
def lines(monkeypatch):
  written = []
  monkeypatch.setattr(
    logging, "info", lambda message, *args: written.append(message % args)
  )
  return written


@pytest.fixture
def clock(monkeypatch):
  """Seconds that the bar reads; a test moves them on."""
  now = [1000.0]
  init = output.Progress.__init__

  def init_with_clock(self, *args, **kwargs):
    init(self, *args, **kwargs)
    self._time = lambda: now[0]
    self.start_t = self.last_print_t = now[0]

  monkeypatch.setattr(output.Progress, "__init__", init_with_clock)
  # The thread that watches slow loops reads the real clock.
  monkeypatch.setattr(output.Progress, "monitor_interval", 0)
  return now


def test_without_a_terminal_lines_say_how_far_and_how_long(lines, clock):
  file = io.StringIO()
  bar = output.Progress(
    total=1000, desc="train", unit="step", initial=100, file=file
  )
  for _ in range(900):
    clock[0] += 0.1
    bar.update()
    bar.set_postfix(loss="2.310")
  bar.close()
  # 90 seconds: a line about every 30, and one at the end.
  assert len(lines) in (3, 4)
  assert re.fullmatch(
    r"train: [34]\d\d of 1,000 steps \((39|40)%\), 10 steps/s, "
    r"0:01:0\d left, loss=2.310",
    lines[0],
  )
  assert lines[-1].startswith("train: 1,000 of 1,000 steps (100%), 10 steps/s")
  assert "left" not in lines[-1]
  assert not file.getvalue()


def test_what_is_soon_over_says_nothing(lines, clock):
  for _ in output.Progress(range(50), desc="search", file=io.StringIO()):
    clock[0] += 0.5
  assert not lines


def test_a_loop_of_unknown_length_counts(lines, clock):
  bar = output.Progress(desc="encode", unit="text", file=io.StringIO())
  for _ in range(4):
    clock[0] += 20
    bar.update(10)
  assert lines
  assert re.fullmatch(r"encode: \d0 texts, 0.5 texts/s", lines[0])


def test_a_terminal_shows_a_bar(lines):
  terminal = Terminal()
  with output.Progress(
    total=2, desc="train", delay=0, mininterval=0, file=terminal
  ) as bar:
    bar.update(2)
  assert "100%" in terminal.getvalue()
  assert not lines
