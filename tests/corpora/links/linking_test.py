"""Links of an invented corpus beside a comparison of all its sections."""

import functools
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import msgspec
import numpy as np
import pytest
import scipy.sparse
from pyarrow import parquet

from ctd_jax.corpora import corpus_building, corpus_files
from ctd_jax.corpora.corpus_files import CorpusFile, WorkOutcome
from ctd_jax.corpora.links import groups, linking, shared_strings
from ctd_jax.corpora.work_steps import CorpusSettings
from ctd_jax.dating.experts import parallel_pairs, shared_wording
from ctd_jax.utils import beam_runner
from tests.corpora import invented_corpus

NUM_WORKS, NUM_RECORDS = 6, 40
QUOTED = "䴏䴐䴑䴒䴓䴔䴕"  # seven characters that no other record has


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> pathlib.Path:
  """A folder of chronicles that tell the same tales, and of which one quotes.

  The last record of the second work is, but for its date and its end, in the
  first record of the fifth.
  """
  folder = tmp_path_factory.mktemp("linked") / "texts"
  invented_corpus.write_corpus(folder, NUM_WORKS, NUM_RECORDS, has_tales=True)
  with (folder / "chronicle000001.txt").open("a", encoding="utf-8") as file:
    file.write(f"十二月，{QUOTED}，大水。\n")
  path = folder / "chronicle000004.txt"
  first, rest = path.read_text(encoding="utf-8").split("\n", 1)
  path.write_text(f"{first}傳曰{QUOTED}。\n{rest}", encoding="utf-8")
  return folder


def build(texts: pathlib.Path, out: pathlib.Path, **options) -> CorpusFile:
  settings = CorpusSettings(
    out=str(out), reigns=invented_corpus.REIGNS, unit="line", has_links=True
  )
  map_items = options.pop("map_items", map)
  settings = msgspec.structs.replace(settings, **options)
  return corpus_building.build_corpus([texts], settings, map_items)


@pytest.fixture(scope="module")
def built(texts, tmp_path_factory) -> tuple[pathlib.Path, CorpusFile]:
  out = tmp_path_factory.mktemp("dated") / "out"
  return out, build(texts, out)


def cut_small(monkeypatch) -> None:
  """Makes a group of every work, and parts of a thousand strings."""
  monkeypatch.setattr(groups, "_GROUP_CHARACTERS", 1)
  monkeypatch.setattr(groups, "_PART_OCCURRENCES", 1000)


def read_files(out: pathlib.Path) -> dict[str, bytes]:
  return {
    path.relative_to(out).as_posix(): path.read_bytes()
    for path in out.rglob("*")
    if path.is_file()
  }


def read_rows(out: pathlib.Path, kind: str, corpus: CorpusFile) -> list[dict]:
  return [
    row
    for work in corpus.works
    for row in parquet.read_table(
      corpus_files.find_path(out, kind, work.name)
    ).to_pylist()
  ]


def compare_all(
  out: pathlib.Path, corpus: CorpusFile
) -> tuple[np.ndarray, shared_wording.EventStringIndex, np.ndarray]:
  """Returns what every two sections share, their strings, and their works."""
  bodies = [
    body
    for work in corpus.works
    for body in shared_strings.read_bodies(str(out), work)
  ]
  index = shared_wording.build_string_index(bodies)
  overlap = index.overlap(index.encode(bodies)).toarray()
  works = np.repeat(
    np.arange(len(corpus.works)), [work.sections for work in corpus.works]
  )
  return overlap, index, works


def test_a_section_is_linked_to_what_it_shares_most_with(built):
  out, corpus = built
  overlap, index, works = compare_all(out, corpus)
  dates = read_rows(out, "dates", corpus)
  number = {(row["work"], row["row"]): n for n, row in enumerate(dates)}
  unit = math.log(len(dates) / 2) - 1.5
  overlap[works[:, None] == works] = 0
  overlap[overlap < 6 * unit] = 0
  rows, columns, values, _ = shared_wording.select_top_entries(
    scipy.sparse.csr_array(overlap), parallel_pairs.NUM_CANDIDATES
  )
  links = read_rows(out, "links", corpus)
  pairs = [
    (
      number[link["work"], link["row"]],
      number[link["other_work"], link["other_row"]],
    )
    for link in links
  ]
  assert pairs == list(zip(rows.tolist(), columns.tolist(), strict=True))
  assert len(links) == corpus.links.links > 100
  assert len(set(rows.tolist())) == corpus.links.linked_sections
  weights = [link["weight"] for link in links]
  np.testing.assert_allclose(weights, values, rtol=1e-5)
  np.testing.assert_allclose(
    [link["share"] for link in links],
    values / index.event_weights[rows],
    rtol=1e-5,
  )
  names = {work.work: work.name for work in corpus.works}
  for link, (one, other) in zip(links, pairs, strict=True):
    assert link["file"] == names[link["work"]]
    assert link["other_file"] == names[link["other_work"]]
    spans = sorted(
      (dates[n]["first_julian_day"], dates[n]["last_julian_day"])
      for n in (one, other)
    )
    # Of the dates of invented records none is within another.
    assert link["days_apart"] == max(spans[1][0] - spans[0][1], 0)


def test_a_work_that_quotes_another_is_linked_to_it(built):
  out, corpus = built
  dates = {
    (row["work"], row["row"]): row["text"]
    for row in read_rows(out, "dates", corpus)
  }
  quoting = [
    link
    for link in read_rows(out, "links", corpus)
    if QUOTED in dates[link["work"], link["row"]]
  ]
  best = {
    link["work"]: link
    for link in sorted(quoting, key=lambda link: link["weight"])
  }
  quoted, host = best["chronicle000001"], best["chronicle000004"]
  assert (quoted["other_work"], quoted["other_row"]) == ("chronicle000004", 0)
  assert (host["other_work"], host["other_row"]) == (
    "chronicle000001",
    NUM_RECORDS,
  )
  assert quoted["weight"] == host["weight"]
  # Most of it is in the other, which tells more.
  assert quoted["share"] > 0.5 > host["share"]


def test_strings_that_too_many_hold_are_counted(texts, tmp_path, monkeypatch):
  monkeypatch.setattr(shared_wording, "MAX_EVENTS", 3)
  cut_small(monkeypatch)
  corpus = build(texts, tmp_path / "out")
  holders: dict[str, int] = {}
  for work in corpus.works:
    for body in shared_strings.read_bodies(str(tmp_path / "out"), work):
      for string in {
        body[start : start + length]
        for length in shared_wording.LENGTHS
        for start in range(len(body) - length + 1)
      }:
        holders[string] = holders.get(string, 0) + 1
  counts = np.array([*holders.values()])
  links = corpus_files.read_corpus_file(tmp_path / "out").links
  assert links.max_sections == 3
  assert links.shared_strings == (counts > 1).sum()
  assert links.common_strings == (counts > 3).sum() > 100
  assert links.common_occurrences == counts[counts > 3].sum()
  assert links.read_sections == NUM_WORKS * NUM_RECORDS + 1
  summary = corpus_building.format_summary(tmp_path / "out", corpus)
  assert f"linked       {links.linked_sections} of 241 sections" in summary
  assert "left out: more than 3 hold them" in summary


def test_sections_with_more_links_than_are_kept_are_counted(
  built, texts, tmp_path, monkeypatch
):
  monkeypatch.setattr(parallel_pairs, "NUM_CANDIDATES", 1)
  corpus = build(texts, tmp_path / "out")
  assert corpus.links.links < built[1].links.links
  assert corpus.links.cut_sections > 10
  assert f"{corpus.links.cut_sections} sections have more links" in (
    corpus_building.format_summary(tmp_path / "out", corpus)
  )


def test_headings_and_dates_are_not_compared(tmp_path):
  texts = tmp_path / "texts"
  invented_corpus.write_corpus(texts, 3, 20)
  work = texts / "chronicle000000"
  work.mkdir()
  for number in (1, 2):  # of which each is a heading
    (texts / f"chronicle00000{number - 1}.txt").rename(work / f"{number}.txt")
  corpus = build(texts, tmp_path / "out")
  bodies = shared_strings.read_bodies(str(tmp_path / "out"), corpus.works[0])
  rows = read_rows(tmp_path / "out", "dates", corpus)[: len(bodies)]
  assert [not body for body in bodies] == [row["is_heading"] for row in rows]
  assert not any("月" in body for body in bodies)
  assert any(row["printed"] for row in rows)
  assert "2 sections not compared: headings" in (
    corpus_building.format_summary(tmp_path / "out", corpus)
  )


def test_links_are_the_same_however_a_corpus_is_cut(
  built, texts, tmp_path, monkeypatch
):
  cut_small(monkeypatch)
  monkeypatch.setattr(
    shared_wording,
    "cut_blocks",
    functools.partial(shared_wording.cut_blocks, max_matches=50),
  )
  steps = []

  def map_items(function, items):
    steps.append(len(items))
    return map(function, items)

  build(texts, tmp_path / "out", map_items=map_items)
  assert steps == [NUM_WORKS, NUM_WORKS, 32, NUM_WORKS]
  assert read_files(tmp_path / "out") == read_files(built[0])


@pytest.mark.parametrize("step", ["strings", "parts", "links"])
def test_a_broken_run_goes_on(built, texts, tmp_path, monkeypatch, step):
  out = tmp_path / "out"
  cut_small(monkeypatch)
  module = corpus_files if step == "links" else groups
  write_table, made = module.write_table, []
  # Two tables of each group come before the parts.
  last = {"strings": 5, "parts": 2 * NUM_WORKS + 3, "links": NUM_WORKS + 2}

  def break_off(path, *arguments):
    made.append(path)
    if len(made) == last[step]:
      raise KeyboardInterrupt
    write_table(path, *arguments)

  with monkeypatch.context() as patch:
    # Dates are written by it, too, within its module.
    patch.setattr(module, "write_table", break_off)
    with pytest.raises(KeyboardInterrupt):
      build(texts, out)
  before = {
    path: path.stat().st_mtime_ns for path in made[:-1] if path.is_file()
  }
  assert len(before) == last[step] - 1
  again = []

  def count(path, *arguments):
    again.append(path)
    write_table(path, *arguments)

  monkeypatch.setattr(module, "write_table", count)
  build(texts, out)
  assert made[-1] in again
  assert not before.keys() & set(again)
  assert read_files(out) == read_files(built[0])


def test_a_second_run_makes_nothing_again(built, texts, tmp_path, monkeypatch):
  out = tmp_path / "out"
  shutil.copytree(built[0], out)
  made = read_files(out)

  def fail(*_):
    raise AssertionError("linked again")

  with monkeypatch.context() as patch:
    patch.setattr(shared_strings, "write_strings", fail)
    assert build(texts, out) == built[1]
  # One that is missing is made, and no other.
  path = corpus_files.find_path(out, "links", built[1].works[2].name)
  path.unlink()
  write_table, written = corpus_files.write_table, []
  monkeypatch.setattr(
    corpus_files,
    "write_table",
    lambda path, *rest: (written.append(path), write_table(path, *rest)),
  )
  assert build(texts, out) == built[1]
  assert written == [path]
  assert read_files(out) == made


def test_links_go_with_their_works_and_with_the_flag(
  built, texts, tmp_path, caplog
):
  out, fewer = tmp_path / "out", tmp_path / "texts"
  shutil.copytree(built[0], out)
  shutil.copytree(texts, fewer)
  (fewer / "chronicle000003.txt").unlink()
  corpus = build(fewer, out)
  assert len(corpus.works) == len(list((out / "links").iterdir())) == 5
  assert corpus.links.fingerprint != built[1].links.fingerprint
  assert corpus.links.links < built[1].links.links
  assert not caplog.text
  corpus = build(fewer, out, has_links=False)
  assert corpus.links is None
  assert "links of 5 works removed, no --links is given" in caplog.text
  assert not list((out / "links").iterdir())
  (out / "links").rmdir()
  fresh = tmp_path / "fresh"
  build(fewer, fresh, has_links=False)
  assert read_files(out) == read_files(fresh)


def test_a_corpus_in_which_nothing_is_said_has_no_links(tmp_path):
  texts = tmp_path / "texts"
  texts.mkdir()
  for name in "ab":
    (texts / f"{name}.txt").write_text("魯隱公元年正月。\n二月。\n")
  corpus = build(texts, tmp_path / "out")
  assert len(corpus.works) == len(list((tmp_path / "out/links").iterdir())) == 2
  assert corpus.links.read_sections == corpus.links.links == 0
  assert not read_rows(tmp_path / "out", "links", corpus)
  (texts / "a.txt").write_text("齊人來盟。\n")
  (texts / "b.txt").unlink()
  corpus = build(texts, tmp_path / "out")
  assert not corpus.works
  assert corpus.links.links == 0


def test_more_sections_than_are_counted_are_an_error(tmp_path):
  works = [
    WorkOutcome(source=name, work=name, name=name, sections=2**30)
    for name in "ab"
  ]
  with pytest.raises(ValueError, match="--links: 2,147,483,648 sections"):
    linking.link_works(str(tmp_path), works, map)


@pytest.mark.beam
def test_several_workers_link_as_one_process_does(
  built, texts, tmp_path, monkeypatch
):
  cut_small(monkeypatch)
  out = tmp_path / "out"
  corpus = build(
    texts,
    out,
    map_items=functools.partial(
      beam_runner.map_items, folder=out, runner=beam_runner.DIRECT, workers=4
    ),
  )
  assert corpus == built[1]
  assert read_files(out) == read_files(built[0])


_PROGRAM = """
import functools, pathlib, sys
from ctd_jax.corpora import corpus_building
from ctd_jax.corpora.links import groups
from ctd_jax.corpora.work_steps import CorpusSettings
from ctd_jax.utils import beam_runner

texts, out, reigns = sys.argv[1:]
groups._GROUP_CHARACTERS = 1
corpus_building.build_corpus(
  [pathlib.Path(texts)],
  CorpusSettings(out=out, reigns=reigns, unit="line", has_links=True),
  functools.partial(
    beam_runner.map_items,
    folder=pathlib.Path(out),
    runner=beam_runner.DIRECT,
    workers=2,
  ),
)
"""


@pytest.mark.beam
def test_workers_that_are_killed_lose_no_link(built, texts, tmp_path):
  """Killed when the links of the first work are there."""
  out = tmp_path / "out"
  command = [sys.executable, "-c", _PROGRAM, str(texts), str(out)]
  command.append(invented_corpus.REIGNS)
  process = subprocess.Popen(
    command,
    env=os.environ | {"JAX_NUM_CPU_DEVICES": "1"},
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,
  )
  while not any(out.glob("links/*.parquet")) and process.poll() is None:
    time.sleep(0.005)
  os.killpg(process.pid, signal.SIGKILL)
  process.communicate()
  made = {path: path.stat().st_mtime_ns for path in out.glob("links/*.parquet")}
  assert 0 < len(made) < NUM_WORKS
  subprocess.run(command, check=True, capture_output=True)
  for path, mtime in made.items():
    assert path.stat().st_mtime_ns == mtime
  assert read_files(out) == read_files(built[0])
