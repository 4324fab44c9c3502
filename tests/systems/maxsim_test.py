"""Late interaction against plain loops, with and without a projection."""

import dataclasses
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers
from safetensors import numpy as safetensors_numpy

from ctd_jax.models.encoders import layers
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.models.token_encoder import TokenEncoder, TokenVectors
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.retrieval import late_interaction
from ctd_jax.systems import evaluation_run, maxsim, registry
from ctd_jax_configs import late_interaction as config_file
from tests import synthetic
from tests.models import published_folder

# Most of the time goes into compilation.
pytestmark = pytest.mark.usefixtures("quick_compile")
BENCHMARK = synthetic.benchmark()
TEXTS = [record.text for record in BENCHMARK.records]
QUERIES = [query.text for query in BENCHMARK.queries["test"]]
# Every other record is longer, for a second group.
TEXTS = [text * (1 + i % 2) for i, text in enumerate(TEXTS)]
MARKS = "〔〕■"  # of queries, of records, what fills queries up
LENGTHS = {"query_length": 14, "record_length": 24}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  path = tmp_path_factory.mktemp("encoder")
  return published_folder.write(path, [*TEXTS, *QUERIES, MARKS])


@pytest.fixture(scope="module")
def projected(folder, tmp_path_factory):
  """The same encoder with all that a model of this kind declares."""
  path = tmp_path_factory.mktemp("projected")
  published_folder.write(path, [*TEXTS, *QUERIES, MARKS])
  for name in ("model.safetensors", "config.json"):
    (path / name).write_bytes((folder / name).read_bytes())
  settings = {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "■"}
  (path / "tokenizer_config.json").write_text(json.dumps(settings))
  modules = [
    {"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Dense", "type": "pylate.models.Dense.Dense"},
  ]
  (path / "modules.json").write_text(json.dumps(modules))
  dense = path / "1_Dense"
  dense.mkdir()
  activation = "torch.nn.modules.linear.Identity"
  (dense / "config.json").write_text(
    json.dumps({"activation_function": activation})
  )
  rng = np.random.default_rng(0)
  tensors = {
    "linear.weight": rng.normal(size=(6, 16)).astype(np.float32),
    "linear.bias": rng.normal(size=6).astype(np.float32),
  }
  safetensors_numpy.save_file(tensors, dense / "model.safetensors")
  declared = {
    "query_prefix": "〔",
    "document_prefix": "〕",
    "query_length": 20,
    "document_length": 24,
    "do_query_expansion": True,
    "attend_to_expansion_tokens": True,
    "skiplist_words": ["，", "。", "?"],
  }
  (path / "config_sentence_transformers.json").write_text(json.dumps(declared))
  return path, declared, tensors


def unit(vectors):
  return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def by_loops(queries, records):
  """Returns scores [Q, N] of lists of [tokens, W]."""
  return np.array(
    [[(q @ d.T).max(axis=1).sum() for d in records] for q in queries]
  )


def check(found, scores, masks):
  for name, mask in masks.items():
    indices, values = found[name]
    allowed = np.where(mask, scores, -np.inf)
    order = np.argsort(-allowed, axis=1, kind="stable")[:, : values.shape[1]]
    best = np.take_along_axis(allowed, order, axis=1)
    np.testing.assert_allclose(values, best, rtol=1e-4)
    # What is found has the score that is said, near-ties aside.
    again = np.take_along_axis(allowed, indices, axis=1)
    np.testing.assert_allclose(values, again, rtol=1e-4)


def masks():
  everything = np.ones(len(TEXTS), bool)
  return {"all": everything, "third": np.arange(len(TEXTS)) % 3 == 0}


def tokens_of(folder, texts, **options):
  """Returns the last states of the tokens of each text, [tokens, D]."""
  encoder = TextEncoder.load(folder, pooling="mean", normalize=False, **options)
  states, mask = encoder.encode_tokens(texts)
  return [
    row[real.astype(bool)] for row, real in zip(states, mask, strict=True)
  ]


@pytest.mark.slow
def test_scores_are_those_of_plain_loops(folder):
  config = maxsim.MaxSimConfig(
    source=str(folder), query_prefix="問", record_prefix="〕", **LENGTHS
  )
  rank = maxsim.make_search(TEXTS, config)
  queries = tokens_of(folder, QUERIES, prefix="問", max_length=14)
  records = tokens_of(folder, TEXTS, prefix="〕", max_length=24)
  assert {len(tokens) > 16 for tokens in records} == {True, False}
  scores = by_loops(map(unit, queries), [unit(tokens) for tokens in records])
  check(rank(QUERIES, 7, masks()), scores, masks())


@pytest.mark.slow
def test_a_projection_and_what_the_folder_declares(projected):
  path, declared, tensors = projected
  encoder = TokenEncoder.load(path)
  assert encoder.query.prefix == "〔"
  assert encoder.record.length == 24

  def project(tokens):
    states = tokens @ tensors["linear.weight"].T + tensors["linear.bias"]
    return unit(states)

  # Filled up, every query has 20 tokens, which attend to each other: a text
  # that ends like that. The last of them is the end token's place no more.
  room = declared["query_length"]
  ids, mask = encoder.encoder.tokenizer.encode(QUERIES, room, prefix="〔")
  mark = encoder.encoder.tokenizer.token_id("■")
  ids = np.where(mask, ids, mark)
  states = encoder.encoder.config.make_encoder().apply(
    {"params": encoder.encoder.params}, ids, np.ones_like(ids)
  )
  queries = [project(np.asarray(row)) for row in states]
  records = []
  for text, tokens in zip(
    TEXTS, tokens_of(path, TEXTS, prefix="〕", max_length=24), strict=True
  ):
    # <s>, the marker, then a token a character, then </s>.
    read = [*["<s>", "〕", *text][: len(tokens) - 1], "</s>"]
    kept = [token not in declared["skiplist_words"] for token in read]
    records.append(project(tokens[kept]))
  search = maxsim.make_search(TEXTS, maxsim.MaxSimConfig(source=str(path)))
  found = search(QUERIES, 7, masks())
  check(found, by_loops(queries, records), masks())


def test_what_the_caller_says_comes_before_what_is_declared(projected):
  encoder = TokenEncoder.load(projected[0], query_prefix="", query_length=9)
  assert (encoder.query.prefix, encoder.query.length) == ("", 9)
  assert encoder.record.prefix == "〕"


def test_what_fills_a_query_up_may_not_be_attended(projected):
  encoder = TokenEncoder.load(projected[0])
  alone = dataclasses.replace(encoder.query, attends_to_filler=False)
  ((rows, found),) = encoder.encode(QUERIES, alone)
  assert found.vectors.shape == (len(rows), 20, 6)
  assert found.mask.all()
  # The tokens of the text are what they are without any filling.
  plain = dataclasses.replace(alone, filler_id=None)
  ((_, short),) = encoder.encode(QUERIES, plain, pad_to_longest=True)
  filled = found.vectors[:, : short.mask.shape[1]]
  np.testing.assert_allclose(
    filled[short.mask], short.vectors[short.mask], atol=1e-5
  )
  # Each place of the filling is another one, and sees its text.
  assert np.abs(np.diff(found.vectors[:, -3:], axis=1)).max() > 1e-3
  assert np.abs(np.diff(found.vectors[:, -1], axis=0)).max() > 1e-5


def test_a_marker_is_one_token_behind_the_first(tmp_path):
  published_folder.write_tokenizer(tmp_path, TEXTS)
  path = tmp_path / "tokenizer.json"
  tokenizer = tokenizers.Tokenizer.from_file(str(path))
  tokenizer.add_tokens(["[Q] "])
  tokenizer.save(str(path))
  ours = TextTokenizer.load(tmp_path)
  ids, _ = ours.encode(["齊人來盟"], 5, prefix="[Q] ")
  read = ["<s>", "[Q] ", "齊", "人", "</s>"]
  assert ids[0].tolist() == [ours.token_id(token) for token in read]


@pytest.mark.slow
def test_positions_go_on_behind_a_text():
  mask = jnp.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]])
  positions = layers.token_positions(mask)
  assert positions.tolist() == [[0, 1, 2, 3, 4], [0, 0, 0, 1, 2]]


@pytest.mark.slow
def test_ties_between_groups_go_by_index():
  vectors = np.full((3, 2, 4), 0.5, np.float32)  # products are exact
  asked = same = TokenVectors(vectors, np.ones((3, 2), bool))
  padded = TokenVectors(
    np.pad(same.vectors, ((0, 0), (0, 2), (0, 0))),
    np.pad(same.mask, ((0, 0), (0, 2))),
  )
  groups = [(np.array([1, 2, 5]), padded), (np.array([0, 3, 4]), same)]
  gallery = {"all": np.ones(6, bool), "one": np.arange(6) == 3}
  found = late_interaction.search_top_k_by_maxsim(asked, groups, 4, gallery)
  np.testing.assert_array_equal(found["all"][0], [[0, 1, 2, 3]] * 3)
  np.testing.assert_array_equal(found["one"][0], [[3, -1, -1, -1]] * 3)


@pytest.mark.parametrize(
  ("file", "content", "message"),
  [
    ("modules.json", "{", "modules.json: expected a list of objects"),
    ("modules.json", '[{"type": "x.Dense"}]', "with the fields type and path"),
    (
      "1_Dense/config.json",
      "{}",
      "activation_function Tanh; only Identity is read",
    ),
    (
      "tokenizer_config.json",
      '{"pad_token": "<pad>"}',
      "do_query_expansion needs a mask_token in",
    ),
    (
      "config_sentence_transformers.json",
      '{"document_length": 99}',
      "a length of 99 tokens:",
    ),
  ],
)
def test_a_file_that_does_not_fit(projected, file, content, message):
  path = projected[0] / file
  before = path.read_bytes()
  path.write_text(content)
  try:
    with pytest.raises(ValueError, match=re.escape(message)):
      TokenEncoder.load(projected[0])
  finally:
    path.write_bytes(before)


def test_a_projection_of_another_width(projected):
  path = projected[0] / "1_Dense" / "model.safetensors"
  before = path.read_bytes()
  safetensors_numpy.save_file({"linear.weight": np.zeros((4, 5))}, path)
  try:
    with pytest.raises(ValueError, match=r"of 16 columns.*\(4, 5\)"):
      TokenEncoder.load(projected[0])
  finally:
    path.write_bytes(before)


def test_the_config_reads_like_the_row_of_the_encoder():
  c = config_file.get_config()
  assert c.eval.baselines == ("maxsim",)
  assert (c.maxsim.query_prefix, c.maxsim.record_length) == ("query: ", 40)
  other = config_file.get_config("runs/colbert")
  assert other.maxsim.source == "runs/colbert"
  assert other.maxsim.query_prefix is other.maxsim.record_length is None


def test_the_system_of_a_config():
  config = config_file.get_config()
  system = registry.make_systems(BENCHMARK, config)["maxsim"]
  assert (system.track, system.score_mode) == ("T0", "late_interaction")


def test_a_source_is_needed(tmp_path):
  config = synthetic.config()
  config.eval.baselines = ("maxsim",)
  with pytest.raises(ValueError, match=r"config.maxsim.source: .* maxsim"):
    evaluation_run.evaluate_systems(BENCHMARK, config, tmp_path)
