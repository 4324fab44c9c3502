"""Printed dates of chronicles, read by the layout of each edition.

What is right is what the edition prints: its heads of years where its layout
puts them, and within a year the months that go forward. None of the code that
dates chronicles is used, nor its tables: the years of eras and the days of
months are those of the DILA Time Authority, those of Lu its twelve reigns. What
a reader would doubt is left out: months that run back, that their year lacks,
or that lack the day printed beside them.
"""

import collections
import csv
import dataclasses
import difflib
import functools
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ctd_jax.texts.works import Entry

_STEMS, _BRANCHES = "甲乙丙丁戊己庚辛壬癸", "子丑寅卯辰巳午未申酉戌亥"
# Printers mix 己 and 已 and 巳, and cut their blocks with other shapes.
_DAY = re.compile(
  r"([甲乙丙丁戊己已巳庚辛壬癸])([子丑寅卯夘辰巳已己午未申酉戌戍亥])"
)
# In 689-700 the year began two months before the month called 一月.
_FIRST_OF_ZHOU = -2
_EPOCH_OF_CYCLE = 11  # (Julian day number - 11) % 60 is 0 on 甲子
_SEASON = r"[春夏秋冬]"
_PAUSE = r"[，、．。‧\s]?"
_MONTH = re.compile(
  rf"(?:(?P<season>{_SEASON}){_PAUSE})?[王周]?(?P<month>"
  r"(?P<leap>[閏潤闰]|後(?=九))?(?P<number>正|十(?:有|又)?[一二]|[一二三四五六七八九十])?月)"
)
_SEASON_ALONE = re.compile(rf"{_SEASON}(?![\w，、．。‧\s]{{0,4}}月)")
_SENTENCE_END = "，。；：！？．、‧○　"
# A span of time, or the month of something else: 「三月而葬」.
_NOT_A_HEAD = tuple("而之餘乃不者則也內中間以俸錢糧為爲有矣")
_NOT_BEFORE = tuple("自至及以迄從到今於")
# Where months head: at the opening of a record alone, of a clause outside of
# quotations, or anywhere in running text without punctuation.
OPENING, CLAUSE, RUNNING = "opening", "clause", "running"

# (era, regnal year) -> astronomical years, for a name can come twice.
EraYears = dict[tuple[str, int], tuple[int, ...]]


class Month(NamedTuple):
  """A month that is right."""

  year: int  # astronomical, as its calendar counts it
  month: int = 0  # 1-12; 0 if only the year is known
  is_leap: bool = False
  first_day: int = 0  # Julian day number; 0 if not known


class DatedPlace(NamedTuple):
  """A place of a record, just behind a printed date, and that date."""

  position: int
  month: Month


@dataclasses.dataclass(frozen=True)
class GoldRecord:
  """An entry with its dates."""

  entry: Entry
  places: tuple[DatedPlace, ...] = ()  # in order
  year_spans: tuple[tuple[int, int], ...] = ()  # characters of a year
  # Characters that print a year, a season or a month.
  date_spans: tuple[tuple[int, int], ...] = ()


class GoldText(NamedTuple):
  """A chronicle with its dates."""

  reigns: str  # what --reigns says
  records: tuple[GoldRecord, ...]  # in order of print


class YearHead(NamedTuple):
  """A year that the layout of an edition heads."""

  record: int
  start: int  # of the printed year in the text of the record
  stop: int
  year: int | None  # astronomical; None if out of order or not understood


class _Candidate(NamedTuple):
  """A month that may be a head: where, which, how much speaks for it."""

  record: int
  start: int
  stop: int
  month: Month | None  # None if its year lacks it or its day
  has_day: bool = False
  order: int = 0  # in the year
  weight: int = 0


class MonthTable:
  """Months of one calendar by year, with their lengths in days."""

  def __init__(self, months: Iterable[tuple[Month, int]]):
    self.lengths = dict(months)
    self.by_year: dict[int, list[Month]] = collections.defaultdict(list)
    for month in sorted(self.lengths, key=lambda m: (m.first_day, m.month)):
      self.by_year[month.year].append(month)

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
  stem = _STEMS.index(match[1].translate(str.maketrans("已巳", "己己")))
  branch = _BRANCHES.index(
    match[2].translate(str.maketrans("夘已己戍", "卯巳巳戌"))
  )
  if (stem - branch) % 2:
    return None
  return next(
    day for day in range(60) if (day % 10, day % 12) == (stem, branch)
  )


@functools.cache
def _read_dila_rows(
  outside: pathlib.Path, language: str
) -> tuple[dict[str, str], ...]:
  path = outside / "dila_time" / f"{language}.tsv"
  with path.open(encoding="utf-8", newline="") as file:
    return tuple(csv.DictReader(file, delimiter="\t"))


def read_dila_months(
  outside: pathlib.Path, dynasties: Sequence[str], language: str = "zh"
) -> tuple[MonthTable, EraYears]:
  """Returns months, and (era, regnal year) -> astronomical years, ascending.

  Where years are counted by the ruler alone, the era is 「景帝（中元）」.

  Args:
    outside: folder of texts and calendars from outside.
    dynasties: as DILA calls them.
    language: of its table.
  """
  # A month of two eras is two rows: the longer one has its length. Of two
  # dynasties that of the first counts.
  lengths: dict[Month, int] = {}
  names: dict[tuple[int, int, bool], Month] = {}
  years: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
  rows = [
    row
    for row in _read_dila_rows(outside, language)
    if row["dynasty"] in dynasties
  ]
  for row in sorted(rows, key=lambda row: dynasties.index(row["dynasty"])):
    number, first = int(row["month"]), int(row["first_jdn"])
    first -= int(row["first_day"]) - 1
    # Some hundred days past new year lies in the year, leap months or not.
    day = first - round((number - 1) * 29.53) + 120
    year = int((day - 1721057.5) // 365.25)
    # Until 104 BCE the year began with the tenth month.
    year += number >= 10 and first < 1683490
    month = Month(year, number, row["leap"] != "0", first)
    if names.setdefault(month[:3], month) == month:
      length = int(row["last_jdn"]) - first + 1
      lengths[month] = max(lengths.get(month, 0), length)
    eras = row["era"].split("/")
    if "（" in row["era"]:
      eras = [row["ruler"] + era for era in eras]
    for era in eras:
      years[era, int(row["year"])].add(year)
  return MonthTable(lengths.items()), {
    name: tuple(sorted(found)) for name, found in years.items()
  }


def date_records(
  entries: Sequence[Entry],
  years: Sequence[YearHead],
  table: MonthTable,
  layout: str,
  is_continuous: bool = False,
) -> tuple[GoldRecord, ...]:
  """Returns the records with their dates.

  Args:
    entries: in order.
    years: heads of years, in order of print.
    table: months of the calendar.
    layout: OPENING, CLAUSE or RUNNING: where months head.
    is_continuous: whether every year has a head, so that one is missing where
      years are skipped.
  """
  spans = [[] for _ in entries]  # (start, stop, month or None, has year)
  years = sorted(years, key=lambda head: head[:3])
  ends = [(head.record, head.start) for head in years[1:]]
  following_years = [head.year for head in years[1:]] + [None]
  for head, end, following in zip(
    years, [*ends, (len(entries), 0)], following_years, strict=True
  ):
    month = None if head.year is None else Month(head.year)
    found: list[_Candidate] = []
    # A year that is cited, or misprinted: what follows is not known.
    if month is not None:
      for record in range(head.record, min(end[0] + 1, len(entries))):
        text = entries[record].text
        start = head.stop if record == head.record else 0
        stop = end[1] if record == end[0] else len(text)
        found += _find_months(
          text, record, (start, stop), head.year, table, layout
        )
    num_fitting = sum(each.has_day for each in found if each.month)
    num_lacking = sum(each.has_day for each in found if not each.month)
    if num_lacking > max(1, num_fitting):
      month = None  # The year is misprinted, or misread.
    spans[head.record].append((head.start, head.stop, month, True))
    candidates = [each for each in found if each.month]
    # The head of the next year was missed: where it begins is not known.
    is_doubtful = month is None or (
      is_continuous and following is not None and following > head.year + 1
    )
    chain = set() if is_doubtful else _find_longest_chain(candidates)
    for each in found:
      # Out of order, and nothing else speaks for a date: a span of time.
      if each in chain or each.weight != 1 or is_doubtful:
        right = each.month if each in chain else None
        spans[each.record].append((each.start, each.stop, right, False))
  return tuple(
    _place_dates(entry, spans_of_entry)
    for entry, spans_of_entry in zip(entries, spans, strict=True)
  )


def _find_months(
  text: str,
  record: int,
  span: tuple[int, int],
  year: int,
  table: MonthTable,
  layout: str,
) -> Iterator[_Candidate]:
  """Yields what reads as a month, or as a season without one."""
  start, stop = span
  is_punctuated = layout == CLAUSE
  if is_punctuated:
    for season in _find_seasons(text, start, stop):
      yield _Candidate(record, *season, None)
  for match in _MONTH.finditer(text, start, stop):
    first, last = match.span()
    if not (match["number"] or match["leap"]):
      continue
    before, after = text[first - 1 : first], text[last : last + 1]
    at_start = _is_at_start(text, start, first)
    if is_punctuated and not (at_start or before in _SENTENCE_END):
      continue
    if before in "年載有" and not at_start:
      continue  # of a year that is cited
    if not match["season"] and (
      (after and after in _NOT_A_HEAD) or (before and before in _NOT_BEFORE)
    ):
      if at_start:  # 「八月以」
        yield _Candidate(record, first, last, None)
      continue
    if layout == OPENING and not at_start:
      continue
    if is_punctuated and _is_quoted(text, first):
      continue
    is_leap = bool(match["leap"])
    number = parse_numeral(match["number"] or "")
    if match["number"] == "一" and table.find_month(
      year, _FIRST_OF_ZHOU, False
    ):
      number = _FIRST_OF_ZHOU
    day = parse_day(text, last + (after in _SENTENCE_END[:1] and is_punctuated))
    has_day = day is not None
    weight = 3 if at_start or match["season"] or has_day or is_leap else 1
    found = table.find_month(year, number, is_leap)
    if found is None:
      yield _Candidate(record, first, last, None)
    elif has_day and not table.has_day(found[1], day):
      yield _Candidate(record, first, last, None, has_day)
    else:
      order, month = found
      yield _Candidate(
        record, first, last, month, has_day, order, weight + is_punctuated
      )


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
) -> tuple[GoldRecord, ...]:
  """Returns records; of a month that another edition lacks the year is left.

  Args:
    records: with the number of the juan at the end of the names of files.
    other_months: juan -> months in order, number 0 for a leap month of any.
  """
  heads: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
  for row, record in enumerate(records):
    for index, place in enumerate(record.places):
      if place.month.month:
        heads[read_juan(record.entry)].append((row, index))
  places = [list(record.places) for record in records]
  for juan, found in heads.items():
    months = [places[row][index].month for row, index in found]
    matcher = difflib.SequenceMatcher(
      a=[0 if month.is_leap else month.month for month in months],
      b=[0 if leap else number for number, leap in other_months.get(juan, ())],
      autojunk=False,
    )
    matched = {
      block.a + offset
      for block in matcher.get_matching_blocks()
      for offset in range(block.size)
    }
    for number, (row, index) in enumerate(found):
      if number not in matched:
        year = Month(months[number].year)
        places[row][index] = places[row][index]._replace(month=year)
  return tuple(
    dataclasses.replace(record, places=tuple(confirmed))
    for record, confirmed in zip(records, places, strict=True)
  )


def read_juan(entry: Entry) -> int:
  """Returns the number at the end of the name of an entry's file."""
  return int(re.search(r"(\d+)\D*$", entry.place.file)[1])


def _is_at_start(text: str, start: int, position: int) -> bool:
  """Returns whether nothing stands before a position but a year."""
  return not text[start:position].strip(_SENTENCE_END) and (
    start == 0 or text[start - 1] in "年載"
  )


def _find_seasons(
  text: str, start: int, stop: int
) -> Iterator[tuple[int, int]]:
  """Yields the spans of seasons that no month follows."""
  for match in _SEASON_ALONE.finditer(text, start, stop):
    first, last = match.span()
    is_delimited = text[last : last + 1] in ("", *_SENTENCE_END)
    if (
      _is_at_start(text, start, first)
      or (is_delimited and text[first - 1] in _SENTENCE_END)
    ) and not _is_quoted(text, first):
      yield first, last


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


def _place_dates(entry: Entry, spans) -> GoldRecord:
  """Returns a record with its printed dates; a year joins its month."""
  merged: list[tuple[int, int, Month | None, int]] = []
  for start, stop, month, has_year in sorted(spans, key=lambda span: span[:2]):
    if merged and not has_year:
      first, last, year, year_stop = merged[-1]
      is_year = first < last == year_stop
      if is_year and not entry.text[last:start].strip(_SENTENCE_END):
        merged[-1] = first, stop, month or year, year_stop
        continue
    merged.append((start, stop, month, stop if has_year else start))
  last_position = max(len(entry.text) - 1, 0)
  return GoldRecord(
    entry,
    tuple(
      DatedPlace(min(stop, last_position), month)
      for start, stop, month, _ in merged
      if month is not None and stop > start
    ),
    tuple((start, stop) for start, _, _, stop in merged if stop > start),
    tuple((start, stop) for start, stop, *_ in merged if stop > start),
  )
