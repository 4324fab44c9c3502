"""Layouts of the chronicles: where each edition prints its years.

Every function reads one text and returns its records with their dates; months
and days are read by `chronicle_gold` alike in all of them.
"""

import pathlib
import re
from collections.abc import Callable, Mapping

from ctd_jax.chronology import reigns
from tests.benchmarks import chronicle_calendar as calendar_lib
from tests.benchmarks import chronicle_eras as era_lib
from tests.benchmarks import chronicle_gold as gold
from tests.benchmarks import chronicle_tongjian
from tests.benchmarks.chronicle_gold import GoldText, YearHead

_LU_HEADING = re.compile(rf"(?P<duke>.公)(?P<year>{era_lib.NUMERAL})年[經傳]?$")
_YEAR_OPENING = re.compile(rf"(?P<layer>[經傳])?(?P<year>{era_lib.NUMERAL})年")
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
  rf"|孝文皇帝|孝景皇帝|高后|即位|[中後維])?(?P<year>{era_lib.NUMERAL})年)"
  rf"(?=，|{era_lib.SEASON_OR_MONTH.pattern})"
  rf"|(?:^|[，。！？])(?P<clause>{era_lib.NUMERAL}年)(?=[^，。])"
)
_LAST_JUAN_OF_ANNALS = 4  # of 魏志
_MAX_STEP_IN_LIVES = 5  # years
# 左傳 ends in 468 BCE, 哀公二十七年.
_LU_YEARS = (-721, -467)


def _read_lu_accessions() -> dict[str, int]:
  timeline = reigns.load_timeline("lu")
  return {reign.name: reign.accession for reign in timeline.reigns}


def read_numbered_annals(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns annals of Lu under headings 「隱公元年經」, 「隱公元年」."""
  accessions = _read_lu_accessions()
  entries, heads = era_lib.read_entries(path), []
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
  return era_lib.make_gold(name, "lu", entries, heads, table, gold.CLAUSE)


def read_annals_by_duke(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns annals of Lu, a file for each duke, years at the head of lines."""
  accessions = _read_lu_accessions()
  entries, all_heads = era_lib.read_entries(path), []
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
  return era_lib.make_gold(name, "lu", entries, all_heads, table, gold.CLAUSE)


def read_changbian(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 續資治通鑑長編: every juan opens with era, year and month.

  The first five files are tables of contents and memorials.
  """
  table, years = calendar_lib.read_dila_months(outside, ("北宋",))
  entries = era_lib.read_entries(path)
  first = next(
    row
    for row, entry in enumerate(entries)
    if entry.place.file == "KR2b0019_005.txt"
  )
  front, entries = entries[:first], entries[first:]
  heads = era_lib.read_era_openings(entries, years, era_lib.ERA_AND_MONTH, 5)
  return era_lib.make_gold(
    name, "宋", entries, heads, table, gold.OPENING, front
  )


def read_houhanji(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 後漢紀: every year opens a paragraph."""
  table, years = calendar_lib.read_dila_months(outside, ("西漢", "新", "東漢"))
  entries = [
    e for e in era_lib.read_entries(path) if "_000" not in e.place.file
  ]
  heads = era_lib.read_era_openings(entries, years, era_lib.ERA_OPENING, 3)
  return era_lib.make_gold(
    name,
    "西漢,新,更始,東漢",
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
    for entry in era_lib.read_entries(path)
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
  entries = [
    e for e in era_lib.read_entries(path) if "_000" not in e.place.file
  ]
  eras = sorted({era for era, _ in years if "（" not in era})
  pattern = re.compile(
    rf"(?P<era>{'|'.join(eras)})?(?<![一二三四五六七八九十元])"
    rf"(?P<year>{era_lib.NUMERAL})年(?={era_lib.SEASON_OR_MONTH.pattern})"
  )
  heads: list[YearHead] = []
  last, headings = era_lib.NO_HEAD, ()
  for record, entry in enumerate(entries):
    if entry.is_heading:
      continue
    # 紀 go on over paragraphs; of the other lives each is one.
    is_annals = int(entry.place.file[-7:-4]) <= _LAST_JUAN_OF_ANNALS
    if entry.headings != headings or not is_annals:
      last, headings = era_lib.NO_HEAD, entry.headings
    for opening in pattern.finditer(entry.text.translate(era_lib.SHAPES)):
      number = calendar_lib.parse_numeral(opening["year"])
      era = opening["era"] or ""
      if era:
        found = years.get((era, number), ())
        year = found[0] if len(found) == 1 else None
      else:
        # Of the era before, and not long after.
        step = number - last[1]
        is_next = last != era_lib.NO_HEAD and 0 <= step <= _MAX_STEP_IN_LIVES
        year = last[0] + step if is_next else None
      last = era_lib.NO_HEAD if year is None else (year, number)
      heads.append(YearHead(record, *opening.span(), year))
  records, counts = gold.date_records(
    entries, heads, table, gold.RUNNING, carries=False
  )
  return GoldText(name, "東漢,曹魏", records, counts)


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
  "tongjian_complete": (
    "complete",
    "",
    chronicle_tongjian.read_complete_tongjian,
  ),
  "tongjian": (
    "sources",
    "zizhitongjian_KR2b0007",
    chronicle_tongjian.read_tongjian,
  ),
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
