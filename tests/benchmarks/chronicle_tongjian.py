"""資治通鑑: paragraphs that years open, months that two editions have."""

import itertools
import pathlib

from tests.benchmarks import chronicle_calendar as calendar_lib
from tests.benchmarks import chronicle_eras as era_lib
from tests.benchmarks import chronicle_gold as gold
from tests.benchmarks.chronicle_gold import GoldText

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
  "秦,西漢,新,更始,東漢,曹魏,晉,劉宋,南齊,南梁,陳,隋,唐,武周,"
  "後梁,後唐,後晉,後漢,後周"
)
_YEAR_BEFORE_HAN = (-206, 3)  # 207 BCE, 秦二世三年


def read_tongjian(
  name: str, path: pathlib.Path, outside: pathlib.Path
) -> GoldText:
  """Returns 資治通鑑: years open paragraphs, two editions have the months."""
  other = path.parent / _OTHER_TONGJIAN
  if not other.exists():
    raise FileNotFoundError(f"--sources: {other} is missing")
  other_months: dict[int, list[tuple[int, bool]]] = {}
  for entry in era_lib.read_entries(other):
    other_months.setdefault(gold.read_juan(entry), []).extend(
      gold.list_months(entry.text)
    )
  return _collate_tongjian(
    name,
    era_lib.read_entries(path),
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
    for entry in era_lib.read_entries(path / "KR2b0007")
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
  name, entries, other_months, calendar, reigns, before=era_lib.NO_HEAD
) -> GoldText:
  """Returns an edition of 資治通鑑 with the months that another has too."""
  table, years = calendar
  heads = era_lib.read_era_openings(
    entries, years, era_lib.ERA_OPENING, 5, before, in_records=True
  )
  records, counts = gold.date_records(
    entries, heads, table, gold.RUNNING, is_continuous=True
  )
  confirmed, num_unconfirmed = gold.confirm_months(records, other_months)
  counts["months that the other edition lacks"] = num_unconfirmed
  counts["months taken"] -= num_unconfirmed
  return GoldText(name, reigns, confirmed, counts)
