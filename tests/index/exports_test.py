"""Answers as files: formats, names, and citations with edited titles."""

import codecs
import csv
import dataclasses
import io
import json
import re
import shutil
from xml.etree import ElementTree

import openpyxl
import pytest

from ctd_jax.index import answer_files, asking, database, record_answers
from ctd_jax.index.asking import Index
from tests.index import small_index

YEAR = "魯隱公元年正月_魯隱公元年十二月"
TEI = "{http://www.tei-c.org/ns/1.0}"
# Text, kind, month. The texts of strangers are neither formulas nor markup.
HOSTILE = (
  ('=HYPERLINK("http://x","y")，公如某。', "event", 3),
  ("+1，@SUM(A1) -2 & {b} % $ \\ ^ ~ <i>", "event", 3),
  ("-三月\x1b[31m，\n公至。", "event", 3),
  ("@某人來。", "event", 3),
)


@pytest.fixture(name="index", scope="module")
def fixture_index(tmp_path_factory):
  folder = tmp_path_factory.mktemp("hostile")
  small_index.write_index(folder, HOSTILE, 2)
  (folder / "titles.tsv").write_text(
    "work\ttitle\tedition\nannals\t春秋\t某氏刊本，卷一\nnotes\t\t\n"
  )
  return Index.open(folder)


def write(index, question, suffix, **options):
  answer = index.ask(question, k=100, **options)
  records = asking.list_records(index, answer)
  return answer_files.write_answer(answer, suffix, records)


@pytest.mark.parametrize("suffix", [*answer_files.WRITERS])
@pytest.mark.parametrize("question", ["魯隱公元年四月", "元年", "無人可及"])
def test_every_answer_can_be_written(index, suffix, question):
  written = write(index, question, suffix, group="event")
  assert written or question == "無人可及"


def test_tables_hold_texts_that_are_no_formulas(index):
  written = write(index, "魯隱公元年四月", ".csv")
  assert written.startswith(codecs.BOM_UTF8)  # or Excel garbles Han characters
  text = written.decode("utf-8-sig")
  rows = list(csv.DictReader(io.StringIO(text)))
  starts = [row["text"][:2] for row in rows]
  assert starts == ["'=", "'+", "'-", "'@"]
  book = openpyxl.load_workbook(
    io.BytesIO(write(index, "魯隱公元年四月", ".xlsx"))
  )
  sheet = book["records"]
  header = [cell.value for cell in sheet[1]]
  column = header.index("text") + 1
  cells = [sheet.cell(row, column) for row in range(2, sheet.max_row + 1)]
  assert [cell.data_type for cell in cells] == ["s"] * 4
  assert cells[0].value == HOSTILE[0][0]
  year = sheet.cell(2, header.index("astronomical_year") + 1)
  assert (year.data_type, year.value) == ("n", -721)
  assert sheet.cell(2, header.index("common_era") + 1).value == "722 BCE"
  about = dict(book["about"].iter_rows(values_only=True))
  assert "characters left out of long cells" not in about
  assert about["question"] == "魯隱公元年四月"
  assert about["index sha256"] == index.versions.index_sha256


def test_references_and_tei_have_every_record(index):
  root = ElementTree.fromstring(write(index, "魯隱公元年四月", ".xml"))
  records = [*root.iter(f"{TEI}ab")]
  assert [it.get("n") for it in records] == [
    *("annals-0", "annals-1", "notes-0", "notes-1")
  ]
  assert records[0].find(f".//{TEI}date").get("when-custom") == "-0721-04"
  text = records[0].find(f"{TEI}seg")
  assert "".join(text.itertext()) == HOSTILE[0][0]
  references = json.loads(write(index, "魯隱公元年四月", ".csl.json"))
  assert references[0]["container-title"] == "春秋"
  assert references[0]["edition"] == "某氏刊本，卷一"
  bibtex = write(index, "魯隱公元年四月", ".bib").decode()
  assert bibtex.count("@inbook{") == 4
  assert r"\& \{b\} \% \$ \textbackslash{} \textasciicircum{}" in bibtex
  ris = write(index, "魯隱公元年四月", ".ris").decode()
  assert ris.count("TY  - CHAP\r\n") == ris.count("ER  - \r\n") == 4
  assert all(re.match("[A-Z][A-Z0-9]  - |$", it) for it in ris.split("\r\n"))
  lines = write(index, "魯隱公元年四月", ".jsonl").decode().splitlines()
  assert [json.loads(line)["row"] for line in lines] == [1, 2, 3, 4]


def test_citation_has_work_place_and_edition_but_no_address(index):
  cited = str(index.record(1).citation)
  assert cited.startswith(
    "《春秋》, annals.txt:1, annals-0. 某氏刊本，卷一. "
    "Dated 魯隱公元年四月 (722 BCE)"
  )
  assert str(index.folder) not in cited
  assert index.record(3).title == "Notes"  # as the source says


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".bib", ".xml"])
def test_citations_are_in_the_language_asked_for(index, suffix):
  answer = index.ask("魯隱公元年四月")
  for language, years in (("en", "722 BCE"), ("zh-Hant", "公元前722年")):
    written = answer_files.write_answer(answer, suffix, language=language)
    cited = re.search(
      "某氏刊本，卷一[.。] ?.*?據原編|by the edition", written.decode()
    )
    assert ("據原編" in cited[0]) == (language == "zh-Hant")
    assert f"({years})" in written.decode()


@pytest.mark.parametrize(
  ("name", "cited"),
  [("魯隱公元年", "Dated 魯隱公元年 (722 BCE) by"), ("", "Of no certain date")],
)
def test_citation_is_no_finer_than_the_date_is_sure(index, name, cited):
  (record,) = database.fetch_records(index.connection, [1])
  sure = dataclasses.replace(index.record(1).date.sure, name=name)
  assert cited in str(record_answers.cite_record(index, record, sure))


@pytest.mark.parametrize(
  ("question", "options", "name"),
  [
    (
      "722 BCE",
      {"works": ["annals"]},
      "春秋_魯隱公元年正月_魯隱公元年十二月.csv",
    ),
    ("魯隱公元年四月", {}, "春秋_Notes_魯隱公元年四月.csv"),
    ("公如某", {}, "春秋_公如某.csv"),
    ("元年", {"k": 2}, "春秋_元年.csv"),  # several years, no stretch
    ("../../x「公如某」/y", {}, None),
  ],
)
def test_file_names_say_what_they_hold(index, question, options, name):
  made = answer_files.name_file(index.ask(question, **options), ".csv")
  assert name is None or made == name
  assert not re.search(r"[/\\:\s]|^\.", made)


@pytest.mark.parametrize(
  ("lines", "problem"),
  [
    ("work\ttitle\nannals\tx\n", "line 1: columns work, title should be"),
    ("work\ttitle\tedition\nannals\tx\n", "line 2: should have the columns"),
    ("work\ttitle\tedition\n" + "notes\tx\t\n" * 2, "names a work twice"),
  ],
)
def test_wrong_titles_are_named(index, tmp_path, lines, problem):
  folder = shutil.copytree(index.folder, tmp_path / "copy")
  (folder / "titles.tsv").write_text(lines)
  with pytest.raises(ValueError, match=problem):
    Index.open(folder)


def test_title_of_no_work_is_told(index, tmp_path, caplog):
  folder = shutil.copytree(index.folder, tmp_path / "copy")
  (folder / "titles.tsv").write_text("work\ttitle\tedition\nanals\tx\t\n")
  assert Index.open(folder).record(1).title == "Annals"
  assert "work 'anals' is not in the index, which has annals" in caplog.text


def test_long_cells_of_a_spreadsheet_are_told(index, monkeypatch):
  monkeypatch.setattr(answer_files, "_MAX_CELL", 4)
  content = io.BytesIO(write(index, "公如某", ".xlsx"))
  about = dict(openpyxl.load_workbook(content)["about"].values)
  assert about["char"] > 0
