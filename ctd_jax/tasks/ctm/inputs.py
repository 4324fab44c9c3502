"""Where questions, games and texts come from: data sets or files.

Why: all commands name their data alike. Called by the commands of
`python -m ctd_jax.tasks.ctm`.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_datasets as tfds
from absl import flags

from ctd_jax.tasks.ctm import chronicles as chronicles_lib
from ctd_jax_datasets import build, load
from ctd_jax_datasets.ctm import examples, json_records, repository
from ctd_jax_datasets.ctm.game_schema import ItoInstance
from ctd_jax_datasets.ctm.questions import Question

# Long scripts are questions as well, in a variant of their own.
QA_DATASETS = ("ctm/qa", "ctm/long_script")
ITO_DATASET = "ctm/ito"


def define_flags() -> None:
  """Defines the flags that name data."""
  flags.DEFINE_string(
    "data",
    None,
    "JSON lines of questions or games; by default the built data set. Example: "
    "--data=questions.jsonl",
  )
  flags.DEFINE_string(
    "data_dir", None, "Where data sets lie. Example: --data_dir=~/data"
  )


def load_questions(split: str) -> list[Question]:
  """Returns the questions of a split; data sets not there yet are built.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file and line of what cannot be read, or the split.
  """
  path = flags.FLAGS.data
  if path is None:
    all_questions = [
      q
      for data_set in QA_DATASETS
      for q in examples.read_questions(_build_dataset(data_set))
    ]
  else:
    all_questions = read_json_lines(path, json_records.question_from_json)
  split_questions = [
    question for question in all_questions if question.split == split
  ]
  if not split_questions:
    raise ValueError(f"--data={path}: no question of the split {split}")
  return split_questions


def load_games() -> list[ItoInstance]:
  """Returns the games; the data set is built if it is not there yet.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file and line of what cannot be read.
  """
  path = flags.FLAGS.data
  if path is None:
    return examples.read_games(_build_dataset(ITO_DATASET))
  return read_json_lines(path, json_records.instance_from_json)


def format_dataset_name(data_set: str) -> str:
  """Returns what result rows call the data, with its version if it is ours."""
  if flags.FLAGS.data is not None:
    return f"ctm/{pathlib.Path(flags.FLAGS.data).stem}"
  return f"{data_set}:{_build_dataset(data_set).version}"


def _build_dataset(data_set: str) -> tfds.core.DatasetBuilder:
  return build.build_dataset(data_set, flags.FLAGS.data_dir)


def read_json_lines(
  path: str, parse_record: Callable[[dict], Any]
) -> list[Any]:
  """Returns what `parse_record` makes of the JSON objects of a file's lines.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file and line of what cannot be read.
  """
  file = pathlib.Path(path).expanduser()
  if not file.is_file():
    raise FileNotFoundError(f"{path}: no such file")
  records = []
  lines = file.read_text(encoding="utf-8").split("\n")
  for number, line in enumerate(lines, start=1):
    if not line.strip():
      continue
    try:
      records.append(parse_record(json.loads(line)))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
      raise ValueError(f"{path}, line {number}: {error}") from None
  return records


def load_passages(path: str | None) -> list[str]:
  """Returns the texts of an open book; None is the entity table's evidence.

  Raises:
    ValueError: naming file and line of a text that cannot be read.
  """
  if path is not None:
    return read_json_lines(path, lambda fields: str(fields["text"]))
  facts_by_name = {
    entity.name: "，".join(filter(None, (entity.place, *entity.evidence)))
    for entity in repository.load_entities()
  }
  return [f"{name}：{facts}" for name, facts in facts_by_name.items() if facts]


def load_dated_events(names: Sequence[str]) -> list[chronicles_lib.DatedText]:
  """Returns the dated events of data sets with reigns."""
  return [
    dated
    for name in names
    for dated in chronicles_lib.read_dated_events(
      load.load_benchmark(name, flags.FLAGS.data_dir)
    )
  ]
