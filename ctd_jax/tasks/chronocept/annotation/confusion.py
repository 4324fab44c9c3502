"""Confusion of axes between annotators, and the effect of merging two axes.

The unit is a word: each annotator gives every word of a text one axis, so a
text contributes all its words however it was cut.

Axes: W words, A axes of validity.

Source: Chronocept, arXiv 2505.07637v1, Figure 4 and the analysis of merging
beside it (micro precision and kappa before and after generic and static are
one axis). The paper does not name its unit, and its figures cannot be derived
from the printed matrix.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable

import numpy as np
import sklearn.metrics
from jaxtyping import Int

from ctd_jax.tasks.chronocept.annotation.records import Annotation
from ctd_jax_datasets.chronocept.samples import AXES


@dataclasses.dataclass(frozen=True)
class Merging:
  """Agreement after two axes are merged.

  Attributes:
    axes: names of the merged axes; () for none.
    precision: micro precision, the share of words with one axis for both.
    kappa: Cohen's kappa, agreement beyond chance.
  """

  axes: tuple[str, ...]
  precision: float
  kappa: float


def make_word_labels(
  pairs: Iterable[tuple[Annotation, Annotation]],
) -> tuple[Int[np.ndarray, " W"], Int[np.ndarray, " W"]]:
  """Returns the axes of words by the first and by the second annotators.

  Every pair is counted in both orders, since neither annotator is the truth.

  Args:
    pairs: annotations of one text each.
  """
  axis_index = {axis: n for n, axis in enumerate(AXES)}
  first, second = [], []
  for first_annotation, second_annotation in pairs:
    first += [axis_index[axis] for axis in first_annotation.word_axes]
    second += [axis_index[axis] for axis in second_annotation.word_axes]
  return np.array(first + second), np.array(second + first)


def compute_confusion_matrix(
  first: Int[np.ndarray, " W"], second: Int[np.ndarray, " W"]
) -> Int[np.ndarray, "A A"]:
  """Returns counts of words.

  Args:
    first: labels by the first annotator, the rows.
    second: labels by the second annotator, the columns.
  """
  return sklearn.metrics.confusion_matrix(
    first, second, labels=np.arange(len(AXES))
  )


def measure_merging(
  first: Int[np.ndarray, " W"],
  second: Int[np.ndarray, " W"],
  axes: tuple[str, ...] = (),
) -> Merging:
  """Returns the agreement after some axes are merged.

  Args:
    first: labels of words, see `make_word_labels`.
    second: labels by the other annotator.
    axes: names in `AXES` that are replaced by the first of them.
  """
  if axes:
    merged_labels = [AXES.index(axis) for axis in axes]
    first, second = (
      np.where(np.isin(labels, merged_labels), merged_labels[0], labels)
      for labels in (first, second)
    )
  # With one label for each word, micro precision is accuracy.
  precision = sklearn.metrics.accuracy_score(first, second)
  # With a single axis, agreement is complete but not beyond chance, and
  # scikit-learn's kappa is NaN.
  used_labels = np.union1d(first, second)
  kappa = (
    sklearn.metrics.cohen_kappa_score(first, second)
    if len(used_labels) > 1
    else 0.0
  )
  return Merging(axes, float(precision), float(kappa))


def rank_mergings(
  first: Int[np.ndarray, " W"], second: Int[np.ndarray, " W"]
) -> list[Merging]:
  """Returns every merging of two axes in use, highest kappa first.

  The order is by kappa, since merging never lowers micro precision.

  Args:
    first: labels of words, see `make_word_labels`.
    second: labels by the other annotator.
  """
  used_axes = [AXES[n] for n in np.union1d(first, second)]
  mergings = [
    measure_merging(first, second, axis_pair)
    for axis_pair in itertools.combinations(used_axes, 2)
  ]
  return sorted(mergings, key=lambda m: -m.kappa)
