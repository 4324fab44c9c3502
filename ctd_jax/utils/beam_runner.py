"""A function of many items by Apache Beam: in processes, or on other machines.

What is large goes through files that every worker sees. A function that is run
twice, because a worker died or was slow, has to write the same file twice, each
time whole.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import pickle
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from absl import flags

from ctd_jax.utils import dask_cluster, files

LOCAL, DIRECT, DASK = "local", "DirectRunner", "DaskRunner"
_RUNNER_CLASSES = {
  # What Beam calls DirectRunner may be another program, which it downloads.
  # This one is part of it, and the only one whose workers are processes.
  DIRECT: "apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner",
  DASK: "apache_beam.runners.dask.dask_runner.DaskRunner",  # no short name
}

Item = TypeVar("Item")
Result = TypeVar("Result")
# Returns the results of a function for items, in any order.
MapItems = Callable[
  [Callable[[Item], Result], Sequence[Item]], Iterable[Result]
]


def define_flags() -> None:
  """Defines --runner and --workers of a command."""
  flags.DEFINE_string(
    "runner",
    LOCAL,
    "local, or a runner of Apache Beam; its flags stand behind --. Example: "
    f"--runner={DIRECT}",
  )
  flags.DEFINE_integer(
    "workers",
    1,
    f"Processes of --runner={DIRECT}. Example: --workers=4",
    lower_bound=1,
  )


def read_flags(
  arguments: Sequence[str], folder: pathlib.Path
) -> MapItems[Any, Any]:
  """Returns what maps items as --runner and --workers say.

  Args:
    arguments: of the command that are no flags.
    folder: as of `map_items`.

  Raises:
    ConnectionError: if the scheduler of a cluster does not answer.
    FileNotFoundError: naming the flag whose file is not there.
    ValueError: naming the flag that does not fit.
  """
  runner, workers = flags.FLAGS.runner, flags.FLAGS.workers
  if workers != 1 and runner != DIRECT:
    raise ValueError(
      f"--workers={workers}: of --runner={DIRECT} alone; other runners have "
      "flags of their own, which stand behind --"
    )
  if runner != LOCAL:
    _check_installed(runner)
    if runner == DASK:
      dask_cluster.check_cluster(f"--runner={runner}", arguments)
    return functools.partial(
      map_items,
      folder=folder,
      runner=runner,
      workers=workers,
      arguments=tuple(arguments),
    )
  if arguments:
    raise ValueError(
      f"unexpected arguments: {' '.join(arguments)}; they are of a --runner"
    )
  return map


def _check_installed(runner: str) -> None:
  packages = {"apache_beam": "Apache Beam"}
  if runner == DASK:
    packages["distributed"] = "Dask"
  for module, title in packages.items():
    if importlib.util.find_spec(module) is None:
      extra = "dask" if runner == DASK else "beam"
      raise ValueError(
        f"--runner={runner}: {title} is not installed; pip install "
        f"'ctd_jax[{extra}]', or leave the flag out"
      )


def map_items(
  function: Callable[[Item], Result],
  items: Sequence[Item],
  *,
  folder: pathlib.Path,
  runner: str,
  workers: int = 1,
  arguments: Sequence[str] = (),
) -> list[Result]:
  """Returns the results of a function for all items, in any order.

  Args:
    function: importable by the workers, or a partial of such a one; what it
      takes and returns can be pickled.
    items: small: they pass through the pipeline.
    folder: that all workers see, for the results.
    runner: as Beam calls it.
    workers: processes of `DIRECT`.
    arguments: flags of Beam and of the runner.

  Raises:
    ConnectionError: if the runner lost its workers or its scheduler.
    ValueError: if Beam or Dask is not installed; or that of the function.
  """
  _check_installed(runner)
  if not items:
    return []
  # Workers tell every step of their own life otherwise.
  level = "--default_sdk_harness_log_level=WARNING"
  name = _RUNNER_CLASSES.get(runner, runner)
  options = [f"--runner={name}", level, *arguments]
  if runner == DIRECT:
    options += [
      f"--direct_num_workers={workers}",
      "--direct_running_mode=multi_processing",
    ]
  if runner == DASK:
    options += dask_cluster.partition_flags(arguments, len(items))
  # The last step writes it, on any machine, and it is read here. Each time it
  # has a new name: a machine may remember for seconds that an old one is gone.
  path = folder / f".results-{uuid.uuid4().hex}.pickle"
  try:
    _run_pipeline(options, function, items, path)
  except Exception as error:
    # Of a worker that died again and again, or a connection.
    if not type(error).__module__.startswith("distributed."):
      raise
    raise ConnectionError(
      f"--runner={runner}: {type(error).__name__}: {error}"
    ) from error
  if not path.exists():  # Dask takes what was cancelled for done
    raise ConnectionError(
      f"--runner={runner}: ended without results, as where a scheduler dies; "
      "start the command again, which goes on where it was"
    )
  outcomes = pickle.loads(path.read_bytes())
  path.unlink()
  results = []
  for result, error in outcomes:
    if error:
      raise ValueError(error)
    results.append(result)
  return results


def _run_pipeline(
  options: Sequence[str],
  function: Callable[[Item], Result],
  items: Sequence[Item],
  path: pathlib.Path,
) -> None:
  """Calls a function with all items, and writes what it returned."""
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions

  with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
    _ = (
      pipeline
      | beam.Create(list(items))
      | beam.Reshuffle()
      | "call" >> beam.Map(functools.partial(_call, function))
      # A default, the list of no items, is a branch more, for which Dask runs
      # the whole pipeline within one task.
      | beam.CombineGlobally(
        beam.combiners.ToListCombineFn()
      ).without_defaults()
      | "write" >> beam.Map(functools.partial(_write_results, str(path)))
    )


def _call(
  function: Callable[[Item], Result], item: Item
) -> tuple[Result | None, str]:
  """Returns a result, or the message of an error of use."""
  try:
    return function(item), ""
  except (ValueError, FileNotFoundError) as error:
    return None, str(error) or repr(error)


def _write_results(
  path: str, outcomes: Sequence[tuple[Result | None, str]]
) -> None:
  with files.atomic_path(path) as temporary:
    temporary.write_bytes(pickle.dumps(list(outcomes)))
