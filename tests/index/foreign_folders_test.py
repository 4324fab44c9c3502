"""Folders of strangers: nothing in them runs, and nothing outside is read.

Jobs and uploads of a stranger are in tests/web.
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import sqlite3
import struct
import zipfile

import msgspec
import numpy as np
import pytest

from ctd_jax.dating.passages import fitting
from ctd_jax.index import (
  backup,
  correction_journal,
  database,
  index_check,
  manifest,
)
from ctd_jax.index.asking import Index
from ctd_jax.index.corrections import Correction, CorrectionStore
from ctd_jax.models import tokenizer
from ctd_jax.models.pretrained import folders, vector_settings
from ctd_jax.training import config as training_config
from ctd_jax.training import run_folder
from ctd_jax.utils import command_line, files
from tests.index import small_index
from tests.tools import processes
from tests.web import annals_index

SECRET = "the content of a file outside"


class Code:
  """Makes a folder when it is unpickled."""

  def __init__(self, canary):
    self.canary = canary

  def __reduce__(self):
    return os.mkdir, (str(self.canary),)


@pytest.fixture
def canary(tmp_path):
  """Yields a path that exists if code of the stranger has run."""
  path = tmp_path / "canary"
  yield path
  assert not path.exists()


@pytest.fixture
def outside(tmp_path):
  """Yields a file that belongs to the user."""
  path = tmp_path / "outside" / "secret.npy"
  path.parent.mkdir()
  path.write_text(SECRET)
  yield path
  assert path.exists()


@pytest.fixture
def folder(tmp_path, index_folder):
  """Returns a copy of an index."""
  return shutil.copytree(index_folder, tmp_path / "index")


def use_index(folder):
  """Opens all that an index holds."""
  index = Index.open(folder)
  index.corrections.history()
  index.ask("鄭人")
  for work in index.works:
    posteriors = index.posteriors_of(work)
    assert len(posteriors.arrays) == work.num_records
    assert len(posteriors.postings.starts)
  assert len(index.day_chances) == len(index.calendar)
  if index.manifest.passages:
    index.passage_dater  # noqa: B018
  return index


def test_an_index_as_we_write_it_is_used(folder):
  use_index(folder)


# Each changes an index as a stranger may, and returns the name that the refusal
# has. `write_manifest` makes sizes and hashes right again.


def link_an_array(folder, outside, canary):
  path = folder / "works" / "annals" / "starts.npy"
  shutil.move(path, outside)
  path.symlink_to(outside)
  return "starts.npy"


def link_the_works(folder, outside, canary):
  shutil.move(folder / "works", outside.parent / "works")
  (folder / "works").symlink_to(outside.parent / "works")
  return "works"


def link_the_log_of_a_job(folder, outside, canary):
  (folder / "jobs").mkdir()
  (folder / "jobs" / "1.log").symlink_to(outside)
  return "1.log"


def put_a_pipe(folder, outside, canary):
  path = folder / "works" / "annals" / "months.npy"
  path.unlink()
  os.mkfifo(path)
  return "months.npy"


def change_manifest(folder, change):
  """Writes a changed manifest, in both places."""
  path = folder / manifest.MANIFEST_FILE
  content = json.loads(path.read_text())
  change(content)
  text = json.dumps(content)
  path.write_text(text)
  with (
    contextlib.closing(
      sqlite3.connect(folder / database.DATABASE_FILE)
    ) as connection,
    connection,
  ):
    database.set_property(connection, "manifest", text)


def name_a_file_outside(folder, outside, canary):
  entry = msgspec.to_builtins(manifest.hash_file(outside))
  name = f"../outside/{outside.name}"
  change_manifest(folder, lambda it: it["files"].update({name: entry}))
  return "secret.npy"


def name_passages_outside(folder, outside, canary):
  change_manifest(folder, lambda it: it.update(passages="../outside"))
  return "outside"


def move_a_work_outside(folder, outside, canary):
  shutil.copytree(folder / "works" / "annals", outside.parent / "annals")
  path = str(outside.parent / "annals")
  with (
    contextlib.closing(
      sqlite3.connect(folder / database.DATABASE_FILE)
    ) as connection,
    connection,
  ):
    connection.execute("UPDATE works SET folder = ? WHERE work_id = 1", (path,))
  small_index.write_manifest(folder)
  return "annals"


def pickle_an_array(name):
  def pickle_array(folder, outside, canary):
    array = np.array([Code(canary)], object)
    np.save(folder / name, array, allow_pickle=True)
    small_index.write_manifest(folder)
    return pathlib.Path(name).name

  return pickle_array


def pickle_in_an_archive(folder, outside, canary):
  path = folder / "calendar" / "months.npz"
  arrays = files.load_arrays(path)
  arrays[min(arrays)] = np.array([Code(canary)], object)
  np.savez(path, **arrays)
  return "months.npz"


def write_array_of_a_liar(folder, outside, canary):
  header = {"descr": "<i4", "fortran_order": False, "shape": (1 << 45,)}
  file = io.BytesIO()
  np.lib.format.write_array_header_1_0(file, header)
  path = folder / "works" / "annals" / "months.npy"
  path.write_bytes(file.getvalue() + bytes(64))
  small_index.write_manifest(folder)
  return "months.npy"


def write_a_deep_header(folder, outside, canary):
  header = b"(" * 60_000
  path = folder / "works" / "annals" / "months.npy"
  path.write_bytes(
    b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
  )
  small_index.write_manifest(folder)
  return "months.npy"


def write_a_large_archive(folder, outside, canary):
  path = folder / "calendar" / "months.npz"
  np.savez_compressed(path, **files.load_arrays(path), more=np.zeros(1 << 18))
  return "months.npz"


def write_a_deep_manifest(folder, outside, canary):
  path = folder / manifest.MANIFEST_FILE
  path.write_text('{"format": 3, "works": ' + "[" * 100_000)
  return "manifest.json"


def add_correction(folder):
  ids = {"first_record": "notes-0", "last_record": "notes-0"}
  correction = Correction(
    work="notes", date="隱公元年", texts_sha256="0", **ids
  )
  CorrectionStore(folder).add(correction, "key")


def name_a_file_to_delete(file):
  """Returns what has SQLite delete a file, by a journal of two databases."""

  def write_journal(folder, outside, canary):
    if file != database.DATABASE_FILE:
      add_correction(folder)
    magic = bytes.fromhex("d9d505f920a163d7")
    name = str(outside).encode()
    num_pages = (folder / file).stat().st_size // 4096
    header = struct.pack(">IIIII", 0, 1, num_pages, 512, 4096)
    # The page that holds the lock, name, length and sum of its bytes.
    end = struct.pack(">I", (1 << 30) // 4096 + 1) + name
    end += struct.pack(">II", len(name), sum(name)) + magic
    path = folder / f"{file}-journal"
    path.write_bytes((magic + header).ljust(512, b"\0") + end)
    return path.name

  return write_journal


def run_sql(*statements, file=database.DATABASE_FILE):
  def run(folder, outside, canary):
    if file != database.DATABASE_FILE:
      add_correction(folder)
    connection = sqlite3.connect(folder / file)
    with contextlib.closing(connection), connection:
      for statement in statements:
        connection.execute(statement)
    return file

  return run


HOSTILE = {
  "link to a file": link_an_array,
  "link to a folder": link_the_works,
  "link in jobs": link_the_log_of_a_job,
  "pipe": put_a_pipe,
  "file outside": name_a_file_outside,
  "passages outside": name_passages_outside,
  "work outside": move_a_work_outside,
  "pickled posteriors": pickle_an_array("works/annals/starts.npy"),
  "pickled postings": pickle_an_array("works/annals/posting_starts.npy"),
  "pickled days": pickle_an_array("calendar/day_chances.npy"),
  "pickled months": pickle_in_an_archive,
  "false shape": write_array_of_a_liar,
  "deep header": write_a_deep_header,
  "large archive": write_a_large_archive,
  "deep manifest": write_a_deep_manifest,
  "journal": name_a_file_to_delete(database.DATABASE_FILE),
  "journal of corrections": name_a_file_to_delete("corrections.sqlite"),
  "view": run_sql(
    "ALTER TABLE records RENAME TO others",
    "CREATE VIEW records AS SELECT * FROM others",
  ),
  "trigger": run_sql(
    "CREATE TRIGGER t AFTER INSERT ON properties BEGIN DELETE FROM records; END"
  ),
  "full text": run_sql("DROP TABLE full_text", "CREATE TABLE full_text(words)"),
  "expression": run_sql("CREATE INDEX i ON records(upper(text))"),
  "trigger on corrections": run_sql(
    "CREATE TRIGGER t AFTER INSERT ON corrections BEGIN "
    "DELETE FROM corrections; END",
    file="corrections.sqlite",
  ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_index_of_a_stranger_is_refused_by_name(
  folder, outside, canary, monkeypatch, kind
):
  name = HOSTILE[kind](folder, outside, canary)
  monkeypatch.setattr(files, "_MAX_ARRAYS", 1 << 20)
  with pytest.raises(ValueError, match=name) as raised:
    use_index(folder)
  assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
  "change",
  [
    f"works SET warnings = '{'[' * 100_000}'",
    f"works SET dated_with = '{'[' * 100_000}'",
    "works SET warnings = '5'",
    "works SET printed_reigns = 'x'",
    "works SET first_row = -5",
    "works SET first_row = 'x'",
    "works SET num_records = 1000000000000",
    "records SET headings = '{'",
  ],
  ids=lambda it: it[:24],
)
def test_values_that_nobody_writes_are_damage(folder, change):
  with (
    contextlib.closing(
      sqlite3.connect(folder / database.DATABASE_FILE)
    ) as connection,
    connection,
  ):
    connection.execute(f"UPDATE {change}")
  with contextlib.suppress(manifest.DamagedIndexError):
    small_index.write_manifest(folder)
  with pytest.raises(manifest.DamagedIndexError, match=r"index\.sqlite"):
    use_index(folder)


def test_names_of_a_stranger_do_not_command_the_terminal(folder):
  name = "\x1b]0;title\x07\x1b[2J"
  with (
    contextlib.closing(
      sqlite3.connect(folder / database.DATABASE_FILE)
    ) as connection,
    connection,
  ):
    connection.execute("UPDATE works SET title = ?", (name,))
  small_index.write_manifest(folder)
  assert "\x1b" not in index_check.format_summary(folder)
  with pytest.raises(SystemExit) as raised:
    command_line.exit_with_error(ValueError(f"{name}: bad"))
  assert "\x1b" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--add={0}", "--repair", "--check"])
def test_no_command_writes_through_a_link(folder, outside, canary, flag):
  name = link_the_works(folder, outside, canary)
  before = sorted(outside.parent.rglob("*"))
  flag = flag.format(outside.parent.parent)
  process = processes.run_python(
    "-m", "ctd_jax.index", f"--index={folder}", flag
  )
  assert process.returncode == 1
  assert f"{folder}/{name} is a link" in process.stderr
  assert sorted(outside.parent.rglob("*")) == before


@pytest.mark.parametrize("path", ["gs://bucket/run", "stranger/model"])
def test_an_encoder_that_an_index_names_is_not_downloaded(
  folder, monkeypatch, path
):
  entry = manifest.EncoderEntry(path, "model", "encoder", "0", 8, 10)
  change_manifest(
    folder, lambda it: it.update(dense=msgspec.to_builtins(entry))
  )
  asked = []

  def download(source, **options):
    asked.append(options["local_files_only"])
    raise FileNotFoundError(source)

  monkeypatch.setattr(folders.huggingface_hub, "snapshot_download", download)
  index = Index.open(folder)
  with pytest.raises(FileNotFoundError, match=f"{path}.*--encoder"):
    index.dense.encoder  # noqa: B018
  assert asked in ([], [True])


def test_state_of_passages_does_not_name_files_outside(tmp_path, outside):
  folder = tmp_path / "passages"
  fitting.write_state(folder, ("a", np.zeros(3)))
  path = folder / fitting.STATE_FILE
  content = json.loads(path.read_text())
  content["state"]["tuple"][1]["array"] = "../outside/secret"
  path.write_text(json.dumps(content))
  with pytest.raises(ValueError, match=r"outside/secret.*leads out"):
    fitting.read_state(folder, ())


def test_a_backup_copies_no_file_that_the_index_was_not_made_from(tmp_path):
  index = annals_index.build_index(tmp_path, use_passages=False)
  backup.write_backup(index, tmp_path / "whole.zip")
  (tmp_path / "annals.txt").write_text(SECRET)  # the index names its path
  result = backup.write_backup(index, tmp_path / "without.zip")
  assert "gone or has changed" in " ".join(result.notes)
  for name, number in (("whole.zip", 1), ("without.zip", 0)):
    with zipfile.ZipFile(tmp_path / name) as archive:
      copied = [it for it in archive.namelist() if "annals.txt" in it]
      assert len(copied) == number


def test_columns_of_a_journal_are_ours(tmp_path):
  row = {"correction_id": 1, "work) SELECT sqlite_version() --": "x"}
  line = correction_journal._format_line(row)
  for content in (line, b"[" * 100_000):
    (tmp_path / correction_journal.JOURNAL_FILE).write_bytes(content)
    assert correction_journal.read_journal(tmp_path) == ({}, 1, 1)


def write_encoder(folder, canary):
  """Writes code into a folder, where a published encoder has it."""
  code = f"import os\nos.mkdir({str(canary)!r})\nEvil = object\n"
  (folder / "evil.py").write_text(code)
  auto_map = {
    "AutoConfig": "evil.Evil",
    "AutoTokenizer": ["evil.Evil", "evil.Evil"],
    "AutoModel": "evil.Evil",
  }
  return {"auto_map": auto_map, "tokenizer_class": "Evil"}


def test_code_beside_a_config_does_not_run(tmp_path, canary):
  fields = write_encoder(tmp_path, canary)
  path = tmp_path / folders.CONFIG_FILE
  for kind in ("evil", "bert"):
    path.write_text(json.dumps(fields | {"model_type": kind}))
    with contextlib.suppress(ValueError):
      folders.read_encoder_config(tmp_path)


@pytest.mark.parametrize("content", ["{}", "[]", "\x80\x04", '{"model": 1}'])
def test_code_beside_a_tokenizer_does_not_run(tmp_path, canary, content):
  fields = write_encoder(tmp_path, canary)
  for name in (folders.CONFIG_FILE, tokenizer.SETTINGS_FILE):
    text = json.dumps(fields | {"model_type": "bert"})
    (tmp_path / name).write_text(text)
  (tmp_path / tokenizer.TOKENIZER_FILE).write_text(content)
  with pytest.raises(ValueError, match=tmp_path.name):
    tokenizer.TextTokenizer.load(tmp_path)


def test_weights_and_steps_of_an_encoder_are_inside(tmp_path, outside):
  (tmp_path / folders.INDEX_FILE).write_text(
    json.dumps({"weight_map": {"a": f"outside/../../{outside}"}})
  )
  with pytest.raises(ValueError, match="leads out"):
    folders.TensorFiles(tmp_path)
  step = {"path": "../outside", "type": "sentence_transformers.models.Pooling"}
  (tmp_path / vector_settings.MODULES_FILE).write_text(json.dumps([step]))
  with pytest.raises(ValueError, match="leads out"):
    vector_settings.read_vector_settings(tmp_path)


def test_config_of_a_run_is_data(tmp_path, canary):
  write_encoder(tmp_path, canary)
  (tmp_path / "evil.py").rename(tmp_path / "config.py")
  (tmp_path / run_folder.CONFIG_FILE).write_text('{"name": "__import__"}')
  with pytest.raises(ValueError, match=r"config\.json"):
    run_folder.read_config(tmp_path)


def test_config_of_a_run_does_not_allow_code(tmp_path):
  fields = run_folder.to_json_types(training_config.base_config().to_dict())
  fields["published"] = {"source": str(tmp_path), "run_model_code": True}
  (tmp_path / run_folder.CONFIG_FILE).write_text(json.dumps(fields))
  config = run_folder.read_config(tmp_path)
  assert config.published.run_model_code is False


@pytest.mark.parametrize("kind", ["class of a feature", "file outside"])
def test_a_data_set_of_a_stranger_runs_nothing(
  tmp_path, canary, monkeypatch, mini_data_dir, kind
):
  from ctd_jax_datasets import load

  shutil.copytree(mini_data_dir, tmp_path / "data")
  (data,) = (tmp_path / "data").glob("chunqiutr/mini/*")
  write_encoder(tmp_path, canary)
  monkeypatch.syspath_prepend(tmp_path)
  features = json.loads((data / "features.json").read_text())
  features["pythonClassName"] = "evil.Evil"
  (data / "features.json").write_text(json.dumps(features))
  if kind == "class of a feature":
    assert load.load_benchmark("chunqiutr/mini", tmp_path / "data").records
    return
  for file in data.glob("*records*"):
    shutil.move(file, tmp_path / file.name)
  path = data / "dataset_info.json"
  info = json.loads(path.read_text())
  for split in info["splits"]:
    split["filepathTemplate"] = f"../../../../{split['filepathTemplate']}"
  path.write_text(json.dumps(info))
  with pytest.raises(ValueError, match="leads out"):
    load.load_benchmark("chunqiutr/mini", tmp_path / "data")
