"""Exports a trained run as a folder, its vectors or its adapters.

  python -m ctd_jax.export --workdir=runs/ctd --output=exported

`ctd_jax.Retriever.load("exported")` then ranks like the run's best checkpoint.
The folder also loads in transformers and sentence-transformers. Those use only
the `semantic` vectors, without calendar context and offset bias; README.md in
the folder says how much accuracy that costs.

For a vector database, write the vectors of records and queries, with tables
that describe them:

  python -m ctd_jax.export --workdir=runs/ctd --output=vectors --vectors

Write only the run's adapters, in PEFT format; without --adapters they are
merged into the encoder:

  python -m ctd_jax.export --workdir=runs/ctd-lora --output=adapters --adapters

With --push_to_hub=OWNER/NAME the folder is also uploaded, with your login
(`hf auth login`). A repository that does not exist yet is made, and is private.
"""

import pathlib

from absl import flags

from ctd_jax.utils import command_line


def main() -> None:
  """Exports the run in --workdir to --output."""
  # Imported here so that --help does not wait for JAX.
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
    flags.FLAGS.push_to_hub,
  )


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.DEFINE_string(
    "output",
    None,
    "Output folder, new or empty. Example: --output=exported",
  )
  flags.DEFINE_bool(
    "vectors",
    False,
    "Write the vectors of records and queries (.npy) with tables that describe "
    "them (.parquet), not the model. Example: --output=vectors --vectors",
  )
  flags.DEFINE_bool(
    "adapters",
    False,
    "Write only the encoder's adapters, in PEFT format. "
    "Example: --output=adapters --adapters",
  )
  flags.DEFINE_string(
    "push_to_hub",
    None,
    "Model repository that gets the folder. Example: --push_to_hub=owner/name",
  )
  command_line.run_main(main, required=("workdir", "output"))
