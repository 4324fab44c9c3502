"""Records that tell or explain the same event share what is known of its date.

Why: the Annals, the three traditions and the comments on them tell one event in
words that few others have. A pair of a record and an event is given the chance
that both are of one month, of one year, or of neither, learned from pairs whose
months are known. `pooled` collects the evidence of an event's parallels for the
weights to use; `propagate` sends whole beliefs along the links. Called by
`dater`.

Axes: P pairs, E events, n records asked about, Y years.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse
from scipy.special import logsumexp

from ctd_jax.dating import regression, wording
from ctd_jax.dating.gallery import UNKNOWN, Axis, Gallery, Labels

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
  words: wording.Wording,
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
  held = words.encode(texts)
  overlap = words.overlap(held)
  place = np.minimum(np.searchsorted(events, rows), max(len(events) - 1, 0))
  itself = events[place] == rows if len(events) else np.zeros(0, bool)
  overlap = _without(overlap, np.flatnonzero(itself), place[itself])
  left, right = wording.best(overlap, _CANDIDATES)
  value = wording.entries(overlap, left, right)
  top, best_of_event = (
    wording.row_max(overlap),
    wording.row_max(overlap.T.tocsr()),
  )
  weight, own = held @ words.idf, words.own_weight
  close = value >= _CLOSE * top[left]
  rivals = np.bincount(left, weights=close, minlength=len(rows))
  ranks = _ranks(left, value)
  features = [
    np.log1p(value),
    value / (top[left] + 5),
    value / (best_of_event[right] + 5),
    value / (weight[left] + 5),
    value / (own[right] + 5),
    np.log1p(rivals[left]),
    ranks,
    np.log1p(weight[left]),
    np.log1p(own[right]),
    ~close,
  ]
  record, event = rows[left], events[right]
  day = np.array([days[0] if days else -1 for days in gallery.days], int)
  for cue, none in ((gallery.first_month, 0), (day, -1), (gallery.number, 0)):
    both = (cue[record] != none) & (cue[event] != none)
    same = cue[record] == cue[event]
    features += [both & same, both & ~same]
  keys = gallery.keys[record] * np.uint32(31) + gallery.keys[event]
  return Pairs(
    record, event, np.stack(features, axis=1).astype(np.float32), keys
  )


def _ranks(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
  """Returns how many pairs of the same row have a greater value, [P].

  Args:
    rows: ascending.
    values: falling within each row.
  """
  places = np.arange(len(rows))
  fresh = np.diff(rows, prepend=-1) != 0
  steps = fresh | (np.diff(values, prepend=np.inf) != 0)
  level = np.maximum.accumulate(np.where(steps, places, 0))
  return level - np.maximum.accumulate(np.where(fresh, places, 0))


def _without(matrix, rows, columns):
  """Returns a sparse matrix without the entries at the given places."""
  matrix = matrix.tocoo()
  width = max(matrix.shape[1], 1)
  keys = matrix.row.astype(np.int64) * width + matrix.col
  kept = ~np.isin(keys, rows.astype(np.int64) * width + columns)
  return scipy.sparse.coo_array(
    (matrix.data[kept], (matrix.row[kept], matrix.col[kept])),
    shape=matrix.shape,
  ).tocsr()


def fit(axis: Axis, found: Pairs, labels: Labels) -> np.ndarray:
  """Returns the chance of SAME_MONTH, SAME_YEAR, NEAR, FAR, float32 [P, 4].

  Args:
    axis: the years.
    found: the pairs.
    labels: the known months; pairs of two known records teach.
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
  return model.probability(found.features)


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
  found: Pairs, chance: np.ndarray, places: np.ndarray, size: int
) -> Graph:
  """Returns the links between records that are asked about.

  Comments receive from events and send to them; events likewise.

  Args:
    found: the pairs; each links the record to the event.
    chance: from `fit`, [P, 4].
    places: place of every record among those asked about, or UNKNOWN, [N].
    size: number of records asked about.
  """
  year = chance[:, SAME_MONTH] + chance[:, SAME_YEAR]
  target, source = places[found.record], places[found.event]
  kept = (target != UNKNOWN) & (source != UNKNOWN) & (year > _LEAST_SENT)
  return Graph(
    target[kept], source[kept], chance[kept, SAME_MONTH], year[kept], size
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


def pooled(
  links: Graph, cited: np.ndarray, words: np.ndarray, cues: np.ndarray
) -> np.ndarray:
  """Returns the scores of each record's parallels, float32 [POOLED, n, Y].

  They are: the best citation of a parallel, the best citation of a parallel
  above the first step, the cues of the parallels, how much the first exceeds
  the record's own, and the mean words of record and parallels.

  Args:
    links: among the records asked about.
    cited: scores of their citations, [citations.SCORES, n, Y].
    words: weighted scores of their words, [n, Y].
    cues: log ratios of years by their cues, [n, Y].
  """
  kept = links.month > _LEAST_POOLED
  target, source, month = (
    links.target[kept],
    links.source[kept],
    links.month[kept],
  )
  share = scipy.sparse.coo_array(
    (month, (target, source)), shape=(links.size, links.size)
  ).tocsr()
  parallels = 1 + np.asarray(share.sum(axis=1)).reshape(-1, 1)
  belief = np.exp(cues - logsumexp(cues, axis=1, keepdims=True))
  belief *= cues.shape[1]
  result = np.zeros((POOLED, *words.shape), np.float32)
  for one, other, chance in zip(target, source, month, strict=True):
    ratio = np.log1p(chance * np.expm1(np.minimum(cited[0, other], 25)))
    result[0, one] = np.maximum(result[0, one], ratio)
    result[1, one] = np.maximum(result[1, one], chance * cited[3, other])
    result[2, one] += np.log1p(chance * (belief[other] - 1))
  result[2] /= np.sqrt(parallels)
  result[3] = np.maximum(result[0] - cited[0], 0)
  result[4] = (words + share @ words) / parallels
  return result


def seasons(links: Graph, months: np.ndarray) -> np.ndarray:
  """Returns what linked records say of the month of the year, [n, 12].

  Log ratios: the Annals may name the month of an event that a tradition tells
  without one.

  Args:
    links: among the records.
    months: chance of each month of the year by a record's own cues, [n, 12].
  """
  chance = np.minimum(links.month[:, None], _SURE)
  message = np.log1p(chance * (12 * months[links.source] - 1))
  received = np.zeros_like(months)
  np.add.at(received, links.target, message)
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
  belief = np.exp(scores - logsumexp(scores, axis=1, keepdims=True)) / prior
  received = np.zeros_like(scores)
  for start in range(0, len(links.target), 4096):
    block = slice(start, start + 4096)
    chance = np.minimum(links.year[block, None], _SURE)
    message = np.log1p(chance * (belief[links.source[block]] - 1))
    np.add.at(received, links.target[block], message)
  senders = np.bincount(links.target, weights=links.year, minlength=links.size)
  return scores + weight * received / (1 + senders[:, None])
