"""Samples of Chronocept as typed values, and published statistics of them.

The published records do not state their time unit or the base of their
logarithm; a `Sample` does.

Source: Chronocept, arXiv 2505.07637v1, Figure 1 (fields of a record) and
Table 3 (axes); the order of the axes is that of the authors' baselines.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import pathlib

# In the order in which the authors' baselines concatenate them.
AXES = (
  "main_outcome",
  "static",
  "generic",
  "hypothetical",
  "negation",
  "intention",
  "opinion",
  "recurrent",
)
TARGETS = ("location", "scale", "skewness")
SPLITS = ("train", "validation", "test")
LOG_BASE = 1.1  # Table 9: an hour is 42.96
TIME_UNIT = "minute"
BENCHMARKS = ("benchmark_1", "benchmark_2")
_FOLDER = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Sample:
  """A text and the curve of its validity.

  Attributes:
    sample_id: e.g. H0028.
    parent_text: the statement.
    axes: name in `AXES` -> the segments of the text on that axis, "" if none.
    location: xi of the skew-normal, a logarithm to `log_base` of the time
      since publication in `time_unit`; not the peak.
    scale: omega > 0, in units of log time.
    skewness: alpha, the shape; not the third standardised moment.
    log_base: base of the logarithm, above 1.
    time_unit: unit of the time before the logarithm is taken.
  """

  sample_id: str
  parent_text: str
  axes: dict[str, str]
  location: float
  scale: float
  skewness: float
  log_base: float = LOG_BASE
  time_unit: str = TIME_UNIT

  @property
  def targets(self) -> tuple[float, float, float]:
    """Location, scale and skewness."""
    return self.location, self.scale, self.skewness


@dataclasses.dataclass(frozen=True)
class TargetStatistics:
  """Number, mean and population standard deviation of targets.

  Attributes:
    n: number of samples.
    mean: of each of `TARGETS`.
    sd: of each of `TARGETS`, with n in the denominator.
  """

  n: int
  mean: tuple[float, ...]
  sd: tuple[float, ...]


def read_target_statistics() -> dict[str, dict[str, TargetStatistics]]:
  """Returns benchmark -> split -> statistics of the published targets.

  Source: `target_statistics.tsv`, each row with its source.
  """
  # The table has a row for each target, in the order of `TARGETS`.
  rows = collections.defaultdict(list)
  for row in _read_table("target_statistics.tsv"):
    rows[row["benchmark"], row["split"]].append(row)
  statistics_by_benchmark: dict[str, dict[str, TargetStatistics]] = {
    name: {} for name in BENCHMARKS
  }
  for (benchmark, split), targets in rows.items():
    statistics_by_benchmark[benchmark][split] = TargetStatistics(
      int(targets[0]["n"]),  # repeated in the rows of a split
      tuple(float(row["mean"]) for row in targets),
      tuple(float(row["sd"]) for row in targets),
    )
  return statistics_by_benchmark


def read_axis_counts(benchmark: str) -> dict[str, int]:
  """Returns axis -> number of published samples with a text on it.

  Args:
    benchmark: one of `BENCHMARKS`.

  Source: `axis_counts.tsv`, each row with its source.
  """
  return {
    row["axis"]: int(row[benchmark]) for row in _read_table("axis_counts.tsv")
  }


def _read_table(name: str) -> list[dict[str, str]]:
  with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
    return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
