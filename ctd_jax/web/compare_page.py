"""The page that puts two or three works side by side and marks differences.

Rows are the events of `month_page`. A character is marked if the other works
of its row do not have it in the same place.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Sequence
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.chronology import glyphs
from ctd_jax.index import database, record_answers
from ctd_jax.utils import deadlines
from ctd_jax.web import corrections, month_page, queries, rendering
from ctd_jax.web.month_page import MonthRecord
from ctd_jax.web.requests import endpoint, settings_of
from ctd_jax.web.served_index import ServedIndex

_MAX_WORKS = 3
_MAX_MONTHS = 13  # on a page
_MAX_SHOWN = 400  # characters of a record
_MAX_COMPARED = 4_000  # of the records of a work that tell an event
# Single characters that two texts share count if they are much alike.
_ALIKE = 0.5
router = APIRouter(include_in_schema=False)

Part = tuple[str, bool]  # text, and whether it differs


@dataclasses.dataclass(frozen=True)
class ComparedRecord:
  """A record, in parts that the other works have or have not."""

  record: MonthRecord
  parts: tuple[Part, ...]
  num_cut: int  # characters that are not shown


@dataclasses.dataclass(frozen=True)
class ComparedMonth:
  """The events of a month as the chosen works tell them."""

  ordinal: int
  name: str
  common_era: str
  rows: list[list[list[ComparedRecord]]]  # by event and work


def mark_differences(texts: Sequence[str]) -> list[list[bool]]:
  """Returns which characters of each text the others do not have.

  Script, variants of punctuation and blanks make no difference. Texts are
  compared with the first that is not empty; that with all others.
  """
  differs = [[False] * len(text) for text in texts]
  places = [number for number, text in enumerate(texts) if text]
  if len(places) < 2:
    return differs
  first, *others = places
  base, base_at = _fold(texts[first])
  for number in others:
    other, other_at = _fold(texts[number])
    matcher = difflib.SequenceMatcher(None, base, other, autojunk=False)
    least = 1 if matcher.ratio() >= _ALIKE else 2
    is_base, is_other = set(), set()
    for start, other_start, size in matcher.get_matching_blocks():
      if size >= least:
        is_base.update(range(start, start + size))
        is_other.update(range(other_start, other_start + size))
    for place, position in enumerate(base_at):
      differs[first][position] |= place not in is_base
    for place, position in enumerate(other_at):
      differs[number][position] = place not in is_other
  return differs


def _fold(text: str) -> tuple[str, list[int]]:
  """Returns the letters of a text in one script, and where they stand."""
  folded = glyphs.fold_text(text)
  positions = [at for at, letter in enumerate(folded) if letter.isalnum()]
  return "".join(folded[at] for at in positions), positions


def compare_row(
  cells: Sequence[Sequence[MonthRecord]],
) -> list[list[ComparedRecord]]:
  """Returns the records of an event by work, with their differences marked."""
  deadlines.check()
  # What is not shown is compared too: a text that has the words further on
  # does not lack them.
  marks = mark_differences(
    ["".join(it.text for it in cell)[:_MAX_COMPARED] for cell in cells]
  )
  row = []
  for cell, differs in zip(cells, marks, strict=True):
    compared, start = [], 0
    for record in cell:
      text = record.text[:_MAX_SHOWN]
      is_marked = differs[start : start + len(text)]
      is_marked += [False] * (len(text) - len(is_marked))
      num_cut = len(record.text) - len(text)
      parts = tuple(_split(text, is_marked))
      compared.append(ComparedRecord(record, parts, num_cut))
      start += len(record.text)
    row.append(compared)
  return row


def _split(text: str, differs: Sequence[bool]) -> list[Part]:
  edges = np.flatnonzero(np.diff(differs)) + 1
  bounds = [0, *edges.tolist(), len(text)]
  return [
    (text[start:end], differs[start])
    for start, end in itertools.pairwise(bounds)
    if end > start
  ]


def compare_month(
  served: ServedIndex, names: Sequence[str], ordinal: int
) -> ComparedMonth:
  """Returns the events of a month that any of the works has."""
  month = month_page.recall_month(served, ordinal)
  rows = []
  for event in month.events:
    cells = [[it for it in event if it.work == name] for name in names]
    if any(cells):
      rows.append(compare_row(cells))
  return ComparedMonth(ordinal, month.month["name"], month.common_era, rows)


def _choose_works(
  served: ServedIndex, names: Sequence[str]
) -> list[database.IndexedWork]:
  """Returns the works asked for; without any, the first that tell events."""
  order = served.index.work_order
  works = sorted(served.index.works, key=lambda work: order[work.work_id])
  by_name = {work.name: work for work in works}
  return [by_name[name] for name in names] or works[:2]


@router.get("/compare")
@router.get(rendering.SAVE_PREFIX + "/compare")
@endpoint
def show_comparison(request: Request, served: ServedIndex) -> Response:
  """Returns works side by side, over the first months of a time."""
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  queries.check_names(served, query.works, ())
  if len(query.works) > _MAX_WORKS:
    queries.refuse("work", f"{len(query.works)} ×", f"≤ {_MAX_WORKS}")
  works = _choose_works(served, query.works)
  first, last = _find_span(served, query, works)
  stop = min(first + _MAX_MONTHS, last + 1)
  names = [work.name for work in works]
  months = [compare_month(served, names, month) for month in range(first, stop)]
  shown = [month for month in months if month.rows]
  rows = [
    it.record.row
    for month in shown
    for row in month.rows
    for cell in row
    for it in cell
  ]
  asked = {"work": names, "from": f"@{first}", "to": f"@{last}"}
  address = urlencode(asked, doseq=True)
  sha256 = served.index.versions.index_sha256
  return rendering.render_page(
    request,
    served,
    "compare.html",
    permalink=f"/compare?{address}&index={sha256}",
    rows=rows,
    query=query,
    chosen=works,
    max_works=_MAX_WORKS,
    works=served.index.works,
    months=shown,
    marks=corrections.find_marks(served, rows),
    span=record_answers.make_span(
      served.index, first, last, served.index.printed_reigns
    ),
    common_era=record_answers.format_years(served.index, first, last),
    fields=[queries.format_month(served, month) for month in (first, last)],
    following=asked | {"from": f"@{stop}"} if stop <= last else None,
  )


def _find_span(
  served: ServedIndex,
  query: queries.PageQuery,
  works: Sequence[database.IndexedWork],
) -> tuple[int, int]:
  """Returns the months asked for; without any, the first year that all have."""
  end = len(served.index.calendar) - 1
  first = last = None
  if query.first:
    span = queries.resolve_time(served, "from", query.first)
    first, last = span.first, span.last
  if query.last:
    last = queries.resolve_time(served, "to", query.last).last
  if first is None:
    starts = [served.coverage.get(work.work_id, (0, 0))[0] for work in works]
    first = max(starts, default=0) if last is None else 0
  if last is None:
    last = min(first + _MAX_MONTHS - 1, end)
  return min(first, last), max(first, last)
