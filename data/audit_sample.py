"""Command that draws records for reading by eye, and counts the verdicts.

It prints a sample with the places of its records in the source texts, what
stands around them, and the records beside them. With --output the sample is
also written with an empty column `verdict`; filled in and given back with
--verdicts it gives the rates of error. Verdicts are ok, month, cut, kind, text
and convention, several joined by +.

Example:
  python -m ctd_jax_datasets.audit_sample chunqiutr/rebuilt --n=60 --seed=1 \\
    --sources=corpus/raw --output=sample.tsv
  python -m ctd_jax_datasets.audit_sample chunqiutr/rebuilt \\
    --verdicts=sample.tsv

Both flags together draw the sample again, e.g. from the next version, and keep
the verdicts on records that have not changed.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping, Sequence

import tensorflow_datasets as tfds
from absl import app, flags, logging

from ctd_jax.utils import command_line, output
from ctd_jax_datasets import load, registry
from ctd_jax_datasets.common import audit_samples, sample_pages, source_files
from ctd_jax_datasets.common.source_files import SourceError


def print_rates(name: str, path: str) -> None:
  """Prints the rates of error of a file of verdicts.

  Args:
    path: from `audit_samples.write_verdicts`, filled in.

  Raises:
    ValueError: if the file is of another data set or not wholly read.
  """
  rows = audit_samples.read_verdicts(path)
  if rows[0].data.partition(":")[0] != name:
    raise ValueError(f"--verdicts={path} is of {rows[0].data}, not of {name}")
  audit_samples.check_all_read(rows, path)
  lines = audit_samples.tabulate_rates(rows)
  header = list(lines[0])
  print(
    output.format_table(
      audit_samples.describe_sample(rows),
      header,
      [[line[column] for column in header] for line in lines],
    )
  )


def _locate_sources(
  builder: tfds.core.DatasetBuilder, sources: str | None
) -> tuple[dict[str, pathlib.Path], Mapping[str, str]]:
  """Returns name -> path of the source files, and source -> folder."""
  layout = builder.source_layout()
  if layout is None:
    raise ValueError(
      f"{builder.name}/{builder.builder_config.name} is not made of source "
      "texts; take chunqiutr/rebuilt or zztj/rebuilt"
    )
  table, folders = layout
  folder = source_files.resolve_sources_folder(sources)
  if folder is None:
    raise SourceError(
      "name the folder of the source texts with --sources or "
      f"{source_files.ENVIRONMENT_VARIABLE}"
    )
  file_infos = source_files.read_file_infos(table)
  return source_files.check_folder_files(folder, file_infos), folders


def main(
  argv: Sequence[str],
  size: int = 60,
  seed: int = 0,
  data_dir: str | None = None,
  sources: str | None = None,
  output: str | None = None,
  verdicts: str | None = None,
  context: int = 80,
) -> None:
  """Prints a sample, or the rates of error of one that has been read.

  Args:
    argv: program and name of the data set.
  """
  if len(argv) != 2:
    raise app.UsageError("name one data set, e.g. chunqiutr/rebuilt")
  if output and output != verdicts and pathlib.Path(output).exists():
    sys.exit(
      f"error: --output={output} exists and may hold verdicts; with "
      f"--verdicts={output} they are kept, or name a new file"
    )
  try:
    if verdicts and not output:
      print_rates(argv[1], verdicts)
      return
    earlier_rows = audit_samples.read_verdicts(verdicts) if verdicts else []
    benchmark = load.load_benchmark(argv[1], data_dir)
    files, folders = _locate_sources(
      registry.make_builder(argv[1], data_dir), sources
    )
    sample = audit_samples.draw_sample(benchmark.records, size, seed)
    pages = sample_pages.make_pages(
      sample, benchmark.records, files, folders, context
    )
    rows = audit_samples.make_rows(
      sample,
      benchmark.name,
      seed,
      {page.record_id: page.place for page in pages if page.place},
      earlier_rows,
    )
    # First: a reader may close the pipe before the last page.
    if output:
      audit_samples.write_verdicts(output, rows)
    for number, page in enumerate(pages, start=1):
      print(f"{number}/{len(pages)} {page.text}\n")
    if output:
      num_read = sum(row.verdict is not None for row in rows)
      print(f"{output}: {len(rows)} records, {num_read} with a verdict")
  except (ValueError, OSError) as error:
    sys.exit(f"error: {error}")


if __name__ == "__main__":
  # Defined here: a program that imports this module must not accept the flags.
  _SIZE = flags.DEFINE_integer(
    "n", 60, "Records to draw. Example: --n=200", lower_bound=1
  )
  _SEED = flags.DEFINE_integer(
    "seed", 0, "Another seed draws other records. Example: --seed=1"
  )
  _DATA_DIR = flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of the data sets; by default ~/tensorflow_datasets. "
    "Example: --data_dir=/data/tfds",
  )
  _SOURCES = flags.DEFINE_string(
    "sources",
    None,
    "Folder of the source texts; by default the environment variable "
    f"{source_files.ENVIRONMENT_VARIABLE}. Example: --sources=corpus/raw",
  )
  _OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "File to write the sample to, for the verdicts. Example: "
    "--output=sample.tsv",
  )
  _VERDICTS = flags.DEFINE_string(
    "verdicts",
    None,
    "File with verdicts: its rates of error are printed; with --output its "
    "verdicts are kept. Example: --verdicts=sample.tsv",
  )
  _CONTEXT = flags.DEFINE_integer(
    "context",
    80,
    "Characters to show on each side of a place. Example: --context=200",
    lower_bound=0,
  )

  def _run(argv: Sequence[str]) -> None:
    # TFDS reports what it loads; --verbosity=0 brings that back.
    if not flags.FLAGS["verbosity"].present:
      logging.set_verbosity(logging.WARNING)
    main(
      argv,
      _SIZE.value,
      _SEED.value,
      _DATA_DIR.value,
      _SOURCES.value,
      _OUTPUT.value,
      _VERDICTS.value,
      _CONTEXT.value,
    )

  command_line.run_app(_run)
