"""Traces of some steps of a run, by JAX's profiler."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any

import jax
from absl import logging

from ctd_jax.training import distributed
from ctd_jax.training.run_folder import PROFILE_FOLDER, Folder


def check_steps(steps: range, total_steps: int) -> None:
  """Refuses steps that a run does not have.

  Raises:
    ValueError: naming them.
  """
  if steps.start > total_steps:
    raise ValueError(f"{_name_flag(steps)}: the run has {total_steps} steps")


def _name_flag(steps: range) -> str:
  return f"--profile={steps.start}:{steps.stop}"


class StepProfiler:
  """Writer of the trace of a range of steps; the first process has one."""

  def __init__(self, steps: range | None, workdir: Folder, resume_step: int):
    """Writes nothing yet; says so where there will be no trace.

    Args:
      steps: to be traced; None = none.
      workdir: of the run; the trace goes into its folder `PROFILE_FOLDER`.
      resume_step: the last step that is done already.
    """
    self._steps: range | None = None
    self._folder = workdir / PROFILE_FOLDER
    self._local_folder: tempfile.TemporaryDirectory | None = None
    self._is_tracing = False
    self._last_step = 0
    if steps is None:
      return
    if steps.start <= resume_step:
      logging.info(
        "%s: step %d is done already, nothing is traced; the next step is %d",
        _name_flag(steps),
        steps.start,
        resume_step + 1,
      )
    elif distributed.is_coordinator():
      self._steps = steps

  def begin_step(self, step: int) -> None:
    """Starts the trace if this is its first step."""
    if self._steps is not None and step == self._steps.start:
      jax.profiler.start_trace(self._make_trace_folder())
      self._is_tracing = True
    self._last_step = step

  def end_step(self, step: int, outputs: Any) -> None:
    """Writes the trace if this was its last step.

    Args:
      step: that was begun.
      outputs: its results, which the trace waits for.
    """
    if self._is_tracing and step == self._steps[-1]:
      jax.block_until_ready(outputs)
      self.close()

  def close(self) -> None:
    """Writes what was traced so far, if the run ends within the range."""
    if not self._is_tracing:
      return
    self._is_tracing = False
    jax.profiler.stop_trace()
    if self._local_folder is not None:
      _copy_files(pathlib.Path(self._local_folder.name), self._folder)
      self._local_folder.cleanup()
    logging.info(
      "trace of the steps %d to %d is in %s",
      self._steps.start,
      self._last_step,
      self._folder,
    )

  def _make_trace_folder(self) -> str | os.PathLike:
    """Returns a local folder: the profiler cannot write to a bucket."""
    if isinstance(self._folder, pathlib.Path):
      return self._folder
    self._local_folder = tempfile.TemporaryDirectory()
    return self._local_folder.name


def _copy_files(source: pathlib.Path, target: Folder) -> None:
  """Copies all files below a folder."""
  for path in source.rglob("*"):
    if path.is_file():
      copy = target / path.relative_to(source).as_posix()
      copy.parent.mkdir(parents=True, exist_ok=True)
      copy.write_bytes(path.read_bytes())
