"""Saving and restoring a run: state, data iterator and what built them.

Kept are the latest checkpoints (to resume) and the best one by validation (to
evaluate). Each holds the train state, the position of the data iterator and
the model's description, so that a checkpoint of another architecture is
refused by name rather than by a shape. Called by `train` and `evaluate`.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import grain
import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers


class CheckpointError(ValueError):
  """A checkpoint that does not belong to the model at hand."""


def differences(
  saved: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = ""
) -> list[str]:
  """Returns a phrase for every field in which two descriptions differ.

  Args:
    saved: what a run was made with.
    wanted: what is asked for now.
    prefix: path of both in a larger description.
  """
  lines = []
  for key in sorted(saved.keys() | wanted.keys()):
    old, new = saved.get(key), wanted.get(key)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
      lines += differences(old, new, f"{prefix}{key}.")
    elif old != new:
      lines.append(f"{prefix}{key}: run {old!r}, config {new!r}")
  return lines


@dataclasses.dataclass
class Checkpoints:
  """The checkpoints of one run.

  Attributes:
    directory: absolute folder, one sub-folder a step.
    metric: name of the validation metric that ranks them, higher is better.
    model: description of the architecture, saved with and compared to each.
    keep_latest: how many of the latest are kept, beside the best.
  """

  directory: pathlib.Path
  metric: str
  model: Mapping[str, Any]
  keep_latest: int = 1

  def __post_init__(self):
    def best(metrics: Mapping[str, float]) -> tuple[float, float]:
      # Of equals the earlier one.
      return metrics[self.metric], -metrics["step"]

    # The policy alone keeps the best step but reports the latest as best; the
    # function alone drops the latest. Resuming and evaluating need both.
    policy = checkpoint_managers.AnyPreservationPolicy(
      [
        checkpoint_managers.LatestN(self.keep_latest),
        checkpoint_managers.BestN(get_metric_fn=best, n=1),
      ]
    )
    self._manager = ocp.CheckpointManager(
      pathlib.Path(self.directory).absolute(),
      options=ocp.CheckpointManagerOptions(
        preservation_policy=policy, best_fn=best, best_mode="max"
      ),
      item_names=("state", "model", "data"),
    )

  @property
  def latest_step(self) -> int | None:
    """The last saved step, None before the first."""
    return self._manager.latest_step()

  @property
  def best_step(self) -> int | None:
    """The step of the highest metric (the earlier of equals)."""
    return self._manager.best_step()

  def save(
    self,
    step: int,
    state: Any,
    iterator: grain.DatasetIterator,
    metrics: Mapping[str, float],
  ) -> None:
    """Writes a checkpoint; the files are complete or absent.

    Args:
      step: number of updates made.
      state: tree of global arrays.
      iterator: the training data, as far as it has been read.
      metrics: validation metrics, `self.metric` among them.
    """
    self._manager.save(
      step,
      args=ocp.args.Composite(
        state=ocp.args.StandardSave(state),
        model=ocp.args.JsonSave(dict(self.model)),
        data=grain.checkpoint.CheckpointSave(iterator),
      ),
      metrics={**metrics, "step": step},
    )

  def restore(
    self,
    step: int,
    abstract_state: Any,
    iterator: grain.DatasetIterator | None = None,
  ) -> Any:
    """Returns the state saved at `step`; moves `iterator` to where it was.

    Args:
      step: a saved step.
      abstract_state: tree of `jax.ShapeDtypeStruct` with shardings: the
        checkpoint may come from another number of devices.
      iterator: rewound or forwarded in place when given.

    Raises:
      CheckpointError: if the checkpoint holds another architecture; the
        message names each field that differs.
    """
    saved = self._manager.restore(
      step, args=ocp.args.Composite(model=ocp.args.JsonRestore())
    )["model"]
    changed = differences(saved, self.model)
    if changed:
      raise CheckpointError(
        f"checkpoint {self.directory}/{step} holds another architecture: "
        + "; ".join(changed)
        + ". Use the config it was trained with, or another --workdir."
      )
    items = {"state": ocp.args.StandardRestore(abstract_state)}
    if iterator is not None:
      items["data"] = grain.checkpoint.CheckpointRestore(iterator)
    return self._manager.restore(step, args=ocp.args.Composite(**items))[
      "state"
    ]

  def wait(self) -> None:
    """Waits until everything is on disk."""
    self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits until everything is on disk, then lets go of the folder."""
    self.wait()
    self._manager.close()


def abstract_state(state: Any, sharding: jax.sharding.Sharding) -> Any:
  """Returns shapes and types of `state`, placed by `sharding`."""
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state
  )
