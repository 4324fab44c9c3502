"""Windows of time around the dates of a query.

Why: 「魯成公七年正月之前半年內」 asks for six months of which none is the month
it names. Given where the dates of a query stand, `resolve` reads the words
around them and returns the months asked for. Called by
`expressions.parse_interval`, which finds the dates.

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

from ctd_jax.chronology.numerals import (
  DURATION_PATTERN,
  NUMERAL_PATTERN,
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

_FIRST_MONTH_OF_SEASON = {"春": 1, "夏": 4, "秋": 7, "冬": 10}
_ANCHOR_MARK = "\0"  # stands for the date while the words around it are read

_NEAR_PATTERN = "[的之，、在]{0,2}"
# What may stand between 「之後」 and 「三個月」.
_FILLER_PATTERN = (
  "(?:[的之這那其，、約整足滿緊鄰接連續著再數推算溯追延伸看計展長達最近內為]"
  "|[以在於取]"
  "|範圍|時間|期間|相鄰|不超過|不久){0,8}?"
)
_STRICT_PAST = (
  "之前|以前|之先|以往|往前|向前|朝前|往回|前推|回推|倒推|逆推"
  "|前溯|上溯|回溯|追溯"
)
_STRICT_FUTURE = "之後|以後|往後|向後|朝後|後推|後延|順延|順推|往下"
_LOOSE_PAST = "此前|其前|先前|過去|最近|前"
_LOOSE_FUTURE = "此後|其後|隨後|接下來|接著|接續|後續|未來|今後|嗣後|後"
# 「自A起，往後三個月」 begins with A, 「自A起，之後三個月」 after it.
_ANCHOR_INCLUDING_WORDS = (
  "往後",
  "向後",
  "朝後",
  "後推",
  "順延",
  "順推",
  "往下",
)
_SIDES_PATTERN = (
  rf"(?:(?P<past>{_STRICT_PAST}|{_LOOSE_PAST})"
  rf"|(?P<future>{_STRICT_FUTURE}|{_LOOSE_FUTURE}))"
)
_PLUS_PATTERN = "(?P<plus>以及|連同|及|與|和|暨)?"
_DIRECTED_WINDOW = re.compile(
  rf"(?<!先){_SIDES_PATTERN}{_FILLER_PATTERN}{DURATION_PATTERN}(?P<within>之內|以內|內|裡)?"
)
_SIDE_OF_ANCHOR = re.compile(
  rf"{_ANCHOR_MARK}{_NEAR_PATTERN}{_PLUS_PATTERN}{_SIDES_PATTERN}"
)
_BEYOND_ANCHOR = re.compile(
  rf"(?:(?P<past>早於|先於)|(?P<future>晚於|遲於|後於)){_ANCHOR_MARK}(?P<plus>$.)?"
)
_AROUND_WINDOW = re.compile(
  rf"(?:前後|上下|左右|鄰近|相鄰|為中心){_FILLER_PATTERN}(?:各|(?P<total>一?共))?{_FILLER_PATTERN}"
  rf"{DURATION_PATTERN}"
)
_AROUND_WITHOUT_LENGTH = re.compile(
  rf"{_ANCHOR_MARK}{_NEAR_PATTERN}(?:前後|左右)"
)
_TWO_SIDES = re.compile(
  rf"前{_FILLER_PATTERN}(?P<before>{NUMERAL_PATTERN}|半)個?(?P<unit>[月年])"
  rf"[^前後]{{0,6}}後{_FILLER_PATTERN}(?P<after>{NUMERAL_PATTERN}|半)個?(?P<unit_after>[月年])"
)
_SINCE_ANCHOR = re.compile(
  rf"{_ANCHOR_MARK}{_NEAR_PATTERN}(?:起算|算起|開始|起始|以來|以降|起|始|為起點|為始)(?![兵事])"
)
_UNTIL_ANCHOR = re.compile(
  rf"(?:截至|截止到?|直至|直到|止於|迄){_NEAR_PATTERN}{_ANCHOR_MARK}|{_ANCHOR_MARK}為(?:止|終點|終)"
)
_ANCHOR_INCLUDED = re.compile(
  "(?<![不未勿])(?:包?含|包括|連同?|計入|算上)(?:[當該本此這]|起始|首)一?個?月"
  "|[當該本此這]月(?:亦|也|均)?(?:包含)?(?:在內|計入|算入)"
  rf"|(?:包?含|包括|連同?)(?:了|著)?{_ANCHOR_MARK}|{_ANCHOR_MARK}[（(]含"
)
_VAGUE_LENGTH = re.compile(
  "(?:[數幾多]|若干)個?[月年]|半個?月|[旬日天]內|[前後]年"
)
_UNDIRECTED_LENGTH = re.compile(
  rf"{_ANCHOR_MARK}[的之，來過了]{{0,3}}(?!一個?月){DURATION_PATTERN}"
)
_HALF_YEAR = re.compile(
  rf"{_ANCHOR_MARK}的?(?:(?P<first>[上前])|[下後])半[年歲]"
)
_MONTH_SHIFTS = (
  (re.compile("次月|翌月|下一?個?月|隔月|來月"), 1),
  (re.compile("上一?個?月|前月|去月"), -1),
)
_YEAR_SHIFTS = (
  (re.compile("次一?年|[翌明來隔轉]年|下一?整?年|第二年|[次翌明來]歲"), 1),
  (re.compile("上一?整?年|[去往]年|前一?整年|[去前往]歲"), -1),
)
_SAME_YEAR_PATTERN = (
  "(?:[同這那整]一?|[是當該此本其全通終]|一整)[整個]{0,3}[年歲]"
)
_SAME_YEAR = re.compile(
  rf"{_SAME_YEAR_PATTERN}|所[在屬處][的之那這]?(?:整|一|個|全)*[年歲]|一年到頭"
  rf"|一年(?:之中|之內|之間|內|間|裡|中)|年度|{_ANCHOR_MARK}{_NEAR_PATTERN}年內"
)
_NEXT_YEAR_PATTERN = "[次翌明來](?:一?年|歲)|下一?年"
_RANGE_CONNECTOR = re.compile(
  r"(?:起始|起|始|開始|以來|以降)?[，、,的]?\s*(?:一?直)?(?:延續|持續)?"
  r"(?:至於?|到|迄於?|訖|止於|以迄|以至|[—–~～－-]+)[，]?"
)
_PAIR_CONNECTOR = re.compile("[與和及跟、]")
_PAIR_END = re.compile("[的]?(?:之間|中間|間|期間|兩月)")
_RELATIVE_END_YEAR = re.compile(
  rf"(?:(?P<same>{_SAME_YEAR_PATTERN})|(?P<next>{_NEXT_YEAR_PATTERN}))[的之，]?"
)
_YEAR_END = re.compile("(?:年|歲)(?:底|末|終|尾)|(?:歲暮|終歲)")
_BOOK_TITLE = re.compile("《[^《》]*》")


@dataclasses.dataclass(frozen=True)
class DateMention:
  """A stretch of a query that looks like a date.

  Attributes:
    start: position of its first character.
    end: position after its last character.
    reigns: numbers of the reigns it can mean; empty if it names none.
    year: regnal year, if said.
    month: 1-12, if said.
    season: one of 春夏秋冬, if said.
    leap: whether the month is intercalary.
  """

  start: int
  end: int
  reigns: tuple[int, ...] = ()
  year: int | None = None
  month: int | None = None
  season: str | None = None
  leap: bool = False


def resolve_window(
  text: str, mentions: Sequence[DateMention], timeline: Timeline
) -> Interval:
  """Returns the months that a query asks for.

  Args:
    text: the query, folded to Traditional script (`expressions.fold`).
    mentions: its possible dates in order; the first that names a reign counts.
    timeline: calendar to which the window is clipped.

  Raises:
    DateError: if no date is found or the window cannot be read, runs
      backwards or lies outside the timeline.
  """
  # Titles are no dates: 《春秋》, 《左傳》.
  text = _BOOK_TITLE.sub(lambda match: "〇" * len(match[0]), text)
  text = text.replace(_ANCHOR_MARK, " ")
  full_dates = [mention for mention in mentions if mention.reigns]
  if not full_dates:
    raise DateError(
      f"no date of timeline {timeline.name!r} with reign and year", text
    )
  first_date = full_dates[0]
  anchor = _date_ordinals(first_date, first_date, text, timeline)
  second_date = _second_date(first_date, mentions, text, timeline)
  if second_date is None:
    anchored_text = (
      text[: first_date.start] + _ANCHOR_MARK + text[first_date.end :]
    )
    low, high = _window_ordinals(
      anchored_text, first_date, anchor, text, timeline
    )
  else:
    low, high = _range_ordinals(first_date, anchor, *second_date, text)
  low, high = max(low, 0), min(high, len(timeline) - 1)
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
      month = _FIRST_MONTH_OF_SEASON[mention.season]
      return timeline.interval_ordinals(
        Interval(
          TimeKey(reign, mention.year, month),
          TimeKey(reign, mention.year, month + 2),
        )
      )
    if mention.leap and not mention.month:
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
      f" {timeline.full_reign_name(reign)} has {timeline.reigns[reign - 1].years}"
      " years",
      text,
      error_mention.start,
    ) from None


def _second_date(
  first_date: DateMention,
  mentions: Sequence[DateMention],
  text: str,
  timeline: Timeline,
) -> tuple[DateMention, tuple[int, int]] | None:
  """Returns the other end of a range with its ordinals, or None."""
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
  connector = _RANGE_CONNECTOR.match(following_text)
  pair_connector = None if connector else _PAIR_CONNECTOR.match(following_text)
  if not (connector or pair_connector):
    return None
  position = first_date.end + (connector or pair_connector).end()
  year = first_date.year
  relative_year = _RELATIVE_END_YEAR.match(text, position)
  if relative_year:
    position = relative_year.end()
    year += bool(relative_year["next"])
  elided_date = next(
    (
      later_mention
      for later_mention in later_mentions
      if later_mention.start == position
    ),
    None,
  )
  year_end = _YEAR_END.match(text, position)
  if (
    elided_date is None
    and text[position : position + 1] in _FIRST_MONTH_OF_SEASON
  ):
    elided_date = DateMention(position, position + 1, season=text[position])
  if elided_date is None and year_end:
    elided_date = DateMention(position, year_end.end(), month=MONTHS_PER_YEAR)
  if elided_date is None and relative_year:
    elided_date = DateMention(relative_year.start(), position)
  if elided_date is None or (
    pair_connector and not _PAIR_END.match(text, elided_date.end)
  ):
    return None
  completed_date = dataclasses.replace(
    elided_date, reigns=first_date.reigns, year=elided_date.year or year
  )
  if relative_year and relative_year["next"]:
    return elided_date, _next_year_ordinals(
      first_date, completed_date, text, timeline
    )
  return elided_date, _date_ordinals(
    completed_date, elided_date, text, timeline
  )


def _next_year_ordinals(
  first_date: DateMention, mention: DateMention, text: str, timeline: Timeline
) -> tuple[int, int]:
  """Returns the ordinals of a date said to be in the year after `first_date`."""
  (reign,) = first_date.reigns
  year = timeline.year_interval(reign, first_date.year)
  next_ordinal = timeline.ordinal(year.end) + 1
  if next_ordinal >= len(timeline):
    raise DateError("the range ends after the timeline", text, mention.start)
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
  """Returns the ordinals of a range between two dates."""
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
  """Returns the ordinals of the window around one date."""
  is_bare_year = mention.month is None and mention.season is None
  half_year = _HALF_YEAR.search(anchored_text) if is_bare_year else None
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
  for pattern, shift in _YEAR_SHIFTS:
    if pattern.search(anchored_text):
      return _years_ordinals(anchor, shift, shift, timeline)
  one_sided = _one_sided_window(anchored_text, is_bare_year, anchor, timeline)
  if one_sided is not None:
    return one_sided
  for pattern, shift in _MONTH_SHIFTS:
    if pattern.search(anchored_text):
      edge = anchor[0] if shift < 0 else anchor[1]
      return edge + shift, edge + shift
  if _SAME_YEAR.search(anchored_text):
    return _years_ordinals(anchor, 0, 0, timeline)
  return _open_window(anchored_text, anchor, text, timeline)


def _years_ordinals(
  anchor: tuple[int, int],
  first_offset: int,
  last_offset: int,
  timeline: Timeline,
) -> tuple[int, int]:
  """Returns the ordinals of regnal years, counted from the anchor's own."""
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
    return len(timeline), -1  # nothing of it lies inside
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
  match = _AROUND_WINDOW.search(anchored_text)
  if match:
    length = parse_duration(match)
    if length.years and is_bare_year:
      return _years_ordinals(anchor, -length.years, length.years, timeline)
    # 「前後共五個月」 counts the date itself: two on each side.
    months_per_side = (
      (length.months - 1) // 2 if match["total"] else length.months
    )
    return anchor[0] - months_per_side, anchor[1] + months_per_side
  match = _TWO_SIDES.search(anchored_text)
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
  if _AROUND_WITHOUT_LENGTH.search(anchored_text):
    if is_bare_year:
      return _years_ordinals(anchor, -1, 1, timeline)
    return anchor[0] - 1, anchor[1] + 1
  return None


def _one_sided_window(
  anchored_text: str,
  is_bare_year: bool,
  anchor: tuple[int, int],
  timeline: Timeline,
) -> tuple[int, int] | None:
  """Returns a window of known length on one side, None if there is none."""
  since, until = (
    _SINCE_ANCHOR.search(anchored_text),
    _UNTIL_ANCHOR.search(anchored_text),
  )
  side = _SIDE_OF_ANCHOR.search(anchored_text) or _BEYOND_ANCHOR.search(
    anchored_text
  )
  is_included = _ANCHOR_INCLUDED.search(anchored_text) is not None
  match = _DIRECTED_WINDOW.search(anchored_text)
  if match:
    is_past, direction_word = (
      match["past"] is not None,
      match["past"] or match["future"],
    )
    is_included |= since is not None and (
      is_past or direction_word in _ANCHOR_INCLUDING_WORDS
    )
    is_rolling = match["within"] is not None or bool(
      re.fullmatch(f"{_STRICT_PAST}|{_STRICT_FUTURE}", direction_word)
    )
  else:
    match = re.search(
      DURATION_PATTERN, anchored_text[anchored_text.index(_ANCHOR_MARK) :]
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
  # Distances from the date: 含當月 counts it as one, 及其後 adds it.
  near_offset = 0 if is_included or has_plus else 1
  far_offset = number - 1 if is_included and not has_plus else number
  first_offset, last_offset = (
    (-far_offset, -near_offset) if is_past else (near_offset, far_offset)
  )
  if whole_years:
    return _years_ordinals(anchor, first_offset, last_offset, timeline)
  low, high = anchor
  return (
    (low if first_offset < 0 or near_offset == 0 else high) + first_offset,
    (high if last_offset > 0 or near_offset == 0 else low) + last_offset,
  )


def _open_window(
  anchored_text: str, anchor: tuple[int, int], text: str, timeline: Timeline
) -> tuple[int, int]:
  """Returns a window without a length: one side of the date, or the date."""
  low, high, last = *anchor, len(timeline) - 1
  side = _SIDE_OF_ANCHOR.search(anchored_text) or _BEYOND_ANCHOR.search(
    anchored_text
  )
  unreadable = (
    side and _VAGUE_LENGTH.search(anchored_text)
  ) or _UNDIRECTED_LENGTH.search(anchored_text)
  if unreadable:
    unreadable_length = unreadable[0].lstrip(_ANCHOR_MARK)
    raise DateError(
      f"cannot tell which months {unreadable_length!r} means",
      text,
      text.rindex(unreadable_length),
    )
  if side is None:
    low = 0 if _UNTIL_ANCHOR.search(anchored_text) else low
    return low, last if _SINCE_ANCHOR.search(anchored_text) else high
  if side["past"]:
    return 0, high if side["plus"] else low - 1
  return (low if side["plus"] else high + 1), last
