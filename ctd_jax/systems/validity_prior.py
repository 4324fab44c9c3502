"""Ranks records by what they say and by whether it still holds.

Why: a true statement stops being true; of two records that answer a question
equally well the one whose validity curve is higher at the time of asking
should come first. The score is

  semantic score + weight * log(validity at the query's time)

where the validity is 1 at the curve's peak. A `ScoreFn` of `search.search_top_k`, so
everything that searches can search with it; `jax.tree_util.Partial` binds the
semantic score and the weight. Track T1: curves and dates of records are given
or predicted by `validity.predictor`, never read from the question.

Axes: b queries of a block, n records of a block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ctd_jax.retrieval.search import ScoreFn
from ctd_jax.tasks.chronocept import skew_normal, time_axis
from ctd_jax.tasks.chronocept.skew_normal import SkewNormal

TRACK = "T1"
SCORE_MODE = "semantic_validity"
# Before a record is published, and far down the curve's tail: the term is
# bounded, so that a record is put last rather than lost.
MIN_VALIDITY = 1e-6


class TimedQueries(NamedTuple):
  """Queries that are asked at a time.

  Attributes:
    encoding: what the semantic score reads, arrays of b rows.
    minutes: when they are asked, in minutes since any common origin, [b].
  """

  encoding: Any
  minutes: jax.Array


class DatedRecords(NamedTuple):
  """Records with a time of publication and a curve of validity.

  Attributes:
    encoding: what the semantic score reads, arrays of n rows.
    minutes: of publication, since the same origin, [n].
    curves: over log time since publication, [n] each.
  """

  encoding: Any
  minutes: jax.Array
  curves: SkewNormal


def log_validity(
  query_minutes: jax.Array,
  record_minutes: jax.Array,
  curves: SkewNormal,
  log_base: float = time_axis.LOG_BASE,
) -> jax.Array:
  """Returns the log validity of records at the queries' times, [b, n].

  The axis of log time begins a minute after publication; whatever is asked
  within that minute is asked at its end. Before publication the validity is
  `FLOOR`, which no validity falls below.

  Args:
    query_minutes: see `TimedQueries`, [b].
    record_minutes: see `DatedRecords`, [n].
    curves: [n].
    log_base: of the curves' log time.
  """
  age = query_minutes[:, None] - record_minutes[None, :]
  log_age = time_axis.to_log_time(jnp.maximum(age, 1.0), log_base)
  validity = skew_normal.validity(curves, log_age)
  return jnp.log(
    jnp.where(age < 0, MIN_VALIDITY, jnp.maximum(validity, MIN_VALIDITY))
  )


def score_with_validity(
  semantic_score_fn: ScoreFn,
  weight: jax.Array,
  queries: TimedQueries,
  records: DatedRecords,
) -> jax.Array:
  """Returns semantic score plus weighted log validity, [b, n].

  Args:
    semantic_score_fn: (encodings of queries, encodings of records) -> scores [b, n];
      a `jax.tree_util.Partial`.
    weight: of the log validity, in units of the semantic score; 0 leaves the
      semantic score alone.
    queries: of a block.
    records: of a block.
  """
  semantic_scores = semantic_score_fn(queries.encoding, records.encoding)
  log_validities = log_validity(
    queries.minutes, records.minutes, records.curves
  )
  return semantic_scores + weight * log_validities
