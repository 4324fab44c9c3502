"""Figures on variants of a data set: gathered, averaged, written."""

import json

import pytest

from ctd_jax.evaluation import results
from ctd_jax.experiments import trust

DATASET = "chunqiutr/mini"


def write(folder, value):
  rows = [
    results.ResultRow(
      *(DATASET, "rules", "T0", "x", "test", mode, family, "hit@1", value)
    )
    for mode, family in trust.QUESTIONS.values()
  ]
  results.write_result_rows(folder / "evaluation" / "d" / "results.json", rows)


def test_means_over_splits_stand_beside_the_published_one(tmp_path):
  for name, value in {"published": 0.9, "split1": 0.4, "split2": 0.6}.items():
    write(tmp_path / name, value)
  trust.run_variants(tmp_path, DATASET, ["split1", "split2"], "no.module", [])
  printed = trust.check_splits(tmp_path, DATASET, 2, None)
  assert "published" in printed
  rows = results.read_result_rows(tmp_path / "splits.json")
  values = {r.mode: r for r in results.select_rows(rows, family="official")}
  assert {name: row.value for name, row in values.items()} == pytest.approx(
    {
      "published": 0.9,
      "mean": 0.5,
      "sd": 0.1414,
      "lowest": 0.4,
      "highest": 0.6,
    },
    abs=1e-4,
  )
  # Of two values the interval by Student is wide: 12.7 standard errors.
  assert values["mean"].high - 0.5 == pytest.approx(12.706 * 0.1, abs=1e-3)


def test_the_audit_has_a_column_for_each_variant(tmp_path):
  names = ("published", *trust.variants.AUDITS)
  for number, name in enumerate(names):
    write(tmp_path / name, number / 10)
  trust.check_leaks(tmp_path, DATASET, None)
  rows = json.loads((tmp_path / "audit.json").read_text())
  shown = {r["mode"]: r["value"] for r in rows if r["family"] == "only_events"}
  assert list(shown) == list(names)
