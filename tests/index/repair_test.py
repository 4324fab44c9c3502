"""Damage of an index, and its repair."""

import contextlib
import json
import os
import re
import shutil

import msgspec
import pytest

from ctd_jax.index import (
  backup,
  corrections,
  database,
  index_check,
  manifest,
  redating,
  repair,
)
from ctd_jax.index.building import index_builder
from ctd_jax.index.building.group_dating import DatingChoices
from ctd_jax.index.corrections import CorrectionStore
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.web import served_index
from tests.benchmarks import index_faults
from tests.index import corpora
from tests.tools import processes
from tests.web import annals_index


@pytest.fixture(name="original", scope="module")
def fixture_original(tmp_path_factory):
  """Returns an index whose corrections are made, one of them undone."""
  folder = tmp_path_factory.mktemp("original")
  index = annals_index.build_index(folder, use_passages=False)
  for record in ("1", "2", "3"):
    corpora.correct(index, "annals", record, "泰始元年")
  CorrectionStore(index).undo(2, "B", "undo")
  return index


def damage(path, how, place=0.5):
  """Damages a file: flip a bit, truncate, zero or delete."""
  content = bytearray(path.read_bytes())
  start = int(len(content) * place)
  if how == "delete":
    path.unlink()
    return
  if how == "flip":
    content[min(start, len(content) - 1)] ^= 0x10
  elif how == "zero":
    content[start : start + 4096] = bytes(len(content[start : start + 4096]))
  else:
    del content[start:]
  path.write_bytes(content)


@pytest.mark.parametrize("how", ["flip", "truncate", "zero", "delete"])
@pytest.mark.parametrize("name", ["corrections.sqlite", "corrections.jsonl"])
@pytest.mark.parametrize("place", [0, 0.7])
def test_no_correction_is_lost(original, tmp_path, name, how, place):
  folder = shutil.copytree(original, tmp_path / "index")
  store = CorrectionStore(folder)
  before = store.history()
  assert [*store.check()] == []
  store._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")
  store._open().close()
  damage(folder / name, how, place)
  problems = [*CorrectionStore(folder).check()]
  if how == "flip" and name.endswith("sqlite") and not problems:
    pytest.skip("the bit belongs to nothing")
  assert name in str(problems[0])
  assert corrections.mend_file(folder)
  store = CorrectionStore(folder)
  assert [*store.check()] == []
  assert store.history() == before
  assert corrections.mend_file(folder) == []
  # The next has a number of its own.
  corpora.correct(folder, "annals", "2", "泰始元年", key="new")
  assert store.history()[0].correction_id == 4
  assert [*store.check()] == []


def test_corrections_that_may_be_lost_are_a_problem(folder):
  for name in ("corrections.sqlite", "corrections.jsonl"):
    damage(folder / name, "zero", 0)
  assert corrections.MAY_BE_LOST in repair.repair_index(folder).problems
  assert repair.repair_index(folder).problems == ()


@pytest.fixture(name="folder")
def fixture_folder(original, tmp_path):
  """Returns a copy of the index, to be damaged."""
  folder = tmp_path / "index"
  shutil.copytree(
    original, folder, ignore=shutil.ignore_patterns("*-wal", "*-shm")
  )
  return folder


def change_rows(folder):
  with contextlib.closing(database.open_database(folder, False)) as connection:
    connection.execute("UPDATE records SET best_month = 7 WHERE row = 2")


def change_title(folder):
  path = folder / "manifest.json"
  path.write_text(path.read_text().replace('"title": "annals"', '"title": "a"'))


def damage_arrays(folder):
  for path in folder.glob("works/*/*.npy"):
    damage(path, "flip")


PARTS = {
  "manifest.json": lambda folder: (folder / "manifest.json").unlink(),
  "title": change_title,
  "months": lambda folder: (folder / "calendar" / "months.npz").unlink(),
  "timeline": lambda folder: damage(
    folder / "calendar" / "timeline.json", "zero"
  ),
  "database": lambda folder: (folder / "index.sqlite").unlink(),
  "half of the database": lambda folder: damage(
    folder / "index.sqlite", "truncate"
  ),
  "rows": change_rows,
  "arrays": damage_arrays,
  "postings": lambda folder: [
    path.unlink() for path in folder.glob("works/*/posting_*.npy")
  ],
  "a file of nobody": lambda folder: (folder / "calendar" / "x").write_text(""),
  "all but manifest and calendar": lambda folder: (
    shutil.rmtree(folder / "works"),
    (folder / "index.sqlite").unlink(),
    (folder / "corrections.sqlite").unlink(),
  ),
}


@pytest.mark.parametrize("part", PARTS)
def test_what_is_damaged_is_made_again_as_it_was(original, folder, part):
  PARTS[part](folder)
  assert index_check.check_index(folder) or part == "a file of nobody"
  result = repair.repair_index(folder)
  assert result.done
  assert result.problems == ()
  assert index_check.check_index(folder) == []
  assert read_contents(folder) == read_contents(original)
  again = repair.repair_index(folder)
  assert (again.done, again.problems) == ((), ())


def read_contents(folder):
  """Returns rows, manifest and corrections of an index."""
  # The full text is laid out in another way, with the same words.
  index_manifest = msgspec.structs.replace(
    manifest.read_manifest(folder), full_text_sha256=""
  )
  with contextlib.closing(database.open_database(folder)) as connection:
    rows = connection.execute("SELECT * FROM records ORDER BY row").fetchall()
    found = database.search_text(connection, ["大雪"], 5)
  return index_manifest, rows, found, CorrectionStore(folder).history()


def test_an_intact_index_stays_as_it_is(folder):
  before = (folder / "manifest.json").read_bytes()
  result = repair.repair_index(folder)
  assert (result.done, result.problems) == ((), ())
  assert (folder / "manifest.json").read_bytes() == before


def test_a_repair_that_is_stopped_goes_on(original, folder, monkeypatch):
  (folder / "index.sqlite").unlink()
  with monkeypatch.context() as patch:
    patch.setattr(repair._Repair, "_commit", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      repair.repair_index(folder)
  # Half of it is not taken for an index.
  with pytest.raises(ValueError, match="--repair"):
    IndexFolder.open(folder)
  assert repair.repair_index(folder).problems == ()
  assert index_check.check_index(folder) == []
  assert read_contents(folder) == read_contents(original)


def test_a_work_without_source_is_taken_out_and_named(tmp_path):
  folder = annals_index.build_index(tmp_path, use_passages=False)
  corpora.correct(folder, "annals", "3", "泰始元年")
  before = CorrectionStore(folder).history()
  source = tmp_path / "annals.txt"
  text = source.read_text()
  source.unlink()
  for path in folder.glob("works/*/months.npy"):
    path.unlink()
  (problem,) = repair.repair_index(folder).problems
  assert f"annals: taken out, since it cannot be dated again: {source}" in (
    problem
  )
  (lost,) = folder.glob("lost/annals-*.jsonl")
  lines = lost.read_text("utf-8").splitlines()
  assert json.loads(lines[1])["text"] == "夏四月，雨雹。"
  assert index_check.check_index(folder) == []
  assert IndexFolder.open(folder).works == ()
  assert CorrectionStore(folder).history() == before
  source.write_text(text)
  corpora.build_index(folder, source)
  (work,) = IndexFolder.open(folder).works
  assert '"corrections": [1]' in work.dated_with


@pytest.mark.parametrize("changed", ["annals.txt", "fixed.tsv"])
def test_a_changed_source_is_not_used(tmp_path, changed):
  """In an index of a stranger it may be any file of yours."""
  source, fixed = tmp_path / "annals.txt", tmp_path / "fixed.tsv"
  source.write_text(annals_index.TEXT)
  fixed.write_text("record\tdate\n2\t泰始元年五月\n")
  folder = tmp_path / "index"
  corpora.build_index(
    folder, source, reigns="西晉", choices=DatingChoices(fixed=fixed)
  )
  (tmp_path / changed).write_text("the content of a file of yours")
  for path in folder.glob("works/*/months.npy"):
    path.unlink()
  result = repair.repair_index(folder)
  (problem,) = result.problems
  assert f"annals: taken out, since it cannot be dated again: {tmp_path}" in (
    problem
  )
  assert f"{changed} has changed since" in problem
  assert f"--add={source}" in problem
  (lost,) = folder.glob("lost/annals-*.jsonl")
  assert "大雪" in lost.read_text("utf-8")
  index = IndexFolder.open(folder)
  assert index.works == ()
  content = (folder / "index.sqlite").read_bytes()
  assert b"a file of yours" not in content + lost.read_bytes()


@pytest.mark.slow
def test_vectors_are_made_again(tmp_path):
  encoder = index_faults.make_encoder(tmp_path / "encoder")
  source = tmp_path / "annals.txt"
  source.write_text(annals_index.TEXT)
  folder = tmp_path / "index"
  corpora.build_index(folder, source, reigns="西晉", encoder=encoder)
  before = read_contents(folder)
  (path,) = folder.glob("vectors/*/*.npy")
  damage(path, "flip")
  assert repair.repair_index(folder).problems == ()
  assert read_contents(folder) == before
  # Without their encoder they go, and the rest stays.
  damage(path, "truncate")
  shutil.rmtree(encoder)
  (problem,) = repair.repair_index(folder).problems
  assert "vectors: taken out" in problem
  assert index_check.check_index(folder) == []
  assert read_contents(folder)[1:] == before[1:]


def test_files_of_readers_are_not_taken_for_leftovers(folder):
  path = folder / "manifest.json"
  content = json.loads(path.read_text())
  content["files"]["corrections.sqlite"] = {"bytes": 0, "sha256": ""}
  path.write_text(json.dumps(content))
  (folder / "index.sqlite").unlink()
  with pytest.raises(ValueError, match=r"corrections\.sqlite"):
    repair.repair_index(folder)
  assert len(CorrectionStore(folder).history()) == 3


def test_folders_of_a_strange_manifest_are_not_replaced(folder, tmp_path):
  (tmp_path / "mine").mkdir()
  path = folder / "manifest.json"
  text = path.read_text()
  name = json.loads(text)["works"][0]["folder"]
  path.write_text(text.replace(name, "../mine"))
  (folder / "index.sqlite").unlink()
  with pytest.raises(ValueError, match="neither manifest"):
    repair.repair_index(folder)
  assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize(
  "change",
  [
    lambda work: work["dated_with"].update(source=None),
    lambda work: work["dated_with"].update(corrections="all"),
    lambda work: work.pop("first_row"),
  ],
)
def test_entries_of_works_that_nobody_writes_are_named(folder, change):
  path = folder / "manifest.json"
  content = json.loads(path.read_bytes())
  change(content["works"][0])
  content["generation"] += 1
  path.write_text(json.dumps(content))
  with pytest.raises(ValueError, match=r"manifest\.json: damaged"):
    repair.repair_index(folder)


def test_without_manifest_and_database_an_index_is_built_again(folder):
  for name in ("manifest.json", "index.sqlite"):
    (folder / name).write_bytes(b"")
  (folder / "calendar" / "months.npz").unlink()
  before = CorrectionStore(folder).history()
  with pytest.raises(ValueError, match=re.escape(manifest.REBUILD)):
    repair.repair_index(folder)
  for path in (*folder.glob("index.sqlite*"), folder / "manifest.json"):
    path.unlink()
  source = folder.with_name("annals.txt")
  corpora.write_annals(source)
  corpora.build_index(folder, source, reigns="西晉")
  assert index_check.check_index(folder) == []
  assert CorrectionStore(folder).history() == before


def test_a_build_does_not_begin_anew_without_the_database(folder):
  (folder / "index.sqlite").unlink()
  with pytest.raises(manifest.DamagedIndexError, match="--repair"):
    corpora.build_index(folder, folder.parent / "annals.txt")
  assert repair.repair_index(folder).problems == ()
  # What a repair leaves is no reason to refuse a build.
  for path in (*folder.glob("index.sqlite*"), folder / "manifest.json"):
    path.unlink()
  (folder / "lost").mkdir()
  (folder / "corrections.damaged-1.sqlite").write_bytes(b"")
  assert index_builder.is_new_folder(folder)


def test_an_index_of_an_earlier_version_is_left_as_it_is(folder):
  """It has no journal of corrections, and its database other columns."""
  (folder / "corrections.jsonl").unlink()
  (folder / "manifest.json").write_text('{"format": 2}')
  with contextlib.closing(database.open_database(folder, False)) as connection:
    connection.execute("DELETE FROM properties")
  for action in (
    repair.repair_index,
    lambda index: backup.write_backup(index, folder.with_name("index.zip")),
  ):
    with pytest.raises(ValueError, match="an index of format 2"):
      action(folder)
  names = {path.name for path in folder.glob("corrections.*[el]")}
  assert names == {"corrections.sqlite"}


def test_a_server_says_once_that_an_index_cannot_be_opened(folder, caplog):
  holder = served_index.IndexHolder(folder)
  (folder / "manifest.json").write_text("[")
  for _ in range(3):
    assert holder.newest is holder.opened
  assert caplog.text.count("cannot be opened") == 1
  repair.repair_index(folder)
  assert holder.newest is holder.opened


def test_two_repairs_do_not_meet(folder):
  with (
    index_builder.lock(folder),
    pytest.raises(ValueError, match="another build is working on it"),
  ):
    repair.repair_index(folder)


@pytest.mark.slow
def test_faults_of_all_kinds_are_mended(tmp_path):
  rows = tmp_path / "rows.json"
  # Its processes compile the same programs.
  cache = {
    "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
  }
  done = processes.run_python(
    *("-m", "tests.benchmarks.index_faults", "--quick", f"--rows={rows}"),
    env=os.environ | {"OMP_NUM_THREADS": "1"} | cache,
  )
  assert done.returncode == 0, done.stderr
  tries = json.loads(rows.read_text())
  assert len(tries) >= 20
  assert [it for it in tries if not it["is_good"]] == []


@pytest.mark.slow
def test_works_are_dated_beside_those_of_the_first_time(tmp_path):
  """A work whose neighbour was replaced does not lend it its new dates."""
  corpora.write_annals(tmp_path / "annals.txt")
  corpora.write_notes(tmp_path / "notes.txt")
  texts = (tmp_path / "notes.txt").read_text("utf-8").splitlines()
  (tmp_path / "more.txt").write_text(f"{texts[1]}\n{texts[0]}\n", "utf-8")
  folder = tmp_path / "index"
  corpora.build_index(folder, tmp_path / "annals.txt", reigns="西晉")
  undated = tmp_path / "notes.txt", tmp_path / "more.txt"
  corpora.build_index(folder, *undated)
  before = read_contents(folder)
  for path in folder.glob("works/more*/months.npy"):
    path.unlink()
  (folder / "index.sqlite").unlink()
  result = repair.repair_index(folder)
  assert result.problems == ()
  assert read_contents(folder) == before
  # Without the source of its neighbour it is dated alone, and stays.
  for path in folder.glob("works/more*/months.npy"):
    path.unlink()
  notes = (tmp_path / "notes.txt").rename(tmp_path / "away.txt")
  assert repair.repair_index(folder).problems == ()
  assert len(IndexFolder.open(folder).works) == 3
  notes.rename(tmp_path / "notes.txt")
  # Dated alone now, it has nothing to do with the one that stays.
  corpora.correct(folder, "notes", "1", "泰始三年七月")
  redating.redate_index(folder)
  before = read_contents(folder)
  for path in folder.glob("works/notes*/months.npy"):
    path.unlink()
  assert repair.repair_index(folder).problems == ()
  assert read_contents(folder) == before
