"""Input of chronicle dating: the records of a text, and reign tables."""

from __future__ import annotations

import pathlib

from ctd_jax.chronology import reign_tables

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


def find_reign_table(name: str) -> pathlib.Path:
  """Returns the path of a reign table, a file or one of the installed.

  Raises:
    FileNotFoundError: naming those that are installed.
  """
  path = pathlib.Path(name).expanduser()
  if path.is_file():
    return path
  installed_tables = list_installed_tables()
  if name not in installed_tables:
    raise FileNotFoundError(
      f"--reigns={name}: no such file, and no installed table of that name; "
      f"installed: {', '.join(installed_tables)}"
    )
  return installed_tables[name]


def list_installed_tables() -> dict[str, pathlib.Path]:
  """Returns name -> path of the installed reign tables."""
  return {
    path.stem: path
    for path in sorted(reign_tables.reign_table_dir().glob("*.tsv"))
  }
