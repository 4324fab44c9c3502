"""Published books on which no constant was chosen, dated and checked.

  python -m tests.benchmarks.twenty_books --books=DIR --outside=DIR \\
    [--only=weishu,mingshi] [--rows=FILE]

--books holds checkouts of Kanripo repositories, each in a folder of its name
(KR2a0020). What is right is made without the code that dates: a book's printed
heads are carried forward in its raw lines, years and months are those of the
DILA Time Authority, and a day of the cycle counts if the month has it and the
days go forward. For every book it measures, over sections,

  sure         share with a probability of at least .9
  right@sure   share of these that have the right month, and day where printed
  right@unsure the same of those from .5 to .9
  judged       share of all sections whose right date is known
  lost         Han characters of the book that are in no section or heading
  seconds      of dating
"""

import argparse
import bisect
import dataclasses
import itertools
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dated_sections,
)
from ctd_jax.evaluation import results
from ctd_jax.texts.works import Entry, Place
from tests.benchmarks import chronicle_gold as gold
from tests.benchmarks import result_rows
from tests.benchmarks.chronicle_gold import (
  EraYears,
  MonthTable,
  YearHead,
)

ANNALS, DIARY = "annals", "diary"
_NUMERAL = r"(?:元|[一二三四五六七八九十廿卅]+)"
_NOTE = re.compile(r"[(（][^)）]*[)）]|<[^>]*>|&[^;]*;")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
_PAIR = re.compile(
  r"[甲乙丙丁戊己已巳庚辛壬癸][子丑寅卯夘夗辰巳已己午未申酉戌戍亥]"
)
# Shapes that the printers use in eras and dates.
_SHAPES = str.maketrans(
  "寳厯歴熈寜寕徳𥘉黄嵗卽夘太", "寶曆曆熙寧寧德初黃歲即卯大"
)
_MAX_STEP = 3  # years that a head may go on by
_MAX_LINE_STEP = 30  # the same at the head of a line
_MAX_HEAD = 16  # characters from a section's start to the end of its date
_MAX_AHEAD = 4000  # characters of the sections searched for a line
_MAX_DAYS_APART = 2  # of first days of one month in two calendars
_SURE, _UNSURE = 0.9, 0.5


@dataclasses.dataclass(frozen=True)
class Book:
  """A book, what --reigns says, and whose months it prints."""

  folder: str
  juan: tuple[int, int]  # first and last
  reigns: str
  dynasties: tuple[str, ...]  # as DILA calls them
  kind: str = ANNALS
  before: tuple[int, int] | None = None  # year and number before the first head


BOOKS = {
  "weishu": Book("KR2a0020", (2, 12), "北魏,東魏", ("北魏", "東魏")),
  "jiutangshu": Book("KR2a0026", (1, 20), "唐", ("唐", "武周")),
  "mingshi": Book("KR2a0038", (2, 24), "明", ("明/大明",)),
  "yuanshi": Book("KR2a0036", (4, 47), "元", ("元/大元",)),
  "jinshi": Book("KR2a0035", (2, 18), "金", ("金/大金",)),
  "songshi": Book("KR2a0032", (1, 47), "宋", ("北宋", "南宋")),
  "xintangshu": Book("KR2a0027", (1, 10), "唐", ("唐", "武周")),
  "hanshu": Book("KR2a0007", (6, 12), "西漢", ("西漢",)),
  "rushuji": Book("KR2g0056", (1, 6), "宋", ("南宋",), DIARY, (1169, 5)),
  "wuchuanlu": Book("KR2g0055", (1, 2), "宋", ("南宋",), DIARY, (1176, 3)),
}


class Truth(NamedTuple):
  """A date that is right, and the character just behind it in the book."""

  position: int
  first_day: int  # of its month, Julian day number
  day: int | None  # Julian day number; None if no day is printed


@dataclasses.dataclass(frozen=True)
class GoldBook:
  """The Han characters of a book, line by line, and its dates."""

  lines: tuple[str, ...]
  truths: tuple[Truth, ...]  # in order


def list_files(book: Book, folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the files of the juan of a book.

  Raises:
    FileNotFoundError: if there is none.
  """
  first, last = book.juan
  found = [
    folder / book.folder / f"{book.folder}_{juan:03}.txt"
    for juan in range(first, last + 1)
  ]
  found = [path for path in found if path.exists()]
  if not found:
    raise FileNotFoundError(f"--books: {folder / book.folder} has no such juan")
  return found


def read_lines(path: pathlib.Path) -> Iterator[str]:
  """Yields the printed lines of a file, Han characters of the main text."""
  text = path.read_text(encoding="utf-8")
  text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
  for line in text.split("¶"):
    # The lines of a small note are bracketed each by itself.
    han = "".join(_HAN.findall(_NOTE.sub("", line)))
    if han:
      yield han


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
  eras = sorted(
    {era.translate(_SHAPES) for era, _ in years if "（" not in era},
    key=len,
    reverse=True,
  )
  by_name: dict[tuple[str, int], set[int]] = {}
  for (era, number), found in years.items():
    by_name.setdefault((era.translate(_SHAPES), number), set()).update(found)
  pattern = re.compile(
    rf"(?P<era>{'|'.join(eras)})?(?<![元一二三四五六七八九十廿卅])"
    rf"(?P<year>{_NUMERAL})年(?:{_PAIR.pattern})?"
    rf"(?=[春夏秋冬閏]|正月|{_NUMERAL}月)"
  )
  numbers_of_year: dict[int, set[int]] = {}
  for (_, number), found in by_name.items():
    for year in found:
      numbers_of_year.setdefault(year, set()).add(number)
  heads = []
  for match in pattern.finditer(text.translate(_SHAPES)):
    number = gold.parse_numeral(match["year"])
    if match["era"]:
      year = min(
        (
          year
          for year in by_name.get((match["era"], number), ())
          if last == (0, 0)
          or 0
          <= year - last[0]
          <= (_MAX_LINE_STEP if match.start() in line_starts else _MAX_STEP)
        ),
        default=None,
      )
    else:
      year = next(
        (
          last[0] + step
          for step in (1, 2)
          if last != (0, 0)
          and number == last[1] + step
          and number in numbers_of_year.get(last[0] + step, ())
        ),
        None,
      )
    if year is not None:
      last = year, number
    heads.append(YearHead(record, *match.span(), year))
  return heads, last


def _find_days(
  text: str, start: int, stop: int, first_day: int, length: int
) -> list[tuple[int, int]]:
  """Returns (position behind, Julian day) of the days of a month in order."""
  candidates = []
  for match in _PAIR.finditer(text, start, stop):
    cyclic = gold.parse_day(text, match.start())
    if cyclic is None:
      continue
    offset = (cyclic - (first_day - 11)) % 60
    if offset < length:
      candidates.append((match.end(), first_day + offset))
  # The longest run of days that go forward.
  best: list[tuple[int, int]] = []
  for index, (_, day) in enumerate(candidates):
    before = max(
      (
        (best[earlier][0], earlier)
        for earlier in range(index)
        if candidates[earlier][1] <= day
      ),
      default=(0, -1),
    )
    best.append((before[0] + 1, before[1]))
  chain = []
  index = max(range(len(best)), key=lambda i: best[i][0], default=-1)
  while index >= 0:
    chain.append(candidates[index])
    index = best[index][1]
  return chain[::-1]


def read_annals(
  juan: Sequence[Sequence[str]],
  table: MonthTable,
  years: EraYears,
) -> tuple[Truth, ...]:
  """Returns the dates of annals by their heads and days of the cycle."""
  entries, heads, last = [], [], (0, 0)
  for record, lines in enumerate(juan):
    text = "".join(lines)
    entries.append(Entry(text, Place(f"{record}.txt", 1)))
    found, last = find_year_heads(lines, record, years, last)
    heads += found
  records = gold.date_records(entries, heads, table, gold.RUNNING)
  truths, offset = [], 0
  for record in records:
    text = record.entry.text
    ends = [start for start, _ in record.date_spans]
    for place in record.places:
      month = place.month
      if not month.month or not month.first_day:
        continue
      truths.append(Truth(offset + place.position, month.first_day, None))
      stop = bisect.bisect_left(ends, place.position)
      stop = ends[stop] if stop < len(ends) else len(text)
      for end, day in _find_days(
        text, place.position, stop, month.first_day, table.lengths[month]
      ):
        truths.append(Truth(offset + end, month.first_day, day))
    offset += len(text)
  return tuple(sorted(truths))


def read_diary(
  juan: Sequence[Sequence[str]], table: MonthTable, before: tuple[int, int]
) -> tuple[Truth, ...]:
  """Returns the days that open the lines of a diary, months carried on."""
  year, month = before
  is_leap = False
  pattern = re.compile(
    rf"(?:\w{{0,2}}(?P<year>{_NUMERAL})年)?(?:(?P<leap>閏)?(?P<month>正|{_NUMERAL})月)?"
    rf"(?P<first>初)?(?P<day>朔|晦|{_NUMERAL}日?)"
  )
  truths, offset, last_day = [], 0, 0
  for line in (line for lines in juan for line in lines):
    match = pattern.match(line)
    if match and (match["month"] or match["day"].endswith("日")):
      if match["year"]:
        year += 1
      if match["month"]:
        month = gold.parse_numeral(match["month"])
        is_leap, last_day = bool(match["leap"]), 0
      day = gold.parse_numeral(match["day"].rstrip("日"))
      found = table.find_month(year, month, is_leap)
      if found and day > last_day:
        last_day = day
        first = found[1].first_day
        truths.append(Truth(offset + match.end(), first, first + day - 1))
    offset += len(line)
  return tuple(truths)


def read_gold(
  book: Book, folder: pathlib.Path, outside: pathlib.Path
) -> GoldBook:
  """Returns the lines of a book and its dates."""
  juan = [tuple(read_lines(path)) for path in list_files(book, folder)]
  table, years = gold.read_dila_months(outside, book.dynasties)
  truths = (
    read_annals(juan, table, years)
    if book.kind == ANNALS
    else read_diary(juan, table, book.before)
  )
  return GoldBook(tuple(line for lines in juan for line in lines), truths)


def align(lines: Sequence[str], printed: str) -> tuple[np.ndarray, int]:
  """Returns where each character of the lines is in a text, and how many lack.

  -1 is nowhere. A line stands whole, not far behind the line before it.
  """
  places, cursor = [], 0
  for line in lines:
    found = printed.find(line, cursor, cursor + _MAX_AHEAD)
    if found < 0:
      places.append(np.full(len(line), -1))
    else:
      places.append(np.arange(found, found + len(line)))
      cursor = found + len(line)
  joined = np.concatenate(places)
  return joined, int((joined < 0).sum())


def judge_book(
  book: Book, folder: pathlib.Path, outside: pathlib.Path
) -> dict[str, float]:
  """Returns metric -> value of one book."""
  right = read_gold(book, folder, outside)
  with tempfile.TemporaryDirectory() as temporary:
    path = pathlib.Path(temporary)
    for file in list_files(book, folder):
      shutil.copy(file, path)
    start_time = time.process_time()
    work = chronicle_input.read_chronicle(path, chronicle_input.LINE)
    records = chronicle_input.list_records(work)
    calendar = chronicle_input.load_reigns(book.reigns, records)
    dates = chronicle_dating.date_records(records, calendar)
    rows = dated_sections.make_rows(dates)
    seconds = time.process_time() - start_time
  texts = ["".join(_HAN.findall(row.text)) for row in rows]
  starts = np.cumsum([0, *map(len, texts)])[:-1]
  places, lost = align(right.lines, "".join(texts))
  truth_of: dict[int, Truth] = {}
  for truth in right.truths:
    place = places[truth.position - 1]
    if place < 0:
      continue
    section = int(np.searchsorted(starts, place, "right")) - 1
    if place - starts[section] < _MAX_HEAD and not rows[section].is_heading:
      # The last date of a head is its most precise.
      known = truth_of.get(section)
      if known is None or (known.day is None and truth.day is not None):
        truth_of[section] = truth
  verdicts: list[tuple[float, bool]] = []
  spans = dates.calendar.day_spans
  wrong = []
  for section, truth in truth_of.items():
    month = int(dates.months[section, 0])
    is_right = (
      month < len(spans)
      and abs(int(spans[month, 0]) - truth.first_day) <= _MAX_DAYS_APART
    )
    julian_day = rows[section].dates.julian_day
    if is_right and truth.day is not None and julian_day is not None:
      # Days of the cycle are the same in every table, numbered ones not.
      apart = abs(julian_day - truth.day)
      is_right = apart <= (0 if book.kind == ANNALS else _MAX_DAYS_APART)
    chance = rows[section].months.probability
    verdicts.append((chance, is_right))
    if not is_right and chance >= _SURE:
      wrong.append((chance, truth, rows[section]))
  _print_wrong(wrong)
  real = [row for row in rows if not row.is_heading]
  sure = np.mean([row.months.probability >= _SURE for row in real])

  def share(low: float, high: float) -> float:
    of_band = [ok for chance, ok in verdicts if low <= chance < high]
    return float(np.mean(of_band)) if of_band else float("nan")

  return {
    "sections": len(real),
    "sure": float(sure),
    "right@sure": share(_SURE, 2),
    "right@unsure": share(_UNSURE, _SURE),
    "judged": len(verdicts) / max(len(real), 1),
    "lost": lost,
    "seconds": seconds,
  }


def _print_wrong(wrong) -> None:
  """Prints the first sections that are wrong with confidence."""
  for chance, truth, row in wrong[:20]:
    given = row.months.month
    print(
      f"  wrong at {chance:.4f}: {row.place} {row.text[:24]!r} "
      f"given {given}, right JDN {truth.first_day} {truth.day or ''}"
    )


def main() -> None:
  """Measures every book."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--books", type=pathlib.Path, required=True)
  parser.add_argument("--outside", type=pathlib.Path, required=True)
  parser.add_argument("--only", default=",".join(BOOKS))
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  flags = parser.parse_args()
  rows = []
  for name in flags.only.split(","):
    figures = judge_book(BOOKS[name], flags.books, flags.outside)
    about = result_rows.describe_run("twenty_books", figures["seconds"])
    kind = BOOKS[name].kind
    names = "books", name, "T0+order", "posterior", "test", "printed", kind
    of_book = [
      results.ResultRow(*names, metric, value, **about)
      for metric, value in figures.items()
    ]
    result_rows.print_rows(of_book)
    rows += of_book
    result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
