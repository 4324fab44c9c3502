"""Benchmark: one data set in memory, wherever it was read from.

A TFDS build, a BEIR folder and the invented data of a test are the same once
they are read. `ctd_jax_datasets.load` makes them.

Axes: N records.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Shaped

from ctd_jax.chronology.reigns import Interval, TimeKey, Timeline

# Records of a gallery: dated texts of three kinds.
#
# A chronicle tells events; a month it passes over is filled with a
# placeholder, so that "nothing happened" can be retrieved too; later
# commentary is filed under the month it explains and never answers a query.


EVENT = "event"
NO_EVENT = "no_event"  # placeholder of a month without an event
NEG_COMMENT = "neg_comment"  # commentary, a hard negative
KINDS = (EVENT, NO_EVENT, NEG_COMMENT)
# Kinds that may be positives of a query.
ANSWERING_KINDS = (EVENT, NO_EVENT)


@dataclasses.dataclass(frozen=True)
class Record:
  """A dated text of the gallery."""

  record_id: str  # unique within a data set; tells nothing about order or time
  text: str  # as retrieved
  source: str  # the work it comes from, e.g. "zuozhuan" or "kong_yingda"
  # "event", "no_event" (placeholder of an empty month) or "neg_comment" (later
  # commentary, never a positive).
  kind: str
  key: TimeKey  # month it is filed under
  # Position inside its work, from 0; -1 if it is not known. Metadata: only
  # systems of track T0+order may read it.
  order: int
  # Event it belongs to: records of one month, from several works, that tell of
  # the same event or explain it share a version (paper, Figure 5); "" for a
  # placeholder and for commentary on a whole month. Metadata like `key`: no
  # retriever may read it.
  version: str = ""
  # Of commentary, how well the passage it was filed under fits, 0-1; 1 for all
  # else.
  match_score: float = 1.0

  def __post_init__(self):
    if self.kind not in KINDS:
      raise ValueError(
        f"kind of record {self.record_id!r} is one of {KINDS}, "
        f"not {self.kind!r}"
      )


def collect_months(
  records: Iterable[Record], kind: str = EVENT
) -> set[TimeKey]:
  """Returns the months that hold at least one record of `kind`."""
  return {record.key for record in records if record.kind == kind}


# Queries about a month or a stretch of months, and their positives.
#
# The unit of the benchmark is a question in Chinese that asks about a time: a
# text, the interval of months that it means, and the records of those months.


POINT = "point"  # one month
WINDOW = "window"  # several months
# The paper's text has a third family, questions about a month that the
# chronicle passes over; the release counts them as points.
GAP = "gap"
SPLITS = ("train", "validation", "test")
CHUNQIU_TITLE = "《春秋》"


@dataclasses.dataclass(frozen=True)
class Query:
  """A question with the interval it asks about and its positives."""

  # E.g. `point-00017`; the number says nothing about time or split.
  query_id: str
  text: str  # the question, Traditional Chinese
  family: str  # `point` or `window`
  # One of the nine groups of `generation.TEMPLATES`; other data sets may
  # have groups of their own.
  group: str
  interval: Interval  # the months that the text means
  # Ids of every event or no_event record in the interval, sorted.
  positives: tuple[str, ...] = ()
  paper_family: str = ""  # `point`, `gap` or `window`, see `GAP`


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
    interval: interval that the query asks for.
    timeline: timeline that it belongs to.
    positives_by_month: result of `index_positives_by_month`.
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


@dataclasses.dataclass(frozen=True)
class Benchmark:
  """Gallery, queries with their positives, and the calendar of both."""

  name: str  # `dataset/config:version` as built
  timeline: Timeline  # the calendar that keys and intervals belong to
  records: tuple[Record, ...]  # the gallery, N records sorted by record id
  # Split of the month of each record: train, validation, test.
  record_splits: tuple[str, ...]
  queries: Mapping[str, tuple[Query, ...]]  # split -> queries
  # Source of a record -> title of the work, as far as known.
  titles: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def __repr__(self) -> str:
    """Returns name and sizes; all texts would fill the terminal."""
    sizes = ", ".join(f"{len(q)} {split}" for split, q in self.queries.items())
    return (
      f"<Benchmark {self.name}: {len(self.records)} records, queries: {sizes}>"
    )

  @property
  def record_ids(self) -> list[str]:
    """Ids in gallery order."""
    return [record.record_id for record in self.records]

  @property
  def kinds(self) -> Shaped[np.ndarray, " N"]:
    """Kind of every record: event, no_event or neg_comment."""
    return np.array([record.kind for record in self.records])
