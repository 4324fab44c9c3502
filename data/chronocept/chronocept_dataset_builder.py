"""TFDS builder of Chronocept: statements and their validity over log time.

`benchmark_1` and `benchmark_2` are the published samples, from the hub or a
folder; `synthetic_1` and `synthetic_2` are invented samples of the same sizes
(see `synthetic`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from ctd_jax_datasets.chronocept import (
  examples,
  hub,
  records,
  summary,
  synthetic,
)
from ctd_jax_datasets.chronocept.samples import BENCHMARKS, Sample
from ctd_jax_datasets.common.base_builder import BaseBuilder
from ctd_jax_datasets.common.errors import SourceError

SEED = 0  # of the synthetic samples; part of their version
_TEXT_DESCRIPTIONS = {
  "benchmark_1": "one sentence each",
  "benchmark_2": "several sentences each",
}


@dataclasses.dataclass(kw_only=True)
class ChronoceptConfig(tfds.core.BuilderConfig):
  """A variant of the data set.

  Attributes:
    benchmark: the published benchmark that it is, or imitates.
    synthetic: whether its samples are invented.
  """

  benchmark: str
  synthetic: bool = False


class Builder(BaseBuilder):
  """Builder of `chronocept/benchmark_*` and `chronocept/synthetic_*`.

  One process is enough, whatever `processes` says.
  """

  # A change of any sample is a new version.
  VERSION = tfds.core.Version("1.0.0")
  RELEASE_NOTES: ClassVar = {"1.0.0": "First."}
  BUILDER_CONFIGS: ClassVar = [
    *(
      ChronoceptConfig(
        name=benchmark,
        benchmark=benchmark,
        description=f"The published samples, {_TEXT_DESCRIPTIONS[benchmark]}.",
      )
      for benchmark in BENCHMARKS
    ),
    *(
      ChronoceptConfig(
        name=benchmark.replace("benchmark", "synthetic"),
        benchmark=benchmark,
        synthetic=True,
        description="Synthetic: invented by this project, "
        f"{_TEXT_DESCRIPTIONS[benchmark]}, with the sizes and marginals of "
        f"{benchmark}.",
      )
      for benchmark in BENCHMARKS
    ),
  ]

  def _info(self) -> tfds.core.DatasetInfo:
    """Returns features and metadata."""
    return self.dataset_info_from_configs(
      features=examples.make_sample_features(),
      homepage="https://arxiv.org/abs/2505.07637",
      metadata=tfds.core.MetadataDict(synthetic=self.builder_config.synthetic),
      disable_shuffling=True,  # the order of the files is kept
    )

  def _split_generators(
    self, dl_manager: tfds.download.DownloadManager
  ) -> dict[str, Iterator[tuple[str, dict[str, Any]]]]:
    """Returns the examples of `train`, `validation` and `test`.

    Raises:
      SourceError: if a file or record is invalid, an id occurs in two splits,
        or sources are given for a synthetic variant.
    """
    config = self.builder_config
    # Sources that are silently ignored would look like published samples.
    if config.synthetic and self.sources:
      raise SourceError(
        f"--sources={self.sources}: {self.name}/{config.name} is made without "
        "sources; leave it out, or build another variant"
      )
    if config.synthetic:
      samples = synthetic.generate_samples(config.benchmark, SEED)
    else:
      paths = hub.locate_published_files(
        dl_manager, config.benchmark, self._release_folder()
      )
      samples = records.read_splits(paths)
    return {
      split: self._generate_examples(split_samples)
      for split, split_samples in samples.items()
    }

  def _generate_examples(
    self, samples: Iterable[Sample]
  ) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (id, example) of every sample."""
    for sample in samples:
      yield sample.sample_id, examples.make_example(sample)

  def describe(self) -> dict[str, Any]:
    """Writes tables and a plot beside the data; returns the statistics."""
    return summary.write_summary(self)
