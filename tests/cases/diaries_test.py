"""Diaries: entries headed by their days carry months and years on."""

import pytest

from ctd_jax.dating.chronicle import (
  calendar,
  chronicle_dating,
  dated_sections,
  diaries,
)
from tests.dating.chronicles import records_of

# Days without a month printed; a month that was not mentioned is carried on.
PLAIN = [
  "乾道六年七月一日。離瓜洲。",
  "二日。見知州。",
  "三日。雨。",
  "四日。發真州。",
  "十一日。過三山磯。",
  "十三日。通判來見。",
  "十四日。開窗觀溪山。",
  "八月一日。過烽火磯。",
  "二日。遇雨。",
]
QUOTING = [
  *PLAIN[:5],
  "十二日。泛溪。州本唐縣。太平興國二年，遂以為州，割三縣來屬。",
  *PLAIN[5:],
]
BARE = [line.replace("。", "") for line in QUOTING]
MONTHS_AS_HEADINGS = [
  "乾道六年",
  "七月",
  "初一日。離瓜洲。",
  "初二日。見知州。紹聖二年三月辛亥，蘇某題名。",
  "初三日。雨。",
  "初五日。發真州。",
  "八月",
  "初一日。過磯。",
  "初二日。遇雨。",
]
ONE_RECORD = [
  "余以乾道壬辰歲十二月七日離家赴任親友送於郊外八日宿舟中九日大雪十日泊柳塘十一日"
  "登塔十二日過石橋留二日十四日至州紹興二年碑在焉",
]
CYCLIC = [
  "某以淳熙丁酉歲五月二十九日戊辰出城是日宿舟中臘月賞梅於此六月己巳朔行三十里"
  "庚午早頓辛未登樓壬申泊山下癸酉登山四月熟梅甲戌下山乙亥發縣丙子早頓丁丑大雨",
]


def date(lines, reigns="南宋"):
  """Returns (start of text, year, month, day, probability) of the sections."""
  dates = chronicle_dating.date_records(
    records_of(lines), calendar.load_calendar(reigns)
  )
  return [
    (
      row.text[:4],
      row.months.month and row.months.month.common_era_year,
      row.months.month and row.months.month.month,
      row.dates.day_of_month,
      row.months.probability,
    )
    for row in dated_sections.make_rows(dates)
    if not row.is_heading
  ]


@pytest.mark.parametrize(
  ("lines", "reigns"),
  [
    (PLAIN, "南宋"),
    (QUOTING, "宋"),
    (BARE, "南宋"),
    (MONTHS_AS_HEADINGS, "南宋"),
  ],
)
def test_days_carry_month_and_year_on(lines, reigns):
  dated = date(lines, reigns)
  assert {year for _, year, *_ in dated} == {1170}
  assert [month for _, _, month, *_ in dated[-3:]] == [7, 8, 8]
  assert all(day for *_, day, _ in dated)
  assert min(chance for *_, chance in dated) > 0.9


def test_days_in_running_text_open_sections_and_lengths_do_not():
  dated = date(ONE_RECORD)[1:]
  days = [(year, month, day) for _, year, month, day, _ in dated]
  # 1172 was the year 壬辰; its twelfth month is still counted in it.
  assert days == [(1172, 12, day) for day in (*range(7, 13), 14)]


def test_days_of_the_cycle_that_follow_one_another_carry_their_month():
  dated = date(CYCLIC)[1:]
  assert [(month, day) for _, _, month, day, _ in dated] == [
    (5, 29),
    *((6, day) for day in range(1, 10)),
  ]
  assert {year for _, year, *_ in dated} == {1177}


@pytest.mark.parametrize(
  "lines",
  [
    # Lengths of time, and days of documents.
    ["三日而成。", "二日不食。", "十五日，詔曰可。", "五日一朝。"],
    # Annals print days of the cycle in order, but not every day.
    [
      f"{day}，雨。"
      for day in [
        "甲子",
        "己巳",
        "壬申",
        "乙亥",
        "庚辰",
        "甲申",
        "丁亥",
        "庚寅",
      ]
    ],
  ],
)
def test_other_texts_are_no_diaries(lines):
  table = calendar.load_calendar("宋")
  dates = [
    chronicle_dating.section_reading.find_printed_dates(line, table)
    for line in lines
  ]
  assert not diaries.find_diary_days(lines, dates)


def test_a_month_that_days_count_past_is_not_carried_on():
  lines = ["乾道三年正月二十八日。雨。"]
  lines += [
    f"{day}日。雨。" for day in ["二十九", "三十", "一", "二", "三", "四"]
  ]
  assert [row[2:4] for row in date(lines)][-4:] == [(2, n) for n in range(1, 5)]
