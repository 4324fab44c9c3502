"""Corrections for programs: list, check, add, undo, export."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import pydantic
from fastapi import APIRouter, Query
from starlette.requests import Request

from ctd_jax.web.answering import answer_in_time, index_of
from ctd_jax.web.corrections import correction_changes, correction_views
from ctd_jax.web.errors import PageError

_MAX_LIMIT = 1000
_KEY = "^[0-9A-Za-z_.-]{8,100}$"
router = APIRouter(tags=["corrections"])

_ERRORS: dict[int | str, dict[str, Any]] = {
  403: {"description": "The server is read only"},
  404: {"description": "There is no such record or correction"},
  409: {"description": "It contradicts another one; `error.detail` names it"},
  422: {"description": "It cannot be read or kept; `error.detail` says why"},
}
_KEY_TEXT = (
  "Made up by the program, another one for each change: a request that is sent "
  "twice with one key changes once. Sent again after the correction that it "
  "made was undone, it saves nothing and answers with that, as undone"
)


class NewCorrection(pydantic.BaseModel):
  """A date for a record, or for several that follow one another."""

  model_config = pydantic.ConfigDict(extra="forbid")

  work: str = pydantic.Field(description="Name of the work")
  first_record: str = pydantic.Field(description="`record_id` of the record")
  last_record: str = pydantic.Field(
    "", description="`record_id` of the last one, if there are several"
  )
  date: str = pydantic.Field(
    description="As texts write it, 魯隱公元年五月, or of ISO 8601, 0311-06; "
    "two with a slash are an interval"
  )
  note: str = pydantic.Field("", description="Why, with sources")
  name: str = pydantic.Field("", description="Who corrects")
  key: str = pydantic.Field("", description=_KEY_TEXT, pattern=f"{_KEY}|^$")


class CorrectionObject(pydantic.BaseModel):
  """A correction."""

  correction_id: int
  work: str
  first_record: str
  last_record: str
  date: str = pydantic.Field(description="As the reader wrote it")
  note: str
  name: str
  made: str = pydantic.Field(description="Time, ISO 8601 in UTC")
  undone: str | None = pydantic.Field(description="When it was undone")
  undone_by: str
  texts_sha256: str = pydantic.Field(
    description="Of the texts of its records when it was made"
  )
  state: str = pydantic.Field(
    description="What the dates that are shown owe to it: applied; pending, "
    "not dated again yet; left_out, its records have changed or the index has "
    "them no more; undone; "
    "still_applied, undone and not dated again yet"
  )
  problem: str = pydantic.Field(description="Why it is left out")


class CorrectionList(pydantic.BaseModel):
  """Corrections, the newest first."""

  corrections: list[CorrectionObject]
  total: int = pydantic.Field(description="With those that are not listed")
  pending: int = pydantic.Field(
    description="Changes that the dates of the index do not have yet"
  )


class ReadDate(pydantic.BaseModel):
  """What a date means that is yet to be given."""

  months: list[int] = pydantic.Field(description="Ordinals of the months")
  names: list[str] = pydantic.Field(description="The same by name")
  common_era: str
  records: int = pydantic.Field(description="That would get the date")


@router.get("/api/corrections", summary="Corrections", responses=_ERRORS)
async def read_corrections(
  request: Request,
  work: str | None = None,
  record_id: str | None = None,
  limit: Annotated[int, Query(ge=1, le=_MAX_LIMIT)] = 100,
  offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> CorrectionList:
  """Returns corrections, those undone among them, the newest first."""

  def make() -> CorrectionList:
    if record_id is not None and work is None:
      raise PageError(
        422,
        "error.parameter",
        {"name": "record_id", "value": record_id[:40], "expected": "work=…"},
      )
    served = index_of(request)
    views = correction_views.list_corrections(
      served, work, record_id, limit, offset
    )
    return CorrectionList(
      corrections=[_describe(view) for view in views],
      total=served.index.corrections.count(work, record_id),
      pending=correction_views.count_pending(served),
    )

  return await answer_in_time(request, make)


@router.get(
  "/api/corrections/check", summary="What a date means", responses=_ERRORS
)
async def check_date(
  request: Request,
  work: str,
  first_record: str,
  date: str,
  last_record: str = "",
) -> ReadDate:
  """Returns the months that a date would mean; nothing is changed."""

  def make() -> ReadDate:
    fields = correction_changes.parse_fields(
      {
        "work": work,
        "first": first_record,
        "last": last_record,
        "date": date,
      }
    )
    reading = correction_changes.read_fields(index_of(request), fields)
    if reading.checked is None:
      raise PageError(
        422, "error.refused", {"problem": reading.problem or "date: empty"}
      )
    checked = reading.checked
    return ReadDate(
      months=checked.months.nonzero()[0].tolist(),
      names=[span.name for span in checked.spans],
      common_era=checked.common_era,
      records=checked.num_records,
    )

  return await answer_in_time(request, make)


@router.get(
  "/api/corrections/{number}", summary="A correction", responses=_ERRORS
)
async def read_correction(request: Request, number: int) -> CorrectionObject:
  """Returns a correction, also one that was undone."""

  def make() -> CorrectionObject:
    served = index_of(request)
    return _describe(
      correction_views.view_correction(
        served, correction_changes.find_correction(served, number)
      )
    )

  return await answer_in_time(request, make)


@router.post(
  "/api/corrections",
  summary="Correct a date",
  status_code=201,
  responses=_ERRORS,
)
async def add_correction(
  request: Request, correction: NewCorrection
) -> CorrectionObject:
  """Keeps a correction; the answer comes when it is on the disk.

  The dates of the index change when its works are dated again.
  """

  def make() -> CorrectionObject:
    served = index_of(request)
    values = correction.model_dump()
    fields = correction_changes.parse_fields(
      {
        "work": values["work"],
        "first": values["first_record"],
        "last": values["last_record"],
        "date": values["date"],
        "note": values["note"],
        "name": values["name"],
      }
    )
    key = correction.key or secrets.token_hex(16)
    added = correction_changes.add(served, fields, key)
    return _describe(correction_views.view_correction(served, added))

  return await answer_in_time(request, make)


@router.delete(
  "/api/corrections/{number}", summary="Undo a correction", responses=_ERRORS
)
async def undo_correction(
  request: Request,
  number: int,
  name: str = "",
  key: Annotated[str, Query(description=_KEY_TEXT, pattern=f"{_KEY}|^$")] = "",
) -> CorrectionObject:
  """Undoes a correction; it stays in the list as undone."""

  def make() -> CorrectionObject:
    served = index_of(request)
    undone = correction_changes.undo(
      served, number, name, key or secrets.token_hex(16)
    )
    return _describe(correction_views.view_correction(served, undone))

  return await answer_in_time(request, make)


def _describe(view: correction_views.CorrectionView) -> CorrectionObject:
  return CorrectionObject(**view.to_dict())
