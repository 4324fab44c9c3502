"""Years that commentary names, and the events it tells in the same breath.

Why: 「僖二十八年傳曰…」 in a comment dates what the next words tell, and the
event itself, undated in the gallery, is told in the same rare words: the
strongest evidence of the year of an event. A year without a ruler is of
the ruler named before it in the same text, or of the time the comment explains;
both readings are tried and learned apart. Texts from outside the gallery can be
read too (track T0+external). Called by `dater`.

Axes: M citations, P pairs of a citation's reading and an event, p some of them,
E events, Y years.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse

from ctd_jax.chronology import date_expressions, sexagenary
from ctd_jax.chronology.numerals import NUMERAL, fold, parse_numeral
from ctd_jax.dating import regression
from ctd_jax.dating.corpus import UNKNOWN, Axis, Gallery, Labels
from ctd_jax.dating.experts import parallel_texts, shared_wording

NAMED, CARRIED, OWN = range(3)  # how the ruler of a year is known
SCORES = 5  # experts that `scores` returns
_CANDIDATES = 25  # events compared with a citation
_AFTER, _BEFORE = 40, 30  # characters read around a citation
_DATE_AFTER = 14
_SHARED = 16  # features of a pair that `_nearest` makes
_SAME_CONTEXT = 12  # characters; texts that copy one another cite once
_MOST_OTHER = 25_000  # pairs of another year to learn from
_LEAST = 0.005  # chance below which a pair is left out
_STEPS = (4.0, 7.0)  # log ratios above which a score may count differently
# Another state's ruler: 晉文公三年.
_STATES = "晉齊宋鄭衛陳蔡曹楚秦許莒邾杞燕滕薛吳越周虢虞紀"
_NOT_BEFORE = frozenset("公王侯伯子帝宗祖之其凡居後積期比各百千")
_NOT_AFTER = frozenset("而之矣乃老長者")
_SEES, _FOR = "在見", "為"


@dataclasses.dataclass(frozen=True)
class Citation:
  """A year named inside a text.

  Attributes:
    host: record whose text it is in, UNKNOWN for a text from outside.
    reign: ruler, from 0, or UNKNOWN where the text names none.
    carried: ruler named before it in the same text, or UNKNOWN.
    number: of the regnal year.
    after: text after it, up to the next citation.
    before: text before it, down to the citation before.
    whole: all of the text without the date.
    lead: character before it, "" at the beginning of the text.
    part: 經 or 傳 if that follows, else "".
  """

  host: int
  reign: int
  carried: int
  number: int
  after: str
  before: str
  whole: str
  lead: str
  part: str


def read(
  axis: Axis, texts: Mapping[int, str] | Sequence[str]
) -> list[Citation]:
  """Returns the citations in plain texts.

  Args:
    axis: names the rulers.
    texts: record -> plain text; or texts from outside the gallery.
  """
  outside = not isinstance(texts, Mapping)
  pairs = enumerate(texts) if outside else texts.items()
  pattern, rulers = _pattern(axis)
  found = []
  for host, text in pairs:
    places = [
      match for match in pattern.finditer(text) if _is_year(match, text)
    ]
    carried = UNKNOWN
    for place, match in enumerate(places):
      ends = [each.end() for each in places[:place]]
      starts = [each.start() for each in places[place + 1 :]]
      start, end = match.span()
      reign = rulers.get(match["ruler"], UNKNOWN)
      found.append(
        Citation(
          UNKNOWN if outside else host,
          reign,
          carried,
          parse_numeral(match["year"], "year"),
          text[end : min([*starts, end + _AFTER])],
          text[max([*ends, start - _BEFORE]) : start],
          # A character that no string crosses stands where the date was.
          f"{text[:start]}\n{text[end:]}",
          text[max(start - 1, 0) : start],
          match["part"] or "",
        )
      )
      carried = reign if reign != UNKNOWN else carried
  return found


def _pattern(axis: Axis) -> tuple[re.Pattern[str], dict[str, int]]:
  rulers: dict[str, int] = {}
  for reign, row in enumerate(axis.timeline.reigns):
    name = fold(row.name)
    rulers[name] = reign
    if len(name) == 2 and name.endswith("公"):
      rulers[name[0]] = reign
  names = "|".join(sorted(map(re.escape, rulers), key=lambda name: -len(name)))
  return (
    re.compile(
      rf"(?:(?<![{_STATES}])(?P<ruler>{names}))?(?P<year>元|{NUMERAL})年"
      r"(?P<part>[經傳])?"
    ),
    rulers,
  )


def _is_year(match: re.Match[str], text: str) -> bool:
  if match["ruler"]:
    return True
  before, after = text[: match.start()][-1:], text[match.end() :][:1]
  return before not in _NOT_BEFORE and after not in _NOT_AFTER


@dataclasses.dataclass(frozen=True)
class Pairs:
  """Readings of citations beside the events they may be about.

  Attributes:
    citations: [M].
    citation: index into `citations`, [P].
    event: index into the events, [P].
    event_keys: made of the event's text, uint32 [P].
    reading: NAMED, CARRIED or OWN, [P].
    features: of the pair, float32 [P, f].
  """

  citations: tuple[Citation, ...]
  citation: np.ndarray
  event: np.ndarray
  event_keys: np.ndarray
  reading: np.ndarray
  features: np.ndarray


def pairs(
  gallery: Gallery,
  events: np.ndarray,
  words: shared_wording.Wording,
  citations: Sequence[Citation],
) -> Pairs:
  """Returns each citation beside the events nearest in wording.

  Args:
    gallery: the texts.
    events: records that are events, [E].
    words: wording of those events.
    citations: [M].
  """
  contexts = {
    "near": [cited.after[:9] for cited in citations],
    "next": [cited.after[:20] for cited in citations],
    "after": [cited.after for cited in citations],
    "just": [cited.before[-9:] for cited in citations],
    "before": [cited.before for cited in citations],
    "whole": [cited.whole for cited in citations],
  }
  own = words.own_weight
  found = [(np.zeros(0, np.int32),) * 2 + (np.zeros((0, _SHARED), np.float32),)]
  for part, held in words.stretches(*contexts.values()):
    overlaps = dict(zip(contexts, map(words.overlap, held), strict=True))
    rows, columns, features = _nearest(overlaps, own)
    found.append((rows + np.int32(part.start), columns, features))
  rows, columns, shared = map(np.concatenate, zip(*found, strict=True))
  lead = np.array([cited.lead for cited in citations], str)
  part = np.array([cited.part for cited in citations], str)
  length = np.array([len(cited.after) for cited in citations], int)
  number = np.array([cited.number for cited in citations], int)
  sees = np.isin(lead, list(_SEES))
  month, day = _context_dates(citations)
  told = events[columns].astype(np.int32)

  def features(pairs: slice) -> list[np.ndarray]:
    row, event = rows[pairs], told[pairs]
    return [
      *shared[pairs].T,
      sees[row],
      lead[row] == _FOR,
      lead[row] == "",
      part[row] == "傳",
      part[row] == "經",
      np.log1p(own[columns[pairs]]),
      length[row],
      *_agreement(month[row], gallery.first_month[event], 0),
      *_agreement(day[row], gallery.first_day[event], -1),
      *_agreement(number[row], gallery.number[event], 0),
    ]

  made = parallel_texts.stacked(features, len(rows))
  return _with_readings(citations, rows, columns, gallery.keys[told], made)


def _nearest(overlaps, own: np.ndarray):
  """Returns citations, the events nearest in wording, and what they share."""
  rank = (
    overlaps["after"]
    + 0.5 * overlaps["before"]
    + 0.5 * overlaps["near"]
    + 0.2 * overlaps["whole"]
  )
  rows, columns, _ = shared_wording.best(rank.tocsr(), _CANDIDATES)
  features = []
  for name, overlap in overlaps.items():
    value, top = (
      shared_wording.entries(overlap, rows, columns),
      shared_wording.row_max(overlap),
    )
    features += [np.log1p(value), value / (top[rows] + 5)]
    if name in ("after", "whole"):
      close = (value >= 0.8 * top[rows]) & (value > 0)
      rivals = np.bincount(rows, weights=close, minlength=overlap.shape[0])
      features += [value / (own[columns] + 5), np.log1p(rivals[rows])]
  return rows, columns, np.stack(features, axis=1).astype(np.float32)


def _with_readings(citations, rows, columns, keys, features) -> Pairs:
  """Returns the pairs once for every reading of the citation."""
  carried = np.array([cited.carried for cited in citations])[rows] != UNKNOWN
  named = np.array([cited.reign for cited in citations])[rows] != UNKNOWN
  inside = np.array([cited.host for cited in citations])[rows] != UNKNOWN
  chosen = {
    NAMED: np.flatnonzero(named),
    CARRIED: np.flatnonzero(~named & carried),
    OWN: np.flatnonzero(~named & inside),
  }
  order = np.concatenate(list(chosen.values()))
  reading = np.repeat(list(chosen), [len(each) for each in chosen.values()])

  def read_as(pairs: slice) -> list[np.ndarray]:
    kind = reading[pairs]
    return [*features[order[pairs]].T, kind == CARRIED, kind == OWN]

  return Pairs(
    tuple(citations),
    rows[order],
    columns[order],
    keys[order],
    reading.astype(np.int8),
    parallel_texts.stacked(read_as, len(order)),
  )


def _agreement(one: np.ndarray, other: np.ndarray, none: int) -> list:
  both = (one != none) & (other != none)
  return [both & (one == other), both & (one != other)]


def _context_dates(citations) -> tuple[np.ndarray, np.ndarray]:
  """Returns month (0 if none) and day (-1) right after each citation."""
  months, days = [], []
  for cited in citations:
    # The year is put back: a season counts after a year.
    cues = date_expressions.find_cues(f"元年{cited.after[:_DATE_AFTER]}")
    cue = cues[0] if cues and cues[0].start <= 1 else None
    season = (
      cue and cue.season and 1 + 3 * date_expressions.SEASONS.index(cue.season)
    )
    months.append((cue and (cue.month or season)) or 0)
    days.append(sexagenary.index(cue.day) if cue and cue.day else -1)
  return np.array(months, int), np.array(days, int)


def years_of(axis: Axis, found: Pairs, labels: Labels) -> np.ndarray:
  """Returns the index of the year each pair's reading means, [P].

  UNKNOWN where the timeline lacks it or the month of the host is hidden.
  """
  host = np.array([cited.host for cited in found.citations], int)
  number = np.array([cited.number for cited in found.citations], int)
  named = np.array([cited.reign for cited in found.citations], int)
  carried = np.array([cited.carried for cited in found.citations], int)
  # Row UNKNOWN of the months is that of texts from outside.
  month = np.append(labels.month, UNKNOWN)[host]
  own = np.where(
    month == UNKNOWN, UNKNOWN, axis.reign[axis.year_of[np.maximum(month, 0)]]
  )
  reigns = np.stack([named, carried, own])
  return axis.index(
    reigns[found.reading, found.citation], number[found.citation]
  )


def fit(
  axis: Axis,
  found: Pairs,
  labels: Labels,
  events: np.ndarray,
  asked: np.ndarray,
) -> np.ndarray:
  """Returns the chance that an event is of the year cited beside it, [p].

  Learned from the pairs whose event has a known month.

  Args:
    axis: the years.
    found: the pairs.
    labels: the known months.
    events: records that are events, [E].
    asked: which pairs are asked about, [p].
  """
  years = years_of(axis, found, labels)
  month = labels.month[events][found.event]
  known = np.flatnonzero((years != UNKNOWN) & (month != UNKNOWN))
  same = axis.year_of[month[known]] == years[known]
  keys = _keys(found, known)
  kept, weights = regression.thin(~same, keys, _MOST_OTHER)
  model = regression.Binned.fit(
    found.features[known[kept]], same[kept].astype(int), 2, weights
  )
  return model.probability(found.features[asked])[:, 1]


def _keys(found: Pairs, pairs: np.ndarray) -> np.ndarray:
  """Returns numbers made of the texts of both, uint32 [p]."""
  context = np.array(
    [zlib.crc32(cited.whole.encode()) for cited in found.citations], np.uint32
  )
  citation, event = found.citation[pairs], found.event_keys[pairs]
  return context[citation] + event * np.uint32(31)


def scores(
  axis: Axis,
  found: Pairs,
  pairs: np.ndarray,
  chance: np.ndarray,
  labels: Labels,
  prior: np.ndarray,
  hosts: np.ndarray,
  reigns: np.ndarray,
  asked: np.ndarray,
) -> list[scipy.sparse.csr_array]:
  """Returns the experts' scores of years, SCORES float32 [n, Y], sparse.

  The best citation of a year, the second, the rest, and the best again above
  two steps; each a log ratio log(1 + chance / (prior * (1 - chance))).

  Args:
    axis: the years.
    found: the pairs.
    pairs: those whose event is asked about, [p].
    chance: of each, from `fit`, [p].
    labels: known months, of hosts.
    prior: chance of each year, [Y].
    hosts: records whose month is hidden, ascending, [H].
    reigns: chance of each ruler for them, [H, R].
    asked: place of each event in the result, UNKNOWN if not asked, [E].
  """
  years = years_of(axis, found, labels)[pairs]
  direct = np.flatnonzero((years != UNKNOWN) & (chance > _LEAST))
  vague = np.flatnonzero((years == UNKNOWN) & (chance > _LEAST))
  places, spread, shares = _by_ruler(axis, found, pairs[vague], hosts, reigns)
  pair = np.concatenate([direct, vague[places]])
  year = np.concatenate([years[direct], spread])
  value = np.concatenate([chance[direct], chance[vague[places]] * shares])
  kept = (year != UNKNOWN) & (value >= _LEAST)
  pair, year, value = pair[kept], year[kept], value[kept]
  _, context = np.unique(
    [cited.after[:_SAME_CONTEXT] for cited in found.citations],
    return_inverse=True,
  )
  return _ordered(
    asked[found.event[pairs[pair]]],
    year,
    context[found.citation[pairs[pair]]],
    value,
    prior,
    int((asked != UNKNOWN).sum()),
  )


def _by_ruler(axis, found: Pairs, pairs, hosts, reigns):
  """Returns every year that a citation of a host without a date may mean.

  The year has no ruler, so it is every ruler's, by the chance that the host is
  of the ruler's time.

  Returns:
    Place in `pairs`, year and chance of each.
  """
  host = np.array([cited.host for cited in found.citations], int)
  number = np.array([cited.number for cited in found.citations], int)
  own = np.flatnonzero(
    (found.reading[pairs] == OWN) & np.isin(host, hosts)[found.citation[pairs]]
  )
  citation = found.citation[pairs[own]]
  each = np.arange(axis.reign.max() + 1)
  years = axis.index(each, number[citation, None])
  shares = reigns[np.searchsorted(hosts, host[citation])]
  return np.repeat(own, len(each)), years.ravel(), shares.ravel()


def _ordered(place, year, context, chance, prior, count: int):
  """Returns the scores of citations of a year, one for each context."""
  order = np.lexsort((-chance, context, year, place))
  keys = np.stack([place, year, context])[:, order]
  order = order[np.any(np.diff(keys, axis=1, prepend=-1), axis=0)]
  order = order[np.lexsort((-chance[order], year[order], place[order]))]
  place, year, chance = place[order], year[order], chance[order]
  ratios = np.log1p(chance / (prior[year] * np.maximum(1 - chance, 0.01)))
  fresh = np.diff(place * len(prior) + year, prepend=-1) != 0
  starts = np.flatnonzero(fresh)
  group = np.cumsum(fresh) - 1
  rank = np.arange(len(group)) - starts[group]
  first = ratios[starts]
  values = [
    first,
    np.bincount(group, ratios * (rank == 1), len(starts)),
    np.bincount(group, ratios * (rank > 1), len(starts)),
    *(np.maximum(first - step, 0) for step in _STEPS),
  ]
  return [
    scipy.sparse.coo_array(
      (each.astype(np.float32), (place[starts], year[starts])),
      shape=(count, len(prior)),
    ).tocsr()
    for each in values
  ]
