"""One table of spellings, read by dates, alignment and tokenizer."""

import pytest

from ctd_jax.chronology import numerals
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax_datasets.chunqiutr import text_alignment


def test_replacer_does_what_translate_does():
  table = {"晋": "晉", "]": "(", "^": "-", "\\": "𨼆"}
  text = "晋侯^]\\晋。\n" + "".join(map(chr, range(32, 0x3000)))
  assert numerals.make_replacer(table)(text) == text.translate(
    str.maketrans(table)
  )


def test_no_character_stands_in_two_groups():
  assert all(len(group) > 1 for group in numerals.SPELLING_GROUPS)
  characters = "".join(numerals.SPELLING_GROUPS)
  assert len(characters) == len(set(characters))
  # A rare group may extend a common one, by its first member only.
  rare = "".join(group[1:] for group in numerals.RARE_SPELLING_GROUPS)
  assert len(rare) == len(set(rare))
  assert not set(rare) & set(characters)
  assert not set(numerals.CANONICAL_SPELLING) & set(
    numerals.CANONICAL_SPELLING.values()
  )


@pytest.mark.parametrize(
  "pair", ["晉晋", "隱𨼆", "莊荘", "歲歳", "會㑹", "衛衞", "毀毁"]
)
def test_readers_agree_on_what_is_one_character(pair):
  tokenizer = TextTokenizer.build([pair])
  ids, _ = tokenizer.encode(list(pair), 2)
  assert ids[0].tolist() == ids[1].tolist()
  for fold in (numerals.fold_script, text_alignment.fold_text):
    assert fold(pair[0]) == fold(pair[1])


def test_the_tokenizer_keeps_rare_spellings_apart():
  tokenizer = TextTokenizer.build(["襄㐮"])
  ids, _ = tokenizer.encode(["襄", "㐮"], 2)
  assert ids[0].tolist() != ids[1].tolist()
