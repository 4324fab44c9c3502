"""Agreement of two annotators on segments and their axes.

All measures compare two annotations of one text.

Axes: W words of a text.

Source: Chronocept, arXiv 2505.07637v1, section on inter-annotator agreement
(choice of measures); Beeferman, Berger and Lafferty 1999 (Pk). The paper does
not say whether Jaccard compares labels or segments, so both are here.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
from jaxtyping import Int

from ctd_jax.tasks.chronocept.annotation.records import Annotation

MIN_WINDOW = 2  # words; Pk at distance 1 would count cuts only


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


def make_segment_ids(annotation: Annotation) -> Int[np.ndarray, " W"]:
  """Returns the index of the segment of each word."""
  lengths = [len(words) for _, words in annotation.segments]
  return np.repeat(np.arange(len(lengths)), lengths)


def compute_window(segments: Int[np.ndarray, " W"]) -> int:
  """Returns half the mean length of the segments in words, at least 2."""
  mean_length = len(segments) / len(np.unique(segments))
  return max(MIN_WINDOW, round(mean_length / 2))


def pk_one_way(
  reference: Int[np.ndarray, " W"], hypothesis: Int[np.ndarray, " W"]
) -> float:
  """Returns Pk of a segmentation against a reference.

  Args:
    reference: segment of each word; its mean length sets the window.
    hypothesis: segment of each word in the other segmentation.

  Returns:
    Share of pairs of words, a window apart, for which the segmentations
    disagree whether both words lie in one segment: 0 is agreement, about .5 is
    chance. A text too short for the window is probed at its longest distance;
    a single word agrees with itself.
  """
  distance = min(compute_window(reference), len(reference) - 1)
  if distance < 1:
    return 0.0
  # Whether the two words of each probe share a segment.
  same_segment = [
    x[distance:] == x[:-distance] for x in (reference, hypothesis)
  ]
  return float(np.mean(same_segment[0] != same_segment[1]))


def pk(first: Annotation, second: Annotation) -> float:
  """Returns the mean of Pk with either annotation as the reference."""
  segment_ids = make_segment_ids(first), make_segment_ids(second)
  return (pk_one_way(*segment_ids) + pk_one_way(*segment_ids[::-1])) / 2
