"""Reading of a passage, and what every expert says about its months.

Axes: N records, n hidden ones, D documents or days of the cycle, S offsets of
the calendar, K months, Y years, V strings, v those of a passage, L linked
records.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Float32, Int, Int8, UInt32, UInt64
from scipy.special import logsumexp

from ctd_jax.chronology import sexagenary
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating import corpus, regression
from ctd_jax.dating.chronicle import emissions, undated_texts
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import DAY_STATEMENTS, Section
from ctd_jax.dating.corpus import (
  NO_OPENING,
  UNKNOWN,
  Corpus,
  MonthAxis,
  find_sorted,
)
from ctd_jax.dating.expert_panel import POOL_SLICES
from ctd_jax.dating.experts import (
  base,
  citations,
  date_features,
  parallels,
  wording,
  words,
)
from ctd_jax.dating.experts.date_features import DateTables
from ctd_jax.dating.passages import copies as copies_lib
from ctd_jax.dating.passages.citations import (
  CitedYears,
  PassageCitations,
  PassageWording,
  RecordTable,
  TextTable,
  WordingIndex,
)
from ctd_jax.dating.passages.copies import Copies
from ctd_jax.dating.posterior import CredibleBlock
from ctd_jax.utils import deadlines

# Prior chance that a passage belongs to none of the months: with it an era
# missing from the calendar is as likely outside it as inside.
OUTSIDE_CHANCE = 0.02
_MIN_REST = 1e-6  # chance that no copy has the passage's time
_CACHED_STATEMENTS = 128  # of dates, whose months are kept in memory


@dataclasses.dataclass(frozen=True, eq=False)
class DayTable:
  """Evidence from a sexagenary day about the months of a calendar."""

  # Of a day in every month and outside the calendar, up to a constant, by
  # the offset of the calendar.
  log_p: Float32[np.ndarray, "D S months"]

  @classmethod
  def from_calendar(cls, calendar: Calendar) -> DayTable:
    """Returns the table of a calendar."""
    blank = undated_texts.read_head("", calendar)
    sections = [
      dataclasses.replace(blank, statements=((name, day),))
      for name in DAY_STATEMENTS
      for day in range(sexagenary.CYCLE_LENGTH)
    ]
    return cls(emissions.SectionEmissions(sections, calendar)(0, len(sections)))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ScoredHead(undated_texts.HeadDates):
  """The printed date of one passage."""

  log_p: Float32[np.ndarray, " K"]  # of every month, up to a constant

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "n K"]:
    """Returns log p of the date for every row."""
    return np.tile(self.log_p, (len(rows), 1))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PassageReading:
  """A passage as it was read."""

  passage: Corpus  # as a corpus of one
  dates: base.DateExpert  # what its printed date says
  # What the date says about a time outside the calendar, against the months
  # together, 0 at least.
  outside_log_ratio: float = 0.0

  @property
  def body(self) -> str:
    """The plain text without its date."""
    return self.passage.bodies[0]


@dataclasses.dataclass(frozen=True, eq=False)
class PassageReader:
  """Reads the passages of a calendar."""

  calendar: Timeline | Calendar  # by whose months they are dated
  tables: DateTables | DayTable  # of printed dates

  @functools.cached_property
  def axis(self) -> MonthAxis:
    """The months."""
    return make_axis(self.calendar)

  def read(self, text: str) -> PassageReading:
    """Returns a passage with what its date says."""
    if isinstance(self.tables, DayTable):
      return self._read_head(text)
    passage = corpus.read_axis_corpus([text], self.axis)
    dates = date_features.FittedDates(
      corpus=passage, is_event=np.array([True]), tables=self.tables
    )
    return PassageReading(passage=passage, dates=dates)

  def _read_head(self, text: str) -> PassageReading:
    passage, (head,) = undated_texts.read_headed_corpus(
      [text], self.axis, self.calendar
    )
    log_p = self._score_head(head)
    # Against the mean of all months: a date that fits none of them well.
    ratio = log_p[-1] - logsumexp(log_p[:-1]) + np.log(len(log_p) - 1)
    return PassageReading(
      passage=passage,
      dates=ScoredHead(
        corpus=passage,
        calendar=self.calendar,
        heads=[head],
        is_read=np.array([True]),
        log_p=log_p[:-1],
      ),
      outside_log_ratio=max(float(ratio), 0.0),
    )

  def _score_head(self, head: Section) -> Float32[np.ndarray, " months"]:
    """Returns log p of a head, as `emissions.SectionEmissions` has it."""
    result = np.zeros(len(self.axis) + 1, np.float32)
    days = []
    for statement in emissions.name_calendars(head).statements:
      if statement[0] in DAY_STATEMENTS:
        days.append(statement)
      else:
        result = result + self._score_statement(statement)
    if days:
      columns = [emissions.find_day_column(*day) for day in days]
      by_offset = self.tables.log_p[columns].sum(axis=0)
      if len(by_offset) > 1:
        by_offset = by_offset + np.log(date_features.OFFSET_PRIOR)[:, None]
      result = result + logsumexp(by_offset, axis=0)
    return result.astype(np.float32)

  @functools.cached_property
  def _score_statement(self) -> Callable[..., np.ndarray]:
    score = functools.partial(emissions.score_statement, calendar=self.calendar)
    return functools.lru_cache(_CACHED_STATEMENTS)(score)


def make_tables(dates: base.DateExpert) -> DateTables | DayTable:
  """Returns the tables of fitted dates, of a timeline or a calendar."""
  if isinstance(dates, undated_texts.HeadDates):
    return DayTable.from_calendar(dates.calendar)
  return dates.tables


def make_axis(calendar: Timeline | Calendar) -> MonthAxis:
  """Returns the months of a timeline or a calendar."""
  if isinstance(calendar, Timeline):
    return MonthAxis.from_timeline(calendar)
  return undated_texts.make_month_axis(calendar)


# Scores of a passage: what every expert says about its months.
#
# The scores are those of `expert_panel`, made for one
# event more beside those of the corpus.

# Hidden records: those without a label, as parallels of a passage.
#
# A record whose month is not known still says something of a passage in the
# same words: what it believes of its year. The beliefs of records that the
# dater dates itself rest on their own evidence alone, so that nothing of a
# passage that is left out of the corpus comes back to it.

_MIN_PROBABILITY = 1e-4  # of a year that is kept
_MASS = 0.999  # that the years kept of a record have


@dataclasses.dataclass(frozen=True, eq=False)
class HiddenRecords:
  """Evidence from records without a label that share a passage's words."""

  rows: Int[np.ndarray, " n"]  # of the records, ascending
  # Where the years of each begin; the last entry is their number.
  starts: Int[np.ndarray, " starts"]
  years: Int[np.ndarray, " q"]  # that are likely
  probabilities: Float32[np.ndarray, " q"]  # of these
  # Of the months of a year, by the printed date.
  month_chances: Float32[np.ndarray, "n 12"]
  # `citations.BEST` of each, sparse [n, Y].
  best_citations: scipy.sparse.csr_array
  # `citations.BEST_ABOVE_FIRST_STEP`, likewise.
  high_citations: scipy.sparse.csr_array

  def find(self, rows: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """Returns the index of records, -1 for those that are not hidden."""
    index, is_hidden = find_sorted(self.rows, rows)
    return np.where(is_hidden, index, -1)

  def log_beliefs(
    self, indices: Int[np.ndarray, " m"], year_prior: np.ndarray
  ) -> np.ndarray:
    """Returns log p of the years of hidden records, [m, Y]."""
    result = np.zeros((len(indices), len(year_prior)))
    for chances, index in zip(result, indices.tolist(), strict=True):
      span = slice(self.starts[index], self.starts[index + 1])
      rest = max(1 - float(self.probabilities[span].sum()), 1e-9)
      chances[:] = rest * year_prior
      chances[self.years[span]] += self.probabilities[span]
    return np.log(result)


def compress_beliefs(
  chances: Float32[np.ndarray, "b Y"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns numbers of years, the likely years, and their probabilities."""
  order = np.argsort(-chances, axis=1, kind="stable")
  ranked = np.take_along_axis(chances, order, 1)
  is_kept = (np.cumsum(ranked, axis=1) - ranked < _MASS) & (
    ranked >= _MIN_PROBABILITY
  )
  return is_kept.sum(axis=1), order[is_kept], ranked[is_kept]


# Words of a passage: the years that use its strings.

_MAX_NOTED_STRINGS = 5  # that a note names
_MIN_NOTED_SCORE = 0.05  # in nats, for a year, of a string that is named


@dataclasses.dataclass(frozen=True, eq=False)
class PassageWords:
  """Densities of strings over the years."""

  hashes: UInt64[np.ndarray, " V"]  # of the strings, ascending
  # Of each string, -1 for one that does not count.
  groups: Int8[np.ndarray, " V"]
  # How often each year has each string, saturated, sparse [V, Y].
  counts: scipy.sparse.csr_array
  total_counts: Float32[np.ndarray, " Y"]  # of all strings
  weights: Float[np.ndarray, " f"]  # of the groups by kernel

  @classmethod
  def from_fitted(cls, fitted: words.FittedWords) -> PassageWords:
    """Returns the densities of a fitted expert, its texts left out."""
    return cls(
      hashes=fitted.vocabulary.strings.hashes,
      groups=fitted.group_of,
      counts=fitted.counts.astype(np.float32),
      total_counts=np.asarray(fitted.counts.sum(axis=0), np.float32).ravel(),
      weights=np.asarray(fitted.weights),
    )

  @functools.cached_property
  def _densities(self) -> tuple[words.SmoothedDensity, ...]:
    return words.smooth_total_counts(self.total_counts)

  def find_strings(self, text: str) -> Int[np.ndarray, " v"]:
    """Returns the strings of a plain text that count, each once, ascending."""
    hashes = wording.hash_strings(text, wording.NGRAM_LENGTHS)
    columns, is_known = find_sorted(self.hashes, hashes)
    columns = columns[is_known]
    return columns[self.groups[columns] >= 0]

  def share_unknown(self, text: str) -> float:
    """Returns the share of unknown characters of a plain text."""
    hashes = wording.hash_strings(text, (1,))
    return float((~find_sorted(self.hashes, hashes)[1]).mean())

  def score_strings(
    self,
    columns: Int[np.ndarray, " v"],
    excluded: Sequence[tuple[str, int]] = (),
  ) -> Float32[np.ndarray, "v Y"]:
    """Returns the term that each string adds to the score of every year.

    `excluded` are text and year of labelled records that do not count.
    """
    if not len(columns):
      return np.zeros((0, len(self.total_counts)), np.float32)
    counts = self.counts[columns]
    if excluded:
      counts = counts.toarray()
      raw = np.round(counts ** (1 / wording.SATURATION_POWER))
      for text, year in excluded:
        raw[np.isin(columns, self.find_strings(text)), year] -= 1
      counts = np.maximum(raw, 0) ** wording.SATURATION_POWER
      counts = scipy.sparse.csr_array(counts)
    return words.weigh_strings(
      counts, self.groups[columns], self._densities, self.weights
    )

  def note_strings(self, text: str, year: int) -> str:
    """Returns the strings of a plain text that speak most for a year."""
    string_of = wording.find_strings(self.hashes, text, wording.NGRAM_LENGTHS)
    columns = np.array(sorted(string_of), np.int64)
    columns = columns[self.groups[columns] >= 0]
    scores = self.score_strings(columns)
    values = scores[:, year] - scores.mean(axis=1)
    return "、".join(
      f"{string_of[int(columns[index])]} {values[index]:+.2f}"
      for index in np.argsort(-values, kind="stable")[:_MAX_NOTED_STRINGS]
      if values[index] > _MIN_NOTED_SCORE
    )


# Of the pool: the words of a passage and its parallels, averaged; and by how
# much the best citation of a parallel exceeds those of the passage.
_MEAN_WORDS = POOL_SLICES["parallels"].stop - 1
_EXCESS = POOL_SLICES["parallels"].stop - 2
_BEST_CITATION = POOL_SLICES["parallels"].start


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CorpusState:
  """All that is kept of a corpus."""

  texts: TextTable  # of the records, [N]
  # Numbers of the records for those who ask, ascending.
  row_ids: Int[np.ndarray, " N"]
  # Of the labelled records, UNKNOWN for the others.
  months: Int[np.ndarray, " N"]
  year_prior: Float[np.ndarray, " Y"]  # chance of every year
  wording: WordingIndex  # which records hold which rare strings
  records: RecordTable  # what pairs read of the records
  hidden: HiddenRecords  # records without a label
  words: PassageWords  # strings of the years
  cited: PassageCitations  # citations
  parallel_model: regression.BinnedSoftmax  # of events paired with events
  comment_model: regression.BinnedSoftmax  # of comments paired with events
  # Of passages beside labelled events; None if the years of passages have no
  # labelled records.
  known_model: regression.BinnedSoftmax | None
  pool_weights: Float[np.ndarray, " f"]  # of the pooled scores
  known_weights: Float[np.ndarray, " s"]  # of the scores of labelled events
  inverse_temperature: float  # of all that the experts say
  # Of passages that open a month; None if a month is named as often as one
  # likes.
  month_log_factors: Float32[np.ndarray, " K"] | None
  dates: DateTables | DayTable  # tables of printed dates
  # Of records without a label, as far as they are known.
  posteriors: CredibleBlock
  # Whether a record has a label, or a posterior that no other record gave it:
  # such records are evidence at the level that they are sure of.
  is_placed: Bool[np.ndarray, " N"]
  # Code points of the texts, and how often each stands in them.
  characters: UInt32[np.ndarray, "2 characters"]
  # Chance of copies, from `copies.learn_chances`.
  copy_chances: Float[np.ndarray, "2 lengths years"]

  def spread_months(
    self, rows: Int[np.ndarray, " n"]
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns index into `rows`, month and probability of their months.

    The ordinal after the last month stands for none of them.
    """
    months = np.asarray(self.months[rows])
    known = np.flatnonzero(months != UNKNOWN)
    of_row, spread, chances = self.posteriors.spread(rows)
    is_hidden = months[of_row] == UNKNOWN
    return (
      np.append(known, of_row[is_hidden]),
      np.append(months[known], spread[is_hidden]),
      np.append(np.ones(len(known)), chances[is_hidden]),
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Links:
  """Records linked with a passage."""

  rows: Int[np.ndarray, " L"]  # of the records
  # Of the classes of `parallels`, [L, 4].
  chances: Float32[np.ndarray, "L 4"]

  @property
  def year_chances(self) -> Float32[np.ndarray, " L"]:
    """Chance that a record and the passage share their year."""
    return (
      self.chances[:, parallels.SAME_MONTH]
      + self.chances[:, parallels.SAME_YEAR]
    )

  def take(self, is_kept: np.ndarray) -> Links:
    """Returns some of the links."""
    return Links(rows=self.rows[is_kept], chances=self.chances[is_kept])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PassageScores:
  """Evidence of the experts about one passage, and what they read."""

  reading: PassageReading  # of the passage
  # Name -> log ratios of months, before the temperature, [K].
  terms: dict[str, np.ndarray]
  # (name, other) -> the term of an expert were another left out, [K]. Were the
  # passage not cited itself, the citations of its parallels would count in
  # place of its own; were it no copy, other records with its words.
  substitutes: dict[tuple[str, str], np.ndarray]
  cited: CitedYears  # the citations
  parallels: Links  # linked records without a date
  known: Links  # linked records with one
  copies: Copies  # records with the words of the passage
  copy_weights: Float[np.ndarray, " R"]  # chance of each to be of its time
  # Log ratios of the months by the copies, and last of none of them, [K + 1];
  # they count as they are.
  copied: Float[np.ndarray, " months"]

  def sum_terms(self, num_months: int) -> Float[np.ndarray, " K"]:
    """Returns the sum of the terms; zeros if no expert says anything."""
    return sum(self.terms.values(), start=np.zeros(num_months))


@dataclasses.dataclass(frozen=True, eq=False)
class PassageScorer:
  """Scores passages by a corpus."""

  state: CorpusState  # of the corpus
  reader: PassageReader  # of its calendar

  def score(self, text: str, excluded: Collection[int] = ()) -> PassageScores:
    """Returns the evidence of experts about a passage, without some rows."""
    state, axis = self.state, self.reader.axis
    reading = self.reader.read(text)
    passage, dates = reading.passage, reading.dates
    wording = state.wording.read_wording(reading.body, excluded)
    overlap = wording.overlap_documents()
    deadlines.check()
    columns = state.words.find_strings(reading.body)
    words = state.words.score_strings(columns, self._list_counted(excluded))
    own_words = words.sum(axis=0, dtype=np.float32)
    cited = state.cited.score(
      axis, passage, wording, overlap, state.months, excluded
    )
    deadlines.check()
    copies = copies_lib.find_copies(
      reading.body,
      passage.plain_texts[0],
      overlap[: len(state.texts)],
      state.texts,
      state.wording.is_event,
    )
    copied, copy_weights = self._score_copies(copies)
    counted = copies.rows[copy_weights > 0]
    events, comments = self._link_hidden(passage, wording, overlap, excluded)
    known = self._link_known(passage, wording, excluded)
    # What a copy says is said once.
    events, comments, known = (
      links.take(~np.isin(links.rows, counted))
      for links in (events, comments, known)
    )
    deadlines.check()
    pooled, weight = self._pool_parallels(events, dates, own_words, cited)
    weights = state.pool_weights
    terms = dict(dates.split_log_scores(0))
    terms["words"] = (
      weights[POOL_SLICES["words"]][0] + weights[_MEAN_WORDS] / weight
    ) * own_words[axis.year_of]
    terms["cited"] = np.tensordot(
      weights[POOL_SLICES["cited"]],
      np.concatenate([scores.toarray() for scores in cited.scores]),
      1,
    )[axis.year_of]
    # The passage's own share of the mean words is counted above.
    pooled[-1] -= own_words / weight
    years = np.tensordot(weights[POOL_SLICES["parallels"]], pooled, 1)
    terms["parallels"] = (
      self._send_messages(events, comments, dates) + (years[axis.year_of])
    )
    first = POOL_SLICES["parallels"].start
    covered = pooled[_BEST_CITATION - first] - pooled[_EXCESS - first]
    uncited = terms["parallels"] + (weights[_EXCESS] * covered)[axis.year_of]
    if len(known.rows):
      scores = parallels.score_pairs(
        axis,
        np.zeros(len(known.rows), int),
        known.chances,
        self._spread_known(known),
        1,
      )
      terms["known"] = np.append(state.known_weights, 1) @ scores[:, 0]
    is_opener = passage.opening[0] != NO_OPENING
    # Where the words are copied, other records with some of them share a
    # formula.
    uncopied = 1 - float(copy_weights.sum())
    substitutes = {("parallels", "cited"): uncited * uncopied}
    for name in {"parallels", "known"} & terms.keys() if uncopied < 1 else ():
      substitutes[name, "copies"] = np.asarray(terms[name], float)
      terms[name] = terms[name] * uncopied
    if state.month_log_factors is not None and is_opener:
      terms["room"] = state.month_log_factors
    return PassageScores(
      reading=reading,
      terms={
        name: np.asarray(term, float)
        for name, term in terms.items()
        if np.ptp(term) > 0 or (name == "parallels" and np.ptp(uncited) > 0)
      },
      substitutes=substitutes,
      cited=cited,
      parallels=_join_links(events, comments),
      known=known,
      copies=copies,
      copy_weights=copy_weights,
      copied=copied,
    )

  @functools.cached_property
  def log_prior(self) -> Float[np.ndarray, " K"]:
    """Log p of the months before a passage is read."""
    log_prior = np.log(self.state.year_prior)[self.reader.axis.year_of]
    return log_prior - logsumexp(log_prior)

  def _score_copies(self, copies: Copies) -> tuple[np.ndarray, np.ndarray]:
    """Returns log ratios of months [K + 1], and the weights of the copies."""
    state, num_months = self.state, len(self.reader.axis)
    of_row, months, chances = state.spread_months(copies.rows)
    mass = np.zeros((len(copies.rows), num_months + 1))
    mass[of_row, months] = chances
    is_dated = mass.any(axis=1)
    # Of copies outside the calendar the years are not known, and one.
    years = np.append(self.reader.axis.year_of, UNKNOWN)[mass.argmax(axis=1)]
    weights = np.zeros(len(copies.rows))
    weights[is_dated] = copies_lib.weigh_copies(
      copies.take(is_dated),
      years[is_dated],
      state.wording.is_event[copies.rows[is_dated]],
      state.copy_chances,
    )
    mixed = weights @ mass
    prior = np.append(
      np.exp(self.log_prior) * (1 - OUTSIDE_CHANCE), OUTSIDE_CHANCE
    )
    rest = max(1 - float(mixed.sum()), _MIN_REST)
    return np.log(rest + mixed / prior), weights

  def _spread_known(
    self, known: Links
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns pair index, month and log ratio of linked records' months."""
    axis = self.reader.axis
    pair, month, chance = self.state.spread_months(known.rows)
    is_inside = month < len(axis)
    pair, month, chance = pair[is_inside], month[is_inside], chance[is_inside]
    entry, months, log_ratios = parallels.spread_chances(
      axis, month, known.chances[pair]
    )
    # Ratios are averaged over the months of a record.
    ratios = np.zeros((len(known.rows), len(axis)), np.float32)
    np.add.at(
      ratios, (pair[entry], months), chance[entry] * np.expm1(log_ratios)
    )
    index, months = np.nonzero(ratios)
    return index, months, np.log1p(ratios[index, months])

  def _list_counted(self, excluded: Collection[int]) -> list[tuple[str, int]]:
    """Returns text and year of excluded records that the words count."""
    months, year_of = self.state.months, self.reader.axis.year_of
    return [
      (
        self.reader.read(self.state.texts[row]).body,
        int(year_of[month]),
      )
      for row in excluded
      if (month := months[row]) != UNKNOWN
    ]

  def _link_hidden(
    self,
    passage: Corpus,
    wording: PassageWording,
    overlap: np.ndarray,
    excluded: Collection[int],
  ) -> tuple[Links, Links]:
    """Returns the linked events and comments without a label."""
    state, is_event = self.state, self.state.wording.is_event
    event_pairs = state.records.pair_events(
      passage,
      np.where(is_event, overlap, 0),
      wording.total_weight,
      state.records.best_overlaps,
      excluded,
    )
    comment_pairs = state.records.pair_comments(
      passage, np.where(is_event, 0, overlap), wording.total_weight, excluded
    )
    result = []
    for pairs, model in (
      (event_pairs, state.parallel_model),
      (comment_pairs, state.comment_model),
    ):
      is_hidden = state.hidden.find(pairs.event_row) >= 0
      if state.known_model is not None and model is state.parallel_model:
        is_hidden &= ~state.is_placed[pairs.event_row]
      links = Links(
        rows=pairs.event_row[is_hidden],
        chances=model.predict_probability(pairs.features[is_hidden]),
      )
      result.append(links.take(links.year_chances > parallels.MIN_LINK_CHANCE))
    return result[0], result[1]

  def _link_known(
    self,
    passage: Corpus,
    wording: PassageWording,
    excluded: Collection[int],
  ) -> Links:
    """Returns the linked events with a label."""
    state, model = self.state, self.state.known_model
    if model is None:
      return Links(rows=np.zeros(0, int), chances=np.zeros((0, 4), np.float32))
    is_known = np.zeros(len(state.wording.is_event), bool)
    is_known[: len(state.months)] = state.is_placed
    overlap, total = wording.overlap_known(is_known & state.wording.is_event)
    pairs = state.records.pair_events(
      passage, overlap, total, state.records.best_known, excluded
    )
    chances = model.predict_probability(pairs.features)
    links = Links(rows=pairs.event_row, chances=chances)
    return links.take(chances[:, parallels.FAR] < 1 - parallels.MIN_NEAR_CHANCE)

  def _pool_parallels(
    self,
    events: Links,
    dates: base.DateExpert,
    own_words: Float32[np.ndarray, " Y"],
    cited: CitedYears,
  ) -> tuple[np.ndarray, float]:
    """Returns the pooled scores of the parallels [p, Y], and their weight."""
    state, axis = self.state, self.reader.axis
    pooled = events.take(
      events.chances[:, parallels.SAME_MONTH] > parallels.MIN_POOLED_CHANCE
    )
    chances = pooled.chances[:, parallels.SAME_MONTH]
    size = len(pooled.rows)
    matrix = scipy.sparse.csr_array(
      (chances, (np.zeros(size, int), 1 + np.arange(size))),
      shape=(size + 1, size + 1),
    )
    words, log_dates = [own_words], [axis.to_years(dates.log_scores(_FIRST))[0]]
    for row in pooled.rows.tolist():
      record = self.reader.read(state.texts[row])
      columns = state.words.find_strings(record.body)
      words.append(state.words.score_strings(columns).sum(axis=0))
      log_dates.append(axis.to_years(record.dates.log_scores(_FIRST))[0])
    index = state.hidden.find(pooled.rows)
    scores = list(cited.scores)
    for score, hidden in (
      (citations.BEST, state.hidden.best_citations),
      (citations.BEST_ABOVE_FIRST_STEP, state.hidden.high_citations),
    ):
      scores[score] = scipy.sparse.vstack(
        [scores[score], hidden[index]], format="csr"
      )
    result = parallels.pool_parallels(
      matrix,
      scores,
      np.array(words, np.float32),
      np.array(log_dates, np.float32),
      _FIRST,
    )
    return result[:, 0], 1 + float(chances.sum())

  def _send_messages(
    self, events: Links, comments: Links, dates: base.DateExpert
  ) -> np.ndarray:
    """Returns the evidence of linked records about the months, [K]."""
    state, axis = self.state, self.reader.axis
    links = _join_links(events, comments)
    index = state.hidden.find(links.rows)
    size = len(links.rows)
    graph = parallels.LinkGraph(
      target=np.zeros(size, int),
      source=1 + np.arange(size),
      month_chance=links.chances[:, parallels.SAME_MONTH],
      year_chance=links.year_chances,
      size=size + 1,
    )
    beliefs = state.hidden.log_beliefs(index, state.year_prior)
    beliefs = np.concatenate([np.zeros((1, axis.num_years)), beliefs])
    years = parallels.propagate_beliefs(graph, beliefs, state.year_prior)
    month_chances = np.concatenate(
      [dates.month_of_year_chances(_FIRST), state.hidden.month_chances[index]]
    )
    months = parallels.propagate_months_of_year(graph, month_chances)
    # The belief of the passage itself was 0 for all years.
    return years[0][axis.year_of] + months[0][axis.month_of_year - 1]


_FIRST = np.array([0])  # row of a passage, in a corpus of one


def _join_links(*links: Links) -> Links:
  return Links(
    rows=np.concatenate([part.rows for part in links]),
    chances=np.concatenate([part.chances for part in links]),
  )
