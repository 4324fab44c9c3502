"""Report of a run: mean scores with intervals, wrong citations by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctd_jax.evaluation import significance
from ctd_jax.tasks.evidence_qa import scoring
from ctd_jax.tasks.evidence_qa.packs import CONFUSABLE_ROLES, Pack
from ctd_jax.utils import tables


def format_report(
  title: str,
  packs: Sequence[Pack],
  replies: Mapping[str, str],
  scores: Mapping[str, Mapping[str, float]],
  years: Mapping[str, tuple[int, int]],
) -> str:
  """Returns mean scores with intervals, and wrong citations, as tables.

  Args:
    title: title of the first table.
    packs: all packs.
    replies: question id -> answer.
    scores: question id -> measure -> score.
    years: query id -> (reign, year), the clusters of the bootstrap.
  """
  rows = []
  for measure, mean in scoring.average_scores(list(scores.values())).items():
    values = {q: measures[measure] for q, measures in scores.items()}
    # Questions of one year share records, so years are resampled.
    low, high = significance.compute_bootstrap_interval(values, years)
    rows.append([measure, f"{mean:.4f}", f"[{low:.3f}, {high:.3f}]"])
  columns = ["measure", "mean", "95 %, years resampled"]
  score_table = tables.format_table(title, columns, rows)
  return f"{score_table}\n{_format_wrong_citations(packs, replies)}"


def _format_wrong_citations(
  packs: Sequence[Pack], replies: Mapping[str, str]
) -> str:
  offered_roles = [item.role for pack in packs for item in pack.items]
  counts = [
    scoring.count_wrong_citations(pack, replies[pack.question_id])
    for pack in packs
  ]
  rows = [
    [role, str(offered_roles.count(role)), str(sum(c[role] for c in counts))]
    for role in CONFUSABLE_ROLES
  ]
  return tables.format_table(
    "Cited wrongly", ["not an answer", "offered", "cited"], rows
  )


def format_tsv(
  packs: Sequence[Pack],
  replies: Mapping[str, str],
  scores: Mapping[str, Mapping[str, float]],
) -> str:
  """Returns scores and wrong citations of every question as TSV."""
  rows = []
  names = list(next(iter(scores.values())))
  for pack in packs:
    measures = scores[pack.question_id]
    wrong_citations = scoring.count_wrong_citations(
      pack, replies[pack.question_id]
    )
    formatted_values = [f"{measures[name]:.6g}" for name in names]
    rows.append(
      [pack.question_id, *formatted_values, *wrong_citations.values()]
    )
  return tables.format_delimited(["query_id", *names, *CONFUSABLE_ROLES], rows)
