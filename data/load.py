"""Data sets by name: built ones, folders in the form of BEIR, own
annotated statements."""

import os
import pathlib

import numpy as np
from jaxtyping import Int32

from ctd_jax.benchmark import variants
from ctd_jax.benchmark.benchmark import SPLITS, Benchmark, Query, Record
from ctd_jax.chronology.reigns import Interval, TimeKey
from ctd_jax_datasets import build
from ctd_jax_datasets.chronocept import annotated_files, sample_records
from ctd_jax_datasets.chronocept.sample_records import Sample
from ctd_jax_datasets.common import beir, summary


def load_benchmark(
  name: str, data_dir: str | os.PathLike | None = None
) -> Benchmark:
  """Returns a data set that has been built, or a BEIR folder with time keys.

  A split that the data set does not have has no queries.

  Example:
    >>> import ctd_jax
    >>> benchmark = ctd_jax.load_benchmark("chunqiutr/mini")
    >>> len(benchmark.records), len(benchmark.queries["test"])
    (1887, 250)
    >>> ctd_jax.load_benchmark("beir:~/my_chronicle")  # doctest: +SKIP

  Args:
    name: e.g. `chunqiutr/mini`, or `beir:FOLDER`, where the folder may be in a
      bucket (`beir:gs://...`). Behind a plus stands a variant of it, e.g.
      `chunqiutr/mini+split1`, see `variants.make_variant`.
    data_dir: folder of the built data sets, `gs://` too; None means the default
      of TFDS, ~/tensorflow_datasets.

  Raises:
    ValueError: if there is no such data set; the message suggests the nearest
      name and lists all; if it serves another task and has no records; or if it
      is damaged, with the command that builds it again.
    FileNotFoundError: if it has not been built in `data_dir`, with the command
      that builds it; or if a file of the folder is missing.
    FolderError: if a field in the folder is wrong; the message names file, line
      and field.
  """
  base, variant = variants.parse_name(name)
  if variant:
    return variants.make_variant(load_benchmark(base, data_dir), variant)
  if name.startswith(beir.BEIR_PREFIX):
    return beir.read_beir(name.removeprefix(beir.BEIR_PREFIX))
  builder = build.make_builder(name, data_dir)
  if not build.is_searchable(name):
    raise ValueError(
      f"data set {name} has no records to search; its package, "
      f"ctd_jax_datasets.{name.partition('/')[0]}, reads it"
    )
  splits = builder.read_splits()
  # Rows of indices in run files and vectors follow this order.
  rows = sorted(splits[summary.RECORDS_SPLIT], key=lambda row: row["id"])
  return Benchmark(
    name=f"{name}:{builder.version}",
    timeline=builder.timeline,
    records=tuple(map(_decode_record, rows)),
    record_splits=tuple(row["split"].decode() for row in rows),
    queries={
      split: tuple(map(_decode_query, splits.get(split, ())))
      for split in SPLITS
    },
    titles=builder.source_titles(),
  )


def build_benchmark(
  name: str,
  data_dir: str | os.PathLike | None = None,
  sources: str | os.PathLike | None = None,
) -> Benchmark:
  """Returns a data set, built first if it is one of ours and not there yet.

  Args:
    name: see `load_benchmark`.
    data_dir: see `load_benchmark`.
    sources: folder of source texts, see `build.build_dataset`.

  Raises:
    ValueError: if the data set, a source file or a line of the folder is wrong;
      the message names it.
    FileNotFoundError: if there is no such folder.
  """
  if not name.startswith(beir.BEIR_PREFIX):
    build.build_dataset(variants.parse_name(name)[0], data_dir, sources)
  return load_benchmark(name, data_dir)


def _decode_record(row: dict[str, object]) -> Record:
  """Returns the record of a TFDS example, whose texts are bytes."""
  return Record(
    record_id=row["id"].decode(),
    text=row["text"].decode(),
    source=row["source"].decode(),
    kind=row["kind"].decode(),
    key=_decode_key(row["start"]),
    order=int(row["order"]),
    version=row["version"].decode(),
    match_score=float(row["match_score"]),
  )


def _decode_query(row: dict[str, object]) -> Query:
  """Returns the query of a TFDS example."""
  return Query(
    query_id=row["id"].decode(),
    text=row["text"].decode(),
    family=row["family"].decode(),
    group=row["group"].decode(),
    interval=Interval(_decode_key(row["start"]), _decode_key(row["end"])),
    positives=tuple(positive.decode() for positive in row["positives"]),
    paper_family=row["paper_family"].decode(),
  )


def _decode_key(triple: Int32[np.ndarray, " 3"]) -> TimeKey:
  return TimeKey(*triple.tolist())


JSON_PREFIX, CSV_PREFIX = "json:", "csv:"


def load_samples(
  name: str,
  data_dir: str | os.PathLike | None = None,
  sources: str | os.PathLike | None = None,
) -> dict[str, list[Sample]]:
  """Returns split -> samples.

  Args:
    name: e.g. `chronocept/synthetic_1`, which is built if it is missing;
      `json:FOLDER`, a folder with train.json, valid.json and test.json; or
      `csv:FILE` or `json:FILE`, see `annotated_files`.
    data_dir: folder of data sets; None means the default of TFDS.
    sources: folder of the published files, see `build.build_dataset`.

  Raises:
    ValueError: if there is no such data set, or naming file, record, id and
      field at fault.
    FileNotFoundError: if a file of the folder is missing.
  """
  prefix, colon, path = name.partition(":")
  if prefix + colon in (JSON_PREFIX, CSV_PREFIX):
    # The files themselves: no data set is built.
    folder = pathlib.Path(path).expanduser()
    if prefix + colon == CSV_PREFIX or folder.is_file():
      return annotated_files.read_annotated_file(folder)
    return sample_records.read_splits(
      {
        split: folder / file_name
        for split, file_name in sample_records.SPLIT_FILES.items()
      }
    )
  # The registry also holds data sets of other tasks.
  chronocept_names = [
    n for n in build.DATASET_NAMES if n.startswith("chronocept/")
  ]
  if name not in chronocept_names:
    raise ValueError(
      f"no data set {name!r}; there are {', '.join(chronocept_names)}, "
      f"{JSON_PREFIX}FOLDER, {JSON_PREFIX}FILE and {CSV_PREFIX}FILE"
    )
  return sample_records.read_samples(
    build.build_dataset(name, data_dir, sources)
  )
