"""Prints how far annotators of validity curves agree.

  python -m ctd_jax.tasks.chronocept.annotation.agreement --annotations=FILE.csv

The table is described in `records`. What is printed: intraclass correlations
of the parameters by form; what their mean loses of the curves; Jaccard of axes
and of segments; Pk; the axes that are taken for one another, and the mergings
of two that would help most. The gates of the published warm-up (ICC above .90,
Jaccard above .75, Pk below .15) stand beside, as something to compare with.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import flags

from ctd_jax.evaluation import significance
from ctd_jax.tasks.chronocept.annotation import (
  averaging,
  confusion,
  icc,
  records,
  segmentation,
)
from ctd_jax.tasks.chronocept.annotation.records import Annotation
from ctd_jax.utils import command_line
from ctd_jax_datasets.chronocept.samples import AXES, TARGETS

Annotations = Mapping[str, Sequence[Annotation]]
# Name -> measure of a pair, gate of the warm-up. Source: Chronocept, arXiv
# 2505.07637v1, section on annotator training.
SEGMENT_MEASURES: Mapping[str, tuple[Callable[..., float], str]] = {
  "Jaccard, axes": (segmentation.label_jaccard, "> .75"),
  "Jaccard, (axis, segment)": (segmentation.strict_jaccard, "> .75"),
  "Pk": (segmentation.pk, "< .15"),
}
ICC_GATE = "> .90"
SHOWN_MERGINGS = 5


def ratings(annotations: Annotations) -> tuple[np.ndarray, bool]:
  """Returns the parameters of the curves, and whether annotators are crossed.

  Samples with another number of curves than most are left out: the forms of
  the ICC want one number.

  Args:
    annotations: sample id -> annotations.

  Returns:
    (values [N, K, 3], whether all N samples have the same K annotators).

  Raises:
    ValueError: if no sample has two curves.
  """
  curves = [
    [annotation for annotation in known if annotation.curve]
    for known in annotations.values()
  ]
  curves = [drawn for drawn in curves if len(drawn) > 1]
  if not curves:
    raise ValueError("no sample has curves by two annotators")
  usual = collections.Counter(map(len, curves)).most_common(1)[0][0]
  curves = [drawn for drawn in curves if len(drawn) == usual]
  people = {tuple(a.annotator for a in drawn) for drawn in curves}
  values = np.array([[a.curve for a in drawn] for drawn in curves])
  return values, len(people) == 1


def parameter_lines(annotations: Annotations) -> list[str]:
  """Returns the lines about the parameters of the curves."""
  values, crossed = ratings(annotations)
  people = "the same" if crossed else "changing"
  lines = [
    f"curves: {values.shape[0]} of {len(annotations)} samples, "
    f"{values.shape[1]} annotators of each, {people} (gate {ICC_GATE})"
  ]
  for number, target in enumerate(TARGETS):
    for found in icc.coefficients(values[..., number], crossed):
      lines.append(
        f"  {target:<9} {found.form:<9} {found.value:7.4f}  "
        f"[{found.low:.4f}, {found.high:.4f}]"
      )
  return lines


def averaging_lines(annotations: Annotations) -> list[str]:
  """Returns how much of the annotators' mixtures either average keeps."""
  found = {}
  for sample_id, known in annotations.items():
    curves = [annotation.curve for annotation in known if annotation.curve]
    if len(curves) > 1:
      found[sample_id] = averaging.overlaps(curves)
  lines = ["one curve of several: overlap with the mean of their densities"]
  for place, way in enumerate(("mean of parameters", "fit to the mean curve")):
    values = {sample_id: pair[place] for sample_id, pair in found.items()}
    least = min(values, key=values.get)
    mean = statistics.fmean(values.values())
    lines.append(f"  {way:<21} {mean:.4f}, least {values[least]:.4f} ({least})")
  return lines


def segment_lines(annotations: Annotations) -> list[str]:
  """Returns the lines about segments; means over samples, then intervals.

  Raises:
    ValueError: if no sample has two annotators.
  """
  pairs = records.pairs(annotations)
  if not pairs:
    raise ValueError("no sample has two annotators")
  lines = [f"segments: {len(pairs)} samples with two annotators or more"]
  for name, (measure, gate) in SEGMENT_MEASURES.items():
    values = {
      sample_id: statistics.fmean(measure(*pair) for pair in of_sample)
      for sample_id, of_sample in pairs.items()
    }
    low, high = significance.bootstrap_interval(values)
    lines.append(
      f"  {name:<25} {statistics.fmean(values.values()):.4f}  "
      f"[{low:.4f}, {high:.4f}]  (gate {gate})"
    )
  return lines


def axis_lines(annotations: Annotations) -> list[str]:
  """Returns the confusion matrix of axes and the mergings that help most."""
  pairs = records.pairs(annotations).values()
  labels = confusion.word_labels(p for of_sample in pairs for p in of_sample)
  counts = confusion.matrix(*labels)
  width = max(map(len, AXES))
  numbers = range(1, len(AXES) + 1)
  head = "".join(f"{number:8}" for number in numbers) + "   words"
  lines = ["axes of words, in percent of the row", " " * (width + 4) + head]
  for number, axis, row in zip(numbers, AXES, counts, strict=True):
    # Each word counts in both orders.
    shares = 100 * row / max(1, row.sum())
    cells = "".join(f"{share:8.1f}" for share in shares)
    lines.append(f"  {number} {axis:<{width}}{cells}{row.sum() / 2:8.1f}")
  plain = confusion.merging(*labels)
  lines.append(
    f"  micro precision {plain.precision:.4f}, Cohen's kappa {plain.kappa:.4f}"
  )
  for merged in confusion.all_mergings(*labels)[:SHOWN_MERGINGS]:
    lines.append(
      f"  {' + '.join(merged.axes)} as one: {merged.precision:.4f}, "
      f"{merged.kappa:.4f} ({merged.kappa - plain.kappa:+.4f})"
    )
  return lines


def main() -> None:
  """Reads --annotations and prints the blocks."""
  path = flags.FLAGS.annotations
  annotations = records.read(path)
  try:
    blocks = [
      block(annotations)
      for block in (
        parameter_lines,
        averaging_lines,
        segment_lines,
        axis_lines,
      )
    ]
  except ValueError as error:
    raise ValueError(f"--annotations={path}: {error}") from error
  print("\n\n".join("\n".join(lines) for lines in blocks))


if __name__ == "__main__":
  flags.DEFINE_string(
    "annotations",
    None,
    "CSV with the columns sample_id, annotator, location, scale, skewness, "
    "segments. Example: --annotations=annotations.csv",
  )
  command_line.run(main, required=("annotations",))
