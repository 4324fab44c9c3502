"""Which records moved when their works were dated again.

Dates are told at the level that they are sure of, as in answers.
"""

import pathlib
from collections.abc import Collection

import msgspec

from ctd_jax.index import (
  answer_files,
  answers,
  database,
  record_answers,
)
from ctd_jax.index.building import sources
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.utils import files, output

_EXCERPT = 40  # characters of a record
_MAX_SHOWN = 20  # changes in the terminal
_JSON = ".json"


class ToldDate(msgspec.Struct, frozen=True, kw_only=True):
  """Date of a record at the level that it is sure of."""

  name: str  # of a month, season or year; "" if none of them is sure
  common_era: str  # then the years that hold 90 %
  probability: float
  is_fixed: bool  # whether a reader set it


class ChangedRecord(msgspec.Struct, frozen=True, kw_only=True):
  """A record whose date has changed."""

  work: str
  title: str  # of the work
  record_id: str
  text: str  # its beginning
  before: ToldDate
  after: ToldDate


class RedateReport(msgspec.Struct, frozen=True, kw_only=True):
  """What dating again has changed, or would change."""

  changes: tuple[ChangedRecord, ...] = ()  # in the order of the works
  num_records: int = 0  # of the works dated again
  # Ids of the corrections that count now, and of those that no longer do.
  applied: tuple[int, ...] = ()
  undone: tuple[int, ...] = ()
  is_dry: bool = False  # whether the index stayed as it was


class RecordDates:
  """Dates of the records of works, also after a build has replaced them."""

  def __init__(self, index: IndexFolder, names: Collection[str]):
    """Reads the dates of works by name."""
    self._index = index
    self.works = [work for work in index.works if work.name in names]
    self.rows = {
      work.name: {
        record_id: tuple(date)
        for record_id, *date in index.connection.execute(
          "SELECT record_id, row, best_month, fixed, first_credible, "
          "last_credible FROM records "
          "WHERE row BETWEEN ? AND ? AND kind != ? ORDER BY row",
          (work.rows.start, work.rows.stop - 1, database.HEADING),
        )
      }
      for work in self.works
    }
    # Opened now: a build removes these files, which stay mapped.
    for work in self.works:
      _ = index.posteriors_of(work).arrays
    self.applied = {
      number
      for work in self.works
      for number in sources.read_dated_with(work).corrections
    }

  def describe(self, work: str, record_id: str) -> ToldDate:
    """Returns the date of a record."""
    row, _, is_fixed, *credible = self.rows[work][record_id]
    sure = record_answers.find_sure_date(self._index, row)
    years = record_answers.format_years(self._index, *credible)
    return ToldDate(
      name=sure.name,
      common_era=sure.common_era or years,
      probability=round(sure.probability, 4),
      is_fixed=bool(is_fixed),
    )

  def compare(self, before: "RecordDates") -> RedateReport:
    """Returns which records have another month, or are set by a reader now."""
    changes = []
    for work in self.works:
      dates, old = self.rows[work.name], before.rows[work.name]
      moved = [
        record_id
        for record_id, date in dates.items()
        if record_id in old and old[record_id][1:3] != date[1:3]
      ]
      texts = dict(
        database.fetch_columns(
          self._index.connection, [dates[it][0] for it in moved], "text"
        )
      )
      changes += [
        ChangedRecord(
          work=work.name,
          title=work.title or work.name,
          record_id=record_id,
          text=texts[dates[record_id][0]][:_EXCERPT],
          before=before.describe(work.name, record_id),
          after=self.describe(work.name, record_id),
        )
        for record_id in moved
      ]
    return RedateReport(
      changes=tuple(changes),
      num_records=sum(map(len, self.rows.values())),
      applied=tuple(sorted(self.applied - before.applied)),
      undone=tuple(sorted(before.applied - self.applied)),
    )


def format_changes(report: RedateReport) -> str:
  """Returns the first changes as a table, and how many there are."""
  if not report.changes:
    return f"no date of {report.num_records:,} records changes\n"
  rows = [
    (
      *(f"{it.title} {it.record_id}", *_list_cells(it.before)),
      *("→", *_list_cells(it.after), it.text),
    )
    for it in report.changes[:_MAX_SHOWN]
  ]
  header = ("record", "before", "", "p", "", "after", "", "p", "text")
  text = output.format_table("", header, rows)
  rest = len(report.changes) - len(rows)
  more = f", {rest:,} of them not shown" if rest else ""
  return (
    f"{text}{len(report.changes):,} of {report.num_records:,} records "
    f"{'would change' if report.is_dry else 'have changed'}{more}\n"
  )


def _list_cells(date: ToldDate) -> tuple[str, str, str]:
  chance = answers.format_chance(date.probability) if date.name else ""
  return date.name, date.common_era, "set" if date.is_fixed else chance


def write_changes(report: RedateReport, path: pathlib.Path) -> None:
  """Writes all changes as JSON, or as a table with the suffix .csv or .tsv."""
  suffix = path.suffix.lower()
  if suffix == _JSON:
    files.write_text(path, msgspec.json.encode(report).decode() + "\n")
    return
  rows = [_flatten(change) for change in report.changes]
  columns = [*rows[0]] if rows else ["work", "record_id"]
  table = answer_files.format_rows(rows, columns, suffix.removeprefix("."))
  mark = output.BYTE_ORDER_MARK * (suffix == f".{answer_files.CSV}")
  files.write_text(path, mark + table)


def check_path(path: pathlib.Path) -> None:
  """Raises ValueError if no format has the suffix of a file of changes."""
  expected = (_JSON, *(f".{name}" for name in answer_files.FORMATS))
  if path.suffix.lower() not in expected:
    raise ValueError(
      f"--changes={path}: suffix {path.suffix!r}; expected one of "
      f"{', '.join(expected)}"
    )


def _flatten(change: ChangedRecord) -> dict[str, str | float | bool]:
  before, after = change.before, change.after
  return {
    "work": change.work,
    "record_id": change.record_id,
    "text": change.text,
    "before": before.name,
    "before_common_era": before.common_era,
    "before_probability": before.probability,
    "after": after.name,
    "after_common_era": after.common_era,
    "after_probability": after.probability,
    "set_by_reader": after.is_fixed,
  }
