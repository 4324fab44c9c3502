"""Diaries: entries headed by their days carry months and years on."""

import pytest

from ctd_jax.chronology import sexagenary
from ctd_jax.dating.chronicle import (
  calendar,
  chronicle_dating,
  dated_sections,
  diaries,
)
from tests.dating.chronicles import records_of

# The first text that a process dates compiles the decoder, for some 5 s.
pytestmark = pytest.mark.usefixtures("compiled_decoder")
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


def test_entries_of_many_paragraphs_pass_over_dates_that_they_tell_of():
  days = [sexagenary.format_cyclic_index(pair % 60) for pair in range(4, 29)]
  lines = [f"{day}發某驛行三十里" for day in days]
  lines[0] = "淳熙四年五月二十九日" + lines[0]
  lines[12] += "寺碑云四月四日立"
  records = [
    line for day in lines for line in (day, "駐蹕", "古城在焉", "志云")
  ]
  dated = date(records)
  # The thirtieth day would be the first of the next month.
  assert [month for _, _, month, *_ in dated] == [5] * 4 + [6] * 96


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


@pytest.mark.parametrize(
  "record",
  [
    "公諱某字某世為婺源人以乾道三年五月七日生幼而嗜學登第授某縣尉以嘉定九年三月"
    "二日卒於家以嘉定十年十一月甲申葬於某山之原初公之在縣也紹興二年所立碑仆於野",
    "公諱某，字某。以乾道三年五月七日生。嘉定九年三月二日，卒於家，享年五十。"
    "以十年十一月甲申，葬於某山。初，紹興二年所立碑仆於野，公復立之。",
    "公諱某。生於乾道三年五月七日，卒於嘉定九年三月二日，葬於嘉定十年十一月甲申，年五十。",
    "公諱某。乾道三年五月七日生，嘉定九年三月二日卒，嘉定十年十一月甲申葬。",
  ],
)
def test_birth_death_and_burial_of_an_epitaph_have_their_own_time(record):
  # The next epitaph begins again earlier.
  dated = date([record, "夫人姓李氏。淳熙二年八月五日，卒。"])
  days = [(*row[1:4],) for row in dated if row[4] > 0.7 and row[3]]
  assert days == [
    (1167, 5, 7),
    (1216, 3, 2),
    (1217, 11, 10),
    (1175, 8, 5),
  ]


@pytest.mark.parametrize(
  "text",
  [
    "某啟。比承書問，知已到任。秋涼，伏惟萬福。淳熙五年八月二十日，某頓首。",
    "某啟。秋涼，伏惟萬福。淳熙五年八月二十日某白。",
    "是書成於諸友之手。淳熙五年八月二十日，新安某謹書。",
  ],
)
def test_the_date_at_the_end_of_a_letter_is_that_of_all_of_it(text):
  letters = [
    "淳熙四年六月一日，某再拜。",
    text,
    "某頓首。紹熙元年二月三日，某書。",
  ]
  dated = date(letters)
  assert [row[1:3] for row in dated] == [
    (1177, 6),
    *[(1178, 8)] * 2,
    *[(1190, 2)] * 2,
  ]
  assert min(row[4] for row in dated) > 0.9


def test_a_date_mentioned_in_a_letter_does_not_carry_time_on():
  dated = date(
    [
      "淳熙二年四月十五日，某頓首。紹興三十年某嘗過其地。",
      "某再拜。五月三日書至。",
      "六月九日，某白。",
    ]
  )
  assert [row[1:4] for row in dated if row[3]] == [
    (1175, 4, 15),
    (1175, 5, 3),
    (1175, 6, 9),
  ]


@pytest.mark.parametrize("place", ["州學", "社稷壇", "通濟橋", "某寺"])
def test_entries_of_a_gazetteer_have_their_own_years(place):
  dated = date(
    [
      f"{place}，在子城東。乾道四年，知州某建。淳熙二年三月，增廣。",
      "廣惠橋，紹興三年建，乾道五年圮，淳熙元年重建。",
      "知州：某，慶元元年二月到任。某，慶元三年五月到任，嘉泰元年除郎官。",
    ]
  )
  years = [year for text, year, *_ in dated if "年" in text]
  assert years == [1168, 1175, 1133, 1169, 1174, 1195, 1197, 1201]
