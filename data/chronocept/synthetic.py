"""Synthetic samples with the sizes and marginals of the published ones.

Why: the published files may not be at hand, and tests, examples and whatever
is tuned need samples whose texts tell something of their curve. NOT the
published data: the sentences are invented, the targets are drawn; no figure
measured here says anything about the benchmark. Called by the builder.

What is published is kept: sizes of the splits, how many samples have a text on
each axis, mean and standard deviation of each target in each split. What is
not: a text names a span of time (`synthetic_wording.SPANS`) near its location,
blurred by `BLUR`; scale and skewness cannot be read off the text.

Source: Chronocept, arXiv 2505.07637v1, Table 3 (axes) and Table 5 (targets).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from ctd_jax_datasets.chronocept import synthetic_wording as wording
from ctd_jax_datasets.chronocept.samples import (
  AXES,
  LOG_BASE,
  SPLITS,
  Sample,
  axis_counts,
  target_statistics,
)

MAIN = AXES[0]
# Standard deviation of the span in the text around the location, as a share of
# the location's own; of the location's variance, 1 / (1 + BLUR^2) is in the
# text, apart from what the few spans round away.
BLUR = 0.5
# Draws farther out, in standard deviations, are drawn again: a scale must be
# positive and a location is the logarithm of at least a minute.
_FARTHEST = 2.25


def generate(benchmark: str, seed: int = 0) -> dict[str, list[Sample]]:
  """Returns split -> samples, sorted by id.

  Args:
    benchmark: one of `samples.BENCHMARKS`: a sentence as in benchmark 1, or
      several as in benchmark 2.
    seed: of every draw. The same seed gives the same samples.
  """
  draw = random.Random(f"{benchmark}:{seed}")
  known = target_statistics()[benchmark]
  sizes = {split: known[split].n for split in SPLITS}
  present = _axes_of_samples(axis_counts(benchmark), sum(sizes.values()), draw)
  single = benchmark == "benchmark_1"
  samples: dict[str, list[Sample]] = {split: [] for split in SPLITS}
  for split in SPLITS:
    columns = [
      _targets(sizes[split], mean, sd, draw)
      for mean, sd in zip(known[split].mean, known[split].sd, strict=True)
    ]
    blur = BLUR * known[split].sd[0]
    for targets in zip(*columns, strict=True):
      said = targets[0] + draw.gauss(0, blur)
      text, axes = _write(said, next(present), single, draw)
      number = sum(map(len, samples.values()))
      sample = Sample(f"S{number:04d}", text, axes, *targets)
      samples[split].append(sample)
  return samples


def _axes_of_samples(counts: dict[str, int], size: int, draw: random.Random):
  """Yields the axes of each sample; over all, each as often as published."""
  found = [[] for _ in range(size)]
  for axis in AXES:
    for number in sorted(draw.sample(range(size), counts[axis])):
      found[number].append(axis)
  yield from found


def _targets(
  size: int, mean: float, sd: float, draw: random.Random
) -> list[float]:
  """Returns draws with just this mean and population standard deviation.

  Truncated normal, then moved and stretched; rounded as published, to three
  decimals.
  """
  values: list[float] = []
  while len(values) < size:
    value = draw.gauss(0, 1)
    if abs(value) < _FARTHEST:
      values.append(value)
  centre, spread = statistics.fmean(values), statistics.pstdev(values)
  return [round(mean + sd * (value - centre) / spread, 3) for value in values]


def _write(
  said: float, axes: Sequence[str], single: bool, draw: random.Random
) -> tuple[str, dict[str, str]]:
  """Returns the parent text and its pieces by axis.

  Args:
    said: logarithm to base `LOG_BASE` of the minutes that the text names.
    axes: those with a text, the main one among them.
    single: one sentence, or one for each axis.
    draw: chooses the words.
  """
  subject, pronoun = draw.choice(wording.SUBJECTS)
  slots = {
    "she": pronoun,
    "place": draw.choice(wording.PLACES),
    "thing": draw.choice(wording.THINGS),
    "group": draw.choice(wording.GROUPS),
  }
  span = _span(said)
  main = f"{subject} {draw.choice(span.events)} {draw.choice(span.cues)}"
  frames = wording.CLAUSES if single else wording.SENTENCES
  found = {MAIN: main.format(**slots)}
  for axis in axes[1:]:
    found[axis] = draw.choice(frames[axis]).format(**slots)
  if single:
    found[MAIN] = _capital(found[MAIN])
    text = ", ".join(found.values()) + "."
  else:
    found = {axis: f"{_capital(piece)}." for axis, piece in found.items()}
    text = " ".join(found.values())
  return text, {axis: found.get(axis, "") for axis in AXES}


def _span(said: float) -> wording.Span:
  """Returns the span of time nearest on the logarithmic axis."""
  return min(
    wording.SPANS,
    key=lambda span: abs(math.log(span.minutes, LOG_BASE) - said),
  )


def _capital(piece: str) -> str:
  return piece[0].upper() + piece[1:]
