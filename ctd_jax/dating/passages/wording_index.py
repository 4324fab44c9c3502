"""Wording index: which records hold the rare strings of a passage.

It is to one passage what `shared_wording.EventStringIndex` is to a whole
corpus, with the same strings and weights: a passage is weighed as one event
more among those of the index.

Axes: D documents (N records, then texts from outside), V strings, v those of a
passage, P postings, M citations.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float32, Int, UInt8, UInt64

from ctd_jax.dating.experts import citation_pairs, ngrams, shared_wording

_MAX_COMMENTS_PER_STRING = 2000  # that may hold a string for it to count there
_TEXTS_PER_BLOCK = 20_000  # whose strings are held at once
_STRINGS_PER_BLOCK = 2**17  # whose postings are weighed at once
_MAX_TEXTS_READ_ONCE = 100_000  # more are read twice, to save memory
# Bit of every context of a citation but the whole text, in a mask.
CONTEXT_BITS = {
  name: 1 << bit for bit, name in enumerate(citation_pairs.CONTEXTS[:-1])
}


@dataclasses.dataclass(frozen=True, eq=False)
class WordingIndex:
  """Strings of a corpus, and the documents that hold each.

  Attributes:
    hashes: of the strings, ascending.
    event_counts: events that hold each string.
    starts: where the postings of each string begin; the last entry is their
      number. A string that too many events hold has none.
    documents: that hold a string, ascending within each.
    citation_starts: likewise of the citations.
    citations: that have a string near them.
    contexts: in which of the contexts, CONTEXT_BITS.
    is_event: whether a document is an event.
  """

  hashes: UInt64[np.ndarray, " V"]
  event_counts: Int[np.ndarray, " V"]
  starts: Int[np.ndarray, " starts"]
  documents: Int[np.ndarray, " P"]
  citation_starts: Int[np.ndarray, " starts"]
  citations: Int[np.ndarray, " Q"]
  contexts: UInt8[np.ndarray, " Q"]
  is_event: Bool[np.ndarray, " D"]

  def read_wording(
    self, text: str, excluded: Collection[int] = ()
  ) -> PassageWording:
    """Returns the strings of a passage, weighed as of one event more.

    Args:
      text: of the passage, plain and without its date.
      excluded: documents that play no part.
    """
    hashes = ngrams.hash_strings(text, shared_wording.LENGTHS)
    position = np.searchsorted(self.hashes, hashes)
    position = np.minimum(position, max(len(self.hashes) - 1, 0))
    is_found = np.zeros(len(hashes), bool)
    if len(self.hashes):
      is_found = self.hashes[position] == hashes
    string = np.flatnonzero(is_found)
    column = position[is_found]
    entry, document = _gather(self.starts, self.documents, column)
    excluded_rows = np.array(sorted(excluded), np.int64)
    is_excluded = np.isin(document, excluded_rows)
    counts = np.zeros(len(hashes), np.int64)
    counts[string] = self.event_counts[column]
    leaves = is_excluded & self.is_event[document]
    np.subtract.at(counts, string[entry[leaves]], 1)
    num_events = int(self.is_event.sum()) - int(
      self.is_event[excluded_rows].sum()
    )
    weights = shared_wording.weigh_strings(counts + 1, num_events + 1)
    return PassageWording(
      index=self,
      weights=weights,
      string=string,
      column=column,
      entry=string[entry[~is_excluded]],
      document=document[~is_excluded],
    )


@dataclasses.dataclass(frozen=True, eq=False)
class PassageWording:
  """Strings of a passage.

  Attributes:
    index: of the corpus.
    weights: of the strings, 0 for those that do not count.
    string: those of the strings that the index has.
    column: of these in the index.
    entry: string of each posting.
    document: of each posting.
  """

  index: WordingIndex
  weights: Float32[np.ndarray, " v"]
  string: Int[np.ndarray, " s"]
  column: Int[np.ndarray, " s"]
  entry: Int[np.ndarray, " p"]
  document: Int[np.ndarray, " p"]

  @property
  def total_weight(self) -> float:
    """Weight of all strings."""
    return float(self.weights.sum())

  def overlap_documents(self) -> Float32[np.ndarray, " D"]:
    """Returns the weight of the strings shared with each document."""
    return np.bincount(
      self.document, self.weights[self.entry], len(self.index.is_event)
    ).astype(np.float32)

  def overlap_known(
    self, is_known: Bool[np.ndarray, " D"]
  ) -> tuple[Float32[np.ndarray, " D"], float]:
    """Returns the weight shared with some events, and of all strings.

    Weighed as if these were the only events.

    Args:
      is_known: which documents count, events alone.
    """
    counted = np.flatnonzero(is_known[self.document])
    counts = np.bincount(self.entry[counted], minlength=len(self.weights))
    # What too many events hold has no postings.
    counts = np.where(self.weights > 0, counts, shared_wording.MAX_EVENTS)
    weights = shared_wording.weigh_strings(counts + 1, int(is_known.sum()) + 1)
    overlap = np.bincount(
      self.document[counted],
      weights[self.entry[counted]],
      len(self.index.is_event),
    )
    return overlap.astype(np.float32), float(weights.sum())

  def overlap_citations(
    self, num_citations: int
  ) -> dict[str, Float32[np.ndarray, " M"]]:
    """Returns the weight shared with each citation, by nearer context.

    Args:
      num_citations: number of citations, M.
    """
    index = self.index
    entry, citation = _gather(
      index.citation_starts, index.citations, self.column
    )
    _, mask = _gather(index.citation_starts, index.contexts, self.column)
    weights = self.weights[self.string[entry]]
    return {
      name: np.bincount(
        citation, weights * ((mask & bit) > 0), num_citations
      ).astype(np.float32)
      for name, bit in CONTEXT_BITS.items()
    }


def build_wording_index(
  texts: Sequence[str],
  is_event: Bool[np.ndarray, " D"],
  citations: Sequence[citation_pairs.Citation],
  min_texts: int = 1,
) -> WordingIndex:
  """Returns the strings of documents and citations.

  Args:
    texts: plain, of the documents; of events without their dates.
    is_event: whether a document is an event.
    citations: in the documents, [M].
    min_texts: documents that must hold a string for it to be kept.
  """
  lengths = shared_wording.LENGTHS
  strings = ngrams.collect_ngrams(texts, lengths)
  strings = strings.select_columns(
    np.flatnonzero(strings.text_counts >= min_texts)
  )
  event_counts = strings.text_counts.astype(np.int32)
  if not is_event.all():
    events = ngrams.collect_ngrams(
      [text for text, is_one in zip(texts, is_event, strict=True) if is_one],
      lengths,
    )
    event_counts = _look_up(strings.hashes, events)
  is_kept = event_counts <= shared_wording.MAX_EVENTS
  # Of a string that more comments hold, events alone have postings.
  is_common = strings.text_counts - event_counts > _MAX_COMMENTS_PER_STRING

  def read_block(start: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns strings and documents of some texts, by string."""
    matrix = strings.encode(texts[start : start + _TEXTS_PER_BLOCK])
    rows = np.repeat(
      np.arange(start, start + matrix.shape[0], dtype=np.int32),
      np.diff(matrix.indptr),
    )
    has_posting = is_kept[matrix.indices] & (
      ~is_common[matrix.indices] | is_event[rows]
    )
    columns, rows = matrix.indices[has_posting], rows[has_posting]
    order = np.argsort(columns, kind="stable")
    return columns[order], rows[order]

  if len(texts) <= _MAX_TEXTS_READ_ONCE:
    read_block = functools.cache(read_block)
  starts, documents = _invert_blocks(
    read_block, range(0, len(texts), _TEXTS_PER_BLOCK), len(strings)
  )
  citation_starts, cited, contexts = _invert_contexts(strings, citations)
  return WordingIndex(
    hashes=strings.hashes,
    event_counts=event_counts,
    starts=starts,
    documents=documents,
    citation_starts=citation_starts,
    citations=cited,
    contexts=contexts,
    is_event=is_event,
  )


def _look_up(hashes: np.ndarray, events: ngrams.NgramVocabulary) -> np.ndarray:
  """Returns how many events hold each of the strings."""
  result = np.zeros(len(hashes), np.int32)
  position = np.searchsorted(hashes, events.hashes)
  position = np.minimum(position, max(len(hashes) - 1, 0))
  if len(hashes):
    is_kept = hashes[position] == events.hashes
    result[position[is_kept]] = events.text_counts[is_kept]
  return result


def _invert_blocks(
  read_block: Callable[[int], tuple[np.ndarray, np.ndarray]],
  block_starts: Sequence[int],
  num_columns: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns starts of the strings and the documents of each, ascending.

  The blocks are read twice, so that no more than the result and one block is
  held.

  Args:
    read_block: gives strings, ascending, and the document of each.
    block_starts: of the blocks.
    num_columns: number of strings.
  """
  starts = np.zeros(num_columns + 1, np.int64)
  for start in block_starts:
    columns, _ = read_block(start)
    starts[1:] += np.bincount(columns, minlength=num_columns)
  np.cumsum(starts, out=starts)
  documents = np.zeros(int(starts[-1]), np.int32)
  free = starts[:-1].copy()  # where the next document of a string goes
  for start in block_starts:
    columns, rows = read_block(start)
    unique, first, counts = np.unique(
      columns, return_index=True, return_counts=True
    )
    rank = np.arange(len(columns)) - np.repeat(first, counts)
    documents[free[columns] + rank] = rows
    free[unique] += counts
  return starts, documents


def _invert_contexts(
  strings: ngrams.NgramVocabulary,
  citations: Sequence[citation_pairs.Citation],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns starts of the strings, and citations and contexts of each."""
  mask = scipy.sparse.csr_array((len(citations), len(strings)), dtype="f4")
  for name, contexts in citation_pairs.cut_contexts(citations).items():
    mask = mask + CONTEXT_BITS[name] * strings.encode(contexts)
  rows = np.repeat(
    np.arange(len(citations), dtype=np.int32), np.diff(mask.indptr)
  )
  order = np.argsort(mask.indices, kind="stable")
  starts = np.zeros(len(strings) + 1, np.int64)
  np.cumsum(np.bincount(mask.indices, minlength=len(strings)), out=starts[1:])
  return starts, rows[order], mask.data[order].astype(np.uint8)


def _gather(
  starts: np.ndarray, values: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the postings of columns: index into these, and value."""
  spans = zip(
    starts[columns].tolist(), starts[columns + 1].tolist(), strict=True
  )
  blocks = [values[start:stop] for start, stop in spans]
  sizes = [len(block) for block in blocks]
  entry = np.repeat(np.arange(len(columns)), sizes)
  return entry, np.concatenate([values[:0], *blocks])


def weigh_texts(index: WordingIndex) -> Float32[np.ndarray, " D"]:
  """Returns the weight of all strings of every document.

  Args:
    index: of the documents.
  """
  num_events = int(index.is_event.sum())
  weights = shared_wording.weigh_strings(
    np.maximum(index.event_counts, 1), num_events
  )
  # A string that no event holds is in no other text of the kind.
  weights = np.where(index.event_counts > 0, weights, 0)
  result = np.zeros(len(index.is_event))
  for start in range(0, len(weights), _STRINGS_PER_BLOCK):
    stop = min(start + _STRINGS_PER_BLOCK, len(weights))
    starts = index.starts[start : stop + 1]
    result += np.bincount(
      index.documents[starts[0] : starts[-1]],
      np.repeat(weights[start:stop], np.diff(starts)),
      len(result),
    )
  return result.astype(np.float32)
