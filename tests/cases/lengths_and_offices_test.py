"""Lengths of time and former offices beside a day are no dates of it."""

import pytest

from ctd_jax.chronology import dates
from ctd_jax.dating.chronicle import chronicle_dating, chronicle_input
from tests.dating.chronicles import records_of


def read_heads(lines, reigns):
  """Returns the printed dates at the heads of the sections of lines."""
  sections = chronicle_dating.read_all_sections(
    records_of(lines, []), chronicle_input.load_reigns(reigns)
  )
  return [
    lines[section.record][section.start : section.date_end]
    for section in sections
  ]


@pytest.mark.parametrize(
  ("line", "heads"),
  [
    (
      "大和二年五月乙未以甲公為尚書庚子以前桂管觀察使乙侑為大夫",
      ["大和二年五月乙未", "庚子"],
    ),
    (
      "大和二年五月乙未以甲公為尚書庚子以上黨王乙為大夫",
      ["大和二年五月乙未", "庚子"],
    ),
    (
      "大和二年五月乙未幸南宮庚子朔以前宰相乙侑為太子少師",
      ["大和二年五月乙未", "庚子"],
    ),
    (
      "大和二年五月乙未幸南宮庚子以上都留守乙為尚書",
      ["大和二年五月乙未", "庚子"],
    ),
    # What was before a day.
    ("大和二年五月乙未詔庚子以前罪人皆免", ["大和二年五月乙未"]),
    ("大和二年五月乙未詔免庚子以前逋租", ["大和二年五月乙未"]),
    ("大和二年五月乙未詔庚子以後所納", ["大和二年五月乙未"]),
  ],
)
def test_a_day_before_a_former_office_opens_a_section(line, heads):
  assert read_heads([line], "唐") == heads


@pytest.mark.parametrize(
  ("line", "heads"),
  [
    (
      "神䴥四年二月癸酉還宮戰士賜復十年丁丑行幸南宮",
      ["神䴥四年二月癸酉", "丁丑"],
    ),
    (
      "神䴥四年二月癸酉還宮免其租二年丁丑行幸南宮",
      ["神䴥四年二月癸酉", "丁丑"],
    ),
    (
      "神䴥四年二月癸酉還宮百姓給復三年三月丁丑行幸南宮",
      ["神䴥四年二月癸酉", "三月丁丑"],
    ),
    (
      "太和七年正月庚申詔曰民租筭一年三月甲戌以民饑",
      ["太和七年正月庚申", "三月甲戌"],
    ),
    (
      "太和七年正月庚申詔曰免其賦一年夏四月甲戌以民饑",
      ["太和七年正月庚申", "夏四月甲戌"],
    ),
    # The year of an entry.
    (
      "太和七年正月庚申遣使振貸八年春正月甲戌以民饑",
      ["太和七年正月庚申", "八年春正月甲戌"],
    ),
  ],
)
def test_a_number_of_years_that_is_a_length_leaves_the_date(line, heads):
  assert read_heads([line], "北魏") == heads


def test_cyclic_years_stay_years():
  calendar = chronicle_input.load_reigns("唐")
  (cue,) = dates.find_date_cues("景雲二年辛亥春正月", calendar.timeline)
  assert (cue.year, cue.year_cycle) == (2, "辛亥")
  (cue,) = dates.find_date_cues("天復三年二月", calendar.timeline)
  assert cue.year == 3


def test_a_levy_for_next_year_opens_no_year():
  lines = [
    "成化八年春正月庚戌大祀天地於南郊",
    "二月丙子預徵山西河南明年賦",
    "三月癸丑賜進士及第",
  ]
  assert read_heads(lines, "明") == [
    "成化八年春正月庚戌",
    "二月丙子",
    "三月癸丑",
  ]


@pytest.mark.parametrize(
  ("line", "head"),
  [
    ("開元初，以甲公為相。", "開元初"),
    ("開元之末，卒。", "開元之末"),
    ("貞觀年間，修宮。", "貞觀年間"),
    ("開元中書舍人甲公奏事。", ""),
    ("開元二年，雨。", "開元二年"),
  ],
)
def test_a_part_of_an_era_at_the_head_is_a_year_of_it(line, head):
  assert read_heads([line], "唐") == [head]
