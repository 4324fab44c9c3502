"""Dates of entities, retrieved from reign-dated chronicles.

The dates that a question needs can be read where months are known: in the
Annals and in 資治通鑑. A name is searched by BM25, and the retrieved records
that contain it give the years in which it occurs. So the timeline answerer has
records of its own, without the years of the entity table.

Only names that a chronicle writes are found: years 722-468 BCE and 220-502 CE
for the two above. A name that is mentioned long after its time, or shared by
two people, is dated wrongly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.records import EVENT
from ctd_jax.chronology import reign_tables
from ctd_jax.retrieval import bm25, host_search
from ctd_jax.tasks.ctm import replies
from ctd_jax.utils import progress
from ctd_jax_datasets.ctm import periods
from ctd_jax_datasets.ctm.entities import Entity, YearInterval
from ctd_jax_datasets.ctm.vocabulary import APPROXIMATE

TOP_K = 50  # records that are searched for a name
_BATCH_SIZE = 64  # names scored at once
MENTION_SENSE = "mention"  # sense of the intervals, cf. `YearInterval`
_LIFE_MARGIN = 30  # years by which a life may exceed its mentions


@dataclasses.dataclass(frozen=True)
class DatedText:
  """Text and its year, as historians count (no year 0)."""

  text: str
  year: int


def read_dated_events(benchmark: Benchmark) -> list[DatedText]:
  """Returns the events of a data set with their years."""
  return [
    # Astronomical years have a year 0.
    DatedText(record.text, year if year > 0 else year - 1)
    for record in benchmark.records
    if record.kind == EVENT
    for year in (
      reign_tables.astronomical_year_of(benchmark.timeline, record.key),
    )
  ]


class ChronicleIndex:
  """Index of dated texts, in Simplified script."""

  def __init__(self, records: Iterable[DatedText]):
    """Indexes dated texts.

    Raises:
      ValueError: if there is no text.
    """
    self._records = [
      dataclasses.replace(record, text=replies.to_simplified(record.text))
      for record in records
    ]
    self._index = bm25.BM25([record.text for record in self._records])

  def search_years(self, names: Sequence[str]) -> list[list[int]]:
    """Returns for each name the sorted years of the records that contain it.

    Args:
      names: names in Simplified script.
    """
    years_by_name: list[list[int]] = []
    starts = range(0, len(names), _BATCH_SIZE)
    for start in progress.Progress(starts, desc="names"):
      batch = names[start : start + _BATCH_SIZE]
      indices, _ = host_search.select_top_k(
        self._index.score_queries(batch), TOP_K
      )
      years_by_name += [
        sorted(
          self._records[i].year
          for i in row
          if i >= 0 and name in self._records[i].text
        )
        for name, row in zip(batch, indices, strict=True)
      ]
    return years_by_name

  def date_entities(self, entities: Sequence[Entity]) -> list[Entity]:
    """Returns the found entities, with years and periods from the texts.

    Only name and kind are taken from an entity. Names of one character are
    left out, since they occur as words.

    Args:
      entities: entities whose names are searched.
    """
    names = [replies.to_simplified(entity.name) for entity in entities]
    return [
      _make_dated_entity(entity, years)
      for entity, years in zip(entities, self.search_years(names), strict=True)
      if years and len(entity.name) > 1
    ]


def _make_dated_entity(entity: Entity, years: Sequence[int]) -> Entity:
  """Returns a record made of the years in which a name occurs.

  The main period is that of the median year: single late mentions do not move
  it.
  """
  median_year = int(np.sort(years)[len(years) // 2])
  main_label = periods.list_acceptable_labels(median_year)[-1]
  labels = periods.list_span_labels(years[0], years[-1])
  first, last = years[0] - _LIFE_MARGIN, years[-1] + _LIFE_MARGIN
  return msgspec.structs.replace(
    entity,
    intervals=(
      YearInterval(
        first or -1, last or 1, APPROXIMATE, "retrieved", MENTION_SENSE
      ),
    ),
    periods=tuple(dict.fromkeys((main_label, *labels))),
    place="",
    evidence=(),
  )
