"""The ten periods of CTM, the finer names for parts of them, years between.

Why: whatever is asked, answered or judged in CTM comes down to ten labels,
and the published table has traps; they are settled here, once. Called by the
question generator, its checker, the judge and the game.

Years are as historians write them: -278 is 278 BCE, there is no year 0.

How the traps of the table are settled (paper, timeline table):

- 先秦 runs to -206, so 秦 (-221..-206) lies in it.
- A boundary year belongs to two periods. A period is half-open here and the
  later one wins (220 is 六朝), but grading accepts both (`acceptable`).
- 六朝 and 隋 overlap from 581 to 589: the later one wins, both are accepted.
- 唐 ends in 906 and 五代 begins in 907. 唐 lasted into 907: 906 is 唐 only, 907
  is 五代 and accepted as 唐.
- 元 begins in 1279, with the end of 宋, not in 1271.
- 1912 belongs to 清, since no period comes after it.
- Regimes that share their time with a period of other name (辽, 金, 西夏, 十国)
  are mapped by convention and flagged; 新 and 南明 lie inside 汉 and 清.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Sequence

from ctd_jax_datasets.ctm import fact_tables

REGIME_COLUMNS = (
  "name",
  "aliases",
  "start",
  "end",
  "label",
  "flagged",
  "source",
)


@dataclasses.dataclass(frozen=True)
class Period:
  """One of the ten.

  Attributes:
    index: 0 (earliest) to 9.
    label: its name, the same in both scripts but for 汉/漢 and 五代.
    start: first year.
    end: year in which it ended.
    traditional: its name in Traditional script.
  """

  index: int
  label: str
  start: int
  end: int
  traditional: str


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
LABELS = tuple(get_period.label for get_period in PERIODS)
_BY_LABEL = {get_period.label: get_period for get_period in PERIODS}
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
  """Returns the year with 1 BCE as 0, so that differences are true."""
  if year == 0:
    raise ValueError("year 0: there is none; 1 BCE is -1 and 1 CE is 1")
  return year if year > 0 else year + 1


def find_period(year: int) -> Period | None:
  """Returns the period a year is counted to, None outside -2100..1912.

  Raises:
    ValueError: for year 0.
  """
  _to_astronomical(year)
  for candidate in reversed(PERIODS):
    is_final_year = candidate is PERIODS[-1] and year == candidate.end
    if candidate.start <= year < candidate.end or is_final_year:
      return candidate
  return None


def list_acceptable_labels(year: int) -> tuple[str, ...]:
  """Returns all labels a grader should accept for a year, earliest first.

  Those of the periods that hold the year with both ends counted.

  Raises:
    ValueError: for year 0.
  """
  _to_astronomical(year)
  return tuple(p.label for p in PERIODS if p.start <= year <= p.end)


def list_span_labels(start: int, end: int) -> tuple[str, ...]:
  """Returns the labels of all years from `start` to `end`, earliest first.

  Raises:
    ValueError: for year 0 or an end before the start.
  """
  if _to_astronomical(end) < _to_astronomical(start):
    raise ValueError(f"{start}..{end}: the end lies before the start")
  touched = set()
  for candidate in PERIODS:
    for year in (start, end, candidate.start):
      if (
        start <= year <= end
        and (touched_period := find_period(year)) is not None
      ):
        touched.add(touched_period)
  return tuple(p.label for p in sorted(touched, key=lambda p: p.index))


def count_periods_between(first: str, second: str) -> int:
  """Returns how many periods apart two labels are: 0 same, 1 adjacent."""
  return abs(get_period(first).index - get_period(second).index)


def count_years_between(first: int, second: int) -> tuple[int, int]:
  """Returns the years from one to the other, true and with a year 0.

  The second convention adds the numbers of BCE and CE, as the worked example
  of the paper does: from -278 to 701 it is 978 years, and 979 by that.

  Raises:
    ValueError: for year 0.
  """
  true_years = abs(_to_astronomical(second) - _to_astronomical(first))
  return true_years, abs(second - first)


def sum_years_along(years: Sequence[int]) -> tuple[int, int]:
  """Returns `years_between`, summed from each year of a chain to the next."""
  steps = [count_years_between(a, b) for a, b in itertools.pairwise(years)]
  return sum(true_years for true_years, _ in steps), sum(
    naive_years for _, naive_years in steps
  )


@dataclasses.dataclass(frozen=True)
class PeriodAlias:
  """A name for a stretch of time: one of the ten, or something finer.

  Attributes:
    name: the first of its spellings.
    spellings: in both scripts, the name included.
    start: first year; of homonyms (后汉) each has its own row.
    end: last year.
    labels: the one period that contains it, or all that it touches (隋唐);
      empty outside the timeline (民国).
    is_convention: whether the label is a convention: the regime ruled beside the
      period, or the name is not to be taken as the period.
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
  """Returns the one period that contains a span, else all it touches.

  A span ends with its last year begun: 隋唐 (581..907) is not 五代.
  """
  if start >= LAST_YEAR:
    return ()
  labels = [p.label for p in PERIODS if p.start <= start and end <= p.end]
  return (labels[-1],) if labels else list_span_labels(start, end - 1)


@functools.cache
def load_aliases() -> tuple[PeriodAlias, ...]:
  """Returns all names of times: the ten labels, then `regimes.tsv`.

  Raises:
    ValueError: naming file, line and column of a row that cannot be read.
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
  for row in fact_tables.read_table(
    fact_tables.table_path("regimes"),
    REGIME_COLUMNS,
    integers=("start", "end", "flagged"),
    optional=("aliases", "label"),
  ):
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
  """Returns the aliases of every spelling; several of a homonym (后汉)."""
  table: dict[str, tuple[PeriodAlias, ...]] = {}
  for alias in load_aliases():
    for spelling in alias.spellings:
      table[spelling] = (*table.get(spelling, ()), alias)
  return table


def find_aliases(name: str) -> tuple[PeriodAlias, ...]:
  """Returns what a dynasty word may mean: none, one, or several homonyms.

  Args:
    name: in either script, with or without 朝, 代, 时期 and the like.
  """
  table = _index_by_spelling()
  return table.get(name) or table.get(_SUFFIX_PATTERN.sub("", name), ())


@dataclasses.dataclass(frozen=True)
class PeriodMention:
  """A dynasty word in a text.

  Attributes:
    start: position of its first character.
    end: position after its last one.
    text: as written, with its suffix (「唐代」).
    aliases: what it may mean, one but for homonyms.
  """

  start: int
  end: int
  text: str
  aliases: tuple[PeriodAlias, ...]

  @property
  def labels(self) -> tuple[str, ...]:
    """All periods it may mean, earliest first."""
    return sort_labels(
      label for alias in self.aliases for label in alias.labels
    )


# What may follow the name of a dynasty and makes it sure to be one.
_SUFFIX_WORDS = (
  "时期|時期|时代|時代|王朝|年间|年間|初年|末年|初期|中期|晚期|后期|後期|中叶|"
  "中葉|朝|代|时|時|初|末"
)
_SUFFIX_PATTERN = re.compile(f"(?:{_SUFFIX_WORDS})$")
_HAN = "㐀-鿿"
# 《春秋》 and 「五代史」 name books.
_TITLE_PATTERN = re.compile(r"《[^》]*》")


@functools.cache
def _compile_pattern() -> re.Pattern[str]:
  """Returns what finds dynasty words.

  A word of one character (明, 金) is found only with a suffix or alone between
  other than Han characters: 明 and 清 are words of their own.
  """
  spellings = sorted(_index_by_spelling(), key=len, reverse=True)
  single = [s for s in spellings if len(s) == 1]
  multiple = [s for s in spellings if len(s) > 1]
  single_characters = "".join(single)
  return re.compile(
    f"(?<!第)(?P<word>{'|'.join(multiple)})(?:{_SUFFIX_WORDS})?"
    f"|(?P<one>[{single_characters}])(?:{_SUFFIX_WORDS})"
    f"|(?<![{_HAN}0-9])(?P<bare>[{single_characters}])(?![{_HAN}])"
  )


def find_period_mentions(text: str) -> tuple[PeriodMention, ...]:
  """Returns the dynasty words of a text in order, longest names first."""
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
  """Returns the labels all dynasty words of a text come to, earliest first."""
  return sort_labels(
    label for mention in find_period_mentions(text) for label in mention.labels
  )


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
  """Returns labels without repetition, earliest first."""
  label_set = set(labels)
  return tuple(label for label in LABELS if label in label_set)
