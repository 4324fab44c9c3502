"""Records of several works that tell one event, and the days of a month.

Records of one time are grouped into events by shared wording. Rare words count
more; words common in the surrounding years count less. A day that both print
counts too.

Axes: n records, w words, T texts, V n-grams, K months.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import re
import sys
from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Int64

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.dating.chronicle import sections
from ctd_jax.dating.experts import wording
from ctd_jax.index import database
from ctd_jax.index.index_folder import IndexFolder

# Two records sharing n-grams of this weight tell the same event; a shared
# name of three characters weighs about 15.
MIN_WEIGHT = 12.0
_DAY_WEIGHT = 8.0  # added if both print the same day
# A short record nearly contained in another belongs to its event too.
_MIN_CONTAINED, _MIN_CONTAINED_WEIGHT = 0.7, 4.0
_LAST_CHARACTER = chr(sys.maxunicode)
_MARKS = re.compile(r"[\W_]+")
_MARKS_WITHIN_LINE = re.compile(r"[^\w\n]+|_+")
_YEAR = re.compile(sexagenary.YEAR_PATTERN)
_PAIR = re.compile(sexagenary.PAIR_PATTERN)
_USUAL_MONTHS = 36  # on either side, to learn common wording from
_MAX_USUAL = 600  # texts to learn from; more change nothing
# Of all stretches of a question together; fewer texts of each stand for 600.
_MAX_USUAL_IN_ALL = 3000
_MIN_USUAL = 60
MONTHS_AT_ONCE = 12  # that share one `UsualWording`
_OPENING = 60  # characters that count as a text's opening
_MIN_DAY_CHANCE = 0.05  # of a day, in calendars without known days
# Least chance of a record in another's likeliest month, to tell its event.
_MIN_COMMON = 0.1


@dataclasses.dataclass(frozen=True)
class WorkText:
  """A record to align with those of other works."""

  row: int  # row of the record in the index
  column: int  # number of its work
  text: str
  # First words without the date; "" if unknown.
  opening: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class UsualWording:
  """N-grams of the texts around a month: common wording, as against rare."""

  months: Int[np.ndarray, " T"]  # month of each text
  occurrences: wording.Occurrences  # n-grams of the texts
  weight: float = 1.0  # number of texts that each stands for

  @classmethod
  def read(
    cls,
    texts: Sequence[str],
    months: Sequence[int] | Int[np.ndarray, " T"],
    weight: float = 1.0,
  ) -> UsualWording:
    """Returns the n-grams of texts with their months."""
    return cls(
      np.array(months, int),
      wording.Occurrences.find(_prepare_all(texts), wording.LENGTHS),
      weight,
    )

  def count(
    self, strings: wording.NgramVocabulary, without_months: Collection[int]
  ) -> tuple[Int[np.ndarray, " V"], int]:
    """Returns about how many texts have each n-gram, and how many there are.

    Args:
      without_months: texts of these months are not counted.
    """
    is_other = ~np.isin(self.months, [*without_months])
    others = self.occurrences.select(is_other[self.occurrences.rows])
    counts = strings.count_texts(others) * self.weight
    return counts.astype(int), int(is_other.sum() * self.weight)


def align_records(
  records: Sequence[WorkText],
  usual: UsualWording,
  months: Collection[int],
  is_possible: Bool[np.ndarray, "n n"] | bool = True,
) -> list[list[WorkText]]:
  """Returns the records grouped by event, in the order of the works.

  Args:
    records: sorted by column, within a column in the order of the work.
    usual: wording of the surrounding years.
    months: months of the records.
    is_possible: which pairs may have the same time.
  """
  weights = np.where(is_possible, _weigh_pairs(records, usual, months), 0)
  events: list[list[int]] = []
  previous: int | None = None  # position of the event before, in this work
  columns = np.array([record.column for record in records], int)
  for index, column in enumerate(columns):
    if index and column != columns[index - 1]:
      previous = None
    shared = np.where(columns[:index] != column, weights[index, :index], 0)
    event = _find_event(events, shared)
    if event is None:
      event = len(events) if previous is None else previous + 1
      events.insert(event, [])
    events[event].append(index)
    previous = event
  return [[records[index] for index in event] for event in events]


def _find_event(
  events: Sequence[Sequence[int]], weights: Float[np.ndarray, " b"]
) -> int | None:
  """Returns the event that shares most with a record, if any shares enough."""
  most = weights.max(initial=MIN_WEIGHT)
  if most <= MIN_WEIGHT:
    return None
  nearest = {*np.flatnonzero(weights == most).tolist()}
  return next(
    number
    for number, members in enumerate(events)
    if not nearest.isdisjoint(members)
  )


def _weigh_pairs(
  records: Sequence[WorkText], usual: UsualWording, months: Collection[int]
) -> Float[np.ndarray, "n n"]:
  """Returns the weight of what each two records share."""
  texts = [_prepare(record.text) for record in records]
  # Only n-grams of these records matter; the usual texts give their counts.
  strings = wording.collect_ngrams(texts, wording.LENGTHS)
  usual_counts, num_usual = usual.count(strings, months)
  idf = wording.weigh_strings(
    strings.text_counts + usual_counts, len(texts) + num_usual
  )
  held = strings.encode(texts)
  scaled = held.copy()
  scaled.data = idf[held.indices]
  weights = (scaled @ held.T).toarray()
  whole = np.minimum.outer(weights.diagonal(), weights.diagonal())
  is_contained = (weights >= _MIN_CONTAINED * whole) & (
    weights >= _MIN_CONTAINED_WEIGHT
  )
  weights = np.where(is_contained, weights + MIN_WEIGHT, weights)
  has_day = np.zeros((len(records), sexagenary.CYCLE_LENGTH), np.float32)
  for row, record in enumerate(records):
    has_day[row, list(find_days(record.text))] = 1
  weights += _DAY_WEIGHT * (has_day @ has_day.T > 0)
  openings = [_prepare(record.opening) for record in records]
  lengths = np.array([len(opening) for opening in openings])
  quoted = _mark_quoted(openings)
  return weights + np.where(quoted, MIN_WEIGHT + lengths[:, None], 0)


def _mark_quoted(texts: Sequence[str]) -> Bool[np.ndarray, "n n"]:
  """Returns which pairs have one text that starts with the other."""
  begins = np.zeros((len(texts), len(texts)), bool)
  order = sorted(range(len(texts)), key=texts.__getitem__)
  ordered = [texts[row] for row in order]
  for row, text in enumerate(texts):
    if text:
      # Texts that begin with it are adjacent in sorted order.
      first = bisect.bisect_left(ordered, text)
      end = bisect.bisect_right(ordered, text + _LAST_CHARACTER)
      begins[row, order[first:end]] = True
  return begins | begins.T


def _prepare(text: str) -> str:
  """Returns a text in one script, without punctuation, which editions vary."""
  return _MARKS.sub("", numerals.fold_script(text))


def _prepare_all(texts: Sequence[str]) -> list[str]:
  """Returns many texts prepared as in `_prepare`, in one pass."""
  joined = "\n".join(text.replace("\n", "") for text in texts)
  folded = numerals.fold_script(joined)
  return _MARKS_WITHIN_LINE.sub("", folded).split("\n")


def find_days(text: str) -> frozenset[int]:
  """Returns the sexagenary days printed in a text; 0 is 甲子."""
  folded = _YEAR.sub("", sections.fold_date_glyphs(text))
  return frozenset(
    sexagenary.parse_cyclic_index(pair) for pair in _PAIR.findall(folded)
  )


def make_text(
  index: IndexFolder, row: int, text: str, date_end: int
) -> WorkText:
  """Returns a record to align; commentaries come after what they explain."""
  column = index.work_order[index.work_of(row).work_id]
  return WorkText(row, column, text, text[date_end:_OPENING])


def read_usual(
  index: IndexFolder, stretch: int, most: int | None = None
) -> UsualWording:
  """Returns the wording of the years around a stretch of `MONTHS_AT_ONCE`
  months.

  Args:
    most: number of texts to learn from; `_MAX_USUAL` if None.
  """
  first = stretch * MONTHS_AT_ONCE
  months = dict(
    index.connection.execute(
      "SELECT row, best_month FROM records WHERE best_month BETWEEN ? AND ? "
      "ORDER BY best_month, row",
      (first - _USUAL_MONTHS, first + MONTHS_AT_ONCE - 1 + _USUAL_MONTHS),
    ).fetchall()
  )
  # Sampled evenly over the years.
  step, fewest = (
    -(-len(months) // size) or 1 for size in (most or _MAX_USUAL, _MAX_USUAL)
  )
  rows = [*months][::step]
  texts = database.fetch_columns(index.connection, rows, "text")
  return UsualWording.read(
    [text for _, text in texts],
    [months[row] for row, _ in texts],
    step / fewest,
  )


def group_records(
  index: IndexFolder, rows: Int64[np.ndarray, " n"]
) -> Int64[np.ndarray, " n"]:
  """Returns the event of each record, numbered from 0 in no order."""
  stretches = collections.defaultdict(list)
  months = {}
  for row, text, date_end, month in database.fetch_columns(
    index.connection, rows.tolist(), "text", "date_end", "best_month"
  ):
    months[row] = month
    # Records on either side of such a border are not compared.
    stretches[month // MONTHS_AT_ONCE].append(
      make_text(index, row, text, date_end)
    )
  numbers: dict[int, int] = {}
  most = max(_MAX_USUAL_IN_ALL // max(len(stretches), 1), _MIN_USUAL)
  for stretch, texts in stretches.items():
    texts.sort(key=lambda text: (text.column, text.row))
    of_texts = np.array([months[text.row] for text in texts])
    if texts[0].column == texts[-1].column:
      groups = [[text] for text in texts]
    else:
      groups = align_records(
        texts,
        read_usual(index, stretch, most)
        if most < _MAX_USUAL
        else index.remember(read_usual, stretch),
        range(stretch * MONTHS_AT_ONCE, (stretch + 1) * MONTHS_AT_ONCE),
        _may_be_of_one_time(index, [text.row for text in texts], of_texts),
      )
    for group in groups:
      numbers |= dict.fromkeys((text.row for text in group), len(numbers))
  return np.array([numbers[row] for row in rows.tolist()], np.int64)


def _may_be_of_one_time(
  index: IndexFolder, rows: Sequence[int], months: Int[np.ndarray, " n"]
) -> Bool[np.ndarray, "n n"]:
  """Returns which pairs agree: one may be from the other's likeliest month."""
  unique, places = np.unique(months, return_inverse=True)
  chances = np.zeros((len(rows), len(unique)))
  for number, row in enumerate(rows):
    work = index.work_of(row)
    arrays = index.posteriors_of(work).arrays
    start, end = arrays.starts[row - work.first_row :][:2]
    found = np.searchsorted(unique, arrays.months[start:end])
    found = np.minimum(found, len(unique) - 1)
    is_one = unique[found] == arrays.months[start:end]
    chances[number, found[is_one]] = arrays.probabilities[start:end][is_one]
  likely = chances[:, places]
  is_same = months[:, None] == months
  return is_same | (np.maximum(likely, likely.T) >= _MIN_COMMON)


def list_days(index: IndexFolder, month: int) -> list[int]:
  """Returns the sexagenary days that a month has or may have, in order.

  Empty if the calendar does not know.
  """
  calendar = index.calendar
  if days := calendar.find_days(month, index.printed_reigns):
    first, length = days
    start = sexagenary.cyclic_index_of_day(first)
    return [(start + day) % sexagenary.CYCLE_LENGTH for day in range(length)]
  possible = index.day_chances[month] >= _MIN_DAY_CHANCE
  if possible.all() or not possible.any():
    return []
  # Start the cycle after a gap, so that the days run on.
  start = int(np.flatnonzero(possible & ~np.roll(possible, 1))[0])
  order = (start + np.arange(sexagenary.CYCLE_LENGTH)) % sexagenary.CYCLE_LENGTH
  return order[possible[order]].tolist()


def number_days(
  index: IndexFolder, month: int, printed: Collection[int]
) -> dict[int, int]:
  """Returns sexagenary day -> its place in a month, from 1.

  Args:
    printed: days of the month's records. If the calendar does not know its
      days, it begins after the longest time without any of these.
  """
  days = list_days(index, month)
  if not days:
    ordered = sorted(printed)
    gaps = [
      (day - before) % sexagenary.CYCLE_LENGTH
      for before, day in zip([*ordered[-1:], *ordered], ordered, strict=False)
    ]
    start = int(np.argmax(gaps)) if gaps else 0
    days = ordered[start:] + ordered[:start]
  return {day: place for place, day in enumerate(days, 1)}
