"""Command: a trained run as a folder of its own, or its vectors.

  python -m ctd_jax.export --workdir=runs/ctd --output=exported

`ctd_jax.Retriever.load("exported")` ranks as the run's best checkpoint does.
The folder loads in transformers and in sentence-transformers as well. Their
vectors are the `semantic` ones, without calendar context and offset bias;
README.md in the folder says what that costs.

  python -m ctd_jax.export --workdir=runs/ctd --output=vectors --vectors

writes the vectors of records and queries, and tables that describe them, for a
vector database; see `vector_export`.

  python -m ctd_jax.export --workdir=runs/ctd-lora --output=adapters --adapters

writes the adapters of such a run alone, as the library PEFT stores them;
without the flag they are merged into the encoder.
"""

from __future__ import annotations

import pathlib

from absl import flags

from ctd_jax.utils import command_line


def main() -> None:
  """Exports the run in --workdir to --output."""
  # Not at the top: --help would wait for JAX.
  from ctd_jax.retrieval import run_export
  from ctd_jax.training import experiment as experiments
  from ctd_jax.training import run_folder

  workdir = run_folder.resolve_folder(command_line.WORKDIR.value)
  config = command_line.CONFIG.value or run_folder.read_config(workdir)
  output = pathlib.Path(flags.FLAGS.output).expanduser()
  run_export.export_run(
    experiments.assemble_experiment(config, workdir),
    output,
    flags.FLAGS.vectors,
    flags.FLAGS.adapters,
  )


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.DEFINE_string(
    "output",
    None,
    "Folder to write; new or empty. Example: --output=exported",
  )
  flags.DEFINE_bool(
    "vectors",
    False,
    "Write vectors of records and queries (.npy) and tables that describe them "
    "(.parquet) instead of the system. Example: --output=vectors --vectors",
  )
  flags.DEFINE_bool(
    "adapters",
    False,
    "Write the adapters of the encoder alone, as PEFT stores them, instead of "
    "the system. Example: --output=adapters --adapters",
  )
  command_line.run_main(main, required=("workdir", "output"))
