"""Writer of a data set in the files that TREC tools read.

  docs.jsonl             {"id", "contents"}: a JsonCollection (Anserini)
  topics.SPLIT.tsv       query id, text
  qrels.SPLIT.txt        query id, 0, record id, 1
  records.tsv, queries.tsv   all other fields, time keys included

The keys stand apart from the texts, so that no indexer takes them in: to a
retriever of track T0 they are the answer.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Sequence

import tqdm

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.utils import files, tables

# Fields of a record and of a query, in the order of the columns.
_RECORD_FIELDS = ("record_id", "source", "kind", "key", "version", "order")
_QUERY_FIELDS = ("query_id", "family", "paper_family", "group")

TREC_DESCRIPTION = """\
TREC: `docs.jsonl` (id, contents), `topics.SPLIT.tsv`, `qrels.SPLIT.txt`; what
else is known of records and queries, time keys included, is in `records.tsv`
and `queries.tsv`, apart from the texts: to a retriever of track T0 it is the
answer, not the question.

A run file named `run.SYSTEM.SPLIT.GALLERY.trec` with `SYSTEM:TRACK:SCORE` in
its last column joins the tables of an evaluation.
"""


def write_trec(benchmark: Benchmark, folder: pathlib.Path) -> None:
  """Writes documents, topics, qrels and both tables into `folder`.

  White space inside a topic becomes one space: a topic is one line.
  """
  docs = [
    json.dumps({"id": r.record_id, "contents": r.text}, ensure_ascii=False)
    for r in tqdm.tqdm(benchmark.records, "records", disable=None, leave=False)
  ]
  files.write_text(folder / "docs.jsonl", "".join(f"{row}\n" for row in docs))
  records = [
    [
      *(getattr(record, field) for field in _RECORD_FIELDS),
      record.match_score,
      split,
    ]
    for record, split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
  ]
  _write_table(
    folder / "records.tsv", (*_RECORD_FIELDS, "match_score", "split"), records
  )
  queries = []
  for split, split_queries in benchmark.queries.items():
    for query in split_queries:
      interval_bounds = query.interval.start, query.interval.end
      queries.append(
        [*(getattr(query, f) for f in _QUERY_FIELDS), *interval_bounds, split]
      )
    if split_queries:
      topics = [
        f"{q.query_id}\t{' '.join(q.text.split())}\n" for q in split_queries
      ]
      files.write_text(folder / f"topics.{split}.tsv", "".join(topics))
      runs.write_qrels(
        folder / f"qrels.{split}.txt",
        {q.query_id: q.positives for q in split_queries},
      )
  _write_table(
    folder / "queries.tsv", (*_QUERY_FIELDS, "start", "end", "split"), queries
  )


def _write_table(
  path: pathlib.Path,
  columns: Sequence[str],
  rows: Iterable[Sequence[object]],
) -> None:
  files.write_text(path, tables.format_delimited(columns, rows))
