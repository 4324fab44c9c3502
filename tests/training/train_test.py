"""The life of a run: resume, divergence, wrong configs."""

import dataclasses
import json
import math
import pathlib
import re
import shutil

import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from ctd_jax.experiments import training_run
from ctd_jax.retrieval import dense, trained_system
from ctd_jax.training import experiment, metrics, run_folder, train_step
from ctd_jax.training.checkpoints import CheckpointError
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")


@pytest.fixture(scope="module")
def whole(quick_compile, small_world, tmp_path_factory):
  """A run of CTD that nothing cut off."""
  folder = tmp_path_factory.mktemp("whole")
  training_run.train_and_evaluate(synthetic_run.config("ctd"), folder)
  return folder


def metric_lines(workdir: pathlib.Path) -> list[str]:
  return (workdir / "metrics.jsonl").read_text().splitlines()


def metric_rows(workdir: pathlib.Path) -> list[dict[str, float]]:
  return [json.loads(line) for line in metric_lines(workdir)]


def contents(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
  return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.slow
def test_a_run_cut_and_resumed_is_the_uninterrupted_one(tmp_path, whole):
  config = synthetic_run.config("ctd")
  # Cut between two checkpoints: steps 6 to 8 are logged, then lost.
  training_run.train_and_evaluate(config, tmp_path, stop_after=8)
  assert metric_rows(tmp_path)[-1]["step"] > 5
  training_run.train_and_evaluate(config, tmp_path)
  assert metric_lines(tmp_path) == metric_lines(whole)
  for name in ("run.ctd-synthetic.test.neg1_ne1.trec", "per_query.tsv"):
    assert (tmp_path / "evaluation" / name).read_text() == (
      whole / "evaluation" / name
    ).read_text()


@pytest.mark.slow
def test_a_run_goes_on_with_the_negatives_it_was_cut_with(tmp_path):
  config = synthetic_run.config("ft")
  config.negatives.mined = 2
  config.mining.source, config.mining.refresh_every = "self", 4
  training_run.train_and_evaluate(config, tmp_path / "whole")
  # Step 5 has a checkpoint; the lists are those of step 4.
  training_run.train_and_evaluate(config, tmp_path / "cut", stop_after=6)
  training_run.train_and_evaluate(config, tmp_path / "cut")
  assert metric_lines(tmp_path / "cut") == metric_lines(tmp_path / "whole")
  lists = (tmp_path / "cut" / "negatives").iterdir()
  texts = {path.name.split(".")[1][-2:]: path.read_text() for path in lists}
  # That of step 0 is gone: no checkpoint that is left needs it.
  assert texts.keys() == {"-4", "-8", "12"}
  assert len(set(texts.values())) > 1


@pytest.mark.slow
def test_a_run_goes_on_in_the_middle_of_an_update(tmp_path):
  config = synthetic_run.config("ctd")
  config.accumulate_steps = 3
  training_run.train_and_evaluate(config, tmp_path / "whole")
  # The checkpoint of step 5 has the gradients of two steps of three.
  training_run.train_and_evaluate(config, tmp_path / "cut", stop_after=5)
  training_run.train_and_evaluate(config, tmp_path / "cut")
  assert metric_lines(tmp_path / "cut") == metric_lines(tmp_path / "whole")
  rows = [row for row in metric_rows(tmp_path / "whole") if "loss" in row]
  assert len(rows) == 12  # of 13 steps; the last update would lack two
  rates = [row["learning_rate"] for row in rows]
  assert rates == [rate for rate in rates[::3] for _ in range(3)]
  assert rates[:9:3] != rates[3::3]


@pytest.mark.slow
def test_learning_rate_and_speed_are_among_the_curves(whole):
  curves = metrics.read_curves(whole)
  steps, rates = curves["learning_rate"]
  assert steps == curves["loss"][0]
  config = synthetic_run.config("ctd")
  assert max(rates) == pytest.approx(config.optimizer.learning_rate)
  assert rates[-1] < max(rates)  # it decays
  for name in (
    *("steps_per_second", "queries_per_second", "tokens_per_second"),
    *("model_flops_per_second", "compile_seconds", "peak_host_bytes"),
  ):
    assert curves[f"speed/{name}"][0]
    assert min(curves[f"speed/{name}"][1]) > 0
  for name in ("row_fill", "input_wait_share"):
    assert all(0 <= share <= 1 for share in curves[f"speed/{name}"][1])
  assert "speed/model_flops_utilization" not in curves  # a processor
  # Only what the seed determines stands in metrics.jsonl.
  assert not any("speed" in line for line in metric_lines(whole))
  page = (whole / "evaluation" / "report.html").read_text("utf-8")
  assert 'alt="training.png"' in page


@pytest.mark.slow
def test_a_finished_run_is_not_trained_again(tmp_path, whole):
  workdir = tmp_path / "run"
  shutil.copytree(whole, workdir)
  training_run.train_and_evaluate(synthetic_run.config("ctd"), workdir)
  assert metric_lines(workdir) == metric_lines(whole)


@pytest.mark.slow
def test_a_run_that_gets_no_better_ends_and_stays_ended(tmp_path):
  config = synthetic_run.config("ft")
  config.optimizer.learning_rate = 0.0
  config.eval_every, config.patience = 2, 3
  for _ in range(2):
    training_run.train_and_evaluate(config, tmp_path)
    rows = metric_rows(tmp_path)
    validated = [row["step"] for row in rows if "validation/hit@1" in row]
    assert validated == [2, 4, 6, 8]
    assert rows[-1]["step"] == 8
  record = json.loads((tmp_path / "training.json").read_text())
  assert {"python", "jax", "optax", "devices"} <= record["environment"].keys()
  assert (tmp_path / "evaluation" / "results.json").exists()


@pytest.mark.slow
def test_training_learns_the_dates_it_is_shown(tmp_path):
  config = synthetic_run.config("ctd")
  config.num_epochs = 30.0
  config.eval_every = 1000
  training_run.train_and_evaluate(config, tmp_path)
  rows = metric_rows(tmp_path)
  losses = [row["loss"] for row in rows if "loss" in row]
  assert np.mean(losses[-10:]) < 0.6 * np.mean(losses[:10])


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["parser", "head"])
def test_posterior_is_trained_and_scored_with_either_reader(tmp_path, reader):
  config = synthetic_run.config("ctd_posterior")
  config.query_dates = reader
  config.num_epochs = 20.0
  config.eval_every = 1000
  training_run.train_and_evaluate(config, tmp_path)
  rows = metric_rows(tmp_path)
  for term in ("posterior", "query_posterior"):
    values = [row[term] for row in rows if term in row]
    assert np.mean(values[-10:]) < np.mean(values[:10])
  run = tmp_path / "evaluation/run.ctd_posterior-synthetic.test.neg1_ne1.trec"
  assert ":T0+train:posterior" in run.read_text()


@pytest.mark.slow
def test_validation_chooses_the_weight_of_the_similarity_in_time(tmp_path):
  config = synthetic_run.config("temps")
  config.num_epochs = 20.0
  config.eval_every = 45
  training_run.train_and_evaluate(config, tmp_path)
  rows = metric_rows(tmp_path)
  values = [row["time_order"] for row in rows if "time_order" in row]
  # Pairs of months far apart are all but equal: the loss has a high floor.
  assert np.mean(values[-10:]) < np.mean(values[:10]) - 1
  run = experiment.assemble_experiment(config, tmp_path)
  best = next(
    row
    for row in rows
    if row["step"] == run.checkpoints.best_step and "validation/hit@1" in row
  )
  params = trained_system.restore_system(run).params
  ranker = dense.Ranker(run)
  chosen, metrics = ranker.validate(params)
  weight = float(params["gaussian"]["weight"])
  assert weight == pytest.approx(best["validation/fusion_weight"])
  assert float(chosen["gaussian"]["weight"]) == pytest.approx(weight)
  # No weight of the grid is better, and the metrics are those of the chosen.
  assert metrics["validation/hit@1"] == best["validation/hit@1"]
  assert ranker.compute_validation_metrics(params) == {
    name: value for name, value in metrics.items() if "weight" not in name
  }
  run.checkpoints.close()
  run_file = tmp_path / "evaluation/run.temps-synthetic.test.neg1_ne1.trec"
  assert ":T0+train:temps" in run_file.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
  ("method", "records", "track"),
  [
    ("date_prefix", "text", "T0+train"),
    ("date_prefix", "key", "T1"),
    ("time_tokens", "key", "T1"),
  ],
)
def test_a_run_is_of_the_track_whose_dates_it_reads(
  tmp_path, method, records, track
):
  config = synthetic_run.config(method)
  config.dates.records = records
  training_run.train_and_evaluate(config, tmp_path)
  run = tmp_path / f"evaluation/run.{method}-synthetic.test.neg1_ne1.trec"
  assert f":{track}:semantic" in run.read_text()


@pytest.mark.slow
def test_the_release_is_ranked_by_the_bare_encoder(tmp_path):
  training_run.train_and_evaluate(synthetic_run.config("ctd-release"), tmp_path)
  run = tmp_path / "evaluation/run.ctd-release-synthetic.test.neg1_ne1.trec"
  assert ":T0+train:semantic" in run.read_text()
  assert metric_rows(tmp_path)[0]["calendar"] > 0


@pytest.mark.slow
def test_a_run_without_updates_ranks_with_the_initial_encoder(tmp_path):
  config = synthetic_run.config("zs")
  training_run.train_and_evaluate(config, tmp_path)
  (line,) = metric_lines(tmp_path)
  assert json.loads(line)["step"] == 0
  written = contents(tmp_path / "evaluation")
  training_run.train_and_evaluate(config, tmp_path)
  assert metric_lines(tmp_path) == [line]
  for path in written:
    if path.suffix == ".trec":
      assert path.read_bytes() == written[path]


@pytest.mark.slow
def test_a_run_without_hard_negatives(tmp_path):
  config = synthetic_run.config("ctd")
  for name in config.negatives:
    config.negatives[name] = 0
  training_run.train_and_evaluate(config, tmp_path, stop_after=3)
  # What a step measured is written after the next one.
  assert len(metric_lines(tmp_path)) == 2


def test_the_config_of_another_version_is_named(tmp_path):
  config = synthetic_run.config("ft").to_dict()
  del config["eval"]["score_mode"], config["query_dates"]
  (tmp_path / "config.json").write_text(json.dumps(config))
  with pytest.raises(ValueError, match="lacks eval.score_mode, query_dates: "):
    run_folder.read_config(tmp_path)


@pytest.mark.slow
def test_the_parser_dates_the_queries_that_are_ranked(tmp_path):
  run = experiment.assemble_experiment(
    synthetic_run.config("posterior"), tmp_path
  )
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
  text = "".join(f'{{"loss": 1.0, "step": {step}}}\n' for step in range(1, 9))
  path = tmp_path / "metrics.jsonl"
  path.write_text(text + '{"loss": 1.')
  metrics.MetricWriter(tmp_path, 5).close()
  assert metric_rows(tmp_path)[-1]["step"] == 5
  path.write_text("broken\n" + text)
  with pytest.raises(ValueError, match=r"metrics.jsonl:1: not a line"):
    metrics.MetricWriter(tmp_path, 5)


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run(tmp_path, monkeypatch):
  config = synthetic_run.config("ctd")
  make = train_step.make_train_step

  def broken(*args):
    update = make(*args)

    def step(state, batch):
      state, values = update(state, batch)
      return state, {**values, "loss": jnp.float32("nan")}

    return step

  monkeypatch.setattr(train_step, "make_train_step", broken)
  with pytest.raises(
    metrics.DivergedError, match=r"step 1: loss is not finite.*learning_rate"
  ):
    training_run.train_and_evaluate(config, tmp_path)


def test_a_checkpoint_of_another_architecture_is_refused(
  tmp_path, trained_run, trained_config
):
  workdir = tmp_path / "run"
  shutil.copytree(trained_run, workdir)
  before = contents(workdir)
  config = trained_config.copy_and_resolve_references()
  config.model.encoder.num_layers = 2
  # Free to change: the first is read after the training, the others by systems.
  config.eval.depth = 20
  config.published = ml_collections.ConfigDict({"source": "elsewhere"})
  with pytest.raises(
    CheckpointError,
    match=r"config: model.encoder.num_layers: run 1, config 2\. .*--workdir",
  ):
    training_run.train_and_evaluate(config, workdir)
  assert contents(workdir) == before


@pytest.mark.parametrize(
  ("field", "value", "message"),
  [
    ("score_mode", "cosine", "config.score_mode='cosine': expected one of"),
    ("score_mode", "semantic", "what is trained is what is scored"),
    ("score_mode", "posterior", "config.model.use_posterior and"),
    ("loss.posterior_weight", 1.0, "posterior_weight needs config.model.use_"),
    ("score_mode", "temps", "config.score_mode='temps' scores without the"),
    ("loss.gaussian_weight", 1.0, "config.loss.gaussian_weight above 0 need"),
    ("model.use_gaussian", True, "config.model.use_gaussian and config.loss."),
    ("model.gaussian_dim", 0, "config.model.gaussian_dim=0: expected at least"),
    ("eval.score_mode", "temps", "config.eval.score_mode='temps' needs config"),
    ("dates.form", "suffix", "config.dates.form='suffix': expected one of"),
    ("dates.records", "id", "config.dates.records='id': expected one of text"),
    ("dates.records", "key", "config.dates.records='key' needs config.dates"),
    ("query_dates", "eye", "config.query_dates='eye': expected one of parser"),
    ("batch_size", 1000, "config.batch_size=1000"),
    ("num_epochs", 0.01, "config.num_epochs=0.01"),
    ("num_epochs", -1.0, "config.num_epochs=-1.0"),
    ("eval.score_mode", "dot", "config.eval.score_mode='dot': expected one"),
    ("loss.bias_columns", "none", "config.loss.bias_columns='none'"),
    ("optimizer.decay", "none", "config.optimizer.decay='none': expected"),
    ("negatives.far", 1, "config.negatives.far: unknown type"),
    ("optimizer.warmup_fraction", 1.5, "warmup_fraction=1.5: expected"),
    ("optimizer.learning_rate", math.nan, "learning_rate=nan: expected a fin"),
    ("mining.margin", math.inf, "config.mining.margin=inf: expected a finite"),
    ("optimizer.name", "adam", "config.optimizer.name='adam': expected one of"),
    ("optimizer.schedule", "step", "config.optimizer.schedule='step': expec"),
    ("eval.dimension", -1, "config.eval.dimension=-1: expected at least 0"),
    ("eval.dimension", 99, "config.eval.dimension=99: the vectors have 16"),
    ("patience", -1, "config.patience=-1: expected at least 0"),
    ("mining.depth", 0, "config.mining.depth=0: expected at least 1"),
    ("mining.source", "self", "config.mining is not read, since config.negat"),
    ("mining.refresh_every", 5, "only the lists of config.mining.source='self"),
    ("eval.mode", "neg2", "neg1_ne1_dq0"),
    ("eval.batch_size", 0, "config.eval.batch_size=0: expected at least 1"),
    ("log_every", 0, "config.log_every=0: expected at least 1"),
    ("encode_chunks", 3, "config.encode_chunks=3 does not divide config.batch"),
    ("loss.emulated_processes", 0, "config.loss.emulated_processes=0: expect"),
    ("loss.emulated_processes", 3, "emulated_processes=3 does not divide"),
    ("loss.reduction", "max", "config.loss.reduction='max': expected one of"),
    ("accumulate_steps", 0, "config.accumulate_steps=0: expected at least 1"),
    ("accumulate_steps", 99, "times config.accumulate_steps=99 make no step"),
    ("optimizer.moment_dtype", "int8", "optimizer.moment_dtype='int8': expect"),
    ("model.lora.rank", 4, "adapters need a published encoder, see config"),
    ("model.lora.targets", ("keys",), "lora.targets: unknown 'keys'; there"),
    ("model.lora.dropout", 1.0, "config.model.lora.dropout=1.0: expected 0 <="),
    ("optimizer.clip_norm", -1.0, "config.optimizer.clip_norm=-1.0: expected"),
    ("name", "a b", "config.name='a b': expected a name without white space"),
    ("name", "bm25", "config.name='bm25': a system has this name"),
    ("eval.depth", 5, "config.eval.depth=5: expected at least 10"),
    ("eval.splits", ("dev",), "config.eval.splits: unknown 'dev'; there are"),
    ("wandb_project", "annals", "config.wandb_project='annals' needs wandb"),
    ("record_length", 300, "config.record_length=300: the encoder takes"),
    ("eval.baselines", ("bm26",), "config.eval.baselines: unknown 'bm26'"),
  ],
)
def test_a_wrong_value_is_named(tmp_path, field, value, message):
  config = synthetic_run.config("ctd")
  *path, last = field.split(".")
  node = config
  for part in path:
    node = node[part]
  node[last] = value
  with pytest.raises(ValueError, match=re.escape(message)):
    training_run.train_and_evaluate(config, tmp_path)
