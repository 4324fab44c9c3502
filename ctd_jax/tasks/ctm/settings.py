"""Settings of the three commands; importing them imports no heavy library."""

from __future__ import annotations

import dataclasses
import pathlib

from ctd_jax.llm.endpoint import Endpoint

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
  """Origin of questions or games.

  Attributes:
    file: JSON lines; None takes the data set, which is built if necessary.
    data_dir: folder of data sets; None is the default of TFDS.
  """

  file: str | None = None
  data_dir: str | None = None


@dataclasses.dataclass(frozen=True)
class JudgeSettings:
  """Model that judges answers on which the rules do not decide.

  Attributes:
    endpoint: None counts these answers as wrong.
    workers: number of parallel requests.
  """

  endpoint: Endpoint | None = None
  workers: int = 4


@dataclasses.dataclass(frozen=True)
class QaSettings:
  """Settings of the command `qa`.

  Attributes:
    system: one of `SYSTEMS`.
    workdir: folder of the run.
    data: origin of the questions.
    split: one of `SPLITS`.
    tasks: tasks that are asked; () asks all.
    limit: maximal number of questions; None asks all.
    endpoint: model that answers, for the system `model`.
    arm: what the model reads before a question, one of `ARMS`.
    style: form of its replies, one of `STYLES`.
    gallery: JSON lines with texts for the arm open_book; None takes the
      evidence of the entity table.
    chronicles: data sets that the system chronicles searches.
    workers: number of parallel requests.
    judge: model behind the rules.
    finished_runs: folders of runs that are drawn into the same plots.
    command: command line, for the result rows.
  """

  system: str
  workdir: pathlib.Path
  data: DataSettings = DataSettings()
  split: str = "test"
  tasks: tuple[str, ...] = ()
  limit: int | None = None
  endpoint: Endpoint | None = None
  arm: str = "closed_book"
  style: str = DIRECT
  gallery: str | None = None
  chronicles: tuple[str, ...] = ("chunqiutr/rebuilt", "zztj/rebuilt")
  workers: int = 4
  judge: JudgeSettings = JudgeSettings()
  finished_runs: tuple[str, ...] = ()
  command: str = ""

  def __post_init__(self):
    if self.system == MODEL and self.endpoint is None:
      raise ValueError("--system=model: name it with --model")
    for task in self.tasks:
      if task not in TASKS:
        raise ValueError(f"--task={task}: there are {', '.join(TASKS)}")


@dataclasses.dataclass(frozen=True)
class ItoSettings:
  """Settings of the command `ito`.

  Attributes:
    agent: one of `AGENTS`, takes all seats.
    workdir: folder of the run.
    data: origin of the games.
    endpoint: model that plays, for the agent `model`.
    accuracy: probability that the agent `knowing` knows a period.
    rounds: maximal number of rounds of a game.
    repeats: how often each instance is played.
    seed: seed of themes and guesses.
    repairs: how often one reply may be asked for again.
    feedback: whether wrong seats are published.
    workers: number of parallel games of a model.
    command: command line, for the result rows.
  """

  agent: str
  workdir: pathlib.Path
  data: DataSettings = DataSettings()
  endpoint: Endpoint | None = None
  accuracy: float = 0.7
  rounds: int = 8  # as many as the paper's largest K of Pass@K
  repeats: int = 1
  seed: int = 0
  repairs: int = 2
  feedback: bool = True
  workers: int = 4
  command: str = ""

  def __post_init__(self):
    if self.agent == MODEL and self.endpoint is None:
      raise ValueError("--agent=model: name it with --model")
