"""Which axes annotators take for one another, and what merging two would do.

Called by `agreement`. The unit is a word: both annotators give each word of a
text one axis, so every text fills the matrix however it was cut.

Source: Chronocept, arXiv 2505.07637v1, Figure 4 and the analysis of merging
beside it (micro precision and kappa before and after generic and static are
one axis); it does not name its unit, and its figures cannot be had from the
printed matrix.

Axes: A axes of validity.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable

import numpy as np
import sklearn.metrics

from ctd_jax.tasks.chronocept.annotation.records import Annotation
from ctd_jax_datasets.chronocept.samples import AXES


@dataclasses.dataclass(frozen=True)
class Merging:
  """What agreement is once two axes count as one.

  Attributes:
    axes: the two that are merged; () for none.
    precision: micro precision, the share of words with one axis for both.
    kappa: Cohen's, agreement beyond chance.
  """

  axes: tuple[str, ...]
  precision: float
  kappa: float


def make_word_labels(
  pairs: Iterable[tuple[Annotation, Annotation]],
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the axes that first and second annotators gave, int [words] each.

  Every pair is counted in both orders: neither annotator is the truth.
  """
  axis_index = {axis: n for n, axis in enumerate(AXES)}
  first, second = [], []
  for first_annotation, second_annotation in pairs:
    first += [axis_index[axis] for axis in first_annotation.word_axes]
    second += [axis_index[axis] for axis in second_annotation.word_axes]
  return np.array(first + second), np.array(second + first)


def compute_confusion_matrix(
  first: np.ndarray, second: np.ndarray
) -> np.ndarray:
  """Returns counts of words, int [A, A], rows by the first annotator."""
  return sklearn.metrics.confusion_matrix(
    first, second, labels=np.arange(len(AXES))
  )


def measure_merging(
  first: np.ndarray, second: np.ndarray, axes: tuple[str, ...] = ()
) -> Merging:
  """Returns agreement with some axes taken for one.

  Args:
    first: labels of words, see `word_labels`.
    second: likewise, by the other annotator.
    axes: names in `AXES` that count as the first of them.
  """
  if axes:
    merged_labels = [AXES.index(axis) for axis in axes]
    first, second = (
      np.where(np.isin(labels, merged_labels), merged_labels[0], labels)
      for labels in (first, second)
    )
  # Of single labels, micro precision is accuracy.
  precision = sklearn.metrics.accuracy_score(first, second)
  # Everybody always choosing one axis agrees, but not beyond chance.
  used_labels = np.union1d(first, second)
  kappa = (
    sklearn.metrics.cohen_kappa_score(first, second)
    if len(used_labels) > 1
    else 0.0
  )
  return Merging(axes, float(precision), float(kappa))


def rank_mergings(first: np.ndarray, second: np.ndarray) -> list[Merging]:
  """Returns every merging of two axes that were used, highest kappa first.

  By kappa, since merging can only raise the share of equal labels.
  """
  used_axes = [AXES[n] for n in np.union1d(first, second)]
  mergings = [
    measure_merging(first, second, axis_pair)
    for axis_pair in itertools.combinations(used_axes, 2)
  ]
  return sorted(mergings, key=lambda m: -m.kappa)
