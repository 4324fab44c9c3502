"""Files of what a page shows: a search, month, year, record or passage.

The address is that of the page behind `/export`, with `format`. A search is
saved whole, not only its shown page.
"""

import dataclasses
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.index import answer_files, asking
from ctd_jax.index.answers import Answer
from ctd_jax.index.question_calendar import PASSAGE
from ctd_jax.web import (
  month_page,
  queries,
  record_page,
  rendering,
  search_page,
)
from ctd_jax.web.month_page import Month
from ctd_jax.web.rendering import EXPORT_FORMATS, EXPORT_PREFIX
from ctd_jax.web.requests import PageError, endpoint, settings_of
from ctd_jax.web.served_index import ServedIndex

router = APIRouter(include_in_schema=False, prefix=EXPORT_PREFIX)


@router.get("/")
@router.get("/date")
@endpoint
def export_answer(request: Request, served: ServedIndex) -> Response:
  """Returns all records of a search, or the parallels of a passage."""
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  if query.is_empty:
    raise PageError(422, "error.export_empty")
  if request.url.path == f"{EXPORT_PREFIX}/date":
    return _send(request, served, record_page.date_passage(served, query.text))
  resolved = queries.resolve_query(served, query)
  if resolved.question.intent == PASSAGE:
    return _send(request, served, record_page.date_passage(served, query.text))
  scope = dataclasses.replace(query.scope, k=answer_files.MAX_RECORDS, offset=0)
  answer = asking.find_records(served.index, resolved.question, scope)
  answer = search_page.rename_months(served, answer, resolved.question)
  return _send(request, served, answer)


@router.get("/month/{ordinal}")
@endpoint
def export_month(
  request: Request, served: ServedIndex, ordinal: int
) -> Response:
  """Returns the records of a month."""
  month_page.check_month(served, ordinal)
  month = month_page.recall_month(served, ordinal)
  return _send_months(request, served, month.month["name"], [month])


@router.get("/year/{ordinal}")
@endpoint
def export_year(
  request: Request, served: ServedIndex, ordinal: int
) -> Response:
  """Returns the records of the year that holds a month."""
  month_page.check_month(served, ordinal)
  name, months = month_page.read_year(served, ordinal)
  return _send_months(request, served, name, months)


@router.get("/record/{path:path}")
@endpoint
def export_record(request: Request, served: ServedIndex, path: str) -> Response:
  """Returns a record."""
  row = record_page.find_row(served, path)
  answer = asking.answer_rows(served.index, path.rpartition("/")[2], [row])
  return _send(request, served, answer)


def _send_months(
  request: Request, served: ServedIndex, name: str, months: list[Month]
) -> Response:
  """Returns the records of months by event; the doubtful ones have none."""
  rows: dict[int, int | None] = {}
  events = 0
  for month in months:
    for event in month.events:
      events += 1
      rows |= dict.fromkeys((record.row for record in event), events)
  for month in months:
    for record in month.doubtful:
      rows.setdefault(record.row, None)
  answer = asking.answer_rows(
    served.index,
    name,
    list(rows),
    list(rows.values()),
    len(rows) + sum(month.num_left for month in months),
  )
  return _send(request, served, answer)


def _send(request: Request, served: ServedIndex, answer: Answer) -> Response:
  suffix = f".{request.query_params.get('format', '')}"
  if suffix not in EXPORT_FORMATS:
    queries.refuse(
      "format", suffix[1:], ", ".join(it[1:] for it in EXPORT_FORMATS)
    )
  records = asking.list_records(served.index, answer)
  language = rendering.find_language(request)
  content = answer_files.write_answer(answer, suffix, records, language)
  name = answer_files.name_file(answer, suffix)
  return Response(
    content,
    media_type=answer_files.WRITERS[suffix].media_type,
    headers={
      "Content-Disposition": f'attachment; filename="ctd-answer{suffix}"; '
      f"filename*=UTF-8''{quote(name, safe='')}"
    },
  )
