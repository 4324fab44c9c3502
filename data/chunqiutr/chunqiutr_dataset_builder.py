"""TFDS builder of ChunQiuTR: versions and variants of the data set.

`rebuilt` is the benchmark made again from the source texts, `release` the
authors' own from their files, `mini` a small invented chronicle of the same
structure for tests and first runs.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from ctd_jax.benchmark import benchmark, generation
from ctd_jax.benchmark.benchmark import Record
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.utils import output
from ctd_jax_datasets.chunqiutr import (
  base_texts,
  gallery,
  mini,
  paper_figures,
  release,
  release_months,
)
from ctd_jax_datasets.common import base_builder, source_files, summary
from ctd_jax_datasets.common.base_builder import BaseBuilder, TimelineConfig
from ctd_jax_datasets.common.source_files import SourceError
from ctd_jax_datasets.common.summary import Figures

QUERY_SEED = 0  # of the wordings and windows of queries
MINI_SEED = 0  # of the invented chronicle
# Written next to the data: events that two works put into different months.
DISAGREEMENTS_FILE = "disagreements.tsv"
# Records, queries by split, and split by month.
_Contents = tuple[
  Sequence[Record],
  Mapping[str, Sequence[benchmark.Query]],
  Mapping[TimeKey, str],
]


class Builder(BaseBuilder):
  """Builder of `chunqiutr/rebuilt`, `chunqiutr/release`, `chunqiutr/mini`."""

  VERSION = tfds.core.Version("3.0.0")
  RELEASE_NOTES: ClassVar = {
    "3.0.0": (
      "Months printed in the middle of a sentence, or behind a forgotten mark "
      "of quotation, are read; essays that join notes on two entries are "
      "divided; one □ for each character without a code."
    ),
    "2.0.0": "Records by event, five commentaries, gaps, versions.",
    "1.0.0": "Annals, three traditions, two commentaries; official splits.",
  }
  BUILDER_CONFIGS: ClassVar = [
    # `tfds` takes the first for a name without a config.
    TimelineConfig(
      name="rebuilt",
      timeline="lu_release",
      description="The Spring and Autumn Annals, rebuilt from public texts.",
    ),
    TimelineConfig(
      name="release",
      timeline="lu_release",
      description="The benchmark as its authors released it.",
    ),
    TimelineConfig(
      name="mini",
      timeline="mini",
      description="Synthetic: an invented state, written by this project.",
    ),
  ]

  def source_layout(self) -> tuple[pathlib.Path, Mapping[str, str]] | None:
    """Returns checksums and folders of the texts of `rebuilt`."""
    if self.builder_config.name != "rebuilt":
      return None
    return gallery.CHECKSUMS, gallery.SOURCE_FOLDERS

  def source_titles(self) -> Mapping[str, str]:
    """Returns source of a record -> title of the work."""
    is_mini = self.builder_config.name == "mini"
    titles = mini.SOURCE_TITLES if is_mini else gallery.SOURCE_TITLES
    return {**titles, gallery.SOURCE: gallery.SOURCE_TITLE}

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict]]]:
    """Returns the examples of `records`, `train`, `validation` and `test`."""
    build_contents = {
      "mini": self._build_mini,
      "rebuilt": self._build_rebuilt,
      "release": self._build_release,
    }[self.builder_config.name]
    records, queries, split_of = build_contents(dl_manager, self.timeline)
    return {
      summary.RECORDS_SPLIT: self._generate_examples(records, split_of),
      **{
        split: base_builder.iterate_query_examples(queries[split], split)
        for split in benchmark.SPLITS
      },
    }

  def _generate_examples(
    self, records: Sequence[Record], split_of: Mapping[TimeKey, str]
  ) -> Iterator[tuple[str, dict]]:
    """Yields (id, example) of every record."""
    return base_builder.iterate_record_examples(records, split_of)

  def _read_paper_figures(self, statistics: Mapping[str, Any]) -> Figures:
    """Returns the paper's figures; of `mini` there are none."""
    return paper_figures.read_paper_figures(statistics)

  def _build_mini(self, _: object, timeline: Timeline) -> _Contents:
    """Returns the invented chronicle."""
    if self.sources:
      raise SourceError(
        f"--sources={self.sources}: {self.name}/{self.builder_config.name} is "
        "made without sources; leave it out, or build another variant"
      )
    records = mini.generate_records(MINI_SEED)
    records += gallery.make_placeholders(
      records, timeline, gallery.SEED, mini.TITLE
    )
    records = base_builder.number_records(records, gallery.SEED)
    split_of = mini.make_splits()
    queries_by_split = generation.generate_queries(
      timeline,
      split_of,
      records,
      seed=QUERY_SEED,
      quotas=None,
      title=mini.TITLE,
    )
    return records, queries_by_split, split_of

  def _build_rebuilt(
    self, dl_manager: tfds.download.DownloadManager, timeline: Timeline
  ) -> _Contents:
    """Returns the benchmark made again; writes how it was made."""
    built_gallery = gallery.build_gallery(
      self._source_files(dl_manager, gallery.CHECKSUMS),
      timeline,
      processes=self.processes,
    )
    audit = {"left_out": built_gallery.excluded_counts, **built_gallery.audit}
    # Hundreds of rows: a table of its own rather than a piece of the JSON.
    rows = audit.pop("disagreements", [])
    self._write_audit(audit)
    table = output.format_delimited(
      list(rows[0]) if rows else [], (row.values() for row in rows)
    )
    self._write_text_file(DISAGREEMENTS_FILE, table)
    split_of = base_texts.official_splits(timeline)
    queries_by_split = generation.generate_queries(
      timeline,
      split_of,
      built_gallery.records,
      seed=QUERY_SEED,
      quotas=generation.OFFICIAL_QUOTAS,
      title=benchmark.CHUNQIU_TITLE,
    )
    return built_gallery.records, queries_by_split, split_of

  def _build_release(
    self, dl_manager: tfds.download.DownloadManager, timeline: Timeline
  ) -> _Contents:
    """Returns the authors' benchmark; writes what is odd in their files."""
    paths = source_files.locate_blobs(
      dl_manager, release_months.FILES, self._release_folder()
    )
    released = release.read_release(paths, timeline)
    self._write_notes(released.notes)
    return released.records, released.queries, released.split_of
