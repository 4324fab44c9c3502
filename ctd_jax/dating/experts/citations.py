"""Citations: years that commentary names next to the events it describes.

Axes: M citations, P pairs of a citation's reading and an event, p some of them,
E events, n events scored, H citing records whose month is hidden, R reigns,
Y years.
"""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int, UInt32
from scipy.special import logsumexp

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Labels, MonthAxis
from ctd_jax.dating.experts import base
from ctd_jax.dating.experts.base import CorpusFeatures
from ctd_jax.dating.experts.pairs import (
  HOST_REIGN,
  NAMED_REIGN,
  Citation,
  CitationPairs,
  number_citations,
)
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note

NUM_SCORES = 5  # the scores of `score_years`
# Indices of two of them.
BEST, BEST_ABOVE_FIRST_STEP = 0, 3
_MAX_NOTED = 3  # citations that a note names
_CONTEXT_CHARS = 12  # characters; texts that copy one another cite once
_MAX_NEGATIVE_PAIRS = 25_000  # pairs of another year to learn from
MIN_CHANCE = 0.005  # chance below which a pair is left out
# Log ratios above which a score may count differently.
_LOG_RATIO_STEPS = (4.0, 7.0)
_HASH_MULTIPLIER = np.uint32(31)  # of a pair's event


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HostTimes:
  """Known times of records, including those of records that cite."""

  labels: Labels  # known months
  year_prior: Float[np.ndarray, " Y"]  # chance of each year
  # Citing records whose month is hidden, ascending.
  undated: Int[np.ndarray, " H"]
  # Chance of each ruler for them, by their words.
  reign_chances: Float[np.ndarray, "H R"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedCitations:
  """Citations with the chance that each dates the event paired with it."""

  features: CorpusFeatures  # the texts and the pairs
  model: regression.BinnedSoftmax  # chance that a pair is from the same year
  use_undated_reigns: bool  # whether years without a ruler count
  hosts: HostTimes  # citing records
  name = "cited"

  def sparse_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> list[scipy.sparse.csr_array]:
    """Returns the NUM_SCORES of `score_years` for ascending rows."""
    event_rows, pair_rows = self._find_pairs(rows)
    return score_years(
      self.features.axis,
      self.features.citation_pairs,
      pair_rows=pair_rows,
      pair_chances=self._predict_chances(pair_rows),
      hosts=self.hosts,
      event_rows=event_rows,
    )

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the citing records of a year, the surest first."""
    pairs = self.features.citation_pairs
    _, pair_rows = self._find_pairs(np.array([row]))
    chances = self._predict_chances(pair_rows)
    years = resolve_years(self.features.axis, pairs, self.hosts.labels)[
      pair_rows
    ]
    cited = [pairs.citations[pairs.citation_index[pair]] for pair in pair_rows]
    linked_rows, noted = explain_citations(
      self.features.axis, cited, chances, years, year
    )
    return base.Evidence(
      linked_rows=linked_rows, note=notes.write(noted, notes.ENGLISH)
    )

  def _find_pairs(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the place of each event in `rows` [E], and the pairs of these."""
    row_of_record = np.full(len(self.features.corpus), UNKNOWN)
    row_of_record[rows] = np.arange(len(rows))
    event_rows = row_of_record[self.features.event_records]
    event_index = self.features.citation_pairs.event_index
    return event_rows, np.flatnonzero(event_rows[event_index] != UNKNOWN)

  def _predict_chances(self, pair_rows: np.ndarray) -> np.ndarray:
    """Returns the chance that each pair is from the same year, [p]."""
    pairs = self.features.citation_pairs
    chances = self.model.predict_probability(pairs.features[pair_rows])[:, 1]
    if self.use_undated_reigns:
      return chances
    return np.where(pairs.reading[pair_rows] == NAMED_REIGN, chances, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Citations:
  """The expert of cited years."""

  use_undated_reigns: bool = True  # whether cited years without a ruler count
  name = "cited"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedCitations:
    """Returns the citations with their chances; see `base.Expert`."""
    axis, pairs = features.axis, features.citation_pairs
    year_prior = peers["prior"].chances
    hosts = np.unique([citation.host for citation in pairs.citations])
    hosts = hosts.astype(int)
    hosts = hosts[hosts != UNKNOWN]
    hosts = hosts[~labels.is_known[hosts] & ~features.is_event[hosts]]
    log_beliefs = np.zeros((len(hosts), axis.num_years), np.float32)
    if "words" in peers:
      log_beliefs = peers["words"].year_scores(hosts)
    log_beliefs = log_beliefs + np.log(year_prior)
    beliefs = np.exp(
      log_beliefs - logsumexp(log_beliefs, axis=1, keepdims=True)
    )
    return FittedCitations(
      features=features,
      model=fit_citation_model(axis, pairs, labels, features.event_records),
      use_undated_reigns=self.use_undated_reigns,
      hosts=HostTimes(
        labels=labels,
        year_prior=year_prior,
        undated=hosts,
        reign_chances=beliefs @ axis.has_reign,
      ),
    )


def resolve_years(
  axis: MonthAxis, citation_pairs: CitationPairs, labels: Labels
) -> np.ndarray:
  """Returns the year index that each reading means, UNKNOWN if uncertain."""
  hosts, named_reigns, preceding_reigns, year_numbers = number_citations(
    citation_pairs.citations
  )
  # Index UNKNOWN (-1) is the appended month: texts from outside have none.
  host_months = np.append(labels.month, UNKNOWN)[hosts]
  host_reigns = np.where(
    host_months == UNKNOWN,
    UNKNOWN,
    axis.reign[axis.year_of[np.maximum(host_months, 0)]],
  )
  # [3, M], rows in the order of the readings.
  reigns = np.stack([named_reigns, preceding_reigns, host_reigns])
  return axis.year_index(
    reigns[citation_pairs.reading, citation_pairs.citation_index],
    year_numbers[citation_pairs.citation_index],
  )


def explain_citations(
  axis: MonthAxis,
  cited: Sequence[Citation],
  chances: Float[np.ndarray, " p"],
  years: Int[np.ndarray, " p"],
  year: int,
) -> tuple[tuple[int, ...], tuple[Note, ...]]:
  """Returns the citing records of a year, the surest first, and notes."""
  # Without a ruler a citation may mean the year of any.
  numbers = axis.regnal_years[axis.regnal_years[:, 2] == year, 1]
  *_, number_of = number_citations(cited)
  is_cited = (years == year) | (years == UNKNOWN) & np.isin(number_of, numbers)
  order = np.flatnonzero(is_cited & (chances > MIN_CHANCE))
  order = order[np.argsort(-chances[order], kind="stable")]
  hosts, shown = [], {}
  for pair in order.tolist():
    citation = cited[pair]
    hosts += [citation.host] * (citation.host != UNKNOWN)
    # A year may come last, after its event.
    words = citation.text_after[:_CONTEXT_CHARS]
    words = words or citation.text_before[-_CONTEXT_CHARS:]
    words = f"「{words}」" if words else ""
    note = Note("note.text.year", number=citation.year_number, words=words)
    shown.setdefault(note)
  noted = list(shown)[:_MAX_NOTED]
  if rest := len(shown) - len(noted):
    noted.append(Note("note.text.rest", number=rest))
  return tuple(dict.fromkeys(hosts)), tuple(noted)


def fit_citation_model(
  axis: MonthAxis,
  citation_pairs: CitationPairs,
  labels: Labels,
  event_records: Int[np.ndarray, " E"],
) -> regression.BinnedSoftmax:
  """Returns a model of the chance that an event falls in the year cited."""
  years = resolve_years(axis, citation_pairs, labels)
  event_months = labels.month[event_records][citation_pairs.event_index]
  training_pairs = np.flatnonzero(
    (years != UNKNOWN) & (event_months != UNKNOWN)
  )
  is_same_year = (
    axis.year_of[event_months[training_pairs]] == years[training_pairs]
  )
  # Pairs of another year swamp those of the same: a sample of them is enough.
  sample, weights = regression.subsample_examples(
    ~is_same_year,
    hash_pairs(citation_pairs)[training_pairs],
    _MAX_NEGATIVE_PAIRS,
  )
  return regression.BinnedSoftmax.fit(
    citation_pairs.features[training_pairs[sample]],
    is_same_year[sample].astype(int),
    2,
    weights,
  )


def hash_pairs(citation_pairs: CitationPairs) -> UInt32[np.ndarray, " P"]:
  """Returns numbers made of the texts of each pair."""
  contexts = np.array(
    [
      zlib.crc32(each.undated_host_text.encode())
      for each in citation_pairs.citations
    ],
    np.uint32,
  )
  event_hashes = citation_pairs.event_hashes * _HASH_MULTIPLIER
  return contexts[citation_pairs.citation_index] + event_hashes


def score_years(
  axis: MonthAxis,
  citation_pairs: CitationPairs,
  *,
  pair_rows: Int[np.ndarray, " p"],
  pair_chances: Float[np.ndarray, " p"],
  hosts: HostTimes,
  event_rows: Int[np.ndarray, " E"],
) -> list[scipy.sparse.csr_array]:
  """Returns the NUM_SCORES scores of years, sparse float32 [n, Y].

  `event_rows` is the row of each event in the result, UNKNOWN if not scored.
  """
  years = resolve_years(axis, citation_pairs, hosts.labels)[pair_rows]
  is_likely = pair_chances > MIN_CHANCE
  resolved_rows = np.flatnonzero((years != UNKNOWN) & is_likely)
  unresolved_rows = np.flatnonzero((years == UNKNOWN) & is_likely)
  expanded_rows, expanded_years, reign_shares = _expand_host_reigns(
    axis, citation_pairs, pair_rows[unresolved_rows], hosts
  )
  pair = np.concatenate([resolved_rows, unresolved_rows[expanded_rows]])
  year = np.concatenate([years[resolved_rows], expanded_years])
  value = np.concatenate(
    [
      pair_chances[resolved_rows],
      pair_chances[unresolved_rows[expanded_rows]] * reign_shares,
    ]
  )
  is_scored = (year != UNKNOWN) & (value >= MIN_CHANCE)
  pair, year, value = pair[is_scored], year[is_scored], value[is_scored]
  # Citations with the same words after them are copies of one.
  _, context = np.unique(
    [
      citation.text_after[:_CONTEXT_CHARS]
      for citation in citation_pairs.citations
    ],
    return_inverse=True,
  )
  return _rank_citations(
    event_rows[citation_pairs.event_index[pair_rows[pair]]],
    year,
    context[citation_pairs.citation_index[pair_rows[pair]]],
    value,
    hosts.year_prior,
    int((event_rows != UNKNOWN).sum()),
  )


def _expand_host_reigns(
  axis: MonthAxis,
  citation_pairs: CitationPairs,
  pair_rows: np.ndarray,
  hosts: HostTimes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns every year that a citation of an undated record may mean."""
  # The year has no ruler, so it is every ruler's, by the chance that the record
  # falls in the ruler's time.
  host_records, *_, year_numbers = number_citations(citation_pairs.citations)
  undated_rows = np.flatnonzero(
    (citation_pairs.reading[pair_rows] == HOST_REIGN)
    & np.isin(host_records, hosts.undated)[
      citation_pairs.citation_index[pair_rows]
    ]
  )
  citation_index = citation_pairs.citation_index[pair_rows[undated_rows]]
  all_reigns = np.arange(axis.num_reigns)
  # [pairs, R], flattened below.
  years = axis.year_index(all_reigns, year_numbers[citation_index, None])
  shares = hosts.reign_chances[
    np.searchsorted(hosts.undated, host_records[citation_index])
  ]
  return np.repeat(undated_rows, len(all_reigns)), years.ravel(), shares.ravel()


def _rank_citations(
  row: np.ndarray,
  year: np.ndarray,
  context: np.ndarray,
  chance: np.ndarray,
  prior: np.ndarray,
  num_rows: int,
) -> list[scipy.sparse.csr_array]:
  """Returns the scores of citations of a year, one for each context."""
  # Of each (row, year, context) the surest citation is first, and alone stays.
  order = np.lexsort((-chance, context, year, row))
  group_keys = np.stack([row, year, context])[:, order]
  order = order[np.any(np.diff(group_keys, axis=1, prepend=-1), axis=0)]
  # Then by falling chance within each (row, year).
  order = order[np.lexsort((-chance[order], year[order], row[order]))]
  row, year, chance = row[order], year[order], chance[order]
  ratios = np.log1p(chance / (prior[year] * np.maximum(1 - chance, 0.01)))
  # A group is a (row, year); `rank` counts within it from 0.
  is_new_group = np.diff(row * len(prior) + year, prepend=-1) != 0
  starts = np.flatnonzero(is_new_group)
  group = np.cumsum(is_new_group) - 1
  rank = np.arange(len(group)) - starts[group]
  best_ratios = ratios[starts]
  values = [
    best_ratios,
    np.bincount(group, ratios * (rank == 1), len(starts)),
    np.bincount(group, ratios * (rank > 1), len(starts)),
    *(np.maximum(best_ratios - step, 0) for step in _LOG_RATIO_STEPS),
  ]
  return [
    scipy.sparse.coo_array(
      (column.astype(np.float32), (row[starts], year[starts])),
      shape=(num_rows, len(prior)),
    ).tocsr()
    for column in values
  ]
