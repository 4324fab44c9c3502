"""Converts dates of East Asia to Western ones, and back.

  python -m ctd_jax.convert 萬曆十五年三月廿六日 1587-05-03
  python -m ctd_jax.convert --input=table.csv --column=date --out=converted.csv
  python -m ctd_jax.convert --day=1100-03-02
  python -m ctd_jax.convert --year=1587 --calendars=明

A date may have an era or ruler, a state before it, a season, a month, and a day
by number, by the cycle (戊申) or by name (朔, 望, 晦). Western dates are in the
Julian calendar before 15 October 1582.

A date that several eras can mean has a reading for each. Those without
contradictions come first, then those with fewer assumptions, then those of the
calendars in the order of --calendars, then those of the longest-lived state.
Contradictions are a day that the month does not have, an era that had not
begun, and the like.

A table is CSV (with commas or semicolons), TSV, or the first sheet of an XLSX
workbook (extra [xlsx]). The new table is CSV with commas, or TSV. Its rows and
columns stay as they are. New columns, named after the column of dates, follow
them:

  date_name ... date_sexagenary_day   the first reading and its parts
                                      (empty for Western months and years)
  date_not_before, date_not_after     first and last day, Gregorian calendar;
                                      those with _julian: Julian calendar
  date_first_julian_day, date_last_julian_day   the same as numbers
  date_edtf                           the same in EDTF
  date_parallel_names                 its names in other calendars
  date_assumed, date_contradicted     what to check
  date_readings, date_others          how many readings, and the others
  date_unread                         why there is no reading

The exit status is 0, 1 if a date in the arguments cannot be read, 2 for an
error.
"""

import collections
import csv
import io
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from absl import flags

from ctd_jax.chronology import date_readings, sexagenary
from ctd_jax.chronology.date_readings import DateReader, DateReading
from ctd_jax.chronology.numerals import DateError
from ctd_jax.texts import table
from ctd_jax.utils import command_line, files, output
from ctd_jax.utils.notes import Note

UNREAD, ERROR = 1, 2
COLUMNS = (
  "name",
  "polity",
  "ruler",
  "era",
  "year",
  "month",
  "leap_month",
  "day",
  "sexagenary_day",
  "not_before",
  "not_after",
  "not_before_julian",
  "not_after_julian",
  "first_julian_day",
  "last_julian_day",
  "edtf",
  "parallel_names",
  "assumed",
  "contradicted",
  "readings",
  "others",
  "unread",
)


def main(arguments: Sequence[str]) -> int:
  """Converts the dates of the arguments or a table; returns the exit status."""
  values = flags.FLAGS
  asked = [bool(arguments)] + [
    values[name].value is not None for name in ("input", "day", "year")
  ]
  if sum(asked) != 1:
    raise ValueError(
      "give dates, such as 萬曆十五年三月廿六日, or one of --input, --day and "
      "--year"
    )
  if values.input is None and (values.column or values.out):
    raise ValueError("--column and --out belong to --input")
  reader = date_readings.load_reader(",".join(values.calendars))
  if values.input is not None:
    path = pathlib.Path(values.input).expanduser()
    suffix = ".tsv" if path.suffix.lower() == ".tsv" else ".csv"
    out = values.out or f"{path.stem}_converted{suffix}"
    print(
      convert_table(
        path, values.column or "date", pathlib.Path(out).expanduser(), reader
      )
    )
    return 0
  if values.day is not None:
    readings = reader.read(values.day)
    if readings[0].first_day != readings[0].last_day:
      raise ValueError(f"--day={values.day}: not a day")
    return _print(readings[:1], values.json)
  if values.year is not None:
    months = reader.list_months(values.year)
    if values.json:
      return _print([month for month, _ in months], True)
    print(format_months(months), end="")
    return 0
  status = 0
  for number, text in enumerate(arguments):
    if number and not values.json:
      print()
    try:
      status |= _print(reader.read(text), values.json)
    except DateError as error:
      status = UNREAD
      if values.json:
        note = _explain(error)
        print(json.dumps({"text": text, "unread": note}, ensure_ascii=False))
      else:
        print(f"{text}: {error.problem}")
  return status


def _explain(error: DateError) -> object:
  problem = error.problem
  return problem.to_json() if isinstance(problem, Note) else problem


def _print(readings: Sequence[DateReading], as_json: bool) -> int:
  for reading in readings:
    if as_json:
      print(json.dumps(reading.to_dict(), ensure_ascii=False))
    else:
      print(format_reading(reading))
  return 0


def format_reading(reading: DateReading) -> str:
  """Returns a reading as lines of text."""
  spans = {
    "Gregorian": reading.gregorian,
    "Julian": reading.julian,
    "day": (str(reading.first_day), str(reading.last_day)),
  }
  days = [f"{key} {'/'.join(dict.fromkeys(it))}" for key, it in spans.items()]
  lines = [f"{reading.name} {reading.cyclic_day}".strip(), "  ".join(days)]
  lines += reading.parallel_names
  lines += [f"assumed: {note}" for note in reading.assumptions]
  lines += [f"contradiction: {note}" for note in reading.contradictions]
  return "\n  ".join(lines)


def format_months(
  months: Iterable[tuple[DateReading, Sequence[str]]],
) -> str:
  """Returns the table of the months of a year, each with its names."""
  rows = [
    (
      f"{month.month}{'L' * month.is_leap}",
      month.last_day - month.first_day + 1,
      sexagenary.format_cyclic_index(
        sexagenary.cyclic_index_of_day(month.first_day)
      ),
      month.gregorian[0],
      month.julian[0],
      month.first_day,
      "; ".join(names),
    )
    for month, names in months
  ]
  header = ("month", "days", "cycle", "Gregorian", "Julian", "day", "names")
  return output.format_table("", header, rows, right=(0, 1))


def convert_table(
  path: pathlib.Path, column: str, out: pathlib.Path, reader: DateReader
) -> str:
  """Converts a column of a table into a new table; returns what was done.

  Raises:
    FileNotFoundError: if there is no such table.
    ValueError: if it cannot be read, or lacks the column; nothing is written.
  """
  suffix = path.suffix.lower()
  if suffix not in table.TABLE_SUFFIXES:
    raise ValueError(
      f"{path}: expected a table that ends in {', '.join(table.TABLE_SUFFIXES)}"
    )
  if out.suffix.lower() == table.WORKBOOK_SUFFIX:
    raise ValueError(f"--out={out}: the new table is CSV or TSV")
  if out.exists() and out.samefile(path):
    raise ValueError(f"--out={out} is the input; choose another file")
  counts = collections.Counter()
  try:
    if suffix == table.WORKBOOK_SUFFIX:
      text = table.read_workbook(path)
      mark = output.BYTE_ORDER_MARK * (out.suffix.lower() != ".tsv")
    else:
      with path.open(encoding="utf-8", newline="") as file:
        text = file.read()
      mark = text[:1] * text.startswith(output.BYTE_ORDER_MARK)
    text = text.removeprefix(mark)
    delimiter = table.find_separator(text)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    with (
      files.atomic_path(out) as temporary,
      temporary.open("w", encoding="utf-8", newline="") as target,
    ):
      target.write(mark)
      writer = csv.writer(
        target,
        delimiter="\t" if out.suffix.lower() == ".tsv" else ",",
        lineterminator="\n",
      )
      writer.writerows(_convert_rows(path, rows, column, reader, counts))
  except UnicodeDecodeError:
    raise ValueError(f"{path}: not UTF-8; save the table as UTF-8") from None
  except csv.Error as error:
    raise ValueError(f"{path}: {error}") from None
  return (
    f"{counts['rows'] - counts['unread']:,} of {counts['rows']:,} dates read, "
    f"{counts['several']:,} of them with several readings and "
    f"{counts['contradicted']:,} with contradictions; {counts['unread']:,} "
    f"unread: {out}"
  )


def _convert_rows(
  path: pathlib.Path,
  rows: Iterable[list[str]],
  column: str,
  reader: DateReader,
  counts: collections.Counter,
) -> Iterator[list[str]]:
  """Yields the rows of a table with those of the readings; counts them."""
  header = next(iter(rows), [])
  if not header:
    raise ValueError(f"{path}: the table is empty; expected a row of names")
  new_columns = [f"{column}_{name}" for name in COLUMNS]
  taken = [name for name in new_columns if name in header]
  if header.count(column) != 1:
    raise ValueError(
      f"{path}:1: --column={column}: expected one of {', '.join(header)}"
    )
  if taken:
    raise ValueError(f"{path}:1: the table has a column {taken[0]} already")
  index = header.index(column)
  yield [*header, *new_columns]
  known: dict[str, tuple[list[str], list[str]]] = {}
  for cells in rows:
    if not cells:  # an empty line stays
      yield cells
      continue
    if len(cells) > len(header):
      raise ValueError(
        f"{path}:{rows.line_num}: expected {len(header)} columns; quote cells "
        "that hold the separator"
      )
    cells += [""] * (len(header) - len(cells))
    text = cells[index]
    if text not in known:
      known[text] = _convert_cell(text, reader)
    new_cells, kinds = known[text]
    counts.update(("rows", *kinds))
    yield cells + new_cells


def _convert_cell(text: str, reader: DateReader) -> tuple[list[str], list[str]]:
  """Returns the new cells of a date, and what is counted of it."""
  try:
    readings = reader.read(text)
  except DateError as error:
    cells = dict.fromkeys(COLUMNS, "") | {"unread": str(error.problem)}
    return list(cells.values()), ["unread"]
  first, *others = readings
  # A Western year has parts of two years of an era; its name has both ends.
  parts = (first.ruler, first.era, first.year)
  cells = (
    first.name,
    first.polity,
    *(parts if first.day or first.month or first._months else [""] * 3),
    first.month or "",
    int(first.is_leap) if first.month else "",
    first.day or "",
    first.cyclic_day,
    *first.gregorian,
    *first.julian,
    first.first_day,
    first.last_day,
    first.edtf,
    "; ".join(first.parallel_names),
    "; ".join(map(str, first.assumptions)),
    "; ".join(map(str, first.contradictions)),
    len(readings),
    "; ".join(f"{other.name} ({other.edtf})" for other in others),
    "",
  )
  kinds = ["several"] * bool(others)
  kinds += ["contradicted"] * bool(first.contradictions)
  return list(map(str, cells)), kinds


if __name__ == "__main__":
  flags.DEFINE_string(
    "input",
    None,
    "Table to convert: CSV, TSV or XLSX. Example: --input=table.csv",
  )
  flags.DEFINE_string(
    "column",
    None,
    "Column of the dates. Default: date. Example: --column=when",
  )
  flags.DEFINE_string(
    "out",
    None,
    "New table. Default: named after the input, such as table_converted.csv. "
    "Example: --out=converted.csv",
  )
  flags.DEFINE_list(
    "calendars",
    ["all"],
    "Polities (明), countries (zh, ja, ko, vi) or all; readings of the first "
    "are preferred. Example: --calendars=zh,ja",
  )
  flags.DEFINE_string(
    "day",
    None,
    "Print a day in all calendars. Example: --day=1100-03-02",
  )
  flags.DEFINE_string(
    "year",
    None,
    "Print the months of a lunar year: that which begins in a Western year, or "
    "a year of an era. Example: --year=1587",
  )
  flags.DEFINE_bool(
    "json", False, "Print a JSON object for each reading. Example: --json"
  )
  command_line.run_main(
    main, required=(), takes_arguments=True, error_status=ERROR
  )
