"""Dated gallery: retrieval systems that date the gallery from its texts first.

A posterior is compared with other retrievers where they all meet, in run files.
Of a benchmark the model reads the texts, and month and kind of the records of
train months; months and kinds of the others stay outside.

Axes: N records, Q queries, K months, k results.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
from collections.abc import Sequence

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import ANSWERING_KINDS
from ctd_jax.dating import dating_model
from ctd_jax.dating.corpus import UNKNOWN, Labels, read_corpus
from ctd_jax.dating.dating_model import FittedDatingModel
from ctd_jax.dating.features import CorpusFeatures, read_corpus_features
from ctd_jax.dating.query_posterior import GalleryDates
from ctd_jax.dating.query_wording import RecordWording

SCORE_MODE = "posterior"
TRACK, EXTERNAL_TRACK = "T0", "T0+external"
_BRACKET_NOTE = re.compile(r"\(([^)]*)\)")
# Headings, tags, entities and white space of the Kanripo editions.
_MARKUP = re.compile(r"(?m)^#.*$|<[^>]*>|&[^;\s]*;|[¶\s/\u3000]")


def make_train_labels(benchmark: Benchmark) -> Labels:
  """Returns what is known of the records: month and kind, of train alone."""
  is_train = np.array(benchmark.record_splits) == "train"
  months = [
    benchmark.timeline.ordinal(record.key) for record in benchmark.records
  ]
  event_labels = np.isin(benchmark.kinds, ANSWERING_KINDS).astype(int)
  return Labels(
    np.where(is_train, months, UNKNOWN),
    np.where(is_train, event_labels, UNKNOWN),
  )


def read_bracket_notes(folder: pathlib.Path) -> list[str]:
  """Returns the bracket notes of the Kanripo editions below `folder`.

  Raises:
    FileNotFoundError: if there is no such edition below it.
    ValueError: naming a file that is not UTF-8.
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
  """The gallery of a benchmark and a model that dates it.

  Attributes:
    benchmark: whose gallery.
    model: the model, not fitted yet.
    features: of the texts, before dates are learned.
    track: what the texts were read from.
  """

  benchmark: Benchmark
  model: dating_model.DatingModel
  features: CorpusFeatures
  track: str

  @functools.cached_property
  def fitted_model(self) -> FittedDatingModel:
    """The model, fitted on the records of train months."""
    labels = make_train_labels(self.benchmark)
    return self.model.fit(self.features.corpus, labels, self.features)

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
    benchmark: whose gallery.
    external_texts: texts from outside the gallery whose citations count as
      well.
    model: dates the gallery; one of all experts by default.
  """
  model = model or dating_model.DatingModel()
  corpus = read_corpus(
    [record.text for record in benchmark.records],
    benchmark.timeline,
    external_texts,
  )
  features = read_corpus_features(
    corpus, make_train_labels(benchmark), model.use_punctuation
  )
  track = EXTERNAL_TRACK if external_texts else TRACK
  return DatedGallery(benchmark, model, features, track)
