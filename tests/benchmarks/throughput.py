"""Prints how many queries and texts a second pass, against PyTorch.

  python -m tests.benchmarks.throughput train --data_dir=data
  python -m tests.benchmarks.throughput train --hidden_size=768 --layers=12 \\
    --batch=16 --steps=2 --data_dir=data
  python -m tests.benchmarks.throughput step --batch=32 --pooling=cls
  python -m tests.benchmarks.throughput encode --encoder=e5_small

`train`: steps on `chunqiutr/rebuilt` as it is, one positive and one hard
negative a query. Ours packs the texts and encodes them together; theirs is a
plain loop over BertModel of transformers, which pads to the longest of the
batch and encodes queries, positives and negatives in three passes. Both start
from the same weights, and the first losses must agree. `step`: the same on
random texts that fill their rows, so that both compute the same shapes; but
with --pooling=cls or last our last layer leaves out most of what is not read.
`encode`: records of the data set into vectors, against sentence-transformers.

The two take turns, each in a process of its own: in one, the heap of the one
slows the other by some hundredths. Times are medians: of the wall, and of the
processor, which others on the machine do not stretch. Needs the extra `parity`;
`taskset -c 0` gives both one core.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import jax
import numpy as np
import sentence_transformers
import torch

from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.pooling import POOLINGS
from ctd_jax.models.pretrained import state_dict
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.training import input_pipeline, partitioning
from ctd_jax_datasets import load
from tests.benchmarks import contrastive_steps
from tests.benchmarks.torch_loop import PlainLoop

FULL = 128  # tokens of the random texts
WARM_UP = 2  # turns in which the heap grows to hold what is kept in it


class Sides(NamedTuple):
  """What both do in a turn.

  Attributes:
    ours: returns numbers that those of `theirs` must equal in the first turn.
    theirs: likewise, by PyTorch.
    size: what passes in a turn.
    unit: of the size.
    text: what is to be said of the inputs.
  """

  ours: Callable[[], Any]
  theirs: Callable[[], Any]
  size: int
  unit: str
  text: str = ""


def take_turns(flags: argparse.Namespace, side: str, pipe: Connection) -> None:
  """Does a turn whenever it is told to; tells its seconds."""
  torch.set_num_threads(len(os.sched_getaffinity(0)))
  sides = (prepare_encoding if flags.what == "encode" else prepare_training)(
    flags
  )
  turn = getattr(sides, side)
  # Every shape is compiled here, and what it gives is of equal weights.
  pipe.send((sides.size, sides.unit, sides.text, np.asarray(turn())))
  for _ in range(WARM_UP):
    turn()
  pipe.send(None)
  while pipe.recv():
    wall, processor = time.perf_counter(), time.process_time()
    turn()
    pipe.send((time.perf_counter() - wall, time.process_time() - processor))


def compare(flags: argparse.Namespace) -> None:
  """Runs both in turns and prints how many pass in a second."""
  # As ctd_jax.utils.host_memory has it in a run, for both: by the environment,
  # because threads of libraries that are imported here have heaps already.
  os.environ.update(
    MALLOC_MMAP_MAX_="0",
    MALLOC_TRIM_THRESHOLD_=str(1 << 36),
    MALLOC_ARENA_MAX="1",
  )
  context = multiprocessing.get_context("spawn")
  pipes, processes, first = {}, [], {}
  for side in ("ours", "theirs"):
    pipes[side], end = context.Pipe()
    processes.append(
      context.Process(target=take_turns, args=(flags, side, end), daemon=True)
    )
    processes[-1].start()
    end.close()  # else an error there would leave us waiting
    # The one is at rest before the other starts.
    size, unit, text, first[side] = pipes[side].recv()
    pipes[side].recv()
  tolerances = {"atol": 1e-4} if flags.what == "encode" else {"rtol": 1e-3}
  np.testing.assert_allclose(first["ours"], first["theirs"], **tolerances)
  if text:
    print(text)
  seconds = {side: [] for side in pipes}
  for _ in range(flags.repeats):
    for side, pipe in pipes.items():
      pipe.send(True)
      seconds[side].append(pipe.recv())
  for pipe in pipes.values():
    pipe.send(False)
  for process in processes:
    process.join()
  print(f"{'':<10} {'ours':>9} {'PyTorch':>9} {'ratio':>6}   {unit} a second")
  for index, clock in enumerate(("wall", "processor")):
    mine, other = (
      statistics.median(times[index] for times in seconds[side])
      for side in ("ours", "theirs")
    )
    print(
      f"{clock:<10} {size / mine:>9.3g} {size / other:>9.3g} "
      f"{other / mine:>6.2f}",
      flush=True,
    )


def prepare_training(flags: argparse.Namespace) -> Sides:
  """Returns steps of training."""
  config = contrastive_steps.configure(flags.batch, flags.pooling)
  benchmark = load.build_benchmark("chunqiutr/rebuilt", flags.data_dir)
  tokenizer = input_pipeline.build_tokenizer(benchmark)
  if flags.what == "step":
    texts = contrastive_steps.draw_full_texts(
      benchmark, tokenizer.vocab_size, FULL
    )
  else:
    texts = contrastive_steps.read_texts(benchmark, tokenizer)
  encoder = BertConfig(
    tokenizer.vocab_size,
    hidden_size=flags.hidden_size,
    num_layers=flags.layers,
    num_heads=flags.hidden_size // 64,
    mlp_size=4 * flags.hidden_size,
    max_length=512,
    dropout=0.0,
  )
  state, update, objective, make_batches = contrastive_steps.prepare_steps(
    config, encoder, benchmark, texts
  )
  iterator = make_batches()
  start = iterator.get_state()
  batches = [
    contrastive_steps.unpack_texts(next(iterator)["texts"])
    for _ in range(flags.steps)
  ]
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    state_dict.save_encoder(folder, encoder, state.params["encoder"])
    plain = PlainLoop(
      folder,
      flags.pooling,
      config.optimizer.learning_rate,
      config.model.temperature,
    )

  def ours() -> float:
    nonlocal state
    iterator.set_state(start)
    losses = []
    for _ in range(flags.steps):
      batch = partitioning.make_global_batch(next(iterator), objective.mesh)
      state, metrics = update(state, batch)
      losses.append(metrics["loss"])
    return jax.device_get(losses)[0]

  def theirs() -> float:
    losses = [float(plain.step(plain.pad_texts(texts))) for texts in batches]
    return losses[0]

  size = flags.batch * flags.steps
  padded = sum(
    len(batch[part::3]) * max(map(len, batch[part::3]))
    for batch in batches
    for part in range(3)
  )
  real = sum(len(text) for batch in batches for text in batch)
  iterator.set_state(start)
  packed = sum(next(iterator)["texts"].ids.size for _ in range(flags.steps))
  text = (
    f"tokens an example: {real / size:.0f} of text, {packed / size:.0f} packed,"
    f" {padded / size:.0f} padded to the longest"
  )
  return Sides(ours, theirs, size, "queries", text)


def prepare_encoding(flags: argparse.Namespace) -> Sides:
  """Returns the encoding of records."""
  benchmark = load.build_benchmark("chunqiutr/rebuilt", flags.data_dir)
  chosen = np.random.default_rng(0).permutation(len(benchmark.records))
  texts = [benchmark.records[row].text for row in chosen[: flags.texts]]
  mine = TextEncoder.load(flags.encoder, pooling="mean", normalize=True)
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for file in ("config.json", "model.safetensors"):
      (folder / file).symlink_to(pathlib.Path(flags.encoder, file).absolute())
    # Our folders do not say which class of tokenizer reads them.
    mine.tokenizer.export(folder, mine.max_length)
    # Of a bare folder of weights it makes mean pooling.
    other = sentence_transformers.SentenceTransformer(name, device="cpu")

  def theirs() -> np.ndarray:
    return other.encode(texts, normalize_embeddings=True)

  return Sides(lambda: mine.encode(texts), theirs, len(texts), "texts")


def main() -> None:
  """Reads the flags and compares."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("what", choices=("train", "step", "encode"))
  parser.add_argument("--data_dir", help="of the data set chunqiutr/rebuilt")
  parser.add_argument("--hidden_size", type=int, default=128)
  parser.add_argument("--layers", type=int, default=2)
  parser.add_argument(
    "--pooling",
    choices=POOLINGS,
    default="mean",
    help="cls of BERT's recipe, mean of an encoder from scratch (default)",
  )
  parser.add_argument("--batch", type=int, default=32, help="queries a step")
  parser.add_argument("--steps", type=int, default=8, help="of one turn")
  parser.add_argument("--repeats", type=int, default=5, help="turns")
  parser.add_argument("--encoder", help="folder of weights, for encode")
  parser.add_argument("--texts", type=int, default=500, help="for encode")
  flags = parser.parse_args()
  cores = len(os.sched_getaffinity(0))
  print(f"{cores} cores, load {os.getloadavg()[0]:.1f}", flush=True)
  compare(flags)


if __name__ == "__main__":
  main()
