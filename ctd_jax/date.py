"""Dates a chronicle from the dates it prints and the order of its records.

  python -m ctd_jax.date --input=chronicle.txt --reigns=宋 --out=dated

--input is a text or a folder that holds one: plain text (one record per line,
or per paragraph with --unit=paragraph), Markdown, TEI, Kanripo or a table (CSV,
TSV or XLSX with the columns text, date and id; see --columns). Headings are
optional. A record with several dates is split into sections, each with its own
date. --reigns names the calendars: polities of China, Japan, Korea and Vietnam
from 246 BCE on (宋; 遼,宋,金; all), a reign table such as data/reigns/*.tsv, or
an installed one (lu). Use --reigns=CE or CE:700-1160 for annals in English or
Latin.

The output has one row per section, in the --formats you choose, and dates.png,
a plot of the dates along the text. Files of these formats are overwritten; a
folder with dates in other formats is refused, since they would come from
another run. The main columns are

  reign, year, month, leap_month   the most probable month; leap_month is 1 for
                                   the leap month that follows this month
  probability                      of that month; rely on it from 0.9 up
  precision                        day, month, season, year or interval: the
                                   shortest that covers the probable months
  not_before, not_after            first and last day, Gregorian calendar;
                                   not_before_julian, not_after_julian: Julian
  first_julian_day, last_julian_day   the same as numbers, for sorting
  day_of_month, sexagenary_day, julian_day, gregorian_date, julian_date
                                   the day, if the text prints it
  astronomical_year                -721 is 722 BCE

docs/tutorials/chronicle.md explains the others. Put corrections into a table
for --fixed: the next run keeps them and adjusts the records around them.

Sexagenary days are used with every calendar. For polities they come from
tables. For a reign table that begins in 104 BCE or later they are computed. For
earlier ones the new moons are computed, and the start of the year is estimated
together with the dates.
"""

import pathlib

from absl import flags

from ctd_jax.dating.chronicle import chronicle_input, output
from ctd_jax.utils import command_line


def main() -> None:
  """Dates the chronicle of --input."""
  values = flags.FLAGS
  path = pathlib.Path(values.input).expanduser()
  out = pathlib.Path(values.out or f"{path.stem}_dates").expanduser()
  print(
    output.date_file(
      output.ChronicleSource(
        path,
        values.reigns,
        values.unit,
        values.first_year,
        values.columns,
        pathlib.Path(values.fixed).expanduser() if values.fixed else None,
      ),
      out,
      values.formats,
      values.bom,
    )
  )


if __name__ == "__main__":
  flags.DEFINE_string(
    "input",
    None,
    "Chronicle to date: a UTF-8 file or a folder. "
    "Example: --input=chronicle.txt",
  )
  flags.DEFINE_string(
    "reigns",
    None,
    "Calendars of the text: polities separated by commas, or zh, ja, ko, vi or "
    "all; CE or CE:700-1160 for annals of the common era; or a reign table, a "
    "TSV file like those in data/reigns or an installed one "
    f"({', '.join(chronicle_input.list_installed_tables())}). "
    "Example: --reigns=宋",
  )
  flags.DEFINE_string(
    "out",
    None,
    "Output folder. Default: named after the input, such as chronicle_dates. "
    "Example: --out=dated",
  )
  flags.DEFINE_enum(
    "unit",
    chronicle_input.LINE,
    chronicle_input.UNITS,
    "What counts as a record in plain text: a line, or a paragraph between "
    "blank lines. Example: --unit=paragraph",
  )
  chronicle_input.define_columns_flag()
  flags.DEFINE_string(
    "first_year",
    None,
    "Year of the first record, if you know it. Example: --first_year='722 BCE'",
  )
  flags.DEFINE_string(
    "fixed",
    None,
    "Table of known dates to keep, with the columns record (or line), span and "
    "date. Example: --fixed=fixed.tsv",
  )
  flags.DEFINE_list(
    "formats",
    [output.TSV],
    f"Output formats: {', '.join(output.FORMATS)}. Example: --formats=csv,tei",
  )
  flags.DEFINE_bool(
    "bom",
    False,
    "Start CSV files with a byte order mark, which some spreadsheet programs "
    "need. Example: --formats=csv --bom",
  )
  command_line.run_main(main, required=("input", "reigns"))
