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
import pathlib
from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.corpus import Labels
from ctd_jax.dating.passages.passage_dates import PassageDates
from ctd_jax.dating.posterior import CredibleBlock


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PassageDater:
  """A corpus, as far as it dates passages."""

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
        its lunations (`labelled_corpus.make_month_axis`).
      posteriors: of records without a label, in `rows` of `texts`; months as of
        the calendar. Those without are dated by their words, dates and
        citations.
      row_ids: numbers by which reasons and `exclude` name the records; 0..N-1
        by default. Ascending.
      external_texts: texts that are no records and whose citations count.

    Raises:
      ValueError: if lengths differ, no record has a label, or a month is
        outside of the calendar.
    """
    raise NotImplementedError

  def save(self, folder: pathlib.Path) -> None:
    """Writes the dater to a folder, which must be empty or lack.

    Args:
      folder: of .npy arrays and one JSON file.

    Raises:
      FileExistsError: if the folder holds something.
    """
    raise NotImplementedError

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
    raise NotImplementedError

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
      month: ordinal month that the reasons are for; the likeliest by default.
      exclude: records that play no part, by their number in `row_ids`: the
        passage itself, where it is in the corpus.
      with_reasons: whether to look for the reasons.

    Raises:
      ValueError: if the month is none of the calendar.
    """
    raise NotImplementedError
