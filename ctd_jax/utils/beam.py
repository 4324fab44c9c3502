"""Maps a function over many items with Apache Beam, on one or many machines.

Items and results are JSON files in a folder that every worker can see; the
pipeline carries only their numbers, since texts may exceed Beam's message
size. Nothing is unpickled from the folder. An item may be done twice if a
worker dies, so functions must write files atomically and repeatably.
"""

import functools
import importlib.util
import inspect
import json
import pathlib
import shutil
import typing
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from absl import flags, logging

from ctd_jax.utils import files

LOCAL, DIRECT, DASK = "local", "DirectRunner", "DaskRunner"
_RUNNER_CLASSES = {
  # Beam's DirectRunner may download another program. This class is part of
  # Beam, and the only one whose workers are processes.
  DIRECT: "apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner",
  DASK: "apache_beam.runners.dask.dask_runner.DaskRunner",  # has no short name
}
_FOLDER_PREFIX = ".items-"
# Beam puts 128 items into a partition, so a small corpus would be a single one.
# 256 partitions keep a scheduler busy for about 20 s, 1,000 for a minute.
_MAX_PARTITIONS = 256
_PARTITION_OPTIONS = frozenset({"npartitions", "partition_size"})

Item = TypeVar("Item")
Result = TypeVar("Result")
# Returns the results of a function for items, in their order.
MapItems = Callable[
  [Callable[[Item], Result], Iterable[Item]], Iterable[Result]
]


class _Outcome(msgspec.Struct):
  """The result of an item as JSON, or its error."""

  result: msgspec.Raw = msgspec.Raw(b"null")
  error: str = ""


def define_flags() -> None:
  """Defines --runner and --workers of a command."""
  flags.DEFINE_string(
    "runner",
    LOCAL,
    "local, or an Apache Beam runner; its own flags follow after --. "
    f"Example: --runner={DIRECT}",
  )
  flags.DEFINE_integer(
    "workers",
    1,
    f"Number of processes for --runner={DIRECT}. Example: --workers=4",
    lower_bound=1,
  )


def read_flags(
  arguments: Sequence[str], folder: pathlib.Path
) -> MapItems[Any, Any]:
  """Returns a function that maps items as set by --runner and --workers.

  Args:
    arguments: arguments after -- on the command line.
    folder: see `map_items`.

  Raises:
    ConnectionError: if the cluster's scheduler does not answer.
    FileNotFoundError: if a flag names a missing file.
    ValueError: if flags contradict each other or a package is missing.
  """
  runner, workers = flags.FLAGS.runner, flags.FLAGS.workers
  if workers != 1 and runner != DIRECT:
    raise ValueError(
      f"--workers={workers} works only with --runner={DIRECT}; pass the flags "
      "of other runners after --"
    )
  if runner == LOCAL:
    if arguments:
      raise ValueError(
        f"unexpected arguments: {' '.join(arguments)}; they need a --runner"
      )
    return map
  _check_installed(runner)
  if runner == DASK:
    _check_cluster(arguments)
  return functools.partial(
    map_items,
    folder=folder,
    runner=runner,
    workers=workers,
    arguments=tuple(arguments),
  )


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
  items: Iterable[Item],
  *,
  folder: pathlib.Path,
  runner: str,
  workers: int = 1,
  arguments: Sequence[str] = (),
) -> list[Result]:
  """Returns the results of a function for all items, in order.

  Args:
    function: function of one item, or a partial of one. It must be importable,
      and its annotations name the types of item and result, which msgspec
      reads.
    items: may be an iterator; one is held at a time.
    folder: visible to all workers under this path.
    arguments: flags of Beam and of the runner.

  Raises:
    ConnectionError: if the runner lost its workers or scheduler.
    ValueError: if Beam or Dask is missing, or the function raised it.
  """
  _check_installed(runner)
  item_folder = folder / f"{_FOLDER_PREFIX}{uuid.uuid4().hex}"
  item_folder.mkdir(parents=True)
  try:
    number = 0
    for number, item in enumerate(items, 1):
      _find_path(item_folder, "item", number - 1).write_bytes(_encode(item))
    if number:
      # Types are found here: a function of `__main__` reaches a worker without
      # the names of its annotations.
      run_item = functools.partial(
        _run_item, function, _find_types(function)[0], str(item_folder)
      )
      _run_pipeline(runner, workers, arguments, run_item, number)
    return [
      _read_result(function, runner, _find_path(item_folder, "result", index))
      for index in range(number)
    ]
  finally:
    shutil.rmtree(item_folder, ignore_errors=True)


def _run_pipeline(
  runner: str,
  workers: int,
  arguments: Sequence[str],
  run_item: Callable[[int], None],
  number: int,
) -> None:
  """Calls a function with the number of each item."""
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions

  options = [
    f"--runner={_RUNNER_CLASSES.get(runner, runner)}",
    # Without it workers log every step of their own life.
    "--default_sdk_harness_log_level=WARNING",
    *arguments,
  ]
  if runner == DIRECT:
    options += [
      f"--direct_num_workers={workers}",
      "--direct_running_mode=multi_processing",
    ]
  if runner == DASK and not _PARTITION_OPTIONS & _parse_flags(arguments).keys():
    options.append(f"--dask_npartitions={min(number, _MAX_PARTITIONS)}")
  try:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
      _ = (
        pipeline
        | beam.Create(list(range(number)))
        | beam.Reshuffle()
        | beam.Map(run_item)
      )
  except Exception as error:
    # A lost connection, or a worker that died repeatedly.
    if not type(error).__module__.startswith("distributed."):
      raise
    raise ConnectionError(
      f"--runner={runner}: {type(error).__name__}: {error}"
    ) from error


def _run_item(
  function: Callable[[Any], Any], item_type: Any, item_folder: str, index: int
) -> None:
  """Calls a function with an item and writes its result or error."""
  folder = pathlib.Path(item_folder)
  if not folder.is_dir():
    raise ConnectionError(
      f"{folder}: no such folder on this worker; every worker must see it "
      "under this path"
    )
  try:
    item = _decode(_find_path(folder, "item", index).read_bytes(), item_type)
    outcome = _Outcome(result=msgspec.Raw(_encode(function(item))))
  except (ValueError, FileNotFoundError) as error:
    outcome = _Outcome(error=str(error) or repr(error))
  with files.atomic_path(_find_path(folder, "result", index)) as path:
    path.write_bytes(_encode(outcome))


def _read_result(
  function: Callable[[Any], Result], runner: str, path: pathlib.Path
) -> Result:
  """Returns the result of an item, or raises its error."""
  if not path.is_file():  # Dask takes what was cancelled for done
    raise ConnectionError(
      f"--runner={runner} ended without all results, as when a scheduler dies; "
      "run the command again, it continues where it stopped"
    )
  outcome = msgspec.json.decode(path.read_bytes(), type=_Outcome)
  if outcome.error:
    raise ValueError(outcome.error)
  return _decode(bytes(outcome.result), _find_types(function)[1])


def _find_path(folder: pathlib.Path, kind: str, index: int) -> pathlib.Path:
  return folder / f"{index:09}.{kind}.json"


def _find_types(function: Callable[[Any], Any]) -> tuple[Any, Any]:
  """Returns the types of a function's first argument and result."""
  function = getattr(function, "func", function)  # of a partial
  hints = typing.get_type_hints(function)
  return hints[next(iter(inspect.signature(function).parameters))], hints[
    "return"
  ]


def _encode(value: Any) -> bytes:
  return msgspec.json.encode(value, enc_hook=_convert_path)


def _decode(content: bytes, kind: Any) -> Any:
  return msgspec.json.decode(content, type=kind, dec_hook=_make_path)


def _convert_path(value: Any) -> str:
  if isinstance(value, pathlib.PurePath):
    return str(value)
  raise NotImplementedError(f"{type(value)} is not written as JSON")


def _make_path(kind: type, value: Any) -> pathlib.Path:
  if kind is pathlib.Path:
    return pathlib.Path(value)
  raise NotImplementedError(f"{kind} is not read from JSON")


def _check_cluster(arguments: Sequence[str]) -> None:
  """Raises an error unless a Dask scheduler is named and answers."""
  # Without one Beam would start a cluster on this machine, anew for each step;
  # and it would wait for ever for a scheduler's file that is not there.
  import distributed

  client_options = {
    name: value
    for name, value in _parse_flags(arguments).items()
    if name not in _PARTITION_OPTIONS
  }
  if file := client_options.get("scheduler_file"):
    flag = f"--dask_scheduler_file={file}"
    try:
      json.loads(pathlib.Path(file).read_text(encoding="utf-8"))["address"]
    except FileNotFoundError:
      raise FileNotFoundError(
        f"{flag}: no such file; dask scheduler --scheduler-file={file} writes "
        "it"
      ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
      raise ValueError(
        f"{flag}: not a file of dask scheduler ({error!r})"
      ) from error
  elif address := client_options.get("address"):
    flag = f"--dask_client_address={address}"
  else:
    raise ValueError(
      f"--runner={DASK}: no scheduler is named; expected -- "
      "--dask_scheduler_file=FILE or -- --dask_client_address=tcp://HOST:PORT"
    )
  try:
    with distributed.Client(**client_options) as client:
      num_threads = client.nthreads().values()
  except (OSError, ValueError) as error:
    raise ConnectionError(f"{flag}: no scheduler answers: {error}") from error
  if not num_threads:
    logging.warning(
      "%s: no worker yet; the command waits until a dask worker starts", flag
    )
  elif max(num_threads) > 1:
    logging.warning(
      "%s: workers with up to %d threads share memory and interpreter; start "
      "them with --nthreads=1",
      flag,
      max(num_threads),
    )
  else:
    logging.info("%s: %d workers", flag, len(num_threads))


def _parse_flags(arguments: Sequence[str]) -> dict[str, Any]:
  """Returns the given options of Dask's client and partitions."""
  from apache_beam.runners.dask.dask_runner import DaskOptions

  return DaskOptions(list(arguments)).get_all_options(
    drop_default=True, current_only=True
  )
