"""Questions and words as people write them."""

import json
import sqlite3
import unicodedata

import numpy as np
import pytest

import ctd_jax
from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import written_dates
from ctd_jax.index import database, index_check
from ctd_jax.index.question_calendar import WORDS, QuestionError
from ctd_jax.index.question_reading import QuestionReader
from ctd_jax.texts import works
from tests.index import corpora
from tests.tools import processes

LU = calendar_lib.make_calendar(reigns.load_timeline("lu_release"))
CHINA = calendar_lib.load_calendar("zh")
LU_READER, CHINA_READER = QuestionReader(LU), QuestionReader(CHINA)
JAPAN_READER = QuestionReader(calendar_lib.load_calendar("ja"))


def find_months(reader, text):
  return [tuple(span[:2]) for span in reader.read(text).intervals]


@pytest.mark.parametrize(
  ("text", "same"),
  [
    ("西暦1587年", "1587 CE"),
    ("紀元1587年", "1587 CE"),
    ("西紀1069年", "1069 CE"),
    ("西暦一〇六九年", "1069 CE"),
    ("1587 年 2 月", "萬曆十五年二月"),
    ("１５８７年２月", "萬曆十五年二月"),
    ("萬曆 十五 年 二 月", "萬曆十五年二月"),
    ("萬曆　十六年　閏 六 月", "萬曆十六年閏六月"),
    ("萬\u200b曆十五年二月", "萬曆十五年二月"),
    ("萬曆十五\u00ad年二月", "萬曆十五年二月"),
    ("627", "627 CE"),
    ("1580s", "1580年代"),
    ("1580's", "1580年代"),
    ("公元1580年代", "1580年代"),
    ("纪元前221年", "221 BCE"),
    ("光緒二四年八月", "光緒二十四年八月"),
    ("萬曆一五年二月", "萬曆十五年二月"),
    ("一五八七年二月", "萬曆十五年二月"),
    ("康熙六十一年壬寅", "康熙六十一年"),
    ("萬曆丁亥", "萬曆十五年"),
    ("光緒戊戌", "光緒二十四年"),
    ("乾隆甲午年", "乾隆三十九年"),
    ("萬曆丁亥三月", "萬曆十五年三月"),
    ("永樂元年秋天", "永樂元年秋"),
  ],
)
def test_forms_of_a_time_mean_the_same(text, same):
  expected = find_months(CHINA_READER, same)
  assert expected
  assert find_months(CHINA_READER, text) == expected


@pytest.mark.parametrize(
  ("text", "same"),
  [
    ("天保捌年", "1837 CE"),
    ("天保八年丁酉", "1837 CE"),
    ("天保丁酉", "1837 CE"),
    ("嘉永 六 年", "1853 CE"),
    ("西暦1831年", "1831 CE"),
  ],
)
def test_japanese_times(text, same):
  assert find_months(JAPAN_READER, text) == find_months(JAPAN_READER, same)


def test_an_era_of_another_calendar_is_named():
  with pytest.raises(QuestionError):
    JAPAN_READER.read("萬曆 十五 年 二 月")
  question = JAPAN_READER.read("萬曆丁亥")
  assert not question.intervals
  assert "problem.question.reign" in [note.code for note in question.notes]
  assert not CHINA_READER.read("王彌丁亥").notes


@pytest.mark.parametrize(
  "text",
  ["秋天有什麼事", "秋季有什麼事", "春天有何記事", "隱公三年冬天有什麼事"],
)
def test_the_word_of_a_season_is_no_word(text):
  question = LU_READER.read(text)
  assert question.intervals
  assert not question.words


@pytest.mark.parametrize(
  ("text", "word"), [("秋天王使宰咺來", "天王"), ("冬季孫行父如晉", "季孫")]
)
def test_a_name_after_a_season_stays_a_word(text, word):
  assert any(word in found for found in LU_READER.read(text, WORDS).words)


@pytest.mark.parametrize(
  ("reader", "text", "before"),
  [
    (CHINA_READER, "景雲元年", "景龍四年正月至六月"),
    (CHINA_READER, "晉永熙元年", "太熙元年正月至三月"),
    (JAPAN_READER, "天保元年", "文政十三年正月至十一月"),
    (JAPAN_READER, "嘉永元年", "弘化五年正月"),
  ],
)
def test_months_before_an_era_come_last(reader, text, before):
  question = reader.read(text)
  assert [tuple(span) for span in question.late_spans] == find_months(
    reader, before
  )
  assert "note.question.before_era" in [note.code for note in question.notes]


@pytest.mark.parametrize(
  "text", ["景雲二年", "景雲元年八月", "710 CE", "洪武元年", "隱公元年"]
)
def test_no_months_come_last_of_other_times(text):
  reader = LU_READER if "公" in text else CHINA_READER
  assert not reader.read(text).late_spans


def test_a_blank_parts_words_from_dates():
  question = CHINA_READER.read("王彌 永嘉 五年")
  assert question.words == ("王彌",)
  assert find_months(CHINA_READER, "永嘉五年 王彌") == [
    tuple(span[:2]) for span in question.intervals
  ]
  plain = LU_READER.read("齊人 隱公三年")
  assert plain.words == ("齊人",)
  assert LU_READER.read("孔子 五年").words == ("孔子",)


def test_decades_are_ten_years():
  ((first, last),) = find_months(CHINA_READER, "1580s")
  assert {*CHINA.years[first : last + 1]} == {*range(1580, 1590)}
  ((first, last),) = find_months(LU_READER, "680s BCE")
  assert {*LU.years[first : last + 1]} == {*range(-688, -678)}


@pytest.mark.parametrize(
  "text",
  [
    *("1830-12-25", "1831-01", "1582-10-15", "西暦1587年", "紀元1587年"),
    *("1587 年 2 月", "萬曆 十五 年 二 月", "萬曆丁亥"),
  ],
)
def test_questions_mean_what_corrections_mean(text):
  months = np.flatnonzero(written_dates.find_months(text, CHINA))
  expected = [(months[0], months[-1])]
  assert find_months(CHINA_READER, text) == expected


def test_years_before_the_common_era():
  assert find_months(LU_READER, "-0684") == find_months(LU_READER, "685 BCE")
  assert find_months(LU_READER, "685") == find_months(LU_READER, "685 BCE")
  assert find_months(LU_READER, "-0684-05")
  months = np.flatnonzero(written_dates.find_months("685 BCE", LU))
  assert [(months[0], months[-1])] == find_months(LU_READER, "685 BCE")


def test_a_number_outside_the_calendar_is_a_word():
  # The released calendar lacks 627 BCE.
  assert LU_READER.read("627").words == ("627",)


@pytest.mark.parametrize(
  "text", ["夏，公伐齊，納糾", "秋，大水，饑", "冬，公會齊侯，盟于柯"]
)
def test_a_season_alone_is_no_time_of_words(text):
  question = LU_READER.read(text, WORDS)
  assert not question.intervals
  assert question.words


@pytest.mark.parametrize(
  ("word", "text", "printed"),
  [
    ("세종", unicodedata.normalize("NFD", "왕 세종 대왕"), None),
    ("がく", "あか\u3099くや", "か\u3099く"),
    ("ABC123", "前ＡＢＣ１２３後", "ＡＢＣ１２３"),
    ("人子", "為⼈⼦者", "⼈⼦"),
    ("Köln", "in Ko\u0308ln am", "Ko\u0308ln"),
    ("chronicle", "a chro\u00adnicle of", "chro\u00adnicle"),
    ("세종", "왕 세종이 말하기를", "세종"),
    ("세종", unicodedata.normalize("NFD", "세종은 말하였다"), None),
    ("Koln", "in Ko\u0308ln am", "Ko\u0308ln"),
    ("koln", "in KÖLN am", "KÖLN"),
    ("Übergang", "der Ubergang", "Ubergang"),
    ("伐齊", "公伐\u200b齊納", "伐\u200b齊"),
  ],
)
def test_words_are_found_in_every_encoding(word, text, printed):
  connection = sqlite3.connect(":memory:")
  connection.execute(
    "CREATE VIRTUAL TABLE full_text USING fts5("
    f"words, tokenize='{database.TOKENIZER}')"
  )
  connection.execute(
    "INSERT INTO full_text VALUES (?)", [database.split_tokens(text)]
  )
  (is_found,) = connection.execute(
    "SELECT count(*) FROM full_text WHERE full_text MATCH ?",
    [database.make_match([word])],
  ).fetchone()
  assert is_found
  ((start, end),) = database.find_spans([word], text)
  printed = printed or unicodedata.normalize("NFD", word)
  assert text[start:end] == printed


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_titles_are_read_in_every_encoding(form):
  work = unicodedata.normalize(form, "三国史記ガ")
  reader = QuestionReader(LU, works=(work,))
  for asked in ("NFC", "NFD"):
    title = unicodedata.normalize(asked, "三国史記ガ")
    assert reader.read(f"《{title}》隱公元年").works == (work,)


def test_korean_keeps_its_spaces():
  assert works.normalize_space("왕  세종\n대왕") == "왕 세종 대왕"
  assert works.normalize_space("왕 世宗　大王") == "왕世宗大王"


@pytest.mark.slow
def test_index_answers_on_the_command_line_as_in_python(tmp_path):
  text = (
    "景龍四年正月丙寅，上微行。\n\n六月壬午，帝崩。\n\n景雲元年七月己巳，大赦。"
    "\n\n八月，作亂。\n\n萬曆十五年二月，왕 세종，河決。\n"
  )
  source = tmp_path / "book.txt"
  source.write_text(unicodedata.normalize("NFD", text), encoding="utf-8")
  folder = tmp_path / "book.index"
  corpora.build_index(folder, source, reigns="zh")
  assert not index_check.check_index(folder)
  index = ctd_jax.Index.open(folder)
  for question, first in (
    ("景雲元年", ("景雲元年", "八月", "景龍四年", "六月")),
    ("萬曆丁亥", ("萬曆",)),
    ("1580s", ("萬曆",)),
    ("세종", ("萬曆",)),
    ("-0200", ()),
  ):
    texts = [record.text for record in index.ask(question).results]
    assert [*map(str.startswith, texts, first)] == [True] * len(first)
    assert len(texts) == len(first)
    command = ("ask", f"--index={folder}", "--json", question)
    result = processes.run_python("-m", "ctd_jax.ask", *command[1:])
    answer = json.loads(result.stdout)
    assert [record["text"] for record in answer["results"]] == texts
