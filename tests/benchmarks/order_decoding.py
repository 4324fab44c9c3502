"""Time and memory of the order decoder on invented records.

Axes: R records, K months, E kinds of evidence.

  python -m tests.benchmarks.order_decoding --records=20000
"""

from __future__ import annotations

import resource
import time

import numpy as np
from absl import app, flags

from ctd_jax.dating.sequence import (
  best_path,
  decoder,
  section_kinds,
  transition_model,
  transitions,
)

NUM_EVIDENCE_KINDS = 64  # rows of emissions that records share


def _measure_peak_memory() -> float:
  """Returns the peak memory of the process, in MB."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _read_clocks() -> np.ndarray:
  """Returns seconds of the wall and of the processor."""
  return np.array([time.perf_counter(), time.process_time()])


def main(records: int, months: int) -> None:
  """Prints seconds and MB of both passes."""
  rng = np.random.default_rng(0)
  emissions = rng.normal(0, 1, (NUM_EVIDENCE_KINDS, months))  # [E, K]
  emissions = emissions.astype(np.float32)
  evidence_kinds = rng.integers(0, NUM_EVIDENCE_KINDS, records)  # [R]
  classes = rng.integers(0, section_kinds.NUM_KINDS, records)  # [R]
  ordinals = np.arange(months)
  transition_table = transitions.make_transitions(
    transition_model.TransitionModel(),
    transition_model.find_boundaries(ordinals // 12, ordinals % 12 + 1),
  )

  def get_emissions(start: int, stop: int) -> np.ndarray:
    return emissions[evidence_kinds[start:stop]]

  memory_before = _measure_peak_memory()
  start = _read_clocks()
  # The first pass includes compilation, as in a user's run.
  for _ in decoder.iter_posteriors(get_emissions, classes, transition_table):
    pass
  posterior = _read_clocks() - start
  start = _read_clocks()
  best_path.find_best_path(get_emissions, classes, transition_table)
  path = _read_clocks() - start
  print(
    f"{records} records, {months} months: posterior {posterior[0]:.1f} s "
    f"({posterior[1]:.1f} s of processor), best path {path[0]:.1f} s "
    f"({path[1]:.1f} s), compiling included; {_measure_peak_memory():.0f} MB "
    f"at most, {memory_before:.0f} MB of it before"
  )


if __name__ == "__main__":
  _RECORDS = flags.DEFINE_integer("records", 20_000, "Records to date.")
  _MONTHS = flags.DEFINE_integer("months", 3036, "Months of the timeline.")
  app.run(lambda _: main(_RECORDS.value, _MONTHS.value))
