"""Input of chronicle dating: the records of a text, and calendars."""

import pathlib
from collections.abc import Sequence

from absl import flags

from ctd_jax import texts
from ctd_jax.chronology import era_calendars, reigns
from ctd_jax.dating.chronicle import calendar, western
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.texts import Entry, TextError, Work
from ctd_jax.texts.works import APPARATUS
from ctd_jax.utils import files
from ctd_jax.utils.notes import Note

LINE, PARAGRAPH = UNITS = ("line", "paragraph")


def list_records(work: Work) -> list[Entry]:
  """Returns the text and the headings of a work, in order."""
  return [entry for entry in work.entries if entry.kind != APPARATUS]


def read_chronicle(
  path: pathlib.Path, unit: str, columns: str | None = None
) -> Work:
  """Returns the work that a file or folder holds, with its apparatus.

  Raises:
    FileNotFoundError: if the path does not exist.
    ValueError: if a line cannot be read (the message names file and line), the
      text has no record, or the folder holds several works.
  """
  if not path.exists():
    raise FileNotFoundError(f"--input={path}: no such file or folder")
  try:
    works = texts.read_works(path, unit=unit, columns=columns)
  except TextError as error:
    name = files.printable_name(path)
    location = "" if str(error).startswith(name) else f"{name}: "
    raise ValueError(f"--input={location}{error}") from error
  if len(works) > 1:
    # One after another, their dates would run back for no reason.
    names = "; ".join(
      f"{work.title} ({work.entries[0].place.file})" for work in works
    )
    raise ValueError(
      f"--input={path}: {len(works)} works, expected one: {names}; name the "
      "file or folder of one"
    )
  if all(entry.kind == APPARATUS for entry in works[0].entries):
    raise ValueError(
      f"--input={path}: {works[0].text_format} without records; expected one "
      f"a {unit}, in order of time"
    )
  return works[0]


def define_columns_flag() -> None:
  """Defines --columns, for tables."""
  flags.DEFINE_string(
    "columns",
    None,
    "Columns of a table (CSV, TSV) with the text, date and id of each record. "
    "Default: those named so. Example: --columns=text=Entry,date=Year",
  )


def summarize_reading(work: Work) -> str:
  """Returns counts of what was read and left out, "tei, 3 records, ..."."""
  num_headings = sum(entry.is_heading for entry in work.entries)
  return ", ".join(
    [
      work.text_format,
      f"{len(work.records):,} records",
      f"{num_headings:,} headings",
      *map(str, list_left_out(work)),
    ]
  )


def list_left_out(work: Work) -> list[Note]:
  """Returns counts of apparatus and notes, which are not read as records."""
  counts = {
    "apparatus": sum(entry.kind == APPARATUS for entry in work.entries),
    "notes": sum(
      note.kind != "date" for entry in work.entries for note in entry.notes
    ),
    "rows": work.counts.get("rows without text", 0),
    "dropped": work.characters.get("dropped", 0),
  }
  return [
    Note(f"note.left_out.{kind}", number=count)
    for kind, count in counts.items()
    if count
  ]


def load_reigns(name: str, records: Sequence[Entry] = ()) -> Calendar:
  """Returns the calendar that --reigns names.

  Args:
    name: path of a reign table, name of an installed one, polities with commas
      (宋, zh, all), or the common era (CE, CE:700-1160).
    records: records of the text; CE takes its years from them.

  Raises:
    FileNotFoundError: listing installed tables and the nearest polities.
    ValueError: if a cell cannot be read; the message names file, line and
      column.
  """
  path = pathlib.Path(name).expanduser()
  if path.is_file():
    return calendar.read_calendar(path)
  if western.is_western_name(name):
    return western.load_western_calendar(name, records)
  if name in reigns.timeline_names():
    return calendar.make_calendar(reigns.load_timeline(name))
  installed_tables = list_installed_tables()
  try:
    return calendar.load_calendar(name)
  except ValueError as error:
    of_state = [
      path
      for path in installed_tables.values()
      if name in {reign.state for reign in reigns.read_reign_table(path)}
    ]
    if len(of_state) == 1:
      return calendar.read_calendar(of_state[0])
    raise FileNotFoundError(
      Note(
        "problem.calendar.unknown",
        flag=f"--reigns={name}",
        names=", ".join(installed_tables),
        problem=error,
      )
    ) from None


def split_reigns(name: str) -> list[str]:
  """Returns the calendars of a value of --reigns: tables, and all polities.

  Polities keep their commas, because one calendar has the months of all.
  """
  if pathlib.Path(name).expanduser().is_file():
    return [name]
  names = [part.strip() for part in name.replace("，", ",").split(",")]
  calendars: dict[str, list[str]] = {}
  for part in filter(None, names):
    try:
      era_calendars.find_polities(part)
      is_polity = part not in reigns.timeline_names()
    except ValueError:
      is_polity = False
    calendars.setdefault("" if is_polity else part, []).append(part)
  return [",".join(dict.fromkeys(parts)) for parts in calendars.values()]


def list_installed_tables() -> dict[str, pathlib.Path]:
  """Returns name -> path of the installed reign tables."""
  return {
    path.stem: path for path in sorted(reigns.reign_table_dir().glob("*.tsv"))
  }
