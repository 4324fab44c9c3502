"""Printed dates of chronicles, read by the layout of each edition.

What is right is what the edition prints: its heads of years where its layout
puts them, and within a year the months that go forward. None of the code that
dates chronicles is used, nor its tables (see `chronicle_calendar`). What
a reader would doubt is left out and counted: months that run back, that their
year lacks, or that lack the day printed beside them. What stands after a date
that was left out is of no month that is known.
"""

import collections
import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ctd_jax.texts.works import Entry
from tests.benchmarks.chronicle_calendar import (
  Month,
  MonthTable,
  parse_day,
  parse_numeral,
)

_NUMERAL = r"[元一二三四五六七八九十廿卅有又]+"
_SEASON = r"[春夏秋冬]"
_PAUSE = r"[，、．。‧\s]?"
_MONTH = re.compile(
  rf"(?:(?P<season>{_SEASON}){_PAUSE})?[王周]?(?P<month>"
  r"(?P<leap>[閏潤闰]|後(?=九))?(?P<number>正|十(?:有|又)?[一二]|[一二三四五六七八九十])?月)"
)
_SEASON_ALONE = re.compile(rf"{_SEASON}(?![\w，、．。‧\s]{{0,4}}月)")
_WHOLE_YEAR = re.compile(r"是[歳歲嵗年]|春秋")  # no month, no season
_SENTENCE_END = "，。；：！？．、‧○　"
# A span of time, or the month of something else: 「三月而葬」.
_NOT_A_HEAD = tuple("而之餘乃不者則也內中間以俸錢糧為爲有矣")
_LACKS_DAY = "months that lack the day beside them"
_NOT_BEFORE = tuple("自至及以迄從到今於")
# Where months head: at the opening of a record alone, of a clause outside of
# quotations, or anywhere in running text without punctuation.
OPENING, CLAUSE, RUNNING = "opening", "clause", "running"


@dataclasses.dataclass(frozen=True)
class DatedPlace:
  """A place of a record and its date.

  Attributes:
    position: in the text of the record.
    month: that is right there.
    is_head: whether the date is printed there; else it is carried on from the
      head before.
  """

  position: int
  month: Month
  is_head: bool


@dataclasses.dataclass(frozen=True)
class GoldRecord:
  """An entry with its dates.

  Attributes:
    entry: as it is read.
    places: in order; none before the first head of the work.
    year_spans: characters that print a year.
    date_spans: characters that print a year, a season or a month.
  """

  entry: Entry
  places: tuple[DatedPlace, ...] = ()
  year_spans: tuple[tuple[int, int], ...] = ()
  date_spans: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class GoldText:
  """A chronicle with its dates.

  Attributes:
    name: of the text.
    reigns: what --reigns says.
    records: in order of print.
    counts: heads that were taken and, by reason, that were not.
    front: what comes before the text: contents, prefaces.
  """

  name: str
  reigns: str
  records: tuple[GoldRecord, ...]
  counts: dict[str, int]
  front: tuple[GoldRecord, ...] = ()


class YearHead(NamedTuple):
  """A year that the layout of an edition heads.

  Attributes:
    record: number of the record.
    start: of the printed year in its text.
    stop: of the same; `start` where nothing is printed.
    year: astronomical; None if it is out of order or not understood.
  """

  record: int
  start: int
  stop: int
  year: int | None


class _Candidate(NamedTuple):
  """A month that may be a head: where, which, how much speaks for it."""

  record: int
  start: int
  stop: int
  order: int
  month: Month
  weight: int
  has_day: bool


def date_records(
  entries: Sequence[Entry],
  years: Sequence[YearHead],
  table: MonthTable,
  layout: str,
  carries: bool = True,
  is_continuous: bool = False,
) -> tuple[tuple[GoldRecord, ...], dict[str, int]]:
  """Returns the records with their dates, and counts of heads.

  Args:
    entries: in order.
    years: heads of years, in order of print.
    table: months of the calendar.
    layout: OPENING, CLAUSE or RUNNING: where months head.
    carries: whether an entry without a date stands under the one before.
    is_continuous: whether every year has a head, so that one is missing where
      years are skipped.
  """
  counts: collections.Counter[str] = collections.Counter()
  spans = [[] for _ in entries]  # (start, stop, month or None, has year)
  years = sorted(years, key=lambda head: head[:3])
  ends = [(head.record, head.start) for head in years[1:]]
  following_years = [head.year for head in years[1:]] + [None]
  for head, end, following in zip(
    years, [*ends, (len(entries), 0)], following_years, strict=True
  ):
    if head.year is None:
      # A year that is cited, or misprinted: what follows is not known.
      spans[head.record].append((head.start, head.stop, None, True))
      counts["years out of order"] += 1
      continue
    spans[head.record].append((head.start, head.stop, Month(head.year), True))
    candidates, doubtful, reasons = [], [], []
    for record in range(head.record, min(end[0] + 1, len(entries))):
      entry = entries[record]
      start = head.stop if record == head.record else 0
      stop = end[1] if record == end[0] else len(entry.text)
      for item in _find_months(
        entry.text, record, start, stop, head.year, table, layout
      ):
        if isinstance(item, _Candidate):
          candidates.append(item)
        else:
          doubtful.append((record, *item[:2]))
          reasons.append(item[2])
    num_fitting = sum(candidate.has_day for candidate in candidates)
    if reasons.count(_LACKS_DAY) > max(1, num_fitting):
      # The year is misprinted, or misread.
      spans[head.record][-1] = head.start, head.stop, None, True
      counts["years that their days contradict"] += 1
      counts["months of such years"] += len(candidates) + len(doubtful)
      for record, start, stop, *_ in [*candidates, *doubtful]:
        spans[record].append((start, stop, None, False))
      continue
    counts["years taken"] += 1
    counts.update(reasons)
    if is_continuous and following is not None and following > head.year + 1:
      # The head of the next year was missed: where it begins is not known.
      counts["months before a year that is missing"] += len(candidates)
      doubtful += [candidate[:3] for candidate in candidates]
      candidates = []
    chain = _find_longest_chain(candidates)
    counts["months taken"] += len(chain)
    for candidate in candidates:
      if candidate in chain:
        month = candidate.month
      elif candidate.weight > 1:
        counts["months out of order"] += 1
        month = None
      else:
        counts["spans of time or months out of order"] += 1
        doubtful.append((candidate.record, candidate.start, candidate.start))
        continue
      spans[candidate.record].append(
        (candidate.start, candidate.stop, month, False)
      )
    for record, start, stop in doubtful:
      spans[record].append((start, stop, None, False))
  return _place_dates(entries, spans, table, counts, carries), dict(counts)


def _find_months(text, record, start, stop, year, table, layout):
  """Yields candidates, and (start, stop, reason) of what is doubtful.

  What may be no date at all has no characters: it is not to be cut.
  """
  is_punctuated = layout == CLAUSE
  if is_punctuated:
    yield from _find_seasons(text, start, stop)
  elif layout == RUNNING and start == 0 and _SEASON_ALONE.match(text):
    yield 0, 0, "seasons without a month"
  if start == 0 and _WHOLE_YEAR.match(text):
    yield 0, 0, "records of a whole year"
  for match in _MONTH.finditer(text, start, stop):
    first, last = match.span()
    if not (match["number"] or match["leap"]):
      continue
    before, after = text[first - 1 : first], text[last : last + 1]
    at_start = not text[start:first].strip(_SENTENCE_END) and (
      start == 0 or text[start - 1] in "年載"
    )
    if is_punctuated and not (at_start or before in _SENTENCE_END):
      continue
    if before in "年載有" and not at_start:
      continue  # of a year that is cited
    if not match["season"] and (
      (after and after in _NOT_A_HEAD) or (before and before in _NOT_BEFORE)
    ):
      if at_start:  # 「八月以」
        yield first, last, "months before what may go on with a span of time"
      continue
    if layout == OPENING and not at_start:
      yield first, first, "months inside of entries"
      continue
    if is_punctuated and _is_quoted(text, first):
      continue
    number = parse_numeral(match["number"] or "")
    is_leap = bool(match["leap"])
    day = parse_day(text, last + (after in _SENTENCE_END[:1] and is_punctuated))
    has_more = bool(match["season"]) or day is not None or is_leap
    weight = 3 if at_start or has_more else 1
    if is_punctuated:
      weight += 1
    found = table.find_month(year, number, is_leap)
    if found is None:
      yield first, last, "months that the year lacks"
    elif day is not None and not table.has_day(found[1], day):
      yield first, last, _LACKS_DAY
    else:
      yield _Candidate(record, first, last, *found, weight, day is not None)


def list_months(text: str) -> list[tuple[int, bool]]:
  """Returns (number, leap) of the months that open clauses of a text.

  Number 0 is of a leap month without one.
  """
  months = []
  for match in _MONTH.finditer(text):
    start, stop = match.span()
    if not (match["number"] or match["leap"]) or (
      start and text[start - 1] not in _SENTENCE_END + "年載"
    ):
      continue
    if text[stop : stop + 1] in _NOT_A_HEAD or _is_quoted(text, start):
      continue
    months.append((parse_numeral(match["number"] or ""), bool(match["leap"])))
  return months


def confirm_months(
  records: Sequence[GoldRecord],
  other_months: Mapping[int, Sequence[tuple[int, bool]]],
) -> tuple[tuple[GoldRecord, ...], int]:
  """Returns records whose months another edition has, and how many it lacks.

  A month that it lacks is not known; its year is.

  Args:
    records: with the number of the juan at the end of the names of files.
    other_months: juan -> months in order, number 0 for a leap month of any.
  """
  heads: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
  for row, record in enumerate(records):
    for index, place in enumerate(record.places):
      if place.is_head and place.month.month:
        heads[read_juan(record.entry)].append((row, index))
  unconfirmed = set()
  for juan, found in heads.items():
    months = [records[row].places[index].month for row, index in found]
    other = other_months.get(juan, ())
    matcher = difflib.SequenceMatcher(
      a=[0 if month.is_leap else month.month for month in months],
      b=[0 if is_leap else number for number, is_leap in other],
      autojunk=False,
    )
    matched = {
      block.a + offset
      for block in matcher.get_matching_blocks()
      for offset in range(block.size)
    }
    unconfirmed |= {
      head for row, head in enumerate(found) if row not in matched
    }
  confirmed, is_known = [], True
  for row, record in enumerate(records):
    places = []
    for index, place in enumerate(record.places):
      if place.is_head or not place.month.month:
        is_known = (row, index) not in unconfirmed
      month = place.month if is_known else Month(place.month.year)
      places.append(dataclasses.replace(place, month=month))
    confirmed.append(dataclasses.replace(record, places=tuple(places)))
  return tuple(confirmed), len(unconfirmed)


def read_juan(entry: Entry) -> int:
  """Returns the number at the end of the name of an entry's file."""
  return int(re.search(r"(\d+)\D*$", entry.place.file)[1])


def _find_seasons(text, start, stop):
  """Yields (start, stop, reason) of seasons that no month follows."""
  for match in _SEASON_ALONE.finditer(text, start, stop):
    first, last = match.span()
    opens_record = not text[start:first].strip(_SENTENCE_END) and (
      start == 0 or text[start - 1] in "年載"
    )
    is_delimited = text[last : last + 1] in ("", *_SENTENCE_END)
    if (
      opens_record or (is_delimited and text[first - 1] in _SENTENCE_END)
    ) and not _is_quoted(text, first):
      yield first, last, "seasons without a month"


def _is_quoted(text: str, position: int) -> bool:
  opened = text.count("「", 0, position) + text.count("“", 0, position)
  closed = text.count("」", 0, position) + text.count("”", 0, position)
  return opened > closed


def _find_longest_chain(candidates: Sequence[_Candidate]) -> set[_Candidate]:
  """Returns the months that go forward, with the greatest weight together."""
  best: list[tuple[int, int]] = []  # (weight, index before)
  for index, candidate in enumerate(candidates):
    weight, previous = 0, -1
    for earlier in range(index):
      if (
        candidates[earlier].order <= candidate.order
        and best[earlier][0] > weight
      ):
        weight, previous = best[earlier][0], earlier
    best.append((weight + candidate.weight, previous))
  chain = set()
  index = max(range(len(best)), key=lambda i: best[i][0], default=-1)
  while index >= 0:
    chain.add(candidates[index])
    index = best[index][1]
  return chain


def _place_dates(
  entries, spans, table, counts, carries
) -> tuple[GoldRecord, ...]:
  """Returns the records, each place under the head before it."""
  records = []
  month: Month | None = None
  for entry, record_spans in zip(entries, spans, strict=True):
    places = []
    text = entry.text
    merged = _merge_spans(text, record_spans)
    if month is not None and (not merged or merged[0][0]):
      day = parse_day(text, 0)
      if month.month and day is not None and not table.has_day(month, day):
        counts["entries whose day the carried month lacks"] += 1
        month = Month(month.year)
      if carries and not entry.is_heading:
        places.append(DatedPlace(0, month, is_head=False))
    for start, stop, head, year_stop in merged:
      if head is None:
        # Of a doubtful year nothing is known, of a doubtful month the year.
        is_year = year_stop > start
        month = Month(month.year) if month and not is_year else None
        if month is not None:
          places.append(DatedPlace(start, month, is_head=False))
        continue
      month = head
      position = min(stop, max(len(text) - 1, 0))
      places.append(DatedPlace(position, month, is_head=stop > start))
    records.append(
      GoldRecord(
        entry,
        tuple(places),
        tuple(
          (start, year_stop)
          for start, _, _, year_stop in merged
          if year_stop > start
        ),
        tuple((start, stop) for start, stop, *_ in merged if stop > start),
      )
    )
  return tuple(records)


def _merge_spans(text, spans):
  """Returns (start, stop, month, stop of the year); a year joins its month."""
  merged: list[tuple[int, int, Month | None, int]] = []
  for start, stop, month, has_year in sorted(spans, key=lambda span: span[:2]):
    if merged and not has_year:
      first, last, year, year_stop = merged[-1]
      is_year = first < last == year_stop
      if is_year and not text[last:start].strip(_SENTENCE_END):
        merged[-1] = first, stop, month or year, year_stop
        continue
    merged.append((start, stop, month, stop if has_year else start))
  return merged


def check_order(heads: Iterable[YearHead]) -> list[YearHead]:
  """Returns heads, their year None where it is neither the last nor the next.

  Args:
    heads: in order of print.
  """
  checked: list[YearHead] = []
  last_year = None
  for head in heads:
    if last_year is not None and not 0 <= head.year - last_year <= 1:
      checked.append(head._replace(year=None))
    else:
      last_year = head.year
      checked.append(head)
  return checked
