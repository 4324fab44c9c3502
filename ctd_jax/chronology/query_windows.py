"""Windows of time around the dates of a query.

「魯成公七年正月之前半年內」 asks for six months of which none is the month it
names. `resolve_window` takes the positions of the dates in a query, reads the
words around them and returns the months. `query_mentions` finds the dates,
`query_ranges` reads those that end at a second date.

How words are read (A is the date as written, a month, a season or a year):

- 「A之前N個月」, 「A後N個月」, 「次月」: N months, A excluded.
- 「含當月」, 「A起N個月」, 「截至A的N個月」: N months, A is one of them.
- 「A及其後N個月」: A and N months more.
- 「A前後N個月」: A, N months before and N after.
- 「自A至B」, 「A與B之間」: both ends included; B may leave out what it shares
  with A. 「A之後、B之前」: both ends excluded.
- 「同年」, 「全年」, a date without a month: the whole regnal year.
- 「次年」, 「前一年」, 「此後兩年」: whole regnal years; so is every number of
  years around a date without a month. Around a month, 「之前一年」 and
  「後一年內」 are twelve months.
- No number after 「之前」, 「以後」, 「以來」: everything on that side.

Months count in ordinals, so they cross reigns: the year before 元年 is the last
of the reign before. A window is clipped to its calendar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ctd_jax.chronology import query_ranges
from ctd_jax.chronology import window_patterns as patterns
from ctd_jax.chronology.numerals import (
  DURATION_PATTERN,
  DateError,
  parse_duration,
  parse_numeral,
)
from ctd_jax.chronology.query_calendar import Months, QueryCalendar, RegnalYear
from ctd_jax.chronology.query_mentions import DateMention
from ctd_jax.chronology.timelines import MONTHS_PER_YEAR


class _Anchor(NamedTuple):
  """The date around which a window lies.

  Attributes:
    first: ordinal of its first month.
    last: ordinal of its last.
    regnal_year: its name, if it has one.
    is_bare_year: whether it is a year without a month.
    calendar: whose months they are.
  """

  first: int
  last: int
  regnal_year: RegnalYear | None
  is_bare_year: bool
  calendar: QueryCalendar

  def shift_years(self, first_offset: int, last_offset: int) -> Months:
    """Returns whole years, as offsets from the anchor's year."""
    return self.calendar.shift_years(
      self.first, self.regnal_year, first_offset, last_offset
    )


def resolve_window(
  text: str, mentions: Sequence[DateMention], calendar: QueryCalendar
) -> Months:
  """Returns the months that a query asks for.

  Args:
    text: the query, folded to Traditional script (`numerals.fold_script`).
    mentions: its possible dates in order; the first that is full is the anchor.
    calendar: to which the window is clipped.

  Raises:
    DateError: if no date is found or the window cannot be read, runs
      backwards or lies outside the calendar.
  """
  text = _blank_titles(text)
  name = calendar.timeline.name
  full_dates = [mention for mention in mentions if mention.is_full]
  if not full_dates:
    raise DateError(f"no date of timeline {name!r} with reign and year", text)
  first_date = full_dates[0]
  anchor = query_ranges.find_months(first_date, first_date, text, calendar)
  second_date = query_ranges.find_second_date(
    first_date, mentions, text, calendar
  )
  if second_date is None:
    low, high = _read_window(
      _mark_anchor(text, first_date),
      _Anchor(
        *anchor,
        RegnalYear(first_date.reigns[0], first_date.year)
        if first_date.reigns and first_date.year
        else None,
        first_date.is_bare_year,
        calendar,
      ),
      text,
    )
  else:
    low, high = query_ranges.join_dates(first_date, anchor, *second_date, text)
  low, high = max(low, 0), min(high, len(calendar) - 1)  # clipped
  if high < low:
    raise DateError(
      f"the window lies outside timeline {name!r}", text, first_date.start
    )
  return Months(low, high)


def blank_window_words(text: str, mentions: Sequence[DateMention]) -> str:
  """Returns a query without its dates and the words of their window.

  Args:
    text: the query, folded.
    mentions: its dates; of the others, as of titles, the text stays.

  Returns:
    A text of the same length, with spaces where something was.
  """
  characters = list(text)
  for mention in mentions:
    length = mention.end - mention.start
    characters[mention.start : mention.end] = patterns.ANCHOR_MARK * length
  text = "".join(characters)
  # A date of several characters is one mark to the patterns.
  marks = re.compile(f"{patterns.ANCHOR_MARK}+")
  positions = [
    position
    for position, character in enumerate(text)
    if character != patterns.ANCHOR_MARK
    or text[position - 1 : position] != patterns.ANCHOR_MARK
  ]
  shortened = marks.sub(patterns.ANCHOR_MARK, text)
  window_patterns = list(patterns.WINDOW_WORDS)
  if any(pattern.search(shortened) for pattern in patterns.ENDS_OF_WINDOW):
    # 「自A起三個月內」: the length stands without a direction.
    window_patterns.append(patterns.LENGTH_AFTER_ANCHOR)
  for pattern in window_patterns:
    for match in pattern.finditer(shortened):
      for index in range(match.start(), match.end()):
        characters[positions[index]] = " "
  return "".join(characters).replace(patterns.ANCHOR_MARK, " ")


def _blank_titles(text: str) -> str:
  """Returns a text without titles, of the same length.

  Titles are no dates: 《春秋》 names two seasons.
  """
  text = patterns.BOOK_TITLE.sub(lambda match: "〇" * len(match[0]), text)
  return text.replace(patterns.ANCHOR_MARK, " ")  # one mark, the anchor's


def _mark_anchor(text: str, mention: DateMention) -> str:
  """Returns a text with the anchor's mark in place of a date."""
  return text[: mention.start] + patterns.ANCHOR_MARK + text[mention.end :]


def _read_window(anchored_text: str, anchor: _Anchor, text: str) -> Months:
  """Returns the months of the window around one date.

  The order of the readings matters: 「前後兩年」 holds the words of a window on
  one side, 「前一整年」 those of a length before the date.
  """
  half_year = patterns.HALF_YEAR.search(anchored_text)
  if half_year and anchor.is_bare_year:
    middle = anchor.calendar.find_middle(Months(anchor.first, anchor.last))
    return (
      Months(anchor.first, middle - 1)
      if half_year["first"]
      else Months(middle, anchor.last)
    )
  symmetric = _symmetric_window(anchored_text, anchor)
  if symmetric is not None:
    return symmetric
  for pattern, shift in patterns.YEAR_SHIFTS:
    if pattern.search(anchored_text):
      return anchor.shift_years(shift, shift)
  one_sided = _one_sided_window(anchored_text, anchor)
  if one_sided is not None:
    return one_sided
  for pattern, shift in patterns.MONTH_SHIFTS:
    if pattern.search(anchored_text):
      month = (anchor.first if shift < 0 else anchor.last) + shift
      return Months(month, month)
  if patterns.SAME_YEAR.search(anchored_text):
    return anchor.shift_years(0, 0)
  return _open_window(anchored_text, anchor, text)


def _symmetric_window(anchored_text: str, anchor: _Anchor) -> Months | None:
  """Returns a window on both sides of the date, None if there is none."""
  match = patterns.AROUND_WINDOW.search(anchored_text)
  if match:
    length = parse_duration(match)
    # Years around a year are regnal years; around a month they are months.
    if length.years and anchor.is_bare_year:
      return anchor.shift_years(-length.years, length.years)
    # 「前後共五個月」 counts the date itself: two on each side.
    months_per_side = (
      (length.months - 1) // 2 if match["total"] else length.months
    )
    return Months(anchor.first - months_per_side, anchor.last + months_per_side)
  match = patterns.TWO_SIDES.search(anchored_text)
  if match:
    side_months = []
    for number, unit in (("before", "unit"), ("after", "unit_after")):
      months_per_unit = MONTHS_PER_YEAR if match[unit] == "年" else 1
      is_half = match[number] == "半"
      side_months.append(
        months_per_unit // 2
        if is_half
        else months_per_unit * parse_numeral(match[number])
      )
    if anchor.is_bare_year and not any(
      num_months % MONTHS_PER_YEAR for num_months in side_months
    ):
      before, after = (
        num_months // MONTHS_PER_YEAR for num_months in side_months
      )
      return anchor.shift_years(-before, after)
    return Months(anchor.first - side_months[0], anchor.last + side_months[1])
  if patterns.AROUND_WITHOUT_LENGTH.search(anchored_text):
    if anchor.is_bare_year:
      return anchor.shift_years(-1, 1)
    return Months(anchor.first - 1, anchor.last + 1)
  return None


def _find_side(anchored_text: str) -> re.Match[str] | None:
  """Returns the word that says on which side of the date the window lies."""
  return patterns.SIDE_OF_ANCHOR.search(
    anchored_text
  ) or patterns.BEYOND_ANCHOR.search(anchored_text)


def _one_sided_window(anchored_text: str, anchor: _Anchor) -> Months | None:
  """Returns a window of known length on one side, None if there is none.

  Distances are counted from the anchor: near_offset 0 includes it.
  """
  since, until = (
    patterns.SINCE_ANCHOR.search(anchored_text),
    patterns.UNTIL_ANCHOR.search(anchored_text),
  )
  side = _find_side(anchored_text)
  is_included = patterns.ANCHOR_INCLUDED.search(anchored_text) is not None
  match = patterns.DIRECTED_WINDOW.search(anchored_text)
  if match:
    is_past, direction_word = (
      match["past"] is not None,
      match["past"] or match["future"],
    )
    # 「自A起，往後三個月」 begins with A.
    is_included |= since is not None and (
      is_past or direction_word in patterns.ANCHOR_INCLUDING_WORDS
    )
    # A rolling year is twelve months, another one a regnal year.
    is_rolling = match["within"] is not None or bool(
      re.fullmatch(
        f"{patterns.STRICT_PAST}|{patterns.STRICT_FUTURE}", direction_word
      )
    )
  else:
    # 「截至A的三個月」: the length stands after the anchor without a direction.
    match = re.search(
      DURATION_PATTERN,
      anchored_text[anchored_text.index(patterns.ANCHOR_MARK) :],
    )
    if match is None or not (since or until or side):
      return None
    is_past = side["past"] is not None if side else since is None
    is_included |= side is None
    is_rolling = True
  length = parse_duration(match)
  has_plus = side is not None and side["plus"] is not None
  whole_years = length.years and (anchor.is_bare_year or not is_rolling)
  number = length.years if whole_years else length.months
  # 含當月 counts the anchor as one of the months, 及其後 adds it to them.
  near_offset = 0 if is_included or has_plus else 1
  far_offset = number - 1 if is_included and not has_plus else number
  first_offset, last_offset = (
    (-far_offset, -near_offset) if is_past else (near_offset, far_offset)
  )
  if whole_years:
    return anchor.shift_years(first_offset, last_offset)
  # The anchor may be a season or a year: a window before it ends at its first
  # month, one after it starts at its last, one that includes it spans it.
  low, high = anchor.first, anchor.last
  return Months(
    (low if first_offset < 0 or near_offset == 0 else high) + first_offset,
    (high if last_offset > 0 or near_offset == 0 else low) + last_offset,
  )


def _open_window(anchored_text: str, anchor: _Anchor, text: str) -> Months:
  """Returns a window without a length: one side of the date, or the date.

  Raises:
    DateError: if the words give a length that cannot be read as months, such
      as 「數月」: everything on that side would be a wrong answer.
  """
  low, high, last = anchor.first, anchor.last, len(anchor.calendar) - 1
  side = _find_side(anchored_text)
  unreadable = (
    side and patterns.VAGUE_LENGTH.search(anchored_text)
  ) or patterns.UNDIRECTED_LENGTH.search(anchored_text)
  if unreadable:
    unreadable_length = unreadable[0].lstrip(patterns.ANCHOR_MARK)
    raise DateError(
      f"cannot tell which months {unreadable_length!r} means",
      text,
      text.rindex(unreadable_length),
    )
  # 「截至A」 is all up to the anchor, 「A以來」 all from it on.
  if side is None:
    low = 0 if patterns.UNTIL_ANCHOR.search(anchored_text) else low
    is_open = patterns.SINCE_ANCHOR.search(anchored_text)
    return Months(low, last if is_open else high)
  if side["past"]:
    return Months(0, high if side["plus"] else low - 1)
  return Months(low if side["plus"] else high + 1, last)
