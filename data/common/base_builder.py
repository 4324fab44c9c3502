"""Base class of the TFDS builders: features, source files, reports, plots.

Examples are written so that their bytes depend on them alone, in array_record,
the one format of TFDS that loses no rows and needs no TensorFlow. `tfds.load`
reads it by an adapter that is registered when the package is imported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import pathlib
import random
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow_datasets as tfds
from array_record.python import array_record_module
from tensorflow_datasets.core import file_adapters
from tensorflow_datasets.core.utils.lazy_imports_utils import tensorflow as tf
from tensorflow_datasets.proto import tf_example_pb2

from ctd_jax.benchmark.benchmark import Query, Record
from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.utils import files, output
from ctd_jax_datasets.common import source_files, summary
from ctd_jax_datasets.common.source_files import FileNotes
from ctd_jax_datasets.common.summary import Figures

if TYPE_CHECKING:
  import matplotlib.axes


# Records and queries have one form in all data sets. Ids are shuffled numbers:
# they tell nothing about time.


QUERY_KIND = "query"


def make_record_features() -> tfds.features.FeaturesDict:
  """Returns the features of records and queries."""
  text_feature = tfds.features.Text
  month_feature = tfds.features.Tensor(
    shape=(3,), dtype=np.int32, doc="reign, year, month, counting from 1"
  )
  return tfds.features.FeaturesDict(
    {
      "id": text_feature(doc="r00000 (record), point-00000 or window-00000"),
      "text": text_feature(),
      "kind": text_feature(doc="event, no_event, neg_comment or query"),
      "source": text_feature(doc="work of a record, empty for a query"),
      "family": text_feature(doc="point or window, empty for a record"),
      "group": text_feature(doc="template group, empty for a record"),
      "split": text_feature(doc="train, validation or test"),
      "start": month_feature,
      "end": month_feature,
      "order": tfds.features.Scalar(
        np.int32, doc="place in its work; -1 if unknown, and for a query"
      ),
      "positives": tfds.features.Sequence(
        text_feature(), doc="ids of the records that answer"
      ),
      "paper_family": text_feature(
        doc="point, gap or window, empty for a record"
      ),
      "version": text_feature(doc="event of a record, v00000, or empty"),
      "match_score": tfds.features.Scalar(
        np.float32, doc="fit of a comment to its place, 0-1; else 1"
      ),
    }
  )


def iterate_record_examples(
  records: Iterable[Record], split_of: Mapping[TimeKey, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields (id, example) of every record."""
  for record in records:
    # One month; a builder of records with wider dates replaces `end`.
    month = np.asarray(record.key.triple, np.int32)
    yield (
      record.record_id,
      {
        "id": record.record_id,
        "text": record.text,
        "kind": record.kind,
        "source": record.source,
        "family": "",
        "group": "",
        "split": split_of[record.key],
        "start": month,
        "end": month,
        "order": record.order,
        "positives": [],
        "paper_family": "",
        "version": record.version,
        "match_score": record.match_score,
      },
    )


def iterate_query_examples(
  queries: Iterable[Query], split: str
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields (id, example) of every query of a split, in the given order."""
  for query in queries:
    yield (
      query.query_id,
      {
        "id": query.query_id,
        "text": query.text,
        "kind": QUERY_KIND,
        "source": "",
        "family": query.family,
        "group": query.group,
        "split": split,
        "start": np.asarray(query.interval.start.triple, np.int32),
        "end": np.asarray(query.interval.end.triple, np.int32),
        "order": -1,  # not applicable
        "positives": list(query.positives),
        "paper_family": query.paper_family,
        "version": "",
        "match_score": 1.0,
      },
    )


def number_records(records: Iterable[Record], seed: int) -> tuple[Record, ...]:
  """Returns the records with ids `r00000`..., sorted by id.

  The numbers are shuffled, so that an id tells nothing about time or source.
  """
  # A copy: shuffle works in place.
  records = list(records)
  random.Random(seed).shuffle(records)
  return tuple(
    dataclasses.replace(record, record_id=f"r{number:05d}")
    for number, record in enumerate(records)
  )


class StableWriter(tfds.core.ExampleWriter):
  """Writer of TFDS that puts the features of an example in order."""

  def write(
    self, path: str | os.PathLike, examples: Iterable[tuple[object, bytes]]
  ):
    """Writes a shard, see `tfds.core.ExampleWriter`.

    Args:
      examples: (key, serialized example), in the order to be stored.
    """
    parse = tf_example_pb2.Example.FromString
    # Deterministic: maps are written in the order of their keys.
    stable_examples = (
      (key, parse(example).SerializeToString(deterministic=True))
      for key, example in examples
    )
    return super().write(path, stable_examples)


# Examples that Python hands to TensorFlow at a time: one by one is slower.
_CHUNK_LENGTH = 512


class ArrayRecordAdapter(file_adapters.ArrayRecordFileAdapter):
  """Adapter of TFDS that can also make a `tf.data.Dataset`."""

  SUPPORTS_TF_DATA = True

  @classmethod
  def make_tf_data(
    cls, filename: str | tf.Tensor, buffer_size: int | None = None
  ) -> tf.data.Dataset:
    """Returns the serialized examples of a file, in the order of the file.

    Python reads the file, so that the graph of the data set does not run in
    another process, such as a worker of the `tf.data` service.
    """
    del buffer_size
    chunks = tf.data.Dataset.from_generator(
      _read_chunks,
      args=(filename,),
      output_signature=tf.TensorSpec((None,), tf.string),
    )
    return chunks.unbatch()


def _read_chunks(path: bytes) -> Iterator[list[bytes]]:
  """Yields the serialized examples of a file in lists."""
  reader = array_record_module.ArrayRecordReader(path.decode())
  try:
    num_examples = reader.num_records()
    for start in range(0, num_examples, _CHUNK_LENGTH):
      yield reader.read(start, min(start + _CHUNK_LENGTH, num_examples))
  finally:
    reader.close()


def register_adapter() -> None:
  """Makes TFDS read array_record as `tf.data.Dataset`."""
  file_adapters.ADAPTER_FOR_FORMAT[tfds.core.FileFormat.ARRAY_RECORD] = (
    ArrayRecordAdapter
  )


_BLUE, _ORANGE, *_, _RED, _BLACK = output.COLOURS
_MAX_LEVEL_LABELS = 16  # with more rulers the labels stand upright


def plot_coverage(
  rows: Sequence[Mapping[str, Any]],
  title: str,
  path: str | os.PathLike,
  paper_gap: float | None = None,
) -> None:
  """Writes a PNG: months with and without an event, and the empty share.

  Args:
    rows: `reigns` of `summary.summarise_dataset`; the last is the total.
    paper_gap: share of empty months in the paper, drawn as a horizontal line;
      None for a data set that the paper does not describe.
  """
  *rulers, total = rows
  # A quarter of an inch for each ruler keeps the labels apart.
  figure = output.make_figure(max(8.5, 0.25 * len(rulers)), 5.2)
  months, share = figure.subplots(2, sharex=True, height_ratios=(3, 2))
  months.set_title(title)
  _draw_months(months, rulers)
  _draw_share(share, rulers)
  for gap, name, colour, style in (
    (total["gap_share"], "all rulers", _BLACK, "-"),
    (paper_gap, "paper", _RED, "--"),
  ):
    if gap is not None:
      share.axhline(gap, color=colour, ls=style, label=f"{name}, {gap:.3f}")
  figure.legend(loc="outside lower center", ncols=4, frameon=False)
  for axes in (months, share):
    output.style_frame(axes)
  output.write_figure(path, figure)


def _draw_months(
  axes: matplotlib.axes.Axes, rulers: Sequence[Mapping[str, Any]]
) -> None:
  """Draws how many months of each ruler have an event."""
  with_event = [row["with_event"] for row in rulers]
  empty = [row["empty"] for row in rulers]
  positions = range(len(rulers))
  axes.bar(positions, with_event, color=_BLUE, label="with an event")
  empty_bars = axes.bar(
    positions, empty, bottom=with_event, color=_ORANGE, label="empty"
  )
  counts = [f"{row['with_event']} / {row['months']}" for row in rulers]
  is_crowded = len(rulers) > _MAX_LEVEL_LABELS
  axes.bar_label(
    empty_bars, counts, padding=2, fontsize=8, rotation=90 if is_crowded else 0
  )
  axes.margins(x=0.02, y=0.25 if is_crowded else 0.1)
  axes.set_ylabel("months (with an event / all)")


def _draw_share(
  axes: matplotlib.axes.Axes, rulers: Sequence[Mapping[str, Any]]
) -> None:
  """Draws the share of each ruler's months that are empty."""
  positions = range(len(rulers))
  bars = axes.bar(
    positions, [row["gap_share"] for row in rulers], color=_ORANGE
  )
  if len(rulers) <= _MAX_LEVEL_LABELS:
    axes.bar_label(bars, fmt="{:.2f}", label_type="center", fontsize=8)
  # Latin letters: matplotlib's own font has no others.
  axes.set_xticks(
    positions, [row["ruler"].rpartition(" ")[2] for row in rulers]
  )
  axes.set_ylim(0, 1)
  axes.set_ylabel("share of empty months")
  axes.set_xlabel("ruler, in order of time")


# Written next to the data.
STATISTICS_FILE = "statistics.json"  # last: without it a build was interrupted
FINDINGS_FILE = "findings.txt"  # oddities in the authors' files
TABLES_FILE = "audit.txt"
COVERAGE_PLOT = "coverage.png"


class DamagedDatasetError(ValueError):
  """Error of a built data set: its folder, and what is wrong there."""

  def __str__(self) -> str:
    path, problem = self.args
    return (
      f"{path}: damaged ({problem}); build it again: "
      f"{format_build_command(path)} --overwrite"
    )


def format_build_command(path: files.AnyPath) -> str:
  """Returns the command that builds the data set of a folder."""
  name = f"{path.parent.parent.name}/{path.parent.name}"
  data_dir = shlex.quote(str(path.parent.parent.parent))
  return f"python -m ctd_jax_datasets.build {name} --data_dir={data_dir}"


@contextlib.contextmanager
def reading(path: files.AnyPath) -> Iterator[None]:
  """Names a built data set that cannot be read, and how to mend it."""
  try:
    yield
  except DamagedDatasetError:
    raise
  except Exception as error:  # TFDS, Riegeli and protobuf share no base
    if not path.exists():
      raise
    problem = (str(error) or repr(error)).splitlines()[0][:200]
    raise DamagedDatasetError(path, problem) from error


@dataclasses.dataclass(kw_only=True)
class TimelineConfig(tfds.core.BuilderConfig):
  """A variant of a data set."""

  timeline: str  # name of its calendar for `reigns.load_timeline`


class BaseBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
  """Builder of records and queries about their months.

  Attributes:
    processes: number of processes that read source texts; the data set does not
      depend on it.
    register_checksums: whether size and sha256 of downloads are written into
      the `checksums.tsv` of the data set instead of being checked.
  """

  # Folder of the files to build from: source texts, or the authors' files for a
  # variant that is made of them. None means the environment variables
  # CTD_JAX_SOURCES (source texts) and CTD_JAX_RELEASE (authors' files) and,
  # without those, downloading.
  sources: str | os.PathLike | None = None
  processes = 1
  register_checksums = False
  # The texts come from a public host; a hundred connections would be rude.
  MAX_SIMULTANEOUS_DOWNLOADS = 4

  def __init__(
    self, *, file_format: str | tfds.core.FileFormat | None = None, **kwargs
  ):
    """Initializes the builder, see `tfds.core.GeneratorBasedBuilder`.

    Args:
      file_format: None means that of the data set if it is built, and
        array_record, not the tfrecord of TFDS, if it is not.
    """
    super().__init__(file_format=file_format, **kwargs)
    if file_format is None and not self.info.initialized:
      self.info.set_file_format(
        tfds.core.FileFormat.ARRAY_RECORD, override=True
      )

  @property
  def timeline(self) -> Timeline:
    """The calendar of the variant."""
    return reigns.load_timeline(self.builder_config.timeline)

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
      features=make_record_features(),
      homepage="https://arxiv.org/abs/2604.06997",
      metadata=tfds.core.MetadataDict(timeline=self.builder_config.timeline),
      # Records stay in the order of their ids, which reveals no dates.
      disable_shuffling=True,
    )

  def check_file_format(self) -> None:
    """Raises DamagedDatasetError if reading the data needs TensorFlow."""
    file_format = self.info.file_format
    if file_format is not tfds.core.FileFormat.ARRAY_RECORD:
      raise DamagedDatasetError(
        self.data_path, f"stored as {file_format.value}, not as array_record"
      )

  def read_splits(self) -> dict[str, list[dict[str, Any]]]:
    """Returns split -> examples, in the order stored; texts are bytes.

    Raises:
      FileNotFoundError: if the data set is not built.
      DamagedDatasetError: if it cannot be read, or its content is not what was
        built.
    """
    path = self.data_path
    if not path.exists():
      raise FileNotFoundError(
        f"data set {self.name}/{self.builder_config.name} is not built in "
        f"{path}; run {format_build_command(path)}"
      )
    with reading(path):
      self.check_file_format()
      for split in self.info.splits.values():
        for file in split.filepaths:
          # dataset_info.json has patterns of names: a stranger's lead out.
          files.inside(path, os.path.relpath(file, path))
      # array_record is read without TensorFlow.
      splits = {
        name: list(rows) for name, rows in self.as_data_source().items()
      }
      # Riegeli notices a flipped bit in a record, but nobody one in the number
      # of records or in the name of a split.
      if (path / STATISTICS_FILE).exists():
        statistics = json.loads((path / STATISTICS_FILE).read_text())
        content_sha256 = summary.content_hash(self.info.features, splits)
        if content_sha256 != statistics["content_sha256"]:
          raise DamagedDatasetError(
            path, "it has other examples than were built"
          )
    return splits

  def as_dataset(self, split: Any = None, **kwargs) -> Any:
    """Returns `tf.data.Dataset`s, see `tfds.core.DatasetBuilder`.

    Raises:
      ModuleNotFoundError: if TensorFlow is not installed; the message has the
        call that does not need it.
    """
    if importlib.util.find_spec("tensorflow") is None:
      name = f"{self.name}/{self.builder_config.name}"
      raise ModuleNotFoundError(
        "tfds.load and as_dataset need TensorFlow (extra [tf]); "
        f'without it: tfds.data_source("{name}", split=...)',
        name="tensorflow",
      )
    return super().as_dataset(split, **kwargs)

  def _example_writer(self) -> tfds.core.ExampleWriter:
    """Returns the writer that gives the same bytes every time."""
    return StableWriter(file_format=self.info.file_format)

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
    return self.sources or os.environ.get(source_files.RELEASE_FOLDER_VARIABLE)

  def _write_text_file(self, name: str, text: str) -> None:
    """Writes a file next to the data."""
    files.write_text(self.data_path / name, text)

  def _write_audit(self, audit_data: Mapping[str, Any]) -> None:
    """Writes the account of the making of the data set."""
    text = json.dumps(audit_data, ensure_ascii=False, indent=1)
    self._write_text_file(summary.AUDIT_FILE, text + "\n")

  def _write_notes(self, notes: FileNotes) -> None:
    """Writes the oddities of the authors' files as JSON and as a table."""
    self._write_audit({"release": notes.to_json()})
    self._write_text_file(FINDINGS_FILE, notes.format_table() + "\n")

  def _read_paper_figures(self, statistics: Mapping[str, Any]) -> Figures:
    """Returns published figures to compare with; most variants have none."""
    del statistics
    return {}

  def describe(self) -> dict[str, Any]:
    """Writes tables and a plot next to the data; returns the statistics."""
    path = self.data_path
    statistics = summary.summarise_dataset(self)
    paper_figures = self._read_paper_figures(statistics)
    blocks = [
      summary.format_tables(statistics),
      summary.format_report(summary.compute_figures(statistics), paper_figures),
    ]
    if (path / FINDINGS_FILE).exists():
      blocks.append("findings\n" + files.read_text(path / FINDINGS_FILE))
    files.write_text(path / TABLES_FILE, "\n\n".join(blocks) + "\n")
    plot_coverage(
      statistics["reigns"],
      f"{statistics['name']}: months with an event, by ruler",
      path / COVERAGE_PLOT,
      summary.gap_share(paper_figures),
    )
    return statistics
