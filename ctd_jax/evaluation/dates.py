"""Dates that a system gives to records, as files beside its runs.

A ranking does not show whether a posterior over months is calibrated. A system
that has one writes the likeliest month and its probability for the records of
a split whose months were hidden from it. `evaluate` writes the files;
`evaluation.report_page` compares them with the true months.

Axes: N records, K months.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import EVENT, Record
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.utils import files

_HEADER = ["record_id", "month", "probability"]  # month as reign-year-month
_FILE_NAME = re.compile(r"dates\.(?P<system>.+)\.(?P<split>\w+)\.tsv")


@dataclasses.dataclass(frozen=True)
class DateAccuracy:
  """Accuracy of the dates of a system, over events of hidden months.

  Attributes:
    is_month_right: whether the likeliest month is the true one.
    is_within_1: whether it is that or a neighbour of it.
    is_year_right: whether its regnal year is the true one.
    confidence: probability of the likeliest month.
  """

  is_month_right: Bool[np.ndarray, " N"]
  is_within_1: Bool[np.ndarray, " N"]
  is_year_right: Bool[np.ndarray, " N"]
  confidence: Float[np.ndarray, " N"]


def find_split_rows(benchmark: Benchmark, split: str) -> Int[np.ndarray, " N"]:
  """Returns the indices of the records whose months are of a split."""
  return np.flatnonzero(np.array(benchmark.record_splits) == split)


def write_dates(
  folder: str | os.PathLike,
  system: str,
  split: str,
  benchmark: Benchmark,
  rows: Int[np.ndarray, " N"],
  log_p: Float[np.ndarray, "N K"],
) -> None:
  """Writes dates.<system>.<split>.tsv.

  Args:
    folder: of the run files.
    system: name as in its run files.
    split: of the months of the records.
    benchmark: that the records belong to.
    rows: indices of the records.
    log_p: log p(month | record) over the timeline.
  """
  lines = ["\t".join(_HEADER)]
  best_months = log_p.argmax(axis=1)
  for row, month, value in zip(
    rows, best_months, log_p.max(axis=1), strict=True
  ):
    key = benchmark.timeline.key_at(int(month))
    name = benchmark.records[row].record_id
    lines.append(f"{name}\t{key}\t{np.exp(value):.6f}")
  path = files.as_path(folder) / f"dates.{system}.{split}.tsv"
  files.write_text(path, "\n".join(lines) + "\n")


def evaluate_date_files(
  folders: Sequence[files.AnyPath], benchmark: Benchmark, split: str
) -> dict[str, DateAccuracy]:
  """Returns system -> accuracy of its dates, for systems that have a file.

  Args:
    folders: of the files; of two files of one system the first counts.
    benchmark: that the records belong to.
    split: of the months of the records.

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
  path: files.AnyPath, records: Mapping[str, Record], timeline: Timeline
) -> DateAccuracy:
  rows = []
  lines = files.read_text(path).splitlines()
  if not lines or lines[0].split("\t") != _HEADER:
    raise ValueError(f"{path}:1: expected the header {' '.join(_HEADER)}")
  for number, line in enumerate(lines[1:], start=2):
    try:
      name, month, probability = line.split("\t")
      record = records[name]
      predicted_ordinal = timeline.ordinal(TimeKey.parse(month))
      confidence = float(probability)
    except (KeyError, ValueError) as error:
      raise ValueError(f"{path}:{number}: {error}") from None
    # Placeholders and commentary have the month they were filed under: only
    # the date of an event can be right or wrong.
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
