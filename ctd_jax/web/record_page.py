"""Pages of a record and of a passage: text, date, reasons and neighbours.

Axes: K months.
"""

import dataclasses

import numpy as np
from fastapi import APIRouter
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ctd_jax.dating.chronicle import section_reading, western
from ctd_jax.index import (
  asking,
  calendars,
  charts,
  database,
  record_answers,
)
from ctd_jax.index.answers import Answer, AnswerRecord, split_copies
from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.index.question_calendar import PASSAGE
from ctd_jax.texts.works import Entry, Place
from ctd_jax.utils import notes
from ctd_jax.web import corrections, queries, rendering, served_index
from ctd_jax.web.corrections import CorrectionFields
from ctd_jax.web.queries import PageQuery
from ctd_jax.web.requests import (
  PageError,
  answer_in_time,
  endpoint,
  index_of,
  settings_of,
)
from ctd_jax.web.served_index import ServedIndex

router = APIRouter(include_in_schema=False)

_MAX_NEIGHBOURS = 3  # on either side
_MAX_BARS = 120
_MIN_SHOWN = 1e-3  # probability of a month that the figure has to show
_MARGIN = 2  # months shown beyond these

_MAX_LINK = 2000  # characters of a passage that an address may have


@router.get("/record/{row:int}")
@router.get(rendering.SAVE_PREFIX + "/record/{row:int}")
@endpoint
def find_record(request: Request, served: ServedIndex, row: int) -> Response:
  """Redirects from a row to the record's permanent address."""
  check_row(served, row)
  names = served_index.name_records(served.index, [row])[row]
  prefix = ""
  if rendering.PageLinks(request).is_saved:
    prefix = rendering.SAVE_PREFIX
  query = f"?{request.url.query}" if request.url.query else ""
  path = served_index.make_record_path(*names)
  return RedirectResponse(f"{prefix}{path}{query}", 307)


@router.get("/record/{path:path}")
@router.get(rendering.SAVE_PREFIX + "/record/{path:path}")
@endpoint
def show_record(request: Request, served: ServedIndex, path: str) -> Response:
  """Returns the page of a record."""
  row = find_row(served, path)
  record = read_record(served, row)
  links = rendering.PageLinks(request, served)
  neighbours = _find_neighbours(served, row)
  linked = sorted({row for it in record.reasons for row in it["linked"]})
  return rendering.render_page(
    request,
    served,
    "record.html",
    permalink=served.pin_path(
      served_index.make_record_path(record.work, record.record_id)
    ),
    can_export=True,
    record=record,
    citation=record_answers.cite_record(
      served.index,
      *database.fetch_records(served.index.connection, [row]),
      record.date.sure,
    ),
    cues=find_cues(served, record),
    chart=draw_posterior(served, row, links, rendering.find_language(request)),
    neighbours=neighbours,
    marks=corrections.find_marks(served, [it["row"] for it in neighbours]),
    linked={
      other.row: describe_record(served, other)
      for other in database.fetch_records(served.index.connection, linked)
    },
    num_months=len(served.index.calendar),
    corrections=corrections.list_corrections(
      served, record.work, record.record_id
    ),
    following=corrections.list_following(served, row),
    fields=CorrectionFields(
      work=record.work, first=record.record_id, last=record.record_id
    ),
  )


def find_row(served: ServedIndex, path: str) -> int:
  """Returns the row of a record, given its work and id as in the address."""
  row = served_index.find_row_of_path(served.index, path)
  if row is None:
    raise PageError(404, "error.record_path", {"path": path[:80]})
  return row


def read_record(served: ServedIndex, row: int) -> AnswerRecord:
  """Returns a record with the reasons for its date."""
  check_row(served, row)
  return served.index.record(row)


def check_row(served: ServedIndex, row: int) -> None:
  """Raises a 404 PageError if the index has no such row."""
  try:
    served.index.work_of(row)
  except IndexError as error:
    total = served.index.num_records
    raise PageError(
      404, "error.record", {"row": str(row)[:20], "total": total}
    ) from error


def describe_record(
  served: ServedIndex, record: database.IndexRecord
) -> dict[str, object]:
  """Returns the values for a one-line summary of a record."""
  work = served.index.work_of(record.row)
  return {
    "row": record.row,
    "work": work.title or work.name,
    "text": record.text,
    "kind": record.kind,
    "month": calendars.name_month(
      served.index.calendar, record.best_month, work.printed_reigns
    ),
    "ordinal": record.best_month,
    "common_era": record_answers.format_years(
      served.index, record.best_month, record.best_month
    ),
    "probability": record.best_probability,
  }


def find_cues(
  served: ServedIndex, record: AnswerRecord
) -> list[tuple[int, int]]:
  """Returns (start, end) of the dates printed in a record."""
  spans = [(start, end) for it in record.reasons for start, end in it["spans"]]
  calendar = served.index.calendar
  if western.is_western(calendar):
    entry = Entry(record.text, Place("", 1))
    sections = western.read_all_western_sections([entry])
  else:
    sections = section_reading.read_sections(0, record.text, calendar)
  for section in sections:
    if section.statements:
      printed = record.text[section.start : section.date_end]
      spans.append(
        (section.start, section.start + len(printed.rstrip("，。、；： 　")))
      )
  return [(start, end) for start, end in spans if end > start]


def draw_posterior(
  served: ServedIndex, row: int, links: rendering.PageLinks, language: str
) -> Markup:
  """Returns the probability of each month of a record as SVG.

  The months of the 90 % set stand out. Long spans share bars.
  """
  index = served.index
  work = index.work_of(row)
  arrays = index.posteriors_of(work).arrays
  position = row - work.first_row
  chances = arrays.p_months(position)
  credible = set(arrays.credible_months(position).tolist())
  shown = np.flatnonzero(chances >= _MIN_SHOWN)
  if not len(shown):
    shown = np.array([0, len(chances) - 1])
  first = max(int(shown[0]) - _MARGIN, 0)
  last = min(int(shown[-1]) + _MARGIN, len(chances) - 1)
  step = -(-(last - first + 1) // _MAX_BARS)
  bars = []
  for start in range(first, last + 1, step):
    end = min(start + step, last + 1) - 1
    span = record_answers.make_span(index, start, end, work.printed_reigns)
    chance = float(chances[start : end + 1].sum())
    years = record_answers.format_years(index, start, end)
    percent = rendering.format_percent(chance)
    bars.append(
      charts.ChartBar(
        title=f"{span.name} ({years}): {percent}",
        label=span.name.partition(" – ")[0] if step == 1 else years,
        above=chance,
        href=links(f"/month/{start}") if step == 1 else "",
        css_class="credible"
        if credible.intersection(range(start, end + 1))
        else "",
      )
    )
  return charts.draw_bars(
    bars,
    rendering.translate(language, "record.date"),
    height=110,
    write=rendering.format_percent,
  )


def _find_neighbours(served: ServedIndex, row: int) -> list[dict[str, object]]:
  """Returns a record and those around it in its work."""
  rows = served.index.work_of(row).rows
  return [
    describe_record(served, record)
    for record in database.fetch_records(
      served.index.connection,
      range(
        max(row - _MAX_NEIGHBOURS, rows.start),
        min(row + _MAX_NEIGHBOURS + 1, rows.stop),
      ),
    )
  ]


@router.get("/date")
@router.get(rendering.SAVE_PREFIX + "/date")
async def show_passage(request: Request) -> Response:
  """Returns the page of a passage, or the form for entering one."""
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  return await answer_in_time(
    request, _make_passage_page, request, index_of(request), query
  )


@router.post("/date")
async def show_long_passage(request: Request) -> Response:
  """Returns the same; short passages are redirected to their address."""
  form = await request.form(max_files=0, max_fields=20)
  query = queries.parse_query(
    {name: value for name, value in form.items() if isinstance(value, str)},
    settings_of(request).max_question,
  )
  if len(query.text) <= _MAX_LINK:
    return RedirectResponse(f"/date?{query.encode()}", 303)
  return await answer_in_time(
    request, _make_passage_page, request, index_of(request), query
  )


def _make_passage_page(
  request: Request, served: ServedIndex, query: PageQuery
) -> Response:
  answer = date_passage(served, query.text) if query.text.strip() else None
  pinned = dataclasses.replace(
    query, index=served.index.versions.index_sha256, language="", intent=""
  )
  has_link = len(query.text) <= _MAX_LINK
  return rendering.render_page(
    request,
    served,
    "passage.html",
    permalink=f"/date?{pinned.encode()}" if has_link else "/date",
    can_export=answer is not None and has_link,
    has_link=has_link,
    query=query,
    answer=answer,
    split_copies=split_copies,
    chart=answer
    and charts.draw_years(
      answer.dates.curve,
      rendering.translate(rendering.find_language(request), "passage.figure"),
      rendering.format_percent,
    ),
    titles=served.titles,
    max_length=settings_of(request).max_question,
    can_date=served.index.manifest.passages is not None,
    refusal=_find_refusal(served),
  )


def date_passage(served: ServedIndex, text: str) -> Answer:
  """Returns the date of a passage.

  Raises:
    PageError: 422, if the index cannot date passages, or not this one.
  """
  if served.index.manifest.passages is None:
    raise PageError(422, _find_refusal(served))
  question = served.index.question_reader.read(text, PASSAGE)
  try:
    return asking.date_passage(served.index, question)
  except DamagedIndexError:  # names files of the server
    raise
  except ValueError as error:
    raise PageError(
      422, "error.passage", {"problem": notes.of_error(error)}
    ) from error


def _find_refusal(served: ServedIndex) -> str:
  """Returns the message that says why an index cannot date passages."""
  is_wanted = served.index.manifest.is_for_passages
  return "error.sure" if is_wanted else "error.passages"
