"""Months and days with all their names.

An `EraCalendar` holds a choice of polities: their eras, the months that those
counted, and which month belongs to which year of which era. Parallel states can
give one day several months; months that agree in everything are one.

Axes: K months, E eras, M memberships, pairs of a month and an era.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from ctd_jax.chronology import calendar_tables, sexagenary
from ctd_jax.chronology.calendar_tables import Era, Polity
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.reigns import Reign
from ctd_jax.utils.notes import Note

ALL_POLITIES = "all"
# Historians gave it to years that were counted by the ruler alone: 漢文帝三年
# is of 前元.
_LATER_NAMES = ("前元",)
# A polity without which another would have a gap: histories of 唐 count by the
# eras of 武則天. The lunar calendar of 民國 is one of its own.
_PARTS = {"唐": "武周", "中華": "民國", "民國": "中華"}
# Books of Korea and Vietnam print these eras: their states paid tribute, or had
# governors from China.
_CHINESE_ERAS_PRINTED = dict.fromkeys(
  ("ko", "vi"),
  (
    *("西漢", "新", "更始", "東漢", "曹魏", "孫吳", "晉", "劉宋", "南齊"),
    *("南梁", "陳", "北魏", "北齊", "北周", "隋", "唐", "武周", "後梁"),
    *("後唐", "後晉", "後漢", "後周", "南漢", "宋", "遼", "金", "元", "明"),
    "清",
  ),
)
_STREAM_COLUMNS = (
  "first_days",
  "lengths",
  "years",
  "months",
  "is_leap",
  "written_months",
)
# Of Japan, 1 January 1873.
_FIRST_GREGORIAN_MONTH = 2405160
_MAX_DAYS_APART = 2  # of first days of one lunation in two calendars


@dataclasses.dataclass(frozen=True)
class MonthName:
  """One name of a month."""

  month: int  # index in the calendar
  era: int  # index in the calendar
  year: int  # regnal year, 1 = 元年
  # Whether the era was counted in that month. A month before the era began or
  # after it ended can still have its name, because the year does.
  in_use: bool


@dataclasses.dataclass(frozen=True, eq=False)
class EraCalendar:
  """The months of some polities, and their names."""

  eras: tuple[Era, ...]  # in order of their first day, E of them
  # Julian day number of each month's first day, ascending.
  first_days: Int[np.ndarray, " K"]
  lengths: Int[np.ndarray, " K"]  # in days
  # Astronomical year as the calendar of the month counts it.
  years: Int[np.ndarray, " K"]
  months: Int[np.ndarray, " K"]  # 1-12
  is_leap: Bool[np.ndarray, " K"]  # whether a month is intercalary
  # The number that texts give it (see `Stream`).
  written_months: Int[np.ndarray, " K"]
  countries: Int[np.ndarray, " K"]  # bit i is set if country i has the month
  member_months: Int[np.ndarray, " M"]  # month of each membership, ascending
  member_eras: Int[np.ndarray, " M"]  # era of each membership
  regnal_years: Int[np.ndarray, " M"]  # year of the era
  # Whether the era was counted on some day of the month.
  in_use: Bool[np.ndarray, " M"]
  # First and last day of the month on which it was, Julian day numbers; the
  # first is after the last where it was not.
  member_days: Int[np.ndarray, "M 2"]

  def __len__(self) -> int:
    """Number of months."""
    return len(self.first_days)

  @functools.cached_property
  def is_civil(self) -> Bool[np.ndarray, " K"]:
    """Whether a month is one of the Gregorian calendar."""
    # No lunar month begins on the first of the Gregorian month of its number.
    dates = sexagenary.to_gregorian_dates(self.first_days)
    is_first = (
      (dates[:, 0] == self.years)
      & (dates[:, 1] == self.months)
      & (dates[:, 2] == 1)
    )
    return is_first & (self.first_days >= _FIRST_GREGORIAN_MONTH)

  @functools.cached_property
  def _eras_by_name(self) -> dict[str, tuple[int, ...]]:
    """Folded name or spelling of an era -> indices."""
    eras: dict[str, list[int]] = {}
    for index, era in enumerate(self.eras):
      for name in {fold_script(n) for n in (era.name, *era.spellings)}:
        eras.setdefault(name, []).append(index)
    return {name: tuple(indices) for name, indices in eras.items()}

  @functools.cached_property
  def _members_by_era(self) -> tuple[np.ndarray, ...]:
    """Memberships of each era, ascending."""
    order = np.argsort(self.member_eras, kind="stable")
    ends = np.searchsorted(
      self.member_eras[order], np.arange(len(self.eras)), side="right"
    )
    return tuple(np.split(order, ends[:-1]))

  def find_eras(self, name: str) -> tuple[int, ...]:
    """Returns the eras that a name can mean, in order of time.

    The name may be that of an era, alone or after any name of its polity, its
    ruler or both (泰始, 晉泰始, 晉武帝泰始). The name of a ruler means the
    years without another name (秦始皇, 汉惠帝), or else all of the ruler's eras
    (漢文帝). Either script is read.
    """
    folded = fold_script(name.strip())
    eras = set()
    for end in range(len(folded) + 1):
      prefix, suffix = folded[:end], folded[end:]
      for index in self._eras_by_name.get(suffix, ()):
        # An era without a name is called by its ruler.
        if prefix in _prefixes(self.eras[index], may_lack_ruler=bool(suffix)):
          eras.add(index)
    # 漢文帝三年 is of 前元 or 後元.
    eras = eras or {
      index
      for index, era in enumerate(self.eras)
      if folded in _prefixes(era, may_lack_ruler=False)
    }
    return tuple(sorted(eras))

  def find_months(
    self,
    name: str,
    year: int,
    month: int | None = None,
    leap: bool | None = None,
  ) -> tuple[MonthName, ...]:
    """Returns the months that a date can mean, those in use first.

    `name` is read as by `find_eras`, `year` is regnal, 1 = 元年. Without
    `month` the whole year is meant; `leap` None includes intercalary months.
    """
    blocks = [self._members_by_era[era] for era in self.find_eras(name)]
    members = np.sort(np.concatenate([np.zeros(0, int), *blocks]))
    members = members[self.regnal_years[members] == year]
    of = self.member_months[members]
    fits = np.ones(len(members), bool)
    if month is not None:
      fits &= (self.months[of] == month) | (self.written_months[of] == month)
    if leap is not None:
      fits &= self.is_leap[of] == leap
    members = members[fits]
    members = members[np.argsort(~self.in_use[members], kind="stable")]
    return tuple(map(self._make_name, members))

  def names_of_month(self, month: int) -> tuple[MonthName, ...]:
    """Returns every name of a month, those in use first."""
    start, end = np.searchsorted(self.member_months, (month, month + 1))
    members = np.arange(start, end)
    members = members[np.argsort(~self.in_use[members], kind="stable")]
    return tuple(map(self._make_name, members))

  def names_of_day(self, julian_day: int) -> tuple[MonthName, ...]:
    """Returns the names that were in use on a day, in order of the eras."""
    is_within = (self.member_days[:, 0] <= julian_day) & (
      julian_day <= self.member_days[:, 1]
    )
    names = map(self._make_name, np.flatnonzero(is_within))
    return tuple(sorted(names, key=lambda name: name.era))

  def months_of_day(self, julian_day: int) -> Int[np.ndarray, " n"]:
    """Returns the months that have a day: one for each parallel calendar."""
    return np.flatnonzero(
      (self.first_days <= julian_day)
      & (julian_day < self.first_days + self.lengths)
    )

  def find_day(self, month: int, cyclic_index: int) -> int | None:
    """Returns the Julian day number of a sexagenary day of a month.

    None if the month lacks the day.
    """
    first_day = int(self.first_days[month])
    offset = (
      cyclic_index - sexagenary.cyclic_index_of_day(first_day)
    ) % sexagenary.CYCLE_LENGTH
    return first_day + offset if offset < self.lengths[month] else None

  def take_months(self, months: Int[np.ndarray, " k"]) -> EraCalendar:
    """Returns the calendar of some of the months, their names with them.

    The eras stay as they are, also those that name none of these months.
    ValueError if the indices do not rise.
    """
    if (np.diff(months) <= 0).any():
      raise ValueError("indices of months should ascend, without repeats")
    new_index = np.full(len(self), -1)
    new_index[months] = np.arange(len(months))
    kept = np.flatnonzero(new_index[self.member_months] >= 0)
    return EraCalendar(
      self.eras,
      self.first_days[months],
      self.lengths[months],
      self.years[months],
      self.months[months],
      self.is_leap[months],
      self.written_months[months],
      self.countries[months],
      new_index[self.member_months[kept]],
      self.member_eras[kept],
      self.regnal_years[kept],
      self.in_use[kept],
      self.member_days[kept],
    )

  def label_month(self, month: int) -> str:
    """Returns the number of a month, L after a leap month: 7, 7L."""
    return f"{self.months[month]}{'L' * bool(self.is_leap[month])}"

  def format_name(self, name: MonthName) -> str:
    """Returns a name in Chinese notation: 晉武帝泰始2年7L月."""
    era = self.eras[name.era].full_name
    return f"{era}{name.year}年{self.label_month(name.month)}月"

  @functools.cached_property
  def reign_eras(self) -> tuple[tuple[int, ...], ...]:
    """Indices of the eras of each row of `make_reigns`.

    An era that several rulers used is one row; rows are in order of 元年.
    """
    groups: dict[tuple[int, str, str, str], list[int]] = {}
    for index, era in enumerate(self.eras):
      # Two rulers can count from one year, each for himself.
      ruler = era.ruler.number if era.ruler and not era.name else ""
      key = (era.first_year, era.polity.number, era.name, ruler)
      groups.setdefault(key, []).append(index)
    in_order = sorted(groups.items(), key=lambda item: (item[0][0], item[1]))
    return tuple(tuple(indices) for _, indices in in_order)

  def make_reigns(self) -> tuple[Reign, ...]:
    """Returns the eras as rows of a reign table, in order of 元年.

    The table is for readers of dates; it has years, not months and days. Rows
    with the name of a ruler hold the years without another name.
    """
    return tuple(
      _make_reign([self.eras[index] for index in indices])
      for indices in self.reign_eras
    )

  def _make_name(self, member: int | np.integer) -> MonthName:
    return MonthName(
      int(self.member_months[member]),
      int(self.member_eras[member]),
      int(self.regnal_years[member]),
      bool(self.in_use[member]),
    )


def _make_reign(eras: Sequence[Era]) -> Reign:
  """Returns the row of one era, given in parts if it had several rulers."""
  first = eras[0]
  years = max(era.years for era in eras)
  spellings = tuple(dict.fromkeys(s for era in eras for s in era.spellings))
  if first.name and first.name not in _LATER_NAMES:
    # No one ruler's name is right for every year of a count that outlived him.
    has_one_ruler = len({era.state for era in eras}) == 1
    name = first.name
    state = first.state if has_one_ruler else first.polity.name
  else:
    polity = first.polity.name
    own_name = first.ruler.name.removeprefix(polity) if first.ruler else ""
    name, state = own_name or polity, polity
    spellings += first.ruler.names if first.ruler else ()
    spellings += (first.name,) if first.name else ()
  return Reign(
    name, state, first.first_year, years, spellings, first.first_month
  )


@functools.lru_cache(maxsize=4096)
def _prefixes(era: Era, *, may_lack_ruler: bool) -> frozenset[str]:
  """Returns what may come before an era, folded: 晉, 武帝, 晉武帝, 大晉 ..."""
  printed_names = calendar_tables.list_printed_names(era.polity)
  polities = set(map(fold_script, printed_names))
  polities |= {form for name in polities for form in (f"大{name}", f"{name}朝")}
  rulers = {fold_script(n) for n in (era.ruler.names if era.ruler else ())}
  both = {polity + ruler for polity in polities for ruler in rulers}
  if may_lack_ruler:
    both |= polities | {""}
  return frozenset(both | rulers | {fold_script(era.state)})


_COUNTRY_NAMES = {
  **dict.fromkeys(("中國", "中国"), "zh"),
  **dict.fromkeys(("韓國", "韩国", "朝鮮半島", "朝鲜半岛"), "ko"),
  **dict.fromkeys(("越", "大越", "越南", "安南"), "vi"),
}


def find_polities(name: str) -> tuple[Polity, ...]:
  """Returns the polities that a name means, in order of time.

  The name is `all`, a country (`zh`, `ja`, `ko`, `vi`, or 越), or a polity in
  either script, with or without 朝 and 大; 魏 is 曹魏 and 北魏, 北魏 one only.
  ValueError if none has the name; the nearest are named.
  """
  polities = tuple(
    dict.fromkeys(era.polity for era in calendar_tables.load_eras())
  )
  if name == ALL_POLITIES:
    return polities
  name = _COUNTRY_NAMES.get(name.strip(), name)
  if name in calendar_tables.COUNTRIES:
    # Books of Korea and Vietnam print the eras of China too.
    own = tuple(p for p in polities if p.country == name)
    return own + tuple(
      p for p in polities if p.name in _CHINESE_ERAS_PRINTED.get(name, ())
    )
  folded = fold_script(name.strip())
  forms = {folded}
  if len(folded) > 1:
    forms |= {folded.removesuffix("朝"), folded.removeprefix("大")}
  exact = tuple(p for p in polities if fold_script(p.name) in forms)
  found = exact or tuple(
    p for p in polities if forms & {fold_script(n) for n in p.names}
  )
  found += tuple(
    p
    for p in polities
    if p.name in {_PARTS.get(q.name) for q in found} and p not in found
  )
  if not found:
    known = sorted({n for p in polities for n in p.names})
    nearest = difflib.get_close_matches(folded, known, n=3, cutoff=0.3)
    raise ValueError(
      Note(
        "problem.calendar.polity.near", name=name, nearest=", ".join(nearest)
      )
      if nearest
      else Note("problem.calendar.polity", name=name)
    )
  return found


def load_calendar(names: str | Sequence[str] = ALL_POLITIES) -> EraCalendar:
  """Returns the months of polities and their names.

  Each is read as by `find_polities`; one string has them between commas.
  """
  if isinstance(names, str):
    names = names.replace("，", ",").split(",")
  polities = {p for name in names for p in find_polities(name)}
  return _make_calendar(
    tuple(era for era in calendar_tables.load_eras() if era.polity in polities)
  )


@functools.lru_cache(maxsize=8)
def _make_calendar(eras: tuple[Era, ...]) -> EraCalendar:
  """Returns the calendar of eras that are in order of time."""
  streams = _load_whole_years()
  blocks = []  # positions in the stream, for each era
  for era in eras:
    stream = streams[era.stream]
    # The first year that has the name may have begun before the count.
    first = np.searchsorted(stream.first_days, era.first_day, side="right") - 1
    first_year = max(int(stream.years[max(first, 0)]), era.first_year)
    start = np.searchsorted(stream.years, first_year)
    end = np.searchsorted(
      stream.years, era.first_year + era.years - 1, side="right"
    )
    blocks.append(np.arange(start, end))
  member_eras = np.repeat(np.arange(len(eras)), [len(b) for b in blocks])
  # The values of every membership, column by column.
  first_days, lengths, years, months, is_leap, written = (
    np.concatenate(
      [
        getattr(streams[era.stream], column)[block]
        for era, block in zip(eras, blocks, strict=True)
      ]
    )
    for column in _STREAM_COLUMNS
  )
  # One number for what makes a month, in order of time.
  keys = (first_days * 64 + lengths) * 8192 + years + 4096
  keys = ((keys * 16 + months) * 2 + is_leap) * 16 + written
  _, first_member, month_of = np.unique(
    keys, return_index=True, return_inverse=True
  )
  country_bits = np.array(
    [1 << calendar_tables.COUNTRIES.index(e.polity.country) for e in eras]
  )
  countries = np.zeros(len(first_member), int)
  np.bitwise_or.at(countries, month_of, country_bits[member_eras])
  era_days = np.array([(e.first_day, e.last_day) for e in eras])[member_eras]
  member_days = np.stack(
    [
      np.maximum(era_days[:, 0], first_days),
      np.minimum(era_days[:, 1], first_days + lengths - 1),
    ],
    axis=-1,
  )
  first_years = np.array([e.first_year for e in eras])[member_eras]
  order = np.lexsort((member_eras, month_of))
  return EraCalendar(
    eras,
    first_days[first_member],
    lengths[first_member],
    years[first_member],
    months[first_member],
    is_leap[first_member],
    written[first_member],
    countries,
    month_of[order],
    member_eras[order],
    (years - first_years + 1)[order],
    (member_days[:, 0] <= member_days[:, 1])[order],
    member_days[order],
  )


@functools.cache
def _load_whole_years() -> dict[str, calendar_tables.Stream]:
  """Returns the streams by name, from the head of their first year on."""
  # A state whose calendar begins within a year, 孫吳 with the tenth month of
  # 222, has the months before of the calendar that its country had: annals name
  # them after the new era too.
  streams = calendar_tables.load_streams()
  # Vietnam has the stream of China.
  countries = {
    era.stream: era.polity.country
    for era in reversed(calendar_tables.load_eras())
  }
  whole = dict(streams)
  for name, stream in streams.items():
    for other_name, other in streams.items():
      months_before = np.flatnonzero(
        (other.first_days < stream.first_days[0] - _MAX_DAYS_APART)
        & (other.years == stream.years[0])
      )
      if len(months_before) and countries.get(name) == countries.get(
        other_name
      ):
        columns = {
          column: np.concatenate(
            [getattr(other, column)[months_before], getattr(stream, column)]
          )
          for column in _STREAM_COLUMNS
        }
        whole[name] = dataclasses.replace(stream, **columns)
        break
  return whole
