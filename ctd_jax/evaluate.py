"""Evaluates a trained run or untrained systems: tables, plots and a report.

  python -m ctd_jax.evaluate --config=configs/tiny.py --workdir=runs/tiny

Rebuild tables, plots and report from existing run files, without ranking:

  python -m ctd_jax.evaluate --report --workdir=runs/tiny

Evaluate a run on another data set, or systems that need no training:

  python -m ctd_jax.evaluate --dataset=beir:FOLDER --workdir=runs/tiny
  python -m ctd_jax.evaluate --baselines_only --dataset=beir:FOLDER --workdir=w
"""

import ml_collections
from absl import flags

from ctd_jax.training import process_flags
from ctd_jax.utils import command_line, host_memory


def main() -> None:
  """Evaluates the run in --workdir, or the baselines alone."""
  host_memory.keep_memory()
  # Imported here so that --help does not wait for JAX.
  from ctd_jax.experiments import evaluation_run
  from ctd_jax.training import compilation, devices

  devices.initialize_processes()
  compilation.enable_cache(process_flags.COMPILATION_CACHE.value)
  evaluation_run.run_evaluation(
    command_line.WORKDIR.value,
    command_line.CONFIG.value,
    dataset=flags.FLAGS.dataset,
    data_dir=flags.FLAGS.data_dir,
    other_workdirs=flags.FLAGS.also,
    baselines_only=flags.FLAGS.baselines_only,
    report=flags.FLAGS.report,
  )


def explain_field(config: ml_collections.ConfigDict, field: str) -> str:
  """Returns a hint for an override of an unknown field, or ""."""
  from ctd_jax.systems import registry

  return registry.explain_field(config, field)


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.adopt_module_key_flags(process_flags)
  flags.DEFINE_list(
    "also",
    [],
    "Workdirs of other evaluated runs to compare with this one in the tables. "
    "Example: --also=runs/ft,runs/multi",
  )
  flags.DEFINE_string(
    "dataset",
    None,
    "Data set to evaluate on, instead of the one used for training: a name as "
    "in config.dataset, or beir:FOLDER. Results go to a separate folder in "
    "WORKDIR/evaluation. Example: --dataset=beir:exports/mine",
  )
  flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of the data set named by --dataset. Default: config.data_dir. "
    "Example: --data_dir=/data/tfds",
  )
  flags.DEFINE_bool(
    "baselines_only",
    False,
    "Evaluate only the systems in config.eval.baselines, which need no trained "
    "run. Default: BM25, BM25 with a time prior, and rules. "
    "Example: --baselines_only --dataset=beir:exports/mine",
  )
  flags.DEFINE_bool(
    "report",
    False,
    "Rebuild tables, plots and report.html from the run files of --workdir and "
    "--also, without ranking. The report shows the errors of the trained run, "
    "or of --config.name. Example: --report --also=runs/ft",
  )
  command_line.run_main(
    main, required=("workdir",), explain_field=explain_field
  )
