"""Dates a corpus of many works, and encodes it, on one machine or several.

  python -m ctd_jax.corpora --input=texts --reigns=zh --out=dated
  python -m ctd_jax.corpora --input=texts --reigns=zh --out=dated \
    --encoder=exported --runner=DirectRunner --workers=4
  python -m ctd_jax.corpora --input=/nfs/texts --reigns=zh --out=/nfs/dated \
    --runner=DaskRunner -- --dask_scheduler_file=/nfs/scheduler.json

Each entry of the folder --input is read by itself: a file that holds a work, or
a folder with the files of one. Each work is dated as `ctd-jax date` dates it,
and written as parquet, a row for each of its sections: dates/*.parquet, with
the columns of dates.jsonl; and with --encoder a vector for each row, in
vectors/*.parquet. corpus.json lists the works, and those that could not be read
or dated, which end no run but give it the status 1.

With --links each section is linked to those of other works that share rare
strings with it, as they do who tell the same or quote it: links/*.parquet, a
row for each link. corpus.json says which strings were too common to count.

With --shard_rows too (pip install 'ctd_jax[lance]') all works are gathered in
Lance tables of so many rows, shards/*.lance, with an index over the vectors and
one over the days; `ctd-jax search-corpus` searches them where they lie.

Without --runner one process does all. Apache Beam (pip install 'ctd_jax[beam]')
spreads the works over processes of this machine, --runner=DirectRunner, or over
other machines, --runner=DaskRunner ([dask]) or another runner of Beam; its own
flags stand behind --. All of them have to see --input, --out and --encoder
under these paths, and to have ctd_jax installed. What is written is the same,
byte by byte; the index of a shard is learned from a sample of its vectors, and
may differ.

A run that was broken off goes on when it is started again: whatever was made
from the same text, calendar and version, or with the same encoder, is not made
again. Files of works that are gone are removed.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from absl import flags

from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.utils import beam_runner, command_line


def main(runner_arguments: Sequence[str]) -> int:
  """Dates the corpus of --input; returns the status of the exit."""
  # Here and not above: --help needs no JAX.
  from ctd_jax.corpora import corpus_building
  from ctd_jax.corpora.work_steps import CorpusSettings

  values = flags.FLAGS
  out = pathlib.Path(values.out).expanduser().resolve()
  corpus = corpus_building.build_corpus(
    [pathlib.Path(path).expanduser() for path in values.input],
    CorpusSettings(
      out=str(out),
      reigns=values.reigns,
      unit=values.unit,
      encoder=values.encoder,
      shard_rows=values.shard_rows,
      has_links=values.links,
    ),
    beam_runner.read_flags(runner_arguments, out),
  )
  print(corpus_building.format_summary(out, corpus))
  return int(bool(corpus.failed))


if __name__ == "__main__":
  flags.DEFINE_list(
    "input",
    None,
    "Files, and folders of which each entry is read by itself. Example: "
    "--input=texts",
  )
  flags.DEFINE_string(
    "reigns",
    None,
    "Calendar of the works, as of ctd-jax date. Example: --reigns=zh",
  )
  flags.DEFINE_string(
    "out", None, "Folder of the dated corpus. Example: --out=dated"
  )
  flags.DEFINE_enum(
    "unit",
    None,
    chronicle_input.UNITS,
    "What a record of plain text is; found from the text by default. Example: "
    "--unit=line",
  )
  flags.DEFINE_string(
    "encoder",
    None,
    "Makes vectors: a trained run, an exported one or a published encoder. "
    "Example: --encoder=exported",
  )
  flags.DEFINE_bool(
    "links",
    False,
    "Link sections of different works that share rare strings. Example: "
    "--links",
  )
  flags.DEFINE_integer(
    "shard_rows",
    None,
    "Rows of a table to be searched, of a corpus with vectors. Example: "
    "--shard_rows=1000000",
    lower_bound=1,
  )
  beam_runner.define_flags()
  command_line.run_main(
    main, required=("input", "reigns", "out"), takes_arguments=True
  )
