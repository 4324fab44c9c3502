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
from ctd_jax.chronology.annals import EVENT, Record
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.utils import files

_HEADER = ["record_id", "month", "probability"]
_NAME = re.compile(r"dates\.(?P<system>.+)\.(?P<split>\w+)\.tsv")


@dataclasses.dataclass(frozen=True)
class Judged:
  """How right the dates of a system are, over events of hidden months.

  Attributes:
    month: whether the likeliest month is the true one, bool [n].
    within_1: whether it is that or a neighbour of it, bool [n].
    year: whether its regnal year is the true one, bool [n].
    sure: probability of the likeliest month, [n].
  """

  month: np.ndarray
  within_1: np.ndarray
  year: np.ndarray
  sure: np.ndarray


def hidden_rows(benchmark: Benchmark, split: str) -> np.ndarray:
  """Returns which records are of the months of a split, int [n]."""
  return np.flatnonzero(np.array(benchmark.record_splits) == split)


def write(
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
  best = log_p.argmax(axis=1)
  for row, month, value in zip(rows, best, log_p.max(axis=1), strict=True):
    key = benchmark.timeline.key(int(month))
    name = benchmark.records[row].record_id
    lines.append(f"{name}\t{key}\t{np.exp(value):.6f}")
  path = pathlib.Path(folder) / f"dates.{system}.{split}.tsv"
  files.write_text(path, "\n".join(lines) + "\n")


def judge_folders(
  folders: Sequence[pathlib.Path], benchmark: Benchmark, split: str
) -> dict[str, Judged]:
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
    for row in hidden_rows(benchmark, split)
  }
  found = {}
  for folder in folders:
    for path in sorted(folder.glob(f"dates.*.{split}.tsv")):
      name = _NAME.fullmatch(path.name)["system"]
      if name not in found:
        found[name] = _judge(path, records, benchmark.timeline)
  return found


def _judge(
  path: pathlib.Path, records: Mapping[str, Record], timeline: Timeline
) -> Judged:
  rows = []
  lines = path.read_text(encoding="utf-8").splitlines()
  if not lines or lines[0].split("\t") != _HEADER:
    raise ValueError(f"{path}:1: expected the header {' '.join(_HEADER)}")
  for number, line in enumerate(lines[1:], start=2):
    try:
      name, month, probability = line.split("\t")
      record, guess = records[name], timeline.ordinal(TimeKey.parse(month))
      sure = float(probability)
    except (KeyError, ValueError) as error:
      raise ValueError(f"{path}:{number}: {error}") from None
    if record.kind == EVENT:
      off = abs(guess - timeline.ordinal(record.key))
      year = timeline.key(guess).triple[:2] == record.key.triple[:2]
      rows.append((off == 0, off <= 1, year, sure))
  if not rows:
    raise ValueError(f"{path}: no date of an event")
  month, within_1, year, sure = map(np.array, zip(*rows, strict=True))
  return Judged(month, within_1, year, sure)
