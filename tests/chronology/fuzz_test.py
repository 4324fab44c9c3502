"""Hostile text meets every reader of dates and editions.

No reader may fail otherwise than by its own named error, whatever it is given,
and what it returns has to keep its promises. The readers of whole files have
tests of the same kind beside this one. The short run is part of the tests;
before a release, and after a change of a pattern, run more cases. This is
1,000 of each test, more than 25,000 in all, in five minutes of one core:

  CTD_JAX_FUZZ_EXAMPLES=1000 python -m pytest -n 0 tests/*fuzz_test.py

The cases are new every time, unless --hypothesis-seed is given;
--hypothesis-show-statistics counts them.
"""

import contextlib
import dataclasses
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctd_jax.chronology import (
  annals,
  numerals,
  reigns,
  sexagenary,
  western_dates,
)
from ctd_jax.chronology import dates as dates_lib
from ctd_jax.chronology import questions as questions_lib
from ctd_jax.chronology.numerals import DateError
from ctd_jax.chronology.reigns import Interval, TimeKey
from ctd_jax_datasets.chunqiutr import base_texts
from ctd_jax_datasets.common import source_files
from tests.chronology.hostile_text import (
  TIMELINES,
  annals_text,
  anything,
  comment_marks,
  damaged,
  dates,
  fuzz,
  invented_timelines,
  joined,
  pieces,
  questions,
  template_questions,
  timelines,
)
from tests.data.chunqiutr import edition_files

scanners = st.builds(
  annals.MonthScanner,
  st.just({})
  | st.sampled_from(TIMELINES).map(
    lambda timeline: {
      row.name: number for number, row in enumerate(timeline.reigns, 1)
    }
  ),
  st.integers(0, 3),
  st.integers(0, 40),
  st.integers(1, 12),
)


@contextlib.contextmanager
def quoting(text):
  """Lets a DateError pass that quotes a position of `text`."""
  with suppressed(DateError) as caught:
    yield
  for error in caught:
    assert error.text == text
    assert 0 <= error.position <= len(text)
    quoted = text[error.position : error.position + numerals.EXCERPT_LENGTH]
    assert repr(quoted) in str(error)


@contextlib.contextmanager
def naming(path):
  """Lets a SourceError pass that names the file."""
  with suppressed(source_files.SourceError) as raised:
    yield
  for error in raised:
    assert path.name in str(error)


@contextlib.contextmanager
def suppressed(kind):
  """Gives a list that holds the error of that kind, if one comes."""
  caught = []
  try:
    yield caught
  except kind as error:
    caught.append(error)


# Numerals, spellings, sexagenary days and years.


@pytest.mark.slow
@fuzz
@given(damaged(joined(st.sampled_from("元正百十廿卅零有又兩9０一三")), most=1))
@example("9" * 5000)
def test_a_numeral_is_a_number_or_a_date_error(text):
  for unit in (None, "year", "month"):
    with quoting(text):
      number = numerals.parse_numeral(text, unit)
      assert 1 <= number <= 9999
      if number < 100:
        again = numerals.format_numeral(number)
        assert numerals.parse_numeral(again, unit) == number


@fuzz
@given(joined(pieces))
def test_folding_keeps_places_and_is_done_once(text):
  folded = numerals.fold_script(text)
  assert len(folded) == len(text) == len(numerals.to_simplified(text))
  assert numerals.fold_script(folded) == folded
  assert numerals.fold_script(numerals.to_simplified(text)) == folded


@fuzz
@given(joined(pieces, 5) | damaged(st.sampled_from(("己未年", "歲在甲子"))))
def test_sexagenary_names(text):
  with contextlib.suppress(ValueError):
    assert 0 <= sexagenary.parse_cyclic_index(text) < sexagenary.CYCLE_LENGTH


@fuzz
@given(st.integers(-(10**6), 10**7))
def test_days_of_the_calendar(day):
  year, month, number = sexagenary.to_civil_date(day)
  assert 1 <= month <= 12
  assert 1 <= number <= 31
  assert sexagenary.to_julian_day(year, month, number) == day


# Dates and windows.


@pytest.mark.slow
@fuzz
@given(annals_text() | joined(pieces), timelines | st.none())
def test_cues_lie_in_the_text_one_after_another(text, timeline):
  cues = dates_lib.find_date_cues(text, timeline)
  end = 0
  for cue in cues:
    assert end <= cue.start < cue.end <= len(text)
    end = cue.end
    assert cue.year is None or cue.year >= 1
    assert cue.month is None or 1 <= cue.month <= 12
    assert cue.season is None or cue.season in dates_lib.SEASONS
    for pair in (cue.day, cue.year_cycle):
      assert (
        pair is None
        or sexagenary.parse_cyclic_index(pair) < sexagenary.CYCLE_LENGTH
      )
    assert any(dataclasses.astuple(cue)[2:])
  names = {row.name for row in (timeline or TIMELINES[0]).reigns}
  assert {cue.reign for cue in cues} <= names | {None}
  # One text in either script says the same.
  assert dates_lib.find_date_cues(numerals.fold_script(text), timeline) == cues
  assert (
    dates_lib.find_date_cues(numerals.to_simplified(text), timeline) == cues
  )


@pytest.mark.slow
@fuzz
@given(st.data(), timelines)
def test_full_dates_are_months_of_the_timeline(data, timeline):
  text = data.draw(questions(timeline))
  end = 0
  for start, stop, key in dates_lib.find_full_dates(text, timeline):
    assert end <= start < stop <= len(text)
    end = stop
    assert key in timeline


@pytest.mark.slow
@fuzz
@given(st.data(), timelines)
def test_a_date_is_a_month_or_a_date_error(data, timeline):
  text = data.draw(damaged(dates(timeline), most=2))
  with quoting(text):
    key = dates_lib.parse_key(text, timeline)
    assert dates_lib.find_full_dates(text, timeline) == [(0, len(text), key)]
    assert questions_lib.parse_interval(
      text, timeline
    ) == Interval.single_month(key)


@pytest.mark.slow
@fuzz
@given(st.data(), timelines)
def test_a_question_is_an_interval_or_a_date_error(data, timeline):
  text = data.draw(questions(timeline))
  with quoting(text):
    interval = questions_lib.parse_interval(text, timeline)
    first, last = timeline.interval_ordinals(interval)
    assert first <= last
    simplified = numerals.to_simplified(text)
    assert questions_lib.parse_interval(simplified, timeline) == interval


@pytest.mark.slow
@fuzz
@given(st.data(), st.sampled_from(TIMELINES[:3]))
def test_a_question_of_a_template_means_its_months(data, timeline):
  text, interval = data.draw(template_questions(timeline))
  assert questions_lib.parse_interval(text, timeline) == interval


# Calendars.


@pytest.mark.slow
@fuzz
@given(st.data(), invented_timelines())
def test_calendars_count_their_months(data, timeline):
  months = timeline.months
  assert all(a < b for a, b in itertools.pairwise(months))
  leaps = len(timeline.leap_months)
  assert len(months) == sum(12 * r.years for r in timeline.reigns) + leaps
  ordinal = data.draw(st.integers(0, len(months) - 1))
  key = timeline.key_at(ordinal)
  assert timeline.ordinal(key) == ordinal
  assert TimeKey.parse(str(key)) == key
  year = timeline.year_interval(key.reign, key.year)
  assert key in year
  for month in timeline.iterate_keys(year):
    assert (month.reign, month.year) == (key.reign, key.year)
  text = dates_lib.format_key(
    key,
    timeline,
    data.draw(st.sampled_from(dates_lib.FULL_DATE_STYLES)),
    data.draw(st.booleans()),
    data.draw(st.sampled_from(dates_lib.SCRIPTS)),
  )
  with suppressed(DateError) as caught:
    assert dates_lib.parse_key(text, timeline) == key
  # 泠 is short for 泠公, where there is none of that name.
  assert all("names 2 reigns" in str(error) for error in caught)


@pytest.mark.slow
@fuzz
@given(damaged(st.sampled_from(("1-2-12", "1-2-3L")), anything))
@example("1" * 5000 + "-1-1")
def test_a_key_is_read_or_refused(text):
  with suppressed(ValueError) as refused:
    key = TimeKey.parse(text)
  assert refused or TimeKey.parse(str(key)) == key


@fuzz
@given(damaged(st.sampled_from(("722 BCE", "280 CE", "公元前722年")), anything))
@example("1" * 5000)
def test_a_year_is_read_or_refused(text):
  with suppressed(ValueError) as refused:
    year = western_dates.parse_year(text)
  assert (
    refused
    or western_dates.parse_year(reigns.format_common_era_year(year)) == year
  )


# The scanner.


@pytest.mark.slow
@fuzz
@given(annals_text(), scanners, comment_marks)
def test_parts_join_to_the_entry_and_change_the_month(text, scanner, particles):
  opened = dataclasses.replace(scanner).read_entry_month(text)
  parts = annals.split_entry_by_month(text, scanner, particles)
  assert 1 <= scanner.month <= 12
  if opened is None:
    assert parts == []
    return
  assert "".join(part for part, _ in parts) == text
  # A date within the first sentence may date it anew.
  assert parts[0][1] >= opened
  assert parts[-1][1] == scanner.key
  keys = [key for _, key in parts]
  assert all(a != b for a, b in itertools.pairwise(keys))
  assert len({(key.reign, key.year) for key in keys}) == 1
  opens = annals.make_sentence_start_test(text, "。；！？，")
  position = 0
  for part, _ in parts[:-1]:
    assert part
    position += len(part)
    assert opens(position)
    assert text[:position].rstrip("」』”’")[-1] in "。；！？，"
  # A story that goes back comes to its outcome again.
  for index, (before, after) in enumerate(itertools.pairwise(keys)):
    assert before < after or before <= max(keys[index + 1 :])


@pytest.mark.slow
@fuzz
@given(st.lists(annals_text(), max_size=8), scanners)
def test_a_scan_over_entries_stays_in_the_calendar(entries, scanner):
  reigns_known = {scanner.reign, *scanner.reigns.values()}
  for text in entries:
    key = scanner.read_entry_month(text)
    assert key == scanner.key
    assert 1 <= scanner.month <= 12
    assert scanner.reign in reigns_known


@pytest.mark.slow
@fuzz
@given(annals_text())
def test_opening_cues_open_the_text(text):
  cues = annals.find_opening_cues(text)
  assert cues == dates_lib.find_date_cues(text)[: len(cues)]
  remaining = text[: cues[-1].end] if cues else ""
  for cue in reversed(cues):
    assert set(remaining[cue.end :]) <= set("，、：。 ")
    remaining = remaining[: cue.start]


@fuzz
@given(joined(pieces), st.sampled_from(("「」", "『』", "“”", "‘’")))
def test_no_sentence_opens_in_a_speech(text, marks):
  speech = marks[0] + text.translate(dict.fromkeys(map(ord, "」』”’"))) + "。"
  opens = annals.make_sentence_start_test(f"夏，盟。{speech}{marks[1]}盟。")
  start, end = 4, 4 + len(speech) + 1
  assert opens(start)
  assert not any(opens(position) for position in range(start + 1, end))
  # Its mark ends the speech whatever was left open in it; only within a
  # quotation of another kind does the same mark open another one.
  inner = [mark for mark in speech[1:] if mark in "「『“‘"]
  others = [index for index, mark in enumerate(inner) if mark != marks[0]]
  assert opens(end) == (
    marks[0] not in inner[min(others, default=len(inner)) :]
  )


# Editions.

_EDITION_MARKS = (
  *("A1.2.3", "B1.1.1", "〔1.2", "《隱公元年經》", "**", "#", "¶", "\n"),
  *("<pb:", ">", "&KR1;", "&KR", "A", "B1", "1.", "A0.0.0", "９.９.９"),
  *("回目錄", "(corr.=某", "=x", "\r\n", "\r", "\x00", "\x85", "²"),
)


def edition(folder):
  """Texts of one edition, damaged."""
  (text,) = (
    text for name, text in edition_files.FILES.items() if folder in name
  )
  return damaged(
    st.just(text), st.sampled_from(_EDITION_MARKS) | pieces, 12
  ) | joined(st.sampled_from(_EDITION_MARKS) | pieces)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp("editions")


def check_entries(entries, text, sources):
  """Entries are filed, hold text, and name their lines in order."""
  assert entries
  for entry in entries:
    assert entry.source in sources
    assert entry.reign >= 1
    assert entry.year is None or entry.year >= 1
    assert entry.text
    assert set(entry.text) <= set(text) | set("□—")
  lines = [int(entry.location.rpartition(":")[2]) for entry in entries]
  assert lines == sorted(lines)
  assert lines[-1] <= text.count("\n") + text.count("\r") + 1


@pytest.mark.slow
@fuzz
@given(edition("zuozhuan_KR1e0001"))
def test_lines_of_an_edition(text):
  lines = base_texts.parse_kanripo_lines(text)
  numbers = [number for number, _ in lines]
  assert numbers == sorted(set(numbers))
  for _, line in lines:
    assert line
    assert not set(line) & set(" \u3000¶\n")


@pytest.mark.slow
@fuzz
@given(st.data())
def test_numbered_editions(folder, data):
  name, layers = data.draw(
    st.sampled_from(
      (
        (
          "zuozhuan_KR1e0001",
          {"A": base_texts.ANNALS, "B": base_texts.ZUOZHUAN},
        ),
        ("guliangzhuan_KR1e0008", {"": base_texts.GULIANG}),
      )
    )
  )
  text = data.draw(edition(name))
  path = folder / "KR_001.txt"
  path.write_bytes(text.encode())
  with naming(path):
    entries, undated = base_texts.parse_numbered_entries(path, layers)
    assert undated >= 0
    check_entries(entries, text, layers.values())


@pytest.mark.slow
@fuzz
@given(edition("gongyangzhuan_wikisource"))
def test_editions_of_one_entry_a_line(folder, text):
  path = folder / "01_隱公.txt"
  path.write_bytes(text.encode())
  with naming(path):
    entries = base_texts.parse_line_entries(path, base_texts.GONGYANG)
    check_entries(entries, text, {base_texts.GONGYANG})


@fuzz
@given(st.binary(max_size=40))
def test_a_file_that_is_not_text_is_named(folder, content):
  path = folder / "bytes.txt"
  path.write_bytes(content)
  with naming(path):
    assert isinstance(base_texts.read_text(path), str)
