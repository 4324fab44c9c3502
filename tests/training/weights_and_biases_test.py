"""Metrics of a run in Weights & Biases, by a module that stands in for it."""

import json
import sys
import types

import pytest

from ctd_jax.training import config as training_config
from ctd_jax.training import metrics


class FakeWandb(types.ModuleType):
  """Records what a run sends."""

  class Error(Exception):
    """As of the package."""

  def __init__(self):
    super().__init__("wandb")
    self.settings, self.calls = [], []
    self.error = None

  def init(self, **settings):
    if self.error:
      raise self.Error(self.error)
    self.settings.append(settings)
    return self

  def log(self, values, step):
    self.calls.append((step, values))

  def finish(self):
    self.calls.append("finish")


@pytest.fixture
def wandb(monkeypatch):
  module = FakeWandb()
  monkeypatch.setitem(sys.modules, "wandb", module)
  return module


@pytest.fixture
def config():
  config = training_config.base_config()
  config.name = "ctd-tiny"
  config.wandb_project = "annals"
  return config


def test_metrics_and_speed_go_to_the_project(tmp_path, wandb, config):
  run = metrics.start_run(config, tmp_path)
  writer = metrics.MetricWriter(tmp_path, 0, run)
  writer.write(1, {"loss": 2.0})
  writer.write(1, {"speed/tokens_per_second": 9}, is_speed=True)
  writer.close()
  (settings,) = wandb.settings
  assert settings["config"]["optimizer"] == config.optimizer.to_dict()
  about = [settings[name] for name in ("project", "name", "dir")]
  assert about == ["annals", "ctd-tiny", tmp_path]
  assert wandb.calls == [
    (1, {"loss": 2.0}),
    (1, {"speed/tokens_per_second": 9.0}),
    "finish",
  ]
  # The same as in the files of the run.
  assert (tmp_path / "metrics.jsonl").read_text() == (
    '{"loss": 2.0, "step": 1}\n'
  )
  assert json.loads((tmp_path / "speed.jsonl").read_text()) == {
    "speed/tokens_per_second": 9.0,
    "step": 1,
  }


def test_a_resumed_run_goes_on_and_another_is_another(tmp_path, wandb, config):
  for folder in ("a", "a", "b"):
    metrics.start_run(config, tmp_path / folder)
  first, second, other = (settings["id"] for settings in wandb.settings)
  assert first == second != other
  assert first.startswith("ctd-tiny-")
  assert {settings["resume"] for settings in wandb.settings} == {"allow"}


def test_no_project_or_not_the_first_process(
  tmp_path, wandb, config, monkeypatch
):
  monkeypatch.setattr(metrics.devices, "is_coordinator", lambda: False)
  assert metrics.start_run(config, tmp_path) is None
  monkeypatch.undo()
  config.wandb_project = None
  assert metrics.start_run(config, tmp_path) is None
  assert not list(tmp_path.iterdir())


def test_what_wandb_refuses_is_an_error_of_the_field(tmp_path, wandb, config):
  wandb.error = "No API key configured."
  with pytest.raises(
    ValueError, match=r"config.wandb_project='annals': No API"
  ):
    metrics.start_run(config, tmp_path)


def test_without_the_package_the_error_says_what_to_install(config):
  with pytest.raises(ValueError, match=r"pip install 'ctd_jax\[wandb\]'"):
    training_config.validate(config)
