"""Trains a retriever and evaluates its best checkpoint; the main entry point.

  python -m ctd_jax.train --config=configs/tiny.py --workdir=runs/tiny

One loop for every system: build or reuse the data set, restore the latest
checkpoint of the workdir if there is one, update, validate with the score that
is trained, save, and at the end evaluate the best checkpoint on all splits.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Mapping

import jax
import ml_collections
import numpy as np
import tensorboardX
import tqdm
from absl import flags, logging

from ctd_jax import (
  entry_point,
  evaluate,
  input_pipeline,
  partitioning,
  train_step,
)
from ctd_jax.checkpointing import abstract_state
from ctd_jax.optimizer import make_optimizer
from ctd_jax.retrieval import runs


class DivergedError(ValueError):
  """The loss is no longer a number."""


class MetricsLog:
  """One JSON line and one TensorBoard point for every set of metrics.

  Lines hold nothing but the step and values that the seed determines, so the
  file of a resumed run equals that of an uninterrupted one.
  """

  def __init__(self, workdir: pathlib.Path, resume_step: int):
    """Opens the log; lines beyond `resume_step` are taken back."""
    self._path = workdir / "metrics.jsonl"
    lines = self._path.read_text().splitlines() if self._path.exists() else []
    kept = [x for x in lines if json.loads(x)["step"] <= resume_step]
    runs.write_text(self._path, "".join(line + "\n" for line in kept))
    self._events = tensorboardX.SummaryWriter(
      str(workdir / "tensorboard"), purge_step=resume_step + 1
    )

  def write(self, step: int, metrics: Mapping[str, float]) -> None:
    """Appends `metrics` of `step`."""
    values = {name: float(value) for name, value in metrics.items()}
    with self._path.open("a") as file:
      file.write(json.dumps({"step": step, **values}, sort_keys=True) + "\n")
    for name, value in values.items():
      self._events.add_scalar(name, value, step)

  def close(self) -> None:
    """Flushes the events."""
    self._events.close()


def _check_finite(step: int, metrics: Mapping[str, float]) -> None:
  bad = [k for k, value in metrics.items() if not np.isfinite(value)]
  if bad:
    raise DivergedError(
      f"step {step}: {', '.join(bad)} is not finite. The last checkpoint is "
      "untouched; lower config.optimizer.learning_rate or set "
      "config.optimizer.clip_norm"
    )


def _claim_workdir(
  workdir: pathlib.Path, config: ml_collections.ConfigDict
) -> None:
  """Writes the config of a new run."""
  workdir.mkdir(parents=True, exist_ok=True)
  text = config.to_json_best_effort(indent=2)
  runs.write_text(workdir / "config.json", text + "\n")


def train_and_evaluate(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  stop_after: int | None = None,
) -> None:
  """Trains, then evaluates the best checkpoint and prints the tables.

  Args:
    config: see `configs/common.py`.
    workdir: created if absent; a run found there is resumed.
    stop_after: leave the loop after this many updates, as a cut-off would.

  Raises:
    DivergedError: if the loss stops being finite.
    checkpointing.CheckpointError: if the workdir holds another architecture.
  """
  started = time.time()
  mesh = partitioning.make_mesh()
  replicated = partitioning.replicated(mesh)
  data = evaluate.prepare_data(config, workdir)
  total_steps = evaluate.total_steps(config, data)
  model = train_step.make_model(
    config, data.tokenizer.vocab_size, data.benchmark.timeline
  )
  optimizer = make_optimizer(config.optimizer, total_steps)
  state = train_step.init_state(model, optimizer, config.seed, replicated)
  batches = input_pipeline.training_batches(
    data.benchmark, data.queries["train"], data.records, config
  )
  checkpoints = evaluate.open_checkpoints(config, workdir, data)
  first = checkpoints.latest_step or 0
  if first:
    logging.info("resuming %s at step %d", workdir, first)
    state = checkpoints.restore(
      first, abstract_state(state, replicated), batches
    )
  _claim_workdir(workdir, config)
  update = train_step.make_train_step(model, optimizer, config, replicated)
  ranker = evaluate.Ranker(model, config, data, mesh)
  log = MetricsLog(workdir, first)
  parameters = sum(x.size for x in jax.tree.leaves(state.params))
  logging.info(
    "%s: %s, %d train queries, %d records, %d parameters, %d steps on %d %s",
    config.name,
    data.benchmark.name,
    len(data.benchmark.queries["train"]),
    len(data.benchmark.records),
    parameters,
    total_steps,
    mesh.size,
    jax.devices()[0].device_kind,
  )
  pending = None
  bar = tqdm.tqdm(
    total=total_steps, initial=first, unit="step", disable=None, desc="train"
  )
  for step in range(first + 1, total_steps + 1):
    batch = partitioning.global_batch(next(batches), mesh)
    state, metrics = update(state, batch)
    # Read one step late: the device does not wait for the host.
    if pending is not None:
      _flush(log, config, bar, *pending)
    pending = step, metrics
    if step % config.eval_every == 0 or step == total_steps:
      _flush(log, config, bar, *pending)
      pending = None
      scores = ranker.validate(state.params)
      log.write(step, scores)
      logging.info(
        "step %d/%d, %.0f s: %s",
        step,
        total_steps,
        time.time() - started,
        "  ".join(f"{k} {v:.4f}" for k, v in scores.items()),
      )
      checkpoints.save(step, state, batches, scores)
    if stop_after is not None and step >= stop_after:
      break
    bar.update()
  bar.close()
  log.close()
  checkpoints.close()
  if stop_after is None or stop_after >= total_steps:
    evaluate.evaluate_workdir(
      config,
      workdir,
      data,
      seconds=None if first else time.time() - started,
    )


def _flush(
  log: MetricsLog,
  config: ml_collections.ConfigDict,
  bar: tqdm.tqdm,
  step: int,
  metrics: Mapping[str, jax.Array],
) -> None:
  """Checks the metrics of a step and logs them when they are due."""
  values = jax.device_get(metrics)
  _check_finite(step, values)
  if step % config.log_every == 0:
    log.write(step, values)
    bar.set_postfix(loss=f"{float(values['loss']):.3f}")


def main() -> None:
  """Trains in --workdir and evaluates."""
  workdir = pathlib.Path(entry_point.WORKDIR.value).expanduser().absolute()
  train_and_evaluate(entry_point.CONFIG.value, workdir)


if __name__ == "__main__":
  flags.adopt_module_key_flags(entry_point)  # shown by --help
  entry_point.run(main)
