"""ChunQiuTR: questions about months, and the records of those months.

Why: the one place where the data set's versions and variants are declared.
`rebuilt` is the benchmark made anew from the source texts, `release` the
authors' own from their files, `mini` a small invented chronicle of the same
structure for tests and first runs. Called by `ctd_jax_datasets.build` and by
`tfds.builder`.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from ctd_jax.benchmark import queries
from ctd_jax.chronology.annals import Record
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax_datasets import examples
from ctd_jax_datasets.base_builder import BaseBuilder, Config
from ctd_jax_datasets.chunqiutr import (
  fetch,
  mini,
  placeholders,
  release,
  splits,
)
from ctd_jax_datasets.chunqiutr import records as gallery
from ctd_jax_datasets.chunqiutr.sources import SourceError

QUERY_SEED = 0
MINI_SEED = 0
# Written beside the data: the months on which two works disagree.
DISAGREEMENTS = "disagreements.tsv"


@dataclasses.dataclass(frozen=True)
class _Contents:
  """What a variant is made of: records, queries by split, split by month."""

  records: Sequence[Record]
  queries: Mapping[str, Sequence[queries.Query]]
  split_of: Mapping[TimeKey, str]


class Builder(BaseBuilder):
  """Builder of `chunqiutr/rebuilt`, `chunqiutr/release`, `chunqiutr/mini`."""

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

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict]]]:
    """Returns the examples of `records`, `train`, `validation` and `test`."""
    make = {
      "mini": self._mini,
      "rebuilt": self._rebuilt,
      "release": self._release,
    }[self.builder_config.name]
    made = make(dl_manager, self.timeline)
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
    """Returns the invented chronicle.

    Raises:
      SourceError: if sources are named, which it has none of.
    """
    if self.sources:
      raise SourceError(
        f"--sources={self.sources}: {self.name}/{self.builder_config.name} is "
        "made without sources; leave it out, or build another variant"
      )
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
      self._source_files(dl_manager, fetch.CHECKSUMS),
      timeline,
      processes=self.processes,
    )
    audit = {"left_out": built.left_out, **built.audit}
    rows = audit.pop("disagreements", [])
    self._write_audit(audit)
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
    paths = release.files(dl_manager, self._release_folder())
    found = release.read(paths, timeline)
    self._write_report(found.report)
    return _Contents(found.records, found.queries, found.split_of)


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
