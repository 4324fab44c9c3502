"""Files known by git blob id: in a folder, in a clone, downloaded."""

import re
import subprocess

import pytest
import tensorflow_datasets as tfds

from ctd_jax_datasets.chunqiutr import release, release_months
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError
from tests.data.chunqiutr import release_files


def test_blob_ids_are_those_of_git(tmp_path):
  path = tmp_path / "file"
  path.write_bytes("魯隱公\n".encode())
  asked = subprocess.run(
    ["git", "hash-object", path], capture_output=True, text=True, check=True
  )
  assert source_files.compute_blob_id(path.read_bytes()) == asked.stdout.strip()
  empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
  assert source_files.compute_blob_id(b"") == empty


def test_files_of_a_folder_or_a_clone(tmp_path):
  clone = tmp_path / "clone"
  (clone / "dataset").mkdir(parents=True)
  paths = release_files.write(clone / "dataset", release_files.clean())
  assert (
    source_files.locate_blobs(None, release_months.FILES, clone / "dataset")
    == paths
  )
  assert source_files.locate_blobs(None, release_months.FILES, clone) == paths
  paths[release_months.SPLITS_FILE].unlink()
  with pytest.raises(SourceError, match=r"clone: missing time_splits.*it is"):
    source_files.locate_blobs(None, release_months.FILES, clone)
  with pytest.raises(SourceError, match="nowhere: no such folder"):
    source_files.locate_blobs(None, release_months.FILES, tmp_path / "nowhere")


@pytest.fixture
def server(host, monkeypatch):
  """A host of the three files on this machine; `FILES` points to it."""
  folder, url = host
  paths = release_files.write(folder, release_files.clean())
  known = {
    name: source_files.Blob(
      f"{url}/{name}", source_files.compute_blob_id(path.read_bytes())
    )
    for name, path in paths.items()
  }
  monkeypatch.setattr(release_months, "FILES", known)
  return folder


def manager(tmp_path):
  return tfds.download.DownloadManager(download_dir=tmp_path / "downloads")


def test_files_are_downloaded_and_checked(server, tmp_path):
  paths = source_files.locate_blobs(manager(tmp_path), release_months.FILES)
  found = release.read_release(paths, release_files.TIMELINE)
  assert len(found.records) == 170
  assert found.notes.to_json()["findings"] == []  # not even of other bytes


def test_a_changed_download_is_refused_and_not_kept(server, tmp_path):
  path = server / release_months.QUERIES_FILE
  path.write_bytes(path.read_bytes()[:-40])
  with pytest.raises(SourceError, match="expected git blob") as caught:
    source_files.locate_blobs(manager(tmp_path), release_months.FILES)
  message = str(caught.value)
  assert re.search(r"http://127.*v3.jsonl: .* got [0-9a-f]{40}", message)
  left = [path.name for path in (tmp_path / "downloads").rglob("*jsonl*")]
  assert not any(name.endswith("jsonl") for name in left)


def test_no_network_is_one_line(tmp_path, monkeypatch):
  dead = {"a.json": source_files.Blob("http://127.0.0.1:9/d/a.json", "0" * 40)}
  monkeypatch.setattr(release_months, "FILES", dead)
  with pytest.raises(SourceError, match="cannot be downloaded"):
    source_files.locate_blobs(manager(tmp_path), release_months.FILES)
