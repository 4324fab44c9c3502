"""An invented chronicle gets its dates back after its headings are gone."""

import csv
import dataclasses
import random
import re

import matplotlib.image
import numpy as np
import pytest

from ctd_jax.chronology import dates, numerals, sexagenary
from ctd_jax.dating.chronicle import (
  best_path,
  chronicle_dates,
  chronicle_dating,
  chronicle_input,
  sections,
  transition_model,
)
from ctd_jax.dating.chronicle import calendar as calendar_lib
from tests.dating.chronicle.emissions_test import evidence
from tests.dating.chronicles import format_table, records_of
from tests.tools import processes

ERAS = format_table(
  ("安初", 300, 6), ("永熹", 306, 5), ("熙和", 311, 9), ("始寧", 320, 10)
)
RULERS = format_table(("懷公", -500, 8), ("昌公", -492, 6))
EVENTS = ("大水。", "地震。", "城成。", "王出師。", "使者來。", "雨雪。")


def read(folder, table):
  path = folder / "table.tsv"
  path.write_text(table, encoding="utf-8")
  return calendar_lib.read_calendar(path)


def written(calendar, seed=0, skipped=(), days=True, headings=False):
  """Lines as annals print them, and the ordinal of each line's month."""
  draw = random.Random(seed)
  lines, truth = [], []
  year = season = None
  for place in range(len(calendar)):
    if calendar.years[place] in skipped or draw.random() < 0.4:
      continue
    month = int(calendar.months[place])
    date_printed = ""
    if headings and calendar.years[place] != year:
      _, number, _ = calendar.name_month(place)
      number = "元" if number == 1 else numerals.format_numeral(number)
      date_printed += f"{number}年，"
    if (calendar.years[place], (month - 1) // 3) != (year, season):
      date_printed += dates.season_of_month(month) + "，"
    year, season = calendar.years[place], (month - 1) // 3
    name = "正" if month == 1 else numerals.format_numeral(month)
    date_printed += "閏月，" if calendar.is_leap[place] else f"{name}月，"
    for event in draw.sample(EVENTS, draw.randint(1, 3)):
      if days and draw.random() < 0.5:
        first, length = calendar.day_spans[place]
        day = sexagenary.cyclic_index_of_day(
          int(first) + draw.randrange(int(length))
        )
        event = f"{sexagenary.format_cyclic_index(day)}，{event}"
      lines.append(date_printed + event)
      truth.append(place)
      date_printed = ""
  return lines, np.array(truth)


def with_days(calendar, first=(12, 20), later=(11, 25)):
  """An early calendar as it may have been, its days settled.

  A year's first month is the lunation that holds the day `first` of the year
  before; in the second half of the years, whose calendar is another, `later`.
  """
  half = np.median(calendar.years)
  spans = []
  for year, month in zip(calendar.years, calendar.months, strict=True):
    start = first if year < half else later
    day = sexagenary.to_julian_day(int(year) - 1, *start)
    moons = sexagenary.find_new_moons(day - 29, day + 380)
    spans.append((moons[month - 1], moons[month] - moons[month - 1]))
  readings = dataclasses.replace(calendar.readings, day_spans=np.array(spans))
  return dataclasses.replace(calendar, readings=readings)


@dataclasses.dataclass(frozen=True)
class Found:
  """Dates of the first section of each line."""

  months: np.ndarray
  probabilities: np.ndarray
  dates: chronicle_dates.ChronicleDates

  @property
  def years(self):
    return self.dates.calendar.years[self.months[:, 0]]

  @property
  def names(self):
    reigns = self.dates.printed_reigns
    return [
      self.dates.calendar.name_month(month, reigns)
      for month in self.months[:, 0]
    ]


def dated(lines, calendar, first_year=None):
  dates = chronicle_dating.date_records(records_of(lines), calendar, first_year)
  first = [row for row, span in enumerate(dates.sections) if span.start == 0]
  return Found(dates.months[first], dates.probabilities[first], dates)


@pytest.mark.slow
def test_days_and_order_date_what_has_no_heading(tmp_path):
  calendar = read(tmp_path, ERAS)
  # Four years are lost, across a change of era.
  lines, truth = written(calendar, skipped=range(309, 313))
  assert not any("年" in line for line in lines)
  found = dated(lines, calendar)
  assert np.mean(found.months[:, 0] == truth) > 0.97
  right = found.months[:, 0] == truth
  assert found.probabilities[right, 0].mean() > 0.9


@pytest.mark.slow
def test_one_year_given_dates_an_early_chronicle_by_its_seasons(tmp_path):
  calendar = read(tmp_path, RULERS)
  lines, truth = written(calendar, days=False, seed=3)
  found = dated(lines, calendar, first_year=-500)
  years = calendar.years
  assert np.mean(years[found.months[:, 0]] == years[truth]) > 0.95


@pytest.mark.slow
def test_days_tell_which_years_an_early_chronicle_is_of(tmp_path):
  calendar = read(tmp_path, RULERS)
  # Ten years of fourteen, no heading, and nobody says which.
  lines, truth = written(
    with_days(calendar), seed=11, skipped=(-500, -499, -488, -487)
  )
  found = dated(lines, calendar)
  assert np.mean(found.months[:, 0] == truth) > 0.95
  assert found.probabilities[:, 0].mean() > 0.8
  without = [re.sub(f"{sexagenary.PAIR_PATTERN}，", "", line) for line in lines]
  assert without != lines
  assert dated(without, calendar).probabilities[:, 0].mean() < 0.5


def test_regnal_years_of_several_rulers_need_no_names(tmp_path):
  calendar = read(tmp_path, RULERS)
  lines, truth = written(calendar, days=False, headings=True, skipped=[-496])
  found = dated(lines, calendar)
  assert np.mean(found.months[:, 0] == truth) > 0.97


@pytest.mark.slow
def test_a_flashback_does_not_move_what_follows(tmp_path):
  calendar = read(tmp_path, ERAS)
  lines, truth = written(calendar, seed=5)
  middle = len(lines) // 2
  while not lines[middle].startswith(("夏", "秋")):
    middle += 1
  lines.insert(middle, "正月，先王崩。")
  truth = np.insert(truth, middle, -1)
  found = dated(lines, calendar)
  around = np.r_[middle - 15 : middle, middle + 1 : middle + 15]
  assert np.mean(found.months[around, 0] == truth[around]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
  ("aside", "year", "month"),
  [
    ("滄守某薨熙和三年七月葬于岷", 313, 7),  # told ahead
    ("使者議泗水城安初二年四月所築", 301, 4),
    ("王師敗績明年六月乃還", None, 6),
  ],
)
def test_what_a_record_tells_of_does_not_move_what_follows(
  tmp_path, aside, year, month
):
  calendar = read(tmp_path, ERAS)
  lines = []
  for number in "元二三":
    for line in (f"永熹{number}年春正月大水", "夏四月地震", "秋八月地震"):
      lines += [line, "遣使者來", "城成"]
  position = lines.index("永熹二年春正月大水") + 1
  lines.insert(position, aside)
  found = dated(lines, calendar)
  around = found.dates.calendar
  for place in found.months[position - 1 : position + 3, 0]:
    assert (around.years[place], around.months[place]) == (307, 1)
  told = [s.record == position and s.start > 0 for s in found.dates.sections]
  place = found.dates.months[told.index(True), 0]
  assert around.months[place] == month
  if year is not None:
    assert around.years[place] == year


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["", "傳", "【傳】"])
def test_streams_begin_again_with_the_year(tmp_path, mark):
  """The annals of a year, and then what tradition tells of it."""
  calendar = read(tmp_path, ERAS)
  lines, truth = [], []
  for year in range(300, 312):
    place = int(np.flatnonzero(calendar.years == year)[0])
    _, number, _ = calendar.name_month(place)
    head = ("元" if number == 1 else numerals.format_numeral(number)) + "年，"
    for stream in ("", mark):
      for month, season in ((1, "春"), (4, "夏"), (7, "秋"), (10, "冬")):
        lines.append(f"{stream}{head}{season}，{EVENTS[month % 6]}")
        truth.append(year)
        head = stream = ""
  found = dated(lines, calendar)
  assert np.mean(found.years == truth) > 0.95


@pytest.mark.slow
def test_lives_begin_anew(tmp_path):
  calendar = read(tmp_path, ERAS)
  lives = [
    ["安初二年，舉孝廉。", "四年春，遷滄守。", "永熹三年，卒。"],
    ["安初元年，從王征泠。", "三年，戰于岷。"],
    ["安初五年，上書。", "永熹四年冬，薨。"],
  ]
  found = dated([line for life in lives for line in life], calendar)
  assert found.years.tolist() == [301, 303, 308, 300, 302, 304, 309]


def test_headings_share_the_date_of_what_they_head(tmp_path):
  calendar = read(tmp_path, RULERS)
  lines = ["懷公", "元年", "春，大水。", "夏，地震。", "二年", "春，城成。"]
  found = dated([*lines, "昌公", "元年", "春，大水。"], calendar)
  assert found.years.tolist() == [-500] * 4 + [-499] * 2 + [-492] * 3
  for row, year in enumerate(calendar.years[found.dates.months[:, 0]]):
    credible = found.dates.credible.months_of(row)
    assert set(calendar.years[credible].tolist()) == {year}


@pytest.mark.parametrize("mark", ["傳二年，春，", "傳二年.春．王正月．"])
def test_the_last_entry_of_a_stream_heads_no_other_stream(tmp_path, mark):
  calendar = read(tmp_path, RULERS)
  lines = []
  for numeral in "二三四五":
    lines += [f"經{numeral}年，春，大水。", "夏，地震。", "冬，十月。"]
    opening = mark.replace("二", numeral)
    lines += [f"{opening}大水。", "夏，地震。", "秋，雨。"]
  found = dated(["懷公", *lines], calendar)
  years = np.repeat(range(-499, -495), 6)
  assert found.years[1:].tolist() == years.tolist()


@pytest.mark.slow
def test_a_year_with_its_era_is_believed_across_a_gap(tmp_path):
  calendar = calendar_lib.load_calendar("宋")
  lines = ["建隆二年春正月，大水。", "三月，城成。", "開寶八年冬十月，師還。"]
  found = dated(lines, calendar)
  assert found.years.tolist() == [961, 961, 975]
  assert found.probabilities[[0, 2], 0].min() > 0.9


@pytest.mark.slow
def test_an_era_of_another_calendar_is_of_no_month(tmp_path):
  calendar = read(tmp_path, ERAS)
  lines = [f"洪武{numerals.format_numeral(n)}年，大水。" for n in range(2, 9)]
  found = dated(lines, calendar).dates
  assert found.outside.min() > 0.9
  assert all(map(found.is_outside, found.months[:, 0]))


def test_a_fixed_date_is_certain_wherever_it_stands(tmp_path):
  calendar = read(tmp_path, ERAS)
  lines, _ = written(calendar, seed=4, headings=True)
  lines[0] = "安初" + lines[0]
  records = records_of(lines)
  all_sections = chronicle_dating.read_all_sections(records, calendar)
  number = len(all_sections) // 3
  allowed_months = {
    number: np.arange(len(calendar)) == len(calendar) - 1,
    2 * number: np.isin(np.arange(len(calendar)), (3, 5)),
  }
  dates = chronicle_dating.date_sections(
    records, all_sections, calendar, allowed_months=allowed_months
  )
  for section, is_allowed in allowed_months.items():
    assert is_allowed[dates.credible.months_of(section)].all()
    assert dates.outside[section] == 0
  assert dates.probabilities[number, 0] == 1


def test_a_fixed_date_inside_a_record_is_where_the_record_stands(tmp_path):
  calendar = read(tmp_path, ERAS)
  lines = ["安初二年正月，大水。", "五月，有星孛。", "雨雪。", "地震。"]
  records = records_of(lines)
  sections = chronicle_dating.read_all_sections(records, calendar)
  sections[1] = dataclasses.replace(sections[1], may_be_told=True)
  month = np.flatnonzero((calendar.years == 301) & (calendar.months == 5))[0]
  allowed_months = {1: np.arange(len(calendar)) == month}
  probabilities = [
    chronicle_dating.date_sections(
      records, sections, calendar, allowed_months=fixed
    ).probabilities[2:, 0]
    for fixed in ({}, allowed_months)
  ]
  assert (probabilities[1] > 0.9).all()
  assert (probabilities[0] < 0.85).all()  # it may but have been told of


@pytest.mark.slow
def test_a_narrowed_calendar_dates_as_the_whole_one(monkeypatch):
  calendar = calendar_lib.load_calendar("宋")
  is_told = (calendar.years >= 1043) & (calendar.years < 1049)
  lines, truth = written(calendar.take(is_told), seed=2, headings=True)
  lines[0] = "慶曆" + lines[0]
  monkeypatch.setattr(chronicle_dating, "MIN_MONTHS", 10**6)
  whole = dated(lines, calendar)
  monkeypatch.setattr(chronicle_dating, "MIN_MONTHS", 0)
  narrow = dated(lines, calendar)
  assert len(narrow.dates.calendar) < len(calendar)
  assert narrow.names == whole.names
  assert np.mean(whole.months[:, 0] == np.flatnonzero(is_told)[truth]) > 0.97
  np.testing.assert_allclose(
    narrow.probabilities, whole.probabilities, atol=0.01
  )


def test_narrowed_calendars_have_the_years_before_a_named_one():
  """And few lengths: the decoder is compiled for each."""
  calendar = calendar_lib.load_calendar("宋")
  lengths = set()
  for num_years in range(60, 80):  # more than the margin that all have
    lines = ["正月，大水。", "七月，雨雪。"] * num_years
    sections = chronicle_dating.read_all_sections(
      records_of([*lines, "建中靖國元年正月，地震。"]), calendar
    )
    is_kept = chronicle_dating._find_possible_months(sections, calendar, {})
    assert calendar.years[is_kept].min() <= 1101 - num_years
    lengths.add(int(is_kept.sum()))
    # Nearest first: what is kept has no gap.
    assert (np.diff(np.flatnonzero(is_kept)) == 1).all()
  assert len(lengths) < 5
  for length in lengths:
    assert length % 2 ** ((length - 1).bit_length() - 4) == 0


def test_a_long_text_is_dated_among_its_likely_months(tmp_path, monkeypatch):
  calendar = read(tmp_path, ERAS)
  lines, _ = written(calendar, seed=4, headings=True)
  lines[0] = "安初" + lines[0]
  whole = dated(lines, calendar)
  find_windows, windows = best_path.find_windows, []
  monkeypatch.setattr(
    best_path,
    "find_windows",
    lambda *args: windows.append(find_windows(*args)) or windows[-1],
  )
  monkeypatch.setattr(chronicle_dating, "_MAX_EXACT", 0)
  found = dated(lines, calendar)
  assert windows[0].sizes.max() < len(calendar)
  assert found.names == whole.names
  np.testing.assert_allclose(
    found.probabilities, whole.probabilities, atol=1e-4
  )
  # Windows that hold nothing of the text are given up.
  first_months = np.roll(windows[0].first_months, 1)
  shifted = dataclasses.replace(windows[0], first_months=first_months)
  monkeypatch.setattr(best_path, "find_windows", lambda *args: shifted)
  assert dated(lines, calendar).names == whole.names


@pytest.mark.parametrize(
  ("lines", "first_year", "message"),
  [
    (["大水。", "地震。"], None, "nothing to date by"),
    (["春，大水。"], -721, "722 BCE is not in the reign table"),
  ],
)
def test_what_cannot_be_dated_is_refused(tmp_path, lines, first_year, message):
  with pytest.raises(ValueError, match=message):
    dated(lines, read(tmp_path, ERAS), first_year)


def test_calendars_go_by_path_name_or_polity(tmp_path):
  tongjian = chronicle_input.load_reigns("tongjian")
  assert tongjian.timeline.name == "tongjian"
  path = tmp_path / "tongjian"
  path.write_text(ERAS)
  first, *_ = chronicle_input.load_reigns(str(path)).timeline.reigns
  assert first.name == "安初"
  assert len(chronicle_input.load_reigns("CE:700-710")) == 132
  ming = chronicle_input.load_reigns("明")
  assert (ming.years[0], ming.years[-1]) == (1368, 1644)
  with pytest.raises(
    FileNotFoundError, match=r"--reigns=tang: .*southern_qi.*no polity"
  ):
    chronicle_input.load_reigns("tang")


@pytest.mark.slow
def test_an_era_of_any_polity_is_read(tmp_path):
  calendar = calendar_lib.load_calendar("all")
  found = dated(["明洪武三年正月，大水。", "二月，地震。"], calendar)
  assert found.names == [("明太祖洪武", 3, "1"), ("明太祖洪武", 3, "2")]
  assert found.years.tolist() == [1370, 1370]
  # Of two thousand years those around are looked at.
  assert len(found.dates.calendar) < len(calendar) / 10


@pytest.mark.slow
def test_parallel_calendars_share_lunations():
  # 太和六年 of 魏 is 建興十年 of 蜀, whose calendars differ in leap months.
  calendar = calendar_lib.load_calendar("曹魏,蜀漢,孫吳")
  assert (np.diff(calendar.day_spans[:, 0]) >= 28).all()
  assert len(calendar.readings.lunations) > len(calendar)
  found = dated(["魏太和六年正月，大水。", "蜀建興十年三月，地震。"], calendar)
  assert found.years.tolist() == [232, 232]
  assert [month for _, _, month in found.names] == ["1", "3"]


def test_a_text_follows_the_calendar_of_the_reigns_that_it_names():
  # States had leap months of their own: one's twelfth is the other's eleventh.
  calendar = calendar_lib.load_calendar("曹魏,蜀漢,孫吳")
  alike = calendar.readings.find_lunations(calendar.readings.months == 12)
  alike &= calendar.months != 12
  reigns = [reign.name for reign in calendar.timeline.reigns]
  counts = np.array([9 * (name == "黃初") for name in reigns])
  weighed = calendar.weigh_readings(counts)
  assert (weighed.readings.log_weights[weighed.readings.starts] == 0).all()
  row = evidence("十二月，大水。", weighed)
  assert row[:-1][weighed.months != 12].max() < -1
  # But not where the month is printed with a reign of the other.
  assert evidence("建興九年十二月，大水。", weighed).max() == 0
  assert alike.any()


def test_a_year_may_begin_with_its_tenth_month():
  calendar = calendar_lib.load_calendar("秦,西漢")
  year = calendar.years == -200
  assert calendar.months[year].tolist()[:4] == [10, 11, 12, 1]
  boundaries = transition_model.find_boundaries(calendar.years, calendar.months)
  start = np.flatnonzero(year)[0]
  # From 十月 the next season begins three months later, the next year twelve.
  assert boundaries.following[sections.SEASON, start] == start + 3
  assert boundaries.following[sections.YEAR, start] == start + year.sum()


def run(*arguments, cwd):
  return processes.run_python(
    "-m", "ctd_jax.date", *arguments, cwd=cwd, timeout=300
  )


@pytest.mark.slow
def test_the_command_writes_table_and_plot(tmp_path):
  calendar = read(tmp_path, ERAS)
  lines, truth = written(calendar)
  lines[0] += "\t東"
  (tmp_path / "chronicle.txt").write_text("\n\n".join(lines), encoding="utf-8")
  done = run("--input=chronicle.txt", "--reigns=table.tsv", cwd=tmp_path)
  assert done.returncode == 0, done.stderr
  assert "%|" not in done.stderr  # no progress bar off the terminal
  assert f"records      {len(lines)}\n" in done.stdout
  assert "300 CE to 329 CE" in done.stdout
  out = tmp_path / "chronicle_dates"
  assert sorted(p.name for p in out.iterdir()) == ["dates.png", "dates.tsv"]
  with (out / "dates.tsv").open(encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
  text = "".join(row["text"] for row in rows)
  assert text == "".join(lines).replace("\t", "")
  rows = [row for row in rows if row["start"] == "0"]
  assert [int(row["line"]) for row in rows] == [
    2 * place + 1 for place in range(len(lines))
  ]
  names = [
    (
      row["reign"],
      int(row["year"]),
      row["month"] + "L" * int(row["leap_month"]),
    )
    for row in rows
  ]
  right = [calendar.name_month(place) for place in truth]
  assert np.mean([a == b for a, b in zip(names, right, strict=True)]) > 0.97
  image = matplotlib.image.imread(out / "dates.png")
  assert image.shape[1] > 1000
  assert image[..., :3].std() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--reigns=lu"], "error: --input is missing"),
    (
      ["--input=a.txt", "--reigns=lu", "--out=a.txt"],
      "error: --out=a.txt: is a file; name a folder",
    ),
  ],
)
def test_errors_are_one_line(tmp_path, arguments, message):
  (tmp_path / "a.txt").write_text("春，大水。\n", encoding="utf-8")
  done = run(*arguments, cwd=tmp_path)
  assert done.returncode == 1
  assert done.stderr.startswith(message)
  assert done.stderr.count("\n") == 1
