"""Builds with corrections: certain, kept by whatever build, written out."""

import csv
import dataclasses
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree

import msgspec
import pytest
from rich import cells

import ctd_jax
from ctd_jax.index import (
  correction_checks,
  correction_files,
  database,
  date_changes,
  index_check,
  redating,
)
from ctd_jax.index.building import sources as source_reading
from ctd_jax.index.building.group_dating import DatingChoices
from ctd_jax.index.index_folder import IndexFolder
from tests.index import corpora
from tests.index.corpora import build_index, correct
from tests.tools import processes

TEI = "{http://www.tei-c.org/ns/1.0}"


def undo(folder, correction):
  store = IndexFolder.open(folder).corrections
  store.undo(correction.correction_id, "B", f"undo {correction.correction_id}")


def export(folder, table_format):
  index = IndexFolder.open(folder)
  active = index.corrections.active()
  return correction_files.export_corrections(index, active, table_format)


def count_pending(folder):
  return correction_checks.count_pending(IndexFolder.open(folder))


def read_dated_with(index, name):
  work = correction_checks.find_work(index, name)
  return source_reading.read_dated_with(work)


def read_records(folder, work):
  index = IndexFolder.open(folder)
  rows = correction_checks.find_work(index, work).rows
  return {
    record.record_id: record
    for record in database.fetch_records(index.connection, rows)
  }


@pytest.fixture(name="sources", scope="module")
def fixture_sources(tmp_path_factory):
  folder = tmp_path_factory.mktemp("sources")
  corpora.write_annals(folder / "annals.txt")
  with (folder / "annals.txt").open("a", encoding="utf-8") as file:
    # Two records that print nothing, and one of two sections.
    file.write("有星孛。\n城成。\n十一月，大水。十二月，地震。\n")
  corpora.write_notes(folder / "notes.txt")
  records = corpora.list_dated_records(96)
  for number in (50, 51):
    records[number].pop("start")
  records[51]["text"] = records[49]["text"][:-3] + "如京師。"
  corpora.write_beir(folder / "lu", records)
  return folder


@pytest.fixture(name="built", scope="module")
def fixture_built(sources, tmp_path_factory):
  """Returns an index of annals and of notes that they date."""
  folder = tmp_path_factory.mktemp("built") / "index"
  build_index(folder, sources / "annals.txt", reigns="西晉")
  build_index(folder, sources / "notes.txt")
  return folder


@pytest.fixture(name="folder")
def fixture_folder(built, tmp_path):
  return shutil.copytree(built, tmp_path / "index")


@pytest.mark.slow
def test_a_corrected_work_is_dated_again_and_no_other(folder):
  first = correct(folder, "annals", "145", "泰始七年三月")
  correct(folder, "notes", "1", "泰始三年七月", note="<b>\n二")
  correct(folder, "notes", "3", "泰始五年")
  assert count_pending(folder) == {"annals": 1, "notes": 2}
  summary = index_check.format_summary(folder)
  assert "changes that --redate is to date 3, of annals, notes" in summary
  result = redating.redate_index(folder)
  assert result.problems == ()
  assert set(result.build.added) == {"annals", "notes"}
  index = IndexFolder.open(folder)
  assert not count_pending(folder)
  dated_with = read_dated_with(index, "annals")
  assert dated_with.corrections == (first.correction_id,)
  annals = read_records(folder, "annals")
  fixed = annals["145"]
  month = fixed.best_month
  assert (fixed.fixed, fixed.best_probability) == (True, 1)
  assert fixed.start_month == fixed.end_month == month
  assert index.calendar.years[month] == 271
  assert not annals["146"].fixed
  assert annals["146"].best_month >= month  # it was of the month of 144
  notes = read_records(folder, "notes")
  assert (notes["1"].dated_by, notes["1"].best_probability) == ("keys", 1)
  assert notes["3"].fixed
  assert not notes["2"].fixed
  assert notes["3"].start_month <= notes["3"].first_credible
  assert notes["3"].last_credible <= notes["3"].end_month
  answer = ctd_jax.Index.open(folder).ask("泰始七年三月", why=True)
  (record,) = [row for row in answer.results if row.record_id == "145"]
  assert record.date.is_fixed
  assert str(record.reasons[0]["note"]) == "a reader set the date"
  # Added again, from the source, it is what it was; undone, it is as before.
  source = index.works[0].source
  assert build_index(folder, source).unchanged == ("annals",)
  undo(folder, first)
  assert count_pending(folder) == {"annals": 1}
  again = redating.redate_index(folder)
  assert again.build.added == ("annals",)
  assert not read_records(folder, "annals")["145"].fixed
  assert read_records(folder, "notes")["1"].fixed
  assert redating.redate_index(folder).build is None
  assert index_check.check_index(folder) == []
  # Works stand where they stood, though their rows are new.
  works = IndexFolder.open(folder).works
  assert [work.name for work in works] == ["annals", "notes"]
  assert works[0].first_row > works[1].first_row


@pytest.mark.slow
def test_what_moves_is_tried_out_and_listed(folder, tmp_path):
  first = correct(folder, "annals", "145", "泰始七年三月")
  before = read_records(folder, "annals")
  with redating.copy_index(folder) as copy:
    tried = redating.redate_index(copy).report
  assert not copy.exists()
  assert count_pending(folder) == {"annals": 1}
  assert read_records(folder, "annals") == before
  report = redating.redate_index(folder).report
  assert report == tried
  assert report.applied == (first.correction_id,)
  after = read_records(folder, "annals")
  moved = {change.record_id: change for change in report.changes}
  assert moved.keys() == {
    name
    for name, record in after.items()
    if (record.best_month, record.fixed)
    != (before[name].best_month, before[name].fixed)
  }
  assert {"145", "146"} <= moved.keys()
  assert moved["145"].before.name == ""  # no month or year is sure
  assert moved["145"].before.common_era == "270 CE – 420 CE"
  assert moved["145"].after == date_changes.ToldDate(
    name="晉武帝泰始七年三月",
    common_era="271 CE",
    probability=1,
    is_fixed=True,
  )
  text = date_changes.format_changes(report)
  assert text.endswith(f"{len(moved)} of 148 records have changed\n")
  assert (
    len(
      {
        cells.cell_len(line.partition("→")[0])
        for line in text.splitlines()[1:-1]
      }
    )
    == 1
  )
  for name in ("c.csv", "c.json"):
    date_changes.write_changes(report, tmp_path / name)
  with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as file:
    assert [row["record_id"] for row in csv.DictReader(file)] == [*moved]
  content = (tmp_path / "c.json").read_bytes()
  assert msgspec.json.decode(content, type=date_changes.RedateReport) == report
  with pytest.raises(ValueError, match=r"suffix '.txt'; expected one of"):
    date_changes.check_path(tmp_path / "c.txt")
  undo(folder, first)
  report = redating.redate_index(folder).report
  assert report.undone == (first.correction_id,)


def forget_corrections(folder):
  """Removes both copies of the corrections."""
  (folder / "corrections.sqlite").unlink()
  (folder / "corrections.jsonl").unlink()


def test_a_changed_source_is_not_dated_again(folder, sources, tmp_path):
  copy = tmp_path / "annals.txt"
  shutil.copyfile(sources / "annals.txt", copy)
  folder = tmp_path / "other"
  build_index(folder, copy, reigns="西晉")
  correct(folder, "annals", "145", "泰始七年三月")
  correct(folder, "annals", "10", "泰始元年五月", last="11")
  correct(folder, "annals", "20", "泰始元年")
  copy.rename(tmp_path / "moved.txt")
  result = redating.redate_index(folder)
  assert result.build is None
  assert f"{copy} is gone" in str(result.problems[0])
  lines = (tmp_path / "moved.txt").read_text(encoding="utf-8").splitlines()
  lines[10] += "又雨。"  # the second of the records 10 and 11
  lines.insert(18, lines[18])  # all below move on by one
  copy.write_text("\n".join(lines) + "\n", encoding="utf-8")
  result = redating.redate_index(folder)
  assert f"--add={copy} adds the new version" in str(result.problems[0])
  # Added again, none is given to another record.
  build_index(folder, copy)
  index = IndexFolder.open(folder)
  dated_with = read_dated_with(index, "annals")
  assert dated_with.corrections == ()
  texts = {number: note["text"] for number, note in dated_with.left_out.items()}
  why = "the text has changed since it was corrected"
  assert texts == dict.fromkeys((1, 2, 3), why)
  assert not count_pending(folder)
  summary = index_check.format_summary(folder)
  assert "3 of 3 corrections were left out: correction 1" in summary
  assert not any(row.fixed for row in read_records(folder, "annals").values())
  # Undoing one of them changes no date.
  index.corrections.undo(3, "", "undo 3")
  assert not count_pending(folder)
  # The old text has them again.
  copy.write_bytes((sources / "annals.txt").read_bytes())
  build_index(folder, copy)
  annals = read_records(folder, "annals")
  fixed = [name for name, row in annals.items() if row.fixed]
  assert fixed == ["10", "11", "145"]


@pytest.mark.slow
def test_records_of_a_data_set_are_corrected(sources, tmp_path):
  folder = tmp_path / "index"
  shutil.copytree(sources / "lu", folder / "uploads" / "lu")
  build_index(folder, folder / "uploads" / "lu")
  before = read_records(folder, "lu/annals")
  assert before["r51"].best_month != 2
  correct(folder, "lu/annals", "r50", "隱公六年三月")
  correct(folder, "lu/annals", "r49", "隱公一年二月")  # that the data set gives
  moved = folder.rename(tmp_path / "moved")  # with the upload in it
  assert redating.redate_index(moved).problems == ()
  after = read_records(moved, "lu/annals")
  months = {name: after[name].best_month for name in ("r49", "r50")}
  assert months == {"r49": 1, "r50": 62}
  assert after["r49"].dated_by == after["r50"].dated_by == "keys"
  # What shares its wording with a corrected record moves with it.
  assert after["r51"].best_month != before["r51"].best_month
  exported = export(moved, "fixed")
  assert exported.number == 0
  assert "a data set, which takes no --fixed" in str(exported.left_out[0])


@pytest.mark.slow
def test_a_text_remembers_how_it_was_added(folder, sources, tmp_path):
  fixed = tmp_path / "fixed.tsv"
  fixed.write_text("record\tdate\n3\t泰始二年五月\n", encoding="utf-8")
  choices = DatingChoices(undated=("notes",), fixed=fixed)
  build_index(folder, sources / "notes.txt", unit="line", choices=choices)
  notes = read_records(folder, "notes")
  assert (notes["3"].fixed, notes["3"].best_probability) == (True, 1)
  correction = correct(folder, "notes", "1", "泰始三年七月")
  redating.redate_index(folder)
  notes = read_records(folder, "notes")
  assert [row.fixed for row in notes.values()] == [True, False, True]
  index = IndexFolder.open(folder)
  row = source_reading.read_dated_with(index.works[-1])
  assert (row.source.unit, row.manner) == ("line", "undated")
  undo(folder, correction)
  fixed.write_text("record\tdate\n2\t泰始二年五月\n", encoding="utf-8")
  (problem,) = redating.redate_index(folder).problems
  assert f"{fixed}, the --fixed table of notes, has changed" in str(problem)
  fixed.unlink()
  (problem,) = redating.redate_index(folder).problems
  assert f"{fixed}, the --fixed table of notes, is gone" in str(problem)


@pytest.mark.slow
def test_a_correction_of_a_fixed_record_blocks_no_other(
  folder, sources, tmp_path
):
  fixed = tmp_path / "fixed.tsv"
  fixed.write_text("record\tdate\n3\t泰始二年五月\n", encoding="utf-8")
  build_index(folder, sources / "notes.txt", choices=DatingChoices(fixed=fixed))
  message = f"notes 3: --fixed={fixed} dates it; change that file"
  for first in ("3", "2"):
    with pytest.raises(ValueError, match=re.escape(message)):
      correct(folder, "notes", first, "泰始三年七月", last="3")
  # What a reader has corrected can be corrected again.
  other = correct(folder, "notes", "1", "泰始三年七月")
  redating.redate_index(folder)
  undo(folder, other)
  store = IndexFolder.open(folder).corrections
  correct(folder, "notes", "1", "泰始三年八月")
  # As an index has it in which the correction was made first.
  first = dataclasses.replace(other, first_record="3", last_record="3")
  store.add(first, key="first")
  correct(folder, "annals", "145", "泰始七年三月")
  result = redating.redate_index(folder)
  assert result.build.added == ("annals",)
  (problem,) = result.problems
  assert "notes: correction 3 of 3: notes 3: --fixed=" in str(problem)
  assert "or undo the correction" in str(problem)
  assert [*count_pending(folder)] == ["notes"]
  store.undo(3, "", "undo 3")
  assert redating.redate_index(folder).build.added == ("notes",)


def test_a_table_for_fixed_is_read_back(folder, sources, tmp_path):
  correct(folder, "annals", "145", "泰始七年三月", note="a\tb\nc", last="146")
  correct(folder, "annals", "147-2", "泰始八年")
  undo(folder, correct(folder, "annals", "100", "泰始二年"))
  target = tmp_path / "fixed.tsv"
  text = correction_files.write_corrections(folder, target)
  assert text == f"{target}: corrections written 2"
  assert "145\t145\t\t泰始七年三月\tA: a b c\n" in target.read_text("utf-8")
  new, choices = tmp_path / "new", DatingChoices(fixed=target)
  build_index(new, sources / "annals.txt", reigns="西晉", choices=choices)
  redating.redate_index(folder)
  records = [read_records(path, "annals") for path in (folder, new)]
  for name in ("145", "146", "147-2"):
    assert [row[name].fixed for row in records] == [True, True]
    spans = [(row[name].start_month, row[name].end_month) for row in records]
    assert spans[0] == spans[1]
  assert not records[1]["147-1"].fixed
  assert sum(row.fixed for row in records[1].values()) == 3
  # Of two texts, two tables.
  correct(folder, "notes", "1", "泰始三年七月")
  text = correction_files.write_corrections(folder, target)
  assert "fixed.annals.tsv: corrections written 2" in text
  assert "fixed.notes.tsv: corrections written 1" in text
  with pytest.raises(ValueError, match="covers one text, not annals, notes"):
    export(folder, "fixed")


def test_what_is_exported_is_well_formed(folder, tmp_path):
  correct(
    folder, "annals", "3", "泰始元年二月", note="=1+1", name='<a href="&">'
  )
  correct(
    folder, "notes", "1", "泰始三年七月/泰始三年八月", note="]]>\x00&\n二"
  )
  undo(folder, correct(folder, "notes", "2", "泰始三年"))
  for suffix in (".csv", ".jsonl", ".xml"):
    correction_files.write_corrections(folder, tmp_path / f"c{suffix}")
  with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
  assert [row["state"] for row in rows] == ["pending", "pending", "undone"]
  assert rows[0]["note"] == "'=1+1"  # which a spreadsheet would compute
  assert rows[1]["months"] == "晉武帝泰始三年七月 – 晉武帝泰始三年八月"
  lines = (tmp_path / "c.jsonl").read_text(encoding="utf-8").splitlines()
  assert json.loads(lines[1])["note"] == "]]>\x00&\n二"
  root = ElementTree.parse(tmp_path / "c.xml").getroot()
  dates = list(root.iter(f"{TEI}date"))
  assert [date.get("when-custom") for date in dates] == ["0265-02", None]
  assert dates[1].get("notBefore-custom") == "0267-07"
  assert dates[1].get("notAfter-custom") == "0267-08"
  assert dates[1].get("notBefore-iso") < dates[1].get("notAfter-iso")
  names = [row.text for row in root.iter(f"{TEI}name")]
  assert names == ['<a href="&">', "A"]
  assert [row.text for row in root.iter(f"{TEI}note")] == ["=1+1", "]]>�&\n二"]
  with pytest.raises(ValueError, match=r"suffix '.txt'; expected one of"):
    correction_files.write_corrections(folder, tmp_path / "c.txt")


def test_the_first_sure_date_makes_passages_datable(tmp_path):
  text = tmp_path / "years.txt"
  text.write_text("泰始元年，城成。\n泰始二年，有星孛。\n王薨。\n")
  folder = tmp_path / "index"
  build_index(folder, text, reigns="西晉", use_passages=True)
  index = IndexFolder.open(folder)
  assert index.manifest.passages is None
  assert index.manifest.is_for_passages
  with pytest.raises(FileNotFoundError, match="no record has a certain date"):
    _ = index.passage_dater
  correct(folder, "years", "3", "泰始二年三月")
  redating.redate_index(folder)
  index = IndexFolder.open(folder)
  assert index.manifest.passages == "passages/2"
  # Not where none were wanted.
  build_index(folder, text, use_passages=False)
  correct(folder, "years", "1", "泰始元年三月")
  redating.redate_index(folder)
  index = IndexFolder.open(folder)
  assert index.manifest.passages is None
  with pytest.raises(FileNotFoundError, match="was built with --nopassages"):
    _ = index.passage_dater


@pytest.mark.slow
def test_a_removed_work_keeps_its_corrections(folder, sources):
  correct(folder, "notes", "1", "泰始三年七月")
  build_index(folder, removed=["notes"])
  summary = index_check.format_summary(folder)
  assert "1 of works that were removed: notes" in summary
  build_index(folder, sources / "notes.txt")
  assert read_records(folder, "notes")["1"].fixed


def test_an_index_of_another_format_is_built_again_with_its_corrections(
  folder, sources
):
  correct(folder, "annals", "1", "泰始三年七月")
  path = folder / "manifest.json"
  path.write_text(path.read_text().replace('"format": 3', '"format": 1'))
  with pytest.raises(ValueError, match="keeps its corrections") as raised:
    build_index(folder, sources / "annals.txt")
  for name in re.findall(r"manifest\.json|index\.sqlite\*", str(raised.value)):
    for path in folder.glob(name):
      path.unlink()
  build_index(folder, sources / "annals.txt", reigns="西晉")
  assert read_records(folder, "annals")["1"].fixed


def test_a_damaged_file_of_corrections_is_found(folder):
  correct(folder, "notes", "1", "泰始三年七月")
  assert index_check.check_index(folder) == []
  (folder / "corrections.sqlite").write_bytes(b"no database" * 100)
  (problem,) = index_check.check_index(folder)
  assert "corrections.sqlite" in str(problem)


def test_a_table_of_corrections_is_taken_in_row_by_row(folder, tmp_path):
  table = tmp_path / "mine.csv"
  table.write_text(
    "work,first_record,last_record,date,note,name\n"
    'annals,145,146,泰始七年三月,"晉書, 武帝紀",A\n'
    "annals,146,,泰始七年四月,,\n"
    "annals,9999,,泰始七年四月,,\n"
    "annals,3,,何時,,\n"
    "notes,1,,泰始三年七月,'=1,B\n",
    encoding="utf-8-sig",
  )
  result = correction_files.import_corrections(folder, table)
  assert (result.added, result.present, result.undone) == (2, 0, 0)
  assert [row.partition(": ")[0] for row in result.refused] == [
    f"{table}, line {line}" for line in (3, 4, 5)
  ]
  assert "undo that first" in result.refused[0]
  store = IndexFolder.open(folder).corrections
  assert [row.note for row in store.active()] == ["晉書, 武帝紀", "=1"]
  assert correction_files.import_corrections(folder, table).present == 2
  with pytest.raises(ValueError, match=r"--undo=7: no .*; there are 1, 2"):
    correction_files.undo_corrections(folder, ["1", "7"])
  assert store.count(only_active=True) == 2
  correction_files.undo_corrections(folder, ["1"])
  # What another index writes is taken in, but not of another text.
  correction_files.write_corrections(folder, table)
  forget_corrections(folder)
  text = table.read_text(encoding="utf-8")
  result = correction_files.import_corrections(folder, table)
  assert (result.added, result.undone, result.refused) == (1, 1, ())
  sha256 = IndexFolder.open(folder).corrections.active()[0].texts_sha256
  forget_corrections(folder)
  table.write_text(text.replace(sha256, "0" * 64), encoding="utf-8")
  (refused,) = correction_files.import_corrections(folder, table).refused
  assert "not the one that was corrected" in refused


def test_what_is_exported_is_taken_in_whatever_ends_a_line(folder, tmp_path):
  """A note may have any character that some program ends a line at."""
  ends = ["\n", *"\v\f\x1c\x1d\x1e\x85\u2028\u2029"]
  for number, end in enumerate(ends, start=3):
    note = f'a{end}b, "c"{end}{end}d'
    correct(folder, "annals", str(number), "泰始二年", note=note, name="A")
  store = IndexFolder.open(folder).corrections
  store.undo(1, "B", "undo")
  table = tmp_path / "mine.csv"
  correction_files.write_corrections(folder, table)
  made = {row.first_record: row.note for row in store.active()}
  forget_corrections(folder)
  result = correction_files.import_corrections(folder, table)
  assert (result.added, result.undone) == (len(ends) - 1, 1)
  assert result.refused == ()
  store = IndexFolder.open(folder).corrections
  assert {row.first_record: row.note for row in store.active()} == made


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("work,date\n", "line 1: no column first_record"),
    ("", "line 1: no column work, first_record, date"),
    ("work,first_record,date\na,1,b,c\n", "line 2: more cells"),
    (
      "work,first_record,last,date\na,1,2,泰始三年\n",
      r"line 1: unknown column 'last'; did you mean last_record\?",
    ),
    ("work,first_record,Date\na,1,泰始三年\n", "line 1: no column date"),
    (
      "work,first_record,date,who\na,1,泰始三年,A\n",
      "line 1: unknown column 'who'; expected work, .*, name,",
    ),
    ("work,first_record,date,date\na,1,b,c\n", "column date twice"),
    ("work,first_record,date,note\na,1,b\n", "line 2: fewer cells .* has 4"),
  ],
)
def test_a_table_that_is_none_is_named(folder, tmp_path, content, message):
  table = tmp_path / "mine.csv"
  table.write_text(content, encoding="utf-8")
  with pytest.raises(ValueError, match=message):
    correction_files.import_corrections(folder, table)


@pytest.mark.slow
def test_the_command_line_corrects_and_dates_again(folder, tmp_path):
  table = tmp_path / "mine.csv"
  table.write_text(
    "work,first_record,date\nnotes,1,泰始三年七月\nnotes,9,泰始三年\n",
    encoding="utf-8",
  )

  def run(*arguments):
    command = "ctd_jax.index", f"--index={folder}"
    return processes.run_python("-m", *command, *arguments)

  done = run(f"--correct={table}", "--redate", "--add=x")
  assert done.returncode != 0
  assert "leave out --add" in done.stderr
  done = run(f"--correct={table}", "--dry_run")
  assert "expected --redate too" in done.stderr
  done = run(f"--correct={table}", "--redate", "--dry_run")
  assert "1 of 3 records would change" in done.stdout
  assert IndexFolder.open(folder).corrections.count() == 0
  done = run(f"--correct={table}", "--redate")
  assert done.returncode != 0  # one of the rows was refused
  assert "corrections made 1" in done.stdout
  assert "notes has no record 9" in done.stderr
  assert read_records(folder, "notes")["1"].fixed
