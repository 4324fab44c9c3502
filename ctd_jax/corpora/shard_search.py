"""Search of a corpus in shards: the nearest sections, of some time or of any.

Axes: Q questions, D width of a vector.
"""

from __future__ import annotations

import pathlib

import msgspec
import numpy as np
from jaxtyping import Float32

from ctd_jax.chronology import civil_dates
from ctd_jax.corpora import shards
from ctd_jax.retrieval import lance_tables


class ShardHit(msgspec.Struct, frozen=True, kw_only=True):
  """A section that was found.

  Attributes:
    score: inner product of its vector with that of the question.
    work: identifier.
    row: of the work.
    text: whole.
    common_era: year of its most probable month; "" if it has none.
    edtf: its date; None if it has none.
    probability: of its most probable month.
    first_julian_day: that the date can be, with 90 %; None without a date.
    last_julian_day: likewise.
  """

  score: float
  work: str
  row: int
  text: str
  common_era: str
  edtf: str | None
  probability: float
  first_julian_day: int | None
  last_julian_day: int | None


def search_shards(
  folder: pathlib.Path,
  vectors: Float32[np.ndarray, "Q D"],
  k: int,
  years: tuple[int, int] | None = None,
  is_exact: bool = False,
) -> list[list[ShardHit]]:
  """Returns the k nearest sections of every question, the nearest first.

  Of equal ones those of an earlier shard come first. Without `is_exact` an
  eighth of the lists of each shard is read, more where the years leave fewer
  than k in them, and some may be missed.

  Args:
    folder: of the corpus.
    vectors: of the questions, of length 1.
    k: results of each.
    years: first and last, astronomical; of sections whose date reaches into
      them. All sections if None.
    is_exact: whether all vectors are compared.

  Raises:
    FileNotFoundError: if the corpus has no shards, or not all of them yet.
    ValueError: if LanceDB is not installed, or the vectors are of another
      width than those of the corpus.
  """
  lancedb = lance_tables.import_lancedb("a search of shards")
  condition = years and _format_condition(*years)
  found: list[list[ShardHit]] = [[] for _ in vectors]
  for path in shards.list_shards(folder):
    table = lancedb.connect(path).open_table(shards.TABLE)
    width = table.schema.field("vector").type.list_size
    if width != vectors.shape[1]:
      raise ValueError(
        f"{path}: vectors of {width}, and those of the questions are of "
        f"{vectors.shape[1]}; name the encoder that the corpus was made with"
      )
    num_lists = 0 if is_exact else lance_tables.count_lists(table.count_rows())
    for hits, vector in zip(found, vectors, strict=True):
      rows = lance_tables.find_nearest(
        table, vector, k, [*shards.COLUMNS], num_lists, condition
      )
      hits += [ShardHit(**row) for row in rows]
      # Stable: shards are in the order of the corpus.
      hits.sort(key=lambda hit: -hit.score)
      del hits[k:]
  return found


def _format_condition(first_year: int, last_year: int) -> str:
  """Returns the condition of dates that reach into years, in SQL."""
  first_day = civil_dates.to_julian_day(first_year, 1, 1)
  last_day = civil_dates.to_julian_day(last_year + 1, 1, 1) - 1
  first_column, last_column = shards.DAYS
  return f"{first_column} <= {last_day} AND {last_column} >= {first_day}"
