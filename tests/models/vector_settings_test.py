"""What a folder says of its vectors: written, read, and read of others."""

import json

import numpy as np
import pytest

from ctd_jax.models.pretrained import vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from ctd_jax.models.text_encoder import TextEncoder
from tests.models import published_folder

TEXTS = ["元年春王正月", "夏五月", "秋七月天王使宰咺來"]
# As sentence-transformers wrote them up to version 5, and since.
OLD_MODULES = "sentence_transformers.models"
NEW_MODULES = "sentence_transformers.sentence_transformer.modules.x"


def write_json(folder, **contents):
  """Writes NAME__FOLDER="..." as FOLDER/NAME.json."""
  for key, content in contents.items():
    name, _, subfolder = key.partition("__")
    path = folder / subfolder.replace("pooling", "1_Pooling") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def modules(*kinds, package=OLD_MODULES):
  paths = {"Transformer": "", "Pooling": "1_Pooling"}
  return [
    {
      "idx": i,
      "path": paths.get(kind, f"{i}_{kind}"),
      "type": f"{package}.{kind}",
    }
    for i, kind in enumerate(kinds)
  ]


@pytest.fixture
def folder(tmp_path):
  return published_folder.write(tmp_path / "published", TEXTS)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_what_is_written_is_read(pooling, normalize, tmp_path):
  settings = VectorSettings(
    pooling, normalize, SideSettings("問：", 9), SideSettings("經", 20)
  )
  vector_settings.write_vector_settings(tmp_path, settings, 16)
  assert vector_settings.read_vector_settings(tmp_path) == settings


def test_a_folder_that_says_nothing(tmp_path):
  assert vector_settings.read_vector_settings(tmp_path) == VectorSettings()


@pytest.mark.parametrize(
  ("package", "pooling", "expected"),
  [
    (OLD_MODULES, {"pooling_mode_cls_token": True}, "cls"),
    (
      OLD_MODULES,
      {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
      "mean",
    ),
    (
      NEW_MODULES,
      {"pooling_mode": "lasttoken", "include_prompt": True},
      "last",
    ),
    (NEW_MODULES, {"pooling_mode": "mean"}, "mean"),
  ],
)
def test_folders_of_every_age_are_read(package, pooling, expected, tmp_path):
  steps = modules("Transformer", "Pooling", "Normalize", package=package)
  write_json(tmp_path, modules=steps, config__pooling=pooling)
  settings = vector_settings.read_vector_settings(tmp_path)
  assert (settings.pooling, settings.normalize) == (expected, True)
  write_json(tmp_path, modules=steps[:2])
  assert vector_settings.read_vector_settings(tmp_path).normalize is False


def test_prompts_and_lengths_of_the_sides(tmp_path):
  def sides(**contents):
    write_json(tmp_path, **contents)
    settings = vector_settings.read_vector_settings(tmp_path)
    return settings.query, settings.record

  assert sides(tokenizer_config={"model_max_length": 1e30}) == (
    SideSettings(),
    SideSettings(),
  )
  assert sides(tokenizer_config={"model_max_length": 512})[0].max_length == 512
  assert sides(sentence_bert_config={"max_seq_length": 80}) == (
    SideSettings("", 80),
    SideSettings("", 80),
  )
  prompts = {"passage": "p: ", "corpus": "c: ", "sts": "s: "}
  name = "config_sentence_transformers"
  assert sides(
    **{name: {"prompts": prompts, "default_prompt_name": "sts"}}
  ) == (
    SideSettings("s: ", 80),
    SideSettings("p: ", 80),
  )
  prompts["query"] = "q: "
  content = {"prompts": prompts, "query_length": 20, "document_length": None}
  assert sides(**{name: content}) == (
    SideSettings("q: ", 20),
    SideSettings("p: ", 80),
  )


@pytest.mark.parametrize(
  ("pooling", "message"),
  [
    ({"pooling_mode_max_tokens": True}, "got pooling_mode_max_tokens"),
    ({"pooling_mode": ["cls", "mean"]}, "got .'cls', 'mean'."),
    (
      {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
      "got cls, mean",
    ),
    ({}, "got none"),
    ({"pooling_mode": "mean", "include_prompt": False}, "include_prompt"),
  ],
)
def test_a_pooling_that_is_not_computed_here_is_refused(
  pooling, message, tmp_path
):
  write_json(
    tmp_path, modules=modules("Transformer", "Pooling"), config__pooling=pooling
  )
  with pytest.raises(ValueError, match=rf"1_Pooling/config\.json: .*{message}"):
    vector_settings.read_vector_settings(tmp_path)


def test_a_folder_that_says_nothing_is_refused_unless_told(folder):
  with pytest.raises(
    ValueError,
    match=rf"^{folder} does not say how its vectors are made "
    r"\(no modules\.json with a pooling\); give pooling= and normalize=$",
  ):
    TextEncoder.load(folder)
  with pytest.raises(ValueError, match="give normalize=$"):
    TextEncoder.load(folder, pooling="cls")
  encoder = TextEncoder.load(folder, pooling="mean", normalize=False)
  assert (encoder.prefix, encoder.max_length) == ("", 64)
  with pytest.raises(ValueError, match="side must be one of"):
    TextEncoder.load(folder, side="document")


def test_a_step_that_is_not_computed_here_is_refused_unless_told(folder):
  write_json(
    folder,
    modules=modules("Transformer", "Pooling", "Dense"),
    config__pooling={"pooling_mode": "mean"},
  )
  with pytest.raises(ValueError, match=r"modules\.json: a step 'Dense'"):
    TextEncoder.load(folder)
  TextEncoder.load(folder, pooling="mean", normalize=True)


@pytest.mark.slow
def test_the_caller_wins_over_the_folder(folder):
  settings = VectorSettings(
    "mean", True, SideSettings("夏", 6), SideSettings("秋", 7)
  )
  vector_settings.write_vector_settings(folder, settings, 16)

  def encode(**arguments):
    return TextEncoder.load(folder, **arguments).encode(TEXTS)

  told = {"pooling": "mean", "normalize": True}
  np.testing.assert_array_equal(
    encode(side="query"), encode(**told, prefix="夏", max_length=6)
  )
  np.testing.assert_array_equal(
    encode(side="record"), encode(**told, prefix="秋", max_length=7)
  )
  np.testing.assert_array_equal(
    encode(side="query", pooling="cls", prefix="", max_length=30),
    encode(pooling="cls", normalize=True, prefix="", max_length=30),
  )
  lengths = np.linalg.norm(encode(side="query", normalize=False), axis=1)
  assert np.abs(lengths - 1).min() > 1e-3
  with pytest.raises(
    ValueError, match="declares prefix '夏' of a query and '秋'"
  ):
    encode()
