"""Command that prints how far annotators of validity curves agree.

  python -m ctd_jax.tasks.chronocept.annotation.agreement \\
    --annotations=FILE.csv

The table is described in `records`, the output in `agreement_report`.
"""

from __future__ import annotations

from absl import flags

from ctd_jax.utils import command_line


def print_agreement(path: str) -> None:
  """Prints the report about a table of annotations.

  Args:
    path: CSV, see `records`.

  Raises:
    ValueError: naming the flag, or file, line and column at fault.
    FileNotFoundError: if there is no such file.
  """
  # Not at the top: --help needs neither SciPy nor scikit-learn.
  from ctd_jax.tasks.chronocept.annotation import agreement_report, records

  annotations = records.read_annotations(path)
  try:
    report = agreement_report.format_agreement(annotations)
  except ValueError as error:
    raise ValueError(f"--annotations={path}: {error}") from error
  print(report)


def main() -> None:
  """Prints the agreement of --annotations."""
  print_agreement(flags.FLAGS.annotations)


if __name__ == "__main__":
  flags.DEFINE_string(
    "annotations",
    None,
    "CSV with the columns sample_id, annotator, location, scale, skewness, "
    "segments. Example: --annotations=annotations.csv",
  )
  command_line.run_main(main, required=("annotations",))
