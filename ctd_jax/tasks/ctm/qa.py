"""The question task of CTM: what a model reads, and answers without a model.

What a model reads first separates knowledge from reasoning: nothing
(closed_book), passages retrieved by BM25 (open_book), the dates of the
question's entities (facts), or these among the dates of others
(distractor_facts).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence

from ctd_jax.retrieval import bm25, host_search
from ctd_jax.tasks.ctm import data_sources, timeline
from ctd_jax_datasets.ctm import question_drafts, repository
from ctd_jax_datasets.ctm.periods import ERA
from ctd_jax_datasets.ctm.schema import Question

ARMS = ("closed_book", "open_book", "facts", "distractor_facts")
# System without a model -> its information track; that of a model is its arm.
SYSTEM_TRACKS = {
  "eras": "closed_book",
  "oracle": "facts",
}
ContextProvider = Callable[[Question], Sequence[str]]
NUM_PASSAGES = 10  # as many as the paper takes from a web search


def list_facts(question: Question) -> Sequence[str]:
  """Returns the dates of all entities that a question is about."""
  return tuple(map(question_drafts.format_fact, question.relations))


def add_distractors(
  all_facts: Sequence[str], question: Question
) -> Sequence[str]:
  """Returns the facts of a question among as many others, in random order."""
  relevant_facts = list_facts(question)
  rng = random.Random(f"0:{question.question_id}")
  other_facts = [fact for fact in all_facts if fact not in relevant_facts]
  context_facts = [
    *relevant_facts,
    *rng.sample(other_facts, min(len(relevant_facts), len(other_facts))),
  ]
  rng.shuffle(context_facts)
  return tuple(context_facts)


def make_open_book(texts: Sequence[str]) -> ContextProvider:
  """Returns a function from a question to the best texts by BM25."""
  index = bm25.BM25(texts)

  def find_passages(question: Question) -> Sequence[str]:
    scores = index.score_queries([question.question])
    indices, _ = host_search.select_top_k(scores, NUM_PASSAGES)
    # Row -1 fills the list where fewer texts score.
    return tuple(texts[i] for i in indices[0] if i >= 0)

  return find_passages


def choose_context(
  arm: str, gallery: str | None, questions: Sequence[Question]
) -> ContextProvider:
  """Returns what gives a model the context of a question.

  Args:
    arm: one of `ARMS`.
    gallery: file of the texts for open_book, see `data_sources.load_passages`.
    questions: all questions; the facts of others are distractors.
  """
  if arm not in ARMS:
    raise ValueError(f"arm={arm}: should be one of {', '.join(ARMS)}")
  if arm == "closed_book":
    return lambda question: ()
  if arm == "facts":
    return list_facts
  if arm == "distractor_facts":
    facts = sorted({fact for q in questions for fact in list_facts(q)})
    return functools.partial(add_distractors, facts)
  return make_open_book(data_sources.load_passages(gallery))


def make_answerer(
  system: str, train_questions: Sequence[Question]
) -> timeline.TimelineAnswerer:
  """Returns a system that answers without a model.

  Args:
    system: name in `SYSTEM_TRACKS`.
    train_questions: questions of the train split, which give the prior.
  """
  return timeline.TimelineAnswerer(
    # Names of eras are in every dictionary.
    [
      e
      for e in repository.load_entities()
      if system == "oracle" or e.kind == ERA
    ],
    timeline.AnswerPrior.from_questions(train_questions),
  )
