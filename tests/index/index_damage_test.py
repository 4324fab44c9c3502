"""Damage of an index: what notices it, and what the same command mends."""

import contextlib
import os
import pathlib
import shutil
import sqlite3

import numpy as np
import pytest

from ctd_jax.dating.passages import fitting
from ctd_jax.index import (
  database,
  index_check,
  index_folder,
  manifest,
  redating,
  repair,
)
from ctd_jax.index.asking import Index
from ctd_jax.index.building import index_builder, staged_works
from ctd_jax.index.manifest import DamagedIndexError
from tests.index import small_index
from tests.index.corpora import build_index, correct
from tests.web import annals_index


@pytest.fixture(name="built", scope="module")
def _built(tmp_path_factory):
  """Returns a folder with `annals.txt` and its `index`."""
  folder = tmp_path_factory.mktemp("built")
  annals_index.build_index(folder)
  (folder / "more.txt").write_text("太康元年春正月，大雪。\n夏五月，雨雹。\n")
  return folder


@pytest.fixture(name="folder")
def _folder(built, tmp_path):
  return shutil.copytree(built, tmp_path / "copy") / "index"


@pytest.fixture(name="written", scope="module")
def _written(tmp_path_factory):
  folder = tmp_path_factory.mktemp("written") / "index"
  small_index.write_index(folder)
  return folder


@pytest.fixture(name="small")
def _small(written, tmp_path):
  return shutil.copytree(written, tmp_path / "small")


def damage(path: pathlib.Path, how: str) -> None:
  content = path.read_bytes()
  if how == "removed":
    path.unlink()
  elif how == "cut":
    path.write_bytes(content[:-1])
  else:
    middle = len(content) // 2
    flipped = bytes([content[middle] ^ 1])
    path.write_bytes(content[:middle] + flipped + content[middle + 1 :])


def read_state(folder: pathlib.Path) -> tuple:
  with contextlib.closing(database.open_database(folder)) as connection:
    rows = connection.execute("SELECT * FROM records ORDER BY row").fetchall()
  content = (folder / manifest.MANIFEST_FILE).read_bytes()
  return rows, content, sorted(folder.glob("passages/*"))


@pytest.mark.parametrize("how", ["removed", "cut", "flipped"])
@pytest.mark.parametrize(
  "name",
  ["passages/1/small.npz", "calendar/months.npz", "works/*/starts.npy"],
)
def test_a_build_keeps_nothing_that_is_damaged(folder, name, how):
  (path,) = folder.glob(name)
  before = read_state(folder)
  damage(path, how)
  with pytest.raises(DamagedIndexError, match=path.name) as raised:
    build_index(folder, folder.parent / "more.txt", use_passages=True)
  assert raised.value.path == path
  assert f"--index={folder} --repair" in str(raised.value)
  assert read_state(folder) == before
  assert index_check.check_index(folder)


def test_passages_of_an_older_version_are_made_again(folder, monkeypatch):
  monkeypatch.setattr(fitting, "VERSION", fitting.VERSION + 1)
  (problem,) = index_check.check_index(folder)
  assert "state.json: of an older version" in problem
  assert "state.json" in " ".join(repair.repair_index(folder).done)
  assert index_check.check_index(folder) == []


def test_a_build_takes_no_file_for_its_own(folder):
  path = folder / "passages/1/other.npy"
  path.touch()
  with pytest.raises(DamagedIndexError, match=r"other\.npy"):
    build_index(folder, folder.parent / "more.txt")


@pytest.mark.parametrize("name", ["work.json", "records.jsonl", "months.npy"])
def test_a_work_that_was_damaged_while_it_waited_is_dated_again(
  built, tmp_path, monkeypatch, name
):
  folder = tmp_path / "index"
  with monkeypatch.context() as patch:
    patch.setattr(
      index_builder.index_commit, "commit_works", lambda *arguments: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
      build_index(folder, built / "annals.txt", reigns="西晉")
  (path,) = folder.glob(f"works/*/{name}")
  damage(path, "flipped")
  build_index(folder, built / "annals.txt", reigns="西晉")
  assert index_check.check_index(folder) == []
  assert not [*folder.glob("works/*/work.json")]


@pytest.mark.parametrize(
  "statement",
  [
    "UPDATE records SET best_month = best_month + 1 WHERE row = 3",
    "UPDATE records SET dated_by = 'keys' WHERE row = 3",
    "UPDATE works SET title = 'Another'",
    "UPDATE works SET dated_with = '{}'",
    "UPDATE works SET warnings = '{'",
    "UPDATE properties SET value = '{' WHERE name = 'manifest'",
    "UPDATE properties SET value = CAST('{' AS BLOB) WHERE name = 'manifest'",
    "UPDATE properties SET value = 1 WHERE name = 'next_row'",
    "UPDATE properties SET value = 7 WHERE name = 'generation'",
    "UPDATE properties SET value = 'a' WHERE name = 'manifest_sha256'",
    "UPDATE properties SET value = x'00' WHERE name LIKE 'calendar/%'",
    "UPDATE full_text_docsize SET sz = x'7f' WHERE id = 3",
  ],
)
def test_changes_of_the_database_are_found(folder, statement):
  with contextlib.closing(database.open_database(folder, False)) as connection:
    connection.execute(statement)
  assert index_check.check_index(folder)
  if "works" in statement or "'manifest'" in statement:
    with pytest.raises(DamagedIndexError):
      Index.open(folder)


@pytest.mark.parametrize("table", ["records", "full_text_data"])
def test_a_damaged_page_of_the_database_is_named(folder, table):
  path = folder / "index.sqlite"
  with contextlib.closing(sqlite3.connect(path)) as connection:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (root,) = connection.execute(
      "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
  with path.open("r+b") as file:
    file.seek((root - 1) * size)
    file.write(b"\xff" * size)
  assert index_check.check_index(folder)
  with pytest.raises(DamagedIndexError, match=r"index\.sqlite") as raised:
    Index.open(folder).ask("大雪", intent="words")
  assert "--repair" in str(raised.value)


ARRAYS = (
  ("starts", lambda values: np.r_[values[0], 9, values[2:]]),
  ("starts", lambda values: values + 1),
  ("starts", lambda values: values.astype(float)),
  ("starts", lambda values: values[None]),
  ("months", lambda values: values + 100_000),
  ("months", lambda values: values - 100_000),
  ("probabilities", lambda values: values * np.nan),
  ("probabilities", lambda values: values * 2),
  ("outside", lambda values: values - 1),
  ("event_log_p", lambda values: values + 1),
  ("posting_starts", lambda values: values[::-1].copy()),
  ("posting_records", lambda values: values + 100),
  ("posting_probabilities", lambda values: -values),
  ("rest", lambda values: values[:-1]),
)


@pytest.mark.parametrize(("name", "change"), ARRAYS)
def test_impossible_arrays_are_refused(small, name, change):
  path = small / f"works/notes/{name}.npy"
  np.save(path, change(np.load(path)))
  small_index.write_manifest(small)  # as somebody who means harm would
  index = Index.open(small)
  posteriors = index.posteriors_of(index.works[1])
  part = "postings" if "posting" in name or name == "rest" else "arrays"
  with pytest.raises(DamagedIndexError):
    getattr(posteriors, part)


def test_arrays_of_objects_are_not_unpickled(small):
  path = small / "works/notes/outside.npy"
  np.save(path, np.array([{}] * 4), allow_pickle=True)
  small_index.write_manifest(small)
  with pytest.raises(DamagedIndexError, match=r"outside\.npy: damaged"):
    Index.open(small).ask("魯隱公元年五月")


@pytest.mark.parametrize("is_small", [True, False])
def test_other_numbers_are_noticed_before_they_are_shown(
  small, monkeypatch, is_small
):
  path = small / "works/notes/posting_probabilities.npy"
  np.save(path, np.load(path) / 2)
  if is_small:
    with pytest.raises(DamagedIndexError, match=path.name):
      Index.open(small)
    return
  # Large files are read when they are used.
  monkeypatch.setattr(index_folder, "_MAX_HASHED", 100)
  index = Index.open(small)
  with pytest.raises(DamagedIndexError, match=path.name):
    index.ask("魯隱公元年五月")


def test_changes_that_are_not_in_the_file_yet_are_read(
  folder, tmp_path, monkeypatch
):
  writer = database.open_database(folder, readonly=False)
  writer.execute("UPDATE records SET place = 'new' WHERE row = 1")
  copy = shutil.copytree(folder, tmp_path / "stopped")
  writer.close()
  (copy / "index.sqlite-shm").unlink()
  monkeypatch.setattr(os, "access", lambda path, mode: False)
  with contextlib.closing(database.open_database(copy)) as connection:
    (place,) = connection.execute(
      "SELECT place FROM records WHERE row = 1"
    ).fetchone()
  assert place == "new"


def test_an_older_database_is_noticed(folder, tmp_path):
  old = shutil.copy(folder / "index.sqlite", tmp_path)
  build_index(folder, folder.parent / "more.txt")
  shutil.copy(old, folder)
  with pytest.raises(DamagedIndexError, match=r"generation 2.*generation 1"):
    Index.open(folder)
  assert index_check.check_index(folder)


@pytest.mark.parametrize("change", ["add", "remove", "redate"])
def test_a_command_that_is_stopped_after_its_commit_is_mended_by_itself(
  folder, monkeypatch, change
):
  if change == "redate":
    correct(folder, "annals", "3", "泰始三年七月")

  def run():
    if change == "redate":
      return redating.redate_index(folder)
    more = folder.parent / "more.txt"
    return build_index(folder, *[more] if change == "add" else [])

  if change == "remove":
    build_index(folder, folder.parent / "more.txt")

    def run():
      return build_index(folder, removed=["more"])

  with monkeypatch.context() as patch:
    patch.setattr(manifest, "write_manifest", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      run()
  # Readers see the new index already.
  index = Index.open(folder)
  assert (
    index.num_records
    == index.connection.execute("SELECT count(*) FROM records").fetchone()[0]
  )
  assert "was stopped" in " ".join(index_check.check_index(folder))
  with contextlib.suppress(ValueError):  # what is removed is not there
    run()
  assert index_check.check_index(folder) == []
  read = manifest.read_manifest(folder)
  assert Index.open(folder).manifest == read == index.manifest


def test_a_first_build_that_is_stopped_after_its_commit_is_finished(
  built, tmp_path, monkeypatch
):
  folder = tmp_path / "index"
  with monkeypatch.context() as patch:
    patch.setattr(manifest, "write_manifest", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      build_index(folder, built / "annals.txt", reigns="西晉")
  monkeypatch.setattr(staged_works, "stage_work", None)
  build_index(folder, built / "annals.txt", reigns="西晉")
  assert index_check.check_index(folder) == []


def test_readers_meet_no_error_while_a_build_ends(folder, monkeypatch):
  """A reader opens the index at every step of the end of a build."""
  opened = []

  def watch(module, name):
    call = getattr(module, name)

    def step(*arguments):
      opened.append(Index.open(folder).num_records)
      call(*arguments)
      opened.append(Index.open(folder).num_records)

    monkeypatch.setattr(module, name, step)

  watch(manifest, "write_manifest")
  watch(staged_works, "remove_leftovers")
  number = Index.open(folder).num_records
  build_index(folder, folder.parent / "more.txt")
  assert len({*opened}) == 1
  assert opened[0] > number


def test_a_damaged_manifest_is_noticed(folder):
  path = folder / manifest.MANIFEST_FILE
  content = path.read_text("utf-8")
  path.write_text(content.replace('"dated_by": "order"', '"dated_by": "model"'))
  with pytest.raises(DamagedIndexError, match=r"manifest\.json"):
    Index.open(folder)
  with pytest.raises(DamagedIndexError, match=r"manifest\.json"):
    build_index(folder, folder.parent / "more.txt")


def test_all_files_are_on_disk_before_the_manifest(
  built, tmp_path, monkeypatch
):
  folder = tmp_path / "index"
  synced, replaced = [], []
  fsync, replace = os.fsync, os.replace

  def note_fsync(descriptor):
    synced.append(os.path.realpath(f"/proc/self/fd/{descriptor}"))
    fsync(descriptor)

  def note_replace(source, target):
    if pathlib.Path(target).name == manifest.MANIFEST_FILE:
      replaced.append([*synced])
      assert str(source) in synced
    replace(source, target)

  monkeypatch.setattr(os, "fsync", note_fsync)
  monkeypatch.setattr(os, "replace", note_replace)
  build_index(folder, built / "annals.txt", reigns="西晉", use_passages=True)
  ((*before,),) = replaced
  paths = [folder / name for name in manifest.read_manifest(folder).files]
  assert {*map(str, paths)} <= {*before}
  parents = {str(parent) for path in paths for parent in path.parents}
  assert {it for it in parents if it.startswith(str(folder))} <= {*before}
  assert synced[-1] == str(folder)


def test_a_database_is_created_whole(tmp_path, monkeypatch):
  def connect(*arguments, **options):
    connection = sqlite_connect(*arguments, **options)
    connection.execute("CREATE TABLE half(a)")
    raise KeyboardInterrupt

  sqlite_connect = sqlite3.connect
  with monkeypatch.context() as patch:
    patch.setattr(sqlite3, "connect", connect)
    with pytest.raises(KeyboardInterrupt):
      database.create_database(tmp_path)
  assert not [*tmp_path.iterdir()]
  database.create_database(tmp_path)
  database.open_database(tmp_path).close()
