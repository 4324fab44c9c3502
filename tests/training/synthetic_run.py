"""Trains on the invented benchmark in a process of its own.

For tests that stop, kill or join whole processes:

  python -m tests.training.synthetic_run --workdir=DIR [--step_seconds=0.2]
"""

import functools
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
from absl import app, flags

from ctd_jax.experiments import training_run
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.training import devices, experiment, input_pipeline, train_step
from ctd_jax.utils import command_line
from tests import synthetic

METHOD = flags.DEFINE_string("method", "ft", "as in `config.METHODS`")
STEP_SECONDS = flags.DEFINE_float("step_seconds", 0.0, "wait before a step")
# As it was imported: a fixture may replace it while another one has.
_MAKE_MESH = devices.make_mesh


def config(method: str):
  """Returns the config of such a run: 13 steps, its own system, one split."""
  c = synthetic.config(method)
  # Every text is cut to this, so that all batches are packed in one shape, and
  # the step is compiled once. The date of a text stands within it.
  c.query_length = c.record_length = c.model.encoder.max_length = 10
  c.num_epochs = min(c.num_epochs, 3.0)  # "zs" has none
  c.eval.batch_size = 64
  c.eval.baselines = ()
  c.eval.splits = ("test",)
  return c


def make_model(config):
  """Returns a model of texts whose tokens are numbers below 50."""
  encoder = BertConfig(50, **config.model.encoder.to_dict())
  return train_step.make_model(config.model, encoder, synthetic.TIMELINE)


def tokenize(benchmark, query_length: int, record_length: int):
  """Returns tokenizer, train queries and records."""
  tokenizer = input_pipeline.build_tokenizer(benchmark)
  sides = (
    (benchmark.queries["train"], query_length),
    (benchmark.records, record_length),
  )
  return tokenizer, *(
    input_pipeline.tokenize_texts(tokenizer, [x.text for x in texts], length)
    for texts, length in sides
  )


def install(set_attribute: Callable[[Any, str, Any], None]) -> None:
  """Puts the invented benchmark in place, and one device for a process."""
  set_attribute(
    experiment.load, "build_benchmark", lambda *_: synthetic.benchmark()
  )
  use_one_device(set_attribute)


def use_one_device(set_attribute: Callable[[Any, str, Any], None]) -> None:
  """Has every process use one of its devices, which compiles faster."""
  set_attribute(
    devices,
    "make_mesh",
    lambda num_devices=None, **axes: _MAKE_MESH(
      num_devices or jax.process_count(), **axes
    ),
  )


def _slower(make):
  """Returns `make_train_step` whose steps take their time."""

  @functools.wraps(make)
  def slow_make(*args):
    update = make(*args)

    def step(state, batch):
      time.sleep(STEP_SECONDS.value)
      return update(state, batch)

    return step

  return slow_make


def main(argv) -> None:
  """Trains in --workdir."""
  del argv
  devices.initialize_processes()
  install(setattr)
  train_step.make_train_step = _slower(train_step.make_train_step)
  training_run.train_and_evaluate(
    config(METHOD.value), pathlib.Path(command_line.WORKDIR.value)
  )


if __name__ == "__main__":
  app.run(main)
