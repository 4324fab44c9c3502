"""Drafts of questions, before the generator gives them an id and a split."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ctd_jax_datasets.ctm import intervals
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.generation import wording
from ctd_jax_datasets.ctm.golds import Gold, NamesGold
from ctd_jax_datasets.ctm.questions import Distance
from ctd_jax_datasets.ctm.vocabulary import RR, TYPE_NAMES


class NoDrawError(LookupError):
  """Failure to draw fitting entities; another draw may succeed."""


@dataclasses.dataclass(frozen=True)
class Draft:
  """Question without an id; the other fields are those of `Question`.

  Attributes:
    conclusion: last sentence of the explanation, after facts and relations.
  """

  type: str
  rule: str
  question: str
  answer: str
  relations: tuple[Relation, ...]
  gold: Gold
  conclusion: str
  distance: Distance


def make_relation_draft(
  rule: str,
  question: str,
  relations: Sequence[Relation],
  gold: NamesGold,
  conclusion: str,
) -> Draft:
  """Returns the draft of a question of RR, whose answer is the gold names."""
  return Draft(
    type=TYPE_NAMES[RR],
    rule=rule,
    question=question,
    answer=wording.join_names(gold.names),
    relations=tuple(relations),
    gold=gold,
    conclusion=conclusion,
    distance=intervals.measure_distance(relations),
  )
