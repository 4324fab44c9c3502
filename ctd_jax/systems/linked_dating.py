"""Systems of the linked dater, registered; see `dating.linked.linked_model`."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.dating.options import VARIANTS
from ctd_jax.systems import dated_variants, registry

if TYPE_CHECKING:  # they import JAX
  from ctd_jax.dating.linked.linked_model import LinkedDatingModel
  from ctd_jax.models.linked_dater import LinkedDaterConfig
  from ctd_jax.systems.dated_gallery import DatedGallery

SYSTEM_NAMES = tuple(f"linked-{variant}" for variant in VARIANTS)
# Evidence that `config.linked.off` can leave out.
EVIDENCE = {
  "days": "sexagenary days against the computed calendar",
  "words": "names and words of events, by year",
  "neural": "an encoder that reads the text whole, by year",
  "cited": "years cited in commentary beside the event",
  "parallels": "events that are told in the same words",
  "comments": "commentary in the same words",
  "rounds": "beliefs are passed on more than once",
  "room": "each work opens a month once",
}


# Fields that say how a dater is trained.
_TRAINING_FIELDS = (
  *("save", "corpora", "hidden_size", "heads", "rounds", "dropout"),
  *("link_steps", "steps", "learning_rate", "weight_decay", "link_weight"),
  "retrieval_weight",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkedConfig(registry.SystemConfig):
  """Size, evidence and fitting of the linked dater."""

  SECTION: ClassVar[str] = "linked"

  # Folder of source texts whose bracket notes are read for their citations
  # (track T0+external); None = the gallery alone (T0).
  outside: str | None = None
  # Folder of a trained dater, of this corpus or another; None = it is trained
  # on the records of train months.
  trained: str | None = None
  off: tuple[str, ...] = ()  # evidence to do without, see EVIDENCE
  # What follows is of the training.
  save: str | None = None  # folder for what was trained; None = not kept
  # What it is trained on beside the records of train months: data sets, whose
  # train months are known, and chronicles as FILE=REIGNS, which are dated by
  # their order first, e.g. ('chunqiutr/rebuilt', 'texts/zuozhuan=lu').
  corpora: tuple[str, ...] = ()
  hidden_size: int = 48  # of the scorer of links
  heads: int = 2  # of the attention over links
  rounds: int = 2  # in which beliefs are passed on
  dropout: float = 0.1  # in the scorer of links
  link_steps: int = 300  # updates of the scorers of links alone
  steps: int = 200  # updates on hidden folds
  learning_rate: float = 8e-3  # greatest, of the scorers of links
  weight_decay: float = 1e-2
  link_weight: float = 0.5  # of the loss of links
  retrieval_weight: float = 0.0  # of the contrastive loss of questions

  def validate(self) -> None:
    """Raises ValueError for a missing folder, evidence or size."""
    super().validate()
    self.check_positive("hidden_size", "heads")
    for field in ("outside", "trained"):
      if getattr(self, field) is not None:
        self.check_path(field)
    for name in self.corpora:
      path, is_chronicle, _ = name.rpartition("=")
      if is_chronicle and not pathlib.Path(path).expanduser().exists():
        raise ValueError(f"config.linked.corpora: {name}: no file {path}")
    if self.trained is not None:
      for name in _TRAINING_FIELDS:
        if getattr(self, name) != getattr(type(self), name):
          raise self.field_error(name, "nothing is trained with linked.trained")
    for name in self.off:
      if name not in EVIDENCE:
        raise ValueError(
          f"config.linked.off: unknown {name!r}; there are "
          f"{', '.join(EVIDENCE)}"
        )
    if {"words", "neural"} <= set(self.off):
      raise self.field_error("off", "words or neural must stay")
    for field in (
      *("rounds", "link_steps", "steps", "weight_decay", "link_weight"),
      "retrieval_weight",
    ):
      if getattr(self, field) < 0:
        raise self.field_error(field, "expected 0 or more")
    if not 0 <= self.dropout < 1:
      raise self.field_error("dropout", "expected 0 or more and below 1")
    if self.learning_rate <= 0:
      raise self.field_error("learning_rate", "expected a positive rate")


@registry.register(*SYSTEM_NAMES, config=LinkedConfig)
def make_linked_systems(
  benchmark: Benchmark, config: LinkedConfig, context: registry.Context
) -> dict[str, registry.System]:
  """Returns the variants, which share one gallery and its fitted model."""

  from ctd_jax.dating.linked import trained_dater
  from ctd_jax.systems import dated_gallery, training_corpora

  # A version may follow the name.
  data_sets = {name.partition(":")[0] for name in config.corpora}
  if benchmark.name.partition(":")[0] in data_sets:
    raise config.field_error(
      "corpora", "of the data set itself, train months are known anyway"
    )
  if config.trained is None:
    model = make_linked_model(config, context.seed)
  else:
    model = load_linked_model(config.trained, config.off)

  @functools.cache
  def read_gallery() -> DatedGallery:
    notes: Sequence[str] = ()
    if config.outside:
      notes = dated_gallery.read_bracket_notes(
        pathlib.Path(config.outside).expanduser()
      )
    if config.save is not None:  # before the training that would be lost
      trained_dater.prepare_folder(config.save)
    gallery = dated_gallery.read_dated_gallery(benchmark, notes, model)
    if config.corpora:
      gallery = training_corpora.train_with_corpora(
        gallery, config.corpora, context.data_dir
      )
    if config.save is not None:
      gallery.fitted_model.trained.save(config.save)
    return gallery

  return dated_variants.make_variant_systems(
    dict(zip(SYSTEM_NAMES, VARIANTS, strict=True)),
    read_gallery,
    "T0+external" if config.outside else "T0",
    model.seed,
  )


def make_linked_model(config: LinkedConfig, seed: int) -> LinkedDatingModel:
  """Returns the model of a config, before it is fitted.

  Args:
    config: validated.
    seed: of parameters, order and dropout.
  """
  from ctd_jax.dating.linked.fitting import FittingConfig
  from ctd_jax.dating.linked.linked_model import LinkedDatingModel
  from ctd_jax.models.linked_dater import LinkedDaterConfig

  return LinkedDatingModel.make(
    leave_out(
      LinkedDaterConfig(
        hidden_size=config.hidden_size,
        heads=config.heads,
        rounds=config.rounds,
        dropout=config.dropout,
      ),
      config.off,
    ),
    FittingConfig(
      link_steps=config.link_steps,
      steps=config.steps,
      learning_rate=config.learning_rate,
      weight_decay=config.weight_decay,
      link_weight=config.link_weight,
      retrieval_weight=config.retrieval_weight,
    ),
    seed,
  )


def load_linked_model(
  folder: str | os.PathLike, off: Iterable[str] = ()
) -> LinkedDatingModel:
  """Returns the model of a trained dater, which learns no parameter.

  Args:
    folder: of the dater.
    off: evidence to do without, of EVIDENCE.
  """
  from ctd_jax.dating.linked.linked_model import LinkedDatingModel
  from ctd_jax.dating.linked.trained_dater import TrainedDater

  trained = TrainedDater.load(folder)
  config = leave_out(trained.config, off)
  if not config.readers:
    raise ValueError(
      f"config.linked.off={tuple(off)}: the dater in {folder} reads "
      f"{', '.join(trained.config.readers)} alone, and something must stay"
    )
  return LinkedDatingModel.from_trained(
    dataclasses.replace(trained, config=config)
  )


def leave_out(
  config: LinkedDaterConfig, off: Iterable[str]
) -> LinkedDaterConfig:
  """Returns the config of a network without some evidence.

  Args:
    config: of a network.
    off: names of EVIDENCE.
  """
  off = frozenset(off)
  return dataclasses.replace(
    config,
    readers=tuple(name for name in config.readers if name not in off),
    rounds=min(1, config.rounds) if "rounds" in off else config.rounds,
    use_days=config.use_days and "days" not in off,
    use_citations=config.use_citations and "cited" not in off,
    use_parallels=config.use_parallels and "parallels" not in off,
    use_comments=config.use_comments and "comments" not in off,
    use_capacity=config.use_capacity and "room" not in off,
  )
