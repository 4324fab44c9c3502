"""A chronicle with its dates, as every output of it has them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  contradictions,
  dating_warnings,
  fixed_dates,
  section_days,
)
from ctd_jax.dating.chronicle.chronicle_dates import ChronicleDates
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle_output import dated_sections
from ctd_jax.dating.chronicle_output.dated_sections import DatedSection
from ctd_jax.texts import Entry


@dataclasses.dataclass(frozen=True)
class DatedChronicle:
  """Dates of the sections of a chronicle.

  Attributes:
    dates: with the warnings of reading and dating.
    rows: what is written of each section.
  """

  dates: ChronicleDates
  rows: list[DatedSection]


def date_records(
  name: str,
  records: Sequence[Entry],
  calendar: Calendar,
  first_year: int | None = None,
  fixed: pathlib.Path | None = None,
) -> DatedChronicle:
  """Returns the dates of a chronicle.

  Args:
    name: that errors of dating begin with.
    records: text and headings, in order; see `chronicle_input.list_records`.
    calendar: that it counts in.
    first_year: of the first record, astronomical; None if it is not known.
    fixed: corrections, as `fixed_dates.read_fixed_dates` reads them.

  Raises:
    FileNotFoundError: if there is no such file of corrections.
    ValueError: naming its line that cannot be read; or saying why the records
      cannot be dated.
  """
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
      records, all_sections, calendar, first_year, allowed_months
    )
  except ValueError as error:
    suggestions = dating_warnings.suggest_common_era(records)
    message = "; ".join(map(str, [error, *warnings, *suggestions]))
    raise ValueError(f"{name}: {message}") from error
  days = section_days.locate_sections(dates)
  contradicted = contradictions.find_contradictions(dates, days)
  warnings += dating_warnings.warn_of_contradictions(contradicted, all_sections)
  warnings += dating_warnings.warn_of_doubt(dates)
  return DatedChronicle(
    dataclasses.replace(dates, warnings=warnings),
    dated_sections.make_rows(dates, days, contradicted),
  )
