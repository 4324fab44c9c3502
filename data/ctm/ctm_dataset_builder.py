"""TFDS builder of CTM: temporal reasoning across Chinese dynasties.

`qa` and `long_script` are questions, `ito` games, `release` the authors'
questions from a folder. Tables next to the data compare them with the counts of
the paper.

Source: CTM, arXiv 2502.16922.
"""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from ctd_jax.utils import files
from ctd_jax_datasets.common import base_builder, summary
from ctd_jax_datasets.common.base_builder import BaseBuilder
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.ctm import (
  generator,
  periods,
  released,
  repository,
  schema,
)
from ctd_jax_datasets.ctm.periods import EDD, LSEC, PJ, SPLITS, TASKS, TES
from ctd_jax_datasets.ctm.schema import Entity, ItoInstance, Question

# A stored question has the fields of the paper's records. The field `record`
# holds the whole typed record as JSON, so that nothing is lost.


RECORD = "record"  # feature with the whole record as JSON
_TEXT = tfds.features.Text
_QUESTION_FEATURES = {
  "id": _TEXT(doc="e.g. edd-00001"),
  "task": _TEXT(doc="EDD, PJ, TOU, RR, SEC, EEU, TIC, TES or LSEC"),
  "type": _TEXT(doc="its Chinese name"),
  "question": _TEXT(),
  "temporal_entities": tfds.features.Sequence(
    _TEXT(), doc="entities with their period: name-label"
  ),
  "construct_explanation": _TEXT(doc="facts, relations, conclusion"),
  "answer": _TEXT(doc="reference answer"),
  "nearest": tfds.features.Scalar(
    np.int32, doc="periods between the closest two"
  ),
  "widest": tfds.features.Scalar(
    np.int32, doc="periods between the furthest two"
  ),
  "listed": tfds.features.Scalar(
    np.int32, doc="1 if it counts to the types, else 0"
  ),
  RECORD: _TEXT(doc="ctd_jax_datasets.ctm.schema.Question as JSON"),
}
_GAME_FEATURES = {
  "id": _TEXT(doc="e.g. ito-easy-01"),
  "level": _TEXT(doc="easy, medium or hard"),
  "temporal_entities": tfds.features.Sequence(
    _TEXT(), doc="name-label of each seat, player 1 first"
  ),
  "ranks": tfds.features.Sequence(np.int32, doc="true ranks, 1 earliest"),
  RECORD: _TEXT(doc="ctd_jax_datasets.ctm.schema.ItoInstance as JSON"),
}


def read_questions(builder: BaseBuilder) -> list[Question]:
  """Returns the questions of a built data set, in the order stored."""
  return [
    schema.question_from_json(record) for record in _iterate_records(builder)
  ]


def read_games(builder: BaseBuilder) -> list[ItoInstance]:
  """Returns the games of a built data set, in the order stored."""
  return [
    schema.instance_from_json(record) for record in _iterate_records(builder)
  ]


def _iterate_records(
  builder: BaseBuilder,
) -> Iterator[dict[str, Any]]:
  """Yields the records of all splits."""
  # Splits in the order of the builder, rows in the order stored.
  for rows in builder.read_splits().values():
    for row in rows:
      yield json.loads(row[RECORD])


# Entities of the paper's repository. Source: its section on data.
_PAPER_ENTITY_COUNTS = {
  periods.FIGURE: 1652,
  periods.PLACE: 2907,
  periods.EVENT: 93,
  periods.INGREDIENT: 49,
  periods.HERITAGE: 44,
}


def _count_by_type(
  dataset_questions: Sequence[Question],
) -> list[dict[str, Any]]:
  """Returns a row for each task: counts listed, by split and relations k."""
  rows = []
  for task in TASKS:
    task_questions = [
      question for question in dataset_questions if question.task == task
    ]
    if task_questions:
      sizes = collections.Counter(len(q.relations) for q in task_questions)
      splits = collections.Counter(q.split for q in task_questions)
      rows.append(
        {
          "task": task,
          "paper": generator.TYPE_COUNTS[task],
          "listed": sum(q.listed for q in task_questions),
          "all": len(task_questions),
          **{split: splits[split] for split in SPLITS},
          **{f"k={k}": sizes[k] for k in (1, 2, 3)},
          # The paper's largest bucket.
          "k>=4": sum(n for k, n in sizes.items() if k >= 4),
        }
      )
  return [*rows, _sum_columns(rows, "task")]


def _sum_columns(
  rows: Sequence[Mapping[str, Any]], name: str
) -> dict[str, Any]:
  """Returns the sums of the columns."""
  sums = {key: sum(row[key] for row in rows) for key in rows[0] if key != name}
  return {name: summary.TOTAL, **sums}


def _count_by_relations(
  dataset_questions: Iterable[Question],
) -> list[dict[str, Any]]:
  """Returns a row for each of the paper's buckets."""
  bucket_counts = collections.Counter(
    generator.size_bucket(q.task, len(q.relations)) for q in dataset_questions
  )
  rows = [
    {"relations": name, "paper": paper, "here": bucket_counts[name]}
    for name, paper in generator.BUCKETS.items()
    if bucket_counts[name]
  ]
  return [*rows, _sum_columns(rows, "relations")]


def _score_constant_guesses(
  dataset_questions: Iterable[Question],
) -> list[dict[str, Any]]:
  """Returns the share of the most frequent answer, by task."""
  answers: dict[str, collections.Counter[str]] = collections.defaultdict(
    collections.Counter
  )
  # Only these tasks have answers that repeat.
  for question in dataset_questions:
    is_text = isinstance(question.gold, schema.TextGold)
    if question.task in (EDD, PJ, TES) and not is_text:
      gold_answer = {
        EDD: lambda gold: gold.label,
        PJ: lambda gold: "是" if gold.possible else "否",
        TES: lambda gold: "ABCD"[gold.correct],
      }[question.task](question.gold)
      answers[question.task][gold_answer] += 1
  rows = []
  for task, counter in answers.items():
    ((answer, count),) = counter.most_common(1)
    share = round(count / counter.total(), 3)
    rows.append({"task": task, "commonest": answer, "share": share})
  return rows


def count_entities(entities: Iterable[Entity]) -> list[dict[str, Any]]:
  """Returns a row for each kind: records, the paper's, records by period."""
  rows = []
  all_entities = list(entities)
  for kind in periods.KINDS:
    kind_entities = [entity for entity in all_entities if entity.kind == kind]
    period_counts = collections.Counter(
      e.periods[0] for e in kind_entities if e.periods
    )
    rows.append(
      {
        "kind": kind,
        "paper": _PAPER_ENTITY_COUNTS.get(kind, 0),
        "records": len(kind_entities),
        **{label: period_counts[label] for label in periods.LABELS},
        "undated": sum(not entity.periods for entity in kind_entities),
      }
    )
  return [*rows, _sum_columns(rows, "kind")]


def count_checked_rows() -> list[dict[str, Any]]:
  """Returns a row for each fact table that says where it was looked up.

  Each has the table, its rows, those for which a place gives all years, some
  or none, and those with a source that differs.
  """
  tables = {
    repository.TABLES[kind]: repository.read_rows(kind)
    for kind in periods.KINDS
  }
  tables["regimes"] = periods.read_rows()
  counted = []
  for table, rows in tables.items():
    if not rows or periods.CHECKED_COLUMN not in rows[0]:
      continue
    notes = [periods.split_checked(row) for row in rows]
    # A tradition of unknown age has no year that a place could give.
    none = sum(
      periods.YEARS_NOT_GIVEN in n.not_given or row.get("start") == ""
      for n, row in zip(notes, rows, strict=True)
    )
    some = sum(
      bool(n.not_given) and periods.YEARS_NOT_GIVEN not in n.not_given
      for n in notes
    )
    counted.append(
      {
        "table": table,
        "rows": len(rows),
        "years given": len(rows) - some - none,
        "some given": some,
        "none given": none,
        "differs": sum(bool(n.differing) for n in notes),
      }
    )
  return counted


def _count_by_level(instances: Sequence[ItoInstance]) -> list[dict[str, Any]]:
  """Returns a row for each level: games, and seats by period."""
  rows = []
  for level in dict.fromkeys(game.level for game in instances):
    seats = [s for game in instances if game.level == level for s in game.seats]
    period_counts = collections.Counter(seat.period for seat in seats)
    rows.append(
      {
        "level": level,
        "games": sum(game.level == level for game in instances),
        "seats": len(seats),
        **{label: period_counts[label] for label in periods.LABELS},
      }
    )
  return [*rows, _sum_columns(rows, "level")]


SHORT_TASKS = tuple(task for task in TASKS if task != LSEC)
GAMES, RELEASE = "ito", "release"


@dataclasses.dataclass(kw_only=True)
class Config(tfds.core.BuilderConfig):
  """Variant of the data set."""

  # Tasks of the generated questions; () for games and the release.
  tasks: tuple[str, ...] = ()


class Builder(BaseBuilder):
  """Builder of `ctm/qa`, `ctm/long_script`, `ctm/ito` and `ctm/release`.

  One process is enough: `processes` is not used.
  """

  VERSION = tfds.core.Version("3.0.1")
  RELEASE_NOTES: ClassVar = {
    "3.0.1": (
      "A city's name that another city also had is right, too (恒州 for 镇州)."
    ),
    "3.0.0": (
      "The polity decides the period of rulers and eras, eras have the years "
      "of DILA's table, and cities all names that offices used."
    ),
    "2.0.0": (
      "The facts were looked up: years and sources corrected, those that "
      "nothing supports left out."
    ),
    "1.0.0": "First.",
  }
  BUILDER_CONFIGS: ClassVar = [
    Config(
      name="qa",
      tasks=SHORT_TASKS,
      description="8,500 questions of eight types on one to ten relations.",
    ),
    Config(
      name="long_script",
      tasks=(LSEC,),
      description="250 scripts with things out of their time.",
    ),
    Config(name=GAMES, description="60 games of Timeline Ito, three levels."),
    Config(name=RELEASE, description="The authors' questions, from a folder."),
  ]

  def _info(self) -> tfds.core.DatasetInfo:
    """Returns features and metadata."""
    is_games = self.builder_config.name == GAMES
    return self.dataset_info_from_configs(
      features=tfds.features.FeaturesDict(
        _GAME_FEATURES if is_games else _QUESTION_FEATURES
      ),
      homepage="https://arxiv.org/abs/2502.16922",
      metadata=tfds.core.MetadataDict(
        seed=generator.SEED, facts_sha256=repository.hash_fact_tables()
      ),
      disable_shuffling=True,  # examples stay in the order of their ids
    )

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict[str, Any]]]]:
    """Returns the examples of `train`, `validation` and `test`."""
    config = self.builder_config
    if config.name == RELEASE:
      return {released.SPLIT: self._generate_examples(self._read_release())}
    # Silently ignored sources would suggest that they were read.
    if self.sources:
      raise SourceError(
        f"--sources={self.sources}: {self.name}/{config.name} is made from the "
        f"fact tables; leave it out, or build {self.name}/{RELEASE}"
      )
    if config.name == GAMES:  # `test` only
      instances = generator.draw_games(generator.SEED)
      return {generator.SPLIT: self._generate_examples(instances)}
    questions = generator.generate_questions(tasks=config.tasks)
    return {
      split: self._generate_examples([q for q in questions if q.split == split])
      for split in SPLITS
    }

  def _generate_examples(
    self, records: Iterable[Question | ItoInstance]
  ) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (id, example) of every question or game."""
    for record in records:
      if isinstance(record, ItoInstance):
        name = record.instance_id
        example = {
          "level": record.level,
          "temporal_entities": [seat.label for seat in record.seats],
          "ranks": list(record.ranks),
        }
      else:
        name = record.question_id
        example = {
          "task": record.task,
          "type": record.type,
          "question": record.question,
          "temporal_entities": [r.label for r in record.relations],
          "construct_explanation": record.explanation,
          "answer": record.answer,
          "nearest": record.distance.nearest,
          "widest": record.distance.widest,
          "listed": int(record.listed),
        }
      # The paper's fields do not determine the question.
      yield (
        name,
        {"id": name, **example, RECORD: schema.format_json_line(record)},
      )

  def _read_release(self) -> list[Question]:
    """Returns the authors' questions; writes the findings on their files."""
    folder = self._release_folder()
    if folder is None:
      raise SourceError(
        f"{self.name}/{RELEASE} needs --sources=FOLDER of the authors' JSON "
        "files"
      )
    questions, notes = released.read_released_questions(folder)
    self._write_notes(notes)
    return questions

  def describe(self) -> dict[str, Any]:
    """Writes tables next to the data; returns the statistics.

    Returns:
      name, `content_sha256`, and the rows of every table, ready for JSON.
    """
    if self.builder_config.name == GAMES:
      tables = {"games": _count_by_level(read_games(self))}
    else:
      questions = read_questions(self)
      tables = {
        "types": _count_by_type(questions),
        "relations": _count_by_relations(questions),
      }
      if guess_rows := _score_constant_guesses(questions):
        tables["guesses"] = guess_rows
    tables["entities"] = count_entities(repository.load_entities())
    tables["checked"] = count_checked_rows()
    path = pathlib.Path(self.data_path)
    blocks = [summary.format_table(*table) for table in tables.items()]
    if (path / base_builder.FINDINGS_FILE).exists():
      text = (path / base_builder.FINDINGS_FILE).read_text("utf-8")
      blocks.append(f"findings\n{text}")
    files.write_text(
      path / base_builder.TABLES_FILE, "\n\n".join(blocks) + "\n"
    )
    return {
      "name": self.info.full_name,
      "content_sha256": summary.content_hash(
        self.info.features, self.read_splits()
      ),
      "facts_sha256": repository.hash_fact_tables(),
      **tables,
    }
