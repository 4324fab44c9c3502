"""Agreement of annotators of validity curves, as lines of text.

The report has four blocks: intraclass correlations of the parameters; the loss
of averaging annotators' parameters or curves; Jaccard indices and Pk of
segments; confusion of axes, and the mergings of two axes that would raise
agreement most. The thresholds of the published warm-up (ICC above .90, Jaccard
above .75, Pk below .15) are printed for comparison.

Axes: N samples, K annotators of a sample, T = 3 parameters.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float64

from ctd_jax.evaluation import significance
from ctd_jax.tasks.chronocept.annotation import (
  averaging,
  confusion,
  icc,
  records,
  segmentation,
)
from ctd_jax.tasks.chronocept.annotation.records import Annotation
from ctd_jax_datasets.chronocept.samples import AXES, TARGETS

Annotations = Mapping[str, Sequence[Annotation]]
# Name -> (measure of a pair, threshold of the warm-up). Source: Chronocept,
# arXiv 2505.07637v1, section on annotator training.
SEGMENT_MEASURES: Mapping[str, tuple[Callable[..., float], str]] = {
  "Jaccard, axes": (segmentation.label_jaccard, "> .75"),
  "Jaccard, (axis, segment)": (segmentation.segment_jaccard, "> .75"),
  "Pk": (segmentation.pk, "< .15"),
}
ICC_GATE = "> .90"  # threshold of the same warm-up
MAX_MERGINGS = 5  # of 28 pairs of axes


def format_agreement(annotations: Annotations) -> str:
  """Returns the report.

  Args:
    annotations: sample id -> annotations, see `records.read_annotations`.

  Raises:
    ValueError: if no sample has two annotators, or two curves.
  """
  blocks = (
    format_parameters(annotations),
    format_averaging(annotations),
    format_segments(annotations),
    format_axes(annotations),
  )
  return "\n\n".join("\n".join(lines) for lines in blocks)


def collect_ratings(
  annotations: Annotations,
) -> tuple[Float64[np.ndarray, "N K T"], bool]:
  """Returns the parameters of the curves, and whether annotators are crossed.

  The ICC needs the same number of annotators for all samples; samples with
  another number than the most frequent one are left out.

  Args:
    annotations: sample id -> annotations.

  Returns:
    (ratings, whether all N samples have the same K annotators).

  Raises:
    ValueError: if no sample has two curves.
  """
  curves = [
    [annotation for annotation in sample_annotations if annotation.curve]
    for sample_annotations in annotations.values()
  ]
  curves = [sample_curves for sample_curves in curves if len(sample_curves) > 1]
  if not curves:
    raise ValueError("no sample has curves by two annotators")
  # The most frequent number of annotators.
  num_annotators = collections.Counter(map(len, curves)).most_common(1)[0][0]
  curves = [
    sample_curves
    for sample_curves in curves
    if len(sample_curves) == num_annotators
  ]
  # Annotations of a sample are in order of annotator.
  annotator_groups = {
    tuple(a.annotator for a in sample_curves) for sample_curves in curves
  }
  values = np.array(
    [[a.curve for a in sample_curves] for sample_curves in curves]
  )
  return values, len(annotator_groups) == 1


def format_parameters(annotations: Annotations) -> list[str]:
  """Returns the lines about the parameters of the curves.

  Args:
    annotations: sample id -> annotations.

  Raises:
    ValueError: if no sample has two curves.
  """
  values, is_crossed = collect_ratings(annotations)
  annotator_note = "the same" if is_crossed else "changing"
  lines = [
    f"curves: {values.shape[0]} of {len(annotations)} samples, "
    f"{values.shape[1]} annotators of each, {annotator_note} (gate {ICC_GATE})"
  ]
  for column, target in enumerate(TARGETS):
    for coefficient in icc.compute_coefficients(
      values[..., column], is_crossed
    ):
      lines.append(
        f"  {target:<9} {coefficient.form:<9} {coefficient.value:7.4f}  "
        f"[{coefficient.low:.4f}, {coefficient.high:.4f}]"
      )
  return lines


def format_averaging(annotations: Annotations) -> list[str]:
  """Returns the lines about the overlap of averages with mixtures.

  Args:
    annotations: sample id -> annotations.
  """
  overlaps_by_sample = {}
  for sample_id, sample_annotations in annotations.items():
    curves = [
      annotation.curve for annotation in sample_annotations if annotation.curve
    ]
    if len(curves) > 1:
      overlaps_by_sample[sample_id] = averaging.compute_overlaps(curves)
  lines = ["one curve of several: overlap with the mean of their densities"]
  for index, method_name in enumerate(
    ("mean of parameters", "fit to the mean curve")
  ):
    values = {
      sample_id: pair[index] for sample_id, pair in overlaps_by_sample.items()
    }
    min_sample_id = min(values, key=values.get)
    mean = statistics.fmean(values.values())
    lines.append(
      f"  {method_name:<21} {mean:.4f}, least {values[min_sample_id]:.4f} "
      f"({min_sample_id})"
    )
  return lines


def format_segments(annotations: Annotations) -> list[str]:
  """Returns the lines about segments: means over samples, then intervals.

  Args:
    annotations: sample id -> annotations.

  Raises:
    ValueError: if no sample has two annotators.
  """
  pairs = records.make_annotator_pairs(annotations)
  if not pairs:
    raise ValueError("no sample has two annotators")
  lines = [f"segments: {len(pairs)} samples with two annotators or more"]
  for name, (measure, gate) in SEGMENT_MEASURES.items():
    values = {
      sample_id: statistics.fmean(measure(*pair) for pair in sample_pairs)
      for sample_id, sample_pairs in pairs.items()
    }
    low, high = significance.compute_bootstrap_interval(values)
    lines.append(
      f"  {name:<25} {statistics.fmean(values.values()):.4f}  "
      f"[{low:.4f}, {high:.4f}]  (gate {gate})"
    )
  return lines


def format_axes(annotations: Annotations) -> list[str]:
  """Returns the lines about the confusion of axes and about mergings.

  Args:
    annotations: sample id -> annotations.
  """
  pairs = records.make_annotator_pairs(annotations).values()
  labels = confusion.make_word_labels(
    p for sample_pairs in pairs for p in sample_pairs
  )
  counts = confusion.compute_confusion_matrix(*labels)
  width = max(map(len, AXES))
  numbers = range(1, len(AXES) + 1)
  head = "".join(f"{number:8}" for number in numbers) + "   words"
  lines = ["axes of words, in percent of the row", " " * (width + 4) + head]
  for number, axis, row in zip(numbers, AXES, counts, strict=True):
    # Pairs are counted in both orders, so a row sums to twice its words.
    shares = 100 * row / max(1, row.sum())
    cells = "".join(f"{share:8.1f}" for share in shares)
    lines.append(f"  {number} {axis:<{width}}{cells}{row.sum() / 2:8.1f}")
  unmerged = confusion.measure_merging(*labels)
  lines.append(
    f"  micro precision {unmerged.precision:.4f}, "
    f"Cohen's kappa {unmerged.kappa:.4f}"
  )
  for merging in confusion.rank_mergings(*labels)[:MAX_MERGINGS]:
    lines.append(
      f"  {' + '.join(merging.axes)} as one: {merging.precision:.4f}, "
      f"{merging.kappa:.4f} ({merging.kappa - unmerged.kappa:+.4f})"
    )
  return lines
