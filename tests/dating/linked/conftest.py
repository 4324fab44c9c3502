"""A linked model fitted once on an invented chronicle, for all files here."""

import pytest

from ctd_jax.dating import corpus
from ctd_jax.dating.linked.fitting import FittingConfig
from ctd_jax.dating.linked.linked_model import LinkedDatingModel
from ctd_jax.models.linked_dater import LinkedDaterConfig
from tests.dating import chronicles

MODEL = LinkedDatingModel.make(
  LinkedDaterConfig(readers=("words",), hidden_size=16),
  FittingConfig(link_steps=60, steps=40),
)


@pytest.fixture(scope="session")
def chronicle():
  return chronicles.make_chronicle()


@pytest.fixture(scope="session")
def fit():
  """Fits a model on a chronicle."""

  def fit_model(chronicle, labels=None, model=MODEL):
    texts = corpus.read_corpus(chronicle.texts, chronicles.TIMELINE)
    return model.fit(texts, chronicle.labels() if labels is None else labels)

  return fit_model


@pytest.fixture(scope="session")
def fitted(chronicle, fit):
  return fit(chronicle)
