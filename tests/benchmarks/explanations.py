"""Explanations held against what they explain: evidence is taken away.

Undated events of an index are dated as passages, their own record left out. Of
each the weightiest evidence for its month that can be taken away is: a printed
date is cut from the text, citations and parallels are left out of the corpus.
The passage is dated again, and the probability of the month is compared with
what the explanation says that it would be (`probability_without`). Printed are
also how far the weights are from adding up to the log odds.

  python -m ctd_jax.index --index=INDEX --add=chunqiutr/rebuilt \
    --hide=validation,test
  python -m tests.benchmarks.explanations --index=INDEX [--data_dir=DIR]
    [--name=chunqiutr/rebuilt] [--split=validation] [--number=200] [--seed=1]
    [--show=5] [--rows=FILE]
"""

import argparse
import collections
import dataclasses
import pathlib
import shlex
import sys
import time

import numpy as np

from ctd_jax.benchmark.benchmark import EVENT
from ctd_jax.dating.passages.passages import (
  PassageDater,
  PassageDates,
  PassageReason,
)
from ctd_jax.evaluation import results
from ctd_jax.index import database
from ctd_jax.index.asking import Index
from ctd_jax.systems import dated_gallery
from ctd_jax.utils import files
from ctd_jax_datasets import load

PRINTED = ("openings", "days")
LINKED = ("cited", "parallels", "known")
# Names of what is taken away, by expert, and of all of it.
NAMES = {
  **dict.fromkeys(PRINTED, "without-printed-date"),
  "cited": "without-citations",
  **dict.fromkeys(("parallels", "known"), "without-parallels"),
}
ANY = "without-strongest"
MIN_WEIGHT = 0.1  # of evidence that is worth taking away, in nats


@dataclasses.dataclass(frozen=True)
class Removal:
  """One piece of evidence, taken away.

  Attributes:
    record: that was explained.
    reason: the evidence.
    is_weightiest: whether no other evidence for the month weighs more.
    before: log odds of the month with all evidence.
    said: without it, as the explanation says.
    after: without it, dated again.
    sum_error: of the weights against the log odds.
  """

  record: database.IndexRecord
  reason: PassageReason
  is_weightiest: bool
  before: float
  said: float
  after: float
  sum_error: float


def to_log_odds(probability: float) -> float:
  """Returns log odds, of what is certain finite ones."""
  probability = min(max(probability, 1e-9), 1 - 1e-9)
  return float(np.log(probability) - np.log1p(-probability))


def date_without(
  dater: PassageDater, text: str, row: int, reason: PassageReason, month: int
) -> PassageDates:
  """Returns the dates of a text without one piece of evidence."""
  if reason.expert in LINKED:
    return dater.date(
      text, month=month, exclude=[row, *reason.linked], with_reasons=False
    )
  is_kept = np.ones(len(text), bool)
  for start, end in reason.spans:
    is_kept[start:end] = False
  kept = "".join(
    character for character, is_one in zip(text, is_kept, strict=True) if is_one
  )
  return dater.date(
    kept.lstrip("，。、 "), month=month, exclude=[row], with_reasons=False
  )


def remove_strongest(
  dater: PassageDater, record: database.IndexRecord
) -> Removal | None:
  """Returns what taking the strongest evidence of a record away does.

  None if nothing speaks for its month that can be taken away.
  """
  dates = dater.date(record.text, exclude=[record.row])
  total = sum(reason.weight for reason in dates.reasons)
  for number, reason in enumerate(
    sorted(dates.reasons, key=lambda reason: -reason.weight)
  ):
    is_removable = (reason.expert in PRINTED and reason.spans) or (
      reason.expert in LINKED and reason.linked
    )
    if reason.weight < MIN_WEIGHT:
      return None
    if is_removable and dates.month < len(dates.log_p) - 1:
      after = date_without(dater, record.text, record.row, reason, dates.month)
      return Removal(
        record=record,
        reason=reason,
        is_weightiest=number == 0,
        before=dates.log_odds,
        said=to_log_odds(reason.probability_without),
        after=after.log_odds,
        sum_error=abs(dates.prior_log_odds + total - dates.log_odds),
      )
  return None


def measure(removals: list[Removal]) -> dict[str, float]:
  """Returns how well explanations agree with what happened."""
  odds = np.array([[each.before, each.said, each.after] for each in removals])
  before, said, after = (1 / (1 + np.exp(-odds))).T
  is_said_to_fall = odds[:, 1] < odds[:, 0] - 0.05
  return {
    "passages": len(removals),
    "p": before.mean(),
    "p_said": said.mean(),
    "p_again": after.mean(),
    "falls": (after < before)[is_said_to_fall].mean(),
    "within_.1": (np.abs(said - after) < 0.1).mean(),
    "median": np.median(np.abs(said - after)),
  }


def draw_removals(index: Index, rows: list[int], number: int, seed: int):
  """Returns removals of so many records, and of how many there is none."""
  draw = np.random.default_rng(seed)
  removals: list[Removal] = []
  num_bare = 0
  for row in draw.permutation(rows).tolist():
    if len(removals) == number:
      break
    record = database.fetch_records(index.connection, [row])[0]
    removal = remove_strongest(index.passage_dater, record)
    if removal is None:
      num_bare += 1
    else:
      removals.append(removal)
  return removals, num_bare


def find_rows(index: Index, benchmark, split: str) -> list[int]:
  """Returns the rows of the hidden events of a split."""
  ids = {
    record.record_id
    for record, of_split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
    if of_split == split and record.kind == EVENT
  }
  return [
    row
    for row, record_id in index.connection.execute(
      "SELECT row, record_id FROM records WHERE start_month IS NULL "
      "ORDER BY row"
    )
    if record_id in ids
  ]


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--index", required=True)
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir")
  parser.add_argument("--split", default="validation")
  parser.add_argument("--number", type=int, default=200)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--show", type=int, default=0, help="the worst, in full")
  parser.add_argument("--rows", type=pathlib.Path, help="file for result rows")
  return parser.parse_args()


def make_rows(
  benchmark, flags: argparse.Namespace, name: str, figures, seconds: float
) -> list[results.ResultRow]:
  """Returns the result rows of one kind of evidence."""
  return [
    results.ResultRow(
      f"explanations/{benchmark.name}",
      name,
      dated_gallery.TRACK,
      dated_gallery.SCORE_MODE,
      flags.split,
      "loose_passages",
      "all",
      metric,
      float(value),
      seeds=(flags.seed,),
      command=shlex.join(
        ["python", "-m", "tests.benchmarks.explanations", *sys.argv[1:]]
      ),
      commit=files.code_commit(),
      seconds=round(seconds, 1),
    )
    for metric, value in figures.items()
  ]


def main() -> None:
  """Draws records, explains them, takes evidence away and prints."""
  flags = read_flags()
  started = time.monotonic()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  index = Index.open(flags.index)
  removals, num_bare = draw_removals(
    index, find_rows(index, benchmark, flags.split), flags.number, flags.seed
  )
  print(
    f"{len(removals)} records; {num_bare} more have no evidence for their "
    f"month that can be taken away; of "
    f"{sum(each.is_weightiest for each in removals)} it is the weightiest of "
    f"all; weights add up to the log odds within "
    f"{max(each.sum_error for each in removals):.1e}"
  )
  groups = collections.defaultdict(list)
  for each in removals:
    groups[NAMES[each.reason.expert]].append(each)
  rows = []
  for name, group in (*sorted(groups.items()), (ANY, removals)):
    figures = measure(group)
    print(
      name, " ".join(f"{key} {value:.3f}" for key, value in figures.items())
    )
    seconds = time.monotonic() - started
    rows += make_rows(benchmark, flags, name, figures, seconds)
  if flags.rows:
    results.write_result_rows(flags.rows, rows)
  for each in sorted(removals, key=lambda each: -abs(each.after - each.said))[
    : flags.show
  ]:
    print(
      f"\n{each.record.row} {each.record.text}\n  {each.reason.expert} "
      f"{each.reason.weight:+.2f} {each.reason.note[:120]}\n  log odds "
      f"{each.before:.2f}, said {each.said:.2f}, dated again {each.after:.2f}"
    )


if __name__ == "__main__":
  main()
