"""Files of a dated chronicle."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctd_jax.utils import files

if TYPE_CHECKING:
  from ctd_jax.dating.chronicle_output.dated_sections import DatedSection

FORMATS = TSV, CSV, JSONL, TEI = ("tsv", "csv", "jsonl", "tei")
_FILE_NAMES = {
  TSV: "dates.tsv",
  CSV: "dates.csv",
  JSONL: "dates.jsonl",
  TEI: "dates.xml",
}


def check_formats(formats: Sequence[str], bom: bool = False) -> None:
  """Raises an error naming a format that is none, or a mark without a file.

  Args:
    formats: expected to be of `FORMATS`.
    bom: whether CSV is to begin with the mark of the byte order.

  Raises:
    ValueError: if one is not, or the mark has no CSV to stand in.
  """
  for name in formats:
    if name not in FORMATS:
      raise ValueError(
        f"--formats: {name!r} is no format of dates; known: "
        f"{', '.join(FORMATS)}"
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
  """Raises an error if a folder cannot take the dates.

  Args:
    out: folder to write to; it may be missing.
    formats: of `FORMATS`.
    sources: files and folders that are read, and must stay as they are.

  Raises:
    ValueError: if it is a file, has a file of dates that would stay beside the
      new ones, or the sources would be changed.
  """
  if out.exists() and not out.is_dir():
    raise ValueError(f"--out={out}: is a file; name a folder")
  for source in map(pathlib.Path.resolve, sources):
    written = {out.resolve() / _FILE_NAMES[name] for name in formats}
    if source in written:
      raise ValueError(
        f"--out={out}: {source.name} is read and would be written over; name "
        "another folder"
      )
    if source.is_dir() and out.resolve().is_relative_to(source):
      raise ValueError(
        f"--out={out}: lies in the folder of the text, which would be read "
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
      f"leave beside new dates; add {','.join(stale)} to --formats, delete "
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

  Each file is whole or not there.

  Args:
    rows: as `dated_sections.make_rows` or `date_tables.read_dates_jsonl` gives
      them.
    out: folder to write to; made if it is not there.
    formats: of `FORMATS`.
    bom: whether CSV begins with the mark of the byte order, as spreadsheets
      want it.
    title: of the chronicle, for TEI; the names of its files if empty.

  Raises:
    ValueError: as `check_formats`.
  """
  # Here and not above: the command takes its formats from this module for
  # --help, which needs no JAX.
  from ctd_jax.dating.chronicle_output import date_tables, tei_output

  check_formats(formats, bom)
  formatters = {
    TSV: lambda: date_tables.format_dates_tsv(rows),
    CSV: lambda: date_tables.format_dates_csv(rows, bom),
    JSONL: lambda: date_tables.format_dates_jsonl(rows),
    TEI: lambda: tei_output.format_dates_tei(rows, title),
  }
  paths = []
  for name in dict.fromkeys(formats):
    path = out / _FILE_NAMES[name]
    files.write_text(path, formatters[name]())
    paths.append(path)
  return paths
