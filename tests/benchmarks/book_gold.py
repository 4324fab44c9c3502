"""Dates of published books, made without the code that dates.

A book's printed heads are carried forward in its raw lines. Years and months
are those of the DILA Time Authority; a day of the cycle counts if the month has
it, sxtwl gives it that name, and the days go forward. Where a reader would
doubt, nothing is said.
"""

import bisect
import csv
import dataclasses
import itertools
import pathlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import sxtwl

from ctd_jax.texts.works import Entry, Place
from tests.benchmarks import books
from tests.benchmarks import chronicle_gold as gold
from tests.benchmarks.books import Book
from tests.benchmarks.chronicle_gold import EraYears, MonthTable, YearHead

_NUMERAL = r"(?:元|[一二三四五六七八九十廿卅]+)"
_PAIR = re.compile(
  r"[甲乙丙丁戊己已巳庚辛壬癸][子丑寅卯夘夗辰巳已己午未申酉戌戍亥]"
)
# Shapes that the printers use in eras and dates, and simplified ones.
_SHAPES = str.maketrans(
  "寳𢎞㑹厯歴熈寜寕徳𥘉黄嵗卽夘太綂夀闰历宁统开寿庆显赞录会应绍兴兴㤗",
  "寶弘會曆曆熙寧寧德初黃歲即卯大統壽閏曆寧統開壽慶顯贊祿會應紹興興泰",
)
_MAX_STEP = 3  # years that a head may go on by
_MAX_LENGTH = 31  # days of a month
_MAX_BACK = 10  # years that a juan may begin before the end of the last
_MAX_LINE_STEP = 30  # the same at the head of a line
_MAX_CYCLIC_STEP = 10  # the same of years of the cycle
_MIN_PAIRS = 8  # of a year, to doubt it for its days of the cycle
_MAX_STRANGE = 3  # months out of order in a year whose rest is believed
_MIN_FITTING = 0.8  # share of them that its months must have


class Truth(NamedTuple):
  """A date that is right, and the character just behind it in the book."""

  position: int
  year: int  # astronomical
  first_day: int = 0  # of its month, Julian day number; 0 if only the year is
  day: int | None = None  # Julian day number; None if no day is printed
  month: int = 0  # of the common era, where that is the calendar


@dataclasses.dataclass(frozen=True)
class GoldBook:
  """The letters of a book, line by line, and its dates."""

  lines: tuple[str, ...]
  truths: tuple[Truth, ...]  # in order


_Juan = Sequence[Sequence[str]]  # lines of each juan


def _read_han(files: Sequence[pathlib.Path]) -> list[list[str]]:
  juan = [map(books.read_han, books.read_raw_lines(path)) for path in files]
  return [[line for line in lines if line] for lines in juan]


def _join(juan: _Juan) -> tuple[str, ...]:
  return tuple(line for lines in juan for line in lines)


def find_year_heads(
  lines: Sequence[str], record: int, years: EraYears, last: tuple[int, int]
) -> tuple[list[YearHead], tuple[int, int]]:
  """Returns the years that a juan prints, and the last that goes forward.

  An era counts where it goes on by at most three years, or by thirty at the
  head of a line; a year without an era is the next of the era before. Any
  other may be cited, and what follows it is not known.
  """
  text = "".join(lines)
  line_starts = set(itertools.accumulate(map(len, lines), initial=0))
  by_name: dict[tuple[str, int], set[int]] = {}
  for (era, number), found in years.items():
    if "（" not in era:
      name = era.translate(_SHAPES), number
      by_name.setdefault(name, set()).update(found)
  eras = sorted({era for era, _ in by_name}, key=len, reverse=True)
  pattern = re.compile(
    rf"(?<![為爲曰改號])(?P<era>{'|'.join(eras)})?"
    rf"(?P<year>{_NUMERAL})[年載](?:{_PAIR.pattern})?"
    rf"(?=[春夏秋冬閏]|[正臘]月|{_NUMERAL}月)"
  )
  numbers_of_year: dict[int, set[int]] = {}
  for (_, number), found in by_name.items():
    for year in found:
      numbers_of_year.setdefault(year, set()).add(number)
  heads = []
  # The end of a reign can be told before the reign that follows: the first
  # year of a juan may run back.
  least, ceiling = last[0] - _MAX_BACK, last[0] + _MAX_STEP
  for match in pattern.finditer(text.translate(_SHAPES)):
    number = gold.parse_numeral(match["year"])
    year = None
    is_line = match.start() in line_starts
    for start in range(match.start("year") + 1, match.end("year")):
      # 「入貢者三」 ends a line, 「九年春正月」 heads the next.
      tail = gold.parse_numeral(text[start : match.end("year")])
      if start in line_starts and tail == last[1] + 1:
        number, is_line = tail, True
    if match["era"]:
      most = _MAX_LINE_STEP if is_line else _MAX_STEP
      fitting = [
        year
        for year in by_name.get((match["era"], number), ())
        if last == (0, 0) or least <= year <= max(last[0] + most, ceiling)
      ]
      year = min(fitting, default=None)
    elif last != (0, 0) and (
      is_line or text[match.start() - 1] not in "一二三四五六七八九十廿卅"
    ):
      year = next(
        (
          last[0] + step
          for step in (1, 2)
          # Also the second year of an era that began within the last.
          if number - step in numbers_of_year.get(last[0], {last[1]})
          and number in numbers_of_year.get(last[0] + step, ())
        ),
        None,
      )
    if year is not None:
      last = year, number
      least = year
    heads.append(YearHead(record, *match.span(), year))
  return heads, last


def _find_forward_run(candidates: Sequence[tuple[int, int, int]]) -> list[int]:
  """Returns indices of those that go forward, heaviest together.

  Args:
    candidates: (position, day, weight) in order of position.
  """
  best: list[tuple[int, int]] = []
  for index, (_, day, weight) in enumerate(candidates):
    before = max(
      (
        (best[earlier][0], earlier)
        for earlier in range(index)
        if candidates[earlier][1] <= day
      ),
      default=(0, -1),
    )
    best.append((before[0] + weight, before[1]))
  run = []
  index = max(range(len(best)), key=lambda i: best[i][0], default=-1)
  while index >= 0:
    run.append(index)
    index = best[index][1]
  return run[::-1]


def _find_days(
  text: str,
  start: int,
  stop: int,
  first_day: int,
  length: int,
  line_starts: frozenset[int] = frozenset(),
) -> tuple[list[tuple[int, int]], int]:
  """Returns (position behind, day) of the days of a month, and all pairs."""
  candidates, num_pairs = [], 0
  for match in _PAIR.finditer(text, start, stop):
    cyclic = gold.parse_day(text, match.start())
    if cyclic is None:
      continue
    num_pairs += 1
    offset = (cyclic - (first_day - 11)) % 60
    if offset < length:
      # The day of the month's own date counts most.
      is_head = match.start() == start or match.start() in line_starts
      weight = 3 if is_head else 1
      candidates.append((match.end(), first_day + offset, weight))
  run = _find_forward_run(candidates)
  return [candidates[index][:2] for index in run], num_pairs


def _confirm_day(printed: str, day: int) -> bool:
  """Returns whether sxtwl gives a day the name that is printed."""
  date = sxtwl.JD2DD(day)
  name = sxtwl.fromSolar(int(date.Y), int(date.M), int(date.D)).getDayGZ()
  cyclic = gold.parse_day(printed, 0)
  return (cyclic % 10, cyclic % 12) == (name.tg, name.dz)


def _find_doubtful(record: gold.GoldRecord) -> list[tuple[int, int]]:
  """Returns spans from a month out of order to the next year.

  Several such months say that the head of a year was missed.
  """
  placed = {place.position for place in record.places}
  ends = [start for start, _ in record.year_spans] + [len(record.entry.text)]
  doubtful = []
  for start, stop in itertools.pairwise([0, *ends]):
    strange = [
      first
      for first, last in record.date_spans
      if start <= first < stop and last not in placed
    ]
    if len(strange) >= _MAX_STRANGE:
      doubtful.append((strange[0], stop))
  return doubtful


def _date_annals(
  juan: _Juan,
  heads: Sequence[YearHead],
  table: MonthTable,
  is_diary: bool = False,
) -> tuple[Truth, ...]:
  """Returns the dates of annals by the heads of their years.

  The year of a diary is known, and its days start lines.
  """
  texts = ["".join(lines).translate(_SHAPES) for lines in juan]
  entries = [Entry(text, Place(f"{n}.txt", 1)) for n, text in enumerate(texts)]
  records = gold.date_records(entries, heads, table, gold.RUNNING)
  of_years: list[tuple[int, list[Truth], int, int]] = []
  line_starts = frozenset(
    itertools.accumulate(map(len, juan[0]), initial=0) if is_diary else ()
  )
  offset = 0
  for record in records:
    text = record.entry.text
    starts = [start for start, _ in record.date_spans]
    doubtful = _find_doubtful(record)
    for place in record.places:
      month = place.month
      if not month.month or not month.first_day:
        continue
      # Months of 762 had other names, and DILA miscounts some that two eras
      # share.
      if month.year == 762 or table.lengths[month] > _MAX_LENGTH:
        continue
      if any(start <= place.position < stop for start, stop in doubtful):
        continue
      truth = Truth(offset + place.position, month.year, month.first_day)
      stop = bisect.bisect_left(starts, place.position)
      stop = starts[stop] if stop < len(starts) else len(text)
      days, num_pairs = _find_days(
        text,
        place.position,
        stop,
        month.first_day,
        table.lengths[month],
        line_starts,
      )
      truths = [truth] + [
        truth._replace(position=offset + end, day=day)
        for end, day in days
        if _confirm_day(text[end - 2 : end], day)
      ]
      if of_years and of_years[-1][0] == month.year:
        _, before, num_days, num_all = of_years.pop()
        truths = before + truths
      else:
        num_days = num_all = 0
      of_years.append(
        (month.year, truths, num_days + len(days), num_all + num_pairs)
      )
    offset += len(text)
  return tuple(
    sorted(
      truth
      for _, truths, num_days, num_pairs in of_years
      # Else a head was missed or misread.
      if is_diary
      or num_pairs < _MIN_PAIRS
      or num_days >= _MIN_FITTING * num_pairs
      for truth in truths
    )
  )


def _read_annals(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """Eras and years without one head the year; months and days follow."""
  juan = _read_han(files)
  table, years = gold.read_dila_months(outside, book.dynasties)
  heads: list[YearHead] = []
  last = (0, 0)
  for record, lines in enumerate(juan):
    found, last = find_year_heads(lines, record, years, last)
    heads += found
  return GoldBook(_join(juan), _date_annals(juan, heads, table))


# 天武 counts from 672, 持統 from 687.
_FIRST_YEARS = {"29": 672, "30": 687}


def _read_japanese_annals(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """Years of one ruler head lines."""
  juan = _read_han(files)
  table, _ = gold.read_dila_months(outside, book.dynasties, book.language)
  heads = []
  for record, lines in enumerate(juan):
    first, position = _FIRST_YEARS[files[record].name[:2]], 0
    for line in lines:
      match = re.match(
        rf"({_NUMERAL})年(?=[春夏秋冬閏]|正月|{_NUMERAL}月)", line
      )
      if match:
        year = first + gold.parse_numeral(match[1]) - 1
        heads.append(YearHead(record, position, position + match.end(), year))
      position += len(line)
  return GoldBook(_join(juan), _date_annals(juan, heads, table))


def _find_cyclic_year(text: str, after: int) -> int | None:
  """Returns the first year of the cycle from a year on."""
  cyclic = gold.parse_day(text, 0)
  return None if cyclic is None else after + (cyclic - (after - 4)) % 60


def _read_cyclic_years(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """Years of the cycle stand in small type before the year of an era."""
  table, _ = gold.read_dila_months(outside, book.dynasties)
  juan, heads, year = [], [], book.first_year
  for record, path in enumerate(files):
    lines, position = [], 0
    for raw_line in books.read_raw_lines(path):
      match = books.CYCLIC_NOTE.match(raw_line)
      line = books.read_han(raw_line)
      if match and line:
        found = _find_cyclic_year(match[1] + match[2], year)
        # Sixty years on is a misprint.
        if found is not None and found - year < _MAX_CYCLIC_STEP:
          year = found
        else:
          found = None
        length = re.match(rf"\w{{0,8}}?{_NUMERAL}年|", line).end()
        heads.append(YearHead(record, position, position + length, found))
      if line:
        lines.append(line)
        position += len(line)
    juan.append(lines)
  truths = list(_date_annals(juan, heads, table))
  starts = list(itertools.accumulate(map(len, map("".join, juan)), initial=0))
  truths += [
    Truth(starts[head.record] + head.stop, head.year)
    for head in heads
    if head.year is not None and head.stop > head.start
  ]
  return GoldBook(_join(juan), tuple(sorted(truths)))


def _merge_eras(years: EraYears) -> dict[tuple[str, int], tuple[int, ...]]:
  return {
    (era.translate(_SHAPES), number): found
    for (era, number), found in years.items()
    if "（" not in era
  }


def _match_era(years: EraYears) -> re.Pattern[str]:
  eras = sorted({era for era, _ in years}, key=len, reverse=True)
  return re.compile(rf"(?P<era>{'|'.join(eras)})(?P<year>{_NUMERAL})年")


def _read_kings(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """Years of a king head lines; the line below his first has China's era."""
  juan = _read_han(files)
  _, years = gold.read_dila_months(outside, book.dynasties)
  years = _merge_eras(years)
  era_pattern = _match_era(years)
  truths, first, last, position = [], None, 0, 0
  lines = _join(juan)
  for line, below in zip(lines, [*lines[1:], ""], strict=True):
    match = re.match(rf"({_NUMERAL})年", line)
    if match:
      number = gold.parse_numeral(match[1])
      found = [
        {*years.get((named["era"], gold.parse_numeral(named["year"])), ())}
        for named in era_pattern.finditer(below.translate(_SHAPES))
      ]
      common = set.intersection(*found) if found else set()
      if len(common) == 1:
        first = common.pop() - number + 1
      elif found and all(found):
        first = None  # years that do not fit: one is misprinted
      elif number <= last:
        first = None  # another king, whose first year is not known
      last = number
      if first is not None:
        truths.append(Truth(position + match.end(), first + number - 1))
    position += len(line)
  return GoldBook(lines, tuple(truths))


def _read_eras(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """Eras date what follows them."""
  lines = _join(_read_han(files))
  table, years = gold.read_dila_months(outside, book.dynasties)
  years = _merge_eras(years)
  month_pattern = re.compile(rf"[春夏秋冬]?(閏)?(正|{_NUMERAL})月")
  truths = []
  text = "".join(lines).translate(_SHAPES)
  for match in _match_era(years).finditer(text):
    name = match["era"], gold.parse_numeral(match["year"])
    found = years.get(name, ())
    if len(found) != 1 or text[match.start() - 1] in "自從至以於":
      continue
    truth = Truth(match.end(), found[0])
    printed = month_pattern.match(text, match.end())
    month = printed and table.find_month(
      found[0], gold.parse_numeral(printed[2]), bool(printed[1])
    )
    if month:
      truth = Truth(printed.end(), found[0], month[1].first_day)
    truths.append(truth)
  return GoldBook(lines, tuple(truths))


def _read_lists(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """Every line belongs to the year printed above it."""
  _, years = gold.read_dila_months(outside, book.dynasties)
  years = _merge_eras(years)
  pattern = re.compile(
    rf"(?P<era>{'|'.join(sorted({era for era, _ in years}, key=len))})?"
    rf"(?P<year>{_NUMERAL})年"
  )
  lines, truths, position = [], [], 0
  era, year = "", None
  for path in files:
    for raw_line in books.read_raw_lines(path):
      line = books.read_han(raw_line)
      if not line:
        continue
      match = pattern.match(line.translate(_SHAPES))
      if match and not raw_line.startswith("　　　"):
        era = match["era"] or era
        found = years.get((era, gold.parse_numeral(match["year"])), ())
        year = found[0] if len(found) == 1 else None
        cyclic = books.CYCLIC_NOTE.search(raw_line)
        if year is not None and cyclic:
          named = _find_cyclic_year(cyclic[1] + cyclic[2], year)
          year = year if named == year else None  # of another era
      elif not raw_line.startswith("　　　"):
        year = None  # another chapter, or a kind of degree
      if year is not None:
        truths.append(Truth(position + (match.end() if match else 1), year))
      lines.append(line)
      position += len(line)
  return GoldBook(tuple(lines), tuple(truths))


def _read_cyclic_days(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """A diary of one year that names days of the cycle."""
  lines = _join(_read_han(files))
  table, years = gold.read_dila_months(outside, book.dynasties)
  years = _merge_eras(years)
  head = YearHead(0, 0, 0, book.first_year)
  for match in _match_era(years).finditer("".join(lines).translate(_SHAPES)):
    name = match["era"], gold.parse_numeral(match["year"])
    if book.first_year in years.get(name, ()):
      head = YearHead(0, *match.span(), book.first_year)
      break
  return GoldBook(lines, _date_annals([lines], [head], table, True))


_NUMBERED_DAY = re.compile(
  rf"(?:(?P<year>{_NUMERAL})年)?"
  rf"(?:(?P<leap>閏)月|(?P<leap_of>閏)?(?P<month>正|{_NUMERAL})月)?"
  r"(?P<first>初)?(?P<day>朔|晦|[一二三四五六七八九十廿卅]+日)"
)


def _read_numbered_days(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """A diary that counts days; months and years are carried on."""
  lines = _join(_read_han(files))
  table, _ = gold.read_dila_months(outside, book.dynasties)
  text = "".join(lines)
  line_starts = set(itertools.accumulate(map(len, lines), initial=0))
  candidates, truths = [], []
  year, month, is_leap = book.first_year, 0, False
  last = 0
  for match in _NUMBERED_DAY.finditer(text):
    number = gold.parse_numeral(match["month"] or "")
    is_line = match.start() in line_starts
    if number:
      # A month that is printed goes on by three at most, or is cited.
      is_next = 0 <= (number - month) % 12 <= _MAX_STEP
      if month and not (match["year"] and is_line) and not is_next:
        continue
      year += bool(month) and number < month
      month, is_leap = number, bool(match["leap_of"])
    elif match["leap"]:
      is_leap = True
    found = month and table.find_month(year, month, is_leap)
    if not found:
      continue
    length = table.lengths[found[1]]
    printed = match["day"]
    day = {"朔": 1, "晦": length}.get(printed)
    day = day or gold.parse_numeral(printed.rstrip("日"))
    first_day = found[1].first_day
    if not 1 <= day <= length:
      continue
    # A day that skips weeks or goes back may be one that the entry mentions.
    julian_day = first_day + day - 1
    weight = 3 if is_line or number or 0 <= julian_day - last <= 3 else 1
    last = julian_day
    candidates.append((match.end(), julian_day, weight))
    truths.append(Truth(match.end(), year, first_day, julian_day))
  run = _find_forward_run(candidates)
  return GoldBook(lines, tuple(truths[index] for index in run))


_LETTERS = re.compile(r"[^\W_]+")
_CHUNK = 40  # letters of a line that is looked for
_TEI = "{http://www.tei-c.org/ns/1.0}"
_MONTHS = (
  "ianuar januar,februar,march,april apryl aprill,maie may,iune june,"
  "iuly july iulye,august,september,october,nouember november,december"
)
_MONTH_OF = {
  name: number
  for number, names in enumerate(_MONTHS.split(","), start=1)
  for name in names.split()
}
_UNITS = (
  "one",
  "two",
  "three",
  "foure",
  "fiue",
  "six",
  "seuen",
  "eyght",
  "nine",
)
_ORDINALS = (
  "first",
  "second",
  "third",
  "fourth",
  "fifth",
  "sixth",
  "seuenth",
  "eyght",
  "ninth",
  "tenth",
  "eleuenth",
  "twelfth",
  "thirteenth",
  "fourteenth",
  "fifteenth",
  "sixteenth",
  "seuenteenth",
  "eyghteenth",
  "nineteenth",
)
_ENGLISH_DAY = re.compile(
  r"(?:the|on the) (?:(?P<ones>\w+) and )?(?P<word>[a-z]+?)\.?"
  r"(?: daye?)? of (?P<month>[a-z]+)"
)


def _read_ordinal(ones: str | None, word: str) -> int:
  """Returns the value of an ordinal of Stow's spelling, 0 if none."""
  word = word.replace("sea", "se").replace("ee", "e").replace("igh", "yght")
  tens = 20 if word.startswith("twen") else 30 if word[:4] == "thir" else 0
  if ones:
    close = [n for n, unit in enumerate(_UNITS, 1) if ones[:3] == unit[:3]]
    return tens + close[0] if tens and close else 0
  if word in ("twentith", "twentieth"):
    return 20
  found = [
    number
    for number, ordinal in enumerate(_ORDINALS, 1)
    if word == ordinal.replace("ee", "e")
  ]
  return found[0] if found else 0


def _to_julian_day(year: int, month: int, day: int) -> int:
  """Returns the Julian day number of a date of the Julian calendar."""
  shift = (14 - month) // 12
  years, months = year + 4800 - shift, month + 12 * shift - 3
  return day + (153 * months + 2) // 5 + 365 * years + years // 4 - 32083


def _walk_tei(element: ET.Element) -> Iterator[tuple[str, str]]:
  """Yields ("text" or "note" or "p", characters) of a TEI text in order."""
  name = element.tag.removeprefix(_TEI)
  if name == "note":
    yield "note", "".join(element.itertext())
  elif name in ("g", "gap", "desc"):
    pass
  else:
    if name in ("p", "head"):
      yield "p", ""
    yield "text", element.text or ""
    for child in element:
      yield from _walk_tei(child)
  if name != "text":
    yield "text", element.tail or ""


def _read_margins(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """Years stand in the margin; paragraphs open with a day of a month."""
  del book, outside
  root = ET.parse(files[0]).getroot().find(f"{_TEI}text/{_TEI}body")
  paragraphs: list[tuple[str, int | None, int | None]] = []
  year, parts, before = None, [], None
  for kind, text in itertools.chain(_walk_tei(root), [("p", "")]):
    if kind == "note":
      found = re.findall(r"\b1[0-5]\d\d\b", text)
      if found and (year is None or 0 <= int(found[-1]) - year <= _MAX_STEP):
        year = int(found[-1])
      elif found and year is not None and int(found[-1]) > year + _MAX_STEP:
        # One figure can be misread; two that agree are a gap.
        year = int(found[-1]) if before == int(found[-1]) - 1 else year
        before = int(found[-1])
    elif kind == "text":
      parts.append(text)
    elif parts:
      paragraphs.append((" ".join("".join(parts).split()), year))
      parts = []
  lines, truths, position = [], [], 0
  for text, known_year in paragraphs:
    letters = "".join(_LETTERS.findall(text))
    plain = text.lower().replace("ſ", "s").replace("é", "e")
    match = _ENGLISH_DAY.match(plain)
    month = match and next(
      (
        number
        for name, number in _MONTH_OF.items()
        if match["month"].startswith(name)
      ),
      0,
    )
    day = match and _read_ordinal(match["ones"], match["word"])
    # Before 25 March one cannot know which year is meant.
    if known_year and month and day and (month, day) >= (3, 25):
      length = len("".join(_LETTERS.findall(text[: match.end()])))
      truths.append(
        Truth(
          position + length,
          known_year,
          _to_julian_day(known_year, month, 1),
          _to_julian_day(known_year, month, day),
        )
      )
    lines += [
      letters[start : start + _CHUNK]
      for start in range(0, len(letters), _CHUNK)
    ]
    position += len(letters)
  return GoldBook(tuple(lines), tuple(truths))


def _read_rows(
  book: Book, files: Sequence[pathlib.Path], outside: pathlib.Path
) -> GoldBook:
  """A row has its year in a column."""
  del outside
  names = dict(part.split("=") for part in book.columns.split(","))
  lines, truths, position = [], [], 0
  with files[0].open(encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
      line = "".join(_LETTERS.findall(row[names["text"]]))
      if not line:
        continue
      if re.fullmatch(r"\d{4}", row[names["date"]]):
        truths.append(Truth(position + 1, int(row[names["date"]])))
      lines.append(line)
      position += len(line)
  return GoldBook(tuple(lines), tuple(truths))


_Reader = Callable[[Book, Sequence[pathlib.Path], pathlib.Path], GoldBook]
_READERS: Mapping[str, _Reader] = {
  "annals": _read_annals,
  "japanese_annals": _read_japanese_annals,
  "cyclic_years": _read_cyclic_years,
  "kings": _read_kings,
  "eras": _read_eras,
  "lists": _read_lists,
  "cyclic_days": _read_cyclic_days,
  "numbered_days": _read_numbered_days,
  "margins": _read_margins,
  "rows": _read_rows,
}


def read_gold(
  book: Book, folder: pathlib.Path, outside: pathlib.Path
) -> GoldBook:
  """Returns the lines of a book and its dates.

  Args:
    book: which.
    folder: of the books.
    outside: folder of texts and calendars from outside.
  """
  files = books.list_files(book, folder)
  return _READERS[book.layout](book, files, outside)


def find_letters(book: Book, text: str) -> str:
  """Returns the letters of a text that `GoldBook.lines` would have."""
  pattern = _LETTERS if book.reigns == "CE" else books.HAN
  return "".join(pattern.findall(text))
