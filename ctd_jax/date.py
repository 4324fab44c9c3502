"""Dates the records of a chronicle from what they print and their order.

  python -m ctd_jax.date --input=chronicle.txt --reigns=table.tsv --out=dated

The chronicle is UTF-8 text, one record a line (or a paragraph, with
--unit=paragraph), in the order of time; headings may be missing. --reigns says
in which calendars it may be dated: polities of China, Japan and Korea from 246
BCE on (--reigns=宋, --reigns=遼,宋,金, --reigns=all), a reign table with the
columns of data/reigns/*.tsv, or an installed one by its name (--reigns=lu).
Written are dates.tsv, a line for each record with its most probable month and
the second best, and dates.png, position in the text against date with the
probability as colour.

Sexagenary days count in every calendar. The days of polities are those of the
tables; of a reign table that begins in 104 BCE or later they are computed; else
the new moons are, and with which of them a year began is found along with the
dates.
"""

from __future__ import annotations

import pathlib

from absl import flags

from ctd_jax.dating.sequence import chronicle_input
from ctd_jax.utils import command_line


def main() -> None:
  """Dates the chronicle of --input."""
  # Here and not above: --help needs no JAX.
  from ctd_jax.dating.sequence import chronicle_dating

  values = flags.FLAGS
  path = pathlib.Path(values.input).expanduser()
  out = pathlib.Path(values.out or f"{path.stem}_dates").expanduser()
  print(
    chronicle_dating.date_file(
      path, values.reigns, out, values.unit, values.first_year
    )
  )


if __name__ == "__main__":
  flags.DEFINE_string(
    "input",
    None,
    "Chronicle as UTF-8 text, records in order of time. Example: "
    "--input=chronicle.txt",
  )
  flags.DEFINE_string(
    "reigns",
    None,
    "Polities whose calendars are known, with commas, zh, ja, ko or all; or a "
    "reign table: a TSV file like those of data/reigns, or the name of an "
    f"installed one ({', '.join(chronicle_input.list_installed_tables())}). "
    "Example: --reigns=宋",
  )
  flags.DEFINE_string(
    "out",
    None,
    "Folder of dates.tsv and dates.png; by default named after the chronicle: "
    "chronicle_dates. Example: --out=dated",
  )
  flags.DEFINE_enum(
    "unit",
    chronicle_input.LINE,
    chronicle_input.UNITS,
    "What a record is: a line, or a paragraph between blank lines. Example: "
    "--unit=paragraph",
  )
  flags.DEFINE_string(
    "first_year",
    None,
    "Year of the first record, if known. Example: --first_year='722 BCE'",
  )
  command_line.run_main(main, required=("input", "reigns"))
