"""What date rules read, and the oracle that is given the time keys."""

import dataclasses

import jax
import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import protocol
from ctd_jax.systems import registry
from tests import synthetic

BENCHMARK = synthetic.benchmark()
QUERIES = BENCHMARK.queries["test"]


def test_without_commentary_it_is_always_right_whatever_records_say():
  records = [dataclasses.replace(r, text="無") for r in BENCHMARK.records]
  silent = dataclasses.replace(BENCHMARK, records=tuple(records))
  config = synthetic.config()
  config.eval.baselines = ("time_keys",)
  system = registry.make_systems(silent, config)["time_keys"]
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


def test_rules_read_no_time_keys():
  # Track T0: with the keys of all records the same, nothing changes.
  key = BENCHMARK.records[0].key
  records = [dataclasses.replace(r, key=key) for r in BENCHMARK.records]
  hidden = dataclasses.replace(BENCHMARK, records=tuple(records))
  config = synthetic.config()
  config.eval.baselines = ("rules",)
  found = [
    registry.make_systems(benchmark, config)["rules"].search(
      [query.text for query in QUERIES],
      10,
      protocol.gallery_masks(BENCHMARK.kinds),
    )
    for benchmark in (BENCHMARK, hidden)
  ]
  jax.tree.map(np.testing.assert_array_equal, *found)
