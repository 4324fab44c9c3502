"""Answerer that asks a chat model, and the contexts that it reads first.

The context separates knowledge from reasoning: nothing (closed_book), passages
retrieved by BM25 (open_book), the dates of the question's entities (facts), or
these among the dates of other entities (distractor_facts).
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ctd_jax.retrieval import bm25, host_search
from ctd_jax.tasks.ctm import prompts
from ctd_jax_datasets.ctm.entities import Relation
from ctd_jax_datasets.ctm.generation import wording
from ctd_jax_datasets.ctm.questions import Question

if TYPE_CHECKING:
  from ctd_jax.llm.client import ChatClient  # needs the extra llm

ContextProvider = Callable[[Question], Sequence[str]]
NUM_PASSAGES = 10  # as many as the paper takes from a web search


@dataclasses.dataclass(frozen=True)
class ModelAnswerer:
  """Chat model with a prompt and a context.

  Attributes:
    chat: client of the model.
    style: one of `settings.STYLES`.
    context: provides the texts that precede a question.
  """

  chat: ChatClient
  style: str
  context: ContextProvider

  def answer(self, question: Question) -> str:
    """Returns the model's reply."""
    passages = self.context(question)
    return self.chat.ask(
      prompts.make_question_prompt(question, self.style, passages)
    ).text


def provide_nothing(question: Question) -> Sequence[str]:
  """Returns no texts: closed book."""
  return ()


def list_facts(question: Question) -> Sequence[str]:
  """Returns the dates of all entities that a question is about."""
  return tuple(map(wording.format_fact, question.relations))


class DistractorFacts:
  """Facts of a question, shuffled among as many facts of other entities."""

  def __init__(self, relations: Sequence[Relation], seed: int = 0):
    """Collects the facts to draw from.

    Args:
      relations: of all questions.
      seed: seed of draws and order, together with the question's id.
    """
    self._facts = sorted(set(map(wording.format_fact, relations)))
    self._seed = seed

  def __call__(self, question: Question) -> Sequence[str]:
    """Returns the needed facts and as many others, in random order."""
    relevant_facts = list_facts(question)
    rng = random.Random(f"{self._seed}:{question.question_id}")
    other_facts = [fact for fact in self._facts if fact not in relevant_facts]
    distractors = rng.sample(
      other_facts, min(len(relevant_facts), len(other_facts))
    )
    context_facts = [*relevant_facts, *distractors]
    rng.shuffle(context_facts)
    return tuple(context_facts)


class OpenBookRetriever:
  """Passages of a gallery, ranked by BM25 for the text of a question."""

  def __init__(self, texts: Sequence[str], num_passages: int = NUM_PASSAGES):
    """Indexes the texts of the gallery."""
    self._texts = texts
    self._index = bm25.BM25(texts)
    self._num_passages = min(num_passages, len(texts))

  def __call__(self, question: Question) -> Sequence[str]:
    """Returns the best passages, best first."""
    scores = self._index.score_queries([question.question])
    indices, _ = host_search.select_top_k(scores, self._num_passages)
    # Row -1 fills the list where fewer texts score.
    return tuple(self._texts[i] for i in indices[0] if i >= 0)
