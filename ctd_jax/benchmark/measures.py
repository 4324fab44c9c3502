"""Measures of a ranking, per query, computed by trec_eval's own code.

The figures are those that trec_eval gives for the written run file.

Names are `measure@cutoff`. R@K of the benchmark's paper is the share of queries
with any positive in the top K: here `hit@K`. `recall@K` is the share of a
query's positives found in the top K.
"""

from __future__ import annotations

import collections
import re
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence

import pytrec_eval

from ctd_jax.benchmark import runs

DEFAULT_MEASURES = (
  "hit@1",
  "hit@5",
  "hit@10",
  "mrr@10",
  "ndcg@10",
  "recall@10",
)
# A window has more than ten answers: recall at 50 tells systems apart there.
_DEEP_CUTOFF = 50
DEEP_MEASURES = (*DEFAULT_MEASURES, f"recall@{_DEEP_CUTOFF}")
_RECIPROCAL_RANK = "recip_rank"
# Measure -> its name in trec_eval.
_TREC_EVAL_NAMES = {
  "hit": "success",
  "recall": "recall",
  "precision": "P",
  "mrr": _RECIPROCAL_RANK,
  # Relevance is 0 or 1 here, so the gain is binary; the ideal ranking holds
  # min(number of positives, cutoff) ones.
  "ndcg": "ndcg_cut",
}
_MEASURE_NAME = re.compile(rf"({'|'.join(_TREC_EVAL_NAMES)})@([1-9]\d*)")


def select_measures(depth: int) -> tuple[str, ...]:
  """Returns the measures of rankings that hold `depth` records at most."""
  return DEEP_MEASURES if depth >= _DEEP_CUTOFF else DEFAULT_MEASURES


def parse_measure(name: str) -> tuple[str, int]:
  """Returns trec_eval's measure and the cutoff of a name such as `hit@1`.

  Raises:
    ValueError: if the name has another form.
  """
  match = _MEASURE_NAME.fullmatch(name)
  if match is None:
    raise ValueError(
      f"unknown measure {name!r}; expected one of "
      f"{', '.join(_TREC_EVAL_NAMES)}, then @ and a cutoff, e.g. hit@1"
    )
  return _TREC_EVAL_NAMES[match[1]], int(match[2])


def compute_per_query(
  qrels: Mapping[str, Iterable[str]],
  rankings: Mapping[str, runs.Ranking],
  names: Sequence[str] = DEFAULT_MEASURES,
) -> dict[str, dict[str, float]]:
  """Returns measure -> query id -> value, for every query of `qrels`.

  A query that the rankings lack counts 0. Rankings of other queries are
  ignored.

  Args:
    qrels: query id -> ids of its positives, at least one.
    rankings: query id -> (record id, score), best first.
    names: see the module docstring.

  Raises:
    ValueError: if a name is unknown or a query has no positive.
  """
  parsed_measures = {name: parse_measure(name) for name in names}
  relevance = {
    query_id: dict.fromkeys(ids, 1) for query_id, ids in qrels.items()
  }
  for query_id, positives in relevance.items():
    if not positives:
      raise ValueError(f"query {query_id} has no positive")
  values = {name: dict.fromkeys(relevance, 0.0) for name in names}
  if not relevance:
    return values
  # trec_eval sorts by score: minus the rank keeps our order whatever it does
  # with ties.
  trec_eval_scores = {
    query_id: {name: -float(rank) for rank, (name, _) in enumerate(ranking)}
    for query_id, ranking in rankings.items()
    if query_id in relevance and ranking
  }
  trec_eval_keys = {
    name: _trec_eval_key(*measure) for name, measure in parsed_measures.items()
  }
  evaluator = pytrec_eval.RelevanceEvaluator(
    relevance, set(trec_eval_keys.values())
  )
  for query_id, query_values in evaluator.evaluate(trec_eval_scores).items():
    for name, (kind, cutoff) in parsed_measures.items():
      value = query_values[trec_eval_keys[name]]
      # trec_eval has no cutoff for the reciprocal rank: 1 / rank below
      # 1 / cutoff is a first positive past the cutoff.
      if kind == _RECIPROCAL_RANK and value < 1 / cutoff:
        value = 0.0
      values[name][query_id] = value
  return values


def _trec_eval_key(kind: str, cutoff: int) -> str:
  """Returns the name of a measure with its cutoff in trec_eval's output."""
  return kind if kind == _RECIPROCAL_RANK else f"{kind}_{cutoff}"


def compute_mean(
  values: Mapping[str, float], strata: Mapping[str, Hashable] | None = None
) -> float:
  """Returns the mean over queries; 0 if there is none.

  Args:
    values: query id -> value.
    strata: query id -> stratum; the mean is then that of the strata's means.
  """
  if not values:
    return 0.0
  if strata is None:
    return statistics.fmean(values.values())
  values_by_stratum = collections.defaultdict(list)
  for query_id, value in values.items():
    values_by_stratum[strata[query_id]].append(value)
  return statistics.fmean(map(statistics.fmean, values_by_stratum.values()))
