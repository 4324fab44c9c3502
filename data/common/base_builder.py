"""Base class of the TFDS builders: features, source files, reports.

Each data set's `Builder` is a subclass. All data sets are written as
array_record, the only format of TFDS that loses no rows without TensorFlow;
`tf_data` reads it where TensorFlow is installed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import tensorflow_datasets as tfds

from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.utils import files
from ctd_jax_datasets.common import (
  audit_tables,
  coverage_plot,
  examples,
  git_blobs,
  source_files,
  stable_writer,
  summary,
  tf_data,
)
from ctd_jax_datasets.common.audit_tables import Figures
from ctd_jax_datasets.common.findings import FindingsReport

# Written beside the data.
FINDINGS_FILE = "findings.txt"  # oddities in the authors' files
TABLES_FILE = "audit.txt"
COVERAGE_PLOT = "coverage.png"


@dataclasses.dataclass(kw_only=True)
class TimelineConfig(tfds.core.BuilderConfig):
  """A variant of a data set.

  Attributes:
    timeline: name of its calendar for `reign_tables.load_timeline`.
  """

  timeline: str


class BaseBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
  """Builder of records and queries about their months.

  Attributes:
    sources: folder of the files to build from: source texts, or the authors'
      files for a variant that is made of them. None means the environment
      variables CTD_JAX_SOURCES (source texts) and CTD_JAX_RELEASE (authors'
      files) and, without those, downloading.
    processes: number of processes that read source texts; the data set does
      not depend on it.
    register_checksums: whether size and sha256 of downloads are written into
      the `checksums.tsv` of the data set instead of being checked.
  """

  sources: str | os.PathLike | None = None
  processes = 1
  register_checksums = False
  # The texts lie with a public host; a hundred connections would be rude.
  MAX_SIMULTANEOUS_DOWNLOADS = 4

  def __init__(
    self, *, file_format: str | tfds.core.FileFormat | None = None, **kwargs
  ):
    """Initializes the builder, see `tfds.core.GeneratorBasedBuilder`.

    Args:
      file_format: None means that of the data set if it is built, and
        array_record, not the tfrecord of TFDS, if it is not.
      **kwargs: data_dir, config, version.
    """
    super().__init__(file_format=file_format, **kwargs)
    if file_format is None and not self.info.initialized:
      self.info.set_file_format(
        tfds.core.FileFormat.ARRAY_RECORD, override=True
      )

  @property
  def timeline(self) -> Timeline:
    """The calendar of the variant."""
    return reign_tables.load_timeline(self.builder_config.timeline)

  def source_layout(self) -> tuple[pathlib.Path, Mapping[str, str]] | None:
    """Returns table of source texts and source of a record -> their folder.

    None for a variant that is not made of source texts.
    """
    return None

  def source_titles(self) -> Mapping[str, str]:
    """Returns source of a record -> title of the work, as far as known."""
    return {}

  def _info(self) -> tfds.core.DatasetInfo:
    """Returns features and metadata."""
    return self.dataset_info_from_configs(
      features=examples.make_record_features(),
      homepage="https://arxiv.org/abs/2604.06997",
      metadata=tfds.core.MetadataDict(timeline=self.builder_config.timeline),
      # Records stay in the order of their ids, which reveals no dates.
      disable_shuffling=True,
    )

  def as_dataset(self, split: Any = None, **kwargs) -> Any:
    """Returns `tf.data.Dataset`s, see `tfds.core.DatasetBuilder`.

    Raises:
      ModuleNotFoundError: if TensorFlow is not installed; the message has the
        call that does not need it.
    """
    tf_data.check_tensorflow(f"{self.name}/{self.builder_config.name}")
    return super().as_dataset(split, **kwargs)

  def _example_writer(self) -> tfds.core.ExampleWriter:
    """Returns the writer that gives the same bytes every time."""
    return stable_writer.StableWriter(file_format=self.info.file_format)

  def _source_files(
    self, dl_manager: tfds.download.DownloadManager, table: pathlib.Path
  ) -> dict[str, pathlib.Path]:
    """Returns name -> checked path of every source text of a table."""
    file_infos = source_files.read_file_infos(table)
    folder = source_files.resolve_sources_folder(self.sources)
    if folder is not None:
      return source_files.check_folder_files(folder, file_infos)
    return source_files.download_files(dl_manager, file_infos)

  def _release_folder(self) -> str | os.PathLike | None:
    """Returns the folder of the authors' files, None to download them."""
    return self.sources or os.environ.get(git_blobs.RELEASE_FOLDER_VARIABLE)

  def _write_text_file(self, name: str, text: str) -> None:
    """Writes a file beside the data.

    TFDS builds in a temporary folder and renames it at the end.
    """
    files.write_text(self.data_path / name, text)

  def _write_audit(self, audit_data: Mapping[str, Any]) -> None:
    """Writes the account of the making of the data set."""
    text = json.dumps(audit_data, ensure_ascii=False, indent=1)
    self._write_text_file(summary.AUDIT_FILE, text + "\n")

  def _write_report(self, report: FindingsReport) -> None:
    """Writes the oddities of the authors' files as JSON and as a table."""
    self._write_audit({"release": report.to_json()})
    self._write_text_file(FINDINGS_FILE, report.format_table() + "\n")

  def _read_paper_figures(self, statistics: Mapping[str, Any]) -> Figures:
    """Returns published figures to compare with; most variants have none."""
    del statistics
    return {}

  def describe(self) -> dict[str, Any]:
    """Writes tables and a plot beside the data; returns the statistics."""
    path = self.data_path
    statistics = summary.summarise_dataset(self)
    paper_figures = self._read_paper_figures(statistics)
    blocks = [
      summary.format_tables(statistics),
      audit_tables.format_report(
        audit_tables.compute_figures(statistics), paper_figures
      ),
    ]
    if (path / FINDINGS_FILE).exists():
      blocks.append("findings\n" + files.read_text(path / FINDINGS_FILE))
    files.write_text(path / TABLES_FILE, "\n\n".join(blocks) + "\n")
    coverage_plot.plot_coverage(
      statistics["reigns"],
      f"{statistics['name']}: months with an event, by ruler",
      path / COVERAGE_PLOT,
      audit_tables.gap_share(paper_figures),
    )
    return statistics
