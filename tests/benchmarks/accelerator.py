"""Training on one accelerator: speed against PyTorch, and bf16 against fp32.

  python -m tests.benchmarks.accelerator speed --geometry=bert-base \\
    --data_dir=data --sides='ours pytorch'
  python -m tests.benchmarks.accelerator speed --geometry=qwen3-0.6b \\
    --data_dir=data --texts=full --tokens=64 --sides='ours ours:remat=True'
  python -m tests.benchmarks.accelerator parity --geometry=bert-base \\
    --data_dir=data
  python -m tests.benchmarks.accelerator attention --geometry=bert-base

`speed`: steps in bf16 with fp32 parameters; each query has a positive and a
hard negative, the one of the released code. Texts are those of
`chunqiutr/rebuilt`, which we pack and PyTorch pads to the longest of each pass;
with --texts=full random ones of one length, so that both compute the same
shapes and PyTorch's attention is the flash kernel, which takes no padding; but
with our layers unrolled the last one leaves out what is not read. There is no
dropout. Our batches come from the input pipeline while steps run; PyTorch's lie
on the device before. Sides run one after the other, each in a process of its
own, from the same weights, and the first losses must agree. A side
`ours:FIELD=VALUE` has a field of the encoder's configuration or a flag of XLA
changed. MFU is the share of the device's dense bf16 peak, without
recomputation.

`parity`: losses of --steps steps of `ctd` with the encoder in bf16 and in fp32.

`attention`: how far the kernel for the device and plain attention in bf16 are
from plain attention in fp32, in the result and in its gradients, on packed
rows; and the time of each.

Weights are random. Needs the extras `cuda` (or `tpu`) and `parity`.
"""

import argparse
import ast
import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.evaluation import results
from ctd_jax.models import packing
from ctd_jax.models.encoders import attention
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.pretrained import weights
from ctd_jax.models.pretrained.folders import EncoderConfig
from ctd_jax.training import config as training_config
from ctd_jax.training import (
  devices,
  input_pipeline,
  optimizer,
  speed,
  train_step,
)
from ctd_jax.training import packing as packing_lib
from ctd_jax.training.input_pipeline import BatchIterator, Tokens
from ctd_jax.training.objective import Objective
from ctd_jax.training.train_step import TrainState, TrainStep
from ctd_jax_configs import bert, qwen
from ctd_jax_datasets import load
from tests.benchmarks import result_rows
from tests.training import synthetic_run

# PyTorch is imported by the process of its side alone: it would take memory of
# the device. JAX takes none before it computes.

GEOMETRIES = ("bert-base", "qwen3-0.6b")
POOLINGS = {"bert-base": "cls", "qwen3-0.6b": "last"}
WARM_UP = 3  # steps before the clock starts
NUM_BATCHES = 4  # that PyTorch takes in turns
LOSS_TOLERANCE = 0.02  # of the first losses, in bf16
LAST_STEPS = 20
DATASET = "chunqiutr/rebuilt:3.0.0"
BATCHES = "batches.npz"
_QUERY_LENGTH, _RECORD_LENGTH = 128, 256  # tokens, of the published recipe
_RATE = 1e-5


def make_encoder_config(geometry: str, **fields: Any):
  """Returns an encoder without dropout, in bf16 unless `fields` differ."""
  is_bert = geometry == "bert-base"
  # As their configs have it.
  fields = {"dtype": "bfloat16", "scan_layers": not is_bert} | fields
  if is_bert:
    # config.json of google-bert/bert-base-chinese.
    return BertConfig(21128, 768, 12, 12, 3072, 512, dropout=0.0, **fields)
  # config.json of Qwen/Qwen3-Embedding-0.6B.
  sizes = 151669, 1024, 28, 16, 8, 128, 3072, 32768
  return DecoderConfig(*sizes, rope_theta=1e6, **fields)


def configure(batch: int, pooling: str) -> ml_collections.ConfigDict:
  """Returns the config of fine-tuning with the released single negative."""
  c = training_config.base_config()
  training_config.apply_method(c, "ft")
  c.batch_size = batch
  c.model.pooling = pooling
  c.negatives.update(
    same_month_comment=0, near_placeholder=0, near_event=0, release_comment=1
  )
  c.optimizer.learning_rate = _RATE
  c.optimizer.warmup_fraction = 0.0
  return c


def draw_full_texts(
  benchmark: Benchmark, vocabulary: int, length: int
) -> tuple[Tokens, Tokens]:
  """Returns random texts, all of one length, in the place of those."""
  sizes = len(benchmark.queries["train"]), len(benchmark.records)
  return tuple(
    Tokens(
      np.random.default_rng(0)
      .integers(4, vocabulary, (count, length))
      .astype(np.int32),
      np.ones((count, length), np.int32),
      np.full(count, length, np.int32),
    )
    for count in sizes
  )


class Steps(NamedTuple):
  """Training on one device, not begun."""

  state: TrainState
  update: TrainStep  # jitted
  objective: Objective  # its loss, with model and device
  # Returns an iterator over the batches, in one pack each; takes options of
  # `input_pipeline.training_batches`.
  make_batches: Callable[..., BatchIterator]


def prepare_steps(
  flags: argparse.Namespace,
  config: ml_collections.ConfigDict,
  encoder: EncoderConfig,
  pretrained: Any = None,
) -> Steps:
  """Returns the steps of a config on the first device.

  Args:
    flags: of the command.
    config: of the run; its encoder is not read.
    encoder: configuration of the encoder.
    pretrained: parameters of the encoder; None = random ones.
  """
  benchmark = load.build_benchmark("chunqiutr/rebuilt", flags.data_dir)
  tokenizer, queries, records = synthetic_run.tokenize(
    benchmark, _QUERY_LENGTH, _RECORD_LENGTH
  )
  if flags.texts == "full":
    queries, records = draw_full_texts(
      benchmark, tokenizer.vocab_size, flags.tokens
    )
  mesh = devices.make_mesh(1)
  model = train_step.make_model(config.model, encoder, benchmark.timeline)
  adam = optimizer.make_optimizer(config.optimizer, 10**6)
  objective = Objective.from_config(config, model, mesh)
  width = packing.row_width(records.ids.shape[1], encoder.max_length)
  multiple = packing_lib.width_multiple(mesh.devices.flat[0].platform)
  return Steps(
    train_step.init_state(model, adam, config.seed, mesh, pretrained),
    train_step.make_train_step(objective, adam, config.seed),
    objective,
    functools.partial(
      input_pipeline.training_batches,
      benchmark,
      queries,
      records,
      input_pipeline.BatchSettings.from_config(
        config, 1, packing.row_widths(width, encoder.max_length, multiple)
      ),
    ),
  )


def unpack_texts(texts: packing.PackedTexts) -> list[np.ndarray]:
  """Returns the tokens of every text of a batch of one pack, in its order."""
  most = packing.slots_per_row(texts.ids.shape[2])
  return [
    texts.ids[0, row][texts.segments[0, row] == slot + 1]
    for row, slot in zip(*np.divmod(texts.slots[0], most), strict=True)
  ]


def measure_ours(
  flags: argparse.Namespace, folder: pathlib.Path, fields: dict[str, Any]
) -> dict[str, Any]:
  """Returns what our steps take; writes weights and batches for the others.

  Args:
    flags: of the command.
    folder: gets what the others read, unless it has it.
    fields: of the encoder's configuration.
  """
  config = configure(flags.batch, POOLINGS[flags.geometry])
  encoder = make_encoder_config(flags.geometry, **fields)
  is_first = not (folder / BATCHES).exists()
  pretrained = None if is_first else weights.load_params(folder, encoder)
  state, update, objective, make_batches = prepare_steps(
    flags, config, encoder, pretrained
  )
  if is_first:
    weights.save_encoder(folder, encoder, state.params["encoder"])
    save_batches(folder / BATCHES, make_batches())

  def place(batch):
    num_tokens = np.count_nonzero(batch["texts"].segments)
    return num_tokens, devices.make_global_batch(batch, objective.mesh)

  flops = speed.ModelFlops(objective)
  losses, counts = [], []
  with contextlib.closing(make_batches(place=place)) as batches:
    for step in range(WARM_UP + flags.steps):
      if step == WARM_UP:
        jax.block_until_ready(losses)
        start = time.perf_counter()
      num_tokens, batch = next(batches)
      state, metrics = update(state, batch)
      losses.append(metrics["loss"])
      counts.append((num_tokens, flops.count(batch)))
    jax.block_until_ready((losses, state))
    seconds = (time.perf_counter() - start) / flags.steps
  tokens, step_flops = np.mean(counts[WARM_UP:], axis=0)
  peak = speed.find_peak_flops(objective.mesh)
  return {
    "device": objective.mesh.devices.flat[0].device_kind,
    "seconds": seconds,
    "tokens": tokens,
    "mfu": peak and step_flops / seconds / peak,
    "memory": speed.read_peak_memory().get("speed/peak_device_bytes"),
    "first_loss": float(losses[0]),
  }


def save_batches(path: pathlib.Path, iterator) -> None:
  """Writes the texts of the first batches: tokens, and how many each has."""
  arrays = {}
  with contextlib.closing(iterator):
    for number in range(NUM_BATCHES):
      texts = unpack_texts(next(iterator)["texts"])
      arrays[f"tokens{number}"] = np.concatenate(texts)
      arrays[f"lengths{number}"] = np.array([len(text) for text in texts])
  np.savez(path, **arrays)


def measure_pytorch(
  flags: argparse.Namespace, folder: pathlib.Path
) -> dict[str, Any]:
  """Returns what PyTorch's steps take, with the weights and batches of ours."""
  import torch
  from torch.nn import attention as torch_attention

  from tests.benchmarks import torch_loop

  pooling = POOLINGS[flags.geometry]
  config = configure(flags.batch, pooling)
  is_cuda = torch.cuda.is_available()
  loop = torch_loop.PlainLoop(
    folder,
    pooling,
    _RATE,
    config.model.temperature,
    "cuda" if is_cuda else "cpu",
  )
  # Our products of fp32 are those of the loss alone, and are exact.
  torch.set_float32_matmul_precision("high")
  batches, tokens = [], []
  with np.load(folder / BATCHES) as arrays:
    for number in range(NUM_BATCHES):
      ends = np.cumsum(arrays[f"lengths{number}"])
      texts = np.split(arrays[f"tokens{number}"], ends[:-1])
      batches.append(loop.pad_texts(texts))
      tokens.append(int(ends[-1]))
  synchronize = torch.cuda.synchronize if is_cuda else lambda: None
  kernel = contextlib.nullcontext()
  if is_cuda and flags.texts == "full":
    kernel = torch_attention.sdpa_kernel(
      torch_attention.SDPBackend.FLASH_ATTENTION
    )
  losses = []
  with kernel:
    for step in range(WARM_UP + NUM_BATCHES + flags.steps):
      if step == WARM_UP + NUM_BATCHES:
        synchronize()
        start = time.perf_counter()
      losses.append(loop.step(batches[step % NUM_BATCHES]))
    synchronize()
    seconds = (time.perf_counter() - start) / flags.steps
  return {
    "seconds": seconds,
    "tokens": float(np.mean(tokens)),
    "memory": torch.cuda.max_memory_allocated() if is_cuda else None,
    "first_loss": float(losses[0]),
  }


def run_side(
  flags: argparse.Namespace, side: str, folder: pathlib.Path
) -> dict[str, Any]:
  """Returns the measurements of a side."""
  name, _, text = side.partition(":")
  if name != "ours":
    return measure_pytorch(flags, folder)
  fields = {}
  for key, value in (item.split("=", 1) for item in text.split(",") if item):
    if "xla" in key:
      before = os.environ.get("XLA_FLAGS", "")
      os.environ["XLA_FLAGS"] = f"{before} --{key}={value}"
    else:
      fields[key] = ast.literal_eval(value)
  return measure_ours(flags, folder, fields)


def compare_speed(flags: argparse.Namespace) -> None:
  """Measures every side, the first of which is ours."""
  context = multiprocessing.get_context("spawn")
  name = DATASET if flags.texts == "real" else f"texts-{flags.tokens}"
  first: dict[str, Any] = {}
  with tempfile.TemporaryDirectory() as folder:
    for side in flags.sides.split():
      start = time.monotonic()
      with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        row = pool.submit(run_side, flags, side, pathlib.Path(folder)).result()
      first = first or row
      if abs(row["first_loss"] / first["first_loss"] - 1) > LOSS_TOLERANCE:
        raise SystemExit(
          f"{side}: first loss {row['first_loss']:.4f}, not "
          f"{first['first_loss']:.4f}"
        )
      rows = result_rows.make_cost_rows(
        result_rows.describe_run("accelerator", time.monotonic() - start),
        name,
        side.replace(",", "+"),
        "accelerator",
        describe_speed(flags, row),
        flags.geometry,
        first["device"],
      )
      result_rows.print_rows(rows)
      add_rows(flags.rows, rows)


def describe_speed(
  flags: argparse.Namespace, row: dict[str, Any]
) -> dict[str, float]:
  """Returns the figures of a side, by their names in result files."""
  figures = {
    "step_ms": row["seconds"] * 1e3,
    "queries_a_second": flags.batch / row["seconds"],
    "tokens_a_second": row["tokens"] / row["seconds"],
    "mfu": row.get("mfu"),
    "gibibytes": row["memory"] and row["memory"] / 2**30,
  }
  return {name: value for name, value in figures.items() if value}


def add_rows(
  path: pathlib.Path | None, rows: Sequence[results.ResultRow]
) -> None:
  """Adds rows to a file, in the place of what was measured before."""
  if path is None:
    return

  def identify(row: results.ResultRow) -> tuple[str, ...]:
    return row.dataset, row.system, row.track, row.family, row.metric

  old_rows = results.read_result_rows(path) if path.exists() else []
  kept = {identify(row): row for row in (*old_rows, *rows)}
  results.write_result_rows(path, list(kept.values()))


def compare_types(flags: argparse.Namespace) -> None:
  """Trains in fp32 and in bf16, and prints how far the losses lie apart."""
  module = bert if flags.geometry == "bert-base" else qwen
  config = module.get_config("ctd")
  config.batch_size = flags.batch
  curves = []
  for dtype in ("float32", "bfloat16"):
    encoder = make_encoder_config(
      flags.geometry, dtype=dtype, remat=config.model.encoder.remat
    )
    state, update, objective, make_batches = prepare_steps(
      flags, config, encoder
    )
    place = functools.partial(devices.make_global_batch, mesh=objective.mesh)
    losses = []
    with contextlib.closing(make_batches(place=place)) as batches:
      for _ in range(flags.steps):
        state, metrics = update(state, next(batches))
        losses.append(metrics["loss"])
    curves.append(np.array(losses))
    print(
      f"{flags.geometry}, ctd, batch {flags.batch}, {flags.steps} steps, "
      f"{dtype}: {losses[0]:.4f} to {curves[-1][-LAST_STEPS:].mean():.4f} "
      f"(mean of the last {LAST_STEPS})"
    )
  apart = np.abs(curves[1] / curves[0] - 1)
  print(f"apart: {apart.mean():.2%} on average, {apart.max():.2%} at most")


def compare_attention(flags: argparse.Namespace) -> None:
  """Prints errors and times of attention on packed rows."""
  encoder = make_encoder_config(flags.geometry)
  heads = encoder.num_heads
  key_heads = getattr(encoder, "num_kv_heads", heads)
  is_causal = getattr(encoder, "causal", False)
  # Four texts a row, and padding behind them.
  rows, length = flags.batch, 256
  segments = np.zeros((rows, length), np.int32)
  ends = np.sort(
    np.random.default_rng(0).integers(1, length, (rows, 4)), axis=1
  )
  for number in (4, 3, 2, 1):
    segments[np.arange(length) < ends[:, number - 1, None]] = number
  is_token = jnp.asarray(segments > 0)[:, :, None, None]
  keys = jax.random.split(jax.random.key(0), 4)
  query, factors = (
    jax.random.normal(key, (rows, length, heads, encoder.head_dim))
    for key in keys[:2]
  )
  key, value = (
    jax.random.normal(key, (rows, length, key_heads, encoder.head_dim))
    for key in keys[2:]
  )
  # All compute with the same numbers, which bf16 has.
  query, key, value = (x.astype(jnp.bfloat16) for x in (query, key, value))

  def run(implementation: str, dtype: str) -> tuple[list[np.ndarray], float]:
    config = make_encoder_config(
      flags.geometry, attention=implementation, dtype=dtype
    )
    precision = jax.lax.Precision.HIGHEST if dtype == "float32" else None

    def total(query, key, value):
      scope = attention.make_scope(config, segments, is_causal, True)
      mixture = attention.attend(query, key, value, scope, precision)
      mixture = jnp.where(is_token, mixture, 0)
      return (mixture * factors.astype(mixture.dtype)).sum(), mixture

    step = jax.jit(jax.grad(total, (0, 1, 2), has_aux=True))
    inputs = [x.astype(dtype) for x in (query, key, value)]
    gradients, mixture = jax.block_until_ready(step(*inputs))
    start = time.perf_counter()
    for _ in range(flags.steps):
      out = step(*inputs)
    jax.block_until_ready(out)
    seconds = (time.perf_counter() - start) / flags.steps
    return [np.asarray(x, np.float32) for x in (mixture, *gradients)], seconds

  expected, _ = run(attention.PLAIN, "float32")
  print(f"{flags.geometry}, {rows} rows of {length}, {jax.devices()[0]}")
  print(f"{'':<8} {'result':>8} {'query':>8} {'key':>8} {'value':>8} {'ms':>8}")
  for implementation in (attention.AUTO, attention.PLAIN):
    arrays, seconds = run(implementation, "bfloat16")
    errors = [
      np.linalg.norm(ours - plain) / np.linalg.norm(plain)
      for ours, plain in zip(arrays, expected, strict=True)
    ]
    text = " ".join(f"{error:>8.5f}" for error in errors)
    print(f"{implementation:<8} {text} {seconds * 1e3:>8.2f}", flush=True)


COMMANDS = {
  "speed": compare_speed,
  "parity": compare_types,
  "attention": compare_attention,
}


def main() -> None:
  """Reads the flags and measures."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("what", choices=tuple(COMMANDS))
  parser.add_argument("--geometry", choices=GEOMETRIES, required=True)
  parser.add_argument("--data_dir", help="of the data set chunqiutr/rebuilt")
  parser.add_argument("--texts", choices=("real", "full"), default="real")
  parser.add_argument("--tokens", type=int, default=128, help="of a full text")
  parser.add_argument("--batch", type=int, default=256, help="queries a step")
  parser.add_argument("--steps", type=int, default=20, help="that are timed")
  parser.add_argument(
    "--sides", default="ours pytorch", help="with blanks between them"
  )
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  flags = parser.parse_args()
  # Nothing else is on the device.
  os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")
  COMMANDS[flags.what](flags)


if __name__ == "__main__":
  main()
