"""Flag of the trace of some steps; imports no JAX."""

from __future__ import annotations

import re

from absl import flags


class _StepsParser(flags.ArgumentParser):
  """Parser of START:STOP, the steps from START to STOP - 1."""

  syntactic_help = "START:STOP"

  def parse(self, argument: str | range) -> range:
    """Returns the steps.

    Raises:
      ValueError: saying what would be right.
    """
    if isinstance(argument, range):
      return argument
    match = re.fullmatch(r"(\d+):(\d+)", argument)
    if match is None:
      raise ValueError("expected START:STOP, two numbers of steps, e.g. 20:25")
    steps = range(int(match[1]), int(match[2]))
    if not steps or not steps.start:
      raise ValueError("expected 1 <= START < STOP; the first step is 1")
    return steps


PROFILE = flags.DEFINE(
  _StepsParser(),
  "profile",
  None,
  "Steps START to STOP - 1 of which the first process writes a trace into "
  "WORKDIR/profile, for xprof, TensorBoard or ui.perfetto.dev. Take steps "
  "behind the first few, which are compiled; a validation among them is "
  "traced too. Example: --profile=20:25",
)
