"""JSON form of questions, themes and games, with checked types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ctd_jax_datasets.ctm.game_schema import ItoInstance, Theme
from ctd_jax_datasets.ctm.questions import Question

Record = TypeVar("Record", bound=msgspec.Struct)


def to_json(record: msgspec.Struct) -> dict[str, Any]:
  """Returns an entity, question, theme or game as a JSON object."""
  return msgspec.to_builtins(record)


def format_json_line(record: msgspec.Struct) -> str:
  """Returns a record as one line of JSON."""
  # Not msgspec.json: its separators would change the bytes of the data sets.
  return json.dumps(to_json(record), ensure_ascii=False)


def question_from_json(data: Mapping[str, Any]) -> Question:
  """Returns the question of `to_json`.

  Raises:
    ValueError: naming the field that is unknown, missing or of another type.
  """
  return _convert_record(data, Question)


def instance_from_json(data: Mapping[str, Any]) -> ItoInstance:
  """Returns the game of `to_json`; raises as `question_from_json`."""
  return _convert_record(data, ItoInstance)


def theme_from_json(data: Mapping[str, Any]) -> Theme:
  """Returns the theme of `to_json`; raises as `question_from_json`."""
  return _convert_record(data, Theme)


def _convert_record(data: Mapping[str, Any], cls: type[Record]) -> Record:
  try:
    return msgspec.convert(data, cls)
  except msgspec.ValidationError as error:  # which is no ValueError
    raise ValueError(f"{cls.__name__}: {error}") from None
