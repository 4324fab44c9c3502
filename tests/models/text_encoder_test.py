"""Text encoder: the example of its documentation."""

import doctest
import pathlib

import pytest

from ctd_jax.models import text_encoder

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_example_of_the_documentation_runs(monkeypatch):
  monkeypatch.chdir(ROOT)
  results = doctest.testmod(text_encoder)
  assert results.attempted
  assert results.failed == 0
