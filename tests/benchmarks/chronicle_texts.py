"""Layouts of the chronicles: where each edition prints its years.

Every function reads one text and returns its records with their dates; months
and days are read by `chronicle_gold` alike in all of them.
"""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

from ctd_jax import texts
from ctd_jax.chronology import reign_tables
from ctd_jax.texts.works import HEADING, TEXT, Entry
from tests.benchmarks import chronicle_calendar as calendar_lib
from tests.benchmarks import chronicle_gold as gold
from tests.benchmarks.chronicle_calendar import EraYears, MonthTable
from tests.benchmarks.chronicle_gold import GoldText, YearHead

_NUMERAL = r"(?:元|[一二三四五六七八九十廿卅有又]+)"
_LU_HEADING = re.compile(rf"(?P<duke>.公)(?P<year>{_NUMERAL})年[經傳]?$")
_YEAR_OPENING = re.compile(rf"(?P<layer>[經傳])?(?P<year>{_NUMERAL})年")
_ERA_OPENING = re.compile(rf"(?P<era>\w{{0,4}}?)(?P<year>{_NUMERAL})[年載]")
_SEASON_OR_MONTH = re.compile(rf"[春夏秋冬閏]|{_NUMERAL}月|正月")
_ERA_AND_MONTH = re.compile(
  rf"{_ERA_OPENING.pattern}(?={_SEASON_OR_MONTH.pattern})"
)
# Shapes that the printers use for the characters of eras.
_SHAPES = str.maketrans("寳厯歴熈寜寕徳𥘉黄嵗", "寶曆曆熙寧寧德初黃歲")
# Title -> printed before a year -> the count, as DILA calls it: "" is of the
# first, "next" of a 元年 without a name.
_SHIJI_COUNTS = {
  "秦始皇本紀": {
    "": "始皇帝（無年號）",
    "二世皇帝": "二世（無年號）",
  },
  "高祖本紀": {
    "": "二世（無年號）",
    "秦二世": "二世（無年號）",
    "漢": "高祖（漢王）（無年號）",
  },
  "呂太后本紀": {
    "": "高祖（無年號）",
    "高祖": "高祖（無年號）",
    "孝惠": "惠帝（無年號）",
    "next": "呂后（無年號）",
  },
  "孝文本紀": {
    "": "文帝（無年號）",
    "孝文皇帝": "文帝（無年號）",
    "後": "文帝（後元）",
  },
  "孝景本紀": {
    "": "景帝（無年號）",
    "中": "景帝（中元）",
    "後": "景帝（後元）",
  },
}
_SHIJI_YEAR = re.compile(
  r"(?:^|[。！？])[（\s\d]*(?P<date>(?P<reign>二世皇帝|秦二世|漢|高祖|孝惠"
  rf"|孝文皇帝|孝景皇帝|高后|即位|[中後維])?(?P<year>{_NUMERAL})年)"
  rf"(?=，|{_SEASON_OR_MONTH.pattern})"
  rf"|(?:^|[，。！？])(?P<clause>{_NUMERAL}年)(?=[^，。])"
)
_LAST_JUAN_OF_ANNALS = 4  # of 魏志
_OTHER_TONGJIAN = "zizhitongjian_wikisource"
_TONGJIAN_DYNASTIES = ("曹魏", "西晉", "東晉", "劉宋", "南齊")
_TONGJIAN_REIGNS = "曹魏,晉,劉宋,南齊"  # juan 69-144
# Parts of 資治通鑑 and their juan.
_PARTS = (
  *(("周", 5), ("秦", 3), ("汉", 60), ("魏", 10), ("晋", 40), ("宋", 16)),
  *(("齐", 10), ("梁", 22), ("陈", 10), ("隋", 8), ("唐", 81), ("后梁", 6)),
  *(("后唐", 8), ("后晋", 6), ("后汉", 4), ("后周", 5)),
)
_JUAN_BEFORE = dict(
  zip(
    (part for part, _ in _PARTS),
    itertools.accumulate((number for _, number in _PARTS), initial=0),
    strict=False,
  )
)
_COMPLETE_DYNASTIES = (
  *("西漢", "新", "東漢", "曹魏", "西晉", "東晉", "劉宋", "南齊", "南梁"),
  *("陳", "隋", "唐", "武周", "後梁", "後唐", "後晉", "後漢", "後周"),
)
_COMPLETE_REIGNS = (
  "秦,西漢,新,東漢,曹魏,晉,劉宋,南齊,南梁,陳,隋,唐,後梁,後唐,後晉,後漢,後周"
)
_NO_HEAD = (0, 0)
_MAX_NAMED_STEP = 30  # years that may be missing before a named era, and one
_YEAR_BEFORE_HAN = (-206, 3)  # 207 BCE, 秦二世三年
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
  table: MonthTable,
  layout: str,
  front: Sequence[Entry] = (),
  **options: bool,
) -> GoldText:
  records, counts = gold.date_records(entries, heads, table, layout, **options)
  front_records = tuple(gold.GoldRecord(entry) for entry in front)
  return GoldText(name, reigns, records, counts, front_records)


def read_numbered_annals(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns annals of Lu under headings 「隱公元年經」, 「隱公元年」."""
  accessions = _read_lu_accessions()
  entries, heads = read_entries(path), []
  year = None
  for record, entry in enumerate(entries):
    heading = _LU_HEADING.match(entry.text) if entry.is_heading else None
    if heading is not None:
      year = accessions[heading["duke"]] - 1
      year += calendar_lib.parse_numeral(heading["year"])
      heads.append(YearHead(record, 0, heading.end(), year))
    elif year is not None and not entry.is_heading:
      opening = _YEAR_OPENING.match(entry.text)
      if opening is None:
        continue
      # The item prints the year of the heading once more.
      duke = _LU_HEADING.match(entry.headings[-1])["duke"]
      printed = (
        accessions[duke] - 1 + calendar_lib.parse_numeral(opening["year"])
      )
      if printed == year:
        heads.append(YearHead(record, 0, opening.end(), year))
  table = calendar_lib.make_lu_months(*_LU_YEARS)
  return _make_gold(name, "lu", entries, heads, table, gold.CLAUSE)


def read_annals_by_duke(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns annals of Lu, a file for each duke, years at the head of lines."""
  accessions = _read_lu_accessions()
  entries, all_heads = read_entries(path), []
  by_file: dict[str, list[YearHead]] = {}
  for record, entry in enumerate(entries):
    opening = _YEAR_OPENING.match(entry.text)
    if opening is None:
      continue
    duke = pathlib.PurePath(entry.place.file).stem.split("_")[1]
    year = accessions[duke] - 1 + calendar_lib.parse_numeral(opening["year"])
    by_file.setdefault(duke, []).append(
      YearHead(record, 0, opening.end(), year)
    )
  for heads in by_file.values():
    all_heads += gold.check_order(heads)
  table = calendar_lib.make_lu_months(*_LU_YEARS)
  return _make_gold(name, "lu", entries, all_heads, table, gold.CLAUSE)


def _resolve_year(
  name: str, number: int, last: tuple[int, int], years: EraYears, max_step: int
) -> int | None:
  """Returns the year of an era that follows the last year, None if none does.

  A year without an era, or with a misprinted one, is the next that some era
  counts so.

  Args:
    name: of the era, as printed.
    number: of its year.
    last: year and number of the head before; the year 0 of no head is any.
    years: of the eras.
    max_step: years that may be missing before a year without an era, and one.
  """
  last_year, last_number = last
  if name and any(era == name for era, _ in years):
    candidates = years.get((name, number), ())
    return next(
      (
        year
        for year in candidates
        if last == _NO_HEAD or 0 <= year - last_year <= _MAX_NAMED_STEP
      ),
      None,
    )
  if (len(name) not in (0, 2) and name not in "前中後") or last == _NO_HEAD:
    return None
  if number == last_number:
    return last_year
  following = sorted(
    year
    for (_, other), found in years.items()
    for year in found
    if other == number and 0 < year - last_year <= max_step
  )
  return following[0] if following else None


def _read_era_openings(
  entries: Sequence[Entry],
  years: EraYears,
  pattern: re.Pattern[str],
  max_step: int,
  before: tuple[int, int] = _NO_HEAD,
) -> list[YearHead]:
  """Returns the years that open records; None where they go back or too far.

  Args:
    entries: in order.
    years: of the eras.
    pattern: of a year at the head of a record, with groups `era` and `year`.
    max_step: years that may be missing, and one.
    before: year and number of a head before the first, if a count is known.
  """
  heads: list[YearHead] = []
  last = before
  for record, entry in enumerate(entries):
    opening = None if entry.is_heading else pattern.match(entry.text)
    if opening is None:
      continue
    name = opening["era"].translate(_SHAPES)
    number = calendar_lib.parse_numeral(opening["year"])
    is_era = any(era == name for era, _ in years)
    if (
      name
      and not is_era
      and not _SEASON_OR_MONTH.match(entry.text[opening.end() :])
    ):
      continue  # 「吳比三年大疫」
    year = _resolve_year(name, number, last, years, max_step)
    if year is not None:
      last = year, number
    heads.append(YearHead(record, 0, opening.end(), year))
  return heads


def read_changbian(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 續資治通鑑長編: every juan opens with era, year and month.

  The first five files are tables of contents and memorials.
  """
  table, years = calendar_lib.read_dila_months(outside, ("北宋",))
  entries = read_entries(path)
  first = next(
    row
    for row, entry in enumerate(entries)
    if entry.place.file == "KR2b0019_005.txt"
  )
  front, entries = entries[:first], entries[first:]
  heads = _read_era_openings(entries, years, _ERA_AND_MONTH, 5)
  return _make_gold(name, "宋", entries, heads, table, gold.OPENING, front)


def read_houhanji(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 後漢紀: every year opens a paragraph."""
  table, years = calendar_lib.read_dila_months(outside, ("西漢", "新", "東漢"))
  entries = [e for e in read_entries(path) if "_000" not in e.place.file]
  heads = _read_era_openings(entries, years, _ERA_OPENING, 3)
  return _make_gold(
    name,
    "西漢,新,東漢",
    entries,
    heads,
    table,
    gold.RUNNING,
    is_continuous=True,
  )


def read_shiji(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 史記, the annals from 秦始皇 to 景帝: years open clauses.

  Months before 221 BCE are not in the table, so that only the year counts.
  """
  table, years = calendar_lib.read_dila_months(outside, ("秦", "西漢"))
  titles = tuple(_SHIJI_COUNTS)
  entries = [
    entry
    for entry in read_entries(path)
    if entry.text in titles or entry.headings[-1:] in {(t,) for t in titles}
  ]
  heads: list[YearHead] = []
  for title, counts in _SHIJI_COUNTS.items():
    count, last_year = counts[""], None
    for record, entry in enumerate(entries):
      if entry.headings[-1:] != (title,):
        continue
      for opening in _SHIJI_YEAR.finditer(entry.text):
        if not opening["date"]:  # 「四年就半」
          heads.append(YearHead(record, *opening.span("clause"), None))
          continue
        printed = opening["reign"] or ""
        if printed not in counts:
          heads.append(YearHead(record, *opening.span("date"), None))
          continue
        next_count = counts[printed] if printed else count
        number = calendar_lib.parse_numeral(opening["year"])
        if not printed and number == 1 and last_year is not None:
          next_count = counts.get("next", count)
        # 元年 of each count: from the first year that the table has of it.
        known = min(n for era, n in years if era == next_count)
        year = years[next_count, known][0] + number - known
        if last_year is not None and not 0 <= year - last_year <= 5:
          heads.append(YearHead(record, *opening.span("date"), None))
          continue
        count, last_year = next_count, year
        heads.append(YearHead(record, *opening.span("date"), year))
  records, found = gold.date_records(
    entries, heads, table, gold.CLAUSE, carries=False
  )
  return GoldText(name, "秦,西漢", records, found)


def read_sanguozhi(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 三國志, 魏志: in every life years after an era that it names."""
  table, years = calendar_lib.read_dila_months(outside, ("東漢", "曹魏"))
  entries = [e for e in read_entries(path) if "_000" not in e.place.file]
  eras = sorted({era for era, _ in years if "（" not in era})
  pattern = re.compile(
    rf"(?P<era>{'|'.join(eras)})?(?<![一二三四五六七八九十元])"
    rf"(?P<year>{_NUMERAL})年(?={_SEASON_OR_MONTH.pattern})"
  )
  heads: list[YearHead] = []
  last, headings = _NO_HEAD, ()
  for record, entry in enumerate(entries):
    if entry.is_heading:
      continue
    # 紀 go on over paragraphs; of the other lives each is one.
    is_annals = int(entry.place.file[-7:-4]) <= _LAST_JUAN_OF_ANNALS
    if entry.headings != headings or not is_annals:
      last, headings = _NO_HEAD, entry.headings
    for opening in pattern.finditer(entry.text.translate(_SHAPES)):
      number = calendar_lib.parse_numeral(opening["year"])
      era = opening["era"] or ""
      year = _resolve_year(era, number, last, years, max_step=5)
      if year is not None:
        last = year, number
      heads.append(YearHead(record, *opening.span(), year))
  records, counts = gold.date_records(
    entries, heads, table, gold.RUNNING, carries=False
  )
  return GoldText(name, "東漢,曹魏", records, counts)


def read_tongjian(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 資治通鑑: years open paragraphs, two editions have the months."""
  other = path.parent / _OTHER_TONGJIAN
  if not other.exists():
    raise FileNotFoundError(f"--sources: {other} is missing")
  other_months: dict[int, list[tuple[int, bool]]] = {}
  for entry in read_entries(other):
    other_months.setdefault(gold.read_juan(entry), []).extend(
      gold.list_months(entry.text)
    )
  return _collate_tongjian(
    name,
    read_entries(path),
    other_months,
    calendar_lib.read_dila_months(outside, _TONGJIAN_DYNASTIES),
    _TONGJIAN_REIGNS,
  )


def read_complete_tongjian(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 資治通鑑 from 206 BCE on, juan 9 to 294.

  The folder holds two checkouts: kanripo/KR2b0007, and 资治通鉴 of
  NiuTrans/Classical-Modern, whose chapters are the juan.
  """
  chapters = sorted(path.rglob("资治通鉴/*/*/source.txt"))
  if not chapters:
    raise FileNotFoundError(
      f"--complete: {path} has no 资治通鉴/*/*/source.txt"
    )
  other_months = {}
  for chapter in chapters:
    part, _, number = chapter.parent.name.partition("纪")
    juan = _JUAN_BEFORE[part] + (calendar_lib.parse_numeral(number) or 1)
    other_months[juan] = [
      month
      for line in chapter.read_text(encoding="utf-8").splitlines()
      for month in gold.list_months(line)
    ]
  entries = [
    entry
    for entry in read_entries(path / "KR2b0007")
    if gold.read_juan(entry) > _JUAN_BEFORE["汉"]
  ]
  return _collate_tongjian(
    name,
    entries,
    other_months,
    calendar_lib.read_dila_months(outside, _COMPLETE_DYNASTIES),
    _COMPLETE_REIGNS,
    _YEAR_BEFORE_HAN,
  )


def _collate_tongjian(
  name, entries, other_months, calendar, reigns, before=_NO_HEAD
) -> GoldText:
  """Returns an edition of 資治通鑑 with the months that another has too."""
  table, years = calendar
  heads = _read_era_openings(entries, years, _ERA_OPENING, 5, before)
  records, counts = gold.date_records(
    entries, heads, table, gold.RUNNING, is_continuous=True
  )
  confirmed, num_unconfirmed = gold.confirm_months(records, other_months)
  counts["months that the other edition lacks"] = num_unconfirmed
  counts["months taken"] -= num_unconfirmed
  return GoldText(name, reigns, confirmed, counts)


# Name -> (folder of sources or of outside, path there, reader).
TEXTS: Mapping[
  str, tuple[str, str, Callable[[str, pathlib.Path, pathlib.Path], GoldText]]
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
  "tongjian_complete": ("complete", "", read_complete_tongjian),
  "tongjian": ("sources", "zizhitongjian_KR2b0007", read_tongjian),
  "shiji": ("outside", "KR2a0001", read_shiji),
  "sanguozhi": ("outside", "KR2a0012", read_sanguozhi),
}


def read_gold(
  name: str, folders: Mapping[str, pathlib.Path | None]
) -> GoldText:
  """Returns a text with its dates.

  Args:
    name: of `TEXTS`.
    folders: `sources`, `outside` (with the calendars) and `complete` -> folder.

  Raises:
    ValueError: if there is no such text.
    FileNotFoundError: if its folder is missing.
  """
  if name not in TEXTS:
    raise ValueError(f"--texts: no text {name!r}; there are {', '.join(TEXTS)}")
  kind, folder, reader = TEXTS[name]
  root = folders[kind]
  if root is None or not (root / folder).exists():
    raise FileNotFoundError(
      f"--{kind}: {name} needs {folder or 'a folder'}"
      + (f"; there is none in {root}" if root else "")
    )
  return reader(name, root / folder, folders["outside"])
