"""Messages: all in all languages, all used, with the same values."""

import ast
import dataclasses
import functools
import importlib.resources
import pathlib
import re
import string

import pytest

import ctd_jax.index
import ctd_jax.web
from ctd_jax.dating.chronicle import emissions
from ctd_jax.index import calendars
from ctd_jax.index.answers import record_reasons
from ctd_jax.index.answers.answer import Span
from ctd_jax.index.storage import database
from ctd_jax.web import errors, messages, reason_notes, rendering
from tests.web import source_sentences

FOLDER = pathlib.Path(ctd_jax.web.__file__).parent
INDEX = pathlib.Path(ctd_jax.index.__file__).parent


def list_fields(text):
  return sorted(
    name for _, name, _, _ in string.Formatter().parse(text) if name
  )


def test_every_message_is_in_every_language_with_the_same_values():
  table = messages.load_messages()
  assert len(table) > 100
  for name, texts in table.items():
    assert all(texts[language].strip() for language in messages.LANGUAGES), name
    fields = [list_fields(texts[language]) for language in messages.LANGUAGES]
    assert fields[0] == fields[1] == fields[2], name


def test_tables_have_no_message_twice():
  folder = importlib.resources.files("ctd_jax").joinpath("web/locales")
  lines = [
    line
    for table in ("messages.tsv", "problems.tsv")
    for line in folder.joinpath(table).read_text().splitlines()[1:]
  ]
  names = [line.split("\t")[0] for line in lines]
  assert len(names) == len(set(names))
  assert all(line.count("\t") == 3 for line in lines)


def test_templates_and_modules_use_messages_that_exist():
  table = messages.load_messages()
  used = set()
  for path in FOLDER.glob("templates/*.html"):
    text = path.read_text()
    used |= set(re.findall(r"""\bt\(["']([\w.-]+[\w])["'][,)]""", text))
    assert not re.search(r">[A-Za-z]{4,}[^<{]*<", text.split("{% block")[0])
  for path in FOLDER.rglob("*.py"):
    used |= set(re.findall(r'"(error\.(?!html)[a-z._]+)"', path.read_text()))
  assert len(used) > 60
  assert used <= set(table), used - set(table)
  for status in errors.EXPLAINED:
    assert f"error.title.{status}" in table
    assert f"error.text.{status}" in table


@pytest.mark.parametrize(
  ("requested", "accepted", "expected"),
  [
    ("", "", "en"),
    ("", "zh-TW,zh;q=0.9,en;q=0.8", "zh-Hant"),
    ("", "zh-CN", "zh-Hans"),
    ("", "zh-Hant-HK", "zh-Hant"),
    ("", "fr;q=0.9, en;q=0.5, zh-TW;q=0.7", "zh-Hant"),
    ("", "fr, de;q=x", "en"),
    ("zh-Hans", "en", "zh-Hans"),
  ],
)
def test_language_is_that_asked_for_or_of_the_browser(
  requested, accepted, expected
):
  assert messages.choose_language(requested, accepted) == expected


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_pages_are_in_one_language_and_lead_on_in_it(client, language):
  page = client.get("/", params={"q": "鄭人", "lang": language}).text
  assert f'<html lang="{language}">' in page
  assert 'lang="lzh"' in page
  links = re.findall(r'href="(/record/[^"]+)"', page)
  assert links
  assert all(f"lang={language}" in link for link in links)
  assert messages.translate(language, "results.title") in page


@pytest.mark.parametrize(
  ("note", "expected"),
  [
    (
      "stands between records of 魯隱公元年正月, 1,203 records before, and of "
      "魯隱公二年",
      "列於魯隱公元年正月（前 1,203 條）與魯隱公二年的條目之間",
    ),
    ("prints 甲子, day 3 of the month", "記甲子，為本月第 3 日"),
    (
      "prints 「夏五月」, whose month fits this and 1,203 other months",
      "記「夏五月」，所記月合於本月及其他 1,203 個月",
    ),
    ("the data set gives the date", "資料集所給年月"),
    (
      "shares wording with 「大水」 (晉武帝泰始元年七月), 「大赦」 "
      "(of no sure date) and 12 more",
      "與「大水」（晉武帝泰始元年七月）「大赦」（年月不確定）等用詞相同"
      "（另有 12 條）",
    ),
    ("a sentence that is not known", "a sentence that is not known"),
  ],
)
def test_notes_of_reasons_are_translated(note, expected):
  assert reason_notes.translate_note("zh-Hant", note) == expected
  assert reason_notes.translate_note("en", note) == note


def test_notes_of_an_index_are_known_in_every_language(served):
  for row in range(1, 10):
    for reason in served.index.record(row).reasons:
      note = reason_notes.translate_note("zh-Hans", reason["note"])
      assert not re.search("[a-z]{4,}", note), note


def test_notes_of_places_in_a_work_are_known(served):
  (record,) = database.fetch_records(served.index.connection, [7])

  def make(*places):
    neighbours = [record_reasons.Neighbour(*place) for place in places]
    return record_reasons._describe_order(
      dataclasses.replace(record, row=100), neighbours
    )

  before, after = (3, "魯隱公元年正月"), (104, "魯隱公二年")
  for note in (
    make(before, after),
    make((99, "x"), (101, "x")),
    make(before),
    make(after),
    make(),
  ):
    translated = reason_notes.translate_note("zh-Hans", note)
    assert not re.search("[a-z]{2,}", translated), note


def test_kinds_of_printed_dates_are_known_in_every_language():
  for kind in emissions.LOG_ERROR_ODDS.keys() - {
    *record_reasons.DAY_STATEMENTS
  }:
    name = record_reasons._NAMES_OF_STATEMENTS.get(kind, kind)
    translated = messages.translate_term("zh-Hans", "statement", name)
    assert not re.search("[a-z]", translated), name


def list_note_texts(path):
  """Returns an example of each note that a module of the index makes."""
  notes = []
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Call):
      name = ast.unparse(node.func)
      if name in ("notes.append", "doubts.append"):
        notes.append(node.args[0])
    elif isinstance(node, ast.Assign):
      if ast.unparse(node.targets[0]) == "note":
        notes.append(node.value)
    elif isinstance(node, ast.FunctionDef) and "note" in node.name:
      lists = [it for it in ast.walk(node) if isinstance(it, ast.ListComp)]
      notes += [it.elt for it in lists]
  parts = [
    part
    for node in notes
    for part in (
      (node.body, node.orelse) if isinstance(node, ast.IfExp) else (node,)
    )
  ]
  return [text for text in map(source_sentences.write_example, parts) if text]


def test_notes_of_questions_are_known_in_every_language():
  paths = [INDEX / "asking.py", INDEX / "answers" / "word_copies.py"]
  paths += sorted(INDEX.glob("questions/*.py"))
  notes = [note for path in paths for note in list_note_texts(path)]
  assert len(notes) >= 20
  for note in notes:
    for language in (messages.TRADITIONAL, messages.SIMPLIFIED):
      text = reason_notes.translate_note(language, note)
      assert not re.search("[a-z]{3,}", text), (note, text)


def test_notes_of_a_page_are_in_its_language(client):
  page = client.get("/", params={"q": "二年鄭人", "lang": "zh-Hant"}).text
  notes = re.findall(r'class="note">([^<]+)<', page)
  assert notes
  assert not any(re.search("[a-z]{3,}", note) for note in notes)


def test_what_is_no_month_has_a_name_in_every_language():
  macro = rendering._environment().get_template("_macros.html")
  for language, expected in (("en", "outside of"), ("zh-Hans", "历表之外")):
    parts = macro.make_module(
      {"month_name": functools.partial(rendering._name_month, language)}
    )
    spans = [
      Span(first=4, last=4, name="魯隱公元年五月"),
      Span(first=3000, last=3000, name=calendars.OUTSIDE),
    ]
    text = str(parts.spans(spans, lambda path, *_: path))
    assert 'href="/month/4"' in text
    assert expected in text
    assert "/month/3000" not in text


def test_question_that_cannot_be_read_can_be_changed(client):
  response = client.get("/", params={"q": "明治三年", "lang": "zh-Hant"})
  assert response.status_code == 422
  assert ">明治三年</textarea>" in response.text
  assert '<input type="hidden" name="lang" value="zh-Hant">' in response.text
  assert "<textarea" not in client.get("/nowhere?q=x").text


def test_weights_and_sizes_are_written_alike_in_every_language():
  weights = map(rendering.format_weight, (-0.04, 0.3, -12.34))
  assert [*weights] == ["0.0", "+0.3", "-12.3"]
  sizes = map(rendering.format_size, (184, 12_800, 3 << 20))
  assert [*sizes] == ["184 B", "12.5 KiB", "3.0 MiB"]
