"""Chronicle dating: from the records of a text to its dated sections.

Axes: K months, P places (see `transitions`), S offsets of the calendar.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int

from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle import (
  calendar_narrowing,
  chronicle_dates,
  dated_units,
  outside_stretches,
  reliability,
  section_reading,
  western_calendar,
  western_sections,
)
from ctd_jax.dating.chronicle.chronicle_dates import (
  ChronicleDates,
  CredibleMonths,
)
from ctd_jax.dating.chronicle.emissions import SectionEmissions
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.experts import days
from ctd_jax.dating.sequence import (
  best_path,
  decoder,
  transition_model,
  transitions,
)
from ctd_jax.texts.works import Entry
from ctd_jax.utils.notes import Note

# Sections x months up to which the best path is sought among all months.
_MAX_EXACT = 2**24
# Rounds of learning at most; they end where the path stays the same.
MAX_ROUNDS = 4
_MAX_CHANGED = 0.01  # share of sections
# That a text begins outside of the calendar.
_FIRST_OUTSIDE = 0.02


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
  credible: float = decoder.CREDIBLE,
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
    credible: probability of the credible months of a section.

  Raises:
    ValueError: if no record prints anything of its date, or the calendar lacks
      the year.
  """
  is_fixed = np.zeros(len(all_sections), bool)
  is_fixed[[*(allowed_months or {})]] = True
  calendar = weigh_readings(all_sections, calendar)
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
    raise ValueError(Note("problem.build.nothing"))
  decoded, offsets = decode_sections(emissions, calendar, first_year, credible)
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
    return western_sections.read_all_western_sections(records)
  sections = [
    section
    for number, record in enumerate(records)
    for section in section_reading.read_sections(
      number, record.text, calendar, record.is_heading
    )
  ]
  return outside_stretches.mark_outside_stretches(records, sections, calendar)


def weigh_readings(
  all_sections: Sequence[Section], calendar: Calendar
) -> Calendar:
  """Returns the calendar with the reigns that a text names before others.

  Args:
    all_sections: of the text, from `read_all_sections`.
    calendar: months that they can stand in.
  """
  names = collections.Counter(
    values[0]
    for section in all_sections
    for name, *values in section.statements
    if name == "year"
  )
  counts = np.zeros(len(calendar.timeline.reigns), int)
  for name, count in names.items():
    if name is not None:
      counts[[*calendar.find_reigns(name)]] += count
  return calendar.weigh_readings(counts)


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
    row for name in names - {None} for row in calendar.find_reigns(name)
  )


def decode_sections(
  emissions: SectionEmissions,
  calendar: Calendar,
  first_year: int | None = None,
  credible: float = decoder.CREDIBLE,
) -> tuple[decoder.DecodedMonths, Int[np.ndarray, " N"]]:
  """Returns the months of the sections, and offsets of the calendar.

  The transitions are learned on the way. Offsets are those of the best path.

  Args:
    emissions: of the sections in order.
    calendar: that the emissions were made for.
    first_year: as of `date_records`.
    credible: as of `date_sections`.

  Raises:
    ValueError: if the calendar lacks the year.
  """
  prior = make_first_place_prior(emissions, calendar, first_year)
  windows = find_windows(emissions, calendar, prior)
  while True:
    fitted_model, log_transitions, offsets = learn_transitions(
      emissions, calendar, prior, windows
    )
    decoded = decoder.decode_months(
      emissions,
      emissions.kinds,
      log_transitions,
      prior,
      options=decoder.ReadoutOptions(
        reliability.measure_reliability(fitted_model, emissions),
        credible,
        emissions.allowed_months,
      ),
    )
    months = decoded.months[:, 0]
    # What is told of need not lie on the path.
    is_on_path = months < len(calendar)
    is_on_path &= ~transitions.is_told(emissions.kinds)
    if windows is None or (
      np.mean(is_on_path & ~windows.hold(months)) < _MAX_CHANGED
    ):
      return decoded, offsets
    # What was learned leads to months that the prior did not: seek among all.
    windows = None


def find_windows(
  emissions: SectionEmissions, calendar: Calendar, prior: np.ndarray
) -> best_path.Windows | None:
  """Returns the months to seek the path of a long text among; None for all.

  Args:
    emissions: of the sections in order.
    calendar: that the emissions were made for.
    prior: from `make_first_place_prior`.
  """
  if len(emissions.kinds) * len(calendar) <= _MAX_EXACT:
    return None
  log_transitions = _make_transitions(
    transition_model.TransitionModel(), emissions, calendar
  )
  return best_path.find_windows(
    emissions, emissions.kinds, log_transitions, prior
  )


def learn_transitions(
  emissions: SectionEmissions,
  calendar: Calendar,
  prior: np.ndarray,
  windows: best_path.Windows | None = None,
) -> tuple[
  transition_model.TransitionModel,
  transitions.Transitions,
  Int[np.ndarray, " N"],
]:
  """Returns how a text moves on, on its calendar, and offsets of the best path.

  Args:
    emissions: of the sections in order.
    calendar: that the emissions were made for.
    prior: from `make_first_place_prior`.
    windows: months among which the path is sought; all if None.
  """
  boundaries = transition_model.find_boundaries(calendar.years, calendar.months)
  fitted_model = prior_model = transition_model.TransitionModel()

  def find_best_path(log_transitions: transitions.Transitions):
    return best_path.find_best_path(
      emissions, emissions.kinds, log_transitions, prior, windows=windows
    )

  log_transitions = _make_transitions(prior_model, emissions, calendar)
  path, offsets = find_best_path(log_transitions)
  for _ in range(MAX_ROUNDS):
    previous_path = path
    fitted_model = reliability.fit_model(
      prior_model, path, emissions.kinds, boundaries
    )
    log_transitions = _make_transitions(fitted_model, emissions, calendar)
    path, offsets = find_best_path(log_transitions)
    if np.mean(path != previous_path) < _MAX_CHANGED:
      break
  return fitted_model, log_transitions, offsets


def _make_transitions(
  model: transition_model.TransitionModel,
  emissions: SectionEmissions,
  calendar: Calendar,
) -> transitions.Transitions:
  return transitions.make_transitions(
    model,
    transition_model.find_boundaries(calendar.years, calendar.months),
    emissions.offset_transition,
  )


def make_first_place_prior(
  emissions: SectionEmissions, calendar: Calendar, first_year: int | None
) -> np.ndarray:
  """Returns log weights of the first place [P], or with its offset [S, P].

  Args:
    emissions: of the sections in order.
    calendar: that the emissions were made for.
    first_year: as of `date_records`.

  Raises:
    ValueError: if the calendar lacks the year.
  """
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
