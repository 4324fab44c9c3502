"""Dates a chronicle from what it prints and the order in which it does.

  python -m ctd_jax.date --input=chronicle.txt --reigns=宋 --out=dated

--input is a text or a folder with one: plain text, a record a line (or a
paragraph, with --unit=paragraph), Markdown, TEI, or a Kanripo text; headings
may be missing. A record that prints several dates is cut into sections, each
with a date of its own. --reigns says in which calendars: polities of China,
Japan and Korea from 246 BCE on (--reigns=宋, --reigns=遼,宋,金, or all), a
reign table with the columns of data/reigns/*.tsv, or an installed one by its
name (--reigns=lu). --reigns=CE, or CE:700-1160, is for annals in English or
Latin.

Written are the dates of all sections, as --formats say, a row for each; and
dates.png, position in the text against date with the probability as colour. A
folder with dates in other formats is refused. Of the columns

  reign, year, month, leap_month   the most probable month; leap_month is 1 if
                                   it is the one after the month of this number
  probability                      of that month; read it alone from 0.9 on
  precision                        day, month, season, year or interval: the
                                   smallest that holds what is probable
  not_before, not_after            its first and last day, Gregorian calendar;
                                   not_before_julian, not_after_julian likewise
  first_julian_day, last_julian_day   the same as numbers, which sort
  sexagenary_day, julian_day, gregorian_date, julian_date
                                   the day, where the text prints it
  common_era_year                  astronomical, -721 for 722 BCE

The others are in docs/tutorials/chronicle.md. Corrections go into a table for
--fixed: the next dating keeps them and moves what stands around them.

Sexagenary days count in every calendar. The days of polities are those of the
tables; of a reign table that begins in 104 BCE or later they are computed; else
the new moons are, and with which of them a year began is found along with the
dates.
"""

from __future__ import annotations

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
    "Chronicle, a file or a folder of UTF-8 text. Example: "
    "--input=chronicle.txt",
  )
  flags.DEFINE_string(
    "reigns",
    None,
    "Polities whose calendars are known, with commas, zh, ja, ko or all; CE, "
    "or CE:700-1160, for annals of the common era; or a reign table: a TSV "
    "file like those of data/reigns, or the name of an "
    f"installed one ({', '.join(chronicle_input.list_installed_tables())}). "
    "Example: --reigns=宋",
  )
  flags.DEFINE_string(
    "out",
    None,
    "Folder of the dates and dates.png; by default named after the chronicle: "
    "chronicle_dates. Example: --out=dated",
  )
  flags.DEFINE_enum(
    "unit",
    chronicle_input.LINE,
    chronicle_input.UNITS,
    "What a record of plain text is: a line, or a paragraph between blank "
    "lines. Example: "
    "--unit=paragraph",
  )
  flags.DEFINE_string(
    "first_year",
    None,
    "Year of the first record, if known. Example: --first_year='722 BCE'",
  )
  flags.DEFINE_string(
    "fixed",
    None,
    "Corrections that dating keeps: a table with the columns record or line, "
    "span and date. Example: --fixed=fixed.tsv",
  )
  flags.DEFINE_list(
    "formats",
    [output.TSV],
    f"What the dates are written as, of {', '.join(output.FORMATS)}. "
    "Example: --formats=csv,tei",
  )
  flags.DEFINE_bool(
    "bom",
    False,
    "Whether CSV begins with the mark of the byte order, which some "
    "spreadsheets need. Example: --formats=csv --bom",
  )
  command_line.run_main(main, required=("input", "reigns"))
