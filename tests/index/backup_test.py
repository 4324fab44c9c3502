"""Backups of an index: what they hold, what is restored, what is refused."""

import io
import json
import shutil
import stat
import zipfile

import pytest

from ctd_jax.index import backup, database, index_check, manifest
from ctd_jax.index.building import index_builder
from ctd_jax.index.corrections import CorrectionStore
from ctd_jax.index.index_folder import IndexFolder
from tests.index import corpora
from tests.web import annals_index


@pytest.fixture(name="index", scope="module")
def fixture_index(tmp_path_factory):
  """Returns an index of a text and an upload, with corrections."""
  folder = tmp_path_factory.mktemp("index")
  index = annals_index.build_index(folder, use_passages=False)
  upload = index / "uploads" / "notes" / "notes.txt"
  upload.parent.mkdir(parents=True)
  upload.write_text("泰始三年春正月，雨雪。\n夏四月，旱。\n")
  corpora.build_index(index, upload)
  corpora.correct(index, "annals", "3", "泰始元年")
  return index


@pytest.fixture(name="archive", scope="module")
def fixture_archive(index, tmp_path_factory):
  path = tmp_path_factory.mktemp("archive") / "index.zip"
  # While a build runs.
  with index_builder.lock(index):
    written = backup.write_backup(index, path)
  assert written.notes == ()
  return path


def read_rows(folder):
  index = IndexFolder.open(folder)
  rows = index.connection.execute("SELECT * FROM records ORDER BY row")
  return rows.fetchall()


def test_a_restored_index_is_the_one_that_was_saved(index, archive, tmp_path):
  folder = tmp_path / "new"
  result = backup.restore_index(archive, folder)
  assert result.problems == ()
  assert index_check.check_index(folder) == []
  assert read_rows(folder) == read_rows(index)
  assert manifest.read_manifest(folder).files == (
    manifest.read_manifest(index).files
  )
  assert CorrectionStore(folder).history() == CorrectionStore(index).history()
  assert {path.name for path in tmp_path.iterdir()} == {"new"}
  # It needs nothing of the old one: its sources are in it.
  for work in manifest.read_manifest(folder).works:
    source = work["dated_with"]["source"]["source"]
    assert (folder / source).is_file()
  mode = (folder / "corrections.sqlite").stat().st_mode
  assert stat.S_IMODE(mode) == 0o600
  moved = folder.rename(tmp_path / "moved")
  shutil.rmtree(moved / "works")
  assert backup.repair.repair_index(moved).problems == ()


def test_only_the_owner_reads_a_backup(index, archive):
  assert stat.S_IMODE(archive.stat().st_mode) == 0o600
  with pytest.raises(FileExistsError, match="name a new file"):
    backup.write_backup(index, archive)
  with zipfile.ZipFile(archive) as file:
    lines = file.read("records/1.jsonl").decode().splitlines()
  assert json.loads(lines[1])["text"] == "夏四月，雨雹。"


def test_records_outlive_their_source(tmp_path):
  index = annals_index.build_index(tmp_path, use_passages=False)
  (tmp_path / "annals.txt").unlink()
  written = backup.write_backup(index, tmp_path / "index.zip")
  assert "annals.txt is gone" in " ".join(written.notes)
  folder = tmp_path / "new"
  (problem,) = backup.restore_index(tmp_path / "index.zip", folder).problems
  assert "annals: taken out" in problem
  assert str(folder) in problem
  assert index_check.check_index(folder) == []
  (lost,) = folder.glob("lost/annals-*.jsonl")
  lines = lost.read_text("utf-8").splitlines()
  assert json.loads(lines[1])["text"] == "夏四月，雨雹。"


def test_nothing_is_restored_over_something(archive, tmp_path):
  (tmp_path / "mine").write_text("")
  with pytest.raises(ValueError, match="not empty; name a new folder"):
    backup.restore_index(archive, tmp_path)
  with pytest.raises(FileNotFoundError, match=r"no\.zip: no such file"):
    backup.restore_index(tmp_path / "no.zip", tmp_path / "new")


def change(archive, path, names=None, description=None, extra=()):
  """Writes a changed copy of an archive.

  Args:
    names: name of a member -> its new content.
    description: changes backup.json.
    extra: members to add, name or ZipInfo, and content.
  """
  with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w") as new:
    for info in old.infolist():
      content = old.read(info)
      if info.filename == "backup.json" and description is not None:
        values = json.loads(content)
        description(values)
        content = json.dumps(values).encode()
      new.writestr(info.filename, (names or {}).get(info.filename, content))
    for name, content in extra:
      new.writestr(name, content)
  return path


def describe(name, content=b"x"):
  """Returns a change that has backup.json name a member."""
  entry = manifest.hash_content(content)

  def add(values):
    values["members"][name] = {"bytes": entry.bytes, "sha256": entry.sha256}

  return add


def set_source(values):
  work = values["manifest"]["works"][0]
  work["dated_with"]["source"]["source"] = "/etc/passwd"


def make_link():
  info = zipfile.ZipInfo("uploads/link")
  info.external_attr = (stat.S_IFLNK | 0o777) << 16
  return info


def set_size(values):
  values["members"]["corrections.jsonl"]["bytes"] = 3


HOSTILE = {
  "leads out": (describe("uploads/../../x"), [("uploads/../../x", b"x")]),
  "absolute": (describe("/tmp/x"), [("/tmp/x", b"x")]),
  "twice": (None, [("records/1.jsonl", b"x")]),
  "unknown": (None, [("uploads/x", b"x")]),
  "no part": (describe("index.sqlite"), [("index.sqlite", b"x")]),
  "link": (describe("uploads/link"), [(make_link(), b"x")]),
  "bomb": (set_size, []),
  "another hash": (describe("uploads/x", b"y"), [("uploads/x", b"x")]),
  "a source outside": (set_source, []),
  "format": (lambda values: values.update(format=7), []),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives_are_refused(archive, tmp_path, kind):
  description, extra = HOSTILE[kind]
  path = tmp_path / "in" / "bad.zip"
  path.parent.mkdir()
  change(archive, path, description=description, extra=extra)
  with pytest.raises(ValueError, match=r"bad\.zip|leads out"):
    backup.restore_index(path, tmp_path / "out" / "new")
  left = [it for it in tmp_path.rglob("*") if it.is_file()]
  assert left == [path]


@pytest.mark.parametrize("way", ["cut", "flipped", "no archive", "empty"])
def test_damaged_archives_are_refused(archive, tmp_path, way):
  content = bytearray(archive.read_bytes())
  if way == "cut":
    del content[len(content) // 2 :]
  elif way == "flipped":
    content[200] ^= 1
  elif way == "no archive":
    content = b"no archive"
  else:
    file = io.BytesIO()
    zipfile.ZipFile(file, "w").close()
    content = file.getvalue()
  path = tmp_path / "bad.zip"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=r"bad\.zip"):
    backup.restore_index(path, tmp_path / "new")
  assert not (tmp_path / "new").exists()


def test_columns_of_a_strange_journal_are_no_sql(archive, tmp_path):
  with zipfile.ZipFile(archive) as file:
    line = json.loads(file.read("corrections.jsonl"))
  line["row"]["work) VALUES (1); --"] = ""
  content = json.dumps(line).encode() + b"\n"
  path = change(
    archive,
    tmp_path / "bad.zip",
    {"corrections.jsonl": content},
    describe("corrections.jsonl", content),
  )
  folder = tmp_path / "new"
  backup.restore_index(path, folder)
  assert CorrectionStore(folder).history() == []
  assert database.search_text(IndexFolder.open(folder).connection, ["大雪"], 1)
