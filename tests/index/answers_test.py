"""Forms of an answer: terminal, JSON, HTML, CSV and TSV."""

import csv
import dataclasses
import html
import io
import json
import pathlib
import re
import sys

import jsonschema
import msgspec
import numpy as np
import pytest
from rich import cells

from ctd_jax.dating.passages.passages import (
  PassageCopy,
  PassageDates,
  PassageReason,
)
from ctd_jax.index import (
  answer_files,
  calendars,
  charts,
  database,
  date_levels,
  record_answers,
)
from ctd_jax.index import answers as answer_lib
from ctd_jax.index.asking import Index

SCHEMA = json.loads(
  (pathlib.Path(answer_lib.__file__).parent / "answer.schema.json").read_text()
)


class FixedDater:
  """A dater whose passages are all of the fifth month of the first year."""

  copies = ()

  def __init__(self, num_months):
    self.characters = {"馬": 30, "马": 1, "於": 9, "于": 5}
    chances = np.full(num_months + 1, 0.2 / (num_months + 1))
    chances[4] += 0.6
    chances[20] += 0.2
    self.log_p = np.log(chances / chances.sum())

  def date(self, text, month=None, exclude=()):
    self.text, self.excluded = text, tuple(exclude)
    prior = -np.log(len(self.log_p) - 1)
    log_odds = np.log(np.exp(self.log_p[4]) / (1 - np.exp(self.log_p[4])))
    gained = float(log_odds - prior)
    return PassageDates(
      log_p=self.log_p,
      month=4,
      prior_log_odds=float(prior),
      reasons=(
        PassageReason(expert="words", weight=gained * 0.25, note="words <b>"),
        PassageReason(
          expert="known", weight=gained * 0.75, note="鄭人", linked=(3, 8)
        ),
      ),
      copies=self.copies,
    )


@pytest.fixture(name="index")
def fixture_index(index_folder):
  index = Index.open(index_folder)
  vars(index)["passage_dater"] = FixedDater(len(index.calendar))
  return index


@pytest.fixture(
  name="answer",
  params=["魯隱公二年", "元年", "日食", "魯莊公元年五月", "passage"],
)
def fixture_answer(request, index):
  if request.param == "passage":
    return index.date("夏，鄭人克段於鄢，<i>莒人</i>來。")
  return index.ask(request.param)


def test_json_is_as_the_schema_says(answer):
  jsonschema.Draft202012Validator.check_schema(SCHEMA)
  content = json.loads(json.dumps(answer.to_dict()))
  jsonschema.validate(content, SCHEMA)
  assert content["schema_version"] == answer_lib.SCHEMA_VERSION
  # A member that the schema does not name is documented nowhere.
  assert set(content) == set(SCHEMA["properties"])


def test_a_notebook_shows_an_answer_and_makes_a_table_of_it(answer):
  frame = answer.to_pandas()
  table = csv.DictReader(io.StringIO(answer_files.format_table(answer, "csv")))
  assert list(frame) == table.fieldnames
  assert len(frame) == len(list(table))
  shown = answer._repr_html_()
  assert shown.startswith("<iframe sandbox srcdoc=")
  assert html.unescape(shown).count("<!DOCTYPE html>") == 1
  assert "<" not in shown.partition('srcdoc="')[2].partition('"')[0]


def test_a_table_needs_pandas(index, monkeypatch):
  monkeypatch.setitem(sys.modules, "pandas", None)
  with pytest.raises(ModuleNotFoundError, match=r"ctd_jax\[pandas\]"):
    index.ask("元年").to_pandas()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(answer, width):
  text = answer_lib.format_answer(answer, width, why=True)
  assert max(map(cells.cell_len, text.splitlines())) <= width
  assert "\x1b" not in text


def test_marked_words_are_seen_in_a_long_text():
  text = "甲" * 300 + "日食" + "乙" * 300
  marked = answer_lib._mark(text, [(300, 302)])
  assert "日食" in marked.plain
  assert marked.plain.startswith("…")
  assert marked.plain.endswith("…")


def test_page_is_complete_and_escaped(answer):
  text = answer_files.format_page(answer)
  assert "<script" not in text
  assert not re.search(r'(?:src|href)="', text)
  assert "<i>莒" not in text
  assert "来<b>&" not in text
  assert answer.versions.index_sha256 in text
  assert answer.asked_at in text
  for record in answer.results:
    assert record.date.month["name"] in text
  assert ("<svg" in text) == (answer.dates is not None)


def test_texts_of_records_are_escaped(index):
  answer = index.ask("莒人使來")
  assert "莒人使來<b>&。␛[31m" in str(answer)
  text = answer_files.format_page(answer)
  assert "&lt;b&gt;&amp;" in text
  assert "<mark>莒人使來</mark>" in text
  assert "\x1b" not in text


@pytest.mark.parametrize("table_format", answer_files.FORMATS)
def test_table_has_a_row_for_each_result(answer, table_format):
  text = answer_files.format_table(answer, table_format)
  delimiter = {"csv": ",", "tsv": "\t"}[table_format]
  rows = list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
  number = len(answer.results)
  if not number:
    number = len(answer.understood.readings)
  if answer.dates:
    number = len(answer.dates.parallels)
  assert len(rows) == number
  if answer.results or answer.is_empty:
    header = text.splitlines()[0].split(delimiter)
    assert header == list(answer_files._RECORD_COLUMNS)
  if rows and not answer.understood.readings:
    assert all(row["title"] and row["citation"] for row in rows)
  for row, record in zip(rows, answer.results, strict=False):
    assert row["record_id"] == record.record_id
    assert None not in row.values()


def test_formulas_are_no_formulas():
  assert answer_files._format_cell("=1+1", "csv") == "'=1+1"
  assert answer_files._format_cell(-1.5, "csv") == "-1.5"
  assert answer_files._format_cell("a\tb\nc", "tsv") == "a b c"


def test_passage_is_answered_with_years_and_parallels(index):
  dates = index.date("夏，鄭人克段於鄢。").dates
  assert dates.month["name"] == "魯隱公元年五月"
  assert dates.years[0].name == "魯隱公元年"
  assert dates.years[0].probability == pytest.approx(0.6, abs=0.01)
  assert [span.first for span in dates.credible_50] == [4]
  assert dates.outside < 0.01
  # The other record is of another year.
  assert [p.row for p in dates.parallels] == [3]
  known = next(r for r in dates.reasons if r["expert"] == "known")
  assert known["linked"] == [3, 8]
  assert str(known["note"]).startswith("shares wording with 「")
  assert "(魯隱公元年五月)" in str(known["note"])
  assert dates.parallels[0].share == pytest.approx(0.75)
  assert str(dates.parallels[0].citation) == str(index.record(3).citation)
  total = sum(reason["weight"] for reason in dates.reasons)
  assert total == pytest.approx(dates.log_odds - dates.prior_log_odds)
  assert sum(chance for _, chance in dates.curve) == pytest.approx(
    1 - dates.outside, abs=1e-6
  )


def test_passage_is_told_where_its_words_stand(index):
  index.passage_dater.copies = (
    PassageCopy(row=2, is_exact=True, share=1.0),
    PassageCopy(row=5, is_exact=True, share=0.75),
    PassageCopy(row=6, is_exact=False, share=0.75),
  )
  answer = index.date("公及邾人盟於某")
  first, second, third, *others = answer.dates.parallels
  assert (first.row, first.is_exact, first.expert) == (2, True, "copies")
  assert [(it.row, it.copied) for it in (second, third)] == [
    (5, 0.75),
    (6, 0.75),
  ]
  # No reason of weight has the near copy.
  assert third.weight == 0
  assert not any(it.copied for it in others)
  lines = str(answer).splitlines()
  assert lines[0].startswith("stands word for word in Annals, 魯隱公")
  assert lines[1].startswith("stands word for word, without its date, in Ann")
  assert lines[2].startswith("75% of it stands in Annals, 魯")
  assert lines[3].startswith("date  no time is sure enough")
  # Where the date is sure, a near copy of another time is a formula.
  for sure, number in ((third.date.sure, 0), (first.date.sure, 1)):
    dates = dataclasses.replace(answer.dates, sure=sure)
    copies, formulas = answer_lib.split_copies(dates)
    assert [it.row for it in formulas] == [6] * number
    assert len(copies) == 3 - number


def test_passages_are_read_in_the_script_of_the_texts(index):
  index.date("马超于某")
  assert index.passage_dater.text == "馬超于某"


def test_time_is_named_no_finer_than_it_is_sure(index):
  months = index.calendar.months
  years = index.calendar.years
  first = np.flatnonzero(years == years[0])
  summer = first[(months[first] > 3) & (months[first] < 7)]
  cases = (
    (date_levels.MONTH, [summer[1]], "魯隱公元年五月"),
    (date_levels.SEASON, summer, "魯隱公元年夏"),
    (date_levels.YEAR, first, "魯隱公元年"),
    (date_levels.INTERVAL, range(12, 36), "魯隱公二年 – 魯隱公三年"),
    (date_levels.OUTSIDE, [len(months)], calendars.OUTSIDE),
    (date_levels.NONE, range(len(months)), ""),
  )
  for level, spread, name in cases:
    chances = np.zeros(len(months) + 1)
    chances[[*spread]] = 1 / len(spread)
    sure = date_levels.find_sure_date(index.calendar, chances)
    assert (sure.level, sure.name) == (level, name)
    if level != date_levels.NONE:
      assert sure.probability == pytest.approx(1)
      assert (sure.first, sure.last) == (spread[0], spread[-1])


def test_record_dated_by_the_model_is_read_again_without_itself(index):
  record = database.fetch_records(index.connection, [7])[0]
  record = dataclasses.replace(record, dated_by=database.MODEL)
  manifest = msgspec.structs.replace(index.manifest, passages="passages")
  vars(index)["manifest"] = manifest
  reasons = record_answers.find_reasons(index, record, why=True)
  experts = {reason["expert"] for reason in reasons}
  assert experts == {"known", "words", "corpus"}
  assert index.passage_dater.excluded == (7,)
  total = sum(reason["weight"] for reason in reasons)
  prior = -np.log(len(index.calendar))
  assert total == pytest.approx(np.log(0.6 / 0.4) - prior, abs=0.05)
  quick = record_answers.find_reasons(index, record)
  assert [reason["expert"] for reason in quick] == ["model"]


def test_spans_name_a_year_once_and_many_are_counted():
  def span(first, last, name):
    return answer_lib.Span(first=first, last=last, name=name)

  few = [
    span(1, 1, "晉泰始二年三月"),
    span(4, 6, "晉泰始二年六月 – 晉泰始二年八月"),
    span(9, 9, "晉泰始三年正月"),
  ]
  text = answer_lib.format_spans(few)
  assert text == "晉泰始二年三月, 六月 – 八月, 晉泰始三年正月"
  outside = span(50, 50, calendars.OUTSIDE)
  text = answer_lib.format_spans([*few, few[0], outside])
  assert text.startswith("6 months, 晉泰始二年三月 … 晉泰始二年三月, or out")
  assert answer_lib.format_spans([outside]) == calendars.OUTSIDE


def test_reasons_without_weight_are_named_in_one_line():
  reasons = [
    {"expert": "known", "weight": 2.04, "note": "甲"},
    {"expert": "days", "weight": -0.04, "note": "乙"},
    {"expert": "cited", "weight": 0.0, "note": "丙"},
  ]
  lines = [
    "+2.0 parallels with a date: 甲",
    " 0.0 of no weight: day, citations",
  ]
  assert answer_lib.format_reasons(reasons, None) == lines
  assert answer_lib.format_reasons(reasons, 1) == lines[:1]
  assert answer_lib.format_reasons(reasons[1:], 1) == lines[1:]


def test_record_that_may_be_of_any_month_is_not_given_one(index):
  record = index.ask("莒人使來").results[0]
  spans = (answer_lib.Span(first=0, last=99, name="甲年 – 乙年"),)
  sure = dataclasses.replace(record.date.sure, level="none", name="")
  date = dataclasses.replace(
    record.date, probability=0.01, credible_90=spans, sure=sure
  )
  first, second = answer_lib._describe_date(date).plain.split("\n")
  assert first == "甲年 – 乙年"
  assert second.startswith("likeliest")


def test_figure_shows_where_the_probability_is():
  curve = [(year, 0.0) for year in range(-700, -400)]
  curve[100] = (-600, 1.0)
  figure = charts.draw_years(curve, "years", "{:.3f}".format)
  assert "601 BCE: 1.000" in figure
  assert figure.count('"column"') == 7  # the year and three on each side
  curve = [(year, 1 / 2000) for year in range(2000)]
  flat = charts.draw_years(curve, "years", str)
  assert 100 < flat.count('"column"') <= 160
