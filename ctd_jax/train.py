"""Trains a retriever and evaluates its best checkpoint.

  python -m ctd_jax.train --config=configs/tiny.py

One loop trains every system: it builds or reuses the data set, restores the
latest checkpoint of the workdir if there is one, updates, validates with the
score that is trained, saves, evaluates the best checkpoint on all splits, and
ends with a table and the path of a page, WORKDIR/evaluation/report.html.
Without --workdir the run is in runs/<config file>[-<argument>]. A run that
gets SIGTERM saves its state and leaves with status 75.
"""

from __future__ import annotations

import re

import ml_collections
from absl import flags

from ctd_jax.training import process_flags
from ctd_jax.utils import command_line, host_memory


class _StepsParser(flags.ArgumentParser):
  """Parser of START:STOP, the steps from START to STOP - 1."""

  syntactic_help = "START:STOP"

  def parse(self, argument: str | range) -> range:
    """Returns the steps.

    Raises:
      ValueError: saying what would be right.
    """
    if isinstance(argument, range):
      return argument
    match = re.fullmatch(r"(\d+):(\d+)", argument)
    if match is None:
      raise ValueError("expected START:STOP, two numbers of steps, e.g. 20:25")
    steps = range(int(match[1]), int(match[2]))
    if not steps or not steps.start:
      raise ValueError("expected 1 <= START < STOP; the first step is 1")
    return steps


PROFILE_PARSER = _StepsParser()
PROFILE = flags.DEFINE(
  PROFILE_PARSER,
  "profile",
  None,
  "Steps START to STOP - 1 of which the first process writes a trace into "
  "WORKDIR/profile, for xprof, TensorBoard or ui.perfetto.dev. Take steps "
  "behind the first few, which are compiled; a validation among them is "
  "traced too. Example: --profile=20:25",
)


def main() -> None:
  """Trains and evaluates the config in its workdir."""
  host_memory.keep_memory()
  # Here, so that --help and errors of the command line do not wait for JAX.
  from ctd_jax.experiments import training_run
  from ctd_jax.training import compilation, devices, run_folder

  devices.initialize_processes()
  compilation.enable_cache(process_flags.COMPILATION_CACHE.value)
  training_run.run_task(
    command_line.CONFIG.value,
    command_line.WORKDIR.value
    or run_folder.default_workdir(command_line.config_path()),
    PROFILE.value,
  )


def explain_field(config: ml_collections.ConfigDict, field: str) -> str:
  """Returns what would be right for an override of no field, or ""."""
  from ctd_jax.systems import registry

  return registry.explain_field(config, field)


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.adopt_module_key_flags(process_flags)
  command_line.run_main(main, required=("config",), explain_field=explain_field)
