"""Building of an index: what is added, replaced, refused; builds broken off."""

import contextlib
import shutil

import numpy as np
import pytest

from ctd_jax import Index
from ctd_jax.dating.passages.passages import PassageDater
from ctd_jax.index import calendars, database, index_check, manifest
from ctd_jax.index.building import index_builder, index_commit, staged_works
from ctd_jax.index.building.group_dating import DatingChoices
from ctd_jax.index.posteriors import PosteriorArrays
from tests.index import corpora
from tests.index.corpora import build_index
from tests.tools import processes


@pytest.fixture(name="beir", scope="module")
def fixture_beir(tmp_path_factory):
  folder = tmp_path_factory.mktemp("beir") / "annals_of_lu"
  corpora.write_beir(folder, corpora.list_dated_records())
  return folder


@pytest.fixture(name="folder")
def fixture_folder(beir, tmp_path):
  """Returns an index of the data set that can be changed."""
  build_index(tmp_path / "index", beir)
  return tmp_path / "index"


@pytest.fixture(name="texts", scope="module")
def fixture_texts(tmp_path_factory):
  folder = tmp_path_factory.mktemp("texts")
  corpora.write_annals(folder / "annals.txt")
  corpora.write_notes(folder / "notes.txt")
  return folder


@pytest.fixture(name="text_index", scope="module")
def fixture_text_index(texts, tmp_path_factory):
  folder = tmp_path_factory.mktemp("index") / "index"
  build_index(folder, texts / "annals.txt", reigns="西晉")
  build_index(folder, texts / "notes.txt", use_passages=True)
  return folder


def open_records(folder):
  with contextlib.closing(database.open_database(folder)) as connection:
    works = database.list_works(connection)
    rows = [row for work in works for row in work.rows]
    return works, database.fetch_records(connection, rows)


def find_rows(folder, *words):
  with contextlib.closing(database.open_database(folder)) as connection:
    matches = database.search_text(connection, words, 100)
    return sorted(match.row for match in matches)


def test_records_with_keys_are_of_their_months(folder):
  works, records = open_records(folder)
  assert [record.best_month for record in records] == list(range(30))
  dated = {(record.dated_by, record.best_probability) for record in records}
  assert dated == {("keys", 1.0)}
  assert works[0].rows == range(1, 31)
  assert works[0].title == "魯史"
  calendar = calendars.load_index_calendar(folder)
  arrays = PosteriorArrays.open(folder / works[0].folder, len(calendar))
  assert sum(arrays.p_months(row)[3:5].sum() for row in range(30)) == 2
  assert manifest.read_manifest(folder).generation == 1
  assert index_check.check_index(folder) == []
  assert find_rows(folder, "来聘") == list(range(1, 31))  # either script


def test_records_partly_dated_are_of_what_is_known(tmp_path):
  records = corpora.list_dated_records(12)
  records += [
    {"text": "築城於郎。", "start": "2-3", "source": "annals"},
    {"text": "公會齊侯。", "start": "1-1-4", "end": "1-1-6"},
    {"text": "蝗。", "start": "隱公三年秋"},
    {"text": "大雨雪。", "end": "1-1-2"},
  ]
  folder = tmp_path / "index"
  build_index(folder, corpora.write_beir(tmp_path / "beir", records))
  spans = {
    record.text: (record.start_month, record.end_month)
    for record in open_records(folder)[1]
  }
  first_of_huan = 11 * 12
  assert spans["築城於郎。"] == (first_of_huan + 24, first_of_huan + 35)
  assert spans["公會齊侯。"] == (3, 5)
  assert spans["蝗。"] == (30, 32)
  assert spans["大雨雪。"] == (0, 1)


@pytest.mark.slow
def test_undated_records_are_dated_by_those_that_are(tmp_path):
  records = corpora.list_dated_records(96)
  records[50].pop("start")
  records[50]["text"] = records[49]["text"][:-3] + "如京師。"
  records[60]["start"] = "1-6"  # of its year alone
  folder = tmp_path / "index"
  build_index(folder, corpora.write_beir(tmp_path / "beir", records))
  works, rows = open_records(folder)
  by_id = {row.record_id: row for row in rows}
  assert by_id["r50"].dated_by == "model"
  assert by_id["r50"].start_month is None
  assert by_id["r49"].dated_by == "keys"
  assert 60 <= by_id["r60"].best_month < 72
  num_months = len(calendars.load_index_calendar(folder))
  arrays = PosteriorArrays.open(folder / works[0].folder, num_months)
  index = by_id["r60"].row - works[0].first_row
  assert arrays.p_months(index)[60:72].sum() == pytest.approx(1, abs=1e-3)


def test_a_text_in_order_is_cut_and_dated(text_index):
  works, records = open_records(text_index)
  assert works[0].dated_by == "order"
  annals = records[: 24 * corpora.YEARS]
  months = np.array([record.best_month for record in annals])
  np.testing.assert_array_equal(months[::2], months[1::2])
  calendar = calendars.load_index_calendar(text_index)
  reigns = works[0].printed_reigns
  name = calendars.name_month(calendar, int(months[2]), reigns)
  assert name == "晉武帝泰始元年二月"
  assert annals[0].place == "annals.txt:1"


def test_a_work_without_dates_is_dated_by_the_others(text_index):
  works, records = open_records(text_index)
  notes = records[-works[1].num_records :]
  assert {record.dated_by for record in notes} == {"model"}
  calendar = calendars.load_index_calendar(text_index)
  years = calendar.years[[note.best_month for note in notes[:2]]]
  assert years.tolist() == [269, 267]  # 泰始五年, 三年
  assert notes[2].best_probability < 0.5


def test_passages_are_dated_by_the_folder_that_the_manifest_names(text_index):
  name = manifest.read_manifest(text_index).passages
  assert name == "passages/2"
  assert [path.name for path in (text_index / "passages").iterdir()] == ["2"]
  calendar = calendars.load_index_calendar(text_index)
  dater = PassageDater.open(text_index / name, calendar)
  dates = dater.date("泰始四年七月，賊獻白雉於廷。")
  best = int(dates.log_p.argmax())
  assert (calendar.years[best], calendar.months[best]) == (268, 7)


def test_summary_says_by_what_works_are_dated(text_index):
  summary = index_check.format_summary(text_index)
  assert "annals: 144 records, 144 by order" in summary
  assert "notes: 3 records, 3 by model" in summary
  assert "晉武帝泰始元年正月 to 晉武帝泰始六年十二月" in summary


def test_nothing_is_dated_twice(text_index, texts, monkeypatch):
  monkeypatch.setattr(staged_works, "stage_work", None)
  before = manifest.read_manifest(text_index)
  paths = texts / "annals.txt", texts / "notes.txt"
  result = build_index(text_index, *paths, use_passages=True)
  assert result.unchanged == ("annals", "notes")
  assert manifest.read_manifest(text_index) == before


def test_a_changed_work_replaces_the_old(beir, tmp_path):
  source, folder = tmp_path / "annals_of_lu", tmp_path / "index"
  build_index(folder, shutil.copytree(beir, source))
  corpora.write_beir(source, corpora.list_dated_records(20))
  result = build_index(folder, source)
  assert result.removed == result.added == ("annals_of_lu/annals",)
  summary = index_check.format_summary(folder, result)
  assert summary.endswith("replaced     annals_of_lu/annals")
  works, _ = open_records(folder)
  assert works[0].rows == range(31, 51)  # rows are never used again
  assert find_rows(folder, "來聘") == list(range(31, 51))
  assert len(list((folder / "works").iterdir())) == 1
  assert index_check.check_index(folder) == []


def test_a_work_is_removed_and_added_again(beir, folder):
  build_index(folder, beir, removed=["annals_of_lu"])
  assert open_records(folder)[0][0].first_row == 31
  build_index(folder, removed=["annals_of_lu/annals"])
  assert open_records(folder) == ([], [])
  assert find_rows(folder, "來聘") == []
  assert index_check.check_index(folder) == []
  with pytest.raises(ValueError, match="--remove=wrong: no such work"):
    build_index(folder, removed=["wrong"])


# Where a build is killed, in the order in which it comes there.
BREAKS = (
  pytest.param("staged_works.files.write_text", marks=pytest.mark.slow),
  pytest.param("index_commit.commit_works", marks=pytest.mark.slow),
  "index_commit.database.set_property",  # within the transaction
  pytest.param("index_commit.manifest.write_manifest", marks=pytest.mark.slow),
)
_SCRIPT = """
import os, pathlib, signal, sys
from ctd_jax.index.building import index_builder
from ctd_jax.index.building import index_commit
from ctd_jax.index.building import staged_works
def kill(*arguments, **options):
  os.kill(os.getpid(), signal.SIGKILL)
module, *path = sys.argv[1].split(".")
target = globals()[module]
for name in path[:-1]:
  target = getattr(target, name)
setattr(target, path[-1], kill)
options = index_builder.BuildOptions(use_passages=False)
index_builder.build_index(pathlib.Path(sys.argv[2]), [sys.argv[3]], options)
"""


@pytest.mark.parametrize("target", BREAKS)
def test_a_killed_build_leaves_an_index_that_answers(folder, tmp_path, target):
  records = corpora.list_dated_records(40)
  source = corpora.write_beir(tmp_path / "more", records)
  arguments = target, folder, f"beir:{source}"
  process = processes.run_python("-c", _SCRIPT, *arguments)
  assert process.returncode == -9, process.stderr
  is_committed = "manifest" in target
  works, _ = open_records(folder)
  assert len(works) == 1 + is_committed
  assert len(find_rows(folder, "來聘")) == 30 + 40 * is_committed
  calendar = calendars.load_index_calendar(folder)
  for work in works:
    arrays = PosteriorArrays.open(folder / work.folder, len(calendar))
    assert len(arrays) == work.num_records
  problems = index_check.check_index(folder)
  assert (problems == []) == (not is_committed)
  result = build_index(folder, source)
  assert result.added == (() if is_committed else ("more/annals",))
  assert index_check.check_index(folder) == []
  assert len(find_rows(folder, "來聘")) == 70


def test_a_removal_that_was_killed_is_finished_by_the_same_command(
  folder, monkeypatch
):
  with monkeypatch.context() as patch:
    patch.setattr(
      index_commit.manifest, "write_manifest", lambda *arguments: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
      build_index(folder, removed=["annals_of_lu"])
  assert build_index(folder, removed=["annals_of_lu"]).added == ()
  assert index_check.check_index(folder) == []
  assert manifest.read_manifest(folder).generation == 2
  with pytest.raises(ValueError, match="no such work"):
    build_index(folder, removed=["annals_of_lu"])


def test_a_build_goes_on_with_the_works_that_are_dated(
  beir, tmp_path, monkeypatch
):
  folder = tmp_path / "index"
  with monkeypatch.context() as patch:
    patch.setattr(index_commit, "commit_works", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      build_index(folder, beir)
  assert not (folder / "manifest.json").exists()
  with pytest.raises(FileNotFoundError, match="or finish a stopped build"):
    manifest.read_manifest(folder)
  monkeypatch.setattr(staged_works, "stage_work", None)
  result = build_index(folder, beir)
  assert result.added == ("annals_of_lu/annals",)
  assert index_check.check_index(folder) == []


def test_two_builders_do_not_meet(beir, tmp_path):
  folder = tmp_path / "index"
  with (
    index_builder._lock(folder),
    pytest.raises(ValueError, match="another build is working on it"),
  ):
    build_index(folder, beir)


def test_one_bad_line_is_named_and_builds_nothing(beir, tmp_path):
  folder = tmp_path / "index"
  records = corpora.list_dated_records(2000)
  records[1234]["start"] = "91-1-1"
  source = corpora.write_beir(tmp_path / "bad", records)
  with pytest.raises(ValueError, match=r"corpus\.jsonl:1235: metadata\.start"):
    build_index(folder, beir, source)
  assert not (folder / "manifest.json").exists()
  build_index(folder, beir)
  before = manifest.read_manifest(folder)
  with pytest.raises(ValueError, match=r"corpus\.jsonl:1235"):
    build_index(folder, source)
  assert manifest.read_manifest(folder) == before
  assert index_check.check_index(folder) == []


def test_errors_say_what_would_be_right(beir, texts, tmp_path):
  folder, latin = tmp_path / "index", tmp_path / "latin1.txt"
  latin.write_bytes("泰始元年".encode("big5"))
  both = DatingChoices(in_order=("annals_of_lu",), undated=("annals_of_lu",))
  for message, sources, options in (
    ("no calendar: .*--reigns", [texts / "annals.txt"], {}),
    ("chunqiutr/mini", ["chunqiutr/mimi"], {}),
    (
      "--order=biji: not among the works",
      [beir],
      {"choices": DatingChoices(in_order=("biji",))},
    ),
    ("one or the other", [beir], {"choices": both}),
    ("--hide=tset", [beir], {"hidden_splits": ("tset",)}),
    ("two works are called", [beir, beir], {}),
    (r"latin1.txt.*UTF-8", [latin], {"reigns": "西晉"}),
    ("no index there; --add", [], {}),
    (
      "records of the index have certain dates",
      [texts / "notes.txt"],
      {"reigns": "西晉"},
    ),
  ):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
      build_index(folder, *sources, **options)


def test_a_folder_of_something_else_is_not_taken(beir, tmp_path):
  (tmp_path / "stray.txt").write_text("a")
  (tmp_path / "jobs").mkdir()  # of a server, which may ask for the first build
  with pytest.raises(ValueError, match="holds stray.txt and no index"):
    build_index(tmp_path, beir)


def test_a_few_records_are_dated_without_learning_again(text_index, tmp_path):
  folder = shutil.copytree(text_index, tmp_path / "index")
  before = manifest.read_manifest(folder)
  few = tmp_path / "few.txt"
  few.write_text(f"{corpora.name_person(5, 8)}又擊賊於野，破之。\n")
  build_index(folder, few, use_passages=True)
  after = manifest.read_manifest(folder)
  assert after.passages == before.passages
  assert [work["name"] for work in after.unseen_works] == ["few"]
  assert index_check.check_index(folder) == []
  index = Index.open(folder)
  answer = index.ask("又擊賊於野，破之。", intent="passage")
  assert any(it.code == "note.passages.unseen" for it in answer.notes)
  (record,) = open_records(folder)[1][-1:]
  months = calendars.load_index_calendar(folder)
  assert months.name_month(record.best_month)[1] == 5
  # Works it learned from change, or the index grows by a tenth.
  assert not after.can_learn_later(after.works[1:])
  grown = {"first_row": 0, "num_records": 30}
  assert not after.can_learn_later([*after.works, grown])


def test_an_index_keeps_its_calendar(text_index, texts, beir):
  with pytest.raises(ValueError, match="does not have it"):
    build_index(text_index, texts / "annals.txt", reigns="宋")
  with pytest.raises(ValueError, match="outside the calendar"):
    build_index(text_index, beir)


@pytest.mark.parametrize(
  ("name", "damage"),
  [
    ("calendar/months.npz", "truncate"),
    ("works/*/months.npy", "flip"),
    ("works/*/outside.npy", "remove"),
    ("index.sqlite", "truncate"),
  ],
)
def test_damage_is_found_and_named(folder, name, damage):
  (path,) = folder.glob(name)
  content = path.read_bytes()
  if damage == "remove":
    path.unlink()
  elif damage == "truncate":
    path.write_bytes(content[: len(content) // 2])
  else:
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
  problems = index_check.check_index(folder)
  assert any(str(path) in problem for problem in problems), problems


def test_another_version_is_refused(beir, folder):
  path = folder / "manifest.json"
  path.write_text(path.read_text().replace('"format": 3', '"format": 7'))
  with pytest.raises(ValueError, match="format 7, this version reads 3"):
    index_check.check_index(folder)
  with pytest.raises(ValueError, match="format 7"):
    build_index(folder, beir)


def test_rows_that_are_not_those_written_are_found(folder):
  with contextlib.closing(database.open_database(folder, False)) as connection:
    connection.execute("UPDATE records SET text = '改' WHERE row = 1")
    connection.execute("DELETE FROM records WHERE row = 9")
  problems = " ".join(index_check.check_index(folder))
  assert "29 records, expected 30" in problems
  assert "not what was written" in problems
  assert "is not in the full text" in problems
