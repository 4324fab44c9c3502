"""Statistics of a built data set of Chronocept, beside the published ones.

They show whether a folder holds the published files, and in what respects the
synthetic samples resemble them.

Source: Chronocept, arXiv 2505.07637v1, Table 3 (axes) and Table 5 (targets).
"""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow_datasets as tfds

from ctd_jax.utils import files, plotting
from ctd_jax_datasets.chronocept import examples
from ctd_jax_datasets.chronocept.samples import (
  AXES,
  SPLITS,
  TARGETS,
  Sample,
  read_axis_counts,
  read_target_statistics,
)
from ctd_jax_datasets.common import base_builder, summary

if TYPE_CHECKING:
  import matplotlib.figure

TARGETS_PLOT = "targets.png"
# With the symbols of the paper; location and scale have one unit.
_TARGET_LABELS = {
  "location": "location xi (log of minutes)",
  "scale": "scale omega (same unit)",
  "skewness": "skewness alpha",
}


def write_summary(builder: tfds.core.DatasetBuilder) -> dict[str, Any]:
  """Writes tables and a plot beside the data; returns the statistics.

  Returns:
    Plain values: name, `synthetic`, `content_sha256`, and the rows of the
    tables `splits`, `targets` and `axes`.
  """
  path = pathlib.Path(builder.data_path)
  benchmark = builder.builder_config.benchmark
  samples = examples.read_samples(builder)
  # The hash is of what is stored, so samples become examples again.
  examples_by_split = {
    split: [examples.make_example(sample) for sample in split_samples]
    for split, split_samples in samples.items()
  }
  dataset_statistics = {
    "name": builder.info.full_name,
    "synthetic": builder.builder_config.synthetic,
    "content_sha256": summary.content_hash(
      builder.info.features, examples_by_split
    ),
    "splits": _count_by_split(samples, benchmark),
    "targets": _summarise_by_target(samples, benchmark),
    "axes": _count_by_axis(samples, benchmark),
  }
  files.write_text(
    path / base_builder.TABLES_FILE, _format_tables(dataset_statistics) + "\n"
  )
  plotting.write_figure(
    path / TARGETS_PLOT, _plot_targets(dataset_statistics["name"], samples)
  )
  return dataset_statistics


def _count_by_split(
  samples: Mapping[str, Sequence[Sample]], benchmark: str
) -> list[dict[str, Any]]:
  """Returns samples and mean words of each split."""
  published_statistics = read_target_statistics()[benchmark]
  return [
    {
      "split": split,
      "samples": len(samples[split]),
      "published": published_statistics[split].n,
      "words": round(
        statistics.fmean(len(s.parent_text.split()) for s in samples[split]), 2
      ),
    }
    for split in SPLITS
  ]


def _summarise_by_target(
  samples: Mapping[str, Sequence[Sample]], benchmark: str
) -> list[dict[str, Any]]:
  """Returns mean, deviation and range of each target in each split."""
  published_statistics = read_target_statistics()[benchmark]
  rows = []
  for split in SPLITS:
    columns = zip(*(sample.targets for sample in samples[split]), strict=True)
    for index, values in enumerate(columns):
      rows.append(
        {
          "split": split,
          "target": TARGETS[index],
          "mean": round(statistics.fmean(values), 4),
          "published_mean": round(published_statistics[split].mean[index], 4),
          # Population deviation, as in `target_statistics.tsv`.
          "sd": round(statistics.pstdev(values), 4),
          "published_sd": round(published_statistics[split].sd[index], 4),
          "least": min(values),
          "most": max(values),
        }
      )
  return rows


def _count_by_axis(
  samples: Mapping[str, Sequence[Sample]], benchmark: str
) -> list[dict[str, Any]]:
  """Returns the number of samples with a text on each axis."""
  # The paper counts axes over all splits together.
  published_counts = read_axis_counts(benchmark)
  all_samples = [
    sample for split_samples in samples.values() for sample in split_samples
  ]
  return [
    {
      "axis": axis,
      "samples": sum(bool(sample.axes[axis]) for sample in all_samples),
      "published": published_counts[axis],
    }
    for axis in AXES
  ]


def _format_tables(dataset_statistics: Mapping[str, Any]) -> str:
  """Returns the tables as text under a title."""
  title = dataset_statistics["name"]
  if dataset_statistics["synthetic"]:
    title += " (synthetic: invented sentences, drawn targets)"
  return "\n\n".join(
    [
      title,
      summary.format_table("samples by split", dataset_statistics["splits"]),
      summary.format_table(
        "targets, population sd", dataset_statistics["targets"]
      ),
      summary.format_table(
        "samples with a text on the axis", dataset_statistics["axes"]
      ),
    ]
  )


def _plot_targets(
  name: str, samples: Mapping[str, Sequence[Sample]]
) -> matplotlib.figure.Figure:
  """Returns the histograms of the targets, splits side by side."""
  figure = plotting.make_figure(10, 3.6)
  figure.suptitle(f"{name}: targets by split")
  panels = figure.subplots(1, len(TARGETS))
  for index, (axes, target) in enumerate(zip(panels, TARGETS, strict=True)):
    axes.hist(
      [[s.targets[index] for s in samples[split]] for split in SPLITS],
      bins=12,
      density=True,  # splits differ in size
      color=plotting.COLOURS[: len(SPLITS)],
      label=[f"{split} ({len(samples[split])})" for split in SPLITS],
    )
    axes.set_xlabel(_TARGET_LABELS[target])
    axes.spines[["top", "right"]].set_visible(False)
  panels[0].set_ylabel("density")
  # One legend for the three panels.
  handles, labels = panels[0].get_legend_handles_labels()
  figure.legend(
    handles, labels, loc="outside lower center", ncols=3, frameon=False
  )
  return figure
