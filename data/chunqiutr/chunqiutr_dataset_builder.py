"""ChunQiuTR: questions about months, and the records of those months.

Why: the one place where the data set's features, versions and splits are
declared. `rebuilt` is the benchmark made anew from the source texts, `mini` a
small invented chronicle of the same structure for tests and first runs. Both
are written as array_record (the only TFDS format that loses no rows without
TensorFlow). Called by `ctd_jax_datasets.build` and by `tfds.builder`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds
import tqdm

from ctd_jax.chronology import queries, reigns
from ctd_jax.chronology.annals import Record
from ctd_jax.chronology.timekey import TimeKey
from ctd_jax_datasets.chunqiutr import fetch, mini, placeholders, splits
from ctd_jax_datasets.chunqiutr import records as gallery

RECORDS = "records"
QUERY = "query"
QUERY_SEED = 0
MINI_SEED = 0


@dataclasses.dataclass(kw_only=True)
class Config(tfds.core.BuilderConfig):
  """A variant of the data set.

  Attributes:
    timeline: name of its calendar for `reigns.timeline`.
  """

  timeline: str


class Builder(tfds.core.GeneratorBasedBuilder):
  """Builder of `chunqiutr/rebuilt` and `chunqiutr/mini`.

  Attributes:
    sources: folder of source texts for `rebuilt`; None means the environment
      variable CTD_JAX_SOURCES and, without that, downloading.
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
  ]
  sources: str | os.PathLike | None = None
  # The texts lie with a public host; a hundred connections would be rude.
  MAX_SIMULTANEOUS_DOWNLOADS = 4

  def _info(self) -> tfds.core.DatasetInfo:
    """Returns features and metadata."""
    text = tfds.features.Text
    month = tfds.features.Tensor(
      shape=(3,), dtype=np.int32, doc="reign, year, month, counting from 1"
    )
    return self.dataset_info_from_configs(
      features=tfds.features.FeaturesDict(
        {
          "id": text(doc="r00000 (record), point-00000 or window-00000"),
          "text": text(),
          "kind": text(doc="event, no_event, neg_comment or query"),
          "source": text(doc="work of a record, empty for a query"),
          "family": text(doc="point or window, empty for a record"),
          "group": text(doc="template group, empty for a record"),
          "split": text(doc="train, validation or test"),
          "start": month,
          "end": month,
          "order": tfds.features.Scalar(
            np.int32, doc="place in its work, -1 for a query"
          ),
          "positives": tfds.features.Sequence(
            text(), doc="ids of the records that answer"
          ),
          "paper_family": text(doc="point, gap or window, empty for a record"),
          "version": text(doc="event of a record, v00000, or empty"),
          "match_score": tfds.features.Scalar(
            np.float32, doc="fit of a comment to its place, 0-1; else 1"
          ),
        }
      ),
      homepage="https://arxiv.org/abs/2604.06997",
      metadata=tfds.core.MetadataDict(timeline=self.builder_config.timeline),
      # Records stay in the order of their ids, which tells nothing.
      disable_shuffling=True,
    )

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict]]]:
    """Returns the examples of `records`, `train`, `validation` and `test`."""
    timeline = reigns.timeline(self.builder_config.timeline)
    progress = tqdm.tqdm(total=2, desc="records, queries", disable=None)
    if self.builder_config.name == "mini":
      records = mini.generate(MINI_SEED)
      records += placeholders.fill_months(
        records, timeline, gallery.SEED, mini.TITLE
      )
      records = gallery.number_records(records, gallery.SEED)
      split_of, quotas, title = mini.splits(), None, mini.TITLE
    else:
      built = gallery.build_gallery(self._files(dl_manager), timeline)
      records = built.records
      self.info.metadata["left_out"] = built.left_out
      split_of = splits.official_splits(timeline)
      quotas, title = queries.OFFICIAL_QUOTAS, queries.CHUNQIU
    progress.update()
    asked = queries.generate_queries(
      timeline,
      split_of,
      records,
      seed=QUERY_SEED,
      quotas=quotas,
      title=title,
    )
    progress.update()
    progress.close()
    generators = {RECORDS: self._generate_examples(records, split_of)}
    for split in queries.SPLITS:
      generators[split] = _query_examples(asked[split], split)
    return generators

  def _files(self, dl_manager: tfds.download.DownloadManager) -> dict:
    """Returns name -> checked path of every source file."""
    known = fetch.known_files()
    folder = fetch.sources_folder(self.sources)
    if folder is not None:
      return fetch.files_of_folder(folder, known)
    return fetch.download_files(dl_manager, known)

  def _generate_examples(
    self, records: Iterable[Record], split_of: dict[TimeKey, str]
  ) -> Iterator[tuple[str, dict]]:
    """Yields (id, example) of every record."""
    for record in records:
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


def _query_examples(
  asked: Iterable[queries.Query], split: str
) -> Iterator[tuple[str, dict]]:
  """Yields (id, example) of every query of a split."""
  for query in asked:
    yield (
      query.query_id,
      {
        "id": query.query_id,
        "text": query.text,
        "kind": QUERY,
        "source": "",
        "family": query.family,
        "group": query.group,
        "split": split,
        "start": np.asarray(query.interval.start.triple, np.int32),
        "end": np.asarray(query.interval.end.triple, np.int32),
        "order": -1,
        "positives": list(query.positives),
        "paper_family": query.paper_family,
        "version": "",
        "match_score": 1.0,
      },
    )
