"""A Dask cluster on which Apache Beam runs: its flags and its scheduler."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from absl import logging

# By default partitions have 128 items, so that a small corpus would be one.
# 256 keep a scheduler busy for some 20 s, 1,000 for a minute.
_MAX_PARTITIONS = 256
_PARTITION_OPTIONS = frozenset({"npartitions", "partition_size"})


def partition_flags(arguments: Sequence[str], num_items: int) -> list[str]:
  """Returns the flag that divides items among tasks, unless one is given.

  Args:
    arguments: flags of Beam and of Dask.
    num_items: at least one.
  """
  if _PARTITION_OPTIONS & _parse_flags(arguments).keys():
    return []
  return [f"--dask_npartitions={min(num_items, _MAX_PARTITIONS)}"]


def check_cluster(runner_flag: str, arguments: Sequence[str]) -> None:
  """Raises an error unless flags name a scheduler that answers.

  Without one Beam would start a cluster on this machine, for each step anew;
  and for a scheduler's file that is not there it would wait for ever.

  Args:
    runner_flag: for the error.
    arguments: flags of Beam and of Dask.

  Raises:
    ConnectionError: if no scheduler answers, naming the flag.
    FileNotFoundError: if there is no file of one.
    ValueError: if none is named, or its file is another's.
  """
  import distributed

  client_options = {
    name: value
    for name, value in _parse_flags(arguments).items()
    if name not in _PARTITION_OPTIONS
  }
  if file := client_options.get("scheduler_file"):
    flag = f"--dask_scheduler_file={file}"
    _check_scheduler_file(flag, pathlib.Path(file))
  elif address := client_options.get("address"):
    flag = f"--dask_client_address={address}"
  else:
    raise ValueError(
      f"{runner_flag}: no scheduler is named; expected -- "
      "--dask_scheduler_file=FILE or -- --dask_client_address=tcp://HOST:PORT"
    )
  try:
    with distributed.Client(**client_options) as client:
      num_threads = client.nthreads().values()
  except (OSError, ValueError) as error:
    raise ConnectionError(f"{flag}: no scheduler answers: {error}") from error
  if not num_threads:
    logging.warning(
      "%s: no worker yet; the command waits until a dask worker is started",
      flag,
    )
  elif max(num_threads) > 1:
    logging.warning(
      "%s: workers of up to %d threads, which share memory and interpreter; "
      "start them with --nthreads=1",
      flag,
      max(num_threads),
    )
  else:
    logging.info("%s: %d workers", flag, len(num_threads))


def _parse_flags(arguments: Sequence[str]) -> dict[str, Any]:
  """Returns the options of client and partitions that are given."""
  from apache_beam.runners.dask.dask_runner import DaskOptions

  return DaskOptions(list(arguments)).get_all_options(
    drop_default=True, current_only=True
  )


def _check_scheduler_file(flag: str, path: pathlib.Path) -> None:
  """Raises an error unless a file says where a scheduler is."""
  try:
    json.loads(path.read_text(encoding="utf-8"))["address"]
  except FileNotFoundError:
    raise FileNotFoundError(
      f"{flag}: no such file; dask scheduler --scheduler-file={path} writes it"
    ) from None
  except (OSError, ValueError, KeyError, TypeError) as error:
    raise ValueError(
      f"{flag}: not what dask scheduler writes ({error!r})"
    ) from error
