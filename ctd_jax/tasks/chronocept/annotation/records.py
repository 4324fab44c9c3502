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


def read(path: str | os.PathLike) -> dict[str, list[Annotation]]:
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
    found: dict[str, list[Annotation]] = {}
    for row in reader:
      place = f"{path}:{reader.line_num}: sample {row['sample_id']}"
      annotation = _annotation(row, place)
      known = found.setdefault(annotation.sample_id, [])
      _check_against(known, annotation, place)
      known.append(annotation)
  if not found:
    raise ValueError(f"{path}: no annotation below the header")
  return {
    sample_id: sorted(known, key=lambda annotation: annotation.annotator)
    for sample_id, known in found.items()
  }


def pairs(
  annotations: Mapping[str, Sequence[Annotation]],
) -> dict[str, list[tuple[Annotation, Annotation]]]:
  """Returns sample id -> every pair of its annotators; single ones drop out."""
  found = {
    sample_id: list(itertools.combinations(known, 2))
    for sample_id, known in annotations.items()
  }
  return {sample_id: both for sample_id, both in found.items() if both}


def _annotation(row: Mapping[str, str], place: str) -> Annotation:
  if None in row or None in row.values():
    raise ValueError(f"{place}: expected {len(COLUMNS)} columns; quote commas")
  for name in ("sample_id", "annotator"):
    if not row[name].strip():
      raise ValueError(f"{place}: {name} is empty")
  segments = []
  for piece in row["segments"].split("|"):
    axis, colon, text = piece.partition(":")
    axis = axis.strip()
    if not colon or axis not in AXES or not text.split():
      raise ValueError(
        f"{place}: segments: {piece.strip()!r} is not 'axis: words' with an "
        f"axis among {', '.join(AXES)}"
      )
    segments.append((axis, tuple(text.split())))
  return Annotation(
    row["sample_id"].strip(),
    row["annotator"].strip(),
    _curve([row[name].strip() for name in TARGETS], place),
    tuple(segments),
  )


def _curve(
  cells: Sequence[str], place: str
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
      kind = "positive number" if name == "scale" else "number"
      raise ValueError(f"{place}: {name}={cell!r}: expected a {kind}")
  return tuple(values)


def _check_against(
  known: Sequence[Annotation], fresh: Annotation, place: str
) -> None:
  """Refuses a second annotation by one annotator, and other words."""
  if any(other.annotator == fresh.annotator for other in known):
    raise ValueError(f"{place}: annotator {fresh.annotator} has two rows")
  if not known or known[0].words == fresh.words:
    return
  both = itertools.zip_longest(known[0].words, fresh.words, fillvalue="(end)")
  number, (theirs, ours) = next(
    (n, pair) for n, pair in enumerate(both, start=1) if pair[0] != pair[1]
  )
  raise ValueError(
    f"{place}: segments: word {number} is {ours!r} for annotator "
    f"{fresh.annotator} and {theirs!r} for {known[0].annotator}; a text is "
    "cut, never edited"
  )
