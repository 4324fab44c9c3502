"""Chronicle dating: from the lines of a text to dated records and their files.

Axes: K months, S offsets of the calendar.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.experts import days
from ctd_jax.dating.sequence import (
  chronicle_dates,
  chronicle_input,
  dates_plot,
  decoder,
  sections,
  transitions,
)
from ctd_jax.dating.sequence.chronicle_dates import ChronicleDates
from ctd_jax.dating.sequence.emissions import RecordEmissions
from ctd_jax.dating.sequence.month_calendar import Calendar
from ctd_jax.utils import files

# Rounds of dating, each with the transitions that the one before it showed.
NUM_ROUNDS = 2


def date_file(
  path: pathlib.Path,
  reigns: str,
  out: pathlib.Path,
  unit: str = chronicle_input.LINE,
  first_year: str | None = None,
) -> str:
  """Writes dates.tsv and dates.png of a chronicle and returns the summary.

  Args:
    path: UTF-8 text, records in order of time.
    reigns: as `chronicle_input.load_reigns` reads it.
    out: folder to write to.
    unit: of `chronicle_input.UNITS`.
    first_year: year of the first record in the common era, as "722 BCE"; None
      if it is not known.

  Raises:
    FileNotFoundError: if there is no such text, table or polity.
    ValueError: naming the flag, file and line of what cannot be read or dated.
  """
  if out.exists() and not out.is_dir():
    raise ValueError(f"--out={out}: is a file; name a folder")
  records = chronicle_input.read_records(path, unit)
  calendar = chronicle_input.load_reigns(reigns)
  try:
    first = first_year and reign_tables.parse_common_era_year(first_year)
  except ValueError as error:
    raise ValueError(f"--first_year: {error}") from error
  try:
    dates = date_records(
      [(entry.place.line, entry.text) for entry in records], calendar, first
    )
  except ValueError as error:
    raise ValueError(f"--input={path}: {error}") from error
  table_path, plot_path = out / "dates.tsv", out / "dates.png"
  files.write_text(table_path, chronicle_dates.format_dates_tsv(dates))
  dates_plot.plot_dates(dates, plot_path)
  summary = chronicle_dates.format_summary(dates, calendar.timeline.name)
  return f"{summary}\n{'written':<11} {table_path}, {plot_path}"


def date_records(
  records: Sequence[tuple[int, str]],
  calendar: Calendar,
  first_year: int | None = None,
) -> ChronicleDates:
  """Returns the months of the records.

  Args:
    records: (line, text) in order.
    calendar: months that they can stand in.
    first_year: astronomical year of the first record, None if not known.

  Raises:
    ValueError: if no record prints anything of its date, or the calendar lacks
      the year.
  """
  all_sections = [
    section
    for number, (_, text) in enumerate(records)
    for section in sections.read_sections(number, text, calendar)
  ]
  record_emissions = RecordEmissions(all_sections, calendar)
  if not record_emissions.statement_counts:
    raise ValueError(
      "no record prints a month, season, day or regnal year; without any "
      "there is nothing to date by"
    )
  decoded_months = decode_sections(record_emissions, calendar, first_year)
  return ChronicleDates(
    [line for line, _ in records],
    [text for _, text in records],
    decoded_months.months[record_emissions.first_sections],
    decoded_months.probabilities[record_emissions.first_sections],
    calendar,
    dict(record_emissions.statement_counts),
    _find_printed_reigns(all_sections, calendar),
  )


def _find_printed_reigns(
  all_sections: Sequence[sections.Section], calendar: Calendar
) -> frozenset[int]:
  """Returns the rows of the reigns that sections name."""
  names = {
    values[0]
    for section in all_sections
    for name, *values in section.statements
    if name in ("year", "era")
  }
  return frozenset(
    row
    for row, reign in enumerate(calendar.timeline.reigns)
    if reign.name in names
  )


def decode_sections(
  emissions: RecordEmissions,
  calendar: Calendar,
  first_year: int | None = None,
) -> decoder.DecodedMonths:
  """Returns the months of the sections, the transitions learned on the way.

  Args:
    emissions: of the sections in order.
    calendar: that the emissions were made for.
    first_year: as of `date_records`.

  Raises:
    ValueError: if the calendar lacks the year.
  """
  prior = _make_first_month_prior(emissions, calendar, first_year)
  boundary = transitions.find_boundaries(calendar.years, calendar.months)
  prior_model = transitions.TransitionModel()
  log_transitions = transitions.make_transitions(
    prior_model, boundary, emissions.offset_transition
  )
  for _ in range(NUM_ROUNDS):
    path = decoder.find_best_path(
      emissions, emissions.kinds, log_transitions, prior
    )
    fitted_model = transitions.fit_transition_model(
      prior_model, path, emissions.kinds, boundary
    )
    log_transitions = transitions.make_transitions(
      fitted_model, boundary, emissions.offset_transition
    )
  return decoder.decode_months(
    emissions, emissions.kinds, log_transitions, calendar.years, prior
  )


def _make_first_month_prior(
  emissions: RecordEmissions, calendar: Calendar, first_year: int | None
) -> np.ndarray:
  """Returns log weights of the first month [K], or with its offset [S, K]."""
  prior = np.zeros(len(calendar))
  if first_year is not None:
    if first_year not in calendar.years:
      era_year = reign_tables.format_common_era_year(first_year)
      raise ValueError(
        f"the first year {era_year} is not in the reign table: "
        f"{chronicle_dates.format_span(calendar.years)}"
      )
    prior = np.where(calendar.years == first_year, 0.0, -np.inf)
  if emissions.offset_transition is not None:
    prior = np.log(days.make_offset_prior())[:, None] + prior
  return prior
