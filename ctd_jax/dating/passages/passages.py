"""Passage dater: the month of a text outside the corpus, in milliseconds.

  dater = PassageDater.fit(texts, labels, calendar)
  dater.save(folder)
  dates = PassageDater.open(folder, calendar).date("五月，葬衛桓公。")

Axes: N records, K months, Y years, e experts, c = 2**e sets of them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating import regression
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.corpus import UNKNOWN, Labels, find_sorted
from ctd_jax.dating.experts import date_features, parallels
from ctd_jax.dating.experts.citations import explain_citations
from ctd_jax.dating.passages import citations, fitting, scores
from ctd_jax.dating.passages import copies as copies_lib
from ctd_jax.dating.passages.scores import (
  OUTSIDE_CHANCE,
  Links,
  PassageScorer,
  PassageScores,
)
from ctd_jax.dating.posterior import CredibleBlock
from ctd_jax.utils.notes import Note

# Dates of a passage, and the reasons for one of its months.


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassageReason:
  """One kind of evidence for or against the month that is shown."""

  # Name of the evidence: "openings", "days", "words", "cited", "parallels",
  # "known", "room", "unknown", "together".
  expert: str
  # Its share of the log odds of the month, in nats; over all reasons of a
  # passage they add up to the log odds of the posterior less those of the
  # prior.
  weight: float
  note: Note | str = ""  # the evidence in words
  # (start, end) of the characters of the passage that count.
  spans: tuple[tuple[int, int], ...] = ()
  # Rows of the records that count, the weightiest first.
  linked: tuple[int, ...] = ()
  # (ordinal month, log ratio) of the months it speaks for most.
  months: tuple[tuple[int, float], ...] = ()
  # Of the shown month, were this evidence left out.
  probability_without: float = 0.0

  def to_dict(self) -> dict[str, Any]:
    """Returns the reason as JSON has it."""
    return {
      "expert": self.expert,
      "weight": self.weight,
      "note": self.note,
      "spans": [list(span) for span in self.spans],
      "linked": list(self.linked),
      "months": [list(month) for month in self.months],
      "probability_without": self.probability_without,
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassageCopy:
  """A record that has the words of a passage."""

  row: int  # its number in `row_ids`
  is_exact: bool  # whether it has all of them in a row
  # Of the passage that it has: of an exact copy all, or all but the date.
  share: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassageDates:
  """The date of a passage, and the reasons for it."""

  # Log probability of every month, and last of none of them, [K + 1].
  log_p: Float[np.ndarray, " months"]
  # Ordinal month that the reasons are for; K for none of the calendar.
  month: int
  prior_log_odds: float  # log odds of that month before anything is read
  # The weightiest first; empty if they were not asked for.
  reasons: tuple[PassageReason, ...] = ()
  copies: tuple[PassageCopy, ...] = ()  # records with its words, best first

  @property
  def log_odds(self) -> float:
    """Log odds of the month: those of the prior and the weights of reasons."""
    others = np.delete(self.log_p, self.month)
    return float(self.log_p[self.month] - np.logaddexp.reduce(others))


# Shares of log odds: what each kind of evidence adds to that of a month.
#
# The score of a month is the log of its prior and a sum of what the experts
# say, and its log odds depend on the scores of all other months. So that the
# shares of the experts add up, each gets the mean of what it adds over all
# orders in which the experts may be heard: its Shapley value.

UNKNOWN_WORDS = "unknown"  # name of the evidence that none of the months is it
_CELLS_PER_BLOCK = 2**20  # sets by months whose scores are held at once


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
  """Evidence for and against the months."""

  log_prior: Float[np.ndarray, " K"]  # of the months, normalised
  # Name -> log ratios of the months, as they count in the sum.
  terms: Mapping[str, Float[np.ndarray, " K"]]
  outside_log_odds: float  # prior log odds that it is none of the months
  outside_term: float  # added to these by words that are not known
  # Name -> what an expert adds to these log odds, if it does.
  outside_terms: Mapping[str, float] = dataclasses.field(default_factory=dict)
  # (name, other) -> the term of an expert where another is left out that says
  # the same, and so took its share.
  substitutes: Mapping[tuple[str, str], Float[np.ndarray, " K"]] = (
    dataclasses.field(default_factory=dict)
  )

  def log_p(self) -> Float[np.ndarray, " months"]:
    """Returns log p of every month, and last of none of them, [K + 1]."""
    scores = self.log_prior + sum(self.terms.values())
    odds = self.outside_log_odds + self.outside_term
    odds += sum(self.outside_terms.values())
    log_inside, log_outside = -np.logaddexp(0, odds), -np.logaddexp(0, -odds)
    return np.append(scores - logsumexp(scores) + log_inside, log_outside)

  def share_log_odds(
    self, month: int
  ) -> tuple[float, dict[str, float], dict[str, float]]:
    """Returns prior log odds, share of each expert, and log odds without it."""
    names = [*self.terms, UNKNOWN_WORDS]
    values = self._score_sets(month)
    size = len(names)
    sets = np.arange(2**size)
    num_members = np.array([int(each).bit_count() for each in sets])
    weight_of_size = np.array(
      [1 / (size * math.comb(size - 1, count)) for count in range(size)]
    )
    shares, without = {}, {}
    for position, name in enumerate(names):
      others = sets[(sets >> position) & 1 == 0]
      gains = values[others | 1 << position] - values[others]
      shares[name] = float(np.dot(weight_of_size[num_members[others]], gains))
      without[name] = float(values[(2**size - 1) ^ (1 << position)])
    return float(values[0]), shares, without

  def _score_sets(self, month: int) -> np.ndarray:
    """Returns the log odds of a month by every set of experts, [2c]."""
    # Bit i of an index is the i-th term; the highest is that of unknown words.
    size, num_months = len(self.terms), len(self.log_prior)
    names = list(self.terms)
    log_inside = np.zeros(2**size)
    if month < num_months:
      terms = np.array([*self.terms.values()]).reshape(size, num_months)
      step = max(1, _CELLS_PER_BLOCK // num_months)
      for start in range(0, 2**size, step):
        sets = np.arange(start, min(start + step, 2**size))
        is_member = (sets[:, None] >> np.arange(size)) & 1 > 0
        scores = self.log_prior + is_member @ terms
        for (name, other), substitute in self.substitutes.items():
          is_alone = (
            is_member[:, names.index(name)] & ~is_member[:, names.index(other)]
          )
          scores += np.outer(is_alone, substitute - self.terms[name])
        log_inside[sets] = scores[:, month] - logsumexp(scores, axis=1)
    odds = np.repeat(
      [self.outside_log_odds, self.outside_log_odds + self.outside_term],
      2**size,
    )
    for name, term in self.outside_terms.items():
      odds += term * (np.arange(len(odds)) >> names.index(name) & 1)
    if month == num_months:
      return odds
    log_p = np.tile(log_inside, 2) - np.logaddexp(0, odds)
    return log_p - np.log(-np.expm1(np.minimum(log_p, -1e-15)))


def to_probability(log_odds: float) -> float:
  """Returns the probability of log odds."""
  return float(np.exp(-np.logaddexp(0, -log_odds)))


# Reasons: what every expert read in a passage, in words and in data.

_MAX_NOTED_RECORDS = 5  # that a note tells
_MAX_NOTED_CHARS = 40  # of each
_MAX_MONTHS = 6  # that a reason names
_NO_LINKS = Note("note.no_links")
_OTHER_CITATIONS = Note("note.cited.other")
_OTHER_WORDS = Note("note.words.other")
_NOTES = {
  "empty": Note("note.empty"),
  "room": Note("note.room"),
  UNKNOWN_WORDS: Note("note.words.unknown"),
}


def find_reasons(
  scorer: PassageScorer,
  scores: PassageScores,
  evidence: Evidence,
  month: int,
) -> tuple[float, tuple[PassageReason, ...]]:
  """Returns the prior log odds of a month (K for none) and its reasons."""
  prior, shares, without = evidence.share_log_odds(month)
  # Of none of the months, the months that are likeliest if it is one.
  shown = int(np.argmax(evidence.log_p()[:-1]))
  shown = month if month < len(evidence.log_prior) else shown
  reasons = []
  for name, share in shares.items():
    if abs(share) < 1e-12 and name not in evidence.terms:
      continue
    spans, linked, note = _find_evidence(scorer, scores, name, shown)
    year_of = scorer.reader.axis.year_of
    other = int(np.argmax(evidence.terms.get(name, 0)))
    if name == "cited" and share < 0 and year_of[other] != year_of[shown]:
      # What other year the citations name, or the reason says nothing.
      spans, linked, note = _find_evidence(scorer, scores, name, other)
      if texts := note.values.get("texts"):
        note = Note("note.cited.against", texts=texts)
    reasons.append(
      PassageReason(
        expert=name,
        weight=share,
        note=note,
        spans=spans,
        linked=tuple(
          int(scorer.state.row_ids[row]) for row in linked if row >= 0
        ),
        months=_list_months(evidence, name),
        probability_without=to_probability(without[name]),
      )
    )
  return prior, tuple(sorted(reasons, key=lambda reason: -abs(reason.weight)))


def _list_months(
  evidence: Evidence, name: str
) -> tuple[tuple[int, float], ...]:
  """Returns the months that an expert speaks for most, the first of equals."""
  term = evidence.terms.get(name)
  if term is None:
    return ()
  best = np.argsort(-term, kind="stable")[:_MAX_MONTHS]
  return tuple(
    (int(month), float(term[month])) for month in best if term[month] > 0
  )


def _find_evidence(
  scorer: PassageScorer, scores: PassageScores, name: str, month: int
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...], Note]:
  """Returns spans, linked rows and the note of an expert."""
  year = int(scorer.reader.axis.year_of[month])
  if name == "openings":
    read = scores.reading.dates.explain(0, year)
    note = (
      Note("note.date.printed", printed=read.note)
      if read.note
      else Note("note.date.none")
    )
    return read.spans, (), note
  if name == UNKNOWN_WORDS and scores.reading.outside_log_ratio:
    read = scores.reading.dates.explain(0, year)
    note = Note("note.date.beyond", printed=read.note)
    return read.spans, (), note
  if name == "days":
    read = scores.reading.dates.explain_days(0)
    return read.spans, (), Note("note.days", days=read.note)
  if name == "words":
    note = scorer.state.words.note_strings(scores.reading.body, year)
    return (), (), Note("note.words.year", words=note) if note else _OTHER_WORDS
  if name == "cited":
    cited = scores.cited
    linked, note = explain_citations(
      scorer.reader.axis, cited.citations, cited.chances, cited.years, year
    )
    return (
      (),
      linked,
      Note("note.cited", texts=note) if note else _OTHER_CITATIONS,
    )
  if name == "copies":
    order = np.argsort(-scores.copy_weights, kind="stable")
    rows = scores.copies.rows[order[scores.copy_weights[order] > 0]]
    return (), tuple(rows.tolist()), _note_texts(scorer, rows)
  if name == "parallels":
    return (), *_note_links(scorer, scores.parallels)
  if name == "known":
    return (), *_note_links(scorer, scores.known)
  return (), (), _NOTES[name]


def _note_texts(scorer: PassageScorer, rows: np.ndarray) -> Note:
  """Returns a note on the texts of some records."""
  texts = "、".join(
    f"「{_cut(scorer.state.texts[row])}」"
    for row in rows[:_MAX_NOTED_RECORDS].tolist()
  )
  return Note("note.copy", texts=texts)


def _cut(text: str) -> str:
  return text[:_MAX_NOTED_CHARS] + "…" * (len(text) > _MAX_NOTED_CHARS)


def _note_links(
  scorer: PassageScorer, links: Links
) -> tuple[tuple[int, ...], Note]:
  """Returns all linked records, the surest first, and a note on some."""
  month_chances = links.chances[:, parallels.SAME_MONTH]
  order = np.lexsort((-links.year_chances, -month_chances))
  notes = []
  for index in order[:_MAX_NOTED_RECORDS].tolist():
    notes.append(
      Note(
        "note.text",
        text=_cut(scorer.state.texts[int(links.rows[index])]),
        date=Note(
          "note.text.chances",
          month=float(month_chances[index]),
          year=float(links.year_chances[index]),
        ),
      )
    )
  rows = dict.fromkeys(links.rows[order].tolist())
  shared = [*dict.fromkeys(notes)]
  return tuple(rows), Note("note.link", texts=shared) if shared else _NO_LINKS


# Log odds of that by words that are all unknown, where nothing else speaks;
# a share of unknown characters as of any text counts nothing.
_UNKNOWN_LOG_ODDS = 9.0
_USUAL_UNKNOWN_SHARE = 0.15
# Classes of which a saved dater is made.
_CLASSES = (
  scores.HiddenRecords,
  citations.PassageCitations,
  citations.BestOverlaps,
  citations.RecordTable,
  date_features.DateTables,
  scores.DayTable,
  scores.CorpusState,
  scores.PassageWords,
  regression.BinnedSoftmax,
  citations.TextTable,
  citations.WordingIndex,
  CredibleBlock,
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PassageDater:
  """A corpus, as far as it dates passages."""

  state: scores.CorpusState  # what is kept of the corpus
  calendar: Timeline | Calendar  # its months

  @property
  def characters(self) -> dict[str, int]:
    """How often the texts have each of their characters."""
    codes, counts = self.state.characters.tolist()
    return dict(zip(map(chr, codes), counts, strict=True))

  @functools.cached_property
  def _scorer(self) -> scores.PassageScorer:
    reader = scores.PassageReader(self.calendar, self.state.dates)
    return scores.PassageScorer(self.state, reader)

  @classmethod
  def fit(
    cls,
    texts: Sequence[str],
    labels: Labels,
    calendar: Timeline | Calendar,
    *,
    posteriors: CredibleBlock | None = None,
    is_placed: Bool[np.ndarray, " N"] | None = None,
    row_ids: Int[np.ndarray, " N"] | None = None,
    external_texts: Sequence[str] = (),
    is_placeholder: Bool[np.ndarray, " N"] | None = None,
  ) -> PassageDater:
    """Returns the dater of a corpus.

    Args:
      labels: months of records dated with certainty (by key, or by order with
        .9 or more), and whether each tells an event.
      calendar: a timeline (regnal months) or a calendar (lunations).
      posteriors: posteriors of records without a label, in `rows` of `texts`.
      is_placed: records whose label or posterior comes from themselves or
        their place in a work, and not from other records; by default those
        with a label.
      row_ids: ascending numbers by which reasons and `exclude` name the
        records; 0..N-1 by default.
      external_texts: texts outside the corpus; their citations count too.
      is_placeholder: see `corpus.read_corpus`.

    Raises:
      ValueError: if lengths differ, no record has a label, a month is outside
        the calendar, `row_ids` do not ascend, or a large corpus comes with
        external texts.
    """
    if row_ids is None:
      row_ids = np.arange(len(texts))
    lengths = len(texts), len(labels.month), len(labels.event_labels)
    if {*lengths} != {len(row_ids)}:
      raise ValueError(
        f"{len(texts)} texts, {len(labels.month)} labels and {len(row_ids)} "
        "row_ids should be as many"
      )
    if (np.diff(row_ids) <= 0).any():
      # A record that `exclude` names would not be found, and date itself.
      raise ValueError("row_ids should ascend")
    if not labels.is_known.any():
      raise ValueError(Note("problem.passage.none"))
    num_months = len(scores.make_axis(calendar))
    if is_placed is None:
      is_placed = labels.is_known
    if posteriors is None:
      posteriors = CredibleBlock.empty(num_months)
    known = labels.month[labels.is_known]
    if known.min() < 0 or known.max() >= num_months:
      raise ValueError(
        f"months of labels should be {UNKNOWN} or 0..{num_months - 1}, not "
        f"{known.min()}..{known.max()}"
      )
    if len(texts) <= fitting.MAX_FITTED_RECORDS:
      state = fitting.fit_corpus_state(
        *(texts, labels, calendar, posteriors, is_placed, row_ids),
        *(external_texts, is_placeholder),
      )
    elif external_texts:
      raise ValueError(
        f"texts from outside are read with {fitting.MAX_FITTED_RECORDS:,} "
        f"records at most, got {len(texts):,}"
      )
    else:
      state = fitting.fit_large_corpus(
        texts, labels, calendar, posteriors, is_placed, row_ids
      )
    return cls(state=state, calendar=calendar)

  def save(self, folder: pathlib.Path) -> None:
    """Writes the dater to a folder, which must be empty or missing."""
    fitting.write_state(folder, self.state)

  @classmethod
  def open(
    cls, folder: pathlib.Path, calendar: Timeline | Calendar
  ) -> PassageDater:
    """Returns the dater in a folder, fitted with `calendar`; arrays are mapped.

    Raises:
      FileNotFoundError: if the folder has none.
      ValueError: if a file is damaged, or of another version or calendar.
    """
    state = fitting.read_state(folder, _CLASSES)
    dater = cls(state=state, calendar=calendar)
    num_years = dater._scorer.reader.axis.num_years
    if len(state.year_prior) != num_years:
      raise ValueError(
        f"{folder}: of a calendar of {len(state.year_prior)} years, the one "
        f"given has {num_years}"
      )
    return dater

  def date(
    self,
    text: str,
    *,
    month: int | None = None,
    exclude: Collection[int] = (),
    with_reasons: bool = True,
  ) -> PassageDates:
    """Returns the date of a passage.

    Args:
      month: ordinal month to explain; the likeliest by default.
      exclude: records left out, by their number in `row_ids`.
      with_reasons: whether to look for the reasons.

    Raises:
      ValueError: if the month is not in the calendar.
    """
    num_months = len(self._scorer.reader.axis)
    if month is not None and not 0 <= month <= num_months:
      raise ValueError(f"month is 0..{num_months}, got {month}")
    excluded, is_found = find_sorted(
      self.state.row_ids, np.array(sorted(exclude), np.int64)
    )
    scores = self._scorer.score(text, excluded[is_found].tolist())
    evidence = self._weigh_evidence(scores)
    log_p = evidence.log_p()
    if month is None:
      # Where months are many, each has less than what is left for none of them.
      is_outside = log_p[-1] > np.log(0.5)
      month = num_months if is_outside else int(log_p[:-1].argmax())
    prior, reasons = float("nan"), ()
    if with_reasons:
      prior, reasons = find_reasons(self._scorer, scores, evidence, month)
    return PassageDates(
      log_p=log_p,
      month=month,
      prior_log_odds=prior,
      reasons=reasons,
      copies=self._list_copies(scores),
    )

  def _list_copies(self, scores: PassageScores) -> tuple[PassageCopy, ...]:
    """Returns the copies that have most of a passage, or date it."""
    copies = scores.copies
    kept = copies.is_exact | (copies.shares >= copies_lib.MIN_SHARE)
    kept |= scores.copy_weights > 0
    # An exact copy may leave the date of the passage to its heading.
    runs = copies.runs / max(copies.covered.shape[1], 1)
    shares = np.where(copies.is_exact, runs, copies.shares)
    return tuple(
      PassageCopy(row=int(row), is_exact=bool(is_exact), share=float(share))
      for row, is_exact, share in zip(
        self.state.row_ids[copies.rows[kept]],
        copies.is_exact[kept],
        shares[kept],
        strict=True,
      )
    )

  def _weigh_evidence(self, scores: scores.PassageScores) -> Evidence:
    """Returns the scores as they count, each against the prior."""
    log_prior = self._scorer.log_prior
    terms, outside_terms = {}, {}
    for name, term in scores.terms.items():
      weighed = self.state.inverse_temperature * term
      terms[name] = weighed - logsumexp(log_prior + weighed)
    if scores.copied.any():
      inside = logsumexp(log_prior + scores.copied[:-1])
      terms["copies"] = scores.copied[:-1] - inside
      outside_terms["copies"] = float(scores.copied[-1] - inside)
    substitutes = {
      names: self.state.inverse_temperature * term
      for names, term in scores.substitutes.items()
      if terms.keys() >= {*names}
    }
    joint = log_prior + sum(terms.values())
    joint -= logsumexp(joint)
    information = float(np.exp(joint) @ (joint - log_prior))
    share = self._share_unknown(scores.reading.body, information)
    return Evidence(
      log_prior=log_prior,
      terms=terms,
      substitutes=substitutes,
      outside_terms=outside_terms,
      outside_log_odds=math.log(OUTSIDE_CHANCE / (1 - OUTSIDE_CHANCE)),
      outside_term=scores.reading.outside_log_ratio
      + _UNKNOWN_LOG_ODDS * share * float(np.exp(-information)),
    )

  def _share_unknown(self, body: str, information: float) -> float:
    """Returns the share of unknown characters beyond the usual, 0 to 1."""
    if not body:
      # A date alone has no words that could be known.
      return float(information == 0)
    share = self.state.words.share_unknown(body)
    return max(share - _USUAL_UNKNOWN_SHARE, 0) / (1 - _USUAL_UNKNOWN_SHARE)
