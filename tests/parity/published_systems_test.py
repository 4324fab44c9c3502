"""Systems of published models, on tiny weights, against plain loops.

Collected with --parity; needs the extra [parity].
"""

import json

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers
from sentence_transformers.base.modules import (
  Dense,
  Normalize,
  Router,
  Transformer,
)
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sparse_encoder import modules as sparse_modules

from ctd_jax.systems import pqr, registry
from ctd_jax.systems import published as systems
from ctd_jax_configs import published as config_file
from tests import synthetic
from tests.models import published_folder
from tests.parity import published

BENCHMARK = synthetic.benchmark()
IDS = BENCHMARK.record_ids
TEXTS = [record.text for record in BENCHMARK.records]
QUERIES = [query.text for query in BENCHMARK.queries["test"]]
GALLERIES = {
  "all": np.ones(len(TEXTS), bool),
  "third": np.arange(len(TEXTS)) % 3 == 0,
}
LENGTHS = {"query_length": 14, "record_length": 24}
PROMPTS = {"query_prompt": "問", "record_prompt": "〕"}
WRITES_FILE = "import pathlib\npathlib.Path({path!r}).touch()\n{rest}"
TOKENIZER = {
  "tokenizer_class": "PreTrainedTokenizerFast",
  "pad_token": "<pad>",
  "unk_token": "<unk>",
  "cls_token": "<s>",
  "sep_token": "</s>",
  "mask_token": "■",
}


def write_folder(path, kind="bert"):
  """Returns a folder of a tiny encoder whose tokens are characters."""
  published_folder.write(path, [*TEXTS, *QUERIES, "問〔〕■"], kind)
  (path / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
  return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return write_folder(tmp_path_factory.mktemp("encoder"))


def system_of(kind, source, **fields):
  config = config_file.get_config()
  config.published.update({"kind": kind, "source": str(source), "name": None})
  config.published.update(
    {**dict.fromkeys([*LENGTHS, *PROMPTS, "pooling"]), **fields}
  )
  return registry.make_systems(BENCHMARK, config)[kind]


def check(system, scores):
  """Checks a search against the scores of all pairs [Q, N]."""
  found = system.search(QUERIES, 7, GALLERIES)
  for name, mask in GALLERIES.items():
    indices, values = found[name]
    allowed = np.where(mask, scores, -np.inf)
    best = -np.sort(-allowed, axis=1)[:, :7]
    np.testing.assert_allclose(values, best, rtol=1e-4)
    # What is found has the score that is said, near-ties aside.
    again = np.take_along_axis(allowed, indices, axis=1)
    np.testing.assert_allclose(values, again, rtol=1e-4)


def states_of(source, texts, length, end=""):
  """Returns the last states of each text's tokens, read one by one."""
  model = transformers.AutoModel.from_pretrained(source).eval()
  tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(source)
  found = []
  for text in texts:
    # The end stays when a text is cut.
    ids = tokenizer(text, truncation=True, max_length=length - bool(end))
    ids = ids["input_ids"] + (
      [tokenizer.convert_tokens_to_ids(end)] * bool(end)
    )
    with torch.no_grad():
      found.append(model(torch.tensor([ids])).last_hidden_state[0].numpy())
  return found


def unit(vectors):
  return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.mark.parametrize(
  ("kind", "pooling", "end"),
  [
    ("bert", "mean", ""),
    ("bert", "cls", ""),
    ("qwen3", "last", "<|endoftext|>"),
  ],
)
def test_dense_vectors(kind, pooling, end, tmp_path):
  path = write_folder(tmp_path / "encoder", kind)
  system = system_of(
    "dense", path, **LENGTHS, **PROMPTS, pooling=pooling, end_token=end or None
  )
  pool = {
    "mean": lambda states: states.mean(axis=0),
    "cls": lambda states: states[0],
    "last": lambda states: states[-1],
  }[pooling]

  def vectors(texts, length):
    return unit(np.stack([*map(pool, states_of(path, texts, length, end))]))

  queries = vectors([f"問{text}" for text in QUERIES], 14)
  records = vectors([f"〕{text}" for text in TEXTS], 24)
  assert (system.track, system.score_mode) == ("T0", "semantic")
  check(system, queries @ records.T)


@pytest.fixture(scope="module")
def sparse_folder(tmp_path_factory):
  """A masked language model of records, and weights of query tokens."""
  path = tmp_path_factory.mktemp("masked")
  texts = [*TEXTS, *QUERIES, "問〔〕■"]
  size = published_folder.write_tokenizer(path, texts)
  (path / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
  kind = transformers.AutoModelForMaskedLM
  model = published.make(
    "bert", 0, kind, vocab_size=size, max_position_embeddings=64
  )
  published.save(model, path)
  encoder = Transformer(str(path), transformer_task="fill-mask")
  weights = torch.rand(size, generator=torch.Generator().manual_seed(0))
  router = Router.for_query_document(
    query_modules=[
      sparse_modules.SparseStaticEmbedding(encoder.tokenizer, weights)
    ],
    document_modules=[encoder, sparse_modules.SpladePooling("max")],
  )
  out = path / "whole"
  sentence_transformers.SparseEncoder(modules=[router]).save(str(out))
  return path, out, weights.numpy()


@pytest.mark.parametrize("pruning", [0.0, 0.4])
def test_sparse_weights(sparse_folder, pruning):
  masked, whole, weights = sparse_folder
  tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(masked)
  model = transformers.AutoModelForMaskedLM.from_pretrained(masked).eval()
  special = tokenizer.all_special_ids
  records = np.zeros((len(TEXTS), len(weights)), np.float32)
  for row, text in enumerate(TEXTS):
    ids = tokenizer(text, truncation=True, max_length=24)["input_ids"]
    with torch.no_grad():
      logits = model(torch.tensor([ids])).logits[0].numpy()
    entries = np.log1p(np.maximum(logits.max(axis=0), 0))
    entries[special] = 0
    entries[entries <= pruning * entries.max()] = 0
    records[row] = entries
  queries = np.zeros((len(QUERIES), len(weights)), np.float32)
  for row, text in enumerate(QUERIES):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    queries[row, ids] = weights[ids]
  system = system_of("sparse", whole, **LENGTHS, pruning=pruning)
  check(system, queries @ records.T)
  # A record without an entry of the query is no result.
  found = system.search([""], 3, GALLERIES)["all"]
  assert (found[0] == -1).all()
  assert np.isneginf(found[1]).all()


def by_loops(queries, records):
  """Returns MaxSim of lists of [tokens, W]."""
  return np.array(
    [[(q @ d.T).max(axis=1).sum() for d in records] for q in queries]
  )


def test_an_encoder_without_projection_has_its_states_compared(folder):
  queries = states_of(folder, [f"問{text}" for text in QUERIES], 14)
  records = states_of(folder, [f"〕{text}" for text in TEXTS], 24)
  check(
    system_of("maxsim", folder, **LENGTHS, **PROMPTS),
    by_loops(map(unit, queries), [unit(states) for states in records]),
  )


def test_a_folder_of_late_interaction_says_how_it_is_read(folder, tmp_path):
  torch.manual_seed(0)
  projection = Dense(
    *(16, 6),
    bias=False,
    activation_function=torch.nn.Identity(),
    module_input_name="token_embeddings",
  )
  expansion = {"strategy": "fixed", "length": 20, "attend": True}
  sentence_transformers.MultiVectorEncoder(
    modules=[
      Transformer(
        str(folder),
        document_length=24,
        query_expansion={**expansion, "token": "■"},
      ),
      projection,
      MultiVectorMask(skiplist_words=["，", "。"]),
      Normalize(module_input_name="token_embeddings"),
    ],
    prompts={"query": "〔", "document": "〕"},
  ).save(str(tmp_path))
  tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
  model = transformers.AutoModel.from_pretrained(folder).eval()
  matrix = projection.linear.weight.detach().numpy()
  queries = []
  for text in QUERIES:
    ids = tokenizer(f"〔{text}", truncation=True, max_length=20)["input_ids"]
    # Filled up with tokens that the text attends to and that count.
    ids += [tokenizer.convert_tokens_to_ids("■")] * (20 - len(ids))
    with torch.no_grad():
      states = model(torch.tensor([ids])).last_hidden_state[0].numpy()
    queries.append(unit(states @ matrix.T))
  skipped = tokenizer.convert_tokens_to_ids(["，", "。"])
  records = []
  for text in TEXTS:
    (states,) = states_of(folder, [f"〕{text}"], 24)
    ids = tokenizer(f"〕{text}", truncation=True, max_length=24)["input_ids"]
    records.append(unit(states[~np.isin(ids, skipped)] @ matrix.T))
  check(system_of("maxsim", tmp_path), by_loops(queries, records))


def pair_config(source, **fields):
  config = config_file.get_config("rerank").published
  config.update({"source": str(source), "dtype": "float32", **fields})
  return systems.PublishedConfig(**config)


@pytest.mark.parametrize("tied", [True, False])
def test_a_reranker_answers_as_the_published_one(tied, tmp_path):
  published.write_reranker(tmp_path, tied, seed=1)
  settings = {
    name: TOKENIZER[name] for name in ("tokenizer_class", "pad_token")
  }
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
  config = pair_config(tmp_path, instruction="求記事", max_length=512)
  got = systems.score_pairs(config, published.QUESTIONS)
  np.testing.assert_allclose(got, published.p_yes(tmp_path), atol=1e-5)


@pytest.mark.parametrize("labels", [1, 3])
def test_a_classifier_of_pairs(labels, folder, tmp_path):
  kind = transformers.AutoModelForSequenceClassification
  model = kind.from_pretrained(folder, num_labels=labels)
  model.save_pretrained(tmp_path)
  for name in ("tokenizer.json", "tokenizer_config.json"):
    (tmp_path / name).write_bytes((folder / name).read_bytes())
  plain = {"instruction": None, "template": None, "max_length": 40}
  config = pair_config(tmp_path, **plain)
  pairs = [(QUERIES[0], text) for text in TEXTS[:5]]
  if labels > 1:
    with pytest.raises(ValueError, match="3 labels; expected one score"):
      systems.score_pairs(config, pairs)
    return
  tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
  batch = tokenizer(
    *zip(*pairs, strict=True), padding=True, return_tensors="pt"
  )
  with torch.no_grad():
    expected = torch.sigmoid(model.eval()(**batch).logits[:, 0]).numpy()
  np.testing.assert_allclose(
    systems.score_pairs(config, pairs), expected, atol=1e-5
  )


def test_pseudo_queries_rank_by_the_closest_component(folder, tmp_path):
  # Every fourth record has one question, two of them, seven, and none.
  asked = {
    record_id: [TEXTS[i][: 3 + j] for j in range((0, 1, 2, 7)[i % 4])]
    for i, record_id in enumerate(IDS)
  }
  path = tmp_path / "q.jsonl"
  path.write_text(
    "".join(
      json.dumps({"sid": name, "generated_queries": texts}) + "\n"
      for name, texts in asked.items()
      if texts
    )
  )
  config = config_file.get_config("pqr")
  config.pqr.update(pseudo_queries=str(path), source=str(folder), **LENGTHS)
  config.pqr.update(pooling="mean", dtype="float32", query_prompt="問")
  system = registry.make_systems(BENCHMARK, config)["pqr"]
  assert (system.track, system.score_mode) == ("T0", "pseudo_queries")

  def vectors(texts, length):
    states = states_of(folder, texts, length)
    return unit(np.stack([each.mean(axis=0) for each in states]))

  queries = vectors([f"問{text}" for text in QUERIES], 14)
  own = vectors(TEXTS, 24)
  scores = np.zeros((len(QUERIES), len(IDS)))
  for column, name in enumerate(IDS):
    parts = own[[column]]
    if asked[name]:
      parts = pqr.cluster_centres(
        vectors([f"問{text}" for text in asked[name]], 24)
      )
    scores[:, column] = (queries @ parts.T).max(axis=1)
  check(system, scores)


@pytest.mark.parametrize("kind", ["dense", "sparse", "maxsim"])
def test_code_in_a_folder_runs_only_if_it_is_allowed(kind, tmp_path):
  path, trace = write_folder(tmp_path / "encoder"), tmp_path / "ran"
  modules = [{"idx": 0, "name": "0", "path": "", "type": "custom.Dense"}]
  (path / "modules.json").write_text(json.dumps(modules))
  rest = "from sentence_transformers.base.modules import Transformer as Dense"
  (path / "custom.py").write_text(
    WRITES_FILE.format(path=str(trace), rest=rest)
  )
  with pytest.raises(
    ValueError, match=r"Python code of its own.*published\.run_model_code=True"
  ):
    system_of(kind, path).search(QUERIES, 1, GALLERIES)
  assert not trace.exists()


def test_code_of_a_config_runs_only_if_it_is_allowed(tmp_path):
  path, trace = write_folder(tmp_path / "encoder"), tmp_path / "ran"
  fields = json.loads((path / "config.json").read_text())
  fields |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
  (path / "config.json").write_text(json.dumps(fields))
  rest = (
    "from transformers import BertConfig\n"
    "class OwnConfig(BertConfig):\n  model_type = 'own'\n"
  )
  (path / "own.py").write_text(WRITES_FILE.format(path=str(trace), rest=rest))
  with pytest.raises(ValueError, match=r"published\.run_model_code=True"):
    system_of("dense", path).search(QUERIES, 1, GALLERIES)
  with pytest.raises(ValueError, match=r"published\.run_model_code=True"):
    systems.score_pairs(pair_config(path, template=None), [("甲", "乙")])
  assert not trace.exists()
  # The config is read then; there is no model of this type.
  with pytest.raises(ValueError, match="OwnConfig"):
    system_of("dense", path, run_model_code=True).search(QUERIES, 1, GALLERIES)
  assert trace.exists()


def test_what_cannot_be_read_is_named(folder, tmp_path):
  with pytest.raises(
    FileNotFoundError, match="neither a folder of a model nor"
  ):
    system_of("dense", tmp_path / "no").search(QUERIES, 1, GALLERIES)
  with pytest.raises(ValueError, match=r"end_token='<end>': expected an entry"):
    system_of("dense", folder, end_token="<end>").search(QUERIES, 1, GALLERIES)
  with pytest.raises(
    ValueError, match=r"distinct texts become .* raise query_"
  ):
    system_of("dense", folder, query_length=3).search(QUERIES, 1, GALLERIES)
