"""What records print of their dates, on the months of a reign table."""

import numpy as np
import pytest

from ctd_jax.chronology import reigns, sexagenary
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  emissions,
  section_reading,
)
from ctd_jax.dating.chronicle.sections import DAY, SEASON
from tests.dating.chronicle.conftest import ERAS
from tests.dating.chronicles import format_table, records_of


def test_a_month_of_two_eras_is_one_month(eras):
  ordinary = np.flatnonzero(~eras.is_leap)
  assert (
    eras.years[ordinary].tolist() == np.repeat(range(300, 306), 12).tolist()
  )
  may, june = ordinary[2 * 12 + 4 : 2 * 12 + 6]  # of 302
  assert eras.name_month(may) == ("滄安初", 3, "5")
  assert eras.name_month(june) == ("滄永熹", 1, "6")
  members = eras.memberships
  of_302 = eras.years[members.lunations] == 302
  found = np.stack([members.reigns[of_302], members.regnal_years[of_302]], 1)
  assert np.unique(found, axis=0).tolist() == [[0, 3], [1, 1]]


def test_leap_months_and_days_are_computed(eras):
  first, length = eras.day_spans.T
  assert set(length.tolist()) == {29, 30}
  assert (first[1:] == first[:-1] + length[:-1]).all()
  leaps = np.flatnonzero(eras.is_leap)
  assert len(leaps) == 2
  assert (eras.months[leaps] == eras.months[leaps - 1]).all()
  assert eras.name_month(leaps[0])[2].endswith("L")


@pytest.mark.slow
def test_reforms_of_the_calendar_leave_every_day_in_one_month():
  long = calendar_lib.make_calendar(
    reigns.Timeline("long", (reigns.Reign("初", "", 200, 1500),))
  )
  first, length = long.day_spans.T
  assert (first[1:] == first[:-1] + length[:-1]).all()
  assert length.min() >= 28
  assert length.max() == 30
  assert (np.diff(long.years) >= 0).all()
  # 237 lacks the third month, 239 has a second twelfth.
  reformed = long.months[long.years == 237]
  assert reformed.tolist() == [1, 2, *range(4, 13)]
  last = np.flatnonzero(long.years == 239)[-1]
  assert long.name_month(last) == ("初", 40, "12L")


def test_early_calendars_have_places(tmp_path):
  path = tmp_path / "table.tsv"
  path.write_text(format_table(("懷公", -500, 8)), encoding="utf-8")
  early = calendar_lib.read_calendar(path)
  assert early.day_spans is None
  assert len(early) == 96
  held = early.day_chances[..., :60]
  # A lunation later, and the year begins with what was its second month.
  starts = np.flatnonzero(early.months == 1)
  np.testing.assert_array_equal(held[1:, starts], held[:-1, starts + 1])
  sure = (held == 1).sum(-1)
  assert set(sure[:, early.months < 12].flat) == {29, 30}
  assert not (held[0, starts] * held[1, starts] == 1).any()
  found = emissions.SectionEmissions(
    section_reading.read_sections(0, "夏，四月，癸未，地震。", early), early
  )
  by_place = found(0, 1)[0, :, :-1]
  assert by_place.shape == (4, 96)
  np.testing.assert_allclose(found.offset_transition.sum(1), 1)
  april = early.months == 4
  wrong = emissions.LOG_ERROR_ODDS
  assert by_place[:, ~april].max() == wrong["month"]
  day = held[..., sexagenary.parse_cyclic_index("癸未")]
  assert (by_place[:, april] == 0).tolist() == (day[:, april] == 1).tolist()
  assert by_place[:, april].min() == pytest.approx(wrong["day"])


# Duke, year, month and day of the eclipses on which the Annals print the first
# day of the month. Not 昭 17.6, which cannot have been in that month.
ECLIPSES = (
  *((2, 3, 7, "壬辰"), (3, 25, 6, "辛未"), (3, 26, 12, "癸亥")),
  *((3, 30, 9, "庚午"), (5, 5, 9, "戊申"), (6, 15, 6, "辛丑")),
  *((8, 16, 6, "丙寅"), (8, 17, 12, "丁巳"), (9, 14, 2, "乙未")),
  *((9, 20, 10, "丙辰"), (9, 21, 9, "庚戌"), (9, 21, 10, "庚辰")),
  *((9, 23, 2, "癸酉"), (9, 24, 7, "甲子"), (9, 24, 8, "癸巳")),
  *((9, 27, 12, "乙亥"), (10, 7, 4, "甲辰"), (10, 15, 6, "丁巳")),
  *((10, 21, 7, "壬午"), (10, 22, 12, "癸酉"), (10, 24, 5, "乙未")),
  *((10, 31, 12, "辛亥"), (11, 5, 3, "辛亥"), (11, 12, 11, "丙寅")),
  *((11, 15, 8, "庚辰"), (12, 14, 5, "庚申")),
)


@pytest.mark.slow
def test_eclipses_of_the_annals_are_first_days_of_a_place():
  lu = calendar_lib.read_calendar(reigns.reign_table_dir() / "lu.tsv")
  first = lu.day_chances[..., 60:120]
  sure = []
  for reign, year, month, pair in ECLIPSES:
    key = reigns.TimeKey(reign, year, month)
    (place,) = np.flatnonzero(
      (lu.years == reigns.astronomical_year_of(lu.timeline, key))
      & (lu.months == month)
    )
    sure.append(first[:, place, sexagenary.parse_cyclic_index(pair)].max())
  # None is further off than a day.
  assert min(sure) >= 1 / 3
  assert np.mean(np.array(sure) == 1) > 0.8


def evidence(text, calendar):
  """Returns the log p of the first section of a text on months and outside."""
  sections = section_reading.read_sections(0, text, calendar)
  return emissions.SectionEmissions(sections, calendar)(0, 1)[0, 0]


@pytest.mark.parametrize(
  ("text", "right"),
  [
    ("二年，大水。", lambda c: np.isin(c.years, [301, 303])),
    ("永熹二年，大水。", lambda c: c.years == 303),
    ("大赦，改元永熹。", lambda c: c.years == 302),
    ("歲在癸亥，大水。", lambda c: c.years == 303),
    ("冬，十月，大水。", lambda c: (c.months == 10) & ~c.is_leap),
    ("閏月，大水。", lambda c: c.is_leap),
    ("永熹", lambda c: c.years >= 302),
    ("公元303年，大水。", lambda c: c.years == 303),
  ],
)
def test_evidence_is_highest_where_the_date_is_right(text, right, eras):
  row = evidence(text, eras)[:-1]
  best = row == row.max()
  if text.startswith("冬"):
    best &= ~eras.is_leap
  assert (best == right(eras)).all()
  assert row.max() - row.min() >= 2


def test_a_day_fits_the_months_that_hold_it(eras):
  row = evidence("乙酉，大赦。", eras)
  for place, (first, length) in enumerate(eras.day_spans.tolist()):
    days = map(sexagenary.cyclic_index_of_day, range(first, first + length))
    assert (row[place] == 0) == (21 in days)


@pytest.mark.parametrize("mark", ["朔", "晦"])
def test_first_and_last_days_say_more(mark, eras):
  first, length = eras.day_spans[20]
  day = int(first + (length - 1 if mark == "晦" else 0))
  pair = sexagenary.format_cyclic_index(sexagenary.cyclic_index_of_day(day))
  row = evidence(f"{pair}{mark}，隕石。", eras)[:-1]
  any_day = evidence(f"{pair}，隕石。", eras)[:-1]
  assert row[20] == any_day[20] == 0
  assert (row > -2).sum() < (any_day > -2).sum() / 4
  assert row.min() == pytest.approx(emissions.LOG_ERROR_ODDS["first day"])


def test_blocks_are_parts_of_the_whole(eras):
  texts = ["春，正月，大水。", "乙酉，雨。", "夏，四月，城成。秋，大水。"]
  found = emissions.SectionEmissions(
    chronicle_dating.read_all_sections(records_of(texts), eras), eras
  )
  assert found.kinds.tolist() == [SEASON, DAY, SEASON, SEASON]
  assert found.statement_counts == {"month": 2, "day": 1, "season": 1}
  np.testing.assert_array_equal(
    np.concatenate([found(0, 3), found(3, 4)]), found(0, 4)
  )


def test_what_is_printed_is_evidence_of_the_calendar_itself(eras):
  def outside(text):
    row = evidence(text, eras)
    return row[-1] - row[:-1].max()

  assert outside("大水。") == 0
  assert outside("永熹二年，大水。") < outside("春，大水。") < 0
  # An era of another calendar.
  assert outside("洪武三年，大水。") > 3


def test_a_fixed_date_outweighs_what_is_printed(eras):
  sections = section_reading.read_sections(0, "永熹二年三月，大水。", eras)
  is_allowed = np.arange(len(eras)) == 7
  (row,) = emissions.SectionEmissions(sections, eras, {0: is_allowed})(0, 1)[0]
  assert row.argmax() == 7
  assert np.delete(row, 7).max() < row[7] - 1000


def test_some_months_are_read_as_among_all(eras):
  sections = chronicle_dating.read_all_sections(
    records_of(["永熹二年三月甲子，大水。", "春，大水。"]), eras
  )
  is_allowed = np.arange(len(eras)) < 10
  found = emissions.SectionEmissions(sections, eras, {1: is_allowed})
  np.testing.assert_array_equal(
    found(0, 2, slice(7, 20)), found(0, 2)[..., [*range(7, 20), -1]]
  )


def test_a_year_the_table_lacks_says_nothing(eras):
  assert not evidence("九年，大水。", eras)[:-1].any()


@pytest.mark.parametrize(
  ("old", "new", "message"),
  [
    ("\t3\t\t", "\tmany\t\t", "table.tsv, line 2: column 'years'"),
    ("\t3\t\t", "\t99999999\t\t", "table.tsv, line 2: .*between -5000"),
    ("invented", "\udcff", "table.tsv: not UTF-8"),
  ],
)
def test_a_bad_table_is_named(tmp_path, old, new, message):
  path = tmp_path / "table.tsv"
  path.write_bytes(ERAS.replace(old, new, 1).encode(errors="surrogateescape"))
  with pytest.raises(ValueError, match=message):
    calendar_lib.read_calendar(path)
