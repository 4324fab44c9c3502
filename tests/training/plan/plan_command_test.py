"""`python -m ctd_jax.plan`, as a user calls it."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def call(*arguments: str) -> subprocess.CompletedProcess:
  return subprocess.run(
    [
      sys.executable,
      "-m",
      "ctd_jax.plan",
      "--config=configs/tiny.py",
      "--config.model.encoder.num_layers=1",
      *arguments,
    ],
    env=os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    capture_output=True,
    text=True,
    check=False,
  )


def test_a_run_is_planned_and_the_largest_batch_is_looked_for():
  done = call("--topology=cpu:2", "--memory=0.1")
  assert done.returncode == 0, done.stderr
  lines = done.stdout.splitlines()
  assert lines[0] == (
    "run            ctd-tiny on 2 x cpu (data 2, fsdp 1, tensor 1)"
  )
  assert lines[1] == "compiler       XLA for processors"
  names = [line[:15].strip() for line in lines]
  assert [name for name in names if name] == [
    "run",
    "compiler",
    "batch",
    "memory",
    "FLOPs",
    "sent",
    "assumed",
    "other batches",
    "largest batch",
  ]
  [sizes] = re.findall(
    r"^largest batch  (.+) queries; (.+) do not", done.stdout, re.M
  )
  largest, too_large = (int(size.replace(",", "")) for size in sizes)
  assert largest < too_large <= 1.1 * largest + 2
  sizes = re.findall(r"([\d.]+) MiB  ([\d,]+) queries$", done.stdout, re.M)
  needs = {int(batch.replace(",", "")): float(size) for size, batch in sizes}
  assert needs[too_large] > 102.4
  assert largest == 32 or needs[largest] <= 102.4


def test_processors_stand_in_for_devices_and_an_unknown_one_is_an_error():
  done = call(
    "--topology=h100:2",
    "--nolargest_batch",
    "--config.model.encoder.attention=cudnn",
  )
  assert done.returncode == 0, done.stderr
  assert "- attention is by plain products, which keep their" in done.stdout
  assert "compiler       XLA for 2 processors, because this" in done.stdout
  assert re.search(
    r"^step .* at 40% of the peak: .* tokens/s$", done.stdout, re.M
  )
  assert "fits in 55.9 GiB" in done.stdout
  done = call("--topology=h100")
  assert done.returncode == 1
  assert "error: --topology=h100: expected e.g. h100:8" in done.stderr
  assert "Traceback" not in done.stderr
