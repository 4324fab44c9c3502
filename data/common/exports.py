"""Writers of a data set for other tools: Parquet for `datasets`, files for
TREC.

To a retriever of track T0 all columns but the text are the answer, not the
question.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import tqdm
from huggingface_hub import DatasetCardData
from pyarrow import parquet

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import SPLITS, Benchmark
from ctd_jax.utils import files, output
from ctd_jax_datasets.common import beir

_ID = ("_id", pa.string())
_SCHEMAS = {
  "corpus": pa.schema(
    [
      _ID,
      ("title", pa.string()),
      ("text", pa.string()),
      ("source", pa.string()),
      ("kind", pa.string()),
      ("start", pa.string()),
      ("end", pa.string()),
      ("split", pa.string()),
      ("version", pa.string()),
      ("order", pa.int32()),
      ("match_score", pa.float64()),
    ]
  ),
  "queries": pa.schema(
    [
      _ID,
      ("text", pa.string()),
      ("family", pa.string()),
      ("paper_family", pa.string()),
      ("group", pa.string()),
      ("split", pa.string()),
      ("start", pa.string()),
      ("end", pa.string()),
    ]
  ),
  "qrels": pa.schema(
    [
      ("query-id", pa.string()),
      ("corpus-id", pa.string()),
      ("score", pa.int32()),
    ]
  ),
}
# Types as a data set card names them.
_DTYPES = {pa.string(): "string", pa.int32(): "int32", pa.float64(): "float64"}
# Splits of the configs that are not divided.
_WHOLE = ("corpus", "queries")

HF_DESCRIPTION = """\
Parquet, in three configs:

    import datasets

    corpus = datasets.load_dataset("FOLDER", "corpus", split="corpus")
    queries = datasets.load_dataset("FOLDER", "queries", split="queries")
    qrels = datasets.load_dataset("FOLDER", "qrels", split="test")

To a retriever of track T0 the other columns of the corpus are the answer, not
the question: index `text` alone.
"""


def write_hf(benchmark: Benchmark, folder: pathlib.Path) -> None:
  """Writes corpus, queries and qrels into `folder`."""
  rows = {
    ("corpus", "corpus"): [
      {
        "_id": record.record_id,
        "title": "",
        "text": record.text,
        **beir.describe_record(record, split),
      }
      for record, split in zip(
        benchmark.records, benchmark.record_splits, strict=True
      )
    ],
    ("queries", "queries"): [
      {
        "_id": query.query_id,
        "text": query.text,
        **beir.describe_query(query, split),
      }
      for split, queries in benchmark.queries.items()
      for query in queries
    ],
  }
  for split, queries in benchmark.queries.items():
    rows["qrels", split] = [
      {"query-id": query.query_id, "corpus-id": positive, "score": 1}
      for query in queries
      for positive in query.positives
    ]
  for (config, split), config_rows in rows.items():
    # A data set need not have questions in every split, nor any at all.
    if config_rows:
      path = folder / _parquet_name(config, split)
      path.parent.mkdir(exist_ok=True)
      table = pa.Table.from_pylist(config_rows, _SCHEMAS[config])
      parquet.write_table(table, path)


def _parquet_name(config: str, split: str) -> str:
  return f"{config}/{split}.parquet"


def format_card_header(
  benchmark: Benchmark, licence: str, folder: pathlib.Path
) -> str:
  """Returns the YAML that stands before the README of the folder.

  Args:
    licence: identifier of the hub, e.g. "cc-by-sa-4.0".
    folder: that `write_hf` has written.
  """
  described = [
    (config, info)
    for config, info in (_describe_config(name, folder) for name in _SCHEMAS)
    if config["data_files"]
  ]
  card_data = DatasetCardData(
    pretty_name=benchmark.name,
    license=licence,
    task_categories=["text-retrieval"],
    configs=[config for config, _ in described],
    dataset_info=[info for _, info in described],
  )
  return f"---\n{card_data.to_yaml()}\n---\n\n"


def _describe_config(
  config: str, folder: pathlib.Path
) -> tuple[dict[str, Any], dict[str, Any]]:
  """Returns a config's members of `configs` and of `dataset_info`."""
  splits = (config,) if config in _WHOLE else SPLITS
  files, split_sizes = [], []
  for split in splits:
    name = _parquet_name(config, split)
    if not (folder / name).exists():
      continue
    metadata = parquet.read_metadata(folder / name)
    files.append({"split": split, "path": name})
    split_sizes.append(
      {
        "name": split,
        "num_bytes": sum(
          metadata.row_group(i).total_byte_size
          for i in range(metadata.num_row_groups)
        ),
        "num_examples": metadata.num_rows,
      }
    )
  # What is opened if no config is named.
  default = {"default": True} if config == "corpus" else {}
  features = [
    {"name": field.name, "dtype": _DTYPES[field.type]}
    for field in _SCHEMAS[config]
  ]
  return (
    {"config_name": config, **default, "data_files": files},
    {"config_name": config, "features": features, "splits": split_sizes},
  )


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
  files.write_text(path, output.format_delimited(columns, rows))
