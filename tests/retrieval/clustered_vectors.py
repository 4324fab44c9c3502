"""Unit vectors in clusters, as texts have them, and their exact search."""

import numpy as np

from ctd_jax.retrieval import search

K = 10
_RNG = np.random.default_rng(0)
_CENTRES = _RNG.normal(size=(40, 16))


def draw_vectors(count):
  """Returns vectors around the centres."""
  drawn = _CENTRES[_RNG.integers(0, 40, count)] + 0.5 * _RNG.normal(
    size=(count, 16)
  )
  return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(
    np.float32
  )


QUERIES, RECORDS = draw_vectors(50), draw_vectors(4000)
GALLERIES = {
  "all": np.ones(4000, bool),
  "a third, 三": _RNG.random(4000) < 0.3,
  "three": np.arange(4000) >= 3997,
}


def search_exactly():
  """Returns the K best of every gallery."""
  return search.search_top_k(
    QUERIES, RECORDS, lambda q, r: q @ r.T, K, GALLERIES, query_block=50
  )
