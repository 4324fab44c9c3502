"""Synthetic samples with the sizes and marginals of the published ones.

Tests, examples and tuning need samples whose texts are informative about their
curves, also without the published files. These are NOT the published data:
sentences are invented and targets are drawn at random, so no figure measured
on them says anything about the benchmark.

They share with the published samples the sizes of the splits, the number of
samples with a text on each axis, and the mean and standard deviation of each
target in each split. A text names a duration (a span of `WORDING`) near
its location, blurred by `BLUR`; it says nothing about scale and skewness.

Source: Chronocept, arXiv 2505.07637v1, Table 3 (axes) and Table 5 (targets).
"""

from __future__ import annotations

import math
import pathlib
import random
import statistics
from collections.abc import Iterator, Sequence

from ctd_jax_datasets.chronocept.sample_records import (
  AXES,
  LOG_BASE,
  SPLITS,
  Sample,
  read_axis_counts,
  read_target_statistics,
)
from ctd_jax_datasets.common import tsv_files

MAIN_AXIS = AXES[0]
# Invented phrases. Keys of the tables `event` and `duration` are the minutes of
# a span of time. By axis, `clause` continues a sentence (benchmark 1) and
# `sentence` stands alone (benchmark 2); none of these names a duration. Slots:
# {she} pronoun of the subject, {place}, {thing}, {group}. Subjects are followed
# by their pronoun; verbs are in the third person singular.
WORDING = tsv_files.read_wording(
  pathlib.Path(__file__).with_name("synthetic_wording.tsv")
)
# Standard deviation of the duration in the text around the location, relative
# to that of the location. A text determines 1 / (1 + BLUR^2) of the variance of
# the location, less what rounding to the few spans loses.
BLUR = 0.5
# Draws beyond so many deviations are rejected: a scale must be positive, and a
# location is the logarithm of at least one minute.
_MAX_DEVIATIONS = 2.25


def generate_samples(benchmark: str, seed: int = 0) -> dict[str, list[Sample]]:
  """Returns split -> samples, sorted by id.

  Args:
    benchmark: one of `samples.BENCHMARKS`; texts of benchmark 1 have one
      sentence, those of benchmark 2 several.
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


def _draw_axes(
  counts: dict[str, int], size: int, rng: random.Random
) -> Iterator[list[str]]:
  """Yields the axes of each sample; their total counts are as published."""
  axes_by_sample = [[] for _ in range(size)]
  for axis in AXES:
    for number in sorted(rng.sample(range(size), counts[axis])):
      axes_by_sample[number].append(axis)
  yield from axes_by_sample


def _draw_targets(
  size: int, mean: float, sd: float, rng: random.Random
) -> list[float]:
  """Returns draws with exactly this mean and population deviation."""
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
  """Returns the parent text and its segments by axis."""
  # The order of draws is part of the data set.
  subject, pronoun = rng.choice(WORDING["subject"][""]).split(", ")
  slots = {"she": pronoun} | {
    name: rng.choice(WORDING[name][""]) for name in ("place", "thing", "group")
  }
  span = min(
    WORDING["event"],
    key=lambda minutes: abs(math.log(float(minutes), LOG_BASE) - log_minutes),
  )
  event, duration = (
    rng.choice(WORDING[table][span]) for table in ("event", "duration")
  )
  main = f"{subject} {event} {duration}"
  frames = WORDING["clause" if is_single_sentence else "sentence"]
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


def _capitalise(piece: str) -> str:
  return piece[0].upper() + piece[1:]
