"""Settings of the three commands, and the flags that describe them.

Importing this imports no heavy library, so that --help is fast.
"""

import dataclasses
import pathlib
import sys
from typing import Any, TypeVar

from absl import flags

from ctd_jax.tasks import chat_models
from ctd_jax.tasks.chat_models import Endpoint

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
  """Settings that the commands `qa` and `ito` share."""

  workdir: pathlib.Path  # folder of the run
  data: DataSettings = DataSettings()  # origin of the questions or games
  endpoint: Endpoint | None = None  # chat model; None for all other systems
  workers: int = 4  # number of parallel requests or games of a model
  command: str = ""  # command line, for the result rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class QaSettings(RunSettings):
  """Settings of the command `qa`."""

  system: str  # one of `SYSTEMS`
  split: str = "test"  # one of `SPLITS`
  task: tuple[str, ...] = ()  # tasks that are asked; () asks all
  limit: int | None = None  # maximal number of questions; None asks all
  # What the model reads before a question, one of `ARMS`.
  arm: str = "closed_book"
  style: str = DIRECT  # form of its replies, one of `STYLES`
  # JSON lines with texts for the arm open_book; None takes the evidence of the
  # entity table.
  gallery: str | None = None
  # Data sets that the system chronicles searches.
  chronicles: tuple[str, ...] = ("chunqiutr/rebuilt", "zztj/rebuilt")
  # Model that judges answers on which the rules do not decide; None counts
  # these answers as wrong.
  judge: Endpoint | None = None
  # Folders of finished runs that are drawn into the same plots.
  also: tuple[str, ...] = ()

  def __post_init__(self):
    if self.system == MODEL and self.endpoint is None:
      raise ValueError("--system=model: name it with --model")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ItoSettings(RunSettings):
  """Settings of the command `ito`."""

  agent: str  # one of `AGENTS`, takes all seats
  accuracy: float = 0.7  # probability that the agent `knowing` knows a period
  rounds: int = 8  # as many as the paper's largest K of Pass@K
  repeats: int = 1  # how often each instance is played
  seed: int = 0  # seed of themes and guesses
  repairs: int = 2  # how often one reply may be asked for again
  feedback: bool = True  # whether wrong seats are published

  def __post_init__(self):
    if self.agent == MODEL and self.endpoint is None:
      raise ValueError("--agent=model: name it with --model")


Settings = TypeVar("Settings", bound=RunSettings)
# Left out of the recorded command: they differ between machines or are secret.
_PRIVATE_FLAGS = (
  *("--workdir", "--data_dir", "--also"),
  *("--api_key", "--base_url"),
)


def define_qa_flags() -> None:
  """Defines the flags of `qa`."""
  define_judge_flags()
  # No default: a run without a system would be a mistake.
  flags.DEFINE_enum(
    "system", None, SYSTEMS, "System that answers. Example: --system=oracle"
  )
  flags.DEFINE_enum(
    "arm",
    "closed_book",
    ARMS,
    "What a chat model reads before each question. Default: nothing. "
    "Example: --arm=open_book",
  )
  flags.DEFINE_enum(
    "style",
    DIRECT,
    STYLES,
    "Form of a chat model's replies: an answer, or a chain of thought and an "
    "answer. Default: direct. Example: --style=cot",
  )
  flags.DEFINE_enum(
    "split",
    "test",
    SPLITS,
    "Split of the questions. Default: test. Example: --split=validation",
  )
  flags.DEFINE_multi_enum(
    "task",
    [],
    TASKS,
    "Task to ask; repeat the flag for several. Default: all. Example: "
    "--task=EDD --task=PJ",
  )
  flags.DEFINE_integer(
    "limit",
    None,
    "Maximum number of questions. Default: all. Example: --limit=100",
    lower_bound=1,
  )
  flags.DEFINE_string(
    "gallery",
    None,
    "Texts for --arm=open_book: JSON lines with a field `text`. Default: the "
    "evidence of the entity table. Example: --gallery=corpus.jsonl",
  )
  flags.DEFINE_list(
    "chronicles",
    ["chunqiutr/rebuilt", "zztj/rebuilt"],
    "Data sets that --system=chronicles searches, separated by commas. "
    "Default: chunqiutr/rebuilt,zztj/rebuilt. Example: "
    "--chronicles=zztj/rebuilt",
  )
  flags.DEFINE_list(
    "also",
    [],
    "Workdirs of finished runs to draw into the same plots, separated by "
    "commas. Default: none. Example: --also=runs/eras,runs/oracle",
  )


def read_qa_settings() -> QaSettings:
  """Returns the settings that the flags of `qa` describe."""
  return _read_settings(QaSettings, "qa", judge=read_judge())


def define_ito_flags() -> None:
  """Defines the flags of `ito`."""
  _define_shared_flags()
  flags.DEFINE_enum(
    "agent", None, AGENTS, "Player in all seats. Example: --agent=random"
  )
  flags.DEFINE_float(
    "accuracy",
    0.7,
    "Probability that --agent=knowing knows the period of an entity. Default: "
    "0.7. Example: --accuracy=0.9",
    lower_bound=0,
    upper_bound=1,
  )
  flags.DEFINE_integer(
    "rounds",
    8,
    "Maximum number of rounds of a game. Default: 8. Example: --rounds=3",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "repeats",
    1,
    "Number of times to play each game. Default: 1. Example: --repeats=20",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "seed", 0, "Seed of themes and guesses. Default: 0. Example: --seed=1"
  )
  flags.DEFINE_integer(
    "repairs",
    2,
    "How often to ask again for an invalid reply. Default: 2. Example: "
    "--repairs=0",
    lower_bound=0,
  )
  flags.DEFINE_bool(
    "feedback",
    True,
    "Tell players after each round which seats were wrong. Default: yes. "
    "Example: --nofeedback",
  )
  flags.DEFINE_bool(
    "check",
    False,
    "Replay the transcripts of a finished run, and play nothing. Default: no. "
    "Example: --check",
  )


def read_ito_settings() -> ItoSettings:
  """Returns the settings that the flags of `ito` describe."""
  return _read_settings(ItoSettings, "ito")


def define_agreement_flags() -> None:
  """Defines the flags of `judge`."""
  define_judge_flags()
  flags.DEFINE_string(
    "answers",
    None,
    "TSV file of answers judged by people. Example: --answers=ANSWERS.tsv",
  )


def define_judge_flags() -> None:
  """Defines the flags of a command whose answers a model may judge."""
  _define_shared_flags()
  flags.DEFINE_string(
    "judge_model",
    None,
    "Chat model that judges the answers on which the rules do not decide. "
    "Default: none, and these answers count as wrong. Example: "
    "--judge_model=gpt-4o",
  )


def _define_shared_flags() -> None:
  chat_models.define_endpoint_flags()
  flags.DEFINE_string(
    "data",
    None,
    "JSON lines of questions or games. Default: the built data set. Example: "
    "--data=questions.jsonl",
  )
  flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of data sets. Default: TensorFlow Datasets' own. Example: "
    "--data_dir=~/data",
  )


def read_judge() -> Endpoint | None:
  """Returns the endpoint of --judge_model, if it is given."""
  return chat_models.read_endpoint(flags.FLAGS.judge_model)


def _read_settings(
  settings_type: type[Settings], name: str, **others: Any
) -> Settings:
  """Returns the settings of a command; fields have the names of flags."""
  values = flags.FLAGS
  others |= {
    "workdir": pathlib.Path(values.workdir).expanduser(),
    "data": DataSettings(values.data, values.data_dir),
    "endpoint": chat_models.read_endpoint(values.model),
    "command": _format_command(name),
  }
  for field in dataclasses.fields(settings_type):
    if field.name not in others:
      value = values[field.name].value
      others[field.name] = tuple(value) if isinstance(value, list) else value
  return settings_type(**others)


def _format_command(name: str) -> str:
  """Returns the command line without private flags."""
  public = [a for a in sys.argv[1:] if not a.startswith(_PRIVATE_FLAGS)]
  return " ".join(["python -m ctd_jax.tasks.ctm", name, *public])
