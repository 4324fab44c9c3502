"""Shards of a corpus: what they hold and what is found in them."""

import pathlib
import shutil
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from pyarrow import parquet

from ctd_jax.chronology import civil_dates
from ctd_jax.corpora import (
  corpus_building,
  corpus_files,
  shard_search,
  shards,
)
from ctd_jax.corpora.corpus_files import CorpusFile, WorkOutcome
from ctd_jax.corpora.work_steps import CorpusSettings
from ctd_jax.index.dense import encoders
from ctd_jax.models.pretrained import vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from tests.corpora import invented_corpus
from tests.models import published_folder

WIDTH = 16


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> pathlib.Path:
  """A folder with texts and an encoder."""
  folder = tmp_path_factory.mktemp("shards")
  invented_corpus.write_corpus(folder / "texts", 5, 12)
  published_folder.write(folder / "tiny", ["魯隱公元年正月，齊人來盟。"])
  settings = VectorSettings(
    "mean", True, SideSettings("", 40), SideSettings("", 40)
  )
  vector_settings.write_vector_settings(folder / "tiny", settings, WIDTH)
  return folder


def make_settings(world: pathlib.Path, shard_rows: int | None = 24):
  return CorpusSettings(
    out=str(world / "out"),
    reigns=invented_corpus.REIGNS,
    unit="line",
    encoder=str(world / "tiny"),
    shard_rows=shard_rows,
  )


@pytest.fixture(scope="module")
def corpus(world) -> CorpusFile:
  return corpus_building.build_corpus([world / "texts"], make_settings(world))


def read_vectors(world: pathlib.Path, corpus: CorpusFile) -> np.ndarray:
  """Returns the vectors of all rows, in the order of the corpus."""
  return np.concatenate(
    [
      np.stack(
        parquet.read_table(
          corpus_files.find_path(world / "out", "vectors", work.name)
        )["vector"].to_numpy()
      )
      for work in corpus.works
    ]
  )


def read_dates(world: pathlib.Path, corpus: CorpusFile) -> list[dict]:
  """Returns the dates of all rows, in the order of the corpus."""
  return [
    row
    for work in corpus.works
    for row in parquet.read_table(
      corpus_files.find_path(world / "out", "dates", work.name)
    ).to_pylist()
  ]


def make_questions(count: int) -> np.ndarray:
  vectors = np.random.default_rng(0).standard_normal((count, WIDTH))
  vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
  return vectors.astype(np.float32)


def test_shards_have_whole_works_in_order_and_names_of_what_they_hold():
  works = tuple(
    WorkOutcome(source="", name=f"w{n}", sections=10, fingerprint=str(n))
    for n in range(5)
  )
  made = CorpusFile(version="", reigns="", encoder="e", works=works)
  planned = shards.plan_shards(made, 15)
  assert [shard.works for shard in planned] == [
    ("w0", "w1"),
    ("w2", "w3"),
    ("w4",),
  ]
  assert [shard.rows for shard in planned] == [20, 20, 10]
  changed = msgspec.structs.replace(works[2], fingerprint="other")
  again = shards.plan_shards(
    msgspec.structs.replace(made, works=(*works[:2], changed, *works[3:])), 15
  )
  is_same = [
    one.name == other.name for one, other in zip(planned, again, strict=True)
  ]
  assert is_same == [True, False, True]
  other = msgspec.structs.replace(made, encoder="another")
  assert shards.plan_shards(other, 15)[0].name != planned[0].name


@pytest.mark.beam
def test_the_exact_search_finds_what_all_vectors_say(world, corpus):
  dates, vectors = read_dates(world, corpus), read_vectors(world, corpus)
  questions = make_questions(7)
  assert len(shards.list_shards(world / "out")) == 3
  found = shard_search.search_shards(world / "out", questions, 9, is_exact=True)
  for question, hits in zip(questions, found, strict=True):
    scores = vectors @ question
    order = np.argsort(-scores, kind="stable")[:9]
    np.testing.assert_allclose(
      [hit.score for hit in hits], scores[order], rtol=0, atol=1e-6
    )
    places = {(row["work"], row["row"]): row for row in dates}
    for hit in hits:
      row = places[hit.work, hit.row]
      index = dates.index(row)
      assert hit.score == pytest.approx(float(scores[index]), abs=1e-6)
      for name in shards.COLUMNS:
        assert getattr(hit, name) == row[name]


@pytest.mark.beam
def test_only_dates_that_reach_into_the_years_are_found(world, corpus):
  dates = read_dates(world, corpus)
  years = (-640, -600)
  first = civil_dates.to_julian_day(-640, 1, 1)
  last = civil_dates.to_julian_day(-599, 1, 1) - 1
  expected = {
    (row["work"], row["row"])
    for row in dates
    if row["first_julian_day"] is not None
    and row["first_julian_day"] <= last
    and row["last_julian_day"] >= first
  }
  assert 0 < len(expected) < len(dates)
  [hits] = shard_search.search_shards(
    world / "out", make_questions(1), len(dates), years
  )
  assert {(hit.work, hit.row) for hit in hits} == expected


@pytest.mark.beam
def test_an_index_finds_most_of_what_the_exact_search_finds(
  world, corpus, tmp_path, monkeypatch
):
  monkeypatch.setattr(shards, "_MIN_INDEXED_ROWS", 256)
  monkeypatch.setattr(shards, "_ROWS_OF_LIST", 40)
  texts = tmp_path / "texts"
  invented_corpus.write_corpus(texts, 2, 300)
  settings = msgspec.structs.replace(
    make_settings(world, 1000), out=str(tmp_path / "out")
  )
  made = corpus_building.build_corpus([texts], settings)
  # Invented records are often alike: scores are compared, not places.
  questions = read_vectors(tmp_path, made)[::50]
  exact, approximate = (
    shard_search.search_shards(tmp_path / "out", questions, 1, is_exact=exact)
    for exact in (True, False)
  )
  same = [
    one.score == pytest.approx(other.score, abs=1e-4)
    for [one], [other] in zip(exact, approximate, strict=True)
  ]
  assert np.mean(same) > 0.8
  # The lists that are read first may hold none of the years.
  days = [row["first_julian_day"] for row in read_dates(tmp_path, made)]
  first_day = min(day for day in days if day is not None)
  year, *_ = civil_dates.to_civil_date(first_day)
  for is_exact in (True, False):
    found = shard_search.search_shards(
      tmp_path / "out", questions, 5, (year, year + 1), is_exact
    )
    assert [len(hits) for hits in found] == [5] * len(questions)


@pytest.mark.beam
def test_shards_stay_while_their_works_do_and_go_with_them(
  world, corpus, tmp_path, monkeypatch, caplog
):
  out = tmp_path / "out"
  shutil.copytree(world / "out", out)
  before = {path: path.stat().st_mtime_ns for path in shards.list_shards(out)}
  (out / "shards/.killed.lance.x.tmp").mkdir()
  settings = msgspec.structs.replace(make_settings(world), out=str(out))
  corpus_building.build_corpus([world / "texts"], settings)
  after = {path: path.stat().st_mtime_ns for path in shards.list_shards(out)}
  assert after == before
  assert not list((out / "shards").glob(".*"))
  # What is made again, and not yet whole, is not searched.
  monkeypatch.setattr(shards, "write_list", lambda *args: None)
  corpus_building.build_corpus([world / "texts"], settings)
  with pytest.raises(FileNotFoundError, match="no finished shards"):
    shards.list_shards(out)
  monkeypatch.undo()
  (out / "shards/.DS_Store").touch()  # not ours
  caplog.clear()
  corpus_building.build_corpus(
    [world / "texts"], msgspec.structs.replace(settings, shard_rows=None)
  )
  assert "3 shards removed, no --shard_rows is given" in caplog.text
  with pytest.raises(FileNotFoundError, match="--shard_rows="):
    shards.list_shards(out)


def search(world: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
  """Runs the command on the corpus of the world."""
  return subprocess.run(
    [
      *(sys.executable, "-m", "ctd_jax.corpora.search"),
      *(f"--corpus={world / 'out'}", f"--encoder={world / 'tiny'}"),
      *arguments,
    ],
    capture_output=True,
    text=True,
    check=False,
  )


@pytest.mark.beam
def test_the_command_prints_a_line_for_each_section(world, corpus):
  done = search(world, "--k=4", "--years=-640:-600", "--exact", "齊人來盟。")
  assert done.returncode == 0, done.stderr
  lines = done.stdout.splitlines()
  assert len(lines) == 4
  encoder = encoders.open_encoder(str(world / "tiny"))
  [hits] = shard_search.search_shards(
    world / "out", encoder.encode_questions(["齊人來盟。"]), 4, (-640, -600)
  )
  for line, hit in zip(lines, hits, strict=True):
    assert line.startswith(f"{hit.score:.3f}  {hit.edtf}  {hit.common_era}  ")
    assert line.endswith(f"{hit.work}:{hit.row}  {hit.text}")
  refused = search(world, "--years=-600:-640", "齊人來盟。")
  assert refused.returncode == 1
  assert "error: --years=-600:-640: expected the first" in refused.stderr


@pytest.mark.beam
def test_questions_of_another_width_are_an_error(world, corpus):
  with pytest.raises(ValueError, match="vectors of 16.* are of 8"):
    shard_search.search_shards(world / "out", make_questions(1)[:, :8], 3)


def test_shards_without_vectors_or_lancedb_are_an_error(
  world, tmp_path, monkeypatch
):
  settings = make_settings(tmp_path)
  with pytest.raises(ValueError, match="--shard_rows=24: .*--encoder"):
    corpus_building.build_corpus(
      [world / "texts"], msgspec.structs.replace(settings, encoder=None)
    )
  monkeypatch.setitem(sys.modules, "lancedb", None)
  with pytest.raises(ValueError, match=r"pip install 'ctd_jax\[lance\]'"):
    corpus_building.build_corpus([world / "texts"], settings)
  assert not (tmp_path / "out").exists()
