"""Corpus of a dating model: texts, their printed dates, and known labels.

Axes: N records, K months, Y years, R reigns, M pairs of a year and a reign.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from ctd_jax.chronology import dates as dates_lib
from ctd_jax.chronology import numerals, reigns, sexagenary
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.utils import unicode_text

# Months that records are dated in, grouped by years.
# An axis is what a dating model knows about a calendar: a month is an integer,
# and its year another. The months are those of a timeline, reign after reign,
# or the lunations of a chronicle (`chronicle.undated_texts.make_month_axis`),
# where a year can have a leap month and belong to several reigns.

UNKNOWN = -1


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class MonthAxis:
  """Months in order, and the years that they make up."""

  timeline: Timeline  # the reigns, for readers of dates
  # 1-12; a leap month shares the number of the one before.
  month_of_year: Int[np.ndarray, " K"]
  # Index of the year of every month, ascending without gaps.
  year_of: Int[np.ndarray, " K"]
  # Astronomical year of every year. Several may share one: the last of a ruler
  # and the first of the next.
  civil_year: Int[np.ndarray, " Y"]
  # (reign from 0, number of its year, index of the year), those that lead in
  # their years first.
  regnal_years: Int[np.ndarray, "M 3"]

  @classmethod
  def from_timeline(cls, timeline: Timeline) -> MonthAxis:
    """Returns the months of a timeline, numbered as there, by regnal years."""
    regnal_years = list(
      dict.fromkeys((key.reign, key.year) for key in timeline.months)
    )
    index = {regnal_year: row for row, regnal_year in enumerate(regnal_years)}
    year_of = np.array([index[key.reign, key.year] for key in timeline.months])
    return cls(
      timeline=timeline,
      month_of_year=np.array([key.month for key in timeline.months]),
      year_of=year_of,
      civil_year=np.array(
        [
          reigns.astronomical_year_of(timeline, timeline.key_at(start))
          for start in np.flatnonzero(np.diff(year_of, prepend=-1)).tolist()
        ]
      ),
      regnal_years=np.array(
        [
          (reign - 1, number, row)
          for row, (reign, number) in enumerate(regnal_years)
        ]
      ),
    )

  def __len__(self) -> int:
    """Number of months K."""
    return len(self.month_of_year)

  @functools.cached_property
  def year_starts(self) -> Int[np.ndarray, " Y"]:
    """First month of every year."""
    return np.flatnonzero(np.diff(self.year_of, prepend=-1))

  @functools.cached_property
  def reign(self) -> Int[np.ndarray, " Y"]:
    """Reign that leads in every year, from 0; UNKNOWN if none does."""
    return self._leading(0)

  @functools.cached_property
  def year_number(self) -> Int[np.ndarray, " Y"]:
    """Number of every year in its leading reign, 1 = 元年."""
    return self._leading(1)

  @functools.cached_property
  def has_reign(self) -> Float[np.ndarray, "Y R"]:
    """1 where a year belongs to a reign, else 0."""
    result = np.zeros((self.num_years, self.num_reigns))
    result[self.regnal_years[:, 2], self.regnal_years[:, 0]] = 1
    return result

  def _leading(self, column: int) -> np.ndarray:
    result = np.full(self.num_years, UNKNOWN)
    # Backwards, so that the first membership of a year stays.
    result[self.regnal_years[::-1, 2]] = self.regnal_years[::-1, column]
    return result

  @property
  def num_years(self) -> int:
    """Number of years Y."""
    return len(self.civil_year)

  @property
  def num_reigns(self) -> int:
    """Number of reigns."""
    return int(self.regnal_years[:, 0].max(initial=-1)) + 1

  @functools.cached_property
  def _year_table(self) -> np.ndarray:
    # One more row and column than there are reigns and years: the row of the
    # reign UNKNOWN (-1, the last) and the column of any year beyond the last.
    reigns, numbers, years = self.regnal_years[::-1].T
    table = np.full((self.num_reigns + 1, numbers.max(initial=0) + 2), UNKNOWN)
    table[reigns, numbers] = years
    return table

  def year_index(
    self, reign: np.ndarray | int, year_number: np.ndarray | int
  ) -> np.ndarray | np.integer:
    """Returns the index of each regnal year, UNKNOWN if no reign has it.

    `reign` is a row from 0, or UNKNOWN; `year_number` is 1 for 元年.
    """
    last = self._year_table.shape[1] - 1
    return self._year_table[reign, np.minimum(year_number, last)]

  def to_years(self, log_months: Float[np.ndarray, "n K"]) -> np.ndarray:
    """Returns log masses of years [n, Y] from log masses of months."""
    return np.logaddexp.reduceat(log_months, self.year_starts, axis=1)


# An opening date: a month 1-12, a season alone (13-16), a leap month without a
# number (17) or none of them.
NO_OPENING = 0
_FIRST_SEASON_OPENING = 13
_LEAP_OPENING = 17
NUM_OPENINGS = 18
# Manner of an opening, two bits: the season is named before the month (1), and
# nothing follows the date (2).
NUM_MANNERS = 4
_MAX_OPENING_START = 2  # characters that may come before a record's own date
_MAX_DAYS = 4  # of the opening month; later ones are rarely of that month
_NOT_HAN = re.compile("[^\u3400-\u9fff\U00020000-\U0003ffff]")
# One name in two works; pairs of glyphs that prints confuse.
_NAME_VARIANTS = {"邾婁": "邾"}
_fold_variants = numerals.make_replacer(
  {"已": "己", "巳": "己", "于": "於", "夘": "卯"}
)


@dataclasses.dataclass(frozen=True)
class Labels:
  """All that is known of records besides their texts."""

  # Ordinal month of each record, UNKNOWN where hidden.
  month: Int[np.ndarray, " N"]
  # 1 if records of its kind can answer, 0 if commentary, UNKNOWN where
  # hidden.
  event_labels: Int[np.ndarray, " N"]

  @property
  def is_known(self) -> Bool[np.ndarray, " N"]:
    """Whether the month of a record is known."""
    return self.month != UNKNOWN

  def hide_records(self, rows: Bool[np.ndarray, " N"]) -> Labels:
    """Returns labels without those of `rows`."""
    return Labels(
      np.where(rows, UNKNOWN, self.month),
      np.where(rows, UNKNOWN, self.event_labels),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
  """The records to be dated, as their texts present them; see `read_corpus`."""

  axis: MonthAxis  # the months that they may be of
  texts: tuple[str, ...]  # as printed, [N]
  plain_texts: tuple[str, ...]  # Han characters alone, in one spelling, [N]
  # `plain_texts` without the date that opens a text, [N].
  bodies: tuple[str, ...]
  # Month (1-12), season (13-16) or leap month (17) that opens a text.
  opening: Int[np.ndarray, " N"]
  # 0-3: 1 if a season comes before the month, plus 2 if the opening is all of
  # the text.
  opening_manner: Int[np.ndarray, " N"]
  # Regnal year that opens a text, 0 if none.
  opening_year: Int[np.ndarray, " N"]
  # Characters of `texts` that the opening date takes, (0, 0) without one.
  opening_span: Int[np.ndarray, "N 2"]
  # Sexagenary days of a text's opening month, from 0 = 甲子, [N] tuples.
  days: tuple[tuple[int, ...], ...]
  # What the text says about the position of its first day in the month, one of
  # `sexagenary.DAY_MARKS`.
  first_day_mark: Int[np.ndarray, " N"]
  # Ordinal month that a placeholder states; UNKNOWN for other records.
  placeholder_month: Int[np.ndarray, " N"]
  # Texts that are not records; their citations count too.
  external_texts: tuple[str, ...] = ()

  def __len__(self) -> int:
    return len(self.texts)

  def take(self, rows: Int[np.ndarray, " n"]) -> Corpus:
    """Returns some of the records, in the order of `rows`."""
    arrays = {
      field.name: getattr(self, field.name)[rows]
      for field in dataclasses.fields(self)
      if isinstance(getattr(self, field.name), np.ndarray)
    }
    tuples = {
      name: tuple(getattr(self, name)[row] for row in rows.tolist())
      for name in ("texts", "plain_texts", "bodies", "days")
    }
    return dataclasses.replace(self, **arrays, **tuples)

  @property
  def is_placeholder(self) -> Bool[np.ndarray, " N"]:
    """Whether a record says that its month is empty."""
    return self.placeholder_month != UNKNOWN

  def has_placeholder(
    self, of_records: Bool[np.ndarray, " N"] | bool = True
  ) -> Bool[np.ndarray, " K"]:
    """Returns whether a month has a placeholder among some of the records."""
    result = np.zeros(len(self.axis), bool)
    result[self.placeholder_month[self.is_placeholder & of_records]] = True
    return result

  @functools.cached_property
  def text_hashes(self) -> UInt32[np.ndarray, " N"]:
    """CRC-32 of each text; sampling by it does not depend on the order."""
    return np.array(
      [zlib.crc32(text.encode()) for text in self.texts], np.uint32
    )

  def sample_rows(self, max_records: int) -> Int[np.ndarray, " S"]:
    """Returns about `max_records` rows, ascending; all if there are no more."""
    # Chosen by their texts: the order of the records must not matter.
    return np.flatnonzero(
      self.text_hashes % np.uint32(max(1, len(self) // max_records)) == 0
    )

  @functools.cached_property
  def first_day(self) -> Int[np.ndarray, " N"]:
    """Sexagenary day that a text names first, UNKNOWN if none."""
    return np.array([days[0] if days else UNKNOWN for days in self.days], int)

  @functools.cached_property
  def first_month(self) -> Int[np.ndarray, " N"]:
    """Month that opens a text, the first of a season; 0 if none."""
    # By opening: none and months 1-12, the four seasons, a leap month.
    return np.array([*range(13), 1, 4, 7, 10, 0])[self.opening]


def plain_text(text: str) -> str:
  """Returns the Han characters of `text` in one spelling."""
  text = numerals.fold_script(text)
  for name, common_name in _NAME_VARIANTS.items():
    text = text.replace(name, common_name)
  return _NOT_HAN.sub("", _fold_variants(text))


def find_sorted(
  table: np.ndarray, values: np.ndarray
) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
  """Returns positions of values in an ascending table, and which it holds."""
  if not len(table):
    return np.zeros(len(values), int), np.zeros(len(values), bool)
  positions = np.minimum(np.searchsorted(table, values), len(table) - 1)
  return positions, table[positions] == values


def cut_blocks(size: int, block_size: int) -> Iterator[slice]:
  """Yields slices of at most `block_size` of `size` rows."""
  for start in range(0, size, block_size):
    yield slice(start, min(start + block_size, size))


def read_corpus(
  texts: Iterable[str],
  timeline: Timeline,
  external_texts: Iterable[str] = (),
  is_placeholder: Bool[np.ndarray, " N"] | None = None,
) -> Corpus:
  """Returns the records with the dates that their texts print.

  Args:
    texts: texts of the records, in any order, [N].
    timeline: the calendar they are dated in.
    external_texts: texts outside the corpus; their citations count too
      (track T0+external).
    is_placeholder: which records say that their month is empty, whatever they
      look like; by default none.

  Raises:
    TypeError: if a text is no string.
  """
  return read_axis_corpus(
    unicode_text.list_texts(texts),
    MonthAxis.from_timeline(timeline),
    unicode_text.list_texts(external_texts, "external_texts"),
    is_placeholder,
  )


def read_axis_corpus(
  texts: Sequence[str],
  axis: MonthAxis,
  external_texts: Sequence[str] = (),
  is_placeholder: Bool[np.ndarray, " N"] | None = None,
) -> Corpus:
  """Returns the records as `read_corpus` does, for an axis made before."""
  if is_placeholder is None:
    is_placeholder = np.zeros(len(texts), bool)
  readings = [
    _read_text(text, axis.timeline, empty)
    for text, empty in zip(texts, is_placeholder.tolist(), strict=True)
  ]
  openings, manners, years, spans, days, marks, placeholders, bodies = (
    zip(*readings, strict=True) if readings else ((),) * 8
  )

  def to_array(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int32).reshape(-1)

  return Corpus(
    axis=axis,
    texts=tuple(texts),
    plain_texts=tuple(map(plain_text, texts)),
    bodies=tuple(bodies),
    opening=to_array(openings),
    opening_manner=to_array(manners),
    opening_year=to_array(years),
    opening_span=np.array(spans, np.int32).reshape(-1, 2),
    days=tuple(days),
    first_day_mark=to_array(marks),
    placeholder_month=to_array(placeholders),
    external_texts=tuple(external_texts),
  )


def _read_text(
  text: str, timeline: Timeline, is_placeholder: bool
) -> tuple[int, int, int, tuple[int, int], tuple[int, ...], int, int, str]:
  """Returns opening, manner, year, span, days, mark, placeholder and body."""
  placeholder_month = UNKNOWN
  if is_placeholder and (full := dates_lib.find_full_dates(text, timeline)):
    placeholder_month = timeline.ordinal(full[0][2])
  cues = dates_lib.find_date_cues(text, timeline)
  # A date further inside the text is not the record's own.
  if not cues or cues[0].start > _MAX_OPENING_START:
    no_day = sexagenary.ANY_DAY
    body = plain_text(text)
    return NO_OPENING, 0, 0, (0, 0), (), no_day, placeholder_month, body
  cue, *others = cues
  opening, body = _classify_opening(cue), plain_text(text[cue.end :])
  # Days before another month begins.
  same_month = itertools.takewhile(
    lambda other: (
      not (
        other.reign or other.year or other.month or other.season or other.leap
      )
    ),
    others,
  )
  day_cues = [each for each in (cue, *same_month) if each.day][:_MAX_DAYS]
  return (
    opening,
    (bool(cue.season and cue.month) + 2 * (not body)) * bool(opening),
    cue.year or 0,
    (cue.start, cue.end),
    tuple(sexagenary.parse_cyclic_index(each.day) for each in day_cues),
    sexagenary.find_day_mark(text, day_cues[0].end)
    if day_cues
    else sexagenary.ANY_DAY,
    placeholder_month,
    body,
  )


def _classify_opening(cue: dates_lib.DateCue) -> int:
  if cue.leap and not cue.month:
    return _LEAP_OPENING
  if cue.season and not cue.month:
    return _FIRST_SEASON_OPENING + dates_lib.SEASONS.index(cue.season)
  return cue.month or NO_OPENING


# Folds of labelled records, hidden as the records that are to be dated are.
#
# Weights are learned on records that are dated as an undated record is. If
# undated records come from years without known records, blocks of years are
# hidden. If they are texts to be dated with a chronicle whose years are all
# known, single records are hidden. The variant *strict* dates every labelled
# record this way.

NUM_FOLDS = 10
# What is hidden together.
FOLD_BY = YEARS, RECORDS = ("years", "records")
_BLOCK_YEARS = (2, 3)  # fewest and most, as of the held-out blocks
_SEED = 7  # of the lengths of the blocks; the weights depend on it


def fold_records(
  corpus: Corpus, labels: Labels, fold_by: str
) -> Int[np.ndarray, " N"]:
  """Returns the fold of each known record, UNKNOWN for the others.

  Args:
    fold_by: "years" hides blocks of years, "records" equal texts.
  """
  if fold_by == YEARS:
    return assign_folds(corpus.axis, labels)
  # Of the higher bits: samples of records are made of the lower ones.
  hashes = corpus.text_hashes.astype(int) >> 16
  return np.where(labels.is_known, hashes % NUM_FOLDS, UNKNOWN)


def assign_folds(axis: MonthAxis, labels: Labels) -> Int[np.ndarray, " N"]:
  """Returns the fold of each known record by its year; UNKNOWN for others."""
  # Consecutive years of a reign are cut into blocks of two or three years,
  # which are dealt out to the folds in turn.
  known_records = np.flatnonzero(labels.is_known)
  has_known_record = np.zeros(axis.num_years, bool)
  has_known_record[axis.year_of[labels.month[known_records]]] = True
  rng = np.random.default_rng(_SEED)
  fold_of_year = np.full(axis.num_years, UNKNOWN)
  block, num_years_left = -1, 0
  for year in np.flatnonzero(has_known_record):
    # A block ends where years without a record, or another reign, follow.
    if (
      not num_years_left
      or not (year > 0 and has_known_record[year - 1])
      or axis.reign[year - 1] != axis.reign[year]
    ):
      block += 1
      num_years_left = int(rng.integers(_BLOCK_YEARS[0], _BLOCK_YEARS[1] + 1))
    fold_of_year[year] = block % NUM_FOLDS
    num_years_left -= 1
  folds = np.full(len(labels.month), UNKNOWN)
  folds[known_records] = fold_of_year[axis.year_of[labels.month[known_records]]]
  return folds
