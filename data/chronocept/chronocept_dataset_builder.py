"""TFDS builder of Chronocept: statements and their validity over log time.

`benchmark_1` and `benchmark_2` are the published samples, `synthetic_1` and
`synthetic_2` invented ones of the same sizes. Tables with the data compare them
with the published statistics.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import pathlib
import random
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from ctd_jax.utils import files
from ctd_jax_datasets.chronocept import sample_records
from ctd_jax_datasets.chronocept.sample_records import (
  AXES,
  BENCHMARKS,
  LOG_BASE,
  SPLITS,
  TARGETS,
  Sample,
  read_axis_counts,
  read_target_statistics,
)
from ctd_jax_datasets.common import base_builder, summary
from ctd_jax_datasets.common.base_builder import BaseBuilder
from ctd_jax_datasets.common.source_files import SourceError

# Synthetic samples: tests, examples and tuning need texts that tell something
# about their curves, also without the published files. Sentences are invented
# and targets are drawn at random, so no figure measured on them says anything
# about the benchmark. As published are the sizes of the splits, the number of
# samples with a text on each axis, and the mean and standard deviation of each
# target in each split. A text names a duration near its location, blurred by
# `BLUR`; it says nothing about scale and skewness.
# Source: Chronocept, arXiv 2505.07637v1, Table 3 (axes) and Table 5 (targets).


MAIN_AXIS = AXES[0]
# Invented phrases. Keys of the tables `event` and `duration` are the minutes of
# a span of time. By axis, `clause` continues a sentence (benchmark 1) and
# `sentence` stands alone (benchmark 2); none of these names a duration. Slots:
# {she} pronoun of the subject, {place}, {thing}, {group}. Subjects are followed
# by their pronoun; verbs are in the third person singular.
WORDING = files.read_wording(
  pathlib.Path(__file__).with_name("synthetic_wording.tsv")
)
# Standard deviation of the duration in the text around the location, relative
# to that of the location. A text determines 1 / (1 + BLUR^2) of the variance of
# the location, less what rounding to the few spans loses.
BLUR = 0.5
# Draws beyond this many deviations are rejected: a scale must be positive, and
# a location is the logarithm of at least one minute.
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


def _count_by_split(
  samples: Mapping[str, Sequence[Sample]], benchmark: str
) -> list[dict[str, Any]]:
  """Returns samples and mean words of each split."""
  published_statistics = read_target_statistics()[benchmark]
  return [
    {
      "split": split,
      "samples": len(samples[split]),
      "published": published_statistics[split].n,
      "words": round(
        statistics.fmean(len(s.parent_text.split()) for s in samples[split]), 2
      ),
    }
    for split in SPLITS
  ]


def _summarise_by_target(
  samples: Mapping[str, Sequence[Sample]], benchmark: str
) -> list[dict[str, Any]]:
  """Returns mean, deviation and range of each target in each split."""
  published_statistics = read_target_statistics()[benchmark]
  rows = []
  for split in SPLITS:
    columns = zip(*(sample.targets for sample in samples[split]), strict=True)
    for index, values in enumerate(columns):
      rows.append(
        {
          "split": split,
          "target": TARGETS[index],
          "mean": round(statistics.fmean(values), 4),
          "published_mean": round(published_statistics[split].mean[index], 4),
          # Population deviation, as in `target_statistics.tsv`.
          "sd": round(statistics.pstdev(values), 4),
          "published_sd": round(published_statistics[split].sd[index], 4),
          "least": min(values),
          "most": max(values),
        }
      )
  return rows


SEED = 0  # of the synthetic samples; part of their version
_TEXT_DESCRIPTIONS = {
  "benchmark_1": "one sentence each",
  "benchmark_2": "several sentences each",
}


@dataclasses.dataclass(kw_only=True)
class ChronoceptConfig(tfds.core.BuilderConfig):
  """A variant of the data set."""

  benchmark: str  # the published benchmark that it is, or imitates
  synthetic: bool = False  # whether its samples are invented


class Builder(BaseBuilder):
  """Builder of `chronocept/benchmark_*` and `chronocept/synthetic_*`.

  One process is enough, whatever `processes` says.
  """

  # A change of any sample is a new version.
  VERSION = tfds.core.Version("1.0.0")
  RELEASE_NOTES: ClassVar = {"1.0.0": "First."}
  BUILDER_CONFIGS: ClassVar = [
    *(
      ChronoceptConfig(
        name=benchmark,
        benchmark=benchmark,
        description=f"The published samples, {_TEXT_DESCRIPTIONS[benchmark]}.",
      )
      for benchmark in BENCHMARKS
    ),
    *(
      ChronoceptConfig(
        name=benchmark.replace("benchmark", "synthetic"),
        benchmark=benchmark,
        synthetic=True,
        description="Synthetic: invented by this project, "
        f"{_TEXT_DESCRIPTIONS[benchmark]}, with the sizes and marginals of "
        f"{benchmark}.",
      )
      for benchmark in BENCHMARKS
    ),
  ]

  def _info(self) -> tfds.core.DatasetInfo:
    """Returns features and metadata."""
    return self.dataset_info_from_configs(
      features=sample_records.make_sample_features(),
      homepage="https://arxiv.org/abs/2505.07637",
      metadata=tfds.core.MetadataDict(synthetic=self.builder_config.synthetic),
      disable_shuffling=True,  # the order of the files is kept
    )

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict[str, Any]]]]:
    """Returns the examples of `train`, `validation` and `test`."""
    config = self.builder_config
    # Sources that are silently ignored would look like published samples.
    if config.synthetic and self.sources:
      raise SourceError(
        f"--sources={self.sources}: {self.name}/{config.name} is made without "
        "sources; leave it out, or build another variant"
      )
    if config.synthetic:
      samples = generate_samples(config.benchmark, SEED)
    else:
      paths = sample_records.locate_published_files(
        dl_manager, config.benchmark, self._release_folder()
      )
      samples = sample_records.read_splits(paths)
    return {
      split: self._generate_examples(split_samples)
      for split, split_samples in samples.items()
    }

  def _generate_examples(
    self, samples: Iterable[Sample]
  ) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (id, example) of every sample."""
    for sample in samples:
      yield sample.sample_id, sample_records.make_example(sample)

  def describe(self) -> dict[str, Any]:
    """Writes tables next to the data; returns the statistics.

    Returns:
      Plain values: name, `synthetic`, `content_sha256`, and the rows of the
      tables `splits`, `targets` and `axes`.
    """
    benchmark = self.builder_config.benchmark
    title, is_synthetic = self.info.full_name, self.builder_config.synthetic
    samples = sample_records.read_samples(self)
    # The hash covers what is stored, so samples become examples again.
    examples_by_split = {
      split: list(map(sample_records.make_example, split_samples))
      for split, split_samples in samples.items()
    }
    # The paper counts axes over all splits together.
    axis_counts = collections.Counter(
      axis
      for split_samples in samples.values()
      for sample in split_samples
      for axis, text in sample.axes.items()
      if text
    )
    published_counts = read_axis_counts(benchmark)
    tables = {
      "splits": _count_by_split(samples, benchmark),
      "targets": _summarise_by_target(samples, benchmark),
      "axes": [
        {
          "axis": axis,
          "samples": axis_counts[axis],
          "published": published_counts[axis],
        }
        for axis in AXES
      ],
    }
    blocks = [
      title + " (synthetic: invented sentences, drawn targets)" * is_synthetic,
      summary.format_table("samples by split", tables["splits"]),
      summary.format_table("targets, population sd", tables["targets"]),
      summary.format_table("samples with a text on the axis", tables["axes"]),
    ]
    path = pathlib.Path(self.data_path)
    files.write_text(
      path / base_builder.TABLES_FILE, "\n\n".join(blocks) + "\n"
    )
    return {
      "name": title,
      "synthetic": is_synthetic,
      "content_sha256": summary.content_hash(
        self.info.features, examples_by_split
      ),
      **tables,
    }
