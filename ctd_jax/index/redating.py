"""Dates works again, and says which records moved.

A work is read again from where it was added, with the same flags, and only if
its text has not changed. The other works of its data set are read too, because
they help to date it, and stay as they are.
"""

import contextlib
import dataclasses
import pathlib
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Mapping

import msgspec
from absl import logging

from ctd_jax.index import (
  answer_files,
  answers,
  correction_checks,
  corrections,
  database,
  manifest,
  record_answers,
)
from ctd_jax.index.building import index_builder
from ctd_jax.index.building.group_dating import UNDATED, DatingChoices
from ctd_jax.index.building.index_builder import BuildOptions, BuildResult
from ctd_jax.index.building.sources import SourceRequest, SourceWork
from ctd_jax.index.building.staged_works import DatedWith
from ctd_jax.index.corrections import Correction
from ctd_jax.index.database import ORDER, IndexedWork
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.utils import files, output
from ctd_jax.utils.notes import Note

_EXCERPT = 40  # characters of a record
_MAX_SHOWN = 20  # changes in the terminal
# What a copy of an index does not need: jobs and locks; databases are copied by
# SQLite, which knows what is not in their files yet.
_NOT_COPIED = ("jobs", ".lock", "*.sqlite", "*.sqlite-*")
_DATABASES = (database.DATABASE_FILE, corrections.CORRECTIONS_FILE)
_JSON = ".json"


class RecordMonth(msgspec.Struct, frozen=True, kw_only=True):
  """The most probable month of a record."""

  month: str
  common_era: str
  probability: float
  is_fixed: bool  # whether a reader set it


class ChangedRecord(msgspec.Struct, frozen=True, kw_only=True):
  """A record whose date has changed."""

  work: str
  title: str  # of the work
  record_id: str
  text: str  # its beginning
  before: RecordMonth
  after: RecordMonth


class RedateReport(msgspec.Struct, frozen=True, kw_only=True):
  """What dating again has changed, or would change."""

  changes: tuple[ChangedRecord, ...] = ()  # in the order of the works
  num_records: int = 0  # of the works dated again
  # Ids of the corrections that count now, and of those that no longer do.
  applied: tuple[int, ...] = ()
  undone: tuple[int, ...] = ()
  is_dry: bool = False  # whether the index stayed as it was


@dataclasses.dataclass(frozen=True)
class RedateResult:
  """Results of dating works again."""

  build: BuildResult | None  # of the works dated again
  problems: tuple[Note | str, ...]  # why others were not, and what to do
  report: RedateReport = dataclasses.field(default_factory=RedateReport)


def redate_index(folder: pathlib.Path) -> RedateResult:
  """Dates the works again whose corrections have changed."""
  index = IndexFolder.open(folder)
  works = {work.name: work for work in index.works}
  dated_with, problems = {}, []
  by_request: dict[SourceRequest, list[str]] = {}
  for name in correction_checks.count_pending(index):
    row = correction_checks.read_dated_with(index, works[name])
    dated_with[name] = row
    by_request.setdefault(row.source, []).append(name)
  read: list[SourceWork] = []
  targets: list[str] = []
  for request, names in by_request.items():
    try:
      for name in names:
        _check_fixed(index, works[name], dated_with[name])
      read += _read_again(folder, request, names, works)
    except (FileNotFoundError, ValueError) as error:
      problems.append(Note("problem.at", place=", ".join(names), problem=error))
    else:
      targets += names
  if not targets:
    # A dating that was stopped after its commit has nothing left to date.
    if manifest.read_manifest(folder) != index.manifest:
      index_builder.finish_build(folder)
    return RedateResult(None, tuple(problems))

  options = BuildOptions(
    choices=choose_again(folder, {name: dated_with[name] for name in targets}),
    use_passages=index.manifest.is_for_passages,
  )
  before = {name: _read_dates(index, works[name]) for name in targets}
  applied = {it for name in targets for it in dated_with[name].corrections}
  build = index_builder.build_works(folder, read, options, targets)
  report = _compare(IndexFolder.open(folder), before, applied)
  return RedateResult(build, tuple(problems), report)


def _read_dates(
  index: IndexFolder, work: IndexedWork
) -> dict[str, tuple[int, float, bool]]:
  """Returns record id -> most probable month, its chance, whether it is set."""
  rows = index.connection.execute(
    "SELECT record_id, best_month, best_probability, fixed FROM records "
    "WHERE row BETWEEN ? AND ? AND kind != ? ORDER BY row",
    (work.rows.start, work.rows.stop - 1, database.HEADING),
  )
  return {record_id: tuple(date) for record_id, *date in rows}


def _compare(
  index: IndexFolder,
  before: Mapping[str, Mapping[str, tuple[int, float, bool]]],
  applied_before: Collection[int],
) -> RedateReport:
  """Returns which records have another month, or are set by a reader now."""
  changes, applied, num_records = [], set(), 0
  for work in index.works:
    if work.name not in before:
      continue
    applied |= {*correction_checks.read_dated_with(index, work).corrections}
    dates = _read_dates(index, work)
    num_records += len(dates)
    moved = {
      record_id: (old, dates[record_id])
      for record_id, old in before[work.name].items()
      if record_id in dates and old[::2] != dates[record_id][::2]
    }
    row_of = corrections.find_rows(index.folder, work.name, moved)
    texts = dict(
      database.fetch_columns(index.connection, [*row_of.values()], "text")
    )
    for record_id, (old, new) in moved.items():
      changes.append(
        ChangedRecord(
          work=work.name,
          title=work.title or work.name,
          record_id=record_id,
          text=texts[row_of[record_id]][:_EXCERPT],
          before=_describe(index, work, *old),
          after=_describe(index, work, *new),
        )
      )
  return RedateReport(
    changes=tuple(changes),
    num_records=num_records,
    applied=tuple(sorted(applied - {*applied_before})),
    undone=tuple(sorted({*applied_before} - applied)),
  )


def _describe(
  index: IndexFolder,
  work: IndexedWork,
  month: int,
  probability: float,
  is_fixed: bool,
) -> RecordMonth:
  return RecordMonth(
    month=record_answers.make_span(
      index, month, month, work.printed_reigns
    ).name,
    common_era=record_answers.format_years(index, month, month),
    probability=round(probability, 4),
    is_fixed=bool(is_fixed),
  )


@contextlib.contextmanager
def copy_index(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a copy of an index to try changes on, which is removed again."""
  manifest.read_manifest(folder)  # an index is there
  with tempfile.TemporaryDirectory(prefix="ctd_jax.") as temporary:
    copy = pathlib.Path(temporary) / (folder.resolve().name or "index")
    with index_builder.lock(folder):
      shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
      for name in _DATABASES:
        if (folder / name).is_file():
          with (
            contextlib.closing(sqlite3.connect(folder / name)) as source,
            contextlib.closing(sqlite3.connect(copy / name)) as target,
          ):
            source.backup(target)
    yield copy


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


def _list_cells(date: RecordMonth) -> tuple[str, str, str]:
  chance = "set" if date.is_fixed else answers.format_chance(date.probability)
  return date.month, date.common_era, chance


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
    "before": before.month,
    "before_common_era": before.common_era,
    "before_probability": before.probability,
    "after": after.month,
    "after_common_era": after.common_era,
    "after_probability": after.probability,
    "set_by_reader": after.is_fixed,
  }


def choose_again(
  folder: pathlib.Path, dated_with: Mapping[str, DatedWith]
) -> DatingChoices:
  """Returns the flags that works were dated with, by name."""

  def list_names(manner: str) -> tuple[str, ...]:
    return tuple(name for name, it in dated_with.items() if it.manner == manner)

  return DatingChoices(
    in_order=list_names(ORDER),
    undated=list_names(UNDATED),
    fixed_of={
      name: folder / it.fixed
      for name, it in dated_with.items()
      if it.fixed is not None
    },
    reigns_of={name: it.reigns for name, it in dated_with.items()},
  )


def _read_again(
  folder: pathlib.Path,
  request: SourceRequest,
  names: Collection[str],
  works: Mapping[str, IndexedWork],
) -> list[SourceWork]:
  """Returns the works of a source that the index has."""
  argument = request.format_argument(folder)
  path = request.find_path(folder)
  if path is not None and not path.exists():
    raise FileNotFoundError(Note("problem.build.gone", file=path))
  read = {work.name: work for work in request.read(folder)}
  groups = {read[name].group for name in names if name in read}
  for name in names:
    if name not in read:
      raise ValueError(Note("problem.build.not_there", file=argument))
  same = []
  for name, work in read.items():
    if name not in works:
      logging.info(
        "%s of %s is not in the index and is left out", name, argument
      )
    elif work.group in groups and (work.hash_contents() != works[name].sha256):
      raise ValueError(
        Note(
          "problem.build.changed",
          file=argument,
          name=name,
          flag=f"--add={argument}",
        )
      )
    elif work.group in groups:
      same.append(work)
  return same


def _check_fixed(
  index: IndexFolder, work: IndexedWork, dated_with: DatedWith
) -> None:
  """Raises an error if a --fixed file is gone, changed or contradicted."""
  if dated_with.fixed is None:
    return
  path = index.folder / dated_with.fixed
  if not path.is_file():
    raise FileNotFoundError(
      Note("problem.build.gone_fixed", file=path, work=work.name)
    )
  if manifest.hash_file(path).sha256 != dated_with.fixed_sha256:
    raise ValueError(
      Note("problem.build.changed_fixed", file=path, work=work.name)
    )
  for correction in index.corrections.active(work.name):
    if correction.correction_id not in dated_with.corrections:
      _check_correction(index, work, correction)


def _check_correction(
  index: IndexFolder, work: IndexedWork, correction: Correction
) -> None:
  """Raises ValueError if --fixed dates a record of the correction."""
  row_of = corrections.find_rows(
    index.folder, work.name, corrections.list_ends([correction])
  )
  rows = corrections.find_range(correction, row_of)
  if not rows:
    return  # left out by the build
  try:
    correction_checks.check_fixed_rows(index, work, rows)
  except ValueError as error:
    raise ValueError(
      Note(
        "problem.build.correction",
        number=correction.correction_id,
        record=correction.record_span,
        problem=error,
      )
    ) from None
