"""Questions of CTM: text, relations, gold answer and provenance."""

from __future__ import annotations

import msgspec

from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.golds import Gold


class Distance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Periods between the relations, over all pairs; 0 for one relation."""

  nearest: int
  widest: int


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Question, its answer, and the facts from which the answer follows.

  Attributes:
    question_id: e.g. `edd-00001`.
    task: one of `TASKS`.
    type: name of the task in the paper.
    rule: name of the rule that computes the gold, finer than the task.
    question: text, in Simplified script.
    answer: reference answer as text.
    relations: needed relations; their number is the paper's relation count.
    gold: the answer as data, of the class `GOLDS_BY_TASK[task]`.
    distance: distance between the periods of the relations.
    explanation: facts, relations as 'entity-dynasty', conclusion.
    split: one of `SPLITS`.
    listed: whether it counts among the 8,700 of the paper's types; the other
      50 count only by number of relations.
    provenance: sources of the facts.
    checker_version: version of the checker that recomputed the gold.
  """

  question_id: str
  task: str
  type: str
  rule: str
  question: str
  answer: str
  relations: tuple[Relation, ...]
  gold: Gold
  distance: Distance
  explanation: str
  split: str
  listed: bool
  provenance: tuple[str, ...]
  checker_version: str
