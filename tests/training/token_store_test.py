"""Tokens are kept in a file, mapped, and are those of memory."""

import functools
import pickle

import numpy as np

from ctd_jax.training import input_pipeline, packing
from tests import synthetic

BENCHMARK = synthetic.benchmark()
TOKENIZER = input_pipeline.build_tokenizer(BENCHMARK)
tokenize = functools.partial(input_pipeline.tokenize_texts, TOKENIZER)
TEXTS = [record.text for record in BENCHMARK.records]


def test_a_file_has_the_tokens_of_memory(tmp_path):
  expected = tokenize(TEXTS, 12)
  for _ in range(2):  # written, then read
    tokens = tokenize(TEXTS, 12, folder=tmp_path)
    np.testing.assert_array_equal(tokens.ids, expected.ids)
    np.testing.assert_array_equal(tokens.mask, expected.mask)
    np.testing.assert_array_equal(tokens.full_lengths, expected.full_lengths)
    np.testing.assert_array_equal(tokens.store.ids, expected.store.ids)
    np.testing.assert_array_equal(tokens.store.lengths, expected.store.lengths)
    assert isinstance(tokens.store.ids, np.memmap)


def test_what_was_kept_is_not_tokenised_again(tmp_path, monkeypatch):
  tokenize(TEXTS, 12, folder=tmp_path)
  calls = []
  monkeypatch.setattr(
    type(TOKENIZER), "tokenize", lambda *_: calls.append(1) or 1 / 0
  )
  tokenize(TEXTS, 12, folder=tmp_path)
  assert not calls


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path, caplog):
  (tmp_path / "file").touch()
  tokens = tokenize(TEXTS, 12, folder=tmp_path / "file")
  expected = tokenize(TEXTS, 12)
  np.testing.assert_array_equal(tokens.ids, expected.ids)
  assert "tokens are not kept in" in caplog.text


def test_other_texts_lengths_and_prefixes_have_other_files(tmp_path):
  for texts, length, prefix in (
    (TEXTS, 12, ""),
    (TEXTS, 13, ""),
    (TEXTS, 12, "甲"),
    (TEXTS[1:], 12, ""),
    # The same characters in all, divided otherwise.
    ([TEXTS[0] + TEXTS[1], *TEXTS[2:]], 12, ""),
  ):
    tokens = tokenize(texts, length, prefix, tmp_path)
    expected = tokenize(texts, length, prefix)
    np.testing.assert_array_equal(tokens.ids, expected.ids)
  assert len(list(tmp_path.glob("*.npy"))) == 2 * 5


def test_a_process_is_sent_the_path_alone(tmp_path):
  store = tokenize(TEXTS, 12, folder=tmp_path).store
  data = pickle.dumps(store)
  assert len(data) < store.ids.nbytes
  copy = pickle.loads(data)
  assert isinstance(copy.ids, np.memmap)
  np.testing.assert_array_equal(copy.ids, store.ids)
  np.testing.assert_array_equal(copy.starts, store.starts)


def test_texts_are_copied_into_cells():
  store = packing.TokenStore(
    np.arange(1, 10, dtype=np.int32), np.array([2, 0, 4, 3], np.int32)
  )
  target = np.zeros(12, np.int32)
  store.copy_texts(np.array([3, 1, 0]), np.array([8, 5, 1]), target)
  assert target.tolist() == [0, 1, 2, 0, 0, 0, 0, 0, 7, 8, 9, 0]
