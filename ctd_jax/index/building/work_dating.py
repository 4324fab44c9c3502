"""Dates works: every record gets a posterior over the months of the index.

A work is dated in one of three ways (its manner):

  keys    its months are given
  order   its records print dates in order of time: the order decoder
  model   the dating model, with certainly dated records as labels

A text dated by order is cut into sections by its dates. A record of a data set
stays whole and takes the month of its first section.

Axes: n records of a work, N of a group of works, K months, T of a timeline.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging
from jaxtyping import Bool, Int

from ctd_jax.benchmark.benchmark import NO_EVENT
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating, dating_warnings, sections
from ctd_jax.dating.chronicle.calendar import Calendar, CalendarPart
from ctd_jax.dating.chronicle.chronicle_dates import DOUBTFUL, ChronicleDates
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.corpus import UNKNOWN
from ctd_jax.index import posteriors
from ctd_jax.index.building import work_corrections
from ctd_jax.index.building.sources import (
  NO_POSITION,
  SourceRecord,
  SourceWork,
)
from ctd_jax.index.building.work_corrections import WorkCorrections
from ctd_jax.index.corrections import Correction
from ctd_jax.index.database import HEADING, KEYS, MODEL, ORDER, TEXT
from ctd_jax.index.posteriors import PosteriorArrays
from ctd_jax.texts.works import Entry, Place
from ctd_jax.utils.notes import Note

# A text that prints a year, and dates at least this often, is in order.
MIN_DATED = 0.05
_MAX_SAMPLED = 2_000  # entries read to find out
# Share of its months that a reign must name to count as used by a work.
_MIN_SHARE = 0.5
_YEAR_KINDS = (sections.YEAR, sections.NAMED)
_DATED_KINDS = (sections.MONTH, sections.SEASON, *_YEAR_KINDS)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DatedWork:
  """A work with the dates of its records."""

  source: SourceWork  # as read
  records: Sequence[SourceRecord]  # sections, if a text was cut
  spans: Int[np.ndarray, "n 2"]  # of each record in its printed entry, [n, 2]
  known_months: Int[np.ndarray, "n 2"]  # first and last, or UNKNOWN, [n, 2]
  posteriors: PosteriorArrays
  dated_by: Sequence[str]  # manner of each record
  is_fixed: Bool[np.ndarray, " n"]  # whether a reader set the date
  manner: str
  printed_reigns: tuple[int, ...] = ()  # rows of the reigns that it uses
  warnings: tuple[Note, ...] = ()  # what readers of the dates should know
  # By readers; the dates follow them.
  corrections: WorkCorrections = dataclasses.field(
    default_factory=WorkCorrections
  )


def choose_manner(
  work: SourceWork, calendar: Calendar, asked: str | None = None
) -> str:
  """Returns how to date a work: by keys, order or the model.

  Args:
    asked: manner that a flag asks for.
  """
  if asked:
    return asked
  if work.is_text:
    return ORDER if _prints_dates(work.entries, calendar) else MODEL
  is_known = [
    not (record.is_hidden or (record.start is None and record.end is None))
    for record in work.records
  ]
  if all(is_known):
    return KEYS
  is_chronicle = work.timeline is None and work.has_order
  if is_chronicle and _prints_dates(make_entries(work.records), calendar):
    return ORDER
  return MODEL


def _prints_dates(entries: Sequence[Entry], calendar: Calendar) -> bool:
  step = -(-len(entries) // _MAX_SAMPLED)
  sections = chronicle_dating.read_all_sections(entries[::step], calendar)
  num_dated = sum(section.kind in _DATED_KINDS for section in sections)
  has_year = any(section.kind in _YEAR_KINDS for section in sections)
  return has_year and num_dated >= MIN_DATED * len(sections)


def date_by_keys(
  work: SourceWork, known_months: Int[np.ndarray, "n 2"], num_months: int
) -> DatedWork:
  """Returns a work dated by its own keys.

  A record is spread evenly over its interval, or over all months if unknown.
  """
  first, last = known_months.T
  is_known = first != UNKNOWN
  first = np.where(is_known, first, 0)
  last = np.where(is_known, np.minimum(last, num_months - 1), -1)
  is_outside = first >= num_months
  sizes = np.where(is_outside, 0, last - first + 1)
  starts = posteriors.find_starts(sizes)
  steps = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
  arrays = PosteriorArrays(
    starts=starts,
    months=(np.repeat(first, sizes) + steps).astype(np.int32),
    probabilities=np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32),
    outside=is_outside.astype(np.float32),
    event_log_p=make_event_log_p([record.kind for record in work.records]),
    num_months=num_months,
  )
  return make_dated_work(
    work, known_months, arrays, np.full(len(work.records), KEYS), KEYS
  )


def make_event_log_p(kinds: Sequence[str]) -> np.ndarray:
  """Returns log p(answering kind) of records of known kinds."""
  return np.where(np.array(kinds) == "neg_comment", -25.0, 0.0).astype(
    np.float32
  )


def make_dated_work(
  work: SourceWork,
  known_months: Int[np.ndarray, "n 2"],
  posteriors: PosteriorArrays,
  dated_by: np.ndarray,
  manner: str,
  printed_reigns: tuple[int, ...] = (),
) -> DatedWork:
  """Returns a data set's work with dates, each record whole."""
  lengths = np.array([len(record.text) for record in work.records], int)
  return DatedWork(
    source=work,
    records=work.records,
    spans=np.stack([np.zeros_like(lengths), lengths], axis=1),
    known_months=known_months,
    posteriors=posteriors,
    dated_by=dated_by.tolist(),
    is_fixed=np.zeros(len(lengths), bool),
    manner=manner,
    printed_reigns=printed_reigns,
  )


def date_text_by_order(
  work: SourceWork,
  calendar: Calendar,
  fixed: pathlib.Path | None = None,
  corrections: Iterable[Correction] = (),
) -> DatedWork:
  """Returns a text cut into sections, each with its date.

  Args:
    fixed: file of corrections, see `fixed_dates`.
    corrections: corrections of the index.
  """
  entries = work.entries
  sections = chronicle_dating.read_all_sections(entries, calendar)
  records = _cut_records(entries, sections)
  whole = CalendarPart.of_all(calendar)
  corrected = work_corrections.match_corrections(
    work.name, corrections, records, whole
  )
  if fixed:
    corrected = work_corrections.add_fixed_sections(
      corrected, fixed, entries, sections, whole
    )
  dates = _decode(work.name, entries, sections, calendar, corrected.months)
  known_months = np.full((len(sections), 2), UNKNOWN)
  return DatedWork(
    source=work,
    records=records,
    spans=np.array([(row.start, row.stop) for row in sections]).reshape(-1, 2),
    known_months=corrected.limit_months(known_months),
    posteriors=_convert_posteriors(dates, np.arange(len(sections)), calendar),
    dated_by=[ORDER] * len(sections),
    is_fixed=dates.is_fixed,
    manner=ORDER,
    printed_reigns=find_naming_reigns(dates),
    warnings=tuple(dating_warnings.list_warnings(dates, calendar)),
    corrections=corrected,
  )


def date_records_by_order(
  work: SourceWork,
  known_months: Int[np.ndarray, "n 2"],
  calendar: Calendar,
  stated_months: Int[np.ndarray, " n"],
) -> DatedWork:
  """Returns a data set's work dated by the order of its records.

  Args:
    work: placeholders and records without a position are outside the order.
    stated_months: month that a placeholder states, else UNKNOWN.
  """
  in_order = [
    row
    for row, record in enumerate(work.records)
    if record.position != NO_POSITION and record.kind != NO_EVENT
  ]
  others = np.setdiff1d(np.arange(len(work.records)), in_order)
  known = known_months[others].copy()
  is_stated = (known[:, 0] == UNKNOWN) & (stated_months[others] != UNKNOWN)
  known[is_stated] = stated_months[others][is_stated, None]
  apart = date_by_keys(
    dataclasses.replace(work, records=[work.records[row] for row in others]),
    known,
    len(calendar),
  ).posteriors
  if not in_order:
    if any(record.kind != NO_EVENT for record in work.records):
      raise ValueError(Note("problem.build.order", flag=f"--order={work.name}"))
    return make_dated_work(
      work, known_months, apart, np.full(len(work.records), ORDER), ORDER
    )
  entries = make_entries([work.records[row] for row in in_order])
  sections = chronicle_dating.read_all_sections(entries, calendar)
  heads = [
    number for number, section in enumerate(sections) if not section.start
  ]
  months = np.arange(len(calendar))
  allowed_months = {}
  for number, row in zip(heads, in_order, strict=True):
    first, last = known_months[row]
    if UNKNOWN < first < len(calendar):
      allowed_months[number] = (months >= first) & (months <= last)
  dates = _decode(work.name, entries, sections, calendar, allowed_months)
  decoded = _convert_posteriors(dates, np.array(heads), calendar)
  place = np.empty(len(work.records), int)
  place[np.concatenate([in_order, others]).astype(int)] = np.arange(len(place))
  posteriors = PosteriorArrays.concatenate([decoded, apart]).take(place)
  is_known = (known_months[:, 0] != UNKNOWN) & (
    known_months[:, 0] == known_months[:, 1]
  )
  return make_dated_work(
    work,
    known_months,
    dataclasses.replace(
      posteriors, event_log_p=np.zeros(len(place), np.float32)
    ),
    np.where(is_known, KEYS, ORDER),
    ORDER,
    printed_reigns=find_naming_reigns(dates),
  )


def move_months(work: DatedWork, part: CalendarPart) -> DatedWork:
  """Returns a work with months and reigns of the whole, not of a part."""
  arrays, known = work.posteriors, work.known_months
  return dataclasses.replace(
    work,
    known_months=np.where(known == UNKNOWN, UNKNOWN, part.months[known]),
    posteriors=dataclasses.replace(
      arrays,
      months=part.months[arrays.months].astype(np.int32),
      num_months=int(part.months[-1]),
    ),
    printed_reigns=tuple(part.reigns[[*work.printed_reigns]].tolist()),
  )


def _decode(
  name: str,
  entries: Sequence[Entry],
  sections: Sequence[Section],
  calendar: Calendar,
  allowed_months: Mapping[int, np.ndarray],
) -> ChronicleDates:
  logging.info("%s: dating %s sections in order", name, f"{len(sections):,}")
  try:
    return chronicle_dating.date_sections(
      entries,
      sections,
      calendar,
      allowed_months=allowed_months,
      credible=posteriors.SHARE,
    )
  except ValueError as error:
    raise ValueError(Note("problem.at", place=name, problem=error)) from error


def _convert_posteriors(
  dates: ChronicleDates, rows: Int[np.ndarray, " n"], calendar: Calendar
) -> PosteriorArrays:
  num_months = len(calendar)
  ordinals = calendar_lib.match_months(dates.calendar, calendar)
  credible = dates.credible
  starts, stops = credible.starts[rows], credible.starts[rows + 1]
  sizes = stops - starts
  entry = np.repeat(starts - np.cumsum([0, *sizes[:-1]]), sizes)
  entry = entry + np.arange(sizes.sum())
  months = ordinals[credible.ordinals[entry]]
  chances = credible.probabilities[entry]
  is_kept = (months < num_months) & (chances >= posteriors.MIN_PROBABILITY)
  row_of_entry = np.repeat(np.arange(len(rows)), sizes)[is_kept]
  counts = np.bincount(row_of_entry, minlength=len(rows))
  return PosteriorArrays(
    starts=posteriors.find_starts(counts),
    months=months[is_kept].astype(np.int32),
    probabilities=chances[is_kept].astype(np.float32),
    outside=dates.outside[rows].astype(np.float32),
    event_log_p=np.zeros(len(rows), np.float32),
    num_months=num_months,
  )


def make_entries(records: Sequence[SourceRecord]) -> list[Entry]:
  """Returns records of a data set, in order, as entries of a text."""
  return [
    Entry(record.text, Place(record.record_id, line))
    for line, record in enumerate(records, 1)
  ]


def _cut_records(
  entries: Sequence[Entry], sections: Sequence[Section]
) -> list[SourceRecord]:
  """Returns a record per section, numbered by entry: 12, 12-1, 12-2."""
  num_sections = collections.Counter(section.record for section in sections)
  numbers: collections.Counter[int] = collections.Counter()
  records = []
  for position, section in enumerate(sections):
    entry = entries[section.record]
    numbers[section.record] += 1
    name = str(section.record + 1)
    if num_sections[section.record] > 1:
      name += f"-{numbers[section.record]}"
    records.append(
      SourceRecord(
        record_id=name,
        text=entry.text[section.start : section.stop],
        kind=HEADING if section.is_heading else TEXT,
        place=str(entry.place_at(section.start)),
        headings=entry.headings,
        position=position,
      )
    )
  return records


def find_naming_reigns(dates: ChronicleDates) -> tuple[int, ...]:
  """Returns the rows of the reigns that name the months of a chronicle."""
  # Several reigns may name a month. Those of the polity whose years fit more
  # sections win, and all stay if none is ahead. A reign that loses most of
  # its months names none.
  members = dates.calendar.memberships
  is_printed = np.isin(members.reigns, sorted(dates.printed_reigns))
  polities = dates.calendar.polities[members.reigns]  # [M]
  votes = np.bincount(
    polities[_list_fitting_names(dates, is_printed)],
    minlength=int(dates.calendar.polities.max(initial=0)) + 1,
  )
  weights = np.where(is_printed, votes[polities], -1)  # [M]
  most = np.full(int(members.lunations.max(initial=0)) + 1, -1)
  np.maximum.at(most, members.lunations, weights)
  is_naming = is_printed & (weights == most[members.lunations])
  num_reigns = len(dates.calendar.polities)
  num_named = np.bincount(members.reigns[is_naming], minlength=num_reigns)
  num_months = np.bincount(members.reigns, minlength=num_reigns)
  is_kept = (num_named > 0) & (num_named >= _MIN_SHARE * num_months)
  return tuple(np.flatnonzero(is_kept).tolist())


def _list_fitting_names(
  dates: ChronicleDates, is_printed: Bool[np.ndarray, " M"]
) -> Int[np.ndarray, " v"]:
  """Returns names of months whose year some section prints."""
  members = dates.calendar.memberships
  names: list[int] = []
  for section, month, chance in zip(
    dates.sections, dates.months[:, 0], dates.probabilities[:, 0], strict=True
  ):
    years = [
      values[1] for name, *values in section.statements if name == "year"
    ]
    if not years or chance < DOUBTFUL or dates.is_outside(month):
      continue
    start, end = np.searchsorted(members.lunations, (month, month + 1))
    names += [
      row
      for row in range(start, end)
      if is_printed[row] and members.regnal_years[row] == years[0]
    ]
  return np.array(names, int)
