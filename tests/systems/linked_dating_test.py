"""The linked systems: run files, saved daters, wrong values."""

import json
import re
import sys

import numpy as np
import pytest

from ctd_jax.dating.linked.trained_dater import TrainedDater
from ctd_jax.models.linked_dater import LinkedDaterConfig
from ctd_jax.systems import evaluation_run, linked_dating, registry
from ctd_jax.training import config as training_config
from ctd_jax.training import transfer
from tests import synthetic
from tests.benchmarks import dating
from tests.dating import chronicles

_TINY = {"hidden_size": 8, "link_steps": 5, "steps": 3, "off": ("neural",)}


@pytest.fixture(scope="module")
def benchmark():
  return synthetic.benchmark()


def make_config(*names, **fields):
  config = training_config.base_config()
  config.eval.baselines = names
  config.eval.splits = ("test",)
  config.linked = registry.default_section("linked")
  for field, value in fields.items():
    config.linked[field] = value
  return config


@pytest.mark.slow
def test_a_saved_dater_ranks_as_the_run_that_trained_it(
  benchmark, tmp_path, capsys
):
  saved = tmp_path / "dater"
  runs = {}
  for name, fields in {
    "first": {"save": str(saved), **_TINY},
    "second": {"trained": str(saved)},
  }.items():
    config = make_config("linked-fitted", **fields)
    config.seed = 7 if name == "first" else 8
    evaluation_run.evaluate_systems(benchmark, config, tmp_path / name)
    folder = transfer.transfer_folder(tmp_path / name, benchmark)
    runs[name] = (folder / "run.linked-fitted.test.neg1_ne1.trec").read_text()
    rows = json.loads((folder / "results.json").read_text())
    assert {row["system"]: row["seeds"] for row in rows} == {
      "linked-fitted": [7]
    }
  assert "linked-fitted" in capsys.readouterr().out
  assert "linked-fitted:T0:posterior" in runs["first"]
  assert runs["first"] == runs["second"]
  trained = TrainedDater.load(saved)
  assert trained.seed == 7
  assert "known records of" in trained.trained_on


@pytest.mark.parametrize(
  ("field", "value", "message"),
  [
    ("off", ("word",), "config.linked.off: unknown 'word'; there are days"),
    ("off", ("words", "neural"), "words or neural must stay"),
    ("outside", "nowhere", "config.linked.outside=nowhere: there is no"),
    ("rounds", -1, "config.linked.rounds=-1: expected 0 or more"),
    ("dropout", 1.0, "config.linked.dropout=1.0: expected 0 or more"),
    ("learning_rate", 0.0, "config.linked.learning_rate=0.0: expected a"),
    ("heads", 0, "config.linked.heads=0"),
    ("trained", "nowhere", "config.linked.trained=nowhere: there is no"),
    ("corpora", ("nowhere=lu",), "config.linked.corpora: nowhere=lu: no file"),
  ],
)
def test_a_wrong_value_is_named_without_a_run(
  benchmark, tmp_path, field, value, message
):
  config = make_config("linked-fitted", **{field: value})
  with pytest.raises(ValueError, match=re.escape(message)):
    evaluation_run.evaluate_systems(benchmark, config, tmp_path)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
  ("field", "value"),
  [("save", "dater"), ("corpora", ("chunqiutr/mini",)), ("rounds", 1)],
)
def test_of_a_trained_dater_no_training_is_asked(
  benchmark, tmp_path, field, value
):
  config = make_config("linked-fitted", trained=str(tmp_path), **{field: value})
  with pytest.raises(ValueError, match=f"config.linked.{field}=.*nothing is"):
    evaluation_run.evaluate_systems(benchmark, config, tmp_path)


@pytest.mark.slow
def test_a_dater_is_trained_on_other_corpora_too(benchmark, tmp_path, caplog):
  corpora = []
  for name in ("first", "second"):
    (tmp_path / name).write_text("\n".join(chronicles.make_dated_lines()))
    corpora.append(f"{tmp_path / name}=西晉")
  config = make_config(
    "linked-fitted",
    corpora=tuple(corpora),
    save=str(tmp_path / "dater"),
    **_TINY,
  )
  evaluation_run.evaluate_systems(benchmark, config, tmp_path / "run")
  trained = TrainedDater.load(tmp_path / "dater")
  # No text of the gallery has the style of an event.
  assert "nothing is learned from 54 known records" in caplog.text
  assert trained.trained_on.count("known records of") == 2
  # Of its own gallery, some months are known anyway.
  config = make_config("linked-fitted", corpora=(benchmark.name,))
  with pytest.raises(ValueError, match="config.linked.corpora=.*known anyway"):
    evaluation_run.evaluate_systems(benchmark, config, tmp_path / "other")


def test_something_must_read_the_texts(tmp_path):
  TrainedDater(
    config=LinkedDaterConfig(readers=("words",)),
    params={"prior": np.ones(())},
    word_weights={},
    trained_on="nothing",
    seed=1,
  ).save(tmp_path)
  with pytest.raises(ValueError, match="config.linked.off=.*words alone"):
    linked_dating.load_linked_model(tmp_path, ("words",))


def test_evidence_of_a_trained_dater_can_be_left_out(tmp_path):
  TrainedDater(
    config=LinkedDaterConfig(rounds=3, use_days=False),
    params={"prior": np.ones(())},
    word_weights={},
    trained_on="nothing",
    seed=1,
  ).save(tmp_path)
  model = linked_dating.load_linked_model(tmp_path, ("neural", "rounds"))
  assert model.config == LinkedDaterConfig(
    readers=("words",), rounds=1, use_days=False
  )
  assert "neural" not in {expert.name for expert in model.experts}
  assert linked_dating.load_linked_model(tmp_path).config.rounds == 3


def test_a_saved_dater_is_not_overwritten(benchmark, tmp_path):
  (tmp_path / "dater").mkdir()
  (tmp_path / "dater" / "linked_dater.json").write_text("{}")
  config = make_config("linked-fitted", save=str(tmp_path / "dater"), **_TINY)
  with pytest.raises(ValueError, match="holds a trained dater; remove it"):
    evaluation_run.evaluate_systems(benchmark, config, tmp_path / "run")


@pytest.mark.slow
def test_the_benchmark_compares_models_and_evidence(
  benchmark, tmp_path, monkeypatch
):
  rows, comparisons = tmp_path / "rows.json", tmp_path / "comparisons.tsv"
  flags = ["--data_dir=unused", "--split=test", "--variants=fitted"]
  flags += ["--models=linked,counts", "--ablate=linked", "--off=neural"]
  flags += [f"--rows={rows}", f"--comparisons={comparisons}"]
  config = linked_dating.LinkedConfig
  monkeypatch.setattr(
    linked_dating,
    "LinkedConfig",
    lambda **fields: config(**{**_TINY, **fields}),
  )
  monkeypatch.setattr(
    linked_dating,
    "EVIDENCE",
    {name: name for name in ("rounds", "days", "neural")},
  )
  monkeypatch.setattr(sys, "argv", ["dating.py", *flags])
  monkeypatch.setattr(dating.load, "load_benchmark", lambda *_: benchmark)
  dating.main()
  systems = {row["system"] for row in json.loads(rows.read_text())}
  assert systems == {
    *("linked-fitted-no-neural", "dating-fitted-no-neural"),
    *("linked-fitted-no-neural-rounds", "linked-fitted-no-neural-days"),
    "linked-fitted-no-neural-contrastive",
  }
  lines = comparisons.read_text().splitlines()
  assert len(lines) > 2
  assert np.isfinite(float(lines[1].split("\t")[-2]))
