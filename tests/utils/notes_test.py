"""Notes: every code in every language, and every message that pages show."""

import ast
import json
import pathlib
import pickle
import re
import string

import pytest

import ctd_jax
import ctd_jax_datasets.common
from ctd_jax.texts.works import Place
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note

FOLDER = pathlib.Path(ctd_jax.__file__).parent
DATA = pathlib.Path(ctd_jax_datasets.common.__file__).parents[1]
PATHS = [*FOLDER.rglob("*.py"), *DATA.rglob("*.py")]
# Modules whose errors a page shows.
MODULES = (
  "chronology/western_dates.py",
  "chronology/dates.py",
  "chronology/mentions.py",
  "chronology/questions.py",
  "chronology/windows.py",
  "dating/chronicle/chronicle_input.py",
  "dating/chronicle/western.py",
  "dating/chronicle/written_dates.py",
  "index/building/source_calendars.py",
  "index/building/sources.py",
  "index/building/model_dating.py",
  "index/building/work_corrections.py",
  "index/correction_checks.py",
  "index/question_*.py",
  "index/corrections.py",
  "texts/files.py",
  "texts/tei.py",
)
# Errors of flags and calls that no page makes.
ELSEWHERE = re.compile(
  r"--(index|reigns|input|add|fixed|hide)=|(text_format|unit|intent|record)\b"
  r"|nothing to correct|cannot be written|no style|corrections of version"
  r"|there is no day|: damaged|only its owner"
)
# Codes that are put together from a group and a value.
GROUPS = (
  "statement",
  "kind",
  "step",
  "unit",
  "xml",
  "note.far",
  "note.left_out",
)
GROUPS += (
  "problem.warning.more",
  "problem.owner",
  "problem.address",
  "calendar",
)


def list_calls(tree, name):
  for node in ast.walk(tree):
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(name):
      yield node


def find_fields(text):
  return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_code_is_in_every_language_with_the_same_values():
  table = notes._load_notes()
  assert len(table) > 200
  for code, texts in table.items():
    assert all(text.strip() for text in texts.values()), code
    fields = [find_fields(text) for text in texts.values()]
    assert fields[0] == fields[1] == fields[2], code
    for language in notes.LANGUAGES[1:]:
      words = re.sub(r"\{.*?\}|--\w+(=\S+)?", "", texts[language])
      assert re.search("[\u3000-\u9fff]", words) or not re.search(
        "[a-z]{4}", words
      ), code


def test_codes_of_modules_are_those_of_the_table():
  table = notes._load_notes()
  used = set()
  for path in PATHS:
    tree = ast.parse(path.read_text())
    for call in list_calls(tree, "Note"):
      code = call.args and getattr(call.args[0], "value", None)
      if isinstance(code, str):
        given = {word.arg for word in call.keywords}
        fields = find_fields(table[code]["en"])
        assert given == fields or None in given, (path, code)
        used.add(code)
    used |= {
      node.value
      for node in ast.walk(tree)
      if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
  unused = {code for code in table.keys() - used if not code.startswith(GROUPS)}
  assert not unused


@pytest.mark.parametrize("pattern", MODULES)
def test_errors_that_a_page_shows_are_notes(pattern):
  paths = sorted(FOLDER.glob(pattern))
  assert paths
  for path in paths:
    for node in ast.walk(ast.parse(path.read_text())):
      if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
        continue
      message = node.exc.args[0]
      if isinstance(message, (ast.Constant, ast.JoinedStr)):
        assert ELSEWHERE.search(ast.unparse(message)), (path, node.lineno)


@pytest.mark.parametrize(
  ("note", "english", "chinese"),
  [
    (
      Note(
        "note.stands.between",
        before=Note("note.far.before", month="魯隱公元年正月", number=1203),
        after="魯隱公二年",
      ),
      "stands between a record of 魯隱公元年正月, 1,203 records before and one "
      "of 魯隱公二年",
      "介於魯隱公元年正月（前 1,203 條）與魯隱公二年的記載之間",
    ),
    (
      Note(
        "note.links",
        texts=[
          Note("note.text", text="大水", date="晉武帝泰始元年七月"),
          Note("note.text", text="大赦", date=Note("problem.text.unsure")),
        ],
        number=12,
      ),
      "shares wording with 「大水」 (晉武帝泰始元年七月), 「大赦」 "
      "(without a certain date) and 12 more",
      "與「大水」（晉武帝泰始元年七月）「大赦」（年月不確定）等用詞相同"
      "（另有 12 條）",
    ),
    (
      Note("problem.at", place=pathlib.Path("a.txt"), problem=KeyError("k")),
      "a.txt: 'k'",
      "a.txt：'k'",
    ),
  ],
)
def test_notes_are_written_kept_and_read_again(note, english, chinese):
  assert str(note) == english
  assert note.write("zh-Hant") == chinese
  assert notes.from_json(json.loads(json.dumps(note.to_json()))) == note
  assert pickle.loads(pickle.dumps(note)) == note
  assert notes.of_error(ValueError(note)) is note
  assert {note: 1}[note] == 1


def test_places_are_texts():
  note = Note("problem.count.one", place=Place("a.txt", 3))
  assert str(note) == "(1 time, first a.txt:3)"


def test_lists_of_notes_have_the_marks_of_their_language():
  note = Note(
    "problem.date.lacking",
    text="元年",
    calendar="lu",
    hint=[Note("problem.date.lacking.years", name=it, last=9) for it in "甲乙"],
  )
  assert str(note).endswith("甲 has the years 1-9; 乙 has the years 1-9")
  assert note.write("zh-Hant").count("；") == 2


def test_values_are_replaced_wherever_they_stand():
  note = Note("problem.file.missing", file="/srv/a/b.txt")
  outer = Note("problem.at", place="/srv/a/c", problem=note)
  assert str(outer.replace("/srv/a/", "")) == "c: " + str(
    Note("problem.file.missing", file="b.txt")
  )


@pytest.mark.parametrize(
  "value",
  [
    {"code": "of another version", "values": {}, "text": "as it was"},
    {"code": "note.far.after", "values": {"number": "x"}, "text": "as it was"},
    {"code": "note.far.after", "values": [1], "text": "as it was"},
    "as it was",
  ],
)
def test_what_is_no_note_of_this_version_is_kept_as_text(value):
  assert notes.from_json(value) == "as it was"


def test_values_of_a_note_are_no_formats():
  note = Note("problem.of_text", text="{0.__class__}", problem="{x}")
  assert str(note) == "'{0.__class__}': {x}"


def test_tables_of_reigns_have_names_for_readers():
  note = Note("problem.date.timeline", calendar="lu_release,tongjian")
  texts = [note.write(language) for language in notes.LANGUAGES]
  for text, name in zip(
    texts, ("ChunQiuTR; Zizhi", "所用）；資治", "所用）；资治"), strict=True
  ):
    assert name in text
  assert "calendar mine" in str(Note("problem.date.timeline", calendar="mine"))
