"""Command that builds data sets and prints their tables.

The command line of TFDS needs TensorFlow; this one does not. It also counts
what the data set holds, so that a build with other counts than the last one is
noticed.

Example:
  python -m ctd_jax_datasets.build chunqiutr/rebuilt --sources=corpus/raw \
    --data_dir=~/tensorflow_datasets

Several data sets are built one after another. With --runner (pip install
'ctd_jax[beam]') Apache Beam spreads them over workers, which write the same
files, byte by byte; its own flags stand behind --:
  python -m ctd_jax_datasets.build chunqiutr/rebuilt zztj/rebuilt \
    --sources=corpus/raw --runner=DirectRunner --workers=2
"""

import contextlib
import dataclasses
import difflib
import functools
import itertools
import json
import os
import pathlib
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import tensorflow_datasets as tfds
from absl import app, flags, logging
from etils import epath

from ctd_jax.utils import beam, command_line, files
from ctd_jax.utils.beam import MapItems
from ctd_jax_datasets.chronocept import chronocept_dataset_builder
from ctd_jax_datasets.chunqiutr import chunqiutr_dataset_builder
from ctd_jax_datasets.common.base_builder import TABLES_FILE
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


@dataclasses.dataclass(frozen=True)
class Licence:
  """Terms of what a data set holds."""

  identifier: str  # as the hub of Hugging Face abbreviates it
  statement: str  # the same in words


_EDITIONS_LICENCE = Licence(
  "cc-by-sa-4.0",
  "The texts are in the public domain; the digital editions they are read "
  "from, Kanripo and Wikisource, are under CC BY-SA.",
)
_LICENCES = {
  "chunqiutr/mini": Licence("apache-2.0", "Invented by ctd_jax; Apache-2.0."),
  "chunqiutr/rebuilt": _EDITIONS_LICENCE,
  "zztj/rebuilt": _EDITIONS_LICENCE,
}
_UNKNOWN_LICENCE = Licence(
  "unknown", "That of the files it was made from, which ctd_jax does not know."
)


def get_licence(name: str) -> Licence:
  """Returns the licence of a data set, also of one that is not ours."""
  return _LICENCES.get(name, _UNKNOWN_LICENCE)


def make_builder(
  name: str, data_dir: str | os.PathLike | None = None
) -> tfds.core.DatasetBuilder:
  """Returns the builder of a data set, which need not be built.

  Raises:
    ValueError: if there is no such data set; the message names the nearest.
  """
  if name not in DATASET_NAMES:
    nearest = difflib.get_close_matches(name, DATASET_NAMES, n=1)
    suggestion = f"did you mean {nearest[0]!r}? " if nearest else ""
    raise ValueError(
      f"no data set {name!r}; {suggestion}there are {', '.join(DATASET_NAMES)}"
    )
  if data_dir is not None:
    data_dir = os.path.expanduser(data_dir)
  return tfds.builder(name, data_dir=data_dir)


def check_file_format(builder: tfds.core.DatasetBuilder) -> None:
  """Checks that a data set that is built can be read without TensorFlow.

  Raises:
    ValueError: if TFDS was told to store it in another format than ours.
  """
  file_format = builder.info.file_format
  if file_format is not tfds.core.FileFormat.ARRAY_RECORD:
    raise ValueError(
      f"{builder.data_path} is stored as {file_format.value}, not as "
      "array_record; build it again: python -m ctd_jax_datasets.build "
      f"{builder.name}/{builder.builder_config.name} --overwrite"
    )


STATISTICS_FILE = "statistics.json"  # written beside the data


class LostRowsError(ValueError):
  """Error of a built data set that can be read only in part."""


def build_dataset(
  name: str,
  data_dir: str | os.PathLike | None = None,
  sources: str | os.PathLike | None = None,
  overwrite: bool = False,
  processes: int = 1,
  register_checksums: bool = False,
) -> tfds.core.DatasetBuilder:
  """Returns the builder of a data set that is ready to be read.

  Args:
    data_dir: folder of the data sets, `gs://` too; None means the default of
      TFDS.
    sources: folder of the texts that the data set is made of.
    processes: number of processes that read source texts; the data set does not
      depend on it.
    register_checksums: write size and sha256 of what is downloaded into the
      data set's `checksums.tsv` instead of checking them.

  Raises:
    ValueError: if there is no such data set, or it is stored in a format that
      needs TensorFlow.
    SourceError: if a source text is missing, cut short or changed; an older
      build stays.
    LostRowsError: if fewer examples can be read than were written.
  """
  builder = make_builder(name, data_dir)
  path = builder.data_path
  backup_path = path.parent / f"replaced.{path.name}"
  # The old build is kept until the new one is whole.
  if path.exists() and overwrite:
    path.rename(backup_path)
    builder = make_builder(name, data_dir)
  try:
    if not path.exists():
      builder.sources = sources
      builder.processes = processes
      builder.register_checksums = register_checksums
      _prepare(builder)
    check_file_format(builder)
    # Statistics come last: without them a build was interrupted.
    if not (path / STATISTICS_FILE).exists():
      _check_lengths(builder)
      _write_statistics(builder)
  except BaseException:
    if backup_path.exists():
      _remove_folder(path)
      backup_path.rename(path)
    # TFDS has made the folder of the variant; rmdir spares one with a build.
    with contextlib.suppress(OSError, ValueError):
      path.parent.rmdir()
    raise
  _remove_folder(backup_path)
  return builder


def _remove_folder(path: epath.Path) -> None:
  """Removes a folder with all its contents, if it exists."""
  if path.exists():
    path.rmtree()


def _prepare(builder: tfds.core.DatasetBuilder) -> None:
  """Builds; TFDS writes to a temporary folder and renames it at the end."""
  if not sys.stderr.isatty():
    tfds.disable_progress_bar()
  # TFDS prints what it does; standard output is for the tables of commands.
  with contextlib.redirect_stdout(sys.stderr):
    builder.download_and_prepare(
      download_config=tfds.download.DownloadConfig(
        register_checksums=builder.register_checksums
      ),
    )


def _check_lengths(builder: tfds.core.DatasetBuilder) -> None:
  """Raises LostRowsError if fewer examples can be read than were written."""
  for split, info in builder.info.splits.items():
    num_readable = len(builder.as_data_source(split))
    if num_readable != info.num_examples:
      raise LostRowsError(
        f"{builder.data_path}: split {split} has {num_readable} examples, "
        f"{info.num_examples} were written; remove the folder, build again"
      )


def _write_statistics(builder: tfds.core.DatasetBuilder) -> None:
  """Writes what the data set holds beside it; the statistics come last."""
  text = json.dumps(builder.describe(), ensure_ascii=False, indent=1)
  files.write_text(builder.data_path / STATISTICS_FILE, text + "\n")


def main(
  argv: Sequence[str],
  data_dir: str | None = None,
  sources: str | None = None,
  overwrite: bool = False,
  processes: int = 1,
  register_checksums: bool = False,
  map_items: MapItems[Any, Any] = map,
) -> None:
  """Builds the data sets named on the command line and prints tables.

  An error of one does not keep the others from being built.

  Args:
    argv: program and names of the data sets; the rest is as in `build_dataset`.
    map_items: maps the names, see `beam`.
  """
  _, *names = argv
  if not names:
    raise app.UsageError(
      f"name a data set, or several: {', '.join(DATASET_NAMES)}"
    )
  if repeated := {name for name in names if names.count(name) > 1}:
    raise app.UsageError(f"named twice: {', '.join(sorted(repeated))}")
  build = functools.partial(
    _build_and_report,
    data_dir=data_dir,
    sources=sources,
    overwrite=overwrite,
    processes=processes,
    register_checksums=register_checksums,
  )
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
  except (ValueError, OSError) as error:
    return name, "", str(error)
  statistics = json.loads(files.read_text(path / STATISTICS_FILE))
  lines = [
    files.read_text(path / TABLES_FILE),
    f"content sha256: {statistics['content_sha256']}",
    f"time and memory: {_format_usage(start)}",
    f"data set: {path}",
    f"statistics: {path / STATISTICS_FILE}",
  ]
  return name, "\n".join(lines), ""


def read_runner(
  arguments: Sequence[str], data_dir: str | None
) -> MapItems[Any, Any]:
  """Returns what maps names of data sets as --runner and --workers say."""
  if flags.FLAGS.runner != beam.LOCAL and flags.FLAGS.register_checksums:
    raise ValueError(
      f"--register_checksums: of --runner={beam.LOCAL} alone; workers "
      "would write one table at once"
    )
  folder = files.as_path(data_dir or tfds.core.constants.DATA_DIR).expanduser()
  if flags.FLAGS.runner != beam.LOCAL and not isinstance(folder, pathlib.Path):
    raise ValueError(
      f"--data_dir={data_dir}: of --runner={beam.LOCAL} alone; name a "
      "folder that all workers see"
    )
  return beam.read_flags(arguments, folder)


def _format_usage(start: float) -> str:
  """Returns seconds since `start` and the most memory held, in words."""
  seconds = time.perf_counter() - start
  # Linux counts in KiB; of the children the largest, not their sum.
  main_mib, worker_mib = (
    resource.getrusage(who).ru_maxrss / 1024
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
  )
  text = f"{seconds:.1f} s, {main_mib:.0f} MiB at most"
  return (
    f"{text}, {worker_mib:.0f} MiB in the largest worker"
    if worker_mib
    else text
  )


if __name__ == "__main__":
  # Defined here: a program that imports `build` must not accept these flags.
  _SOURCES = flags.DEFINE_string(
    "sources",
    None,
    "Folder of the source texts of chunqiutr/rebuilt or of the authors' files "
    "for chunqiutr/release, chronocept/benchmark_* and ctm/release; by "
    "default the environment variables CTD_JAX_SOURCES and CTD_JAX_RELEASE, "
    "and without them all is downloaded. "
    "Example: --sources=corpus/raw",
  )
  _DATA_DIR = flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of the data sets; by default ~/tensorflow_datasets. "
    "Example: --data_dir=/data/tfds",
  )
  _OVERWRITE = flags.DEFINE_bool(
    "overwrite",
    False,
    "Build again even if the data set is there. Example: --overwrite",
  )
  _PROCESSES = flags.DEFINE_integer(
    "processes",
    1,
    "Processes that read source texts. Example: --processes=2",
    lower_bound=1,
  )

  _REGISTER_CHECKSUMS = flags.DEFINE_bool(
    "register_checksums",
    False,
    "Write size and sha256 of what is downloaded into the checksums.tsv of "
    "the data set, where none are known yet. Example: --register_checksums",
  )

  beam.define_flags()

  def _run(argv: Sequence[str]) -> None:
    # Workers find functions of a module by name, and its import registers the
    # builders; those of `__main__` would reach them without.
    from ctd_jax_datasets import build

    # By its name: workers do not find the functions of a program.
    pass

    # TFDS reports every shard; --verbosity=0 brings that back.
    if not flags.FLAGS["verbosity"].present:
      logging.set_verbosity(logging.WARNING)
    # What is no flag of ours and stands behind the names is of the runner.
    names = [*itertools.takewhile(lambda word: not word.startswith("-"), argv)]
    try:
      map_items = build.read_runner(argv[len(names) :], _DATA_DIR.value)
    except (ValueError, FileNotFoundError, ConnectionError) as error:
      sys.exit(f"error: {error}")
    build.main(
      names,
      _DATA_DIR.value,
      _SOURCES.value,
      _OVERWRITE.value,
      _PROCESSES.value,
      _REGISTER_CHECKSUMS.value,
      map_items,
    )

  command_line.run_app(_run)
