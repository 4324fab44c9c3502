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
  read_axis_counts,
  read_target_statistics,
)

MAIN_AXIS = AXES[0]
# Standard deviation of the span in the text around the location, as a share of
# the location's own; of the location's variance, 1 / (1 + BLUR^2) is in the
# text, apart from what the few spans round away.
BLUR = 0.5
# Draws farther out, in standard deviations, are drawn again: a scale must be
# positive and a location is the logarithm of at least a minute.
_MAX_DEVIATIONS = 2.25


def generate_samples(benchmark: str, seed: int = 0) -> dict[str, list[Sample]]:
  """Returns split -> samples, sorted by id.

  Args:
    benchmark: one of `samples.BENCHMARKS`: a sentence as in benchmark 1, or
      several as in benchmark 2.
    seed: of every draw. The same seed gives the same samples.
  """
  rng = random.Random(f"{benchmark}:{seed}")
  published_statistics = read_target_statistics()[benchmark]
  sizes = {split: published_statistics[split].n for split in SPLITS}
  axes_of_samples = _draw_axes(
    read_axis_counts(benchmark), sum(sizes.values()), rng
  )
  is_single_sentence = benchmark == "benchmark_1"
  samples: dict[str, list[Sample]] = {split: [] for split in SPLITS}
  for split in SPLITS:
    columns = [
      _draw_targets(sizes[split], mean, sd, rng)
      for mean, sd in zip(
        published_statistics[split].mean,
        published_statistics[split].sd,
        strict=True,
      )
    ]
    blur_sd = BLUR * published_statistics[split].sd[0]
    for targets in zip(*columns, strict=True):
      log_minutes = targets[0] + rng.gauss(0, blur_sd)
      text, axes = _compose_text(
        log_minutes, next(axes_of_samples), is_single_sentence, rng
      )
      number = sum(map(len, samples.values()))
      sample = Sample(f"S{number:04d}", text, axes, *targets)
      samples[split].append(sample)
  return samples


def _draw_axes(counts: dict[str, int], size: int, rng: random.Random):
  """Yields the axes of each sample; over all, each as often as published."""
  axes_by_sample = [[] for _ in range(size)]
  for axis in AXES:
    for number in sorted(rng.sample(range(size), counts[axis])):
      axes_by_sample[number].append(axis)
  yield from axes_by_sample


def _draw_targets(
  size: int, mean: float, sd: float, rng: random.Random
) -> list[float]:
  """Returns draws with just this mean and population standard deviation.

  Truncated normal, then moved and stretched; rounded as published, to three
  decimals.
  """
  values: list[float] = []
  while len(values) < size:
    value = rng.gauss(0, 1)
    if abs(value) < _MAX_DEVIATIONS:
      values.append(value)
  centre, spread = statistics.fmean(values), statistics.pstdev(values)
  return [round(mean + sd * (value - centre) / spread, 3) for value in values]


def _compose_text(
  log_minutes: float,
  axes: Sequence[str],
  is_single_sentence: bool,
  rng: random.Random,
) -> tuple[str, dict[str, str]]:
  """Returns the parent text and its pieces by axis.

  Args:
    log_minutes: logarithm to base `LOG_BASE` of the minutes that the text names.
    axes: those with a text, the main one among them.
    is_single_sentence: one sentence, or one for each axis.
    rng: chooses the words.
  """
  subject, pronoun = rng.choice(wording.SUBJECTS)
  slots = {
    "she": pronoun,
    "place": rng.choice(wording.PLACES),
    "thing": rng.choice(wording.THINGS),
    "group": rng.choice(wording.GROUPS),
  }
  span = _find_nearest_span(log_minutes)
  main = f"{subject} {rng.choice(span.event_phrases)} {rng.choice(span.duration_phrases)}"
  frames = wording.CLAUSES if is_single_sentence else wording.SENTENCES
  text_by_axis = {MAIN_AXIS: main.format(**slots)}
  for axis in axes[1:]:
    text_by_axis[axis] = rng.choice(frames[axis]).format(**slots)
  if is_single_sentence:
    text_by_axis[MAIN_AXIS] = _capitalise(text_by_axis[MAIN_AXIS])
    text = ", ".join(text_by_axis.values()) + "."
  else:
    text_by_axis = {
      axis: f"{_capitalise(piece)}." for axis, piece in text_by_axis.items()
    }
    text = " ".join(text_by_axis.values())
  return text, {axis: text_by_axis.get(axis, "") for axis in AXES}


def _find_nearest_span(log_minutes: float) -> wording.Span:
  """Returns the span of time nearest on the logarithmic axis."""
  return min(
    wording.SPANS,
    key=lambda span: abs(math.log(span.minutes, LOG_BASE) - log_minutes),
  )


def _capitalise(piece: str) -> str:
  return piece[0].upper() + piece[1:]
