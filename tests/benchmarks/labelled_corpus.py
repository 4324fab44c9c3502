"""Labelled corpus: a dated chronicle, from which undated texts are dated.

The sections that the order decoder is sure of are labels for a dating model,
which dates texts without order: a commentary, a quotation, a letter.

Axes: N records: n sections of the chronicle, then T texts; K months.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.dating import dating_model
from ctd_jax.dating.chronicle import undated_texts
from ctd_jax.dating.chronicle.chronicle_dates import CERTAIN, ChronicleDates
from ctd_jax.dating.chronicle.sections import Section
from ctd_jax.dating.chronicle.undated_texts import (
  make_headed_corpus,
  make_month_axis,
  read_head,
)
from ctd_jax.dating.corpus import UNKNOWN, Corpus, Labels


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledCorpus:
  """Sections of a chronicle beside undated texts."""

  corpus: Corpus  # sections, then texts
  labels: Labels  # months of the sure sections, and of no other record
  dates: ChronicleDates  # of the chronicle
  # Number in `dates` of each of the first records, [n].
  sections: Int[np.ndarray, " n"]
  heads: Sequence[Section]  # what each record prints of its date, [N]

  @property
  def text_rows(self) -> Int[np.ndarray, " T"]:
    """Rows of the undated texts, in the order given."""
    return np.arange(len(self.sections), len(self.corpus))

  def make_model(self, without: Iterable[str] = ()) -> dating_model.DatingModel:
    """Returns an unfitted model without some kinds of evidence."""
    is_text = np.zeros(len(self.corpus), bool)
    is_text[self.text_rows] = True
    dates = undated_texts.HeadDates(
      corpus=self.corpus,
      calendar=self.dates.calendar,
      heads=self.heads,
      is_read=is_text,
    )
    return undated_texts.make_text_model(dates, without)


def make_labelled_corpus(
  dates: ChronicleDates,
  texts: Sequence[str] = (),
) -> LabelledCorpus:
  """Returns a dated chronicle as labelled records, and texts beside it.

  Headings are left out.

  Args:
    dates: of the chronicle.
    texts: undated, in any order.
  """
  is_text = np.array([not section.is_heading for section in dates.sections])
  sections = np.flatnonzero(is_text)
  months = dates.months[sections, 0]
  is_outside = months >= len(dates.calendar)
  is_sure = dates.is_fixed[sections] | (
    dates.probabilities[sections, 0] >= CERTAIN
  )
  is_labelled = is_sure & ~is_outside
  heads = [
    _move_to_start(dates.sections[section]) for section in sections.tolist()
  ]
  heads += [read_head(text, dates.calendar) for text in texts]
  all_texts = [dates.text_of(section) for section in sections.tolist()]
  all_texts += texts
  corpus = make_headed_corpus(
    make_month_axis(dates.calendar), all_texts, heads, ()
  )
  label = np.full(len(corpus), UNKNOWN)
  label[: len(sections)] = np.where(is_labelled, months, UNKNOWN)
  return LabelledCorpus(
    corpus=corpus,
    # All tell events: there is no commentary to tell them from.
    labels=Labels(label, np.where(label == UNKNOWN, UNKNOWN, 1)),
    dates=dates,
    sections=sections,
    heads=heads,
  )


def _move_to_start(section: Section) -> Section:
  """Returns a section of a text of its own."""
  return dataclasses.replace(
    section,
    start=0,
    stop=section.stop - section.start,
    date_end=max(section.date_end - section.start, 0),
  )
