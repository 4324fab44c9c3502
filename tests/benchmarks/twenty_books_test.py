"""The gold of published books says what they print, and nothing in doubt."""

import numpy as np
import pytest

from tests.benchmarks import book_gold, books, twenty_books

# Months of two years of one era and the first of another, 30 days each.
_FIRST_DAY = 2148400
_ERAS = (("乾道", 6), ("乾道", 7), ("淳熙", 1))


@pytest.fixture
def outside(tmp_path):
  """Returns a folder with a table of months like DILA's."""
  lines = ["dynasty ruler era year month leap first_jdn last_jdn first_day s"]
  day = _FIRST_DAY
  for era, year in _ERAS:
    for month in range(1, 13):
      lines.append(f"南宋 孝宗 {era} {year} {month} 0 {day} {day + 29} 1 S")
      day += 30
  folder = tmp_path / "dila_time"
  folder.mkdir()
  text = "\n".join(line.replace(" ", "\t") for line in lines)
  (folder / "zh.tsv").write_text(text, encoding="utf-8")
  return tmp_path


def read_gold(text, layout, outside, **fields):
  """Returns (what is printed before a date, its day or month) of a book."""
  folder = outside / "books" / "試"
  folder.mkdir(parents=True)
  (folder / "試.txt").write_text(text, encoding="utf-8")
  source = books.Source("owner/試", "0" * 8, "試", "試.txt")
  book = books.Book(
    source, (0, 0), "宋", books.ANNALS, layout, ("南宋",), **fields
  )
  right = book_gold.read_gold(book, outside / "books", outside)
  joined = "".join(right.lines)
  return [
    (joined[truth.position - 3 : truth.position], truth)
    for truth in right.truths
  ]


def test_heads_of_annals_are_carried_forward(outside):
  text = "乾道六年春正月王出二月王還\n七年春正月王出\n淳熙元年三月王崩\n"
  found = read_gold(text, "annals", outside)
  printed = [text for text, _ in found]
  assert printed == ["春正月", "出二月", "春正月", "年三月"]
  years = [truth.year for _, truth in found]
  assert years[0] == years[1] == years[2] - 1 == years[3] - 2


def test_an_era_that_is_promised_heads_nothing(outside):
  text = "乾道七年春正月改明年為淳熙元年二月王還\n"
  years = {truth.year for _, truth in read_gold(text, "annals", outside)}
  assert len(years) == 1


def test_days_of_a_diary_go_forward_and_a_cited_day_is_no_entry(outside):
  text = "乾道六年五月一日行\n二日泊昔六日人來\n三日又泊\n六月一日至\n"
  found = read_gold(text, "numbered_days", outside, first_year=1170)
  days = [truth.day for _, truth in found]
  assert [day - days[0] for day in days] == [0, 1, 2, 30]


def test_collation_and_names_of_editors_are_not_of_the_book(tmp_path):
  path = tmp_path / "試.txt"
  path.write_text(
    "欽定四庫全書¶\n　　宋　某某　撰¶\n元年春王出(注/文)¶\n　試卷一考證¶\n"
    "元年○監本誤¶\n欽定四庫全書¶\n二年春王還¶\n",
    encoding="utf-8",
  )
  lines = [books.read_han(line) for line in books.read_raw_lines(path)]
  assert list(filter(None, lines)) == ["元年春王出", "二年春王還"]


def test_a_line_that_is_not_there_has_no_place_and_the_next_has():
  places = twenty_books.align(
    ["王出于某", "無此行也", "王還"], "序王出于某王還"
  )
  assert np.flatnonzero(places < 0).tolist() == [4, 5, 6, 7]
  assert places[-1] == 6


def test_every_book_names_where_it_is():
  for book in books.BOOKS.values():
    assert book.source.repository.count("/") == 1
    assert book.layout in book_gold._READERS
