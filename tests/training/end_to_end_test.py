"""The main command, as a user calls it, from another folder."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import protocol, results

pytestmark = pytest.mark.slow

ENVIRONMENT = {
  **os.environ,
  "JAX_NUM_CPU_DEVICES": "1",
  "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiling is most of the time
}
RUN = "runs/tiny"  # where a run is without --workdir
SHORT = (
  "--config.num_epochs=0.5",
  "--config.eval_every=10",
  "--config.log_every=5",
  "--config.model.encoder.num_layers=1",
  "--config.model.encoder.hidden_size=32",
  "--config.eval.splits=('test',)",
)


def call(folder: pathlib.Path, module: str, *arguments: str, **env: str):
  return subprocess.run(
    [sys.executable, "-m", module, *arguments],
    cwd=folder,
    env=ENVIRONMENT | env,
    capture_output=True,
    text=True,
    check=False,
  )


def train(folder: pathlib.Path, *arguments: str, **env: str):
  """Calls the main command with the small config."""
  config = "--config=configs/tiny.py"
  return call(folder, "ctd_jax.train", config, *arguments, **env)


def error_line(done: subprocess.CompletedProcess) -> str:
  """The only line of an error, which is all that a user has to read."""
  assert done.returncode != 0
  assert "Traceback" not in done.stderr
  lines = [x for x in done.stderr.splitlines() if x.startswith("error:")]
  assert len(lines) == 1, done.stderr
  return lines[0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> pathlib.Path:
  folder = tmp_path_factory.mktemp("user")
  done = train(
    folder, f"--config.data_dir={folder}/data", "--profile=6:8", *SHORT
  )
  assert done.returncode == 0, done.stderr
  (folder / "stdout.txt").write_text(done.stdout)
  (folder / "stderr.txt").write_text(done.stderr)
  return folder


def test_prints_a_table_for_each_track_what_to_expect_and_where_things_are(
  trained,
):
  text = (trained / "stdout.txt").read_text()
  # Nothing stands before the table, though a data set was built.
  assert text.startswith("chunqiutr/mini:")
  table, _, rest = text.partition("\n\nWhat to expect ")
  assert "250 test queries; track T0 (text only)" in table
  assert "250 test queries; track T0+train (text; keys of train" in table
  for system in ("ctd-tiny", "bm25", "rules"):
    assert f"\n{system}  " in table
  assert "bm25_timekde (T1: time keys of the records given)" in table
  assert text.count("mrr@10") == 2
  assert rest.startswith("of this synthetic set: a small encoder")
  folder = trained / RUN / "evaluation"
  assert f"page to read {folder / 'report.html'}\n" in text
  assert (folder / "report.html").exists()
  for name in ("results.txt", "hit_by_reign", "run.*.trec", "checkpoint"):
    assert name in text
  assert (folder / "hit_by_reign.test.neg1_ne1_dq0.png").stat().st_size > 5000


def test_rows_hold_every_mode_family_and_how_they_came_about(trained):
  rows = results.read_result_rows(trained / RUN / "evaluation" / "results.json")
  ours = results.select_rows(
    rows, system="ctd-tiny", split="test", metric="hit@1"
  )
  expected = {
    (mode.name, family)
    for mode in protocol.MODES.values()
    for family in protocol.FAMILIES
    # Without placeholder questions there is no gap to ask for.
    if not (mode.drop_no_event and family in ("gap", "gap_window"))
  }
  assert {(row.mode, row.family) for row in ours} == expected
  for row in ours:
    assert 0 <= row.low <= row.value <= row.high <= 1
    assert row.seeds == (42,)
    assert "ctd_jax.train" in row.command
    assert row.track == "T0+train"
    assert row.score_mode == "ctd"
  rules = results.select_rows(
    rows,
    system="rules",
    split="test",
    mode="neg1_ne1_dq0",
    family="point",
    metric="hit@1",
  )
  assert rules[0].value > 0.4


def test_the_written_runs_cover_every_query(trained):
  folder = trained / RUN / "evaluation"
  qrels = runs.read_qrels(folder / "qrels.test.txt")
  for gallery in ("neg0_ne0", "neg0_ne1", "neg1_ne0", "neg1_ne1"):
    run = runs.read_run(folder / f"run.ctd-tiny.test.{gallery}.trec")
    assert run.rankings.keys() == qrels.keys()
    assert {len(ranking) for ranking in run.rankings.values()} == {50}


def test_evaluate_gives_the_same_tables_again(trained):
  folder = trained / RUN / "evaluation"
  before = (folder / "per_query.tsv").read_text()
  done = call(
    trained,
    "ctd_jax.evaluate",
    "--config=configs/tiny.py",
    f"--workdir={RUN}",
    f"--config.data_dir={trained}/data",
    *SHORT,
  )
  assert done.returncode == 0, done.stderr
  assert (folder / "per_query.tsv").read_text() == before


def test_the_log_tells_the_speed_and_the_trace_is_there(trained):
  log = (trained / "stderr.txt").read_text()
  pattern = (
    r"speed: [\d.]+ steps/s, [\d,.]+ queries/s, [\d,]+ tokens/s, rows \d+% "
    r"full, [\d.]+ GFLOP/s of the model, waited for input [\d.]+%, compiled "
    r"[\d.]+ s, peak memory [\d.]+ GiB host\n"
  )
  assert len(re.findall(pattern, log)) == 2  # behind the last, one step
  folder = trained / RUN / "profile"
  assert f"trace of the steps 6 to 7 is in {folder}\n" in log
  assert list(folder.rglob("*.xplane.pb"))
  lines = (trained / RUN / "speed.jsonl").read_text().splitlines()
  steps = [json.loads(line)["step"] for line in lines]
  assert steps == [5, 10, 15, 20]


def test_an_unknown_field_is_named(tmp_path):
  done = train(tmp_path, "--config.optimizer.learning_rat=1")
  assert error_line(done) == (
    "error: --config.optimizer.learning_rat: the config has no such field; did "
    "you mean --config.optimizer.learning_rate?"
  )
  done = train(tmp_path, "--config.published.source=folder")
  assert "c.published = registry.default_section('published')" in error_line(
    done
  )
  assert list(tmp_path.iterdir()) == []


def test_an_unknown_config_or_method_is_named(tmp_path):
  done = call(tmp_path, "ctd_jax.train", "--config=tinny.py", "--workdir=run")
  assert "--config=tinny.py" in error_line(done)
  installed = error_line(done).partition("one of ")[2].split(", ")
  assert {"small", "tiny"} <= set(installed)
  done = call(
    tmp_path, "ctd_jax.train", "--config=configs/tiny.py:bert", "--workdir=run"
  )
  assert "unknown method 'bert'" in error_line(done)


def test_evaluating_an_empty_folder_says_what_to_do(trained):
  done = call(
    trained,
    "ctd_jax.evaluate",
    "--config=configs/tiny.py",
    "--workdir=nothing",
    f"--config.data_dir={trained}/data",
  )
  assert "/nothing: no trained run there" in error_line(done)
  assert "python -m ctd_jax.train" in error_line(done)
  assert not (trained / "nothing").exists()


def test_a_later_run_reads_what_was_compiled(trained, tmp_path):
  cache = tmp_path / "cache"

  def train_with(choice: object, workdir: str) -> str:
    done = train(
      tmp_path,
      f"--workdir={workdir}",
      f"--config.data_dir={trained}/data",
      f"--compilation_cache={choice}",
      *SHORT,
      "--config.num_epochs=0.03",
      "--config.eval.baselines=()",
      JAX_LOG_COMPILES="1",  # says where a function came from
      # Else one is kept or not by the load of the machine.
      JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
    )
    assert done.returncode == 0, done.stderr
    return done.stderr

  hit = "Persistent compilation cache hit for 'jit_step'"
  first = train_with(cache, "first")
  assert f"compiled functions are stored in {cache} (" in first
  assert hit not in first
  entries = set(cache.iterdir())
  assert any(path.name.startswith("jit_step-") for path in entries)
  assert hit in train_with(cache, "second")
  assert set(cache.iterdir()) == entries
  metrics = [tmp_path / name / "metrics.jsonl" for name in ("first", "second")]
  assert metrics[0].read_text() == metrics[1].read_text()
  text = train_with("off", "third")
  assert "compiled functions are not stored: turned off" in text
  assert "cache hit" not in text
