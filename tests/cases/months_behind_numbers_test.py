"""A month behind a number is read where its day of the cycle follows."""

import pytest

from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_dating, dated_sections
from ctd_jax.texts.works import Entry, Place


def list_months(text, reigns):
  """Returns the months of the sections of a text."""
  records = [Entry(text, Place("試.txt", 1))]
  dates = chronicle_dating.date_records(
    records, calendar_lib.load_calendar(reigns)
  )
  return [row.months.month.month for row in dated_sections.make_rows(dates)]


@pytest.mark.parametrize(
  ("text", "reigns", "months"),
  [
    ("隆慶六年五月庚戌崩年三十六七月丙戌上尊諡", "明", [5, 7]),
    ("洪熙元年五月辛巳崩年四十有八七月己巳上尊諡", "明", [5, 7]),
    ("元和七年四月癸巳詔樹桑二六月癸巳某罷", "唐", [4, 6]),
    # Two or three months, and a month that there is not.
    ("元和七年四月癸巳病二三月癸巳某罷", "唐", [4, 4]),
    ("元和七年三月癸巳二十三月癸巳某罷", "唐", [3, 3]),
  ],
)
def test_a_month_behind_a_number_is_read(text, reigns, months):
  assert list_months(text, reigns) == months
