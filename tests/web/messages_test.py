"""Messages: all in all languages, all used, with the same values."""

import ast
import functools
import pathlib
import re
import string

import pytest

import ctd_jax
import ctd_jax.web
from ctd_jax.dating.chronicle import emissions
from ctd_jax.index import calendars, record_answers
from ctd_jax.index.answers import Span
from ctd_jax.utils import notes
from ctd_jax.web import job_files, rendering

FOLDER = pathlib.Path(ctd_jax.web.__file__).parent
PACKAGE = pathlib.Path(ctd_jax.__file__).parent


def list_fields(text):
  return sorted(name for _, name, *_ in string.Formatter().parse(text) if name)


def test_every_message_is_in_every_language_with_the_same_values():
  table = rendering.load_messages()
  assert len(table) > 100
  for name, texts in table.items():
    assert all(texts[language].strip() for language in notes.LANGUAGES), name
    fields = [list_fields(texts[language]) for language in notes.LANGUAGES]
    assert fields[0] == fields[1] == fields[2], name


def test_tables_have_no_code_twice():
  for path in (FOLDER / "messages.tsv", PACKAGE / "utils" / "notes.tsv"):
    lines = path.read_text().splitlines()
    codes = [line.split("\t")[0] for line in lines]
    assert len(codes) == len(set(codes))
    assert all(line.count("\t") == 3 for line in lines)


def test_templates_and_modules_use_messages_that_exist():
  table = rendering.load_messages()
  used = set()
  for path in FOLDER.glob("templates/*.html"):
    text = path.read_text()
    used |= set(re.findall(r"""\bt\(["']([\w.-]+[\w])["'][,)]""", text))
    assert not re.search(r">[A-Za-z]{4,}[^<{]*<", text.split("{% block")[0])
  for path in FOLDER.rglob("*.py"):
    used |= set(re.findall(r'"(error\.(?!html)[a-z._]+)"', path.read_text()))
  assert len(used) > 60
  assert used <= set(table), used - set(table)
  for status in rendering.EXPLAINED:
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
  assert rendering.choose_language(requested, accepted) == expected


@pytest.mark.parametrize("language", notes.LANGUAGES)
def test_pages_are_in_one_language_and_lead_on_in_it(client, language):
  page = client.get("/", params={"q": "鄭人", "lang": language}).text
  assert f'<html lang="{language}">' in page
  assert 'lang="lzh"' in page
  links = re.findall(r'href="(/record/[^"]+)"', page)
  assert links
  assert all(f"lang={language}" in link for link in links)
  assert rendering.translate(language, "results.title") in page


def test_kinds_of_printed_dates_are_known_in_every_language():
  kinds = emissions.LOG_ERROR_ODDS.keys() - {*record_answers.DAY_STATEMENTS}
  for kind in kinds:
    name = record_answers._NAMES_OF_STATEMENTS.get(kind, kind)
    assert isinstance(notes.of_term("statement", name), notes.Note), name


def test_texts_of_other_programs_are_marked_as_english():
  assert 'lang="en"' in rendering.write_note("zh-Hant", "not known")
  assert "lang" not in rendering.write_note("en", "not known")
  note = notes.Note("problem.correction.work", name="<b>", names="x")
  assert "&lt;b&gt;" in rendering.write_note("zh-Hant", note)
  written = rendering.write_note("en", note)
  assert rendering.write_note("en", note.to_json()) == written


@pytest.mark.parametrize(
  ("language", "written"),
  [
    ("en", "era; try “Calendar of the index”: CE"),
    ("zh-Hant", "條目以西曆年開頭，可試「索引的曆表」（CE）"),
  ],
)
def test_a_flag_is_a_field_on_the_pages_but_not_in_a_command(language, written):
  note = notes.Note("problem.warning.common_era")
  assert rendering.write_note(language, note).endswith(written)
  command = "ctd-jax index --index=NEW --reigns=宋"
  assert rendering.write_note("en", command) == command


def test_steps_of_builds_are_known_and_read():
  steps = ["words", "左傳: writing"]
  for path in [*PACKAGE.glob("dating/**/*.py"), *PACKAGE.glob("index/**/*.py")]:
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Call) and re.search(
        "[pP]rogress(_bar)?$", ast.unparse(node.func)
      ):
        described = [
          *node.args[1:2],
          *(it.value for it in node.keywords if it.arg == "desc"),
        ]
        steps += [it.value for it in described if isinstance(it, ast.Constant)]
  assert len(steps) >= 9
  for step in steps[1:]:
    progress = job_files.find_progress((f"{step}: 3 of 12 blocks (25%)",))
    assert progress.step == step
    text = notes.write(job_files.describe_step(step), "zh-Hans")
    assert not re.search("[A-Za-z]{3,}", text), step


@pytest.mark.parametrize(
  ("path", "parameters", "words"),
  [
    ("/correct", {"date": "no date"}, "不是曆表"),
    ("/correct", {"date": "魯隱公九十年"}, "曆表"),
    ("/", {"q": "明治三年"}, "曆表"),
    ("/month/x", {}, "應為整數"),
  ],
)
def test_page_says_in_its_language_what_is_wrong(
  client, path, parameters, words
):
  record = {"work": "notes", "first": "notes-0"} if path == "/correct" else {}
  page = client.get(path, params=record | parameters | {"lang": "zh-Hant"}).text
  assert words in page
  assert not re.search("expected|not a reign|has no such", page)


def test_notes_of_a_page_are_in_its_language(client):
  page = client.get("/", params={"q": "二年鄭人", "lang": "zh-Hant"}).text
  notes = re.findall(r'class="note">([^<]+)<', page)
  assert notes
  assert not any(re.search("[a-z]{3,}", note) for note in notes)


def test_what_is_no_month_has_a_name_in_every_language():
  macro = rendering._environment().get_template("_macros.html")
  for language, expected in (("en", "outside of"), ("zh-Hans", "历表之外")):
    name_month = functools.partial(rendering._name_month, language)
    parts = macro.make_module({"month_name": name_month})
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


def test_percents_and_sizes_are_written_alike_in_every_language():
  percents = map(rendering.format_percent, (0, 0.001, 0.3, 0.996, 1))
  assert [*percents] == ["0 %", "< 1 %", "30 %", "> 99 %", "100 %"]
  sizes = map(rendering.format_size, (184, 12_800, 3 << 20))
  assert [*sizes] == ["184 B", "12.5 KiB", "3.0 MiB"]
