"""Months and days of the calendars, and their names."""

import numpy as np
import pytest

from ctd_jax.chronology import (
  calendar_tables,
  dates,
  era_calendars,
  reigns,
  sexagenary,
)
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.reigns import Timeline

DYNASTIES = ("wei", "jin", "liu_song", "southern_qi")


@pytest.fixture(scope="module")
def calendar():
  return era_calendars.load_calendar("all")


def _format(calendar, names):
  return [calendar.format_name(name) for name in names]


def _first_day(calendar, name):
  """Returns the Julian date of the first day of a month."""
  day = calendar.first_days[name.month]
  return sexagenary.format_date(sexagenary.to_julian_dates(day))


def test_months_of_a_stream_follow_each_other():
  for stream in calendar_tables.load_streams().values():
    ends = stream.first_days + stream.lengths
    np.testing.assert_array_equal(ends[:-1], stream.first_days[1:])
    is_civil = stream.first_days >= sexagenary.to_julian_day(1872, 12, 30)
    assert set(stream.lengths[~is_civil]) <= {28, 29, 30, 31}
    assert (np.diff(stream.years) >= 0).all()
    # A leap month follows the month whose number it has.
    leap = np.flatnonzero(stream.is_leap)
    leap = leap[leap > 0]
    np.testing.assert_array_equal(stream.months[leap], stream.months[leap - 1])


def test_months_are_not_of_impossible_length_but_at_a_reform():
  """景初: the source has no other month of 28 days in China."""
  streams = calendar_tables.load_streams()
  short = {
    (name, int(stream.first_days[i]))
    for name, stream in streams.items()
    for i in np.flatnonzero((stream.lengths < 29) | (stream.lengths > 30))
    # From here on months are Gregorian.
    if stream.first_days[i] < sexagenary.to_julian_day(1872, 12, 30)
  }
  assert {day for name, day in short if name != "wei_qi"} <= {1807637}


def test_the_calendar_has_every_month_that_an_era_names(calendar):
  assert len(calendar) > 30_000
  assert len(calendar.member_months) > 100_000
  assert (np.diff(calendar.first_days) >= 0).all()
  assert (np.diff(calendar.member_months) >= 0).all()
  assert set(np.unique(calendar.member_months)) == set(range(len(calendar)))
  assert calendar.regnal_years.min() == 1
  first, last = calendar.member_days.T
  np.testing.assert_array_equal(first <= last, calendar.in_use)


def test_an_era_is_found_by_polity_ruler_and_name_in_either_script(calendar):
  by_name = calendar.find_eras("泰始")
  assert [calendar.eras[era].full_name for era in by_name] == [
    "晉武帝泰始",
    "劉宋明帝泰始",
  ]
  for name in ("晉", "西晋", "晉武帝", "世祖武皇帝", "大晉"):
    assert calendar.find_eras(f"{name}泰始") == by_name[:1], name
  assert calendar.find_eras("宋明帝泰始") == by_name[1:]
  assert calendar.find_eras("唐泰始") == ()
  assert calendar.find_eras("") == ()


def test_eras_of_one_name_are_all_candidates(calendar):
  months = calendar.find_months("建興", 3, 6)
  polities = {calendar.eras[name.era].polity.name for name in months}
  assert polities >= {"蜀漢", "晉", "後燕"}
  assert "孫吳" not in polities  # that of 孫吳 had two years


@pytest.mark.parametrize(
  ("polity", "name", "year", "months"),
  [
    # The year begins with the tenth month and ends with 後九月.
    ("秦", "秦始皇", 26, [10, 11, 12, *range(1, 10), 9]),
    # 太初元年 had fifteen months.
    ("西漢", "太初", 1, [10, 11, 12, *range(1, 13)]),
    # The reform of 237 left out the third month.
    ("曹魏", "景初", 1, [1, 2, *range(4, 13)]),
    # 正月, 臘月, 一月, 二月 ...
    ("武周", "聖曆", 1, [11, 12, *range(1, 11)]),
    # 建子月 to 建辰月, then 四月 again.
    ("唐", "寶應", 1, [11, 12, *range(1, 4), *range(4, 13)]),
  ],
)
def test_years_that_are_not_from_the_first_month_to_the_twelfth(
  polity, name, year, months
):
  calendar = era_calendars.load_calendar(polity)
  ordinals = sorted(n.month for n in calendar.find_months(name, year))
  assert [int(calendar.months[month]) for month in ordinals] == months


def test_first_month_of_wu_zhou_is_the_eleventh():
  """「聖曆元年正月甲子朔」 was the winter solstice; 一月 follows 臘月."""
  calendar = era_calendars.load_calendar("武周")
  first, third = calendar.find_months("聖曆", 1, 1)
  assert calendar.label_month(first.month) == "11"
  assert calendar.label_month(third.month) == "1"
  assert _first_day(calendar, first) == "0697-12-20"
  day = int(calendar.first_days[first.month])
  assert sexagenary.cyclic_index_of_day(day) == 0
  assert third.month == first.month + 2


def test_a_year_has_two_names_where_the_era_changed(calendar):
  """249 is 正始十年 until the fourth month, then 嘉平元年."""
  wei = era_calendars.load_calendar("曹魏")
  for month, labels in (
    (2, ["曹魏少帝正始10年2月", "曹魏少帝嘉平1年2月"]),
    (6, ["曹魏少帝嘉平1年6月", "曹魏少帝正始10年6月"]),
  ):
    ordinal = wei.find_months("嘉平", 1, month)[0].month
    names = wei.names_of_month(ordinal)
    assert _format(wei, names) == labels
    assert [name.in_use for name in names] == [True, False]


def test_parallel_states_name_a_day_by_their_own_calendars(calendar):
  """236: 魏, 蜀 and 吳 had eras of their own, and later other months."""
  day = calendar.first_days[calendar.find_months("魏青龍", 4, 6)[0].month]
  names = calendar.names_of_day(int(day) + 3)
  assert set(_format(calendar, names)) >= {
    "曹魏明帝青龍4年6月",
    "蜀漢後主建興14年6月",
    "孫吳大帝嘉禾5年6月",
  }
  # In 238 魏 counts one month ahead.
  day = calendar.first_days[calendar.find_months("魏景初", 2, 6)[0].month]
  months = {
    calendar.eras[name.era].polity.name: int(calendar.months[name.month])
    for name in calendar.names_of_day(int(day) + 3)
  }
  assert (months["曹魏"], months["蜀漢"]) == (6, 5)


@pytest.mark.parametrize(
  ("year", "month", "day"),
  # Days that 魏書 prints, in months that 宋 had a month earlier.
  [(6, 3, "庚申"), (9, 2, "癸卯")],
)
def test_wei_had_leap_months_of_its_own(calendar, year, month, day):
  (found,) = calendar.find_months("太平真君", year, month)
  first = int(calendar.first_days[found.month])
  days = [
    sexagenary.format_cyclic_index(sexagenary.cyclic_index_of_day(first + n))
    for n in range(29)
  ]
  assert day in days


def test_a_leap_month_is_found_apart(calendar):
  (leap,) = calendar.find_months("清宣統", 3, leap=True)
  assert calendar.label_month(leap.month) == "6L"
  date = sexagenary.to_gregorian_dates(calendar.first_days[leap.month])
  assert sexagenary.format_date(date) == "1911-07-26"
  both = calendar.find_months("清宣統", 3, 6)
  assert [calendar.is_leap[name.month] for name in both] == [False, True]


def test_a_sexagenary_day_is_a_date(calendar):
  """The fall of Luoyang, 永嘉五年六月丁酉, was 13 July 311."""
  (month,) = (
    name.month
    for name in calendar.find_months("晉永嘉", 5, 6)
    if calendar.eras[name.era].polity.name == "晉"
  )
  day = calendar.find_day(month, sexagenary.parse_cyclic_index("丁酉"))
  date = sexagenary.to_julian_dates(np.array(day))
  assert sexagenary.format_date(date) == "0311-07-13"
  length = int(calendar.lengths[month])
  missing = (sexagenary.cyclic_index_of_day(day) + 30) % 60
  assert calendar.find_day(month, missing) is None
  assert length in (29, 30)


def test_a_ruler_alone_names_years(calendar):
  assert {calendar.eras[e].name for e in calendar.find_eras("漢文帝")} == {
    "前元",
    "後元",
  }
  (first,) = calendar.find_months("汉惠帝", 1, 10)
  assert first.in_use
  assert int(calendar.years[first.month]) == -193  # begins in 195 BCE
  assert _first_day(calendar, first).startswith("-0194-11")


@pytest.mark.parametrize(
  ("names", "polities"),
  [
    ("曹魏,蜀漢，孙吴", ["蜀漢", "曹魏", "孫吳"]),
    (["唐朝"], ["唐", "武周"]),
    ("大明", ["明"]),
    ("ja", ["日本"]),
    ("北魏", ["北魏"]),
  ],
)
def test_polities_are_chosen_by_name(names, polities):
  calendar = era_calendars.load_calendar(names)
  chosen = {era.polity.name for era in calendar.eras}
  assert chosen == set(polities)


def test_a_name_that_several_polities_share_means_all():
  names = [polity.name for polity in era_calendars.find_polities("魏")]
  assert names == ["曹魏", "北魏", "東魏", "西魏"]


def test_countries_have_names():
  for name, code in (
    ("越", "vi"),
    ("安南", "vi"),
    ("中国", "zh"),
    ("韓國", "ko"),
  ):
    assert era_calendars.find_polities(name) == era_calendars.find_polities(
      code
    )


def test_an_unknown_polity_is_named_with_the_nearest():
  with pytest.raises(
    ValueError, match="no polity '後晋朝廷' .*nearest: .*後晉"
  ):
    era_calendars.load_calendar("唐,後晋朝廷")


def test_eras_are_rows_of_a_reign_table():
  calendar = era_calendars.load_calendar("明")
  reigns = calendar.make_reigns()
  (row,) = (row for row in reigns if row.name == "洪武")
  # 洪武 came back for the second half of 1402, its year 35.
  assert (row.state, row.accession, row.years) == ("明太祖", 1368, 35)
  first_years = [row.accession for row in reigns]
  assert first_years == sorted(first_years)
  for row, indices in zip(reigns, calendar.reign_eras, strict=True):
    assert {calendar.eras[index].name for index in indices} == {row.name}


@pytest.mark.parametrize(
  ("text", "reign", "key"),
  [
    ("明洪武三年正月", "明太祖洪武", (1370, 1)),
    ("世祖武皇帝泰始三年五月", "晉武帝泰始", (267, 5)),
    ("秦始皇二十六年十月", "秦始皇", (-220, 10)),
    ("漢文帝三年十月", "西漢文帝", (-176, 10)),
    ("吴赤乌四年四月", "孫吳大帝赤烏", (241, 4)),
  ],
)
def test_dates_of_all_eras_are_found_in_text(calendar, text, reign, key):
  """「明洪武三年正月」 was 293 CE in the table of another time."""
  timeline = Timeline("all_eras", calendar.make_reigns())
  ((match, cue),) = dates.iterate_matches(fold_script(text), timeline)
  (number,) = dates.candidate_reigns(match, cue, timeline)
  assert timeline.full_reign_name(number) == reign
  year = timeline.reigns[number - 1].accession + cue.year - 1
  assert (year, cue.month) == key


@pytest.mark.parametrize(
  ("table", "polity"),
  [*zip(DYNASTIES, ("曹魏", "晉", "劉宋", "南齊"), strict=True)],
)
def test_eras_begin_as_in_the_reign_tables(table, polity):
  """Those were checked against the chronicle that dates by them."""
  eras = era_calendars.load_calendar(polity)
  for reign in reigns.load_timeline(table).reigns:
    year = reign.accession
    first = min(
      (eras.eras[index] for index in eras.find_eras(reign.name)),
      # 晉 had a 建武 of 304 and one of 317.
      key=lambda era, year=year: (abs(era.first_year - year), era.first_day),
    )
    assert (first.first_year, first.first_month) == (
      reign.accession,
      reign.first_month,
    ), reign.name
    names = set(calendar_tables.ruler_names(reign.state).names)
    assert names & set(map(fold_script, first.ruler.names)), reign.name
    # A name could outlive its last year by the first days of the next.
    assert first.years <= reign.years + 1


def test_some_months_keep_their_names(calendar):
  months = np.flatnonzero((calendar.years >= 263) & (calendar.years <= 265))
  part = calendar.take_months(months)
  assert len(part) == len(months)
  for index in (0, len(months) // 2, len(months) - 1):
    assert _format(part, part.names_of_month(index)) == _format(
      calendar, calendar.names_of_month(int(months[index]))
    )
  assert part.find_months("晉泰始", 2) == ()
  assert part.find_months("蜀漢炎興", 1, 9)
  with pytest.raises(ValueError, match="should ascend"):
    calendar.take_months(months[::-1])


@pytest.mark.parametrize(
  ("pair", "names"),
  [
    *(("壬申", "朝鮮太祖 西魏廢帝"), ("乙亥", "朝鮮世祖"), ("乙卯", "燕山君")),
    *(("丙寅", "朝鮮中宗"), ("戊辰", "朝鮮宣宗 朝鮮宣祖"), ("己酉", "光海君")),
    *(("癸亥", "朝鮮仁祖"), ("乙巳", "朝鮮英祖"), ("丁酉", "朝鮮正祖")),
    *(("辛酉", "純祖"), ("丁卯", "高麗毅宗"), ("己巳", "高麗恭讓王")),
    *(("丙辰", "新羅僖康王"), ("丁巳", "新羅孝恭王"), ("己丑", "蒙古太宗")),
    *(("辛亥", "元憲宗"), ("甲寅", "周世宗顯德"), ("丙午", "宋欽宗靖康")),
    ("甲子", "日本明正天皇寬永"),
  ],
)
def test_first_years_have_the_pairs_that_histories_give(calendar, pair, names):
  for name in names.split():
    eras = [calendar.eras[era] for era in calendar.find_eras(name)]
    found = {sexagenary.format_cyclic_year(era.first_year) for era in eras}
    assert found == {f"{pair}年"}, name


def test_a_ruler_is_called_by_temple_or_posthumous_name():
  eras = [era for era in calendar_tables.load_eras() if era.ruler]
  names = {era.polity.name + era.ruler.name for era in eras}
  called = "宋欽宗 遼天祚帝 金海陵王 元順帝 清宣統帝 朝鮮英祖 後唐末帝"
  assert set(called.split()) <= names
  assert not {"宋趙桓", "金完顏亮", "朝鮮英宗"} & names


def test_years_of_a_queen_go_on_beside_her_eras(calendar):
  (month,) = {name.month for name in calendar.find_months("新羅善德王", 12, 9)}
  labels = _format(calendar, calendar.names_of_month(month))
  assert any("仁平10年" in label for label in labels)
  # The year of an accession is the last of one and the first of the next.
  assert calendar.find_months("新羅眞平王", 54, 1)


def test_a_count_that_outlived_its_ruler_is_named_by_the_polity():
  rows = era_calendars.load_calendar("後周,唐").make_reigns()
  states = {row.name: row.state for row in rows}
  assert states["顯德"] == "後周"
  assert states["貞觀"] == "唐太宗"


@pytest.mark.parametrize(
  ("polity", "era", "first_used"), [("孫吳", "黃武", 10), ("蜀漢", "章武", 4)]
)
def test_a_calendar_that_begins_within_a_year_has_all_of_it(
  polity, era, first_used
):
  calendar = era_calendars.load_calendar(polity)
  assert calendar.months[0] == 1
  months = calendar.find_months(era, 1)
  in_use = {int(calendar.months[m.month]) for m in months if m.in_use}
  before = {int(calendar.months[m.month]) for m in months if not m.in_use}
  assert in_use == set(range(first_used, 13))
  assert before == set(range(1, first_used))


@pytest.mark.parametrize(
  ("rows", "message"),
  [
    ("wu\t222\t1802469\t10-13\t9090\n", "line 2: months '10-13' are not in"),
    ("wu\t222\t1802469\t10-x\t909\n", "line 2: months '10-x' should look"),
    ("wu\t222\t1802469\t10-12\t9090\n", "line 2: '10-12' does not have 4"),
    (
      "wu\t222\t1802469\t10-12\t909\nwu\t223\t1802600\t1-3\t909\n",
      "wu: years do not follow",
    ),
    ("wu\t222\n", "line 2: should have the columns"),
  ],
)
def test_a_damaged_table_is_named_with_its_line(
  rows, message, tmp_path, monkeypatch
):
  monkeypatch.setattr(reigns, "reign_table_dir", lambda: tmp_path / "reigns")
  (tmp_path / "calendars").mkdir()
  columns = "\t".join(calendar_tables.TABLE_COLUMNS["lunations"])
  table = tmp_path / "calendars" / "lunations.tsv"
  table.write_text(f"{columns}\n{rows}", encoding="utf-8")
  with pytest.raises(ValueError, match=message):
    calendar_tables.load_streams.__wrapped__()
