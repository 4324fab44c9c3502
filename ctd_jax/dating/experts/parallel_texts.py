"""Records that tell or explain the same event share what is known of its date.

Why: the Annals, the three traditions and the comments on them tell one event in
words that few others have. A pair of a record and an event is given the chance
that both are of one month, of one year, or of neither, learned from pairs whose
months are known. `pooled` collects the evidence of an event's parallels for the
weights to use; `propagate` sends whole beliefs along the links. Called by
`dater`.

Pairs are many times the records, so that what is made of them is made of a
stretch of records or pairs at a time.

Axes: P pairs, p some of them, E events, n records asked about, b a block of
them, Y years.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse
from scipy.special import logsumexp

from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Axis, Gallery, Labels
from ctd_jax.dating.experts import shared_wording

SAME_MONTH, SAME_YEAR, NEAR, FAR = range(4)
POOLED = 5  # experts that `pooled` returns
_CANDIDATES = 20
_MOST_FAR = 25_000  # unrelated pairs to learn from
_SEASONS = 0.5  # weight of what linked records say of the month
_SURE = 0.9999  # no link is surer
_NEAR_YEARS = 3
_LEAST_POOLED = 0.1  # chance of one month below which a pair pools nothing
_LEAST_SENT = 0.03  # chance of one year below which a pair sends nothing
_CLOSE = 0.8  # share of the best overlap that makes a rival
_BLOCK = 65_536  # pairs whose features are made at once
_LINKS = 4096  # links whose messages are made at once


@dataclasses.dataclass(frozen=True)
class Pairs:
  """Records beside the events nearest in wording.

  Attributes:
    record: [P].
    event: index of the other record, an event, [P].
    features: of the pair, float32 [P, f].
    keys: made of the two texts, uint32 [P].
  """

  record: np.ndarray
  event: np.ndarray
  features: np.ndarray
  keys: np.ndarray


def pairs(
  gallery: Gallery,
  events: np.ndarray,
  words: shared_wording.Wording,
  rows: np.ndarray,
  texts: list[str],
) -> Pairs:
  """Returns `rows` beside the events nearest in wording, never themselves.

  Args:
    gallery: the texts.
    events: records that are events, ascending, [E].
    words: wording of those events.
    rows: records, [n].
    texts: what of them to compare, [n].
  """
  place = np.minimum(np.searchsorted(events, rows), max(len(events) - 1, 0))
  itself = np.full(len(rows), UNKNOWN)
  if len(events):
    itself = np.where(events[place] == rows, place, UNKNOWN)
  found, top, weight, best_of_event = _nearest(words, texts, itself)
  left, right, value = found
  close = value >= _CLOSE * top[left]
  rivals = np.bincount(left, weights=close, minlength=len(rows))
  ranks, own = _ranks(left, value), words.own_weight
  record, event = rows[left].astype(np.int32), events[right].astype(np.int32)
  cues = (gallery.first_month, 0), (gallery.first_day, -1), (gallery.number, 0)

  def features(pairs: slice) -> list[np.ndarray]:
    one, other, shared = left[pairs], right[pairs], value[pairs]
    made = [
      np.log1p(shared),
      shared / (top[one] + 5),
      shared / (best_of_event[other] + 5),
      shared / (weight[one] + 5),
      shared / (own[other] + 5),
      np.log1p(rivals[one]),
      ranks[pairs],
      np.log1p(weight[one]),
      np.log1p(own[other]),
      ~close[pairs],
    ]
    for cue, none in cues:
      both = cue[record[pairs]], cue[event[pairs]]
      told = (both[0] != none) & (both[1] != none)
      same = both[0] == both[1]
      made += [told & same, told & ~same]
    return made

  keys = gallery.keys[record] * np.uint32(31) + gallery.keys[event]
  return Pairs(record, event, stacked(features, len(record)), keys)


def _nearest(
  words: shared_wording.Wording, texts: list[str], itself: np.ndarray
):
  """Returns the pairs of texts and events, and what all their overlaps tell.

  Args:
    words: wording of the events.
    texts: what to compare, [n].
    itself: event that each text is of, or UNKNOWN, [n].

  Returns:
    Text, event and overlap of each pair, [P]; the greatest overlap and the
    weight of each text, [n]; the greatest overlap of each event, [E].
  """
  top, weight = np.zeros((2, len(texts)), np.float32)
  best_of_event = np.zeros(words.events.shape[0], np.float32)
  found = [(np.zeros(0, np.int32),) * 2 + (np.zeros(0, np.float32),)]
  for part, (held,) in words.stretches(texts):
    overlap = _without(words.overlap(held), itself[part])
    left, right, value = shared_wording.best(overlap, _CANDIDATES)
    found.append((left + np.int32(part.start), right, value))
    top[part], weight[part] = shared_wording.row_max(overlap), held @ words.idf
    np.maximum.at(best_of_event, overlap.indices, overlap.data)
  pairs = [np.concatenate(each) for each in zip(*found, strict=True)]
  return pairs, top, weight, best_of_event


def stacked(
  features: Callable[[slice], list[np.ndarray]], size: int
) -> np.ndarray:
  """Returns the features of `size` pairs, float32 [P, f], made in stretches.

  Args:
    features: gives f columns of a stretch of the pairs.
    size: number of pairs, P.
  """
  result = np.zeros((size, len(features(slice(0, 0)))), np.float32)
  for start in range(0, size, _BLOCK):
    part = slice(start, start + _BLOCK)
    result[part] = np.stack(features(part), axis=1)
  return result


def _ranks(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
  """Returns how many pairs of the same row have a greater value, [P].

  Args:
    rows: ascending.
    values: falling within each row.
  """
  places = np.arange(len(rows), dtype=np.int32)
  fresh = np.diff(rows, prepend=-1) != 0
  steps = fresh | (np.diff(values, prepend=np.inf) != 0)
  level = np.maximum.accumulate(np.where(steps, places, 0))
  return level - np.maximum.accumulate(np.where(fresh, places, 0))


def _without(overlap, itself: np.ndarray):
  """Returns the overlap without one event of each row, UNKNOWN for none."""
  owner = np.repeat(itself, np.diff(overlap.indptr))
  overlap.data[overlap.indices == owner] = 0
  overlap.eliminate_zeros()
  return overlap


def fit(
  axis: Axis, found: Pairs, labels: Labels, asked: np.ndarray
) -> np.ndarray:
  """Returns the chance of SAME_MONTH, SAME_YEAR, NEAR, FAR, float32 [p, 4].

  Args:
    axis: the years.
    found: the pairs.
    labels: the known months; pairs of two known records teach.
    asked: which pairs are asked about, [p].
  """
  one, other = labels.month[found.record], labels.month[found.event]
  known = np.flatnonzero((one != UNKNOWN) & (other != UNKNOWN))
  one, other = one[known], other[known]
  years = np.abs(axis.year_of[one] - axis.year_of[other])
  kind = np.select(
    [one == other, years == 0, years <= _NEAR_YEARS],
    [SAME_MONTH, SAME_YEAR, NEAR],
    FAR,
  )
  kept, weights = regression.thin(kind == FAR, found.keys[known], _MOST_FAR)
  model = regression.Binned.fit(
    found.features[known[kept]], kind[kept], 4, weights
  )
  return model.probability(found.features[asked])


@dataclasses.dataclass(frozen=True)
class Graph:
  """Links among the records asked about.

  Attributes:
    target: place of the record that receives, [P].
    source: place of the record that sends, [P].
    month: chance that both are of one month, float32 [P].
    year: chance that both are of one year, that month included, float32 [P].
    size: number of records asked about, n.
  """

  target: np.ndarray
  source: np.ndarray
  month: np.ndarray
  year: np.ndarray
  size: int


def graph(
  axis: Axis, found: Pairs, labels: Labels, places: np.ndarray, size: int
) -> Graph:
  """Returns the links between records that are asked about.

  Args:
    axis: the years.
    found: the pairs; each links the record to the event.
    labels: the known months, from which the chances are learned.
    places: place of every record among those asked about, or UNKNOWN, [N].
    size: number of records asked about.
  """
  target, source = places[found.record], places[found.event]
  asked = np.flatnonzero((target != UNKNOWN) & (source != UNKNOWN))
  chance = fit(axis, found, labels, asked)
  year = chance[:, SAME_MONTH] + chance[:, SAME_YEAR]
  kept = year > _LEAST_SENT
  asked = asked[kept]
  return Graph(
    target[asked], source[asked], chance[kept, SAME_MONTH], year[kept], size
  )


def join(one: Graph, other: Graph) -> Graph:
  """Returns both sets of links among the same records."""
  return Graph(
    np.concatenate([one.target, other.target]),
    np.concatenate([one.source, other.source]),
    np.concatenate([one.month, other.month]),
    np.concatenate([one.year, other.year]),
    one.size,
  )


def reverse(links: Graph) -> Graph:
  """Returns the links with sender and receiver exchanged."""
  return dataclasses.replace(links, target=links.source, source=links.target)


def shares(links: Graph) -> scipy.sparse.csr_array:
  """Returns the chances of one month worth pooling, sparse [n, n].

  Args:
    links: among the records asked about.
  """
  kept = links.month > _LEAST_POOLED
  return scipy.sparse.coo_array(
    (links.month[kept], (links.target[kept], links.source[kept])),
    shape=(links.size, links.size),
  ).tocsr()


def pooled(
  share: scipy.sparse.csr_array,
  cited: Sequence[scipy.sparse.csr_array],
  words: np.ndarray,
  cues: np.ndarray,
  places: np.ndarray,
) -> np.ndarray:
  """Returns the scores of some records' parallels, float32 [POOLED, b, Y].

  They are: the best citation of a parallel, the best citation of a parallel
  above the first step, the cues of the parallels, how much the first exceeds
  the record's own, and the mean words of record and parallels.

  Args:
    share: from `shares`, [n, n].
    cited: scores of all records' citations, `citations.SCORES` of [n, Y].
    words: weighted scores of their words, [n, Y].
    cues: log ratios of years by their cues, [n, Y].
    places: of the records to score, [b].
  """
  share = share[places]
  parallels = 1 + np.asarray(share.sum(axis=1)).reshape(-1, 1)
  result = np.zeros((POOLED, len(places), words.shape[1]), np.float32)
  held = np.flatnonzero(np.diff(share.indptr))
  if len(held):
    starts, source = share.indptr[held], share.indices
    chance = share.data[:, None]
    logs = cues[source]
    belief = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    belief *= words.shape[1]
    best = np.minimum(cited[0][source].toarray(), 25)
    best = np.log1p(chance * np.expm1(best))
    result[0, held] = np.maximum.reduceat(best, starts)
    above = chance * cited[3][source].toarray()
    result[1, held] = np.maximum.reduceat(above, starts)
    told = np.log1p(chance * (belief - 1))
    result[2, held] = np.add.reduceat(told, starts)
  result[2] /= np.sqrt(parallels)
  result[3] = np.maximum(result[0] - cited[0][places].toarray(), 0)
  result[4] = (words[places] + share @ words) / parallels
  return result


def seasons(links: Graph, months: np.ndarray) -> np.ndarray:
  """Returns what linked records say of the month of the year, [n, 12].

  Log ratios: the Annals may name the month of an event that a tradition tells
  without one.

  Args:
    links: among the records.
    months: chance of each month of the year by a record's own cues, [n, 12].
  """
  received = np.zeros_like(months)
  for start in range(0, len(links.target), _BLOCK):
    block = slice(start, start + _BLOCK)
    chance = np.minimum(links.month[block, None], _SURE)
    message = np.log1p(chance * (12 * months[links.source[block]] - 1))
    np.add.at(received, links.target[block], message)
  senders = np.bincount(links.target, weights=links.month, minlength=links.size)
  received *= _SEASONS / np.sqrt(1 + senders[:, None])
  # What a record says of its own month needs no help.
  return np.where(months.max(axis=1, keepdims=True) > 0.5, 0, received)


def propagate(
  links: Graph, scores: np.ndarray, prior: np.ndarray, weight: float
) -> np.ndarray:
  """Returns scores of years with what linked records believe, [n, Y].

  Each link sends log(1 - c + c * belief / prior), c the chance of one year. A
  record's messages are averaged with itself, so that ten copies do not count
  ten times.

  Args:
    links: among the records.
    scores: of years, log and up to a constant, [n, Y].
    prior: chance of each year, [Y].
    weight: of the messages.
  """
  belief = scores - logsumexp(scores, axis=1, keepdims=True)
  np.exp(belief, out=belief)
  belief /= prior
  received = np.zeros_like(scores)
  for start in range(0, len(links.target), _LINKS):
    block = slice(start, start + _LINKS)
    chance = np.minimum(links.year[block, None], _SURE)
    message = np.log1p(chance * (belief[links.source[block]] - 1))
    np.add.at(received, links.target[block], message)
  senders = np.bincount(links.target, weights=links.year, minlength=links.size)
  received *= weight / (1 + senders[:, None])
  received += scores
  return received
