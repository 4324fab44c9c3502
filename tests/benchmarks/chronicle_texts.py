"""Layouts of the chronicles: where each edition prints its years.

Every reader takes the folder of a text and that of texts and calendars from
outside, and returns the records with their dates; months and days are read by
`chronicle_gold` alike in all of them. A year that is printed without its era,
or under a misprinted one, is known by the years before it.
"""

import itertools
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

from ctd_jax import texts
from ctd_jax.chronology import reigns
from ctd_jax.texts.works import HEADING, TEXT, Entry
from tests.benchmarks import chronicle_gold as gold
from tests.benchmarks.chronicle_gold import (
  EraYears,
  GoldText,
  Month,
  MonthTable,
  YearHead,
  parse_numeral,
  read_dila_months,
)

_NUMERAL = r"(?:元|[一二三四五六七八九十廿卅有又]+)"
ERA_OPENING = re.compile(rf"(?P<era>\w{{0,4}}?)(?P<year>{_NUMERAL})[年載]")
_SEASON_OR_MONTH = re.compile(rf"[春夏秋冬閏]|{_NUMERAL}月|正月")
_ERA_AND_MONTH = re.compile(
  rf"{ERA_OPENING.pattern}(?={_SEASON_OR_MONTH.pattern})"
)
# A year that begins with its first season, 「二載春正月」.
_NEXT_YEAR = re.compile(
  r"(?<![元一二三四五六七八九十廿卅有又])(?P<year>[二三四五六七八九十有又]+)[年載](?=春(?:正|二|三)月)"
)
# Shapes that the printers use for the characters of eras.
_SHAPES = str.maketrans("寳厯歴熈寜寕徳𥘉黄嵗", "寶曆曆熙寧寧德初黃歲")
NO_HEAD = (0, 0)
_MAX_NAMED_STEP = 30  # years that may be missing before a named era, and one
_LU_HEADING = re.compile(rf"(?P<duke>.公)(?P<year>{_NUMERAL})年[經傳]?$")
_YEAR_OPENING = re.compile(rf"(?P<layer>[經傳])?(?P<year>{_NUMERAL})年")
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
_MAX_STEP_IN_LIVES = 5  # years
# 左傳 ends in 468 BCE, 哀公二十七年.
_LU_YEARS = (-721, -467)
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
  "秦,西漢,新,更始,東漢,曹魏,晉,劉宋,南齊,南梁,陳,隋,唐,武周,"
  "後梁,後唐,後晉,後漢,後周"
)
_YEAR_BEFORE_HAN = (-206, 3)  # 207 BCE, 秦二世三年


def read_entries(path: pathlib.Path) -> list[Entry]:
  """Returns texts and headings of the one work of a folder.

  Raises:
    ValueError: if there is not one work.
  """
  works = texts.read_works(path)
  if len(works) != 1:
    raise ValueError(f"{path}: {len(works)} works; expected one")
  return [entry for entry in works[0].entries if entry.kind in (TEXT, HEADING)]


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
    return min(
      (
        year
        for (era, other), found in years.items()
        if other == number and _fold_name(era) == _fold_name(name)
        for year in found
        if last == NO_HEAD or 0 <= year - last_year <= _MAX_NAMED_STEP
      ),
      default=None,
    )
  if (len(name) not in (0, 2) and name not in "前中後") or last == NO_HEAD:
    return None
  if number == last_number:
    return None if name else last_year
  return min(
    (y for y in _list_years(number, years) if 0 < y - last_year <= max_step),
    default=None,
  )


def _find_next_years(
  entry: Entry, last: tuple[int, int], years: EraYears
) -> list[tuple[int, int, int, int]]:
  """Returns (start, stop, year, number) of years that go on inside a record."""
  found = []
  for match in _NEXT_YEAR.finditer(entry.text):
    number = parse_numeral(match["year"])
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
  max_step: int = 5,
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
    name = opening["era"].translate(_SHAPES)
    number = parse_numeral(opening["year"])
    if (
      name
      and not _is_era(name, years)
      and not _SEASON_OR_MONTH.match(entry.text[opening.end() :])
    ):
      continue  # 「吳比三年大疫」
    year = _resolve_year(name, number, last, years, max_step)
    if year is not None:
      last = year, number
    heads.append(YearHead(record, 0, opening.end(), year))
  return heads


def _read_lu_year(match: re.Match[str], duke: str) -> int:
  """Returns the astronomical year of a duke's year."""
  timeline = reigns.load_timeline("lu")
  accession = {reign.name: reign.accession for reign in timeline.reigns}[duke]
  return accession - 1 + parse_numeral(match["year"])


def _date_lu(entries: Sequence[Entry], heads: Sequence[YearHead]) -> GoldText:
  # Their calendar is not known: no first days, and so no days.
  table = MonthTable(
    (Month(year, number), 0)
    for year in range(_LU_YEARS[0], _LU_YEARS[1] + 1)
    for number in range(1, 13)
  )
  return GoldText("lu", gold.date_records(entries, heads, table, gold.CLAUSE))


def read_numbered_annals(path: pathlib.Path, outside: pathlib.Path) -> GoldText:
  """Returns annals of Lu under headings 「隱公元年經」, 「隱公元年」."""
  entries, heads = read_entries(path), []
  year = None
  for record, entry in enumerate(entries):
    if entry.is_heading:
      if heading := _LU_HEADING.match(entry.text):
        duke = heading["duke"]
        year = _read_lu_year(heading, duke)
        heads.append(YearHead(record, 0, heading.end(), year))
    elif (
      year is not None
      and (opening := _YEAR_OPENING.match(entry.text))
      # The item prints the year of the heading once more.
      and _read_lu_year(opening, duke) == year
    ):
      heads.append(YearHead(record, 0, opening.end(), year))
  return _date_lu(entries, heads)


def read_annals_by_duke(path: pathlib.Path, outside: pathlib.Path) -> GoldText:
  """Returns annals of Lu, a file for each duke, years at the head of lines.

  A year that is neither the last nor the next is not known.
  """
  entries, heads = read_entries(path), []
  last: dict[str, int] = {}
  for record, entry in enumerate(entries):
    if opening := _YEAR_OPENING.match(entry.text):
      duke = pathlib.PurePath(entry.place.file).stem.split("_")[1]
      year = _read_lu_year(opening, duke)
      if 0 <= year - last.get(duke, year) <= 1:
        last[duke] = year
      else:
        year = None
      heads.append(YearHead(record, 0, opening.end(), year))
  return _date_lu(entries, heads)


def read_changbian(path: pathlib.Path, outside: pathlib.Path) -> GoldText:
  """Returns 續資治通鑑長編: every juan opens with era, year and month.

  The first five files are tables of contents and memorials.
  """
  table, years = read_dila_months(outside, ("北宋",))
  entries = list(
    itertools.dropwhile(
      lambda entry: entry.place.file != "KR2b0019_005.txt", read_entries(path)
    )
  )
  heads = read_era_openings(entries, years, _ERA_AND_MONTH)
  return GoldText("宋", gold.date_records(entries, heads, table, gold.OPENING))


def read_xinian(path: pathlib.Path, outside: pathlib.Path) -> GoldText:
  """Returns 建炎以來繫年要錄: every juan opens with era, year and month."""
  table, years = read_dila_months(outside, ("北宋", "南宋"))
  entries = [e for e in read_entries(path) if "_000" not in e.place.file]
  heads = read_era_openings(entries, years, _ERA_AND_MONTH)
  return GoldText("宋", gold.date_records(entries, heads, table, gold.OPENING))


def read_houhanji(path: pathlib.Path, outside: pathlib.Path) -> GoldText:
  """Returns 後漢紀: every year opens a paragraph."""
  table, years = read_dila_months(outside, ("西漢", "新", "東漢"))
  entries = [e for e in read_entries(path) if "_000" not in e.place.file]
  heads = read_era_openings(entries, years, ERA_OPENING, max_step=3)
  return GoldText(
    "西漢,新,更始,東漢",
    gold.date_records(entries, heads, table, gold.RUNNING, is_continuous=True),
  )


def read_shiji(path: pathlib.Path, outside: pathlib.Path) -> GoldText:
  """Returns 史記, the annals from 秦始皇 to 景帝: years open clauses.

  Months before 221 BCE are not in the table, so that only the year counts.
  """
  table, years = read_dila_months(outside, ("秦", "西漢"))
  entries = [
    entry
    for entry in read_entries(path)
    if entry.text in _SHIJI_COUNTS
    or (entry.headings and entry.headings[-1] in _SHIJI_COUNTS)
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
        printed, year = opening["reign"] or "", None
        if printed in counts:
          next_count = counts[printed] if printed else count
          number = parse_numeral(opening["year"])
          if not printed and number == 1 and last_year is not None:
            next_count = counts.get("next", count)
          # 元年 of each count: from the first year that the table has of it.
          known = min(n for era, n in years if era == next_count)
          year = years[next_count, known][0] + number - known
          if last_year is None or 0 <= year - last_year <= 5:
            count, last_year = next_count, year
          else:
            year = None
        heads.append(YearHead(record, *opening.span("date"), year))
  return GoldText(
    "秦,西漢", gold.date_records(entries, heads, table, gold.CLAUSE)
  )


def read_sanguozhi(path: pathlib.Path, outside: pathlib.Path) -> GoldText:
  """Returns 三國志, 魏志: in every life years after an era that it names."""
  table, years = read_dila_months(outside, ("東漢", "曹魏"))
  entries = [e for e in read_entries(path) if "_000" not in e.place.file]
  eras = sorted({era for era, _ in years if "（" not in era})
  pattern = re.compile(
    rf"(?P<era>{'|'.join(eras)})?(?<![一二三四五六七八九十元])"
    rf"(?P<year>{_NUMERAL})年(?={_SEASON_OR_MONTH.pattern})"
  )
  heads: list[YearHead] = []
  last, headings = NO_HEAD, ()
  for record, entry in enumerate(entries):
    if entry.is_heading:
      continue
    # 紀 go on over paragraphs; of the other lives each is one.
    is_annals = int(entry.place.file[-7:-4]) <= _LAST_JUAN_OF_ANNALS
    if entry.headings != headings or not is_annals:
      last, headings = NO_HEAD, entry.headings
    for opening in pattern.finditer(entry.text.translate(_SHAPES)):
      number = parse_numeral(opening["year"])
      if opening["era"]:
        found = years.get((opening["era"], number), ())
        year = found[0] if len(found) == 1 else None
      else:
        # Of the era before, and not long after.
        step = number - last[1]
        is_next = last != NO_HEAD and 0 <= step <= _MAX_STEP_IN_LIVES
        year = last[0] + step if is_next else None
      last = NO_HEAD if year is None else (year, number)
      heads.append(YearHead(record, *opening.span(), year))
  return GoldText(
    "東漢,曹魏", gold.date_records(entries, heads, table, gold.RUNNING)
  )


def read_tongjian(path: pathlib.Path, outside: pathlib.Path) -> GoldText:
  """Returns 資治通鑑: years open paragraphs, two editions have the months."""
  other = path.parent / "zizhitongjian_wikisource"
  if not other.exists():
    raise FileNotFoundError(f"--sources: {other} is missing")
  other_months: dict[int, list[tuple[int, bool]]] = {}
  for entry in read_entries(other):
    other_months.setdefault(gold.read_juan(entry), []).extend(
      gold.list_months(entry.text)
    )
  calendar = read_dila_months(outside, ("曹魏", "西晉", "東晉", "劉宋", "南齊"))
  return GoldText(
    "曹魏,晉,劉宋,南齊",  # juan 69-144
    _collate_tongjian(read_entries(path), other_months, calendar),
  )


def read_complete_tongjian(
  path: pathlib.Path, outside: pathlib.Path
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
    juan = _JUAN_BEFORE[part] + (parse_numeral(number) or 1)
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
  calendar = read_dila_months(outside, _COMPLETE_DYNASTIES)
  return GoldText(
    _COMPLETE_REIGNS,
    _collate_tongjian(entries, other_months, calendar, _YEAR_BEFORE_HAN),
  )


def _collate_tongjian(
  entries: Sequence[Entry],
  other_months: Mapping[int, Sequence[tuple[int, bool]]],
  calendar: tuple[MonthTable, EraYears],
  before: tuple[int, int] = NO_HEAD,
) -> tuple[gold.GoldRecord, ...]:
  """Returns an edition of 資治通鑑 with the months that another has too."""
  table, years = calendar
  heads = read_era_openings(
    entries, years, ERA_OPENING, before=before, in_records=True
  )
  records = gold.date_records(
    entries, heads, table, gold.RUNNING, is_continuous=True
  )
  return gold.confirm_months(records, other_months)


# Name -> (folder of sources or of outside, path there, reader).
TEXTS: Mapping[
  str, tuple[str, str, Callable[[pathlib.Path, pathlib.Path], GoldText]]
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
  "xinian": ("complete", "KR2b0024", read_xinian),
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
    raise ValueError(f"no text {name!r}; there are {', '.join(TEXTS)}")
  kind, folder, reader = TEXTS[name]
  root = folders[kind]
  if root is None or not (root / folder).exists():
    raise FileNotFoundError(
      f"--{kind}: {name} needs {folder or 'a folder'}"
      + (f"; there is none in {root}" if root else "")
    )
  return reader(root / folder, folders["outside"])
