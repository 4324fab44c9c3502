"""Tokenizer: normalisation, fixed shapes, round trip, bad files."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tokenizers
from tokenizers import processors

from ctd_jax.models.tokenizer import (
  SPECIAL_TOKENS,
  TextTokenizer,
  format_instruction,
)
from tests.models import published_folder

TEXTS = ("元年，春，王正月。", "夏五月", "秋七月", "冬十有二月𨛢")


@pytest.fixture(scope="module")
def tokenizer():
  return TextTokenizer.build(TEXTS)


def tokens(tokenizer, text, length=16):
  ids, mask = tokenizer.encode([text], length)
  return ids[0][mask[0] == 1].tolist()


def test_special_tokens_and_order_of_the_vocabulary(tokenizer):
  assert (tokenizer.pad_id, tokenizer.unk_id) == (0, 1)
  assert tokens(tokenizer, "") == [2]
  # The most frequent character comes first.
  assert tokens(tokenizer, "月") == [2, len(SPECIAL_TOKENS)]
  characters = set("".join(TEXTS)) - set("，。")
  assert tokenizer.vocab_size == len(SPECIAL_TOKENS) + len(characters)


def test_one_token_per_character_beyond_the_basic_plane(tokenizer):
  ids = tokens(tokenizer, "二月𨛢")
  assert len(ids) == 4
  assert tokenizer.unk_id not in ids


def test_an_unseen_character_is_unknown(tokenizer):
  assert tokens(tokenizer, "鼎月") == [2, 1, 4]


def test_punctuation_and_white_space_leave_no_trace(tokenizer):
  plain = tokens(tokenizer, "元年春王正月")
  for text in (
    "元年，春，王正月。",
    "「元年」春\u3000王 正月\n",
    "《元年》春·王正月",
  ):
    assert tokens(tokenizer, text) == plain


def test_variants_are_one_token():
  tokenizer = TextTokenizer.build(["隱公", "莊公", "爲衛"])
  for left, right in ("隠隱", "𨼆隱", "荘莊", "為爲", "衞衛"):
    ids = tokens(tokenizer, left)
    assert ids == tokens(tokenizer, right)
    assert tokenizer.unk_id not in ids


def test_the_vocabulary_does_not_depend_on_the_order_of_texts(tmp_path):
  first = TextTokenizer.build(TEXTS).save(tmp_path / "a")
  second = TextTokenizer.build(TEXTS[::-1]).save(tmp_path / "b")
  assert first.read_bytes() == second.read_bytes()


def test_encode_has_a_fixed_shape_and_keeps_the_front(tokenizer):
  ids, mask = tokenizer.encode(["夏五月", "元年春王正月" * 3], 6)
  assert ids.shape == mask.shape == (2, 6)
  assert ids.dtype == mask.dtype == np.int32
  assert mask.tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]
  assert (ids[0, 4:] == tokenizer.pad_id).all()
  assert ids[1].tolist() == tokens(tokenizer, "元年春王正")
  empty, _ = tokenizer.encode([], 6)
  assert empty.shape == (0, 6)


def test_a_saved_tokenizer_is_reloaded_bit_equal(tokenizer, tmp_path):
  path = tokenizer.save(tmp_path / "new" / "folder")
  again = TextTokenizer.load(path.parent)
  assert again.save(tmp_path / "b").read_bytes() == path.read_bytes()
  np.testing.assert_array_equal(
    again.encode(TEXTS, 9)[0], tokenizer.encode(TEXTS, 9)[0]
  )
  assert again.fingerprint == tokenizer.fingerprint


def test_bad_arguments_are_named(tokenizer):
  with pytest.raises(ValueError, match="max_length"):
    tokenizer.encode(TEXTS, 0)
  with pytest.raises(ValueError, match="no character"):
    TextTokenizer.build(["，。", ""])


@pytest.mark.parametrize(
  ("vocabulary", "message"),
  [
    (None, r"tokenizer\.json is not a tokenizer file"),
    (dict(zip(SPECIAL_TOKENS, range(4), strict=True)), "has no characters"),
    ({"[UNK]": 0, "月": 1}, "no pad_token and no eos_token"),
  ],
)
def test_bad_files_are_named(vocabulary, message, tokenizer, tmp_path):
  with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json in"):
    TextTokenizer.load(tmp_path)
  path = tokenizer.save(tmp_path)
  content = json.loads(path.read_text("utf-8"))
  content["model"]["vocab"] = vocabulary
  path.write_text(json.dumps(content), "utf-8")
  (tmp_path / "tokenizer_config.json").write_text("{}")
  with pytest.raises(ValueError, match=message):
    TextTokenizer.load(tmp_path)


def test_a_vocabulary_alone_is_enough(tmp_path):
  (tmp_path / "config.json").write_text('{"model_type": "bert"}')
  (tmp_path / "vocab.json").write_text("{}")  # of another class
  with pytest.raises(ValueError, match="special tokens alone"):
    TextTokenizer.load(tmp_path)
  words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "春", "sp", "##ring")
  (tmp_path / "vocab.txt").write_text("\n".join(words), "utf-8")
  tokenizer = TextTokenizer.load(tmp_path)
  assert (tokenizer.pad_id, tokenizer.unk_id) == (0, 1)
  assert tokens(tokenizer, "春Spring王") == [2, 5, 6, 7, 1, 3]


# As tokenizer_config.json of earlier releases and of older libraries has it.
DESCRIBED = {"content": "<pad>", "lstrip": False, "normalized": False}


@pytest.mark.parametrize(
  "settings",
  [
    {"pad_token": "<pad>", "unk_token": "<unk>"},
    {"pad_token": "<pad>", "unk_token": None},
    {"pad_token": DESCRIBED, "unk_token": {"content": "<unk>"}},
    {"pad_token": {"__type": "AddedToken", **DESCRIBED}},
    {"pad_token": DESCRIBED, "tokenizer_class": "PreTrainedTokenizerFast"},
    {"pad_token": "<pad>", "additional_special_tokens": [DESCRIBED]},
  ],
)
def test_settings_of_earlier_releases_are_read(settings, tmp_path):
  expected = tokens(published(tmp_path), "夏五月")
  path = tmp_path / "tokenizer_config.json"
  path.write_text(json.dumps(settings))
  tokenizer = TextTokenizer.load(tmp_path)
  assert (tokenizer.pad_id, tokenizer.unk_id) == (PAD, 1)
  assert tokens(tokenizer, "夏五月") == expected


def test_code_of_a_folder_is_never_run(tmp_path):
  published_folder.write_tokenizer(tmp_path, TEXTS)
  (tmp_path / "code.py").write_text("raise AssertionError('was run')")
  (tmp_path / "config.json").write_text('{"model_type": "unknown"}')
  auto_map = {"AutoTokenizer": ["code.Own", None]}
  settings = {"tokenizer_class": "Own", "auto_map": auto_map}
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
  with pytest.raises(ValueError, match="trust_remote_code"):
    TextTokenizer.load(tmp_path)


def test_published_folders_are_read_without_torch(tmp_path):
  published(tmp_path)
  published_folder.write(tmp_path / "encoder", list(TEXTS))
  code = f"""
import pathlib, sys
sys.modules["torch"] = sys.modules["tensorflow"] = None
from ctd_jax.models import text_encoder
assert "transformers" not in sys.modules
text_encoder.read_folder(pathlib.Path({str(tmp_path / "encoder")!r}), "mean")
"""
  subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


PAD, START, END = 0, 2, 3  # of `published_folder`


def published(folder, *, ends=True, end_token="", texts=TEXTS, **settings):
  published_folder.write_tokenizer(folder, list(texts), ends, **settings)
  return TextTokenizer.load(folder, end_token)


def test_a_published_tokenizer_neither_pads_nor_cuts_by_itself(tmp_path):
  tokenizer = published(tmp_path)
  assert (tokenizer.pad_id, tokenizer.unk_id) == (PAD, 1)
  assert len(tokens(tokenizer, "元年春王正月")) == 8
  assert tokens(tokenizer, "") == [START, END]


def test_cutting_keeps_the_special_tokens(tmp_path):
  tokenizer = published(tmp_path)
  ids, mask = tokenizer.encode(["元年春王正月", "夏"], 5)
  assert ids[0].tolist() == [START, *tokens(tokenizer, "元年春")[1:-1], END]
  assert mask[1].sum() == 3
  assert (ids[1][mask[1] == 0] == PAD).all()
  with pytest.raises(ValueError, match="at least 2, got 1"):
    tokenizer.encode(["夏"], 1)


def test_a_prefix_stands_inside_the_special_tokens(tmp_path):
  prefix = format_instruction("求事")
  assert prefix == "Instruct: 求事\nQuery:"
  tokenizer = published(tmp_path, texts=[*TEXTS, prefix])
  ids, mask = tokenizer.encode(["夏五月"], 40, prefix=prefix)
  whole = tokens(tokenizer, prefix + "夏五月", 40)
  assert ids[0][mask[0] == 1].tolist() == whole
  assert whole[0] == START
  assert len(whole) == len(prefix) + 5


@pytest.mark.parametrize(
  ("front", "settings", "end_token", "expected"),
  [
    ([], {}, "</s>", [END]),
    (["<s>"], {}, "</s>", [START, END]),
    (["<s>"], {"eos_token": "</s>"}, "", [START]),
    (["<s>"], {"eos_token": "</s>"}, "<unk>", [START, 1]),
  ],
)
def test_the_end_token_is_added_once(
  front, settings, end_token, expected, tmp_path
):
  published(tmp_path, ends=False, **settings)
  path = tmp_path / "tokenizer.json"
  tokenizer = tokenizers.Tokenizer.from_file(str(path))
  steps = [processors.ByteLevel(trim_offsets=False)]
  if front:
    steps.append(
      processors.TemplateProcessing(
        single=[*front, "$A"], special_tokens=[("<s>", START)]
      )
    )
  tokenizer.post_processor = processors.Sequence(steps)
  tokenizer.save(str(path))
  for number in range(2):
    tokenizer = TextTokenizer.load(tmp_path, end_token)
    assert tokens(tokenizer, "") == expected
    ids = tokens(tokenizer, "夏五月")
    assert len(ids) == len(expected) + 3
    assert ids[-1] == expected[-1] or expected == [START]
    # The second time from our own copy, which says it all by itself.
    tmp_path = tmp_path / str(number)
    tokenizer.save(tmp_path)


def test_a_pooling_without_its_token_is_refused(tmp_path):
  plain = published(tmp_path / "a", ends=False)
  for pooling in ("cls", "last"):
    with pytest.raises(ValueError, match=f"pooling '{pooling}' reads a token"):
      plain.check_pooling(pooling)
  plain.check_pooling("mean")
  for pooling in ("cls", "last", "mean"):
    published(tmp_path / "b").check_pooling(pooling)


def test_a_published_tokenizer_without_a_needed_token_is_refused(tmp_path):
  with pytest.raises(ValueError, match="end token '<eos>' is not in the vocab"):
    published(tmp_path, end_token="<eos>")
  (tmp_path / "tokenizer_config.json").write_text("{")
  with pytest.raises(ValueError, match=r"tokenizer_config\.json is not JSON"):
    TextTokenizer.load(tmp_path)
  # Nothing said: the usual names are looked for.
  (tmp_path / "tokenizer_config.json").write_text("{}")
  assert TextTokenizer.load(tmp_path).pad_id == PAD
