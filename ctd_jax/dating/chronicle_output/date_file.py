"""A chronicle dated: from its file to the files of its dates."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  contradictions,
  dating_warnings,
  fixed_dates,
  section_days,
)
from ctd_jax.dating.chronicle_output import (
  dated_sections,
  dates_output,
  dates_plot,
  dates_summary,
)


def date_file(
  path: pathlib.Path,
  reigns: str,
  out: pathlib.Path,
  unit: str = chronicle_input.LINE,
  first_year: str | None = None,
  fixed: pathlib.Path | None = None,
  formats: Sequence[str] = (dates_output.TSV,),
  bom: bool = False,
) -> str:
  """Writes the dates of a chronicle and their figure; returns the summary.

  Args:
    path: text, as `chronicle_input.read_records` reads it.
    reigns: as `chronicle_input.load_reigns` reads it.
    out: folder to write to.
    unit: of `chronicle_input.UNITS`.
    first_year: year of the first record in the common era, as "722 BCE"; None
      if it is not known.
    fixed: corrections, as `fixed_dates.read_fixed_dates` reads them.
    formats: of `dates_output.FORMATS`.
    bom: whether CSV begins with the mark of the byte order.

  Raises:
    FileNotFoundError: if there is no such text, table, polity or file.
    ValueError: naming the flag, file and line of what cannot be read or dated.
  """
  dates_output.check_formats(formats, bom)
  sources = filter(None, (path, fixed))
  dates_output.check_folder(out, formats, tuple(sources))
  work = chronicle_input.read_chronicle(path, unit)
  records = chronicle_input.list_records(work)
  calendar = chronicle_input.load_reigns(reigns, records)
  try:
    first = first_year and reign_tables.parse_common_era_year(first_year)
  except ValueError as error:
    raise ValueError(f"--first_year: {error}") from error
  all_sections = chronicle_dating.read_all_sections(records, calendar)
  allowed_months = (
    fixed_dates.read_fixed_dates(fixed, records, all_sections, calendar)
    if fixed
    else {}
  )
  warnings = dating_warnings.list_unknown_eras(records, calendar)
  warnings += dating_warnings.list_missing_dates(
    all_sections, records, calendar
  )
  try:
    dates = chronicle_dating.date_sections(
      records, all_sections, calendar, first, allowed_months
    )
  except ValueError as error:
    message = "; ".join(
      [str(error), *warnings, *dating_warnings.suggest_common_era(records)]
    )
    raise ValueError(f"--input={path}: {message}") from error
  section_days_of = section_days.locate_sections(dates)
  contradicted = contradictions.find_contradictions(dates, section_days_of)
  warnings += dating_warnings.warn_of_contradictions(contradicted, all_sections)
  warnings += dating_warnings.warn_of_doubt(dates)
  dates = dataclasses.replace(dates, warnings=warnings)
  rows = dated_sections.make_rows(dates, section_days_of, contradicted)
  paths = dates_output.write_dates(rows, out, formats, bom, work.title)
  paths.append(out / "dates.png")
  dates_plot.plot_dates(dates, paths[-1])
  summary = dates_summary.format_summary(
    dates, rows, chronicle_input.summarize_reading(work)
  )
  return f"{summary}\n{'written':<13}{', '.join(map(str, paths))}"
