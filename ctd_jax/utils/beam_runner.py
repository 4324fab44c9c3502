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
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from absl import flags, logging

from ctd_jax.utils import files

LOCAL, DIRECT, DASK = "local", "DirectRunner", "DaskRunner"
_RESULTS_FILE = ".results.pickle"
_RUNNER_CLASSES = {
  # What Beam calls DirectRunner may be another program, which it downloads.
  # This one is part of it, and the only one whose workers are processes.
  DIRECT: "apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner",
  DASK: "apache_beam.runners.dask.dask_runner.DaskRunner",  # no short name
}
# Dask hands out partitions; its own have 128 items, so that a small corpus
# would be one. 256 cost the scheduler some 13 s, 1,000 some 55.
_DASK_PARTITIONS = 256

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
  needed = {"apache_beam": ("Apache Beam", "beam")}
  if runner == DASK:
    needed["distributed"] = "Dask", "dask"
  for module, (title, extra) in needed.items():
    if importlib.util.find_spec(module) is None:
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
    ConnectionError: if no scheduler answers.
    FileNotFoundError: naming a file of one that is not there.
    ValueError: if Beam or Dask is not installed; or that of the function.
  """
  _check_installed(runner)
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions

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
    _check_cluster(arguments)
    if not any("partition" in flag for flag in arguments):
      partitions = max(1, min(len(items), _DASK_PARTITIONS))
      options.append(f"--dask_npartitions={partitions}")
  # The last step writes it, on any machine, and it is read here.
  path = folder / _RESULTS_FILE
  with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
    _ = (
      pipeline
      | beam.Create(list(items))
      | beam.Reshuffle()
      | "call" >> beam.Map(functools.partial(_call, function))
      | beam.combiners.ToList()
      | "write" >> beam.Map(functools.partial(_write_results, str(path)))
    )
  outcomes = pickle.loads(path.read_bytes())
  path.unlink()
  results = []
  for result, error in outcomes:
    if error:
      raise ValueError(error)
    results.append(result)
  return results


def _check_cluster(arguments: Sequence[str]) -> None:
  """Raises an error if the scheduler that flags name does not answer.

  Beam would wait for its file for ever, and for workers, which is said.
  """
  import distributed
  from apache_beam.runners.dask.dask_runner import DaskOptions

  cluster = DaskOptions(list(arguments)).get_all_options(
    drop_default=True, current_only=True
  )
  address, file = cluster.get("address"), cluster.get("scheduler_file")
  if file and not pathlib.Path(file).is_file():
    raise FileNotFoundError(
      f"--dask_scheduler_file={file}: no such file; dask scheduler "
      f"--scheduler-file={file} writes it"
    )
  if address or file:
    try:
      with distributed.Client(address, scheduler_file=file) as client:
        num_workers = len(client.nthreads())
    except OSError as error:
      raise ConnectionError(
        f"--runner={DASK}: no scheduler at {address or file}: {error}"
      ) from error
    logging.log(
      logging.INFO if num_workers else logging.WARNING,
      "%s: %d workers at %s",
      DASK,
      num_workers,
      address or file,
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
