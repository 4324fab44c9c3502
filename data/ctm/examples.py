"""Examples of questions and games as TFDS stores them, and their readers.

A stored question has the fields of the paper's records. The field `record`
holds the whole typed record as JSON, so that nothing is lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from ctd_jax_datasets.ctm import schema
from ctd_jax_datasets.ctm.schema import ItoInstance, Question

RECORD = "record"  # feature with the whole record as JSON


def make_question_features() -> tfds.features.FeaturesDict:
  """Returns the features of a question."""
  text, number = tfds.features.Text, tfds.features.Scalar
  return tfds.features.FeaturesDict(
    {
      "id": text(doc="e.g. edd-00001"),
      "task": text(doc="EDD, PJ, TOU, RR, SEC, EEU, TIC, TES or LSEC"),
      "type": text(doc="its Chinese name"),
      "question": text(),
      "temporal_entities": tfds.features.Sequence(
        text(), doc="entities with their period: name-label"
      ),
      "construct_explanation": text(doc="facts, relations, conclusion"),
      "answer": text(doc="reference answer"),
      "nearest": number(np.int32, doc="periods between the closest two"),
      "widest": number(np.int32, doc="periods between the furthest two"),
      "listed": number(np.int32, doc="1 if it counts to the types, else 0"),
      RECORD: text(doc="ctd_jax_datasets.ctm.schema.Question as JSON"),
    }
  )


def make_game_features() -> tfds.features.FeaturesDict:
  """Returns the features of a game."""
  text = tfds.features.Text
  return tfds.features.FeaturesDict(
    {
      "id": text(doc="e.g. ito-easy-01"),
      "level": text(doc="easy, medium or hard"),
      "temporal_entities": tfds.features.Sequence(
        text(), doc="name-label of each seat, player 1 first"
      ),
      "ranks": tfds.features.Sequence(np.int32, doc="true ranks, 1 earliest"),
      RECORD: text(doc="ctd_jax_datasets.ctm.schema.ItoInstance as JSON"),
    }
  )


def iterate_question_examples(
  question_records: Iterable[Question],
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields (id, example) of each question."""
  for question in question_records:
    yield (
      question.question_id,
      {
        "id": question.question_id,
        "task": question.task,
        "type": question.type,
        "question": question.question,
        "temporal_entities": [r.label for r in question.relations],
        "construct_explanation": question.explanation,
        "answer": question.answer,
        "nearest": question.distance.nearest,
        "widest": question.distance.widest,
        "listed": int(question.listed),
        # Beside the paper's fields, which do not determine the question.
        RECORD: schema.format_json_line(question),
      },
    )


def iterate_game_examples(
  instances: Iterable[ItoInstance],
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields (id, example) of each game."""
  for game in instances:
    yield (
      game.instance_id,
      {
        "id": game.instance_id,
        "level": game.level,
        "temporal_entities": [seat.label for seat in game.seats],
        "ranks": list(game.ranks),
        RECORD: schema.format_json_line(game),
      },
    )


def read_questions(builder: tfds.core.DatasetBuilder) -> list[Question]:
  """Returns the questions of a built data set, in the order stored."""
  return [
    schema.question_from_json(record) for record in _iterate_records(builder)
  ]


def read_games(builder: tfds.core.DatasetBuilder) -> list[ItoInstance]:
  """Returns the games of a built data set, in the order stored."""
  return [
    schema.instance_from_json(record) for record in _iterate_records(builder)
  ]


def _iterate_records(
  builder: tfds.core.DatasetBuilder,
) -> Iterator[dict[str, Any]]:
  """Yields the records of all splits."""
  name = f"{builder.name}/{builder.builder_config.name}"
  if not builder.is_prepared():
    raise FileNotFoundError(
      f"data set {name} is not built in {os.fspath(builder.data_path)}; run "
      f"python -m ctd_jax_datasets.build {name}"
    )
  # Splits in the order of the builder, rows in the order stored.
  for rows in builder.as_data_source().values():
    for row in rows:
      yield json.loads(row[RECORD])
