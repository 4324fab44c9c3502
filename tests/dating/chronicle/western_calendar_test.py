"""Western annals are dated by the years, months and order that they print."""

import random

import numpy as np
import pytest

from ctd_jax.chronology import sexagenary
from ctd_jax.dating.chronicle import chronicle_dating, western
from ctd_jax.texts import read_works
from tests.dating.chronicles import records_of

EVENTS = (
  "there was a great famine over all the land.",
  "the moon was darkened.",
  "the abbot of the minster died.",
  "came a host out of the north, and burned the town.",
  "the king held a council.",
)
MONTH_NAMES = (
  *("January", "February", "March", "April", "May", "June", "July"),
  *("August", "September", "October", "November", "December"),
)
ORDINALS = ("first", "third", "eleventh", "twenty-second")


def write_annals(seed, first=760, last=800):
  """Returns paragraphs, a year each, and (year, month) of every sentence."""
  draw = random.Random(seed)
  paragraphs, truth = [], []
  for year in range(first, last + 1):
    months = sorted(draw.sample(range(1, 13), draw.randint(2, 4)))
    sentences = []
    for month in months:
      event = draw.choice(EVENTS)
      day = draw.choice(ORDINALS)
      sentences.append(f"On the {day} of {MONTH_NAMES[month - 1]} {event}")
    paragraphs.append((year, " ".join(sentences)))
    truth.append([(year, month) for month in months])
  return paragraphs, truth


def date_annals(records, calendar):
  sections = western.read_all_western_sections(records)
  return sections, chronicle_dating.date_sections(records, sections, calendar)


def test_months_are_julian_and_then_gregorian():
  calendar = western.make_western_calendar(1581, 1583)
  # September, October and November of 1582.
  assert calendar.day_spans[20:23, 1].tolist() == [30, 21, 30]
  start = calendar.day_spans[0, 0]
  assert start == sexagenary.to_julian_day(1581, 1, 1)
  assert np.array_equal(
    calendar.day_spans[1:, 0], calendar.day_spans[:-1].sum(axis=1)
  )
  assert calendar.name_month(13) == ("CE", 1582, "2")


def test_years_before_the_common_era_count_down():
  calendar = western.load_western_calendar("CE:2 BCE-2", [])
  names = [calendar.name_month(place)[:2] for place in range(0, 48, 12)]
  assert names == [("BCE", 2), ("BCE", 1), ("CE", 1), ("CE", 2)]
  assert western.is_western(calendar)


def test_the_calendar_has_the_years_that_the_text_prints():
  records = records_of(
    ["A.D. 787. Ships.", "The king, who in 1400 slept.", "In 800 a famine."]
  )
  calendar = western.load_western_calendar("CE", records)
  assert (calendar.years[0], calendar.years[-1]) == (777, 810)


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("CE", "--reigns=CE: no record opens with a year .*--reigns=CE:700-1160"),
    ("CE:900-800", "first year is after the last"),
    ("CE:0-800", "--reigns=CE:0-800: not a year: '0'"),
    ("CE:700-9000", "year 9000 CE: expected years up to 5000"),
    ("宋", "expected CE or a range like CE:700-1160"),
  ],
)
def test_years_that_cannot_be_read_are_named(name, message):
  with pytest.raises(ValueError, match=message):
    western.load_western_calendar(name, records_of(["Ships."]))


@pytest.mark.slow
@pytest.mark.parametrize("share_cut", [0.0, 0.7])
def test_annals_are_dated_where_years_are_cut(share_cut):
  paragraphs, truth = write_annals(seed=7)
  draw = random.Random(1)
  records = records_of(
    text if index and draw.random() < share_cut else f"A.D. {year}. {text}"
    for index, (year, text) in enumerate(paragraphs)
  )
  calendar = western.load_western_calendar("CE", records)
  sections, dates = date_annals(records, calendar)
  assert len(sections) == sum(map(len, truth))
  best = dates.months[:, 0]
  found = np.stack([dates.calendar.years[best], dates.calendar.months[best]], 1)
  assert np.mean((found == np.concatenate(truth)).all(1)) > 0.97


def test_annals_in_print_are_dated_by_their_headings(tmp_path):
  path = tmp_path / "annals.txt"
  path.write_text(
    "A.D. 787. Here were portents. On the 6 Ides of January came ships.\n\n"
    "In the summer the king died.\n\nA.D. 788.\n\n"
    "A.D. 789\n\nThis year was a synod. On 3 Non. Maii the abbot died.\n\n"
    "In January there was a great wind.\n",
    encoding="utf-8",
  )
  (work,) = read_works(path)
  records = list(work.entries)
  calendar = western.load_western_calendar("CE", records)
  sections, dates = date_annals(records, calendar)
  months = {}
  for section, month in zip(sections, dates.months[:, 0], strict=True):
    text = records[section.record].text[section.start : section.stop]
    months[text.strip()] = dates.calendar.name_month(month)[1:]
  assert months["On the 6 Ides of January came ships."] == (787, "1")
  assert months["In the summer the king died."][0] == 787
  assert months["A.D. 788."][0] == 788
  assert months["This year was a synod."][0] == 789
  assert months["On 3 Non. Maii the abbot died."] == (789, "5")
  # The heading above it is of another paragraph: a heading may be lost.
  assert months["In January there was a great wind."] == (790, "1")
