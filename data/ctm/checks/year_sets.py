"""Relations as sets of years, and names in the text of a question.

Nothing is taken from `ctd_jax_datasets.ctm.intervals`, with which questions
are made, so an error there cannot hide an error here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.questions import Question

# Written years on the axis: before the oldest event, after the last death.
_FIRST_AXIS_YEAR, _LAST_AXIS_YEAR = -10_000, 2100


@functools.cache
def make_year_axis() -> dict[int, int]:
  """Returns written year -> position on an axis without a gap at 0."""
  years = [y for y in range(_FIRST_AXIS_YEAR, _LAST_AXIS_YEAR + 1) if y]
  return {year: index for index, year in enumerate(years)}


def list_relation_years(relation: Relation) -> frozenset[int]:
  """Returns the axis positions of all years of a relation."""
  axis_index = make_year_axis()
  end = periods.LAST_YEAR if relation.end is None else relation.end
  return frozenset(range(axis_index[relation.start], axis_index[end] + 1))


def find_missing_name(question: Question, relations: Sequence[Relation]) -> str:
  """Returns the problem of a relation that the text does not name, or ""."""
  for relation in relations:
    if relation.entity not in question.question:
      return f"{relation.entity} is not in the text"
  return ""


def find_leaked_name(question: Question, names: Iterable[str]) -> str:
  """Returns the problem of a name that the text must not hold, or ""."""
  leaked_name = next((name for name in names if name in question.question), "")
  return f"{leaked_name} is in the text" if leaked_name else ""
