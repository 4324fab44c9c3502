"""Builds a data set and prints what it holds.

Why: the command line of TFDS needs TensorFlow, and a data set that silently
has other counts than last time is worse than none. Run by people, by `launch`
scripts, and called by `ctd_jax.train` for data that are not there yet.

Example:
  python -m ctd_jax_datasets.build chunqiutr/rebuilt --sources=corpus/raw \
    --data_dir=~/tensorflow_datasets
"""

from __future__ import annotations

import glob
import json
import os
import pathlib
import shutil
import sys

import tensorflow_datasets as tfds
from absl import app, flags, logging

from ctd_jax_datasets import summary
from ctd_jax_datasets.chunqiutr import sources as source_texts

STATISTICS = "statistics.json"

_SOURCES = flags.DEFINE_string(
  "sources",
  None,
  "Folder of source texts for chunqiutr/rebuilt; by default the environment "
  "variable CTD_JAX_SOURCES, and without it they are downloaded.",
)
_DATA_DIR = flags.DEFINE_string(
  "data_dir", None, "Where data sets lie; by default ~/tensorflow_datasets."
)
_OVERWRITE = flags.DEFINE_bool(
  "overwrite", False, "Build again even if the data set is there."
)


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
  """
  if data_dir is not None:
    data_dir = os.path.expanduser(data_dir)
  try:
    builder = tfds.builder(name, data_dir=data_dir)
  except (tfds.core.DatasetNotFoundError, ValueError) as error:
    raise ValueError(
      f"no data set {name!r}; there are chunqiutr/mini and chunqiutr/rebuilt"
    ) from error
  statistics = pathlib.Path(builder.data_path) / STATISTICS
  if statistics.exists() and not overwrite:
    logging.info("%s is in %s", name, builder.data_path)
    return builder
  builder.sources = sources
  _prepare(builder)
  _check_lengths(builder)
  _write_json(statistics, summary.summarise(builder))
  return builder


def _prepare(builder: tfds.core.DatasetBuilder) -> None:
  """Builds, and removes what a failed build leaves behind."""
  mode = tfds.download.GenerateMode
  config = tfds.download.DownloadConfig(
    download_mode=mode.REUSE_CACHE_IF_EXISTS,
    verify_ssl=True,
  )
  if not sys.stderr.isatty():
    tfds.disable_progress_bar()
  try:
    builder.download_and_prepare(
      download_config=config, file_format="array_record"
    )
  except BaseException:
    path = pathlib.Path(builder.data_path)
    for left in glob.glob(f"{path.parent}/*incomplete*{path.name}*"):
      shutil.rmtree(left, ignore_errors=True)
    raise


def _check_lengths(builder: tfds.core.DatasetBuilder) -> None:
  """Raises RuntimeError if fewer examples can be read than were written."""
  for split, info in builder.info.splits.items():
    read = len(builder.as_data_source(split))
    if read != info.num_examples:
      raise RuntimeError(
        f"{builder.data_path}: split {split} has {read} examples, "
        f"{info.num_examples} were written; remove the folder, build again"
      )


def _write_json(path: pathlib.Path, value: object) -> None:
  temporary = path.with_name(f".{path.name}.tmp")
  temporary.write_text(
    json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8"
  )
  temporary.replace(path)


def main(argv: list[str]) -> None:
  """Builds the data sets named on the command line and prints tables."""
  if len(argv) != 2:
    raise app.UsageError("name one data set, e.g. chunqiutr/mini")
  try:
    builder = build(
      argv[1], _DATA_DIR.value, _SOURCES.value, _OVERWRITE.value
    )
  except (source_texts.SourceError, ValueError) as error:
    sys.exit(f"error: {error}")
  path = pathlib.Path(builder.data_path) / STATISTICS
  print(summary.tables(json.loads(path.read_text(encoding="utf-8"))))
  print(f"data set: {builder.data_path}")
  print(f"statistics: {path}")


if __name__ == "__main__":
  app.run(main)
