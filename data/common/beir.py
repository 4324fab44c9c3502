"""Layout of a BEIR folder with time keys, and its writer.

Retrieval code reads the three files of BEIR. A time key in the `metadata` that
BEIR leaves free makes somebody else's chronicle a data set like ours, to be
evaluated and trained on.

  corpus.jsonl    {"_id", "title", "text", "metadata": {"start", ...}}
  queries.jsonl   {"_id", "text", "metadata": {"start", "end", ...}}
  qrels/          train.tsv, dev.tsv, test.tsv: query-id, corpus-id, score
  reigns.tsv, metadata.json    see `provenance`

A key is `reign-year-month` such as 1-2-12: the row of the reign in the table,
the regnal year, the month; 1-2-12L is the leap month after it. Ids, texts and
`start` are required. Defaults of the others: kind event; the end of a query is
its start; family point, or window over several months; split test.

Source: BEIR (Thakur et al., 2021), layout of its data sets.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import tqdm

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.queries import SPLITS, Query
from ctd_jax.benchmark.records import Record
from ctd_jax.utils import files

BEIR_PREFIX = "beir:"
CORPUS_FILE = "corpus.jsonl"
QUERIES_FILE = "queries.jsonl"
QRELS_HEADER = "query-id\tcorpus-id\tscore"
# BEIR calls validation dev.
QRELS_FILES = {
  split: f"qrels/{'dev' if split == 'validation' else split}.tsv"
  for split in SPLITS
}

BEIR_DESCRIPTION = f"""\
BEIR: `{CORPUS_FILE}`, `{QUERIES_FILE}`, `qrels/*.tsv` (validation is
`dev`). The time keys and all else that is known of a text stand in its
`metadata`. To a retriever of track T0 that is the answer, not the question:
index `text` alone.

    python -m ctd_jax.evaluate --dataset={BEIR_PREFIX}FOLDER --baselines_only \\
      --workdir=RUN
    python -m ctd_jax.train --config=... --config.dataset={BEIR_PREFIX}FOLDER \\
      --workdir=RUN
"""


def describe_record(record: Record, split: str) -> dict[str, Any]:
  """Returns what is known of a record beside id and text, in its split."""
  return {
    "source": record.source,
    "kind": record.kind,
    "start": str(record.key),
    "end": str(record.key),  # a record is filed under one month
    "split": split,
    "version": record.version,
    "order": record.order,
    "match_score": record.match_score,
  }


def describe_query(query: Query, split: str) -> dict[str, Any]:
  """Returns what is known of a query beside id, text and positives."""
  return {
    "family": query.family,
    "paper_family": query.paper_family,
    "group": query.group,
    "split": split,
    "start": str(query.interval.start),
    "end": str(query.interval.end),
  }


def write_beir(benchmark: Benchmark, folder: pathlib.Path) -> None:
  """Writes corpus, queries and qrels into `folder`."""
  corpus = [
    _format_json_line(
      record.record_id,
      record.text,
      describe_record(record, split),
      {"title": ""},
    )
    for record, split in zip(
      tqdm.tqdm(benchmark.records, "records", disable=None, leave=False),
      benchmark.record_splits,
      strict=True,
    )
  ]
  files.write_text(folder / CORPUS_FILE, "".join(corpus))
  queries = [
    _format_json_line(
      query.query_id,
      query.text,
      describe_query(query, split),
    )
    for split, split_queries in benchmark.queries.items()
    for query in split_queries
  ]
  files.write_text(folder / QUERIES_FILE, "".join(queries))
  for split, split_queries in benchmark.queries.items():
    lines = [
      f"{query.query_id}\t{positive}\t1\n"
      for query in split_queries
      for positive in query.positives
    ]
    if lines:
      files.write_text(
        folder / QRELS_FILES[split], QRELS_HEADER + "\n" + "".join(lines)
      )


def _format_json_line(
  text_id: str,
  text: str,
  metadata: Mapping[str, Any],
  fields: Mapping[str, str] | None = None,
) -> str:
  row = {"_id": text_id, **(fields or {}), "text": text, "metadata": metadata}
  return json.dumps(row, ensure_ascii=False) + "\n"
