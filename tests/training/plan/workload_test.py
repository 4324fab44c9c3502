"""Workload of a plan: geometry, calendar and lengths, without any data."""

import pathlib

import pytest

from ctd_jax.training import config as training_config
from ctd_jax.training.plan.workload import read_workload
from ctd_jax_configs import qwen, tiny

ROOT = pathlib.Path(__file__).resolve().parents[3]
QWEN = ROOT / "tests/golden/encoders/qwen3"  # config.json; weights not read


@pytest.fixture
def qwen_config(tmp_path):
  (tmp_path / "config.json").write_text((QWEN / "config.json").read_text())
  config = qwen.get_config()
  config.model.encoder.source = str(tmp_path)
  config.query_length = config.record_length = 32
  return config


def test_an_encoder_from_scratch_has_the_vocabulary_that_is_named():
  workload = read_workload(tiny.get_config(), vocab_size=123)
  assert workload.encoder.vocab_size == 123
  assert workload.encoder.hidden_size == 64
  assert len(workload.timeline.reigns) > 1
  assert (workload.query_tokens, workload.record_tokens) == (40, 64)


def test_of_a_published_encoder_config_json_is_enough(qwen_config):
  workload = read_workload(qwen_config, 10, 20)
  training_config.validate(qwen_config)
  assert workload.encoder.remat
  assert type(workload.encoder).__name__ == "DecoderConfig"
  assert (workload.query_tokens, workload.record_tokens) == (10, 20)


def test_a_geometry_that_is_not_there_is_an_error(qwen_config, tmp_path):
  (tmp_path / "config.json").unlink()
  with pytest.raises(FileNotFoundError, match=r"--config\.model\.encoder\.sou"):
    read_workload(qwen_config)
  qwen_config.model.encoder.source = "Qwen/Qwen3-Embedding-0.6B"
  # The tests have no network.
  with pytest.raises(FileNotFoundError, match="nor a model that the hub gave"):
    read_workload(qwen_config)


@pytest.mark.parametrize("tokens", [0, 41])
def test_texts_longer_than_they_are_cut_are_an_error(tokens):
  message = f"--query_tokens={tokens}: expected 1 to 40"
  with pytest.raises(ValueError, match=message):
    read_workload(tiny.get_config(), tokens)
