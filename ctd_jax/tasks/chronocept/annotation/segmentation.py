"""Agreement of two annotators about segments and their axes.

Called by `agreement`. All measures are of one pair of annotations of one text.

Source: Chronocept, arXiv 2505.07637v1, section on inter-annotator agreement
(which measures); Beeferman, Berger and Lafferty 1999 (Pk). The paper does not
say whether Jaccard compares labels or segments: both are here.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from ctd_jax.tasks.chronocept.annotation.records import Annotation

MIN_WINDOW = 2  # words


def jaccard(first: Set, second: Set) -> float:
  """Returns intersection over union; 1 for two empty sets."""
  union = first | second
  return len(first & second) / len(union) if union else 1.0


def label_jaccard(first: Annotation, second: Annotation) -> float:
  """Returns the Jaccard index of the sets of axes used."""
  return jaccard(first.axes, second.axes)


def segment_jaccard(first: Annotation, second: Annotation) -> float:
  """Returns the Jaccard index of the sets of (axis, segment)."""
  return jaccard(set(first.segments), set(second.segments))


def make_segment_ids(annotation: Annotation) -> np.ndarray:
  """Returns the number of the segment that each word lies in, int [words]."""
  lengths = [len(words) for _, words in annotation.segments]
  return np.repeat(np.arange(len(lengths)), lengths)


def compute_window(segments: np.ndarray) -> int:
  """Returns half the mean length of the segments in words, at least 2."""
  mean_length = len(segments) / len(np.unique(segments))
  return max(MIN_WINDOW, round(mean_length / 2))


def pk_one_way(reference: np.ndarray, hypothesis: np.ndarray) -> float:
  """Returns Pk: how often two words a window apart are judged differently.

  Args:
    reference: segment of each word, int [words]; its segments set the window.
    hypothesis: the same of the other segmentation.

  Returns:
    Share of probes on which the two disagree whether both words lie in one
    segment: 0 is agreement, about .5 is chance. A text too short for the
    window is probed with its longest distance; one word agrees with itself.
  """
  distance = min(compute_window(reference), len(reference) - 1)
  if distance < 1:
    return 0.0
  same_segment = [
    x[distance:] == x[:-distance] for x in (reference, hypothesis)
  ]
  return float(np.mean(same_segment[0] != same_segment[1]))


def pk(first: Annotation, second: Annotation) -> float:
  """Returns Pk averaged over which of the two is the reference."""
  segment_ids = make_segment_ids(first), make_segment_ids(second)
  return (pk_one_way(*segment_ids) + pk_one_way(*segment_ids[::-1])) / 2
