"""Dates that a system gives to records, as files beside its runs.

Why: whether a posterior of the month is as sure as it is right cannot be seen
from a ranking. A system that has one writes, for the records of a split whose
months it was not told, the likeliest month and its probability; what is true
is known here alone. Written by `evaluate`; read by `evaluation.page`.

Axes: n records, K months.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import EVENT, Record
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.utils import files

_HEADER = ["record_id", "month", "probability"]
_FILE_NAME = re.compile(r"dates\.(?P<system>.+)\.(?P<split>\w+)\.tsv")


@dataclasses.dataclass(frozen=True)
class DateAccuracy:
  """How right the dates of a system are, over events of hidden months.

  Attributes:
    is_month_right: whether the likeliest month is the true one, bool [n].
    is_within_1: whether it is that or a neighbour of it, bool [n].
    is_year_right: whether its regnal year is the true one, bool [n].
    confidence: probability of the likeliest month, [n].
  """

  is_month_right: np.ndarray
  is_within_1: np.ndarray
  is_year_right: np.ndarray
  confidence: np.ndarray


def find_split_rows(benchmark: Benchmark, split: str) -> np.ndarray:
  """Returns which records are of the months of a split, int [n]."""
  return np.flatnonzero(np.array(benchmark.record_splits) == split)


def write_dates(
  folder: str | os.PathLike,
  system: str,
  split: str,
  benchmark: Benchmark,
  rows: np.ndarray,
  log_p: np.ndarray,
) -> None:
  """Writes dates.<system>.<split>.tsv.

  Args:
    folder: of the run files.
    system: name as in its run files.
    split: that the records are of.
    benchmark: that they belong to.
    rows: which records, int [n].
    log_p: log p(month | record) over the timeline, [n, K].
  """
  lines = ["\t".join(_HEADER)]
  best_months = log_p.argmax(axis=1)
  for row, month, value in zip(
    rows, best_months, log_p.max(axis=1), strict=True
  ):
    key = benchmark.timeline.key_at(int(month))
    name = benchmark.records[row].record_id
    lines.append(f"{name}\t{key}\t{np.exp(value):.6f}")
  path = pathlib.Path(folder) / f"dates.{system}.{split}.tsv"
  files.write_text(path, "\n".join(lines) + "\n")


def evaluate_date_files(
  folders: Sequence[pathlib.Path], benchmark: Benchmark, split: str
) -> dict[str, DateAccuracy]:
  """Returns system -> its judged dates, for all that have a file.

  Args:
    folders: where the files lie; of two of one system the first counts.
    benchmark: that the records belong to.
    split: that they are of.

  Raises:
    ValueError: naming file and line of what cannot be read.
  """
  records = {
    benchmark.records[row].record_id: benchmark.records[row]
    for row in find_split_rows(benchmark, split)
  }
  accuracy_by_system = {}
  for folder in folders:
    for path in sorted(folder.glob(f"dates.*.{split}.tsv")):
      name = _FILE_NAME.fullmatch(path.name)["system"]
      if name not in accuracy_by_system:
        accuracy_by_system[name] = _evaluate_date_file(
          path, records, benchmark.timeline
        )
  return accuracy_by_system


def _evaluate_date_file(
  path: pathlib.Path, records: Mapping[str, Record], timeline: Timeline
) -> DateAccuracy:
  rows = []
  lines = path.read_text(encoding="utf-8").splitlines()
  if not lines or lines[0].split("\t") != _HEADER:
    raise ValueError(f"{path}:1: expected the header {' '.join(_HEADER)}")
  for number, line in enumerate(lines[1:], start=2):
    try:
      name, is_month_right, probability = line.split("\t")
      record, predicted_ordinal = (
        records[name],
        timeline.ordinal(TimeKey.parse(is_month_right)),
      )
      confidence = float(probability)
    except (KeyError, ValueError) as error:
      raise ValueError(f"{path}:{number}: {error}") from None
    if record.kind == EVENT:
      month_error = abs(predicted_ordinal - timeline.ordinal(record.key))
      is_year_right = (
        timeline.key_at(predicted_ordinal).triple[:2] == record.key.triple[:2]
      )
      rows.append(
        (month_error == 0, month_error <= 1, is_year_right, confidence)
      )
  if not rows:
    raise ValueError(f"{path}: no date of an event")
  is_month_right, is_within_1, is_year_right, confidence = map(
    np.array, zip(*rows, strict=True)
  )
  return DateAccuracy(is_month_right, is_within_1, is_year_right, confidence)
