"""TFDS features and examples of records and queries, one form for all.

Ids are shuffled numbers: they tell nothing about time.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from ctd_jax.benchmark.benchmark import Query, Record
from ctd_jax.chronology.reigns import TimeKey

QUERY_KIND = "query"


def make_record_features() -> tfds.features.FeaturesDict:
  """Returns the features of records and queries."""
  text_feature = tfds.features.Text
  month_feature = tfds.features.Tensor(
    shape=(3,), dtype=np.int32, doc="reign, year, month, counting from 1"
  )
  return tfds.features.FeaturesDict(
    {
      "id": text_feature(doc="r00000 (record), point-00000 or window-00000"),
      "text": text_feature(),
      "kind": text_feature(doc="event, no_event, neg_comment or query"),
      "source": text_feature(doc="work of a record, empty for a query"),
      "family": text_feature(doc="point or window, empty for a record"),
      "group": text_feature(doc="template group, empty for a record"),
      "split": text_feature(doc="train, validation or test"),
      "start": month_feature,
      "end": month_feature,
      "order": tfds.features.Scalar(
        np.int32, doc="place in its work; -1 if unknown, and for a query"
      ),
      "positives": tfds.features.Sequence(
        text_feature(), doc="ids of the records that answer"
      ),
      "paper_family": text_feature(
        doc="point, gap or window, empty for a record"
      ),
      "version": text_feature(doc="event of a record, v00000, or empty"),
      "match_score": tfds.features.Scalar(
        np.float32, doc="fit of a comment to its place, 0-1; else 1"
      ),
    }
  )


def iterate_record_examples(
  records: Iterable[Record], split_of: Mapping[TimeKey, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields (id, example) of every record."""
  for record in records:
    # One month; a builder of records with wider dates replaces `end`.
    month = np.asarray(record.key.triple, np.int32)
    yield (
      record.record_id,
      {
        "id": record.record_id,
        "text": record.text,
        "kind": record.kind,
        "source": record.source,
        "family": "",
        "group": "",
        "split": split_of[record.key],
        "start": month,
        "end": month,
        "order": record.order,
        "positives": [],
        "paper_family": "",
        "version": record.version,
        "match_score": record.match_score,
      },
    )


def iterate_query_examples(
  queries: Iterable[Query], split: str
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields (id, example) of every query of a split, in the given order."""
  for query in queries:
    yield (
      query.query_id,
      {
        "id": query.query_id,
        "text": query.text,
        "kind": QUERY_KIND,
        "source": "",
        "family": query.family,
        "group": query.group,
        "split": split,
        "start": np.asarray(query.interval.start.triple, np.int32),
        "end": np.asarray(query.interval.end.triple, np.int32),
        "order": -1,  # not applicable
        "positives": list(query.positives),
        "paper_family": query.paper_family,
        "version": "",
        "match_score": 1.0,
      },
    )


def number_records(records: Iterable[Record], seed: int) -> tuple[Record, ...]:
  """Returns the records with ids `r00000`..., sorted by id.

  The numbers are shuffled, so that an id tells nothing about time or source.
  """
  # A copy: shuffle works in place.
  records = list(records)
  random.Random(seed).shuffle(records)
  return tuple(
    dataclasses.replace(record, record_id=f"r{number:05d}")
    for number, record in enumerate(records)
  )
