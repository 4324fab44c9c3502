"""Tables of the calendars of East Asia, 246 BCE to 2100 CE.

The rows are in `data/calendars/*.tsv`, whose README says where they come from.
A *stream* is one calendar as it ran on: its lunations follow each other without
a gap, and polities that shared it differ in eras only.

Days are Julian day numbers, years astronomical (0 = 1 BCE).
"""

import dataclasses
import functools
import re
from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Int

from ctd_jax.chronology import reigns
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.utils import files

COUNTRIES = ("zh", "ja", "ko", "vi")
# Columns of each table; `data/calendars/README.md` says what they hold.
TABLE_COLUMNS = {
  "lunations": ("stream", "year", "first_day", "months", "lengths"),
  "polities": ("polity", "name", "names", "country"),
  "early_states": ("name", "names", "first_year", "last_year"),
  "rulers": ("ruler", "polity", "name", "names"),
  "eras": (
    "era",
    "polity",
    "ruler",
    "name",
    "spellings",
    "stream",
    "first_day",
    "last_day",
    "first_year",
    "years",
    "first_month",
  ),
}
# The last digit of a length in days. 28 and 31 come from reforms and the
# Gregorian calendar, which cut the last lunar months to 2 (明治五年) and 16.
_LENGTH_BY_DIGIT = {"0": 30, "9": 29, "8": 28, "1": 31, "2": 2, "6": 16}
_LABEL = re.compile(r"(\d{1,2})(L?)")
# What historians add to the name of a state, in either script.
_POSITIONS = "前後后東东西南北"
# In 762 months had the names of their branches, 建子月 ... 建辰月, which are
# numbered as what they are. Other years that begin with 子月 call it 正月.
_YEAR_OF_BRANCH_MONTHS = 762


@dataclasses.dataclass(frozen=True)
class EarlyState:
  """State that ended before the calendars begin."""

  names: tuple[str, ...]  # all of them
  first_year: int  # astronomical
  last_year: int  # the same


@dataclasses.dataclass(frozen=True)
class Polity:
  """State that counted its own years."""

  number: str  # of the table
  name: str  # no other polity has it, e.g. 曹魏
  # All of them in every script, e.g. 曹魏, 魏; others may share them.
  names: tuple[str, ...]
  country: str  # one of `COUNTRIES`, whose calendar it is


@dataclasses.dataclass(frozen=True)
class Ruler:
  """One who ruled a polity."""

  number: str  # of the table
  polity: Polity  # that was ruled
  name: str  # as histories call him or her, e.g. 武帝
  # Temple, posthumous and personal names in every script.
  names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Era:
  """Count of years of one polity, under one ruler.

  An era that outlives its ruler is several rows with one `first_year`. Years
  counted by the ruler alone are an era without a name.
  """

  number: str  # of the table
  polity: Polity  # whose years are counted
  ruler: Ruler | None  # who ruled meanwhile; None if no table says
  name: str  # e.g. 泰始; "" for years of a ruler, or of a part of the reign
  spellings: tuple[str, ...]  # other forms of the name, in every script
  stream: str  # the calendar by which months are counted
  # Julian day number on which the count began, or the ruler's share.
  first_day: int
  last_day: int  # the same of the end
  first_year: int  # astronomical year of 元年
  years: int  # number of the last year that began
  first_month: int  # month in which the count began, 1-12

  @property
  def state(self) -> str:
    """Polity and ruler as they come before the name, e.g. 晉武帝."""
    ruler = self.ruler.name if self.ruler else ""
    return self.polity.name + ruler.removeprefix(self.polity.name)

  @property
  def full_name(self) -> str:
    """Polity, ruler and name, e.g. 晉武帝泰始."""
    return self.state + self.name


@dataclasses.dataclass(frozen=True)
class Stream:
  """The lunations of one calendar in order, K of them."""

  name: str  # of the table, e.g. `zhou_qing`
  first_days: Int[np.ndarray, " K"]  # Julian day numbers
  lengths: Int[np.ndarray, " K"]  # in days
  # Astronomical year as this calendar counts it: until 104 BCE it begins with
  # the tenth month, in 690-700 and 762 with the eleventh.
  years: Int[np.ndarray, " K"]
  # 1-12. A year can lack a month (237) or have one twice (23, 762).
  months: Int[np.ndarray, " K"]
  is_leap: Bool[np.ndarray, " K"]  # whether a month is intercalary
  # The number that texts give it; 正月 of 690-700 was the eleventh month, 一月
  # the first.
  written_months: Int[np.ndarray, " K"]

  def __len__(self) -> int:
    """Number of lunations."""
    return len(self.first_days)


@functools.cache
def load_streams() -> dict[str, Stream]:
  """Returns every stream by name.

  Raises:
    ValueError: if a line cannot be read; the message names file and line.
  """
  rows_by_stream: dict[str, list[tuple[int, int, str, str]]] = {}
  for location, row in _read_rows("lunations"):
    stream, year, first_day, months, lengths = row
    if len(_parse_runs(months, location)[0]) != len(lengths):
      raise ValueError(
        f"{location}: {months!r} does not have {len(lengths)} months"
      )
    rows_by_stream.setdefault(stream, []).append(
      (int(year), int(first_day), months, lengths)
    )
  return {
    name: _make_stream(name, rows) for name, rows in rows_by_stream.items()
  }


@functools.cache
def load_eras() -> tuple[Era, ...]:
  """Returns every era in order of its first day.

  Raises:
    ValueError: if a line cannot be read; the message names file and line.
  """
  polities = {
    number: Polity(number, name, _split_names(name, names), country)
    for _, (number, name, names, country) in _read_rows("polities")
  }
  rulers = {}
  for location, (number, polity, name, names) in _read_rows("rulers"):
    if polity not in polities:
      raise ValueError(f"{location}: no polity {polity!r} in polities.tsv")
    rulers[number] = Ruler(
      number, polities[polity], name, _split_names(name, names)
    )
  eras = []
  for location, row in _read_rows("eras"):
    number, polity, ruler, name, spellings, stream, *numbers, label = row
    if polity not in polities or (ruler and ruler not in rulers):
      raise ValueError(f"{location}: no polity {polity!r} or ruler {ruler!r}")
    (month, _), *_ = zip(*_parse_runs(label, location), strict=True)
    eras.append(
      Era(
        number,
        polities[polity],
        rulers[ruler] if ruler else None,
        name,
        tuple(filter(None, spellings.split(","))),
        stream,
        *map(int, numbers),
        first_month=month,
      )
    )
  return tuple(eras)


@functools.cache
def list_printed_names(polity: Polity) -> tuple[str, ...]:
  """Returns the names of a polity before its eras, 周 for 後周 too.

  Historians tell 前秦 from 後秦; at the time both were 秦. Only names that
  another polity has are shortened so.
  """
  names = {name for era in load_eras() for name in era.polity.names}
  short = (name[1:] for name in polity.names if name[0] in _POSITIONS)
  return tuple(dict.fromkeys((*polity.names, *sorted(names & {*short}))))


@functools.cache
def load_early_states() -> tuple[EarlyState, ...]:
  """Returns the states that ended before the first year of the calendars.

  Raises:
    ValueError: if a line cannot be read; the message names file and line.
  """
  return tuple(
    EarlyState(_split_names(name, names), int(first), int(last))
    for _, (name, names, first, last) in _read_rows("early_states")
  )


def _read_rows(table: str) -> list[tuple[str, list[str]]]:
  """Returns location and cells of every row below the header."""
  path = reigns.reign_table_dir().parent / "calendars" / f"{table}.tsv"
  rows = files.read_tsv_rows(path, TABLE_COLUMNS[table])
  return [
    (f"{path}, line {number}", list(row.values()))
    for number, row in enumerate(rows, start=2)
  ]


def _split_names(name: str, names: str) -> tuple[str, ...]:
  return (name, *filter(None, names.split(",")))


def _parse_runs(
  months: str, location: str
) -> tuple[tuple[int, ...], tuple[bool, ...]]:
  """Returns numbers and leap marks of `1-7,7L,8-12`."""
  try:
    return _parse_run_labels(months)
  except ValueError as error:
    raise ValueError(f"{location}: {error}") from None


@functools.cache
def _parse_run_labels(months: str) -> tuple[tuple[int, ...], tuple[bool, ...]]:
  numbers: list[int] = []
  is_leap: list[bool] = []
  for run in months.split(","):
    ends = [_LABEL.fullmatch(label) for label in run.split("-")]
    if None in ends or len(ends) > 2:
      raise ValueError(f"months {months!r} should look like 1-7,7L,8-12")
    first, last = int(ends[0][1]), int(ends[-1][1])
    if not 1 <= first <= last <= MONTHS_PER_YEAR:
      raise ValueError(f"months {months!r} are not in 1-{MONTHS_PER_YEAR}")
    numbers += range(first, last + 1)
    is_leap += [bool(ends[0][2])] * (last - first + 1)
  return tuple(numbers), tuple(is_leap)


def _make_stream(name: str, rows: list[tuple[int, int, str, str]]) -> Stream:
  """Returns the stream of rows of year, first day, months and lengths."""
  numbers, is_leap, lengths, years, written = [], [], [], [], []
  for year, _, months, digits in rows:
    row_numbers, row_leaps = _parse_run_labels(months)
    numbers += row_numbers
    is_leap += row_leaps
    years += [year] * len(digits)
    lengths += [_LENGTH_BY_DIGIT[digit] for digit in digits]
    begins_with_zi = row_numbers[0] == 11 and year != _YEAR_OF_BRANCH_MONTHS
    written += (1, *row_numbers[1:]) if begins_with_zi else row_numbers
  length_array = np.array(lengths)
  first_days = rows[0][1] + np.concatenate([[0], np.cumsum(length_array)[:-1]])
  row_starts = np.cumsum([0] + [len(row[3]) for row in rows[:-1]])
  if (first_days[row_starts] != [row[1] for row in rows]).any():
    raise ValueError(f"{name}: years do not follow each other without a gap")
  return Stream(
    name,
    first_days,
    length_array,
    np.array(years),
    np.array(numbers),
    np.array(is_leap),
    np.array(written),
  )


# Patterns of many names: one branch for each character, not one for each
# name.
#
# An alternation of a thousand eras is tried name by name at every character
# of a text; as a tree it is left at the first character that no name has.


_Tree = dict[str, dict]  # of the same kind, down to empty ones
_END = ""  # key of a node at which a name ends


def build_names_pattern(names: Iterable[str]) -> str:
  """Returns a pattern without groups that matches any name, the longest first.

  Args:
    names: strings, not empty; without any, the pattern matches nothing.
  """
  tree: _Tree = {}
  for name in names:
    node = tree
    for character in name:
      node = node.setdefault(character, {})
    node[_END] = {}
  return _format_tree(tree) if tree else "(?!)"


def _format_tree(tree: _Tree) -> str:
  """Returns the pattern of what follows a node."""
  # Last characters of names, in one class; longer ways come before them.
  leaves = [
    character
    for character, node in tree.items()
    if character != _END and set(node) == {_END}
  ]
  branches = [
    re.escape(character) + _format_tree(node)
    for character, node in sorted(tree.items())
    if character != _END and character not in leaves
  ]
  if len(leaves) == 1:
    branches.append(re.escape(leaves[0]))
  elif leaves:
    branches.append(f"[{''.join(map(re.escape, sorted(leaves)))}]")
  if not branches:
    return ""
  is_optional = _END in tree
  if len(branches) == 1 and not is_optional:
    return branches[0]
  return f"(?:{'|'.join(branches)})" + "?" * is_optional


# Names of rulers: what may stand in front of an era.
#
# 「泰始」 was an era of 晉武帝 and of 宋明帝. A text tells them apart by the
# dynasty
# (晉, 西晉), the temple name (世祖), the posthumous name (武帝, 武皇帝) or
# several of
# them (晉世祖武皇帝); `build_ruler_pattern` matches them all.
#
# Source: headings of 資治通鑑; each row of `rulers.tsv` names the place.


# 晉武帝之泰始, 西晉·泰始
_LINK_PATTERN = "[之的·・ \u3000]?"
# A juan of 資治通鑑 is headed 「世祖武皇帝上之下」 or 「安皇帝甲」.
# Lazy: in 武帝中大通 the era is 中大通, and 中 is no part of a juan.
_JUAN_PART_PATTERN = "(?:[上中下](?:之[上中下])?|[甲乙丙丁戊己庚辛壬癸])??"
# 晉武帝（司馬炎）泰始
_GLOSS_PATTERN = "(?:[（(][^（）()]{1,6}[）)])?"
_MAX_NAMES = 3
# 後梁宣帝, 晉孝武帝, 漢光武帝
_EMPEROR = re.compile("(?P<dynasty>.+?)(?P<name>[孝光]?.帝)")


@dataclasses.dataclass(frozen=True)
class RulerNames:
  """Names of a ruler, folded to one script."""

  # Short and full, e.g. 晉, 西晉; () if none is known.
  dynasties: tuple[str, ...]
  names: tuple[str, ...]  # temple and posthumous names without the dynasty


@functools.cache
def load_ruler_table() -> dict[str, RulerNames]:
  """Returns state as in the reign tables -> names."""
  return {
    row["ruler"]: RulerNames(
      tuple(fold_script(row["dynasties"]).split(",")),
      tuple(fold_script(row["names"]).split(",")),
    )
    for row in files.read_tsv_rows(
      reigns.reign_table_dir().parent / "rulers.tsv",
      ("ruler", "dynasties", "names", "source"),
    )
  }


def ruler_names(state: str) -> RulerNames:
  """Returns the names of the ruler that a reign table calls `state`.

  One that the table of rulers lacks has the names that the calendars know, if
  it is called as they call it (東漢明帝, 唐太宗). Any other, as in a table of
  the user's, is read as a dynasty and a name: 漢明帝 is 漢 and 明帝 or 明皇帝,
  後梁宣帝 後梁 and 宣帝.
  """
  known_names = load_ruler_table().get(state) or _calendar_rulers().get(state)
  if known_names is not None:
    return known_names
  folded = fold_script(state)
  # The first character at least is the dynasty, whatever the name looks like.
  parts = {(folded[:1], folded[1:])}
  emperor = _EMPEROR.fullmatch(folded)
  if emperor:
    parts.add((emperor["dynasty"], emperor["name"]))
  dynasties, names = (set(column) - {""} for column in zip(*parts, strict=True))
  names |= {re.sub("(?<!皇)帝$", "皇帝", name) for name in names}
  return RulerNames(tuple(sorted(dynasties)), tuple(sorted(names)))


@functools.cache
def _calendar_rulers() -> dict[str, RulerNames]:
  """Returns polity and ruler, as an era of the calendars has them -> names."""
  # Two rulers with the same name, such as the two 少帝 of 東漢, count as one. A
  # polity alone stands for all of its rulers.
  names_by_state: dict[str, tuple[set[str], set[str]]] = {}
  for era in load_eras():
    printed_names = list_printed_names(era.polity)
    own_dynasties = set(map(fold_script, printed_names))
    own_names = {fold_script(n) for n in (era.ruler.names if era.ruler else ())}
    for state in {era.state, era.polity.name}:
      dynasties, names = names_by_state.setdefault(state, (set(), set()))
      dynasties |= own_dynasties
      names |= own_names
  return {
    state: RulerNames(tuple(sorted(dynasties)), tuple(sorted(names)))
    for state, (dynasties, names) in names_by_state.items()
  }


def build_ruler_pattern(rulers: Iterable[RulerNames]) -> str:
  """Returns a pattern of what may come before a reign of one of `rulers`.

  It has no groups, matches folded text, and the empty string.
  """
  rulers = list(rulers)
  dynasties = {d for ruler in rulers for d in ruler.dynasties}
  names = {n for ruler in rulers for n in ruler.names}
  pattern = ""
  if dynasties:
    dynasty_pattern = build_names_pattern(dynasties)
    pattern += f"(?:{dynasty_pattern}[朝國]?{_LINK_PATTERN})?"
  if names:
    pattern += (
      f"(?:(?:{build_names_pattern(names)}{_GLOSS_PATTERN}{_LINK_PATTERN}){{1,{_MAX_NAMES}}}"
      f"{_JUAN_PART_PATTERN})?"
    )
  return pattern


def build_mention_pattern(ruler: RulerNames) -> str:
  """Returns a pattern that finds a ruler or dynasty apart from any date.

  「晉武帝」, 「世祖武皇帝」; a dynasty that cannot be taken for a state,
  「劉宋」; 「晉紀」, 「晉朝」 or 「晉書」. Not 北齊書 and 魏書: they tell of
  other dynasties.
  """
  dynasties, names = map(build_names_pattern, (ruler.dynasties, ruler.names))
  full_dynasties = [d for d in ruler.dynasties if len(d) > 1]
  alternatives = [build_names_pattern(full_dynasties)] if full_dynasties else []
  if ruler.names:
    alternatives.append(f"(?:{names}){{2}}")
  if ruler.names and ruler.dynasties:
    alternatives.append(dynasties + names)
  if ruler.dynasties:
    alternatives.append(f"(?<![北後]){dynasties}(?:[紀朝代]|(?<!魏)書)")
  return "|".join(alternatives) or "(?!)"
