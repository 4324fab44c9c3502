"""Date marks: words or tokens before a text that state its months.

Published time-aware encoders read a date with the text: as words before it
(date prefix), or as special tokens. A mark is one of these, made from dates
that the parser reads: in a query those it asks for, in a record those that it
states for itself (track T0), or its time key (T1). The encoder, the step and
the score do not change.

Where the originals do not fit:

- They have a timestamp for every document. On T0 a record has none; one that
  prints no month with its reign and year, like events of the Annals, gets no
  mark.
- They mark a point in time. Queries ask for windows: first and last month.
- A token for every month would be untrained for held-out months. The tokens are
  those of reign, year number and month, as the calendar heads divide them.

Sources: Abdallah et al., "TempRetriever: Fusion-based Temporal Dense Passage
  Retrieval for Time-Sensitive Questions" (arXiv 2502.21024), its encodings
  DateAsToken (prefix) and DateAsTag (tokens), and its negatives near in time;
  Rosin et al., "Time Masking for Temporal Language Models" (WSDM 2022, arXiv
  2110.06366), time tokens before a text; Wang et al., "BiTimeBERT" (SIGIR 2023,
  arXiv 2204.13032), which has times printed in the text and the document's as
  two signals, the latter as a target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import ml_collections
from absl import logging

from ctd_jax.benchmark import runs
from ctd_jax.chronology import dates as dates_lib
from ctd_jax.chronology import questions
from ctd_jax.chronology.reigns import Interval, TimeKey, Timeline

_PARTS = ("reign", "year", "month")
_LEAP, _UNTIL = "[leap]", "[until]"


def find_track(config: ml_collections.ConfigDict) -> str:
  """Returns the track of a run: "T1" where it reads time keys of records."""
  reads_keys = config.dates.form and config.dates.records == "key"
  return "T1" if reads_keys else runs.TRAINED


@dataclasses.dataclass(frozen=True)
class DateMarks:
  """Reader and writer of the dates before texts."""

  # "prefix" = the date in words; "tokens" = entries of the vocabulary; "" = no
  # marks.
  form: str = ""
  # Date of a record: "text" = stated in its text; "key" = its key.
  records: str = "text"
  # Calendar in which dates are read and written.
  timeline: Timeline | None = None

  @classmethod
  def from_config(
    cls, config: ml_collections.ConfigDict, timeline: Timeline
  ) -> DateMarks:
    """Returns the marks of a run, in the calendar of its data set."""
    return cls(config.dates.form, config.dates.records, timeline)

  @property
  def vocabulary(self) -> tuple[str, ...]:
    """Tokens that the vocabulary needs; none but for form "tokens"."""
    if self.form != "tokens":
      return ()
    classes = zip(_PARTS, self.timeline.class_counts, strict=True)
    return (
      _LEAP,
      _UNTIL,
      *(
        _class_token(part, number)
        for part, count in classes
        for number in range(1, count + 1)
      ),
    )

  def move_to(self, timeline: Timeline) -> DateMarks:
    """Returns the marks of texts in another calendar.

    Tokens belong to the calendar they were trained in: in another one texts
    get none, and a warning says so.
    """
    is_other = self.timeline is None or timeline.months != self.timeline.months
    if self.form == "tokens" and is_other:
      logging.warning(
        "%s has another calendar than the date tokens of the run: its texts "
        "are read without them",
        timeline.name,
      )
      return NO_MARKS
    return dataclasses.replace(self, timeline=timeline)

  def mark_queries(self, texts: Sequence[str]) -> list[str]:
    """Returns queries behind the months that the parser reads in them."""
    if not self.form:
      return list(texts)
    intervals = questions.parse_query_intervals(texts, self.timeline)
    return self._put_before(texts, intervals)

  def mark_records(
    self, texts: Sequence[str], keys: Sequence[TimeKey] | None = None
  ) -> list[str]:
    """Returns records behind their dates; one without a date as it is.

    Args:
      keys: their months; read where `records` is "key" alone.
    """
    if not self.form:
      return list(texts)
    if self.records == "text":
      intervals = [
        questions.find_stated_interval(text, self.timeline) for text in texts
      ]
    elif keys is None:
      raise ValueError(
        "config.dates.records='key': the run reads the time keys of records "
        "(track T1), and texts alone have none; give a data set as gallery"
      )
    else:
      intervals = [Interval.single_month(key) for key in keys]
    return self._put_before(texts, intervals)

  def _put_before(
    self, texts: Sequence[str], intervals: Sequence[Interval | None]
  ) -> list[str]:
    return [
      text if interval is None else self._write(interval) + text
      for text, interval in zip(texts, intervals, strict=True)
    ]

  def _write(self, interval: Interval) -> str:
    """Returns the mark of an interval, e.g. 魯隱公元年正月至…："""
    ends = dict.fromkeys((interval.start, interval.end))  # one month once
    if self.form == "tokens":
      return _UNTIL.join(map(_write_tokens, ends))
    dates = (dates_lib.format_key(key, self.timeline) for key in ends)
    return "至".join(dates) + "："


NO_MARKS = DateMarks()


def _write_tokens(key: TimeKey) -> str:
  """Returns the tokens of a month, e.g. [reign 1][year 1][month 5]."""
  parts = zip(_PARTS, key.triple, strict=True)
  tokens = "".join(_class_token(part, number) for part, number in parts)
  return tokens + _LEAP * key.leap


def _class_token(part: str, number: int) -> str:
  return f"[{part} {number}]"
