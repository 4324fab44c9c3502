"""Data sets that several test modules read, built once a session."""

import functools
import http.server
import threading

import pytest
import tensorflow_datasets as tfds

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax_datasets import build, load

MINI_NAME = "chunqiutr/mini"


@pytest.fixture(scope="session")
def mini_builder(mini_data_dir) -> tfds.core.DatasetBuilder:
  return build.build_dataset(MINI_NAME, mini_data_dir)


@pytest.fixture(scope="session")
def mini_benchmark(mini_data_dir) -> Benchmark:
  return load.load_benchmark(MINI_NAME, mini_data_dir)


class _Quiet(http.server.SimpleHTTPRequestHandler):
  def log_message(self, *arguments):
    pass


@pytest.fixture
def host(tmp_path):
  """An empty folder and the URL at which this machine serves it."""
  folder = tmp_path / "host"
  folder.mkdir()
  handler = functools.partial(_Quiet, directory=str(folder))
  with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
