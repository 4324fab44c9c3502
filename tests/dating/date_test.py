"""An invented chronicle gets its dates back after its headings are gone."""

import csv
import dataclasses
import random
import re
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest

from ctd_jax.chronology import (
  civil_dates,
  date_expressions,
  numerals,
  reign_tables,
  sexagenary,
)
from ctd_jax.dating.sequence import (
  chronicle_dates,
  chronicle_dating,
  chronicle_input,
  month_calendar,
  transitions,
)

HEADER = "\t".join(reign_tables.TABLE_COLUMNS)
ERAS = "\n".join(
  [HEADER]
  + [
    f"{name}\t滄\t{first}\t1\t{years}\t\tinvented"
    for name, first, years in (
      ("安初", 300, 6),
      ("永熹", 306, 5),
      ("熙和", 311, 9),
      ("始寧", 320, 10),
    )
  ]
)
RULERS = "\n".join(
  [HEADER]
  + [
    f"{name}\t滄\t{first}\t1\t{years}\t\tinvented"
    for name, first, years in (("懷公", -500, 8), ("昌公", -492, 6))
  ]
)
EVENTS = ("大水。", "地震。", "城成。", "王出師。", "使者來。", "雨雪。")


def read(folder, table):
  path = folder / "table.tsv"
  path.write_text(table + "\n", encoding="utf-8")
  return month_calendar.read_calendar(path)


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
      date_printed += date_expressions.season_of_month(month) + "，"
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
    day = civil_dates.to_julian_day(int(year) - 1, *start)
    moons = sexagenary.find_new_moons(day - 29, day + 380)
    spans.append((moons[month - 1], moons[month] - moons[month - 1]))
  readings = dataclasses.replace(calendar.readings, day_spans=np.array(spans))
  return dataclasses.replace(calendar, readings=readings)


def dated(lines, calendar, first_year=None):
  return chronicle_dating.date_records(
    list(enumerate(lines, 1)), calendar, first_year
  )


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


@pytest.mark.slow
def test_wrong_days_of_an_early_chronicle_mislead_nobody(tmp_path):
  calendar = read(tmp_path, RULERS)
  lines, truth = written(
    with_days(calendar), seed=11, skipped=(-500, -499, -488, -487)
  )
  draw = random.Random(4)

  def misprint(match):
    other = sexagenary.format_cyclic_index(draw.randrange(60))
    return other if draw.random() < 0.1 else match[0]

  printed = [re.sub(sexagenary.PAIR_PATTERN, misprint, line) for line in lines]
  assert printed != lines
  found = dated(printed, calendar)
  assert np.mean(found.months[:, 0] == truth) > 0.95


def test_a_leap_month_of_an_early_chronicle_prolongs_the_twelfth(tmp_path):
  calendar = read(tmp_path, RULERS)
  lines, truth = written(calendar, days=False, seed=3)
  ends = np.flatnonzero(np.diff(calendar.years[truth])) + 1
  lines = np.insert(lines, ends, "閏月，大水。")
  decembers = 12 * (calendar.years[truth[ends - 1]] + 500) + 11
  truth = np.insert(truth, ends, decembers)
  found = dated(lines.tolist(), calendar, first_year=-500).months[:, 0]
  leaps = np.char.startswith(lines, "閏月")
  assert np.mean(found[leaps] == truth[leaps]) > 0.9
  years = calendar.years
  assert np.mean(years[found] == years[truth]) > 0.95


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


def test_text_without_dates_is_refused(tmp_path):
  with pytest.raises(ValueError, match="nothing to date by"):
    dated(["大水。", "地震。"], read(tmp_path, ERAS))


def test_a_first_year_outside_the_table_is_refused(tmp_path):
  with pytest.raises(ValueError, match="722 BCE is not in the reign table"):
    dated(["春，大水。"], read(tmp_path, ERAS), first_year=-721)


def test_calendars_go_by_path_name_or_polity(tmp_path):
  tongjian = chronicle_input.load_reigns("tongjian")
  assert tongjian.timeline.name == "tongjian"
  path = tmp_path / "tongjian"
  path.write_text(ERAS)
  assert (
    chronicle_input.load_reigns(str(path)).timeline.reigns[0].name == "安初"
  )
  ming = chronicle_input.load_reigns("明")
  assert (ming.years[0], ming.years[-1]) == (1368, 1644)
  with pytest.raises(
    FileNotFoundError, match=r"--reigns=tang: .*southern_qi.*no polity"
  ):
    chronicle_input.load_reigns("tang")


def test_an_era_of_any_polity_is_read(tmp_path):
  calendar = month_calendar.load_calendar("all")
  found = dated(["明洪武三年正月，大水。", "二月，地震。"], calendar)
  names = [found.name_month(month) for month in found.months[:, 0]]
  assert names == [("明太祖洪武", 3, "1"), ("明太祖洪武", 3, "2")]
  assert calendar.years[found.months[:, 0]].tolist() == [1370, 1370]


def test_parallel_calendars_share_lunations():
  # 太和六年 of 魏 is 建興十年 of 蜀, whose calendars differ in leap months.
  calendar = month_calendar.load_calendar("曹魏,蜀漢,孫吳")
  assert (np.diff(calendar.day_spans[:, 0]) >= 28).all()
  assert len(calendar.readings.lunations) > len(calendar)
  found = dated(["魏太和六年正月，大水。", "蜀建興十年三月，地震。"], calendar)
  assert calendar.years[found.months[:, 0]].tolist() == [232, 232]
  assert calendar.months[found.months[:, 0]].tolist() == [1, 3]


def test_a_year_may_begin_with_its_tenth_month():
  calendar = month_calendar.load_calendar("秦,西漢")
  year = calendar.years == -200
  assert calendar.months[year].tolist()[:4] == [10, 11, 12, 1]
  boundaries = transitions.find_boundaries(calendar.years, calendar.months)
  start = np.flatnonzero(year)[0]
  # From 十月 the next season begins three months later, the next year twelve.
  assert boundaries[transitions.SEASON, start] == start + 3
  assert boundaries[transitions.YEAR, start] == start + year.sum()


def run(*arguments, cwd):
  return subprocess.run(
    [sys.executable, "-m", "ctd_jax.date", *arguments],
    capture_output=True,
    text=True,
    cwd=cwd,
    timeout=300,
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
  assert f"records     {len(lines)}\n" in done.stdout
  assert "300 CE to 329 CE" in done.stdout
  out = tmp_path / "chronicle_dates"
  assert sorted(p.name for p in out.iterdir()) == ["dates.png", "dates.tsv"]
  with (out / "dates.tsv").open(encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
  assert tuple(rows[0]) == chronicle_dates.COLUMNS
  assert [int(row["line"]) for row in rows] == [
    2 * place + 1 for place in range(len(lines))
  ]
  names = [(row["reign"], int(row["year"]), row["month"]) for row in rows]
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
