import collections
import dataclasses

import jax
import numpy as np
import pytest

from ctd_jax.chronology.timelines import Interval, TimeKey
from ctd_jax.training import input_pipeline, negatives
from tests import synthetic

BENCHMARK = synthetic.benchmark()
TIMELINE = synthetic.TIMELINE


def batches(config=None, benchmark=BENCHMARK):
  config = config or synthetic.config()
  tokenizer = input_pipeline.build_tokenizer(benchmark)
  return input_pipeline.training_batches(
    benchmark,
    input_pipeline.tokenize_texts(
      tokenizer, [q.text for q in benchmark.queries["train"]], 16
    ),
    input_pipeline.tokenize_texts(
      tokenizer, [r.text for r in benchmark.records], 24
    ),
    batch_size=config.batch_size,
    seed=config.seed,
    negatives=config.negatives.to_dict(),
    balance_kinds=config.balance_positive_kinds,
    packs=1,
    width=24,
  )


def test_calendar_targets_of_a_month_are_one_hot():
  month = Interval.single_month(TimeKey(2, 1, 5))
  reign, year, month = input_pipeline.calendar_targets(month, TIMELINE)
  np.testing.assert_array_equal(reign, [0, 1])
  np.testing.assert_array_equal(year, [1, 0])
  assert month[4] == 1
  assert month.sum() == 1


def test_calendar_targets_of_a_window_are_its_marginals():
  window = Interval(TimeKey(1, 2, 11), TimeKey(2, 1, 2))
  reign, year, month = input_pipeline.calendar_targets(window, TIMELINE)
  np.testing.assert_allclose(reign, [0.5, 0.5])
  np.testing.assert_allclose(year, [0.5, 0.5])
  np.testing.assert_allclose(month[[0, 1, 10, 11]], 0.25)
  np.testing.assert_allclose(month.sum(), 1.0, rtol=1e-6)


def test_an_epoch_asks_every_query_once():
  config = synthetic.config()
  config.batch_size = 9
  iterator = batches(config)
  per_epoch = len(BENCHMARK.queries["train"]) // 9
  for _ in range(2):
    months = collections.Counter(
      int(end)
      for _ in range(per_epoch)
      for end in next(iterator)["query_ends"][:, 0]
    )
    assert set(months.values()) == {1}
    assert len(months) == 36


def test_an_iterator_restored_goes_on_as_it_would_have():
  iterator = batches()
  for _ in range(3):
    next(iterator)
  state = iterator.get_state()
  expected = [next(iterator) for _ in range(4)]
  other = batches()
  other.set_state(state)
  for batch in expected:
    again = next(other)
    jax.tree.map(np.testing.assert_array_equal, again, batch)


def test_positives_lie_in_the_interval_and_negatives_in_train():
  config = synthetic.config()
  config.negatives.near_event = 1
  config.negatives.any_comment = 1
  train = {
    TIMELINE.ordinal(r.key)
    for r, split in zip(BENCHMARK.records, BENCHMARK.record_splits, strict=True)
    if split == "train"
  }
  iterator = batches(config)
  for _ in range(10):
    batch = next(iterator)
    ends = batch["query_ends"]
    assert (ends[:, 0] <= batch["positive_month"]).all()
    assert (batch["positive_month"] <= ends[:, 1]).all()
    assert set(batch["negative_month"].tolist()) <= train
    assert batch["texts"].slots.shape == (1, 8 * 6)
    # Types in the order of the config: comments cannot answer, others can.
    answers = batch["negative_answers"].reshape(8, 4)
    np.testing.assert_array_equal(
      answers, [[False, True, True, False]] * len(answers)
    )


def test_near_negatives_are_near():
  sampler = negatives.NegativeSampler(BENCHMARK, {"near_placeholder": 1})
  rng = np.random.default_rng(0)
  month = TIMELINE.ordinal(TimeKey(1, 2, 6))
  offsets = collections.Counter()
  for _ in range(200):
    (row,) = sampler.draw_negatives((month, month), rng)
    record = BENCHMARK.records[row]
    assert record.kind == "no_event"
    offsets[abs(TIMELINE.ordinal(record.key) - month)] += 1
  # A few draws find no placeholder near by and take any.
  near = sum(offsets[offset] for offset in (2, 12, 24))
  assert near >= 190
  assert offsets[2]
  assert offsets[12]


def test_released_negatives_have_the_shares_of_sixteen_candidates():
  sampler = negatives.NegativeSampler(BENCHMARK, {"release_comment": 1})
  month = BENCHMARK.timeline.ordinal
  comments = {
    row: month(record.key)
    for row, record in enumerate(BENCHMARK.records)
    if record.kind == "neg_comment" and BENCHMARK.record_splits[row] == "train"
  }
  start = min(comments.values())
  near = [row for row, at in comments.items() if start <= at <= start + 5]
  assert 1 < len(near) < 16 < len(comments)
  rng = np.random.default_rng(0)
  drawn = [
    int(sampler.draw_negatives((start, start + 5), rng)[0]) for _ in range(4000)
  ]
  assert set(drawn) == set(comments)
  share = np.mean(np.isin(drawn, near))
  np.testing.assert_allclose(share, len(near) / 16, atol=0.03)
  # A window with more than sixteen has no other candidates.
  whole = (start, max(comments.values()))
  drawn = [int(sampler.draw_negatives(whole, rng)[0]) for _ in range(400)]
  assert set(drawn) == set(comments)


def test_the_tokenizer_has_not_seen_held_out_text():
  records = tuple(
    dataclasses.replace(record, text=record.text + "鄢")
    if split != "train"
    else dataclasses.replace(record, text=record.text + "蔑")
    for record, split in zip(
      BENCHMARK.records, BENCHMARK.record_splits, strict=True
    )
  )
  queries = {
    split: tuple(
      dataclasses.replace(query, text=query.text + mark) for query in items
    )
    for (split, items), mark in zip(
      BENCHMARK.queries.items(), "咺賵眛", strict=True
    )
  }
  tokenizer = input_pipeline.build_tokenizer(
    dataclasses.replace(BENCHMARK, records=records, queries=queries)
  )
  for character, known in zip("蔑咺鄢賵眛", (1, 1, 0, 0, 0), strict=True):
    ids, _ = tokenizer.encode([character], 4)
    assert (tokenizer.unk_id in ids[0]) != known


@pytest.mark.parametrize("size", [1, 7, 16])
def test_padded_batches_keep_every_row_once(size):
  tokens = input_pipeline.Tokens(
    np.arange(20, dtype=np.int32)[:, None],
    np.ones((20, 1), np.int32),
    np.ones(20, np.int32),
  )
  rows = []
  for batch, count in input_pipeline.padded_batches(tokens, size):
    assert batch.ids.shape == (size, 1)
    rows += batch.ids[:count, 0].tolist()
  assert rows == list(range(20))
