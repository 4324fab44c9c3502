"""Time and memory of the order decoder, on invented records.

python -m tests.benchmarks.order_decoding --records=20000
"""

from __future__ import annotations

import resource
import time

import numpy as np
from absl import app, flags

from ctd_jax.dating.sequence import decoder, transitions

KINDS_OF_EVIDENCE = 64


def _memory() -> float:
  """Returns the most memory that the process held, in MB."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _seconds() -> np.ndarray:
  """Returns the seconds passed, and those that the processors worked."""
  return np.array([time.perf_counter(), time.process_time()])


def main(records: int, months: int) -> None:
  """Prints seconds and MB of both passes."""
  draw = np.random.default_rng(0)
  table = draw.normal(0, 1, (KINDS_OF_EVIDENCE, months)).astype(np.float32)
  said = draw.integers(0, KINDS_OF_EVIDENCE, records)
  kinds = draw.integers(0, transitions.NUM_CLASSES, records)
  places = np.arange(months)
  moves = transitions.make_transitions(
    transitions.TransitionModel(),
    transitions.find_boundaries(places // 12, places % 12 + 1),
  )

  def evidence(start: int, stop: int) -> np.ndarray:
    return table[said[start:stop]]

  before = _memory()
  begun = _seconds()
  for _ in decoder.iter_posteriors(evidence, kinds, moves):
    pass
  posterior = _seconds() - begun
  begun = _seconds()
  decoder.find_best_path(evidence, kinds, moves)
  path = _seconds() - begun
  print(
    f"{records} records, {months} months: posterior {posterior[0]:.1f} s "
    f"({posterior[1]:.1f} s of processor), best path {path[0]:.1f} s "
    f"({path[1]:.1f} s), compiling included; {_memory():.0f} MB at most, "
    f"{before:.0f} MB of it before"
  )


if __name__ == "__main__":
  _RECORDS = flags.DEFINE_integer("records", 20_000, "Records to date.")
  _MONTHS = flags.DEFINE_integer("months", 3036, "Months of the timeline.")
  app.run(lambda _: main(_RECORDS.value, _MONTHS.value))
