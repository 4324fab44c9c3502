"""Drops generated texts that repeat earlier ones, and reports each.

  python -m ctd_jax.tasks.chronocept.annotation.prefilter --texts=texts.csv --out=kept
  python -m ctd_jax.tasks.chronocept.annotation.prefilter --texts=texts.csv --out=kept \\
    --encoder=FOLDER

The CSV has the columns sample_id and text. Texts are read in order of their
id; one is dropped if it is closer than 0.7 to an earlier one that was kept, by
cosine of TF-IDF or, with --encoder (the folder of a sentence encoder), by
cosine of embeddings. `kept.csv` has what is left, `report.tsv` a line for each
text: whether it was kept, the nearest kept text before it and both cosines.

Source: Chronocept, arXiv 2505.07637v1, section on generation: 0.7 by either.
The paper does not say which of two is dropped nor how TF-IDF is set up; here
the later one, and scikit-learn's defaults.

Axes: N texts.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from absl import flags
from sklearn.feature_extraction.text import TfidfVectorizer

from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.utils import command_line, files

THRESHOLD = 0.7
COLUMNS = ("sample_id", "text")
TFIDF = "tfidf"
EMBEDDING = "embedding"


@dataclasses.dataclass(frozen=True)
class FilterVerdict:
  """What became of a text.

  Attributes:
    is_kept: whether it stays.
    nearest_index: number of the kept text before it that is nearest by the highest
      of the cosines; None for the first text.
    cosines: name of the representation -> cosine to that text.
  """

  is_kept: bool
  nearest_index: int | None
  cosines: Mapping[str, float]


def compute_tfidf_cosines(texts: Sequence[str]) -> np.ndarray:
  """Returns cosines of TF-IDF vectors, [N, N]; without a word, 0."""
  vectors = TfidfVectorizer().fit_transform(texts)
  return (vectors @ vectors.T).toarray()


def compute_cosines(vectors: np.ndarray) -> np.ndarray:
  """Returns cosines of vectors [N, D] as [N, N]."""
  unit_vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
  return unit_vectors @ unit_vectors.T


def filter_greedily(
  similarity: Mapping[str, np.ndarray], threshold: float = THRESHOLD
) -> list[FilterVerdict]:
  """Returns a verdict for each text: the first of similar ones is kept.

  Args:
    similarity: name of the representation -> cosines [N, N].
    threshold: a text is dropped above it, by any representation.
  """
  max_similarity = np.max(list(similarity.values()), axis=0)
  kept_indices: list[int] = []
  verdicts = []
  for index, row in enumerate(max_similarity):
    nearest_index = (
      kept_indices[int(np.argmax(row[kept_indices]))] if kept_indices else None
    )
    is_kept = nearest_index is None or row[nearest_index] <= threshold
    nearest_cosines = {
      name: float(values[index, nearest_index])
      for name, values in similarity.items()
      if nearest_index is not None
    }
    verdicts.append(
      FilterVerdict(bool(is_kept), nearest_index, nearest_cosines)
    )
    if is_kept:
      kept_indices.append(index)
  return verdicts


def read_texts(path: str | os.PathLike) -> dict[str, str]:
  """Returns id -> text, in order of id.

  Raises:
    ValueError: naming file, line and column at fault.
  """
  texts: dict[str, str] = {}
  with pathlib.Path(path).open(encoding="utf-8-sig", newline="") as file:
    reader = csv.DictReader(file)
    for name in COLUMNS:
      if name not in (reader.fieldnames or ()):
        raise ValueError(f"{path}:1: no column {name}")
    for row in reader:
      line_label = f"{path}:{reader.line_num}"
      sample_id, text = row["sample_id"], row["text"]
      if not sample_id or not text or not text.strip():
        raise ValueError(f"{line_label}: sample_id or text is empty")
      if sample_id in texts:
        raise ValueError(f"{line_label}: sample_id {sample_id} was used before")
      texts[sample_id] = text
  if not texts:
    raise ValueError(f"{path}: no text below the header")
  return dict(sorted(texts.items()))


def format_report(ids: Sequence[str], verdicts: Sequence[FilterVerdict]) -> str:
  """Returns the lines of `report.tsv`."""
  names = list(verdicts[-1].cosines)
  lines = ["\t".join(["sample_id", "kept", "nearest", *names])]
  for sample_id, verdict in zip(ids, verdicts, strict=True):
    nearest = (
      "" if verdict.nearest_index is None else ids[verdict.nearest_index]
    )
    cells = (
      f"{verdict.cosines[name]:.4f}" if name in verdict.cosines else ""
      for name in names
    )
    answer = "yes" if verdict.is_kept else "no"
    lines.append("\t".join([sample_id, answer, nearest, *cells]))
  return "\n".join(lines) + "\n"


def format_kept_csv(
  texts: Mapping[str, str], verdicts: Sequence[FilterVerdict]
) -> str:
  """Returns the lines of `kept.csv`."""
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  writer.writerow(COLUMNS)
  for row, verdict in zip(texts.items(), verdicts, strict=True):
    if verdict.is_kept:
      writer.writerow(row)
  return buffer.getvalue()


def main() -> None:
  """Filters the texts of --texts."""
  flag_values = flags.FLAGS
  texts = read_texts(flag_values.texts)
  similarity = {TFIDF: compute_tfidf_cosines(list(texts.values()))}
  if flag_values.encoder:
    encoder = TextEncoder.load(
      flag_values.encoder, pooling="mean", normalize=True
    )
    similarity[EMBEDDING] = compute_cosines(
      encoder.encode(list(texts.values()))
    )
  verdicts = filter_greedily(similarity, flag_values.threshold)
  out = pathlib.Path(flag_values.out).expanduser()
  files.write_text(out / "report.tsv", format_report(list(texts), verdicts))
  files.write_text(out / "kept.csv", format_kept_csv(texts, verdicts))
  num_dropped = sum(not verdict.is_kept for verdict in verdicts)
  print(
    f"{len(texts)} texts, {num_dropped} dropped; {out}/kept.csv, report.tsv"
  )


if __name__ == "__main__":
  flags.DEFINE_string(
    "texts",
    None,
    "CSV with the columns sample_id and text. Example: --texts=texts.csv",
  )
  flags.DEFINE_string(
    "out", None, "Folder for kept.csv and report.tsv. Example: --out=kept"
  )
  flags.DEFINE_string(
    "encoder",
    None,
    "Folder or hub id of a sentence encoder; without it, TF-IDF alone. "
    "Example: --encoder=sentence-transformers/all-MiniLM-L6-v2",
  )
  flags.DEFINE_float(
    "threshold",
    THRESHOLD,
    "Cosine above which a text is dropped. Example: --threshold=0.8",
    lower_bound=0.0,
    upper_bound=1.0,
  )
  command_line.run_main(main, required=("texts", "out"))
