"""A run that starts from a published encoder, and its export."""

import shutil

import jax
import numpy as np
import pytest

from ctd_jax.experiments import training_run
from ctd_jax.models.dual_encoder import normalize_vectors
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.models.tokenizer import format_instruction
from ctd_jax.retrieval import run_export
from ctd_jax.training import config as training_config
from ctd_jax.training import experiment
from ctd_jax_configs import bert as bert_config
from ctd_jax_configs import qwen as qwen_config
from tests import synthetic
from tests.models import published_folder
from tests.models.published_folder import pool_tokens
from tests.training import synthetic_run

pytestmark = pytest.mark.usefixtures("quick_compile", "small_world")

BENCHMARK = synthetic.benchmark()
TEXTS = [record.text for record in BENCHMARK.records]


def config_of(module, folder, method="ft"):
  """Returns an installed config, shrunk, with the weights of a folder."""
  c = module.get_config(method)
  c.model.encoder.source = str(folder)
  c.model.encoder.dtype = "float32"
  if module is qwen_config:
    c.model.encoder.end_token = "</s>"
    c.model.encoder.query_prefix = format_instruction("問")
  c.query_length, c.record_length = 40, 24
  c.batch_size = 16
  c.num_epochs = 1.0
  c.eval_every = c.log_every = 1
  c.eval.batch_size = 32
  c.eval.baselines = ()
  c.eval.splits = ("test",)
  c.optimizer.learning_rate = 1e-3
  return c


def frozen(folder, pooling="cls", **kwargs):
  return TextEncoder.load(folder, pooling=pooling, normalize=True, **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("module", "kind", "pooling", "method"),
  [
    (bert_config, "bert", "cls", "ctd"),
    (qwen_config, "qwen3", "last", "ft"),
  ],
)
def test_train_resume_and_export(module, kind, pooling, method, tmp_path):
  folder = published_folder.write(tmp_path / "published", TEXTS, kind)
  config = config_of(module, folder, method)
  config.optimizer.warmup_fraction = 0.5
  run = experiment.assemble_experiment(config, tmp_path / "run")
  start = jax.device_get(run.init_state().params["encoder"])
  assert ("layers" in start) == config.model.encoder.scan_layers
  run.checkpoints.close()

  training_run.train_and_evaluate(config, tmp_path / "run", stop_after=1)
  # The published folder is not needed again.
  shutil.move(folder, tmp_path / "moved")
  run = experiment.assemble_experiment(config, tmp_path / "run")
  state = run.checkpoints.restore(1, run.abstract_state())
  # The first update has rate 0: still the published weights.
  jax.tree.map(
    np.testing.assert_array_equal, dict(state.params["encoder"]), dict(start)
  )
  run.checkpoints.close()
  if kind == "bert":
    training_run.train_and_evaluate(config, tmp_path / "run")

  run = experiment.assemble_experiment(config, tmp_path / "run")
  run_export.export_run(run, tmp_path / "exported")
  best = run.checkpoints.best_step
  state = run.checkpoints.restore(best, run.abstract_state())
  tokens = run.records
  hidden = run.backbone.encoder.make_encoder().apply(
    {"params": state.params["encoder"]}, tokens.ids, tokens.mask
  )
  again = frozen(
    tmp_path / "exported",
    pooling=pooling,
    max_length=24,
    prefix=run.backbone.record_prefix,
  )
  np.testing.assert_allclose(
    again.encode(TEXTS),
    normalize_vectors(pool_tokens(hidden, tokens.mask, pooling)),
    atol=1e-5,
  )
  with pytest.raises(ValueError, match="exported: not empty"):
    run_export.export_run(run, tmp_path / "exported")
  run.checkpoints.close()


@pytest.mark.slow
def test_queries_are_told_what_is_wanted_and_records_are_not(tmp_path):
  folder = published_folder.write(tmp_path / "published", TEXTS, "qwen3")
  run = experiment.assemble_experiment(
    config_of(qwen_config, folder), tmp_path / "run"
  )
  tokenizer = run.backbone.tokenizer
  query = BENCHMARK.queries["train"][0].text
  expected, _ = tokenizer.encode([f"Instruct: 問\nQuery:{query}"], 40)
  np.testing.assert_array_equal(run.queries["train"].ids[0], expected[0])
  expected, _ = tokenizer.encode([TEXTS[0]], 24)
  np.testing.assert_array_equal(run.records.ids[0], expected[0])
  run.checkpoints.close()


@pytest.mark.slow
def test_a_vector_does_not_depend_on_its_batch(tmp_path):
  folder = published_folder.write(tmp_path, TEXTS)
  encoder = frozen(folder)
  texts = [*TEXTS[:5], "", "春" * 100]
  together = encoder.encode(texts, batch_size=4)
  alone = np.concatenate([encoder.encode([t], batch_size=4) for t in texts])
  np.testing.assert_allclose(together, alone, atol=1e-6)
  np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
  states, mask = encoder.encode_tokens(texts, batch_size=4)
  assert states.shape == (len(texts), 64, 16)  # the last text was cut
  assert mask.sum(1).tolist() == [
    *(len(t) + 2 for t in TEXTS[:5]),
    2,
    64,
  ]
  assert not states[mask == 0].any()
  first = states[:, 0] / np.linalg.norm(states[:, :1], axis=2)
  np.testing.assert_allclose(first, together, atol=1e-6)
  assert encoder.encode([]).shape == (0, 16)


def test_what_does_not_fit_is_named(tmp_path):
  folder = published_folder.write(tmp_path / "published", TEXTS)
  with pytest.raises(ValueError, match="pooling must be one of"):
    frozen(folder, pooling="first")
  with pytest.raises(ValueError, match="takes 1 to 64 tokens"):
    frozen(folder, max_length=65)
  published_folder.write_tokenizer(folder, [*TEXTS, "鼎"])
  with pytest.raises(ValueError, match=r"token table only \d+ rows"):
    frozen(folder)
  (folder / "tokenizer.json").unlink()
  with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json"):
    frozen(folder)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["folder", "model.safetensors"])
def test_missing_weights_are_named_before_a_data_set_is_built(
  tmp_path, monkeypatch, missing
):
  folder = published_folder.write(tmp_path / "published", TEXTS)
  if missing == "folder":
    folder = tmp_path / "absent"
  else:
    (folder / missing).unlink()
  monkeypatch.setattr(
    experiment.load, "build_benchmark", lambda *_: pytest.fail("built")
  )
  with pytest.raises(
    FileNotFoundError,
    match="config.model.encoder.source: "
    + (f"{folder}: no such folder" if missing == "folder" else f"no {missing}"),
  ):
    training_run.train_and_evaluate(
      config_of(bert_config, folder), tmp_path / "run"
    )
  assert not (tmp_path / "run").exists()


def test_a_prefix_that_leaves_no_room_is_refused(tmp_path, monkeypatch):
  folder = published_folder.write(tmp_path / "published", TEXTS, "qwen3")
  config = config_of(qwen_config, folder)
  # The instruction has 18 characters, and a text ends with a token.
  assert len(config.model.encoder.query_prefix) == 18
  monkeypatch.setattr(
    experiment.load, "build_benchmark", lambda *_: pytest.fail("built")
  )
  for length, rest in ((18, 0), (20, 1), (37, 18)):
    config.query_length = length
    with pytest.raises(
      ValueError,
      match=r"config\.model\.encoder\.query_prefix='Instruct: .* has 19 tokens "
      rf"and leaves {rest} of config\.query_length={length} .* to 38 or more",
    ):
      training_run.train_and_evaluate(config, tmp_path / "run")
  config.query_length = 40
  config.model.encoder.record_prefix = "經" * 12
  with pytest.raises(
    ValueError, match=r"leaves 11 of config\.record_length=24"
  ):
    training_run.train_and_evaluate(config, tmp_path / "run")
  assert not (tmp_path / "run").exists()


def test_a_length_that_makes_one_text_of_all_is_refused(tmp_path, caplog):
  config = synthetic_run.config("ft")
  config.query_length = 3  # [CLS], the state, the first sign of the duke
  with pytest.raises(
    ValueError,
    match="train queries: 36 distinct texts become 2 rows of tokens.*"
    r"config\.query_length=3 higher",
  ):
    training_run.train_and_evaluate(config, tmp_path / "run")
  assert not (tmp_path / "run").exists()
  length = max(len(query.text) for query in BENCHMARK.queries["train"])
  assert (
    "train queries: 36 of 36 are cut at config.query_length=3 tokens; "
    f"{length} would hold them all"
  ) in caplog.text
  assert "records: 72 of 72 are cut at config.record_length=10" in caplog.text


@pytest.mark.parametrize("module", [bert_config, qwen_config])
def test_every_method_has_a_config(module):
  for method in training_config.METHODS:
    config = module.get_config(method)
    if method == "time_tokens":
      with pytest.raises(ValueError, match="vocabulary of a published encoder"):
        training_config.validate(config)
    else:
      training_config.validate(config)
    assert config.name.startswith(method)
    assert "hidden_size" not in config.model.encoder
