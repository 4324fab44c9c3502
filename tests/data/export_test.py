"""Exports: the same benchmark in the files that other tools read."""

import csv
import dataclasses
import json
import pathlib
import re
import subprocess

import huggingface_hub
import pytest
from pyarrow import parquet

from ctd_jax.benchmark import runs
from ctd_jax.chronology import reigns
from ctd_jax.evaluation import protocol
from ctd_jax_datasets import build, export
from ctd_jax_datasets.chunqiutr import release, release_months
from ctd_jax_datasets.common import beir, provenance
from ctd_jax_datasets.ctm import ctm_dataset_builder, schema
from tests import synthetic
from tests.data import folders
from tests.tools import processes

NAME = "chunqiutr/mini"


@pytest.fixture(scope="module")
def mini(mini_benchmark):
  return mini_benchmark


@pytest.fixture(scope="module")
def exported(mini, tmp_path_factory) -> pathlib.Path:
  """Folder of the exports of `mini`, by format."""
  folder = tmp_path_factory.mktemp("exported")
  for name in export.FORMATS:
    export.export_benchmark(mini, name, folder / name)
  return folder


def load_as_beir_does(folder: pathlib.Path, split: str):
  """Reads a folder by the steps of BEIR's GenericDataLoader."""
  corpus, asked, qrels = {}, {}, {}
  with (folder / "corpus.jsonl").open(encoding="utf8") as file:
    for line in map(json.loads, file):
      corpus[line["_id"]] = {"text": line["text"], "title": line["title"]}
  with (folder / "queries.jsonl").open(encoding="utf8") as file:
    for line in map(json.loads, file):
      asked[line["_id"]] = line["text"]
  with (folder / "qrels" / f"{split}.tsv").open(encoding="utf-8") as file:
    lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
    next(lines)
    for query_id, corpus_id, score in lines:
      qrels.setdefault(query_id, {})[corpus_id] = int(score)
  return corpus, {query_id: asked[query_id] for query_id in qrels}, qrels


@pytest.mark.parametrize(
  ("split", "name"),
  [("train", "train"), ("validation", "dev"), ("test", "test")],
)
def test_beir_loads_it(mini, exported, split, name):
  corpus, asked, qrels = load_as_beir_does(exported / "beir", name)
  assert corpus == {
    record.record_id: {"text": record.text, "title": ""}
    for record in mini.records
  }
  assert asked == {q.query_id: q.text for q in mini.queries[split]}
  assert qrels == {
    q.query_id: dict.fromkeys(q.positives, 1) for q in mini.queries[split]
  }


def test_parquet_holds_what_beir_holds(exported):
  out = exported / "hf"
  for name in ("corpus", "queries"):
    rows = parquet.read_table(out / name / f"{name}.parquet").to_pylist()
    with (exported / "beir" / f"{name}.jsonl").open() as file:
      lines = [json.loads(line) for line in file]
    assert rows == [line | line.pop("metadata") for line in lines]
  for split, name in beir.QRELS_FILES.items():
    qrels = parquet.read_table(out / "qrels" / f"{split}.parquet")
    with (exported / "beir" / name).open() as file:
      pairs = list(csv.DictReader(file, delimiter="\t"))
    assert [
      {k: str(v) for k, v in row.items()} for row in qrels.to_pylist()
    ] == (pairs)


def test_the_card_describes_the_files(mini, exported):
  card = huggingface_hub.metadata_load(exported / "hf" / "README.md")
  assert card["pretty_name"] == mini.name
  assert card["license"] == "apache-2.0"
  infos = {info["config_name"]: info for info in card["dataset_info"]}
  described = {}
  for config in card["configs"]:
    info = infos.pop(config["config_name"])
    sizes = {row["name"]: row["num_examples"] for row in info["splits"]}
    names = [feature["name"] for feature in info["features"]]
    for file in config["data_files"]:
      table = parquet.read_table(exported / "hf" / file["path"])
      assert table.column_names == names
      described[file["path"]] = sizes.pop(file["split"]), table.num_rows
    assert not sizes
  assert not infos
  assert all(stated == counted for stated, counted in described.values())
  files = folders.read_contents(exported / "hf")
  assert set(described) == {name for name in files if "parquet" in name}
  (default,) = [c["config_name"] for c in card["configs"] if "default" in c]
  assert default == "corpus"


def test_a_data_set_without_records_is_exported_with_its_card(tmp_path, capsys):
  folder = tmp_path / "out"
  built = build.build_dataset("ctm/ito", tmp_path)
  arguments = ["export-data", "ctm/ito"], "hf", str(folder), str(tmp_path)
  export.main(*arguments)
  assert "ctm/ito:3.0.1 as hf" in capsys.readouterr().out
  rows = parquet.read_table(folder / "ito" / "test.parquet").to_pylist()
  stored = ctm_dataset_builder.read_games(built)
  assert [schema.instance_from_json(json.loads(r["record"])) for r in rows] == (
    stored
  )
  assert rows[0]["ranks"] == list(stored[0].ranks)
  card = huggingface_hub.metadata_load(folder / "README.md")
  assert (card["license"], card["language"]) == ("cc-by-sa-4.0", "zh")
  (info,) = card["dataset_info"]
  assert [size["num_examples"] for size in info["splits"]] == [60]
  assert {f["name"]: f.get("sequence") for f in info["features"]}["ranks"]
  text = (folder / "README.md").read_text("utf-8")
  assert "## Read by eye" in text
  assert "@misc{ctm2025" in text
  export.main(*arguments, overwrite=True)
  with pytest.raises(SystemExit, match="--format=trec: ctm/ito has no records"):
    export.main(arguments[0], "trec", *arguments[2:])


def test_a_split_without_questions_has_no_file(mini, tmp_path):
  test_only = dataclasses.replace(
    mini,
    queries=dict.fromkeys(mini.queries, ()) | {"test": mini.queries["test"]},
  )
  export.export_benchmark(test_only, "hf", tmp_path / "out")
  card = huggingface_hub.metadata_load(tmp_path / "out" / "README.md")
  assert [
    [file["split"] for file in config["data_files"]]
    for config in card["configs"]
  ] == [["corpus"], ["queries"], ["test"]]
  unasked = dataclasses.replace(mini, queries=dict.fromkeys(mini.queries, ()))
  export.export_benchmark(unasked, "hf", tmp_path / "unasked")
  card = huggingface_hub.metadata_load(tmp_path / "unasked" / "README.md")
  assert [config["config_name"] for config in card["configs"]] == ["corpus"]


@pytest.mark.parametrize("format_name", export.FORMATS)
def test_a_readme_names_licence_and_sources(
  mini, exported, tmp_path, format_name
):
  readme = (exported / format_name / "README.md").read_text("utf-8")
  assert "Apache-2.0" in readme
  assert "@inproceedings{chunqiutr2026" in readme
  theirs = dataclasses.replace(mini, name="beir/my_chronicle:1")
  export.export_benchmark(theirs, format_name, tmp_path / "theirs")
  readme = (tmp_path / "theirs" / "README.md").read_text("utf-8")
  assert "ctd_jax does not know" in readme
  assert "Apache" not in readme
  assert "chunqiutr2026" not in readme


def test_trec_files_hold_the_benchmark(mini, exported):
  out = exported / "trec"
  docs = [json.loads(line) for line in (out / "docs.jsonl").open()]
  assert docs == [{"id": r.record_id, "contents": r.text} for r in mini.records]
  for split, asked in mini.queries.items():
    topics = (out / f"topics.{split}.tsv").read_text().splitlines()
    assert topics == [f"{q.query_id}\t{q.text}" for q in asked]
    qrels = runs.read_qrels(out / f"qrels.{split}.txt")
    assert qrels == {q.query_id: q.positives for q in asked}
  with (out / "queries.tsv").open() as file:
    rows = {
      row["query_id"]: row for row in csv.DictReader(file, delimiter="\t")
    }
  window = next(q for q in mini.queries["test"] if q.family == "window")
  expected = {"split": "test", "start": str(window.interval.start)}
  expected["end"] = str(window.interval.end)
  assert rows[window.query_id].items() >= expected.items()


def test_modes_follow_from_the_tables_of_trec(mini, exported):
  # As the README of the export tells it, without our protocol.
  with (exported / "trec" / "records.tsv").open() as file:
    rows = list(csv.DictReader(file, delimiter="\t"))
  kinds = {row["record_id"]: row["kind"] for row in rows}
  qrels = runs.read_qrels(exported / "trec" / "qrels.test.txt")
  derived = {
    query_id: tuple(r for r in answers if kinds[r] != "no_event")
    for query_id, answers in qrels.items()
  }
  mode = protocol.get_mode("neg1_ne0_dq1")
  assert {
    query_id: kept for query_id, kept in derived.items() if kept
  } == protocol.build_qrels(mini.queries["test"], kinds, mode)


def test_release_reads_it_back(mini, exported):
  paths = {name: exported / "release" / name for name in release_months.FILES}
  found = release.read_release(paths, mini.timeline)
  before, after = (
    {record.text for record in some.records}
    | {(split, len(asked)) for split, asked in some.queries.items()}
    for some in (mini, found)
  )
  assert before == after


def test_a_month_without_record_cannot_be_released(tmp_path):
  benchmark = synthetic.benchmark()
  gone = benchmark.records[0].key
  kept = [i for i, r in enumerate(benchmark.records) if r.key != gone]
  lacking = dataclasses.replace(
    benchmark,
    records=tuple(benchmark.records[i] for i in kept),
    record_splits=tuple(benchmark.record_splits[i] for i in kept),
  )
  with pytest.raises(ValueError, match=f"month {gone} has no record"):
    export.export_benchmark(lacking, "release", tmp_path / "out")
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_name", export.FORMATS)
def test_every_export_names_itself_and_its_calendar(
  mini, exported, tmp_path, format_name
):
  metadata = export.export_benchmark(mini, format_name, tmp_path / "out")
  written = folders.read_contents(tmp_path / "out")
  assert written == folders.read_contents(exported / format_name)
  assert json.loads(written["metadata.json"]) == metadata
  assert f"{metadata['name']}:{metadata['version']}" == mini.name
  assert metadata["sha256"] in written["README.md"].decode()
  assert sum(metadata["records"].values()) == len(mini.records)
  table = reigns.read_reign_table(tmp_path / "out" / "reigns.tsv")
  assert table == mini.timeline.reigns


def test_the_table_keeps_authorities_and_shortened_reigns(tmp_path):
  benchmark = synthetic.benchmark()
  timeline = reigns.load_timeline("lu_release")
  lu = dataclasses.replace(benchmark, timeline=timeline, records=())
  provenance.write_provenance(tmp_path, lu, "beir")
  assert reigns.read_reign_table(tmp_path / "reigns.tsv") == timeline.reigns
  ours, written = (
    [line.split("\t")[-1] for line in path.read_text().splitlines()]
    for path in (reigns.reign_table_dir() / "lu.tsv", tmp_path / "reigns.tsv")
  )
  assert written == ours


def test_nothing_is_replaced_unasked(mini, tmp_path):
  out = tmp_path / "out"
  export.export_benchmark(mini, "beir", out)
  before = folders.read_contents(out)
  with pytest.raises(FileExistsError, match="--overwrite replaces it"):
    export.export_benchmark(mini, "trec", out)
  assert folders.read_contents(out) == before
  export.export_benchmark(mini, "trec", out, overwrite=True)
  assert not (out / "corpus.jsonl").exists()
  assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_of_something_else_is_never_replaced(mini, tmp_path):
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "thesis.txt").write_text("mine")
  with pytest.raises(FileExistsError, match="is not an export"):
    export.export_benchmark(mini, "beir", tmp_path / "out", overwrite=True)
  assert folders.read_contents(tmp_path / "out") == {"thesis.txt": b"mine"}


def test_a_failed_export_leaves_what_was_there(mini, tmp_path, monkeypatch):
  out = tmp_path / "out"
  export.export_benchmark(mini, "beir", out)
  before = folders.read_contents(out)

  def fail(*_):
    raise OSError("no space")

  monkeypatch.setattr(export.provenance, "write_provenance", fail)
  with pytest.raises(OSError, match="no space"):
    export.export_benchmark(mini, "trec", out, overwrite=True)
  assert folders.read_contents(out) == before
  assert [path.name for path in tmp_path.iterdir()] == ["out"]


def run(*arguments: str, cwd: pathlib.Path) -> subprocess.CompletedProcess:
  return processes.run_python(
    "-m", "ctd_jax_datasets.export", *arguments, cwd=cwd
  )


@pytest.mark.slow
def test_the_command_says_what_it_wrote(mini_data_dir, tmp_path):
  done = run(NAME, "--out=here", f"--data_dir={mini_data_dir}", cwd=tmp_path)
  assert done.returncode == 0, done.stderr
  size = (tmp_path / "here" / "corpus.jsonl").stat().st_size
  assert f"{size:,} bytes  corpus.jsonl" in done.stdout
  digest = json.loads((tmp_path / "here/metadata.json").read_text())["sha256"]
  assert f"sha256: {digest}" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([NAME, "--out=here"], "data set chunqiutr/mini is not built in .*"),
    (["chunqiutr/mimi", "--out=x"], "no data set 'chunqiutr/mimi'; .*mini,.*"),
    (["beir:nowhere", "--out=here"], "beir:nowhere: no corpus.jsonl there.*"),
    ([NAME, "--overwrite"], "--out is missing, see --help"),
    ([NAME, "--format=x"], "flag --format=x: value should be one of <beir|.*"),
  ],
)
def test_errors_are_one_line(tmp_path, arguments, message):
  done = run(*arguments, f"--data_dir={tmp_path}", cwd=tmp_path)
  assert done.returncode == 1
  assert "Traceback" not in done.stderr
  assert re.fullmatch(f"error: {message}", done.stderr.strip().splitlines()[-1])
  assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_neither_export_nor_import_needs_jax():
  loaded = processes.list_loaded_modules("import ctd_jax_datasets.export")
  assert not loaded & {"jax", "flax", "tensorflow"}
