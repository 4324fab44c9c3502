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

_HALF = np.log(0.5)
# Records from which the years of words, and the characters there are, are read.
_MOST_WORDS = 200_000
_MOST_CHARACTERS = 50_000


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
  def without(cls, names: Iterable[str]) -> Experts:
    """Returns all experts but those of these names."""
    return cls(**dict.fromkeys(names, False))


EXPERTS = tuple(field.name for field in dataclasses.fields(Experts))


@dataclasses.dataclass(frozen=True)
class Evidence:
  """Everything read from the texts, before dates are learned.

  Attributes:
    gallery: the texts.
    log_answers: log p(answering kind | text), [N].
    told: records that are events, by their style, bool [N].
    events: their indices, [E].
    words: strings of all records.
    neural: encoders of the years.
    cited: citations beside events.
    parallels: events beside events.
    comments: commentary beside events.
    experts: which of it to use.
  """

  gallery: Gallery
  log_answers: np.ndarray
  told: np.ndarray
  events: np.ndarray
  words: vocabulary.Words
  neural: year_encoder.Reader
  cited: citations.Pairs
  parallels: parallel_texts.Pairs
  comments: parallel_texts.Pairs
  experts: Experts

  @property
  def placeholders(self) -> np.ndarray:
    """Which records state their month and tell no event, bool [N]."""
    return self.gallery.states != UNKNOWN


def read(
  texts: Sequence[str],
  timeline: Timeline,
  labels: Labels,
  experts: Experts | None = None,
  outside: Sequence[str] = (),
  seed: int = 42,
) -> Evidence:
  """Returns the evidence in the texts of a gallery.

  Args:
    texts: of the records [N].
    timeline: the calendar.
    labels: kinds of known records, from which style is learned.
    experts: which evidence to use; all by default.
    outside: texts from outside the gallery whose citations count as well
      (track T0+external).
    seed: of the neural expert.
  """
  experts = experts or Experts()
  gallery = gallery_lib.read(texts, timeline)
  log_answers = event_classifier.log_answering(
    gallery, labels, experts.punctuation
  )
  stated = gallery.states != UNKNOWN
  told = (log_answers > _HALF) & ~stated
  # The date of an event's opening is left to `cues`; in commentary it is a
  # citation, so it stays.
  bodies = [
    "" if placeholder else body if event else plain
    for placeholder, event, body, plain in zip(
      stated, told, gallery.bodies, gallery.plain, strict=True
    )
  ]
  events = np.flatnonzero(told)
  shared = shared_wording.read([bodies[row] for row in events])
  comments = np.flatnonzero(~told & ~stated)
  found = citations.read(
    gallery.axis, {int(row): gallery.plain[row] for row in comments}
  )
  found += citations.read(
    gallery.axis, list(map(gallery_lib.plain_text, outside))
  )

  def beside(rows):
    return parallel_texts.pairs(
      gallery, events, shared, rows, [bodies[row] for row in rows]
    )

  return Evidence(
    gallery,
    log_answers,
    told,
    events,
    vocabulary.read(bodies, gallery.sample(_MOST_WORDS)),
    # The encoder reads events, and no others.
    year_encoder.read(
      [body if event else "" for body, event in zip(bodies, told, strict=True)],
      [gallery.plain[row] for row in gallery.sample(_MOST_CHARACTERS)],
      seed,
    ),
    citations.pairs(gallery, events, shared, found),
    beside(events),
    beside(comments),
    experts,
  )
