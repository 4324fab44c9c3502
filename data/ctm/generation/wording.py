"""Wording of years, facts and lists.

Each of them has one wording, so that the judge recognizes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.vocabulary import (
  APPROXIMATE,
  ERA,
  EVENT,
  FIGURE,
  HERITAGE,
  INGREDIENT,
  PLACE,
  RULER,
)

PERIOD_LIST = "、".join(periods.LABELS)
_NUMERALS = "零一二三四五六七八九十"
# Kind -> sentence with the first year of an entity, and with its last.
_FACT_TEMPLATES = {
  FIGURE: "{name}生于{start}，卒于{end}",
  RULER: "{name}于{start}即位，在位至{end}",
  ERA: "年号“{name}”用于{start}至{end}",
  PLACE: "地名“{name}”用于{start}至{end}",
  EVENT: "{name}发生于{start}至{end}",
  INGREDIENT: "{name}自{start}起见于中国",
  HERITAGE: "{name}自{start}起见于记载",
}


def format_year(year: int, precision: str = "") -> str:
  """Returns a year in words: 「公元前278年」, 「约公元701年」."""
  # 约 (about) tells the reader, and the judge, of the tolerance.
  prefix = "约" if precision == APPROXIMATE else ""
  return f"{prefix}公元前{-year}年" if year < 0 else f"{prefix}公元{year}年"


def format_fact(relation: Relation) -> str:
  """Returns the years of an entity in words."""
  template = _FACT_TEMPLATES[relation.kind]
  if relation.kind == EVENT and relation.start == relation.end:
    template = "{name}发生于{start}"
  elif relation.kind == EVENT and relation.end is None:
    template = "{name}始于{start}"
  # 今: the interval is open.
  end = "" if relation.end is None else relation.end
  return template.format(
    name=relation.entity,
    start=format_year(relation.start, relation.precision),
    end=format_year(end, relation.precision) if end else "今",
  )


def format_explanation(relations: Sequence[Relation], conclusion: str) -> str:
  """Returns facts, relations as 'entity-dynasty', and the conclusion."""
  facts = "；".join(
    dict.fromkeys(format_fact(relation) for relation in relations)
  )
  pairs = "、".join(
    dict.fromkeys(f"'{relation.label}'" for relation in relations)
  )
  return f"{facts}。涉及的时空关系：{pairs}。{conclusion}"


def join_names(names: Sequence[str]) -> str:
  """Returns names joined as the paper's answers are."""
  return "、".join(names)


def format_ordinal(number: int) -> str:
  """Returns 「三」 for 3, up to 10, else digits."""
  return _NUMERALS[number] if number < len(_NUMERALS) else str(number)


def format_title(relation: Relation) -> str:
  """Returns a name, with its kind where the name alone is unclear."""
  if relation.kind == ERA:
    return f"年号“{relation.entity}”"
  if relation.kind == PLACE:
    city = re.sub("府城$", "", relation.place)
    return f"地名“{relation.entity}”（今{city}）"
  return relation.entity
