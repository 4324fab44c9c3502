"""Readers of what an index is built from, each into `SourceWork`s.

chunqiutr/rebuilt   a data set that has been built; a work for each source
beir:FOLDER         corpus.jsonl; `metadata.start` and `end` are optional
PATH                a text or a folder: plain, Markdown, TEI, Kanripo
"""

from __future__ import annotations

import difflib
import os
import pathlib
import types
from collections.abc import Collection, Mapping, Sequence

from absl import logging

from ctd_jax import texts
from ctd_jax.benchmark.queries import SPLITS
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.index.building.source_works import SourceRecord, SourceWork
from ctd_jax.index.storage.database import TEXT
from ctd_jax.texts import TextError
from ctd_jax.utils import files

BEIR_PREFIX = "beir:"


def read_source(
  source: str,
  unit: str | None = None,
  hidden_splits: Collection[str] = (),
  data_dir: str | os.PathLike | None = None,
) -> list[SourceWork]:
  """Returns the works of a data set, a BEIR folder, a file or a folder.

  Args:
    source: as the module says.
    unit: of plain text, "line" or "paragraph"; found from the text if None.
    hidden_splits: splits of a data set whose months are not to be used.
    data_dir: folder of the built data sets; that of TFDS if None.

  Raises:
    FileNotFoundError: if there is no such file, folder or data set.
    ValueError: naming file and line of what cannot be read.
  """
  if source.startswith(BEIR_PREFIX):
    return _read_beir(source, hidden_splits)
  path = pathlib.Path(source).expanduser()
  if path.exists():
    return _read_texts(path, unit)
  return _read_dataset(source, hidden_splits, data_dir)


def _read_texts(path: pathlib.Path, unit: str | None) -> list[SourceWork]:
  try:
    works = texts.read_works(path, unit=unit)
  except TextError as error:
    location = "" if str(error).startswith(str(path)) else f"{path}: "
    raise ValueError(f"--add={location}{error}") from error
  result = []
  for work in works:
    entries = chronicle_input.list_records(work)
    if not any(not entry.is_heading for entry in entries):
      raise ValueError(
        f"--add={path}: {work.title} ({work.text_format}) holds no record"
      )
    result.append(
      SourceWork(
        name=work.identifier,
        title=work.title,
        source=str(path),
        text_format=work.text_format,
        entries=entries,
        group=work.identifier,
        reading=chronicle_input.summarize_reading(work),
      )
    )
  return result


def _read_dataset(
  name: str,
  hidden_splits: Collection[str],
  data_dir: str | os.PathLike | None,
) -> list[SourceWork]:
  # Here and not above: the data sets need TFDS, which texts do not.
  from ctd_jax_datasets import load, registry

  if name not in registry.DATASET_NAMES:
    nearest = difflib.get_close_matches(name, registry.DATASET_NAMES, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise FileNotFoundError(
      f"--add={name}: no such file or folder, nor a data set "
      f"({', '.join(registry.DATASET_NAMES)}), nor {BEIR_PREFIX}FOLDER{hint}"
    )
  _check_splits(hidden_splits)
  benchmark = load.load_benchmark(name, data_dir)
  records: dict[str, list[SourceRecord]] = {}
  for record, split in zip(
    benchmark.records, benchmark.record_splits, strict=True
  ):
    records.setdefault(record.source, []).append(
      SourceRecord(
        record_id=record.record_id,
        text=record.text,
        kind=record.kind,
        position=record.order,
        start=str(record.key),
        is_hidden=split in hidden_splits,
      )
    )
  return _make_works(
    name, name, "dataset", records, benchmark.timeline, benchmark.titles
  )


def _read_beir(source: str, hidden_splits: Collection[str]) -> list[SourceWork]:
  from ctd_jax_datasets.common import beir_reader, provenance

  _check_splits(hidden_splits)
  folder = source.removeprefix(BEIR_PREFIX)
  name, timeline, lines = beir_reader.read_corpus_lines(folder)
  records: dict[str, list[SourceRecord]] = {}
  for line in lines:
    records.setdefault(line.source, []).append(
      SourceRecord(
        record_id=line.record_id,
        text=line.text,
        kind=line.kind or TEXT,
        position=line.order,
        start=line.start,
        end=line.end,
        location=line.location,
        is_hidden=bool(line.split) and line.split in hidden_splits,
      )
    )
  metadata = provenance.read_metadata(files.as_path(folder).expanduser())
  return _make_works(name, source, "beir", records, timeline, metadata.titles)


def _check_splits(splits: Collection[str]) -> None:
  for split in splits:
    if split not in SPLITS:
      raise ValueError(f"--hide={split}: expected some of {', '.join(SPLITS)}")


def _make_works(
  name: str,
  source: str,
  text_format: str,
  records: dict[str, list[SourceRecord]],
  timeline: Timeline | None,
  titles: Mapping[str, str] = types.MappingProxyType({}),
) -> list[SourceWork]:
  """Returns a work for each source of a data set, its records in order."""
  return [
    SourceWork(
      name=f"{name}/{work}" if work else name,
      title=titles.get(work, work) or name,
      source=source,
      text_format=text_format,
      records=sorted(of_work, key=lambda record: record.position),
      timeline=timeline,
      group=name,
      reading=f"{text_format}, {len(of_work):,} records",
    )
    for work, of_work in sorted(records.items())
  ]


def log_reading(works: Sequence[SourceWork]) -> None:
  """Logs what was read of every work."""
  for work in works:
    order = "" if work.has_order else ", in no order"
    logging.info("read %s: %s%s", work.name, work.reading, order)
