"""Sparse retrieval: logits, vectors, idf weights, what is found, bad files."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy
from scipy import special

from ctd_jax.benchmark import runs
from ctd_jax.models.pretrained import hub_folders, masked_lm
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.retrieval import learned_sparse
from ctd_jax.systems import evaluation_run, registry, sparse
from ctd_jax.training import transfer
from ctd_jax_configs import sparse as sparse_config
from tests import synthetic
from tests.models import published_folder

# Most of the time goes into compilation.
pytestmark = pytest.mark.usefixtures("quick_compile")
GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "masked_lms"
FAMILIES = sorted(path.name for path in GOLDEN.iterdir())
BENCHMARK = synthetic.benchmark()
TEXTS = [record.text for record in BENCHMARK.records][:11]
QUERIES = ["齊人來盟", "甲公元年正月，甲公？", "", "衛"]
IDF = {
  "齊": 3.0,
  "人": 0.5,
  "盟": 2.0,
  "甲": 1.0,
  "衛": 4.0,
  "月": 0.1,
  "</s>": 9.0,
}
ENTRIES = 40  # of the golden models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """The golden BERT with a tokenizer of characters and weights of them."""
  folder = tmp_path_factory.mktemp("sparse") / "bert"
  shutil.copytree(GOLDEN / "bert", folder)
  special = published_folder.SPECIAL
  size = published_folder.write_tokenizer(folder, TEXTS, special=special)
  assert size <= ENTRIES
  (folder / learned_sparse.IDF_FILE).write_text(json.dumps(IDF))
  return folder


def config_of(folder, variant="idf"):
  config = sparse_config.get_config(variant)
  config.sparse.source = str(folder)
  config.sparse.query_length = config.sparse.record_length = 24
  config.sparse.batch_size = 4
  return config


def section_of(folder, variant="idf"):
  config = config_of(folder, variant)
  return registry.read_section(config, sparse.SparseConfig)


def encoder_of(config):
  return learned_sparse.SparseEncoder(**dataclasses.asdict(config))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_the_published_ones(family):
  config, params = published_folder.load_encoder(GOLDEN / family)
  head, table = masked_lm.load_masked_lm_head(GOLDEN / family, config, params)
  with np.load(GOLDEN / family / "logits.npz") as golden:
    ids, mask, expected = (golden[k] for k in ("ids", "mask", "logits"))
  states = config.make_encoder().apply({"params": params}, ids, mask)
  got = masked_lm.MaskedLMHead(config).apply({"params": head}, states, table)
  real = mask.astype(bool)
  assert np.abs(np.asarray(got)[real] - expected[real]).max() < 1e-4


def by_numpy(folder, texts, activation):
  """The vectors of texts in float64, one text at a time."""
  tensors = {
    name.removeprefix("cls.predictions."): tensor.astype(np.float64)
    for name, tensor in safetensors_numpy.load_file(
      folder / hub_folders.WEIGHTS_FILE
    ).items()
  }
  encoder = TextEncoder.load(
    folder, pooling="cls", normalize=False, max_length=24
  )
  vectors = []
  for states, mask in zip(*encoder.encode_tokens(texts), strict=True):
    x = states[mask > 0].astype(np.float64)
    x = (
      x @ tensors["transform.dense.weight"].T + tensors["transform.dense.bias"]
    )
    x = x * special.ndtr(x)  # exact GELU
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
    x = x * tensors["transform.LayerNorm.weight"]
    x = x + tensors["transform.LayerNorm.bias"]
    x = x @ tensors["bert.embeddings.word_embeddings.weight"].T
    weights = np.log(1 + np.maximum((x + tensors["bias"]).max(0), 0))
    weights[: len(published_folder.SPECIAL)] = 0
    if activation == "loglog":
      weights = np.log(1 + weights)
    else:
      weights[weights <= 0.1 * weights.max()] = 0
    vectors.append(weights)
  return np.array(vectors)


@pytest.mark.slow
@pytest.mark.parametrize("variant", sparse_config.VARIANTS)
def test_vectors_and_rankings_are_those_of_numpy(folder, variant):
  config = section_of(folder, variant)
  expected = by_numpy(folder, TEXTS, config.activation)
  encoder = encoder_of(config)
  vectors = encoder.encode_records(TEXTS)
  np.testing.assert_allclose(vectors.toarray(), expected, atol=1e-5)
  assert vectors.nnz == np.count_nonzero(expected) > 40

  tokens = {t: i for t, i in vocabulary(folder).items() if t in IDF}
  tokens.pop("</s>")
  weights = np.zeros((len(QUERIES), ENTRIES))
  for row, query in enumerate(QUERIES):
    for token in set(query) & tokens.keys():
      weights[row, tokens[token]] = IDF[token]
  asked = encoder.encode_queries(QUERIES).toarray()
  np.testing.assert_allclose(asked, weights, rtol=1e-6)

  scores = weights @ expected.T
  galleries = {
    "all": np.ones(len(TEXTS), bool),
    "half": np.arange(len(TEXTS)) % 2 == 0,
  }
  found = sparse.make_search(TEXTS, config)(QUERIES, 9, galleries)
  for name, mask in galleries.items():
    indices, values = found[name]
    for row, line in enumerate(scores):
      order = [i for i in np.argsort(-line, kind="stable") if mask[i]]
      order = [i for i in order if line[i] > 0][:9]
      assert indices[row].tolist() == order + [-1] * (9 - len(order))
      np.testing.assert_allclose(
        values[row], [*line[order], *[-np.inf] * (9 - len(order))], rtol=1e-4
      )
  assert found["all"][0][2].max() == -1  # nothing asked, nothing found


def vocabulary(folder):
  content = json.loads((folder / "tokenizer.json").read_text())
  return content["model"]["vocab"]


def test_what_is_not_suggested_has_no_weight():
  weights = learned_sparse.saturate_logits(
    np.array([[np.e - 1, 0.05, -3.0], [np.e**2 - 1, 0.2, 0.3]]), "log"
  )
  np.testing.assert_allclose(weights, [[1, 0, 0], [2, 0, np.log(1.3)]])
  weights = learned_sparse.saturate_logits(
    np.array([[np.e - 1, 0.05, -3.0]]), "loglog"
  )
  expected = [[np.log(2), np.log1p(np.log1p(0.05)), 0]]
  np.testing.assert_allclose(weights, expected)


def test_an_output_layer_of_its_own_is_used(folder, tmp_path):
  tensors = safetensors_numpy.load_file(folder / hub_folders.WEIGHTS_FILE)
  table = tensors["bert.embeddings.word_embeddings.weight"]
  tensors["cls.predictions.decoder.weight"] = table[::-1].copy()
  safetensors_numpy.save_file(tensors, tmp_path / hub_folders.WEIGHTS_FILE)
  config, params = published_folder.load_encoder(folder)
  _, own = masked_lm.load_masked_lm_head(tmp_path, config, params)
  np.testing.assert_array_equal(own, table[::-1])


@pytest.mark.slow
def test_records_are_encoded_once_for_all_splits(
  folder, tmp_path, monkeypatch, capsys
):
  calls = []
  encode = learned_sparse.SparseEncoder.encode_records
  monkeypatch.setattr(
    learned_sparse.SparseEncoder,
    "encode_records",
    lambda self, texts: calls.append(len(texts)) or encode(self, texts),
  )
  evaluation_run.evaluate_systems(BENCHMARK, config_of(folder), tmp_path)
  assert calls == [len(BENCHMARK.records)]
  out = transfer.transfer_folder(tmp_path, BENCHMARK)
  run = runs.read_run(out / "run.sparse.test.neg1_ne1.trec")
  assert (run.track, run.score_mode) == ("T0", "sparse")
  assert "sparse" in capsys.readouterr().out


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ('{"鼎": 1.0}', "'鼎' is not in the vocabulary"),
    ('{"人": "x"}', "the weight of '人' is 'x'"),
    ("{", "is not JSON"),
  ],
)
def test_bad_weights_of_tokens_are_named(folder, tmp_path, content, message):
  shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
  (tmp_path / learned_sparse.IDF_FILE).write_text(content)
  with pytest.raises(ValueError, match=rf"idf\.json.*{message}"):
    encoder_of(section_of(tmp_path))
  (tmp_path / learned_sparse.IDF_FILE).unlink()
  with pytest.raises(FileNotFoundError, match=r"no idf\.json in"):
    encoder_of(section_of(tmp_path))


@pytest.mark.slow
def test_models_without_a_head_are_named(folder, tmp_path):
  for kind, message in (
    ("bert", "bert: the weights have no masked-LM head; expected cls"),
    ("qwen3", "qwen3: a decoder is no masked language model"),
  ):
    bare = published_folder.write(tmp_path / kind, TEXTS, kind)
    with pytest.raises(ValueError, match=message):
      encoder_of(section_of(bare))
  config, params = published_folder.load_encoder(folder)
  tensors = safetensors_numpy.load_file(folder / hub_folders.WEIGHTS_FILE)
  del tensors["cls.predictions.bias"]
  safetensors_numpy.save_file(tensors, tmp_path / hub_folders.WEIGHTS_FILE)
  with pytest.raises(ValueError, match=r"cls\.predictions\.bias missing inst"):
    masked_lm.load_masked_lm_head(tmp_path, config, params)


def test_a_wrong_value_is_named(folder, tmp_path):
  config = config_of(folder)
  config.sparse.activation = "relu"
  with pytest.raises(ValueError, match=r"config\.sparse\.activation='relu'"):
    evaluation_run.evaluate_systems(BENCHMARK, config, tmp_path)
  config = config_of("")
  with pytest.raises(ValueError, match=r"config\.sparse\.source: the system"):
    evaluation_run.evaluate_systems(BENCHMARK, config, tmp_path)
  with pytest.raises(ValueError, match="unknown variant 'v3' after"):
    sparse_config.get_config("v3")
