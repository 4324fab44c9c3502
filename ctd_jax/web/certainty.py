"""Dates as a reader is told them: no finer than they are sure, and how sure."""

import dataclasses
import re
from typing import Any

from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import western
from ctd_jax.index import date_levels
from ctd_jax.index.answers import PassageDate, RecordDate
from ctd_jax.web.served_index import ServedIndex

# A weight in the notes of older indexes: 我桃谷 +2.66.
_WEIGHT = re.compile(r" [+-]\d+\.\d+(?=、|…|$)")
_STRONG, _SLIGHT = 2.3, 0.2  # weights; of tenfold odds, and hardly any


@dataclasses.dataclass(frozen=True)
class ToldDate:
  """A date at the level that is sure."""

  name: str  # in the reigns of its time
  common_era: str  # "722 BCE"; "" outside the calendar
  path: str  # page of the month or year; "" outside the calendar
  code: str  # message that says how sure it is
  values: dict[str, Any]  # of the message

  @property
  def is_given(self) -> bool:
    """Whether the edition gives the date, which then needs no reasons."""
    return self.code == "sure.given"


def tell_date(served: ServedIndex, date: RecordDate | PassageDate) -> ToldDate:
  """Returns the date of a record or passage, at the level that is sure."""
  month, chance = date.month, date.probability
  if month["ce_year"] is None:
    return ToldDate(month["name"], "", "", "sure.outside", {})
  sure = date.sure
  if sure.level == date_levels.MONTH:
    code = f"sure.month.{date_levels.find_degree(chance)}"
    if isinstance(date, RecordDate) and date.is_fixed:
      code = "sure.reader"
    elif isinstance(date, RecordDate) and date.known is not None:
      code = "sure.given"
    names = {"year": date.common_era, "month": number_month(served, month)}
    path = f"/month/{sure.first}"
    return ToldDate(month["name"], date.common_era, path, code, names)
  if sure.level in (date_levels.SEASON, date_levels.YEAR):
    degree = date_levels.find_degree(sure.probability)
    code = f"sure.{sure.level}.{degree}"
    path = f"/year/{sure.first}"
    return ToldDate(sure.name, sure.common_era, path, code, {})
  first, last = _find_years(served, date)
  is_dated = isinstance(date, RecordDate) or sure.level == date_levels.INTERVAL
  code = "sure.between" if is_dated else "sure.none"
  years = [reigns.format_common_era_year(year) for year in (first, last)]
  values = dict(zip(("first", "last"), years, strict=True))
  path = f"/year/{month['ordinal']}"
  return ToldDate(" – ".join(years), "", path, code, values)


def _find_years(
  served: ServedIndex, date: RecordDate | PassageDate
) -> tuple[int, int]:
  """Returns first and last astronomical year of the likely months."""
  months = [
    month
    for span in date.credible_90
    for month in (span.first, span.last)
    if month < len(served.years)
  ] or [date.month["ordinal"]]
  return int(served.years[min(months)]), int(served.years[max(months)])


def number_month(served: ServedIndex, month: dict[str, Any]) -> tuple[str, ...]:
  """Returns a month within its year, as codes of messages."""
  if western.is_western(served.index.calendar):
    return (f"month.western.{month['month']}",)
  return ("month.leap",) * bool(month["leap"]) + (f"month.{month['month']}",)


def find_degree(chance: float) -> str:
  """Returns the code of how sure a time with a probability is."""
  return f"sure.{date_levels.find_degree(chance)}"


def list_reasons(reasons: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
  """Returns the reasons that matter to a reader, with how much they say."""
  told = []
  for reason in reasons:
    weight = reason["weight"]
    is_given = reason["expert"] in ("keys", "reader")
    if not is_given and abs(weight) < _SLIGHT:
      continue
    force = ""
    if not is_given:
      force = "against" if weight < 0 else "strong" if weight >= _STRONG else ""
    told.append(reason | {"force": force})
  return told


def drop_weights(text: str) -> str:
  """Returns a note without the weights of its words."""
  return _WEIGHT.sub("", text)
