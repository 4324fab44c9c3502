"""One data set as the code sees it, wherever it was read from.

Why: a TFDS build, a BEIR folder and the invented data of a test are the same
thing once read. Made by `ctd_jax_datasets.load`; used by the input pipeline,
the evaluation and the export.

Axis: N records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ctd_jax.benchmark.queries import Query
from ctd_jax.benchmark.records import Record
from ctd_jax.chronology.timelines import Timeline


@dataclasses.dataclass(frozen=True)
class Benchmark:
  """One data set: a gallery, queries with their positives, a calendar.

  Attributes:
    name: `dataset/config:version` as built.
    timeline: the calendar that keys and intervals belong to.
    records: the gallery, sorted by record id.
    record_splits: train, validation or test for the month of each record.
    queries: by split.
  """

  name: str
  timeline: Timeline
  records: tuple[Record, ...]
  record_splits: tuple[str, ...]
  queries: Mapping[str, tuple[Query, ...]]

  @property
  def record_ids(self) -> list[str]:
    """Ids in gallery order."""
    return [record.record_id for record in self.records]

  @property
  def kinds(self) -> np.ndarray:
    """Kind of every record (event, no_event, neg_comment), `[N]`."""
    return np.array([record.kind for record in self.records])
