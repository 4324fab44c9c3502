"""Explanations held against what they explain: evidence is taken away.

Undated events of an index are dated as passages, their own record left out.
From each, the strongest evidence for its month that can be removed is taken
away: a printed date is cut from the text, citations and parallels are left out
of the corpus.
The passage is dated again, and the probability of the month is compared with
what the explanation says that it would be (`probability_without`).

  python -m ctd_jax.index --index=INDEX --add=chunqiutr/rebuilt \
    --hide=validation,test
  python -m tests.benchmarks.explanations --index=INDEX [--data_dir=DIR]
    [--name=chunqiutr/rebuilt] [--split=validation] [--rows=FILE]
"""

import collections
import itertools
import time
from typing import NamedTuple

import numpy as np

from ctd_jax.benchmark import runs
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
from ctd_jax_datasets import load
from tests.benchmarks import result_rows

PRINTED = ("openings", "days")
LINKED = ("cited", "parallels", "known")
# Names of what is taken away, by expert, and of all of it.
NAMES = {
  **dict.fromkeys(PRINTED, "without-printed-date"),
  "cited": "without-citations",
  **dict.fromkeys(("parallels", "known"), "without-parallels"),
}
ANY = "without-strongest"
NUMBER = 200  # passages
SEED = 1  # of their choice
MIN_WEIGHT = 0.1  # of evidence that is worth taking away, in nats


class Removal(NamedTuple):
  """The strongest evidence of a record, taken away."""

  expert: str  # that gives the evidence
  before: float  # log odds of the month with all evidence
  said: float  # without it, as the explanation says
  after: float  # without it, dated again


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
  kept = "".join(itertools.compress(text, is_kept))
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
  for reason in sorted(dates.reasons, key=lambda reason: -reason.weight):
    is_removable = (reason.expert in PRINTED and reason.spans) or (
      reason.expert in LINKED and reason.linked
    )
    if reason.weight < MIN_WEIGHT:
      return None
    if is_removable and dates.month < len(dates.log_p) - 1:
      after = date_without(dater, record.text, record.row, reason, dates.month)
      said = to_log_odds(reason.probability_without)
      return Removal(reason.expert, dates.log_odds, said, after.log_odds)
  return None


def measure(removals: list[Removal]) -> dict[str, float]:
  """Returns how well explanations agree with what happened."""
  odds = np.array([each[1:] for each in removals])
  before, said, after = (1 / (1 + np.exp(-odds))).T
  is_said_to_fall = odds[:, 1] < odds[:, 0] - 0.05
  return {
    "p": before.mean(),
    "p_said": said.mean(),
    "p_again": after.mean(),
    "falls": (after < before)[is_said_to_fall].mean(),
    "within_.1": (np.abs(said - after) < 0.1).mean(),
    "median": np.median(np.abs(said - after)),
  }


def draw_removals(index: Index, rows: list[int]) -> list[Removal]:
  """Returns removals of some of the rows."""
  draw = np.random.default_rng(SEED)
  removals = (
    remove_strongest(
      index.passage_dater, database.fetch_records(index.connection, [row])[0]
    )
    for row in draw.permutation(rows).tolist()
  )
  return list(itertools.islice(filter(None, removals), NUMBER))


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


def main() -> None:
  """Draws records, explains them, takes evidence away and prints."""
  parser = result_rows.make_parser(__doc__)
  parser.add_argument("--index", required=True)
  flags = parser.parse_args()
  started = time.monotonic()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  index = Index.open(flags.index)
  removals = draw_removals(index, find_rows(index, benchmark, flags.split))
  groups = collections.defaultdict(list)
  for each in removals:
    groups[NAMES[each.expert]].append(each)
  rows = []
  about = result_rows.describe_run("explanations", time.monotonic() - started)
  track, score_mode = runs.TRAINED, dated_gallery.SCORE_MODE
  for name, group in (*sorted(groups.items()), (ANY, removals)):
    figures = measure(group)
    names = name, track, score_mode, flags.split, "loose_passages", "all"
    rows += [
      results.ResultRow(
        f"explanations/{benchmark.name}",
        *(*names, metric, float(value)),
        seeds=(SEED,),
        **about,
      )
      for metric, value in figures.items()
    ]
  result_rows.print_rows(rows)
  result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
