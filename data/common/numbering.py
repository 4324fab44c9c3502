"""Record ids whose numbers tell nothing about time."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

from ctd_jax.benchmark.records import Record


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
