"""Writes the encoder of a trained run, or its vectors, for other programs.

  python -m ctd_jax.export --workdir=runs/ctd --output=encoder

The folder loads in transformers and in sentence-transformers, whose vectors
are the `semantic` ones of the run's best checkpoint: calendar context and
offset bias stay behind.

  python -m ctd_jax.export --workdir=runs/ctd --output=vectors --vectors

writes the vectors of records and queries with tables of what they are, for a
vector database; see `vector_export`.
"""

from __future__ import annotations

import pathlib

from absl import flags, logging

from ctd_jax.models.pretrained import folder_export
from ctd_jax.retrieval import vector_export
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import Experiment
from ctd_jax.utils import command_line


def export_run(
  experiment: Experiment, folder: pathlib.Path, vectors: bool = False
) -> None:
  """Writes the best checkpoint's encoder, tokenizer and pooling.

  Args:
    experiment: a trained run.
    folder: must be new or empty.
    vectors: write vectors and their tables instead.

  Raises:
    FileNotFoundError: if the run has no checkpoint.
    ValueError: if the folder holds something.
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


def main() -> None:
  """Exports the run in --workdir to --output."""
  workdir = pathlib.Path(command_line.WORKDIR.value).expanduser()
  config = command_line.CONFIG.value or experiments.read_config(workdir)
  experiment = experiments.assemble_experiment(config, workdir)
  output = pathlib.Path(flags.FLAGS.output).expanduser()
  export_run(experiment, output, flags.FLAGS.vectors)


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.DEFINE_string(
    "output",
    None,
    "Folder to write; new or empty. Example: --output=encoder",
  )
  flags.DEFINE_bool(
    "vectors",
    False,
    "Write vectors of records and queries (.npy) and tables of what they are "
    "(.parquet) instead of the encoder. Example: --output=vectors --vectors",
  )
  command_line.run_main(main, required=("workdir", "output"))
