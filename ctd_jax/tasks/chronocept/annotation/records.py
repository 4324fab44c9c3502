"""Annotations of several annotators, read from a table and checked.

Agreement is defined for annotations of the same words, so a text that one
annotator shortened or rewrote is an error.

A CSV file with the header

  sample_id,annotator,location,scale,skewness,segments

has a row for each sample and annotator. `segments` is the whole text, cut up
in its order, each piece under its axis, between bars:

  main_outcome: She mends the clock | intention: and will sell it in June

Words are separated by white space; all annotators of a sample must have the
same words, however they cut them. Three empty numbers mean no curve.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from ctd_jax.utils import csv_rows
from ctd_jax_datasets.chronocept.samples import AXES, TARGETS


class AnnotationRow(msgspec.Struct):
  """A row of the table."""

  sample_id: str
  annotator: str
  location: float | None  # log time
  scale: Annotated[float, msgspec.Meta(gt=0)] | None  # log time
  skewness: float | None  # shape alpha
  segments: str

  def __post_init__(self):
    """Refuses numbers that are not finite, and half a curve."""
    values = self.location, self.scale, self.skewness
    for name, value in zip(TARGETS, values, strict=True):
      if value is None and any(other is not None for other in values):
        raise ValueError(f"{name} is empty; give three numbers or none")
      if value is not None and not math.isfinite(value):
        raise ValueError(f"{name}={value}: expected a finite number")


@dataclasses.dataclass(frozen=True)
class Annotation:
  """Annotation of a sample by one annotator.

  Attributes:
    sample_id: of the sample.
    annotator: name or number.
    curve: location, scale, skewness; None if there is no curve.
    segments: (axis, words) in the order of the text.
  """

  sample_id: str
  annotator: str
  curve: tuple[float, float, float] | None
  segments: tuple[tuple[str, tuple[str, ...]], ...]

  @property
  def words(self) -> tuple[str, ...]:
    """The words of the text."""
    return tuple(itertools.chain.from_iterable(w for _, w in self.segments))

  @property
  def word_axes(self) -> list[str]:
    """The axis of each word."""
    return [axis for axis, words in self.segments for _ in words]

  @property
  def axes(self) -> frozenset[str]:
    """The axes used."""
    return frozenset(axis for axis, _ in self.segments)


def read_annotations(path: str | os.PathLike) -> dict[str, list[Annotation]]:
  """Returns sample id -> its annotations, in order of annotator.

  Args:
    path: CSV as described above.

  Raises:
    ValueError: naming file, line and column at fault.
    FileNotFoundError: if there is no such file.
  """
  annotations_by_sample: dict[str, list[Annotation]] = {}
  for line, row in csv_rows.read_csv_rows(path, AnnotationRow):
    line_label = f"{path}:{line}: sample {row.sample_id}"
    annotation = _make_annotation(row, line_label)
    sample_annotations = annotations_by_sample.setdefault(row.sample_id, [])
    _check_consistency(sample_annotations, annotation, line_label)
    sample_annotations.append(annotation)
  if not annotations_by_sample:
    raise ValueError(f"{path}: no annotation below the header")
  return {
    sample_id: sorted(
      sample_annotations, key=lambda annotation: annotation.annotator
    )
    for sample_id, sample_annotations in annotations_by_sample.items()
  }


def make_annotator_pairs(
  annotations: Mapping[str, Sequence[Annotation]],
) -> dict[str, list[tuple[Annotation, Annotation]]]:
  """Returns sample id -> every pair of its annotations.

  Args:
    annotations: sample id -> annotations; samples with one are left out.
  """
  pairs_by_sample = {
    sample_id: list(itertools.combinations(sample_annotations, 2))
    for sample_id, sample_annotations in annotations.items()
  }
  return {
    sample_id: sample_pairs
    for sample_id, sample_pairs in pairs_by_sample.items()
    if sample_pairs
  }


def _make_annotation(row: AnnotationRow, line_label: str) -> Annotation:
  """Returns the annotation of a row after cutting up its segments."""
  segments = []
  # Colons may occur in a text; the first one ends the axis.
  for segment_text in row.segments.split("|"):
    axis, colon, text = segment_text.partition(":")
    axis = axis.strip()
    if not colon or axis not in AXES or not text.split():
      raise ValueError(
        f"{line_label}: segments: {segment_text.strip()!r} is not "
        f"'axis: words' with an axis among {', '.join(AXES)}"
      )
    segments.append((axis, tuple(text.split())))
  curve = None
  if row.location is not None:
    curve = row.location, row.scale, row.skewness
  return Annotation(row.sample_id, row.annotator, curve, tuple(segments))


def _check_consistency(
  earlier_annotations: Sequence[Annotation],
  new_annotation: Annotation,
  line_label: str,
) -> None:
  """Raises ValueError for a second row of an annotator, or other words."""
  annotators = [annotation.annotator for annotation in earlier_annotations]
  if new_annotation.annotator in annotators:
    raise ValueError(
      f"{line_label}: annotator {new_annotation.annotator} has two rows"
    )
  if not earlier_annotations:
    return
  # All earlier annotations have the same words.
  reference = earlier_annotations[0]
  if reference.words == new_annotation.words:
    return
  word_pairs = itertools.zip_longest(
    reference.words, new_annotation.words, fillvalue="(end)"
  )
  word_number, (reference_word, new_word) = next(
    (number, pair)
    for number, pair in enumerate(word_pairs, start=1)
    if pair[0] != pair[1]
  )
  raise ValueError(
    f"{line_label}: segments: word {word_number} is {new_word!r} for annotator "
    f"{new_annotation.annotator} and {reference_word!r} for "
    f"{reference.annotator}; a text is cut, never edited"
  )
