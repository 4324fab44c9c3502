"""Dates works by the model: their records have neither keys nor order.

Records of a data set are dated together on its own timeline, as in the
evaluation, and moved to lunations. Other works are dated on the calendar of the
index, with records of any work that have certain dates as labels.

Axes: N records, b a block of them, T months of a timeline, K lunations.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse
from absl import logging
from jaxtyping import Float, Int

from ctd_jax.benchmark.benchmark import (
  ANSWERING_KINDS,
  NEG_COMMENT,
  NO_EVENT,
)
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating import dating_model
from ctd_jax.dating.chronicle import undated_texts
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.passages.passages import PassageDater
from ctd_jax.dating.posterior import Posterior
from ctd_jax.index import posteriors as posteriors_lib
from ctd_jax.index.building.sources import SourceRecord
from ctd_jax.index.posteriors import PosteriorArrays
from ctd_jax.utils import output
from ctd_jax.utils.notes import Note

# Records dated at once: their scores of years are held in memory.
MAX_RECORDS = 50_000
# Records of a data set that are dated together. Undated records of a larger
# one are dated from a sample of the known ones, like other texts.
MAX_GROUP_RECORDS = 200_000
# Known records that others are dated from; more are sampled.
MAX_LABELS = 100_000
# Known records that a model needs to learn anything.
MIN_LABELS = 8
_BLOCK = 512  # records with whole posteriors in memory
_MARGIN_YEARS = 30  # before the first known record and after the last
# Probability that a text without a date is outside the calendar.
_OUTSIDE_CHANCE = 0.005


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LabelPool:
  """Records with certain dates, from which others are dated."""

  texts: Sequence[str]
  months: Int[np.ndarray, " n"]  # lunation of each text

  def __len__(self) -> int:
    return len(self.texts)

  def sample(self, size: int) -> LabelPool:
    """Returns `size` records, chosen by their texts whatever their order."""
    if len(self) <= size:
      return self
    logging.info(
      "dating by %s of %s known records", f"{size:,}", f"{len(self):,}"
    )
    hashes = np.array([zlib.crc32(text.encode()) for text in self.texts])
    rows = np.sort(np.argsort(hashes, kind="stable")[:size])
    return LabelPool(
      texts=[self.texts[row] for row in rows], months=self.months[rows]
    )


def date_group(
  records: Sequence[SourceRecord],
  ordinals: Int[np.ndarray, " N"],
  timeline: Timeline,
  lunation_of: Int[np.ndarray, " T"],
  num_months: int,
) -> PosteriorArrays:
  """Returns the posteriors of the records of a data set.

  Args:
    ordinals: known month of the timeline of each record, or UNKNOWN.
    lunation_of: lunation of each month of the timeline.
  """
  kinds = np.array([record.kind for record in records])
  is_event = np.where(kinds == NEG_COMMENT, 0, 1)
  labels = Labels(
    np.asarray(ordinals, int), np.where(ordinals == UNKNOWN, UNKNOWN, is_event)
  )
  corpus = corpus_lib.read_corpus(
    [record.text for record in records],
    timeline,
    is_placeholder=kinds == NO_EVENT,
  )
  fitted = dating_model.DatingModel().fit(corpus, labels)
  to_lunations = scipy.sparse.csr_matrix(
    (np.ones(len(timeline)), (np.arange(len(timeline)), lunation_of)),
    shape=(len(timeline), num_months + 1),
  )
  has_kind = np.isin(kinds, (*ANSWERING_KINDS, NEG_COMMENT))
  return posteriors_lib.make_posterior_arrays(
    (
      block @ to_lunations
      for block in _iterate_posterior(fitted.predict(), np.arange(len(corpus)))
    ),
    num_months,
    np.where(has_kind, fitted.event_log_p, 0),
  )


def _iterate_posterior(
  posterior: Posterior, rows: Int[np.ndarray, " n"]
) -> Iterator[np.ndarray]:
  for start in range(0, len(rows), _BLOCK):
    yield np.exp(posterior.log_p(rows[start : start + _BLOCK]))


def date_passages(
  texts: Sequence[str], dater: PassageDater, num_months: int
) -> PosteriorArrays:
  """Returns the posteriors of undated texts, each dated by itself."""
  bar = output.Progress(texts, "dating", unit="record")
  return posteriors_lib.make_posterior_arrays(
    (np.exp(dater.date(it, with_reasons=False).log_p)[None] for it in bar),
    num_months,
  )


def date_texts(
  texts: Sequence[str], labels: LabelPool, calendar: Calendar
) -> PosteriorArrays:
  """Returns the posteriors of undated texts, in any order."""
  parts = [
    posteriors_lib.make_certain_posteriors(np.zeros(0, int), len(calendar))
  ]
  if not texts:
    return parts[0]
  if len(labels) < MIN_LABELS:
    raise ValueError(
      Note("problem.build.labels", number=len(labels), limit=MIN_LABELS)
    )
  years, of_labels = calendar.years, calendar.years[labels.months]
  is_kept = (years >= of_labels.min() - _MARGIN_YEARS) & (
    years <= of_labels.max() + _MARGIN_YEARS
  )
  labels = labels.sample(MAX_LABELS)
  for start in range(0, len(texts), MAX_RECORDS):
    chunk = texts[start : start + MAX_RECORDS]
    logging.info(
      "dating %s texts by %s known records",
      f"{len(chunk):,}",
      f"{len(labels):,}",
    )
    blocks = _date_chunk(chunk, labels, calendar.take(is_kept), is_kept)
    parts.append(posteriors_lib.make_posterior_arrays(blocks, len(calendar)))
  return PosteriorArrays.concatenate(parts)


def _date_chunk(
  texts: Sequence[str],
  labels: LabelPool,
  calendar: Calendar,
  is_kept: np.ndarray,
) -> Iterator[Float[np.ndarray, "b months"]]:
  all_texts = [*labels.texts, *texts]
  corpus, heads = undated_texts.read_headed_corpus(
    all_texts, undated_texts.make_month_axis(calendar), calendar
  )
  is_text = np.arange(len(all_texts)) >= len(labels)
  new_ordinals = np.cumsum(is_kept) - 1
  months = np.full(len(all_texts), UNKNOWN)
  months[~is_text] = new_ordinals[labels.months]
  model = undated_texts.make_text_model(
    undated_texts.HeadDates(
      corpus=corpus, calendar=calendar, heads=heads, is_read=is_text
    )
  )
  fitted = model.fit(
    corpus, Labels(months, np.where(months == UNKNOWN, UNKNOWN, 1))
  )
  columns = np.flatnonzero(is_kept)
  for block in _iterate_posterior(fitted.predict(), np.flatnonzero(is_text)):
    whole = np.zeros((len(block), len(is_kept) + 1))
    whole[:, columns] = (1 - _OUTSIDE_CHANCE) * block
    whole[:, -1] = _OUTSIDE_CHANCE
    yield whole


def limit_to_known_months(
  posteriors: PosteriorArrays, known_months: Int[np.ndarray, "n 2"]
) -> PosteriorArrays:
  """Returns posteriors with each record's mass moved into its known months.

  Args:
    known_months: first and last, UNKNOWN if nothing is known.
  """
  num_months = posteriors.num_months
  first, last = known_months.T
  is_inside = (first != UNKNOWN) & (first < num_months)
  single = np.flatnonzero(is_inside & (first == last))
  intervals = np.flatnonzero(is_inside & (first != last))
  if not is_inside.any():
    return posteriors

  def limit_to_interval(row: int) -> np.ndarray:
    chances = np.zeros((1, num_months + 1))
    span = slice(first[row], min(last[row], num_months - 1) + 1)
    chances[0, span] = posteriors.p_months(row)[span] + 1e-9
    return chances / chances.sum()

  certain = posteriors_lib.make_certain_posteriors(first[single], num_months)
  limited = posteriors_lib.make_posterior_arrays(
    map(limit_to_interval, intervals.tolist()), num_months
  )
  number = np.arange(len(posteriors))
  number[single] = len(posteriors) + np.arange(len(single))
  number[intervals] = len(posteriors) + len(single) + np.arange(len(intervals))
  joined = PosteriorArrays.concatenate([posteriors, certain, limited])
  return dataclasses.replace(
    joined.take(number), event_log_p=posteriors.event_log_p
  )
