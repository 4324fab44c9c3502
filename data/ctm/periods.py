"""The ten periods of CTM: years, fact tables, and names of periods in text.

Tasks, kinds of entities and other words of the data set are here, too, as all
modules need them. Years are written without a year 0; where two periods
overlap, the later one wins.

Source: CTM paper, table of periods; finer names are those of
`facts/regimes.tsv`.
"""

import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ctd_jax.chronology import reigns
from ctd_jax.utils import files

# Kinds of entities; the fact tables are read in this order.
FIGURE, RULER, ERA, PLACE = "figure", "ruler", "era", "place"
EVENT, INGREDIENT, HERITAGE = "event", "ingredient", "heritage"
KINDS = (FIGURE, RULER, ERA, PLACE, EVENT, INGREDIENT, HERITAGE)

# Task codes and the type names of the paper. EDD has one name for each kind.
EDD, PJ, TOU, RR, SEC, EEU, TIC, TES, LSEC = TASKS = (
  "EDD",
  "PJ",
  "TOU",
  "RR",
  "SEC",
  "EEU",
  "TIC",
  "TES",
  "LSEC",
)
TYPE_NAMES = {
  PJ: "合理性判断",
  TOU: "时间顺序理解",
  RR: "关系判断",
  SEC: "穿帮镜头指正",
  EEU: "实体名称变迁",
  TIC: "时间差计算",
  TES: "选出对应时空实体",
  LSEC: "剧本穿帮问题指正_长上下文",
}
EDD_TYPE_NAMES = {
  FIGURE: "根据人物确定所处朝代",
  RULER: "根据君主确定所处朝代",
  ERA: "根据年号确定所处朝代",
  PLACE: "根据地名确定使用朝代",
  EVENT: "根据事件确定发生朝代",
  INGREDIENT: "根据食材确定传入朝代",
  HERITAGE: "根据非遗确定起源朝代",
}
SPLITS = ("train", "validation", "test")

# Precision of a year, and the error in years that it allows.
EXACT, APPROXIMATE = "year", "about"
TOLERANCE = {EXACT: 0, APPROXIMATE: 10}
# The year of a relation that a question is about.
START, END = "start", "end"
# Reasons of an anachronism: it began after the scene, or ended before it.
LATER, EARLIER = "later", "earlier"


@dataclasses.dataclass(frozen=True)
class Period:
  """One of the ten periods."""

  index: int  # 0 (earliest) to 9
  label: str  # name in Simplified script
  start: int
  end: int  # year in which the period ended, also the first year of the next
  traditional: str  # name in Traditional script


PERIODS = tuple(
  Period(index, *row)
  for index, row in enumerate(
    (
      ("先秦", -2100, -206, "先秦"),
      ("汉", -206, 220, "漢"),
      ("六朝", 220, 589, "六朝"),
      ("隋", 581, 618, "隋"),
      ("唐", 618, 907, "唐"),
      ("五代", 907, 960, "五代"),
      ("宋", 960, 1279, "宋"),
      ("元", 1279, 1368, "元"),
      ("明", 1368, 1644, "明"),
      ("清", 1644, 1912, "清"),
    )
  )
)
LABELS = tuple(period.label for period in PERIODS)
_BY_LABEL = {period.label: period for period in PERIODS}
FIRST_YEAR, LAST_YEAR = PERIODS[0].start, PERIODS[-1].end


def get_period(label: str) -> Period:
  """Returns the period of a label.

  Raises:
    ValueError: if there is no such label; the message lists all.
  """
  if label not in _BY_LABEL:
    raise ValueError(f"no period {label!r}; there are {'、'.join(LABELS)}")
  return _BY_LABEL[label]


def _to_astronomical(year: int) -> int:
  """Returns the astronomical year (1 BCE is 0), whose differences are true."""
  if year == 0:
    raise ValueError("year 0: there is none; 1 BCE is -1 and 1 CE is 1")
  return year if year > 0 else year + 1


def find_period(year: int) -> Period | None:
  """Returns the period of a year, None outside -2100..1912.

  Raises:
    ValueError: for year 0.
  """
  _to_astronomical(year)
  # From the latest: where two periods overlap the later one wins.
  return next(
    (
      candidate
      for candidate in reversed(PERIODS)
      if candidate.start <= year < candidate.end or year == LAST_YEAR
    ),
    None,
  )


def list_acceptable_labels(year: int) -> tuple[str, ...]:
  """Returns the labels of all periods with a year, earliest first.

  Unlike `find_period`, both ends of a period count; there is no year 0.
  """
  _to_astronomical(year)  # raises if there is no such year
  return tuple(p.label for p in PERIODS if p.start <= year <= p.end)


def list_span_labels(start: int, end: int) -> tuple[str, ...]:
  """Returns the labels of all years from `start` to `end`, earliest first.

  Raises:
    ValueError: for year 0 or an end before the start.
  """
  if _to_astronomical(end) < _to_astronomical(start):
    raise ValueError(f"{start}..{end}: the end lies before the start")
  # A period is touched at an end of the span, or it begins inside.
  firsts = [p.start for p in PERIODS if start <= p.start <= end]
  touched = map(find_period, (start, end, *firsts))
  return sort_labels(period.label for period in touched if period)


def count_periods_between(first: str, second: str) -> int:
  """Returns the distance of two labels in periods: 0 same, 1 adjacent."""
  return abs(get_period(first).index - get_period(second).index)


def count_years_between(first: int, second: int) -> tuple[int, int]:
  """Returns the years from one to the other: true, and with a year 0.

  The paper adds the numbers of BCE and CE years, i.e. counts a year 0: from
  -278 to 701 there are 978 years, 979 by that convention.
  """
  true_years = abs(_to_astronomical(second) - _to_astronomical(first))
  return true_years, abs(second - first)


def sum_years_along(years: Sequence[int]) -> tuple[int, int]:
  """Returns `count_years_between`, summed over the steps of a chain."""
  steps = [count_years_between(a, b) for a, b in itertools.pairwise(years)]
  return sum(true_years for true_years, _ in steps), sum(
    naive_years for _, naive_years in steps
  )


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
  """Returns labels without repetition, earliest first."""
  label_set = set(labels)
  return tuple(label for label in LABELS if label in label_set)


SOURCE_COLUMN = "source"
CHECKED_COLUMN = "checked"  # where the row was looked up
VALUE_SEPARATOR = "|"  # between several values of one cell
ITEM_SEPARATOR = "; "  # between sources, and between items of `checked`

# Items of `checked` that are not a place: years that none of the places gives,
# and years that one of them gives otherwise.
YEARS_NOT_GIVEN = "no years"
NOT_GIVEN = (
  "no birth year",
  "no death year",
  "no start year",
  "no end year",
  YEARS_NOT_GIVEN,
)
DIFFERS = "differs: "


def table_path(name: str) -> pathlib.Path:
  """Returns the path of a fact table, installed or in the checkout."""
  return reigns.reign_table_dir().parent / "ctm" / "facts" / f"{name}.tsv"


def read_table(
  path: pathlib.Path,
  columns: Sequence[str],
  integers: Collection[str] = (),
  optional: Collection[str] = (),
) -> list[dict[str, str]]:
  """Returns the rows of a TSV file, each as column -> cell.

  A column `checked` is compared with `source`. Cells of `integers` must be
  integers, but stay text.
  """
  rows = files.read_tsv_rows(path, columns)
  for line_number, row in enumerate(rows, start=2):
    _check_row(f"{path}, line {line_number}", row, integers, optional)
  return rows


def _check_row(
  location: str,
  row: Mapping[str, str],
  integers: Collection[str],
  optional: Collection[str],
) -> None:
  """Checks the cells of a row; an error names location and column."""
  for column, cell in row.items():
    if not cell:
      if column not in optional:
        raise ValueError(f"{location}: column {column!r} is empty")
    # Years BCE are negative.
    elif column in integers and not cell.removeprefix("-").isdecimal():
      raise ValueError(
        f"{location}: column {column!r} is {cell!r}, should be an integer"
      )
  if CHECKED_COLUMN in row:
    _check_places(location, row)


def _check_places(location: str, row: Mapping[str, str]) -> None:
  """Checks that the sources of a row are those that were looked up in."""
  checked = split_checked(row)
  for place in checked.places:
    if not all(place.partition(" ")):
      raise ValueError(
        f"{location}: column {CHECKED_COLUMN!r} has {place!r}, should be a "
        "source and the place in it, as '史記 卷62'"
      )
  # A source may explain itself after a space.
  sources = {
    source.split(" ")[0] for source in row[SOURCE_COLUMN].split(ITEM_SEPARATOR)
  }
  looked_up = {place.split(" ")[0] for place in checked.places}
  if odd_sources := sorted(sources ^ looked_up):
    raise ValueError(
      f"{location}: {', '.join(odd_sources)} should be in both "
      f"{SOURCE_COLUMN!r} and {CHECKED_COLUMN!r}, or in neither"
    )
  if checked.not_given and row.get("precision", APPROXIMATE) != APPROXIMATE:
    raise ValueError(
      f"{location}: column {CHECKED_COLUMN!r} has {checked.not_given[0]!r}, "
      f"hence 'precision' should be {APPROXIMATE!r}"
    )


class CheckedRow(NamedTuple):
  """Items of the cell `checked`."""

  places: tuple[str, ...]  # a source and the place in it, each
  not_given: tuple[str, ...]  # years that none of the places gives
  # Years that a source gives otherwise, each with the source.
  differing: tuple[str, ...]


def split_checked(row: Mapping[str, str]) -> CheckedRow:
  """Returns the items of the cell `checked` of a row."""
  items = row[CHECKED_COLUMN].split(ITEM_SEPARATOR)
  return CheckedRow(
    tuple(
      item
      for item in items
      if item not in NOT_GIVEN and not item.startswith(DIFFERS)
    ),
    tuple(item for item in items if item in NOT_GIVEN),
    tuple(
      item.removeprefix(DIFFERS) for item in items if item.startswith(DIFFERS)
    ),
  )


def split_values(cell: str) -> tuple[str, ...]:
  """Returns the values of a cell, () for an empty one."""
  return tuple(value for value in cell.split(VALUE_SEPARATOR) if value)


REGIME_COLUMNS = (
  "name",
  "aliases",
  "start",
  "end",
  "label",
  "flagged",
  "source",
  "checked",
)
# Source of a name whose span is that of other names: 魏晋 of 魏 and 晋.
OTHER_NAMES = "names"


@dataclasses.dataclass(frozen=True)
class PeriodAlias:
  """Name for a span of years: one of the ten periods, or a finer one."""

  name: str  # the first of the spellings
  spellings: tuple[str, ...]  # in both scripts, the name included
  start: int  # first year; homonyms (后汉) are several aliases
  end: int
  # The one period that contains the span, or all that it touches (隋唐); empty
  # outside the timeline (民国).
  labels: tuple[str, ...]
  # Whether the label is a convention, because the regime ruled beside the
  # period.
  is_convention: bool
  is_label: bool = False  # whether it is one of the ten


def _list_containing_labels(start: int, end: int) -> tuple[str, ...]:
  """Returns the period that contains a span, else all that it touches."""
  if start >= LAST_YEAR:
    return ()
  labels = [p.label for p in PERIODS if p.start <= start and end <= p.end]
  # end - 1: 隋唐 (581..907) ends as 五代 begins, and does not touch it.
  return (labels[-1],) if labels else list_span_labels(start, end - 1)


def read_rows() -> list[dict[str, str]]:
  """Returns the rows of `regimes.tsv`, each as column -> cell."""
  return read_table(
    table_path("regimes"),
    REGIME_COLUMNS,
    integers=("start", "end", "flagged"),
    optional=("aliases", "label"),
  )


@functools.cache
def load_aliases() -> tuple[PeriodAlias, ...]:
  """Returns all names: the ten labels, then those of `regimes.tsv`."""
  aliases = [
    PeriodAlias(
      p.label,
      tuple(dict.fromkeys((p.label, p.traditional))),
      p.start,
      p.end,
      (p.label,),
      is_convention=False,
      is_label=True,
    )
    for p in PERIODS
  ]
  for row in read_rows():
    start, end = int(row["start"]), int(row["end"])
    labels = split_values(row["label"])
    aliases.append(
      PeriodAlias(
        row["name"],
        (row["name"], *split_values(row["aliases"])),
        start,
        end,
        tuple(get_period(label).label for label in labels)
        or _list_containing_labels(start, end),
        is_convention=row["flagged"] == "1",
      )
    )
  return tuple(aliases)


@functools.cache
def _index_by_spelling() -> dict[str, tuple[PeriodAlias, ...]]:
  """Returns spelling -> aliases, several for a homonym (后汉)."""
  table: dict[str, tuple[PeriodAlias, ...]] = {}
  for alias in load_aliases():
    for spelling in alias.spellings:
      table[spelling] = (*table.get(spelling, ()), alias)
  return table


def find_aliases(name: str) -> tuple[PeriodAlias, ...]:
  """Returns the aliases of a dynasty word: none, one, or homonyms.

  Args:
    name: name in either script, with or without 朝, 代, 时期 and the like.
  """
  table = _index_by_spelling()
  return table.get(name) or table.get(_SUFFIX_PATTERN.sub("", name), ())


@dataclasses.dataclass(frozen=True)
class PeriodMention:
  """Dynasty word in a text."""

  start: int  # position of the first character
  end: int  # position after the last character
  text: str  # as written, with its suffix (「唐代」)
  aliases: tuple[PeriodAlias, ...]  # possible meanings, several for homonyms

  @property
  def labels(self) -> tuple[str, ...]:
    """Labels of all meanings, earliest first."""
    return sort_labels(
      label for alias in self.aliases for label in alias.labels
    )


# A suffix makes it certain that the word before it names a dynasty.
_SUFFIX_WORDS = (
  "时期|時期|时代|時代|王朝|年间|年間|初年|末年|初期|中期|晚期|后期|後期|中叶|"
  "中葉|朝|代|时|時|初|末"
)
_SUFFIX_PATTERN = re.compile(f"(?:{_SUFFIX_WORDS})$")
_HAN = "㐀-鿿"  # range of a regular expression, extension A included
# 《春秋》 names a book, not a period.
_TITLE_PATTERN = re.compile(r"《[^》]*》")


@functools.cache
def _compile_pattern() -> re.Pattern[str]:
  """Returns the pattern of dynasty words."""
  spellings = sorted(_index_by_spelling(), key=len, reverse=True)
  single = [s for s in spellings if len(s) == 1]
  multiple = [s for s in spellings if len(s) > 1]
  single_characters = "".join(single)
  # 第五代 is a fifth generation.
  return re.compile(
    f"(?<!第)(?P<word>{'|'.join(multiple)})(?:{_SUFFIX_WORDS})?"
    f"|(?P<one>[{single_characters}])(?:{_SUFFIX_WORDS})"
    f"|(?<![{_HAN}0-9])(?P<bare>[{single_characters}])(?![{_HAN}])"
  )


def find_period_mentions(text: str) -> tuple[PeriodMention, ...]:
  """Returns the dynasty words of a text, in order of position."""
  # Masking keeps the positions of the text around a title.
  masked_text = _TITLE_PATTERN.sub(lambda match: "□" * len(match[0]), text)
  table = _index_by_spelling()
  mentions = []
  for match in _compile_pattern().finditer(masked_text):
    word = match["word"] or match["one"] or match["bare"]
    mentions.append(
      PeriodMention(match.start(), match.end(), match[0], table[word])
    )
  return tuple(mentions)


def find_period_labels(text: str) -> tuple[str, ...]:
  """Returns the labels of all dynasty words of a text, earliest first."""
  return sort_labels(
    label for mention in find_period_mentions(text) for label in mention.labels
  )
