"""CTM: temporal reasoning across Chinese dynasties.

Versions and variants of the data set: `qa` and `long_script` are questions
made from the fact tables with recomputed gold, `ito` the games, `release` the
authors' questions from their files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from ctd_jax_datasets.common.base_builder import BaseBuilder
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.ctm import examples, released, repository, summary
from ctd_jax_datasets.ctm.game_schema import ItoInstance
from ctd_jax_datasets.ctm.generation import games, generator
from ctd_jax_datasets.ctm.questions import Question
from ctd_jax_datasets.ctm.vocabulary import LSEC, SPLITS, TASKS

SHORT_TASKS = tuple(task for task in TASKS if task != LSEC)
GAMES, RELEASE = "ito", "release"


@dataclasses.dataclass(kw_only=True)
class Config(tfds.core.BuilderConfig):
  """Variant of the data set.

  Attributes:
    tasks: tasks of the generated questions; () for games and the release.
  """

  tasks: tuple[str, ...] = ()


class Builder(BaseBuilder):
  """Builder of `ctm/qa`, `ctm/long_script`, `ctm/ito` and `ctm/release`.

  One process is enough: `processes` is not used.
  """

  VERSION = tfds.core.Version("2.0.0")
  RELEASE_NOTES: ClassVar = {
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
      features=examples.make_game_features()
      if is_games
      else examples.make_question_features(),
      homepage="https://arxiv.org/abs/2502.16922",
      metadata=tfds.core.MetadataDict(
        seed=generator.SEED, facts_sha256=repository.hash_fact_tables()
      ),
      disable_shuffling=True,  # examples stay in the order of their ids
    )

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict[str, Any]]]]:
    """Returns the examples of `train`, `validation` and `test`.

    Games and the release have `test` only.

    Raises:
      SourceError: if a file of the release cannot be used, or sources are
        named for a variant that needs none.
    """
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
      instances = games.draw_games(generator.SEED)
      return {games.SPLIT: self._generate_examples(instances)}
    questions = generator.generate_questions(tasks=config.tasks)
    return {
      split: self._generate_examples([q for q in questions if q.split == split])
      for split in SPLITS
    }

  def _generate_examples(
    self, records: Iterable[Question | ItoInstance]
  ) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (id, example) of every question or game."""
    if self.builder_config.name == GAMES:
      return examples.iterate_game_examples(records)
    return examples.iterate_question_examples(records)

  def _read_release(self) -> list[Question]:
    """Returns the authors' questions; writes the findings on their files."""
    folder = self._release_folder()
    if folder is None:
      raise SourceError(
        f"{self.name}/{RELEASE} needs --sources=FOLDER of the authors' JSON "
        "files"
      )
    questions, report = released.read_released_questions(folder)
    self._write_report(report)
    return questions

  def describe(self) -> dict[str, Any]:
    """Writes tables beside the data; returns the statistics."""
    return summary.write_summary(
      self, is_games=self.builder_config.name == GAMES
    )
