"""Corrections of a served index: state, marks beside records, and changes."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ctd_jax.dating.chronicle.written_dates import AmbiguousDateError
from ctd_jax.index import correction_checks, database, record_answers
from ctd_jax.index import corrections as corrections_lib
from ctd_jax.index.building import sources
from ctd_jax.index.building.sources import DatedWith
from ctd_jax.index.correction_checks import CheckedCorrection
from ctd_jax.index.corrections import ConflictError, Correction
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note
from ctd_jax.web import queries, served_index
from ctd_jax.web.requests import PageError
from ctd_jax.web.served_index import ServedIndex

_EXCERPT = 60  # characters of a record
_MAX_FOLLOWING = 40

_MAX_FIELD = 10_000  # characters
_MAX_ID = 10**15
_MAX_CHOICES = 12
# Of the form: the date that was chosen, and what that was one reading of.
CHOICE_FIELD, CHOICE_OF_FIELD = "reading", "reading_of"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionFields:
  """The fields of the correction form."""

  work: str = ""  # name of the work
  first: str = ""  # id of the first record
  last: str = ""  # id of the last record; the first again for a single one
  date: str = ""  # as the reader wrote it
  note: str = ""  # why, with sources
  name: str = ""  # of the reader


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionView:
  """A correction, and whether the shown dates include it."""

  correction: Correction  # as stored
  state: str  # applied, pending, left_out, undone or still_applied
  problem: Note | str  # why it is left out; "" otherwise
  row: int | None  # of the first record; None if it is gone
  text: str  # beginning of the first record
  title: str  # of the work

  @property
  def is_active(self) -> bool:
    """Whether it can be undone."""
    return self.correction.undone is None

  @property
  def path(self) -> str:
    """Address of its first record."""
    return served_index.make_record_path(
      self.correction.work, self.correction.first_record
    )


def list_corrections(
  served: ServedIndex,
  work: str | None = None,
  record_id: str | None = None,
  limit: int | None = None,
  offset: int = 0,
) -> list[CorrectionView]:
  """Returns corrections, undone ones included, newest first."""
  history = served.index.corrections.history(work, record_id, limit, offset)
  return [view_correction(served, correction) for correction in history]


def view_correction(
  served: ServedIndex, correction: Correction
) -> CorrectionView:
  """Returns a correction with its state and first record."""
  index = served.index
  dated_with = served.remember(_read_dated_with, correction.work)
  row = served_index.find_row(index, correction.work, correction.first_record)
  text = ""
  if row is not None:
    (text,) = index.connection.execute(
      "SELECT substr(text, 1, ?) FROM records WHERE row = ?", (_EXCERPT, row)
    ).fetchone()
  state, problem = correction_checks.find_state(correction, dated_with)
  return CorrectionView(
    correction=correction,
    state=state,
    problem=problem,
    row=row,
    text=text,
    title=served.titles.get(correction.work, correction.work),
  )


def _read_dated_with(served: ServedIndex, name: str) -> DatedWith | None:
  """Returns what a work was dated with; None if the index has no such work."""
  works = {work.name: work for work in served.index.works}
  return sources.read_dated_with(works.get(name))


def count_pending(served: ServedIndex) -> int:
  """Returns the number of changes that the shown dates do not include yet."""
  return sum(correction_checks.count_pending(served.index).values())


def list_following(served: ServedIndex, row: int) -> list[tuple[str, str]]:
  """Returns (id, text) of a record and of those after it in its work."""
  last = min(served.index.work_of(row).rows[-1], row + _MAX_FOLLOWING)
  return served.index.connection.execute(
    "SELECT record_id, substr(text, 1, ?) FROM records "
    "WHERE row BETWEEN ? AND ? ORDER BY row",
    (_EXCERPT, row, last),
  ).fetchall()


@dataclasses.dataclass(frozen=True)
class CorrectionMark:
  """The correction that affects a record's date."""

  state: str  # applied, pending, left_out or still_applied
  date: str  # as the reader wrote it


def find_marks(
  served: ServedIndex, rows: Iterable[int]
) -> dict[int, CorrectionMark]:
  """Returns row -> mark of the records that have one."""
  marks = served.remember(_mark_rows, served.index.corrections.version())
  return {row: marks[row] for row in rows if row in marks}


def _mark_rows(served: ServedIndex, version: int) -> dict[int, CorrectionMark]:
  """Returns row -> mark of all corrected records; the newest one counts."""
  del version
  by_work: dict[str, list[Correction]] = {}
  for correction in served.index.corrections.history():
    by_work.setdefault(correction.work, []).append(correction)
  marks: dict[int, CorrectionMark] = {}
  for work, corrections in by_work.items():
    dated_with = served.remember(_read_dated_with, work)
    row_of = corrections_lib.find_rows(
      served.index.folder, work, corrections_lib.list_ends(corrections)
    )
    for correction in corrections:
      state, _ = correction_checks.find_state(correction, dated_with)
      rows = corrections_lib.find_range(correction, row_of)
      if state != correction_checks.UNDONE and rows is not None:
        for row in rows:
          marks.setdefault(row, CorrectionMark(state, correction.date))
  return marks


@dataclasses.dataclass(frozen=True)
class DateChoice:
  """One meaning of an ambiguous date."""

  date: str  # written out, so that it is unambiguous
  common_era: str  # years


@dataclasses.dataclass(frozen=True)
class CorrectionPreview:
  """Meaning of a correction form."""

  checked: CheckedCorrection | None  # None if it cannot be read
  problem: Note | str  # why it cannot be read; "" if the form is empty
  # Meanings of an ambiguous date, nearest to the record's date, by time.
  choices: tuple[DateChoice, ...] = ()
  num_choices: int = 0  # number of all meanings


def parse_fields(values: Mapping[str, Any]) -> CorrectionFields:
  """Returns the fields of a form or address.

  An ambiguous date is replaced by the reader's choice, unless another date was
  entered since.
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


def read_fields(
  served: ServedIndex, fields: CorrectionFields
) -> CorrectionPreview:
  """Returns the meaning of a correction, or why it cannot be read."""
  if not fields.date:
    return CorrectionPreview(None, "")
  try:
    checked = correction_checks.check_correction(
      served.index, fields.work, fields.first, fields.last, fields.date
    )
  except AmbiguousDateError as error:
    return CorrectionPreview(
      None,
      notes.of_error(error),
      _list_choices(served, fields, error.choices),
      len(error.choices),
    )
  except ValueError as error:
    return CorrectionPreview(None, notes.of_error(error))
  return CorrectionPreview(checked, "")


def check_fields(
  served: ServedIndex, fields: CorrectionFields
) -> CheckedCorrection:
  """Returns the meaning of a correction."""
  reading = read_fields(served, fields)
  if reading.checked is None:
    problem = reading.problem or Note("problem.field.empty", name="date")
    raise PageError(422, "error.refused", {"problem": problem})
  return reading.checked


def _list_choices(
  served: ServedIndex, fields: CorrectionFields, months: Mapping[str, int]
) -> tuple[DateChoice, ...]:
  """Returns the meanings of a date that are nearest to the record's date."""
  index = served.index
  row = served_index.find_row(index, fields.work, fields.first)
  (record,) = database.fetch_records(index.connection, [row])
  nearest = sorted(months, key=lambda it: abs(months[it] - record.best_month))
  return tuple(
    DateChoice(
      date, record_answers.format_years(index, months[date], months[date])
    )
    for date in sorted(nearest[:_MAX_CHOICES], key=months.get)
  )


def add(served: ServedIndex, fields: CorrectionFields, key: str) -> Correction:
  """Saves a correction and returns it; a key sent twice saves once.

  Raises:
    PageError: 422 if it is invalid, 409 if it contradicts another one.
  """
  checked = check_fields(served, fields)
  try:
    return served.index.corrections.add(
      Correction(
        work=fields.work,
        first_record=fields.first,
        last_record=fields.last,
        date=fields.date,
        note=fields.note,
        name=fields.name,
        texts_sha256=checked.texts_sha256,
      ),
      key,
    )
  except ValueError as error:
    raise _refuse(error) from error


def find_correction(served: ServedIndex, number: int) -> Correction:
  """Returns a correction, even if it was undone."""
  store = served.index.corrections
  correction = store.get(number) if 0 < number < _MAX_ID else None
  if correction is None:
    raise PageError(404, "error.correction", {"number": str(number)[:20]})
  return correction


def undo(served: ServedIndex, number: int, name: str, key: str) -> Correction:
  """Undoes a correction and returns it; raises PageError if it cannot."""
  find_correction(served, number)
  try:
    return served.index.corrections.undo(number, name, key)
  except ValueError as error:
    raise _refuse(error) from error


def undo_all(
  served: ServedIndex, numbers: Sequence[int], name: str, key: str
) -> None:
  """Undoes the corrections of these numbers that still hold."""
  active = {it.correction_id for it in served.index.corrections.active()}
  for number in numbers:
    if number in active:
      undo(served, number, name, f"{key}-{number}")


def _refuse(error: ValueError) -> PageError:
  """Returns the error for a refusal of the store."""
  status = 409 if isinstance(error, ConflictError) else 422
  return PageError(status, "error.refused", {"problem": notes.of_error(error)})
