"""Export of a trained run: the system, its vectors or its adapters."""

from __future__ import annotations

import pathlib

from absl import logging

from ctd_jax.models.dual_encoder import ENCODER
from ctd_jax.models.pretrained import adapter_files
from ctd_jax.retrieval import model_card, trained_system, vector_export
from ctd_jax.training.experiment import Experiment
from ctd_jax.utils import files


def export_run(
  experiment: Experiment,
  folder: pathlib.Path,
  vectors: bool = False,
  adapters: bool = False,
) -> None:
  """Writes the best checkpoint as a folder that ranks as the run does.

  Its encoder, tokenizer and pooling load in other libraries, and README.md says
  what these leave behind.

  Args:
    experiment: a trained run.
    folder: must be new or empty.
    vectors: whether vectors and their tables are written instead.
    adapters: whether adapters alone are written instead.

  Raises:
    FileNotFoundError: if the run has no checkpoint.
    ValueError: if the folder is not empty, the run has no adapters, or both
      are to be written.
  """
  best_step = experiment.checkpoints.best_step
  if best_step is None:
    raise FileNotFoundError(
      f"--workdir={experiment.workdir}: no checkpoint there; train first"
    )
  if vectors and adapters:
    raise ValueError("--vectors and --adapters: one folder holds either")
  if adapters and experiment.backbone.encoder.lora is None:
    raise ValueError(
      f"--adapters: the run in {experiment.workdir} has none, since "
      "config.model.lora.rank=0 trains the encoder itself"
    )
  if folder.exists() and any(folder.iterdir()):
    raise ValueError(f"--output={folder}: not empty; name a new folder")
  system = trained_system.restore_system(experiment)
  name = experiment.config.name
  if vectors:
    vector_export.export_vectors(experiment, system.params, folder)
  elif adapters:
    backbone = system.backbone
    adapter_files.write_adapters(
      folder,
      backbone.encoder,
      system.params[ENCODER],
      trained_system.portable_source(backbone.source),
    )
    _warn_of_loss(experiment, "the card of an export without --adapters")
  else:
    rows = model_card.measure_system(experiment, system)
    trained_system.write_system(folder, system)
    card = model_card.make_card(system, rows, folder.name)
    files.write_text(folder / model_card.CARD_FILE, str(card))
    _warn_of_loss(experiment, str(folder / model_card.CARD_FILE))
  logging.info("step %d of %s is in %s", best_step, name, folder)


def _warn_of_loss(experiment: Experiment, report: str) -> None:
  """Warns of what other libraries do not compute; `report` has the figures."""
  left_behind = model_card.list_left_behind(experiment.config)
  if left_behind:
    logging.warning(
      "other libraries read the vectors alone, without %s; %s says what that "
      "costs",
      " and without ".join(part.split(",")[0] for part in left_behind),
      report,
    )
