"""Masked pre-training: what is read, masks, resumption, the result."""

import itertools
import json
import pathlib
import random
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.chronology import reigns
from ctd_jax.models import text_encoder
from ctd_jax.models.pretrained import vector_settings, weights
from ctd_jax.training import (
  backbone,
  devices,
  pretraining,
  pretraining_texts,
  run_folder,
)
from ctd_jax.training import experiment as experiments
from ctd_jax.training.checkpoints import CheckpointError
from ctd_jax.utils import files
from ctd_jax_configs import bert
from ctd_jax_configs import pretrain as pretrain_config
from ctd_jax_datasets import load

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")

WORDS = ["天地玄黃", "宇宙洪荒", "日月盈昃", "辰宿列張", "寒來暑往", "秋收冬藏"]
REAL_BUILD = load.build_benchmark
RECORD = "會于北杏以平宋亂齊人宋人陳人蔡人邾人"


def write_texts(folder: pathlib.Path, passages: list[str]) -> pathlib.Path:
  (folder / "book").mkdir(parents=True)
  (folder / "book" / "one.txt").write_text("\n\n".join(passages), "utf-8")
  return folder


def config(folder: pathlib.Path):
  """Returns the config of a tiny run on a folder."""
  c = pretrain_config.get_config("small")
  c.pretraining.texts = (str(folder),)
  c.pretraining.exclude = ()
  c.pretraining.validation_share = 0.2
  c.model.encoder.update(
    {"hidden_size": 16, "num_layers": 1, "mlp_size": 16, "max_length": 16}
  )
  c.update({"batch_size": 8, "num_epochs": 5.0, "eval_every": 40})
  c.log_every = 1
  c.optimizer.learning_rate = 5e-3
  return c


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Invented passages; few share a string of twelve."""
  rng = random.Random(0)
  passages = ["".join(rng.sample(WORDS, 4)) for _ in range(300)]
  return write_texts(tmp_path_factory.mktemp("texts"), passages)


@pytest.fixture(scope="module")
def whole(small_world, quick_compile, folder, tmp_path_factory):
  """A run that nothing cut off."""
  workdir = tmp_path_factory.mktemp("whole")
  pretraining.pretrain(config(folder), workdir)
  return workdir


def metric_lines(workdir: pathlib.Path) -> list[str]:
  return (workdir / "metrics.jsonl").read_text().splitlines()


def test_the_loss_falls_and_the_result_is_a_published_encoder(whole, folder):
  rows = [json.loads(line) for line in metric_lines(whole)]
  losses = [row["validation/loss"] for row in rows if "validation/loss" in row]
  assert losses[-1] < losses[0] < np.log(44)
  c = bert.get_config("ft")
  c.model.encoder.source = str(whole / "encoder")
  loaded = backbone.read_published_backbone(c.model, None)
  assert loaded.encoder.hidden_size == 16
  assert loaded.tokenizer.unk_id == 1
  params = loaded.load_params(None)
  setup = pretraining.assemble_setup(config(folder), whole)
  best = setup.restore_params(setup.checkpoints.best_step)["encoder"]
  jax.tree.map(
    lambda stored, trained: np.testing.assert_array_equal(
      stored, trained.astype(jnp.bfloat16).astype(jnp.float32)
    ),
    params,
    best,
  )
  vectors = text_encoder.TextEncoder.load(whole / "encoder").encode("天地玄黃")
  assert vectors.shape == (1, 16)
  settings = vector_settings.read_vector_settings(whole / "encoder")
  assert (settings.pooling, settings.normalize) == ("mean", True)
  card = (whole / "encoder" / "README.md").read_text("utf-8")
  assert files.hash_file(whole / "encoder" / "model.safetensors") in card
  assert "/book | book |" in card
  assert "Licence: not stated" in card
  with pytest.raises(ValueError, match="a run of pre-training, which ranks"):
    run_folder.read_config(whole)


def test_a_run_cut_and_resumed_is_the_uninterrupted_one(
  tmp_path, whole, folder
):
  pretraining.pretrain(config(folder), tmp_path, stop_after=40)
  assert not (tmp_path / "encoder").exists()
  pretraining.pretrain(config(folder), tmp_path)
  assert metric_lines(tmp_path) == metric_lines(whole)
  other = config(folder)
  other.pretraining.mask_share = 0.3
  with pytest.raises(CheckpointError, match="mask_share: run 0.15, config 0.3"):
    pretraining.pretrain(other, tmp_path)


def test_masks_depend_on_seed_and_step_and_spare_special_tokens():
  rows = np.random.default_rng(0).integers(4, 50, (40, 100)).astype(np.uint16)
  rows[:, ::20] = 2  # [CLS]
  rows[-1, 60:] = 0
  whole = pretraining_texts.MaskedReader(rows, 51, 10, 0.15, 7)
  batch = whole.map(3)
  halves = [
    pretraining_texts.MaskedReader(
      rows, 51, 10, 0.15, 7, share=pretraining_texts.Share(index, 2)
    ).map(3)
    for index in range(2)
  ]
  for name, array in batch.items():
    joined = np.concatenate([half[name] for half in halves])
    np.testing.assert_array_equal(joined, array)
  assert (whole.map(4)["ids"] != batch["ids"]).any()
  batches = [whole.map(number) for number in range(40)]
  labels, weights, columns, ids = (
    np.concatenate([batch[name] for batch in batches])
    for name in ("labels", "weights", "columns", "ids")
  )
  assert labels.shape == (400, 15)
  assert weights.all()
  assert labels.min() >= 4
  shown = np.take_along_axis(ids, columns, axis=1)
  assert np.mean(shown == 50) == pytest.approx(0.8, abs=0.02)
  assert np.mean(shown == labels) == pytest.approx(0.1 + 0.1 / 46, abs=0.02)
  # Each row once in an epoch of four batches.
  firsts = np.concatenate([batch["segments"].sum(1) for batch in batches[:4]])
  assert len(firsts) == 40
  assert batch["segments"][:, :41].max() == 3
  assert sum((batch["segments"] == 0).any() for batch in batches[:4]) == 1


def test_passages_of_excluded_records_are_left_out_and_counted(
  tmp_path, monkeypatch
):
  record = types.SimpleNamespace(text=f"十有三年春，{RECORD}。")
  monkeypatch.setattr(
    experiments,
    "build_benchmark",
    lambda *_: types.SimpleNamespace(
      records=[record], timeline=reigns.load_timeline("lu")
    ),
  )
  filler = [f"{a}{b}" for a, b in itertools.permutations(WORDS[:6], 2)]
  passages = {
    "遠離之文，夏四月大水。": "kept",
    filler[0]: "kept",
    "十三年夏六月，民饑。": "dated",
    "經曰：會于北杏，以平宋亂。齊人、宋人、陳人、蔡人、邾人。": "shared",
    filler[1]: "kept",
    filler[2]: "kept",
    "会于北杏以平宋乱齐人宋人陈人": "shared",  # in the other script
    "秋七月，民又饑。": "dated",
    "又一遠離之文，冬十月大水。": "kept",
    filler[3]: "kept",
    "平宋亂": "shared",  # too short to share a string
  }
  write_texts(tmp_path, [])
  lines = ["# 莊公十三年", *passages, *filler[4:]]
  (tmp_path / "book" / "one.md").write_text("\n\n".join(lines), "utf-8")
  (tmp_path / "book" / "one.txt").unlink()
  c = config(tmp_path)
  c.pretraining.exclude = ("chunqiutr/rebuilt",)
  read = pretraining_texts.read_pretraining_texts(c)
  counts = read.works[0].counts
  han = {
    kind: sum(
      len(pretraining_texts.fold_han(text))
      for text, its_kind in passages.items()
      if its_kind == kind
    )
    for kind in ("shared", "dated")
  }
  assert {kind: counts[kind] for kind in han} == han
  assert counts["headings"] == 5
  parts = ("shared", "dated", "repeated", "train", "validation")
  assert counts["read"] == sum(counts[kind] for kind in parts)
  assert read.list_counts()[-1][2] == counts["read"]
  table = "".join(read.tokenizer._tokenizer.get_vocab())
  assert "杏" not in table  # only excluded passages have it


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"pretraining.texts": ()}, "--sources is missing"),
    ({"pretraining.texts": ("{empty}",)}, "{empty}: no text; expected files"),
    ({"pretraining.texts": ("{empty}/x",)}, "{empty}/x"),
    ({"pretraining.vocabulary_size": 12}, "vocabulary_size=12 has .*% of the"),
    ({"pretraining.vocabulary_size": 5}, "vocabulary_size=5: expected 6 to"),
    ({"pretraining.mask_share": 1.5}, "mask_share=1.5: expected 0 < value"),
    ({"pretraining.validation_share": 1e-9}, "validation_share=1e-09 holds"),
    ({"pretraining.exclude": ("chunqiu/x",)}, "chunqiu"),
    ({"loss.calendar_weight": 0.3}, "loss.calendar_weight=0.3: pre-training"),
    ({"num_epochs": 0.01}, "make no step of .* rows of 16 tokens"),
    ({"model.encoder.num_heads": 3}, "num_heads"),
  ],
)
def test_bad_input_is_one_sentence(
  tmp_path, folder, monkeypatch, fields, message
):
  monkeypatch.setattr(experiments.load, "build_benchmark", REAL_BUILD)
  empty = tmp_path / "empty"
  empty.mkdir()
  c = config(folder)
  for name, value in fields.items():
    if isinstance(value, tuple):
      value = tuple(text.format(empty=empty) for text in value)
    c.update_from_flattened_dict({name: value})
  with pytest.raises(ValueError, match=message.format(empty=empty)) as error:
    pretraining.assemble_setup(c, tmp_path / "run")
  assert "\n" not in str(error.value)


def test_full_size_fits_a_release_and_has_a_loss():
  c = pretrain_config.get_config()
  encoder = pretraining.BertConfig(
    c.pretraining.vocabulary_size, **c.model.encoder.to_dict()
  )
  shapes = weights.abstract_params(encoder)
  size = sum(x.size for x in jax.tree.leaves(shapes))
  assert 22e6 < size < 24e6
  assert 2 * size < 48e6  # bytes of bf16
  model = pretraining.MaskedLanguageModel(
    pretraining.MaskedModelConfig(encoder)
  )
  rows = np.full((8, encoder.max_length), 9, np.uint16)
  batch = pretraining_texts.MaskedReader(rows, 8192, 8, 0.15, 1).map(0)
  objective = pretraining.MaskedObjective(model, devices.make_mesh(1))

  def compute_loss(batch):
    params = model.init(jax.random.key(0), batch["ids"], batch["segments"])
    return objective.compute_loss(params["params"], batch, jax.random.key(1))

  loss, _ = jax.eval_shape(compute_loss, batch)
  assert (loss.shape, loss.dtype) == ((), jnp.float32)
