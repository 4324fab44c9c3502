"""Names of periods and regimes, and their mentions in text.

A name is one of the ten labels or a finer one (东汉, 北宋, 三国, 辽) from
`facts/regimes.tsv`; a finer name belongs to the period that contains its years.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from ctd_jax_datasets.ctm import fact_tables
from ctd_jax_datasets.ctm.periods import (
  LAST_YEAR,
  PERIODS,
  get_period,
  list_span_labels,
  sort_labels,
)

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
  """Name for a span of years: one of the ten periods, or a finer one.

  Attributes:
    name: the first of the spellings.
    spellings: in both scripts, the name included.
    start: first year; homonyms (后汉) are several aliases.
    end: last year.
    labels: the one period that contains the span, or all that it touches
      (隋唐); empty outside the timeline (民国).
    is_convention: whether the label is a convention, because the regime ruled
      beside the period.
    is_label: whether it is one of the ten.
  """

  name: str
  spellings: tuple[str, ...]
  start: int
  end: int
  labels: tuple[str, ...]
  is_convention: bool
  is_label: bool = False


def _list_containing_labels(start: int, end: int) -> tuple[str, ...]:
  """Returns the period that contains a span, else all that it touches."""
  if start >= LAST_YEAR:
    return ()
  labels = [p.label for p in PERIODS if p.start <= start and end <= p.end]
  # end - 1: 隋唐 (581..907) ends as 五代 begins, and does not touch it.
  return (labels[-1],) if labels else list_span_labels(start, end - 1)


def read_rows() -> list[dict[str, str]]:
  """Returns the rows of `regimes.tsv`, each as column -> cell.

  Raises:
    ValueError: naming file, line and column at fault.
  """
  return fact_tables.read_table(
    fact_tables.table_path("regimes"),
    REGIME_COLUMNS,
    integers=("start", "end", "flagged"),
    optional=("aliases", "label"),
  )


@functools.cache
def load_aliases() -> tuple[PeriodAlias, ...]:
  """Returns all names: the ten labels, then those of `regimes.tsv`.

  Raises:
    ValueError: naming file, line and column at fault.
  """
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
    label = row["label"]
    aliases.append(
      PeriodAlias(
        row["name"],
        (row["name"], *fact_tables.split_values(row["aliases"])),
        start,
        end,
        (get_period(label).label,)
        if label
        else _list_containing_labels(start, end),
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
    name: in either script, with or without 朝, 代, 时期 and the like.
  """
  table = _index_by_spelling()
  return table.get(name) or table.get(_SUFFIX_PATTERN.sub("", name), ())


@dataclasses.dataclass(frozen=True)
class PeriodMention:
  """Dynasty word in a text.

  Attributes:
    start: position of the first character.
    end: position after the last character.
    text: as written, with its suffix (「唐代」).
    aliases: possible meanings, several for homonyms.
  """

  start: int
  end: int
  text: str
  aliases: tuple[PeriodAlias, ...]

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
  """Returns the pattern of dynasty words.

  A word of one character (明, 金) matches only with a suffix or between
  characters that are not Han: 明 and 清 are also ordinary words.
  """
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
