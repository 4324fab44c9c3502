"""Works dated by their order: what the systems read, and how well they date."""

import dataclasses

import numpy as np
import pytest

from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.systems import dated_gallery, registry
from tests import synthetic


@pytest.fixture(scope="module")
def benchmark():
  return synthetic.benchmark()


@pytest.fixture(scope="module")
def dated(benchmark):
  return dated_gallery.date_gallery(benchmark, use_labels=True)


def hide_test_records(benchmark):
  """Returns the benchmark with other keys and kinds of held-out records."""
  records = list(benchmark.records)
  for row, split in enumerate(benchmark.record_splits):
    if split != "train":
      records[row] = dataclasses.replace(
        records[row],
        key=records[0].key,
        kind="no_event" if records[row].kind == "no_event" else "neg_comment",
      )
  return dataclasses.replace(benchmark, records=tuple(records))


@pytest.mark.parametrize("use_labels", [True, False])
def test_keys_and_kinds_of_held_out_records_have_no_way_in(
  benchmark, use_labels
):
  rows = np.arange(len(benchmark.records))
  ours, theirs = (
    dated_gallery.date_gallery(each, use_labels)
    for each in (benchmark, hide_test_records(benchmark))
  )
  np.testing.assert_array_equal(
    ours.posterior.log_p(rows), theirs.posterior.log_p(rows)
  )
  np.testing.assert_array_equal(ours.event_log_p, theirs.event_log_p)


def test_strict_dates_read_no_label(benchmark, dated):
  strict = dated_gallery.date_gallery(benchmark, use_labels=False).posterior
  is_train = np.array(benchmark.record_splits) == "train"
  assert (dated.posterior.certain_months[is_train] >= 0).all()
  corpus = corpus_lib.read_corpus(
    [record.text for record in benchmark.records],
    benchmark.timeline,
    is_placeholder=benchmark.kinds == "no_event",
  )
  np.testing.assert_array_equal(strict.certain_months, corpus.placeholder_month)


def test_most_events_between_known_months_are_dated(benchmark, dated):
  rows = np.flatnonzero(
    (benchmark.kinds == "event") & (np.array(benchmark.record_splits) == "test")
  )
  months = np.array(
    [benchmark.timeline.ordinal(benchmark.records[row].key) for row in rows]
  )
  log_p = dated.posterior.log_p(rows)
  np.testing.assert_allclose(np.exp(log_p).sum(1), 1, atol=1e-4)
  assert (log_p.argmax(1) == months).mean() > 0.8


def test_a_work_without_dates_is_of_any_month(benchmark, caplog):
  corpus = corpus_lib.read_corpus(
    ["無事" for _ in benchmark.records], benchmark.timeline
  )
  unknown = np.full(len(corpus), corpus_lib.UNKNOWN)
  posterior = dated_gallery.date_works(benchmark, corpus, unknown)
  log_p = posterior.log_p(np.arange(3))
  np.testing.assert_allclose(log_p, -np.log(len(benchmark.timeline)), atol=1e-4)
  assert "prints a month" in caplog.text


def test_a_question_without_a_date_is_dated_by_its_wording(benchmark):
  config = synthetic.config()
  config.eval.baselines = ("dating-order", "dating-order-strict")
  systems = registry.make_systems(benchmark, config)
  tracks = [system.track for system in systems.values()]
  assert tracks == ["T0+lookup+order", "T0+train+order"]
  event = next(record for record in benchmark.records if record.kind == "event")
  phrase = event.text.partition("，")[2].rstrip("。")
  (log_p,) = systems["dating-order"].log_query_months([f"{phrase}在何時？"])
  months = {
    benchmark.timeline.ordinal(record.key)
    for record in benchmark.records
    if phrase in record.text
  }
  assert int(log_p.argmax()) in months
