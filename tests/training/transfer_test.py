"""Evaluation on a data set that a run was not trained on, or without a run."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

import pytest

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import results
from ctd_jax.experiments import evaluation_run, training_run
from ctd_jax.training import config as training_config
from ctd_jax.training import experiment, run_folder, transfer
from ctd_jax_datasets import export
from tests import synthetic
from tests.data.common import beir_files
from tests.tools import processes
from tests.training import synthetic_run


@pytest.fixture(scope="module", autouse=True)
def quick_run(quick_compile):
  with pytest.MonkeyPatch.context() as patch:
    synthetic_run.use_one_device(patch.setattr)
    yield


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
  return beir_files.write(tmp_path / "liang")


@pytest.fixture(scope="module")
def trained(quick_run, tmp_path_factory) -> pathlib.Path:
  """A run trained on a BEIR folder."""
  parent = tmp_path_factory.mktemp("trained")
  export.export_benchmark(synthetic.benchmark(), "beir", parent / "synthetic")
  config = synthetic_run.config("ctd")
  config.dataset = f"beir:{parent}/synthetic"
  config.num_epochs = 1.0
  config.eval.baselines = ("bm25",)
  training_run.train_and_evaluate(config, parent / "run")
  return parent / "run"


def build_benchmark(config):
  return experiment.build_benchmark(config.dataset, None, None)


@pytest.mark.slow
def test_a_run_trained_on_a_folder_is_asked_about_another(trained, folder):
  assert (trained / "evaluation" / "results.json").exists()
  before = {p: p.read_bytes() for p in (trained / "evaluation").glob("*.*")}
  config = run_folder.read_config(trained)
  run = experiment.assemble_experiment(config, trained)
  evaluation_run.evaluate_experiment(
    transfer.transfer_experiment(run, f"beir:{folder}")
  )
  run.checkpoints.close()
  (out,) = (p for p in (trained / "evaluation").iterdir() if p.is_dir())
  rows = results.read_result_rows(out / "results.json")
  ours = results.select_rows(rows, system="ctd-synthetic", metric="hit@10")
  # Six records, ten places: whatever is found is found.
  assert {(row.track, row.value) for row in ours} == {("T0+train", 1.0)}
  assert "&&" in ours[0].command
  ranked = runs.read_run(out / "run.ctd-synthetic.test.neg1_ne1.trec").rankings
  assert ranked.keys() == beir_files.ASKED.keys()
  assert all(
    {r for r, _ in ranking} == {*beir_files.TEXTS}
    for ranking in ranked.values()
  )
  after = {p: p.read_bytes() for p in (trained / "evaluation").glob("*.*")}
  assert {p: after[p] for p in before} == before


@pytest.mark.slow
def test_a_run_is_asked_about_a_build_that_lies_elsewhere(trained, tmp_path):
  run = experiment.assemble_experiment(run_folder.read_config(trained), trained)
  other = transfer.transfer_experiment(run, "chunqiutr/mini", tmp_path)
  run.checkpoints.close()
  assert (tmp_path / "chunqiutr" / "mini").is_dir()
  assert other.benchmark.name.startswith("chunqiutr/mini:")
  assert other.evaluation.name == other.benchmark.name.replace(
    "/", "_"
  ).replace(":", "_")
  assert len(other.records) == len(other.benchmark.records)
  # The model and its words stay those of the run.
  assert other.model is run.model
  assert other.tokenizer is run.tokenizer
  assert other.records.ids.max() < run.tokenizer.vocab_size


def test_months_are_read_in_the_calendar_of_the_model_only(trained, folder):
  run = experiment.assemble_experiment(run_folder.read_config(trained), trained)
  run.config.score_mode = "posterior"
  same = transfer.transfer_experiment(run, run.config.dataset)
  other = transfer.transfer_experiment(run, f"beir:{folder}")
  run.checkpoints.close()
  assert same.query_intervals["test"].shape == (len(same.queries["test"]), 2)
  assert not other.query_intervals


def test_a_folder_without_train_queries_is_not_trained_on(folder, tmp_path):
  config = synthetic.config("ctd")
  config.dataset = f"beir:{folder}"
  with pytest.raises(
    ValueError,
    match="no train queries and no validation queries and no train records: "
    ".*--baselines_only",
  ):
    training_run.train_and_evaluate(config, tmp_path / "run")
  assert not (tmp_path / "run").exists()


def test_a_kind_of_negatives_that_is_not_there_is_named(tmp_path):
  benchmark = synthetic.benchmark()
  kept = [i for i, k in enumerate(benchmark.kinds) if k != "neg_comment"]
  export.export_benchmark(
    dataclasses.replace(
      benchmark,
      records=tuple(benchmark.records[i] for i in kept),
      record_splits=tuple(benchmark.record_splits[i] for i in kept),
    ),
    "beir",
    tmp_path / "out",
  )
  config = synthetic.config("ctd")
  config.dataset = f"beir:{tmp_path}/out"
  with pytest.raises(
    ValueError,
    match="config.negatives.same_month_comment=1: .* no train record of the "
    "kind neg_comment; set it to 0",
  ):
    training_run.train_and_evaluate(config, tmp_path / "run")


def test_a_split_that_is_not_there_is_named(folder, tmp_path):
  config = training_config.base_config()
  config.eval.splits = ("validation",)
  with pytest.raises(
    ValueError, match="no queries of validation; it has test$"
  ):
    evaluation_run.evaluate_systems(
      beir_files.read(folder), config, tmp_path / "run"
    )
  assert not (tmp_path / "run").exists()


def call(*arguments: str, cwd: pathlib.Path) -> subprocess.CompletedProcess:
  environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "1"}
  return processes.run_python(
    "-m", "ctd_jax.evaluate", *arguments, cwd=cwd, env=environment
  )


@pytest.mark.slow
def test_the_command_evaluates_a_folder_without_a_run(folder):
  flags = f"--dataset=beir:{folder.name}", "--workdir=run", "--baselines_only"
  done = call(*flags, cwd=folder.parent)
  assert done.returncode == 0, done.stderr
  assert "bm25_timekde (T1: " in done.stdout
  benchmark = beir_files.read(folder)
  (out,) = (folder.parent / "run/evaluation").iterdir()
  rows = results.read_result_rows(out / "results.json")
  assert {(row.system, row.split, row.dataset) for row in rows} == {
    (system, "test", benchmark.name)
    for system in ("bm25", "bm25_timekde", "rules")
  }
  hits = results.select_rows(
    rows, mode="neg1_ne1_dq0", family="all", metric="hit@1", system="rules"
  )
  assert hits[0].value > 0.6  # d5 states its date, d4 too
  assert runs.read_qrels(out / "qrels.test.txt")["q1"] == ("d2", "d3")
  (folder / "corpus.jsonl").write_text("{}\n")
  done = call(*flags, cwd=folder.parent)
  assert done.returncode != 0
  assert "Traceback" not in done.stderr
  error = done.stderr.strip().splitlines()[-1]
  assert error.startswith("error: liang/corpus.jsonl:1: _id: missing")


def test_runs_and_untrained_systems_join_each_other(trained, folder, tmp_path):
  config = run_folder.read_config(trained)
  benchmark = build_benchmark(config)
  run, untrained = tmp_path / "run", tmp_path / "untrained"
  shutil.copytree(trained, run)
  config.eval.baselines = ("rules",)
  evaluation_run.evaluate_systems(benchmark, config, untrained, [run])
  (out,) = (untrained / "evaluation").iterdir()
  rows = results.read_result_rows(out / "results.json")
  joined = {"bm25", "ctd-synthetic", "rules"}
  assert {row.system for row in rows} == joined
  evaluation_run.render_report(benchmark, config, run, [untrained], True)
  rows = results.read_result_rows(run / "evaluation" / "results.json")
  assert {row.system for row in rows} == joined
  with pytest.raises(
    FileNotFoundError,
    match=f"--also={untrained}: no evaluated run on beir/liang.* in .*; data "
    f"sets there: {benchmark.name}$",
  ):
    evaluation_run.evaluate_systems(
      beir_files.read(folder), config, tmp_path / "other", [untrained]
    )
