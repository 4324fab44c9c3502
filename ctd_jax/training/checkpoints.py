"""Checkpoints of a run: train state, data iterator, description of the model.

The latest checkpoints are kept whole (to resume). Of the best one by validation
only the parameters are kept (to evaluate): the state of the optimizer, twice
their size, is removed once the checkpoint is not among the latest. With the
description of the model, a checkpoint of another architecture is refused by
field rather than by shape. A checkpoint is first written under another name,
and an older one is removed when it is complete; one that was damaged later is
skipped for the one before it. Several processes write one checkpoint, which any
number of them, on any number of devices, can read.

Orbax notices a file that is cut short, but reads flipped bits of an array as
other numbers. DIGESTS_FILE therefore has the sha256 of every file of the step.
They are hashes of files, not of arrays: so they hold for any number of
processes and devices, and also cover the position in the data. Measured on one
CPU: 0.5 to 0.9 s/GB, in the background when saving.
"""

import contextlib
import dataclasses
import gc
import json
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import grain
import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging
from etils import epath
from orbax.checkpoint import checkpoint_managers
from orbax.checkpoint.utils import TMP_DIR_SUFFIX

from ctd_jax.training import devices, run_folder
from ctd_jax.training.run_folder import Folder
from ctd_jax.training.train_step import TrainState
from ctd_jax.utils import files

# Items of a checkpoint, each a folder in it.
_PARAMS, _OPTIMIZER, _MODEL, _DATA = "params", "optimizer", "model", "data"
_WHOLE_STATE = "state"  # one item for both, as formerly
_METRICS = "metrics"  # written by Orbax
DIGESTS_FILE = "digests.json"  # item/path -> sha256
_HASH_THREADS = 4  # of files; buckets and disks answer several readers faster
_ENDED = "it can be evaluated and exported, not trained on"


class CheckpointError(ValueError):
  """Error of a checkpoint that does not belong to the model."""


class UnreadableCheckpointError(CheckpointError):
  """A checkpoint of which a file is missing or damaged."""


def list_differences(
  saved_fields: Mapping[str, Any],
  requested_fields: Mapping[str, Any],
  prefix: str = "",
) -> list[str]:
  """Returns a phrase for every field in which two descriptions differ."""
  phrases = []
  for key in sorted(saved_fields.keys() | requested_fields.keys()):
    old, new = saved_fields.get(key), requested_fields.get(key)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
      phrases += list_differences(old, new, f"{prefix}{key}.")
    elif old != new:
      phrases.append(f"{prefix}{key}: run {old!r}, config {new!r}")
  return phrases


def _hash_files(
  folder: epath.Path, names: Collection[str]
) -> dict[str, str | None]:
  """Returns name -> sha256 of files of a folder, None if one is missing."""

  def hash_file(name: str) -> str | None:
    path = folder / name
    return files.hash_file(path) if path.exists() else None

  # hashlib releases the lock of the interpreter.
  with futures.ThreadPoolExecutor(_HASH_THREADS) as executor:
    hashes = executor.map(hash_file, names)
    return dict(zip(names, hashes, strict=True))


def _optimizer_item(state: TrainState) -> dict[str, Any]:
  """Returns the state that a run needs to continue, besides its parameters."""
  return {"step": state.step, "opt_state": state.opt_state}


@contextlib.contextmanager
def _silence_abandoned_readers() -> Iterator[None]:
  """Suppresses Python's reports of readers that were never awaited."""
  # One array that cannot be read leaves a coroutine for each of the others.
  previous_hook = sys.unraisablehook
  sys.unraisablehook = lambda unraisable: None
  try:
    yield
  except BaseException:
    # Young generations alone: the readers are new, a full one takes a second.
    gc.collect(1)
    raise
  finally:
    sys.unraisablehook = previous_hook


@dataclasses.dataclass
class Checkpoints:
  """The checkpoints of one run."""

  directory: Folder  # local or in a bucket; one sub-folder a step
  metric: str  # name of the validation metric that ranks them, higher is better
  # Description of the architecture, saved with and compared to each.
  model: Mapping[str, Any]
  keep_latest: int = 1  # number of latest checkpoints kept, besides the best

  def __post_init__(self):
    self.directory = run_folder.resolve_folder(self.directory)
    self._has_warned = False
    with devices.coordinator_first("metrics of checkpoints"):
      self._set_aside_unreadable_metrics()

    def rank_metrics(metrics: Mapping[str, float]) -> tuple[float, float]:
      # Of equal metrics the earlier step.
      return metrics[self.metric], -metrics["step"]

    # The policy alone keeps the best step but reports the latest as best; the
    # function alone drops the latest. Resuming and evaluating need both.
    policy = checkpoint_managers.AnyPreservationPolicy(
      [
        checkpoint_managers.LatestN(self.keep_latest),
        checkpoint_managers.BestN(
          get_metric_fn=rank_metrics,
          n=1,
          keep_checkpoints_without_metrics=False,
        ),
      ]
    )
    self._manager = ocp.CheckpointManager(
      self.directory,
      options=ocp.CheckpointManagerOptions(
        preservation_policy=policy,
        best_fn=rank_metrics,
        best_mode="max",
        # In process 0, when all have written and before the folder gets its
        # name: a step with its name has digests.
        async_options=ocp.AsyncOptions(
          post_finalization_callback=self._write_digests
        ),
      ),
      item_names=(_PARAMS, _OPTIMIZER, _MODEL, _DATA),
    )

  def _write_digests(self) -> None:
    """Writes DIGESTS_FILE into the folder of the step that is being saved."""
    folder = epath.Path(self.directory / f"{self._saving}{TMP_DIR_SUFFIX}")
    if not folder.exists():  # in a bucket, where nothing is renamed
      folder = epath.Path(self.directory / str(self._saving))
    # Orbax has yet to change its own files, which are next to the items.
    names = [
      (epath.Path(parent) / name).relative_to(folder).as_posix()
      for parent, _, file_names in folder.walk()
      for name in file_names
      if parent != folder
    ]
    digests = _hash_files(folder, names)
    (folder / DIGESTS_FILE).write_text(json.dumps(digests, indent=1))

  def _find_damage(
    self, step: int, items: Collection[str], share: slice = slice(None)
  ) -> str:
    """Returns what differs from the saved files of some items, or ""."""
    folder = epath.Path(self.directory / str(step))
    path = folder / DIGESTS_FILE
    if not path.exists():
      if not self._has_warned:
        logging.warning(
          "%s: not there, as in checkpoints of older versions; flipped bits "
          "in the arrays would not be noticed",
          path,
        )
      self._has_warned = True
      return ""
    try:
      saved = json.loads(path.read_text())
      names = [name for name in saved if name.partition("/")[0] in items]
      for name in names:  # of a run that may come from a stranger
        files.split_name(folder, name)
      found = _hash_files(folder, names[share])
    except (OSError, ValueError, TypeError) as error:
      return f"{path}: {error}"
    changed = [name for name in found if found[name] != saved[name]]
    return f"{changed[0]} has changed or is missing" if changed else ""

  def _set_aside_unreadable_metrics(self) -> None:
    """Renames metrics that cannot be read or are damaged."""
    # Their checkpoints can still be resumed from, but are never the best.
    for folder in sorted(self.directory.glob("[0-9]*")):
      if not folder.name.isdigit():  # being written
        continue
      path = folder / _METRICS / _METRICS
      damage = self._find_damage(int(folder.name), [_METRICS])
      try:
        if path.exists():
          json.loads(path.read_text())
      except (OSError, ValueError) as error:
        damage = str(error)
      if damage:
        logging.warning(
          "%s: damaged metrics (%s); this step is never the best",
          folder,
          damage,
        )
        if path.exists():
          path.rename(path.with_suffix(".unreadable"))

  @property
  def latest_step(self) -> int | None:
    """The last saved step, None before the first."""
    return self._manager.latest_step()

  @property
  def oldest_step(self) -> int:
    """The first step that a run can continue from, 0 before any."""
    return min(
      sorted(self._manager.all_steps())[-self.keep_latest :], default=0
    )

  @property
  def best_step(self) -> int | None:
    """The step of the highest metric (the earlier of equals)."""
    return self._manager.best_step()

  def save(
    self,
    step: int,
    state: TrainState,
    iterator: grain.DatasetIterator,
    metrics: Mapping[str, float] | None = None,
  ) -> None:
    """Writes a checkpoint; the files are complete or absent.

    Args:
      step: number of steps made.
      state: state made of global arrays; frozen parameters are not written.
      iterator: the training data, as far as it has been read.
      metrics: validation metrics, `self.metric` among them. A checkpoint
        without metrics can be resumed from, but is never the best.
    """
    self.wait()
    self._saving = step
    self._manager.save(
      step,
      args=ocp.args.Composite(
        **{
          _PARAMS: ocp.args.StandardSave(state.params),
          _OPTIMIZER: ocp.args.StandardSave(_optimizer_item(state)),
          _MODEL: ocp.args.JsonSave(dict(self.model)),
          _DATA: grain.checkpoint.CheckpointSave(iterator),
        }
      ),
      # The step breaks ties, see `rank_metrics`.
      metrics=metrics and {**metrics, "step": step},
    )

  def resume(
    self, abstract_state: TrainState, iterator: grain.DatasetIterator
  ) -> tuple[int, TrainState] | None:
    """Returns step and state of the newest checkpoint that can be read.

    Newer ones are named in a warning and moved to `DIRECTORY.unreadable` once
    an older one was read. If none can be read the cause is not in the files,
    and nothing is moved.
    """
    unreadable_steps = []
    for step in sorted(self._manager.all_steps(), reverse=True):
      state, reason = None, ""
      try:
        state = self.restore(step, abstract_state, iterator)
      except UnreadableCheckpointError as error:
        reason = str(error)
      if devices.is_true_in_all_processes(not reason):
        self._move_unreadable(unreadable_steps)
        return step, state
      unreadable_steps.append(step)
      logging.warning("%s", reason or f"another process cannot read {step}")
    if unreadable_steps:
      raise CheckpointError(
        f"none of the checkpoints in {self.directory} can be read, see the "
        "warnings; remove the folder to start over"
      )
    return None

  def _move_unreadable(self, steps: Sequence[int]) -> None:
    """Moves checkpoints away, so that their steps can be saved again."""
    if not steps:
      return
    unreadable_folder = self.directory.with_name(
      f"{self.directory.name}.unreadable"
    )
    if devices.is_coordinator():
      for step in steps:
        # The same step may be damaged twice: the time keeps the names apart.
        folder = unreadable_folder / f"{step}.{time.time_ns()}"
        folder.parent.mkdir(exist_ok=True)
        (self.directory / str(step)).rename(folder)
        logging.warning("moved to %s; resuming from the one before", folder)
    devices.wait_for_all("unreadable checkpoints")
    self._manager.reload()

  def restore(
    self,
    step: int,
    abstract_state: TrainState,
    iterator: grain.DatasetIterator | None = None,
  ) -> TrainState:
    """Returns the state saved at `step`; moves `iterator` to its position.

    Args:
      step: a saved step.
      abstract_state: state made of `jax.ShapeDtypeStruct` with shardings: the
        checkpoint may come from another number of devices. What is frozen comes
        back as it is.
      iterator: rewound or forwarded in place when given.
    """
    folder = self.directory / str(step)
    if not any((folder / item).exists() for item in (_OPTIMIZER, _WHOLE_STATE)):
      raise UnreadableCheckpointError(
        f"checkpoint {self.directory}/{step} holds the parameters alone, as "
        "the best one does once it is not among the latest; training resumes "
        "from the latest"
      )

    with self._reading(step, _PARAMS, _OPTIMIZER, _DATA):
      state = self._read_state(step, abstract_state)
      # Last, so that a state that cannot be read leaves the iterator alone.
      if iterator is not None:
        # All processes read the same batches, each its share, so that the
        # position of the first one holds for any number of processes.
        paths = [*(folder / _DATA).glob("process_0-of-*.json")]
        if not paths:
          raise FileNotFoundError(f"{folder / _DATA}: no process_0-of-*.json")
        # A file that is no JSON is damage: resuming skips the checkpoint. One
        # that does not fit this run ends it.
        position = json.loads(paths[0].read_text())
        try:
          iterator.set_state(position)
        except ValueError as error:
          raise CheckpointError(
            f"checkpoint {self.directory}/{step}: {error}; {_ENDED}"
          ) from error
        iterator.start_prefetch()
    return state

  def restore_params(self, step: int, abstract_params: Any) -> Any:
    """Returns the parameters saved at `step`; reads nothing else."""
    with self._reading(step, _PARAMS):
      return self._read_params(step, abstract_params)

  @contextlib.contextmanager
  def _reading(self, step: int, *items: str) -> Iterator[None]:
    """Checks items and architecture of a checkpoint; names a damaged one."""
    # Each process reads a share of the files, and all or none go on: one that
    # stopped alone would leave the others waiting.
    share = slice(jax.process_index(), None, jax.process_count())
    damage = self._find_damage(step, (*items, _MODEL), share)
    if not devices.is_true_in_all_processes(not damage):
      raise self._refuse(step, damage or "a file has changed or is missing")
    try:
      with _silence_abandoned_readers():
        # Before the arrays: of another architecture they would fail by a shape.
        saved_model = self._read_item(step, _MODEL, ocp.args.JsonRestore())
        if mismatches := list_differences(saved_model, self.model):
          raise CheckpointError(
            f"checkpoint {self.directory}/{step} holds another architecture: "
            + "; ".join(mismatches)
            + ". Use the config it was trained with, or another --workdir."
          )
        yield
    except CheckpointError:
      raise
    except Exception as error:  # readers raise errors of many classes
      logging.debug("traceback", exc_info=True)
      raise self._refuse(step, repr(error).splitlines()[0]) from None

  def _refuse(self, step: int, reason: str) -> UnreadableCheckpointError:
    """Returns the error of a checkpoint that is damaged."""
    return UnreadableCheckpointError(
      f"checkpoint {self.directory}/{step} cannot be read: {reason}; training "
      "resumes from the one before; to evaluate or export another one, move "
      "this folder away"
    )

  def _read_item(self, step: int, item: str, args: Any) -> Any:
    items = ocp.args.Composite(**{item: args})
    return self._manager.restore(step, args=items)[item]

  def _read_state(self, step: int, abstract_state: TrainState) -> TrainState:
    """Returns the parameters, and what the optimizer knows, of a checkpoint."""
    if (self.directory / str(step) / _WHOLE_STATE).exists():
      raise CheckpointError(
        f"checkpoint {self.directory}/{step}: begun with another input "
        f"pipeline and optimizer; {_ENDED}"
      )
    args = ocp.args.StandardRestore(_optimizer_item(abstract_state))
    fields = self._read_item(step, _OPTIMIZER, args)
    params = self._read_params(step, abstract_state.params)
    return abstract_state.replace(params=params, **fields)

  def _read_params(self, step: int, abstract_params: Any) -> Any:
    """Returns the parameters of a checkpoint, all of them finite."""
    path = self.directory / str(step) / _WHOLE_STATE
    if path.exists():
      abstract = {_PARAMS: abstract_params}
      args = ocp.args.PyTreeRestore(
        abstract,
        restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),
        partial_restore=True,
      )
      with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        params = reader.restore(path, args=args)[_PARAMS]
    else:
      args = ocp.args.StandardRestore(abstract_params)
      params = self._read_item(step, _PARAMS, args)
    # The hashes hold for files that somebody wrote anew.
    for parts, leaf in jax.tree_util.tree_leaves_with_path(params):
      shards = [shard.data for shard in leaf.addressable_shards]
      is_finite = all(np.isfinite(shard).all() for shard in shards)
      if not devices.is_true_in_all_processes(is_finite):
        name = jax.tree_util.keystr(parts, simple=True, separator="/")
        raise self._refuse(step, f"{name} holds NaN or infinity")
    return params

  def wait(self) -> None:
    """Waits until everything is on disk, and removes what nobody reads."""
    self._manager.wait_until_finished()
    if not devices.is_coordinator():
      return
    steps = sorted(self._manager.all_steps())
    for step in steps[: -self.keep_latest]:
      folder = self.directory / str(step) / _OPTIMIZER
      if folder.exists():
        epath.Path(folder).rmtree()

  def close(self) -> None:
    """Waits until everything is on disk, then closes the manager."""
    self.wait()
    self._manager.close()
