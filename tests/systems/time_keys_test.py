"""The metadata oracle: every record of the month first, whatever it says."""

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.chronology.reigns import Interval
from ctd_jax.evaluation import protocol
from ctd_jax.retrieval import date_lookup
from ctd_jax.systems import registry
from tests import synthetic

BENCHMARK = synthetic.benchmark()
QUERIES = BENCHMARK.queries["test"]
KEYS = [record.key for record in BENCHMARK.records]


def test_records_of_the_month_come_first_whatever_they_say():
  silent = ["無" for _ in KEYS]
  found = date_lookup.rank_by_dates(
    [query.text for query in QUERIES],
    silent,
    [Interval.single_month(key) for key in KEYS],
    BENCHMARK.timeline,
    3,
    {"all": np.ones(len(KEYS), bool)},
  )
  for query, row in zip(QUERIES, found["all"][0], strict=True):
    best = sorted((key in query.interval for key in KEYS), reverse=True)[:3]
    assert [KEYS[i] in query.interval for i in row] == best


def test_without_commentary_it_is_always_right():
  config = synthetic.config()
  config.eval.baselines = ("time_keys",)
  system = registry.make_systems(BENCHMARK, config)["time_keys"]
  found = system.search(
    [query.text for query in QUERIES],
    10,
    protocol.gallery_masks(BENCHMARK.kinds),
  )
  kinds = {record.record_id: record.kind for record in BENCHMARK.records}
  names = [query.query_id for query in QUERIES]
  for run in runs.make_runs(
    "time_keys", system.track, "x", "test", names, BENCHMARK.record_ids, found
  ):
    assert run.track == "T1"
    mode = next(m for m in protocol.MODES.values() if m.gallery == run.gallery)
    table = protocol.evaluate_run(run, QUERIES, kinds, mode)
    if "neg0" in run.gallery:
      assert table.mean_of_family("hit@1") == 1
    assert table.mean_of_family("hit@5") == 1
