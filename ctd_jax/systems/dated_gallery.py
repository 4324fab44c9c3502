"""Dated gallery: retrieval systems that date the gallery from its texts first.

A posterior is compared with other retrievers through run files. The model reads
a benchmark's texts, which records are placeholders, and the months and kinds of
the records of train months; it never sees those of other records.

Axes: N records, Q queries, K months, k results.
"""

import collections
import dataclasses
import functools
import pathlib
import re
from collections.abc import Sequence

import numpy as np
from absl import logging
from jaxtyping import Float, Int

from ctd_jax.benchmark.benchmark import ANSWERING_KINDS, NO_EVENT, Benchmark
from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating import dating_model
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import ChronicleDates
from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels, read_corpus
from ctd_jax.dating.dating_model import FittedDatingModel
from ctd_jax.dating.experts import base
from ctd_jax.dating.experts.base import CorpusFeatures, read_corpus_features
from ctd_jax.dating.posterior import CredibleBlock, Posterior
from ctd_jax.dating.query_posterior import GalleryDates, RecordWording
from ctd_jax.texts.works import Entry, Place

SCORE_MODE = "posterior"
_BRACKET_NOTE = re.compile(r"\(([^)]*)\)")
# Headings, tags, entities and white space of the Kanripo editions.
_MARKUP = re.compile(r"(?m)^#.*$|<[^>]*>|&[^;\s]*;|[¶\s/\u3000]")


def make_train_labels(benchmark: Benchmark) -> Labels:
  """Returns the known months and kinds of the records, for train alone."""
  is_train = np.array(benchmark.record_splits) == "train"
  months = [
    benchmark.timeline.ordinal(record.key) for record in benchmark.records
  ]
  return Labels(
    np.where(is_train, months, UNKNOWN),
    np.where(
      is_train, np.isin(benchmark.kinds, ANSWERING_KINDS).astype(int), UNKNOWN
    ),
  )


def read_bracket_notes(folder: pathlib.Path) -> list[str]:
  """Returns the bracket notes of the Kanripo editions below `folder`.

  Raises:
    FileNotFoundError: if there is no such edition in it.
    ValueError: if a file is not UTF-8; the message names it.
  """
  paths = sorted(folder.glob("*KR1e*/**/*.txt"))
  if not paths:
    raise FileNotFoundError(
      f"{folder}: no texts *KR1e*/**/*.txt below it; expected the folder of "
      "source texts that chunqiutr/rebuilt is built from"
    )
  notes = []
  for path in paths:
    try:
      text = _MARKUP.sub("", path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
      raise ValueError(f"{path}: not UTF-8 at byte {error.start}") from error
    notes += _BRACKET_NOTE.findall(text.replace(")(", ""))
  return notes


@dataclasses.dataclass(frozen=True)
class DatedGallery:
  """The gallery of a benchmark and a model that dates it."""

  benchmark: Benchmark  # whose gallery
  model: dating_model.DatingModel  # the model, not fitted yet
  features: CorpusFeatures  # of the texts, before dates are learned

  @functools.cached_property
  def fitted_model(self) -> FittedDatingModel:
    """The model, fitted on the records of train months."""
    return self.model.fit(
      self.features.corpus, make_train_labels(self.benchmark), self.features
    )

  @functools.cached_property
  def wording(self) -> RecordWording:
    """The texts of the records, with which queries are compared."""
    corpus = self.features.corpus
    return RecordWording(corpus.texts, corpus.plain_texts)

  def date(self, variant: str) -> GalleryDates:
    """Returns the dates of all records.

    Args:
      variant: see `FittedDatingModel.predict`.

    Raises:
      ValueError: if the variant is unknown.
    """
    return GalleryDates(
      posterior=self.fitted_model.predict(variant),
      event_log_p=self.features.event_log_p,
      wording=self.wording,
    )


def read_dated_gallery(
  benchmark: Benchmark,
  external_texts: Sequence[str] = (),
  model: dating_model.DatingModel | None = None,
) -> DatedGallery:
  """Returns the gallery of a benchmark, read but not dated.

  Args:
    benchmark: benchmark with the gallery.
    external_texts: texts from outside the gallery whose citations count as
      well.
    model: dates the gallery; one of all experts by default.
  """
  model = model or dating_model.DatingModel()
  corpus = read_corpus(
    [record.text for record in benchmark.records],
    benchmark.timeline,
    external_texts,
    benchmark.kinds == NO_EVENT,
  )
  features = read_corpus_features(
    corpus, make_train_labels(benchmark), model.use_punctuation
  )
  return DatedGallery(benchmark, model, features)


# ----------------------------------------------------------------------------
# Works in order: the gallery dated by where its records stand in their works.
#
# Each source work is decoded as a chronicle: its records go forward in time,
# and what they print of months, seasons and days says how far. No heading is
# read. A placeholder says its month itself; a work that prints no date is of
# any month.
#
# Track T0+order: beside the texts the systems read `Record.source` and
# `Record.order`. Of "dating-order" the records of train months have their
# labels, and so hold the others between them; of "dating-order-strict" labels
# date no record, they teach only what an event looks like.
#
# Axes: N records, n of one work, K months of the timeline, L lunations.


def list_works(
  benchmark: Benchmark, corpus: Corpus
) -> dict[str, Int[np.ndarray, " n"]]:
  """Returns the rows of each source's records in order, where that is known.

  Placeholders, whose texts state their own month, belong to no work.

  Args:
    benchmark: benchmark with the gallery.
    corpus: its texts.
  """
  rows = collections.defaultdict(list)
  for row, record in enumerate(benchmark.records):
    if record.order >= 0 and not corpus.is_placeholder[row]:
      rows[record.source].append((record.order, row))
  return {
    source: np.array([row for _, row in sorted(of_work)])
    for source, of_work in sorted(rows.items())
  }


def date_works(
  benchmark: Benchmark, corpus: Corpus, known_months: Int[np.ndarray, " N"]
) -> Posterior:
  """Returns the posterior of all records.

  Args:
    benchmark: benchmark with the gallery.
    corpus: its texts.
    known_months: ordinal month of each record, UNKNOWN if it is not known.
  """
  calendar = calendar_lib.make_calendar(benchmark.timeline)
  lunation_of = calendar_lib.map_time_keys(benchmark.timeline, calendar)
  months = [np.zeros(0, int)] * len(corpus)
  probabilities = [np.zeros(0)] * len(corpus)
  for source, rows in list_works(benchmark, corpus).items():
    known = known_months[rows]
    lunations = np.where(known == UNKNOWN, UNKNOWN, lunation_of[known])
    try:
      dates = date_work(
        source, [corpus.texts[row] for row in rows], lunations, calendar
      )
    except ValueError as error:  # it prints no date
      logging.warning("%s: records of any month, for %s", source, error)
      continue
    for row, chances in zip(
      rows, spread_lunations(dates, calendar, lunation_of), strict=True
    ):
      months[row] = np.flatnonzero(chances)
      probabilities[row] = chances[months[row]]
  return Posterior(
    axis=corpus.axis,
    certain_months=np.where(
      known_months == UNKNOWN, corpus.placeholder_month, known_months
    ),
    blocks=(
      CredibleBlock(
        rows=np.arange(len(corpus)),
        starts=np.cumsum([0, *map(len, months)]),
        months=np.concatenate(months),
        probabilities=np.concatenate(probabilities),
        num_months=len(corpus.axis),
      ),
    ),
  )


def date_work(
  source: str,
  texts: Sequence[str],
  known_lunations: Int[np.ndarray, " n"],
  calendar: Calendar,
) -> ChronicleDates:
  """Returns the dates of a work.

  Args:
    source: name of the work.
    texts: texts of its records in order, [n].
    known_lunations: lunation of each record, UNKNOWN if it is not known.
    calendar: calendar of the timeline.

  Raises:
    ValueError: if no record prints a date and none is known.
  """
  entries = [
    Entry(text, Place(source, line)) for line, text in enumerate(texts, 1)
  ]
  sections = chronicle_dating.read_all_sections(entries, calendar)
  allowed_months = {
    number: np.arange(len(calendar)) == known_lunations[section.record]
    for number, section in enumerate(sections)
    # A record belongs to the month in which it begins.
    if section.start == 0 and known_lunations[section.record] != UNKNOWN
  }
  return chronicle_dating.date_sections(
    entries, sections, calendar, allowed_months=allowed_months
  )


def spread_lunations(
  dates: ChronicleDates,
  calendar: Calendar,
  lunation_of: Int[np.ndarray, " K"],
) -> list[Float[np.ndarray, " K"]]:
  """Returns the chances of each record's month, by its first section.

  Where a lunation has several names in the timeline, each has an equal share.

  Args:
    dates: dates of a work.
    calendar: all L lunations; those of the dates may be fewer.
    lunation_of: lunation of each month of the timeline.
  """
  lunations = calendar_lib.match_months(dates.calendar, calendar)
  num_names = np.bincount(lunation_of, minlength=len(calendar) + 1)
  chances_of_record = []
  for number, section in enumerate(dates.sections):
    if section.start:
      continue
    chances = np.zeros(len(calendar) + 1)
    chances[lunations[dates.credible.months_of(number)]] = (
      dates.credible.probabilities_of(number)
    )
    chances_of_record.append((chances / np.maximum(num_names, 1))[lunation_of])
  return chances_of_record


def date_gallery(benchmark: Benchmark, use_labels: bool) -> GalleryDates:
  """Returns the dates of all records.

  Args:
    benchmark: benchmark with the gallery.
    use_labels: whether records of train months have the months of their labels.
  """
  corpus = corpus_lib.read_corpus(
    [record.text for record in benchmark.records],
    benchmark.timeline,
    is_placeholder=benchmark.kinds == NO_EVENT,
  )
  labels = make_train_labels(benchmark)
  known_months = labels.month if use_labels else np.full(len(corpus), UNKNOWN)
  return GalleryDates(
    posterior=date_works(benchmark, corpus, known_months),
    event_log_p=base.predict_event_log_p(corpus, labels),
    wording=RecordWording(corpus.texts, corpus.plain_texts),
  )
