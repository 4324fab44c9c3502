"""Folders of runs: names, buckets, the config that lies there."""

import json
import pathlib
import subprocess

import pytest
from etils import epath

from ctd_jax.training import config as training_config
from ctd_jax.training import run_folder

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


def test_a_config_gets_fields_that_change_no_number(tmp_path):
  fields = run_folder.to_json_types(training_config.base_config().to_dict())
  fixed = run_folder.fixed_fields(fields)
  del fields["wandb_project"], fields["keep_latest"], fields["input"]
  del fields["accumulate_steps"], fields["optimizer"]["moment_dtype"]
  del fields["model"]["lora"]
  assert run_folder.fixed_fields(fields) == fixed
  (tmp_path / "config.json").write_text(json.dumps(fields))
  config = run_folder.read_config(tmp_path)
  assert config.wandb_project is None
  assert (config.input.workers, config.accumulate_steps) == (0, 1)
  assert config.keep_latest == training_config.base_config().keep_latest


def test_a_new_field_has_a_value_for_older_runs():
  # As many as configs had first: a later field belongs to _LATER_FIELDS, or to
  # those that are free.
  config = training_config.base_config()
  names = training_config.field_names(config) - set(run_folder._LATER_FIELDS)
  free = run_folder._FREE_FIELDS
  required = {name for name in names if name.partition(".")[0] not in free}
  assert len(required) == 64


def test_sections_of_systems_are_free_to_change():
  fields = training_config.base_config().to_dict()
  fixed = run_folder.fixed_fields(fields)
  assert fixed == run_folder.fixed_fields(
    {**fields, "published": {"source": "x"}}
  )
  assert fixed != run_folder.fixed_fields({**fields, "seed": 1})
  other_depth = {**fields, "eval": {**fields["eval"], "depth": 20}}
  assert fixed == run_folder.fixed_fields(other_depth)


def test_how_attention_is_computed_is_free_to_change(tmp_path):
  fields = training_config.base_config().to_dict()
  encoder = fields["model"]["encoder"]
  fixed = run_folder.fixed_fields(fields)
  encoder["attention"] = "splash"
  assert fixed == run_folder.fixed_fields(fields)
  (tmp_path / "config.json").write_text(json.dumps(fields))
  # Who reads the run may have no TPU.
  assert run_folder.read_config(tmp_path).model.encoder.attention == "auto"
  # Runs that were begun before there was a choice.
  del encoder["attention"]
  assert fixed == run_folder.fixed_fields(fields)
  (tmp_path / "config.json").write_text(json.dumps(fields))
  assert "attention" not in run_folder.read_config(tmp_path).model.encoder
  encoder["num_layers"] += 1
  assert fixed != run_folder.fixed_fields(fields)
