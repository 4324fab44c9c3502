"""Settings of the three commands and the flags that describe them.

Importing this imports no heavy library, so that --help is fast.
"""

import dataclasses
import pathlib
import sys

from absl import flags

from ctd_jax.tasks import chat_models
from ctd_jax.tasks.chat_models import Endpoint
from ctd_jax.utils import command_line

# Those of the data set, whose package would make --help slow; a test compares.
SPLITS = ("train", "validation", "test")
TASKS = ("EDD", "PJ", "TOU", "RR", "SEC", "EEU", "TIC", "TES", "LSEC")

MODEL = "model"  # system and agent that ask a chat model
SYSTEMS = ("eras", "chronicles", "oracle", MODEL)
ARMS = ("closed_book", "open_book", "facts", "distractor_facts")
# Form of a reply: an answer, or JSON with a chain of thought and an answer.
DIRECT, COT = STYLES = ("direct", "cot")
AGENTS = (
  *("random", "elimination", "permutation", "joint"),
  *("oracle", "knowing", MODEL),
)


@dataclasses.dataclass(frozen=True)
class DataSettings:
  """Origin of questions or games."""

  # JSON lines; None takes the data set, which is built if necessary.
  file: str | None = None
  # Folder of data sets; None is the default of TFDS.
  data_dir: str | None = None


@dataclasses.dataclass(frozen=True)
class JudgeSettings:
  """Model that judges answers on which the rules do not decide."""

  endpoint: Endpoint | None = None  # None counts these answers as wrong
  workers: int = 4  # number of parallel requests


@dataclasses.dataclass(frozen=True)
class QaSettings:
  """Settings of the command `qa`."""

  system: str  # one of `SYSTEMS`
  workdir: pathlib.Path  # folder of the run
  data: DataSettings = DataSettings()  # origin of the questions
  split: str = "test"  # one of `SPLITS`
  tasks: tuple[str, ...] = ()  # tasks that are asked; () asks all
  limit: int | None = None  # maximal number of questions; None asks all
  endpoint: Endpoint | None = None  # model that answers, for the system `model`
  # What the model reads before a question, one of `ARMS`.
  arm: str = "closed_book"
  style: str = DIRECT  # form of its replies, one of `STYLES`
  # JSON lines with texts for the arm open_book; None takes the evidence of the
  # entity table.
  gallery: str | None = None
  # Data sets that the system chronicles searches.
  chronicles: tuple[str, ...] = ("chunqiutr/rebuilt", "zztj/rebuilt")
  workers: int = 4  # number of parallel requests
  judge: JudgeSettings = JudgeSettings()  # model behind the rules
  # Folders of runs that are drawn into the same plots.
  finished_runs: tuple[str, ...] = ()
  command: str = ""  # command line, for the result rows

  def __post_init__(self):
    if self.system == MODEL and self.endpoint is None:
      raise ValueError("--system=model: name it with --model")
    for task in self.tasks:
      if task not in TASKS:
        raise ValueError(f"--task={task}: there are {', '.join(TASKS)}")


@dataclasses.dataclass(frozen=True)
class ItoSettings:
  """Settings of the command `ito`."""

  agent: str  # one of `AGENTS`, takes all seats
  workdir: pathlib.Path  # folder of the run
  data: DataSettings = DataSettings()  # origin of the games
  endpoint: Endpoint | None = None  # model that plays, for the agent `model`
  accuracy: float = 0.7  # probability that the agent `knowing` knows a period
  rounds: int = 8  # as many as the paper's largest K of Pass@K
  repeats: int = 1  # how often each instance is played
  seed: int = 0  # seed of themes and guesses
  repairs: int = 2  # how often one reply may be asked for again
  feedback: bool = True  # whether wrong seats are published
  workers: int = 4  # number of parallel games of a model
  command: str = ""  # command line, for the result rows

  def __post_init__(self):
    if self.agent == MODEL and self.endpoint is None:
      raise ValueError("--agent=model: name it with --model")


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
  """Returns the settings that the flags of `qa` describe."""
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
  """Returns the settings that the flags of `ito` describe."""
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
  chat_models.define_endpoint_flags()
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
  return chat_models.read_endpoint(model) if model else None


def _read_judge_settings() -> JudgeSettings:
  values = flags.FLAGS
  model = values.judge_model
  return JudgeSettings(
    chat_models.read_endpoint(model) if model else None, values.workers
  )


def _format_command(name: str) -> str:
  """Returns the command line without private flags."""
  public_arguments = [
    a for a in sys.argv[1:] if not a.startswith(_PRIVATE_FLAGS)
  ]
  return " ".join(["python -m ctd_jax.tasks.ctm", name, *public_arguments])
