"""Questions, games and texts from data sets or files."""

import json
import os
import pathlib
import sys
from collections.abc import Callable, Collection
from typing import Any

from ctd_jax.tasks import chat
from ctd_jax_datasets import build
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.ctm import (
  ctm_dataset_builder,
  released,
  repository,
  schema,
)
from ctd_jax_datasets.ctm.schema import ItoInstance, Question

# Long scripts are questions, too, in a variant of their own.
QA_DATASETS = ("ctm/qa", "ctm/long_script")
ITO_DATASET, RELEASE_DATASET = "ctm/ito", "ctm/release"
OURS, RELEASE = DATASETS = ("ours", "release")


def load_questions(
  path: str | None,
  data_dir: str | None,
  split: str,
  tasks: Collection[str] = (),
) -> list[Question]:
  """Returns the questions of a split, one of each task in turn.

  Args:
    path: JSON lines; None takes the data set, which is built if missing.
    tasks: tasks that are taken; () takes all.
  """
  if path is None:
    questions = [
      question
      for name in QA_DATASETS
      for question in ctm_dataset_builder.read_questions(
        build.build_dataset(name, data_dir)
      )
    ]
  else:
    questions = read_json_lines(path, schema.question_from_json)
  return _select_questions(questions, f"--data={path}", split, tasks)


def load_release(
  sources: str | None, split: str, tasks: Collection[str] = ()
) -> tuple[list[Question], dict[str, int]]:
  """Returns the authors' questions and counts of them; prints the notes.

  The files are read each time, since a built copy may come from other files.

  Args:
    sources: folder or file; None reads the environment variable.
    split, tasks: as above.
  """
  folder = sources or os.environ.get(source_files.RELEASE_FOLDER_VARIABLE)
  if not folder:
    raise ValueError(
      "dataset=release: name the folder of the authors' files with sources"
    )
  questions, notes = released.read_released_questions(folder)
  print(f"{folder}\n{notes.format_table()}", file=sys.stderr)
  selected = _select_questions(questions, f"sources={folder}", split, tasks)
  num_texts = sum(isinstance(q.gold, schema.TextGold) for q in selected)
  return selected, {
    released.BY_RULES: len(selected) - num_texts,
    released.BY_MODEL: num_texts,
    released.UNREADABLE_RECORDS: notes.facts[released.UNREADABLE_RECORDS],
  }


def _select_questions(
  all_questions: list[Question],
  source: str,
  split: str,
  tasks: Collection[str],
) -> list[Question]:
  questions = [
    q
    for q in all_questions
    if split in (q.split, "all") and (not tasks or q.task in tasks)
  ]
  if not questions:
    raise ValueError(
      f"{source}: no question of split {split}, task "
      f"{', '.join(tasks) or 'any'}"
    )
  return chat.interleave(questions, lambda question: question.task)


def load_games(path: str | None, data_dir: str | None) -> list[ItoInstance]:
  """Returns the games, one of each level in turn; arguments as above."""
  games = (
    ctm_dataset_builder.read_games(build.build_dataset(ITO_DATASET, data_dir))
    if path is None
    else read_json_lines(path, schema.instance_from_json)
  )
  return chat.interleave(games, lambda game: game.level)


def format_dataset_name(
  name: str, path: str | None, data_dir: str | None
) -> str:
  """Returns the data set's name in result rows, with its version if built."""
  if path is not None:
    return f"ctm/{pathlib.Path(path).stem}"
  return f"{name}:{build.build_dataset(name, data_dir).version}"


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
