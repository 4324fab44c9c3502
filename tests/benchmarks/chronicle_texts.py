"""Layouts of the chronicles: where each edition prints its years.

Every function reads one text and returns its records with their dates; months
and days are read by `chronicle_gold` alike in all of them.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

from ctd_jax import texts
from ctd_jax.chronology import reign_tables
from ctd_jax.texts.works import HEADING, TEXT, Entry
from tests.benchmarks import chronicle_gold as gold
from tests.benchmarks.chronicle_gold import GoldText, MonthTable, YearHead

_NUMERAL = r"(?:元|[一二三四五六七八九十廿卅有又]+)"
_LU_HEADING = re.compile(rf"(?P<duke>.公)(?P<year>{_NUMERAL})年[經傳]?$")
_YEAR_OPENING = re.compile(rf"(?P<layer>[經傳])?(?P<year>{_NUMERAL})年")
_ERA_OPENING = re.compile(rf"(?P<era>\w{{0,4}}?)(?P<year>{_NUMERAL})年")
_ERA_AND_MONTH = re.compile(
  rf"{_ERA_OPENING.pattern}(?=[春夏秋冬閏]|{_NUMERAL}月|正月)"
)
# Shapes that the printers use for the characters of eras.
_SHAPES = str.maketrans("寳厯歴熈寜寕徳𥘉永", "寶曆曆熙寧寧德初永")
# 左傳 ends in 468 BCE, 哀公二十七年.
_LU_YEARS = (-721, -467)


def read_entries(path: pathlib.Path) -> list[Entry]:
  """Returns texts and headings of the one work of a folder.

  Raises:
    ValueError: if there is not one work.
  """
  works = texts.read_works(path)
  if len(works) != 1:
    raise ValueError(f"{path}: {len(works)} works; expected one")
  return [entry for entry in works[0].entries if entry.kind in (TEXT, HEADING)]


def _read_lu_accessions() -> dict[str, int]:
  timeline = reign_tables.load_timeline("lu")
  return {reign.name: reign.accession for reign in timeline.reigns}


def _make_gold(
  name: str,
  reigns: str,
  entries: Sequence[Entry],
  heads: Sequence[YearHead],
  num_dropped: int,
  table: MonthTable,
  layout: str,
  front: Sequence[Entry] = (),
) -> GoldText:
  records, counts = gold.date_records(entries, heads, table, layout)
  counts["years out of order"] = num_dropped
  front_records = tuple(gold.GoldRecord(entry) for entry in front)
  return GoldText(name, reigns, records, counts, front_records)


def read_numbered_annals(name: str, path: pathlib.Path) -> GoldText:
  """Returns annals of Lu under headings 「隱公元年經」, 「隱公元年」."""
  accessions = _read_lu_accessions()
  entries, heads = read_entries(path), []
  year, num_dropped = None, 0
  for record, entry in enumerate(entries):
    heading = _LU_HEADING.match(entry.text) if entry.is_heading else None
    if heading is not None:
      year = accessions[heading["duke"]] - 1
      year += gold.parse_numeral(heading["year"])
      heads.append(YearHead(record, 0, heading.end(), year))
    elif year is not None and not entry.is_heading:
      opening = _YEAR_OPENING.match(entry.text)
      if opening is None:
        continue
      # The item prints the year of the heading once more.
      duke = _LU_HEADING.match(entry.headings[-1])["duke"]
      printed = accessions[duke] - 1 + gold.parse_numeral(opening["year"])
      if printed == year:
        heads.append(YearHead(record, 0, opening.end(), year))
      else:
        num_dropped += 1
  table = gold.make_lu_months(*_LU_YEARS)
  return _make_gold(name, "lu", entries, heads, num_dropped, table, gold.CLAUSE)


def read_annals_by_duke(name: str, path: pathlib.Path) -> GoldText:
  """Returns annals of Lu, a file for each duke, years at the head of lines."""
  accessions = _read_lu_accessions()
  entries, all_heads, num_dropped = read_entries(path), [], 0
  by_file: dict[str, list[YearHead]] = {}
  for record, entry in enumerate(entries):
    opening = _YEAR_OPENING.match(entry.text)
    if opening is None:
      continue
    duke = pathlib.PurePath(entry.place.file).stem.split("_")[1]
    year = accessions[duke] - 1 + gold.parse_numeral(opening["year"])
    by_file.setdefault(duke, []).append(
      YearHead(record, 0, opening.end(), year)
    )
  for heads in by_file.values():
    taken, dropped = gold.check_order(heads, max_step=1)
    all_heads += taken
    num_dropped += dropped
  table = gold.make_lu_months(*_LU_YEARS)
  return _make_gold(
    name, "lu", entries, all_heads, num_dropped, table, gold.CLAUSE
  )


def _read_era_openings(
  entries: Sequence[Entry],
  years: Mapping[tuple[str, int], int],
  pattern: re.Pattern[str],
  max_step: int,
) -> tuple[list[YearHead], int]:
  """Returns the years that open records, and how many go back or too far.

  A year without an era, or with a misprinted one, is the next that some era
  counts so.

  Args:
    entries: in order.
    years: (era, regnal year) -> astronomical year.
    pattern: of a year at the head of a record, with groups `era` and `year`.
    max_step: years that may be missing, and one.
  """
  eras = {era for era, _ in years}
  heads: list[YearHead] = []
  last_number, num_dropped = 0, 0
  for record, entry in enumerate(entries):
    opening = None if entry.is_heading else pattern.match(entry.text)
    if opening is None:
      continue
    name = opening["era"].translate(_SHAPES)
    number = gold.parse_numeral(opening["year"])
    last_year = heads[-1].year if heads else min(years.values())
    if name in eras:
      steps = [years.get((name, number), last_year - 1) - last_year]
    elif len(name) in (0, 2):
      steps = [0] if number == last_number else []
      steps += sorted(
        year - last_year
        for (_, other), year in years.items()
        if other == number and year > last_year
      )
    else:
      continue
    if not steps or (heads and not 0 <= steps[0] <= max_step):
      num_dropped += 1
      continue
    last_number = number
    heads.append(YearHead(record, 0, opening.end(), last_year + steps[0]))
  return heads, num_dropped


def read_changbian(name: str, path: pathlib.Path) -> GoldText:
  """Returns 續資治通鑑長編: every juan opens with era, year and month.

  The first five files are tables of contents and memorials.
  """
  table, years = gold.read_dila_months(path.parent, ("北宋",))
  entries = read_entries(path)
  first = next(
    row
    for row, entry in enumerate(entries)
    if entry.place.file == "KR2b0019_005.txt"
  )
  front, entries = entries[:first], entries[first:]
  heads, dropped = _read_era_openings(entries, years, _ERA_AND_MONTH, 5)
  return _make_gold(
    name, "宋", entries, heads, dropped, table, gold.OPENING, front
  )


def read_houhanji(name: str, path: pathlib.Path) -> GoldText:
  """Returns 後漢紀: every year opens a paragraph."""
  table, years = gold.read_dila_months(path.parent, ("西漢", "新", "東漢"))
  entries = [e for e in read_entries(path) if "_000" not in e.place.file]
  heads, dropped = _read_era_openings(entries, years, _ERA_OPENING, 3)
  return _make_gold(
    name, "西漢,新,東漢", entries, heads, dropped, table, gold.RUNNING
  )


# Name -> (folder of sources or of outside, path there, reader).
TEXTS: Mapping[
  str, tuple[str, str, Callable[[str, pathlib.Path], GoldText]]
] = {
  "zuozhuan": ("sources", "zuozhuan_KR1e0001", read_numbered_annals),
  "zuozhuan_wikisource": (
    "sources",
    "zuozhuan_wikisource",
    read_annals_by_duke,
  ),
  "gongyang": ("sources", "gongyangzhuan_wikisource", read_annals_by_duke),
  "guliang": ("sources", "guliangzhuan_KR1e0008", read_numbered_annals),
  "changbian": ("outside", "KR2b0019", read_changbian),
  "houhanji": ("outside", "KR2b0004", read_houhanji),
}


def read_gold(
  name: str, sources: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns a text with its dates.

  Args:
    name: of `TEXTS`.
    sources: folder of the source texts.
    outside: folder of texts and calendars from outside.

  Raises:
    ValueError: if there is no such text.
    FileNotFoundError: if its folder is missing.
  """
  if name not in TEXTS:
    raise ValueError(f"--texts: no text {name!r}; there are {', '.join(TEXTS)}")
  kind, folder, reader = TEXTS[name]
  path = (sources if kind == "sources" else outside) / folder
  if not path.exists():
    raise FileNotFoundError(f"--{kind}: {path} is missing")
  return reader(name, path)
