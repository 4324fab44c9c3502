"""Data sets read by `tfds.load`, with TensorFlow and without it."""

import importlib.util
import pathlib
import re
import subprocess

import numpy as np
import pytest
import tensorflow_datasets as tfds

import ctd_jax
from ctd_jax_datasets import build
from tests.tools import processes

ROOT = pathlib.Path(__file__).parents[3]
ZZTJ_SOURCES = ROOT / "data/zztj/dummy_data"
# One data set of every kind of features: name -> folder of its sources.
NAMES = {
  "chunqiutr/mini": None,
  "chronocept/synthetic_1": None,
  "ctm/ito": None,
  "ctm/long_script": None,
  "zztj/demo_jin": ZZTJ_SOURCES,
}
MINI = "chunqiutr/mini"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> pathlib.Path:
  folder = tmp_path_factory.mktemp("tf_data")
  for name, sources in NAMES.items():
    build.build_dataset(name, folder, sources)
  return folder


def test_a_name_without_a_config_is_the_real_data():
  assert tfds.builder("chunqiutr").builder_config.name == "rebuilt"
  assert tfds.builder("chronocept").builder_config.name == "benchmark_1"


def assert_same_examples(dataset, data_source):
  """Compares a `tf.data.Dataset` with a data source, order included."""
  assert len(dataset) == len(data_source) > 0
  for row, expected in zip(
    dataset.as_numpy_iterator(), data_source, strict=True
  ):
    assert row.keys() == expected.keys()
    for feature, value in expected.items():
      np.testing.assert_array_equal(row[feature], value, err_msg=feature)
      assert np.asarray(row[feature]).shape == np.asarray(value).shape


@pytest.mark.tf
@pytest.mark.parametrize("name", NAMES)
def test_load_reads_what_the_data_source_reads(data_dir, name):
  datasets, info = tfds.load(name, data_dir=data_dir, with_info=True)
  data_sources = tfds.data_source(name, data_dir=data_dir)
  assert datasets.keys() == data_sources.keys() == info.splits.keys()
  for split, dataset in datasets.items():
    assert_same_examples(dataset, data_sources[split])


# 1,887 records are read in four chunks; parts begin and end inside of them.
@pytest.mark.tf
@pytest.mark.parametrize(
  "part", ["records[:10%]", "records[500:1030]", "records[-3:]", "train+test"]
)
def test_parts_of_a_split_are_read(data_dir, part):
  assert_same_examples(
    tfds.load(MINI, split=part, data_dir=data_dir),
    tfds.data_source(MINI, split=part, data_dir=data_dir),
  )


@pytest.mark.tf
def test_a_version_and_a_folder_are_read_without_our_builder(data_dir):
  builder = tfds.builder(MINI, data_dir=data_dir)
  by_version = tfds.load(
    f"{MINI}:{builder.version}", split="test", data_dir=data_dir
  )
  by_folder = tfds.builder_from_directory(builder.data_dir)
  for dataset in (by_version, by_folder.as_dataset(split="test")):
    assert_same_examples(dataset, builder.as_data_source("test"))


@pytest.mark.tf
def test_the_options_of_load_work(data_dir):
  builder = tfds.builder(MINI, data_dir=data_dir)
  batch = next(iter(tfds.load(MINI, split="test", data_dir=data_dir).batch(4)))
  assert batch["start"].shape == (4, 3)
  whole = tfds.load(MINI, split="test", data_dir=data_dir, batch_size=-1)
  assert len(whole["id"]) == builder.info.splits["test"].num_examples
  # Reading a second time begins anew.
  dataset = tfds.load(MINI, split="test", data_dir=data_dir).repeat(2)
  ids = [row["id"] for row in dataset.as_numpy_iterator()]
  assert ids == [row["id"] for row in builder.as_data_source("test")] * 2
  config = tfds.ReadConfig(add_tfds_id=True)
  with_ids = tfds.load(
    MINI, split="test", data_dir=data_dir, read_config=config
  )
  assert next(with_ids.as_numpy_iterator())["tfds_id"].endswith(b"__0")


@pytest.mark.tf
def test_what_load_builds_is_what_the_command_builds(data_dir, tmp_path):
  tfds.load(MINI, split="test", data_dir=tmp_path)
  built, loaded = (
    {
      path.name: path.read_bytes()
      for path in tfds.builder(MINI, data_dir=folder).data_path.iterdir()
    }
    for folder in (data_dir, tmp_path)
  )
  assert loaded.items() <= built.items()
  assert any("array_record" in name for name in loaded)
  assert len(ctd_jax.load_benchmark(MINI, tmp_path).queries["test"]) == 250


def run_tutorial(num_blocks: int) -> dict[str, object]:
  """Runs the first code blocks of the tutorial; returns their variables."""
  page = (ROOT / "docs/tutorials/own-data.md").read_text(encoding="utf-8")
  blocks = re.findall(r"^```python\n(.+?)^```$", page, re.DOTALL | re.MULTILINE)
  variables = {}
  exec("".join(blocks[:num_blocks]), variables)
  return variables


def test_the_first_code_of_the_tutorial_runs(data_dir, monkeypatch):
  monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
  variables = run_tutorial(1)
  assert len(variables["records"]) == 1887
  assert len(variables["samples"]) == 878


@pytest.mark.tf
def test_the_code_of_the_tutorial_runs_with_tensorflow(data_dir, monkeypatch):
  monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
  variables = run_tutorial(2)
  assert len(variables["queries"]) == 1373
  (first_batch,) = variables["samples"].take(1)
  assert first_batch["location"].shape == (8,)


def run_python(code: str) -> subprocess.CompletedProcess:
  modules = "ctd_jax_datasets, tensorflow_datasets as tfds"
  return processes.run_python("-c", f"import {modules}\n{code}")


@pytest.mark.slow
@pytest.mark.skipif(
  importlib.util.find_spec("tensorflow") is not None,
  reason="TensorFlow is installed",
)
@pytest.mark.parametrize("name", [MINI, "chronocept/synthetic_1"])
def test_load_without_tensorflow_names_the_call_that_works(tmp_path, name):
  load = f"{name!r}, split='train', data_dir={str(tmp_path)!r})"
  failed = run_python(f"tfds.load({load}")
  assert failed.returncode == 1
  assert failed.stderr.splitlines()[-1] == (
    "ModuleNotFoundError: tfds.load and as_dataset need TensorFlow "
    f'(extra [tf]); without it: tfds.data_source("{name}", split=...)'
  )
  # Neither a chain of errors nor the advice of TFDS to install TensorFlow.
  assert failed.stderr.count("Traceback") == 1
  assert "import TensorFlow" not in failed.stderr
  # The call that is named works, on what the first has built.
  done = run_python(f"print(len(tfds.data_source({load}))")
  assert int(done.stdout.splitlines()[-1]) > 0, done.stderr
