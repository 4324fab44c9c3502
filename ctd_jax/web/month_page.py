"""Month and year: the records of all works side by side, and the calendar."""

from __future__ import annotations

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.index import calendars
from ctd_jax.index.answers import record_answers
from ctd_jax.web import month_records, rendering
from ctd_jax.web.answering import answer_in_time, index_of
from ctd_jax.web.corrections import correction_marks
from ctd_jax.web.errors import PageError
from ctd_jax.web.served_index import ServedIndex

router = APIRouter(include_in_schema=False)


@router.get("/month/{ordinal}")
@router.get(rendering.SAVE_PREFIX + "/month/{ordinal}")
async def show_month(request: Request, ordinal: int) -> Response:
  """Returns the page of a month."""
  return await answer_in_time(
    request, _make_month_page, request, index_of(request), ordinal
  )


@router.get("/year/{ordinal}")
@router.get(rendering.SAVE_PREFIX + "/year/{ordinal}")
async def show_year(request: Request, ordinal: int) -> Response:
  """Returns the page of the year that a month is of."""
  return await answer_in_time(
    request, _make_year_page, request, index_of(request), ordinal
  )


def check_month(served: ServedIndex, ordinal: int) -> None:
  """Raises PageError, 404, for a month that the calendar lacks."""
  last = len(served.index.calendar) - 1
  if not 0 <= ordinal <= last:
    raise PageError(
      404, "error.month", {"ordinal": str(ordinal)[:20], "last": last}
    )


def _make_month_page(
  request: Request, served: ServedIndex, ordinal: int
) -> Response:
  check_month(served, ordinal)
  month = served.read_month(ordinal)
  return rendering.render_page(
    request,
    served,
    "month.html",
    permalink=_make_permalink(served, f"/month/{ordinal}"),
    rows=month.rows,
    month=month,
    marks=correction_marks.find_marks(served, month.rows),
    neighbours=_name_neighbours(served, ordinal, ordinal),
    year=calendars.name_year(
      served.index.calendar, ordinal, served.index.printed_reigns
    ),
    titles=served.titles,
    day_number=month_records.name_day_number,
  )


def _make_year_page(
  request: Request, served: ServedIndex, ordinal: int
) -> Response:
  check_month(served, ordinal)
  first, last = find_year(served, ordinal)
  months = [served.read_month(month) for month in range(first, last + 1)]
  rows = [row for month in months for row in month.rows]
  return rendering.render_page(
    request,
    served,
    "year.html",
    permalink=_make_permalink(served, f"/year/{ordinal}"),
    rows=rows,
    months=months,
    marks=correction_marks.find_marks(served, rows),
    neighbours=_name_neighbours(served, first, last),
    name=calendars.name_year(
      served.index.calendar, first, served.index.printed_reigns
    ),
    common_era=record_answers.format_years(served.index, first, last),
    first=first,
    last=last,
  )


def find_year(served: ServedIndex, ordinal: int) -> tuple[int, int]:
  """Returns first and last month of the year that a month is of.

  Args:
    served: the index.
    ordinal: of the month.
  """
  months = np.flatnonzero(served.years == served.years[ordinal])
  return int(months[0]), int(months[-1])


def _make_permalink(served: ServedIndex, path: str) -> str:
  return f"{path}?index={served.index.versions.index_sha256}"


def _name_neighbours(
  served: ServedIndex, first: int, last: int
) -> dict[str, tuple[int, str]]:
  """Returns the months before and after, as (ordinal, name)."""
  calendar = served.index.calendar
  reigns = served.index.printed_reigns
  return {
    name: (month, calendars.name_month(calendar, month, reigns))
    for name, month in (("previous", first - 1), ("next", last + 1))
    if 0 <= month < len(calendar)
  }
