"""Finished runs compared on the same samples, and what is told of others."""

import json
import types

import numpy as np
import pytest

from ctd_jax.tasks.chronocept import compare, features
from ctd_jax.tasks.chronocept.compare import FinishedRun
from ctd_jax.utils import output
from ctd_jax_datasets.chronocept.sample_records import TARGETS
from tests.chronocept import validity_files


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  path = tmp_path_factory.mktemp("own") / "statements.csv"
  rows = [
    [sample.sample_id, sample.parent_text, split, *sample.targets]
    for split, samples in validity_files.samples().items()
    for sample in samples
  ]
  header = ["id", "text", "split", *TARGETS]
  path.write_text(output.format_delimited(header, rows, ","))
  return path


@pytest.fixture
def workdir(data, tmp_path):
  def make(name, shift, seeds=1):
    """A run whose predictions are off by `shift` spreads of train."""
    folder = tmp_path / name
    folder.mkdir()
    about = {"name": name, "protocol": "honest", "dataset": f"csv:{data}"}
    about |= {"data_dir": None, "sources": None}
    (folder / "config.json").write_text(json.dumps(about))
    samples = validity_files.samples()
    sd = features.extract_targets(samples["train"]).std(axis=0)
    lines = ["\t".join(["sample_id", "seed", *TARGETS])]
    for seed in range(seeds):
      for sample in samples["test"]:
        values = np.array(sample.targets) + shift * sd * (-1) ** seed
        cells = (f"{value:.12g}" for value in values)
        lines.append("\t".join([sample.sample_id, str(seed), *cells]))
    (folder / "predictions.tsv").write_text("\n".join(lines) + "\n")
    return folder

  return make


def test_errors_are_in_spreads_of_train_and_mean_over_seeds(workdir):
  run = compare.read_run(workdir("off", 0.5, seeds=2))
  assert (run.name, run.num_seeds) == ("off (honest)", 2)
  assert len(run.errors) == validity_files.SIZES["test"]
  # Seeds are off to either side: their errors count, not that of their mean.
  np.testing.assert_allclose([*run.errors.values()], 0.25, rtol=1e-6)
  assert run.mse == pytest.approx(0.25)


def test_a_difference_of_all_samples_is_told_from_one_of_few(workdir):
  first = compare.read_run(workdir("near", 0.5))
  far = compare.read_run(workdir("far", 1.0))
  difference, interval, p_value = compare.compare_runs(far, first)
  assert difference == pytest.approx(0.75)
  assert interval == pytest.approx((0.75, 0.75))
  # All 2 ** 9 swaps are enumerated; two of them are as extreme.
  assert p_value == pytest.approx(2 / 2**9)
  mixed = {
    k: e + 0.1 * (-1) ** n for n, (k, e) in enumerate(first.errors.items())
  }
  other = FinishedRun("mixed", first.dataset, 1, mixed)
  _, (low, high), p_value = compare.compare_runs(other, first)
  assert p_value > 0.5
  assert low < 0 < high


def test_the_table_lines_up_and_corrects(workdir):
  runs = [
    compare.read_run(workdir(name, shift))
    for name, shift in (("a", 0.5), ("other", 1.0), ("third", 1.0))
  ]
  header, first, *lines = compare.format_comparison_table(runs).splitlines()
  assert first.split() == ["a", "(honest)", "1", "0.2500"]
  assert {len(line) for line in lines} == {len(header)}
  p, holm = (float(x) for x in lines[0].split()[-2:])
  assert holm == pytest.approx(2 * p, abs=1e-4)


def test_runs_that_cannot_be_compared_are_named(workdir, tmp_path):
  with pytest.raises(FileNotFoundError, match="nowhere: no config.json; tr"):
    compare.read_run(tmp_path / "nowhere")
  path = workdir("short", 0.5) / "predictions.tsv"
  text = path.read_text()
  for content, message in (
    ("".join(text.splitlines(True)[:-1]), "short/predictions.tsv: not the"),
    (text.replace("\t0\t", "\tx\t", 1), r"tsv:2: seed='x': Expected `int`"),
  ):
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
      compare.read_run(path.parent)
  one, other = (FinishedRun(name, name, 1, {"x": 1.0}) for name in "ab")
  with pytest.raises(ValueError, match="b was tested on b, a on a"):
    compare.compare_runs(other, one)


def test_the_command_compares_with_the_first(workdir, capsys, monkeypatch):
  folders = [str(workdir(*run)) for run in (("a", 0.5), ("b", 1))]
  values = types.SimpleNamespace(workdirs=folders)
  monkeypatch.setattr(compare.flags, "FLAGS", values)
  compare.main()
  assert "b (honest)" in capsys.readouterr().out
  values.workdirs.pop()
  with pytest.raises(ValueError, match="--workdirs: expected at least two"):
    compare.main()
