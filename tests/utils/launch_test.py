"""Launch scripts, run on a copy of the clone with a stand-in for Python."""

import shlex
import shutil
import subprocess
import sysconfig

import pytest

from ctd_jax.training import devices
from tests.utils.clone import ROOT, SLURM, Clone

CONFIG = "--config=configs/tiny.py"
SCRIPTS = [
  *sorted((ROOT / "launch").glob("*.sh")),
  ROOT / "launch" / "slurm.sbatch",
  ROOT / ".ci" / "run",
]


@pytest.fixture
def clone(tmp_path):
  return Clone(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_is_clean(script):
  shellcheck = shutil.which("shellcheck", path=sysconfig.get_path("scripts"))
  assert shellcheck, "shellcheck is missing: pip install -e .[test]"
  result = subprocess.run(
    [shellcheck, "--external-sources", script],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=False,
  )
  assert result.returncode == 0, result.stdout


def test_dry_run_prints_the_commands_and_makes_nothing(clone, tmp_path):
  python = clone.stand_in(tmp_path / "bin/python3.11")
  clone.env["PYTHON"] = str(python)
  result = clone.run("launch/local.sh", "--config=configs/tiny.py", "--dry-run")
  venv, install, train = result.stdout.splitlines()
  assert venv.startswith(f"{python} -m venv")
  assert "pip install" in install
  assert train.endswith("runs/tiny")
  assert "-m ctd_jax.train --config=configs/tiny.py" in train
  assert not clone.calls()
  assert not (clone.root / ".venv").exists()


def test_first_call_installs_and_the_second_does_not(clone, tmp_path):
  clone.env["PYTHON"] = str(clone.stand_in(tmp_path / "bin/python3.11"))
  first = clone.run("launch/local.sh", CONFIG)
  assert "installing ctd_jax" in first.stderr
  train = (
    f"-m ctd_jax.train --config=configs/tiny.py "
    f"--workdir={clone.root}/runs/tiny"
  )
  venv, install, last = clone.calls()
  assert venv == f"-m venv --clear {clone.root}/.venv"
  assert install.endswith(f"--editable {clone.root}")
  assert last == train

  second = clone.run("launch/local.sh", CONFIG)
  assert second.stderr == ""
  assert clone.calls() == [train]


def test_a_broken_environment_is_made_anew(clone, tmp_path):
  clone.stand_in(clone.root / ".venv/bin/python", old=1)
  clone.env["PYTHON"] = str(clone.stand_in(tmp_path / "bin/python3.11"))
  clone.run("launch/local.sh", CONFIG)
  assert clone.calls()[0] == f"-m venv --clear {clone.root}/.venv"


def test_a_changed_setup_installs_again(clone):
  clone.activate()
  args = ("launch/local.sh", CONFIG)
  clone.run(*args)
  with (clone.root / "setup.py").open("a") as file:
    file.write("# one more requirement\n")
  clone.calls()
  clone.run(*args)
  install, _ = clone.calls()
  assert "pip install" in install


def test_an_environment_of_another_clone_is_installed_again(clone, tmp_path):
  clone.activate()
  args = ("launch/local.sh", CONFIG)
  clone.run(*args)
  other = Clone(tmp_path / "other")
  other.log, other.env = clone.log, clone.env
  clone.calls()
  other.run(*args)
  install, _ = clone.calls()
  assert install.endswith(f"--editable {other.root}")


def test_the_test_extra_covers_the_plain_installation(clone):
  clone.activate()
  clone.run("launch/test.sh")
  assert clone.calls()[0].endswith(f"{clone.root}[test]")
  clone.run("launch/local.sh", CONFIG)
  assert len(clone.calls()) == 1
  clone.env["CTD_JAX_EXTRAS"] = "cuda"
  clone.run("launch/local.sh", CONFIG)
  assert clone.calls()[0].endswith(f"{clone.root}[cuda]")


def test_a_failed_installation_is_not_remembered(clone):
  clone.activate(fails="pip install")
  args = ("launch/local.sh", CONFIG)
  failed = clone.run(*args, status=1)
  assert "installation failed" in failed.stderr
  clone.activate()
  clone.calls()
  clone.run(*args)
  assert len(clone.calls()) == 2


@pytest.mark.parametrize(
  ("args", "workdir"),
  [
    (["--config=configs/small.py:ft"], "runs/small-ft"),
    (["--config", "other/tiny.py"], "runs/tiny"),
    (
      ["--config=configs/small.py:method=ctd,seed=1"],
      "small-method-ctd-seed-1",
    ),
  ],
)
def test_workdir_is_named_after_the_config(clone, args, workdir):
  clone.activate()
  clone.run("launch/local.sh", *args)
  assert clone.calls()[-1].endswith(workdir)


def test_arguments_reach_the_entry_point_unchanged(clone, tmp_path):
  clone.activate()
  args = [
    "--config=configs/tiny.py",
    "--workdir",
    f"{tmp_path}/my run",
    "--config.lr=3e-4",
  ]
  clone.run("launch/local.sh", *args, cwd=tmp_path)
  assert clone.calls()[-1] == " ".join(["-m ctd_jax.train", *args])


STOPPED = devices.EXIT_SAVED


@pytest.mark.parametrize(
  ("status", "restarts", "runs"), [(STOPPED, 2, 3), (STOPPED, 0, 1), (7, 2, 1)]
)
def test_only_a_run_that_saved_its_state_is_started_again(
  clone, status, restarts, runs
):
  clone.activate(fails="ctd_jax.train", status=status)
  clone.env["CTD_JAX_RESTARTS"] = str(restarts)
  result = clone.run("launch/local.sh", CONFIG, status=status)
  assert sum("ctd_jax.train" in call for call in clone.calls()) == runs
  assert result.stderr.count("going on") == runs - 1


def test_slurm_installs_once_and_starts_a_process_for_each_task(clone):
  python = clone.place_slurm()
  clone.run(SLURM, CONFIG)
  install, step = clone.calls()
  assert install.endswith(f"--editable {clone.root}[cuda]")
  assert step == (
    f"srun --kill-on-bad-exit=0 --wait=120 {python} -m ctd_jax.train "
    f"{CONFIG} --workdir={clone.root}/runs/tiny"
  )


@pytest.mark.parametrize(
  ("status", "env", "queued"),
  [
    (STOPPED, {}, True),
    (STOPPED, {"SLURM_RESTART_COUNT": "20"}, False),
    (STOPPED, {"CTD_JAX_RESTARTS": "0"}, False),
    (1, {}, False),
  ],
)
def test_slurm_queues_a_job_again_that_was_stopped(clone, status, env, queued):
  clone.place_slurm(status, **env)
  clone.run(SLURM, CONFIG, status=status)
  assert ("scontrol requeue 12" in clone.calls()) == queued


def test_slurm_outside_of_the_clone_is_said_clearly(clone, tmp_path):
  clone.place_slurm(SLURM_SUBMIT_DIR=str(tmp_path))
  assert clone.refuse(SLURM, CONFIG).strip().endswith("submit from the clone")


TPU = {"TPU_NAME": "pod", "TPU_ZONE": "zone-b"}
XPK = {"XPK_CLUSTER": "tpus", "XPK_TPU_TYPE": "v5litepod-16"}


def test_tpu_vm_starts_the_local_script_on_every_host(clone):
  clone.tool("gcloud", status=4)
  clone.env |= TPU
  args = (CONFIG, "--workdir=/mnt/my runs/x")
  printed = clone.run("launch/tpu_vm.sh", *args, "--dry-run")
  assert not clone.calls()
  clone.run("launch/tpu_vm.sh", *args, status=4)
  remote = (
    "cd ctd_jax && env CTD_JAX_EXTRAS=tpu CTD_JAX_RESTARTS=20 "
    "./launch/local.sh --distributed --config=configs/tiny.py "
    "--workdir=/mnt/my\\ runs/x"
  )
  words = shlex.split(printed.stdout)
  ssh = "gcloud compute tpus tpu-vm ssh pod --zone=zone-b --worker=all"
  assert words == [*ssh.split(" "), f"--command={remote}"]
  assert clone.calls() == [" ".join(words)]


def test_what_a_host_is_told_is_what_the_local_script_does(clone):
  python = clone.activate()
  clone.env |= TPU | {"TPU_CLONE": str(clone.root)}
  args = (CONFIG, "--workdir=/mnt/my runs/x")
  printed = clone.run("launch/tpu_vm.sh", *args, "--dry-run")
  told = shlex.split(printed.stdout)[-1].removeprefix("--command=")
  done = subprocess.run(["bash", "-c", told], env=clone.env, check=False)
  assert done.returncode == 0
  install, run = clone.calls()
  assert install.endswith("[tpu]")
  assert run == f"-m ctd_jax.train --distributed {' '.join(args)}"
  assert python.exists()


def test_xpk_restarts_on_the_status_of_a_saved_run(clone):
  clone.tool("xpk")
  clone.env |= XPK | {"XPK_OPTIONS": "--zone=us-east5-a --spot"}
  args = (CONFIG, "--workdir=/mnt/runs/Small_FT")
  printed = clone.run("launch/xpk.sh", *args, "--dry-run")
  assert not clone.calls()
  clone.run("launch/xpk.sh", *args)
  words = shlex.split(printed.stdout)
  assert clone.calls() == [" ".join(words)]
  assert words[:3] == ["xpk", "workload", "create"]
  assert {
    "--cluster=tpus",
    "--workload=small-ft",
    "--max-restarts=20",
    f"--restart-on-exit-codes={STOPPED}",
    "--spot",
    f"--script-dir={clone.root}",
  } <= set(words)
  assert words[-1].endswith(f"local.sh --distributed {' '.join(args)}")


@pytest.mark.parametrize(
  ("script", "env", "args", "message"),
  [
    ("tpu_vm.sh", {}, (CONFIG, "--workdir=x"), "TPU_NAME=... TPU_ZONE=..."),
    ("tpu_vm.sh", TPU, (CONFIG,), "give --workdir, a folder that all hosts"),
    ("tpu_vm.sh", TPU, ("--workdir=x",), "--config=configs/tiny.py"),
    ("xpk.sh", {}, (CONFIG, "--workdir=x"), "XPK_CLUSTER=... XPK_TPU_TYPE="),
    ("xpk.sh", XPK, (CONFIG,), "give --workdir, a folder that all pods see"),
  ],
)
def test_what_a_placement_lacks_is_named(clone, script, env, args, message):
  for name in ("gcloud", "xpk"):
    clone.tool(name)
  clone.env |= env
  (line,) = clone.refuse(f"launch/{script}", *args).splitlines()
  assert message in line


def test_a_missing_config_is_named_before_anything_is_installed(clone):
  clone.activate()
  assert CONFIG in clone.refuse("launch/local.sh", "--workdir=x")


COMMANDS = ("local.sh", "test.sh", "tpu_vm.sh", "xpk.sh", "slurm.sbatch")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("script", COMMANDS)
def test_help_prints_the_head_of_the_script_and_makes_nothing(
  clone, script, flag
):
  clone.env["PYTHON"] = str(clone.stand_in(clone.root.parent / "python3.11"))
  path = clone.root / "launch" / script
  path.chmod(0o755)
  result = clone.run(f"launch/{script}", flag)
  assert not result.stderr
  source = path.read_text().splitlines()
  assert result.stdout.splitlines()[0] == source[1].removeprefix("# ")
  assert f"launch/{script}" in result.stdout
  assert "CTD_JAX_" in result.stdout  # the last part, the environment
  assert "set -euo" not in result.stdout
  assert not clone.calls()
  assert not (clone.root / ".venv").exists()


def test_an_old_python_is_refused(clone):
  python = clone.activate(old=1)
  error = clone.refuse("launch/local.sh", CONFIG)
  assert str(python.parents[1]) in error
  assert "3.11" in error
  del clone.env["VIRTUAL_ENV"]
  clone.env["PYTHON"] = str(python)
  assert f"PYTHON={python}" in clone.refuse("launch/local.sh", CONFIG)


def test_no_python_at_all_is_said_clearly(clone, tmp_path):
  tools = tmp_path / "tools"
  tools.mkdir()
  for name in ("bash", "basename", "dirname", "cat", "cksum", "mkdir"):
    (tools / name).symlink_to(shutil.which(name))
  clone.env["PATH"] = str(tools)
  (line,) = clone.refuse("launch/local.sh", CONFIG).splitlines()
  assert "no Python 3.11 or newer on PATH" in line


def test_slow_tests_and_the_site_are_left_out_and_said(clone):
  clone.activate()
  result = clone.run("launch/test.sh", "tests/docs")
  assert clone.calls()[-1].endswith("-m not slow tests/docs")
  assert not any("mkdocs" in call for call in clone.calls())
  assert "Left out: tests marked slow, the site and the browser (--all)" in (
    result.stdout
  )


def test_ci_lints_before_it_tests_and_passes_failure_on(clone):
  python = clone.activate()
  clone.env["PYTHON"] = str(python)
  clone.tool("chromium")  # else it is installed
  result = clone.run(".ci/run")
  # What needs another environment is always left out, and run later.
  assert "Left out: Apache Beam (--beam)" in result.stdout
  assert "slow" not in result.stdout
  calls = clone.calls()
  first_pytest = next(i for i, c in enumerate(calls) if "-m pytest" in c)
  install, check, form, *others, pytest_call = calls[: first_pytest + 1]
  assert install.endswith(f"{clone.root}[test,parity]")
  assert check == "-m ruff check ."
  assert form == "-m ruff format --check ."
  assert others[0] == "tests/tools/check_layers.py"
  assert others[-1] == "-m mkdocs build --quiet --strict"
  assert pytest_call.startswith("-m pytest")
  assert "not slow" not in pytest_call
  assert "--parity --cpu-limit=5" in pytest_call
  # TensorFlow and Beam come last, each with an environment of its own.
  folder = clone.root / ".venv-tf"
  assert calls[first_pytest + 1 :] == [
    f"-m venv --clear {folder}",
    install.replace("[test,parity]", "[test,tf]"),
    "-m pytest tests/data -m tf",
    f"-m venv --clear {clone.root / '.venv-beam'}",
    install.replace("[test,parity]", "[test,beam,dask]"),
    "-m pytest tests/data tests/utils -m beam",
  ]
  clone.activate(fails="format --check")
  clone.run(".ci/run", status=7)
  assert "pytest" not in "".join(clone.calls())
  clone.activate()
  clone.stand_in(folder / "bin/python", fails="-m tf")
  clone.run(".ci/run", status=7)
