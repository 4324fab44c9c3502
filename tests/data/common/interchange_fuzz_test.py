"""Hostile files meet the readers of BEIR folders and of 資治通鑑's rows.

As in `release_fuzz_test`: what comes of them is a named error in one line, or
a benchmark that holds together. For a long run see `fuzz_test`.
"""

import json
import pathlib

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from ctd_jax.chronology import reigns
from ctd_jax.evaluation import protocol
from ctd_jax_datasets.common.source_files import FolderError, SourceError
from ctd_jax_datasets.zztj import released
from tests.chronology.hostile_text import damaged, fuzz, pieces
from tests.data.common import beir_files
from tests.data.common.hostile_json import mangled

ROWS = {
  subset: (
    pathlib.Path(released.__file__)
    .with_name("dummy_data")
    .joinpath(name)
    .read_text(encoding="utf-8")
  )
  for subset, name in released.FILE_BY_SUBSET.items()
}
TONGJIAN = reigns.load_timeline("tongjian")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return beir_files.write(tmp_path_factory.mktemp("beir") / "liang")


def refusal(error):
  """Says that the reader refused, and checks how it says so."""
  event("refused")
  assert "\n" not in str(error)
  assert len(str(error)) < 1000


def hostile_lines(data, text):
  """A file of JSON lines: its values mangled, or its text damaged."""
  if data.draw(st.integers(0, 3)) == 0:
    return data.draw(damaged(st.just(text), pieces))
  rows = data.draw(
    mangled(lambda: [json.loads(line) for line in text.splitlines() if line])
  ).value
  if not isinstance(rows, list):
    return json.dumps(rows)
  return "\n".join(map(json.dumps, rows))


# What may stand in the metadata besides the key.
MORE = {
  "corpus.jsonl": {"kind": "event", "match_score": 1.0, "order": 3},
  "queries.jsonl": {"family": "", "paper_family": "", "group": "G"},
}


@pytest.mark.slow
@fuzz
@given(st.data(), st.sampled_from(list(MORE)))
def test_folders_of_somebody_else(folder, data, name):
  path = folder / name
  right = path.read_text(encoding="utf-8")
  rows = [json.loads(line) for line in right.splitlines()]
  for row in rows:
    row["metadata"] |= MORE[name]
  path.write_bytes(hostile_lines(data, beir_files.lines(rows)).encode())
  found = None
  try:
    found = beir_files.read(folder)
  except FolderError as error:
    refusal(error)
  finally:
    path.write_text(right, encoding="utf-8")
  if found is None:
    return
  event("read")
  ids = set(found.record_ids)
  kinds = {record.record_id: record.kind for record in found.records}
  assert len(ids) == len(found.records)
  assert all(record.key in found.timeline for record in found.records)
  assert all(0 <= record.match_score <= 1 for record in found.records)
  for asked in found.queries.values():
    for query in asked:
      assert set(query.positives) <= ids
      found.timeline.interval_ordinals(query.interval)
      assert protocol.families_of(query, kinds)


@pytest.mark.slow
@fuzz
@given(st.data(), st.sampled_from(released.SUBSETS))
def test_rows_of_the_demonstration_files(tmp_path_factory, data, subset):
  path = tmp_path_factory.getbasetemp() / "rows.jsonl"
  path.write_bytes(hostile_lines(data, ROWS[subset]).encode())
  mode = data.draw(st.sampled_from(released.MODES))
  found = None
  try:
    found = released.read_demo(path, subset, mode, data.draw(st.booleans()))
  except SourceError as error:
    refusal(error)
  if found is None:
    return
  event("read")
  ids = {record.record_id for record in found.records}
  assert len(ids) == len(found.records) == len(found.intervals)
  for interval in found.intervals.values():
    TONGJIAN.interval_ordinals(interval)
  answered = [name for query in found.queries for name in query.positives]
  assert sorted(answered) == sorted(ids)
  json.dumps(found.notes.to_json(), allow_nan=False)
