"""Command that tests whether finished runs differ by more than chance.

  python -m ctd_jax.tasks.chronocept.compare \\
    --workdirs=runs/ffnn,runs/svr,runs/mean

Every run is compared with the first one on the same test samples. Printed are
the difference of the MSE (negative: better than the first), its bootstrap
interval and the p-value of a permutation test, alone and corrected for the
number of runs (Holm).
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from ctd_jax.utils import command_line


def print_comparison(workdirs: Sequence[str]) -> None:
  """Prints the table of runs compared with the first one.

  Args:
    workdirs: of finished runs.

  Raises:
    FileNotFoundError: if a run is not finished.
    ValueError: if there are fewer than two runs, or of different data sets.
  """
  # Not at the top: --help needs neither JAX nor TensorFlow Datasets.
  from ctd_jax.tasks.chronocept import comparison

  if len(workdirs) < 2:
    raise ValueError("--workdirs: expected at least two runs")
  runs = [comparison.read_run(workdir) for workdir in workdirs]
  print(f"{runs[0].dataset}, test, {len(runs[0].errors)} samples")
  print(comparison.format_comparison_table(runs))


def main() -> None:
  """Compares the runs of --workdirs."""
  print_comparison(flags.FLAGS.workdirs)


if __name__ == "__main__":
  flags.DEFINE_list(
    "workdirs",
    None,
    "Finished runs of ctd_jax.train, the first to compare the others with. "
    "Example: --workdirs=runs/ffnn,runs/svr",
  )
  command_line.run_main(main, required=("workdirs",))
