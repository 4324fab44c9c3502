"""Data sets that several test modules read, built once a session."""

import pytest
import tensorflow_datasets as tfds

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax_datasets import build, load
from tests.data import folders

MINI_NAME = "chunqiutr/mini"


@pytest.fixture(scope="session")
def mini_builder(mini_data_dir) -> tfds.core.DatasetBuilder:
  return build.build_dataset(MINI_NAME, mini_data_dir)


@pytest.fixture(scope="session")
def mini_benchmark(mini_data_dir) -> Benchmark:
  return load.load_benchmark(MINI_NAME, mini_data_dir)


@pytest.fixture
def host(tmp_path):
  """An empty folder and the URL at which this machine serves it."""
  folder = tmp_path / "host"
  folder.mkdir()
  with folders.serve_folder(folder) as url:
    yield folder, url
