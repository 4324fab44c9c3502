"""A run on validity curves from the config to rows, plots and a prediction."""

import dataclasses
import json
import re
import types

import numpy as np
import pytest

from ctd_jax.evaluation import results
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.tasks.chronocept import (
  experiment,
  features,
  measures,
  networks,
  systems,
)
from ctd_jax.tasks.chronocept.features import FrozenFeatures
from ctd_jax.tasks.chronocept.systems import ValidityModel
from ctd_jax.training.checkpoints import CheckpointError
from ctd_jax.utils import command_line
from ctd_jax_configs import chronocept
from ctd_jax_datasets.chronocept.sample_records import AXES
from tests.chronocept import validity_files


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
  return validity_files.encoder(tmp_path_factory.mktemp("encoder") / "bert")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
  return tmp_path_factory.mktemp("embeddings")


@pytest.fixture(autouse=True)
def small_data(monkeypatch, request):
  """Few samples and resamples; pictures where the test asks for them."""
  monkeypatch.setattr(measures, "NUM_RESAMPLES", 50)
  if "with_plots" not in request.fixturenames:
    monkeypatch.setattr(experiment.output, "write_figure", lambda *_: None)
    monkeypatch.setattr(
      experiment.measures, "plot_predictions", lambda *_: None
    )
  samples = validity_files.samples()
  monkeypatch.setattr(experiment.load, "load_samples", lambda *_: samples)


@pytest.fixture
def with_plots():
  """Asks for the pictures."""


@pytest.fixture
def config(encoder, cache):
  def make(name, **changes):
    c = chronocept.get_config(name)
    c.encoder, c.cache_dir = str(encoder), str(cache)
    c.max_length = c.paper_max_length = 24
    if name in chronocept.RANDOM_INIT_MODELS:
      c.seeds = (0, 1)
      c.model.epochs = 3
    if name in ("ffnn", "bilstm"):
      c.model.hidden_size = 4
    c.update(changes)
    return c

  return make


def test_fields_and_what_becomes_of_axes():
  samples = validity_files.samples()["train"]
  given = features.make_field_texts(samples)
  assert given[1][0] == samples[1].parent_text
  assert given[1][1:] == tuple(samples[1].axes[axis] for axis in AXES)
  removed = features.make_field_texts(samples, "removed")
  assert removed == [(s.parent_text,) for s in samples]
  shuffled, again, other = (
    features.make_field_texts(samples, "shuffled", seed=seed)
    for seed in (1, 1, 2)
  )
  assert [(row[0], sorted(row)) for row in shuffled] == [
    (row[0], sorted(row)) for row in given
  ]
  assert given != shuffled == again != other


def test_targets_are_to_one_base():
  (sample,) = validity_files.samples()["test"][:1]
  ratio = np.log(1.1) / np.log(2)
  changes = {"location": sample.location * ratio, "scale": sample.scale * ratio}
  other = dataclasses.replace(sample, **changes, log_base=2.0)
  actual = features.extract_targets([sample, other])
  np.testing.assert_allclose(actual, [sample.targets] * 2, rtol=1e-12)


@pytest.mark.slow
def test_frozen_features_are_kept_and_keyed(encoder, cache, monkeypatch):
  actual = FrozenFeatures(str(encoder), 24, cache / "kept")
  rows = [("a tram", "", "stops"), ("rain", "stops", "")]
  vectors = actual.encode_vectors(rows)
  assert vectors.shape == (2, 3 * 16)
  # An absent field is a constant, wherever it stands.
  np.testing.assert_array_equal(vectors[0, 16:32], vectors[1, 32:])
  np.testing.assert_array_equal(vectors[0, 32:], vectors[1, 16:32])
  states, lengths = actual.encode_sequences(rows, pad_to_max_length=False)
  # Letters and [CLS]; "" is [CLS] alone.
  assert lengths.tolist() == [6 + 1 + 6, 5 + 6 + 1]
  np.testing.assert_allclose(states[0, 0], vectors[0, :16], atol=1e-5)
  assert not states[1, 12:].any()
  padded, all_lengths = actual.encode_sequences(rows, pad_to_max_length=True)
  assert padded.shape == (2, 3 * 24, 16)
  assert all_lengths.tolist() == [72, 72]
  np.testing.assert_array_equal(padded[0, 24], states[0, 6])
  tokens = actual.tokenize_rows(rows)
  assert tokens["ids"].shape == (2, 1, 6)
  assert tokens["axis_ids"].shape == (2, 2, 6)
  assert tokens["mask"].sum(axis=2).tolist() == [[6], [5]]
  assert tokens["axis_mask"].sum(axis=2).tolist() == [[0, 6], [6, 0]]
  assert set(actual.tokenize_rows([row[:1] for row in rows])) == {"ids", "mask"}

  def refuse(*_, **__):
    raise AssertionError("encoded again")

  monkeypatch.setattr(TextEncoder, "load", refuse)
  again = FrozenFeatures(str(encoder), 24, cache / "kept")
  np.testing.assert_array_equal(again.encode_vectors(rows[::-1]), vectors[::-1])
  shorter = FrozenFeatures(str(encoder), 20, cache / "kept")
  for kept, texts in ((shorter, rows), (again, [("another text",)])):
    with pytest.raises(AssertionError, match="encoded again"):
      kept.encode_vectors(texts)


@pytest.mark.slow
def test_a_run_is_saved_loaded_and_not_trained_twice(
  config, tmp_path, monkeypatch, capsys, with_plots
):
  c = config("ffnn")
  experiment.run_experiment(c, tmp_path)
  assert "ffnn" in capsys.readouterr().out
  rows = results.read_result_rows(tmp_path / "results.json")
  assert {row.score_mode for row in rows} == {"z"}
  assert {row.seeds for row in rows} == {(0, 1)}
  for row in rows:
    assert row.low - 1e-9 <= row.value <= row.high + 1e-9, row
  assert (tmp_path / "page.png").stat().st_size > 10_000
  lines = (tmp_path / "predictions.tsv").read_text().splitlines()
  size = validity_files.SIZES["test"]
  assert len(lines) == 1 + 2 * size
  reported = np.array([line.split("\t")[2:] for line in lines[1:]], float)
  predictor = ValidityModel.load(tmp_path)
  actual = predictor.predict_targets(validity_files.samples()["test"])
  expected = reported.reshape(2, size, 3).mean(axis=0)
  np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)

  def refuse(*_):
    raise AssertionError("trained again")

  monkeypatch.setattr(networks, "train_network", refuse)
  experiment.run_experiment(c, tmp_path)
  assert (tmp_path / "predictions.tsv").read_text().splitlines() == lines
  c.seeds = (0, 1, 2)
  with pytest.raises(AssertionError, match="trained again"):
    experiment.run_experiment(c, tmp_path)
  c.model.l1 = 0.5
  with pytest.raises(CheckpointError, match=r"model.l1: run 0.001, config 0.5"):
    experiment.run_experiment(c, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bilstm", "bert"])
@pytest.mark.parametrize("protocol", ["paper", "honest"])
def test_networks_run_under_both_protocols(config, tmp_path, model, protocol):
  c = config(model, protocol=protocol, seeds=(0,))
  experiment.run_experiment(c, tmp_path)
  history = json.loads((tmp_path / "history.json").read_text())["0"]
  scores = history["validation_mse"]
  best = 1 + int(np.argmin(scores))
  assert history["epoch"] == (3 if protocol == "paper" else best)
  # BERT alone learns raw targets, under the paper's; scores have the units of
  # the other models.
  raw = (model, protocol) == ("bert", "paper")
  ((_, learned),) = ValidityModel.load(tmp_path).models
  assert (learned.sd == 1).all() == raw
  rows = results.read_result_rows(tmp_path / "results.json")
  value = {(r.score_mode, r.metric, r.family): r.value for r in rows}
  targets = features.extract_targets(validity_files.samples()["test"])
  reported = (tmp_path / "predictions.tsv").read_text().splitlines()[1:]
  actual = np.array([line.split("\t")[2:] for line in reported], float)
  errors = np.mean((actual - targets) ** 2, axis=0)
  by = "test" if protocol == "paper" else "train"
  spread = features.extract_targets(validity_files.samples()[by]).std(axis=0)
  expected = np.mean(errors / spread**2)
  assert value["z", "mse", "all"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_fine_tuning_changes_the_encoder_and_absent_fields_do_nothing(
  config, tmp_path
):
  c = config("bert", seeds=(0,))
  experiment.run_experiment(c, tmp_path)
  predictor = ValidityModel.load(tmp_path)
  ((arrays, _),) = predictor.models
  name = "encoder/layer_0/attention/query/kernel"
  start = predictor.features.encoder.params
  for key in name.split("/")[1:]:
    start = start[key]
  assert abs(arrays[name] - start).max() > 1e-6
  tokens = predictor.features.tokenize_rows([("a tram", *("", "stops") * 4)])
  ids, mask = tokens["axis_ids"], tokens["axis_mask"]
  actual = [
    predictor.system.predict(arrays, {**tokens, "axis_ids": read})
    for read in (ids, np.where(mask, ids, 5))
  ]
  np.testing.assert_allclose(*actual, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["linear", "mean"])
def test_paper_protocol_has_r2_of_one_minus_mse(config, tmp_path, model):
  experiment.run_experiment(config(model, protocol="paper"), tmp_path)
  rows = results.read_result_rows(tmp_path / "results.json")
  value = {(r.score_mode, r.metric): r.value for r in rows if r.family == "all"}
  assert value["z", "r2"] == pytest.approx(1 - value["z", "mse"])
  assert value["z", "skill"] == pytest.approx(value["z", "r2"])


@pytest.mark.slow
@pytest.mark.parametrize("axes", ["removed", "shuffled"])
def test_ablations_change_what_is_read(config, tmp_path, axes):
  tables = []
  for name in ("given", axes):
    experiment.run_experiment(config("linear", axes=name), tmp_path / name)
    tables.append((tmp_path / name / "predictions.tsv").read_text())
  assert tables[0] != tables[1]
  # Axes change places in train alone.
  ((arrays, _),) = ValidityModel.load(tmp_path / axes).models
  width = arrays["weights"].shape[0]
  assert width == (16 if axes == "removed" else 9 * 16)


def test_a_search_that_was_stopped_goes_on(config, tmp_path, monkeypatch):
  c = config("svr", search=True)
  c.grid = {"C": (0.001, 1.0), "epsilon": (0.1, 50.0)}
  score, calls = systems._score_candidate, []

  def stopped(*arguments):
    if len(calls) == 3:
      raise KeyboardInterrupt
    calls.append(arguments)
    return score(*arguments)

  monkeypatch.setattr(systems, "_score_candidate", stopped)
  with pytest.raises(KeyboardInterrupt):
    experiment.run_experiment(c, tmp_path)
  finished = json.loads((tmp_path / "search.json").read_text())
  assert len(finished) == 3
  calls.clear()
  experiment.run_experiment(c, tmp_path)
  assert len(calls) == 1
  tried = json.loads((tmp_path / "search.json").read_text())
  assert tried[:3] == finished
  assert len({json.dumps(t["model"], sort_keys=True) for t in tried}) == 4


@pytest.mark.parametrize("protocol", ["paper", "honest"])
def test_search_takes_the_best_and_is_done_once(config, tmp_path, protocol):
  c = config("svr", protocol=protocol, search=True)
  c.grid = {"C": (0.001, 1.0), "epsilon": (0.1, 50.0)}
  experiment.run_experiment(c, tmp_path)
  tried = json.loads((tmp_path / "search.json").read_text())
  assert len(tried) == 4
  best = min(tried, key=lambda candidate: candidate["mse"])
  chosen = json.loads((tmp_path / "config.json").read_text())["model"]
  assert chosen == best["model"]
  before = (tmp_path / "search.json").stat().st_mtime_ns
  experiment.run_experiment(c, tmp_path)
  assert (tmp_path / "search.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"protocol": "fair"}, "config.protocol='fair': expected one of paper"),
    ({"axes": "none"}, "config.axes='none': expected one of given, removed"),
    ({"seeds": (1, 1)}, "config.seeds=(1, 1): expected different seeds"),
    ({"max_length": 2}, "config.max_length=2: expected at least 3 tokens"),
    ({"model": {"kind": "svr", "c": np.inf}}, "config.model.c=inf: expected a"),
    ({"search": True}, "config.search=True: mean has no grid"),
    ({"model": {"kind": "gru"}}, "config.model.kind='gru': expected one of"),
  ],
)
def test_a_wrong_value_is_named(config, tmp_path, change, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    experiment.run_experiment(config("mean", **change), tmp_path / "new")
  assert not (tmp_path / "new").exists()


def test_wrong_arguments_files_and_folders_are_named(
  config, tmp_path, monkeypatch
):
  with pytest.raises(ValueError, match="unknown model 'gru' after the config"):
    chronocept.get_config("gru")
  with pytest.raises(FileNotFoundError, match="no config of a run"):
    ValidityModel.load(tmp_path)
  experiment.run_experiment(config("mean"), tmp_path / "mean")
  (tmp_path / "mean" / "model_0.npz").write_bytes(b"broken")
  with pytest.raises(ValueError, match=r"model_0.npz: not a saved model"):
    ValidityModel.load(tmp_path / "mean")
  c = config("linear", encoder=str(tmp_path / "nowhere"))
  with pytest.raises(FileNotFoundError, match="nowhere"):
    experiment.run_experiment(c, tmp_path / "linear")
  monkeypatch.setattr(experiment.load, "load_samples", lambda *_: {"train": []})
  with pytest.raises(ValueError, match="_1: split train has 0 samples"):
    experiment.run_experiment(config("mean"), tmp_path / "none")


def test_the_entry_point_goes_by_the_task(config, tmp_path, monkeypatch):
  from ctd_jax import train
  from ctd_jax.utils import host_memory

  c = config("mean")

  for name, value in (("CONFIG", c), ("WORKDIR", str(tmp_path / "w"))):
    flag = types.SimpleNamespace(value=value)
    monkeypatch.setattr(command_line, name, flag)
  monkeypatch.setattr(host_memory, "keep_memory", lambda: None)
  train.main()
  assert (tmp_path / "w" / "results.json").exists()
  c.task = "walidity"
  with pytest.raises(ValueError, match="config.task='walidity': expected one"):
    train.main()
