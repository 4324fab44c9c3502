"""Names of rulers: what may stand in front of an era.

「泰始」 was an era of 晉武帝 and of 宋明帝. A text tells them apart by the
dynasty (晉, 西晉), the temple name (世祖), the posthumous name (武帝, 武皇帝)
or several of them (晉世祖武皇帝); `build_ruler_pattern` matches them all.

Source: headings of 資治通鑑; each row of `rulers.tsv` names the place.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable

from ctd_jax.chronology import calendar_tables, reign_tables
from ctd_jax.chronology.name_patterns import build_names_pattern
from ctd_jax.chronology.numerals import fold_script

_TABLE_COLUMNS = ("ruler", "dynasties", "names", "source")
# 晉武帝之泰始, 西晉·泰始
_LINK_PATTERN = "[之的·・ \u3000]?"
# A juan of 資治通鑑 is headed 「世祖武皇帝上之下」 or 「安皇帝甲」.
_JUAN_PART_PATTERN = "(?:[上中下](?:之[上中下])?|[甲乙丙丁戊己庚辛壬癸])?"
# 晉武帝（司馬炎）泰始
_GLOSS_PATTERN = "(?:[（(][^（）()]{1,6}[）)])?"
_MAX_NAMES = 3
# 後梁宣帝, 晉孝武帝, 漢光武帝
_EMPEROR = re.compile("(?P<dynasty>.+?)(?P<name>[孝光]?.帝)")


@dataclasses.dataclass(frozen=True)
class RulerNames:
  """What a ruler is called, folded to one script.

  Attributes:
    dynasties: short and full, e.g. 晉, 西晉; () if none is known.
    names: temple and posthumous names without the dynasty.
  """

  dynasties: tuple[str, ...]
  names: tuple[str, ...]


@functools.cache
def load_ruler_table() -> dict[str, RulerNames]:
  """Returns state as in the reign tables -> names."""
  path = reign_tables.reign_table_dir().parent / "rulers.tsv"
  lines = path.read_text(encoding="utf-8").splitlines()
  if tuple(lines[0].split("\t")) != _TABLE_COLUMNS:
    raise ValueError(f"{path}, line 1: columns should be {_TABLE_COLUMNS}")
  rulers = {}
  for line in lines[1:]:
    state, dynasties, names, _ = line.split("\t")
    rulers[state] = RulerNames(
      tuple(fold_script(dynasties).split(",")),
      tuple(fold_script(names).split(",")),
    )
  return rulers


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
  """Returns polity and ruler as an era of the calendars writes them -> names.

  Two rulers of one name, such as the two 少帝 of 東漢, are one. A polity alone
  stands for all of its rulers.
  """
  names_by_state: dict[str, tuple[set[str], set[str]]] = {}
  for era in calendar_tables.load_eras():
    printed_names = calendar_tables.list_printed_names(era.polity)
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
  """Returns a pattern of what may stand before a reign of one of `rulers`.

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
