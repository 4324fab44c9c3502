"""Published weights: parity with golden states, round trip, bad folders.

The golden files come from `tests.parity.make_golden`.
"""

import functools
import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from safetensors import numpy as safetensors_numpy

from ctd_jax.models.pretrained import folders, weights
from ctd_jax.training import devices
from tests.models import published_folder

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "encoders"
FAMILIES = sorted(path.name for path in GOLDEN.iterdir())
SIDES = ("right", "left")


@functools.cache
def golden(family):
  with np.load(GOLDEN / family / "states.npz") as arrays:
    return dict(arrays)


@functools.cache
def loaded(family, **overrides):
  return published_folder.load_encoder(GOLDEN / family, **overrides)


def computed(family, side, **overrides):
  """Returns all states as the golden file has them, [S, B, L, D]."""
  arrays = golden(family)
  return published_folder.list_states(
    *loaded(family, **overrides), arrays[f"{side}_ids"], arrays[f"{side}_mask"]
  )


def tensors(folder):
  return safetensors_numpy.load_file(folder / folders.WEIGHTS_FILE)


def rewritten(tmp_path, family, change, **fields):
  """Returns a copy of a golden folder with other tensors or config fields."""
  folder = tmp_path / family
  shutil.copytree(GOLDEN / family, folder)
  content = change(tensors(folder))
  safetensors_numpy.save_file(content, folder / folders.WEIGHTS_FILE)
  config = json.loads((folder / "config.json").read_text())
  (folder / "config.json").write_text(json.dumps(config | fields))
  return folder


def same(left, right):
  jax.tree.map(np.testing.assert_array_equal, left, right)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", SIDES)
def test_every_state_is_the_published_one(family, side):
  expected = golden(family)
  real = expected[f"{side}_mask"].astype(bool)
  got = computed(family, side)
  assert got.shape == expected[f"{side}_states"].shape
  difference = got[:, real] - expected[f"{side}_states"][:, real]
  assert np.abs(difference).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("family", ["xlm-roberta", "qwen3"])
def test_scanned_layers_compute_the_same(family):
  real = golden(family)["left_mask"].astype(bool)
  got = computed(family, "left", scan_layers=True, remat=True)
  expected = golden(family)["left_states"]
  assert np.abs(got[:, real] - expected[:, real]).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scan_layers", [False, True])
def test_weights_come_back_to_the_bit(family, scan_layers, tmp_path):
  config, params = published_folder.load_encoder(
    GOLDEN / family, scan_layers=scan_layers
  )
  weights.save_encoder(tmp_path, config, params)
  before, after = tensors(GOLDEN / family), tensors(tmp_path)
  assert {n for n in before if not n.startswith("pooler.")} == set(after)
  for name, tensor in after.items():
    assert tensor.tobytes() == before[name].tobytes(), name
  again, _ = published_folder.load_encoder(tmp_path, scan_layers=scan_layers)
  assert again == config


def test_shards_and_their_index(tmp_path):
  config, params = published_folder.load_encoder(GOLDEN / "qwen3")
  weights.save_encoder(tmp_path, config, params, max_shard_bytes=4096)
  files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
  assert len(files) > 2
  assert files[0] == f"model-00001-of-{len(files):05d}.safetensors"
  assert {p.name for p in tmp_path.iterdir()} == {
    *files,
    "config.json",
    folders.INDEX_FILE,
  }
  same(published_folder.load_encoder(tmp_path)[1], params)
  (tmp_path / files[1]).unlink()
  with pytest.raises(FileNotFoundError, match=f"not there: {files[1]}"):
    published_folder.load_encoder(tmp_path)


def add_prefix(prefix):
  """Returns a change of names, which adds an output layer too."""

  def change(content):
    head = {"lm_head.weight": np.ones((40, 16), np.float32)}
    return head | {prefix + name: tensor for name, tensor in content.items()}

  return change


def name_as_formerly(content):
  for new, old in (("weight", "gamma"), ("bias", "beta")):
    content = {
      name.replace(f"LayerNorm.{new}", f"LayerNorm.{old}"): tensor
      for name, tensor in content.items()
    }
  assert "embeddings.LayerNorm.gamma" in content
  return content


def tie_output_layer(content):
  table = content.pop("embed_tokens.weight")
  return add_prefix("model.")(content) | {"lm_head.weight": table}


@pytest.mark.parametrize(
  ("family", "change"),
  [
    ("bert", add_prefix("bert.")),
    ("xlm-roberta", add_prefix("roberta.")),
    ("qwen2", add_prefix("model.")),
    ("bert", add_prefix("0.auto_model.")),
    ("bert", name_as_formerly),
    ("qwen3", tie_output_layer),
  ],
)
def test_prefixes_older_names_and_output_layers(family, change, tmp_path):
  folder = rewritten(tmp_path, family, change)
  same(published_folder.load_encoder(folder)[1], loaded(family)[1])


@pytest.mark.slow
def test_half_precision_files_become_fp32(tmp_path):
  for number, kind in enumerate((np.float16, jnp.bfloat16)):
    folder = rewritten(
      tmp_path / str(number),
      "qwen2",
      lambda c, kind=kind: {n: t.astype(kind) for n, t in c.items()},
    )
    _, params = published_folder.load_encoder(folder)
    expected = jax.tree.map(
      lambda x, kind=kind: np.asarray(x).astype(kind).astype(np.float32),
      loaded("qwen2")[1],
    )
    same(params, expected)


@pytest.mark.slow
@pytest.mark.parametrize("scan_layers", [False, True])
def test_each_device_reads_its_own_slice(scan_layers, monkeypatch):
  mesh = devices.make_mesh(8)
  config = folders.read_encoder_config(
    GOLDEN / "qwen3", scan_layers=scan_layers
  )
  shapes = weights.abstract_params(config)

  def shard_last_axis(leaf):
    axes = [None] * leaf.ndim
    if leaf.shape[-1] % 8 == 0:
      axes[-1] = devices.DATA
    return NamedSharding(mesh, PartitionSpec(*axes))

  largest = []
  read = folders.TensorFiles.read_tensor

  def watched(self, name, index):
    part = read(self, name, index)
    largest.append(part.nbytes)
    return part

  monkeypatch.setattr(folders.TensorFiles, "read_tensor", watched)
  _, params = published_folder.load_encoder(
    GOLDEN / "qwen3",
    jax.tree.map(shard_last_axis, shapes),
    scan_layers=scan_layers,
  )
  table = params["embed_tokens"]["embedding"]
  assert table.addressable_shards[0].data.shape == (40, 2)
  assert max(largest) == 40 * 2 * 4
  expected = loaded("qwen3", scan_layers=scan_layers)[1]
  same(jax.device_get(params), jax.device_get(expected))


def test_every_mismatch_is_reported_at_once(tmp_path):
  def change(content):
    for i in range(3):
      del content[f"layers.{i}.mlp.up_proj.weight"]
      content[f"layers.{i}.mlp.experts"] = np.ones(2, np.float32)
    content["norm.weight"] = np.ones(7, np.float32)
    return content

  folder = rewritten(tmp_path, "qwen3", change)
  with pytest.raises(ValueError, match="not those of a DecoderConfig") as error:
    published_folder.load_encoder(folder)
  message = str(error.value)
  assert "\n" not in message
  assert str(folder) in message
  assert "missing: layers.N.mlp.up_proj.weight (3 times)" in message
  assert "unexpected: layers.N.mlp.experts (3 times)" in message
  assert "norm.weight (7,) instead of (16,)" in message


@pytest.mark.parametrize(
  ("family", "fields", "message"),
  [
    ("bert", {"model_type": "t5"}, "model_type 't5' has another architect"),
    ("bert", {"hidden_act": "gelu_new"}, "hidden_act='gelu_new'"),
    ("distilbert", {"activation": "relu"}, "activation='relu'"),
    (
      "qwen3",
      {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
      "rope_type='linear'",
    ),
    ("qwen2", {"use_sliding_window": True}, "use_sliding_window=True"),
    ("bert", {"hidden_size": "16"}, r"config\.json: .*field 'hidden_size'"),
    ("qwen3", {"layer_types": [1]}, r"config\.json: .*field 'layer_types'"),
    (
      "qwen2",
      {"layer_types": ["sliding_attention"] * 3},
      "layer_types=.'sliding_attention'",
    ),
    # What is absent has the published default.
    ("qwen3", {"vocab_size": None}, r"config\.json: .*field 'vocab_size'"),
    ("qwen3", {"num_key_value_heads": 3}, r"num_kv_heads \(3\) must divide"),
    ("qwen3", {"model_type": "qwen2"}, "missing: .*bias.*unexpected: .*norm"),
  ],
)
def test_a_config_that_does_not_fit_is_named(family, fields, message, tmp_path):
  folder = rewritten(tmp_path, family, lambda c: c, **fields)
  with pytest.raises(ValueError, match=message):
    published_folder.load_encoder(folder)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_no_number_is_named(tmp_path, value):
  def change(content):
    content["norm.weight"][0] = value
    return content

  folder = rewritten(tmp_path, "qwen3", change)
  with pytest.raises(ValueError, match=r"norm\.weight holds NaN or infinity"):
    published_folder.load_encoder(folder)


def test_a_config_that_is_no_object_is_named(tmp_path):
  folder = rewritten(tmp_path, "qwen3", lambda c: c)
  path = folder / "config.json"
  path.write_text("[]")
  with pytest.raises(ValueError, match=r"config\.json: Expected `object`"):
    published_folder.load_encoder(folder)
  path.write_text("{")
  with pytest.raises(ValueError, match=r"config\.json is not JSON"):
    published_folder.load_encoder(folder)


def test_an_index_without_files_is_named(tmp_path):
  folder = rewritten(tmp_path, "bert", lambda c: c)
  (folder / folders.WEIGHTS_FILE).unlink()
  path = folder / folders.INDEX_FILE
  for text, message in (
    ("{}", "field `weight_map`"),
    ('{"weight_map": {}}', "weight_map names no tensor"),
    ('{"weight_map": {"a": 1}}', "Expected `str`"),
  ):
    path.write_text(text)
    with pytest.raises(ValueError, match=f"{path.name}: .*{message}"):
      published_folder.load_encoder(folder)


def test_bad_folders_are_named(tmp_path):
  with pytest.raises(FileNotFoundError, match="no such folder"):
    published_folder.load_encoder(tmp_path / "absent")
  with pytest.raises(FileNotFoundError, match=r"no config\.json in"):
    published_folder.load_encoder(tmp_path)
  shutil.copy(GOLDEN / "bert" / "config.json", tmp_path)
  (tmp_path / "pytorch_model.bin").touch()
  with pytest.raises(FileNotFoundError, match=r"model\.bin has a format"):
    published_folder.load_encoder(tmp_path)
  with pytest.raises(ValueError, match="a bert has no rope_theta"):
    published_folder.load_encoder(GOLDEN / "bert", rope_theta=1.0)
  # Offline, as every test is.
  with pytest.raises(FileNotFoundError, match="nobody/nothing: neither"):
    published_folder.load_encoder("nobody/nothing")


@pytest.mark.slow
def test_bad_weight_files_are_named(tmp_path):
  folder = rewritten(tmp_path, "bert", lambda c: c)
  path = folder / folders.WEIGHTS_FILE
  whole = path.read_bytes()
  for content in (whole[:-1], whole[:100], b"", b"not a tensor in sight"):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="truncated or not a safetensors file"):
      published_folder.load_encoder(folder)
  name = "encoder.layer.0.output.dense.weight"
  quantised = tensors(GOLDEN / "bert")
  quantised[name] = quantised[name].astype(np.int8)
  safetensors_numpy.save_file(quantised, path)
  with pytest.raises(ValueError, match=f"{name} holds I8"):
    published_folder.load_encoder(folder)
  two = {
    f"{side}.{n}": t
    for side in ("query", "record")
    for n, t in tensors(GOLDEN / "bert").items()
  }
  safetensors_numpy.save_file(two, path)
  with pytest.raises(ValueError, match=r"query\., record\."):
    published_folder.load_encoder(folder)
