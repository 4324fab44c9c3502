"""Trains a retriever and evaluates its best checkpoint.

  python -m ctd_jax.train --config=configs/tiny.py

Builds the data set if needed, resumes from the latest checkpoint in the workdir
if there is one, trains with validation, evaluates the best checkpoint on all
splits, and prints a table and the path of the report,
WORKDIR/evaluation/report.html. Without --workdir, the run is saved in
runs/<config file>[-<argument>]. On SIGTERM, a run saves its state and exits
with status 75.
"""

import re

import ml_collections
from absl import flags

from ctd_jax.training import process_flags
from ctd_jax.utils import command_line, host_memory


class _StepsParser(flags.ArgumentParser):
  """Parses START:STOP, the steps from START to STOP - 1."""

  syntactic_help = "START:STOP"

  def parse(self, argument: str | range) -> range:
    """Returns the steps.

    Raises:
      ValueError: if the text has another form; the message says what is
        expected.
    """
    if isinstance(argument, range):
      return argument
    match = re.fullmatch(r"(\d+):(\d+)", argument)
    if match is None:
      raise ValueError("expected START:STOP, two step numbers such as 20:25")
    steps = range(int(match[1]), int(match[2]))
    if not steps or not steps.start:
      raise ValueError("expected 1 <= START < STOP; the first step is 1")
    return steps


PROFILE_PARSER = _StepsParser()
PROFILE = flags.DEFINE(
  PROFILE_PARSER,
  "profile",
  None,
  "Trace steps START to STOP - 1 into WORKDIR/profile, for xprof, TensorBoard "
  "or ui.perfetto.dev. Skip the first steps, which are compiled; a validation "
  "in between is also traced. Example: --profile=20:25",
)


def main() -> None:
  """Trains and evaluates the config in its workdir."""
  host_memory.keep_memory()
  # Imported here so that --help and flag errors do not wait for JAX.
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
  """Returns a hint for an override of an unknown field, or ""."""
  from ctd_jax.systems import registry

  return registry.explain_field(config, field)


if __name__ == "__main__":
  flags.adopt_module_key_flags(command_line)  # shown by --help
  flags.adopt_module_key_flags(process_flags)
  command_line.run_main(main, required=("config",), explain_field=explain_field)
