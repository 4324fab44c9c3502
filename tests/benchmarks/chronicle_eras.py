"""Years that open the records of a chronicle, under eras or without.

A year that is printed without its era, or under a misprinted one, is known by
the years before it.
"""

import pathlib
import re
from collections.abc import Sequence

from ctd_jax import texts
from ctd_jax.texts.works import HEADING, TEXT, Entry
from tests.benchmarks import chronicle_calendar as calendar_lib
from tests.benchmarks import chronicle_gold as gold
from tests.benchmarks.chronicle_calendar import EraYears, MonthTable
from tests.benchmarks.chronicle_gold import GoldText, YearHead

NUMERAL = r"(?:元|[一二三四五六七八九十廿卅有又]+)"
ERA_OPENING = re.compile(rf"(?P<era>\w{{0,4}}?)(?P<year>{NUMERAL})[年載]")
SEASON_OR_MONTH = re.compile(rf"[春夏秋冬閏]|{NUMERAL}月|正月")
ERA_AND_MONTH = re.compile(
  rf"{ERA_OPENING.pattern}(?={SEASON_OR_MONTH.pattern})"
)
# A year that begins with its first season, 「二載春正月」.
_NEXT_YEAR = re.compile(
  r"(?<![元一二三四五六七八九十廿卅有又])(?P<year>[二三四五六七八九十有又]+)[年載](?=春(?:正|二|三)月)"
)
# Shapes that the printers use for the characters of eras.
SHAPES = str.maketrans("寳厯歴熈寜寕徳𥘉黄嵗", "寶曆曆熙寧寧德初黃歲")
NO_HEAD = (0, 0)
_MAX_NAMED_STEP = 30  # years that may be missing before a named era, and one


def read_entries(path: pathlib.Path) -> list[Entry]:
  """Returns texts and headings of the one work of a folder.

  Raises:
    ValueError: if there is not one work.
  """
  works = texts.read_works(path)
  if len(works) != 1:
    raise ValueError(f"{path}: {len(works)} works; expected one")
  return [entry for entry in works[0].entries if entry.kind in (TEXT, HEADING)]


def make_gold(
  name: str,
  reigns: str,
  entries: Sequence[Entry],
  heads: Sequence[YearHead],
  table: MonthTable,
  layout: str,
  front: Sequence[Entry] = (),
  **options: bool,
) -> GoldText:
  records, counts = gold.date_records(entries, heads, table, layout, **options)
  front_records = tuple(gold.GoldRecord(entry) for entry in front)
  return GoldText(name, reigns, records, counts, front_records)


def _fold_name(name: str) -> str:
  """Returns the name of an era with 大 for 太, which printers interchange."""
  return name.replace("太", "大")


def _is_era(name: str, years: EraYears) -> bool:
  """Returns whether an era is called so."""
  folded = _fold_name(name)
  return bool(name) and any(_fold_name(era) == folded for era, _ in years)


def _resolve_year(
  name: str, number: int, last: tuple[int, int], years: EraYears, max_step: int
) -> int | None:
  """Returns the year of an era that follows the last year, None if none does.

  A year without an era, or with a misprinted one, is the next that some era
  counts so; of a misprinted one that repeats a number it is not known.

  Args:
    name: of the era, as printed.
    number: of its year.
    last: year and number of the head before; the year 0 of no head is any.
    years: of the eras.
    max_step: years that may be missing before a year without an era, and one.
  """
  last_year, last_number = last
  if _is_era(name, years):
    candidates = sorted(
      year
      for (era, other), found in years.items()
      if other == number and _fold_name(era) == _fold_name(name)
      for year in found
    )
    return next(
      (
        year
        for year in candidates
        if last == NO_HEAD or 0 <= year - last_year <= _MAX_NAMED_STEP
      ),
      None,
    )
  if (len(name) not in (0, 2) and name not in "前中後") or last == NO_HEAD:
    return None
  if number == last_number:
    return None if name else last_year
  following = sorted(
    year
    for (_, other), found in years.items()
    for year in found
    if other == number and 0 < year - last_year <= max_step
  )
  return following[0] if following else None


def _find_next_years(
  entry: Entry, last: tuple[int, int], years: EraYears
) -> list[tuple[int, int, int, int]]:
  """Returns (start, stop, year, number) of years that go on inside a record."""
  found = []
  for match in _NEXT_YEAR.finditer(entry.text):
    number = calendar_lib.parse_numeral(match["year"])
    if number == last[1] + 1 and last[0] + 1 in _list_years(number, years):
      last = last[0] + 1, number
      found.append((*match.span(), *last))
  return found


def _list_years(number: int, years: EraYears) -> set[int]:
  """Returns the years that some era counts as a number."""
  return {
    year
    for (_, other), found in years.items()
    if other == number
    for year in found
  }


def read_era_openings(
  entries: Sequence[Entry],
  years: EraYears,
  pattern: re.Pattern[str],
  max_step: int,
  before: tuple[int, int] = NO_HEAD,
  in_records: bool = False,
) -> list[YearHead]:
  """Returns the years that open records; None where they go back or too far.

  Args:
    entries: in order.
    years: of the eras.
    pattern: of a year at the head of a record, with groups `era` and `year`.
    max_step: years that may be missing, and one.
    before: year and number of a head before the first, if a count is known.
    in_records: whether the next year may also open inside a record, where its
      paragraph was run on.
  """
  heads: list[YearHead] = []
  last = before
  for record, entry in enumerate(entries):
    opening = None if entry.is_heading else pattern.match(entry.text)
    if opening is None:
      if in_records:
        for start, stop, year, number in _find_next_years(entry, last, years):
          heads.append(YearHead(record, start, stop, year))
          last = year, number
      continue
    name = opening["era"].translate(SHAPES)
    number = calendar_lib.parse_numeral(opening["year"])
    if (
      name
      and not _is_era(name, years)
      and not SEASON_OR_MONTH.match(entry.text[opening.end() :])
    ):
      continue  # 「吳比三年大疫」
    year = _resolve_year(name, number, last, years, max_step)
    if year is not None:
      last = year, number
    heads.append(YearHead(record, 0, opening.end(), year))
  return heads
