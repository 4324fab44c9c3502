"""The life of a run: resume, divergence, wrong configs."""

import dataclasses
import json
import pathlib
import re

import numpy as np
import pytest

from ctd_jax import train
from ctd_jax.retrieval import dense
from ctd_jax.training import config_checks, experiment, train_step
from ctd_jax.training.checkpoints import CheckpointError
from tests import synthetic


@pytest.fixture(autouse=True)
def small_world(monkeypatch):
  """One device and the synthetic benchmark instead of a built one."""
  monkeypatch.setattr(
    experiment.load, "build_benchmark", lambda *_: synthetic.benchmark()
  )


def metrics(workdir: pathlib.Path) -> str:
  return (workdir / "metrics.jsonl").read_text()


def contents(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
  return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_cut_and_resumed_is_the_uninterrupted_one(tmp_path):
  config = synthetic.config("ctd")
  whole, cut = tmp_path / "whole", tmp_path / "cut"
  train.train_and_evaluate(config, whole)
  # Cut between two checkpoints: steps 6 to 8 are logged, then lost.
  train.train_and_evaluate(config, cut, stop_after=8)
  assert json.loads(metrics(cut).splitlines()[-1])["step"] > 5
  train.train_and_evaluate(config, cut)
  assert metrics(cut) == metrics(whole)
  for name in ("run.ctd-synthetic.test.neg1_ne1.trec", "per_query.tsv"):
    assert (cut / "evaluation" / name).read_text() == (
      whole / "evaluation" / name
    ).read_text()


def test_a_finished_run_is_not_trained_again(tmp_path):
  config = synthetic.config("ft")
  train.train_and_evaluate(config, tmp_path)
  before = metrics(tmp_path)
  train.train_and_evaluate(config, tmp_path)
  assert metrics(tmp_path) == before


def test_training_learns_the_dates_it_is_shown(tmp_path):
  config = synthetic.config("ctd")
  config.num_epochs = 30.0
  config.eval_every = 1000
  train.train_and_evaluate(config, tmp_path)
  rows = [json.loads(line) for line in metrics(tmp_path).splitlines()]
  losses = [row["loss"] for row in rows if "loss" in row]
  assert np.mean(losses[-10:]) < 0.6 * np.mean(losses[:10])


@pytest.mark.parametrize("reader", config_checks.QUERY_DATES)
def test_posterior_is_trained_and_scored_with_either_reader(tmp_path, reader):
  config = synthetic.config("ctd_posterior")
  config.query_dates = reader
  config.num_epochs = 20.0
  config.eval_every = 1000
  train.train_and_evaluate(config, tmp_path)
  rows = [json.loads(line) for line in metrics(tmp_path).splitlines()]
  for part in ("posterior", "query_posterior"):
    values = [row[part] for row in rows if part in row]
    assert np.mean(values[-10:]) < np.mean(values[:10])
  run = tmp_path / "evaluation/run.ctd_posterior-synthetic.test.neg1_ne1.trec"
  assert ":T0:posterior" in run.read_text()


def test_the_release_is_ranked_by_the_bare_encoder(tmp_path):
  train.train_and_evaluate(synthetic.config("ctd-release"), tmp_path)
  run = tmp_path / "evaluation/run.ctd-release-synthetic.test.neg1_ne1.trec"
  assert ":T0:semantic" in run.read_text()
  (line,) = [x for x in metrics(tmp_path).splitlines() if '"step": 1}' in x]
  assert json.loads(line)["calendar"] > 0


def test_a_run_without_updates_ranks_with_the_initial_encoder(tmp_path):
  config = synthetic.config("zs")
  train.train_and_evaluate(config, tmp_path)
  (line,) = metrics(tmp_path).splitlines()
  assert json.loads(line)["step"] == 0
  written = contents(tmp_path / "evaluation")
  train.train_and_evaluate(config, tmp_path)
  assert metrics(tmp_path).splitlines() == [line]
  for path in written:
    if path.suffix == ".trec":
      assert path.read_bytes() == written[path]


def test_a_run_without_hard_negatives(tmp_path):
  config = synthetic.config("ctd")
  for name in config.negatives:
    config.negatives[name] = 0
  train.train_and_evaluate(config, tmp_path, stop_after=3)
  # What a step measured is written after the next one.
  assert len(metrics(tmp_path).splitlines()) == 2


def test_the_config_of_another_version_is_named(tmp_path):
  config = synthetic.config("ft").to_dict()
  del config["eval"]["score_mode"], config["query_dates"]
  (tmp_path / "config.json").write_text(json.dumps(config))
  with pytest.raises(ValueError, match="lacks eval.score_mode, query_dates: "):
    experiment.read_config(tmp_path)


def test_the_parser_dates_the_queries_that_are_ranked(tmp_path):
  run = experiment.assemble_experiment(synthetic.config("posterior"), tmp_path)
  queries = run.benchmark.queries["test"]
  months = [
    run.benchmark.timeline.interval_ordinals(q.interval) for q in queries
  ]
  assert run.query_intervals["test"].tolist() == [list(ends) for ends in months]
  params = run.init_state().params
  own = dataclasses.replace(run, query_intervals={})
  everything = {"neg1_ne1": np.ones(len(run.records), bool)}
  parsed, unread = (
    dense.Ranker(each).rank_split(params, "test", everything, 5)[0].rankings
    for each in (run, own)
  )
  assert parsed.keys() == unread.keys()
  assert parsed != unread


def test_a_last_line_that_was_cut_off_is_dropped(tmp_path):
  config = synthetic.config("ft")
  train.train_and_evaluate(config, tmp_path, stop_after=6)
  path = tmp_path / "metrics.jsonl"
  whole = path.read_text()
  path.write_text(whole + '{"loss": 1.')
  train.MetricsLog(tmp_path, 5).close()
  assert [json.loads(x)["step"] for x in metrics(tmp_path).splitlines()][
    -1
  ] == 5
  path.write_text("broken\n" + whole)
  with pytest.raises(ValueError, match=r"metrics.jsonl:1: not a line"):
    train.MetricsLog(tmp_path, 5)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path, monkeypatch):
  config = synthetic.config("ft")
  make = train_step.make_train_step

  def broken(*args):
    update = make(*args)

    def step(state, batch):
      state, values = update(state, batch)
      return state, {**values, "loss": np.float32("nan")}

    return step

  monkeypatch.setattr(train_step, "make_train_step", broken)
  with pytest.raises(
    train.DivergedError, match=r"step 1: loss is not finite.*learning_rate"
  ):
    train.train_and_evaluate(config, tmp_path)


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path):
  config = synthetic.config("ft")
  train.train_and_evaluate(config, tmp_path, stop_after=5)
  before = contents(tmp_path)
  config.model.encoder.num_layers = 2
  config.eval.depth = 20  # free to change
  config.sparse.source = "elsewhere"
  with pytest.raises(
    CheckpointError,
    match=r"config: model.encoder.num_layers: run 1, config 2\. .*--workdir",
  ):
    train.train_and_evaluate(config, tmp_path)
  assert contents(tmp_path) == before


@pytest.mark.parametrize(
  ("field", "value", "message"),
  [
    ("score_mode", "cosine", "config.score_mode='cosine': expected one of"),
    ("score_mode", "semantic", "what is trained is what is scored"),
    ("score_mode", "posterior", "config.model.use_posterior and"),
    ("loss.posterior_weight", 1.0, "posterior_weight needs config.model.use_"),
    ("query_dates", "eye", "config.query_dates='eye': expected one of parser"),
    ("dating.off", ("word",), "config.dating.off: unknown 'word'; there are"),
    ("batch_size", 1000, "config.batch_size=1000"),
    ("num_epochs", 0.01, "config.num_epochs=0.01"),
    ("num_epochs", -1.0, "config.num_epochs=-1.0"),
    ("eval.score_mode", "dot", "config.eval.score_mode='dot': expected one"),
    ("loss.bias_columns", "none", "config.loss.bias_columns='none'"),
    ("optimizer.decay", "none", "optimizer.decay must be one of"),
    ("negatives.far", 1, "config.negatives.far: unknown type"),
    ("optimizer.warmup_fraction", 1.5, "optimizer.warmup_fraction"),
    ("eval.mode", "neg2", "neg1_ne1_dq0"),
    ("eval.batch_size", 0, "config.eval.batch_size=0: expected at least 1"),
    ("rerank.depth", -1, "config.rerank.depth=-1: expected at least 1"),
    ("record_length", 300, "config.record_length=300: the encoder takes"),
    ("eval.baselines", ("bm26",), "config.eval.baselines: unknown 'bm26'"),
  ],
)
def test_a_wrong_value_is_named(tmp_path, field, value, message):
  config = synthetic.config("ctd")
  *path, last = field.split(".")
  node = config
  for part in path:
    node = node[part]
  node[last] = value
  with pytest.raises(ValueError, match=re.escape(message)):
    train.train_and_evaluate(config, tmp_path)
