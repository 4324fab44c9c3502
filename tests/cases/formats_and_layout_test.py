"""Cases of formats and layout: nothing lost, editors' dates, tables, TEI."""

import datetime
import sys

import openpyxl
import pytest

from ctd_jax import texts
from ctd_jax.chronology.western_dates import find_western_dates
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dating_warnings,
  emissions,
)
from ctd_jax.dating.chronicle.calendar import load_calendar
from ctd_jax.index.building import sources

_HEAD = "# -*- mode: mandoku-view; -*-\n#+TITLE: 試\n#+PROPERTY: ID KR9z0009\n"
_TEI = (
  '<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body>{}</body></text></TEI>'
)


def read(tmp_path, text, name="a.txt", **options):
  path = tmp_path / name
  path.parent.mkdir(exist_ok=True)
  path.write_text(text, encoding="utf-8")
  return texts.read_works(path, **options)[0]


def read_statements(tmp_path, text, reigns, name="a.txt"):
  records = chronicle_input.list_records(read(tmp_path, text, name))
  calendar = chronicle_input.load_reigns(reigns, records)
  return [
    set(section.statements)
    for section in chronicle_dating.read_all_sections(records, calendar)
  ]


def print_lines(*lines):
  return _HEAD + "".join(f"{line}¶\n" for line in lines)


@pytest.mark.parametrize("indent", ["　", "　　", "　　　"])
@pytest.mark.parametrize(
  ("first", "second"),
  [
    (
      "永樂元年春正月朔御殿受朝賀宴羣臣及",
      "屬國使又享太廟大祀天地於南郊復周王",
    ),
    (
      "上以北平為北京命諸將鎮遼東又以宋某",
      "為將軍鎮甘肅設留守行後軍都督府行部",
    ),
  ],
)
def test_an_indented_first_line_opens_a_paragraph(
  tmp_path, indent, first, second
):
  work = read(
    tmp_path,
    print_lines("　　成祖二", "", indent + first, second, second, "止"),
  )
  assert work.records[0].text.startswith(first + second)
  assert work.records[0].indent == 0
  assert [e.text for e in work.entries if e.is_heading] == ["成祖二"]
  assert work.characters["dropped"] == 0


def test_an_indented_entry_of_one_line_is_text(tmp_path):
  line = "屬國使又享太廟大祀天地於南郊復周王"
  work = read(
    tmp_path,
    print_lines(f"　　元年{line}", line, "止", "　　四年春正月王不視朝"),
  )
  assert work.records[-1].text == "四年春正月王不視朝"


@pytest.mark.parametrize(
  ("end", "start"),
  [("二十", "一年正月"), ("廿", "三年春二月"), ("三", "十年正月")],
)
@pytest.mark.parametrize(("others", "wider"), [(0, 0), (3, 1), (3, 4)])
def test_a_numeral_over_a_page_break_is_one(
  tmp_path, end, start, others, wider
):
  folder = tmp_path / "KR9z0009"
  width = 20
  line = "王立為皇太子大赦天下帝居諒闇委政宰輔遣使".ljust(width, "某")[:width]
  text = print_lines(line, line[: width - len(end)] + end).replace(
    "#+TITLE", "#+PROPERTY: JUAN 1\n#+TITLE"
  )
  text += "<pb:KR9z0009_WYG_001-1b>¶\n" + f"{start}立為皇太子¶\n"
  for number in range(others):
    opening = f"{'二三四'[number]}年春正月大赦"
    read(
      folder,
      print_lines(*([opening, line + "某" * wider] * 12)),
      f"KR9z0009_{number + 2:03}.txt",
    )
  read(folder, text, "KR9z0009_001.txt")
  work = texts.read_works(folder)[0]
  assert any(end + start in record.text for record in work.records)


def test_lines_join_whatever_the_width_of_other_files(tmp_path):
  narrow = ["".ljust(18, "王"), "".ljust(18, "侯"), "止"]
  for number, width in enumerate((18, 24, 24), start=1):
    lines = narrow if width == 18 else ["某" * width] * 40
    read(tmp_path / "KR9z0009", print_lines(*lines), f"KR9z0009_00{number}.txt")
  work = texts.read_works(tmp_path / "KR9z0009")[0]
  assert work.records[0].text == "".join(narrow)


def test_a_file_of_verses_stays_lines(tmp_path):
  verses = ["王侯將相寧有種乎", "天下大勢分久必合"] * 6
  for number, lines in enumerate((["某" * 20] * 9, verses), start=1):
    read(tmp_path / "KR9z0009", print_lines(*lines), f"KR9z0009_00{number}.txt")
  work = texts.read_works(tmp_path / "KR9z0009")[0]
  assert [record.text for record in work.records][1:] == verses


@pytest.mark.parametrize(
  ("text", "year", "cycle"),
  [
    ("【己巳，公元969年】二年，闰五月，封长子为王。", 969, 5),
    ("（公元九七〇年）春二月，置官。", 970, None),
    ("〔庚午〕三年，改元。", None, 6),
    ("[公元971年，辛未]置官。", 971, 7),
  ],
)
def test_years_in_brackets_are_years(tmp_path, text, year, cycle):
  (statements, *_) = read_statements(tmp_path, text, "宋")
  if year:
    assert ("common year", year) in statements
  if cycle is not None:
    assert ("cycle", cycle, True) in statements
  assert not {name for name, *_ in statements} & {"day", "first day"}


@pytest.mark.parametrize("text", ["（3）二年，改元。", "（王某）二年，改元。"])
def test_other_brackets_are_no_years(tmp_path, text):
  for statements in read_statements(tmp_path, text, "宋"):
    assert not {n for n, *_ in statements} & {"common year", "cycle"}


def test_years_in_brackets_make_a_western_calendar(tmp_path):
  text = "【己巳，公元969年】封王。\n【庚午，公元970年】改元。"
  first, second = read_statements(tmp_path, text, "CE")
  assert ("year", "CE", 969) in first
  assert ("year", "CE", 970) in second


@pytest.mark.parametrize("note", ["(庚/戌)", "(庚戌)", "(庚戌年)"])
def test_a_cyclic_year_in_small_type_is_evidence(tmp_path, note):
  text = print_lines(f"{note}二年正月改元", "", "(音/某)三年春王出(庚/辰)")
  statements, *_ = read_statements(tmp_path, text, "宋")
  assert ("cycle", 46, True) in statements
  work = read(tmp_path, text)
  notes = [note.text for entry in work.entries for note in entry.notes]
  assert notes == ["音某", "庚辰"]
  assert work.characters["dropped"] == 0


@pytest.mark.parametrize(
  ("markup", "date", "expected"),
  [
    (
      '<date when="1069-05-03"/>',
      "1069-05-03",
      {("common days", (2111627, 2111627, 6))},
    ),
    (
      '<date notBefore="1070-01-01" notAfter="1070-12-31"/>',
      "1070",
      {("common year", 1070)},
    ),
    (
      '<date notBefore="1070-05-01" notAfter="1070-05-31">某</date>',
      "1070-05",
      {("common days", (2111990, 2112020, 6))},
    ),
    ('<date notBefore="1070" notAfter="1080"/>', None, set()),
    ('<date when-iso="1070"/>', None, set()),
  ],
)
def test_dates_of_markup_are_evidence(tmp_path, markup, date, expected):
  text = _TEI.format(f"<p>{markup}王出</p>")
  (entry,) = read(tmp_path, text, "a.xml").entries
  dates = [note.text for note in entry.notes if note.kind == "date"]
  assert dates == ([date] if date else [])
  (statements,) = read_statements(tmp_path, text, "宋", "a.xml")
  assert statements == expected


@pytest.mark.parametrize(
  ("date", "months"),
  [
    ("1602-03-02", {(1602, 2)}),
    ("1602/3/2", {(1602, 2)}),
    ("2 March 1602", {(1602, 2)}),
    ("1602-02", {(1602, 1), (1602, 2)}),
    ("February 1602", {(1602, 1), (1602, 2)}),
    # Gregorian by ISO or Julian; the Julian one in words.
    ("1074-03-02", {(1074, 1), (1074, 2)}),
    ("2 March 1074", {(1074, 2)}),
    ("1074", {(1074, month) for month in range(1, 13)}),
    ("unknown", None),
    ("1074-02-30", None),
  ],
)
def test_a_column_has_western_dates(tmp_path, date, months):
  path = tmp_path / "a.csv"
  path.write_text(f"date,text\n{date},月食\n", encoding="utf-8")
  (work,) = texts.read_works(path)
  calendar = load_calendar("明" if "160" in date else "宋")
  sections = chronicle_dating.read_all_sections(work.records, calendar)
  warnings = dating_warnings.list_unread_dates(sections, work.records)
  assert [date in str(note) for note in warnings] == [True] * (months is None)
  if months is not None:
    (statement,) = sections[0].statements
    score = emissions.score_statement(statement, calendar)[:-1]
    likely = score > score.max() - 5
    years, numbers = calendar.years[likely], calendar.months[likely]
    assert {*zip(years.tolist(), numbers.tolist(), strict=True)} == months


def test_margin_dates_hyphens_and_long_s_of_early_print(tmp_path):
  text = _TEI.format(
    '<p><note place="margin">Anno 1558.</note>On the firſt of May the '
    'ca<g ref="char:EOLhyphen"/>stle was ta-\nken.</p>'
    '<p><note place="margin">see Stow</note>A well-\nKnown man.</p>'
  )
  first, second = read(tmp_path, text, "a.xml").entries
  assert first.text == "On the firſt of May the castle was taken."
  assert second.text == "A well- Known man."
  assert [note.kind for note in second.notes] == ["note"]
  statements, _ = read_statements(tmp_path, text, "CE:1550-1560", "a.xml")
  assert {("year", "CE", 1558), ("month", 5), ("month day", 1)} <= statements


@pytest.mark.parametrize(
  ("text", "name", "options"),
  [
    ("id,date,text\n7,貞觀二年,月食\n", "a.csv", {}),
    ("Text\tID\tDate\n月食\t7\t貞觀二年\n", "a.tsv", {}),
    ('id;text;date;by\n7;"月\n食";貞觀二年;某\n', "a.csv", {}),
    (
      "編號,條文,年\n7,月食,貞觀二年\n",
      "a.csv",
      {"columns": "text=條文,date=年,id=編號"},
    ),
  ],
)
def test_a_row_of_a_table_is_a_record(tmp_path, text, name, options):
  (record,) = read(tmp_path, text, name, **options).records
  assert (record.text, record.label) == ("貞觀二年　月食", "7")
  assert record.place.line == 2


def test_the_first_of_two_columns_of_one_name_counts(tmp_path):
  path = tmp_path / "table.csv"
  path.write_text("text,text,date\n雨,旱,貞觀元年\n", encoding="utf-8")
  (work,) = texts.read_works(path)
  assert work.entries[0].text == "貞觀元年　雨"


@pytest.mark.parametrize(
  ("text", "name", "options", "named"),
  [
    ("a,b\n1,2\n", "a.csv", {}, "a, b"),
    ("text,b\n1,2\n", "a.csv", {"columns": "date=c"}, "text, b"),
    ("text,b\n1,2,3\n", "a.csv", {}, "a.csv:2"),
    ("PK", "a.xlsx", {}, "CSV"),
    ("PK", "a.xls", {}, "CSV"),
  ],
)
def test_wrong_tables_are_named(tmp_path, text, name, options, named):
  with pytest.raises(texts.TextError, match=named):
    read(tmp_path, text, name, **options)


def write_workbook(path, rows):
  book = openpyxl.Workbook()
  for row in rows:
    book.active.append(row)
  book.save(path)


@pytest.mark.parametrize(
  ("columns", "options"),
  [
    (("id", "date", "by", "text"), {}),
    (("編號", "年", "by", "條文"), {"columns": "text=條文,date=年,id=編號"}),
  ],
)
def test_a_workbook_is_a_table(tmp_path, columns, options):
  row = (7.0, "貞觀二年", None, "月食，\n犯心")
  write_workbook(tmp_path / "a.xlsx", [columns, row, row])
  (work,) = texts.read_works(tmp_path / "a.xlsx", **options)
  assert [(it.text, it.label) for it in work.records] == [
    ("貞觀二年　月食，犯心", "7")
  ] * 2
  assert [it.place.line for it in work.records] == [2, 3]
  assert work.counts["columns not read"] == 1
  assert not work.characters["dropped"]


def test_days_of_a_workbook_are_iso_dates(tmp_path):
  row = (datetime.datetime(1937, 7, 7), "月食")
  write_workbook(tmp_path / "a.xlsx", [("date", "text"), row])
  (work,) = texts.read_works(tmp_path / "a.xlsx")
  assert work.records[0].text == "1937-07-07. 月食"


def test_a_workbook_without_the_package_says_how(tmp_path, monkeypatch):
  write_workbook(tmp_path / "a.xlsx", [("text",), ("月食",)])
  monkeypatch.setitem(sys.modules, "openpyxl", None)
  with pytest.raises(texts.TextError, match=r"ctd_jax\[xlsx\]"):
    texts.read_works(tmp_path / "a.xlsx")


def test_tables_of_a_folder_are_works(tmp_path):
  write_workbook(tmp_path / "a.xlsx", [("text",), ("月食",)])
  for name, content in {
    "b.csv": "TEXT,n\n日食,1\n",
    "places.csv": "name,x\n長安,1\n",
    "c.txt": "地震\n",
  }.items():
    (tmp_path / name).write_text(content, encoding="utf-8")
  found = {
    work.text_format: [it.text for it in work.records]
    for work in texts.read_works(tmp_path)
  }
  assert found == {"table": ["日食"], "plain": ["地震"]}
  works = texts.read_works(tmp_path)
  assert [work.identifier for work in works][:2] == ["a", "b"]
  (_, named) = texts.read_works(tmp_path, columns="text=name")
  assert [it.text for it in named.records] == ["長安"]


@pytest.mark.parametrize(
  ("text", "date"),
  [
    ("On the 2. of June, rain", (6, 2)),
    ("The xxiij. of May", (5, 23)),
    ("the one and twentith of March", (3, 21)),
    ("the xxiiij. of Iuly", (7, 24)),
    ("the third daie of Iune", (6, 3)),
    ("the 2. of Ianuarie", (1, 2)),
    ("the ix. of Aprill", (4, 9)),
    ("viij of May", (5, 8)),
    ("The 3rd day of July", (7, 3)),
    ("On the firſt of May", (5, 1)),
    ("the five and twentieth day of March", (3, 25)),
    ("the xxx. daie of Auguſt", (8, 30)),
    ("the thirtith of June", (6, 30)),
  ],
)
def test_days_of_early_english(text, date):
  (found,) = find_western_dates(text)
  assert (found.month, found.day) == date


@pytest.mark.parametrize(
  "text", ["the 31. of June", "xl. of May", "one and men of March"]
)
def test_what_is_no_day(text):
  assert not any(date.day for date in find_western_dates(text))


def test_an_index_reads_a_table_by_its_columns(tmp_path):
  path = tmp_path / "a.csv"
  path.write_text("條文,年\n月食,貞觀二年\n", encoding="utf-8")
  request = sources.make_request(
    tmp_path, str(path), columns="text=條文,date=年"
  )
  (work,) = request.read(tmp_path)
  assert [entry.text for entry in work.entries] == ["貞觀二年　月食"]
  assert work.text_format == "table"
