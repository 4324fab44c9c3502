"""A state that is printed beside a reign decides whose it is."""

import dataclasses

import pytest

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating, dating_warnings, eras
from ctd_jax.texts.works import HEADING, TEXT
from tests.dating.chronicles import records_of


@pytest.mark.parametrize(
  ("text", "year"),
  [
    ("日本貞觀十三年春正月，大水。", 871),
    ("唐貞觀十三年春正月，大水。", 639),
    ("後周世宗顯德三年正月，雨。", 956),
    ("周世宗顯德三年正月，雨。", 956),
    ("朝鮮太宗三年正月，雨。", 1403),
    ("朝鮮英宗三年正月，雨。", 1727),
    ("英祖三年正月，雨。", 1727),
    ("蒙古太宗三年正月，雨。", 1231),
    ("新羅善德王十二年九月，雨。", 643),
  ],
)
def test_a_state_tells_reigns_of_one_name_apart(text, year):
  calendar = calendar_lib.load_calendar("唐,後周,日本,朝鮮,新羅,元")
  (section,) = chronicle_dating.read_all_sections(records_of([text]), calendar)
  name, regnal_year = section.statements[0][1:]
  reigns = [calendar.timeline.reigns[k] for k in calendar.find_reigns(name)]
  assert {reign.accession + regnal_year - 1 for reign in reigns} == {year}


@pytest.mark.parametrize(
  ("headings", "years"),
  [
    (("高麗紀", "顯宗元文王", "德宗敬康王"), [1011, 1013, 1032, 1033]),
    (("朝鮮本紀第三", "孝宗", "顯宗彰孝大王"), [1651, 1653, 1660, 1661]),
  ],
)
def test_years_are_those_of_the_ruler_and_state_in_the_headings(
  headings, years
):
  state, first, second = headings
  # An era of another state does not end the years of a ruler.
  texts = (state, first, "二年，雨。", "洪武三年", "四年，雨。")
  texts += (second, "元年，雪。", "二年，雪。")
  records = [
    dataclasses.replace(r, kind=HEADING if r.text in headings else TEXT)
    for r in records_of(texts)
  ]
  calendar = calendar_lib.load_calendar("高麗,朝鮮,明")
  dates = chronicle_dating.date_records(records, calendar)
  assert [
    int(dates.calendar.years[month])
    for record, month in zip(records, dates.months[:, 0], strict=True)
    if record.text.endswith("。")
  ] == years


@pytest.mark.parametrize(
  ("polities", "text", "name"),
  [
    ("日本", "唐貞觀三年正月，雨。", "唐貞觀"),
    ("日本", "其年，新羅善德王三年也。", "善德王"),
    ("宋", "遼太祖三年春，雨。", "太祖"),
    ("高麗", "宣祖三年春正月，雨。", "宣祖"),
    ("秦,西漢", "平王三年春，雨。", "平王"),
    ("晉", "周幽王二年春，雨。", "周幽王"),
  ],
)
def test_rulers_that_a_calendar_lacks_are_named(polities, text, name):
  calendar = calendar_lib.load_calendar(polities)
  (era,) = eras.find_unknown_eras(text, calendar)
  assert era.name == name
  assert era.known or era.nearest
  (warning,) = dating_warnings.list_unknown_eras(
    records_of([text]), [], calendar
  )
  assert str(warning).startswith(f"{name} is not in the calendar {polities}")


@pytest.mark.parametrize(
  ("polities", "text"),
  [
    ("朝鮮", "英宗三年春正月，雨。"),
    ("朝鮮", "明年，諸侯王三年春不朝。"),
    ("宋", "高宗三年春，雨。"),
    ("日本", "貞觀三年正月，雨。"),
    ("秦,西漢", "孝文帝三年春，雨。"),
  ],
)
def test_rulers_of_the_calendar_are_not_unknown(polities, text):
  calendar = calendar_lib.load_calendar(polities)
  assert eras.find_unknown_eras(text, calendar) == []


@pytest.mark.slow
def test_a_month_is_named_by_the_state_that_the_text_prints():
  calendar = calendar_lib.load_calendar("遼,宋")
  lines = ["遼統和二年正月，雨。", "宋雍熙元年三月，雨。", "遼統和三年，雪。"]
  dates = chronicle_dating.date_records(records_of(lines), calendar)
  names = []
  for row, month in enumerate(dates.months[:, 0]):
    own = dates.reigns_of_sections[row]
    reigns = dates.find_naming_reigns(own, month)
    names.append(dates.calendar.name_month(month, reigns)[:2])
  assert names == [("遼聖宗統和", 2), ("宋太宗雍熙", 1), ("遼聖宗統和", 3)]
