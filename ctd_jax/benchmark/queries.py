"""Queries about a month or a stretch of months, and their positives.

The unit of the benchmark is a question in Chinese that asks about a time: a
text, the interval of months that it means, and the records of those months.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping

from ctd_jax.benchmark.records import ANSWERING_KINDS, Record
from ctd_jax.chronology.timelines import Interval, TimeKey, Timeline

POINT = "point"  # one month
WINDOW = "window"  # several months
# The paper's text has a third family, questions about a month that the
# chronicle passes over; the release counts them as points.
GAP = "gap"
SPLITS = ("train", "validation", "test")
CHUNQIU_TITLE = "《春秋》"


@dataclasses.dataclass(frozen=True)
class Query:
  """A question with the interval it asks about and its positives.

  Attributes:
    query_id: e.g. `point-00017`; the number says nothing about time or split.
    text: the question, Traditional Chinese.
    family: `point` or `window`.
    group: one of the nine groups of `query_templates.TEMPLATES`; other data
      sets may have groups of their own.
    interval: the months that the text means.
    positives: ids of every event or no_event record in the interval, sorted.
    paper_family: `point`, `gap` or `window`, see `GAP`.
  """

  query_id: str
  text: str
  family: str
  group: str
  interval: Interval
  positives: tuple[str, ...] = ()
  paper_family: str = ""


def index_positives_by_month(
  records: Iterable[Record],
) -> dict[TimeKey, list[str]]:
  """Returns month -> sorted ids of the records that answer a query about it.

  Months without such a record are left out.
  """
  positives_by_month = collections.defaultdict(list)
  for record in records:
    if record.kind in ANSWERING_KINDS:
      positives_by_month[record.key].append(record.record_id)
  return {key: sorted(ids) for key, ids in positives_by_month.items()}


def find_positives(
  interval: Interval,
  timeline: Timeline,
  positives_by_month: Mapping[TimeKey, list[str]],
) -> tuple[str, ...]:
  """Returns the sorted ids of the records that answer a query.

  Args:
    interval: of the query.
    timeline: that it belongs to.
    positives_by_month: from `index_positives_by_month`.
  """
  return tuple(
    sorted(
      record_id
      for key in timeline.iterate_keys(interval)
      for record_id in positives_by_month.get(key, ())
    )
  )


def find_interval_split(
  interval: Interval, timeline: Timeline, split_by_month: Mapping[TimeKey, str]
) -> str | None:
  """Returns the split that all months of an interval share, None if mixed."""
  splits = {split_by_month.get(key) for key in timeline.iterate_keys(interval)}
  return splits.pop() if len(splits) == 1 else None
