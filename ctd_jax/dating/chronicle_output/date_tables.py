"""Tables of a dated chronicle: TSV, CSV and JSON Lines, a row for each section.

`dates.tsv` has nothing quoted: what would end a cell or a line in a text is a
space there. `dates.csv` quotes, and `dates.jsonl` has all fields of
`DatedSection` in one flat object, numbers as numbers.
"""

from __future__ import annotations

import calendar
import os
import re
from collections.abc import Iterable

import msgspec

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle import western_calendar
from ctd_jax.dating.chronicle_output.dated_sections import (
  DatedSection,
  NamedMonth,
)
from ctd_jax.utils import files, tables

COLUMNS = (
  "file",
  "line",
  "record",
  "start",
  "stop",
  "heading",
  "printed",
  "reign",
  "year",
  "month",
  "leap_month",
  "common_era_year",
  "common_era",
  "precision",
  "not_before",
  "not_after",
  "not_before_julian",
  "not_after_julian",
  "first_julian_day",
  "last_julian_day",
  "sexagenary_day",
  "julian_day",
  "gregorian_date",
  "julian_date",
  "edtf",
  "probability",
  "second",
  "second_probability",
  "outside",
  "fixed",
  "contradicted",
  "text",
)
_WESTERN_ERAS = (
  western_calendar.COMMON_ERA,
  western_calendar.BEFORE_COMMON_ERA,
)
_BYTE_ORDER_MARK = "\ufeff"
# Whatever some reader of lines takes for the end of one, and the tab.
_SEPARATORS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


def format_dates_tsv(rows: Iterable[DatedSection]) -> str:
  """Returns a table of `COLUMNS`, tab-separated, nothing quoted."""
  lines = (
    [_SEPARATORS.sub(" ", cell) for cell in _list_cells(row)] for row in rows
  )
  return tables.format_delimited(COLUMNS, lines, quoted=False)


def format_dates_csv(rows: Iterable[DatedSection], bom: bool = False) -> str:
  """Returns a table of `COLUMNS`, comma-separated, quoted where need be.

  Args:
    rows: of the sections.
    bom: whether to begin with the mark of the byte order, by which spreadsheets
      recognise UTF-8.
  """
  table = tables.format_delimited(COLUMNS, map(_list_cells, rows), ",")
  return _BYTE_ORDER_MARK * bom + table


def format_dates_jsonl(rows: Iterable[DatedSection]) -> str:
  """Returns an object for each section, a line each."""
  # JSON escapes \n; U+2028 and the like end no line of a file.
  encoder = msgspec.json.Encoder()
  return "".join(
    encoder.encode(row.to_object()).decode() + "\n" for row in rows
  )


def read_dates_jsonl(path: str | os.PathLike) -> list[DatedSection]:
  """Returns the rows of a file that `format_dates_jsonl` made.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file and line of what is no dated section.
  """
  decoder = msgspec.json.Decoder(dict)
  rows = []
  for line, text in enumerate(files.read_text(path).split("\n"), start=1):
    if not text.strip():
      continue
    try:
      rows.append(DatedSection.from_object(decoder.decode(text)))
    except msgspec.MsgspecError as error:
      raise ValueError(
        f"{path}, line {line}: {error}; expected a section as "
        "`ctd-jax date` writes it to dates.jsonl"
      ) from error
  return rows


def format_month(month: NamedMonth | None) -> str:
  """Returns a month as people write it: 晉懷帝永嘉5年6L月, March 787 CE.

  "" for none.
  """
  if month is None:
    return ""
  if month.reign in _WESTERN_ERAS:
    era_year = reign_tables.format_common_era_year(month.common_era_year)
    return f"{calendar.month_name[month.month]} {era_year}"
  return f"{month.reign}{month.year}年{month.month}{'L' * month.is_leap}月"


def _list_cells(row: DatedSection) -> list[str]:
  """Returns the cells of `COLUMNS`."""
  place, months = row.place, row.months
  month = months.month
  cells = (
    *(place.file, place.line, place.record, place.start, place.stop),
    *(int(row.is_heading), row.printed),
    *(
      (None,) * 5
      if month is None
      else (
        *(month.reign, month.year, month.month, int(month.is_leap)),
        month.common_era_year,
      )
    ),
    months.common_era,
    *row.dates.list_fields().values(),
    *(_format_chance(months.probability), format_month(months.second)),
    *(months.second and _format_chance(months.second.probability),),
    *(_format_chance(months.outside), int(row.is_fixed)),
    *("; ".join(row.contradicted), row.text),
  )
  return ["" if cell is None else str(cell) for cell in cells]


def _format_chance(chance: float | None) -> str:
  return "" if chance is None else f"{chance:.4f}"
