"""The page that converts dates between calendars."""

from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ctd_jax.chronology import date_readings
from ctd_jax.chronology.date_readings import DateReading
from ctd_jax.chronology.era_calendars import ALL_POLITIES
from ctd_jax.chronology.numerals import DateError
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note
from ctd_jax.web import queries, rendering
from ctd_jax.web.requests import endpoint, settings_of
from ctd_jax.web.served_index import ServedIndex

router = APIRouter(include_in_schema=False)
_MAX_DATES = 100
_MAX_READINGS = 40  # shown of one date


@router.get("/convert")
@router.get(rendering.SAVE_PREFIX + "/convert")
@endpoint
def show_conversion(request: Request, served: ServedIndex) -> Response:
  """Returns the page of dates and their readings."""
  query = queries.parse_query(
    request.query_params, settings_of(request).max_question
  )
  calendars = queries.parse_field(request.query_params, "calendars")
  problem, dates, left = None, [], 0
  try:
    reader = date_readings.load_reader(calendars or ALL_POLITIES)
  except ValueError as error:  # no such polity
    problem = notes.of_error(error)
  else:
    lines = list(filter(None, map(str.strip, query.text.splitlines())))
    dates = [_read(line, reader) for line in lines[:_MAX_DATES]]
    left = len(lines) - len(dates)
  address = {"q": query.text, "calendars": calendars}
  address["index"] = served.index.versions.index_sha256
  return rendering.render_page(
    request,
    served,
    "convert.html",
    permalink=f"/convert?{urlencode(address)}",
    query=query,
    calendars=calendars,
    problem=problem,
    dates=dates,
    limit=_MAX_DATES,
    left=left,
  )


def _read(
  text: str, reader: date_readings.DateReader
) -> tuple[str, list[DateReading], Note | str | None]:
  """Returns a date, its readings and, without any, the reason."""
  try:
    return text, reader.read(text)[:_MAX_READINGS], None
  except DateError as error:
    return text, [], error.problem
