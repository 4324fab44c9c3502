"""Input of chronicle dating: the records of a text, and calendars."""

from __future__ import annotations

import pathlib

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.sequence import month_calendar
from ctd_jax.dating.sequence.month_calendar import Calendar

LINE, PARAGRAPH = UNITS = ("line", "paragraph")


def read_records(path: pathlib.Path, unit: str) -> list[tuple[int, str]]:
  """Returns (line, text) of every record.

  Args:
    path: UTF-8 text.
    unit: "line", or "paragraph" where blank lines part the records.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file and line of what is not UTF-8, or if all is blank.
  """
  if not path.is_file():
    raise FileNotFoundError(f"--input={path}: no such file")
  content = path.read_bytes()
  try:
    text = content.decode("utf-8-sig")
  except UnicodeDecodeError as error:
    line = content[: error.start].count(b"\n") + 1
    raise ValueError(
      f"--input={path}, line {line}: not UTF-8 (byte "
      f"0x{content[error.start]:02x}); convert the file first"
    ) from None
  records: list[tuple[int, str]] = []
  open_paragraph = False
  # Not splitlines: a text may hold other line separators of Unicode.
  for number, raw in enumerate(text.split("\n"), 1):
    line = raw.strip()
    if line and open_paragraph:
      first, previous_text = records[-1]
      records[-1] = first, previous_text + line
    elif line:
      records.append((number, line))
    open_paragraph = unit == PARAGRAPH and bool(line)
  if not records:
    raise ValueError(
      f"--input={path}: no record; expected one a {unit}, in order of time"
    )
  return records


def load_reigns(name: str) -> Calendar:
  """Returns the calendar that --reigns names.

  Args:
    name: path of a reign table, name of an installed one, or polities whose
      calendars are known: 宋, 遼,宋,金, zh, ja, ko or all.

  Raises:
    FileNotFoundError: naming the installed tables and the nearest polities.
    ValueError: naming file, line and column of what cannot be read.
  """
  path = pathlib.Path(name).expanduser()
  if path.is_file():
    return month_calendar.read_calendar(path)
  installed_tables = list_installed_tables()
  if name in installed_tables:
    return month_calendar.read_calendar(installed_tables[name])
  try:
    return month_calendar.load_calendar(name)
  except ValueError as error:
    raise FileNotFoundError(
      f"--reigns={name}: no such file, no installed table of that name "
      f"({', '.join(installed_tables)}), and {error}"
    ) from None


def list_installed_tables() -> dict[str, pathlib.Path]:
  """Returns name -> path of the installed reign tables."""
  return {
    path.stem: path
    for path in sorted(reign_tables.reign_table_dir().glob("*.tsv"))
  }
