"""Changes of corrections: what a form means, adding, undoing.

What pages and the API have in common; it is about one form, and knows nothing
of how that was sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ctd_jax.index.corrections import correction_checks
from ctd_jax.index.corrections.correction_checks import CheckedCorrection
from ctd_jax.index.storage.corrections import ConflictError, Correction
from ctd_jax.web import queries
from ctd_jax.web.corrections.correction_views import CorrectionFields
from ctd_jax.web.errors import PageError
from ctd_jax.web.served_index import ServedIndex

_MAX_FIELD = 10_000  # characters
_MAX_ID = 10**15


@dataclasses.dataclass(frozen=True)
class Reading:
  """What the form of a correction means.

  Attributes:
    checked: what it means; None if it cannot be read.
    problem: why it cannot be; "" if nothing was written.
  """

  checked: CheckedCorrection | None
  problem: str


def parse_fields(values: Mapping[str, Any]) -> CorrectionFields:
  """Returns the fields of a form, or of an address.

  Raises:
    PageError: 422, naming the field that is too long or no text.
  """
  texts = {}
  for field in dataclasses.fields(CorrectionFields):
    value = values.get(field.name, "")
    if not isinstance(value, str):
      raise PageError(422, "error.encoding")
    queries.check_encoding(value)
    queries.check_length(field.name, value, _MAX_FIELD)
    texts[field.name] = value.replace("\r\n", "\n").strip()
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
  except ValueError as error:
    return Reading(None, str(error))
  return Reading(checked, "")


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
