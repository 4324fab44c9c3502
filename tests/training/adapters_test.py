"""A run that trains adapters: what changes, what is saved, what is exported."""

import json
import shutil

import jax
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from ctd_jax import Retriever
from ctd_jax.experiments import training_run
from ctd_jax.models.encoders import layers
from ctd_jax.models.pretrained import weights
from ctd_jax.retrieval import run_export
from ctd_jax.training import experiment
from ctd_jax.training.checkpoints import CheckpointError
from ctd_jax_configs import bert as bert_config
from ctd_jax_configs import e5_small as e5_config
from ctd_jax_configs import qwen as qwen_config
from tests import synthetic
from tests.models import published_folder
from tests.training.backbone_test import config_of

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")

TEXTS = [record.text for record in synthetic.benchmark().records]
ASKED = [query.text for query in synthetic.benchmark().queries["test"]]


@pytest.fixture(scope="module")
def source(small_world, tmp_path_factory):
  return published_folder.write(tmp_path_factory.mktemp("base"), TEXTS, "qwen3")


def make_config(source):
  config = config_of(qwen_config, source, "ctd-lora")
  # fp32, where merging is exact but for rounding.
  config.model.lora.base_dtype = "float32"
  config.optimizer.learning_rate = 1e-2
  config.optimizer.warmup_fraction = 0.0
  return config


@pytest.fixture(scope="module")
def workdir(source, tmp_path_factory):
  """A run of two steps."""
  folder = tmp_path_factory.mktemp("adapters") / "run"
  training_run.train_and_evaluate(make_config(source), folder)
  return folder


def flatten(tree):
  return {
    jax.tree_util.keystr(path, simple=True, separator="/"): leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(jax.device_get(tree))
  }


@pytest.mark.slow
def test_only_adapters_and_temporal_modules_are_trained(source, workdir):
  run = experiment.assemble_experiment(make_config(source), workdir)
  start = run.init_state()
  is_adapter = {name: "_lora/" in name for name in flatten(start.params)}
  assert any(is_adapter.values())
  assert all(
    adapter or not name.startswith("encoder")
    for name, adapter in is_adapter.items()
  )
  # The encoder is in no moment and in no checkpoint, and as it was published.
  kernel = "query/kernel"
  for tree in (start.params, start.opt_state):
    assert not any(kernel in name for name in flatten(tree))
  state = run.checkpoints.restore(2, run.abstract_state())
  before, after = flatten(start.params), flatten(state.params)
  changed = [name for name in before if (before[name] != after[name]).any()]
  assert any(is_adapter[name] for name in changed)
  assert any(not is_adapter[name] for name in changed)
  _, published = published_folder.load_encoder(source, scan_layers=True)
  frozen = run.load_frozen()["encoder"]
  jax.tree.map(np.testing.assert_array_equal, frozen, published)
  params = run.restore_params(2)
  _, rest = layers.split_adapters(params["encoder"])
  jax.tree.map(np.testing.assert_array_equal, rest, published)
  run.checkpoints.close()


@pytest.mark.slow
def test_a_cut_run_goes_on_as_the_uninterrupted_one(source, workdir, tmp_path):
  config = make_config(source)
  training_run.train_and_evaluate(config, tmp_path / "run", stop_after=1)
  # The encoder may lie elsewhere.
  moved = shutil.copytree(source, tmp_path / "moved")
  config.model.encoder.source = str(moved)
  training_run.train_and_evaluate(config, tmp_path / "run")
  lines = [
    (folder / "metrics.jsonl").read_text()
    for folder in (workdir, tmp_path / "run")
  ]
  assert lines[0] == lines[1]
  # But it has to be the same, and to be there.
  params = jax.tree.map(
    lambda x: x + 1, published_folder.load_encoder(moved)[1]
  )
  geometry, _ = published_folder.load_encoder(source)
  weights.save_encoder(moved, geometry, params)
  with pytest.raises(
    CheckpointError, match=r"another architecture: model\.encoder\.source: run"
  ):
    training_run.train_and_evaluate(config, tmp_path / "run")
  shutil.rmtree(moved)
  with pytest.raises(
    FileNotFoundError, match=r"config\.model\.encoder\.source"
  ):
    training_run.train_and_evaluate(config, tmp_path / "run")


@pytest.mark.slow
def test_the_merged_export_scores_as_the_run(source, workdir, tmp_path):
  run = experiment.assemble_experiment(make_config(source), workdir)
  folder = tmp_path / "exported"
  run_export.export_run(run, folder)
  card = (folder / "README.md").read_text()
  assert "by adapters of rank 16, merged into it" in card
  assert not any(
    "lora" in name
    for name in safetensors_numpy.load_file(folder / "model.safetensors")
  )
  expected = Retriever.load(workdir)
  exported = Retriever.load(folder, texts=expected.texts)
  for ours, theirs in zip(
    expected.search(ASKED, k=len(TEXTS)),
    exported.search(ASKED, k=len(TEXTS)),
    strict=True,
  ):
    scores = {hit.record_id: hit.score for hit in theirs}
    np.testing.assert_allclose(
      [hit.score for hit in ours],
      [scores[hit.record_id] for hit in ours],
      atol=2e-4,
    )
  run.checkpoints.close()


@pytest.mark.slow
def test_adapters_alone_have_the_names_of_peft(source, workdir, tmp_path):
  run = experiment.assemble_experiment(make_config(source), workdir)
  folder = tmp_path / "alone"
  run_export.export_run(run, folder, adapters=True)
  assert {path.name for path in folder.iterdir()} == {
    weights.CONFIG_FILE,
    weights.WEIGHTS_FILE,
    run_export.CARD_FILE,
  }
  card = (folder / run_export.CARD_FILE).read_text()
  assert "library_name: peft" in card
  assert f"`{source.name}` (a folder whose config.json names no model" in card
  assert "Adapters that `ctd_jax` trained" in card
  assert "- the calendar context" in card
  content = json.loads((folder / weights.CONFIG_FILE).read_text())
  assert (content["peft_type"], content["r"]) == ("LORA", 16)
  assert content["lora_alpha"] == 32.0
  # No path of this machine.
  assert content["base_model_name_or_path"] == source.name
  tensors = safetensors_numpy.load_file(folder / weights.WEIGHTS_FILE)
  encoder = run.backbone.encoder
  assert len(tensors) == 2 * 7 * encoder.num_layers
  prefix = "base_model.model.layers.1.mlp.down_proj.lora"
  params = run.restore_params(run.checkpoints.best_step)["encoder"]
  for matrix in ("a", "b"):
    np.testing.assert_array_equal(
      tensors[f"{prefix}_{matrix.upper()}.weight"],
      np.asarray(params["layers"]["down_lora"][matrix][1]).T,
    )
  run.checkpoints.close()


@pytest.mark.slow
def test_a_run_without_adapters_has_none_to_export(source, tmp_path):
  config = config_of(qwen_config, source)
  config.num_epochs = 0.0
  training_run.train_and_evaluate(config, tmp_path / "run")
  run = experiment.assemble_experiment(config, tmp_path / "run")
  with pytest.raises(ValueError, match="--adapters: the run in .* has none"):
    run_export.export_run(run, tmp_path / "exported", adapters=True)
  with pytest.raises(ValueError, match="--vectors and --adapters cannot"):
    run_export.export_run(run, tmp_path / "exported", True, True)
  run.checkpoints.close()


@pytest.mark.parametrize("module", [bert_config, e5_config, qwen_config])
def test_a_config_has_adapters_by_its_argument(module):
  config = module.get_config("ctd-lora")
  assert config.model.lora.rank == 16
  assert config.name.startswith("ctd-lora-")
  plain = module.get_config("ctd")
  assert config.optimizer.learning_rate > plain.optimizer.learning_rate
  rates = [
    c.optimizer.learning_rate * c.optimizer.temporal_rate_factor
    for c in (config, plain)
  ]
  assert rates[0] == pytest.approx(rates[1])  # of the temporal modules


def test_adapters_of_a_frozen_encoder_are_refused(tmp_path):
  config = qwen_config.get_config("ctd-lora")
  config.optimizer.freeze_encoder = True
  with pytest.raises(
    ValueError,
    match="config.optimizer.freeze_encoder=True with config.model.lora.rank=16",
  ):
    training_run.train_and_evaluate(config, tmp_path)
