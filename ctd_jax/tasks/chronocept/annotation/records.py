"""What annotators handed in, read from a table and checked.

Why: agreement can only be computed of annotations of the same words; a piece
left out or rewritten by one annotator must be found before any coefficient is.
Called by `agreement` and `curve_averaging`.

A CSV file with the header

  sample_id,annotator,location,scale,skewness,segments

has a row for each sample and annotator. `segments` is the whole text, cut up
in its order, each piece under its axis, between bars:

  main_outcome: She mends the clock | intention: and will sell it in June

Words are what white space divides; all annotators of a sample must have the
same words, however they cut them. Three empty numbers mean no curve.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
import os
import pathlib
from collections.abc import Mapping, Sequence

from ctd_jax_datasets.chronocept.samples import AXES, TARGETS

COLUMNS = ("sample_id", "annotator", *TARGETS, "segments")


@dataclasses.dataclass(frozen=True)
class Annotation:
  """One annotator's work on one sample.

  Attributes:
    sample_id: of the sample.
    annotator: name or number.
    curve: location, scale, skewness; None if no curve was drawn.
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
    ValueError: naming file, line, sample and column at fault.
  """
  with pathlib.Path(path).open(encoding="utf-8-sig", newline="") as file:
    reader = csv.DictReader(file)
    header = reader.fieldnames or ()
    missing = [name for name in COLUMNS if name not in header]
    if missing:
      raise ValueError(
        f"{path}:1: no column {', '.join(missing)}; expected the header "
        f"{','.join(COLUMNS)}"
      )
    annotations_by_sample: dict[str, list[Annotation]] = {}
    for row in reader:
      line_label = f"{path}:{reader.line_num}: sample {row['sample_id']}"
      annotation = _parse_annotation(row, line_label)
      sample_annotations = annotations_by_sample.setdefault(
        annotation.sample_id, []
      )
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
  """Returns sample id -> every pair of its annotators; single ones drop out."""
  pairs_by_sample = {
    sample_id: list(itertools.combinations(sample_annotations, 2))
    for sample_id, sample_annotations in annotations.items()
  }
  return {
    sample_id: sample_pairs
    for sample_id, sample_pairs in pairs_by_sample.items()
    if sample_pairs
  }


def _parse_annotation(row: Mapping[str, str], line_label: str) -> Annotation:
  if None in row or None in row.values():
    raise ValueError(
      f"{line_label}: expected {len(COLUMNS)} columns; quote commas"
    )
  for name in ("sample_id", "annotator"):
    if not row[name].strip():
      raise ValueError(f"{line_label}: {name} is empty")
  segments = []
  for segment_text in row["segments"].split("|"):
    axis, colon, text = segment_text.partition(":")
    axis = axis.strip()
    if not colon or axis not in AXES or not text.split():
      raise ValueError(
        f"{line_label}: segments: {segment_text.strip()!r} is not 'axis: words' with an "
        f"axis among {', '.join(AXES)}"
      )
    segments.append((axis, tuple(text.split())))
  return Annotation(
    row["sample_id"].strip(),
    row["annotator"].strip(),
    _parse_curve([row[name].strip() for name in TARGETS], line_label),
    tuple(segments),
  )


def _parse_curve(
  cells: Sequence[str], line_label: str
) -> tuple[float, float, float] | None:
  if not any(cells):
    return None
  values = []
  for name, cell in zip(TARGETS, cells, strict=True):
    try:
      values.append(float(cell))
    except ValueError:
      values.append(math.nan)
    if not math.isfinite(values[-1]) or (name == "scale" and values[-1] <= 0):
      expected_kind = "positive number" if name == "scale" else "number"
      raise ValueError(
        f"{line_label}: {name}={cell!r}: expected a {expected_kind}"
      )
  return tuple(values)


def _check_consistency(
  earlier_annotations: Sequence[Annotation],
  new_annotation: Annotation,
  line_label: str,
) -> None:
  """Refuses a second annotation by one annotator, and other words."""
  if any(
    earlier_annotation.annotator == new_annotation.annotator
    for earlier_annotation in earlier_annotations
  ):
    raise ValueError(
      f"{line_label}: annotator {new_annotation.annotator} has two rows"
    )
  if (
    not earlier_annotations
    or earlier_annotations[0].words == new_annotation.words
  ):
    return
  word_pairs = itertools.zip_longest(
    earlier_annotations[0].words, new_annotation.words, fillvalue="(end)"
  )
  word_number, (earlier_word, new_word) = next(
    (n, pair)
    for n, pair in enumerate(word_pairs, start=1)
    if pair[0] != pair[1]
  )
  raise ValueError(
    f"{line_label}: segments: word {word_number} is {new_word!r} for annotator "
    f"{new_annotation.annotator} and {earlier_word!r} for {earlier_annotations[0].annotator}; a text is "
    "cut, never edited"
  )
