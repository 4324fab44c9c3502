"""Compiler options, and a cache of compiled functions for later runs.

Compiling an encoder of 28 layers takes a minute or more for every shape; a
later run with the same model, shapes, devices and versions reads what an
earlier one compiled. A compiled function computes the same numbers whether it
was read or compiled.
"""

import os
import pathlib
import secrets

import jax
import numpy as np
from absl import logging
from jax.experimental import multihost_utils
from jax.experimental.compilation_cache import compilation_cache

from ctd_jax.training import devices, run_folder
from ctd_jax.training.process_flags import COMPILATION_CACHE, OFF
from ctd_jax.training.run_folder import Folder

# Leaves YNN the reductions, with the products that feed one; all others are
# XLA's own, by Eigen.
_ONE_CORE_OPTIONS = {
  "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"
}
_TRITON_PRODUCTS = "xla_gpu_enable_triton_gemm"
# What XLA keeps beside the entries of JAX: kernels that it chose for a GPU. An
# entry has them already. Its folder can be in no bucket, and would be part of
# the key of every entry.
_XLA_CACHES = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"


def choose_options(device: jax.Device) -> dict[str, str | bool] | None:
  """Returns options for compiling an encoder, None for those of JAX.

  On a processor YNN shares a product well among cores, and is what JAX takes.
  On one core products of Eigen are a tenth faster, a step by some hundredths.
  Several processes compile alike, however many cores each has.

  On an NVIDIA GPU all products are cuBLAS's: a step of training of BERT-base
  takes five hundredths less on an H200 than where XLA may choose kernels of
  Triton's instead. XLA_FLAGS that name the option are left alone.
  """
  if device.platform == "gpu":
    # GPUs of other makers have a name instead of a number.
    capability = getattr(device, "compute_capability", "none")
    is_nvidia = capability.replace(".", "").isdigit()
    is_named = _TRITON_PRODUCTS in os.environ.get("XLA_FLAGS", "")
    return {_TRITON_PRODUCTS: False} if is_nvidia and not is_named else None
  has_one_core = (
    device.platform == "cpu"
    and jax.process_count() == 1
    and hasattr(os, "sched_getaffinity")  # Linux
    and len(os.sched_getaffinity(0)) == 1
  )
  return _ONE_CORE_OPTIONS if has_one_core else None


def enable_cache(choice: str | None = None) -> Folder | None:
  """Has JAX keep compiled functions, and logs where.

  To be called after the processes of the run have joined. A folder that some
  of several processes do not see is not used: a process that compiles for
  minutes what others have read keeps them waiting in a collective, which gives
  up after seconds.

  Args:
    choice: value of --compilation_cache; None = the default.
  """
  if str(choice).lower() == OFF or (
    choice is None and not jax.config.jax_enable_compilation_cache
  ):
    return _disable_cache("turned off")
  path = choice or _default_folder()
  folder, problem = _make_folder(path)
  if not devices.is_true_in_all_processes(folder is not None):
    problem = problem or "cannot be written to by another process"
    if choice:
      raise ValueError(f"--{COMPILATION_CACHE.name}={choice} {problem}")
    return _disable_cache(f"{path} {problem}")
  if not _is_shared(folder):
    return _disable_cache(f"not every process sees {folder}")
  jax.config.update("jax_enable_compilation_cache", True)
  jax.config.update("jax_compilation_cache_dir", str(folder))
  if _XLA_CACHES not in os.environ:
    jax.config.update(_XLA_CACHES.lower(), "none")
  # JAX opens a folder once; what was compiled so far may have opened another.
  compilation_cache.reset_cache()
  logging.info(
    "compiled functions are stored in %s (--%s)", folder, COMPILATION_CACHE.name
  )
  return folder


def _disable_cache(reason: str) -> None:
  jax.config.update("jax_enable_compilation_cache", False)
  compilation_cache.reset_cache()
  logging.info(
    "compiled functions are not stored: %s (--%s)",
    reason,
    COMPILATION_CACHE.name,
  )


def _default_folder() -> str:
  """Returns the folder of JAX's environment variable, else the user's."""
  # Source: XDG Base Directory Specification, for the latter.
  if jax.config.jax_compilation_cache_dir:
    return jax.config.jax_compilation_cache_dir
  parent = os.environ.get("XDG_CACHE_HOME", "")
  if not os.path.isabs(parent):  # the specification has it ignored
    parent = os.path.join(os.path.expanduser("~"), ".cache")
  return os.path.join(parent, "ctd_jax", "compiled")


def _make_folder(path: str) -> tuple[Folder | None, str]:
  """Makes a folder that nobody else can write to."""
  try:
    folder = run_folder.resolve_folder(path)
    if isinstance(folder, pathlib.Path):
      folder.mkdir(mode=0o700, parents=True, exist_ok=True)
      if not os.access(folder, os.W_OK | os.X_OK):
        return None, "cannot be written to"
  except (FileExistsError, NotADirectoryError):
    return None, "is or lies in a file; expected a folder"
  # No home, as of a user whom the machine does not know, is a RuntimeError.
  except (OSError, RuntimeError) as error:
    return None, f"cannot be made: {getattr(error, 'strerror', None) or error}"
  return folder, ""


def _is_shared(folder: Folder) -> bool:
  """Returns whether all processes see one folder under this path."""
  if jax.process_count() == 1 or not isinstance(folder, pathlib.Path):
    return True
  number = multihost_utils.broadcast_one_to_all(np.uint32(secrets.randbits(32)))
  probe = folder / f".probe-{int(number)}"
  with devices.coordinator_first("folder of compiled functions"):
    if devices.is_coordinator():
      probe.touch()
  try:
    return devices.is_true_in_all_processes(probe.exists())
  finally:
    if devices.is_coordinator():
      probe.unlink()
