"""Folders of trained daters, on their own corpus and on another."""

import dataclasses
import json

import numpy as np
import pytest

from ctd_jax.dating.linked.fitting import FittingConfig
from ctd_jax.dating.linked.linked_model import LinkedDatingModel
from ctd_jax.dating.linked.trained_dater import (
  MODEL_FILE,
  PARAMS_FILE,
  TrainedDater,
)
from tests.dating import chronicles
from tests.dating.linked.conftest import MODEL

_NO_UPDATES = FittingConfig(link_steps=0, steps=0)


@pytest.fixture
def folder(fitted, tmp_path):
  fitted.trained.save(tmp_path)
  return tmp_path


def hide_half(chronicle):
  """Other texts of the chronicle, dated by other known records."""
  rows = np.flatnonzero(np.arange(len(chronicle.texts)) % 5)
  return dataclasses.replace(chronicle.take(rows), train=~chronicle.train[rows])


def test_a_saved_dater_dates_its_corpus_as_before(
  chronicle, fit, fitted, folder
):
  model = LinkedDatingModel.from_trained(TrainedDater.load(folder))
  rows = np.flatnonzero(~chronicle.train)
  again = fit(chronicle, model=model).predict().log_p(rows)
  np.testing.assert_allclose(again, fitted.predict().log_p(rows), atol=1e-5)


def test_a_dater_dates_records_that_it_was_not_trained_on(
  chronicle, fit, folder
):
  other = hide_half(chronicle)
  trained = fit(
    other, model=LinkedDatingModel.from_trained(TrainedDater.load(folder))
  )
  untrained = fit(
    other, model=dataclasses.replace(MODEL, fitting_config=_NO_UPDATES)
  )
  good, poor = (
    chronicles.measure(each, other) for each in (trained, untrained)
  )
  assert good["nll"] < np.log(360) - 0.5
  assert good["nll"] < poor["nll"]


def test_weights_of_words_go_by_length_and_rarity(fitted, folder):
  vocabulary = fitted.features.year_vocabulary
  trained = TrainedDater.load(folder)
  np.testing.assert_allclose(
    trained.weigh_words(vocabulary), fitted.word_weights
  )
  assert all(name[0] in "1234" for name in trained.word_weights)
  # A group that training did not have has no weight.
  fewer = dict(trained.word_weights)
  missing = vocabulary.group_names[0]
  del fewer[missing]
  weights = dataclasses.replace(trained, word_weights=fewer).weigh_words(
    vocabulary
  )
  by_kernel = weights.reshape(vocabulary.num_kernels, -1)
  assert not by_kernel[:, 0].any()
  np.testing.assert_allclose(
    by_kernel[:, 1:],
    fitted.word_weights.reshape(vocabulary.num_kernels, -1)[:, 1:],
  )


def test_a_damaged_folder_is_named(folder):
  (folder / PARAMS_FILE).write_bytes(b"nothing")
  with pytest.raises(ValueError, match=f"{PARAMS_FILE} is cut off"):
    TrainedDater.load(folder)
  (folder / PARAMS_FILE).unlink()
  with pytest.raises(FileNotFoundError, match=f"no {PARAMS_FILE} in"):
    TrainedDater.load(folder)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"format": 99}, "format 99, expected 1; train it again"),
    ({"seed": "many"}, MODEL_FILE),
    ({"unknown": 1}, MODEL_FILE),
  ],
)
def test_another_format_is_named(folder, change, message):
  path = folder / MODEL_FILE
  path.write_text(json.dumps(json.loads(path.read_text()) | change))
  with pytest.raises(ValueError, match=message):
    TrainedDater.load(folder)


def test_a_folder_without_a_dater_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match=MODEL_FILE):
    TrainedDater.load(tmp_path)
