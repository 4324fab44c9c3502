"""Searches a dated corpus: sections near in meaning, of some years or of any.

  python -m ctd_jax.corpora.search --corpus=dated --encoder=exported 日食
  python -m ctd_jax.corpora.search --corpus=dated --encoder=exported \
    --years=-721:-700 --k=20 --exact 齊人來盟

The corpus was made by `ctd-jax corpora` with --encoder and --shard_rows. A line
is printed for each section: score, date (EDTF), year, work and row, text. With
--years only sections are found whose date can reach into these years; they are
astronomical, -721 is 722 BCE. An eighth of the lists of vectors is read, with
--exact all of them.

The status is 0 with an answer, 1 if nothing was found or after an error.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from absl import flags

from ctd_jax.utils import command_line

_YEARS = re.compile(r"(-?\d+):(-?\d+)")


def main(words: Sequence[str]) -> int:
  """Searches for the words of the arguments; returns the exit status."""
  # Here and not above: --help needs no JAX.
  from ctd_jax.corpora import corpus_files, shard_search, shards
  from ctd_jax.index.dense import encoders
  from ctd_jax.retrieval import lance_tables

  values = flags.FLAGS
  if not words:
    raise ValueError("nothing to search for; write the words behind the flags")
  folder = pathlib.Path(values.corpus).expanduser()
  years = _read_years(values.years)
  corpus = corpus_files.read_corpus_file(folder)
  lance_tables.import_lancedb("search-corpus")
  shards.list_shards(folder)  # before the encoder, which takes longer
  encoder = encoders.open_encoder(values.encoder)
  if encoder.sha256 != corpus.encoder:
    raise ValueError(
      f"--encoder={values.encoder}: not the one that the vectors of {folder} "
      f"were made with, sha256 {corpus.encoder or 'of none'}"
    )
  vectors = encoder.encode_questions([" ".join(words)])
  [hits] = shard_search.search_shards(
    folder, vectors, values.k, years, values.exact
  )
  for hit in hits:
    date = hit.edtf or "undated"
    print(
      f"{hit.score:.3f}  {date}  {hit.common_era}  {hit.work}:{hit.row}  "
      f"{hit.text}"
    )
  return int(not hits)


def _read_years(text: str | None) -> tuple[int, int] | None:
  """Returns the first and the last year of --years.

  Raises:
    ValueError: naming the flag.
  """
  if text is None:
    return None
  match = _YEARS.fullmatch(text)
  if match is None or int(match[1]) > int(match[2]):
    raise ValueError(
      f"--years={text}: expected the first and the last year, such as -721:-700"
    )
  return int(match[1]), int(match[2])


if __name__ == "__main__":
  flags.DEFINE_string(
    "corpus", None, "Folder of the dated corpus. Example: --corpus=dated"
  )
  flags.DEFINE_string(
    "encoder",
    None,
    "That made the vectors of the corpus. Example: --encoder=exported",
  )
  flags.DEFINE_integer(
    "k", 10, "Number of sections. Example: --k=20", lower_bound=1
  )
  flags.DEFINE_string(
    "years",
    None,
    "First and last year, astronomical, that a date can reach into. Example: "
    "--years=-721:-700",
  )
  flags.DEFINE_bool("exact", False, "Compare all vectors, not some lists.")
  command_line.run_main(
    main, required=("corpus", "encoder"), takes_arguments=True
  )
