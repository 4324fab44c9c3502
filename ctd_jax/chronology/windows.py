"""Windows of time around the dates of a query.

「魯成公七年正月之前半年內」 asks for six months, none of which is the month it
names. `resolve_window` takes the positions of the dates in a query, reads the
words around them and returns the months; `mentions` finds the dates.

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

The patterns match a query in which the first full date, the anchor, is replaced
by `ANCHOR_MARK`, in Traditional script."""

import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

from ctd_jax.chronology.dates import FIRST_MONTH_OF_SEASON
from ctd_jax.chronology.mentions import DateMention, find_months
from ctd_jax.chronology.numerals import (
  DURATION_PATTERN,
  NUMERAL_PATTERN,
  DateError,
  parse_duration,
  parse_numeral,
)
from ctd_jax.chronology.query_calendar import (
  Months,
  QueryCalendar,
  RegnalYear,
)
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR
from ctd_jax.utils.notes import Note

ANCHOR_MARK = "\0"  # stands for the date; no text of a query holds it

_NEAR_PATTERN = "[的之，、在]{0,2}"
# What may stand between 「之後」 and 「三個月」.
_FILLER_PATTERN = (
  "(?:[的之這那其，、約整足滿緊鄰接連續著再數推算溯追延伸看計展長達最近內為]"
  "|[以在於取]"
  "|範圍|時間|期間|相鄰|不超過|不久){0,8}?"
)
# Strict words count months from the anchor (「之前一年」: twelve months), loose
# ones may name regnal years (「前一年」: the year before).
STRICT_PAST = (
  "之前|以前|之先|以往|往前|向前|朝前|往回|前推|回推|倒推|逆推"
  "|前溯|上溯|回溯|追溯"
)
STRICT_FUTURE = "之後|以後|往後|向後|朝後|後推|後延|順延|順推|往下"
_LOOSE_PAST = "此前|其前|先前|過去|最近|前"
_LOOSE_FUTURE = "此後|其後|隨後|接下來|接著|接續|後續|未來|今後|嗣後|後"
# 「自A起，往後三個月」 begins with A, 「自A起，之後三個月」 after it.
ANCHOR_INCLUDING_WORDS = (
  "往後",
  "向後",
  "朝後",
  "後推",
  "順延",
  "順推",
  "往下",
)
_SIDES_PATTERN = (
  rf"(?:(?P<past>{STRICT_PAST}|{_LOOSE_PAST})"
  rf"|(?P<future>{STRICT_FUTURE}|{_LOOSE_FUTURE}))"
)
# 「A及其後三個月」: the anchor belongs to the window.
_PLUS_PATTERN = "(?P<plus>以及|連同|及|與|和|暨)?"
# 「先後三個月」 is not a window after the date.
DIRECTED_WINDOW = re.compile(
  rf"(?<!先){_SIDES_PATTERN}{_FILLER_PATTERN}{DURATION_PATTERN}"
  "(?P<within>之內|以內|內|裡)?"
)
SIDE_OF_ANCHOR = re.compile(
  rf"{ANCHOR_MARK}{_NEAR_PATTERN}{_PLUS_PATTERN}{_SIDES_PATTERN}"
)
# `$.` never matches: the group exists, so that both patterns of a side have it.
BEYOND_ANCHOR = re.compile(
  rf"(?:(?P<past>早於|先於)|(?P<future>晚於|遲於|後於)){ANCHOR_MARK}(?P<plus>$.)?"
)
AROUND_WINDOW = re.compile(
  rf"(?:前後|上下|左右|鄰近|相鄰|為中心){_FILLER_PATTERN}"
  rf"(?:各|(?P<total>一?共))?{_FILLER_PATTERN}{DURATION_PATTERN}"
)
AROUND_WITHOUT_LENGTH = re.compile(
  rf"{ANCHOR_MARK}{_NEAR_PATTERN}(?:前後|左右)"
)
# 「前三個月、後兩個月」: a length for each side.
TWO_SIDES = re.compile(
  rf"前{_FILLER_PATTERN}(?P<before>{NUMERAL_PATTERN}|半)個?(?P<unit>[月年])"
  rf"[^前後]{{0,6}}後{_FILLER_PATTERN}"
  rf"(?P<after>{NUMERAL_PATTERN}|半)個?(?P<unit_after>[月年])"
)
# 「起兵」 and 「起事」 are events, not a start.
SINCE_ANCHOR = re.compile(
  rf"{ANCHOR_MARK}{_NEAR_PATTERN}"
  "(?:起算|算起|開始|起始|以來|以降|起|始|為起點|為始)(?![兵事])"
)
UNTIL_ANCHOR = re.compile(
  rf"(?:截至|截止到?|直至|直到|止於|迄){_NEAR_PATTERN}{ANCHOR_MARK}"
  rf"|{ANCHOR_MARK}為(?:止|終點|終)"
)
# 「含當月」, but not 「不含當月」.
ANCHOR_INCLUDED = re.compile(
  "(?<![不未勿])(?:包?含|包括|連同?|計入|算上)(?:[當該本此這]|起始|首)一?個?月"
  "|[當該本此這]月(?:亦|也|均)?(?:包含)?(?:在內|計入|算入)"
  rf"|(?:包?含|包括|連同?)(?:了|著)?{ANCHOR_MARK}|{ANCHOR_MARK}[（(]含"
)
# 「數月」, 「若干年」, 「十日內」: no number of months.
VAGUE_LENGTH = re.compile(
  "(?:[數幾多]|若干)個?[月年]|半個?月|[旬日天]內|[前後]年"
)
# 「A三個月」: neither before nor after. 「A一個月」 is the month itself.
UNDIRECTED_LENGTH = re.compile(
  rf"{ANCHOR_MARK}[的之，來過了]{{0,3}}(?!一個?月){DURATION_PATTERN}"
)
HALF_YEAR = re.compile(rf"{ANCHOR_MARK}的?(?:(?P<first>[上前])|[下後])半[年歲]")
# Pattern and offset from the anchor, in months.
MONTH_SHIFTS = (
  (re.compile("次月|翌月|下一?個?月|隔月|來月"), 1),
  (re.compile("上一?個?月|前月|去月"), -1),
)
# Pattern and offset from the anchor's regnal year.
YEAR_SHIFTS = (
  (re.compile("次一?年|[翌明來隔轉]年|下一?整?年|第二年|[次翌明來]歲"), 1),
  (re.compile("上一?整?年|[去往]年|前一?整年|[去前往]歲"), -1),
)
_SAME_YEAR_PATTERN = (
  "(?:[同這那整]一?|[是當該此本其全通終]|一整)[整個]{0,3}[年歲]"
)
SAME_YEAR = re.compile(
  rf"{_SAME_YEAR_PATTERN}|所[在屬處][的之那這]?(?:整|一|個|全)*[年歲]|一年到頭"
  rf"|一年(?:之中|之內|之間|內|間|裡|中)|年度|{ANCHOR_MARK}{_NEAR_PATTERN}年內"
)
_NEXT_YEAR_PATTERN = "[次翌明來](?:一?年|歲)|下一?年"
# Between the two dates of a range: 「A起，至B」, 「A—B」.
RANGE_CONNECTOR = re.compile(
  r"(?:起始|起|始|開始|以來|以降)?[，、,的]?\s*(?:一?直)?(?:延續|持續)?"
  r"(?:至於?|到|迄於?|訖|止於|以迄|以至|\.{2,}|…+|[—–~～－-]+)[，]?"
)
# 「A與B之間」; without the end 「A與B」 is not a range.
PAIR_CONNECTOR = re.compile("[與和及跟、]")
PAIR_END = re.compile("[的]?(?:之間|中間|間|期間|兩月)")
RELATIVE_END_YEAR = re.compile(
  rf"(?:(?P<same>{_SAME_YEAR_PATTERN})|(?P<next>{_NEXT_YEAR_PATTERN}))[的之，]?"
)
YEAR_END = re.compile("(?:年|歲)(?:底|末|終|尾)|(?:歲暮|終歲)")
BOOK_TITLE = re.compile("《[^《》]*》")
ENDS_OF_WINDOW = (SINCE_ANCHOR, UNTIL_ANCHOR, SIDE_OF_ANCHOR, BEYOND_ANCHOR)
LENGTH_AFTER_ANCHOR = re.compile(
  rf"(?<={ANCHOR_MARK})[^{ANCHOR_MARK}]{{0,8}}?{DURATION_PATTERN}"
  "(?:之內|以內|內|裡)?"
)
# All that says where a window is, for readers of the rest of a query.
WINDOW_WORDS = (
  AROUND_WINDOW,
  TWO_SIDES,
  DIRECTED_WINDOW,
  SIDE_OF_ANCHOR,
  BEYOND_ANCHOR,
  AROUND_WITHOUT_LENGTH,
  SINCE_ANCHOR,
  UNTIL_ANCHOR,
  ANCHOR_INCLUDED,
  HALF_YEAR,
  *(pattern for pattern, _ in (*MONTH_SHIFTS, *YEAR_SHIFTS)),
  SAME_YEAR,
)


def find_second_date(
  first_date: DateMention,
  mentions: Sequence[DateMention],
  text: str,
  calendar: QueryCalendar,
) -> tuple[DateMention, Months] | None:
  """Returns the other end of a range with its months, or None.

  The second date may leave out what it shares with the first:
  「自隱公元年三月至五月」, 「至次年春」, 「至年底」. DateError for a third
  date, or one that the calendar lacks.
  """
  later_mentions = [
    later_mention
    for later_mention in mentions
    if later_mention.start >= first_date.end
  ]
  full_dates = [
    later_mention for later_mention in later_mentions if later_mention.is_full
  ]
  if len(full_dates) > 1:
    raise DateError(Note("problem.date.third"), text, full_dates[1].start)
  if full_dates:
    return full_dates[0], find_months(
      full_dates[0], full_dates[0], text, calendar
    )
  following_text = text[first_date.end :]
  connector = RANGE_CONNECTOR.match(following_text)
  pair_connector = None if connector else PAIR_CONNECTOR.match(following_text)
  if not (connector or pair_connector):
    return None
  position = first_date.end + (connector or pair_connector).end()
  relative_year = RELATIVE_END_YEAR.match(text, position)
  elided_date = _find_elided_date(later_mentions, text, position, relative_year)
  if elided_date is None or (
    pair_connector and not PAIR_END.match(text, elided_date.end)
  ):
    return None
  completed_date = dataclasses.replace(
    elided_date,
    reigns=first_date.reigns,
    year=elided_date.year or first_date.year,
  )
  if relative_year and relative_year["next"]:
    return elided_date, _find_next_year(
      first_date, completed_date, text, calendar
    )
  return elided_date, find_months(completed_date, elided_date, text, calendar)


def _find_elided_date(
  later_mentions: Sequence[DateMention],
  text: str,
  position: int,
  relative_year: re.Match[str] | None,
) -> DateMention | None:
  """Returns the date after a connector that leaves out reign or year."""
  start = relative_year.end() if relative_year else position
  for mention in later_mentions:
    if mention.start == start:
      return mention
  if text[start : start + 1] in FIRST_MONTH_OF_SEASON:
    return DateMention(start, start + 1, season=text[start])
  if year_end := YEAR_END.match(text, start):  # 「年底」
    return DateMention(start, year_end.end(), month=MONTHS_PER_YEAR)
  # 「至次年」: the whole year.
  return DateMention(position, start) if relative_year else None


def _find_next_year(
  first_date: DateMention,
  mention: DateMention,
  text: str,
  calendar: QueryCalendar,
) -> Months:
  """Returns the months of a date said to be in the year after the first."""
  next_year = None
  if first_date.reigns and first_date.year:
    next_year = calendar.find_next_year(first_date.reigns[0], first_date.year)
  if next_year is None:
    raise DateError(Note("problem.date.range_after"), text, mention.start)
  return find_months(
    dataclasses.replace(
      mention, reigns=(next_year.reign,), year=next_year.year
    ),
    mention,
    text,
    calendar,
  )


def join_dates(
  first_date: DateMention,
  anchor: Months,
  second_date: DateMention,
  end: Months,
  text: str,
) -> Months:
  """Returns the months of a range between two dates, both included.

  Between 「之後」 and 「之前」 both are excluded. DateError if the range ends
  before it starts.
  """
  low, high = anchor[0], end[1]
  after_first = text[first_date.end : second_date.start]
  if re.match("之後|以後|後", after_first) and re.match(
    "之前|以前|前", text[second_date.end :]
  ):
    low, high = anchor[1] + 1, end[0] - 1
  if high < low:
    raise DateError(Note("problem.date.range_before"), text, second_date.start)
  return Months(low, high)


class _Anchor(NamedTuple):
  """The date around which a window lies."""

  first: int  # ordinal of its first month
  last: int  # ordinal of its last
  regnal_year: RegnalYear | None  # its name, if it has one
  is_bare_year: bool  # whether it is a year without a month
  calendar: QueryCalendar  # whose months they are

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
    mentions: its possible dates in order; the first that is full is the anchor.

  Raises:
    DateError: if no date is found or the window cannot be read, runs
      backwards or is outside the calendar.
  """
  # Titles are not dates: 《春秋》 names two seasons.
  text = BOOK_TITLE.sub(lambda match: "〇" * len(match[0]), text)
  text = text.replace(ANCHOR_MARK, " ")  # one mark, the anchor's
  name = calendar.timeline.name
  full_dates = [mention for mention in mentions if mention.is_full]
  if not full_dates:
    raise DateError(Note("problem.date.no_date", calendar=name), text)
  first_date = full_dates[0]
  anchor = find_months(first_date, first_date, text, calendar)
  second_date = find_second_date(first_date, mentions, text, calendar)
  if second_date is None:
    low, high = _read_window(
      text[: first_date.start] + ANCHOR_MARK + text[first_date.end :],
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
    low, high = join_dates(first_date, anchor, *second_date, text)
  low, high = max(low, 0), min(high, len(calendar) - 1)  # clipped
  if high < low:
    raise DateError(
      Note("problem.date.window", calendar=name), text, first_date.start
    )
  return Months(low, high)


def blank_window_words(text: str, mentions: Sequence[DateMention]) -> str:
  """Returns a query with spaces for its dates and the words of their window.

  `mentions` are its dates; other dates, such as those in titles, are kept.
  """
  characters = list(text)
  for mention in mentions:
    characters[mention.start : mention.end] = ANCHOR_MARK * (
      mention.end - mention.start
    )
  text = "".join(characters)
  # A date of several characters is one mark to the patterns.
  marks = re.compile(f"{ANCHOR_MARK}+")
  positions = [
    position
    for position, character in enumerate(text)
    if character != ANCHOR_MARK or text[position - 1 : position] != ANCHOR_MARK
  ]
  shortened = marks.sub(ANCHOR_MARK, text)
  window_patterns = list(WINDOW_WORDS)
  if any(pattern.search(shortened) for pattern in ENDS_OF_WINDOW):
    # 「自A起三個月內」: the length stands without a direction.
    window_patterns.append(LENGTH_AFTER_ANCHOR)
  for pattern in window_patterns:
    for match in pattern.finditer(shortened):
      for index in range(match.start(), match.end()):
        characters[positions[index]] = " "
  return "".join(characters).replace(ANCHOR_MARK, " ")


def _read_window(anchored_text: str, anchor: _Anchor, text: str) -> Months:
  """Returns the months of the window around one date."""
  # The order of the readings matters: 「前後兩年」 holds the words of a window
  # on one side, 「前一整年」 those of a length before the date.
  half_year = HALF_YEAR.search(anchored_text)
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
  for pattern, shift in YEAR_SHIFTS:
    if pattern.search(anchored_text):
      return anchor.shift_years(shift, shift)
  one_sided = _one_sided_window(anchored_text, anchor)
  if one_sided is not None:
    return one_sided
  for pattern, shift in MONTH_SHIFTS:
    if pattern.search(anchored_text):
      month = (anchor.first if shift < 0 else anchor.last) + shift
      return Months(month, month)
  if SAME_YEAR.search(anchored_text):
    return anchor.shift_years(0, 0)
  return _open_window(anchored_text, anchor, text)


def _symmetric_window(anchored_text: str, anchor: _Anchor) -> Months | None:
  """Returns the window on both sides of the date, if there is one."""
  match = AROUND_WINDOW.search(anchored_text)
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
  match = TWO_SIDES.search(anchored_text)
  if match:
    side_months = []
    for number, unit in (("before", "unit"), ("after", "unit_after")):
      months_per_unit = MONTHS_PER_YEAR if match[unit] == "年" else 1
      side_months.append(
        months_per_unit // 2
        if match[number] == "半"
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
  if not AROUND_WITHOUT_LENGTH.search(anchored_text):
    return None
  if anchor.is_bare_year:
    return anchor.shift_years(-1, 1)
  return Months(anchor.first - 1, anchor.last + 1)


def _find_side(anchored_text: str) -> re.Match[str] | None:
  """Returns the word that says on which side of the date the window is."""
  return SIDE_OF_ANCHOR.search(anchored_text) or BEYOND_ANCHOR.search(
    anchored_text
  )


def _one_sided_window(anchored_text: str, anchor: _Anchor) -> Months | None:
  """Returns the window of known length on one side, if there is one."""
  # Distances are counted from the anchor: near_offset 0 includes it.
  since, until = (
    SINCE_ANCHOR.search(anchored_text),
    UNTIL_ANCHOR.search(anchored_text),
  )
  side = _find_side(anchored_text)
  is_included = ANCHOR_INCLUDED.search(anchored_text) is not None
  match = DIRECTED_WINDOW.search(anchored_text)
  if match:
    is_past, direction_word = (
      match["past"] is not None,
      match["past"] or match["future"],
    )
    # 「自A起，往後三個月」 begins with A.
    is_included |= since is not None and (
      is_past or direction_word in ANCHOR_INCLUDING_WORDS
    )
    # A rolling year is twelve months, another one a regnal year.
    is_rolling = match["within"] is not None or bool(
      re.fullmatch(f"{STRICT_PAST}|{STRICT_FUTURE}", direction_word)
    )
  else:
    # 「截至A的三個月」: the length comes after the anchor without a direction.
    match = re.search(
      DURATION_PATTERN,
      anchored_text[anchored_text.index(ANCHOR_MARK) :],
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
  """Returns a window without a length: one side of the date, or the date."""
  low, high, last = anchor.first, anchor.last, len(anchor.calendar) - 1
  side = _find_side(anchored_text)
  unreadable = (
    side and VAGUE_LENGTH.search(anchored_text)
  ) or UNDIRECTED_LENGTH.search(anchored_text)
  if unreadable:
    unreadable_length = unreadable[0].lstrip(ANCHOR_MARK)
    raise DateError(
      Note("problem.date.window_length", text=unreadable_length),
      text,
      text.rindex(unreadable_length),
    )
  # 「截至A」 is all up to the anchor, 「A以來」 all from it on.
  if side is None:
    low = 0 if UNTIL_ANCHOR.search(anchored_text) else low
    is_open = SINCE_ANCHOR.search(anchored_text)
    return Months(low, last if is_open else high)
  if side["past"]:
    return Months(0, high if side["plus"] else low - 1)
  return Months(low if side["plus"] else high + 1, last)
