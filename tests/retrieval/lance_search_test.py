"""Lance tables behind the interface of the exact search."""

import sys

import numpy as np
import pytest

from ctd_jax.retrieval import approximate, lance_tables
from tests.retrieval import clustered_vectors
from tests.retrieval.clustered_vectors import GALLERIES, QUERIES, RECORDS, K


@pytest.fixture(scope="module")
def exact():
  return clustered_vectors.search_exactly()


@pytest.mark.beam
@pytest.mark.parametrize("kind", ["FLAT", "IVF_PQ"])  # too few for an index
def test_vectors_that_are_all_compared_give_the_same_lists(
  exact, kind, tmp_path
):
  results = approximate.search_approximate_top_k(
    *(QUERIES, RECORDS, K, GALLERIES, f"lance:{kind}", tmp_path / "vectors")
  )
  for name, (indices, scores) in exact.items():
    np.testing.assert_array_equal(results[name][0], indices)
    np.testing.assert_allclose(results[name][1], scores, rtol=1e-5, atol=1e-6)
  assert (results["three"][0][:, 3:] == -1).all()
  assert not list((tmp_path / "vectors").iterdir())  # nothing is left behind


@pytest.mark.beam
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"])
def test_an_index_finds_many(exact, kind, monkeypatch, tmp_path):
  monkeypatch.setattr(lance_tables, "MIN_INDEXED_ROWS", 1000)
  monkeypatch.setattr(lance_tables, "_ROWS_OF_LIST", 400)
  results = approximate.search_approximate_top_k(
    *(QUERIES, RECORDS, K, GALLERIES, f"lance:{kind}", tmp_path)
  )
  same = {}
  for name, (indices, scores) in results.items():
    assert GALLERIES[name][indices[indices >= 0]].all()
    assert (scores[:, :-1] >= scores[:, 1:]).all()
    same[name] = np.mean(
      [
        len(np.intersect1d(one[one >= 0], other)) / np.sum(other >= 0)
        for one, other in zip(indices, exact[name][0], strict=True)
      ]
    )
  assert 0.2 < same["all"] < 1  # one list of ten is read
  assert same["three"] == 1  # lists are read until they are found


@pytest.mark.beam
def test_records_that_are_not_finite_are_refused(tmp_path):
  broken = RECORDS.copy()
  broken[9, 2] = np.nan
  with pytest.raises(ValueError, match="record 9 has a vector .* not finite"):
    approximate.search_approximate_top_k(
      QUERIES, broken, K, GALLERIES, "lance:FLAT", tmp_path
    )
  assert not list(tmp_path.iterdir())


def test_without_the_extra_it_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, "lancedb", None)
  with pytest.raises(
    ValueError, match=r"eval.backend=lance:IVF_PQ needs lancedb: .*\[lance\]"
  ):
    approximate.validate_backend("lance:IVF_PQ", "semantic", "vectors")


def test_an_index_that_there_is_not_is_named():
  with pytest.raises(ValueError, match="lance:IVF_XY: there are FLAT, IVF_"):
    approximate.validate_backend("lance:IVF_XY", "semantic", "vectors")


def test_an_index_on_disk_needs_a_folder(monkeypatch):
  monkeypatch.setattr(lance_tables, "import_lancedb", lambda needed_by: None)
  with pytest.raises(ValueError, match="with --config.eval.vectors_dir"):
    approximate.validate_backend("lance:FLAT", "semantic", None)
