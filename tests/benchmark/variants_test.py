"""Variants of a benchmark: other splits, and what audits leave."""

import dataclasses

import pytest

from ctd_jax.benchmark import variants
from ctd_jax.chronology import reigns
from ctd_jax_datasets.chunqiutr import mini
from tests import synthetic


@pytest.fixture(scope="module")
def chronicle():
  """Events and commentary of the invented chronicle, asked about nothing."""
  timeline = reigns.load_timeline("mini")
  split_of = mini.make_splits()
  records = tuple(
    dataclasses.replace(record, record_id=f"r{row:05d}")
    for row, record in enumerate(mini.generate_records(0))
  )
  return dataclasses.replace(
    synthetic.benchmark(),
    timeline=timeline,
    records=records,
    record_splits=tuple(split_of[record.key] for record in records),
  )


def test_another_split_has_blocks_of_the_same_size_in_every_reign(chronicle):
  drawn = [variants.make_variant(chronicle, f"split{i}") for i in (1, 2, 1)]
  assert drawn[0].name == "synthetic/test+split1:1.0.0"
  assert drawn[0] == drawn[2] != drawn[1]
  published = dict(
    zip(chronicle.record_ids, chronicle.record_splits, strict=True)
  )
  for other in drawn[:2]:
    years = {}
    for record, split in zip(other.records, other.record_splits, strict=True):
      years.setdefault(record.key.reign, {})[record.key.year] = split
      if split == "test":  # nobody chose constants on its years
        assert published[record.record_id] == "train"
    for of_reign in years.values():
      for held_out in ("validation", "test"):
        block = [year for year, split in of_reign.items() if split == held_out]
        assert max(block) - min(block) + 1 == len(set(block))
    assert other.records == chronicle.records
    for split, queries in other.queries.items():
      splits = dict(zip(other.record_ids, other.record_splits, strict=True))
      found = {splits[name] for query in queries for name in query.positives}
      assert found == {split}


def test_a_split_needs_all_three():
  benchmark = synthetic.benchmark()
  all_train = ("train",) * len(benchmark.records)
  with pytest.raises(ValueError, match="has no test months to draw again"):
    variants.make_variant(
      dataclasses.replace(benchmark, record_splits=all_train), "split1"
    )


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("chunqiutr/mini+split12", ("chunqiutr/mini", "split12")),
    ("beir:/data/a+b+undated", ("beir:/data/a+b", "undated")),
    ("beir:/data/a+b", ("beir:/data/a+b", "")),
    ("chunqiutr/mini+split0", ("chunqiutr/mini+split0", "")),
  ],
)
def test_names_of_variants(name, expected):
  assert variants.parse_name(name) == expected


@pytest.mark.parametrize("name", variants.AUDITS)
def test_an_audit_changes_what_is_read_and_not_what_is_asked(name):
  benchmark = synthetic.benchmark()
  other = variants.make_variant(benchmark, name)
  texts = {record.record_id: record.text for record in benchmark.records}
  changed = {record.record_id: record.text for record in other.records}
  # What answers a question is told by its text, as ids may be other ones.
  for before, after in zip(
    benchmark.queries["test"], other.queries["test"], strict=True
  ):
    assert before.text == after.text
    if name in ("hidden", "permuted"):
      assert [*map(texts.get, before.positives)] == [
        *map(changed.get, after.positives)
      ]
  pairs = list(zip(benchmark.records, other.records, strict=True))
  if name == "hidden":
    assert sorted(texts.values()) == sorted(changed.values())
    assert [r.record_id for r in other.records] == sorted(changed)
    assert texts != changed
  elif name == "permuted":
    moved = [a for a, b in pairs if a.key != b.key]
    assert moved
    assert {a.kind for a in moved} == {"event", "neg_comment"}
    assert {synthetic.split_of(a.key) for a in moved} == {"train"}
  else:
    edited = {
      (a.kind, synthetic.split_of(a.key)) for a, b in pairs if a.text != b.text
    }
    held_out = {("event", "test")}
    assert (
      edited
      == {
        "undated": held_out,
        "silent": held_out,
        "alone": {
          (kind, split)
          for kind in ("event", "neg_comment")
          for split in ("train", "validation")
        },
      }[name]
    )
  if name == "undated":
    assert {b.text for a, b in pairs if a.text != b.text} <= {
      f"{state}人來盟。" for state in "齊宋衛陳"
    }
