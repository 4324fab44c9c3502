"""The console script: what it lists, what it runs, what it refuses."""

import importlib.util
import subprocess
import sys

import pytest

import ctd_jax
from ctd_jax import cli
from tests.tools import processes


def run(*arguments: str) -> subprocess.CompletedProcess:
  return processes.run_python("-m", "ctd_jax.cli", *arguments)


def test_help_lists_every_command(capsys):
  cli.main(["--help"])
  text = capsys.readouterr().out
  for name, (module, line) in cli.COMMANDS.items():
    assert f"  {name} " in text
    assert line in text
    assert importlib.util.find_spec(module)


def test_an_unknown_command_suggests_the_nearest():
  with pytest.raises(SystemExit, match="did you mean evaluate"):
    cli.main(["evalute"])


@pytest.mark.slow
def test_missing_flags_are_named_in_one_line():
  process = run("evaluate")
  assert process.stderr == "error: --workdir is missing, see --help\n"
  assert process.returncode == 1
  process = run("ablate")
  assert process.stderr == (
    "error: --config is missing, see --help; --workdir is missing, see --help\n"
  )


def test_version(capsys):
  cli.main(["--version"])
  assert capsys.readouterr().out == f"ctd_jax {ctd_jax.__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_of_every_command_succeeds_without_jax(name):
  # Heavy imports wait for the command itself.
  code = (
    "import sys; from ctd_jax import cli\n"
    "status = 0\n"
    "try:\n  cli.main(sys.argv[1:])\n"
    "except SystemExit as end:\n  status = end.code or 0\n"
    "heavy = {'jax', 'matplotlib', 'transformers'}\n"
    "print('HEAVY', sorted(heavy & sys.modules.keys()))\n"
    "sys.exit(status)"
  )
  done = processes.run_python("-c", code, name, "--help")
  assert done.returncode == 0, done.stderr
  assert "--" in done.stdout
  assert "HEAVY []" in done.stdout


@pytest.mark.slow
def test_public_names_are_imported_on_first_use():
  code = (
    "import sys, ctd_jax\n"
    "assert 'jax' not in sys.modules and 'numpy' not in sys.modules\n"
    "assert set(ctd_jax.__all__) <= set(dir(ctd_jax))\n"
    "for name in ctd_jax.__all__: assert callable(getattr(ctd_jax, name)), name"
  )
  subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_public_name_is_an_attribute_error():
  with pytest.raises(AttributeError, match="no attribute 'retriever'"):
    _ = ctd_jax.retriever
