"""Reading a data set by its name."""

import json
import shutil

import pytest

import ctd_jax
from ctd_jax.benchmark.benchmark import SPLITS
from ctd_jax_datasets import build, load
from ctd_jax_datasets.chunqiutr import gallery


def test_a_built_data_set_is_whole(mini_builder, mini_benchmark):
  builder, benchmark = mini_builder, mini_benchmark
  assert benchmark.name == f"chunqiutr/mini:{builder.version}"
  counts = {name: len(rows) for name, rows in benchmark.queries.items()}
  counts["records"] = len(benchmark.records)
  assert counts == {
    name: info.num_examples for name, info in builder.info.splits.items()
  }
  assert tuple(benchmark.queries) == SPLITS
  assert benchmark.record_ids == sorted(benchmark.record_ids)


def test_every_work_of_ours_has_a_title(mini_benchmark):
  sources = {record.source for record in mini_benchmark.records}
  assert sources <= set(mini_benchmark.titles)
  assert mini_benchmark.titles["cang_annals"] == "滄史"
  assert set(gallery.SOURCE_FOLDERS) <= set(gallery.SOURCE_TITLES)


def test_a_data_set_that_was_not_built_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match="datasets.build chunqiutr/mini"):
    load.load_benchmark("chunqiutr/mini", tmp_path)


def test_a_data_set_in_another_format_is_named(mini_builder, tmp_path):
  folder = tmp_path / "chunqiutr" / "mini" / str(mini_builder.version)
  shutil.copytree(mini_builder.data_path, folder)
  # As TFDS leaves it that is told to write tfrecord.
  info_path = folder / "dataset_info.json"
  info = json.loads(info_path.read_text("utf-8"))
  info_path.write_text(json.dumps(info | {"fileFormat": "tfrecord"}), "utf-8")
  message = "stored as tfrecord, .* chunqiutr/mini .*--overwrite"
  with pytest.raises(ValueError, match=message):
    load.load_benchmark("chunqiutr/mini", tmp_path)
  with pytest.raises(ValueError, match=message):
    build.build_dataset("chunqiutr/mini", tmp_path)
  build.build_dataset("chunqiutr/mini", tmp_path, overwrite=True)
  assert load.load_benchmark("chunqiutr/mini", tmp_path).records


def _flip_bit(content):
  middle = len(content) // 3
  return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
  ("name", "damage"),
  [
    ("dataset_info.json", lambda content: content[:100]),
    ("dataset_info.json", lambda content: bytes(len(content))),
    ("dataset_info.json", lambda content: None),
    # The right records, but fewer of them; no queries to validate with.
    (
      "dataset_info.json",
      lambda content: content.replace(b'"1887"', b'"1883"'),
    ),
    (
      "dataset_info.json",
      lambda content: content.replace(b"valida", b"walida"),
    ),
    ("statistics.json", lambda content: b"{}"),
    ("*-records.*", _flip_bit),
    ("*-test.*", lambda content: content[: len(content) // 2]),
    ("*-train.*", lambda content: None),
  ],
)
def test_a_damaged_data_set_names_the_command_that_builds_it_again(
  mini_builder, tmp_path, name, damage
):
  folder = tmp_path / "chunqiutr" / "mini" / str(mini_builder.version)
  shutil.copytree(mini_builder.data_path, folder)
  [path] = folder.glob(name)
  content = damage(path.read_bytes())
  if content is None:
    path.unlink()
  else:
    assert content != path.read_bytes()
    path.write_bytes(content)
  with pytest.raises(build.DamagedDatasetError) as error:
    load.build_benchmark("chunqiutr/mini", tmp_path)
  message = str(error.value)
  assert message.startswith(f"{folder}: damaged (")
  assert message.endswith(f" chunqiutr/mini --data_dir={tmp_path} --overwrite")


def test_an_unknown_name_suggests_the_nearest(tmp_path):
  message = "no data set 'chunqiutr/mimi'; did you mean 'chunqiutr/mini'"
  with pytest.raises(ValueError, match=message):
    ctd_jax.load_benchmark("chunqiutr/mimi", tmp_path)


def test_a_data_set_of_another_task_is_named(tmp_path):
  with pytest.raises(ValueError, match="ctm/qa has no records to search"):
    load.load_benchmark("ctm/qa", tmp_path)
