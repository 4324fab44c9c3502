"""Fixtures of the tests that rank with a model: one run for all of them."""

from __future__ import annotations

import pathlib

import pytest

from ctd_jax.experiments import training_run
from tests.training import synthetic_run
from tests.training.conftest import quick_compile  # noqa: F401


@pytest.fixture(scope="module")
def small_world():
  """One device and the synthetic benchmark instead of a built one."""
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    yield


@pytest.fixture(scope="session")
def trained_config():
  """Config of `trained_run`."""
  config = synthetic_run.config("ft")
  config.eval_every = config.keep_latest = 1
  config.num_epochs = 0.25
  return config


@pytest.fixture(scope="session")
def trained_run(trained_config, tmp_path_factory) -> pathlib.Path:
  """Workdir of an evaluated run of one step."""
  folder = tmp_path_factory.mktemp("trained") / "run"
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.install(patch.setattr)
    training_run.train_and_evaluate(trained_config, folder)
  return folder
