"""Hostile files meet the reader of the authors' release.

The files here are those of `release_files`, cut to three years, with values
replaced, moved, renamed and repeated, or their bytes damaged. What comes of
them is a `SourceError` that names the file, in one line, or a benchmark that
holds together. For a long run see `fuzz_test`.
"""

import copy
import dataclasses
import itertools
import json

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from ctd_jax.chronology.reigns import Timeline
from ctd_jax.evaluation import protocol
from ctd_jax_datasets.chunqiutr import release, release_months, release_writer
from ctd_jax_datasets.common.source_files import SourceError
from tests.chronology.hostile_text import damaged, fuzz, pieces
from tests.data.chunqiutr import release_files
from tests.data.common.hostile_json import mangled

YEARS = 3
TIMELINE = Timeline(
  "three_years",
  (dataclasses.replace(release_files.TIMELINE.reigns[0], years=YEARS),),
)


def small():
  """The clean files, without what is outside the three years."""
  documents = release_files.clean()
  nodes = documents[release_months.MONTHS_FILE]["time_mapping"]
  for name, node in list(nodes.items()):
    if node["sort_key"][0] > 1 or node["sort_key"][1] > YEARS:
      del nodes[name]
  listed = documents[release_months.SPLITS_FILE]["split_by_sort_key"]
  months = {str(key) for key in TIMELINE.months}
  for name in listed.keys() - months:
    del listed[name]
  documents[release_months.QUERIES_FILE] = [
    row
    for row in documents[release_months.QUERIES_FILE]
    if all(
      key[0] == 1 and key[1] <= YEARS
      for key in row.get("target_sort_keys", [row.get("sort_key")])
    )
  ]
  return documents


SMALL = small()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp("release")


def as_text(value, name):
  """A value as the content of that file: JSON, or lines of JSON."""
  if name == release_months.QUERIES_FILE and isinstance(value, list):
    return "\n".join(map(json.dumps, value))
  return json.dumps(value)


TEXTS = {name: as_text(value, name) for name, value in SMALL.items()}


def read(folder, name, content):
  """The benchmark with another content of one file, None if it is refused."""
  paths = release_files.write(folder, {**TEXTS, name: content})
  refused = None
  try:
    found = release.read_release(paths, TIMELINE)
  except SourceError as error:
    refused = str(error)
  event("refused" if refused else "read")
  if refused is None:
    check(found)
    return found
  assert "\n" not in refused
  assert any(refused.startswith(f"{path}:") for path in paths.values())
  return None


def check(found):
  """A benchmark holds together, whatever its notes say."""
  by_id = {record.record_id: record for record in found.records}
  assert len(by_id) == len(found.records)
  assert all(record.key in TIMELINE for record in found.records)
  assert all(0 <= record.match_score <= 1 for record in found.records)
  assert list(found.split_of) == list(TIMELINE.months)
  asked = list(itertools.chain.from_iterable(found.queries.values()))
  kinds = {record_id: record.kind for record_id, record in by_id.items()}
  assert len({query.query_id for query in asked}) == len(asked)
  for query in asked:
    assert query.positives
    assert query.positives == tuple(sorted(set(query.positives)))
    assert set(query.positives) <= by_id.keys()
    TIMELINE.interval_ordinals(query.interval)
    assert protocol.families_of(query, kinds)
    assert len(query.query_id.split()) == 1
  told = found.notes.to_json()
  json.dumps(told, allow_nan=False)
  assert found.notes.format_table()
  # What is left out is said.
  for finding in told["findings"]:
    assert finding["count"]
    assert finding["examples"]
    assert not any("\n" in example for example in finding["examples"])


@pytest.mark.slow
@fuzz
@given(st.data(), st.sampled_from(list(SMALL)))
def test_mangled_values(folder, data, name):
  document = data.draw(mangled(lambda: copy.deepcopy(SMALL[name])))
  read(folder, name, as_text(document.value, name))


json_marks = st.sampled_from(
  (*'{}[],:"\\ \n\r\t0-\ufeff', "\\u12", "\\ud800", "null", "NaN", "1e9")
)


@pytest.mark.slow
@fuzz
@given(st.data(), st.sampled_from(list(SMALL)))
def test_damaged_text(folder, data, name):
  text = data.draw(damaged(st.just(TEXTS[name]), json_marks | pieces))
  content = text.encode()
  if data.draw(st.integers(0, 9)) == 0:
    content = content[: data.draw(st.integers(0, len(content)))]
  read(folder, name, content)


@pytest.mark.slow
@fuzz
@given(st.data(), st.sampled_from(list(SMALL)))
def test_what_can_be_read_can_be_written_and_read_again(folder, data, name):
  document = data.draw(mangled(lambda: copy.deepcopy(SMALL[name])))
  found = read(folder, name, as_text(document.value, name))
  if found is None:
    return
  try:
    paths = release_writer.write_release(
      folder / "again", found.records, found.queries, found.split_of, TIMELINE
    )
  except ValueError:
    return
  again = release.read_release(paths, TIMELINE)
  assert again.split_of == found.split_of
  assert described(again) == described(found)


def described(found):
  """The benchmark but for what the writer says that it does not keep."""
  texts = {
    r.record_id: (r.text, r.source, r.kind, r.key, r.match_score)
    for r in found.records
  }
  asked = {
    query.query_id: dataclasses.asdict(query)
    | {"positives": sorted(texts[name] for name in query.positives)}
    for queries in found.queries.values()
    for query in queries
  }
  return sorted(texts.values()), asked
