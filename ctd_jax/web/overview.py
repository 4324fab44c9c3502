"""What an index holds, and examples of what can be asked of it."""

from __future__ import annotations

import dataclasses

import numpy as np

from ctd_jax.index import calendars, database, record_answers
from ctd_jax.index.answers import Span
from ctd_jax.web.served_index import ServedIndex

# Words of chronicles, as examples if an index has them.
_WORDS = ("日有食之", "日食", "大水", "地震", "有星孛", "薨", "立皇后", "圍")
_PASSAGE = 8, 40  # characters of a passage, least and most


@dataclasses.dataclass(frozen=True)
class WorkOverview:
  """A work and the time that it covers."""

  work: database.IndexedWork
  span: Span | None  # None without dated records
  common_era: str  # years of the span


@dataclasses.dataclass(frozen=True)
class Overview:
  """Works of an index, their time, and examples of questions."""

  works: list[WorkOverview]
  common_era: str  # years of all works
  times: tuple[str, ...]  # a month and a year with records
  words: str  # that some record has; "" if none is known
  year: str  # of a record with the words
  passage: str  # of a record; "" without a short one


def describe_index(served: ServedIndex, _: str) -> Overview:
  """Returns what an index holds, with examples that find something."""
  index, works = served.index, []
  for work in index.works:
    span, years = None, ""
    if work.work_id in served.coverage:
      first, last = served.coverage[work.work_id]
      span = record_answers.make_span(index, first, last, work.printed_reigns)
      years = record_answers.format_years(index, first, last)
    works.append(WorkOverview(work, span, years))
  ends = served.coverage.values()
  common_era, times = "", ()
  if ends:
    first, last = min(it for it, _ in ends), max(it for _, it in ends)
    common_era = record_answers.format_years(index, first, last)
    month = int(np.argmax(served.find_density((), ())))
    times = (
      calendars.name_month(index.calendar, month, index.printed_reigns),
      record_answers.format_years(index, month, month),
    )
  return Overview(works, common_era, times, *_find_texts(served))


def _find_texts(served: ServedIndex) -> tuple[str, str, str]:
  """Returns words, a year that has them, and a passage, of the index."""
  connection = served.index.connection
  words = year = ""
  for words_tried in _WORDS:
    if hits := database.search_text(connection, [words_tried], 1):
      (record,) = database.fetch_records(connection, [hits[0].row])
      words, month = words_tried, record.best_month
      year = record_answers.format_years(served.index, month, month)
      break
  found = connection.execute(
    "SELECT text FROM records WHERE length(text) BETWEEN ? AND ? "
    "AND kind IN ('event', 'text') ORDER BY best_probability DESC, row LIMIT 1",
    _PASSAGE,
  ).fetchone()
  return words, year, found[0] if found else ""
