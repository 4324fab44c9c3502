"""Labelled corpus: a dated chronicle, from which undated texts are dated.

The sections that the order decoder is sure of are labels for a dating model,
which dates texts without order: a commentary, a quotation, a letter. Both give
one `Posterior` over the months of the calendar.

Axes: N records: n sections of the chronicle, then T texts; K months.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from absl import logging
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
from ctd_jax.dating.posterior import CredibleBlock, Posterior


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

  def make_model(
    self, without: Iterable[str] = (), seed: int = 42
  ) -> dating_model.DatingModel:
    """Returns an unfitted model for this corpus.

    Args:
      without: names of evidence to leave out.
      seed: of the year encoder.

    Raises:
      ValueError: if a name is unknown.
    """
    is_text = np.zeros(len(self.corpus), bool)
    is_text[self.text_rows] = True
    dates = undated_texts.HeadDates(
      calendar=self.dates.calendar, heads=self.heads, is_read=is_text
    )
    return undated_texts.make_text_model(dates, without, seed)

  def join_posterior(self, posterior: Posterior) -> Posterior:
    """Returns the posterior of all records: decoded sections, then dated texts.

    Probability outside a section's credible months is spread over all months.

    Args:
      posterior: of a model fitted on this corpus.
    """
    dates, rows = self.dates, np.arange(len(self.sections))
    months = [
      dates.credible.months_of(section) for section in self.sections.tolist()
    ]
    if dates.credible.probabilities is None:
      raise ValueError(
        "the credible months of the chronicle have no probabilities; date it "
        "with chronicle_dating.date_records"
      )
    probabilities = [
      dates.credible.probabilities_of(section)
      for section in self.sections.tolist()
    ]
    decoded = CredibleBlock(
      rows=rows,
      starts=np.cumsum([0, *map(len, months)]),
      months=np.concatenate(months),
      probabilities=np.concatenate(probabilities),
      num_months=len(self.corpus.axis),
    )
    return Posterior(
      axis=posterior.axis,
      certain_months=np.where(
        np.arange(len(posterior)) < len(rows),
        UNKNOWN,
        posterior.certain_months,
      ),
      blocks=(
        decoded,
        *(block.select(block.rows >= len(rows)) for block in posterior.blocks),
      ),
    )


def make_labelled_corpus(
  dates: ChronicleDates,
  texts: Sequence[str] = (),
  min_probability: float = CERTAIN,
  external_texts: Sequence[str] = (),
) -> LabelledCorpus:
  """Returns a dated chronicle as labelled records, and texts beside it.

  Headings are left out.

  Args:
    dates: of the chronicle.
    texts: undated, in any order.
    min_probability: of a section's month, for it to be a label.
    external_texts: not to be dated; their citations count.

  Raises:
    ValueError: if no section is so probable, or the bound is not in (0, 1].
  """
  if not 0 < min_probability <= 1:
    raise ValueError(
      f"min_probability should be above 0 and at most 1, got {min_probability}"
    )
  is_text = np.array([not section.is_heading for section in dates.sections])
  sections = np.flatnonzero(is_text)
  months = dates.months[sections, 0]
  is_outside = months >= len(dates.calendar)
  is_sure = dates.is_fixed[sections] | (
    dates.probabilities[sections, 0] >= min_probability
  )
  is_labelled = is_sure & ~is_outside
  if not is_labelled.any():
    raise ValueError(
      f"no section has a month of probability {min_probability} or more; the "
      f"surest has {dates.probabilities[:, 0].max(initial=0):.4f}"
    )
  logging.info(
    "labels: %s of %s sections; %s less probable than %s, %s outside of the "
    "calendar; %s headings left out",
    f"{int(is_labelled.sum()):,}",
    f"{len(sections):,}",
    f"{int((~is_sure & ~is_outside).sum()):,}",
    min_probability,
    f"{int(is_outside.sum()):,}",
    f"{int((~is_text).sum()):,}",
  )
  heads = [
    _move_to_start(dates.sections[section]) for section in sections.tolist()
  ]
  heads += [read_head(text, dates.calendar) for text in texts]
  all_texts = [dates.text_of(section) for section in sections.tolist()]
  all_texts += texts
  corpus = make_headed_corpus(
    make_month_axis(dates.calendar), all_texts, heads, external_texts
  )
  num_blank = sum(not body for body in corpus.bodies)
  if num_blank:
    logging.warning(
      "%s of %s records have no Han character beside their date, which is all "
      "that the dating model reads",
      f"{num_blank:,}",
      f"{len(corpus):,}",
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
