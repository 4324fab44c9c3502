"""What a built data set of CTM holds, beside the counts of the paper.

Why: counts by type and by number of relations are what the paper's tables are
read with, and the share of the commonest answer is what a guess gets. Called
by the builder.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow_datasets as tfds

from ctd_jax.utils import files
from ctd_jax_datasets import base_builder, summary
from ctd_jax_datasets.ctm import (
  examples,
  periods,
  questions,
  quotas,
  repository,
)
from ctd_jax_datasets.ctm.questions import (
  EDD,
  PJ,
  SPLITS,
  TASKS,
  TES,
  Entity,
  ItoInstance,
  Question,
)

# How many entities the paper's repository has.
# Source: the paper's section on data, figures by kind.
_PAPER_ENTITIES = {
  questions.FIGURE: 1652,
  questions.PLACE: 2907,
  questions.EVENT: 93,
  questions.INGREDIENT: 49,
  questions.HERITAGE: 44,
}


def describe(
  builder: tfds.core.DatasetBuilder, games: bool = False
) -> dict[str, Any]:
  """Writes tables beside the data; returns the statistics.

  Args:
    builder: of a data set that has been built.
    games: whether it holds games rather than questions.

  Returns:
    name, `content_sha256`, and the rows of every table, ready for JSON.
  """
  if games:
    tables = {"games": _by_level(examples.read_games(builder))}
  else:
    found = examples.read_questions(builder)
    tables = {"types": _by_type(found), "relations": _by_relations(found)}
    if guesses := _guesses(found):
      tables["guesses"] = guesses
  tables["entities"] = entity_rows(repository.entities())
  rows = {
    split: [summary.plain(row) for row in source]
    for split, source in sorted(builder.as_data_source().items())
  }
  counted = {
    "name": builder.info.full_name,
    "content_sha256": summary.content_hash(builder.info.features, rows),
    "facts_sha256": repository.fingerprint(),
    **tables,
  }
  path = pathlib.Path(builder.data_path)
  blocks = [summary.table(name, found) for name, found in tables.items()]
  if (path / base_builder.FINDINGS).exists():
    text = (path / base_builder.FINDINGS).read_text("utf-8")
    blocks.append(f"findings\n{text}")
  files.write_text(path / base_builder.TABLES, "\n\n".join(blocks) + "\n")
  return counted


def _by_type(found: Sequence[Question]) -> list[dict[str, Any]]:
  """Returns a row for each task: questions, those listed, by split, by k."""
  rows = []
  for task in TASKS:
    here = [question for question in found if question.task == task]
    if here:
      sizes = collections.Counter(len(q.relations) for q in here)
      splits = collections.Counter(q.split for q in here)
      rows.append(
        {
          "task": task,
          "paper": quotas.TYPE_COUNTS[task],
          "listed": sum(q.listed for q in here),
          "all": len(here),
          **{split: splits[split] for split in SPLITS},
          **{f"k={k}": sizes[k] for k in (1, 2, 3)},
          "k>=4": sum(n for k, n in sizes.items() if k >= 4),
        }
      )
  return [*rows, _total(rows, "task")]


def _total(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
  """Returns the sums of the columns."""
  sums = {key: sum(row[key] for row in rows) for key in rows[0] if key != name}
  return {name: summary.TOTAL, **sums}


def _by_relations(found: Iterable[Question]) -> list[dict[str, Any]]:
  """Returns a row for each of the paper's buckets."""
  count = collections.Counter(
    quotas.bucket(q.task, len(q.relations)) for q in found
  )
  rows = [
    {"relations": name, "paper": paper, "here": count[name]}
    for name, paper in quotas.BUCKETS.items()
    if count[name]
  ]
  return [*rows, _total(rows, "relations")]


def _guesses(found: Iterable[Question]) -> list[dict[str, Any]]:
  """Returns what the commonest answer of a kind gets, by task."""
  answers: dict[str, collections.Counter[str]] = collections.defaultdict(
    collections.Counter
  )
  for question in found:
    if question.task in (EDD, PJ, TES):
      said = {
        EDD: lambda gold: gold.label,
        PJ: lambda gold: "是" if gold.possible else "否",
        TES: lambda gold: "ABCD"[gold.correct],
      }[question.task](question.gold)
      answers[question.task][said] += 1
  rows = []
  for task, counter in answers.items():
    ((answer, count),) = counter.most_common(1)
    share = round(count / counter.total(), 3)
    rows.append({"task": task, "commonest": answer, "share": share})
  return rows


def entity_rows(entities: Iterable[Entity]) -> list[dict[str, Any]]:
  """Returns a row for each kind: records, the paper's, records by period."""
  rows = []
  found = list(entities)
  for kind in questions.KINDS:
    here = [entity for entity in found if entity.kind == kind]
    count = collections.Counter(e.periods[0] for e in here if e.periods)
    rows.append(
      {
        "kind": kind,
        "paper": _PAPER_ENTITIES.get(kind, 0),
        "records": len(here),
        **{label: count[label] for label in periods.LABELS},
        "undated": sum(not entity.periods for entity in here),
      }
    )
  return [*rows, _total(rows, "kind")]


def _by_level(found: Sequence[ItoInstance]) -> list[dict[str, Any]]:
  """Returns a row for each level: games, and seats by period."""
  rows = []
  for level in dict.fromkeys(game.level for game in found):
    seats = [s for game in found if game.level == level for s in game.seats]
    count = collections.Counter(seat.period for seat in seats)
    rows.append(
      {
        "level": level,
        "games": sum(game.level == level for game in found),
        "seats": len(seats),
        **{label: count[label] for label in periods.LABELS},
      }
    )
  return [*rows, _total(rows, "level")]
