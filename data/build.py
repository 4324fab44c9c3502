"""Builds data sets and prints their tables.

Unlike the command line of TFDS, it does not need TensorFlow. It also writes
counts of the contents, so that you notice when a new build differs.

Example:
  python -m ctd_jax_datasets.build chunqiutr/rebuilt --sources=corpus/raw \\
    --data_dir=~/tensorflow_datasets

Several data sets are built one after another. With --runner (pip install
'ctd_jax[beam]'), Apache Beam builds them on several workers and writes the same
bytes. Put the runner's own flags after --:
  python -m ctd_jax_datasets.build chunqiutr/rebuilt zztj/rebuilt \\
    --sources=corpus/raw --runner=DirectRunner --workers=2
"""

import contextlib
import difflib
import functools
import itertools
import json
import os
import pathlib
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_datasets as tfds
from absl import app, flags, logging
from etils import epath

from ctd_jax.utils import beam, command_line, files
from ctd_jax.utils.beam import MapItems
from ctd_jax_datasets.chronocept import chronocept_dataset_builder
from ctd_jax_datasets.chunqiutr import chunqiutr_dataset_builder
from ctd_jax_datasets.common import base_builder
from ctd_jax_datasets.common.base_builder import (
  STATISTICS_FILE,
  TABLES_FILE,
  BaseBuilder,
  DamagedDatasetError,
)
from ctd_jax_datasets.ctm import ctm_dataset_builder
from ctd_jax_datasets.zztj import zztj_dataset_builder

_BUILDERS = {
  "chunqiutr": chunqiutr_dataset_builder.Builder,
  "zztj": zztj_dataset_builder.Builder,
  "chronocept": chronocept_dataset_builder.Builder,
  "ctm": ctm_dataset_builder.Builder,
}
# In the order in which messages and documentation list them.
DATASET_NAMES = tuple(
  f"{name}/{config.name}"
  for name, builder in _BUILDERS.items()
  for config in builder.BUILDER_CONFIGS
)


# Data set -> identifier on the hub of Hugging Face, and the terms in words.
_EDITIONS_LICENCE = (
  "cc-by-sa-4.0",
  "The texts are in the public domain; the digital editions they are read "
  "from, Kanripo and Wikisource, are under CC BY-SA.",
)
_FACTS_LICENCE = (
  "cc-by-sa-4.0",
  "Questions and games of ctd_jax, made from tables of facts. Some years are "
  "those of the DILA Time Authority (Dharma Drum Institute of Liberal Arts, CC "
  "BY-SA 3.0) and of HistoryTimeLine (from Chinese Wikipedia, CC BY-SA 4.0), "
  "so all is under CC BY-SA 4.0.",
)
_LICENCES = {
  "chunqiutr/mini": ("apache-2.0", "Invented by ctd_jax; Apache-2.0."),
  "chunqiutr/rebuilt": _EDITIONS_LICENCE,
  "zztj/rebuilt": _EDITIONS_LICENCE,
  **dict.fromkeys(("ctm/qa", "ctm/long_script", "ctm/ito"), _FACTS_LICENCE),
}
_UNKNOWN_LICENCE = (
  "unknown",
  "That of the files it was made from, which ctd_jax does not know.",
)


def get_licence(name: str) -> tuple[str, str]:
  """Returns identifier and terms of the licence of any data set."""
  return _LICENCES.get(name, _UNKNOWN_LICENCE)


def is_searchable(name: str) -> bool:
  """Returns whether a data set has records to search, as a folder has."""
  if name not in DATASET_NAMES:
    return True
  return "positives" in make_builder(name).info.features


def make_builder(
  name: str, data_dir: str | os.PathLike | None = None
) -> BaseBuilder:
  """Returns the builder of a data set, which need not be built.

  Raises:
    ValueError: if there is no such data set; the message names the nearest.
    DamagedDatasetError: if it is built, and its description cannot be read.
  """
  if name not in DATASET_NAMES:
    nearest = difflib.get_close_matches(name, DATASET_NAMES, n=1)
    suggestion = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise ValueError(
      f"no data set {name!r}; {suggestion}there are {', '.join(DATASET_NAMES)}"
    )
  data_dir = epath.Path(data_dir or tfds.core.constants.DATA_DIR).expanduser()
  version = _BUILDERS[name.partition("/")[0]].VERSION
  with base_builder.reading(data_dir / name / str(version)):
    return tfds.builder(name, data_dir=data_dir)


def build_dataset(
  name: str,
  data_dir: str | os.PathLike | None = None,
  sources: str | os.PathLike | None = None,
  overwrite: bool = False,
  processes: int = 1,
  register_checksums: bool = False,
) -> BaseBuilder:
  """Returns the builder of a data set that is ready to be read.

  Args:
    data_dir: folder of the data sets, `gs://` too; None means the default of
      TFDS.
    sources: folder of the texts that the data set is built from.
    processes: number of processes that read source texts; the data set does not
      depend on it.
    register_checksums: write size and sha256 of downloaded files into the data
      set's `checksums.tsv` instead of checking them.

  Raises:
    ValueError: if there is no such data set, or it is stored in a format that
      needs TensorFlow.
    SourceError: if a source text is missing, cut short or changed; an older
      build stays.
    DamagedDatasetError: if it cannot be read; `overwrite` builds it again.
  """
  try:
    path = make_builder(name, data_dir).data_path
  except DamagedDatasetError as error:
    if not overwrite:
      raise
    path = error.args[0]
  backup_path = path.parent / f"replaced.{path.name}"
  if backup_path.exists():  # the build that was to replace it was killed
    if path.exists():
      backup_path.rmtree()
    else:
      backup_path.rename(path)
  # The old build is kept until the new one is whole.
  if path.exists() and overwrite:
    path.rename(backup_path)
  builder = make_builder(name, data_dir)
  try:
    if not path.exists():
      builder.sources = sources
      builder.processes = processes
      builder.register_checksums = register_checksums
      if not sys.stderr.isatty():
        tfds.disable_progress_bar()
      # TFDS prints what it does; standard output is for the tables of commands.
      with contextlib.redirect_stdout(sys.stderr):
        # It writes to a temporary folder and renames that at the end.
        builder.download_and_prepare(
          download_config=tfds.download.DownloadConfig(
            register_checksums=register_checksums
          ),
        )
    builder.check_file_format()
    # Statistics come last: without them a build was interrupted.
    if not (path / STATISTICS_FILE).exists():
      _check_lengths(builder)
      text = json.dumps(builder.describe(), ensure_ascii=False, indent=1)
      files.write_text(path / STATISTICS_FILE, text + "\n")
  except BaseException:
    if backup_path.exists():
      path.rmtree(missing_ok=True)
      backup_path.rename(path)
    # TFDS has made the folder of the variant; rmdir spares one with a build.
    with contextlib.suppress(OSError, ValueError):
      path.parent.rmdir()
    raise
  backup_path.rmtree(missing_ok=True)
  return builder


def _check_lengths(builder: BaseBuilder) -> None:
  """Raises DamagedDatasetError if examples are lost."""
  for split, info in builder.info.splits.items():
    num_readable = len(builder.as_data_source(split))
    if num_readable != info.num_examples:
      raise DamagedDatasetError(
        builder.data_path,
        f"split {split} has {num_readable} examples, {info.num_examples} were "
        "written",
      )


def main(
  argv: Sequence[str],
  data_dir: str | None = None,
  map_items: MapItems[Any, Any] = map,
  **options: Any,
) -> None:
  """Builds the data sets named on the command line and prints tables.

  An error of one does not keep the others from being built.

  Args:
    argv: program and names of the data sets.
    data_dir: see `build_dataset`, as for all `options`.
    map_items: maps the names, see `beam`.
  """
  _, *names = argv
  if not names:
    raise app.UsageError(
      f"name a data set, or several: {', '.join(DATASET_NAMES)}"
    )
  if repeated := {name for name in names if names.count(name) > 1}:
    raise app.UsageError(f"named twice: {', '.join(sorted(repeated))}")
  build = functools.partial(_build_and_report, data_dir=data_dir, **options)
  errors = []
  for name, report, error in map_items(build, names):
    if report:
      print(report)
    if error:
      errors.append(f"{name}: {error}" if len(names) > 1 else error)
  if errors:
    sys.exit("\n".join(f"error: {error}" for error in errors))


def _build_and_report(name: str, **options: Any) -> tuple[str, str, str]:
  """Returns the name of a data set, its tables, and the error if it has one."""
  start = time.perf_counter()
  try:
    path = build_dataset(name, **options).data_path
    with base_builder.reading(path):
      tables = files.read_text(path / TABLES_FILE)
      statistics = json.loads(files.read_text(path / STATISTICS_FILE))
      content_sha256 = statistics["content_sha256"]
  except (ValueError, OSError) as error:
    return name, "", str(error)
  # Linux counts in KiB; of the children the largest, not their sum.
  main_mib, worker_mib = (
    resource.getrusage(who).ru_maxrss / 1024
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
  )
  usage = f"{time.perf_counter() - start:.1f} s, {main_mib:.0f} MiB at most"
  if worker_mib:
    usage += f", {worker_mib:.0f} MiB in the largest worker"
  lines = [
    tables,
    f"content sha256: {content_sha256}",
    f"time and memory: {usage}",
    f"data set: {path}",
    f"statistics: {path / STATISTICS_FILE}",
  ]
  return name, "\n".join(lines), ""


def define_data_dir() -> None:
  """Defines the flag --data_dir of the commands on data sets."""
  flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of the built data sets; the default is ~/tensorflow_datasets. "
    "Example: --data_dir=/data/tfds",
  )


def run_command(main_function: Callable[[Sequence[str]], None]) -> None:
  """Runs a command on data sets; reports of TFDS need --verbosity=0."""

  def run(argv: Sequence[str]) -> None:
    if not flags.FLAGS["verbosity"].present:
      logging.set_verbosity(logging.WARNING)
    main_function(argv)

  command_line.run_app(run)


def read_runner(
  arguments: Sequence[str], data_dir: str | None
) -> MapItems[Any, Any]:
  """Returns the function that maps names of data sets, as --runner says."""
  if flags.FLAGS.runner != beam.LOCAL and flags.FLAGS.register_checksums:
    raise ValueError(
      f"--register_checksums works only with --runner={beam.LOCAL}: workers "
      "would write the table at the same time"
    )
  folder = files.as_path(data_dir or tfds.core.constants.DATA_DIR).expanduser()
  if flags.FLAGS.runner != beam.LOCAL and not isinstance(folder, pathlib.Path):
    raise ValueError(
      f"--data_dir={data_dir} works only with --runner={beam.LOCAL}; name a "
      "folder that all workers can read"
    )
  return beam.read_flags(arguments, folder)


if __name__ == "__main__":
  # Defined here: a program that imports `build` must not accept these flags.
  flags.DEFINE_string(
    "sources",
    None,
    "Folder of the files to build from: source texts for chunqiutr/rebuilt and "
    "zztj/rebuilt, the authors' files for chunqiutr/release, zztj/demo_*, "
    "chronocept/benchmark_* and ctm/release. The default is $CTD_JAX_SOURCES "
    "(source texts) or $CTD_JAX_RELEASE (authors' files); without them all but "
    "those of ctm/release are downloaded. Example: --sources=corpus/raw",
  )
  define_data_dir()
  flags.DEFINE_bool(
    "overwrite",
    False,
    "Build a data set again if it exists; by default it is kept. "
    "Example: --overwrite",
  )
  flags.DEFINE_integer(
    "processes",
    1,
    "Number of processes that read source texts; the default is 1. "
    "Example: --processes=2",
    lower_bound=1,
  )
  flags.DEFINE_bool(
    "register_checksums",
    False,
    "Write size and sha256 of the downloaded files to the data set's "
    "checksums.tsv; by default they are checked against it. "
    "Example: --register_checksums",
  )
  beam.define_flags()
  flags.adopt_module_key_flags(beam)  # shown by --help

  def _run(argv: Sequence[str]) -> None:
    # Beam workers find a function by the name of its module: those of
    # `__main__` would reach them without the registered builders.
    from ctd_jax_datasets import build

    values = flags.FLAGS
    # Everything behind the names that is not a flag of ours is for the runner.
    names = [*itertools.takewhile(lambda word: not word.startswith("-"), argv)]
    try:
      map_items = build.read_runner(argv[len(names) :], values.data_dir)
    except (ValueError, FileNotFoundError, ConnectionError) as error:
      sys.exit(f"error: {error}")
    build.main(
      names,
      values.data_dir,
      map_items,
      sources=values.sources,
      overwrite=values.overwrite,
      processes=values.processes,
      register_checksums=values.register_checksums,
    )

  run_command(_run)
