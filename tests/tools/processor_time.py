"""Measures the processor time of tests, as a plugin of pytest.

Wall time says little where cores are shared. A fixture of a class, a module or
the session is charged to itself, not to the first test that asks for it.
"""

import os
from collections.abc import Iterator

import pytest

from tests.tools import processes

# Of the properties of a report, which xdist passes on.
KEY = "processor seconds"


def read_processor_time() -> float:
  """Returns seconds of this process and of its children that have ended."""
  return sum(os.times()[:4])


def _is_slow_alone(name: str, limit: float, folder: os.PathLike) -> bool:
  # Among others a test may be charged for what it did not do: the first import
  # of a library, or a child process of an earlier test.
  options = "-q", "-n", "0", "-p", "no:cacheprovider", f"--cpu-limit={limit}"
  done = processes.run_python("-m", "pytest", *options, name, cwd=folder)
  return done.returncode != 0


class ProcessorTime:
  """Collects processor times and fails a run whose unmarked tests are slow.

  Args:
    num_shown: how many of the slowest are listed.
    limit: seconds that a test may take which is not marked slow; None = any.
      In a run of several processes, a test over the limit is measured again
      alone.
  """

  def __init__(self, num_shown: int, limit: float | None):
    self._num_shown, self._limit = num_shown, limit
    self._in_fixtures = 0.0  # seconds in shared fixtures, to be left out
    self._new: list[tuple[str, float]] = []  # fixtures not yet reported
    self._seconds: dict[tuple[str, str], float] = {}  # (name, kind) -> seconds
    self._exceeding: list[str] = []

  @pytest.hookimpl(wrapper=True)
  def pytest_fixture_setup(self, fixturedef) -> Iterator[None]:
    if fixturedef.scope == "function":
      return (yield)
    start, before = read_processor_time(), self._in_fixtures
    try:
      return (yield)
    finally:
      # A fixture that this one asked for has been charged already.
      nested = self._in_fixtures - before
      own = read_processor_time() - start - nested
      self._in_fixtures += own
      name = f"{fixturedef.baseid or 'tests'}::{fixturedef.argname}"
      self._new.append((name, own))

  @pytest.hookimpl(wrapper=True)
  def pytest_runtest_setup(self, item) -> Iterator[None]:
    return (yield from self._charge(item))

  @pytest.hookimpl(wrapper=True)
  def pytest_runtest_call(self, item) -> Iterator[None]:
    return (yield from self._charge(item))

  def _charge(self, item) -> Iterator[None]:
    start, before = read_processor_time(), self._in_fixtures
    try:
      return (yield)
    finally:
      shared = self._in_fixtures - before
      own = read_processor_time() - start - shared
      # Comparisons with published code run only when --parity asks for them.
      may_take_long = (
        item.get_closest_marker("slow") or "parity" in item.path.parts
      )
      kind = "slow" if may_take_long else "test"
      times = [(item.nodeid, kind, own)]
      times += [(name, "fixture", seconds) for name, seconds in self._new]
      self._new.clear()
      item.user_properties.append((KEY, times))

  def pytest_runtest_logreport(self, report) -> None:
    if report.when != "teardown":  # this one has the properties of all three
      return
    for key, times in report.user_properties:
      if key == KEY:
        for name, kind, seconds in times:
          place = name, kind
          self._seconds[place] = self._seconds.get(place, 0.0) + seconds

  @pytest.hookimpl(trylast=True)
  def pytest_sessionfinish(self, session) -> None:
    if self._limit is None or "PYTEST_XDIST_WORKER" in os.environ:
      return
    is_parallel = session.config.getoption("numprocesses", None)
    self._exceeding = [
      f"{name}: {seconds:.1f} s"
      for (name, kind), seconds in self._seconds.items()
      if kind == "test"
      and seconds > self._limit
      and (
        not is_parallel
        or _is_slow_alone(name, self._limit, session.config.rootpath)
      )
    ]
    if self._exceeding and session.exitstatus == 0:
      session.exitstatus = pytest.ExitCode.TESTS_FAILED

  def pytest_terminal_summary(self, terminalreporter) -> None:
    by_time = sorted(self._seconds.items(), key=lambda item: -item[1])
    if self._num_shown:
      total = sum(self._seconds.values())
      terminalreporter.section(f"processor time: {total:.0f} s")
      for (name, kind), seconds in by_time[: self._num_shown]:
        terminalreporter.write_line(f"{seconds:7.2f} s {kind:7} {name}")
    if self._exceeding:
      terminalreporter.section("too slow")
      for line in self._exceeding:
        terminalreporter.write_line(line)
      terminalreporter.write_line(
        f"Tests over {self._limit:g} s of processor time need the mark slow, "
        "or less to do."
      )
