"""Entries of the annals and the three traditions, read from public editions.

Kanripo's files have mark-up, printed lines and small type; Wikisource has one
entry a line. An entry is a numbered item or a line, with what the edition says
of its reign and year.
"""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from ctd_jax.benchmark.benchmark import SPLITS
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax_datasets.common.source_files import SourceError

_CORRIGENDA = re.compile(r"^#\+PROPERTY: JUAN .*考證", re.MULTILINE)
_PAGE_BREAK = re.compile(r"<pb:[^<>]*>")
_SPACE = re.compile(r"[\s　¶]+")
# A character without a code: its number at Kanripo, its parts as in [車*犬], or
# a private code that means something else in every font.
_UNENCODED = re.compile(
  r"&KR\d+;|\[[^\[\]\n]*[*+@-][^\[\]\n]*\]"
  r"|[\ue000-\uf8ff\U000f0000-\U0010fffd]"
)
_MISSING_CHARACTER = "□"


def read_running_text(path: pathlib.Path) -> str:
  """Returns a juan as one string, small type joined inside `(...)`.

  The Siku editors' 考證 at the end of the juan is cut.
  """
  text = read_text(path)
  corrigenda = _CORRIGENDA.search(text)
  if corrigenda:
    text = text[: corrigenda.start()]
  lines = [line for _, line in parse_kanripo_lines(text)]
  # A note that runs over printed lines is bracketed in each of them; "/"
  # divides its two columns.
  return "".join(lines).replace(")(", "").replace("/", "")


def read_printed_lines(path: pathlib.Path) -> list[tuple[int, str]]:
  """Returns (depth, line) of a juan, small type as printed: `(right/left)`.

  Returns:
    Depth is the number of full-width spaces before the text. A line of
    nothing but spaces, an empty cell of a table, is kept as (depth, "").
  """
  lines = []
  for line in read_text(path).split("\n"):
    if line.startswith("#"):
      continue
    line = mark_unencoded(_PAGE_BREAK.sub("", line)).replace("¶", "")
    # Full-width spaces are the indentation of the print.
    depth = len(line) - len(line.lstrip("　"))
    if line:
      lines.append((depth, line.replace("　", "").strip()))
  return lines


def read_text(path: pathlib.Path) -> str:
  """Returns the file as text.

  Raises:
    SourceError: if it is not UTF-8.
  """
  try:
    return path.read_text(encoding="utf-8")
  except UnicodeDecodeError as error:
    raise SourceError(
      f"{path}: byte {error.start} is not UTF-8; fetch the file again"
    ) from None


def mark_unencoded(text: str) -> str:
  """Returns the text with one □ for each character that has no code."""
  return _UNENCODED.sub(_MISSING_CHARACTER, text)


def parse_kanripo_lines(text: str) -> list[tuple[int, str]]:
  """Returns (line number from 1, line) of a Kanripo file without its mark-up.

  Headers start with `#`, page breaks are `<pb:...>`, and printed lines end with
  `¶`. Empty lines are left out.
  """
  lines = []
  for number, line in enumerate(text.split("\n"), start=1):
    if line.startswith("#"):
      continue
    line = _SPACE.sub("", _PAGE_BREAK.sub("", line))
    line = mark_unencoded(line)
    if line:
      lines.append((number, line))
  return lines


ANNALS = "chunqiu"
ZUOZHUAN = "zuozhuan"
GONGYANG = "gongyang"
GULIANG = "guliang"
BASE_SOURCES = (ANNALS, ZUOZHUAN, GONGYANG, GULIANG)
# 《春秋》 of a question is the Annals with their traditions.
TITLES = {
  ANNALS: "春秋經",
  ZUOZHUAN: "左傳",
  GONGYANG: "公羊傳",
  GULIANG: "穀梁傳",
}


# A1.2.3 (annals) and B1.2.3 (tradition) of KR1e0001; 1.2.3 of KR1e0008.
_NUMBERED = re.compile(r"「?([AB]?)(\d{1,3})\.(\d{1,3})\.(\d+)\.?")
_YEAR_HEADING = re.compile(r"〔?([AB]?)(\d+)\.(\d+)《.*》")
_UNDATED = re.compile(r"[AB]\d+[^.\d]")
_NAVIGATION = "回目錄"  # link to the table of contents
_DASH = re.compile("[-－]{2,}")
# Editors' corrections, labels and marks, and wiki marks left in the text. Words
# in brackets are restored and stay; a lone sign there is the reading replaced.
_STRAY = re.compile(
  r"\(corr\.=.|（[經傳][^）]*）|（[^一-鿿）]*）|[A-Za-z0-9=]+|〓#|[-－〔〕（）]"
)


@dataclasses.dataclass(frozen=True)
class Entry:
  """One entry of an edition: a numbered item or a line."""

  source: str  # one of `BASE_SOURCES`
  reign: int  # of the duke, 1 = 隱公
  # Regnal year by the edition's numbering; None if only the text gives it.
  year: int | None
  text: str  # punctuated, without line ends and mark-up
  location: str  # `file:line` of its first line, for messages


def parse_numbered_entries(
  path: pathlib.Path, source_by_layer: dict[str, str]
) -> tuple[list[Entry], int]:
  """Returns the entries of a Kanripo TLS file and the number without a year.

  The file holds one duke, in KR1e0001 or KR1e0008. `source_by_layer` is the
  source of each layer letter: {"A": ..., "B": ...} or {"": ...}. 隱公's prelude
  is the only undated item of these editions, and is left out.

  Raises:
    SourceError: if there is no numbered item, or a reign or year 0.
  """
  entries: list[Entry] = []
  num_undated = 0
  current: Entry | None = None
  text_lines: list[str] = []

  def close_entry():
    if current is not None:
      entries.append(dataclasses.replace(current, text=_clean_text(text_lines)))

  for number, line in parse_kanripo_lines(read_text(path)):
    item = _NUMBERED.match(line)
    if item and item[1] in source_by_layer:
      close_entry()
      if not int(item[2]) or not int(item[3]):
        raise SourceError(
          f"{path}, line {number}: item {item[0]} has a number 0; reigns "
          "and years count from 1"
        )
      current = Entry(
        source=source_by_layer[item[1]],
        reign=int(item[2]),
        year=int(item[3]),
        text="",
        location=f"{path.name}:{number}",
      )
      text_lines = [line[item.end() :]]
    elif _YEAR_HEADING.match(line) or line.startswith("**"):
      close_entry()
      current, text_lines = None, []
    elif _UNDATED.match(line):
      # An item without year and month: counted, but a heading is not.
      close_entry()
      current, text_lines = None, []
      num_undated += line[0] == "B" and "《" not in line[:3]
    else:
      text_lines.append(line)
  close_entry()
  entries = [entry for entry in entries if entry.text]
  if not entries:
    raise SourceError(
      f"{path}: no numbered item such as A1.1.1 or 1.1.1 with a text; expected "
      "a Kanripo TLS text"
    )
  return entries, num_undated


def parse_line_entries(path: pathlib.Path, source: str) -> list[Entry]:
  """Returns the entries of a Wikisource file: one line, one entry.

  A new year shows only in the text (`N年` at the start of a line), so `year`
  is None. The first and last lines are navigation.
  """
  reign_number = re.match(r"(\d\d)_", path.name)
  if reign_number is None:
    raise SourceError(f"{path}: the name must start with the reign, as 01_")
  entries = []
  for line_number, line in enumerate(read_text(path).split("\n"), start=1):
    line = _clean_text([mark_unencoded(_SPACE.sub("", line))])
    if not line or _NAVIGATION in line:
      continue
    entries.append(
      Entry(
        source=source,
        reign=int(reign_number[1]),
        year=None,
        text=line,
        location=f"{path.name}:{line_number}",
      )
    )
  if not entries:
    raise SourceError(f"{path}: no entry; expected one event a line")
  return entries


def _clean_text(text_lines: list[str]) -> str:
  """Returns an entry's text without corrections, labels and marks."""
  return _STRAY.sub("", _DASH.sub("——", "".join(text_lines)))


# Official division of the 3,036 months. Records and queries inherit the split
# of their month: results compare with published ones only under this division.
# Source: `time_splits_by_month_v1.json` of the public ChunQiuTR release
# (specification 1.3). Validation and test are one block of years in each reign,
# the rest is train; 閔公, with two years, is divided by month.


TRAIN, VALIDATION, TEST = SPLITS
# Names of the splits in the released file.
RELEASED_SPLIT_NAMES = {"train": TRAIN, "val": VALIDATION, "test": TEST}

# Reign -> (first year, last year) of the held-out block, both included.
_VALIDATION_YEARS = {
  1: (11, 11),
  2: (1, 2),
  3: (12, 14),
  5: (10, 12),
  6: (5, 6),
  7: (3, 4),
  8: (14, 15),
  9: (5, 7),
  10: (28, 30),
  11: (12, 12),
  12: (3, 4),
}
_TEST_YEARS = {
  1: (2, 2),
  2: (9, 10),
  3: (4, 6),
  5: (28, 30),
  6: (1, 2),
  7: (10, 11),
  8: (6, 7),
  9: (11, 13),
  10: (15, 17),
  11: (7, 8),
  12: (6, 8),
}
# 閔公 2: months 1-7 are validation, 8-12 test.
_DUKE_MIN, _DUKE_MIN_YEAR, _DUKE_MIN_LAST_VALIDATION = 4, 2, 7


# Months of each split in the release.
OFFICIAL_SIZES = {TRAIN: 2424, VALIDATION: 295, TEST: 317}


def official_split(key: TimeKey) -> str:
  """Returns the split of a month of the released map (timeline lu_release)."""
  if (key.reign, key.year) == (_DUKE_MIN, _DUKE_MIN_YEAR):
    return VALIDATION if key.month <= _DUKE_MIN_LAST_VALIDATION else TEST
  for split, blocks in ((VALIDATION, _VALIDATION_YEARS), (TEST, _TEST_YEARS)):
    if key.reign in blocks:
      first, last = blocks[key.reign]
      if first <= key.year <= last:
        return split
  return TRAIN


def official_splits(timeline: Timeline) -> dict[TimeKey, str]:
  """Returns the split of every month of `timeline`, in order of time.

  Raises:
    ValueError: if the sizes are not those of the release, which means that
      `timeline` is not the released map.
  """
  split_of = {key: official_split(key) for key in timeline.months}
  sizes = dict(collections.Counter(split_of.values()))
  if sizes != OFFICIAL_SIZES:
    raise ValueError(
      f"timeline {timeline.name!r} divides into {sizes}, the released map "
      f"into {OFFICIAL_SIZES}; use the timeline lu_release"
    )
  return split_of


def block_splits(timeline: Timeline) -> dict[TimeKey, str]:
  """Returns a division of any timeline in the manner of the official one.

  In each reign one year in the middle of the first half is validation and one
  in the middle of the second half test, two years each in reigns of 20 years or
  more; reigns under four years are train.
  """
  split_of = {}
  for key in timeline.months:
    years = timeline.reigns[key.reign - 1].years
    length = 2 if years >= 20 else 1  # years of a block
    validation_start = years // 4 + 1
    test_start = 3 * years // 4 + 1
    split_of[key] = TRAIN
    if years >= 4:
      if validation_start <= key.year < validation_start + length:
        split_of[key] = VALIDATION
      elif test_start <= key.year < test_start + length:
        split_of[key] = TEST
  return split_of


def format_split_map(split_of: Mapping[TimeKey, str]) -> dict[str, Any]:
  """Returns a division in the schema of the released file, ready for JSON."""
  names = {split: name for name, split in RELEASED_SPLIT_NAMES.items()}
  by_reign = collections.defaultdict(dict)
  for key, split in split_of.items():
    by_reign[key.reign][key] = names[split]
  return {
    "split_by_sort_key": {
      str(key): names[split] for key, split in split_of.items()
    },
    "debug_info": {
      str(reign): _format_debug_info(reign_names)
      for reign, reign_names in by_reign.items()
    },
  }


def _format_debug_info(reign_names: Mapping[TimeKey, str]) -> dict[str, Any]:
  """Returns the split of each key of a reign, by its released name."""
  by_year = collections.defaultdict(set)
  for key, name in reign_names.items():
    by_year[key.year].add(name)
  is_by_year = all(len(year_names) == 1 for year_names in by_year.values())
  info: dict[str, Any] = {
    "mode": "year" if is_by_year else "month",
    "years": list(by_year),
  }
  if is_by_year:
    info["split_years"] = {
      str(year): min(year_names) for year, year_names in by_year.items()
    }
  counts = collections.Counter(reign_names.values())
  info["month_counts"] = {name: counts[name] for name in RELEASED_SPLIT_NAMES}
  return info
