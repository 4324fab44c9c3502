"""Chronicle dating: from the lines of a text to dated records and their files.

Axes: K months, P places (see `transitions`), S offsets of the calendar.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.experts import days
from ctd_jax.dating.sequence import (
  calendar_narrowing,
  chronicle_dates,
  chronicle_input,
  contradictions,
  dated_sections,
  dated_units,
  dates_output,
  dates_plot,
  dates_summary,
  dating_warnings,
  decoder,
  fixed_dates,
  section_days,
  sections,
  transitions,
  western_calendar,
)
from ctd_jax.dating.sequence.chronicle_dates import (
  ChronicleDates,
  CredibleMonths,
)
from ctd_jax.dating.sequence.emissions import SectionEmissions
from ctd_jax.dating.sequence.month_calendar import Calendar
from ctd_jax.dating.sequence.sections import Section
from ctd_jax.texts.works import Entry

# Rounds of learning at most; they end where the path stays the same.
MAX_ROUNDS = 4
_MAX_CHANGED = 0.01  # share of sections
# That a text begins outside of the calendar.
_FIRST_OUTSIDE = 0.02


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
  if out.exists() and not out.is_dir():
    raise ValueError(f"--out={out}: is a file; name a folder")
  work = chronicle_input.read_chronicle(path, unit)
  records = chronicle_input.list_records(work)
  calendar = chronicle_input.load_reigns(reigns, records)
  try:
    first = first_year and reign_tables.parse_common_era_year(first_year)
  except ValueError as error:
    raise ValueError(f"--first_year: {error}") from error
  all_sections = read_all_sections(records, calendar)
  allowed_months = (
    fixed_dates.read_fixed_dates(fixed, records, all_sections, calendar)
    if fixed
    else {}
  )
  warnings = dating_warnings.list_unknown_eras(records, calendar)
  try:
    dates = date_sections(
      records, all_sections, calendar, first, allowed_months
    )
  except ValueError as error:
    message = "; ".join([str(error), *warnings])
    raise ValueError(f"--input={path}: {message}") from error
  section_days_of = section_days.locate_sections(dates)
  contradicted = contradictions.find_contradictions(dates, section_days_of)
  warnings += dating_warnings.warn_of_contradictions(contradicted, all_sections)
  dates = dataclasses.replace(dates, warnings=warnings)
  rows = dated_sections.make_rows(dates, section_days_of, contradicted)
  paths = dates_output.write_dates(rows, out, formats, bom, work.title)
  paths.append(out / "dates.png")
  dates_plot.plot_dates(dates, paths[-1])
  summary = dates_summary.format_summary(
    dates, rows, chronicle_input.summarize_reading(work)
  )
  return f"{summary}\n{'written':<13}{', '.join(map(str, paths))}"


def date_records(
  records: Sequence[Entry],
  calendar: Calendar,
  first_year: int | None = None,
) -> ChronicleDates:
  """Returns the months of the records' sections.

  Args:
    records: in order of the text.
    calendar: months that they can stand in.
    first_year: astronomical year of the first record, None if not known.

  Raises:
    ValueError: as of `date_sections`.
  """
  return date_sections(
    records, read_all_sections(records, calendar), calendar, first_year
  )


def date_sections(
  records: Sequence[Entry],
  all_sections: Sequence[Section],
  calendar: Calendar,
  first_year: int | None = None,
  allowed_months: Mapping[int, Bool[np.ndarray, " K"]] | None = None,
) -> ChronicleDates:
  """Returns the months of sections.

  Args:
    records: in order of the text.
    all_sections: of the records, from `read_all_sections`.
    calendar: months that they can stand in; that of the result has but the
      months that they may stand in, if it is long.
    first_year: astronomical year of the first record, None if not known.
    allowed_months: number of a section -> the months that it is of, known from
      elsewhere (`fixed_dates`).

  Raises:
    ValueError: if no record prints anything of its date, or the calendar lacks
      the year.
  """
  is_fixed = np.zeros(len(all_sections), bool)
  is_fixed[[*(allowed_months or {})]] = True
  units, unit_of_section = dated_units.join_headings(all_sections)
  allowed_months = _join_allowed_months(allowed_months or {}, unit_of_section)
  if len(calendar) > calendar_narrowing.MIN_MONTHS:
    is_possible = calendar_narrowing.find_possible_months(
      units, calendar, allowed_months
    )
    calendar = calendar.take(is_possible)
    allowed_months = {
      unit: months[is_possible] for unit, months in allowed_months.items()
    }
  emissions = SectionEmissions(units, calendar, allowed_months)
  if not emissions.statement_counts and not allowed_months:
    raise ValueError(
      "no record prints a month, season, day or regnal year; without any "
      "there is nothing to date by"
    )
  decoded, offsets = decode_sections(emissions, calendar, first_year)
  return ChronicleDates(
    records=list(records),
    sections=list(all_sections),
    months=decoded.months[unit_of_section],
    probabilities=decoded.probabilities[unit_of_section],
    credible=_take_credible_months(decoded, unit_of_section),
    outside=decoded.outside[unit_of_section],
    offsets=None
    if emissions.offset_transition is None
    else offsets[unit_of_section],
    is_fixed=is_fixed,
    calendar=calendar,
    statement_counts=dict(emissions.statement_counts),
    printed_reigns=_find_printed_reigns(all_sections, calendar),
  )


def _join_allowed_months(
  allowed_months: Mapping[int, Bool[np.ndarray, " K"]],
  unit_of_section: Int[np.ndarray, " n"],
) -> dict[int, Bool[np.ndarray, " K"]]:
  """Returns the allowed months by unit, from those by section."""
  by_unit: dict[int, np.ndarray] = {}
  for section, months in allowed_months.items():
    unit = int(unit_of_section[section])
    by_unit[unit] = by_unit.get(unit, True) & months
  return by_unit


def _take_credible_months(
  decoded: decoder.DecodedMonths, unit_of_section: Int[np.ndarray, " n"]
) -> CredibleMonths:
  """Returns the credible months of sections from those of their units."""
  starts, stops = decoded.credible_starts[:-1], decoded.credible_starts[1:]
  rows = [
    np.arange(starts[unit], stops[unit]) for unit in unit_of_section.tolist()
  ]
  row = np.concatenate(rows)
  return CredibleMonths(
    np.cumsum([0, *map(len, rows)]),
    decoded.credible_places[row],
    decoded.credible_probabilities[row],
  )


def read_all_sections(
  records: Sequence[Entry], calendar: Calendar
) -> list[Section]:
  """Returns the sections of all records, in order of the text."""
  if western_calendar.is_western(calendar):
    return western_calendar.read_all_western_sections(records)
  return [
    section
    for number, record in enumerate(records)
    for section in sections.read_sections(
      number, record.text, calendar, record.is_heading
    )
  ]


def _find_printed_reigns(
  all_sections: Sequence[Section], calendar: Calendar
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
  emissions: SectionEmissions,
  calendar: Calendar,
  first_year: int | None = None,
) -> tuple[decoder.DecodedMonths, Int[np.ndarray, " N"]]:
  """Returns the months of the sections, and offsets of the calendar.

  The transitions are learned on the way. Offsets are those of the best path.

  Args:
    emissions: of the sections in order.
    calendar: that the emissions were made for.
    first_year: as of `date_records`.

  Raises:
    ValueError: if the calendar lacks the year.
  """
  prior = _make_first_place_prior(emissions, calendar, first_year)
  boundaries = transitions.find_boundaries(calendar.years, calendar.months)
  prior_model = transitions.TransitionModel()
  log_transitions = transitions.make_transitions(
    prior_model, boundaries, emissions.offset_transition
  )
  path, offsets = decoder.find_best_path(
    emissions, emissions.kinds, log_transitions, prior
  )
  for _ in range(MAX_ROUNDS):
    previous_path = path
    fitted_model = transitions.fit_transition_model(
      prior_model, path, emissions.kinds, boundaries
    )
    log_transitions = transitions.make_transitions(
      fitted_model, boundaries, emissions.offset_transition
    )
    path, offsets = decoder.find_best_path(
      emissions, emissions.kinds, log_transitions, prior
    )
    if np.mean(path != previous_path) < _MAX_CHANGED:
      break
  decoded = decoder.decode_months(
    emissions, emissions.kinds, log_transitions, prior
  )
  return decoded, offsets


def _make_first_place_prior(
  emissions: SectionEmissions, calendar: Calendar, first_year: int | None
) -> np.ndarray:
  """Returns log weights of the first place [P], or with its offset [S, P]."""
  months = np.full(len(calendar), -np.log(len(calendar)))
  outside = np.log(_FIRST_OUTSIDE)
  if first_year is not None:
    if first_year not in calendar.years:
      era_year = reign_tables.format_common_era_year(first_year)
      raise ValueError(
        f"the first year {era_year} is not in the reign table: "
        f"{chronicle_dates.format_span(calendar.years)}"
      )
    months = np.where(calendar.years == first_year, 0.0, -np.inf)
    outside = -np.inf
  prior = np.append(months, outside)
  if emissions.offset_transition is not None:
    prior = np.log(days.make_offset_prior())[:, None] + prior
  return prior
