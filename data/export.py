"""Writes a data set in a format that other programs read.

The formats are BEIR, TREC, Parquet for the Hugging Face Hub, and the three
files that the authors' scripts read. The folder also has the calendar, a hash
of the contents and a README.

Example:
  python -m ctd_jax_datasets.export chunqiutr/mini --format=beir --out=mini
"""

import contextlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import tqdm
from absl import app, flags
from etils import epath
from huggingface_hub import DatasetCardData
from pyarrow import parquet

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import SPLITS, Benchmark
from ctd_jax.utils import files, output
from ctd_jax_datasets import build, load
from ctd_jax_datasets.chunqiutr import release_months, release_writer
from ctd_jax_datasets.common import beir, provenance, summary

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


def _describe_type(type_: pa.DataType) -> dict[str, str]:
  """Returns a type as a data set card describes it."""
  if pa.types.is_list(type_):
    return {"sequence": _DTYPES[type_.value_type]}
  return {"dtype": _DTYPES[type_]}


HF_DESCRIPTION = """\
Parquet, in three configs:

    import datasets

    corpus = datasets.load_dataset("FOLDER", "corpus", split="corpus")
    queries = datasets.load_dataset("FOLDER", "queries", split="queries")
    qrels = datasets.load_dataset("FOLDER", "qrels", split="test")

A retriever of track T0 must not see the other columns of the corpus: index
`text` alone.
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
      path = folder / config / f"{split}.parquet"
      path.parent.mkdir(exist_ok=True)
      table = pa.Table.from_pylist(config_rows, _SCHEMAS[config])
      parquet.write_table(table, path)


def format_card_header(
  name: str, licence: str, task: str, folder: pathlib.Path
) -> str:
  """Returns the YAML that comes before the README of the folder.

  Args:
    name: name of the data set, with its version.
    licence: identifier of the hub, e.g. "cc-by-sa-4.0".
    task: task category of the hub, e.g. "text-retrieval".
    folder: folder with a file CONFIG/SPLIT.parquet for each split.
  """
  configs, infos = [], []
  order = [*_SCHEMAS, *SPLITS]
  paths: dict[str, list[pathlib.Path]] = {}
  for path in sorted(
    folder.glob("*/*.parquet"),
    key=lambda path: [
      order.index(part) if part in order else -1
      for part in (path.parent.name, path.stem)
    ],
  ):
    paths.setdefault(path.parent.name, []).append(path)
  for config, config_paths in paths.items():
    data_files, sizes = [], []
    for path in config_paths:
      file_name = path.relative_to(folder).as_posix()
      data_files.append({"split": path.stem, "path": file_name})
      file = parquet.read_metadata(path)
      num_bytes = sum(
        file.row_group(i).total_byte_size for i in range(file.num_row_groups)
      )
      sizes.append(
        {
          "name": path.stem,
          "num_bytes": num_bytes,
          "num_examples": file.num_rows,
        }
      )
    # What is opened if no config is named.
    default = {} if configs else {"default": True}
    configs.append({"config_name": config, **default, "data_files": data_files})
    features = [
      {"name": field.name, **_describe_type(field.type)}
      for field in parquet.read_schema(config_paths[0])
    ]
    infos.append({"config_name": config, "features": features, "splits": sizes})
  card_data = DatasetCardData(
    pretty_name=name,
    language="zh",
    license=licence,
    task_categories=[task],
    configs=configs,
    dataset_info=infos,
  )
  return f"---\n{card_data.to_yaml()}\n---\n\n"


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
  files.write_text(
    folder / "records.tsv",
    output.format_delimited((*_RECORD_FIELDS, "match_score", "split"), records),
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
  files.write_text(
    folder / "queries.tsv",
    output.format_delimited((*_QUERY_FIELDS, "start", "end", "split"), queries),
  )


RELEASE_DESCRIPTION = f"""\
The authors' release: `{release_months.MONTHS_FILE}`, \
`{release_months.QUERIES_FILE}`,
`{release_months.SPLITS_FILE}`, in the schema that their code reads.
"""

_README_TEMPLATE = """\
# {name}:{version}

{records} records, {queries} queries ({splits}).
Timeline `{timeline}`, {months} months. Contents, as sha256:
`{sha256}`

{about}
A time key is `reign-year-month`: 1-2-12 is the twelfth month of the second
year of the first reign in `reigns.tsv`; 1-2-12L is the leap month after it.
Both ends of a query belong to it. In data sets made by ctd_jax a record answers
(1) if its month is asked for and its kind is `event` or `no_event`.

The qrels are those of the mode `neg1_ne1_dq0`. The other modes take away:
`neg0` records of the kind `neg_comment` (commentary), `ne0` those of the kind
`no_event` (placeholders of months without an entry), `dq1` the queries that
only placeholders answer. A query left without a relevant record is not asked.

## Licence and sources

{origin}
"""


def write_release(benchmark: Benchmark, folder: pathlib.Path) -> None:
  """Writes the authors' three files into `folder`.

  Raises:
    ValueError: if a month has no record and so no split, or the schema cannot
      hold a record or query of the data set.
  """
  split_of = dict(
    zip(
      (record.key for record in benchmark.records),
      benchmark.record_splits,
      strict=True,
    )
  )
  for key in benchmark.timeline.months:
    if key not in split_of:
      raise ValueError(
        f"{benchmark.name}: month {key} has no record; the release's schema "
        "has a node and a split for every month. Take --format=beir"
      )
  release_writer.write_release(
    folder,
    benchmark.records,
    benchmark.queries,
    split_of,
    benchmark.timeline,
  )


# Name -> (writer, its section of the README).
FORMATS = {
  "beir": (beir.write_beir, beir.BEIR_DESCRIPTION),
  "hf": (write_hf, HF_DESCRIPTION),
  "trec": (write_trec, TREC_DESCRIPTION),
  "release": (write_release, RELEASE_DESCRIPTION),
}


def export_benchmark(
  benchmark: Benchmark,
  format_name: str,
  out: str | os.PathLike,
  overwrite: bool = False,
) -> dict[str, Any]:
  """Writes a data set into a folder, whole or not at all.

  Args:
    benchmark: benchmark from `load.load_benchmark`.
    format_name: one of `FORMATS`.
    out: the folder, `gs://` too; the way to it is made.

  Returns:
    The contents of `metadata.json`; the same data set gives the same bytes.

  Raises:
    FileExistsError: if something lies at `out` and may not be replaced.
  """
  write_format, description = FORMATS[format_name]
  with _fresh_folder(out, overwrite) as folder:
    write_format(benchmark, folder)
    metadata = provenance.write_provenance(folder, benchmark, format_name)
    name = metadata["name"]
    sizes = [f"{split} {n}" for split, n in metadata["queries"].items()]
    licence, origin = build.get_licence(name)
    if name in build.DATASET_NAMES:
      builder = build.make_builder(name)
      origin = "\n\n".join(
        [
          origin,
          builder.builder_config.description,
          builder.info.homepage,
          f"```bibtex\n{builder.info.citation}\n```",
        ]
      )
    readme = _README_TEMPLATE.format_map(
      metadata
      | {
        "records": len(benchmark.records),
        "queries": sum(metadata["queries"].values()),
        "splits": ", ".join(sizes),
        "months": len(benchmark.timeline),
        "about": description,
        "origin": origin,
      }
    )
    if format_name == "hf":
      header = format_card_header(
        benchmark.name, licence, "text-retrieval", folder
      )
      readme = header + readme
    files.write_text(folder / provenance.README_FILE, readme)
  return metadata


def export_rows(
  name: str,
  format_name: str,
  out: str | os.PathLike,
  data_dir: str | os.PathLike | None = None,
  overwrite: bool = False,
) -> dict[str, Any]:
  """Writes a data set without records to search, as `export_benchmark` does.

  Its card is the README of the data set.

  Raises:
    ValueError: if the format is not `hf`.
  """
  if format_name != "hf":
    raise ValueError(
      f"--format={format_name}: {name} has no records to search; take "
      "--format=hf"
    )
  builder = build.make_builder(name, data_dir)
  splits = builder.read_splits()
  title = f"{name}:{builder.version}"
  licence, terms = build.get_licence(name)
  with _fresh_folder(out, overwrite) as folder:
    for split, rows in splits.items():
      path = folder / builder.builder_config.name / f"{split}.parquet"
      path.parent.mkdir(exist_ok=True)
      columns = {key: [row[key] for row in rows] for key in rows[0]}
      parquet.write_table(
        pa.table({k: _to_array(column) for k, column in columns.items()}), path
      )
    metadata = {
      "name": name,
      "version": str(builder.version),
      "format": format_name,
      "sha256": summary.content_hash(builder.info.features, splits),
      "rows": {split: len(rows) for split, rows in splits.items()},
    }
    files.write_text(
      folder / provenance.METADATA_FILE, json.dumps(metadata, indent=2) + "\n"
    )
    readme = [
      f"# {title}",
      builder.builder_config.description,
      'Parquet: `datasets.load_dataset("FOLDER", split="test")`.',
      f"## Licence\n\n{terms}",
      builder.info.description,
      f"```bibtex\n{builder.info.citation}\n```\n",
    ]
    files.write_text(
      folder / provenance.README_FILE,
      format_card_header(title, licence, "question-answering", folder)
      + "\n\n".join(readme),
    )
  return metadata


def _to_array(column: Sequence[Any]) -> pa.Array:
  """Returns the values of a feature as a column, bytes as text."""
  array = pa.array(
    [getattr(value, "tolist", lambda v=value: v)() for value in column]
  )
  if pa.types.is_list(array.type):
    flat = _to_array(array.flatten().to_pylist())
    return pa.ListArray.from_arrays(array.offsets, flat)
  is_text = pa.types.is_binary(array.type)
  return array.cast(pa.string() if is_text else pa.int32())


@contextlib.contextmanager
def _fresh_folder(
  out: str | os.PathLike, overwrite: bool
) -> Iterator[pathlib.Path]:
  """Yields an empty local folder that becomes `out` if all goes well."""
  out = files.as_path(out).expanduser()
  if out.exists() and not overwrite:
    raise FileExistsError(f"--out={out} exists; --overwrite replaces it")
  # A mistyped --out must not cost anybody a folder of something else.
  if out.exists() and not (out / provenance.METADATA_FILE).is_file():
    raise FileExistsError(
      f"--out={out} is not an export (it has no {provenance.METADATA_FILE}); "
      "remove it yourself or give another folder"
    )
  if isinstance(out, pathlib.Path):
    with _replaced_folder(out.absolute()) as folder:
      yield folder
    return
  with tempfile.TemporaryDirectory() as scratch_dir:
    folder = pathlib.Path(scratch_dir)
    yield folder
    out.rmtree(missing_ok=True)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    # Metadata last: a folder without them is not an export, so an interrupted
    # copy is not mistaken for a complete one.
    for path in sorted(paths, key=lambda p: p.name == provenance.METADATA_FILE):
      target = out / path.relative_to(folder).as_posix()
      target.parent.mkdir(parents=True, exist_ok=True)
      target.write_bytes(path.read_bytes())


@contextlib.contextmanager
def _replaced_folder(out: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields an empty folder next to `out`, renamed to `out` at the end."""
  out.parent.mkdir(parents=True, exist_ok=True)
  # In the same parent: a rename is atomic within one file system only.
  scratch_dir = pathlib.Path(
    tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.")
  )
  try:
    new_folder = scratch_dir / "new"
    new_folder.mkdir()
    yield new_folder
    if out.exists():
      out.rename(scratch_dir / "old")
    new_folder.rename(out)
  except BaseException:
    if (scratch_dir / "old").exists() and not out.exists():
      (scratch_dir / "old").rename(out)
    raise
  finally:
    shutil.rmtree(scratch_dir, ignore_errors=True)


def main(
  argv: Sequence[str],
  format_name: str,
  out: str,
  data_dir: str | None = None,
  overwrite: bool = False,
) -> None:
  """Exports the data set named on the command line and lists its files.

  Args:
    argv: program and name of the data set; the rest is as in
      `export_benchmark`.
  """
  if len(argv) != 2:
    raise app.UsageError("name one data set, e.g. chunqiutr/mini")
  try:
    if build.is_searchable(argv[1]):
      benchmark = load.load_benchmark(argv[1], data_dir)
      metadata = export_benchmark(benchmark, format_name, out, overwrite)
    else:
      metadata = export_rows(argv[1], format_name, out, data_dir, overwrite)
  except (ValueError, OSError) as error:
    sys.exit(f"error: {error}")
  folder = files.as_path(out).expanduser()
  for path in sorted(folder.rglob("*")):
    if path.is_file():
      size = epath.Path(path).stat().length
      print(f"{size:>12,} bytes  {path.relative_to(folder)}")
  print(f"{metadata['name']}:{metadata['version']} as {format_name}: {folder}")
  print(f"sha256: {metadata['sha256']}")


if __name__ == "__main__":
  # Defined here: a program that imports `export` must not accept these flags.
  flags.DEFINE_enum(
    "format", "beir", list(FORMATS), "Format to write. Example: --format=trec"
  )
  flags.DEFINE_string(
    "out",
    None,
    "New folder for the export; required. Example: --out=exports/rebuilt",
    required=True,
  )
  build.define_data_dir()
  flags.adopt_module_key_flags(build)  # shown by --help
  flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace an earlier export in --out; by default that is an error. "
    "Example: --overwrite",
  )

  def _run(argv: Sequence[str]) -> None:
    values = flags.FLAGS
    main(argv, values.format, values.out, values.data_dir, values.overwrite)

  build.run_command(_run)
