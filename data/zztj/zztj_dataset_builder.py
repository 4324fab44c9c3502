"""TFDS builder of 資治通鑑: questions about its months, and its records.

It tests a system made for the Annals on another chronicle. `rebuilt` is made
from two public editions, the `demo_*` variants are the authors' two
demonstration files in the ways their script groups them. There is no training
data: the splits are `records` and `test`.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from ctd_jax.benchmark.benchmark import Query, Record
from ctd_jax.chronology.reigns import Interval
from ctd_jax_datasets.common import base_builder, source_files, summary
from ctd_jax_datasets.zztj import gallery as rebuilt
from ctd_jax_datasets.zztj import released

TEST_SPLIT = "test"  # the only split with queries


@dataclasses.dataclass(kw_only=True)
class ZztjConfig(base_builder.TimelineConfig):
  """A variant of the data set."""

  timeline: str = rebuilt.TIMELINE_NAME  # as in other data sets
  subset: str = ""  # which of the authors' files, "" for `rebuilt`
  mode: str = ""  # how its rows are grouped, one of `released.MODES`
  # Whether the gold date is in front of every document, as the authors'
  # script writes it. For comparison only.
  released_text: bool = False


def _make_demo_config(
  subset: str, mode: str, released_text: bool
) -> ZztjConfig:
  """Returns e.g. `demo_qi`, `demo_qi_ad`, `demo_qi_ad_released_text`."""
  name = f"demo_{subset}"
  name += f"_{mode}" * (mode != released.TRADITIONAL)
  name += "_released_text" * released_text
  description_suffix = ", the gold date in front of every text" * released_text
  return ZztjConfig(
    name=name,
    timeline=released.TIMELINE_BY_SUBSET[subset],
    subset=subset,
    mode=mode,
    released_text=released_text,
    description="The authors' file on "
    f"{released.SUBSET_NAMES[subset]}, rows by {mode} time"
    f"{description_suffix}.",
  )


class Builder(base_builder.BaseBuilder):
  """Builder of `zztj/rebuilt` and the `zztj/demo_*` variants.

  Needs no more than one of its `processes`.
  """

  VERSION = tfds.core.Version("3.0.0")
  RELEASE_NOTES: ClassVar = {
    "3.0.0": "Features of chunqiutr 3.0.0; months in the middle of a sentence "
    "count; `demo_*_ad` and `demo_*_strict` ask for and write dates of the "
    "common era, as released; `demo_*` have the calendars of their parts.",
    "2.0.0": "First; features of chunqiutr 2.0.0.",
  }
  BUILDER_CONFIGS: ClassVar = [
    ZztjConfig(
      name="rebuilt",
      description="資治通鑑 juan 69-144, made from two public editions.",
    ),
    *(
      _make_demo_config(subset, mode, released_text)
      for released_text in (False, True)
      for mode in released.MODES
      for subset in released.SUBSETS
    ),
  ]

  def source_layout(self) -> tuple[pathlib.Path, Mapping[str, str]] | None:
    """Returns checksums and folders of the texts of `rebuilt`."""
    if self.builder_config.name != "rebuilt":
      return None
    return rebuilt.CHECKSUMS, rebuilt.SOURCE_FOLDERS

  def source_titles(self) -> Mapping[str, str]:
    """Returns source of a record -> title of the work; of `rebuilt`."""
    return {} if self.builder_config.subset else rebuilt.SOURCE_TITLES

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict]]]:
    """Returns the examples of `records` and `test`."""
    build_contents = (
      self._build_demo if self.builder_config.subset else self._build_rebuilt
    )
    records, queries, intervals = build_contents(dl_manager)
    return {
      summary.RECORDS_SPLIT: self._generate_examples(records, intervals),
      TEST_SPLIT: base_builder.iterate_query_examples(queries, TEST_SPLIT),
    }

  def _generate_examples(
    self, records: Iterable[Record], intervals: Mapping[str, Interval]
  ) -> Iterator[tuple[str, dict]]:
    """Yields (id, example) of every record."""
    split_of = dict.fromkeys(self.timeline.months, TEST_SPLIT)
    for name, example in base_builder.iterate_record_examples(
      records, split_of
    ):
      # A season or a year; the key stays its first month.
      if name in intervals:
        example["end"] = np.asarray(intervals[name].end.triple, np.int32)
      yield name, example

  def _build_rebuilt(
    self, dl_manager: tfds.download.DownloadManager
  ) -> tuple[Iterable[Record], Iterable[Query], dict[str, Interval]]:
    """Returns records and queries of the source texts."""
    files = self._source_files(dl_manager, rebuilt.CHECKSUMS)
    records, counts = rebuilt.build_gallery(files, self.timeline)
    self._write_audit({"counts": counts})
    return records, rebuilt.make_point_queries(records, self.timeline), {}

  def _build_demo(
    self, dl_manager: tfds.download.DownloadManager
  ) -> tuple[Iterable[Record], Iterable[Query], Mapping[str, Interval]]:
    """Returns records and queries of an authors' file; writes what is odd."""
    config = self.builder_config
    name = released.FILE_BY_SUBSET[config.subset]
    paths = source_files.locate_blobs(
      dl_manager,
      {name: released.FILE_BLOBS[name]},
      self._release_folder(),
    )
    demo = released.read_demo(
      paths[name], config.subset, config.mode, config.released_text
    )
    self._write_notes(demo.notes)
    return demo.records, demo.queries, demo.intervals
