"""Answer: what was asked, what it was taken for, and what the index holds.

All forms of an answer are made of this one object; `to_dict` is the form that
programs read. Fields are added but not renamed or removed within a
`SCHEMA_VERSION`; answer.schema.json, beside this file, describes it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
  """Consecutive months.

  Attributes:
    first: ordinal of the first month.
    last: of the last, included.
    name: as a text would call them.
  """

  first: int
  last: int
  name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
  """What an ambiguous question may mean.

  Attributes:
    name: by which the question can be asked again.
    first: ordinal of the first month.
    last: of the last, included.
    common_era: years, "722 BCE".
    num_records: that are of these months more probably than not.
  """

  name: str
  first: int
  last: int
  common_era: str
  num_records: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Understanding:
  """What a question was taken for.

  Attributes:
    intervals: months asked for.
    common_era: years of these, one for each.
    words: phrases looked for.
    day: sexagenary day, 「甲子」; None if none was named.
    readings: meanings between which the question leaves the choice.
  """

  intervals: tuple[Span, ...] = ()
  common_era: tuple[str, ...] = ()
  words: tuple[str, ...] = ()
  day: str | None = None
  readings: tuple[Reading, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordDate:
  """When a record happened.

  Attributes:
    month: the most probable one, as `calendars.describe_month` says it.
    common_era: its year, "722 BCE"; "" outside of the calendar.
    probability: of that month.
    outside: probability that it is of no month of the calendar.
    credible_50: smallest set of months that holds 50 %.
    credible_90: likewise, 90 %.
    known: months that the data set or a reader gives.
    dated_by: keys, order or model.
    is_fixed: whether a reader set the date.
  """

  month: dict[str, Any]
  common_era: str
  probability: float
  outside: float
  credible_50: tuple[Span, ...]
  credible_90: tuple[Span, ...]
  known: Span | None
  dated_by: str
  is_fixed: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerRecord:
  """A record as a result.

  Attributes:
    rank: from 1.
    row: in the index.
    record_id: in its work.
    work: name of it.
    title: of the work.
    text: as printed.
    kind: event, no_event, neg_comment, text or heading.
    place: where it is printed.
    headings: above it.
    date: when it happened.
    score: what it is ranked by; of no meaning between questions.
    probability_asked: that it is of the months asked for; None without any.
    score_parts: time (log of the probability above), kind (log of the chance
      that the text is of a kind that answers), words (0..1), dense (0..1, of
      the vectors) and their cosine.
    highlights: spans of the text that have the words.
    reasons: for the month of `date`, the weightiest first: expert, weight
      (log odds in nats), note, spans, linked (rows), months.
  """

  rank: int
  row: int
  record_id: str
  work: str
  title: str
  text: str
  kind: str
  place: str
  headings: tuple[str, ...]
  date: RecordDate
  score: float
  probability_asked: float | None
  score_parts: dict[str, float]
  highlights: tuple[tuple[int, int], ...]
  reasons: tuple[dict[str, Any], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelyMonth:
  """A month and its probability.

  Attributes:
    ordinal: of the month.
    name: as a text would call it.
    common_era: its year.
    probability: that the passage is of it.
  """

  ordinal: int
  name: str
  common_era: str
  probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelyYear:
  """A year and its probability.

  Attributes:
    name: of the reign, with its number.
    ce_year: astronomical, 0 = 1 BCE.
    common_era: the same as "722 BCE".
    first: ordinal of its first month.
    last: of its last.
    probability: that the passage is of it.
  """

  name: str
  ce_year: int
  common_era: str
  first: int
  last: int
  probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parallel:
  """A record that speaks for the date of a passage.

  Attributes:
    row: of the record.
    record_id: in its work.
    work: name of it.
    text: as printed.
    place: where it is printed.
    date: when it happened.
    expert: the evidence that it is part of.
    weight: of that evidence, log odds in nats, all its records together.
    share: of `weight` in the log odds that all evidence adds.
  """

  row: int
  record_id: str
  work: str
  text: str
  place: str
  date: RecordDate
  expert: str
  weight: float
  share: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassageDate:
  """When a passage is of, and why.

  Attributes:
    month: the most probable one, as `calendars.describe_month` says it.
    common_era: its year.
    probability: of that month.
    outside: probability that it is of no month of the calendar.
    months: the likeliest, the first first.
    years: likewise.
    credible_50: smallest set of months that holds 50 %.
    credible_90: likewise, 90 %.
    prior_log_odds: of `month`, before anything was read.
    log_odds: after; less the prior, the sum of the weights of `reasons`.
    reasons: as of a record, of `month`.
    parallels: records of the reasons, the weightiest evidence first.
    curve: probability of every year of the calendar, (astronomical year,
      probability), for a figure.
  """

  month: dict[str, Any]
  common_era: str
  probability: float
  outside: float
  months: tuple[LikelyMonth, ...]
  years: tuple[LikelyYear, ...]
  credible_50: tuple[Span, ...]
  credible_90: tuple[Span, ...]
  prior_log_odds: float
  log_odds: float
  reasons: tuple[dict[str, Any], ...]
  parallels: tuple[Parallel, ...]
  curve: tuple[tuple[int, float], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Versions:
  """What an answer was made with.

  Attributes:
    ctd_jax: version of the program.
    index_format: of the folder.
    generation: how often the index was changed.
    index_sha256: of its manifest, which has the hashes of all files.
    calendar_sha256: of its months.
    encoder: what made the vectors that words are compared by, with its hash;
      None if there are none, or they are not asked.
  """

  ctd_jax: str
  index_format: int
  generation: int
  index_sha256: str
  calendar_sha256: str
  encoder: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
  """What an index says to a question.

  Attributes:
    question: as asked.
    intent: one of `question_types.INTENTS`.
    understood: what it was taken for.
    results: records, the best first.
    dates: of a passage; None of other questions.
    counts: records and works of the index that were asked; in_time, records
      that are of the months more probably than not; with_words.
    notes: what a reader should know of this answer.
    versions: what it was made with.
    asked_at: time, ISO 8601.
    calendar_name: of the index.
  """

  question: str
  intent: str
  understood: Understanding
  results: tuple[AnswerRecord, ...]
  dates: PassageDate | None
  counts: dict[str, int]
  notes: tuple[str, ...]
  versions: Versions
  asked_at: str
  calendar_name: str

  @property
  def is_empty(self) -> bool:
    """Whether nothing was found: no record, no date, no choice of readings."""
    return not (self.results or self.dates or self.understood.readings)

  def to_dict(self) -> dict[str, Any]:
    """Returns the answer as JSON has it."""
    return {"schema_version": SCHEMA_VERSION} | msgspec.to_builtins(self)

  def __str__(self) -> str:
    from ctd_jax.index.answers import terminal

    return terminal.format_answer(self)
