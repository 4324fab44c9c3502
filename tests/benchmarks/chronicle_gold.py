"""Printed dates of chronicles, read by the layout of each edition.

What is right is what the edition prints: its heads of years where its layout
puts them, and within a year the months that go forward. None of the code that
dates chronicles is used, nor its tables: the years of eras and the days of
months are those of the DILA Time Authority, those of Lu its twelve reigns. What
a reader would doubt is left out and counted: months that run back, that their
year lacks, or that lack the day printed beside them.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import difflib
import functools
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ctd_jax.texts.works import Entry

STEMS, BRANCHES = "甲乙丙丁戊己庚辛壬癸", "子丑寅卯辰巳午未申酉戌亥"
# Printers mix 己 and 已 and 巳, and cut their blocks with other shapes.
_DAY = re.compile(
  r"([甲乙丙丁戊己已巳庚辛壬癸])([子丑寅卯夘辰巳已己午未申酉戌戍亥])"
)
_NUMERAL = r"[元一二三四五六七八九十廿卅有又]+"
_SEASON = r"[春夏秋冬]"
_PAUSE = r"[，、．。‧\s]?"
_MONTH = re.compile(
  rf"(?:(?P<season>{_SEASON}){_PAUSE})?[王周]?(?P<month>"
  r"(?P<leap>[閏潤])?(?P<number>正|十(?:有|又)?[一二]|[一二三四五六七八九十])?月)"
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
_EPOCH_OF_CYCLE = 11  # (Julian day number - 11) % 60 is 0 on 甲子


# (era, regnal year) -> astronomical years, for a name can come twice.
EraYears = dict[tuple[str, int], tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Month:
  """A month that is right.

  Attributes:
    year: astronomical, as its calendar counts it.
    month: 1-12; 0 if only the year is known.
    is_leap: whether it is intercalary.
    first_day: Julian day number; 0 if not known.
  """

  year: int
  month: int = 0
  is_leap: bool = False
  first_day: int = 0


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
    year: astronomical.
  """

  record: int
  start: int
  stop: int
  year: int


class MonthTable:
  """Months by year, in the order of their calendar.

  Args:
    months: of one calendar.
  """

  def __init__(self, months: Iterable[tuple[Month, int]]):
    self.by_year: dict[int, list[Month]] = collections.defaultdict(list)
    self.lengths: dict[Month, int] = {}
    for month, length in sorted(
      set(months),
      key=lambda row: (row[0].year, row[0].first_day, row[0].month),
    ):
      self.by_year[month.year].append(month)
      self.lengths[month] = length

  def find_month(
    self, year: int, number: int, is_leap: bool
  ) -> tuple[int, Month] | None:
    """Returns place in the year and month; number 0 is any leap month."""
    for index, month in enumerate(self.by_year.get(year, ())):
      if month.is_leap == is_leap and number in (0, month.month):
        return index, month
    return None

  def has_day(self, month: Month, day: int) -> bool:
    """Returns whether a month has a sexagenary day (0-59, 甲子 is 0)."""
    if not month.first_day:
      return True
    offset = (day - (month.first_day - _EPOCH_OF_CYCLE)) % 60
    return offset < self.lengths[month]


def parse_numeral(text: str) -> int:
  """Returns the value of a numeral below 100; 元 and 正 are 1, 0 if none."""
  text = text.translate(str.maketrans("元正", "一一", "有又"))
  for sign, tens in (("廿", "二十"), ("卅", "三十")):
    text = text.replace(sign, tens)
  match = re.fullmatch(r"(?:(\w?)(十))?(\w?)", text)
  if not text or match is None:
    return 0
  digits = "〇一二三四五六七八九"
  if not set(f"{match[1] or ''}{match[3]}") <= set(digits):
    return 0
  tens = (digits.index(match[1]) if match[1] else 1) if match[2] else 0
  return 10 * tens + (digits.index(match[3]) if match[3] else 0)


def parse_day(text: str, position: int) -> int | None:
  """Returns the sexagenary day printed at a position, 甲子 is 0."""
  match = _DAY.match(text, position)
  if match is None:
    return None
  stem = STEMS.index(match[1].translate(str.maketrans("已巳", "己己")))
  branch = BRANCHES.index(
    match[2].translate(str.maketrans("夘已己戍", "卯巳巳戌"))
  )
  if (stem - branch) % 2:
    return None
  return next(
    day for day in range(60) if (day % 10, day % 12) == (stem, branch)
  )


@functools.cache
def read_dila_rows(outside: pathlib.Path) -> tuple[dict[str, str], ...]:
  """Returns the rows of the months of China."""
  path = outside / "dila_time" / "zh.tsv"
  with path.open(encoding="utf-8", newline="") as file:
    return tuple(csv.DictReader(file, delimiter="\t"))


def read_dila_months(
  outside: pathlib.Path, dynasties: Sequence[str]
) -> tuple[MonthTable, EraYears]:
  """Returns months, and (era, regnal year) -> astronomical years, ascending.

  Where years are counted by the ruler alone, the era is 「景帝（中元）」.

  Args:
    outside: folder of texts and calendars from outside.
    dynasties: as DILA calls them.
  """
  months = []
  years: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
  for row in read_dila_rows(outside):
    if row["dynasty"] not in dynasties:
      continue
    number, first = int(row["month"]), int(row["first_jdn"])
    first -= int(row["first_day"]) - 1
    # Some hundred days past new year lies in the year, leap months or not.
    day = first - round((number - 1) * 29.53) + 120
    year = int((day - 1721057.5) // 365.25)
    # Until 104 BCE the year began with the tenth month.
    year += number >= 10 and first < 1683431
    length = int(row["last_jdn"]) - first + 1
    months.append((Month(year, number, row["leap"] == "1", first), length))
    eras = row["era"].split("/")
    if "（" in row["era"]:
      eras = [row["ruler"] + era for era in eras]
    for era in eras:
      years[era, int(row["year"])].add(year)
  # A month of two eras is two rows: the longer one has its length.
  lengths: dict[Month, int] = collections.defaultdict(int)
  for month, length in months:
    lengths[month] = max(lengths[month], length)
  return MonthTable(lengths.items()), {
    name: tuple(sorted(found)) for name, found in years.items()
  }


def make_lu_months(first_year: int, last_year: int) -> MonthTable:
  """Returns the months of years whose calendar is not known."""
  return MonthTable(
    # First days that order the months and say nothing of days.
    (Month(year, number), 0)
    for year in range(first_year, last_year + 1)
    for number in range(1, 13)
  )


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
) -> tuple[tuple[GoldRecord, ...], dict[str, int]]:
  """Returns the records with their dates, and counts of heads.

  Args:
    entries: in order.
    years: heads of years, in order of print.
    table: months of the calendar.
    layout: OPENING, CLAUSE or RUNNING: where months head.
    carries: whether an entry without a date stands under the one before.
  """
  counts: collections.Counter[str] = collections.Counter()
  spans = [[] for _ in entries]  # (start, stop, month or None, has year)
  years = sorted(years)
  ends = [(head.record, head.start) for head in years[1:]]
  for head, end in zip(years, [*ends, (len(entries), 0)], strict=True):
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
        continue
      spans[candidate.record].append(
        (candidate.start, candidate.stop, month, False)
      )
    for record, start, stop in doubtful:
      spans[record].append((start, stop, None, False))
  return _place_dates(entries, spans, table, counts, carries), dict(counts)


def _find_months(text, record, start, stop, year, table, layout):
  """Yields candidates, and (start, stop, reason) of what is doubtful."""
  is_punctuated = layout == CLAUSE
  if is_punctuated:
    yield from _find_seasons(text, start, stop)
  if start == 0 and _WHOLE_YEAR.match(text):
    yield 0, 0, "records of a whole year"
  for match in _MONTH.finditer(text, start, stop):
    first, last = match.span()
    if not (match["number"] or match["leap"]):
      continue
    before, after = text[first - 1 : first], text[last : last + 1]
    at_start = not text[start:first].strip(_SENTENCE_END) and (
      start == 0 or text[start - 1] == "年"
    )
    if layout == OPENING and not at_start:
      continue
    if is_punctuated and not (at_start or before in _SENTENCE_END):
      continue
    if before in "年有" and not at_start:
      continue  # of a year that is cited
    if not match["season"] and (
      (after and after in _NOT_A_HEAD) or (before and before in _NOT_BEFORE)
    ):
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
      start and text[start - 1] not in _SENTENCE_END + "年"
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
      start == 0 or text[start - 1] == "年"
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


def check_order(
  heads: Iterable[YearHead], max_step: int = 1
) -> tuple[list[YearHead], int]:
  """Returns the heads whose years go on, and how many do not.

  Args:
    heads: in order of print.
    max_step: years by which a head may go beyond the one before.
  """
  taken: list[YearHead] = []
  dropped = 0
  for head in heads:
    if taken and not 0 <= head.year - taken[-1].year <= max_step:
      dropped += 1
    else:
      taken.append(head)
  return taken, dropped
