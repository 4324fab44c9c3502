import collections
import contextlib
import dataclasses
import time

import jax
import numpy as np
import pytest

from ctd_jax.chronology.reigns import Interval, TimeKey
from ctd_jax.models import packing
from ctd_jax.training import batches as batches_lib
from ctd_jax.training import input_pipeline
from ctd_jax.training import packing as packing_lib
from tests import synthetic
from tests.training import synthetic_run

BENCHMARK = synthetic.benchmark()
TIMELINE = synthetic.TIMELINE


def batches(config=None, benchmark=BENCHMARK, place=None, **options):
  config = config or synthetic.config()
  _, *tokens = synthetic_run.tokenize(benchmark, 16, 24)
  return input_pipeline.training_batches(
    benchmark,
    *tokens,
    dataclasses.replace(
      input_pipeline.BatchSettings.from_config(config, 1, [24]), **options
    ),
    place,
  )


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


@pytest.mark.parametrize(
  "workers", [0, pytest.param(2, marks=pytest.mark.slow)]
)
def test_an_iterator_restored_goes_on_as_it_would_have(workers):
  iterator = batches()
  for _ in range(3):
    next(iterator)
  state = iterator.get_state()
  expected = [next(iterator) for _ in range(4)]
  with contextlib.closing(batches(workers=workers)) as other:
    next(other)  # which reads ahead
    other.set_state(state)
    for number, batch in enumerate(expected):
      again = next(other)
      jax.tree.map(np.testing.assert_array_equal, again, batch)
      assert other.get_state() == {"next_index": 4 + number, "order": 1}
  # And back again, from the middle of what was read.
  iterator.set_state({"next_index": 5, "order": 1})
  jax.tree.map(np.testing.assert_array_equal, next(iterator), expected[2])


def test_batches_put_on_devices_ahead_do_not_count():
  placed = []

  def place(batch):
    placed.append(batch)
    return batch["positive_month"] + 1000

  iterator = batches(place=place)
  first = next(iterator)
  while len(placed) < 2:  # the next one is put there without being asked for
    time.sleep(0.01)
  assert iterator.get_state() == {"next_index": 1, "order": 1}
  plain = batches()
  np.testing.assert_array_equal(first, next(plain)["positive_month"] + 1000)
  iterator.set_state(iterator.get_state())
  np.testing.assert_array_equal(
    next(iterator), next(plain)["positive_month"] + 1000
  )
  iterator.close()


@pytest.mark.parametrize("unit_texts", [256, 20, 10])
@pytest.mark.parametrize("processes", [2, 4])
def test_shares_make_the_batch_of_one_process(
  processes, unit_texts, monkeypatch
):
  # 40 texts in 4 packs: in one unit of them, in two, and in four.
  monkeypatch.setattr(packing_lib, "_UNIT_TEXTS", unit_texts)
  assert packing_lib.count_unit_packs(40, 4) == min(4, unit_texts // 10)
  whole = batches(packs=4)
  parts = [
    batches(packs=4, share=input_pipeline.Share(index, processes))
    for index in range(processes)
  ]
  for _ in range(6):
    expected = next(whole)
    found = jax.tree.map(
      lambda *shares: np.concatenate(shares), *map(next, parts)
    )
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_a_process_reads_no_text_of_others(monkeypatch):
  reads = []
  copy_texts = packing_lib.TokenStore.copy_texts

  def count_and_copy(store, texts, cells, target):
    reads.append(len(texts))
    copy_texts(store, texts, cells, target)

  monkeypatch.setattr(packing_lib.TokenStore, "copy_texts", count_and_copy)
  counts = []
  for index in range(4):
    iterator = batches(packs=4, share=input_pipeline.Share(index, 4))
    reads.clear()
    texts = iterator._reader.map(0)["texts"]
    # As many as have a place in its pack.
    no_slot = texts.ids.shape[1] * packing.slots_per_row(24)
    assert sum(reads) == (texts.slots < no_slot).sum()
    counts.append(sum(reads))
  assert sum(counts) == 8 * 5
  assert max(counts) < 8 * 5 / 2


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
  sampler = batches_lib.NegativeSampler(BENCHMARK, {"near_placeholder": 1})
  rng = np.random.default_rng(0)
  month = TIMELINE.ordinal(TimeKey(1, 2, 6))
  offsets = collections.Counter()
  ends = np.full((200, 2), month)
  for (row,) in sampler.draw_negatives(ends, rng):
    record = BENCHMARK.records[row]
    assert record.kind == "no_event"
    offsets[abs(TIMELINE.ordinal(record.key) - month)] += 1
  # A few draws find no placeholder near by and take any.
  near = sum(offsets[offset] for offset in (2, 12, 24))
  assert near >= 190
  assert offsets[2]
  assert offsets[12]


def test_released_negatives_have_the_shares_of_sixteen_candidates():
  sampler = batches_lib.NegativeSampler(BENCHMARK, {"release_comment": 1})
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
  window = np.tile([start, start + 5], (4000, 1))
  drawn = sampler.draw_negatives(window, rng)[:, 0].tolist()
  assert set(drawn) == set(comments)
  share = np.mean(np.isin(drawn, near))
  np.testing.assert_allclose(share, len(near) / 16, atol=0.03)
  # A window with more than sixteen has no other candidates.
  whole = np.tile([start, max(comments.values())], (400, 1))
  drawn = sampler.draw_negatives(whole, rng)[:, 0].tolist()
  assert set(drawn) == set(comments)


def test_a_month_that_is_not_there_has_no_negatives():
  # Both ends of the timeline: months before and behind it are drawn, too.
  sampler = batches_lib.NegativeSampler(BENCHMARK, {"near_event": 1})
  last = len(TIMELINE.months) - 1
  ends = np.repeat([[0, 0], [last, last], [0, last]], 300, axis=0)
  drawn = sampler.draw_negatives(ends, np.random.default_rng(0))[:, 0]
  months = [TIMELINE.ordinal(BENCHMARK.records[row].key) for row in drawn]
  assert {BENCHMARK.records[row].kind for row in drawn} == {"event"}
  # Nothing lies outside of all months, so that any event is taken.
  assert len(set(months[600:])) > 10
  assert set(months[:300]) >= {2, 12, 24}


def test_positives_are_drawn_by_kind_first():
  # A window of one event month and many placeholders.
  query = BENCHMARK.queries["train"][0]
  events = [r.record_id for r in BENCHMARK.records if r.kind == "event"][:1]
  others = [r.record_id for r in BENCHMARK.records if r.kind == "no_event"][:9]
  benchmark = dataclasses.replace(
    BENCHMARK,
    queries={
      "train": (
        query,
        dataclasses.replace(query, positives=(*events, *others)),
      )
    },
  )
  event = benchmark.record_ids.index(events[0])
  asked = np.ones(4000, np.int64)
  for balance, share in ((True, 0.5), (False, 0.1)):
    positives = batches_lib.Positives.make(benchmark, balance)
    drawn = positives.draw(asked, np.random.default_rng(0))
    np.testing.assert_allclose(np.mean(drawn == event), share, atol=0.03)
    assert {benchmark.record_ids[row] for row in drawn} == {*events, *others}


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
