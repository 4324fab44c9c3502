"""FAISS behind the interface of the exact search: same lists, or most."""

import sys

import numpy as np
import pytest

from ctd_jax.retrieval import approximate
from tests.retrieval import clustered_vectors
from tests.retrieval.clustered_vectors import GALLERIES, QUERIES, RECORDS, K


@pytest.fixture(scope="module")
def exact():
  return clustered_vectors.search_exactly()


@pytest.mark.slow
def test_a_flat_index_gives_the_same_lists(exact):
  found = approximate.search_approximate_top_k(
    QUERIES, RECORDS, K, GALLERIES, "faiss:Flat"
  )
  for name, (indices, scores) in exact.items():
    np.testing.assert_array_equal(found[name][0], indices)
    np.testing.assert_allclose(found[name][1], scores, rtol=1e-5)
  assert (found["three"][0][:, 3:] == -1).all()


@pytest.mark.parametrize("backend", ["faiss:IVF32,Flat", "faiss:HNSW16"])
def test_most_are_found(exact, backend):
  found = approximate.search_approximate_top_k(
    QUERIES, RECORDS, K, GALLERIES, backend
  )
  for name in ("all", "a third, 三"):
    indices, scores = found[name]
    assert GALLERIES[name][indices[indices >= 0]].all()
    assert (np.diff(scores, axis=1)[indices[:, 1:] >= 0] <= 0).all()
    hits = [
      len(np.intersect1d(mine, best))
      for mine, best in zip(indices, exact[name][0], strict=True)
    ]
    assert np.mean(hits) / K > 0.9


def test_equal_scores_go_by_index():
  records = np.repeat(RECORDS[:3], 2, axis=0)
  everything = {"all": np.ones(6, bool)}
  indices, _ = approximate.search_approximate_top_k(
    QUERIES, records, 6, everything, "faiss:Flat"
  )["all"]
  assert (indices[:, ::2] % 2 == 0).all()
  np.testing.assert_array_equal(indices[:, 1::2], indices[:, ::2] + 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad):
  broken = QUERIES.copy()
  broken[3, 2] = bad
  with pytest.raises(ValueError, match="query 3 has a score .* not finite"):
    approximate.search_approximate_top_k(
      broken, RECORDS, K, GALLERIES, "faiss:Flat"
    )
  broken = RECORDS.copy()
  broken[9, 2] = bad
  with pytest.raises(ValueError, match="record 9 has a vector .* not finite"):
    approximate.search_approximate_top_k(
      QUERIES, broken, K, GALLERIES, "faiss:Flat"
    )


def test_an_index_that_faiss_cannot_make_is_named():
  with pytest.raises(ValueError, match="config.eval.backend=faiss:Magic: "):
    approximate.search_approximate_top_k(
      QUERIES, RECORDS, K, GALLERIES, "faiss:Magic"
    )


def test_without_the_extra_it_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, "faiss", None)
  with pytest.raises(ValueError, match=r"needs faiss: .*ctd_jax\[ann\]"):
    approximate.search_approximate_top_k(
      QUERIES, RECORDS, K, GALLERIES, "faiss:Flat"
    )
