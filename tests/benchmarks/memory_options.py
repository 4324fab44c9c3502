"""What a run keeps under the options that save memory, and what bf16 changes.

  python tests/benchmarks/memory_options.py bytes --geometry=FOLDER
  python tests/benchmarks/memory_options.py moments [--steps=300]

`bytes` says of the config of Qwen3-Embedding what parameters, optimizer and
checkpoints hold, under each option. Nothing is computed: of the encoder only
its config.json is read. `moments` trains `configs/tiny.py` with the first
moment in fp32 and in bf16, and in fp32 with another seed, and compares the
losses of every step.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from typing import Any

import jax
import numpy as np

from ctd_jax.training import experiment, optimizer, partitioning, train_step
from ctd_jax.training.objective import Objective
from ctd_jax.training.plan import workload
from ctd_jax_configs import qwen, tiny
from ctd_jax_datasets import load

_BF16_MOMENT = {"optimizer.moment_dtype": "bfloat16"}
# Argument of the config, and the fields that differ from it.
_OPTIONS = {
  "all trained": ("ctd", {}),
  "first moment in bf16": ("ctd", _BF16_MOMENT),
  "accumulate_steps=4": ("ctd", {"accumulate_steps": 4}),
  "adapters, encoder in fp32": (
    "ctd-lora",
    {"model.lora.base_dtype": "float32"},
  ),
  "adapters, encoder in bf16": ("ctd-lora", {}),
}


def count_bytes(tree: Any) -> int:
  """Returns the bytes of abstract arrays on one device."""
  return sum(
    math.prod(leaf.shape) * leaf.dtype.itemsize
    for leaf in jax.tree.leaves(tree)
  )


def print_bytes(geometry: str) -> None:
  """Prints what a state holds under each option."""
  mesh = partitioning.make_mesh(1)
  for name, (argument, fields) in _OPTIONS.items():
    config = qwen.get_config(argument)
    config.model.encoder.source = geometry
    config.dataset = "chunqiutr/mini"  # whose calendar is installed
    config.update_from_flattened_dict(fields)
    work = workload.read_workload(config)
    adam = optimizer.make_optimizer(
      config.optimizer, 10, config.accumulate_steps
    )
    state = train_step.abstract_state(
      train_step.make_model(config.model, work.encoder, work.timeline),
      adam,
      mesh,
    )
    trained, kept = count_bytes(state.params), count_bytes(state.opt_state)
    frozen = count_bytes(state.frozen)
    sizes = {
      "trained": trained,
      "frozen": frozen,
      "optimizer": kept,
      "state": trained + frozen + kept,
      "checkpoint": trained + kept,
      "best checkpoint": trained,
    }
    text = ", ".join(f"{key} {size / 1e9:.2f}" for key, size in sizes.items())
    print(f"{name}: {text} GB", flush=True)


def train(
  steps: int, data_dir: str | None, dtype: str, seed: int
) -> np.ndarray:
  """Returns the loss of every step of a run whose schedule ends with it."""
  config = tiny.get_config()
  config.seed, config.data_dir = seed, data_dir
  config.optimizer.moment_dtype = dtype
  benchmark = load.build_benchmark(config.dataset, data_dir, None)
  # A small excess: the product must not fall below the number of steps.
  epochs = steps * config.batch_size / len(benchmark.queries["train"])
  config.num_epochs = epochs + 1e-6
  with tempfile.TemporaryDirectory() as folder:
    run = experiment.assemble_experiment(config, folder)
    run.checkpoints.close()
    state, batches = run.init_state(), run.training_batches()
    update = train_step.make_train_step(
      Objective.from_config(config, run.model, run.mesh), run.optimizer, seed
    )
    losses = []
    for _ in range(run.total_steps):
      batch = partitioning.make_global_batch(next(batches), run.mesh)
      state, metrics = update(state, batch)
      losses.append(float(metrics["loss"]))
  return np.array(losses)


def compare_moments(steps: int, data_dir: str | None) -> None:
  """Prints how far the losses lie apart."""
  expected = train(steps, data_dir, "float32", 42)
  last = slice(-steps // 6, None)
  print(f"fp32: loss of the last sixth {expected[last].mean():.4f}", flush=True)
  for name, dtype, seed in (
    ("bf16", "bfloat16", 42),
    ("fp32 of another seed", "float32", 43),
  ):
    losses = train(steps, data_dir, dtype, seed)
    apart = np.abs(losses / expected - 1)
    print(
      f"{name}: loss of the last sixth {losses[last].mean():.4f}, a step apart "
      f"{apart.mean():.2%} in the mean, {apart.max():.2%} at most",
      flush=True,
    )


def main() -> None:
  """Reads the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("what", choices=("bytes", "moments"))
  parser.add_argument("--geometry", help="folder with config.json, of a Qwen3")
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--data_dir", help="where chunqiutr/mini lies")
  flags = parser.parse_args()
  if flags.what == "moments":
    compare_moments(flags.steps, flags.data_dir)
  elif flags.geometry is None:
    parser.error("bytes: give --geometry=FOLDER")
  else:
    print_bytes(flags.geometry)


if __name__ == "__main__":
  main()
