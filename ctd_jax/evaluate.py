r"""Evaluates a trained run or untrained systems: tables, plots and a report.

  python -m ctd_jax.evaluate --config=configs/tiny.py --workdir=runs/tiny

Rebuild tables, plots and report from existing run files, without ranking:

  python -m ctd_jax.evaluate --report --workdir=runs/tiny

Evaluate a run on another data set, or systems that need no training:

  python -m ctd_jax.evaluate --dataset=beir:FOLDER --workdir=runs/tiny
  python -m ctd_jax.evaluate --baselines_only --dataset=beir:FOLDER --workdir=w

See whether figures hold where other months are held out, and whether anything
leaks; without --baselines_only the config is trained on each variant:

  python -m ctd_jax.evaluate --splits=5 --baselines_only \
    --config=configs/dating.py --workdir=runs/splits
  python -m ctd_jax.evaluate --audit --config=configs/small.py --workdir=runs/a
"""

import sys

import ml_collections
from absl import flags

from ctd_jax.training import process_flags
from ctd_jax.utils import command_line, host_memory


def main() -> None:
  """Evaluates the run in --workdir, or the baselines alone."""
  host_memory.keep_memory()
  if flags.FLAGS.splits or flags.FLAGS.audit:
    _check_trust(flags.FLAGS)
    return
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


def _check_trust(options: flags.FlagValues) -> None:
  """Evaluates variants of the data set, and prints their tables."""
  from ctd_jax.benchmark import variants
  from ctd_jax.experiments import trust
  from ctd_jax.training import run_folder

  config = command_line.CONFIG.value
  if config is None:
    raise ValueError(
      "--splits and --audit need --config, e.g. configs/dating.py with "
      "--baselines_only, or a config to train on each variant"
    )
  workdir = run_folder.resolve_folder(command_line.WORKDIR.value)
  dataset = options.dataset or config.dataset
  data_dir = options.data_dir or config.data_dir
  arguments = [
    *["--baselines_only"] * options.baselines_only,
    f"--config={command_line.config_path()}",
    *command_line.list_config_overrides(sys.argv),
    *[f"--config.data_dir={data_dir}"] * bool(options.data_dir),
  ]
  names = [f"split{seed}" for seed in range(1, options.splits + 1)]
  trust.run_variants(
    workdir,
    dataset,
    [*names, *(variants.AUDITS if options.audit else ())],
    "ctd_jax.evaluate" if options.baselines_only else "ctd_jax.train",
    arguments,
  )
  if options.splits:
    print(trust.check_splits(workdir, dataset, options.splits, data_dir))
  if options.audit:
    print(trust.check_leaks(workdir, dataset, data_dir))


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
  flags.DEFINE_integer(
    "splits",
    0,
    "Evaluate on this many other splits of the data set too, each with other "
    "blocks of every reign held out, and print means beside the published "
    "split. What is done is not done again. Example: --splits=5",
    lower_bound=0,
  )
  flags.DEFINE_bool(
    "audit",
    False,
    "Evaluate on variants of the data set whose keys or texts were changed, "
    "where a leak would show. Example: --audit",
  )
  command_line.run_main(
    main, required=("workdir",), explain_field=explain_field
  )
