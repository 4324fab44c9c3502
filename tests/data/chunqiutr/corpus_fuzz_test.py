"""Damaged editions meet the whole of the rebuilding, commentary included.

One file of `edition_files` is damaged, or replaced by marks that no editor
set, and the gallery built from all of them. What comes of it is a
`SourceError` that names a file, or a gallery that holds together. For a long
run see `fuzz_test`.
"""

import dataclasses
import json

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from ctd_jax.benchmark.benchmark import NO_EVENT, collect_months
from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import Timeline
from ctd_jax_datasets.chunqiutr import gallery
from ctd_jax_datasets.common.source_files import SourceError
from tests.chronology.hostile_text import damaged, fuzz, joined, pieces
from tests.data.chunqiutr import edition_files

# Three years, so that not every case fills 3,036 months.
TIMELINE = Timeline(
  "three_years",
  (dataclasses.replace(reigns.load_timeline("lu").reigns[0], years=3),),
)
marks = st.sampled_from(
  (
    *("A1.1.1", "A1.1.2", "A1.9.1", "B1.1.1", "B", "A13.1.1", "1.1.2"),
    *("《隱公元年經》", "** 1 隱公", "#", "¶", "¶\n", "\n", "\n\n", "<pb:"),
    *(">", "音義", *"()/○〇【】疏注經傳□"),
    *("正義曰", "注正義曰", "左傳", "元年", "二年", "三月", "A1.1", "□"),
    *("隱公", "桓公", "云", "曰", "傳曰", "也", "反", "切"),
  )
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
  return edition_files.write_sources(tmp_path_factory.mktemp("editions"))


@pytest.mark.slow
@fuzz
@given(st.data(), st.sampled_from(list(edition_files.FILES)))
def test_a_gallery_of_damaged_editions_holds_together(paths, data, name):
  right = edition_files.FILES[name]
  text = data.draw(
    damaged(st.just(right), marks | pieces, most=8) | joined(marks | pieces)
  )
  paths[name].write_bytes(text.encode())
  refused = built = None
  try:
    built = gallery.build_gallery(paths, TIMELINE)
  except SourceError as error:
    refused = str(error)
  finally:
    paths[name].write_bytes(right.encode())
  event("refused" if refused else "built")
  if refused is not None:
    assert "\n" not in refused
    assert paths[name].name in refused
    return
  assert [record.record_id for record in built.records] == [
    f"r{number:05d}" for number in range(len(built.records))
  ]
  assert all(record.key in TIMELINE for record in built.records)
  assert all(record.text.strip() for record in built.records)
  assert all(0 <= record.match_score <= 1 for record in built.records)
  # Every month has an event or a placeholder, never both.
  events = collect_months(built.records)
  empty = collect_months(built.records, NO_EVENT)
  assert not events & empty
  assert events | empty == set(TIMELINE.months)
  # A version is of one month.
  months = {(r.version, r.key) for r in built.records if r.version}
  assert len({version for version, _ in months}) == len(months)
  json.dumps(built.audit, allow_nan=False)
