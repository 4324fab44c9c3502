"""Folders of runs: names, buckets, the config that lies there."""

import json
import pathlib
import subprocess
import sys

import pytest
from etils import epath

from ctd_jax.training import config as training_config
from ctd_jax.training import metrics, run_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
  "config",
  [
    "configs/tiny.py",
    "configs/small.py:ft-release",
    "/elsewhere/my config.py:a,b/c",
    "configs/tiny.py:",
  ],
)
def test_the_folder_without_a_flag_is_that_of_the_launch_scripts(config):
  script = (
    f"root=.; source launch/arguments.sh; read_arguments --config={config!r}; "
    "name_workdir; echo $workdir"
  )
  done = subprocess.run(
    ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
  )
  assert f"./{run_folder.default_workdir(config)}" == done.stdout.strip()


def test_a_bucket_is_no_local_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  folder = run_folder.resolve_folder("gs://bucket/run")
  assert isinstance(folder, epath.Path)
  assert str(folder / "checkpoints") == "gs://bucket/run/checkpoints"
  assert run_folder.resolve_folder(folder) == folder
  assert run_folder.resolve_folder("runs/x") == tmp_path / "runs" / "x"
  home = run_folder.resolve_folder("~/runs")
  assert home == pathlib.Path.home() / "runs"


class FakeWandb:
  """Records what a run sends."""

  def __init__(self):
    self.calls = []

  def init(self, **settings):
    self.calls.append(settings)
    return self

  def log(self, values, step):
    self.calls.append((step, values))

  def finish(self):
    self.calls.append("finish")


def test_metrics_go_to_weights_and_biases_if_a_project_is_named(
  tmp_path, monkeypatch
):
  wandb = FakeWandb()
  monkeypatch.setitem(sys.modules, "wandb", wandb)
  writer = metrics.MetricWriter(tmp_path, 0, "annals", "ctd-tiny")
  writer.write(1, {"loss": 2.0})
  writer.close()
  settings, *calls = wandb.calls
  assert (settings["project"], settings["name"]) == ("annals", "ctd-tiny")
  assert calls == [(1, {"loss": 2.0}), "finish"]
  assert (
    tmp_path / "metrics.jsonl"
  ).read_text() == '{"loss": 2.0, "step": 1}\n'


def test_a_config_gets_fields_that_change_no_number(tmp_path):
  fields = training_config.base_config().to_dict()
  del fields["wandb_project"], fields["keep_latest"]
  (tmp_path / "config.json").write_text(json.dumps(fields))
  config = run_folder.read_config(tmp_path)
  assert config.wandb_project is None
  assert config.keep_latest == training_config.base_config().keep_latest


def test_sections_of_systems_are_free_to_change():
  fields = training_config.base_config().to_dict()
  fixed = run_folder.fixed_fields(fields)
  assert fixed == run_folder.fixed_fields({**fields, "maxsim": {"source": "x"}})
  assert fixed != run_folder.fixed_fields({**fields, "seed": 1})
  other_depth = {**fields, "eval": {**fields["eval"], "depth": 20}}
  assert fixed == run_folder.fixed_fields(other_depth)
