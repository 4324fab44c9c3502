"""Chronicle dating: from the records of a text to its dated sections.

Axes: N sections, B of a block, K months, Y years, P places (see
`transitions`), S offsets of the calendar.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float32, Int

from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import (
  best_path,
  chronicle_dates,
  decoder,
  eras,
  implied_dates,
  section_reading,
  transition_model,
  transitions,
  western,
)
from ctd_jax.dating.chronicle import emissions as emissions_lib
from ctd_jax.dating.chronicle import sections as sections_lib
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import (
  ChronicleDates,
)
from ctd_jax.dating.chronicle.emissions import SectionEmissions
from ctd_jax.dating.chronicle.sections import DateStatement, Section
from ctd_jax.dating.experts import date_features
from ctd_jax.texts.works import Entry
from ctd_jax.utils import unicode_text
from ctd_jax.utils.notes import Note

# Two thousand years of three countries are 27,000 months, of which a chronicle
# covers a few hundred. A first decoder with one place for each year reads only
# what the text prints of years, and the years that it rules out are cut.

# A calendar up to this long costs less than its narrowing saves.
MIN_MONTHS = 3000
_YEAR_STATEMENTS = (
  *("year", "ruled year", "common year", "common days", "cycle", "era"),
  "unknown era",
)
# A year stays if it is at least so probable for one section.
_MIN_PROBABILITY = 1e-4
# Years before and after one that stays: a day or a month may say so.
_MARGIN = 2
# The same before the first section that names a year, and after the last: at
# least so many, and one for each date there, as each may open a year.
_END_MARGIN = 60
_DATED_KINDS = (sections_lib.MONTH, sections_lib.SEASON, sections_lib.YEAR)
# From year to year: an entry that opens with a season may begin the next year.
_YEAR_MODEL = transition_model.TransitionModel(
  rest=(
    *(0.9989, 0.99, 0.96, 0.7, 0.02, 0.1, 0.5),
    *(0.9989, 0.99, 0.96, 0.1, 0.1),
  ),
  slip=(0.0,) * sections_lib.NUM_KINDS,
  ratio=(
    *(0.5, 0.5, 0.5, 0.3, 0.5, 0.9, 0.5),
    *(0.5, 0.5, 0.5, 0.9, 0.9),
  ),
  # Thousands of sections without a year must not add up to any year.
  jump=(
    *(1e-7, 1e-7, 1e-6, 1e-5, 1e-3, 0.2, 0.01),
    *(1e-7, 1e-7, 1e-6, 0.2, 0.2),
  ),
  restart=(
    *(1e-8, 1e-8, 1e-7, 1e-6, 1e-5, 1e-2, 1e-4),
    *(1e-8, 1e-8, 1e-7, 1e-2, 1e-2),
  ),
  leave=(
    *(1e-7, 1e-7, 1e-7, 1e-6, 1e-5, 0.03, 1e-4),
    *(1e-7, 1e-7, 1e-7, 0.03, 0.03),
  ),
  back=(0.0,) * sections_lib.NUM_KINDS,
)


def _find_possible_months(
  sections: Sequence[Section],
  calendar: Calendar,
  allowed_months: Mapping[int, Bool[np.ndarray, " K"]],
) -> Bool[np.ndarray, " K"]:
  """Returns which months of the calendar the text can be in."""
  years, first_months = np.unique(calendar.years, return_index=True)
  statements: dict[DateStatement, np.ndarray] = {}
  for section in sections:
    for statement in section.statements:
      if statement[0] in _YEAR_STATEMENTS and statement not in statements:
        by_month = emissions_lib.score_statement(statement, calendar)
        statements[statement] = np.append(
          np.maximum.reduceat(by_month[:-1], first_months), by_month[-1]
        )
  if not statements:
    return np.ones(len(calendar), bool)

  def score_years(start: int, stop: int) -> Float32[np.ndarray, "B P"]:
    rows = np.zeros((stop - start, len(years) + 1), np.float32)
    for index, row in enumerate(rows, start):
      if sections[index].is_of_other_time:
        row[:-1] += emissions_lib.LOG_OTHER_TIME_ODDS
      for statement in sections[index].statements:
        row += statements.get(statement, 0)
      if index in allowed_months:
        is_allowed = np.logical_or.reduceat(allowed_months[index], first_months)
        row[~np.append(is_allowed, False)] += emissions_lib.LOG_FIXED_ODDS
    return rows

  year_indices = np.arange(len(years))
  boundaries = transition_model.Boundaries(
    np.tile(year_indices + 1, (sections_lib.NUM_KINDS, 1)), year_indices
  )
  naming = [
    index
    for index, section in enumerate(sections)
    if any(statement in statements for statement in section.statements)
  ]
  kinds = np.array([section.kind for section in sections])
  is_dated = np.isin(kinds, _DATED_KINDS)
  is_possible = np.zeros(len(years), bool)
  # The years of the first and of the last of them, and how far from these the
  # text may reach.
  ends = (naming[0], naming[-1])
  is_of_end = np.zeros((2, len(years)), bool)
  margins = np.maximum(
    (is_dated[: ends[0]].sum(), is_dated[ends[1] + 1 :].sum()), _END_MARGIN
  )
  for start, posterior, *_ in decoder.iter_posteriors(
    score_years, kinds, transitions.make_transitions(_YEAR_MODEL, boundaries)
  ):
    is_likely = posterior[:, :-1] >= _MIN_PROBABILITY
    first, last = (max(end - start, 0) for end in (ends[0], ends[1] + 1))
    is_possible |= is_likely[first:last].any(0)
    for is_of_this_end, end in zip(is_of_end, ends, strict=True):
      if start <= end < start + len(posterior):
        is_of_this_end |= is_likely[end - start]
  # What is known from elsewhere stays, likely or not.
  for months in allowed_months.values():
    is_possible |= np.logical_or.reduceat(months, first_months)
  is_near = _widen(is_possible, _MARGIN)
  for is_of_this_end, margin in zip(is_of_end, margins.tolist(), strict=True):
    is_near |= _widen(is_of_this_end, margin)
  if not is_near.any():
    return np.ones(len(calendar), bool)
  return _fill_up(is_near[np.searchsorted(years, calendar.years)])


def _fill_up(is_kept: Bool[np.ndarray, " K"]) -> Bool[np.ndarray, " K"]:
  """Returns the kept months and some neighbours, up to a round number."""
  kept, others = np.flatnonzero(is_kept), np.flatnonzero(~is_kept)
  step = 2 ** max(0, (len(kept) - 1).bit_length() - 4)
  following = np.searchsorted(kept, others)
  distances = np.minimum(
    np.abs(others - kept[np.minimum(following, len(kept) - 1)]),
    np.abs(others - kept[np.maximum(following - 1, 0)]),
  )
  nearest = others[np.argsort(distances, kind="stable")]
  is_filled = is_kept.copy()
  is_filled[nearest[: -len(kept) % step]] = True
  return is_filled


def _widen(
  is_kept: Bool[np.ndarray, " Y"], margin: int
) -> Bool[np.ndarray, " Y"]:
  """Returns the years up to `margin` away from those that are kept."""
  counts = np.convolve(is_kept, np.ones(2 * margin + 1))
  return counts[margin : margin + len(is_kept)] > 0


# Sections x months up to which the best path is sought among all months.
_MAX_EXACT = 2**24
# Rounds of learning at most; they end where the path stays the same.
MAX_ROUNDS = 4
_MAX_CHANGED = 0.01  # share of sections
# That a text begins outside the calendar.
_FIRST_OUTSIDE = 0.02


def date_records(
  records: Sequence[Entry],
  calendar: Calendar,
  first_year: int | None = None,
) -> ChronicleDates:
  """Returns the months of the records' sections; see `date_sections`."""
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
    records: records in the order of the text.
    all_sections: result of `read_all_sections`.
    calendar: calendar of the months; the result has a part of it, if it is
      long.
    first_year: astronomical year of the first record, if known.
    allowed_months: number of a section -> months known for certain.
    credible: probability of the credible months of a section.

  Raises:
    ValueError: if nothing of a date is printed, or the first year is missing.
  """
  is_fixed = np.isin(np.arange(len(all_sections)), [*(allowed_months or {})])
  calendar = weigh_readings(all_sections, calendar)
  units, unit_of_section = sections_lib.join_headings(
    implied_dates.rule_years(all_sections, calendar)
  )
  allowed_months = _join_allowed_months(allowed_months or {}, unit_of_section)
  if len(calendar) > MIN_MONTHS:
    is_possible = _find_possible_months(units, calendar, allowed_months)
    calendar = calendar.take(is_possible)
    allowed_months = {
      unit: months[is_possible] for unit, months in allowed_months.items()
    }
  emissions = SectionEmissions(units, calendar, allowed_months)
  if not emissions.statement_counts and not allowed_months:
    raise ValueError(Note("problem.build.nothing"))
  decoded, offsets = _decode_sections(emissions, calendar, first_year, credible)
  return ChronicleDates(
    records=list(records),
    sections=list(all_sections),
    months=decoded.months[unit_of_section],
    probabilities=decoded.probabilities[unit_of_section],
    credible=decoded.credible.take(unit_of_section),
    outside=decoded.outside[unit_of_section],
    offsets=None
    if emissions.offset_transition is None
    else offsets[unit_of_section],
    is_fixed=is_fixed,
    calendar=calendar,
    statement_counts=dict(emissions.statement_counts),
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


def read_all_sections(
  records: Sequence[Entry], calendar: Calendar
) -> list[Section]:
  """Returns the sections of all records, in order of the text.

  Records are read in one form (`unicode_text.normalize`); the positions are
  those of the text as printed.
  """
  texts = [unicode_text.normalize(record.text) for record in records]
  records = [
    dataclasses.replace(record, text=normalized.text)
    if normalized.positions
    else record
    for record, normalized in zip(records, texts, strict=True)
  ]
  if western.is_western(calendar):
    sections = western.add_editors_dates(
      records, western.read_all_western_sections(records), True
    )
  else:
    sections = section_reading.read_all_sections(
      [record.text for record in records],
      [record.is_heading for record in records],
      calendar,
    )
    sections = western.add_editors_dates(records, sections, False)
    sections = eras.mark_outside_stretches(records, sections, calendar)
  return [
    dataclasses.replace(
      section,
      start=text.original(section.start),
      stop=text.original(section.stop),
      date_end=text.original(section.date_end),
    )
    if (text := texts[section.record]).positions
    else section
    for section in sections
  ]


def count_reigns(sections: Sequence[Section]) -> collections.Counter[str]:
  """Returns how often each reign is printed with a year."""
  return collections.Counter(
    values[0]
    for section in sections
    for name, *values in section.statements
    if name == "year" and values[0] is not None
  )


def weigh_readings(
  all_sections: Sequence[Section], calendar: Calendar
) -> Calendar:
  """Returns the calendar with the reigns that a text names most first."""
  names = count_reigns(all_sections)
  counts = np.zeros(len(calendar.timeline.reigns), int)
  for name, count in names.items():
    counts[[*calendar.find_reigns(name)]] += count
  return calendar.weigh_readings(counts)


def _decode_sections(
  emissions: SectionEmissions,
  calendar: Calendar,
  first_year: int | None,
  credible: float,
) -> tuple[decoder.DecodedMonths, Int[np.ndarray, " N"]]:
  """Returns the months of the sections, and the offsets of the best path."""
  prior = _make_first_place_prior(emissions, calendar, first_year)
  windows = None
  if len(emissions.kinds) * len(calendar) > _MAX_EXACT:
    windows = best_path.find_windows(
      emissions,
      emissions.kinds,
      _make_transitions(
        transition_model.TransitionModel(), emissions, calendar
      ),
      prior,
    )
  while True:
    fitted_model, log_transitions, path, offsets = _learn_transitions(
      emissions, calendar, prior, windows
    )
    decoded = decoder.decode_months(
      emissions,
      emissions.kinds,
      log_transitions,
      prior,
      options=decoder.ReadoutOptions(
        emissions_lib.measure_reliability(
          fitted_model,
          emissions,
          emissions_lib.measure_fit(emissions, path, offsets),
        ),
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


def _learn_transitions(
  emissions: SectionEmissions,
  calendar: Calendar,
  prior: np.ndarray,
  windows: best_path.Windows | None,
) -> tuple[
  transition_model.TransitionModel,
  transitions.Transitions,
  Int[np.ndarray, " N"],
  Int[np.ndarray, " N"],
]:
  """Returns the fitted model, its transitions, best path and its offsets."""
  boundaries = transition_model.find_boundaries(calendar.years, calendar.months)

  def find_path(model):
    return best_path.find_best_path(
      emissions,
      emissions.kinds,
      _make_transitions(model, emissions, calendar),
      prior,
      windows=windows,
    )

  model = prior_model = transition_model.TransitionModel()
  path = None
  for _ in range(MAX_ROUNDS + 1):
    previous_path = path
    if path is not None:
      model = emissions_lib.fit_model(
        prior_model, path, emissions.kinds, boundaries
      )
    # A path must earn its moves by evidence.
    path, _ = find_path(
      transition_model.discount_moves(model, emissions.kinds, boundaries, path)
    )
    if previous_path is not None and (
      np.mean(path != previous_path) < _MAX_CHANGED
    ):
      break
  # How sure the months are counts the moves that the text may make all the
  # same.
  path, offsets = find_path(model)
  model = emissions_lib.fit_model(
    prior_model, path, emissions.kinds, boundaries
  )
  return model, _make_transitions(model, emissions, calendar), path, offsets


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


def _make_first_place_prior(
  emissions: SectionEmissions, calendar: Calendar, first_year: int | None
) -> np.ndarray:
  """Returns log weights of the first place, [P], or with its offset, [S, P]."""
  months = np.full(len(calendar), -np.log(len(calendar)))
  outside = np.log(_FIRST_OUTSIDE)
  if first_year is not None:
    if first_year not in calendar.years:
      era_year = reigns.format_common_era_year(first_year)
      raise ValueError(
        f"the first year {era_year} is not in the reign table: "
        f"{chronicle_dates.format_span(calendar.years)}"
      )
    months = np.where(calendar.years == first_year, 0.0, -np.inf)
    outside = -np.inf
  prior = np.append(months, outside)
  if emissions.offset_transition is None:
    return prior
  return np.log(date_features.OFFSET_PRIOR)[:, None] + prior
