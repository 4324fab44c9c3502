"""Changes of corrections: what a form means, adding, undoing.

What pages and the API have in common; it is about one form, and knows nothing
of how that was sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ctd_jax.dating.chronicle.written_dates import AmbiguousDateError
from ctd_jax.index.answers import record_answers
from ctd_jax.index.corrections import correction_checks
from ctd_jax.index.corrections.correction_checks import CheckedCorrection
from ctd_jax.index.storage import database
from ctd_jax.index.storage.corrections import ConflictError, Correction
from ctd_jax.web import queries, record_addresses
from ctd_jax.web.corrections.correction_views import CorrectionFields
from ctd_jax.web.errors import PageError
from ctd_jax.web.served_index import ServedIndex

_MAX_FIELD = 10_000  # characters
_MAX_ID = 10**15
_MAX_CHOICES = 12
# Of the form: the date that was chosen, and what that was one reading of.
CHOICE_FIELD, CHOICE_OF_FIELD = "reading", "reading_of"


@dataclasses.dataclass(frozen=True)
class DateChoice:
  """One of the times that a date may mean.

  Attributes:
    date: written out, so that it means no other.
    common_era: its year.
  """

  date: str
  common_era: str


@dataclasses.dataclass(frozen=True)
class Reading:
  """What the form of a correction means.

  Attributes:
    checked: what it means; None if it cannot be read.
    problem: why it cannot be; "" if nothing was written.
    choices: times that its date may mean, if there are several: those nearest
      to what the record is dated to, in order of time.
    num_choices: how many times those are in all.
  """

  checked: CheckedCorrection | None
  problem: str
  choices: tuple[DateChoice, ...] = ()
  num_choices: int = 0


def parse_fields(values: Mapping[str, Any]) -> CorrectionFields:
  """Returns the fields of a form, or of an address.

  Of a date that may mean several times it has the one that was chosen, unless
  another date was written since.

  Raises:
    PageError: 422, naming the field that is too long or no text.
  """
  names = [field.name for field in dataclasses.fields(CorrectionFields)]
  texts = {}
  for name in (*names, CHOICE_FIELD, CHOICE_OF_FIELD):
    value = values.get(name, "")
    if not isinstance(value, str):
      raise PageError(422, "error.encoding")
    queries.check_encoding(value)
    queries.check_length(name, value, _MAX_FIELD)
    texts[name] = value.replace("\r\n", "\n").strip()
  choice, choice_of = texts.pop(CHOICE_FIELD), texts.pop(CHOICE_OF_FIELD)
  if choice and choice_of == texts["date"]:
    texts["date"] = choice
  texts["last"] = texts["last"] or texts["first"]
  return CorrectionFields(**texts)


def read_fields(served: ServedIndex, fields: CorrectionFields) -> Reading:
  """Returns what a correction means, or why it cannot be read.

  Args:
    served: the index.
    fields: of the form.
  """
  if not fields.date:
    return Reading(None, "")
  try:
    checked = correction_checks.check_correction(
      served.index, fields.work, fields.first, fields.last, fields.date
    )
  except AmbiguousDateError as error:
    choices = _list_choices(served, fields, error.choices)
    return Reading(None, str(error), choices, len(error.choices))
  except ValueError as error:
    return Reading(None, str(error))
  return Reading(checked, "")


def _list_choices(
  served: ServedIndex, fields: CorrectionFields, months: Mapping[str, int]
) -> tuple[DateChoice, ...]:
  """Returns the dates that are nearest to what a record is dated to.

  Args:
    served: the index.
    fields: of the form, whose record there is.
    months: date -> the first month that it names.
  """
  index = served.index
  row = record_addresses.find_row(index, fields.work, fields.first)
  (record,) = database.fetch_records(index.connection, [row])
  nearest = sorted(months, key=lambda it: abs(months[it] - record.best_month))
  return tuple(
    DateChoice(
      date, record_answers.format_years(index, months[date], months[date])
    )
    for date in sorted(nearest[:_MAX_CHOICES], key=months.get)
  )


def add(served: ServedIndex, fields: CorrectionFields, key: str) -> Correction:
  """Keeps a correction and returns it when it is on the disk.

  Args:
    served: the index.
    fields: of the form.
    key: of the form; one sent twice is one correction.

  Raises:
    PageError: 422 if it cannot be read or kept, 409 if it contradicts another
      one.
  """
  reading = read_fields(served, fields)
  if reading.checked is None:
    raise PageError(
      422, "error.refused", {"problem": reading.problem or "date: empty"}
    )
  try:
    return served.index.corrections.add(
      work=fields.work,
      first_record=fields.first,
      last_record=fields.last,
      date=fields.date,
      note=fields.note,
      name=fields.name,
      texts_sha256=reading.checked.texts_sha256,
      key=key,
    )
  except ValueError as error:
    raise _refuse(error) from error


def find_correction(served: ServedIndex, number: int) -> Correction:
  """Returns a correction, also one that was undone.

  Args:
    served: the index.
    number: of the correction.

  Raises:
    PageError: 404, if there is none.
  """
  store = served.index.corrections
  correction = store.get(number) if 0 < number < _MAX_ID else None
  if correction is None:
    raise PageError(404, "error.correction", {"number": str(number)[:20]})
  return correction


def undo(served: ServedIndex, number: int, name: str, key: str) -> Correction:
  """Undoes a correction and returns it.

  Args:
    served: the index.
    number: of the correction.
    name: of who undoes it.
    key: of the form.

  Raises:
    PageError: 404 if there is none, 422 if the name cannot be kept, 409 if it
      is undone.
  """
  find_correction(served, number)
  try:
    return served.index.corrections.undo(number, name, key)
  except ValueError as error:
    raise _refuse(error) from error


def _refuse(error: ValueError) -> PageError:
  """Returns what a refusal of the store is to those who asked."""
  status = 409 if isinstance(error, ConflictError) else 422
  return PageError(status, "error.refused", {"problem": str(error)})
