"""BM25 over Chinese characters, as the benchmark's published row defines it.

It is the row that every system is compared with. The definition is kept exactly
(tokens, constants, floor for negative idf, an index per gallery), so that a
published figure means the same here.

Axes: Q queries, b a block of them, N records, n records of a gallery, V terms,
k results.

Source: ChunQiuTR release, sparse baseline; Okapi BM25 of rank_bm25 0.2.2
(k1 = 1.5, b = 0.75, epsilon = 0.25), which the tests compare with.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from ctd_jax.retrieval import host_search
from ctd_jax.retrieval.host_search import Galleries, TopK

TRACK = "T0"
SCORE_MODE = "lexical"
IDF_FLOOR_SHARE = 0.25  # share of the mean idf that replaces a negative idf
# CJK Unified Ideographs alone; the extension blocks do not count.
_NOT_HAN = re.compile("[^\u4e00-\u9fff]")
# (block of queries, rows of a gallery [n], BM25 [b, n]) -> scores [b, n].
RescoreFn = Callable[[slice, np.ndarray, np.ndarray], np.ndarray]
_EMPTY_TOKEN = "<empty>"  # of a text without Han characters


def tokenize_bigrams(text: str) -> list[str]:
  """Returns the characters of `text`, then its pairs of neighbours.

  Only U+4E00 to U+9FFF count. Pairs are formed after the others are dropped,
  so they reach across punctuation.
  """
  characters = _NOT_HAN.sub("", text)
  if not characters:
    return [_EMPTY_TOKEN]
  return [*characters, *map("".join, itertools.pairwise(characters))]


@dataclasses.dataclass(frozen=True)
class BM25Constants:
  """The two free constants of BM25; as published by default."""

  k1: float = 1.5  # saturation of the term frequency
  b: float = 0.75  # weight of the record's length, 0 to 1


PUBLISHED_CONSTANTS = BM25Constants()


@dataclasses.dataclass(frozen=True)
class TokenCounts:
  """Counts of each token in each text."""

  vocabulary: Mapping[str, int]  # token -> column
  counts: scipy.sparse.csr_array  # [N, V] float64

  def __len__(self) -> int:
    """Returns the number of texts N."""
    return self.counts.shape[0]

  @classmethod
  def from_texts(cls, texts: Sequence[str]) -> TokenCounts:
    """Returns the counts of `texts` [N] over the tokens they contain."""
    vocabulary: dict[str, int] = collections.defaultdict()
    vocabulary.default_factory = vocabulary.__len__
    rows = [
      [vocabulary[token] for token in tokenize_bigrams(text)] for text in texts
    ]
    return cls(dict(vocabulary), _count_matrix(rows, len(vocabulary)))

  def select_texts(self, members: Int[np.ndarray, " n"]) -> TokenCounts:
    """Returns the counts of the texts in the rows `members`."""
    return TokenCounts(self.vocabulary, self.counts[members])

  def encode_queries(self, queries: Sequence[str]) -> scipy.sparse.csr_array:
    """Returns the counts [Q, V] of known tokens in `queries`."""
    vocabulary = self.vocabulary
    rows = [
      [
        vocabulary[token]
        for token in tokenize_bigrams(query)
        if token in vocabulary
      ]
      for query in queries
    ]
    return _count_matrix(rows, len(vocabulary))


class BM25:
  """An index of texts: scores of any query for each of them."""

  def __init__(
    self,
    texts: Sequence[str] | TokenCounts,
    constants: BM25Constants = PUBLISHED_CONSTANTS,
  ):
    """Weighs every token of every text.

    Args:
      texts: [N] texts or their counts, at least one.
      constants: constants of the weights.
    """
    if not isinstance(texts, TokenCounts):
      texts = TokenCounts.from_texts(texts)
    counts = texts.counts
    num_texts, num_terms = counts.shape
    if num_texts == 0:
      raise ValueError("BM25 needs at least one text")
    self._tokens = texts
    text_rows = np.repeat(np.arange(num_texts), np.diff(counts.indptr))
    lengths = counts.sum(axis=1)
    k1, b = constants.k1, constants.b
    # weight = idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / mean |d|))
    damping = k1 * (1 - b + b * lengths / lengths.mean())
    idf = _idf(np.bincount(counts.indices, minlength=num_terms), num_texts)
    weights = counts.copy()
    weights.data = (
      idf[counts.indices]
      * counts.data
      * (k1 + 1)
      / (counts.data + damping[text_rows])
    )
    self._weights = weights.T.tocsr()

  def score_queries(
    self, queries: Sequence[str] | scipy.sparse.csr_array
  ) -> Float[np.ndarray, "Q N"]:
    """Returns the scores; a token that a query has twice counts twice.

    Args:
      queries: texts, or their counts from `TokenCounts.encode_queries`.
    """
    if not scipy.sparse.issparse(queries):
      queries = self._tokens.encode_queries(queries)
    return (queries @ self._weights).toarray().astype(np.float32)


def rank_by_bm25(
  queries: Sequence[str],
  records: Sequence[str] | TokenCounts,
  k: int,
  galleries: Galleries,
  constants: BM25Constants = PUBLISHED_CONSTANTS,
) -> TopK:
  """Returns the k best records by BM25, the index built again per gallery.

  Args:
    queries: [Q] texts.
    records: [N] texts or their counts.
    k: results per query.
    galleries: masks over the records.
    constants: constants of BM25.

  Returns:
    gallery -> (indices [Q, k], scores [Q, k]), see `TopK`.
  """
  return rank_by_rescored_bm25(
    queries, records, k, galleries, lambda *args: args[-1], constants
  )


def rank_by_rescored_bm25(
  queries: Sequence[str],
  records: Sequence[str] | TokenCounts,
  k: int,
  galleries: Galleries,
  rescore: RescoreFn,
  constants: BM25Constants = PUBLISHED_CONSTANTS,
) -> TopK:
  """Returns the k best records by BM25 scores that `rescore` has changed.

  Args:
    queries: [Q] texts.
    records: [N] texts or their counts.
    k: results per query.
    galleries: masks over the records.
    rescore: changes the scores of a block of queries.
    constants: constants of BM25.
  """
  token_counts = records
  if not isinstance(token_counts, TokenCounts):
    token_counts = TokenCounts.from_texts(records)
  query_counts = token_counts.encode_queries(queries)

  def make_scorer(members: np.ndarray):
    index = None  # of an empty gallery
    if len(members):
      index = BM25(token_counts.select_texts(members), constants)

    def score_block(start: int, stop: int) -> np.ndarray:
      if index is None:
        return np.zeros((stop - start, 0), np.float32)
      block = slice(start, stop)
      return rescore(block, members, index.score_queries(query_counts[block]))

    return score_block

  return host_search.search_top_k_by_gallery(
    make_scorer, len(queries), len(token_counts), k, galleries
  )


def _idf(
  frequency: Int[np.ndarray, " V"], num_texts: int
) -> Float[np.ndarray, " V"]:
  """Returns the weight of every term from the number of texts with it."""
  is_present = frequency > 0
  # Negative where more than half of the texts have the term.
  idf = np.log(num_texts - frequency + 0.5) - np.log(frequency + 0.5)
  # The mean is over the terms of this gallery, before any replacement.
  return np.where(
    is_present,
    np.where(idf < 0, IDF_FLOOR_SHARE * idf[is_present].mean(), idf),
    0.0,
  )


def _count_matrix(
  rows: Sequence[Sequence[int]], num_terms: int
) -> scipy.sparse.csr_array:
  """Returns the number of times each column is listed, [len(rows), terms]."""
  starts = np.cumsum([0, *map(len, rows)])
  columns = np.fromiter(itertools.chain.from_iterable(rows), np.int64)
  counts = scipy.sparse.csr_array(
    (np.ones(len(columns)), columns, starts), shape=(len(rows), num_terms)
  )
  counts.sum_duplicates()
  return counts
