"""Questions, games and texts from data sets or files."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

from ctd_jax.tasks.ctm.command_settings import DataSettings
from ctd_jax_datasets import build
from ctd_jax_datasets.ctm import ctm_dataset_builder, repository, schema
from ctd_jax_datasets.ctm.schema import ItoInstance, Question

# Long scripts are questions, too, in a variant of their own.
QA_DATASETS = ("ctm/qa", "ctm/long_script")
ITO_DATASET = "ctm/ito"


def load_questions(data: DataSettings, split: str) -> list[Question]:
  """Returns the questions of a split; missing data sets are built."""
  if data.file is None:
    all_questions = [
      question
      for name in QA_DATASETS
      for question in ctm_dataset_builder.read_questions(
        build.build_dataset(name, data.data_dir)
      )
    ]
  else:
    all_questions = read_json_lines(data.file, schema.question_from_json)
  split_questions = [q for q in all_questions if q.split == split]
  if not split_questions:
    raise ValueError(f"--data={data.file}: no question of the split {split}")
  return split_questions


def load_games(data: DataSettings) -> list[ItoInstance]:
  """Returns the games; a missing data set is built."""
  if data.file is None:
    return ctm_dataset_builder.read_games(
      build.build_dataset(ITO_DATASET, data.data_dir)
    )
  return read_json_lines(data.file, schema.instance_from_json)


def format_dataset_name(name: str, data: DataSettings) -> str:
  """Returns the data set's name in result rows, with its version if built."""
  if data.file is not None:
    return f"ctm/{pathlib.Path(data.file).stem}"
  return f"{name}:{build.build_dataset(name, data.data_dir).version}"


def read_json_lines(
  path: str, parse_record: Callable[[dict], Any]
) -> list[Any]:
  """Returns the parsed records of a file with one JSON object per line.

  Args:
    path: file in UTF-8; empty lines are skipped.
    parse_record: function that raises ValueError, KeyError, TypeError or
      AttributeError for an object of another form.
  """
  file = pathlib.Path(path).expanduser()
  if not file.is_file():
    raise FileNotFoundError(f"{path}: no such file")
  records = []
  # Not splitlines(): a text may hold other line separators, e.g. U+2028.
  for number, line in enumerate(
    file.read_text(encoding="utf-8").split("\n"), start=1
  ):
    if not line.strip():
      continue
    try:
      records.append(parse_record(json.loads(line)))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
      raise ValueError(f"{path}, line {number}: {error}") from None
  return records


def load_passages(path: str | None) -> list[str]:
  """Returns the texts of an open book.

  Args:
    path: JSON lines with a field text; None takes the evidence of the entity
      table.
  """
  if path is not None:
    return read_json_lines(path, lambda fields: str(fields["text"]))
  facts_by_name = {
    entity.name: "，".join(filter(None, (entity.place, *entity.evidence)))
    for entity in repository.load_entities()
  }
  return [f"{name}：{facts}" for name, facts in facts_by_name.items() if facts]
