"""Removal of generated texts that are too similar to earlier ones.

Texts are read in order of their id. A text is dropped if its cosine to an
earlier text that was kept exceeds a threshold, by TF-IDF or by embeddings.

Source: Chronocept, arXiv 2505.07637v1, section on generation: 0.7 by either
cosine. The paper does not say which of two similar texts is dropped or how
TF-IDF is configured; here the later one, with scikit-learn's defaults.

Axes: N texts, D features.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from jaxtyping import Float
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import pairwise

from ctd_jax.utils import csv_rows

TFIDF = "tfidf"
EMBEDDING = "embedding"


class TextRow(msgspec.Struct):
  """A generated text."""

  sample_id: str
  text: str


@dataclasses.dataclass(frozen=True)
class FilterVerdict:
  """Decision about a text.

  Attributes:
    is_kept: whether the text is kept.
    nearest_index: index of the nearest kept text before it, by the highest of
      the cosines; None for the first text.
    cosines: name of the representation -> cosine to that text.
  """

  is_kept: bool
  nearest_index: int | None
  cosines: Mapping[str, float]


def compute_tfidf_cosines(texts: Sequence[str]) -> Float[np.ndarray, "N N"]:
  """Returns the cosines of TF-IDF vectors; 0 for a text without words.

  Args:
    texts: N texts.
  """
  # Rows have norm 1 already.
  vectors = TfidfVectorizer().fit_transform(texts)
  return (vectors @ vectors.T).toarray()


def compute_cosines(
  vectors: Float[np.ndarray, "N D"],
) -> Float[np.ndarray, "N N"]:
  """Returns the cosines of vectors; 0 with a zero vector.

  Args:
    vectors: of N texts.
  """
  return pairwise.cosine_similarity(vectors)


def filter_greedily(
  similarity: Mapping[str, Float[np.ndarray, "N N"]], threshold: float
) -> list[FilterVerdict]:
  """Returns a verdict for each text; the first of similar texts is kept.

  Args:
    similarity: name of the representation -> cosines.
    threshold: a text is dropped above it, by any representation.
  """
  # [representations, N, N] -> [N, N]
  max_similarity = np.max(list(similarity.values()), axis=0)
  kept_indices: list[int] = []
  verdicts = []
  for index, row in enumerate(max_similarity):
    nearest_index = (
      kept_indices[int(np.argmax(row[kept_indices]))] if kept_indices else None
    )
    # The threshold itself is kept.
    is_kept = nearest_index is None or row[nearest_index] <= threshold
    cosines = {
      name: float(values[index, nearest_index])
      for name, values in similarity.items()
      if nearest_index is not None
    }
    verdicts.append(FilterVerdict(bool(is_kept), nearest_index, cosines))
    if is_kept:
      kept_indices.append(index)
  return verdicts


def read_texts(path: str | os.PathLike) -> dict[str, str]:
  """Returns id -> text, in order of id.

  Args:
    path: CSV with the columns sample_id and text.

  Raises:
    ValueError: naming file, line and column at fault.
  """
  texts: dict[str, str] = {}
  for line, row in csv_rows.read_csv_rows(path, TextRow, strip_cells=False):
    if row.sample_id in texts:
      raise ValueError(
        f"{path}:{line}: sample_id {row.sample_id} was used before"
      )
    texts[row.sample_id] = row.text
  if not texts:
    raise ValueError(f"{path}: no text below the header")
  return dict(sorted(texts.items()))


def format_report(ids: Sequence[str], verdicts: Sequence[FilterVerdict]) -> str:
  """Returns the text of report.tsv, a line for each text.

  Args:
    ids: N ids.
    verdicts: of the texts.
  """
  # The first text has no cosines, the last one has all unless it is the first.
  names = list(verdicts[-1].cosines)
  lines = ["\t".join(["sample_id", "kept", "nearest", *names])]
  for sample_id, verdict in zip(ids, verdicts, strict=True):
    nearest_id = (
      "" if verdict.nearest_index is None else ids[verdict.nearest_index]
    )
    cells = (
      f"{verdict.cosines[name]:.4f}" if name in verdict.cosines else ""
      for name in names
    )
    answer = "yes" if verdict.is_kept else "no"
    lines.append("\t".join([sample_id, answer, nearest_id, *cells]))
  return "\n".join(lines) + "\n"


def format_kept_csv(
  texts: Mapping[str, str], verdicts: Sequence[FilterVerdict]
) -> str:
  """Returns the text of kept.csv, in the format of the input.

  Args:
    texts: id -> text.
    verdicts: of the texts.
  """
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  writer.writerow(TextRow.__struct_fields__)
  for row, verdict in zip(texts.items(), verdicts, strict=True):
    if verdict.is_kept:
      writer.writerow(row)
  return buffer.getvalue()
