"""Iterator over training batches, read ahead and put on devices ahead.

Its state is the number of the next batch: it goes on exactly with any number of
processes that read ahead, and nothing that was read ahead counts. Beside it
stands which order of batches the number is of.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import pathlib
import pickle
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from typing import Any

import grain
from absl import flags

_READ_AHEAD = 4  # batches of a process that reads
_PLACED_AHEAD = 2  # batches on the devices, beside the one at work
_NUM_BATCHES = 2**40  # more than any run has
_ORDER = 1  # of the batches of a seed; another one makes another number


def _end_with_parent(folder: pathlib.Path, index: int, count: int) -> None:
  """Has this worker end when the run that it reads for is killed.

  It would wait for ever for somebody to take its batches.

  Args:
    folder: of what the run gave it, which goes with it.
    index: of the worker.
    count: of the workers.
  """
  del index, count
  parent = multiprocessing.parent_process()

  def wait_and_exit() -> None:
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)

  threading.Thread(target=wait_and_exit, name="parent", daemon=True).start()


class _FiledReader(grain.transforms.Map):
  """Reader that a worker gets through a file, not through its pipe.

  A pipe holds 64 KiB: where a worker is killed before it has read the rest, the
  run would wait for ever to write it.
  """

  def __init__(self, reader: grain.transforms.Map, path: pathlib.Path):
    """Writes the reader.

    Args:
      reader: makes a batch from its number.
      path: of the file, which stays until all workers have begun.
    """
    self._reader, self._path = reader, path
    with path.open("wb") as file:
      pickle.dump(reader, file)

  def __getstate__(self) -> pathlib.Path:
    return self._path

  def __setstate__(self, path: pathlib.Path) -> None:
    self._path = path
    with path.open("rb") as file:
      self._reader = pickle.load(file)

  def map(self, element: int) -> Any:
    """Returns the batch of a number."""
    return self._reader.map(element)


class BatchIterator(grain.DatasetIterator):
  """Endless iterator over the batches of a process."""

  def __init__(
    self,
    reader: grain.transforms.Map,
    workers: int = 0,
    place: Callable[[Any], Any] | None = None,
  ):
    """Starts with the first batch, and reading when the first is asked for.

    Args:
      reader: makes a batch from its number.
      workers: processes that read; 0 = a thread of this one.
      place: puts a batch on the devices, in a thread; None = stays here.
    """
    super().__init__()
    self._reader = reader
    self._workers = workers
    self._place = place
    self._next = 0
    self._batches: grain.DatasetIterator | None = None
    self._remove_files: Callable[[], Any] | None = None  # given to workers

  def _open(self) -> grain.DatasetIterator:
    """Returns an iterator over the batches from the next one on."""
    reader = self._reader
    if self._workers:
      folder = pathlib.Path(tempfile.mkdtemp(prefix="ctd_jax-reader-"))
      self._remove_files = weakref.finalize(
        self, shutil.rmtree, folder, ignore_errors=True
      )
      reader = _FiledReader(reader, folder / "reader")
    dataset = (
      grain.MapDataset.range(self._next, _NUM_BATCHES)
      .map(reader)
      .to_iter_dataset(
        grain.ReadOptions(num_threads=1, prefetch_buffer_size=_READ_AHEAD)
      )
    )
    if self._workers:
      if not flags.FLAGS.is_parsed():  # where no command has: grain reads some
        flags.FLAGS.mark_as_parsed()
      dataset = dataset.mp_prefetch(
        grain.MultiprocessingOptions(
          num_workers=self._workers, per_worker_buffer_size=_READ_AHEAD
        ),
        functools.partial(_end_with_parent, folder),
      )
    if self._place is not None:
      dataset = grain.experimental.ThreadPrefetchIterDataset(
        dataset.map(self._place), prefetch_buffer_size=_PLACED_AHEAD
      )
    return iter(dataset)

  def __next__(self) -> Any:
    """Returns the next batch."""
    self.start_prefetch()
    batch = next(self._batches)
    self._next += 1
    return batch

  def start_prefetch(self) -> None:
    """Begins to read ahead."""
    if self._batches is None:
      self._batches = self._open()
      self._batches.start_prefetch()

  def get_state(self) -> dict[str, int]:
    """Returns the number of the next batch, and the order that it is of."""
    return {"next_index": self._next, "order": _ORDER}

  def set_state(self, state: dict[str, int]) -> None:
    """Goes to the batch that a state names.

    Raises:
      ValueError: if its number is of another order of batches.
    """
    if state.get("order") != _ORDER:
      raise ValueError(
        "begun with another input pipeline, whose batches come in another "
        f"order: {state}, expected 'order': {_ORDER}"
      )
    self.close()
    self._next = state["next_index"]

  def close(self) -> None:
    """Ends what reads ahead."""
    if self._batches is not None:
      self._batches.close()
      self._batches = None
    if self._remove_files is not None:
      self._remove_files()
      self._remove_files = None
