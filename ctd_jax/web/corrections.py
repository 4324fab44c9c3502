"""Corrections of a served index: their state, marks beside records, changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ctd_jax.dating.chronicle.written_dates import AmbiguousDateError
from ctd_jax.index import correction_checks, database, record_answers
from ctd_jax.index import corrections as corrections_lib
from ctd_jax.index.building.staged_works import DatedWith
from ctd_jax.index.correction_checks import CheckedCorrection
from ctd_jax.index.corrections import ConflictError, Correction
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note
from ctd_jax.web import queries, served_index
from ctd_jax.web.requests import PageError
from ctd_jax.web.served_index import ServedIndex

_EXCERPT = 60  # characters of a record
_MAX_FOLLOWING = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionFields:
  """What a reader writes into the form of a correction.

  Attributes:
    work: name of the work.
    first: id of the record.
    last: id of the last one; that of the first for one alone.
    date: as written.
    note: likewise.
    name: of the reader.
  """

  work: str = ""
  first: str = ""
  last: str = ""
  date: str = ""
  note: str = ""
  name: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionView:
  """A correction, and what the dates that are shown owe to it.

  Attributes:
    correction: as it is kept.
    state: applied, pending, left_out, undone or still_applied.
    problem: why it is left out; else "".
    row: of its first record; None if that is gone.
    text: of that record, its beginning.
    title: of the work.
  """

  correction: Correction
  state: str
  problem: Note | str
  row: int | None
  text: str
  title: str

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

  def to_dict(self) -> dict[str, Any]:
    """Returns what programs are told of it."""
    return dataclasses.asdict(self.correction) | {
      "state": self.state,
      "problem": str(self.problem),
    }


def list_corrections(
  served: ServedIndex,
  work: str | None = None,
  record_id: str | None = None,
  limit: int | None = None,
  offset: int = 0,
) -> list[CorrectionView]:
  """Returns corrections, the newest first, those undone among them.

  Args:
    record_id: of a record of it; None of any.
    limit: how many at most.
    offset: how many of the newest are left out.
  """
  history = served.index.corrections.history(work, record_id, limit, offset)
  return [view_correction(served, correction) for correction in history]


def view_correction(
  served: ServedIndex, correction: Correction
) -> CorrectionView:
  """Returns a correction with its state and its first record."""
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


def _read_dated_with(served: ServedIndex, work: str) -> DatedWith | None:
  return correction_checks.read_dated_with(served.index, work)


def count_pending(served: ServedIndex) -> int:
  """Returns how many changes the dates that are shown do not have in them."""
  return sum(correction_checks.count_pending(served.index).values())


def list_following(served: ServedIndex, row: int) -> list[tuple[str, str]]:
  """Returns ids and texts of a record and of those after it in its work."""
  last = min(served.index.work_of(row).rows[-1], row + _MAX_FOLLOWING)
  return served.index.connection.execute(
    "SELECT record_id, substr(text, 1, ?) FROM records "
    "WHERE row BETWEEN ? AND ? ORDER BY row",
    (_EXCERPT, row, last),
  ).fetchall()


@dataclasses.dataclass(frozen=True)
class CorrectionMark:
  """What the date of a record owes to a correction.

  Attributes:
    state: applied, pending, left_out or still_applied.
    date: as the reader wrote it.
  """

  state: str
  date: str


@dataclasses.dataclass(frozen=True, eq=False)
class _MarkedSpans:
  """Records that have a mark, those of the newest corrections first.

  Attributes:
    first: row of the first record of each span.
    last: row of its last.
    marks: of the spans.
  """

  first: np.ndarray
  last: np.ndarray
  marks: tuple[CorrectionMark, ...]


def find_marks(
  served: ServedIndex, rows: Iterable[int]
) -> dict[int, CorrectionMark]:
  """Returns row -> mark, of those records that have one."""
  spans = served.remember(_find_spans, served.index.corrections.version())
  marks = {}
  for row in rows if spans.marks else ():
    matches = np.flatnonzero((spans.first <= row) & (row <= spans.last))
    if len(matches):
      marks[row] = spans.marks[matches[0]]
  return marks


def _find_spans(served: ServedIndex, version: int) -> _MarkedSpans:
  """Returns the marked records of an index."""
  del version
  by_work: dict[str, list[Correction]] = {}
  for correction in served.index.corrections.history():
    by_work.setdefault(correction.work, []).append(correction)
  spans: list[tuple[int, int]] = []
  marks = []
  for work, corrections in by_work.items():
    dated_with = correction_checks.read_dated_with(served.index, work)
    row_of = corrections_lib.find_rows(
      served.index.folder, work, corrections_lib.list_ends(corrections)
    )
    for correction in corrections:
      state, _ = correction_checks.find_state(correction, dated_with)
      first = row_of.get(correction.first_record)
      last = row_of.get(correction.last_record)
      if state == correction_checks.UNDONE or None in (first, last):
        continue
      spans.append((first, last))
      marks.append(CorrectionMark(state, correction.date))
  first, last = np.array(spans, int).reshape(-1, 2).T
  return _MarkedSpans(first, last, tuple(marks))


_MAX_FIELD = 10_000  # characters
_MAX_ID = 10**15
_MAX_CHOICES = 12
EMPTY_DATE = Note("problem.field.empty", name="date")
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
class CorrectionPreview:
  """What the form of a correction means.

  Attributes:
    checked: what it means; None if it cannot be read.
    problem: why it cannot be; "" if nothing was written.
    choices: times that its date may mean, if there are several: those nearest
      to what the record is dated to, in order of time.
    num_choices: how many times those are in all.
  """

  checked: CheckedCorrection | None
  problem: Note | str
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


def read_fields(
  served: ServedIndex, fields: CorrectionFields
) -> CorrectionPreview:
  """Returns what a correction means, or why it cannot be read."""
  if not fields.date:
    return CorrectionPreview(None, "")
  try:
    checked = correction_checks.check_correction(
      served.index, fields.work, fields.first, fields.last, fields.date
    )
  except AmbiguousDateError as error:
    choices = _list_choices(served, fields, error.choices)
    return CorrectionPreview(
      None, notes.of_error(error), choices, len(error.choices)
    )
  except ValueError as error:
    return CorrectionPreview(None, notes.of_error(error))
  return CorrectionPreview(checked, "")


def _list_choices(
  served: ServedIndex, fields: CorrectionFields, months: Mapping[str, int]
) -> tuple[DateChoice, ...]:
  """Returns the dates that are nearest to what a record is dated to."""
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
  """Keeps a correction and returns it when it is on the disk.

  Args:
    key: of the form; one sent twice is one correction.

  Raises:
    PageError: 422 if it cannot be read or kept, 409 if it contradicts another
      one.
  """
  reading = read_fields(served, fields)
  if reading.checked is None:
    raise PageError(
      422, "error.refused", {"problem": reading.problem or EMPTY_DATE}
    )
  try:
    return served.index.corrections.add(
      Correction(
        work=fields.work,
        first_record=fields.first,
        last_record=fields.last,
        date=fields.date,
        note=fields.note,
        name=fields.name,
        texts_sha256=reading.checked.texts_sha256,
      ),
      key,
    )
  except ValueError as error:
    raise _refuse(error) from error


def find_correction(served: ServedIndex, number: int) -> Correction:
  """Returns a correction, also one that was undone.

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
  return PageError(status, "error.refused", {"problem": notes.of_error(error)})
