"""Warnings and errors of what pages show: known in every language."""

import ast
import pathlib
import re

import numpy as np
import pytest

import ctd_jax
from ctd_jax.chronology import reign_tables
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dating_warnings,
  month_calendar,
  written_dates,
)
from ctd_jax.texts.works import Entry, Place
from ctd_jax.web import messages, reason_notes
from ctd_jax.web.jobs import job_log
from tests.web import source_sentences

FOLDER = pathlib.Path(ctd_jax.__file__).parent
# Whose errors a page shows.
MODULES = (
  *("dating/chronicle/written_dates", "dating/chronicle/western_calendar"),
  *("dating/chronicle/chronicle_input", "chronology/date_expressions"),
  *("chronology/common_era_years", "chronology/query_mentions"),
  *("chronology/query_ranges", "chronology/query_windows"),
  *("chronology/query_dates", "texts/files", "texts/tei"),
  *("index/building/source_calendars", "index/building/sources"),
  *("index/building/work_corrections", "index/building/model_dating"),
  "index/corrections/correction_checks",
  *("index/corrections/redating", "index/storage/correction_spans"),
  *("index/storage/corrections", "index/questions/question_dates"),
  *("index/questions/question_reading", "index/questions/question_readings"),
  *("index/questions/question_spans", "index/questions/question_calendar"),
)
# Of flags and calls that no page makes.
ELSEWHERE = re.compile(
  r"(text_format|unit|intent)=?.*expected one of|--hide=|--input=|--fixed=|no "
  r"style|--index=.*no index there|record .*of which "
  r"work|--reigns=.*another calendar|--add=.*nor a data set|a work is one or"
  r"|nothing to correct|cannot be written"
)
# What stays as it is: flags, names of files, members of records, commands.
NAMES = re.compile(
  r"--\w+(=\S+)?|\b[\w.]+\.(tsv|jsonl?)|`\w+(\.\w+)?`|metadata\.\w+|\(iconv.*\)"
  r"|UTF-(8|32)|XML|Unicode|June|BCE|\bkey\b|\ball\b"
)


def list_errors(path):
  """Returns an example of each error that a module raises with a sentence."""
  examples = []
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
      examples += [
        source_sentences.write_example(it) for it in node.exc.args[:1]
      ]
  return [text for text in examples if text and not ELSEWHERE.search(text)]


def find_english(text):
  """Returns the English words of a text that is to have none."""
  return re.findall("[A-Za-z]{3,}", NAMES.sub("", text).replace("SIGKILL", ""))


@pytest.mark.parametrize("module", MODULES)
def test_errors_are_known_in_every_language(module):
  errors = list_errors(FOLDER / f"{module}.py")
  for error in errors:
    for language in (messages.TRADITIONAL, messages.SIMPLIFIED):
      text = reason_notes.translate_note(language, error)
      assert not find_english(text), (error, text)


def test_most_errors_are_looked_at():
  counts = [len(list_errors(FOLDER / f"{module}.py")) for module in MODULES]
  assert sum(counts) >= 70


def test_warnings_are_known_in_every_language():
  table = reign_tables.reign_table_dir() / "lu.tsv"
  calendar = month_calendar.read_calendar(table)
  texts = [
    "隱公二十年三月，有年。",
    "明治三年，有年。",
    "洪武三年，有年。",
    "大康國史",
    "康雍三年，有年。",
    *(f"{name}三年，有年。" for name in ("貞觀", "乾隆", "康熙", "光緒")),
  ]
  entries = [Entry(text, Place("a.txt", n)) for n, text in enumerate(texts, 1)]
  sections = chronicle_dating.read_all_sections(entries, calendar)

  class Doubtful:
    probabilities = np.full((4, 1), 0.1)

  warnings = [
    *dating_warnings.list_unknown_eras(entries, calendar),
    *dating_warnings.list_missing_dates(sections, entries, calendar),
    *dating_warnings.warn_of_contradictions([None] * 9, sections),
    *dating_warnings.warn_of_doubt(Doubtful),
    *dating_warnings._shorten(["a", "b"], 1, "headings")[1:],
    "records open with years of the common era; try --reigns=CE",
    "大明 is of another time than the calendar lu: 1 record outside",
    "大明 is of another time than the calendar lu: 12 records outside",
  ]
  assert len(warnings) >= 9
  for warning in warnings:
    text = reason_notes.translate_note("zh-Hant", warning)
    text = re.sub(r"a\.txt:\d+|「?lu」?|BCE|CE", "", text)
    assert not find_english(text), (warning, text)


@pytest.mark.parametrize(
  "date",
  [
    *("no date", "0722-13", "0722-02-31", "722", "元年", "隱公九十年"),
    *("隱公元年十三月", "0001/0002/0003", "0975", "公元0年", "隱公元年甲子"),
  ],
)
def test_dates_that_cannot_be_read_are_explained_in_chinese(date):
  calendar = month_calendar.read_calendar(
    reign_tables.reign_table_dir() / "lu.tsv"
  )
  with pytest.raises(ValueError, match=re.escape(date)) as caught:
    written_dates.find_months(date, calendar)
  text = reason_notes.translate_note("zh-Hans", str(caught.value))
  assert not find_english(text.replace(date, "").replace("BCE", "")), text


def test_calendars_that_are_not_known_are_explained_in_chinese():
  for name in ("西普", "CE:9-1", "CE"):
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
      chronicle_input.load_reigns(name)
    text = reason_notes.translate_note("zh-Hans", str(caught.value))
    names = "|".join(map(re.escape, chronicle_input.list_installed_tables()))
    assert not find_english(re.sub(names, "", text)), text


def test_problem_within_a_sentence_has_to_be_known():
  note = "a.txt:3: something that no catalogue has"
  assert reason_notes.translate_note("zh-Hant", note) == note
  assert 'lang="en"' in reason_notes.write_note("zh-Hant", note)
  assert "lang" not in reason_notes.write_note("en", note)
  assert "&lt;b&gt;" in reason_notes.write_note("zh-Hant", "no work <b>; x")


def test_long_sentences_are_not_looked_through():
  note = "a: " * 5_000
  assert reason_notes.translate_note("zh-Hant", note) == note


def test_steps_of_builds_are_known_and_read():
  steps = []
  for path in [*FOLDER.glob("dating/**/*.py"), *FOLDER.glob("index/**/*.py")]:
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Call) and re.search(
        "[pP]rogress(_bar)?$", ast.unparse(node.func)
      ):
        described = [
          *node.args[1:2],
          *(it.value for it in node.keywords if it.arg == "desc"),
        ]
        steps += filter(None, map(source_sentences.write_example, described))
  assert len(steps) >= 9
  for step in steps:
    progress = job_log.find_progress((f"{step}: 3 of 12 blocks (25%)",))
    assert progress.step == step
    assert not find_english(reason_notes.translate_note("zh-Hans", step)), step


def test_page_says_in_its_language_why_a_date_is_not_read(client):
  for parameters in (
    {"work": "notes", "first": "notes-0", "date": "no date"},
    {"work": "notes", "first": "notes-0", "date": "魯隱公九十年"},
  ):
    page = client.get("/correct", params=parameters | {"lang": "zh-Hant"}).text
    (note,) = re.findall(r'class="note">(.*?)</p>', page)
    assert not find_english(note.replace("no date", "")), note
  page = client.get("/", params={"q": "明治三年", "lang": "zh-Hant"}).text
  assert "is no reign" not in page
  page = client.get("/month/x", params={"lang": "zh-Hant"}).text
  assert "應為整數" in page


def test_texts_that_readers_send_are_not_divided_in_every_way():
  """Where all literals stand in order, only a number can be amiss."""
  for pattern in reason_notes._list_patterns():
    text = "z".join(pattern.literals)
    assert not pattern.match(text[:-1] + "!!" if pattern.literals[-1] else "")
    if any(name in pattern.pattern.groupindex for name in ("number", "last")):
      # With a blank alone between values a text has hundreds of places.
      assert all(literal.strip() for literal in pattern.literals[1:-1])
