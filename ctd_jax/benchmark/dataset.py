"""Benchmark: one data set in memory, wherever it was read from.

A TFDS build, a BEIR folder and the invented data of a test are the same once
they are read. `ctd_jax_datasets.load` makes them.

Axes: N records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Shaped

from ctd_jax.benchmark.queries import Query
from ctd_jax.benchmark.records import Record
from ctd_jax.chronology.timelines import Timeline


@dataclasses.dataclass(frozen=True)
class Benchmark:
  """Gallery, queries with their positives, and the calendar of both.

  Attributes:
    name: `dataset/config:version` as built.
    timeline: the calendar that keys and intervals belong to.
    records: the gallery, N records sorted by record id.
    record_splits: split of the month of each record: train, validation, test.
    queries: split -> queries.
    titles: source of a record -> title of the work, as far as known.
  """

  name: str
  timeline: Timeline
  records: tuple[Record, ...]
  record_splits: tuple[str, ...]
  queries: Mapping[str, tuple[Query, ...]]
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
