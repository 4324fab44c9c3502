"""資治通鑑: questions about its months, and what it records of them.

Why: a system made for the Annals should be tried on another chronicle.
`rebuilt` is made here from two public editions, the `demo_*` variants are the
authors' two demonstration files in the ways their script groups them. There is
no training data: the splits are `records` and `test`. Called by
`ctd_jax_datasets.build` and by `tfds.builder`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums

from ctd_jax import files
from ctd_jax.chronology import reigns
from ctd_jax.chronology.annals import Record
from ctd_jax.chronology.queries import Query
from ctd_jax.chronology.timekey import Interval
from ctd_jax_datasets import examples, stable_writer, summary
from ctd_jax_datasets.chunqiutr import fetch, git_blobs
from ctd_jax_datasets.chunqiutr.chunqiutr_dataset_builder import FINDINGS
from ctd_jax_datasets.zztj import records as rebuilt
from ctd_jax_datasets.zztj import released, released_rows

TEST = "test"


@dataclasses.dataclass(kw_only=True)
class Config(tfds.core.BuilderConfig):
  """A variant of the data set.

  Attributes:
    timeline: name of its calendar for `reigns.timeline`.
    subset: which of the authors' files, "" for `rebuilt`.
    mode: how its rows are grouped, one of `released_rows.MODES`.
    released_text: whether the gold date stands in front of every document, as
      the authors' script writes it. For comparison only.
  """

  timeline: str = rebuilt.TIMELINE
  subset: str = ""
  mode: str = ""
  released_text: bool = False


def _demo_config(subset: str, mode: str, released_text: bool) -> Config:
  """Returns e.g. `demo_qi`, `demo_qi_ad`, `demo_qi_ad_released_text`."""
  name = f"demo_{subset}"
  name += f"_{mode}" * (mode != released_rows.TRADITIONAL)
  name += "_released_text" * released_text
  dated = ", the gold date in front of every text" * released_text
  return Config(
    name=name,
    subset=subset,
    mode=mode,
    released_text=released_text,
    description="The authors' file on "
    f"{released_rows.SUBSET_NAMES[subset]}, rows by {mode} time{dated}.",
  )


class Builder(tfds.core.GeneratorBasedBuilder):
  """Builder of `zztj/rebuilt` and the `zztj/demo_*` variants.

  Attributes:
    sources: folder of source texts (`rebuilt`; without it the environment
      variable CTD_JAX_SOURCES) or of the authors' files (`demo_*`; without it
      CTD_JAX_RELEASE). None means downloading.
    processes: as in other builders; this one needs no more than one.
  """

  VERSION = tfds.core.Version("2.0.0")
  RELEASE_NOTES: ClassVar = {"2.0.0": "First; features of chunqiutr 2.0.0."}
  BUILDER_CONFIGS: ClassVar = [
    Config(
      name="rebuilt",
      description="資治通鑑 juan 69-144, made from two public editions.",
    ),
    *(
      _demo_config(subset, mode, released_text)
      for released_text in (False, True)
      for mode in released_rows.MODES
      for subset in released_rows.SUBSETS
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
    """Returns the examples of `records` and `test`."""
    make = self._demo if self.builder_config.subset else self._rebuilt
    records, asked, intervals = make(dl_manager)
    return {
      examples.RECORDS: self._generate_examples(records, intervals),
      TEST: examples.query_examples(asked, TEST),
    }

  def _generate_examples(
    self, records: Iterable[Record], intervals: Mapping[str, Interval]
  ) -> Iterator[tuple[str, dict]]:
    """Yields (id, example) of every record.

    Args:
      records: in the order to be stored.
      intervals: of those whose date is wider than the month of their key.
    """
    timeline = reigns.timeline(self.builder_config.timeline)
    split_of = dict.fromkeys(timeline.months, TEST)
    for name, example in examples.record_examples(records, split_of):
      if name in intervals:
        example["end"] = np.asarray(intervals[name].end.triple, np.int32)
      yield name, example

  def _rebuilt(
    self, dl_manager: tfds.download.DownloadManager
  ) -> tuple[Iterable[Record], Iterable[Query], dict[str, Interval]]:
    """Returns records and queries of the source texts."""
    timeline = reigns.timeline(self.builder_config.timeline)
    records, counts = rebuilt.build_gallery(self._files(dl_manager), timeline)
    self._write(summary.AUDIT, {"counts": counts})
    return records, rebuilt.ask(records, timeline), {}

  def _files(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, pathlib.Path]:
    """Returns name -> checked path of every source file."""
    known = {
      info.filename: (url, info)
      for url, info in checksums.load_url_infos(rebuilt.CHECKSUMS).items()
    }
    folder = fetch.sources_folder(self.sources)
    if folder is not None:
      return fetch.files_of_folder(folder, known)
    return fetch.download_files(dl_manager, known)

  def _demo(
    self, dl_manager: tfds.download.DownloadManager
  ) -> tuple[Iterable[Record], Iterable[Query], Mapping[str, Interval]]:
    """Returns records and queries of an authors' file; writes what is odd."""
    config = self.builder_config
    folder = self.sources or os.environ.get(git_blobs.RELEASE_VARIABLE)
    path = released.file_of(dl_manager, config.subset, folder)
    demo = released.read(path, config.subset, config.mode, config.released_text)
    self._write(summary.AUDIT, {"release": demo.report.to_json()})
    files.write_text(
      pathlib.Path(self.data_path) / FINDINGS, demo.report.table() + "\n"
    )
    return demo.records, demo.queries, demo.intervals

  def _write(self, name: str, value: Mapping[str, Any]) -> None:
    """Writes JSON into the folder in the making, which TFDS renames."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    files.write_text(pathlib.Path(self.data_path) / name, text + "\n")
