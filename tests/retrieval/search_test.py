"""Exact top-k: equal to a full sort, whatever the blocks and the ties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ctd_jax.retrieval import host_search, search

NUM_QUERIES, NUM_RECORDS = 37, 533


def dot(queries, records):
  return queries @ records.T


def tied_vectors():
  """Vectors of -1, 0 and 1: 533 records share a handful of scores."""
  rng = np.random.default_rng(0)
  queries = rng.integers(-1, 2, (NUM_QUERIES, 4)).astype(np.float32)
  records = rng.integers(-1, 2, (NUM_RECORDS, 4)).astype(np.float32)
  return queries, records


def galleries():
  rng = np.random.default_rng(1)
  return {
    "all": np.ones(NUM_RECORDS, bool),
    "third": rng.random(NUM_RECORDS) < 0.3,
    "tail": np.arange(NUM_RECORDS) >= NUM_RECORDS - 3,
    "none": np.zeros(NUM_RECORDS, bool),
  }


def by_full_sort(scores, mask, k):
  """Score descending, then index ascending; -1 where the gallery ends."""
  members = np.flatnonzero(mask)
  result = np.full((len(scores), k), -1)
  for row, line in enumerate(scores):
    order = sorted(members, key=lambda index: (-line[index], index))[:k]
    result[row, : len(order)] = order
  return result


def check(indices, values, scores, mask):
  """Compares what was found with a full sort of the scores."""
  expected = by_full_sort(scores, mask, indices.shape[1])
  np.testing.assert_array_equal(indices, expected)
  picked = np.take_along_axis(scores, np.maximum(expected, 0), axis=1)
  np.testing.assert_array_equal(values, np.where(expected < 0, -np.inf, picked))


@pytest.mark.slow
@pytest.mark.parametrize(
  ("query_block", "record_block"), [(8, 100), (64, 4096), (1, 7), (37, 533)]
)
def test_equals_full_sort_with_ties(query_block, record_block):
  queries, records = tied_vectors()
  found = search.search_top_k(
    queries, records, dot, 10, galleries(), query_block, record_block
  )
  for name, mask in galleries().items():
    check(*found[name], queries @ records.T, mask)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, -1])
def test_records_in_order_of_their_scores(step):
  # Each block beats all before it, or adds nothing.
  records = np.arange(1000, dtype=np.float32)[::step, None]
  mask = {"all": np.ones(1000, bool), "odd": np.arange(1000) % 2 == 1}
  found = search.search_top_k(
    np.ones((3, 1), np.float32), records, dot, 70, mask, record_block=130
  )
  for name, members in mask.items():
    expected = by_full_sort(records.T, members, 70)
    np.testing.assert_array_equal(found[name][0], np.repeat(expected, 3, 0))


@pytest.mark.slow
def test_negative_zero_ties_with_zero():
  records = np.array([[-0.0], [0.0], [-0.0], [0.0]], np.float32)

  def last_column(queries, records):
    return jnp.broadcast_to(records[:, 0], (len(queries), len(records)))

  found = search.search_top_k(
    np.zeros((1, 1)), records, last_column, 4, {"all": np.ones(4, bool)}
  )
  np.testing.assert_array_equal(found["all"][0], [[0, 1, 2, 3]])


@pytest.mark.slow
def test_pytrees_and_bound_parameters_compile_once():
  queries, records = tied_vectors()
  traces = []

  def score(params, queries, records):
    traces.append(None)
    return params * (queries["x"] @ records["x"].T) + records["bias"]

  bias = np.arange(NUM_RECORDS, dtype=np.float32)
  for scale in (1.0, -2.0):
    found = search.search_top_k(
      {"x": queries},
      {"x": records, "bias": bias},
      jax.tree_util.Partial(score, jnp.float32(scale)),
      5,
      galleries(),
      query_block=10,
      record_block=100,
    )
    expected = by_full_sort(
      scale * queries @ records.T + bias, galleries()["third"], 5
    )
    np.testing.assert_array_equal(found["third"][0], expected)
  assert len(traces) == 1


@pytest.mark.slow
def test_block_bounds_what_is_scored_at_once():
  queries, records = tied_vectors()
  shapes = []

  def score(queries, records):
    shapes.append((len(queries), len(records)))
    return queries @ records.T

  search.search_top_k(queries, records, score, 5, galleries(), 8, 100)
  ((num_queries, num_records),) = set(shapes)
  assert num_queries <= 8
  assert 50 < num_records <= 100


@pytest.mark.slow
def test_bad_score_of_a_record_outside_every_gallery_does_not_count():
  queries, records = tied_vectors()
  records[7] = np.nan
  mask = {"some": np.arange(NUM_RECORDS) != 7}
  found = search.search_top_k(queries, records, dot, 9, mask, 8, 5)
  indices, scores = found["some"]
  assert np.all(np.isfinite(scores))
  assert 7 not in indices


@pytest.mark.slow
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_single_score_that_is_not_finite_names_the_query(bad):
  queries, records = tied_vectors()

  def score(queries, records):
    is_bad = (queries[:, :1] == 7) & (records[:, 0] == 7)
    return jnp.where(is_bad, bad, queries @ records.T)

  queries[20, 0] = records[300, 0] = 7
  with pytest.raises(ValueError, match="query 20"):
    search.search_top_k(queries, records, score, 5, galleries())


def test_mask_of_wrong_shape_is_refused():
  queries, records = tied_vectors()
  with pytest.raises(ValueError, match=r"gallery 'x'.*\(533,\).*\(3,\)"):
    search.search_top_k(queries, records, dot, 5, {"x": np.ones(3, bool)})


def test_topk_rows_equals_full_sort():
  queries, records = tied_vectors()
  scores = queries @ records.T
  for k in (1, 10, NUM_RECORDS + 3):
    found = host_search.select_top_k(scores, k)
    check(*found, scores, np.ones(NUM_RECORDS, bool))


def test_topk_by_gallery_maps_back_to_all_records():
  queries, records = tied_vectors()
  scores = queries @ records.T
  found = host_search.search_top_k_by_gallery(
    lambda members: lambda start, stop: scores[start:stop, members],
    NUM_QUERIES,
    NUM_RECORDS,
    10,
    galleries(),
    query_block=5,
  )
  for name, mask in galleries().items():
    check(*found[name], scores, mask)
