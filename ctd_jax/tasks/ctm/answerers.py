"""Answerers that ask a model, and what it may read before it answers.

Why: knowledge and reasoning are told apart by what stands before the question:
nothing (`closed_book`), passages found by our own retrieval (`open_book`), the
dates of what is asked about (`facts`), or these among others
(`distractor_facts`). Called by `python -m ctd_jax.tasks.ctm qa --system=model`.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ctd_jax.retrieval import bm25, search
from ctd_jax.tasks.ctm import prompts
from ctd_jax_datasets.ctm import wording
from ctd_jax_datasets.ctm.questions import Question, Relation

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm

Context = Callable[[Question], Sequence[str]]
PASSAGES = 10  # as many as the paper takes from a web search


@dataclasses.dataclass(frozen=True)
class ModelAnswerer:
  """A chat model with a prompt.

  Attributes:
    chat: client of the model.
    style: one of `judge.STYLES`.
    context: what is read before a question.
  """

  chat: ChatClient
  style: str
  context: Context

  def answer(self, question: Question) -> str:
    """Returns the model's reply."""
    read = self.context(question)
    return self.chat.ask(prompts.ask(question, self.style, read)).text


def closed_book(question: Question) -> Sequence[str]:
  """Returns nothing."""
  return ()


def facts(question: Question) -> Sequence[str]:
  """Returns the dates of all entities that a question is about."""
  return tuple(map(wording.fact, question.relations))


class DistractorFacts:
  """The facts of a question, shuffled among as many about other entities."""

  def __init__(self, relations: Sequence[Relation], seed: int = 0):
    self._facts = sorted(set(map(wording.fact, relations)))
    self._seed = seed

  def __call__(self, question: Question) -> Sequence[str]:
    """Returns facts, twice as many as are needed."""
    needed = facts(question)
    chance = random.Random(f"{self._seed}:{question.question_id}")
    others = [fact for fact in self._facts if fact not in needed]
    drawn = chance.sample(others, min(len(needed), len(others)))
    mixed = [*needed, *drawn]
    chance.shuffle(mixed)
    return tuple(mixed)


class OpenBook:
  """The passages of a gallery that BM25 finds for the text of a question."""

  def __init__(self, texts: Sequence[str], count: int = PASSAGES):
    self._texts = texts
    self._index = bm25.BM25(texts)
    self._count = min(count, len(texts))

  def __call__(self, question: Question) -> Sequence[str]:
    """Returns the best passages, best first."""
    scores = self._index.scores([question.question])
    indices, _ = search.topk_rows(scores, self._count)
    return tuple(self._texts[i] for i in indices[0] if i >= 0)
