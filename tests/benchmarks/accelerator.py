"""Training on one accelerator: speed against PyTorch, and bf16 against fp32.

  python -m tests.benchmarks.accelerator speed --geometry=bert-base \\
    --data_dir=data --sides='ours pytorch pytorch:compiled'
  python -m tests.benchmarks.accelerator speed --geometry=qwen3-0.6b \\
    --data_dir=data --texts=full --tokens=64 --sides='ours ours:remat=True'
  python -m tests.benchmarks.accelerator parity --geometry=bert-base \\
    --data_dir=data
  python -m tests.benchmarks.accelerator attention --geometry=bert-base

`speed`: steps in bf16 with fp32 parameters, of one positive and one hard
negative a query. Texts are those of `chunqiutr/rebuilt`, which we pack and
PyTorch pads to the longest of each pass; with --texts=full random ones of one
length, so that both compute the same shapes and PyTorch's attention is the
flash kernel, which takes no padding; but with our layers unrolled the last one
leaves out what is not read. There is no dropout. Our batches come from the
input pipeline while steps run; PyTorch's lie on the device before. Sides run
one after the other, each in a process of its own, from the same weights, and
the first losses must agree. A side `ours:FIELD=VALUE` has a field of the
encoder's configuration or a flag of XLA changed; `pytorch:compiled` is by
torch.compile, `pytorch:checkpointed` keeps the states between layers alone. MFU
is the share of the device's dense bf16 peak, without recomputation.

`parity`: losses of --steps steps of `ctd` with the encoder in bf16 and in fp32.

`attention`: how far the kernel for the device and plain attention in bf16 are
from plain attention in fp32, in the result and in its gradients, on packed
rows; and the time of each.

Weights are random. Needs the extras `cuda` (or `tpu`) and `parity`.
"""

import argparse
import ast
import multiprocessing
import os
import pathlib
import pickle
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ctd_jax.evaluation import results
from tests.benchmarks import cost_rows

# JAX and PyTorch are imported by the process of a side alone: each would take
# memory of the device.

GEOMETRIES = ("bert-base", "qwen3-0.6b")
POOLINGS = {"bert-base": "cls", "qwen3-0.6b": "last"}
WARM_UP = 3  # steps before the clock starts
NUM_BATCHES = 4  # that PyTorch takes in turns
LOSS_TOLERANCE = 0.02  # of the first losses, in bf16
EARLY_STEPS, LAST_STEPS = 10, 20
MODULE = "tests.benchmarks.accelerator"
DATASET = "chunqiutr/rebuilt:3.0.0"
PROFILED = 3  # steps
BATCHES = "batches.npz"


def make_encoder_config(geometry: str, is_tiny: bool, **fields: Any):
  """Returns the configuration of an encoder without dropout, in bf16.

  Args:
    geometry: one of `GEOMETRIES`.
    is_tiny: whether it is a small one of that family, to try the script.
    **fields: that differ.
  """
  from ctd_jax.models.encoders.bert import BertConfig
  from ctd_jax.models.encoders.decoder import DecoderConfig

  is_bert = geometry == "bert-base"
  # As their configs have it.
  fields = {"dtype": "bfloat16", "scan_layers": not is_bert} | fields
  if is_bert:
    # config.json of google-bert/bert-base-chinese.
    sizes = (128, 2, 2, 512) if is_tiny else (768, 12, 12, 3072)
    return BertConfig(21128, *sizes, 512, dropout=0.0, **fields)
  # config.json of Qwen/Qwen3-Embedding-0.6B.
  sizes = (128, 2, 2, 1) if is_tiny else (1024, 28, 16, 8)
  vocabulary = 21128 if is_tiny else 151669
  return DecoderConfig(
    vocabulary, *sizes, 128, 3072, 32768, rope_theta=1e6, **fields
  )


def read_benchmark(flags: argparse.Namespace):
  """Returns the data set, and tokens of queries and records."""
  from ctd_jax.training import input_pipeline
  from ctd_jax_datasets import load
  from tests.benchmarks import contrastive_steps

  path = pathlib.Path(flags.tokens_file) if flags.tokens_file else None
  if path and path.exists():
    benchmark, real_texts, vocabulary = pickle.loads(path.read_bytes())
  else:
    benchmark = load.build_benchmark("chunqiutr/rebuilt", flags.data_dir)
    tokenizer = input_pipeline.build_tokenizer(benchmark)
    real_texts = contrastive_steps.read_texts(benchmark, tokenizer)
    vocabulary = tokenizer.vocab_size
    if path:
      path.write_bytes(pickle.dumps((benchmark, real_texts, vocabulary)))
  if flags.texts == "full":
    return benchmark, contrastive_steps.draw_full_texts(
      benchmark, vocabulary, flags.tokens
    )
  return benchmark, real_texts


def measure_ours(
  flags: argparse.Namespace, folder: pathlib.Path, fields: dict[str, Any]
) -> dict[str, Any]:
  """Returns what our steps take; writes weights and batches for the others.

  Args:
    flags: of the command.
    folder: gets what the others read, unless it has it.
    fields: of the encoder's configuration.
  """
  import jax

  from ctd_jax.models.pretrained import weights
  from ctd_jax.training import devices, speed
  from tests.benchmarks import contrastive_steps

  config = contrastive_steps.configure(flags.batch, POOLINGS[flags.geometry])
  encoder = make_encoder_config(flags.geometry, flags.tiny, **fields)
  benchmark, texts = read_benchmark(flags)
  meter = speed.SpeedMeter()
  # Of this side alone: the step is compiled once more for its plan.
  cache = tempfile.TemporaryDirectory()
  jax.config.update("jax_compilation_cache_dir", cache.name)
  is_first = not (folder / BATCHES).exists()
  pretrained = None if is_first else weights.load_params(folder, encoder)
  state, update, objective, make_batches = contrastive_steps.prepare_steps(
    config, encoder, benchmark, texts, pretrained=pretrained
  )
  device = objective.mesh.devices.flat[0]
  if is_first:
    weights.save_encoder(folder, encoder, state.params["encoder"])
    save_batches(folder / BATCHES, make_batches())

  def place(batch):
    num_tokens = np.count_nonzero(batch["texts"].segments)
    return num_tokens, devices.make_global_batch(batch, objective.mesh)

  batches = make_batches(place=place)
  flops = speed.ModelFlops(objective)
  losses, counts = [], []
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
  compile_seconds = meter.compile_seconds
  if flags.profile:
    path = pathlib.Path(flags.profile)
    with jax.profiler.trace(path):
      for _ in range(PROFILED):
        state, metrics = update(state, next(batches)[1])
      jax.block_until_ready(metrics)
  planned = None
  if flags.texts == "full":
    # What `ctd-jax plan` says; the cache has what was compiled.
    analysis = update.lower(state, batch).compile().memory_analysis()
    planned = (
      analysis.argument_size_in_bytes
      + analysis.temp_size_in_bytes
      + analysis.generated_code_size_in_bytes
    )
  batches.close()
  cache.cleanup()
  tokens, step_flops = np.mean(counts[WARM_UP:], axis=0)
  return {
    "device": device.device_kind,
    "seconds": seconds,
    "tokens": tokens,
    "flops": step_flops,
    "peak": speed.find_peak_flops(objective.mesh),
    "memory": speed.read_peak_memory().get("speed/peak_device_bytes"),
    "planned_memory": planned,
    "compile_seconds": compile_seconds,
    "losses": [float(loss) for loss in losses],
  }


def save_batches(path: pathlib.Path, iterator) -> None:
  """Writes the texts of the first batches: tokens, and how many each has."""
  from tests.benchmarks import contrastive_steps

  arrays = {}
  for number in range(NUM_BATCHES):
    texts = contrastive_steps.unpack_texts(next(iterator)["texts"])
    arrays[f"tokens{number}"] = np.concatenate(texts)
    arrays[f"lengths{number}"] = np.array([len(text) for text in texts])
  np.savez(path, **arrays)


def measure_pytorch(
  flags: argparse.Namespace, folder: pathlib.Path, options: list[str]
) -> dict[str, Any]:
  """Returns what PyTorch's steps take.

  Args:
    flags: of the command.
    folder: with weights and batches.
    options: "compiled", "checkpointed".
  """
  import contextlib

  import torch
  from torch.nn import attention

  from tests.benchmarks import contrastive_steps, torch_loop

  config = contrastive_steps.configure(flags.batch, POOLINGS[flags.geometry])
  is_cuda = torch.cuda.is_available()
  loop = torch_loop.PlainLoop(
    folder,
    POOLINGS[flags.geometry],
    config.optimizer.learning_rate,
    config.model.temperature,
    "cuda" if is_cuda else "cpu",
    "bfloat16",
    is_compiled="compiled" in options,
  )
  if "checkpointed" in options:
    loop.model.gradient_checkpointing_enable()
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
  # Compiled, it makes a mask before it drops it, which that kernel refuses.
  if is_cuda and flags.texts == "full" and "compiled" not in options:
    kernel = attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION)
  losses = []
  with kernel:
    begin = time.perf_counter()
    while len(losses) < WARM_UP + NUM_BATCHES:
      losses.append(loop.step(batches[len(losses) % NUM_BATCHES]))
    synchronize()
    compile_seconds = time.perf_counter() - begin
    start = time.perf_counter()
    for step in range(flags.steps):
      losses.append(loop.step(batches[step % NUM_BATCHES]))
    synchronize()
    seconds = (time.perf_counter() - start) / flags.steps
  return {
    "seconds": seconds,
    "tokens": float(np.mean(tokens)),
    "compile_seconds": compile_seconds,
    "memory": torch.cuda.max_memory_allocated() if is_cuda else None,
    "losses": [float(loss) for loss in losses],
  }


def run_side(
  flags: argparse.Namespace, side: str, folder: pathlib.Path, pipe: Connection
) -> None:
  """Sends the measurements of a side, or what went wrong."""
  name, _, text = side.partition(":")
  try:
    if name == "ours":
      fields = dict(item.split("=", 1) for item in text.split(",") if item)
      options = {key: fields.pop(key) for key in [*fields] if "xla" in key}
      os.environ["XLA_FLAGS"] = " ".join(
        [
          os.environ.get("XLA_FLAGS", ""),
          *(f"--{key}={value}" for key, value in options.items()),
        ]
      )
      values = {key: parse_value(value) for key, value in fields.items()}
      pipe.send(measure_ours(flags, folder, values))
    else:
      pipe.send(measure_pytorch(flags, folder, text.split(",")))
  except Exception as error:  # too little memory, say; others go on
    pipe.send({"error": f"{type(error).__name__}: {str(error)[:2000]}"})


def parse_value(text: str) -> Any:
  """Returns a Python literal, or the text itself."""
  try:
    return ast.literal_eval(text)
  except (ValueError, SyntaxError):
    return text


def compare_speed(flags: argparse.Namespace) -> None:
  """Measures every side and prints a table."""
  context = multiprocessing.get_context("spawn")
  rows: dict[str, dict[str, Any]] = {}
  with tempfile.TemporaryDirectory() as name:
    for side in flags.sides.split():
      start = time.perf_counter()
      pipe, end = context.Pipe()
      process = context.Process(
        target=run_side, args=(flags, side, pathlib.Path(name), end)
      )
      process.start()
      end.close()
      try:
        row = pipe.recv()
      except EOFError:
        row = {"error": "its process ended"}
      process.join()
      row["whole_seconds"] = time.perf_counter() - start
      rows[side] = row
      print(f"{side}: {row.get('error') or 'measured'}", flush=True)
  check_losses(rows)
  add_rows(flags, make_speed_rows(flags, rows))
  print_speed(flags, rows)


def find_first(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
  """Returns the first of our sides that was measured: it knows the device."""
  for side, row in rows.items():
    if side.startswith("ours") and "error" not in row:
      return row
  raise SystemExit("none of our sides was measured")


def check_losses(rows: dict[str, dict[str, Any]]) -> None:
  """Ends the program if the first losses of two sides are not the same."""
  expected = find_first(rows)["losses"][0]
  for side, row in rows.items():
    if "error" not in row:
      loss = row["losses"][0]
      if abs(loss / expected - 1) > LOSS_TOLERANCE:
        raise SystemExit(f"{side}: first loss {loss:.4f}, not {expected:.4f}")


def describe_speed(
  flags: argparse.Namespace, row: dict[str, Any], first: dict[str, Any]
) -> dict[str, float]:
  """Returns the figures of a side, by their names in result files.

  Args:
    flags: of the command.
    row: that `measure_ours` or `measure_pytorch` returned.
    first: see `find_first`.
  """
  seconds = row["seconds"]
  figures = {
    "step_ms": seconds * 1e3,
    "queries_a_second": flags.batch / seconds,
    "tokens_a_second": row["tokens"] / seconds,
    "compile_seconds": row["compile_seconds"],
  }
  if "flops" in row and first["peak"]:
    figures["mfu"] = row["flops"] / seconds / first["peak"]
  for name, key in (
    ("gibibytes", "memory"),
    ("planned_gibibytes", "planned_memory"),
  ):
    if row.get(key):
      figures[name] = row[key] / 2**30
  return figures


def make_speed_rows(
  flags: argparse.Namespace, rows: dict[str, dict[str, Any]]
) -> list[results.ResultRow]:
  """Returns the result rows of all sides that were measured."""
  measured = {side: row for side, row in rows.items() if "error" not in row}
  first = find_first(rows)
  name = DATASET if flags.texts == "real" else f"texts-{flags.tokens}"
  return [
    made
    for side, row in measured.items()
    for made in cost_rows.make_cost_rows(
      MODULE,
      name,
      side.replace(",", "+"),
      "accelerator",
      describe_speed(flags, row, first),
      family=flags.geometry,
      seconds=row["whole_seconds"],
      track=first["device"],
    )
  ]


def add_rows(
  flags: argparse.Namespace, rows: Sequence[results.ResultRow]
) -> None:
  """Adds rows to a file, in the place of what was measured before."""
  if not flags.rows:
    return
  path = pathlib.Path(flags.rows)

  def identify(row: results.ResultRow) -> tuple[str, ...]:
    return row.dataset, row.system, row.track, row.family, row.metric

  kept = {}
  if path.exists():
    kept = {identify(row): row for row in results.read_result_rows(path)}
  kept |= {identify(row): row for row in rows}
  results.write_result_rows(path, list(kept.values()))


def print_speed(
  flags: argparse.Namespace, rows: dict[str, dict[str, Any]]
) -> None:
  """Prints a line for every side."""
  first = find_first(rows)
  print(
    f"{flags.geometry}, {flags.texts} texts, batch {flags.batch}, "
    f"{first['tokens']:,.0f} tokens a step, {first['device']}"
  )
  print(
    f"{'':<40} {'ms a step':>9} {'queries/s':>9} {'tokens/s':>10} {'MFU':>6} "
    f"{'GiB':>6} {'compile':>8} {'ratio':>6}"
  )
  for side, row in rows.items():
    if "error" in row:
      print(f"{side:<40} {row['error'].splitlines()[0][:80]}")
      continue
    figures = describe_speed(flags, row, first)
    mfu = f"{figures['mfu']:.1%}" if "mfu" in figures else "-"
    gib = f"{figures['gibibytes']:.1f}" if "gibibytes" in figures else "-"
    ratio = figures["tokens_a_second"] / (first["tokens"] / first["seconds"])
    print(
      f"{side:<40} {figures['step_ms']:>9.1f} "
      f"{figures['queries_a_second']:>9,.0f} "
      f"{figures['tokens_a_second']:>10,.0f} {mfu:>6} {gib:>6} "
      f"{figures['compile_seconds']:>6.1f} s {ratio:>6.2f}",
      flush=True,
    )


def train(flags: argparse.Namespace, dtype: str, pipe: Connection) -> None:
  """Sends the losses of the steps of a run, and the kind of the device.

  Args:
    flags: of the command.
    dtype: that the encoder computes in.
    pipe: to the parent.
  """
  from ctd_jax.training import devices
  from ctd_jax_configs import bert, qwen
  from tests.benchmarks import contrastive_steps

  module = bert if flags.geometry == "bert-base" else qwen
  config = module.get_config("ctd")
  config.batch_size = flags.batch
  encoder = make_encoder_config(
    flags.geometry, flags.tiny, dtype=dtype, remat=config.model.encoder.remat
  )
  state, update, objective, make_batches = contrastive_steps.prepare_steps(
    config, encoder, *read_benchmark(flags), flags.steps
  )
  batches = make_batches(
    place=lambda batch: devices.make_global_batch(batch, objective.mesh)
  )
  losses = []
  for _ in range(flags.steps):
    state, metrics = update(state, next(batches))
    losses.append(metrics["loss"])
  device = objective.mesh.devices.flat[0].device_kind
  pipe.send(([float(loss) for loss in losses], device))
  batches.close()


def compare_types(flags: argparse.Namespace) -> None:
  """Trains in fp32 and in bf16, and prints how far the losses lie apart."""
  context = multiprocessing.get_context("spawn")
  # Both at once: nothing is timed.
  os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
  pipes, curves = {}, {}
  for dtype in ("float32", "bfloat16"):
    pipes[dtype], end = context.Pipe()
    context.Process(target=train, args=(flags, dtype, end)).start()
    end.close()
  for dtype, pipe in pipes.items():
    losses, device = pipe.recv()
    curves[dtype] = np.array(losses)
  add_rows(flags, make_parity_rows(flags, curves, device))
  expected, losses = curves["float32"], curves["bfloat16"]
  apart = np.abs(losses / expected - 1)
  ends = [
    f"{curve[0]:.4f} to {curve[-LAST_STEPS:].mean():.4f}"
    for curve in (expected, losses)
  ]
  print(
    f"{flags.geometry}, ctd, batch {flags.batch}, {flags.steps} steps: fp32 "
    f"{ends[0]}, bf16 {ends[1]} (mean of the last {LAST_STEPS}); a step apart "
    f"{apart.mean():.2%} in the mean, {apart[:EARLY_STEPS].max():.2%} at most "
    f"in {EARLY_STEPS} steps, {apart.max():.2%} (step {apart.argmax() + 1}) "
    "in all"
  )


def make_parity_rows(
  flags: argparse.Namespace, curves: dict[str, np.ndarray], device: str
) -> list[results.ResultRow]:
  """Returns the result rows of the losses of two types."""
  rows = []
  for dtype, losses in curves.items():
    apart = np.abs(losses / curves["float32"] - 1)
    rows += cost_rows.make_cost_rows(
      MODULE,
      DATASET,
      f"ctd-{dtype}-{flags.steps}",
      "accelerator",
      {
        "loss_first": losses[0],
        "loss_last": losses[-LAST_STEPS:].mean(),
        "apart_mean": apart.mean(),
        "apart_most": apart.max(),
      },
      family=flags.geometry,
      track=device,
    )
  return rows


def compare_attention(flags: argparse.Namespace) -> None:
  """Prints errors and times of attention on packed rows."""
  import jax
  import jax.numpy as jnp

  from ctd_jax.models.encoders import attention

  encoder = make_encoder_config(flags.geometry, flags.tiny)
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
  query, weights = (
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
      flags.geometry, flags.tiny, attention=implementation, dtype=dtype
    )
    precision = jax.lax.Precision.HIGHEST if dtype == "float32" else None

    def total(query, key, value):
      scope = attention.make_scope(config, segments, is_causal, True)
      mixture = attention.attend(query, key, value, scope, precision)
      mixture = jnp.where(is_token, mixture, 0)
      return (mixture * weights.astype(mixture.dtype)).sum(), mixture

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
  parser.add_argument(
    "--tokens_file", help="keeps the data set's tokens from command to command"
  )
  parser.add_argument("--rows", help="result file that gets the figures")
  parser.add_argument("--profile", help="folder for a trace of our steps")
  parser.add_argument(
    "--tiny", action="store_true", help="small encoders, to try the script"
  )
  flags = parser.parse_args()
  # Nothing else is on the device.
  os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")
  COMMANDS[flags.what](flags)


if __name__ == "__main__":
  main()
