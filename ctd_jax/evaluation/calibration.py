"""Calibration of probabilities: reliability bins and their expected error.

A system that gives 0.8 to its likeliest month should be right in 80 % of such
cases. Bins of equal width over the confidence compare the two.

Axes: N records.

Source: Naeini, Cooper and Hauskrecht, Obtaining well calibrated probabilities
using Bayesian binning (AAAI 2015), expected calibration error.
"""

import collections
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import (
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
  Benchmark,
  Query,
  Record,
)
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.utils import files

NUM_BINS = 10  # of width 0.1, as in the paper
_SET_MASS = 0.9  # of a credible set


def compute_reliability_bins(
  confidences: Float[np.ndarray, " N"],
  is_correct: Bool[np.ndarray, " N"],
  num_bins: int = NUM_BINS,
) -> list[tuple[float, float, int]]:
  """Returns (mean confidence, share right, records) of each non-empty bin."""
  # A confidence of exactly 1 belongs to the last bin, not to one past it.
  bin_indices = np.minimum((confidences * num_bins).astype(int), num_bins - 1)
  return [
    (
      float(confidences[bin_indices == bin_index].mean()),
      float(is_correct[bin_indices == bin_index].mean()),
      int((bin_indices == bin_index).sum()),
    )
    for bin_index in np.unique(bin_indices)
  ]


def expected_calibration_error(
  confidences: Float[np.ndarray, " N"], is_correct: Bool[np.ndarray, " N"]
) -> float:
  """Returns the mean over records of |share right - mean confidence|."""
  return sum(
    abs(accuracy - confidence) * count / len(confidences)
    for confidence, accuracy, count in compute_reliability_bins(
      confidences, is_correct
    )
  )


# ----------------------------------------------------------------------------
# Dates that a system gives to records, as files beside its runs.
#
# A ranking does not show whether a posterior over months is calibrated. A
# system that has one writes the likeliest month and its probability for the
# records of a split whose months were hidden from it. `evaluate` writes the
# files; `evaluation.report` compares them with the true months.
#
# Axes: N records, K months.


# Likeliest month as reign-year-month, and its probability; mass of the months
# likelier than the one of the record's key.
_HEADER = ["record_id", "month", "probability", "mass_before"]
_FILE_NAME = re.compile(r"dates\.(?P<system>.+)\.(?P<split>\w+)\.tsv")


@dataclasses.dataclass(frozen=True)
class DateAccuracy:
  """Accuracy of the dates of a system, over events of hidden months."""

  # Whether the likeliest month is the true one.
  is_month_right: Bool[np.ndarray, " N"]
  is_within_1: Bool[np.ndarray, " N"]  # whether it is that or a neighbour of it
  # Whether its regnal year is the true one.
  is_year_right: Bool[np.ndarray, " N"]
  confidence: Float[np.ndarray, " N"]  # probability of the likeliest month
  # Mass of the months likelier than the true one.
  mass_before: Float[np.ndarray, " N"]

  def summarize(self) -> dict[str, float]:
    """Returns the share of right months, calibration error and coverage."""
    return {
      "month": float(self.is_month_right.mean()),
      "ece": expected_calibration_error(self.confidence, self.is_month_right),
      # A set of 90 % ends with the month that reaches it.
      "coverage@90": float((self.mass_before < _SET_MASS).mean()),
    }


def find_split_rows(benchmark: Benchmark, split: str) -> Int[np.ndarray, " N"]:
  """Returns the indices of the records whose months belong to a split."""
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
    log_p: log p(month | record) over the timeline.
  """
  lines = ["\t".join(_HEADER)]
  for row, of_row in zip(rows, log_p, strict=True):
    record = benchmark.records[row]
    key = benchmark.timeline.key_at(int(of_row.argmax()))
    order = np.argsort(-of_row, kind="stable")
    rank = np.flatnonzero(order == benchmark.timeline.ordinal(record.key))[0]
    mass = np.exp(of_row[order[:rank]]).sum()
    chance = np.exp(of_row.max())
    lines.append(f"{record.record_id}\t{key}\t{chance:.6f}\t{mass:.6f}")
  files.write_text(
    files.as_path(folder) / f"dates.{system}.{split}.tsv",
    "\n".join(lines) + "\n",
  )


def evaluate_date_files(
  folders: Sequence[files.AnyPath], benchmark: Benchmark, split: str
) -> dict[str, DateAccuracy]:
  """Returns system -> accuracy of its dates, for systems that have a file.

  Args:
    folders: folders of the files; if a system has two files, the first
      counts.

  Raises:
    ValueError: if a line cannot be read; the message names file and line.
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
      name, month, probability, mass = line.split("\t")
      record = records[name]
      predicted_ordinal = timeline.ordinal(TimeKey.parse(month))
      confidence, mass_before = float(probability), float(mass)
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
        (
          *(month_error == 0, month_error <= 1, is_year_right),
          *(confidence, mass_before),
        )
      )
  if not rows:
    raise ValueError(f"{path}: no date of an event")
  return DateAccuracy(*map(np.array, zip(*rows, strict=True)))


# ----------------------------------------------------------------------------
# Error analysis: reasons why a first record is wrong, and examples.
#
# A share of misses does not say what to mend. A system that takes the wrong
# year lacks other knowledge than one that answers with commentary.


NOTHING_FOUND = "nothing found"
COMMENTARY_RIGHT_MONTH = "commentary, right month"
COMMENTARY_OTHER_MONTH = "commentary, other month"
PLACEHOLDER = "placeholder"
WRONG_MONTH = "wrong month"
WRONG_YEAR = "wrong year"
WRONG_REIGN = "wrong reign"
NO_ANSWER = "right month, no answer"
# In the order of the columns of a table.
ERROR_REASONS = (
  PLACEHOLDER,
  WRONG_MONTH,
  WRONG_YEAR,
  WRONG_REIGN,
  COMMENTARY_RIGHT_MONTH,
  COMMENTARY_OTHER_MONTH,
  NO_ANSWER,
  NOTHING_FOUND,
)
MAX_SHOWN_RECORDS = 5  # of the ranking of an example
MAX_SHOWN_ANSWERS = 3  # of the positives of an example; a window has dozens


@dataclasses.dataclass(frozen=True)
class JudgedRecord:
  """One record of a ranking."""

  record: Record  # of the gallery
  verdict: str  # "right" or one of `ERROR_REASONS`


@dataclasses.dataclass(frozen=True)
class Miss:
  """A query whose first record is wrong."""

  query: Query  # of the run's split
  reason: str  # why the first record is wrong, one of `ERROR_REASONS`
  top_records: tuple[JudgedRecord, ...]  # the first `MAX_SHOWN_RECORDS` records
  # Rank of the first positive, from 1; None if the run has none.
  rank: int | None
  # The first `MAX_SHOWN_ANSWERS` positives of the gallery.
  answers: tuple[Record, ...]
  num_answers: int  # positives in the gallery


def classify_error(record: Record, query: Query, timeline: Timeline) -> str:
  """Returns why a record that is not a positive of a query is wrong.

  The reason of an event is the coarsest unit that differs: `WRONG_MONTH` if the
  query asks for another month of its year, `WRONG_YEAR` if for another year of
  its reign, else `WRONG_REIGN`.
  """
  start, end = timeline.interval_ordinals(query.interval)
  is_inside = start <= timeline.ordinal(record.key) <= end
  if record.kind == NEG_COMMENT:
    return COMMENTARY_RIGHT_MONTH if is_inside else COMMENTARY_OTHER_MONTH
  if record.kind == NO_EVENT:
    return PLACEHOLDER
  if is_inside:
    return NO_ANSWER
  query_months = timeline.months[start : end + 1]
  if record.key.triple[:2] in {key.triple[:2] for key in query_months}:
    return WRONG_MONTH
  return (
    WRONG_YEAR
    if record.key.reign in {key.reign for key in query_months}
    else WRONG_REIGN
  )


def find_misses(
  run: runs.Run,
  queries: Sequence[Query],
  qrels: Mapping[str, Sequence[str]],
  records: Mapping[str, Record],
  timeline: Timeline,
) -> list[Miss]:
  """Returns the queries whose first record is wrong, in their order.

  Args:
    run: over the gallery of `qrels`.
    qrels: query id -> positives, see `protocol.build_qrels`.
  """
  misses = []
  for query in queries:
    if query.query_id not in qrels:
      continue  # the mode drops it
    positives = set(qrels[query.query_id])
    ranking = [name for name, _ in run.rankings.get(query.query_id, [])]
    if ranking and ranking[0] in positives:
      continue
    top_records = tuple(
      JudgedRecord(
        records[name],
        "right"
        if name in positives
        else classify_error(records[name], query, timeline),
      )
      for name in ranking[:MAX_SHOWN_RECORDS]
    )
    positive_ranks = (
      rank for rank, name in enumerate(ranking, 1) if name in positives
    )
    answers = tuple(
      records[record_id]
      for record_id in qrels[query.query_id][:MAX_SHOWN_ANSWERS]
    )
    misses.append(
      Miss(
        query,
        top_records[0].verdict if top_records else NOTHING_FOUND,
        top_records,
        next(positive_ranks, None),
        answers,
        len(positives),
      )
    )
  return misses


def count_reasons(misses: Sequence[Miss]) -> dict[str, int]:
  """Returns reason -> number of misses in the order of `ERROR_REASONS`.

  Reasons without a miss are left out.
  """
  count_by_reason = collections.Counter(miss.reason for miss in misses)
  return {
    reason: count_by_reason[reason]
    for reason in ERROR_REASONS
    if count_by_reason[reason]
  }


def select_examples(
  misses: Sequence[Miss], max_per_reason: int = 2
) -> list[Miss]:
  """Returns misses of every reason, evenly spread over the queries."""
  selected = []
  for reason in count_reasons(misses):
    misses_of_reason = [miss for miss in misses if miss.reason == reason]
    # From the middle of each stretch, so that neither end is favoured.
    step = max(1, len(misses_of_reason) // max_per_reason)
    selected += misses_of_reason[step // 2 :: step][:max_per_reason]
  return selected
