"""Sentences of an index, dated as passages: with their records and without.

Sentences are cut from records that are sure of their year, as many from each
year as from another. Each is dated by the index as it is, and again with its
record taken out. Prints how often the record is shown first, how often the
year is right, and how often a month is named and right.

  python -m tests.benchmarks.index_passages --index=INDEX [--rows=FILE]
    [--name=TEXTS] [--number=400] [--seed=1] [--misses=10]
"""

import re
import time
from typing import NamedTuple

import numpy as np

from ctd_jax.benchmark.benchmark import NEG_COMMENT, NO_EVENT
from ctd_jax.dating import corpus
from ctd_jax.evaluation import results, significance
from ctd_jax.index import database, date_levels, passage_answers
from ctd_jax.index.answers import PassageDate
from ctd_jax.index.asking import Index
from tests.benchmarks import result_rows

_SURE = 0.9  # of the year, or the month, that counts as the truth
_ENDS = re.compile(r"[。！？；\n]")
_MIN_LENGTH, _MAX_LENGTH = 8, 40  # Han characters of a sentence


class Sentence(NamedTuple):
  """A sentence of a record whose year is known."""

  row: int
  text: str
  year: int  # astronomical
  month: int | None  # ordinal, if that is known too


def find_truth(index: Index, row: int) -> tuple[int, int | None] | None:
  """Returns the year and month that a record is sure of; None without."""
  work = index.work_of(row)
  p_months = index.posteriors_of(work).arrays.p_months(row - work.first_row)
  month = int(p_months.argmax())
  year = int(index.calendar.years[month])
  if p_months[index.calendar.years == year].sum() < _SURE:
    return None
  return year, month if p_months[month] >= _SURE else None


def draw_sentences(index: Index, number: int, seed: int) -> list[Sentence]:
  """Returns sentences, their years drawn evenly."""
  draw = np.random.default_rng(seed)
  by_year: dict[int, list[tuple[int, int | None]]] = {}
  rows = index.connection.execute(
    "SELECT row FROM records WHERE kind NOT IN (?, ?, ?) ORDER BY row",
    (database.HEADING, NEG_COMMENT, NO_EVENT),
  )
  for (row,) in rows.fetchall():
    if (truth := find_truth(index, row)) is not None:
      by_year.setdefault(truth[0], []).append((row, truth[1]))
  years, found = sorted(by_year), {}
  while len(found) < number:
    year = years[int(draw.integers(len(years)))]
    row, month = by_year[year][int(draw.integers(len(by_year[year])))]
    (record,) = database.fetch_records(index.connection, [row])
    sentences = [
      text
      for text in _ENDS.split(record.text)
      if len(corpus.plain_text(text)) >= _MIN_LENGTH
    ]
    if sentences:
      text = sentences[int(draw.integers(len(sentences)))]
      # Texts without punctuation are cut anywhere.
      start = int(draw.integers(max(len(text) - _MAX_LENGTH, 0) + 1))
      text = text[start : start + _MAX_LENGTH]
      found.setdefault((row, text), Sentence(row, text, year, month))
  return [*found.values()]


def judge(sentence: Sentence, date: PassageDate) -> dict[str, float]:
  """Returns metric -> whether the date of a sentence is right."""
  # Several records may have the words; all of them are shown together.
  shown = [it.row for it in date.parallels if it.is_exact]
  shown += [it.row for it in date.parallels[:1]]
  judged = {
    "first": sentence.row in shown,
    "year": date.years[0].ce_year == sentence.year,
    "month_named": date.sure.level == date_levels.MONTH,
  }
  if date.sure.level == date_levels.MONTH and sentence.month is not None:
    judged["month_right"] = date.sure.first == sentence.month
  return {name: float(value) for name, value in judged.items()}


def main() -> None:
  """Reads the flags, measures and prints."""
  parser = result_rows.make_index_parser(__doc__)
  parser.add_argument("--number", type=int, default=400, help="sentences")
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--misses", type=int, default=0, help="shown")
  flags = parser.parse_args()
  start = time.monotonic()
  index = Index.open(flags.index)
  sentences = draw_sentences(index, flags.number, flags.seed)
  figures, misses = [], []
  for mode in ("in_index", "left_out"):
    values: dict[str, dict[str, float]] = {}
    for number, sentence in enumerate(sentences):
      excluded = [sentence.row] if mode == "left_out" else []
      dates = index.passage_dater.date(sentence.text, exclude=excluded)
      date = passage_answers.make_passage_date(index, dates)
      judged = judge(sentence, date)
      if mode == "left_out":
        del judged["first"]
      for metric, value in judged.items():
        values.setdefault(metric, {})[str(number)] = value
      if not min(judged.get("first", 1), judged["year"]):
        misses.append((mode, *sentence, date))
    figures += [(mode, metric, scores) for metric, scores in values.items()]
  about = result_rows.describe_run("index_passages", time.monotonic() - start)
  system = result_rows.name_system(index.num_records)
  rows = [
    results.ResultRow(
      *(f"passages/{flags.name}", system, "T0", "posterior", "all"),
      *(mode, "all", metric, float(np.mean([*scores.values()]))),
      *significance.compute_bootstrap_interval(scores),
      **about,
    )
    for mode, metric, scores in figures
  ]
  for mode, row, text, year, month, date in misses[: flags.misses]:
    print(mode, row, text, year, month, date.years[:2], date.months[:1])
  result_rows.print_rows(rows)
  result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
