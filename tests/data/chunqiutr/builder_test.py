"""The built data sets: features, splits, gold, and sources that are wrong."""

import collections
import json
import shutil

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums

from ctd_jax_datasets import build
from ctd_jax_datasets.chunqiutr import (
  chunqiutr_dataset_builder as builder_module,
)
from ctd_jax_datasets.chunqiutr import gallery, mini, release_months
from ctd_jax_datasets.common import source_files, summary
from tests.data.chunqiutr import edition_files, release_files

pytestmark = pytest.mark.slow

QUERY_SPLITS = ("train", "validation", "test")


def examples(builder, split):
  return [
    {
      name: value.decode() if isinstance(value, bytes) else value
      for name, value in example.items()
    }
    for example in builder.as_data_source(split)
  ]


@pytest.fixture(scope="module")
def records(mini_builder):
  return examples(mini_builder, "records")


@pytest.fixture(scope="module")
def queries(mini_builder):
  return [
    query for split in QUERY_SPLITS for query in examples(mini_builder, split)
  ]


def test_registered_by_name_and_read_without_the_builder(mini_builder):
  assert tfds.builder("chunqiutr/mini").builder_config.timeline == "mini"
  again = tfds.builder_from_directory(mini_builder.data_dir)
  assert len(again.as_data_source("records")) == len(
    mini_builder.as_data_source("records")
  )


def test_placeholders_quote_the_invented_title(records):
  texts = [r["text"] for r in records if r["kind"] == "no_event"]
  assert not any("《春秋》" in text for text in texts)
  assert any(mini.TITLE in text for text in texts)


def test_fields_that_do_not_apply_are_empty(records, queries):
  for record in records:
    assert record["family"] == record["group"] == ""
    assert len(record["positives"]) == 0
    assert record["order"] >= 0
    assert np.array_equal(record["start"], record["end"])
  for query in queries:
    assert query["source"] == ""
    assert query["kind"] == "query"
    assert query["order"] == -1


def test_gold_is_every_event_and_placeholder_of_the_interval(records, queries):
  for query in queries:
    low, high = tuple(query["start"]), tuple(query["end"])
    gold = {
      record["id"]
      for record in records
      if record["kind"] != "neg_comment"
      and low <= tuple(record["start"]) <= high
    }
    assert {answer.decode() for answer in query["positives"]} == gold
    assert gold


def _write_sources(folder, monkeypatch):
  edition_files.write_sources(folder / "sources")
  table = folder / "checksums.tsv"
  edition_files.write_checksums(table)
  monkeypatch.setattr(gallery, "CHECKSUMS", table)
  monkeypatch.delenv(source_files.ENVIRONMENT_VARIABLE, raising=False)
  return folder / "sources"


@pytest.fixture
def synthetic_sources(tmp_path, monkeypatch):
  return _write_sources(tmp_path, monkeypatch)


def _build_rebuilt(folder, processes):
  with pytest.MonkeyPatch.context() as monkeypatch:
    sources = _write_sources(folder, monkeypatch)
    return build.build_dataset(
      "chunqiutr/rebuilt", folder, sources, processes=processes
    )


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory):
  return _build_rebuilt(tmp_path_factory.mktemp("rebuilt"), processes=1)


def test_rebuilt_from_a_folder(rebuilt):
  records = examples(rebuilt, "records")
  kinds = collections.Counter(record["kind"] for record in records)
  assert (kinds["event"], kinds["no_event"]) == (21, 3036 - 11)
  splits = [r["split"] for r in records if r["kind"] == "event"]
  assert collections.Counter(splits) == {"train": 13, "test": 8}
  assert len(rebuilt.as_data_source("test")) > 1000


def test_processes_change_no_byte(rebuilt, tmp_path):
  one, two = (
    {path.name: path.read_bytes() for path in builder.data_path.iterdir()}
    for builder in (rebuilt, _build_rebuilt(tmp_path, processes=2))
  )
  assert one == two
  assert {"disagreements.tsv", "coverage.png", "audit.txt"} <= set(one)


def test_the_account_of_the_gallery_adds_up(rebuilt):
  path = rebuilt.data_path / build.STATISTICS_FILE
  statistics = json.loads(path.read_text("utf-8"))
  account = statistics["audit"]
  assert account["left_out"] == {"undated": 1}
  made = {row["source"]: row["records"] for row in statistics["sources"]}
  for source, row in account["units"].items():
    assert row["parts"] == made[source]
  for source, row in account["alignment"].items():
    rejected = sum(row["rejected"].values())
    assert row["candidates"] == row["accepted"] + rejected
    assert row["pieces"] == made[source]
  table = (rebuilt.data_path / builder_module.DISAGREEMENTS_FILE).read_text(
    "utf-8"
  )
  compared = account["agreement"].values()
  assert len(table.splitlines()) - 1 == sum(
    row["all_compared"] - row["all_same_month"] for row in compared
  )


@pytest.fixture
def released(tmp_path):
  folder = tmp_path / "released"
  folder.mkdir()
  release_files.write(folder, release_files.clean())
  return folder


def test_release_from_a_folder(released, tmp_path):
  builder = build.build_dataset("chunqiutr/release", tmp_path, released)
  records = examples(builder, "records")
  path = builder.data_path / summary.AUDIT_FILE
  report = json.loads(path.read_text("utf-8"))["release"]
  counts = {found["reason"]: found["count"] for found in report["findings"]}
  assert counts[source_files.FILE_DIFFERS] == 3
  assert len(records) == report["facts"]["records"]
  assert {record["split"] for record in records} == set(QUERY_SPLITS)
  shown = (builder.data_path / build.TABLES_FILE).read_text("utf-8")
  assert "the file is not the released one" in shown
  assert "/ 20,172" in shown


def test_release_from_the_environment(released, tmp_path, monkeypatch):
  nowhere, name = str(tmp_path / "nowhere"), release_months.QUERIES_FILE
  monkeypatch.setenv(source_files.ENVIRONMENT_VARIABLE, nowhere)
  monkeypatch.setenv(source_files.RELEASE_FOLDER_VARIABLE, str(released))
  (released / name).unlink()
  with pytest.raises(source_files.SourceError, match=name):
    build.build_dataset("chunqiutr/release", tmp_path)
  assert not (tmp_path / "chunqiutr" / "release").exists()


def test_rebuilt_from_the_environment(synthetic_sources, tmp_path, monkeypatch):
  variable = source_files.ENVIRONMENT_VARIABLE
  monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
  with pytest.raises(source_files.SourceError, match="nowhere: no such folder"):
    build.build_dataset("chunqiutr/rebuilt", tmp_path)
  for given in (synthetic_sources, None):
    assert source_files.resolve_sources_folder(given) == synthetic_sources
    monkeypatch.setenv(variable, str(synthetic_sources))


@pytest.mark.parametrize("change", ["cut", "change", "unlink"])
def test_a_damaged_source_is_one_line_and_leaves_nothing(
  synthetic_sources, tmp_path, change
):
  name = "duyu_jijie_KR1e0002/KR1e0002_001.txt"
  path = synthetic_sources / name
  content = path.read_bytes()
  if change == "unlink":
    path.unlink()
  elif change == "cut":
    path.write_bytes(content[:-40])
  else:
    path.write_bytes(content.replace("桃".encode(), "挑".encode()))
  with pytest.raises(source_files.SourceError, match=name) as caught:
    build.build_dataset(
      "chunqiutr/rebuilt", tmp_path / "data", synthetic_sources
    )
  said = f"expected {len(content)} bytes, sha256"
  assert ("missing" if change == "unlink" else said) in str(caught.value)
  assert "\n" not in str(caught.value)
  assert not (tmp_path / "data" / "chunqiutr" / "rebuilt").exists()


def _download(tmp_path, url, monkeypatch):
  table = tmp_path / "checksums.tsv"
  edition_files.write_checksums(table, url)
  monkeypatch.setattr(gallery, "CHECKSUMS", table)
  manager = tfds.download.DownloadManager(
    download_dir=tmp_path / "downloads",
    url_infos=checksums.load_url_infos(table),
    force_checksums_validation=True,
  )
  return source_files.download_files(
    manager, source_files.read_file_infos(table)
  )


def test_files_are_downloaded_and_checked(host, tmp_path, monkeypatch):
  folder, url = host
  for name, text in edition_files.FILES.items():
    served = folder / f"{name.rpartition('/')[0]}.txt"
    served.write_text(text, encoding="utf-8")
  paths = _download(tmp_path, url, monkeypatch)
  assert {
    name: path.read_text("utf-8") for name, path in paths.items()
  } == edition_files.FILES
  shutil.rmtree(tmp_path / "downloads")
  name = "duyu_jijie_KR1e0002.txt"
  (folder / name).write_bytes(b"cut")
  with pytest.raises(
    source_files.SourceError, match=f"^[^\n]*{url}/{name}: expected[^\n]*$"
  ):
    _download(tmp_path, url, monkeypatch)
  assert not list((tmp_path / "downloads").glob(f"*.tmp.*/{name}"))


def test_no_network_says_what_to_do(tmp_path, monkeypatch):
  with pytest.raises(source_files.SourceError, match="--sources"):
    _download(tmp_path, "http://127.0.0.1:9", monkeypatch)
