import logging
import os
import pathlib

import pytest

import ctd_jax_configs
from ctd_jax.utils import command_line
from tests.tools import processes

INSTALLED = pathlib.Path(ctd_jax_configs.__path__[0])


@pytest.mark.parametrize("asked", ["configs/tiny.py", "tiny.py"])
@pytest.mark.parametrize("method", ["", ":ft"])
def test_an_installed_config_is_found_from_any_folder(
  tmp_path, monkeypatch, asked, method
):
  monkeypatch.chdir(tmp_path)
  argv = ["train", f"--config={asked}{method}", "--workdir=x"]
  assert command_line.resolve_config_path(argv) == [
    "train",
    f"--config={INSTALLED / 'tiny.py'}{method}",
    "--workdir=x",
  ]
  argv = ["train", "--config", asked + method]
  assert command_line.resolve_config_path(argv)[2] == (
    f"{INSTALLED / 'tiny.py'}{method}"
  )


def test_a_file_that_exists_is_taken_as_it_stands(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "tiny.py").write_text("")
  argv = ["train", "--config=tiny.py:ft"]
  assert command_line.resolve_config_path(argv) == argv


def test_a_mistyped_folder_is_an_error(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(FileNotFoundError, match=r"--config=mine/tiny.py"):
    command_line.resolve_config_path(["train", "--config=mine/tiny.py"])


def test_only_our_lines_and_warnings_are_shown():
  def shown(path, level):
    record = logging.LogRecord("absl", level, str(path), 1, "", (), None)
    return command_line._is_own_or_warning(record)

  ours = pathlib.Path(command_line.__file__).parents[1] / "train.py"
  # A clone may itself lie in a folder of that name.
  theirs = ours.parent.parent / "ctd_jax_env" / "orbax" / "manager.py"
  assert shown(ours, logging.INFO)
  assert not shown(theirs, logging.INFO)
  assert shown(theirs, logging.WARNING)


def test_a_full_disk_is_an_error_of_the_user():
  done = processes.run_python(
    "-c",
    "from ctd_jax.utils import command_line\n"
    "def main():\n  raise OSError(28, 'No space left on device')\n"
    "command_line.run_main(main, required=())",
  )
  assert done.returncode == 1
  assert done.stderr.startswith("error: ")
  assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("is_raised", "status"), [(False, 0), (True, 1)])
def test_output_that_nobody_reads_is_no_error(is_raised, status):
  done = processes.run_python(
    "-c",
    "import os, sys\n"
    "from ctd_jax.utils import command_line\n"
    "def main():\n"
    "  reading, writing = os.pipe()\n"
    "  os.close(reading)\n"
    f"  if {is_raised}: raise BrokenPipeError(32, 'of a server')\n"
    "  os.dup2(writing, 1)\n"
    "  print('an answer')\n"
    "command_line.run_main(main, required=())",
  )
  assert done.returncode == status
  assert done.stderr.count("\n") == status


@pytest.mark.parametrize("module", ["ctd_jax.date", "ctd_jax_datasets.build"])
def test_an_argument_that_is_not_utf8_is_named(module, tmp_path):
  done = processes.run_python(
    "-m", module, os.fsdecode(b"--input=\xff.txt"), cwd=tmp_path
  )
  assert done.returncode == 1
  assert done.stderr.startswith(r"error: --input=\xff.txt: ")
  assert len(done.stderr.splitlines()) == 1


def test_a_config_is_read_with_its_overrides():
  path = str(INSTALLED / "tiny.py")
  config = command_line.read_config(
    f"{path}:ft", ["--config.optimizer.learning_rate=3", "--config.seed=7"]
  )
  assert (config.name, config.seed) == ("ft-tiny", 7)
  assert config.optimizer.learning_rate == 3.0
  with pytest.raises(ValueError, match="batch_size=x: invalid literal"):
    command_line.read_config(path, ["--config.batch_size=x"])
  # One line, though the config raises inside of ml_collections.
  with pytest.raises(ValueError, match="^unknown method 'no'"):
    command_line.read_config(f"{path}:no")
