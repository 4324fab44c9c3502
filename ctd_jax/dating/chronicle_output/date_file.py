"""A chronicle dated: from its file to the files of its dates."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.dating.chronicle_output import (
  dated_chronicle,
  dates_output,
  dates_plot,
  dates_summary,
)


@dataclasses.dataclass(frozen=True)
class ChronicleSource:
  """A chronicle to date, and what is known of it.

  Attributes:
    path: text, as `chronicle_input.read_records` reads it.
    reigns: as `chronicle_input.load_reigns` reads it.
    unit: of `chronicle_input.UNITS`.
    first_year: year of the first record in the common era, as "722 BCE"; None
      if it is not known.
    fixed: corrections, as `fixed_dates.read_fixed_dates` reads them.
  """

  path: pathlib.Path
  reigns: str
  unit: str = chronicle_input.LINE
  first_year: str | None = None
  fixed: pathlib.Path | None = None


def date_file(
  source: ChronicleSource,
  out: pathlib.Path,
  formats: Sequence[str],
  bom: bool,
) -> str:
  """Writes the dates of a chronicle and their figure; returns the summary.

  Args:
    source: the chronicle.
    out: folder to write to.
    formats: of `dates_output.FORMATS`.
    bom: whether CSV begins with the mark of the byte order.

  Raises:
    FileNotFoundError: if there is no such text, table, polity or file.
    ValueError: naming the flag, file and line of what cannot be read or dated.
  """
  dates_output.check_formats(formats, bom)
  read = filter(None, (source.path, source.fixed))
  dates_output.check_folder(out, formats, tuple(read))
  work = chronicle_input.read_chronicle(source.path, source.unit)
  records = chronicle_input.list_records(work)
  calendar = chronicle_input.load_reigns(source.reigns, records)
  try:
    first = source.first_year and reign_tables.parse_common_era_year(
      source.first_year
    )
  except ValueError as error:
    raise ValueError(f"--first_year: {error}") from error
  dated = dated_chronicle.date_records(
    f"--input={source.path}", records, calendar, first, source.fixed
  )
  paths = dates_output.write_dates(dated.rows, out, formats, bom, work.title)
  paths.append(out / "dates.png")
  dates_plot.plot_dates(dated.dates, paths[-1])
  summary = dates_summary.format_summary(
    dated.dates, dated.rows, chronicle_input.summarize_reading(work)
  )
  return f"{summary}\n{'written':<13}{', '.join(map(str, paths))}"
