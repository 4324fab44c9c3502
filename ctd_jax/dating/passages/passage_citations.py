"""Citations of a passage: commentary that names a year beside its wording.

A citation is compared with the passage as with the events of the corpus, and
the passage takes its place among the events nearest to it.

Axes: M citations, N records, H citing records whose month is hidden, R reigns,
P pairs of a citation and the passage, Y years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Float32, Int

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels
from ctd_jax.dating.experts import citation_pairs as pair_lib
from ctd_jax.dating.experts import citations
from ctd_jax.dating.month_axis import MonthAxis
from ctd_jax.dating.passages import passage_pairs
from ctd_jax.dating.passages.text_table import TextTable
from ctd_jax.dating.passages.wording_index import PassageWording


@dataclasses.dataclass(frozen=True, eq=False)
class PassageCitations:
  """Citations of a corpus, as far as they date passages.

  Attributes:
    numbers: host, document, reign, preceding reign and number of the year of
      each citation; of a text from outside the host is UNKNOWN.
    marks: character before each, and 經 or 傳 after it.
    texts_after: text after each.
    texts_before: text before each.
    starts: where the events beside each citation begin in the lists below.
    events: beside the citations.
    overlaps: of these, by `citation_pairs.CONTEXTS`.
    model: chance that a pair is of one year.
    year_prior: chance of each year.
    undated_hosts: citing records whose month is hidden, ascending.
    reign_chances: chance of each ruler for them.
  """

  numbers: Int[np.ndarray, "M 5"]
  marks: np.ndarray
  texts_after: TextTable
  texts_before: TextTable
  starts: Int[np.ndarray, " starts"]
  events: Int[np.ndarray, " Q"]
  overlaps: Float32[np.ndarray, "Q 6"]
  model: regression.BinnedSoftmax
  year_prior: Float[np.ndarray, " Y"]
  undated_hosts: Int[np.ndarray, " H"]
  reign_chances: Float[np.ndarray, "H R"]

  @classmethod
  def from_fitted(
    cls, fitted: citations.FittedCitations, documents: Int[np.ndarray, " M"]
  ) -> PassageCitations:
    """Returns the citations of a fitted expert.

    Args:
      fitted: of the corpus.
      documents: that each citation stands in.
    """
    features = fitted.features
    pairs, cited = features.citation_pairs, features.citation_pairs.citations
    # A pair stands once for every reading; its overlaps are the same.
    _, once = np.unique(
      pairs.citation_index.astype(np.int64) * len(features.corpus)
      + pairs.event_index,
      return_index=True,
    )
    overlaps = np.stack(list(pairs.overlaps.values()), axis=1)[once]
    counts = np.bincount(pairs.citation_index[once], minlength=len(cited))
    numbers = [
      (each.host, document, each.reign, each.preceding_reign, each.year_number)
      for each, document in zip(cited, documents.tolist(), strict=True)
    ]
    marks = [(each.preceding_character, each.work_marker) for each in cited]
    return cls(
      numbers=np.array(numbers, np.int32).reshape(-1, 5),
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
    rank = pair_lib.rank_overlaps(values)
    is_out = np.isin(self.numbers[:, 0], list(excluded))
    near = np.flatnonzero((rank > 0) & ~is_out)
    lists = self._list_overlaps(near, excluded)
    num_greater = passage_pairs.count_greater(
      pair_lib.rank_overlaps(lists), rank[near]
    )
    is_near = num_greater < pair_lib.NUM_CANDIDATES
    near = near[is_near]
    values = {name: value[near] for name, value in values.items()}
    lists = {name: value[is_near] for name, value in lists.items()}
    best = {
      name: np.maximum(value, lists[name].max(axis=1, initial=0))
      for name, value in values.items()
    }
    num_rivals = {
      name: pair_lib.is_rival(lists[name], best[name][:, None]).sum(axis=1)
      + pair_lib.is_rival(values[name], best[name])
      for name in pair_lib.RIVAL_CONTEXTS
    }
    weights = np.full(len(near), wording.total_weight, np.float32)
    return near, pair_lib.make_overlap_features(
      values, best, num_rivals, weights
    )

  def _list_overlaps(
    self, rows: np.ndarray, excluded: Collection[int]
  ) -> dict[str, np.ndarray]:
    """Returns the overlaps of citations with the events beside them."""
    starts = self.starts[rows]
    sizes = self.starts[rows + 1] - starts
    position = np.arange(max(int(sizes.max(initial=0)), 1))
    is_entry = position < sizes[:, None]
    index = np.where(is_entry, starts[:, None] + position, 0)
    if not len(self.events):
      zeros = np.zeros(index.shape, np.float32)
      return dict.fromkeys(pair_lib.CONTEXTS, zeros)
    is_entry &= ~np.isin(self.events[index], list(excluded))
    overlaps = self.overlaps[index] * is_entry[..., None]
    return dict(
      zip(pair_lib.CONTEXTS, np.moveaxis(overlaps, 2, 0), strict=True)
    )

  def read_citation(self, row: int) -> pair_lib.Citation:
    """Returns a citation, without all of the text that it stands in."""
    host, _, reign, preceding_reign, number = self.numbers[row].tolist()
    return pair_lib.Citation(
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
    """Returns the citations of a larger corpus, no text from outside.

    Args:
      new_rows: row there of each record, ascending.
      num_records: number of records there.
    """
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
    """Returns the years that citations give the passage.

    Args:
      axis: the years.
      passage: read as a corpus of one.
      wording: of it.
      document_overlap: from `wording`.
      months: of the labelled records, UNKNOWN for the others.
      excluded: records that play no part.
    """
    near, overlap_features = self._find_nearest(
      wording, document_overlap, excluded
    )
    pairs = pair_lib.pair_citations(
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
  """What citations say of a passage.

  Attributes:
    scores: `citations.NUM_SCORES` sparse [1, Y].
    citations: of each pair.
    chances: that each pair is of one year.
    years: that each means, UNKNOWN where the ruler is not sure.
  """

  scores: Sequence[scipy.sparse.csr_array]
  citations: Sequence[pair_lib.Citation]
  chances: Float[np.ndarray, " P"]
  years: Int[np.ndarray, " P"]

  def explain(self, axis: MonthAxis, year: int) -> tuple[tuple[int, ...], str]:
    """Returns the citing records of a year, the surest first, and a note.

    Args:
      axis: the years.
      year: index of the year.
    """
    is_cited = self.chances > citations.MIN_CHANCE
    is_cited &= citations.may_cite(axis, self.citations, self.years, year)
    order = np.flatnonzero(is_cited)
    order = order[np.argsort(-self.chances[order], kind="stable")]
    hosts = [self.citations[pair].host for pair in order.tolist()]
    return (
      tuple(dict.fromkeys(host for host in hosts if host != UNKNOWN)),
      citations.note_citations(
        [self.citations[pair] for pair in order.tolist()], self.chances[order]
      ),
    )
