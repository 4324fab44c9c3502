"""Reads a data set by name.

Why: what was built here and what somebody brings along are named in one field
of a config. `chunqiutr/mini` is a build, `beir:FOLDER` a folder as `beir`
describes it. Called by `ctd_jax.train`, `ctd_jax.evaluate` and `export`.
"""

from __future__ import annotations

import os
import pathlib

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.queries import SPLITS, Query
from ctd_jax.benchmark.records import Record
from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import Interval, TimeKey
from ctd_jax_datasets import build, registry
from ctd_jax_datasets.common import beir


def build_benchmark(
  name: str,
  data_dir: str | os.PathLike | None = None,
  sources: str | os.PathLike | None = None,
) -> Benchmark:
  """Returns a data set, built first if it is one of ours and not there yet.

  Args:
    name: as in `load_benchmark`.
    data_dir: see there.
    sources: folder of source texts, see `build.build_dataset`.

  Raises:
    ValueError: naming the data set, the source file, or file and line of the
      folder at fault.
    FileNotFoundError: if there is no such folder.
  """
  if not name.startswith(beir.BEIR_PREFIX):
    build.build_dataset(name, data_dir, sources)
  return load_benchmark(name, data_dir)


def _decode_key(triple: np.ndarray) -> TimeKey:
  return TimeKey(*(int(value) for value in triple))


def load_benchmark(
  name: str, data_dir: str | os.PathLike | None = None
) -> Benchmark:
  """Returns a data set that is there.

  Args:
    name: e.g. `chunqiutr/mini` or `beir:FOLDER`. A split that it does not
      have has no queries.
    data_dir: where it was built; None = the folder TFDS uses by default.

  Raises:
    ValueError: if there is no such data set; the message lists all.
    FileNotFoundError: if it has not been built there; the message says how.
    FolderError: naming file and line of a folder at fault.
  """
  if name.startswith(beir.BEIR_PREFIX):
    return beir.read_beir(pathlib.Path(name.removeprefix(beir.BEIR_PREFIX)))
  builder = registry.make_builder(name, data_dir)
  if not builder.is_prepared():
    data_dir_flag = "" if data_dir is None else f" --data_dir={data_dir}"
    raise FileNotFoundError(
      f"data set {name} is not built in {builder.data_path}; run "
      f"python -m ctd_jax_datasets.build {name}{data_dir_flag}"
    )
  data_sources = builder.as_data_source()
  rows = sorted(data_sources["records"], key=lambda row: row["id"])
  decode = bytes.decode
  records = tuple(
    Record(
      record_id=decode(row["id"]),
      text=decode(row["text"]),
      source=decode(row["source"]),
      kind=decode(row["kind"]),
      key=_decode_key(row["start"]),
      order=int(row["order"]),
      version=decode(row["version"]),
      match_score=float(row["match_score"]),
    )
    for row in rows
  )
  queries = {
    split: tuple(
      Query(
        query_id=decode(row["id"]),
        text=decode(row["text"]),
        family=decode(row["family"]),
        group=decode(row["group"]),
        interval=Interval(_decode_key(row["start"]), _decode_key(row["end"])),
        positives=tuple(decode(positive) for positive in row["positives"]),
        paper_family=decode(row["paper_family"]),
      )
      for row in data_sources.get(split, ())
    )
    for split in SPLITS
  }
  return Benchmark(
    name=f"{name}:{builder.version}",
    timeline=reign_tables.load_timeline(builder.info.metadata["timeline"]),
    records=records,
    record_splits=tuple(decode(row["split"]) for row in rows),
    queries=queries,
  )
