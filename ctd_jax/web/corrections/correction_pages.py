"""Correction: its form, what a date is read as, saving, undoing."""

from __future__ import annotations

import dataclasses
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ctd_jax.index.storage import database
from ctd_jax.web import (
  forms,
  record_addresses,
  rendering,
)
from ctd_jax.web.answering import answer_in_time, index_of, settings_of
from ctd_jax.web.corrections import correction_changes, correction_views
from ctd_jax.web.corrections.correction_views import CorrectionFields
from ctd_jax.web.errors import PageError
from ctd_jax.web.record_page import describe_record
from ctd_jax.web.served_index import ServedIndex

_MAX_SHOWN = 12  # records of a correction

router = APIRouter(include_in_schema=False)


@router.get("/correct")
async def show_form(request: Request) -> Response:
  """Returns the page that corrects a date, before it is saved.

  Its script asks for `part=reading`, what a date is read as.
  """
  fields = correction_changes.parse_fields(request.query_params)
  fields = dataclasses.replace(fields, name=forms.read_name(request))
  if request.query_params.get("part") == "reading":
    return await answer_in_time(
      request, _make_reading, request, index_of(request), fields
    )
  if settings_of(request).read_only:
    raise PageError(403, "error.read_only")
  return await answer_in_time(
    request, _make_form, request, index_of(request), fields
  )


@router.post("/correct")
async def read_again(request: Request) -> Response:
  """Returns the page with what is written now, which is not saved."""
  fields = correction_changes.parse_fields(await forms.read_form(request))
  return await answer_in_time(
    request, _make_form, request, index_of(request), fields
  )


@router.post("/corrections")
async def save_correction(request: Request) -> Response:
  """Keeps a correction, then leads to its record.

  What cannot be kept is shown in its form again, and so is what this form has
  saved before if that was undone since.
  """
  form = await forms.read_form(request)
  fields = correction_changes.parse_fields(form)
  key = form[forms.KEY_FIELD]
  return await answer_in_time(
    request, _save, request, index_of(request), fields, key
  )


@router.post("/corrections/{number}/undo")
async def undo_correction(request: Request, number: int) -> Response:
  """Undoes a correction, then leads back to where that was asked for."""
  form = await forms.read_form(request)
  name = correction_changes.parse_fields(form).name or forms.read_name(request)
  correction = await answer_in_time(
    request,
    correction_changes.undo,
    index_of(request),
    number,
    name,
    form[forms.KEY_FIELD],
  )
  path = "/corrections"
  if form.get("back") == "record":
    path = record_addresses.make_record_path(
      correction.work, correction.first_record
    )
  link = rendering.PageLinks(request)(path)
  return RedirectResponse(f"{link}#corrections", 303)


def _save(
  request: Request, served: ServedIndex, fields: CorrectionFields, key: str
) -> Response:
  try:
    correction = correction_changes.add(served, fields, key)
  except PageError as error:
    response = _make_form(request, served, fields, error)
    response.status_code = error.status
    return response
  if correction.undone is not None:
    response = _make_form(
      request, served, fields, undone=correction.correction_id
    )
    response.status_code = 409
    return response
  path = record_addresses.make_record_path(
    correction.work, correction.first_record
  )
  link = rendering.PageLinks(request)(path)
  response = RedirectResponse(f"{link}#corrections", 303)
  response.set_cookie(**forms.make_name_cookie(fields.name))
  return response


def _make_form(
  request: Request,
  served: ServedIndex,
  fields: CorrectionFields,
  error: PageError | None = None,
  undone: int | None = None,
) -> Response:
  """Returns the page with the form, which has a new key.

  Args:
    request: of the page.
    served: the index.
    fields: as they are written.
    error: why they were not saved.
    undone: id of the correction that the form has made before.

  Raises:
    PageError: 404, if there is no such record.
  """
  row = record_addresses.find_row(served.index, fields.work, fields.first)
  if row is None:
    raise PageError(
      404, "error.record_path", {"path": f"{fields.work}/{fields.first}"[:80]}
    )
  last = record_addresses.find_row(served.index, fields.work, fields.last)
  reading = correction_changes.read_fields(served, fields)
  return rendering.render_page(
    request,
    served,
    "correct.html",
    permalink=record_addresses.make_record_path(fields.work, fields.first)
    + f"?index={served.index.versions.index_sha256}",
    fields=fields,
    reading=reading,
    undone=undone,
    refusal=error.values.get("problem", "") if error else "",
    title=served.titles[fields.work],
    path=record_addresses.make_record_path(fields.work, fields.first),
    records=_list_span(served, row, last),
    num_left=max((last or row) - row + 1 - _MAX_SHOWN, 0),
    following=correction_views.list_following(served, row),
  )


def _list_span(
  served: ServedIndex, row: int, last: int | None
) -> list[dict[str, Any]]:
  """Returns the records of a correction and their dates."""
  stop = min(max(last or row, row) + 1, row + _MAX_SHOWN)
  return [
    describe_record(served, record)
    for record in database.fetch_records(
      served.index.connection, range(row, stop)
    )
  ]


def _make_reading(
  request: Request, served: ServedIndex, fields: CorrectionFields
) -> Response:
  return HTMLResponse(
    rendering.render_plain(
      request,
      "_reading.html",
      date=fields.date,
      reading=correction_changes.read_fields(served, fields),
    )
  )
