"""Export of a trained run: its encoder, or its vectors, for other programs."""

from __future__ import annotations

import pathlib

from absl import logging

from ctd_jax.models.pretrained import folder_export
from ctd_jax.retrieval import vector_export
from ctd_jax.training.experiment import Experiment


def export_run(
  experiment: Experiment, folder: pathlib.Path, vectors: bool = False
) -> None:
  """Writes the best checkpoint's encoder with its tokenizer and pooling.

  Args:
    experiment: a trained run.
    folder: must be new or empty.
    vectors: whether vectors and their tables are written instead.

  Raises:
    FileNotFoundError: if the run has no checkpoint.
    ValueError: if the folder is not empty.
  """
  best_step = experiment.checkpoints.best_step
  if best_step is None:
    raise FileNotFoundError(
      f"--workdir={experiment.workdir}: no checkpoint there; train first"
    )
  if folder.exists() and any(folder.iterdir()):
    raise ValueError(f"--output={folder}: not empty; name a new folder")
  state = experiment.checkpoints.restore(best_step, experiment.abstract_state())
  config, backbone = experiment.config, experiment.backbone
  if vectors:
    vector_export.export_vectors(experiment, state.params, folder)
  else:
    folder_export.export_encoder(
      folder,
      backbone.encoder,
      state.params["encoder"],
      backbone.tokenizer,
      config.model.pooling,
      max(config.query_length, config.record_length),
      backbone.query_prefix,
      backbone.record_prefix,
    )
  logging.info("step %d of %s is in %s", best_step, config.name, folder)
