"""Wording of questions: how much of it each record has.

A question shares few characters with the record that it asks about, and those
in its words. BM25 counts characters and pairs of them, so that 「日食」 is near
to 「日有食之」; longer strings that few records have tell formulas apart, of
which the annals are full.

Axes: Q questions, N records, V strings of the questions.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from ctd_jax.chronology import question_words
from ctd_jax.dating.corpus import plain_text
from ctd_jax.dating.experts import ngrams, shared_wording
from ctd_jax.retrieval import bm25


@dataclasses.dataclass(frozen=True, eq=False)
class RecordWording:
  """Texts of the records, with which questions are compared.

  Attributes:
    texts: as printed, [N].
    plain_texts: as of `corpus.Corpus`, [N].
  """

  texts: Sequence[str]
  plain_texts: Sequence[str]

  def __len__(self) -> int:
    return len(self.texts)

  @functools.cached_property
  def _bm25(self) -> bm25.BM25:
    return bm25.BM25(self.texts)

  def match_queries(
    self, words: Sequence[Sequence[str]], string_weight: float
  ) -> Float32[np.ndarray, "Q N"]:
    """Returns how well each record matches, 0 if it shares nothing.

    Args:
      words: of each question, see `find_query_words`.
      string_weight: of the shared strings beside BM25.
    """
    scores = self._bm25.score_queries([" ".join(each) for each in words])
    # Of an empty question BM25 knows a token as well.
    scores[[not each for each in words]] = 0
    asked = ["\n".join(map(plain_text, each)) for each in words]
    strings = ngrams.collect_ngrams(asked, shared_wording.LENGTHS)
    holds = strings.encode(self.plain_texts)
    counts = np.bincount(holds.indices, minlength=len(strings))
    idf = np.log(len(self) / np.maximum(counts, 1))
    weighed = strings.encode(asked)
    weighed.data = idf[weighed.indices].astype(np.float32)
    scores += string_weight * (weighed @ holds.T).toarray()
    return scores


def find_query_words(text: str) -> tuple[str, ...]:
  """Returns the words that a question is about, those quoted first.

  Args:
    text: a question, its dates blanked.
  """
  rest, phrases = question_words.take_quotations(text)
  words = phrases + question_words.find_words(rest)
  if not words and not question_words.is_question(rest):
    words = question_words.split_words(rest)
  return words
