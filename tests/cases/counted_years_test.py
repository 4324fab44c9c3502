"""Years of the cycle beside years that are counted otherwise."""

import pytest

from ctd_jax.dating.chronicle import chronicle_dating, chronicle_input
from ctd_jax.texts.works import Entry, Place


def date_lines(lines, polity):
  """Returns the astronomical year and probability of every line."""
  calendar = chronicle_input.load_reigns(polity)
  records = [Entry(line, Place("text.txt", n)) for n, line in enumerate(lines)]
  dates = chronicle_dating.date_records(records, calendar)
  years = dates.calendar.readings.years[dates.calendar.readings.starts]
  best = zip(dates.months[:, 0], dates.probabilities[:, 0], strict=True)
  return [(int(years[month]), probability) for month, probability in best]


@pytest.mark.parametrize(
  ("polity", "lines", "years"),
  [
    # The table begins 天福 in 980.
    (
      "越前黎,越李",
      [
        "(辛巳)天福元年春三月宋將來侵",
        "(壬午)天福二年夏六月王自將伐占城",
        "三年秋七月大水",
        "(己丑)興統元年春二月鑄錢",
        "(庚寅)興統二年春三月王幸長春府",
      ],
      [981, 982, 983, 989, 990],
    ),
    # 武德 began in 618.
    (
      "唐",
      [
        "（己卯）武德元年春正月大赦",
        "（庚辰）武德二年夏四月旱",
        "（丁亥）貞觀元年春正月改元",
      ],
      [619, 620, 627],
    ),
    # One number that does not fit is a misprint.
    (
      "唐",
      [
        "（戊寅）武德元年六月大赦",
        "（庚辰）武德二年夏四月旱",
        "（辛巳）武德四年夏五月雨",
      ],
      [618, None, 621],
    ),
  ],
)
def test_years_are_counted_as_the_cycle_beside_them_says(polity, lines, years):
  dated = date_lines(lines, polity)
  for (year, probability), right in zip(dated, years, strict=True):
    if right is not None:
      assert year == right
      assert probability > 0.8


@pytest.mark.parametrize(
  "line",
  [
    "（戊申）九年正月雨",
    "【戊申】九年正月雨",
    "（戊申歲）九年正月雨",
    "〈戊申〉九年正月雨",
  ],
)
def test_a_year_of_the_cycle_that_is_set_apart_outweighs_a_bare_number(line):
  lines = [
    "（丙午）應天十三年春正月王幸行宮",
    "（丁未）十四年夏五月大水",
    line,
    "（己酉）景瑞二年秋七月鑄錢",
  ]
  dated = date_lines(lines, "越前黎")
  assert [year for year, _ in dated] == [1006, 1007, 1008, 1009]
  assert dated[2][1] > 0.8
