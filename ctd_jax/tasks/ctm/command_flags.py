"""Flags of the three commands, and the settings that they describe."""

from __future__ import annotations

import pathlib
import sys

from absl import flags

from ctd_jax.llm import endpoint_flags
from ctd_jax.llm.endpoint import Endpoint
from ctd_jax.tasks.ctm.settings import (
  AGENTS,
  ARMS,
  DIRECT,
  SPLITS,
  STYLES,
  SYSTEMS,
  TASKS,
  DataSettings,
  ItoSettings,
  JudgeSettings,
  QaSettings,
)
from ctd_jax.utils import command_line

# Left out of the recorded command: they differ between machines or are secret.
_PRIVATE_FLAGS = (
  *("--workdir", "--data_dir", "--also"),
  *("--api_key", "--base_url"),
)


def define_qa_flags() -> None:
  """Defines the flags of `qa`."""
  _define_shared_flags()
  _define_judge_flag()
  # No default: a run without a system would be a mistake.
  flags.DEFINE_enum("system", None, SYSTEMS, "Answerer, see above.")
  flags.DEFINE_enum("arm", "closed_book", ARMS, "What a model reads first.")
  flags.DEFINE_enum("style", DIRECT, STYLES, "Form of a model's replies.")
  flags.DEFINE_enum("split", "test", SPLITS, "Split of the questions.")
  flags.DEFINE_multi_enum("task", None, TASKS, "Tasks; all by default.")
  flags.DEFINE_integer("limit", None, "Most questions asked.", lower_bound=1)
  flags.DEFINE_string(
    "gallery",
    None,
    "Texts for the arm open_book: JSON lines with a field text; by default the "
    "evidence of the entity table. Example: --gallery=corpus.jsonl",
  )
  flags.DEFINE_list(
    "chronicles",
    ["chunqiutr/rebuilt", "zztj/rebuilt"],
    "Data sets that the system chronicles searches.",
  )
  flags.DEFINE_list("also", [], "Folders of finished runs for the plots.")


def read_qa_settings() -> QaSettings:
  """Returns the settings that the flags of `qa` describe.

  Raises:
    ValueError: naming the flag at fault.
  """
  values = flags.FLAGS
  return QaSettings(
    system=values.system,
    workdir=_read_workdir(),
    data=_read_data_settings(),
    split=values.split,
    tasks=tuple(values.task or ()),
    limit=values.limit,
    endpoint=_read_endpoint(),
    arm=values.arm,
    style=values.style,
    gallery=values.gallery,
    chronicles=tuple(values.chronicles),
    workers=values.workers,
    judge=_read_judge_settings(),
    finished_runs=tuple(values.also),
    command=_format_command("qa"),
  )


def define_ito_flags() -> None:
  """Defines the flags of `ito`."""
  _define_shared_flags()
  flags.DEFINE_enum("agent", None, AGENTS, "Player in all seats.")
  flags.DEFINE_float(
    "accuracy",
    0.7,
    "Probability that --agent=knowing knows the period of an entity.",
    lower_bound=0,
    upper_bound=1,
  )
  flags.DEFINE_integer("rounds", 8, "Most rounds of a game.", lower_bound=1)
  flags.DEFINE_integer("repeats", 1, "Games of an instance.", lower_bound=1)
  flags.DEFINE_integer("seed", 0, "Seed of themes and guesses.")
  flags.DEFINE_integer("repairs", 2, "Repairs of one reply.", lower_bound=0)
  flags.DEFINE_bool("feedback", True, "Whether wrong seats are published.")
  flags.DEFINE_bool("check", False, "Only replay the transcripts.")


def read_ito_settings() -> ItoSettings:
  """Returns the settings that the flags of `ito` describe.

  Raises:
    ValueError: naming the flag at fault.
  """
  values = flags.FLAGS
  return ItoSettings(
    agent=values.agent,
    workdir=_read_workdir(),
    data=_read_data_settings(),
    endpoint=_read_endpoint(),
    accuracy=values.accuracy,
    rounds=values.rounds,
    repeats=values.repeats,
    seed=values.seed,
    repairs=values.repairs,
    feedback=values.feedback,
    workers=values.workers,
    command=_format_command("ito"),
  )


def define_agreement_flags() -> None:
  """Defines the flags of `judge`."""
  _define_shared_flags()
  _define_judge_flag()
  flags.DEFINE_string("answers", None, "TSV file of judged answers, see above.")


def read_agreement_settings() -> tuple[pathlib.Path, str, JudgeSettings]:
  """Returns the files of answers and questions, and the judging model."""
  values = flags.FLAGS
  return pathlib.Path(values.answers), values.data, _read_judge_settings()


def _define_shared_flags() -> None:
  endpoint_flags.define_endpoint_flags()
  flags.DEFINE_string(
    "data",
    None,
    "JSON lines of questions or games; by default the built data set. Example: "
    "--data=questions.jsonl",
  )
  flags.DEFINE_string(
    "data_dir", None, "Folder of data sets. Example: --data_dir=~/data"
  )


def _define_judge_flag() -> None:
  flags.DEFINE_string(
    "judge_model",
    None,
    "Model that judges answers on which the rules do not decide; without one "
    "they count as wrong. Example: --judge_model=gpt-4o",
  )


def _read_workdir() -> pathlib.Path:
  return pathlib.Path(command_line.WORKDIR.value).expanduser()


def _read_data_settings() -> DataSettings:
  return DataSettings(flags.FLAGS.data, flags.FLAGS.data_dir)


def _read_endpoint() -> Endpoint | None:
  """Returns the endpoint of --model; the settings say whether it is needed."""
  model = flags.FLAGS.model
  return endpoint_flags.read_endpoint(model) if model else None


def _read_judge_settings() -> JudgeSettings:
  values = flags.FLAGS
  model = values.judge_model
  return JudgeSettings(
    endpoint_flags.read_endpoint(model) if model else None, values.workers
  )


def _format_command(name: str) -> str:
  """Returns the command line without private flags."""
  public_arguments = [
    a for a in sys.argv[1:] if not a.startswith(_PRIVATE_FLAGS)
  ]
  return " ".join(["python -m ctd_jax.tasks.ctm", name, *public_arguments])
