"""What the experts are to be told: everything read from the texts once.

Why: the experts share one reading of a gallery, made before any date is
learned, and which of them speak is one choice for all. Labels decide here only
what looks like an event, not when it was. Made by `system`, used by `dater`.

Axes: N records, E events among them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating import corpus as gallery_lib
from ctd_jax.dating.corpus import UNKNOWN, Gallery, Labels
from ctd_jax.dating.experts import (
  citations,
  event_classifier,
  parallel_texts,
  shared_wording,
  vocabulary,
  year_encoder,
)

_LOG_HALF = np.log(0.5)
# Records from which the years of words, and the characters there are, are read.
_MAX_VOCABULARY_RECORDS = 200_000
_MAX_ALPHABET_RECORDS = 50_000


@dataclasses.dataclass(frozen=True)
class Experts:
  """Which evidence is used; each can be switched off for an ablation.

  Attributes:
    openings: month, season and year number that open a record.
    days: sexagenary days against the computed calendar.
    empty: months with a placeholder have no other record. `seasons` and `room`
      read placeholders too.
    seasons: whether a season is named, against its empty months; speaks only
      where `openings` does.
    words: names and words by year.
    neural: an encoder that reads the text whole, by year.
    cited: years cited in commentary beside the event.
    carried: cited years without a ruler.
    parallels: records that tell the same event, and messages along links.
    room: each work opens a month once.
    punctuation: the style classifier sees punctuation.
  """

  openings: bool = True
  days: bool = True
  empty: bool = True
  seasons: bool = True
  words: bool = True
  neural: bool = True
  cited: bool = True
  carried: bool = True
  parallels: bool = True
  room: bool = True
  punctuation: bool = True

  @classmethod
  def without_experts(cls, names: Iterable[str]) -> Experts:
    """Returns all experts but those of these names."""
    return cls(**dict.fromkeys(names, False))


EXPERT_NAMES = tuple(field.name for field in dataclasses.fields(Experts))


@dataclasses.dataclass(frozen=True)
class GalleryFeatures:
  """Everything read from the texts, before dates are learned.

  Attributes:
    gallery: the texts.
    event_log_p: log p(answering kind | text), [N].
    is_event: records that are events, by their style, bool [N].
    event_records: their indices, [E].
    year_vocabulary: strings of all records.
    year_predictor: encoders of the years.
    citation_pairs: citations beside events.
    parallel_pairs: events beside events.
    comment_pairs: commentary beside events.
    experts: which of it to use.
  """

  gallery: Gallery
  event_log_p: np.ndarray
  is_event: np.ndarray
  event_records: np.ndarray
  year_vocabulary: vocabulary.YearVocabulary
  year_predictor: year_encoder.YearPredictor
  citation_pairs: citations.CitationPairs
  parallel_pairs: parallel_texts.ParallelPairs
  comment_pairs: parallel_texts.ParallelPairs
  experts: Experts

  @property
  def is_placeholder(self) -> np.ndarray:
    """Which records state their month and tell no event, bool [N]."""
    return self.gallery.placeholder_month != UNKNOWN


def read_gallery_features(
  texts: Sequence[str],
  timeline: Timeline,
  labels: Labels,
  experts: Experts | None = None,
  external_texts: Sequence[str] = (),
  seed: int = 42,
) -> GalleryFeatures:
  """Returns the evidence in the texts of a gallery.

  Args:
    texts: of the records [N].
    timeline: the calendar.
    labels: kinds of known records, from which style is learned.
    experts: which evidence to use; all by default.
    external_texts: texts from outside the gallery whose citations count as well
      (track T0+external).
    seed: of the neural expert.
  """
  experts = experts or Experts()
  gallery = gallery_lib.read_gallery(texts, timeline)
  event_log_p = event_classifier.predict_event_log_p(
    gallery, labels, experts.punctuation
  )
  is_placeholder = gallery.placeholder_month != UNKNOWN
  is_event = (event_log_p > _LOG_HALF) & ~is_placeholder
  # The date of an event's opening is left to `cues`; in commentary it is a
  # citation, so it stays.
  bodies = [
    "" if placeholder else body if event else plain
    for placeholder, event, body, plain in zip(
      is_placeholder, is_event, gallery.bodies, gallery.plain_texts, strict=True
    )
  ]
  event_records = np.flatnonzero(is_event)
  string_index = shared_wording.build_string_index(
    [bodies[row] for row in event_records]
  )
  comment_records = np.flatnonzero(~is_event & ~is_placeholder)
  all_citations = citations.read_citations(
    gallery.axis,
    {int(row): gallery.plain_texts[row] for row in comment_records},
  )
  all_citations += citations.read_citations(
    gallery.axis, list(map(gallery_lib.plain_text, external_texts))
  )

  def make_pairs(rows):
    return parallel_texts.make_parallel_pairs(
      gallery, event_records, string_index, rows, [bodies[row] for row in rows]
    )

  return GalleryFeatures(
    gallery,
    event_log_p,
    is_event,
    event_records,
    vocabulary.build_year_vocabulary(
      bodies, gallery.sample_rows(_MAX_VOCABULARY_RECORDS)
    ),
    # The encoder reads events, and no others.
    year_encoder.make_year_predictor(
      [
        body if event else ""
        for body, event in zip(bodies, is_event, strict=True)
      ],
      [
        gallery.plain_texts[row]
        for row in gallery.sample_rows(_MAX_ALPHABET_RECORDS)
      ],
      seed,
    ),
    citations.make_citation_pairs(
      gallery, event_records, string_index, all_citations
    ),
    make_pairs(event_records),
    make_pairs(comment_records),
    experts,
  )
