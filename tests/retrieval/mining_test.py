"""Mined negatives: their sources, what is left of a list, how it is drawn."""

import re

import numpy as np
import pytest

from ctd_jax.benchmark import runs
from ctd_jax.retrieval import dense, mining, run_export
from ctd_jax.training import batches, experiment
from ctd_jax.training.checkpoints import CheckpointError
from tests import synthetic

BENCHMARK = synthetic.benchmark()
QUERY = BENCHMARK.queries["train"][4]
ORDINALS = [BENCHMARK.timeline.ordinal(r.key) for r in BENCHMARK.records]
ASKED_MONTH = BENCHMARK.timeline.ordinal(QUERY.interval.start)
# Rows of the month that is asked for, of other train months, of held-out ones.
INSIDE = [row for row, month in enumerate(ORDINALS) if month == ASKED_MONTH]
TRAIN, HELD_OUT = (
  [
    row
    for row, split in enumerate(BENCHMARK.record_splits)
    if (split == "train") == is_train and row not in INSIDE
  ]
  for is_train in (True, False)
)
POSITIVE = BENCHMARK.record_ids.index(QUERY.positives[0])


def make(rows, margin=None, queries=(QUERY.query_id,), count=1):
  """Returns what is left of one ranking, whose scores are 9, 8, 7..."""
  ids = [x if isinstance(x, str) else BENCHMARK.record_ids[x] for x in rows]
  ranking = [(name, 9.0 - rank) for rank, name in enumerate(ids)]
  run = runs.Run(
    "some", "T0", "lexical", "train", "all", dict.fromkeys(queries, ranking)
  )
  return batches.MinedNegatives.make(BENCHMARK, count, run, margin)


@pytest.mark.parametrize(
  ("rows", "margin", "expected"),
  [
    ([*TRAIN[:3]], None, TRAIN[:3]),
    ([TRAIN[0], *INSIDE, HELD_OUT[0], TRAIN[1]], None, TRAIN[:2]),
    # The positive has 7, the record before the last one 6.
    ([*TRAIN[:2], POSITIVE, *TRAIN[2:4]], 0.0, TRAIN[2:4]),
    ([*TRAIN[:2], POSITIVE, *TRAIN[2:4]], 1.5, TRAIN[3:4]),
    ([*TRAIN[:2], POSITIVE, *TRAIN[2:4]], -2.0, TRAIN[:4]),
    # The positive is not listed, and has at most what the last one has.
    ([*TRAIN[:3]], 0.0, TRAIN[2:3]),
  ],
)
def test_what_answers_is_held_out_or_too_close_is_left_out(
  rows, margin, expected
):
  mined = make(rows, margin, count=40)
  drawn = mined.draw(np.array([4]), np.random.default_rng(0))
  assert set(drawn[0].tolist()) == set(expected)
  # A query without a list draws any train record.
  drawn = mined.draw(np.array([0] * 50), np.random.default_rng(0))
  splits = {BENCHMARK.record_splits[row] for row in drawn.reshape(-1)}
  assert splits == {"train"}
  assert len(np.unique(drawn)) > 30


@pytest.mark.parametrize(
  ("rows", "margin", "queries", "message"),
  [
    (
      ["x1", TRAIN[0], "x2"],
      None,
      [QUERY.query_id],
      "2 records are not in syn",
    ),
    (
      [TRAIN[0]],
      None,
      ["q9"],
      "1 queries are not in synthetic/test:1.0.0; the",
    ),
    (
      [TRAIN[0]],
      None,
      [BENCHMARK.queries["test"][0].query_id],
      "no train query of synthetic/test",
    ),
    ([TRAIN[0]], 1.0, [QUERY.query_id], "no negative is left for any query"),
  ],
)
def test_lists_of_something_else_are_refused(rows, margin, queries, message):
  with pytest.raises(ValueError, match=message):
    make(rows, margin, queries)


def test_other_lists_leave_the_order_of_queries_as_it_is():
  planners = [
    batches.BatchPlanner(
      8,
      0,
      batches.Positives.make(BENCHMARK, True),
      batches.NegativeSampler(BENCHMARK, {"near_event": 1}),
      mined,
      np.tile([[3, 4]], (36, 1)),
      np.arange(36),
      np.arange(len(BENCHMARK.records)),
    )
    for mined in (make(TRAIN[:2]), make(TRAIN[2:30], count=3))
  ]
  for number in range(9):
    first, second = (planner.plan(number) for planner in planners)
    np.testing.assert_array_equal(first.queries, second.queries)
    np.testing.assert_array_equal(first.records[:, :2], second.records[:, :2])
    assert second.records.shape == (8, 5)


def test_every_source_ranks_train_records_for_train_queries(
  quick_compile, small_world, tmp_path, trained_config, trained_run
):
  config = trained_config.copy_and_resolve_references()
  run = experiment.assemble_experiment(config, tmp_path / "run")
  ranker = dense.Ranker(run)
  params = run.init_state().model_params
  trained = experiment.assemble_experiment(trained_config, trained_run)
  run_export.export_run(trained, tmp_path / "exported")
  found = {}
  for source in ("bm25", "self", str(trained_run), str(tmp_path / "exported")):
    config.mining.source, config.mining.depth = source, 7
    lists = mining.find_lists(run, ranker, 0, 0, params)
    assert lists.rankings.keys() == {
      query.query_id for query in BENCHMARK.queries["train"]
    }
    assert {len(ranking) for ranking in lists.rankings.values()} == {7}
    mined = batches.MinedNegatives.make(BENCHMARK, 1, lists)
    assert mined.sizes.max() < 8
    found[source] = lists.rankings
  trained_lists = found.pop(str(tmp_path / "exported"))
  assert found[str(trained_run)] == trained_lists
  assert len({repr(rankings) for rankings in found.values()}) == 3
  # A list that was made is a source.
  (path,) = (tmp_path / "run" / "negatives").iterdir()
  config.mining.source = str(path.rename(tmp_path / "lists.trec"))
  assert mining.find_lists(run, ranker, 0, 0, params).rankings == trained_lists
  config.mining.source = str(tmp_path / "nothing.trec")
  with pytest.raises(
    FileNotFoundError, match="^config.mining.source=.*nothing"
  ):
    mining.find_lists(run, ranker, 0, 0, params)
  # The model of step 4 is gone at step 6.
  config.mining.source = "self"
  with pytest.raises(CheckpointError, match=re.escape("mined at step 4 and")):
    mining.find_lists(run, ranker, 6, 4, params)
  run.checkpoints.close()
