"""Dated systems: what they may know, run files like those of all others."""

import dataclasses
import json
import re
import sys

import jax
import numpy as np
import pytest

from ctd_jax.chronology import questions as questions_lib
from ctd_jax.dating import dating_model, query_posterior
from ctd_jax.dating.corpus import UNKNOWN
from ctd_jax.dating.dating_model import DatingModel
from ctd_jax.evaluation import results
from ctd_jax.experiments import evaluation_run
from ctd_jax.systems import dated_gallery, dating_systems, registry
from ctd_jax.training import config as training_config
from ctd_jax.training import transfer
from tests import synthetic
from tests.benchmarks import dating, natural_questions

MODEL = DatingModel.without(["neural"])


@pytest.fixture(scope="module")
def benchmark():
  return synthetic.benchmark()


@pytest.fixture(scope="module")
def dated(benchmark):
  return dated_gallery.read_dated_gallery(benchmark, model=MODEL)


def everything(benchmark):
  return {"all": np.ones(len(benchmark.records), bool)}


def make_config(*systems):
  config = training_config.base_config()
  config.eval.baselines = systems
  config.dating = registry.default_section("dating")
  config.dating.off = ("neural",)
  return config


def test_labels_are_of_train_alone(benchmark):
  labels = dated_gallery.make_train_labels(benchmark)
  train = np.array(benchmark.record_splits) == "train"
  assert np.array_equal(labels.is_known, train)
  assert np.array_equal(labels.event_labels == UNKNOWN, ~train)
  comments = train & (benchmark.kinds == "neg_comment")
  assert np.array_equal(labels.event_labels == 0, comments)


def test_what_is_no_text_has_no_way_in(benchmark):
  draw = np.random.default_rng(3)
  records, splits = benchmark.records, benchmark.record_splits
  # Keys of held-out records at random, and kinds but for placeholders; all ids
  # and places in works.
  keys = draw.integers(len(benchmark.timeline), size=len(records))
  kinds = draw.integers(2, size=len(records))
  ids, places = (draw.permutation(len(records)).tolist() for _ in range(2))
  changed = []
  for row, record in enumerate(records):
    fields = {"record_id": records[ids[row]].record_id, "order": places[row]}
    if splits[row] != "train":
      fields["key"] = benchmark.timeline.months[keys[row]]
      if record.kind != "no_event":
        fields["kind"] = ("event", "neg_comment")[kinds[row]]
    changed.append(dataclasses.replace(record, **fields))
  blind = dataclasses.replace(benchmark, records=tuple(changed))
  dated, other = (
    dated_gallery.read_dated_gallery(each, model=MODEL)
    for each in (benchmark, blind)
  )
  rows = np.arange(len(records))
  queries = [query.text for query in benchmark.queries["test"]]
  queries += ["齊人來盟在何時？", "甲公時，宋人來盟在何時？"]
  for variant in dating_model.VARIANTS:
    dates = [each.date(variant) for each in (other, dated)]
    np.testing.assert_array_equal(
      *(each.posterior.log_p(rows) for each in dates)
    )
    found = [
      query_posterior.rank_by_posterior(queries, each, 5, everything(benchmark))
      for each in dates
    ]
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_a_question_finds_the_record_that_states_its_month(benchmark, dated):
  queries = benchmark.queries["test"]
  asked = [query.text for query in queries]
  found = query_posterior.rank_by_posterior(
    asked, dated.date("fitted"), 1, everything(benchmark)
  )
  for query, row in zip(queries, found["all"][0][:, 0], strict=True):
    assert benchmark.record_ids[row] in query.positives


def test_a_question_without_a_date_is_dated_by_its_wording(benchmark):
  config = make_config(*dating_systems.SYSTEM_NAMES)
  systems = registry.make_systems(benchmark, config)
  assert all(system.log_query_months for system in systems.values())
  system = systems["dating-fitted-no-neural"]
  event = next(record for record in benchmark.records if record.kind == "event")
  phrase = event.text.partition("，")[2].rstrip("。")
  reign = benchmark.timeline.reigns[event.key.reign - 1].name
  texts = [f"{phrase}在何時？", f"{reign}時，{phrase}在何時？"]
  log_p = system.log_query_months(texts)
  assert log_p.shape == (2, len(benchmark.timeline))
  in_reign = [key.reign == event.key.reign for key in benchmark.timeline.months]
  assert np.exp(log_p[1, in_reign]).sum() > 0.95
  first = system.search(texts, 1, everything(benchmark))["all"][0][:, 0]
  records = [benchmark.records[row] for row in first]
  assert all(phrase in record.text for record in records)
  assert {record.kind for record in records} == {"event"}
  assert records[1].key.reign == event.key.reign


@pytest.mark.slow
def test_natural_questions_are_measured(
  benchmark, tmp_path, capsys, monkeypatch
):
  timeline = benchmark.timeline
  months = {r.record_id: timeline.ordinal(r.key) for r in benchmark.records}
  for group in natural_questions.GROUPS:
    for question in natural_questions.make_questions(
      benchmark, "validation", group, 10
    ):
      query = question.query
      assert questions_lib.parse_query_interval(query.text, timeline) is None
      assert {months[name] for name in query.positives} == {question.month}
  rows = tmp_path / "rows.json"
  flags = ["--data_dir=unused", "--off=neural", f"--rows={rows}"]
  monkeypatch.setattr(sys, "argv", ["natural_questions.py", *flags])
  monkeypatch.setattr(
    natural_questions.load, "load_benchmark", lambda *_: benchmark
  )
  natural_questions.main()
  written = results.read_result_rows(rows)
  assert {row.system for row in written} == {"bm25", "dating-fitted-no-neural"}
  assert {row.metric for row in written if row.system == "bm25"} == set(
    natural_questions.MEASURES
  )
  assert {row.metric for row in written} >= {"month", "year", "nll"}
  assert "dating-fitted-no-neural all plain hit@1" in capsys.readouterr().out


def test_dates_are_stripped(benchmark):
  text = dating.strip_dates("冬，十月，王毅卒。", benchmark.timeline)
  assert text == "，王毅卒。"


@pytest.mark.slow
def test_evaluate_writes_their_run_files(benchmark, tmp_path, capsys):
  config = make_config("rules", "dating-fitted")
  config.eval.splits = ("test",)
  config.eval.mask_train = True
  config.seed = 7
  evaluation_run.evaluate_systems(benchmark, config, tmp_path)
  assert "dating-fitted" in capsys.readouterr().out
  folder = transfer.transfer_folder(tmp_path, benchmark)
  name = "dating-fitted-no-neural"
  run = (folder / f"run.{name}.test.neg1_ne1.trec").read_text()
  assert f"{name}:T0+lookup:posterior" in run
  rows = json.loads((folder / "results.json").read_text())
  seeds = {row["system"]: row["seeds"] for row in rows}
  assert seeds == {
    "rules": [],
    name: [7],
    "rules+mask": [],
    f"{name}+mask": [7],
  }
  tracks = {row["system"]: row["track"] for row in rows}
  assert tracks["rules"] == "T0"
  assert tracks["rules+mask"] == "T0+lookup"


@pytest.mark.slow
def test_benchmark_writes_rows(benchmark, tmp_path, capsys, monkeypatch):
  rows = tmp_path / "rows.json"
  flags = ["--data_dir=unused", "--split=test", "--variants=fitted,strict"]
  flags += ["--off=neural", f"--rows={rows}"]
  monkeypatch.setattr(sys, "argv", ["dating.py", *flags])
  monkeypatch.setattr(dating.load, "load_benchmark", lambda *_: benchmark)
  dating.main()
  assert "dating-strict-no-neural hidden_events all" in capsys.readouterr().out
  written = json.loads(rows.read_text())
  assert {row["system"] for row in written} == {
    "dating-fitted-no-neural",
    "dating-strict-no-neural",
  }
  assert {row["mode"] for row in written} >= {*dating.MODES, "hidden_events"}


@pytest.mark.parametrize(
  ("field", "value", "message"),
  [
    ("dating.off", ("word",), "config.dating.off: unknown 'word'; there are"),
    ("dating.outside", "nowhere", "config.dating.outside=nowhere: no such"),
    ("eval.baselines", ("bm26",), "config.eval.baselines: unknown 'bm26'"),
    ("eval.depth", 3, "config.eval.depth=3: expected at least 10"),
  ],
)
def test_a_wrong_value_is_named_without_a_run(
  benchmark, tmp_path, field, value, message
):
  config = make_config("dating-fitted")
  group, leaf = field.split(".")
  config[group][leaf] = value
  with pytest.raises(ValueError, match=re.escape(message)):
    evaluation_run.evaluate_systems(benchmark, config, tmp_path)
  assert not list(tmp_path.iterdir())


def test_nothing_is_read_before_a_system_ranks(benchmark, monkeypatch):
  monkeypatch.setattr(dated_gallery, "read_dated_gallery", None)
  config = make_config(*dating_systems.SYSTEM_NAMES)
  made = registry.make_systems(benchmark, config)
  assert {name: system.track for name, system in made.items()} == {
    "dating-fitted-no-neural": "T0+lookup",
    "dating-elimination-no-neural": "T0+lookup",
    "dating-strict-no-neural": "T0+train",
  }


def test_notes_of_editions_are_texts_from_outside(tmp_path, benchmark):
  edition = tmp_path / "texts_KR1e0099"
  edition.mkdir()
  (edition / "KR1e0099_001.txt").write_text(
    "#+TITLE: x\n<pb:1>盟于蔑(在隱\n二年)(又見桓元年)¶\n", encoding="utf-8"
  )
  assert dated_gallery.read_bracket_notes(tmp_path) == ["在隱二年又見桓元年"]
  config = make_config(*dating_systems.SYSTEM_NAMES)
  config.dating.outside = str(tmp_path)
  made = registry.make_systems(benchmark, config).values()
  tracks = {system.track for system in made}
  assert tracks == {"T0+train+external", "T0+lookup+external"}
  with pytest.raises(FileNotFoundError, match="expected the folder of source"):
    dated_gallery.read_bracket_notes(edition)
  (edition / "KR1e0099_002.txt").write_bytes(b"ab\xff")
  with pytest.raises(ValueError, match=r"_002.txt: not UTF-8 at byte 2"):
    dated_gallery.read_bracket_notes(tmp_path)
