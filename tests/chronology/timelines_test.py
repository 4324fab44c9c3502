"""Keys, intervals and timelines."""

import dataclasses
import itertools

import pytest

from ctd_jax.chronology.reigns import Interval, Reign, TimeKey, Timeline

LEAP_TIMELINE = Timeline(
  "leap",
  (Reign("甲公", "某", -10, 2), Reign("乙公", "某", -8, 3)),
  frozenset({(1, 2, 12), (2, 1, 5)}),
)


def test_keys_are_ordered_by_time():
  keys = [
    TimeKey(1, 1, 12),
    TimeKey(1, 2, 3),
    TimeKey(1, 2, 3, True),
    TimeKey(1, 2, 4),
    TimeKey(2, 1, 1),
  ]
  assert sorted(reversed(keys)) == keys


@pytest.mark.parametrize(
  "triple", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 13)]
)
def test_impossible_keys_are_refused(triple):
  with pytest.raises(ValueError, match="TimeKey"):
    TimeKey(*triple)


def test_text_form_round_trips():
  for key in LEAP_TIMELINE.months:
    assert TimeKey.parse(str(key)) == key
  assert str(TimeKey(1, 2, 12)) == "1-2-12"
  for text in ("1-2", "1-2-x", "1-2-12-"):
    with pytest.raises(ValueError, match=text):
      TimeKey.parse(text)


def test_leap_months_follow_their_month_and_shift_ordinals():
  timeline = LEAP_TIMELINE
  assert len(timeline) == 5 * 12 + 2
  end_of_year = timeline.ordinal(TimeKey(1, 2, 12))
  assert timeline.key_at(end_of_year + 1) == TimeKey(1, 2, 12, True)
  assert timeline.key_at(end_of_year + 2) == TimeKey(2, 1, 1)
  assert timeline.year_interval(1, 2).end == TimeKey(1, 2, 12, True)
  assert len(list(timeline.iterate_keys(timeline.year_interval(2, 1)))) == 13
  assert TimeKey(1, 1, 1, True) not in timeline


def test_ordinals_and_keys_are_inverse_and_increasing():
  keys = [LEAP_TIMELINE.key_at(i) for i in range(len(LEAP_TIMELINE))]
  assert keys == sorted(keys)
  assert [LEAP_TIMELINE.ordinal(key) for key in keys] == list(range(len(keys)))


def test_what_lies_outside_a_timeline_is_named():
  with pytest.raises(KeyError, match="3-1-1"):
    LEAP_TIMELINE.ordinal(TimeKey(3, 1, 1))
  for ordinal in (-1, len(LEAP_TIMELINE)):
    with pytest.raises(KeyError, match=r"0\.\.61"):
      LEAP_TIMELINE.key_at(ordinal)
  with pytest.raises(KeyError):
    LEAP_TIMELINE.year_interval(1, 3)


def test_class_counts_and_names():
  assert LEAP_TIMELINE.class_counts == (2, 3, 12)
  assert LEAP_TIMELINE.full_reign_name(2) == "某乙公"


def test_intervals_are_closed():
  interval = Interval(TimeKey(1, 1, 3), TimeKey(1, 1, 5))
  months = [month for month in range(1, 13) if TimeKey(1, 1, month) in interval]
  assert months == [3, 4, 5]
  assert LEAP_TIMELINE.interval_ordinals(interval) == (2, 4)
  with pytest.raises(ValueError, match="before it starts"):
    Interval(TimeKey(1, 1, 5), TimeKey(1, 1, 3))


def test_overlap_is_symmetric_and_means_a_shared_month():
  months = LEAP_TIMELINE.months[10:30]
  intervals = [
    Interval(months[a], months[b])
    for a in range(0, 20, 3)
    for b in range(a, 20, 4)
  ]
  for one, other in itertools.product(intervals, repeat=2):
    first, second = map(LEAP_TIMELINE.iterate_keys, (one, other))
    shared = set(first) & set(second)
    assert one.overlaps(other) == other.overlaps(one) == bool(shared)


def test_equal_timelines_share_their_rows():
  # A cache compares its key with an equal one at each look-up. The rows of
  # `LEAP_TIMELINE` may be forgotten by now: only those used lately are shared.
  one, other = (
    Timeline(
      "leap",
      tuple(map(dataclasses.replace, LEAP_TIMELINE.reigns)),
      frozenset({*LEAP_TIMELINE.leap_months}),
    )
    for _ in range(2)
  )
  assert one == other
  assert one.reigns is other.reigns
  assert one.leap_months is other.leap_months
