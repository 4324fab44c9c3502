"""Files of a dated chronicle."""

import dataclasses
import pathlib
from collections.abc import Sequence

from ctd_jax.chronology import western_dates
from ctd_jax.dating.chronicle import (
  chronicle_input,
  date_tables,
  dated_sections,
  dates_plot,
  dating_warnings,
  fixed_dates,
  tei_output,
)
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import ChronicleDates
from ctd_jax.dating.chronicle.dated_sections import DatedSection
from ctd_jax.texts import Entry
from ctd_jax.utils import files

FORMATS = TSV, CSV, JSONL, TEI = ("tsv", "csv", "jsonl", "tei")
_FILE_NAMES = {
  TSV: "dates.tsv",
  CSV: "dates.csv",
  JSONL: "dates.jsonl",
  TEI: "dates.xml",
}


def check_formats(formats: Sequence[str], bom: bool = False) -> None:
  """Raises ValueError for an unknown format, or --bom without CSV."""
  for name in formats:
    if name not in FORMATS:
      raise ValueError(
        f"--formats: unknown format {name!r}; known: {', '.join(FORMATS)}"
      )
  if bom and CSV not in formats:
    raise ValueError(
      f"--bom is for CSV, and --formats={','.join(formats)}; add csv to it"
    )


def check_folder(
  out: pathlib.Path,
  formats: Sequence[str],
  sources: Sequence[pathlib.Path] = (),
) -> None:
  """Raises ValueError if dates cannot go to `out` or would harm `sources`."""
  if out.exists() and not out.is_dir():
    raise ValueError(f"--out={out}: is a file; name a folder")
  for source in map(pathlib.Path.resolve, sources):
    written = {out.resolve() / _FILE_NAMES[name] for name in formats}
    if source in written:
      raise ValueError(
        f"--out={out}: {source.name} is an input and would be overwritten; "
        "name another folder"
      )
    if source.is_dir() and out.resolve().is_relative_to(source):
      raise ValueError(
        f"--out={out}: is in the folder of the text, which would be read "
        "with its dates the next time; name another folder"
      )
  stale = [
    name
    for name in FORMATS
    if name not in formats and (out / _FILE_NAMES[name]).exists()
  ]
  if stale:
    names = ", ".join(_FILE_NAMES[name] for name in stale)
    raise ValueError(
      f"--out={out}: has {names}, which --formats={','.join(formats)} would "
      f"leave next to new dates; add {','.join(stale)} to --formats, delete "
      f"{'them' if len(stale) > 1 else 'it'}, or name another folder"
    )


def write_dates(
  rows: Sequence[DatedSection],
  out: pathlib.Path,
  formats: Sequence[str] = (TSV,),
  bom: bool = False,
  title: str = "",
) -> list[pathlib.Path]:
  """Writes a dated chronicle and returns the paths of its files.

  Args:
    rows: rows from `make_rows` or `read_dates_jsonl`.
    bom: whether CSV begins with a byte order mark, for spreadsheets.
    title: title of the chronicle, for TEI; by default the names of its files.
  """
  check_formats(formats, bom)
  formatters = {
    TSV: lambda: date_tables.format_dates_tsv(rows),
    CSV: lambda: date_tables.format_dates_csv(rows, bom),
    JSONL: lambda: date_tables.format_dates_jsonl(rows),
    TEI: lambda: tei_output.format_dates_tei(rows, title),
  }
  paths = {name: out / _FILE_NAMES[name] for name in formats}
  for name, path in paths.items():
    files.write_text(path, formatters[name]())
  return [*paths.values()]


@dataclasses.dataclass(frozen=True)
class ChronicleSource:
  """A chronicle to date, and what is known about it."""

  path: pathlib.Path  # file or folder of the text
  reigns: str  # see `chronicle_input.load_reigns`
  unit: str = chronicle_input.LINE  # of `chronicle_input.UNITS`
  # Year of the first record, such as "722 BCE", if known.
  first_year: str | None = None
  columns: str | None = None  # of a table, see `texts.table`
  fixed: pathlib.Path | None = None  # table of corrections, see `fixed_dates`


def _date_records(
  source: ChronicleSource,
  records: Sequence[Entry],
  calendar: Calendar,
  first_year: int | None,
) -> ChronicleDates:
  """Returns the dates of a chronicle."""
  # Imported here: it brings JAX, which --help must not wait for.
  from ctd_jax.dating.chronicle import chronicle_dating

  sections = chronicle_dating.read_all_sections(records, calendar)
  allowed_months = (
    fixed_dates.read_fixed_dates(source.fixed, records, sections, calendar)
    if source.fixed
    else {}
  )
  try:
    return chronicle_dating.date_sections(
      records, sections, calendar, first_year, allowed_months
    )
  except ValueError as error:
    problems = [
      error,
      *dating_warnings.list_lacking(records, sections, calendar),
      *dating_warnings.suggest_common_era(records),
    ]
    raise ValueError(
      f"--input={source.path}: {'; '.join(map(str, problems))}"
    ) from error


def date_file(
  source: ChronicleSource,
  out: pathlib.Path,
  formats: Sequence[str],
  bom: bool,
) -> str:
  """Writes the dates of a chronicle and their figure; returns a summary.

  Raises:
    FileNotFoundError: if a text, table, polity or file does not exist.
    ValueError: if a file cannot be read or dated; the message names flag, file
      and line.
  """
  check_formats(formats, bom)
  check_folder(out, formats, [*filter(None, (source.path, source.fixed))])
  work = chronicle_input.read_chronicle(
    source.path, source.unit, source.columns
  )
  records = chronicle_input.list_records(work)
  calendar = chronicle_input.load_reigns(source.reigns, records)
  try:
    first = source.first_year and western_dates.parse_year(source.first_year)
  except ValueError as error:
    raise ValueError(f"--first_year: {error}") from error
  dates = _date_records(source, records, calendar, first)
  rows = dated_sections.make_rows(dates)
  paths = write_dates(rows, out, formats, bom, work.title)
  paths.append(out / "dates.png")
  dates_plot.plot_dates(dates, paths[-1])
  summary = date_tables.format_summary(
    dates,
    rows,
    dating_warnings.list_warnings(dates, calendar),
    chronicle_input.summarize_reading(work),
  )
  return f"{summary}\n{'written':<13}{', '.join(map(str, paths))}"
