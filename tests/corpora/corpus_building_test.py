"""A corpus of many works beside the dating of each, and after broken runs."""

import json
import pathlib
import shutil

import msgspec
import numpy as np
import pytest
from pyarrow import parquet

from ctd_jax.corpora import corpus_building, corpus_files, work_steps
from ctd_jax.corpora.work_steps import CorpusSettings
from ctd_jax.dating.chronicle_output import date_file, date_tables
from ctd_jax.index.dense import encoders
from ctd_jax.models.pretrained import vector_settings
from ctd_jax.models.pretrained.vector_settings import (
  SideSettings,
  VectorSettings,
)
from tests.corpora import invented_corpus
from tests.models import published_folder

UNREADABLE, UNDATED = "ansi.txt", "undated.txt"


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> pathlib.Path:
  """A folder of chronicles, one of them in a folder, and two that are none."""
  folder = tmp_path_factory.mktemp("corpus") / "texts"
  invented_corpus.write_corpus(folder, 4, 15)
  parts = folder / "parts"
  parts.mkdir()
  lines = (folder / "chronicle000003.txt").read_text().splitlines()
  (folder / "chronicle000003.txt").unlink()
  (parts / "1.txt").write_text("\n".join(lines[:8]) + "\n")
  (parts / "2.txt").write_text("\n".join(lines[8:]) + "\n")
  (folder / UNREADABLE).write_bytes("元年春王正月".encode("big5"))
  (folder / "LICENSE").write_text("元年春王正月。\n")  # no text
  (folder / UNDATED).write_text("齊人來盟。\n衛人大水。\n")
  return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> pathlib.Path:
  folder = tmp_path_factory.mktemp("encoder") / "tiny"
  published_folder.write(folder, ["魯隱公元年正月，齊人來盟。"])
  settings = VectorSettings(
    "mean", True, SideSettings("", 40), SideSettings("", 40)
  )
  vector_settings.write_vector_settings(folder, settings, 16)
  return folder


def make_settings(out: pathlib.Path, encoder=None) -> CorpusSettings:
  return CorpusSettings(
    out=str(out),
    reigns=invented_corpus.REIGNS,
    unit="line",
    encoder=encoder and str(encoder),
  )


@pytest.fixture(scope="module")
def built(texts, encoder, tmp_path_factory):
  """The folder of the corpus, and what became of it."""
  out = tmp_path_factory.mktemp("dated") / "out"
  corpus = corpus_building.build_corpus([texts], make_settings(out, encoder))
  return out, corpus


def read_files(out: pathlib.Path) -> dict[str, bytes]:
  return {
    path.relative_to(out).as_posix(): path.read_bytes()
    for path in out.rglob("*")
    if path.is_file()
  }


def test_rows_are_those_of_a_chronicle_that_is_dated_alone(
  texts, built, tmp_path
):
  out, corpus = built
  assert [work.work for work in corpus.works] == [
    "chronicle000000",
    "chronicle000001",
    "chronicle000002",
    "parts",
  ]
  for work in corpus.works:
    date_file.date_file(
      pathlib.Path(work.source),
      invented_corpus.REIGNS,
      tmp_path / work.work,
      formats=("jsonl",),
    )
    rows = date_tables.read_dates_jsonl(tmp_path / work.work / "dates.jsonl")
    table = parquet.read_table(
      corpus_files.find_path(out, "dates", work.name)
    ).to_pylist()
    assert len(table) == work.sections == len(rows)
    for number, (cells, row) in enumerate(zip(table, rows, strict=True)):
      assert cells.pop("work") == work.work
      assert cells.pop("row") == number
      assert msgspec.convert(cells, type(row)) == row
  assert corpus.sections == 4 * 15 + 2  # names of two files, as headings


def test_every_row_has_the_vector_of_its_text(built, encoder):
  out, corpus = built
  encode = encoders.open_encoder(encoder).encode_records
  for work in corpus.works:
    dates = parquet.read_table(corpus_files.find_path(out, "dates", work.name))
    table = parquet.read_table(
      corpus_files.find_path(out, "vectors", work.name)
    )
    assert table["row"].to_pylist() == dates["row"].to_pylist()
    vectors = np.stack(table["vector"].to_numpy())
    expected = encode(dates["text"].to_pylist())
    np.testing.assert_array_equal(vectors, expected)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)


def test_what_cannot_be_dated_is_named_and_ends_no_run(built):
  out, corpus = built
  unreadable, undated = corpus.failed
  assert unreadable.source.endswith(UNREADABLE)
  assert "as UTF-8" in unreadable.error
  assert undated.work == "undated"
  assert "no" in undated.error
  assert corpus_files.read_corpus_file(out) == corpus
  summary = corpus_building.format_summary(out, corpus)
  assert "dated        4 works, 62 sections" in summary
  assert "not dated    ansi.txt: " in summary


def test_a_second_run_makes_nothing_again(
  texts, built, encoder, tmp_path, monkeypatch
):
  out = tmp_path / "out"
  shutil.copytree(built[0], out)
  made = read_files(out)

  def fail(*_):
    raise AssertionError("dated again")

  monkeypatch.setattr(work_steps.dated_chronicle, "date_records", fail)
  monkeypatch.setattr(corpus_files, "write_vectors", fail)
  sources = [
    source
    for source in work_steps.list_sources([texts])
    if not source.endswith(UNDATED)
  ]
  # Of what has no dates nothing is kept.
  monkeypatch.setattr(work_steps, "list_sources", lambda _: sources)
  corpus = corpus_building.build_corpus([texts], make_settings(out, encoder))
  assert corpus.works == built[1].works
  assert {**read_files(out), "corpus.json": made["corpus.json"]} == made


def test_a_broken_run_leaves_whole_files_and_goes_on(
  texts, built, encoder, tmp_path, monkeypatch
):
  out = tmp_path / "out"
  write_table, tables = parquet.write_table, []

  def break_off(table, path, **options):
    tables.append(path)
    if len(tables) == 3:
      pathlib.Path(path).write_bytes(b"half of a f")
      raise KeyboardInterrupt
    write_table(table, path, **options)

  with monkeypatch.context() as patch:
    patch.setattr(corpus_files.parquet, "write_table", break_off)
    with pytest.raises(KeyboardInterrupt):
      corpus_building.build_corpus([texts], make_settings(out, encoder))
  made = read_files(out)
  whole = read_files(built[0])
  assert len(made) == 2
  assert made.items() <= whole.items()
  corpus_building.build_corpus([texts], make_settings(out, encoder))
  assert read_files(out) == whole


def test_changed_works_are_made_again_and_gone_ones_removed(tmp_path):
  texts, out = tmp_path / "texts", tmp_path / "out"
  invented_corpus.write_corpus(texts, 2, 5)
  first = corpus_building.build_corpus([texts], make_settings(out))
  kept, gone = first.works
  before = read_files(out)
  pathlib.Path(gone.source).unlink()
  with pathlib.Path(kept.source).open("a") as file:
    file.write("宋人來聘。\n")
  second = corpus_building.build_corpus([texts], make_settings(out))
  [changed] = second.works
  assert changed.name == kept.name
  assert changed.sections == kept.sections + 1
  after = read_files(out)
  assert set(before) - set(after) == {f"dates/{gone.name}.parquet"}
  assert (
    after[f"dates/{kept.name}.parquet"]
    != (before[f"dates/{kept.name}.parquet"])
  )


def test_files_that_are_parts_of_one_work_are_refused(tmp_path):
  """Dated apart, the second would not know its year."""
  head = "#+PROPERTY: ID KR2b9999\n<pb:KR2b9999_WYG_001-1a>¶\n"
  texts = tmp_path / "texts"
  texts.mkdir()
  for number in (1, 2):
    text = f"{head}魯隱公元年{number}月，齊人來盟。¶\n"
    (texts / f"KR2b9999_{number:03}.txt").write_text(text)
  corpus = corpus_building.build_corpus(
    [texts], make_settings(tmp_path / "out")
  )
  assert not corpus.works
  assert len(corpus.failed) == 2
  assert "put them into a folder of their own" in corpus.failed[0].error
  texts.rename(tmp_path / "KR2b9999")
  (tmp_path / "all").mkdir()
  (tmp_path / "KR2b9999").rename(tmp_path / "all/KR2b9999")
  corpus = corpus_building.build_corpus(
    [tmp_path / "all"], make_settings(tmp_path / "out")
  )
  assert [work.sections for work in corpus.works] == [2]


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda path: path / "missing", "--input=.*no such file or folder"),
    (lambda path: path / "empty", "--input=.*neither a text there nor"),
  ],
)
def test_an_input_that_is_not_there_is_an_error(make, message, tmp_path):
  (tmp_path / "empty").mkdir()
  (tmp_path / "empty" / "README.md").touch()
  with pytest.raises((FileNotFoundError, ValueError), match=message):
    corpus_building.build_corpus(
      [make(tmp_path)], make_settings(tmp_path / "out")
    )


def test_folders_are_not_written_over(texts, tmp_path):
  (tmp_path / "thesis.docx").touch()
  with pytest.raises(ValueError, match=r"--out=.*holds thesis\.docx"):
    corpus_building.build_corpus([texts], make_settings(tmp_path))
  with pytest.raises(ValueError, match="lies in .* which is read"):
    corpus_building.build_corpus(
      [texts], make_settings(texts / "parts" / "out")
    )
  settings = msgspec.structs.replace(
    make_settings(tmp_path / "out"), reigns="mars"
  )
  with pytest.raises(FileNotFoundError, match="--reigns=mars"):
    corpus_building.build_corpus([texts], settings)
  assert not (tmp_path / "out").exists()
  damaged = tmp_path / "damaged"
  damaged.mkdir()
  (damaged / "corpus.json").write_text(json.dumps({"version": 1}))
  with pytest.raises(ValueError, match=r"corpus\.json: damaged"):
    corpus_files.read_corpus_file(damaged)
