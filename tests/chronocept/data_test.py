"""Samples of Chronocept: records, files, hub, synthetic stand-in, builder."""

import json
import pathlib
import shutil
import warnings

import numpy as np
import pytest
import scipy.stats
from tensorflow_datasets.core.download import checksums

from ctd_jax_datasets import build, load
from ctd_jax_datasets.chronocept import (
  chronocept_dataset_builder,
  sample_records,
)
from ctd_jax_datasets.common.source_files import SourceError
from tests.data import folders

DUMMY = pathlib.Path(sample_records.__file__).with_name("dummy_data")


AXES = {f"{axis}_axis": "" for axis in sample_records.AXES}
RECORD = {
  "_id": "X1",
  "parent_text": "A kettle boils.",
  "axes": AXES | {"main_outcome_axis": "A kettle boils"},
  "target_values": {"location": 20.5, "scale": 4, "skewness": -1.25},
}


def change(members, changes):
  """Returns members with some replaced; None takes one away."""
  changed = members | changes
  return {name: v for name, v in changed.items() if v is not None}


def record(**changes):
  return change(RECORD, changes)


def axes(**changes):
  return change(RECORD["axes"], changes)


def targets(**changes):
  """Returns a record with other target values."""
  return record(target_values=change(RECORD["target_values"], changes))


def write(path, *rows):
  path.write_text(json.dumps(rows), encoding="utf-8")
  return path


def test_a_good_record(tmp_path):
  path = write(tmp_path / "a.json", record())
  (sample,) = sample_records.read_json_samples(path)
  assert sample.sample_id == "X1"
  assert sample.targets == (20.5, 4.0, -1.25)
  assert (sample.log_base, sample.time_unit) == (1.1, "minute")
  assert tuple(sample.axes) == sample_records.AXES
  assert sample.axes["main_outcome"] == "A kettle boils"


@pytest.mark.parametrize("spelling", ["hypothesis_axis", "hypothetical_axis"])
def test_both_spellings_of_the_hypothetical_axis(tmp_path, spelling):
  actual = axes(hypothetical_axis=None) | {spelling: "if it leaks"}
  path = write(tmp_path / "a.json", record(axes=actual))
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    (sample,) = sample_records.read_json_samples(path)
  assert sample.axes["hypothetical"] == "if it leaks"


def test_neither_spelling_is_warned_of_once(tmp_path):
  bare = axes(hypothetical_axis=None)
  rows = [record(), *(record(_id=f"Y{i}", axes=bare) for i in range(2))]
  with pytest.warns(UserWarning, match="2 of 3 records.*Y0") as caught:
    actual = sample_records.read_json_samples(write(tmp_path / "a.json", *rows))
  assert len(caught) == 1
  assert actual[1].axes["hypothetical"] == ""


@pytest.mark.parametrize(
  ("bad", "message"),
  [
    ([1], r"record 1: Expected `object`, got `array`; it is \[1\]"),
    (record(_id=None), "record 1: Object missing required field `_id`"),
    (record(_id=7), "record 1._id: Expected `str`, got `int`; it is 7"),
    (record(_id=" "), r"record 1._id: Expected `str` matching .*; it is \" \""),
    (record(parent_text=None), r"record 1 \(X1\): .* field `parent_text`"),
    (record(parent_text=""), r"\(X1\).parent_text: .* matching regex"),
    (record(colour="red"), r"\(X1\): .*unknown field `colour`; known are _id"),
    (record(axes=None), r"\(X1\): Object missing required field `axes`"),
    (record(axes=[]), r"\(X1\).axes: Expected `object`.*; it is \[\]"),
    (record(axes=axes(hypo_axis="")), r"\(X1\).axes: .*`hypo_axis`; known are"),
    (record(axes=axes(static_axis=None)), "axes: .* required .*`static_axis`"),
    (record(axes=axes(static_axis=3)), "axes.static_axis: .*`str`.*; it is 3"),
    (record(axes=axes(hypothesis_axis="")), "axes: has both hypothetical_axis"),
    (record(target_values=None), r"\(X1\): .* field `target_values`"),
    (targets(scale=None), "required field `scale`"),
    (targets(peak=1), "target_values: .*`peak`; known"),
    (targets(location="4"), '.location: .*; it is "4"'),
    (targets(location=True), ".location: .*; it is true"),
    (targets(skewness=np.nan), r"values: skewness is nan; expected a finite"),
    (targets(location=10**400), "location: .* range"),
    (targets(scale=0), "scale: .* > 0.0; it is 0"),
    (targets(scale=np.inf), "scale is inf; expected a f"),
    (record(log_base=1), "log_base: Expected `float` > 1.0; it is 1"),
    (record(log_base=np.inf), "log_base is inf; expected a finite number"),
    (record(time_unit="hour"), 'time_unit: .*; it is "hour"'),
  ],
)
def test_a_malformed_record_is_named(tmp_path, bad, message):
  path = write(tmp_path / "valid.json", bad)
  with pytest.raises(SourceError, match=message) as caught:
    sample_records.read_json_samples(path)
  assert str(caught.value).startswith(f"{path}: record 1")
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "no record"),
    ("[]", "no record"),
    ("[{", "not JSON"),
    ('{"_id": "A"}\n{', ":1: \\(A\\): Object missing required field"),
    ('[{"_id": "A", "_id": "B"}]', '"_id" occurs twice'),
  ],
)
def test_a_malformed_file_is_named(tmp_path, text, message):
  path = tmp_path / "a.json"
  path.write_text(text, encoding="utf-8")
  with pytest.raises(SourceError, match=message) as caught:
    sample_records.read_json_samples(path)
  assert str(path) in str(caught.value)


def test_an_id_belongs_to_one_record_and_one_split(tmp_path):
  twice = write(tmp_path / "a.json", record(), record())
  with pytest.raises(SourceError, match=r"record 2 \(X1\)._id: already the id"):
    sample_records.read_json_samples(twice)
  one, two = (write(tmp_path / f"{n}.json", record()) for n in "bc")
  with pytest.raises(SourceError, match=r"c\.json: X1\._id: also in .*b\.json"):
    sample_records.read_splits({"train": one, "test": two})


def test_json_lines_are_read(tmp_path):
  path = tmp_path / "a.json"
  path.write_text(
    "".join(json.dumps(record(_id=name)) + "\n" for name in "AB"), "utf-8"
  )
  actual = sample_records.read_json_samples(path)
  assert [sample.sample_id for sample in actual] == ["A", "B"]


def test_split_statistics_pool_to_table_5():
  # Sample standard deviation over all splits, four decimals.
  table = {
    "benchmark_1": ((54.2803, 11.5474, -0.0158), (20.4169, 3.7725, 1.3858)),
    "benchmark_2": ((46.1511, 9.5553, 0.0275), (13.3839, 2.5725, 1.1773)),
  }
  for benchmark, (means, deviations) in table.items():
    splits = sample_records.read_target_statistics()[benchmark].values()
    n = np.array([s.n for s in splits])[:, None]
    mean = np.array([s.mean for s in splits])
    variance = np.array([s.sd for s in splits]) ** 2
    pooled = (n * mean).sum(0) / n.sum()
    squares = (n * (variance + (mean - pooled) ** 2)).sum(0)
    sd = np.sqrt(squares / (n.sum() - 1))
    np.testing.assert_allclose(pooled, means, atol=5.01e-5)
    np.testing.assert_allclose(sd, deviations, atol=5.01e-5)


@pytest.mark.parametrize("benchmark", sample_records.BENCHMARKS)
def test_synthetic_marginals_are_the_published(benchmark):
  generated = chronocept_dataset_builder.generate_samples(benchmark)
  assert generated == chronocept_dataset_builder.generate_samples(benchmark)
  other = chronocept_dataset_builder.generate_samples(benchmark, seed=1)
  assert generated != other
  all_published = sample_records.read_target_statistics()[benchmark]
  for split, published in all_published.items():
    actual = np.array([s.targets for s in generated[split]])
    assert len(actual) == published.n
    for found, expected in (
      (actual.mean(axis=0), published.mean),
      (actual.std(axis=0), published.sd),
    ):
      np.testing.assert_allclose(found, expected, atol=1e-4)
    assert actual[:, 0].min() >= 0
    assert actual[:, 1].min() > 0
  all_samples = [s for actual in generated.values() for s in actual]
  counts = {
    a: sum(bool(s.axes[a]) for s in all_samples) for a in sample_records.AXES
  }
  assert counts == sample_records.read_axis_counts(benchmark)
  assert len({s.sample_id for s in all_samples}) == len(all_samples)


@pytest.mark.parametrize("benchmark", sample_records.BENCHMARKS)
def test_synthetic_texts_tell_the_location_and_hold_their_axes(benchmark):
  actual = chronocept_dataset_builder.generate_samples(benchmark)["train"]
  wording = chronocept_dataset_builder.WORDING["duration"]
  named = []
  for sample in actual:
    assert all(piece in sample.parent_text for piece in sample.axes.values())
    main = sample.axes["main_outcome"].lower().rstrip(".")
    (minutes,) = (m for m, ends in wording.items() if main.endswith(ends))
    named.append(float(minutes))
  xi, omega, alpha = (
    scipy.stats.spearmanr(named, column).statistic
    for column in zip(*(s.targets for s in actual), strict=True)
  )
  assert xi > 0.8
  assert max(abs(omega), abs(alpha)) < 0.15


@pytest.mark.slow
def test_a_folder_is_built_and_read(tmp_path):
  builder = build.build_dataset("chronocept/benchmark_1", tmp_path, DUMMY)
  assert not builder.info.metadata["synthetic"]
  assert "chronocept2025" in builder.info.citation
  actual = load.load_samples("chronocept/benchmark_1", tmp_path)
  assert actual == load.load_samples(f"json:{DUMMY / 'benchmark_1'}")
  sizes = {split: len(rows) for split, rows in actual.items()}
  assert sizes == {"train": 2, "validation": 1, "test": 1}
  assert actual["train"][1].axes["hypothetical"] == "unless the clerk calls her"
  tables = (builder.data_path / build.TABLES_FILE).read_text("utf-8")
  assert "synthetic" not in tables
  assert "878" in tables


@pytest.mark.slow
def test_synthetic_is_built_and_labelled(tmp_path):
  builder = build.build_dataset("chronocept/synthetic_2", tmp_path)
  expected = chronocept_dataset_builder.generate_samples("benchmark_2")
  assert sample_records.read_samples(builder) == expected
  tables = (builder.data_path / build.TABLES_FILE).read_text("utf-8")
  assert "synthetic" in tables.splitlines()[0]
  counted = json.loads((builder.data_path / build.STATISTICS_FILE).read_text())
  assert counted["synthetic"]
  with pytest.raises(SourceError, match="made without sources"):
    build.build_dataset("chronocept/synthetic_1", tmp_path, sources=DUMMY)


def test_a_malformed_file_leaves_no_data_set(tmp_path):
  folder = shutil.copytree(DUMMY, tmp_path / "files")
  write(folder / "benchmark_1/test.json", targets(scale=-1))
  with pytest.raises(SourceError, match=r"test\.json: record 1 \(X1\)\.target"):
    build.build_dataset("chronocept/benchmark_1", tmp_path / "data", folder)
  assert not list((tmp_path / "data").rglob("benchmark_1*"))
  (folder / "benchmark_2/valid.json").unlink()
  with pytest.raises(SourceError, match=r"missing valid\.json \(it is https"):
    build.build_dataset("chronocept/benchmark_2", tmp_path / "data", folder)


def test_unknown_names_are_told():
  with pytest.raises(ValueError, match="json:FILE and csv:FILE"):
    load.load_samples("chunqiutr/mini")


@pytest.fixture
def hub(tmp_path, monkeypatch):
  """A hub on this machine, and no checksum known yet."""
  folder = shutil.copytree(DUMMY, tmp_path / "hub")
  table = tmp_path / "checksums.tsv"
  table.touch()
  monkeypatch.delenv("CTD_JAX_RELEASE", raising=False)
  monkeypatch.setattr(sample_records, "CHECKSUMS", table)
  builder = chronocept_dataset_builder.Builder
  monkeypatch.setattr(builder, "_checksums_path", table)
  with folders.serve_folder(folder) as url:
    monkeypatch.setattr(sample_records, "HUB_URL", url)
    yield folder


@pytest.mark.slow
def test_downloads_are_registered_then_checked(hub, tmp_path, monkeypatch):
  name = "chronocept/benchmark_1"
  build.build_dataset(name, tmp_path / "first", register_checksums=True)
  registered = sample_records.CHECKSUMS.read_text("utf-8").splitlines()
  assert len(registered) == 3
  assert load.load_samples(name, tmp_path / "first")["test"][0].scale == 4.125
  # A process reads the registered ones once, and this one began before.
  infos = checksums.load_url_infos(sample_records.CHECKSUMS)
  monkeypatch.setattr(chronocept_dataset_builder.Builder, "url_infos", infos)
  load.load_samples(name, tmp_path / "second")
  path = hub / "benchmark_1/test.json"
  path.write_text(path.read_text().replace("25.5", "26.5"))
  with pytest.raises(SourceError, match=r"test\.json: expected .* bytes, sha"):
    build.build_dataset(name, tmp_path / "third")
