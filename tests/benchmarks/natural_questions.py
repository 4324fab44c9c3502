"""Questions in plain words about events: when was it, and what tells of it?

  python -m tests.benchmarks.natural_questions --data_dir=DIR
    [--split=validation] [--systems=dating-fitted] [--seeds=42]
    [--choose] [--rows=FILE]

A question is made of an event of the split: all that reads as a date is taken
out of its text, four to twelve characters of a clause are left, and a template
asks for their time, 「葬衛桓公在何時？」. What is right are the records of the
month of the event. In groups:

  plain     the characters as printed
  recalled  one character forgotten, as people remember a text
  reign     with the reign, 「隱公時，…」
  season    with the season, 「…在哪一年的夏天？」
  month     with the month, 「五月，…在哪一年？」

Measured are the rankings, as of any query and with the records that print the
characters left out (`others`); and the dates of the questions: the share whose
likeliest month, and year, is right, and the mean of -log p of the right month.
`--choose` prints the figures of every constant that was tried, which are chosen
on validation.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Iterator

import numpy as np

from ctd_jax.benchmark import queries as queries_lib
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.queries import Query
from ctd_jax.benchmark.records import EVENT, Record
from ctd_jax.chronology import date_expressions, query_dates
from ctd_jax.chronology.timelines import Interval
from tests.benchmarks import undated_texts

_CLAUSE = re.compile("[\u3400-\u9fff]{4,}")
_MAX_CHARACTERS = 12
_MIN_RECALLED = 5  # characters of which one may be forgotten
TEMPLATES = {
  "plain": (
    "{phrase}在何時？",
    "{phrase}，何年何月？",
    "何時{phrase}？",
    "請問{phrase}發生在什麼時候？",
  ),
  "reign": ("{reign}時，{phrase}在何時？", "{reign}年間何時{phrase}？"),
  "season": ("{season}，{phrase}，在哪一年？", "{phrase}在哪一年的{season}天？"),
  "month": ("{month}，{phrase}，在哪一年？", "{phrase}在哪一年的{month}？"),
}
TEMPLATES["recalled"] = TEMPLATES["plain"]
GROUPS = tuple(TEMPLATES)


@dataclasses.dataclass(frozen=True)
class NaturalQuestion:
  """A question and what is right.

  Attributes:
    query: with the records of the month.
    phrase: that the question holds, as printed.
    month: ordinal.
  """

  query: Query
  phrase: str
  month: int


def draw_phrase(
  record: Record, benchmark: Benchmark, draw: np.random.Generator
) -> str | None:
  """Returns characters of one clause of an event, None without any."""
  text = undated_texts.strip_dates(record.text, benchmark.timeline)
  clauses = _CLAUSE.findall(text)
  if not clauses:
    return None
  clause = clauses[int(draw.integers(len(clauses)))]
  length = int(draw.integers(4, min(len(clause), _MAX_CHARACTERS) + 1))
  return clause[:length]


def make_questions(
  benchmark: Benchmark, split: str, group: str, number: int
) -> Iterator[NaturalQuestion]:
  """Yields questions of one group.

  Args:
    benchmark: of whose events.
    split: whose events.
    group: of `GROUPS`.
    number: of questions at most.
  """
  timeline = benchmark.timeline
  positives = queries_lib.index_positives_by_month(benchmark.records)
  records = [
    record
    for record, record_split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
    if record_split == split and record.kind == EVENT
  ]
  # By the text, so that the choice does not depend on the order.
  records.sort(key=lambda record: (zlib.crc32(record.text.encode()), record.text))
  made = 0
  for record in records:
    draw = np.random.default_rng(zlib.crc32(record.record_id.encode()))
    phrase = draw_phrase(record, benchmark, draw)
    if phrase is None or made == number:
      continue
    template = TEMPLATES[group][int(draw.integers(len(TEMPLATES[group])))]
    asked = phrase
    if group == "recalled":
      if len(phrase) < _MIN_RECALLED:
        continue
      gap = int(draw.integers(1, len(phrase) - 1))
      asked = phrase[:gap] + phrase[gap + 1 :]
    key = record.key
    text = template.format(
      phrase=asked,
      reign=timeline.reigns[key.reign - 1].name,
      season=date_expressions.season_of_month(key.month),
      month=date_expressions.format_key(key, timeline, "month"),
    )
    if query_dates.parse_query_interval(text, timeline) is not None:
      continue  # a date after all
    made += 1
    yield NaturalQuestion(
      Query(
        f"{group}-{made:05d}",
        text,
        queries_lib.POINT,
        group,
        Interval.single_month(key),
        tuple(positives[key]),
      ),
      phrase,
      timeline.ordinal(key),
    )
