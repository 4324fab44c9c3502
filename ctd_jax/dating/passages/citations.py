"""Wording, pairs and citations of one passage against those of a corpus.

Axes: M citations, N records, D documents (the records, then texts from
outside), V strings, v those of a passage, H citing records whose month is
hidden, R reigns, P pairs or postings, Y years.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Float32, Int, UInt8, UInt64

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import (
  UNKNOWN,
  Corpus,
  Labels,
  MonthAxis,
  find_sorted,
)
from ctd_jax.dating.experts import citations, wording
from ctd_jax.dating.experts import pairs as pairs_lib
from ctd_jax.dating.experts.pairs import ParallelPairs

# Wording index: which records hold the rare strings of a passage.
#
# It is to one passage what `wording.EventStringIndex` is to a whole
# corpus, with the same strings and weights: a passage is weighed as one event
# more among those of the index.

_MAX_COMMENTS_PER_STRING = 2000  # that may hold a string for it to count there
_TEXTS_PER_BLOCK = 20_000  # whose strings are held at once
_STRINGS_PER_BLOCK = 2**17  # whose postings are weighed at once
_MAX_TEXTS_READ_ONCE = 100_000  # more are read twice, to save memory
# Bit of every context of a citation but the whole text, in a mask.
CONTEXT_BITS = {
  name: 1 << bit for bit, name in enumerate(pairs_lib.CONTEXTS[:-1])
}


@dataclasses.dataclass(frozen=True, eq=False)
class WordingIndex:
  """Strings of a corpus, and the documents that hold each."""

  hashes: UInt64[np.ndarray, " V"]  # of the strings, ascending
  event_counts: Int[np.ndarray, " V"]  # events that hold each string
  # Where the postings of each string begin; the last entry is their number. A
  # string that too many events hold has none.
  starts: Int[np.ndarray, " starts"]
  documents: Int[np.ndarray, " P"]  # that hold a string, ascending within each
  citation_starts: Int[np.ndarray, " starts"]  # likewise of the citations
  citations: Int[np.ndarray, " Q"]  # that have a string near them
  contexts: UInt8[np.ndarray, " Q"]  # in which of the contexts, CONTEXT_BITS
  is_event: Bool[np.ndarray, " D"]  # whether a document is an event

  def read_wording(
    self, text: str, excluded: Collection[int] = ()
  ) -> PassageWording:
    """Returns the strings of a plain passage, weighed as one more event."""
    hashes = wording.hash_strings(text, wording.LENGTHS)
    position, is_found = find_sorted(self.hashes, hashes)
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
    return PassageWording(
      index=self,
      weights=wording.weigh_strings(counts + 1, num_events + 1),
      string=string,
      column=column,
      entry=string[entry[~is_excluded]],
      document=document[~is_excluded],
    )


@dataclasses.dataclass(frozen=True, eq=False)
class PassageWording:
  """Strings of a passage."""

  index: WordingIndex  # of the corpus
  # Of the strings, 0 for those that do not count.
  weights: Float32[np.ndarray, " v"]
  string: Int[np.ndarray, " s"]  # those of the strings that the index has
  column: Int[np.ndarray, " s"]  # of these in the index
  entry: Int[np.ndarray, " p"]  # string of each posting
  document: Int[np.ndarray, " p"]  # of each posting

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
    """Returns the weight shared with known events, and of all strings."""
    counted = np.flatnonzero(is_known[self.document])
    counts = np.bincount(self.entry[counted], minlength=len(self.weights))
    # What too many events hold has no postings.
    counts = np.where(self.weights > 0, counts, wording.MAX_EVENTS)
    weights = wording.weigh_strings(counts + 1, int(is_known.sum()) + 1)
    overlap = np.bincount(
      self.document[counted],
      weights[self.entry[counted]],
      len(self.index.is_event),
    )
    return overlap.astype(np.float32), float(weights.sum())

  def overlap_citations(
    self, num_citations: int
  ) -> dict[str, Float32[np.ndarray, " M"]]:
    """Returns the weight shared with each citation, by nearer context."""
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
  citations: Sequence[pairs_lib.Citation],
  min_texts: int = 1,
) -> WordingIndex:
  """Returns the strings of documents and citations.

  Args:
    texts: plain texts; those of events without their dates.
    min_texts: number of documents that must contain a string to keep it.
  """
  lengths = wording.LENGTHS
  strings = wording.collect_ngrams(texts, lengths)
  strings = strings.select_columns(
    np.flatnonzero(strings.text_counts >= min_texts)
  )
  event_counts = strings.text_counts.astype(np.int32)
  if not is_event.all():
    events = wording.collect_ngrams(
      [text for text, is_one in zip(texts, is_event, strict=True) if is_one],
      lengths,
    )
    event_counts = _look_up(strings.hashes, events)
  is_kept = event_counts <= wording.MAX_EVENTS
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


def _look_up(hashes: np.ndarray, events: wording.NgramVocabulary) -> np.ndarray:
  """Returns the number of events that contain each string."""
  result = np.zeros(len(hashes), np.int32)
  position, is_kept = find_sorted(hashes, events.hashes)
  result[position[is_kept]] = events.text_counts[is_kept]
  return result


def _invert_blocks(
  read_block: Callable[[int], tuple[np.ndarray, np.ndarray]],
  block_starts: Sequence[int],
  num_columns: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns starts of the strings and the documents of each, ascending."""
  # The blocks are read twice, so that no more than the result and one block is
  # held.
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
  strings: wording.NgramVocabulary,
  citations: Sequence[pairs_lib.Citation],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns starts of the strings, and citations and contexts of each."""
  mask = scipy.sparse.csr_array((len(citations), len(strings)), dtype="f4")
  for name, contexts in pairs_lib.cut_contexts(citations).items():
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
  entry = np.repeat(np.arange(len(columns)), [len(block) for block in blocks])
  return entry, np.concatenate([values[:0], *blocks])


def weigh_texts(index: WordingIndex) -> Float32[np.ndarray, " D"]:
  """Returns the weight of all strings of every document."""
  num_events = int(index.is_event.sum())
  weights = wording.weigh_strings(np.maximum(index.event_counts, 1), num_events)
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


# Text table: many texts as one array of bytes, so that it can be mapped.


@dataclasses.dataclass(frozen=True, eq=False)
class TextTable:
  """Texts by number."""

  # Where each text begins; the last entry is the end of all.
  starts: Int[np.ndarray, " starts"]
  content: UInt8[np.ndarray, " bytes"]  # the texts in UTF-8, one after another

  @classmethod
  def from_texts(cls, texts: Sequence[str]) -> TextTable:
    """Returns the table of some texts."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    starts = list(itertools.accumulate(map(len, encoded), initial=0))
    content = np.frombuffer(b"".join(encoded), np.uint8)
    return cls(np.array(starts, np.int64), content)

  def __len__(self) -> int:
    return len(self.starts) - 1

  def __getitem__(self, row: int) -> str:
    span = slice(int(self.starts[row]), int(self.starts[row + 1]))
    return self.content[span].tobytes().decode("utf-8", "surrogatepass")


# Pairs of a passage and the records that share its wording.
# The features are those of `pairs`, with the same meaning: the passage counts
# as one more event of the corpus.

_ROUNDING = 1e-5  # of an overlap


@dataclasses.dataclass(frozen=True, eq=False)
class BestOverlaps:
  """Greatest overlap of every event with a record, and the next."""

  # Greatest and second, 0 without one.
  values: Float32[np.ndarray, "N 2"]
  # That has the greatest, -1 without one.
  records: Int[np.ndarray, " N"]

  @classmethod
  def from_pairs(
    cls,
    pairs: ParallelPairs,
    num_records: int,
    is_counted: Bool[np.ndarray, " N"] | None = None,
  ) -> BestOverlaps:
    """Returns the greatest overlaps among pairs whose records count."""
    if is_counted is not None:
      pairs = pairs.take(is_counted[pairs.record_row])
    values = np.zeros((num_records, 2), np.float32)
    records = np.full(num_records, -1, np.int32)
    order = np.lexsort((-pairs.overlap, pairs.event_row))
    event = pairs.event_row[order]
    rank = np.arange(len(order))
    rank = rank - np.searchsorted(event, event)
    for column in range(2):
      chosen = order[rank == column]
      values[pairs.event_row[chosen], column] = pairs.overlap[chosen]
      if column == 0:
        records[pairs.event_row[chosen]] = pairs.record_row[chosen]
    return cls(values, records)

  def renumber(
    self, new_rows: Int[np.ndarray, " n"], num_records: int
  ) -> BestOverlaps:
    """Returns the overlaps in a larger corpus; see `RecordTable.renumber`."""
    values = np.zeros((num_records, 2), np.float32)
    records = np.full(num_records, -1, np.int32)
    values[new_rows] = self.values
    records[new_rows] = np.where(
      self.records < 0, -1, new_rows[np.maximum(self.records, 0)]
    )
    return BestOverlaps(values, records)

  def best_of(
    self, events: Int[np.ndarray, " P"], excluded: Collection[int]
  ) -> Float32[np.ndarray, " P"]:
    """Returns the greatest overlap of events with records that count."""
    is_out = np.isin(self.records[events], list(excluded))
    return np.where(is_out, self.values[events, 1], self.values[events, 0])


@dataclasses.dataclass(frozen=True, eq=False)
class RecordTable:
  """Features of the records that pairs read."""

  first_month: Int[np.ndarray, " N"]  # that a record prints, 0 if none
  first_day: Int[np.ndarray, " N"]  # likewise, -1 if none
  opening_year: Int[np.ndarray, " N"]  # likewise, 0 if none
  weights: Float32[np.ndarray, " D"]  # of all strings of each document
  best_overlaps: BestOverlaps  # of events with events
  best_known: BestOverlaps  # of known events with those that teach
  # Where the events of each record begin in the lists below; only commentary
  # has any.
  comment_starts: Int[np.ndarray, " starts"]
  # Events paired with a comment, those of greatest overlap first.
  comment_events: Int[np.ndarray, " Q"]
  comment_overlaps: Float32[np.ndarray, " Q"]  # overlap with these

  def renumber(
    self,
    new_rows: Int[np.ndarray, " n"],
    num_records: int,
    weights: Float32[np.ndarray, " D"],
  ) -> RecordTable:
    """Returns the table of a larger corpus, these records in `new_rows`."""

    def spread(values: np.ndarray, missing_value: int) -> np.ndarray:
      result = np.full(num_records, missing_value, np.int32)
      result[new_rows] = values
      return result

    sizes = spread(np.diff(self.comment_starts), 0)
    return RecordTable(
      first_month=spread(self.first_month, 0),
      first_day=spread(self.first_day, -1),
      opening_year=spread(self.opening_year, 0),
      weights=weights,
      best_overlaps=self.best_overlaps.renumber(new_rows, num_records),
      best_known=self.best_known.renumber(new_rows, num_records),
      comment_starts=np.concatenate([[0], np.cumsum(sizes)]),
      comment_events=new_rows[self.comment_events].astype(np.int32),
      comment_overlaps=self.comment_overlaps,
    )

  def pair_events(
    self,
    passage: Corpus,
    overlap: Float32[np.ndarray, " D"],
    total_weight: float,
    best_overlaps: BestOverlaps,
    excluded: Collection[int],
  ) -> ParallelPairs:
    """Returns the passage paired with the events nearest in wording."""
    _, events, values = wording.select_top_entries(
      scipy.sparse.csr_array(overlap[None]), pairs_lib.NUM_CANDIDATES
    )
    size, best = len(events), values.max(initial=0)
    columns = pairs_lib.make_overlap_columns(
      overlap=values,
      max_overlap=np.full(size, best, np.float32),
      max_event_overlap=np.maximum(
        values, best_overlaps.best_of(events, excluded)
      ),
      text_weight=np.full(size, total_weight, np.float32),
      event_weight=self.weights[events],
      num_rivals=np.full(
        size, (overlap >= max(pairs_lib.RIVAL_SHARE * best, 1e-9)).sum()
      ),
      rank=pairs_lib.rank_within_rows(np.zeros(size, int), values),
    )
    columns += self._agree(passage, events)
    return _make_pairs(events, columns)

  def pair_comments(
    self,
    passage: Corpus,
    overlap: Float32[np.ndarray, " D"],
    total_weight: float,
    excluded: Collection[int],
  ) -> ParallelPairs:
    """Returns the comments that have the passage among their nearest events."""
    comments = np.flatnonzero(overlap[: len(self.first_month)])
    best_of_passage = overlap[comments].max(initial=0)
    values = overlap[comments]
    # [c, 20]: overlap of every comment with the events beside it.
    lists = _pad_overlaps(
      self.comment_starts,
      self.comment_events,
      self.comment_overlaps,
      comments,
      excluded,
    )
    num_greater = count_greater(lists, values)
    is_near = num_greater < pairs_lib.NUM_CANDIDATES
    comments, values, lists = comments[is_near], values[is_near], lists[is_near]
    best = np.maximum(values, lists.max(axis=1, initial=0))
    least = pairs_lib.RIVAL_SHARE * best
    columns = pairs_lib.make_overlap_columns(
      overlap=values,
      max_overlap=best,
      max_event_overlap=np.full(len(values), best_of_passage, np.float32),
      text_weight=self.weights[comments],
      event_weight=np.full(len(values), total_weight, np.float32),
      num_rivals=(lists >= least[:, None]).sum(axis=1) + (values >= least),
      rank=num_greater[is_near],
    )
    columns += self._agree(passage, comments)
    return _make_pairs(comments, columns)

  def _agree(self, passage: Corpus, rows: np.ndarray) -> list[np.ndarray]:
    return pairs_lib.compare_dates(
      passage, np.zeros(len(rows), int), self, rows
    )


def list_comment_events(
  pairs: ParallelPairs, num_records: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns starts, events and overlaps of the events paired with comments."""
  order = np.lexsort((-pairs.overlap, pairs.record_row))
  counts = np.bincount(pairs.record_row, minlength=num_records)
  return (
    np.concatenate([[0], np.cumsum(counts)]),
    pairs.event_row[order].astype(np.int32),
    pairs.overlap[order].astype(np.float32),
  )


def _pad_overlaps(
  starts: np.ndarray,
  events: np.ndarray,
  overlaps: np.ndarray,
  rows: np.ndarray,
  excluded: Collection[int],
) -> np.ndarray:
  """Returns the overlaps of rows with the events paired with them, or 0."""
  if not len(events):
    return np.zeros((len(rows), 1, *overlaps.shape[1:]), np.float32)
  sizes = starts[rows + 1] - starts[rows]
  position = np.arange(max(int(sizes.max(initial=0)), 1))
  is_entry = position < sizes[:, None]
  index = np.where(is_entry, starts[rows][:, None] + position, 0)
  padded = overlaps[index]
  padded[~is_entry | np.isin(events[index], list(excluded))] = 0
  return padded


def count_greater(
  lists: Float32[np.ndarray, "n k"], values: Float32[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
  """Returns the number of paired events that share more with each text."""
  # Events with the same wording share the same weight except for rounding,
  # since the weights of their strings are added in different orders.
  return (lists > (1 + _ROUNDING) * values[:, None]).sum(axis=1)


def _make_pairs(events: np.ndarray, columns: list[np.ndarray]) -> ParallelPairs:
  """Returns pairs of row 0 and `events`."""
  return ParallelPairs(
    record_row=np.zeros(len(events), np.int32),
    event_row=events.astype(np.int32),
    features=np.stack(columns, axis=1).astype(np.float32),
    pair_hashes=np.zeros(len(events), np.uint32),
  )


@dataclasses.dataclass(frozen=True, eq=False)
class PassageCitations:
  """Citations of a corpus, as far as they date passages."""

  # Host, document, reign, preceding reign and number of the year of each
  # citation; of a text from outside the host is UNKNOWN.
  numbers: Int[np.ndarray, "M 5"]
  marks: np.ndarray  # character before each, and 經 or 傳 after it
  texts_after: TextTable  # text after each
  texts_before: TextTable  # text before each
  # Where the events beside each citation begin in the lists below.
  starts: Int[np.ndarray, " starts"]
  events: Int[np.ndarray, " Q"]  # beside the citations
  overlaps: Float32[np.ndarray, "Q 6"]  # of these, by `pairs.CONTEXTS`
  model: regression.BinnedSoftmax  # chance that a pair is from the same year
  year_prior: Float[np.ndarray, " Y"]  # chance of each year
  # Citing records whose month is hidden, ascending.
  undated_hosts: Int[np.ndarray, " H"]
  reign_chances: Float[np.ndarray, "H R"]  # chance of each ruler for them

  @classmethod
  def from_fitted(
    cls, fitted: citations.FittedCitations, documents: Int[np.ndarray, " M"]
  ) -> PassageCitations:
    """Returns the citations of a fitted expert, each in its document."""
    features = fitted.features
    pairs, cited = features.citation_pairs, features.citation_pairs.citations
    hosts, *numbers = pairs_lib.number_citations(cited)
    # A pair stands once for every reading; its overlaps are the same.
    _, once = np.unique(
      pairs.citation_index.astype(np.int64) * len(features.corpus)
      + pairs.event_index,
      return_index=True,
    )
    overlaps = np.stack(list(pairs.overlaps.values()), axis=1)[once]
    counts = np.bincount(pairs.citation_index[once], minlength=len(cited))
    marks = [(each.preceding_character, each.work_marker) for each in cited]
    return cls(
      numbers=np.stack([hosts, documents, *numbers], axis=1).astype(np.int32),
      marks=np.array(marks, "<U1").reshape(-1, 2),
      texts_after=TextTable.from_texts([each.text_after for each in cited]),
      texts_before=TextTable.from_texts([each.text_before for each in cited]),
      starts=np.concatenate([[0], np.cumsum(counts)]),
      events=features.event_records[pairs.event_index[once]].astype(np.int32),
      overlaps=overlaps.astype(np.float32),
      model=fitted.model,
      year_prior=fitted.hosts.year_prior,
      undated_hosts=fitted.hosts.undated,
      reign_chances=fitted.hosts.reign_chances,
    )

  def _find_nearest(
    self,
    wording: PassageWording,
    document_overlap: np.ndarray,
    excluded: Collection[int],
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the citations near to the passage, and features of the pairs."""
    if not len(self.numbers):
      return np.zeros(0, int), np.zeros((0, 16), np.float32)
    values = wording.overlap_citations(len(self.numbers))
    values["whole"] = document_overlap[self.numbers[:, 1]]
    rank = pairs_lib.rank_overlaps(values)
    is_out = np.isin(self.numbers[:, 0], list(excluded))
    near = np.flatnonzero((rank > 0) & ~is_out)
    overlaps = _pad_overlaps(
      self.starts, self.events, self.overlaps, near, excluded
    )
    lists = dict(
      zip(pairs_lib.CONTEXTS, np.moveaxis(overlaps, 2, 0), strict=True)
    )
    num_greater = count_greater(pairs_lib.rank_overlaps(lists), rank[near])
    is_near = num_greater < pairs_lib.NUM_CITED_EVENTS
    near = near[is_near]
    values = {name: value[near] for name, value in values.items()}
    lists = {name: value[is_near] for name, value in lists.items()}
    best = {
      name: np.maximum(value, lists[name].max(axis=1, initial=0))
      for name, value in values.items()
    }
    num_rivals = {
      name: pairs_lib.is_rival(lists[name], best[name][:, None]).sum(axis=1)
      + pairs_lib.is_rival(values[name], best[name])
      for name in pairs_lib.RIVAL_CONTEXTS
    }
    weights = np.full(len(near), wording.total_weight, np.float32)
    return near, pairs_lib.make_overlap_features(
      values, best, num_rivals, weights
    )

  def read_citation(self, row: int) -> pairs_lib.Citation:
    """Returns a citation, without all of the text that it is in."""
    host, _, reign, preceding_reign, number = self.numbers[row].tolist()
    return pairs_lib.Citation(
      host=host,
      reign=reign,
      preceding_reign=preceding_reign,
      year_number=number,
      text_after=self.texts_after[row],
      text_before=self.texts_before[row],
      host_text="",
      span=(0, 0),
      preceding_character=str(self.marks[row, 0]),
      work_marker=str(self.marks[row, 1]),
    )

  def renumber(
    self, new_rows: Int[np.ndarray, " n"], num_records: int
  ) -> PassageCitations:
    """Returns the citations for a larger corpus; see `RecordTable.renumber`."""
    numbers = self.numbers.copy()
    is_inside = numbers[:, 0] != UNKNOWN
    numbers[is_inside, 0] = new_rows[numbers[is_inside, 0]]
    numbers[:, 1] = np.where(is_inside, numbers[:, 0], num_records)
    return dataclasses.replace(
      self,
      numbers=numbers,
      events=new_rows[self.events].astype(np.int32),
      undated_hosts=new_rows[self.undated_hosts],
    )

  def score(
    self,
    axis: MonthAxis,
    passage: Corpus,
    wording: PassageWording,
    document_overlap: Float32[np.ndarray, " D"],
    months: Int[np.ndarray, " N"],
    excluded: Collection[int] = (),
  ) -> CitedYears:
    """Returns the years that citations give the passage."""
    near, overlap_features = self._find_nearest(
      wording, document_overlap, excluded
    )
    pairs = pairs_lib.pair_citations(
      passage,
      np.array([0]),
      np.array([wording.total_weight], np.float32),
      [self.read_citation(row) for row in near.tolist()],
      rows=np.arange(len(near), dtype=np.int32),
      columns=np.zeros(len(near), np.int32),
      overlap_features=overlap_features,
    )
    chances = self.model.predict_probability(pairs.features)[:, 1]
    labels = Labels(months, months)
    scores = citations.score_years(
      axis,
      pairs,
      pair_rows=np.arange(len(chances)),
      pair_chances=chances,
      hosts=citations.HostTimes(
        labels=labels,
        year_prior=self.year_prior,
        undated=self.undated_hosts,
        reign_chances=self.reign_chances,
      ),
      event_rows=np.array([0]),
    )
    return CitedYears(
      scores=scores,
      citations=[pairs.citations[index] for index in pairs.citation_index],
      chances=chances,
      years=citations.resolve_years(axis, pairs, labels),
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CitedYears:
  """Evidence from citations about a passage."""

  # `citations.NUM_SCORES` sparse [1, Y].
  scores: Sequence[scipy.sparse.csr_array]
  citations: Sequence[pairs_lib.Citation]  # of each pair
  chances: Float[np.ndarray, " P"]  # that each pair is from the same year
  # That each means, UNKNOWN if the ruler is not sure.
  years: Int[np.ndarray, " P"]
