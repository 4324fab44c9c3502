"""Encodings in files: cut-off and stale pieces, and the arrays they make."""

import jax
import numpy as np
import pytest

from ctd_jax.retrieval import dense
from ctd_jax.training.input_pipeline import Tokens
from tests.models import offset_table_test

COUNT = 23
WHOLE = offset_table_test.encodings(COUNT, seed=0)


class Encoder:
  """Gives rows of `WHOLE` and remembers which; stops before row `until`."""

  def __init__(self, until=COUNT):
    self.asked, self._until = [], until

  def __call__(self, rows):
    if rows.stop > self._until:
      raise KeyboardInterrupt
    self.asked.append((rows.start, rows.stop))
    return jax.tree.map(lambda leaf: leaf[rows], WHOLE)


def check(found):
  for ours, expected in zip(
    jax.tree.leaves(found), jax.tree.leaves(WHOLE), strict=True
  ):
    assert ours.shape == expected.shape
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours[:], expected)


def test_a_cut_off_run_goes_on(tmp_path):
  with pytest.raises(KeyboardInterrupt):
    dense.encode_to_files(tmp_path, COUNT, Encoder(until=16), chunk_size=5)
  # A chunk that was not finished has no marker.
  (tmp_path / f"done.{5:09}-{10:09}").unlink()
  rest = Encoder()
  check(dense.encode_to_files(tmp_path, COUNT, rest, chunk_size=5))
  assert rest.asked == [(5, 10), (15, 20), (20, 23)]
  again = Encoder()
  check(dense.encode_to_files(tmp_path, COUNT, again, chunk_size=5))
  assert again.asked == []


def test_pieces_of_other_rows_are_not_taken(tmp_path):
  dense.encode_to_files(tmp_path, COUNT, Encoder(), chunk_size=5)
  other = Encoder()
  check(dense.encode_to_files(tmp_path, COUNT, other, chunk_size=10))
  assert other.asked == [(0, 10), (10, 20)]


def test_the_fingerprint_is_of_parameters_texts_and_geometry():
  ids = np.arange(6, dtype=np.int32).reshape(2, 3)
  lengths = np.full(2, 3, np.int32)
  params = {"encoder": np.ones(3), "gate": np.zeros(())}
  tokens = Tokens(ids, ids, lengths)
  ours = dense.fingerprint_encodings(params, tokens, "geometry")
  prints = {
    dense.fingerprint_encodings(*each)
    for each in (
      (dict(params), Tokens(ids.copy(), ids, lengths), "geometry"),  # as before
      ({**params, "gate": np.ones(())}, tokens, "geometry"),
      (params, Tokens(ids + 1, ids, lengths), "geometry"),
      (params, tokens, "another"),
    )
  }
  assert ours in prints
  assert len(prints) == 4
