"""ChunQiuTR: questions about months, and the records of those months.

Why: the one place where the data set's versions and variants are declared.
`rebuilt` is the benchmark made anew from the source texts, `release` the
authors' own from their files, `mini` a small invented chronicle of the same
structure for tests and first runs. All are written as array_record (the only
TFDS format that loses no rows without TensorFlow). Called by
`ctd_jax_datasets.build` and by `tfds.builder`.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from ctd_jax import files
from ctd_jax.chronology import queries, reigns
from ctd_jax.chronology.annals import Record
from ctd_jax.chronology.timekey import TimeKey, Timeline
from ctd_jax_datasets import examples, stable_writer, summary
from ctd_jax_datasets.chunqiutr import (
  fetch,
  git_blobs,
  mini,
  placeholders,
  release,
  splits,
)
from ctd_jax_datasets.chunqiutr import records as gallery

QUERY_SEED = 0
MINI_SEED = 0
# Written beside the data: the months on which two works disagree, and what was
# odd in the authors' files.
DISAGREEMENTS = "disagreements.tsv"
FINDINGS = "findings.txt"


@dataclasses.dataclass(kw_only=True)
class Config(tfds.core.BuilderConfig):
  """A variant of the data set.

  Attributes:
    timeline: name of its calendar for `reigns.timeline`.
  """

  timeline: str


@dataclasses.dataclass(frozen=True)
class _Contents:
  """What a variant is made of: records, queries by split, split by month."""

  records: Sequence[Record]
  queries: Mapping[str, Sequence[queries.Query]]
  split_of: Mapping[TimeKey, str]


class Builder(tfds.core.GeneratorBasedBuilder):
  """Builder of `chunqiutr/rebuilt`, `chunqiutr/release`, `chunqiutr/mini`.

  Attributes:
    sources: folder of source texts for `rebuilt` and of the authors' files for
      `release`; None means the environment variables CTD_JAX_SOURCES and
      CTD_JAX_RELEASE and, without those, downloading.
    processes: that read source texts; the data set does not depend on it.
  """

  VERSION = tfds.core.Version("2.0.0")
  RELEASE_NOTES: ClassVar = {
    "2.0.0": "Records by event, five commentaries, gaps, versions.",
    "1.0.0": "Annals, three traditions, two commentaries; official splits.",
  }
  BUILDER_CONFIGS: ClassVar = [
    Config(
      name="mini",
      timeline="mini",
      description="Synthetic: an invented state, written by this project.",
    ),
    Config(
      name="rebuilt",
      timeline="lu_release",
      description="The Spring and Autumn Annals, rebuilt from public texts.",
    ),
    Config(
      name="release",
      timeline="lu_release",
      description="The benchmark as its authors released it.",
    ),
  ]
  sources: str | os.PathLike | None = None
  processes = 1
  # The texts lie with a public host; a hundred connections would be rude.
  MAX_SIMULTANEOUS_DOWNLOADS = 4

  def _info(self) -> tfds.core.DatasetInfo:
    """Returns features and metadata."""
    return self.dataset_info_from_configs(
      features=examples.features(),
      homepage="https://arxiv.org/abs/2604.06997",
      metadata=tfds.core.MetadataDict(timeline=self.builder_config.timeline),
      # Records stay in the order of their ids, which tells nothing.
      disable_shuffling=True,
    )

  def _example_writer(self) -> tfds.core.ExampleWriter:
    """Returns the writer; this one gives the same bytes every time."""
    return stable_writer.StableWriter(file_format=self.info.file_format)

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict]]]:
    """Returns the examples of `records`, `train`, `validation` and `test`."""
    timeline = reigns.timeline(self.builder_config.timeline)
    make = {
      "mini": self._mini,
      "rebuilt": self._rebuilt,
      "release": self._release,
    }[self.builder_config.name]
    made = make(dl_manager, timeline)
    generators = {
      examples.RECORDS: self._generate_examples(made.records, made.split_of)
    }
    for split in queries.SPLITS:
      generators[split] = examples.query_examples(made.queries[split], split)
    return generators

  def _generate_examples(
    self, records: Sequence[Record], split_of: Mapping[TimeKey, str]
  ) -> Iterator[tuple[str, dict]]:
    """Yields (id, example) of every record."""
    return examples.record_examples(records, split_of)

  def _mini(self, _: object, timeline: Timeline) -> _Contents:
    """Returns the invented chronicle."""
    records = mini.generate(MINI_SEED)
    records += placeholders.fill_months(
      records, timeline, gallery.SEED, mini.TITLE
    )
    records = gallery.number_records(records, gallery.SEED)
    split_of = mini.splits()
    asked = queries.generate_queries(
      timeline,
      split_of,
      records,
      seed=QUERY_SEED,
      quotas=None,
      title=mini.TITLE,
    )
    return _Contents(records, asked, split_of)

  def _rebuilt(
    self, dl_manager: tfds.download.DownloadManager, timeline: Timeline
  ) -> _Contents:
    """Returns the benchmark made anew; writes how it was made."""
    built = gallery.build_gallery(
      self._files(dl_manager), timeline, processes=self.processes
    )
    audit = {"left_out": built.left_out, **built.audit}
    rows = audit.pop("disagreements", [])
    self._write(summary.AUDIT, _json(audit))
    self._write(DISAGREEMENTS, _tsv(rows))
    split_of = splits.official_splits(timeline)
    asked = queries.generate_queries(
      timeline,
      split_of,
      built.records,
      seed=QUERY_SEED,
      quotas=queries.OFFICIAL_QUOTAS,
      title=queries.CHUNQIU,
    )
    return _Contents(built.records, asked, split_of)

  def _release(
    self, dl_manager: tfds.download.DownloadManager, timeline: Timeline
  ) -> _Contents:
    """Returns the authors' benchmark; writes what is odd in their files."""
    folder = self.sources or os.environ.get(git_blobs.RELEASE_VARIABLE)
    found = release.read(release.files(dl_manager, folder), timeline)
    self._write(summary.AUDIT, _json({"release": found.report.to_json()}))
    self._write(FINDINGS, found.report.table() + "\n")
    return _Contents(found.records, found.queries, found.split_of)

  def _files(self, dl_manager: tfds.download.DownloadManager) -> dict:
    """Returns name -> checked path of every source file."""
    known = fetch.known_files()
    folder = fetch.sources_folder(self.sources)
    if folder is not None:
      return fetch.files_of_folder(folder, known)
    return fetch.download_files(dl_manager, known)

  def _write(self, name: str, text: str) -> None:
    """Writes a file into the folder in the making, which TFDS renames."""
    files.write_text(self.data_path / name, text)


def _json(value: Mapping[str, Any]) -> str:
  return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _tsv(rows: Sequence[Mapping[str, Any]]) -> str:
  """Returns rows with the same columns as tab-separated lines."""
  out = io.StringIO()
  writer = csv.DictWriter(
    out,
    list(rows[0]) if rows else [],
    delimiter="\t",
    lineterminator="\n",
  )
  writer.writeheader()
  writer.writerows(rows)
  return out.getvalue()
