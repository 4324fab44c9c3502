"""Link tables: the strongest links into every record, padded, and their ranks.

The tables are made once of the texts. Which links count depends on what is
hidden: `select_links` takes those that do.

Axes: N records, P pairs of a kind, n some records, k links kept of each, c
citations kept, w links to choose from, f features of a pair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Float16, Int, Int32, Integer

from ctd_jax.dating.corpus import UNKNOWN
from ctd_jax.dating.experts import citations
from ctd_jax.dating.experts.citation_pairs import CitationPairs
from ctd_jax.dating.experts.parallel_pairs import ParallelPairs
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.models.linked_inputs import NUM_KNOTS

# Links kept of a record, and of these the most that count at once.
_MAX_CITATIONS, _MAX_LINKS = 64, 20
MAX_COUNTED_CITATIONS, MAX_COUNTED_LINKS = 24, 10
# Quantiles of a feature at its knots: finer at the top, where overlaps that
# matter lie.
_QUANTILES = (0, 0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1)
_CONTEXT_CHARS = 12  # characters; texts that copy one another cite once
# Features of a citation that rank it: what its next twenty characters share
# with the event.
_RANKING_FEATURES = slice(0, 4)
_BLOCK = 65_536  # pairs whose ranks are made at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkTables:
  """Links of all records.

  Attributes:
    cited: rows of `citation_pairs` by event, the strongest first; UNKNOWN where
      there are fewer.
    parallels: rows of `parallel_pairs` by event, likewise.
    comments: rows of `comment_pairs` by event.
    commented: rows of `comment_pairs` by comment.
    ranks: of the features of the pairs [P, f], by kind: "cited", "parallels"
      and "comments".
    quantiles: of the features of all pairs, which the ranks lie between, by
      kind.
    contexts: of `citation_pairs`: equal where the words after them are.
  """

  cited: Int32[np.ndarray, "N c"]
  parallels: Int32[np.ndarray, "N k"]
  comments: Int32[np.ndarray, "N k"]
  commented: Int32[np.ndarray, "N k"]
  ranks: Mapping[str, Float16[np.ndarray, "_ _"]]
  quantiles: Mapping[str, Float[np.ndarray, "_ _"]]
  contexts: Int[np.ndarray, " P"]


def make_link_tables(features: CorpusFeatures) -> LinkTables:
  """Returns the tables of a corpus.

  Args:
    features: the texts and their pairs.
  """
  cited, parallels, comments = (
    features.citation_pairs,
    features.parallel_pairs,
    features.comment_pairs,
  )
  num_records = len(features.corpus)
  pair_features = _name_features(cited, parallels, comments)
  quantiles = {
    name: find_quantiles(values) for name, values in pair_features.items()
  }

  def tabulate(
    record: np.ndarray, pairs: ParallelPairs
  ) -> Int32[np.ndarray, "N k"]:
    return tabulate_pairs(
      record, pairs.overlap, pairs.pair_hashes, num_records, _MAX_LINKS
    )

  return LinkTables(
    cited=tabulate_citations(
      features.event_records[cited.event_index],
      cited,
      citations.hash_pairs(cited),
      num_records,
    ),
    parallels=tabulate(parallels.record_row, parallels),
    comments=tabulate(comments.event_row, comments),
    commented=tabulate(comments.record_row, comments),
    ranks=_rank_kinds(pair_features, quantiles),
    quantiles=quantiles,
    contexts=_number_contexts(cited),
  )


def make_event_tables(
  cited: CitationPairs,
  cited_hashes: Integer[np.ndarray, " P"],
  parallels: ParallelPairs,
  comments: ParallelPairs,
  quantiles: Mapping[str, Float[np.ndarray, "_ _"]],
) -> LinkTables:
  """Returns the tables of one event beside a corpus, row 0.

  Args:
    cited: citations beside it.
    cited_hashes: as of `citations.hash_pairs`.
    parallels: it beside events; `event_row` is theirs.
    comments: it beside comments; `event_row` is theirs.
    quantiles: of the tables of the corpus.
  """

  def tabulate(pairs: ParallelPairs) -> Int32[np.ndarray, "1 k"]:
    return tabulate_pairs(
      pairs.record_row, pairs.overlap, pairs.pair_hashes, 1, _MAX_LINKS
    )

  pair_features = _name_features(cited, parallels, comments)
  return LinkTables(
    cited=tabulate_citations(cited.event_index, cited, cited_hashes, 1),
    parallels=tabulate(parallels),
    comments=tabulate(comments),
    commented=np.full((1, _MAX_LINKS), UNKNOWN, np.int32),
    ranks=_rank_kinds(pair_features, quantiles),
    quantiles=quantiles,
    contexts=_number_contexts(cited),
  )


def _name_features(
  cited: CitationPairs, parallels: ParallelPairs, comments: ParallelPairs
) -> dict[str, Float[np.ndarray, "_ _"]]:
  """Returns the features of the pairs by the kinds of `LinkTables.ranks`."""
  return {
    "cited": cited.features,
    "parallels": parallels.features,
    "comments": comments.features,
  }


def _rank_kinds(
  features: Mapping[str, Float[np.ndarray, "_ _"]],
  quantiles: Mapping[str, Float[np.ndarray, "_ _"]],
) -> dict[str, Float16[np.ndarray, "_ _"]]:
  """Returns the ranks of the features of every kind."""
  return {
    name: rank_features(values, quantiles[name])
    for name, values in features.items()
  }


def tabulate_citations(
  record: Int[np.ndarray, " P"],
  cited: CitationPairs,
  pair_hashes: Integer[np.ndarray, " P"],
  num_records: int,
) -> Int32[np.ndarray, "N c"]:
  """Returns the strongest citations beside every event, as `tabulate_pairs`.

  Args:
    record: event of each pair.
    cited: the pairs.
    pair_hashes: that decide between pairs of one strength.
    num_records: number of records N.
  """
  strength = cited.features[:, _RANKING_FEATURES].sum(axis=1)
  return tabulate_pairs(
    record, strength, pair_hashes, num_records, _MAX_CITATIONS
  )


def tabulate_pairs(
  record: Int[np.ndarray, " P"],
  strength: Float[np.ndarray, " P"],
  pair_hashes: Integer[np.ndarray, " P"],
  num_records: int,
  width: int,
) -> Int32[np.ndarray, "N k"]:
  """Returns the strongest pairs of every record, UNKNOWN where there are fewer.

  Args:
    record: that each pair leads to.
    strength: of each pair.
    pair_hashes: that decide between pairs of one strength.
    num_records: number of records N.
    width: pairs kept of a record, k.
  """
  order = np.lexsort((pair_hashes, -strength, record))
  counts = np.bincount(record, minlength=num_records)
  starts = np.cumsum(counts) - counts
  rank = np.arange(len(order)) - starts[record[order]]
  is_kept = rank < width
  table = np.full((num_records, width), UNKNOWN, np.int32)
  table[record[order[is_kept]], rank[is_kept]] = order[is_kept]
  return table


def select_links(
  table: Int32[np.ndarray, "n w"], counts: Bool[np.ndarray, "n w"], width: int
) -> Int32[np.ndarray, "n k"]:
  """Returns the first links of each record that count.

  Args:
    table: pairs of some records, the strongest first.
    counts: which of them count.
    width: links kept of a record, k.
  """
  order = np.argsort(~counts, axis=1, kind="stable")[:, :width]
  selected = np.take_along_axis(np.where(counts, table, UNKNOWN), order, 1)
  missing = width - selected.shape[1]
  return np.pad(selected, ((0, 0), (0, max(missing, 0))), constant_values=-1)


def find_quantiles(
  features: Float[np.ndarray, "P f"],
) -> Float[np.ndarray, "_ f"]:
  """Returns the quantiles `_QUANTILES` of every feature; zeros without pairs.

  Args:
    features: of all pairs of a corpus.
  """
  if not len(features):
    return np.zeros((NUM_KNOTS, features.shape[1]))
  return np.quantile(features, _QUANTILES, axis=0)


def rank_features(
  features: Float[np.ndarray, "P f"], quantiles: Float[np.ndarray, "_ f"]
) -> Float16[np.ndarray, "P f"]:
  """Returns the rank of every feature among all pairs, 0 ... NUM_KNOTS - 1.

  Ranks are between the quantiles, linear from one to the next, so that a model
  of ranks fits corpora whose overlaps are of another size.

  Args:
    features: of some pairs.
    quantiles: of all, from `find_quantiles`.
  """
  result = np.zeros(features.shape, np.float16)
  knots = np.arange(NUM_KNOTS)
  for column, values in enumerate(quantiles.T):
    # Of equal quantiles the last stays.
    points, reverse_first = np.unique(values[::-1], return_index=True)
    ranks = knots[::-1][reverse_first]
    for start in range(0, len(features), _BLOCK):
      block = slice(start, start + _BLOCK)
      result[block, column] = np.interp(features[block, column], points, ranks)
  return result


def _number_contexts(citation_pairs: CitationPairs) -> np.ndarray:
  contexts = [
    citation.text_after[:_CONTEXT_CHARS]
    for citation in citation_pairs.citations
  ]
  _, numbers = np.unique(np.array(contexts, str), return_inverse=True)
  return numbers.reshape(-1)[citation_pairs.citation_index]
