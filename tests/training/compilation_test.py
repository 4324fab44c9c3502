"""Where compiled functions are kept, and when they are not."""

import os
import pathlib
import socket
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from ctd_jax.training import compilation, devices, train_step

ROOT = pathlib.Path(__file__).resolve().parents[2]
# One of two processes, whose folder is the one that its environment names.
PROCESS = """
import sys
import jax
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
from ctd_jax.training import compilation
print(compilation.enable_cache(), jax.config.jax_enable_compilation_cache)
"""


@pytest.fixture(autouse=True)
def settings():
  """Leaves JAX as it was."""
  names = (
    "jax_compilation_cache_dir",
    "jax_enable_compilation_cache",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_enable_xla_caches",
  )
  values = {name: getattr(jax.config, name) for name in names}
  yield
  for name, value in values.items():
    jax.config.update(name, value)
  compilation_cache.reset_cache()


def test_the_folder_of_jax_comes_before_that_of_the_user(tmp_path):
  jax.config.update("jax_compilation_cache_dir", str(tmp_path / "jax"))
  assert compilation.enable_cache() == tmp_path / "jax"
  assert compilation.enable_cache(tmp_path / "flag") == tmp_path / "flag"
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / "flag")


def test_the_folder_of_the_user(tmp_path, monkeypatch):
  # JAX reads JAX_COMPILATION_CACHE_DIR when it is imported.
  jax.config.update("jax_compilation_cache_dir", None)
  monkeypatch.setenv("HOME", str(tmp_path))
  monkeypatch.setenv("XDG_CACHE_HOME", "relative")
  expected = tmp_path / ".cache" / "ctd_jax" / "compiled"
  assert compilation.enable_cache() == expected
  assert expected.stat().st_mode & 0o777 == 0o700
  jax.config.update("jax_compilation_cache_dir", None)
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  expected = tmp_path / "cache" / "ctd_jax" / "compiled"
  assert compilation.enable_cache() == expected


def test_what_is_compiled_is_kept_until_it_is_switched_off(tmp_path):
  compilation.enable_cache(tmp_path)
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
  jax.jit(lambda x: x + 12345)(1)
  entries = set(tmp_path.iterdir())
  assert entries
  assert compilation.enable_cache("OFF") is None
  jax.jit(lambda x: x + 54321)(1)
  assert set(tmp_path.iterdir()) == entries


def test_a_folder_that_was_moved_is_read(tmp_path, monkeypatch):
  monkeypatch.delenv("JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES", raising=False)
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
  compilation.enable_cache(tmp_path / "old")
  jax.jit(lambda x: x + 23456)(1)
  entries = {path.name for path in (tmp_path / "old").glob("*-cache")}
  (tmp_path / "old").rename(tmp_path / "new")
  compilation.enable_cache(tmp_path / "new")
  jax.jit(lambda x: x + 23456)(1)
  assert {path.name for path in (tmp_path / "new").glob("*-cache")} == entries


def test_a_variable_of_jax_switches_it_off(tmp_path):
  jax.config.update("jax_enable_compilation_cache", False)
  assert compilation.enable_cache() is None
  assert compilation.enable_cache(tmp_path) == tmp_path


def test_a_home_that_nobody_knows_stops_no_run(monkeypatch, caplog):
  with pytest.raises(ValueError, match="~nobody-of-the-name/cache cannot be"):
    compilation.enable_cache("~nobody-of-the-name/cache")
  # As a container does whose user the machine does not know.
  jax.config.update("jax_compilation_cache_dir", None)
  for name in ("HOME", "XDG_CACHE_HOME"):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setattr(os, "getuid", lambda: 987_654)
  with caplog.at_level("INFO", "absl"):
    assert compilation.enable_cache() is None
  assert "not stored: ~/.cache/ctd_jax/compiled cannot be made" in caplog.text


def test_a_folder_that_cannot_be_written_to(tmp_path):
  (tmp_path / "file").touch()
  folder = tmp_path / "file" / "cache"
  for path in (tmp_path / "file", folder):
    with pytest.raises(
      ValueError, match=f"--compilation_cache={path} is or lies in a file"
    ):
      compilation.enable_cache(path)
  jax.config.update("jax_compilation_cache_dir", str(folder))
  assert compilation.enable_cache() is None  # the run goes on without


def start_processes(folders: list[pathlib.Path]) -> list[str]:
  """Returns what each of two processes prints."""
  with socket.socket() as probe:
    probe.bind(("localhost", 0))
    address = f"localhost:{probe.getsockname()[1]}"
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", PROCESS, address, str(number)],
      cwd=ROOT,
      env={
        **os.environ,
        "JAX_NUM_CPU_DEVICES": "1",
        "JAX_COMPILATION_CACHE_DIR": str(folder),
      },
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )
    for number, folder in enumerate(folders)
  ]
  try:
    outputs = [process.communicate(timeout=300) for process in processes]
  finally:
    for process in processes:
      process.kill()
  assert not any(process.returncode for process in processes), outputs
  return [output.splitlines()[-1] for output, _ in outputs]


@pytest.mark.slow
def test_processes_keep_what_they_compile_where_all_see_it(tmp_path):
  shared, own = tmp_path / "shared", tmp_path / "own"
  assert start_processes([shared, shared]) == [f"{shared} True"] * 2
  assert list(shared.glob(".probe*")) == []
  # Of one alone, the other would be waited for while it compiles.
  assert start_processes([shared, own]) == ["None False"] * 2


@pytest.mark.parametrize(
  ("platform", "cores", "processes", "are_chosen"),
  [
    ("cpu", {3}, 1, True),
    ("cpu", {3}, 2, False),  # all compile alike
    ("cpu", {0, 1}, 1, False),
    ("cpu", None, 1, False),  # a system that knows no affinity
    ("tpu", {0}, 1, False),
  ],
)
def test_products_of_one_core(
  monkeypatch, platform, cores, processes, are_chosen
):
  monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores)
  if cores is None:
    monkeypatch.delattr(os, "sched_getaffinity")
  monkeypatch.setattr(jax, "process_count", lambda: processes)
  device = types.SimpleNamespace(platform=platform)
  options = compilation.choose_options(device)
  assert (options is not None) == are_chosen


@pytest.mark.parametrize(
  ("capability", "flags", "are_chosen"),
  [
    ("9.0", "", True),
    ("9.0", "--xla_gpu_enable_triton_gemm=true", False),
    ("gfx942", "", False),
  ],
)
def test_products_of_a_gpu(monkeypatch, capability, flags, are_chosen):
  monkeypatch.setenv("XLA_FLAGS", flags)
  device = types.SimpleNamespace(platform="gpu", compute_capability=capability)
  options = compilation.choose_options(device)
  assert (options is not None) == are_chosen
  if are_chosen:  # every compiler knows the options of all devices
    assert jax.jit(jnp.add, compiler_options=options)(1, 2) == 3


def test_a_compiler_that_knows_the_options(monkeypatch):
  monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
  options = compilation.choose_options(jax.devices("cpu")[0])
  matrix = np.arange(6.0).reshape(2, 3)
  multiply = jax.jit(jnp.matmul, compiler_options=options)
  np.testing.assert_array_equal(multiply(matrix, matrix.T), matrix @ matrix.T)


def test_steps_are_compiled_with_the_options(monkeypatch):
  taken = []
  monkeypatch.setattr(compilation, "choose_options", lambda device: "options")
  monkeypatch.setattr(
    jax, "jit", lambda function, **options: taken.append(options)
  )
  for name in ("abstract_state", "get_shardings"):
    monkeypatch.setattr(train_step, name, lambda *args: None)
  mesh = devices.make_mesh(1)
  objective = types.SimpleNamespace(model=None, mesh=mesh)
  train_step.make_train_step(objective, None, 0)
  train_step.make_encode_step(None, mesh)
  assert [each["compiler_options"] for each in taken] == ["options"] * 2
