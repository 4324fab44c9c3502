"""Windows of time around the dates of a query.

「魯成公七年正月之前半年內」 asks for six months of which none is the month it
names. `resolve_window` takes the positions of the dates in a query, reads the
words around them and returns the interval. `date_expressions.parse_interval`
finds the dates.

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
of the reign before. A window is clipped to its timeline.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from ctd_jax.chronology import window_patterns as patterns
from ctd_jax.chronology.date_grammar import FIRST_MONTH_OF_SEASON
from ctd_jax.chronology.numerals import (
  DURATION_PATTERN,
  DateError,
  parse_duration,
  parse_numeral,
)
from ctd_jax.chronology.timelines import (
  MONTHS_PER_YEAR,
  Interval,
  TimeKey,
  Timeline,
)


@dataclasses.dataclass(frozen=True)
class DateMention:
  """Stretch of a query that looks like a date.

  Attributes:
    start: position of its first character.
    end: position after its last character.
    reigns: numbers of the reigns it can mean; empty if it names none.
    year: regnal year, if said.
    month: 1-12, if said.
    season: one of 春夏秋冬, if said.
    leap: whether the month is intercalary.
    interval: its months if they are more than one reign's, as those of a year
      of the common era can be; else None.
  """

  start: int
  end: int
  reigns: tuple[int, ...] = ()
  year: int | None = None
  month: int | None = None
  season: str | None = None
  leap: bool = False
  interval: Interval | None = None


def resolve_window(
  text: str, mentions: Sequence[DateMention], timeline: Timeline
) -> Interval:
  """Returns the months that a query asks for.

  Args:
    text: the query, folded to Traditional script (`numerals.fold_script`).
    mentions: its possible dates in order; the first that names a reign is the
      anchor.
    timeline: calendar to which the window is clipped.

  Raises:
    DateError: if no date is found or the window cannot be read, runs
      backwards or lies outside the timeline.
  """
  # Titles are no dates: 《春秋》 names two seasons. Positions must not move.
  text = patterns.BOOK_TITLE.sub(lambda match: "〇" * len(match[0]), text)
  text = text.replace(patterns.ANCHOR_MARK, " ")  # one mark, the anchor's
  full_dates = [mention for mention in mentions if mention.reigns]
  if not full_dates:
    raise DateError(
      f"no date of timeline {timeline.name!r} with reign and year", text
    )
  first_date = full_dates[0]
  anchor = _date_ordinals(first_date, first_date, text, timeline)
  second_date = _find_second_date(first_date, mentions, text, timeline)
  if second_date is None:
    anchored_text = (
      text[: first_date.start] + patterns.ANCHOR_MARK + text[first_date.end :]
    )
    low, high = _window_ordinals(
      anchored_text, first_date, anchor, text, timeline
    )
  else:
    low, high = _range_ordinals(first_date, anchor, *second_date, text)
  low, high = max(low, 0), min(high, len(timeline) - 1)  # clipped
  if high < low:
    raise DateError(
      f"the window lies outside timeline {timeline.name!r}",
      text,
      first_date.start,
    )
  return Interval(timeline.key_at(low), timeline.key_at(high))


def _date_ordinals(
  mention: DateMention,
  error_mention: DateMention,
  text: str,
  timeline: Timeline,
) -> tuple[int, int]:
  """Returns the ordinals of the first and last month of a date."""
  if mention.interval is not None:
    return timeline.interval_ordinals(mention.interval)
  if len(mention.reigns) != 1:
    names = ", ".join(
      timeline.full_reign_name(number) for number in mention.reigns
    )
    raise DateError(
      f"ambiguous reign, write one of {names}", text, error_mention.start
    )
  (reign,) = mention.reigns
  try:
    year = timeline.year_interval(reign, mention.year)
    if mention.season and not mention.month:
      month = FIRST_MONTH_OF_SEASON[mention.season]
      return timeline.interval_ordinals(
        Interval(
          TimeKey(reign, mention.year, month),
          TimeKey(reign, mention.year, month + 2),  # three months a season
        )
      )
    if mention.leap and not timeline.leap_months:
      # A calendar without leap months files one with the month it follows.
      if not mention.month:
        return timeline.interval_ordinals(year)
      key = TimeKey(reign, mention.year, mention.month)
    elif mention.leap and not mention.month:
      # 「閏月」 without a number: clear if the year has one leap month.
      leap_keys = [key for key in timeline.iterate_keys(year) if key.leap]
      key = leap_keys[0] if len(leap_keys) == 1 else None
      if key is None:
        raise DateError(
          f"the year has {len(leap_keys)} leap months, say which",
          text,
          error_mention.start,
        )
    elif mention.month:
      key = TimeKey(reign, mention.year, mention.month, mention.leap)
    else:
      return timeline.interval_ordinals(year)
    return timeline.ordinal(key), timeline.ordinal(key)
  except KeyError:
    raise DateError(
      f"timeline {timeline.name!r} has no such month:"
      f" {timeline.full_reign_name(reign)} has"
      f" {timeline.reigns[reign - 1].years} years",
      text,
      error_mention.start,
    ) from None


def _find_second_date(
  first_date: DateMention,
  mentions: Sequence[DateMention],
  text: str,
  timeline: Timeline,
) -> tuple[DateMention, tuple[int, int]] | None:
  """Returns the other end of a range with its ordinals, or None.

  The second date may leave out what it shares with the first: 「自隱公元年三月
  至五月」, 「至次年春」, 「至年底」.
  """
  later_mentions = [
    later_mention
    for later_mention in mentions
    if later_mention.start >= first_date.end
  ]
  full_dates = [
    later_mention for later_mention in later_mentions if later_mention.reigns
  ]
  if len(full_dates) > 1:
    raise DateError(
      "a third date; expected at most two", text, full_dates[1].start
    )
  if full_dates:
    return full_dates[0], _date_ordinals(
      full_dates[0], full_dates[0], text, timeline
    )
  following_text = text[first_date.end :]
  connector = patterns.RANGE_CONNECTOR.match(following_text)
  pair_connector = (
    None if connector else patterns.PAIR_CONNECTOR.match(following_text)
  )
  if not (connector or pair_connector):
    return None
  position = first_date.end + (connector or pair_connector).end()
  relative_year = patterns.RELATIVE_END_YEAR.match(text, position)
  elided_date = _find_elided_date(later_mentions, text, position, relative_year)
  if elided_date is None or (
    pair_connector and not patterns.PAIR_END.match(text, elided_date.end)
  ):
    return None
  completed_date = dataclasses.replace(
    elided_date,
    reigns=first_date.reigns,
    year=elided_date.year or first_date.year,
  )
  if relative_year and relative_year["next"]:
    return elided_date, _next_year_ordinals(
      first_date, completed_date, text, timeline
    )
  return elided_date, _date_ordinals(
    completed_date, elided_date, text, timeline
  )


def _find_elided_date(
  later_mentions: Sequence[DateMention],
  text: str,
  position: int,
  relative_year: re.Match[str] | None,
) -> DateMention | None:
  """Returns the date after a connector that leaves out reign or year.

  Args:
    later_mentions: possible dates after the first.
    text: the query.
    position: after the connector.
    relative_year: match of 「同年」 or 「次年」 at `position`, if there is one.
  """
  start = relative_year.end() if relative_year else position
  for mention in later_mentions:
    if mention.start == start:
      return mention
  if text[start : start + 1] in FIRST_MONTH_OF_SEASON:
    return DateMention(start, start + 1, season=text[start])
  if year_end := patterns.YEAR_END.match(text, start):  # 「年底」
    return DateMention(start, year_end.end(), month=MONTHS_PER_YEAR)
  # 「至次年」: the whole year.
  return DateMention(position, start) if relative_year else None


def _next_year_ordinals(
  first_date: DateMention, mention: DateMention, text: str, timeline: Timeline
) -> tuple[int, int]:
  """Returns the ordinals of a date said to be in the year after the first."""
  (reign,) = first_date.reigns
  year = timeline.year_interval(reign, first_date.year)
  next_ordinal = timeline.ordinal(year.end) + 1
  if next_ordinal >= len(timeline):
    raise DateError("the range ends after the timeline", text, mention.start)
  # After the last year of a reign the next year is 元年 of the next reign.
  key = timeline.key_at(next_ordinal)
  return _date_ordinals(
    dataclasses.replace(mention, reigns=(key.reign,), year=key.year),
    mention,
    text,
    timeline,
  )


def _range_ordinals(
  first_date: DateMention,
  anchor: tuple[int, int],
  second_date: DateMention,
  end: tuple[int, int],
  text: str,
) -> tuple[int, int]:
  """Returns the ordinals of a range between two dates, both included.

  Between 「之後」 and 「之前」 both are excluded.
  """
  low, high = anchor[0], end[1]
  after_first = text[first_date.end : second_date.start]
  if re.match("之後|以後|後", after_first) and re.match(
    "之前|以前|前", text[second_date.end :]
  ):
    low, high = anchor[1] + 1, end[0] - 1
  if high < low:
    raise DateError("the range ends before it starts", text, second_date.start)
  return low, high


def _window_ordinals(
  anchored_text: str,
  mention: DateMention,
  anchor: tuple[int, int],
  text: str,
  timeline: Timeline,
) -> tuple[int, int]:
  """Returns the ordinals of the window around one date.

  The order of the readings matters: 「前後兩年」 holds the words of a window on
  one side, 「前一整年」 those of a length before the date.
  """
  is_bare_year = mention.month is None and mention.season is None
  half_year = patterns.HALF_YEAR.search(anchored_text) if is_bare_year else None
  if half_year:
    middle_ordinal = anchor[0] + MONTHS_PER_YEAR // 2
    return (
      (anchor[0], middle_ordinal - 1)
      if half_year["first"]
      else (middle_ordinal, anchor[1])
    )
  symmetric = _symmetric_window(anchored_text, is_bare_year, anchor, timeline)
  if symmetric is not None:
    return symmetric
  for pattern, shift in patterns.YEAR_SHIFTS:
    if pattern.search(anchored_text):
      return _years_ordinals(anchor, shift, shift, timeline)
  one_sided = _one_sided_window(anchored_text, is_bare_year, anchor, timeline)
  if one_sided is not None:
    return one_sided
  for pattern, shift in patterns.MONTH_SHIFTS:
    if pattern.search(anchored_text):
      edge = anchor[0] if shift < 0 else anchor[1]
      return edge + shift, edge + shift
  if patterns.SAME_YEAR.search(anchored_text):
    return _years_ordinals(anchor, 0, 0, timeline)
  return _open_window(anchored_text, anchor, text, timeline)


def _years_ordinals(
  anchor: tuple[int, int],
  first_offset: int,
  last_offset: int,
  timeline: Timeline,
) -> tuple[int, int]:
  """Returns the ordinals of regnal years, as offsets from the anchor's year."""
  key = timeline.key_at(anchor[0])
  years = [
    (reign, year)
    for reign, row in enumerate(timeline.reigns, start=1)
    for year in range(1, row.years + 1)
  ]
  year_index = years.index((key.reign, key.year))
  low, high = (
    max(year_index + first_offset, 0),
    min(year_index + last_offset, len(years) - 1),
  )
  if high < low:
    return len(timeline), -1  # empty: no such year in the timeline
  return (
    timeline.interval_ordinals(timeline.year_interval(*years[low]))[0],
    timeline.interval_ordinals(timeline.year_interval(*years[high]))[1],
  )


def _symmetric_window(
  anchored_text: str,
  is_bare_year: bool,
  anchor: tuple[int, int],
  timeline: Timeline,
) -> tuple[int, int] | None:
  """Returns a window on both sides of the date, None if there is none."""
  match = patterns.AROUND_WINDOW.search(anchored_text)
  if match:
    length = parse_duration(match)
    # Years around a year are regnal years; around a month they are months.
    if length.years and is_bare_year:
      return _years_ordinals(anchor, -length.years, length.years, timeline)
    # 「前後共五個月」 counts the date itself: two on each side.
    months_per_side = (
      (length.months - 1) // 2 if match["total"] else length.months
    )
    return anchor[0] - months_per_side, anchor[1] + months_per_side
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
    if is_bare_year and not any(
      num_months % MONTHS_PER_YEAR for num_months in side_months
    ):
      before, after = (
        num_months // MONTHS_PER_YEAR for num_months in side_months
      )
      return _years_ordinals(anchor, -before, after, timeline)
    return anchor[0] - side_months[0], anchor[1] + side_months[1]
  if patterns.AROUND_WITHOUT_LENGTH.search(anchored_text):
    if is_bare_year:
      return _years_ordinals(anchor, -1, 1, timeline)
    return anchor[0] - 1, anchor[1] + 1
  return None


def _find_side(anchored_text: str) -> re.Match[str] | None:
  """Returns the word that says on which side of the date the window lies."""
  return patterns.SIDE_OF_ANCHOR.search(
    anchored_text
  ) or patterns.BEYOND_ANCHOR.search(anchored_text)


def _one_sided_window(
  anchored_text: str,
  is_bare_year: bool,
  anchor: tuple[int, int],
  timeline: Timeline,
) -> tuple[int, int] | None:
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
  whole_years = length.years and (is_bare_year or not is_rolling)
  number = length.years if whole_years else length.months
  # 含當月 counts the anchor as one of the months, 及其後 adds it to them.
  near_offset = 0 if is_included or has_plus else 1
  far_offset = number - 1 if is_included and not has_plus else number
  first_offset, last_offset = (
    (-far_offset, -near_offset) if is_past else (near_offset, far_offset)
  )
  if whole_years:
    return _years_ordinals(anchor, first_offset, last_offset, timeline)
  # The anchor may be a season or a year: a window before it ends at its first
  # month, one after it starts at its last, one that includes it spans it.
  low, high = anchor
  return (
    (low if first_offset < 0 or near_offset == 0 else high) + first_offset,
    (high if last_offset > 0 or near_offset == 0 else low) + last_offset,
  )


def _open_window(
  anchored_text: str, anchor: tuple[int, int], text: str, timeline: Timeline
) -> tuple[int, int]:
  """Returns a window without a length: one side of the date, or the date.

  Raises:
    DateError: if the words give a length that cannot be read as months, such
      as 「數月」: everything on that side would be a wrong answer.
  """
  low, high, last = *anchor, len(timeline) - 1
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
    return low, last if patterns.SINCE_ANCHOR.search(anchored_text) else high
  if side["past"]:
    return 0, high if side["plus"] else low - 1
  return (low if side["plus"] else high + 1), last
