"""Command that drops generated texts similar to earlier ones.

  python -m ctd_jax.tasks.chronocept.annotation.prefilter \\
    --texts=texts.csv --out=filtered --encoder=FOLDER

The CSV has the columns sample_id and text. A text is dropped if its cosine to
an earlier text that was kept exceeds --threshold, by TF-IDF or, with --encoder
(the folder of a sentence encoder), by embeddings. The output is kept.csv and
report.tsv, a line for each text: whether it was kept, the nearest kept text
before it and the cosines.
"""

from __future__ import annotations

import pathlib

from absl import flags

from ctd_jax.utils import command_line

THRESHOLD = 0.7  # as published


def filter_texts(
  texts_path: str, out: str, encoder: str | None, threshold: float
) -> None:
  """Writes kept.csv and report.tsv and prints how many texts were dropped.

  Args:
    texts_path: CSV of the texts.
    out: folder, created if absent.
    encoder: folder or hub id of a sentence encoder; None uses TF-IDF alone.
    threshold: cosine above which a text is dropped.

  Raises:
    ValueError: naming file, line and column at fault.
    FileNotFoundError: if the table or the encoder is missing.
  """
  # Not at the top: --help needs neither JAX nor scikit-learn.
  from ctd_jax.models.text_encoder import TextEncoder
  from ctd_jax.tasks.chronocept.annotation import similarity_filter
  from ctd_jax.utils import files

  text_by_id = similarity_filter.read_texts(texts_path)
  ids, texts = list(text_by_id), list(text_by_id.values())
  similarity = {
    similarity_filter.TFIDF: similarity_filter.compute_tfidf_cosines(texts)
  }
  if encoder:
    text_encoder = TextEncoder.load(encoder, side="record", normalize=True)
    similarity[similarity_filter.EMBEDDING] = similarity_filter.compute_cosines(
      text_encoder.encode(texts)
    )
  verdicts = similarity_filter.filter_greedily(similarity, threshold)
  folder = pathlib.Path(out).expanduser()
  files.write_text(
    folder / "report.tsv", similarity_filter.format_report(ids, verdicts)
  )
  files.write_text(
    folder / "kept.csv", similarity_filter.format_kept_csv(text_by_id, verdicts)
  )
  num_dropped = sum(not verdict.is_kept for verdict in verdicts)
  print(
    f"{len(texts)} texts, {num_dropped} dropped; {folder}/kept.csv, report.tsv"
  )


def main() -> None:
  """Filters the texts of --texts."""
  values = flags.FLAGS
  filter_texts(values.texts, values.out, values.encoder, values.threshold)


if __name__ == "__main__":
  flags.DEFINE_string(
    "texts",
    None,
    "CSV with the columns sample_id and text. Example: --texts=texts.csv",
  )
  flags.DEFINE_string(
    "out", None, "Folder for kept.csv and report.tsv. Example: --out=filtered"
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
