"""Passage dater: the month of a text that is in no corpus, in milliseconds.

A `DatingModel` dates the records of a corpus together and takes minutes. A
passage comes later and alone. What the experts learned of the corpus is kept
as arrays that are mapped into memory, and the passage is read beside them: its
printed date, its words, the citations and the parallels that share its wording.

  dater = PassageDater.fit(texts, labels, calendar)
  dater.save(folder)
  dater = PassageDater.open(folder, calendar)
  dates = dater.date("五月，葬衛桓公。")
  dates.log_p, dates.reasons

Axes: N records, K months.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Int
from scipy.special import logsumexp

from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating import regression
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.experts import date_features
from ctd_jax.dating.passages import (
  hidden_records,
  log_odds,
  passage_citations,
  passage_pairs,
  passage_reading,
  passage_reasons,
  passage_scores,
  passage_words,
  saved_state,
  text_table,
  wording_index,
)
from ctd_jax.dating.passages.passage_dates import PassageDates
from ctd_jax.dating.posterior import CredibleBlock
from ctd_jax.utils.notes import Note

# Prior chance that a passage is of none of the months: with it an era that the
# calendar lacks is as likely as not outside of it.
_OUTSIDE_CHANCE = 0.02
# Log odds of that by words that are all unknown, where nothing else speaks;
# a share of unknown characters as of any text counts nothing.
_UNKNOWN_LOG_ODDS = 9.0
_USUAL_UNKNOWN_SHARE = 0.15
# Classes of which a saved dater is made.
_CLASSES = (
  hidden_records.HiddenRecords,
  passage_citations.PassageCitations,
  passage_pairs.BestOverlaps,
  passage_pairs.RecordTable,
  date_features.DateTables,
  passage_reading.DayTable,
  passage_scores.CorpusState,
  passage_words.PassageWords,
  regression.BinnedSoftmax,
  text_table.TextTable,
  wording_index.WordingIndex,
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PassageDater:
  """A corpus, as far as it dates passages.

  Attributes:
    state: what is kept of the corpus.
    calendar: its months.
  """

  state: passage_scores.CorpusState
  calendar: Timeline | Calendar

  @functools.cached_property
  def _scorer(self) -> passage_scores.PassageScorer:
    reader = passage_reading.PassageReader(self.calendar, self.state.dates)
    return passage_scores.PassageScorer(self.state, reader)

  @classmethod
  def fit(
    cls,
    texts: Sequence[str],
    labels: Labels,
    calendar: Timeline | Calendar,
    *,
    posteriors: CredibleBlock | None = None,
    row_ids: Int[np.ndarray, " N"] | None = None,
    external_texts: Sequence[str] = (),
  ) -> PassageDater:
    """Returns the dater of a corpus.

    Args:
      texts: of the records, [N].
      labels: month of each record that is dated for sure (by key, or by order
        with .9 or more), UNKNOWN (-1) for the others; and whether it tells an
        event (1) or comments on one (0), UNKNOWN where that is not known.
      calendar: the months: a timeline, by its regnal months, or a calendar, by
        its lunations (`undated_texts.make_month_axis`).
      posteriors: of records without a label, in `rows` of `texts`; months as of
        the calendar. Those without are dated by their words, dates and
        citations.
      row_ids: numbers by which reasons and `exclude` name the records; 0..N-1
        by default. Ascending.
      external_texts: texts that are no records and whose citations count.

    Raises:
      ValueError: if lengths differ, no record has a label, or a month is
        outside of the calendar; if there are texts from outside beside a
        corpus of which only a sample teaches (`large_corpora`).
    """
    # Here and not above: what fits is not needed to date.
    from ctd_jax.dating.passages import corpus_fitting, large_corpora

    if row_ids is None:
      row_ids = np.arange(len(texts))
    _check_records(texts, labels, calendar, row_ids)
    if len(texts) > large_corpora.MAX_FITTED_RECORDS:
      if external_texts:
        raise ValueError(
          "texts from outside are read beside "
          f"{large_corpora.MAX_FITTED_RECORDS:,} records at most, got "
          f"{len(texts):,}"
        )
      state = large_corpora.fit_large_corpus(
        texts, labels, calendar, posteriors, row_ids
      )
    else:
      state = corpus_fitting.fit_corpus_state(
        texts, labels, calendar, posteriors, row_ids, external_texts
      )
    return cls(state=state, calendar=calendar)

  def save(self, folder: pathlib.Path) -> None:
    """Writes the dater to a folder, which must be empty or lack.

    Args:
      folder: of .npy arrays and one JSON file.

    Raises:
      FileExistsError: if the folder holds something.
    """
    saved_state.write_state(folder, self.state)

  @classmethod
  def open(
    cls, folder: pathlib.Path, calendar: Timeline | Calendar
  ) -> PassageDater:
    """Returns the dater in a folder, its arrays mapped into memory.

    Args:
      folder: from `save`.
      calendar: that it was fitted with.

    Raises:
      FileNotFoundError: if there is none in the folder.
      ValueError: naming the file, if it is damaged, of another version, or of
        another calendar.
    """
    state = saved_state.read_state(folder, _CLASSES)
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
    """Returns when a passage is of.

    Args:
      text: of the passage, with its printed date if it has one.
      month: ordinal month that the reasons are for; by default the likeliest,
        none of the calendar only where that is likelier than all months.
      exclude: records that play no part, by their number in `row_ids`: the
        passage itself, where it is in the corpus.
      with_reasons: whether to look for the reasons.

    Raises:
      ValueError: if the month is none of the calendar.
    """
    num_months = len(self._scorer.reader.axis)
    if month is not None and not 0 <= month <= num_months:
      raise ValueError(f"month is 0..{num_months}, got {month}")
    rows = self._find_rows(exclude)
    scores = self._scorer.score(text, rows)
    evidence = self._weigh_evidence(scores)
    log_p = evidence.log_p()
    month = _find_likeliest(log_p) if month is None else month
    prior, reasons = float("nan"), ()
    if with_reasons:
      prior, reasons = passage_reasons.find_reasons(
        self._scorer, scores, evidence, month
      )
    return PassageDates(
      log_p=log_p, month=month, prior_log_odds=prior, reasons=reasons
    )

  def _find_rows(self, exclude: Collection[int]) -> list[int]:
    """Returns the rows of records by their numbers."""
    row_ids = self.state.row_ids
    wanted = np.array(sorted(exclude), np.int64)
    rows = np.searchsorted(row_ids, wanted)
    is_found = rows < len(row_ids)
    is_found[is_found] = row_ids[rows[is_found]] == wanted[is_found]
    return rows[is_found].tolist()

  def _weigh_evidence(
    self, scores: passage_scores.PassageScores
  ) -> log_odds.Evidence:
    """Returns the scores as they count, each against the prior."""
    axis = self._scorer.reader.axis
    log_prior = np.log(self.state.year_prior)[axis.year_of]
    log_prior -= logsumexp(log_prior)
    terms = {}
    for name, term in scores.terms.items():
      weighed = self.state.inverse_temperature * term
      terms[name] = weighed - logsumexp(log_prior + weighed)
    substitutes = {}
    if "cited" in terms and "parallels" in terms:
      substitutes["parallels", "cited"] = (
        self.state.inverse_temperature * scores.uncited_parallels
      )
    joint = log_prior + sum(terms.values())
    joint -= logsumexp(joint)
    information = float(np.exp(joint) @ (joint - log_prior))
    share = self._share_unknown(scores.reading.body, information)
    return log_odds.Evidence(
      log_prior=log_prior,
      terms=terms,
      substitutes=substitutes,
      outside_log_odds=float(
        np.log(_OUTSIDE_CHANCE) - np.log1p(-_OUTSIDE_CHANCE)
      ),
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


def _find_likeliest(log_p: np.ndarray) -> int:
  """Returns the likeliest month, K if it is more likely none than any.

  Where months are many, each has less than what is left for none of them.
  """
  is_outside = log_p[-1] > np.log(0.5)
  return len(log_p) - 1 if is_outside else int(log_p[:-1].argmax())


def _check_records(
  texts: Sequence[str],
  labels: Labels,
  calendar: Timeline | Calendar,
  row_ids: np.ndarray,
) -> None:
  lengths = {
    "texts": len(texts),
    "months": len(labels.month),
    "event labels": len(labels.event_labels),
    "row_ids": len(row_ids),
  }
  if len(set(lengths.values())) > 1:
    raise ValueError(
      "texts, labels and row_ids should be as many, got "
      + ", ".join(f"{count} {name}" for name, count in lengths.items())
    )
  if not labels.is_known.any():
    raise ValueError(Note("problem.passage.none"))
  num_months = len(passage_reading.make_axis(calendar))
  known = labels.month[labels.is_known]
  if known.min() < 0 or known.max() >= num_months:
    raise ValueError(
      f"months of records are {UNKNOWN} (unknown) or 0..{num_months - 1}, got "
      f"{known.min()}..{known.max()}"
    )
  if (np.diff(row_ids) <= 0).any():
    raise ValueError("row_ids should ascend")
