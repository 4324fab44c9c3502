"""Dates that records state of themselves."""

import pytest

from ctd_jax.chronology import questions, reigns
from ctd_jax.chronology.reigns import Reign, Timeline

TIMELINE = Timeline(
  "test", (Reign("甲公", "滄", -700, 3), Reign("乙公", "滄", -697, 3))
)


def test_date_inside_a_text_is_a_reference_not_its_month():
  assert stated("滄甲公二年三月：無事可書。") == "1-2-3..1-2-3"
  assert stated("來盟之事，在滄甲公二年三月，傳有明文。") is None
  assert stated("秋，有星孛于東方。") is None


def stated(text, timeline=TIMELINE):
  interval = questions.find_stated_interval(text, timeline)
  return interval and str(interval)


@pytest.mark.parametrize(
  ("heading", "months"),
  [
    ("晋纪 晋世祖武皇帝咸宁四年十月（丁亥）", "12-4-10..12-4-10"),
    ("晋纪 晋世祖武皇帝泰始元年无月", "11-1-1..11-1-12"),
    ("晋纪 晋世祖武皇帝泰始元年冬", "11-1-10..11-1-12"),
    ("晋纪 公元265年三月", "11-1-3..11-1-3"),
    ("齐纪 建元元年四月（甲午）", "51-1-4..51-1-4"),
    ("僖公", None),
  ],
)
def test_a_heading_in_brackets_states_the_date(heading, months):
  tongjian = reigns.load_timeline("tongjian")
  assert stated(f"【{heading}】\n泠伯會盟于桃丘。", tongjian) == months
