"""What tests of CTM share: generated questions and their checker."""

import pytest

from ctd_jax_datasets.ctm import checks, generator, repository


@pytest.fixture(scope="session")
def generated_questions():
  return generator.generate_questions()


@pytest.fixture(scope="session")
def check():
  return checks.QuestionChecker(repository.load_entities())
