"""Single dates: their days, their names, and what contradicts."""

import random

import pytest

import ctd_jax
from ctd_jax.chronology import date_readings, sexagenary
from ctd_jax.chronology.numerals import DateError


def read_days(text, calendars="all"):
  return [it.edtf for it in date_readings.parse_date(text, calendars)]


@pytest.mark.parametrize(
  ("text", "edtf", "cycle"),
  [
    # Days and new moons computed by an independent library, sxtwl.
    ("萬曆十五年三月廿六日", "1587-05-03", "乙卯"),
    ("清乾隆四十八年六月廿六日", "1783-07-25", "丙戌"),
    ("唐開元二十七年八月廿五日", "0739-10-06", "乙酉"),
    ("清康熙四十二年正月廿九日", "1703-03-16", "乙亥"),
    ("明萬曆八年六月十六日", "1580-08-06", "甲寅"),
    ("清康熙二十五年九月初四", "1686-10-20", "乙酉"),
    ("元至正九年三月二十八日", "1349-04-24", "己未"),
    ("元至正六年二月初五日", "1346-03-06", "甲寅"),
    ("光緒九年三月朔", "1883-04-07", "辛巳"),
    ("宋元豐六年五月27日", "1083-06-21", "壬寅"),
    ("唐開元二十年十一月廿三日壬戌", "0732-12-18", "壬戌"),
    ("唐開元二十年十一月壬戌", "0732-12-18", "壬戌"),
    ("明嘉靖五年五月十二", "1526-07-01", "甲午"),
    ("乾隆三十一年十二月十一日", "1767-01-11", "丁未"),
    ("咸豐十年閏三月初六", "1860-04-26", "庚子"),
    ("康熙六十一年除夕", "1723-02-04", "庚辰"),
    ("萬曆十五年元旦", "1587-02-07", "庚寅"),
    ("萬曆十五年三月既望", "1587-04-23", "乙巳"),
    ("萬曆十五年二月晦", "1587-04-07", "己丑"),
    ("萬曆 十五 年 三 月 廿六 日", "1587-05-03", "乙卯"),
    ("萬曆十五年三月\u200b廿六日", "1587-05-03", "乙卯"),
  ],
)
def test_a_day_is_that_of_other_calendars(text, edtf, cycle):
  reading = date_readings.parse_date(text, "zh")[0]
  assert (reading.edtf, reading.cyclic_day) == (edtf, cycle)
  assert not reading.contradictions


@pytest.mark.parametrize(
  "text",
  [
    "1587-05-03",
    "1587/5/3",
    "3 May 1587",
    "May 3, 1587",
    "公元1587年5月3日",
    "1587年5月3日",
  ],
)
def test_western_dates_have_the_names_of_their_day(text):
  (reading,) = ctd_jax.parse_date(text)
  assert reading.name == "明神宗萬曆十五年三月廿六日"
  assert "日本正親町天皇天正十五年三月廿六日" in reading.parallel_names
  (reading,) = ctd_jax.parse_date(text, "ja")
  assert reading.name == "日本正親町天皇天正十五年三月廿六日"
  assert (reading.month, reading.day) == (3, 26)


def test_western_days_before_the_reform_are_julian():
  (reading,) = ctd_jax.parse_date("1100-03-02")
  assert reading.julian == ("1100-03-02", "1100-03-02")
  assert reading.name == "宋哲宗元符三年正月二十日"
  assert [note.code for note in reading.assumptions] == ["reading.julian"]
  for text in ("1582-10-10", "1587-02-30", "1587-13-01"):
    with pytest.raises(DateError):
      ctd_jax.parse_date(text)


def test_longer_times_are_intervals():
  assert read_days("萬曆十五年", "明, ja") == ["1587-02-07/1588-01-27"]
  assert read_days("萬曆十五年三月", "明") == ["1587-04-08/1587-05-07"]
  assert read_days("萬曆十五年春", "明") == ["1587-02-07/1587-05-07"]
  assert read_days("萬曆十五年三月上旬", "明") == ["1587-04-08/1587-04-17"]
  # The rest of 290 has another era.
  assert read_days("永熙元年", "晉") == ["0290-05-16/0291-02-15"]
  (reading,) = ctd_jax.parse_date("萬曆十五年三月", "zh,ja")
  assert reading.parallel_names == ("日本正親町天皇天正十五年三月",)


def test_the_pair_of_a_year_is_no_day():
  assert read_days("天保八年丁酉", "ja") == ["1837-02-05/1838-01-25"]
  assert len(read_days("天保八年庚午", "ja")) > 1  # days
  readings = ctd_jax.parse_date("丁亥年", "明")
  assert [it.year for it in readings if it.era == "萬曆"] == [15]
  assert [it.era for it in readings] == ["永樂", "成化", "嘉靖", "萬曆"]


def test_readings_of_a_shared_name_are_ranked():
  readings = ctd_jax.parse_date("建武元年", "ja,zh")
  assert {it.polity for it in readings} >= {"日本", "東漢", "晉", "南齊"}
  assert readings[0].polity == "日本"
  assert ctd_jax.parse_date("建武元年", "zh,ja")[0].polity == "東漢"
  # A day that only one of them has.
  readings = ctd_jax.parse_date("太和三年三月六日戊申", "zh")
  assert readings[0].polity == "北魏"
  assert not readings[0].contradictions
  assert all(it.contradictions for it in readings[1:])
  assert ctd_jax.parse_date("曹魏太和三年", "zh")[0].edtf.startswith("0229")


@pytest.mark.parametrize(
  ("text", "code", "edtf"),
  [
    # 丙寅 is in 二月 and 四月.
    ("萬曆十五年三月丙寅", "reading.no_day", "1587-04-08/1587-05-07"),
    ("萬曆十五年三月三十一日", "reading.no_number", "1587-04-08/1587-05-07"),
    ("萬曆十五年十三月", "reading.no_month", "1587-02-07/1588-01-27"),
    ("萬曆十五年閏十三月", "reading.no_month", "1587-02-07/1588-01-27"),
    ("萬曆十五年三月中秋", "reading.feast", "1587-04-22"),
    ("萬曆十五年春十四月三日", "reading.no_month", "1587-02-07/1587-05-07"),
    ("萬曆十五年四月三十日", "reading.no_number", "1587-05-08/1587-06-05"),
    ("萬曆十五年三月五日乙卯", "reading.day_differs", "1587-05-03"),
    ("萬曆十五年三月甲子朔乙卯", "reading.new_moon", "1587-05-03"),
    ("萬曆十五年三月初三朔", "reading.mark", "1587-04-10"),
    ("萬曆十五年三月初一朔", None, "1587-04-08"),
    ("萬曆十五年三月二十日晦", "reading.mark", "1587-04-27"),
    ("萬曆十五年三月三十日晦", None, "1587-05-07"),
    ("萬曆十五年閏三月", "problem.date.leap_none", "1587-02-07/1588-01-27"),
    ("萬曆十六年閏三月", "reading.no_leap", "1588-01-28/1589-02-14"),
    ("萬曆十五年戊子三月", "problem.date.cycle", "1587-04-08/1587-05-07"),
    ("泰昌元年正月", "reading.before_era", "1620-02-04/1620-03-03"),
    ("天啟七年十二月廿九日", None, "1628-02-04"),
  ],
)
def test_contradictions_are_said(text, code, edtf):
  reading = ctd_jax.parse_date(text, "明")[0]
  codes = [note.code for note in reading.contradictions]
  assert codes == ([code] if code else [])
  assert reading.edtf == edtf


def test_text_around_a_date_is_said():
  (reading,) = ctd_jax.parse_date("刻於萬曆十五年三月，至四月", "明")
  (note,) = reading.assumptions
  assert note.code == "reading.rest"
  assert note.values == {"text": "刻於 … ，至四月"}


@pytest.mark.parametrize(
  ("text", "code"),
  [
    ("", "reading.unread"),
    ("不詳", "reading.unread"),
    ("三月廿六日", "reading.unread.era"),
    ("未有十五年三月", "reading.unread.era"),
    ("萬曆六十年", "reading.unread.years"),
    ("3/5/1587", "reading.unread.short_date"),
    ("25.12.1587", "reading.unread.short_date"),
    ("43.5.1587", "reading.unread"),
    ("萬曆初", "reading.unread.no_year"),
    ("永樂末年", "reading.unread.no_year"),
    ("崇禎年間", "reading.unread.no_year"),
    ("3000-01-01", "reading.outside"),
  ],
)
def test_what_is_unread_has_a_reason(text, code):
  with pytest.raises(DateError) as caught:
    ctd_jax.parse_date(text, "明")
  assert caught.value.problem.code == code


def test_names_are_matched_whole():
  # 中 is no part of a heading 「武帝中」.
  (reading,) = ctd_jax.parse_date("南梁武帝中大通六年五月", "zh")
  assert reading.era == "中大通"
  with pytest.raises(DateError) as caught:
    ctd_jax.parse_date("清萬曆十年", "zh")
  assert caught.value.problem.code == "problem.date.state"


def test_unknown_calendars_are_refused():
  with pytest.raises(ValueError, match="明"):
    ctd_jax.parse_date("萬曆十五年", "明明")
  with pytest.raises(ValueError, match="zh"):
    ctd_jax.parse_date("萬曆十五年", [])


def test_names_of_days_are_read_back():
  reader = date_readings.load_reader("zh,ja")
  chance = random.Random(3)
  for _ in range(300):
    day = chance.randint(1_900_000, 2_418_000)
    year, month, number = sexagenary.to_civil_date(day)
    (reading,) = reader.read(f"{year:04d}-{month:02d}-{number:02d}")
    for name in (reading.name, *reading.parallel_names):
      found = [it.first_day for it in reader.read(name)]
      assert day in found, name


def test_readings_are_objects_of_json():
  values = ctd_jax.parse_date("萬曆十五年三月廿六日", "明")[0].to_dict()
  assert values["first_julian_day"] == values["last_julian_day"] == 2300822
  assert values["gregorian"] == ("1587-05-03", "1587-05-03")


def test_months_of_a_year_have_their_names():
  reader = date_readings.load_reader("zh,ja")
  months = reader.list_months("1587")
  assert len(months) == 17  # five begin or end on other days in Japan
  (month, names) = months[2]
  assert (month.month, month.edtf) == (2, "1587-03-09/1587-04-07")
  assert names == (
    "明神宗萬曆十五年二月",
    "日本正親町天皇天正十五年二月",
  )
  tang = date_readings.load_reader("唐").list_months("載初元年")
  numbers = [names[0][-2:] for _, names in tang]
  assert numbers[:4] == ["正月", "二月", "一月", "二月"]


@pytest.mark.parametrize(
  ("text", "calendars"),
  [
    # A year without an era, though a pair that could name a year follows.
    ("十年春正月辛未朔壬申", "ja"),
    ("八年春正月壬午朔丙戌", "ja"),
    ("五年正月朔癸卯", "zh"),
    # A Western day without a year.
    ("the 28. of October", "zh"),
    ("3 May", "all"),
    ("on May 3", "all"),
  ],
)
def test_a_date_without_its_era_or_year_says_so(text, calendars):
  with pytest.raises(DateError) as caught:
    date_readings.parse_date(text, calendars)
  assert caught.value.problem.code == "reading.unread.era"


@pytest.mark.parametrize(
  ("text", "edtf"),
  [
    ("光宅元年", "0684-10-21/0685-02-11"),
    ("證聖元年", "0694-11-26/0695-10-24"),
    ("乾元元年", "0758-03-22/0759-02-06"),
    ("萬曆四十八年", "1620-02-04/1620-08-27"),
  ],
)
def test_years_begin_and_end_with_their_era(text, edtf):
  assert read_days(text, "zh")[0] == edtf


@pytest.mark.parametrize(
  ("text", "state"),
  [
    ("開運二年五月", "後晉"),
    ("天成三年", "後唐"),
    ("貞明三年", "後梁"),
    ("太平興國二年", "宋"),
  ],
)
def test_states_that_counted_alike_are_one_reading(text, state):
  (reading,) = date_readings.parse_date(text, "zh")
  assert reading.polity == state
  assert any("吳越" in name for name in reading.parallel_names) or (
    state == "後梁"
  )


@pytest.mark.parametrize(
  ("text", "edtf"),
  [
    ("大正十五年十二月二十五日", "1926-12-25"),
    ("明治45年7月30日", "1912-07-30"),
    ("宣統三年十二月二十五日", "1912-02-12"),
    ("慶応四年九月八日", "1868-10-23"),
  ],
)
def test_the_day_of_a_change_may_have_the_old_name(text, edtf):
  reading = date_readings.parse_date(text)[0]
  assert reading.edtf == edtf
  assert not reading.contradictions
  assert [it.code for it in reading.assumptions] == ["reading.day_of_change"]


def test_the_second_day_after_an_era_is_contradicted():
  (reading,) = date_readings.parse_date("大正十五年十二月二十六日", "ja")
  assert [it.code for it in reading.contradictions] == ["reading.after_era"]


@pytest.mark.parametrize(
  ("text", "edtf"),
  [
    ("天寶十四載十一月", "0755-12-12/0756-01-10"),
    ("天宝三载", "0744-01-24/0745-02-09"),
    ("至德二載正月", "0757-01-29/0757-02-26"),
    ("天寶十四載", "0755-02-20/0756-02-08"),
  ],
)
def test_years_may_be_written_zai(text, edtf):
  assert read_days(text, "唐") == [edtf]
  assert read_days(text.replace("載", "年").replace("载", "年"), "唐") == [edtf]


def test_a_season_is_checked_by_the_month():
  for text in ("萬曆十五年秋三月", "開元十三年夏十月", "康熙六年冬正月庚午"):
    (reading,) = date_readings.parse_date(text, "唐,明,清")
    codes = [it.code for it in reading.contradictions]
    assert codes[0] == "reading.season"
  # The years of 景初 began a month early.
  for text in ("萬曆十五年秋八月", "元光元年冬十月", "景初二年春正月"):
    for reading in date_readings.parse_date(text, "西漢,曹魏,明"):
      assert not reading.contradictions


def test_what_names_no_single_year_is_unread():
  for text in ("0000-00-00", "1580年代"):
    with pytest.raises(DateError):
      date_readings.parse_date(text)
  assert read_days("0000") == ["-0001-12-30/0000-12-29"]


def test_the_example_of_the_documentation_is_true():
  (reading,) = ctd_jax.parse_date("萬曆十五年三月廿六日", "明")
  assert f"{(reading.edtf, reading.cyclic_day)}" in ctd_jax.parse_date.__doc__


@pytest.mark.parametrize(
  "text", ["甲申三月十九日", "甲申年三月十九日", "甲申春三月十九日"]
)
def test_a_pair_before_a_month_is_the_year(text):
  readings = date_readings.parse_date(text, "明")
  assert "1644-04-25" in [it.edtf for it in readings]
  assert {it.day for it in readings} == {19}
  assert {it.text for it in readings} == {text}


@pytest.mark.parametrize("text", ["永樂甲子", "萬曆己巳", "大明永樂甲子年"])
def test_a_pair_that_an_era_did_not_have_is_unread(text):
  with pytest.raises(DateError) as caught:
    date_readings.parse_date(text)
  assert caught.value.problem.code == "reading.unread.cycle"


def test_years_are_counted_for_the_longest_era_of_a_name():
  with pytest.raises(DateError) as caught:
    date_readings.parse_date("永曆三十七年")
  assert caught.value.problem.values["last"] == 16


@pytest.mark.parametrize("text", ["甲子日", "戊申日卒"])
def test_a_day_without_a_month_is_unread(text):
  with pytest.raises(DateError):
    date_readings.parse_date(text)


@pytest.mark.parametrize(
  ("text", "edtf"),
  [
    ("後至元元年十一月廿三日", "1335-12-16"),
    ("元后至元六年正月", "1340-02-06/1340-03-06"),
    ("前至元三十一年正月", "1294-02-04/1294-03-05"),
    ("洪武八年二月念四日", "1375-04-03"),
    ("洪武八年端午", "1375-06-12"),
    ("洪武八年八月中秋日", "1375-09-18"),
    ("洪武九年上元", "1376-02-13"),
  ],
)
def test_names_of_eras_and_days_have_one_reading(text, edtf):
  assert read_days(text, "元,明") == [edtf]
