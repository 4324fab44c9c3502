"""Builds a data set and prints what it holds.

Why: the command line of TFDS needs TensorFlow, and a data set that silently
has other counts than last time is worse than none. Run by people, by `launch`
scripts, and called by `ctd_jax.train` for data that are not there yet.

Example:
  python -m ctd_jax_datasets.build chunqiutr/rebuilt --sources=corpus/raw \
    --data_dir=~/tensorflow_datasets
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
from collections.abc import Sequence

import tensorflow_datasets as tfds
from absl import app, flags, logging

from ctd_jax_datasets import summary

NAMES = ("chunqiutr/mini", "chunqiutr/rebuilt")
STATISTICS = "statistics.json"


class LostRowsError(ValueError):
  """A built data set can be read only in part."""


def build(
  name: str,
  data_dir: str | os.PathLike | None = None,
  sources: str | os.PathLike | None = None,
  overwrite: bool = False,
) -> tfds.core.DatasetBuilder:
  """Returns the builder of a data set that is ready to be read.

  Args:
    name: e.g. `chunqiutr/mini`.
    data_dir: where data sets lie; None means the default of TFDS.
    sources: folder of source texts for `chunqiutr/rebuilt`.
    overwrite: build again even if it is there.

  Returns:
    The builder; `as_data_source(split)` reads it.

  Raises:
    ValueError: if there is no such data set.
    SourceError: if a source text is missing, cut short or changed. Nothing is
      left of the data set that was being built; an older build stays.
    LostRowsError: if fewer examples can be read than were written.
  """
  builder = _builder(name, data_dir)
  path = pathlib.Path(builder.data_path)
  replaced = path.with_name(f"replaced.{path.name}")
  if path.exists() and overwrite:
    path.rename(replaced)
    builder = _builder(name, data_dir)
  try:
    if not path.exists():
      builder.sources = sources
      _prepare(builder)
    if not (path / STATISTICS).exists():
      _check_lengths(builder)
      _write_json(path / STATISTICS, summary.summarise(builder))
  except BaseException:
    if replaced.exists():
      shutil.rmtree(path, ignore_errors=True)
      replaced.rename(path)
    raise
  shutil.rmtree(replaced, ignore_errors=True)
  return builder


def _builder(
  name: str, data_dir: str | os.PathLike | None
) -> tfds.core.DatasetBuilder:
  if name not in NAMES:
    raise ValueError(f"no data set {name!r}; there are {' and '.join(NAMES)}")
  if data_dir is not None:
    data_dir = os.path.expanduser(data_dir)
  return tfds.builder(name, data_dir=data_dir)


def _prepare(builder: tfds.core.DatasetBuilder) -> None:
  """Builds; TFDS writes to a temporary folder and renames it at the end."""
  if not sys.stderr.isatty():
    tfds.disable_progress_bar()
  builder.download_and_prepare(file_format="array_record")


def _check_lengths(builder: tfds.core.DatasetBuilder) -> None:
  """Raises LostRowsError if fewer examples can be read than were written."""
  for split, info in builder.info.splits.items():
    read = len(builder.as_data_source(split))
    if read != info.num_examples:
      raise LostRowsError(
        f"{builder.data_path}: split {split} has {read} examples, "
        f"{info.num_examples} were written; remove the folder, build again"
      )


def _write_json(path: pathlib.Path, value: object) -> None:
  temporary = path.with_name(f".{path.name}.tmp")
  temporary.write_text(
    json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8"
  )
  temporary.replace(path)


def main(
  argv: Sequence[str],
  data_dir: str | None = None,
  sources: str | None = None,
  overwrite: bool = False,
) -> None:
  """Builds the data set named on the command line and prints tables.

  Args:
    argv: program and name of the data set; the rest is as in `build`.
    data_dir: --data_dir.
    sources: --sources.
    overwrite: --overwrite.
  """
  if len(argv) != 2:
    raise app.UsageError(f"name one data set: {' or '.join(NAMES)}")
  try:
    builder = build(argv[1], data_dir, sources, overwrite)
  except ValueError as error:
    sys.exit(f"error: {error}")
  path = pathlib.Path(builder.data_path) / STATISTICS
  print(summary.tables(json.loads(path.read_text(encoding="utf-8"))))
  print(f"data set: {builder.data_path}")
  print(f"statistics: {path}")


if __name__ == "__main__":
  # Here and not above: who imports `build` must not accept these flags.
  _SOURCES = flags.DEFINE_string(
    "sources",
    None,
    "Folder of source texts for chunqiutr/rebuilt; by default the environment "
    "variable CTD_JAX_SOURCES, and without it they are downloaded. "
    "Example: --sources=corpus/raw",
  )
  _DATA_DIR = flags.DEFINE_string(
    "data_dir",
    None,
    "Where data sets lie; by default ~/tensorflow_datasets. "
    "Example: --data_dir=/data/tfds",
  )
  _OVERWRITE = flags.DEFINE_bool(
    "overwrite",
    False,
    "Build again even if the data set is there. Example: --overwrite",
  )
  # TFDS reports every shard; --verbosity=0 brings that back.
  flags.FLAGS.set_default("verbosity", logging.WARNING)
  app.run(
    lambda argv: main(argv, _DATA_DIR.value, _SOURCES.value, _OVERWRITE.value)
  )
