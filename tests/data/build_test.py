"""The build command: tables, reuse, building again, errors in one line."""

import json
import os
import re
import shutil
import signal

import pytest
from absl import app

from ctd_jax_datasets import build
from ctd_jax_datasets.common import summary
from tests.data import folders
from tests.tools import processes


def run(*arguments, cwd):
  environment = {k: v for k, v in os.environ.items() if k != "CTD_JAX_SOURCES"}
  return processes.run_python(
    "-m", "ctd_jax_datasets.build", *arguments, cwd=cwd, env=environment
  )


@pytest.fixture(scope="module")
def data_dir(mini_data_dir, tmp_path_factory):
  """A copy of the build, for the tests here that change it."""
  folder = tmp_path_factory.mktemp("data") / "copy"
  shutil.copytree(mini_data_dir, folder)
  return folder


@pytest.fixture(scope="module")
def statistics(data_dir):
  (path,) = data_dir.rglob(build.STATISTICS_FILE)
  return json.loads(path.read_text("utf-8"))


@pytest.mark.slow
def test_statistics_add_up(statistics):
  *splits, total = statistics["splits"]
  assert [row["split"] for row in splits] == ["train", "validation", "test"]
  assert total["months"] == statistics["months"] == 360
  assert total["with_event"] + total["empty"] == total["months"]
  assert total["empty"] == total["no_event"]
  for row in [*splits, total]:
    assert row["event"] + row["no_event"] + row["neg_comment"] == row["records"]
    assert row["queries"] == sum(
      row[f"{kind}_{family}"]
      for kind in ("event", "empty")
      for family in ("points", "windows")
    )
  sources = statistics["sources"]
  assert sum(row["records"] for row in sources) == total["records"]
  assert sum(statistics["groups"].values()) == total["queries"]
  assert statistics["synthetic"]


def test_a_build_is_reused(data_dir):
  before = {path: path.stat().st_mtime_ns for path in data_dir.rglob("*")}
  build.build_dataset("chunqiutr/mini", data_dir)
  assert before == {
    path: path.stat().st_mtime_ns for path in data_dir.rglob("*")
  }


@pytest.mark.slow
def test_lost_statistics_are_counted_again(data_dir, statistics):
  (path,) = data_dir.rglob(build.STATISTICS_FILE)
  path.unlink()
  build.build_dataset("chunqiutr/mini", data_dir)
  assert json.loads(path.read_text("utf-8")) == statistics


@pytest.mark.slow
def test_building_again_replaces_and_gives_the_same(data_dir, statistics):
  (path,) = data_dir.rglob(build.STATISTICS_FILE)
  path.write_text("{}", encoding="utf-8")
  build.build_dataset("chunqiutr/mini", data_dir, overwrite=True)
  assert json.loads(path.read_text("utf-8")) == statistics
  assert list(path.parent.parent.iterdir()) == [path.parent]


@pytest.mark.slow
def test_a_failed_rebuild_keeps_the_old_one(data_dir, monkeypatch):
  (path,) = data_dir.rglob(build.STATISTICS_FILE)
  before = path.read_text("utf-8")

  def fail(builder):
    raise RuntimeError("no space")

  monkeypatch.setattr(summary, "summarise_dataset", fail)
  with pytest.raises(RuntimeError, match="no space"):
    build.build_dataset("chunqiutr/mini", data_dir, overwrite=True)
  assert path.read_text("utf-8") == before
  assert list(path.parent.parent.iterdir()) == [path.parent]


def test_damaged_statistics_are_named(mini_data_dir, tmp_path):
  shutil.copytree(mini_data_dir, tmp_path / "copy")
  [path] = (tmp_path / "copy").rglob(build.STATISTICS_FILE)
  path.write_text("{}", encoding="utf-8")
  with pytest.raises(SystemExit, match=r"mini/[\d.]+: damaged .*--overwrite"):
    build.main(["build", "chunqiutr/mini"], str(tmp_path / "copy"))


def test_a_damaged_data_set_is_built_again(data_dir, statistics):
  (path,) = data_dir.rglob("dataset_info.json")
  path.write_bytes(b"")
  with pytest.raises(build.DamagedDatasetError):
    build.build_dataset("chunqiutr/mini", data_dir)
  build.build_dataset("chunqiutr/mini", data_dir, overwrite=True).read_splits()


_KILLED_BUILD = """
import os, signal, sys
from ctd_jax_datasets import build
from ctd_jax_datasets.chunqiutr.chunqiutr_dataset_builder import Builder
from ctd_jax_datasets.common.base_builder import BaseBuilder, StableWriter

def kill(*arguments):
  os.kill(os.getpid(), signal.SIGKILL)

owner = {"write": StableWriter, "_info": Builder}.get(sys.argv[1], BaseBuilder)
setattr(owner, sys.argv[1], kill)
build.build_dataset("chunqiutr/mini", sys.argv[2], overwrite=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["write", "_info", "describe"])
def test_a_killed_build_is_made_good_by_the_same_command(
  data_dir, statistics, tmp_path, place
):
  for copied in (False, True):
    folder = tmp_path / str(copied)
    if copied:
      shutil.copytree(data_dir, folder)
    done = processes.run_python("-c", _KILLED_BUILD, place, folder)
    assert done.returncode == -signal.SIGKILL, done.stderr
    final = folder / "chunqiutr/mini" / statistics["name"].rpartition("/")[2]
    if place == "write":
      assert not final.exists()
    builder = build.build_dataset("chunqiutr/mini", folder)
    assert builder.data_path == final
    assert builder.read_splits()
    assert json.loads((final / build.STATISTICS_FILE).read_text()) == statistics
    assert not list(final.parent.glob("replaced.*"))


def test_sources_are_not_ignored(tmp_path):
  with pytest.raises(ValueError, match="mini is made without sources"):
    build.build_dataset("chunqiutr/mini", tmp_path, sources=tmp_path)
  assert not (tmp_path / "chunqiutr" / "mini").exists()


def test_a_failed_build_leaves_other_data_sets(data_dir, tmp_path):
  with pytest.raises(ValueError, match="nowhere: no such folder"):
    build.build_dataset("chunqiutr/rebuilt", data_dir, tmp_path / "nowhere")
  names = {path.name for path in (data_dir / "chunqiutr").iterdir()}
  assert names == {"mini", ".config"}


def test_fewer_rows_than_written_is_an_error(data_dir, monkeypatch):
  builder = build.build_dataset("chunqiutr/mini", data_dir)
  monkeypatch.setattr(
    builder, "as_data_source", lambda split: ["only one"], raising=True
  )
  with pytest.raises(
    build.DamagedDatasetError, match="split .* has 1 examples"
  ):
    build._check_lengths(builder)


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(SystemExit, match=r"^error: .*/file"):
    build.main(["build", "chunqiutr/mini"], str(tmp_path / "file" / "data"))


@pytest.mark.slow
def test_another_process_writes_the_same_bytes(data_dir, tmp_path):
  # Maps of protocol buffers have another order in every process.
  done = run("chunqiutr/mini", f"--data_dir={tmp_path}", cwd=tmp_path)
  assert done.returncode == 0, done.stderr
  first, second = (
    {path.name: path.read_bytes() for path in folder.rglob("mini/*/*")}
    for folder in (data_dir, tmp_path)
  )
  assert first == second
  shown = dict(line.split(": ", 1) for line in done.stdout.splitlines()[-4:])
  statistics = json.loads(second[build.STATISTICS_FILE])
  assert shown["content sha256"] == statistics["content_sha256"]
  assert re.fullmatch(r"[\d.]+ s, \d+ MiB at most.*", shown["time and memory"])
  assert "writer.py" not in done.stderr


@pytest.mark.beam
def test_workers_build_what_one_process_builds(tmp_path):
  names = "chunqiutr/mini", "ctm/ito"
  runner = "--runner=DirectRunner", "--workers=2"
  for folder, flags in (("local", ()), ("beam", runner)):
    done = run(*names, f"--data_dir={tmp_path / folder}", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in names:
      assert f"data set: {tmp_path / folder / name}" in done.stdout
  local = folders.read_contents(tmp_path / "local")
  assert sum(name.endswith(build.STATISTICS_FILE) for name in local) == 2
  assert folders.read_contents(tmp_path / "beam") == local
  # What is wrong with one is told, and the others are there.
  data_dir = f"--data_dir={tmp_path / 'beam'}"
  done = run("ctm/ito", "ctm/itto", data_dir, *runner, cwd=tmp_path)
  assert done.returncode == 1
  assert "error: ctm/itto: no data set 'ctm/itto'; did you" in done.stderr
  assert "Traceback" not in done.stderr


def test_an_error_of_one_data_set_keeps_no_other_from_being_built(
  tmp_path, capsys
):
  with pytest.raises(SystemExit) as end:
    build.main(["build", "ctm/itto", "ctm/ito"], str(tmp_path))
  assert end.value.code.startswith("error: ctm/itto: no data set 'ctm/itto'")
  assert f"data set: {tmp_path / 'ctm' / 'ito'}" in capsys.readouterr().out
  with pytest.raises(app.UsageError, match="named twice: ctm/ito"):
    build.main(["build", "ctm/ito", "ctm/ito"], str(tmp_path))
  with pytest.raises(app.UsageError, match="name a data set, or several"):
    build.main(["build"], str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
  ("flags", "message"),
  [
    (["--workers=2"], "--workers=2 works only with --runner=DirectRunner"),
    (["--", "--parallelism=2"], "unexpected arguments: --parallelism=2"),
    (
      ["--data_dir=gs://bucket/data", "--runner=DirectRunner"],
      "--data_dir=gs://bucket/data works only with --runner=local",
    ),
  ],
)
def test_flags_of_runners_that_do_not_fit_are_errors(flags, message, tmp_path):
  done = run("ctm/ito", *flags, cwd=tmp_path)
  assert done.returncode == 1
  assert f"error: {message}" in done.stderr


@pytest.mark.slow
def test_help_has_an_example(tmp_path):
  done = run("--help", cwd=tmp_path)
  assert "python -m ctd_jax_datasets.build chunqiutr/rebuilt" in done.stdout
  assert "--[no]overwrite" in done.stdout
  shown = " ".join(done.stdout.split())  # lines are wrapped
  for flag in ("--sources=", "--data_dir=", "--overwrite", "--processes="):
    assert f"Example: {flag}" in shown


@pytest.mark.slow
def test_importing_the_command_defines_no_flags():
  flags = ("sources", "data_dir", "overwrite", "processes")
  code = (
    "from absl import flags; import ctd_jax_datasets.build;"
    f" print([name for name in {flags} if name in flags.FLAGS])"
  )
  assert processes.run_python("-c", code).stdout == "[]\n"
