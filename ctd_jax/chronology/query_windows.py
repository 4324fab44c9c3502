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
  LENGTH,
  NUMERAL,
  DateError,
  parse_length,
  parse_numeral,
)
from ctd_jax.chronology.timelines import (
  MONTHS_PER_YEAR,
  Interval,
  TimeKey,
  Timeline,
)

_FIRST_OF_SEASON = {"春": 1, "夏": 4, "秋": 7, "冬": 10}
_ANCHOR = "\0"  # stands for the date while the words around it are read

_NEAR = "[的之，、在]{0,2}"
# What may stand between 「之後」 and 「三個月」.
_FILLER = (
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
_FROM_HERE = ("往後", "向後", "朝後", "後推", "順延", "順推", "往下")
_SIDES = (
  rf"(?:(?P<past>{_STRICT_PAST}|{_LOOSE_PAST})"
  rf"|(?P<future>{_STRICT_FUTURE}|{_LOOSE_FUTURE}))"
)
_PLUS = "(?P<plus>以及|連同|及|與|和|暨)?"
_DIRECTED = re.compile(
  rf"(?<!先){_SIDES}{_FILLER}{LENGTH}(?P<within>之內|以內|內|裡)?"
)
_SIDE = re.compile(rf"{_ANCHOR}{_NEAR}{_PLUS}{_SIDES}")
_BEYOND = re.compile(
  rf"(?:(?P<past>早於|先於)|(?P<future>晚於|遲於|後於)){_ANCHOR}(?P<plus>$.)?"
)
_AROUND = re.compile(
  rf"(?:前後|上下|左右|鄰近|相鄰|為中心){_FILLER}(?:各|(?P<total>一?共))?{_FILLER}"
  rf"{LENGTH}"
)
_AROUND_VAGUE = re.compile(rf"{_ANCHOR}{_NEAR}(?:前後|左右)")
_TWO_SIDES = re.compile(
  rf"前{_FILLER}(?P<before>{NUMERAL}|半)個?(?P<unit>[月年])"
  rf"[^前後]{{0,6}}後{_FILLER}(?P<after>{NUMERAL}|半)個?(?P<unit_after>[月年])"
)
_SINCE = re.compile(
  rf"{_ANCHOR}{_NEAR}(?:起算|算起|開始|起始|以來|以降|起|始|為起點|為始)(?![兵事])"
)
_UNTIL = re.compile(
  rf"(?:截至|截止到?|直至|直到|止於|迄){_NEAR}{_ANCHOR}|{_ANCHOR}為(?:止|終點|終)"
)
_INCLUDED = re.compile(
  "(?<![不未勿])(?:包?含|包括|連同?|計入|算上)(?:[當該本此這]|起始|首)一?個?月"
  "|[當該本此這]月(?:亦|也|均)?(?:包含)?(?:在內|計入|算入)"
  rf"|(?:包?含|包括|連同?)(?:了|著)?{_ANCHOR}|{_ANCHOR}[（(]含"
)
_VAGUE = re.compile("(?:[數幾多]|若干)個?[月年]|半個?月|[旬日天]內|[前後]年")
_UNDIRECTED = re.compile(rf"{_ANCHOR}[的之，來過了]{{0,3}}(?!一個?月){LENGTH}")
_HALF_YEAR = re.compile(rf"{_ANCHOR}的?(?:(?P<first>[上前])|[下後])半[年歲]")
_MONTH_SHIFTS = (
  (re.compile("次月|翌月|下一?個?月|隔月|來月"), 1),
  (re.compile("上一?個?月|前月|去月"), -1),
)
_YEAR_SHIFTS = (
  (re.compile("次一?年|[翌明來隔轉]年|下一?整?年|第二年|[次翌明來]歲"), 1),
  (re.compile("上一?整?年|[去往]年|前一?整年|[去前往]歲"), -1),
)
_THAT_YEAR = "(?:[同這那整]一?|[是當該此本其全通終]|一整)[整個]{0,3}[年歲]"
_SAME_YEAR = re.compile(
  rf"{_THAT_YEAR}|所[在屬處][的之那這]?(?:整|一|個|全)*[年歲]|一年到頭"
  rf"|一年(?:之中|之內|之間|內|間|裡|中)|年度|{_ANCHOR}{_NEAR}年內"
)
_NEXT_YEAR = "[次翌明來](?:一?年|歲)|下一?年"
_CONNECTOR = re.compile(
  r"(?:起始|起|始|開始|以來|以降)?[，、,的]?\s*(?:一?直)?(?:延續|持續)?"
  r"(?:至於?|到|迄於?|訖|止於|以迄|以至|[—–~～－-]+)[，]?"
)
_PAIRED = re.compile("[與和及跟、]")
_PAIRED_END = re.compile("[的]?(?:之間|中間|間|期間|兩月)")
_YEAR_OF_END = re.compile(
  rf"(?:(?P<same>{_THAT_YEAR})|(?P<next>{_NEXT_YEAR}))[的之，]?"
)
_YEAR_END = re.compile("(?:年|歲)(?:底|末|終|尾)|(?:歲暮|終歲)")
_TITLE = re.compile("《[^《》]*》")


@dataclasses.dataclass(frozen=True)
class Mention:
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


def resolve(
  text: str, mentions: Sequence[Mention], timeline: Timeline
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
  text = _TITLE.sub(lambda match: "〇" * len(match[0]), text)
  text = text.replace(_ANCHOR, " ")
  full = [mention for mention in mentions if mention.reigns]
  if not full:
    raise DateError(
      f"no date of timeline {timeline.name!r} with reign and year", text
    )
  first = full[0]
  anchor = _span(first, first, text, timeline)
  second = _second(first, mentions, text, timeline)
  if second is None:
    words = text[: first.start] + _ANCHOR + text[first.end :]
    low, high = _window(words, first, anchor, text, timeline)
  else:
    low, high = _range(first, anchor, *second, text)
  low, high = max(low, 0), min(high, len(timeline) - 1)
  if high < low:
    raise DateError(
      f"the window lies outside timeline {timeline.name!r}", text, first.start
    )
  return Interval(timeline.key(low), timeline.key(high))


def _span(
  mention: Mention, place: Mention, text: str, timeline: Timeline
) -> tuple[int, int]:
  """Returns the ordinals of the first and last month of a date."""
  if len(mention.reigns) != 1:
    names = ", ".join(timeline.full_name(number) for number in mention.reigns)
    raise DateError(f"ambiguous reign, write one of {names}", text, place.start)
  (reign,) = mention.reigns
  try:
    year = timeline.year(reign, mention.year)
    if mention.season and not mention.month:
      month = _FIRST_OF_SEASON[mention.season]
      return timeline.ordinals(
        Interval(
          TimeKey(reign, mention.year, month),
          TimeKey(reign, mention.year, month + 2),
        )
      )
    if mention.leap and not mention.month:
      leaps = [key for key in timeline.iterate(year) if key.leap]
      key = leaps[0] if len(leaps) == 1 else None
      if key is None:
        raise DateError(
          f"the year has {len(leaps)} leap months, say which", text, place.start
        )
    elif mention.month:
      key = TimeKey(reign, mention.year, mention.month, mention.leap)
    else:
      return timeline.ordinals(year)
    return timeline.ordinal(key), timeline.ordinal(key)
  except KeyError:
    raise DateError(
      f"timeline {timeline.name!r} has no such month:"
      f" {timeline.full_name(reign)} has {timeline.reigns[reign - 1].years}"
      " years",
      text,
      place.start,
    ) from None


def _second(
  first: Mention, mentions: Sequence[Mention], text: str, timeline: Timeline
) -> tuple[Mention, tuple[int, int]] | None:
  """Returns the other end of a range with its ordinals, or None."""
  others = [other for other in mentions if other.start >= first.end]
  full = [other for other in others if other.reigns]
  if len(full) > 1:
    raise DateError("a third date; expected at most two", text, full[1].start)
  if full:
    return full[0], _span(full[0], full[0], text, timeline)
  rest = text[first.end :]
  connector = _CONNECTOR.match(rest)
  paired = None if connector else _PAIRED.match(rest)
  if not (connector or paired):
    return None
  place = first.end + (connector or paired).end()
  year = first.year
  relative = _YEAR_OF_END.match(text, place)
  if relative:
    place = relative.end()
    year += bool(relative["next"])
  elided = next((other for other in others if other.start == place), None)
  closing = _YEAR_END.match(text, place)
  if elided is None and text[place : place + 1] in _FIRST_OF_SEASON:
    elided = Mention(place, place + 1, season=text[place])
  if elided is None and closing:
    elided = Mention(place, closing.end(), month=MONTHS_PER_YEAR)
  if elided is None and relative:
    elided = Mention(relative.start(), place)
  if elided is None or (paired and not _PAIRED_END.match(text, elided.end)):
    return None
  whole = dataclasses.replace(
    elided, reigns=first.reigns, year=elided.year or year
  )
  if relative and relative["next"]:
    return elided, _of_next_year(first, whole, text, timeline)
  return elided, _span(whole, elided, text, timeline)


def _of_next_year(
  first: Mention, mention: Mention, text: str, timeline: Timeline
) -> tuple[int, int]:
  """Returns the ordinals of a date said to be in the year after `first`."""
  (reign,) = first.reigns
  year = timeline.year(reign, first.year)
  after = timeline.ordinal(year.end) + 1
  if after >= len(timeline):
    raise DateError("the range ends after the timeline", text, mention.start)
  key = timeline.key(after)
  return _span(
    dataclasses.replace(mention, reigns=(key.reign,), year=key.year),
    mention,
    text,
    timeline,
  )


def _range(
  first: Mention,
  anchor: tuple[int, int],
  second: Mention,
  end: tuple[int, int],
  text: str,
) -> tuple[int, int]:
  """Returns the ordinals of a range between two dates."""
  low, high = anchor[0], end[1]
  after_first = text[first.end : second.start]
  if re.match("之後|以後|後", after_first) and re.match(
    "之前|以前|前", text[second.end :]
  ):
    low, high = anchor[1] + 1, end[0] - 1
  if high < low:
    raise DateError("the range ends before it starts", text, second.start)
  return low, high


def _window(
  words: str,
  mention: Mention,
  anchor: tuple[int, int],
  text: str,
  timeline: Timeline,
) -> tuple[int, int]:
  """Returns the ordinals of the window around one date."""
  bare_year = mention.month is None and mention.season is None
  half = _HALF_YEAR.search(words) if bare_year else None
  if half:
    middle = anchor[0] + MONTHS_PER_YEAR // 2
    return (anchor[0], middle - 1) if half["first"] else (middle, anchor[1])
  around = _around(words, bare_year, anchor, timeline)
  if around is not None:
    return around
  for pattern, shift in _YEAR_SHIFTS:
    if pattern.search(words):
      return _years(anchor, shift, shift, timeline)
  directed = _directed(words, bare_year, anchor, timeline)
  if directed is not None:
    return directed
  for pattern, shift in _MONTH_SHIFTS:
    if pattern.search(words):
      edge = anchor[0] if shift < 0 else anchor[1]
      return edge + shift, edge + shift
  if _SAME_YEAR.search(words):
    return _years(anchor, 0, 0, timeline)
  return _open(words, anchor, text, timeline)


def _years(
  anchor: tuple[int, int], first: int, last: int, timeline: Timeline
) -> tuple[int, int]:
  """Returns the ordinals of regnal years, counted from the anchor's own."""
  key = timeline.key(anchor[0])
  years = [
    (reign, year)
    for reign, row in enumerate(timeline.reigns, start=1)
    for year in range(1, row.years + 1)
  ]
  place = years.index((key.reign, key.year))
  low, high = max(place + first, 0), min(place + last, len(years) - 1)
  if high < low:
    return len(timeline), -1  # nothing of it lies inside
  return (
    timeline.ordinals(timeline.year(*years[low]))[0],
    timeline.ordinals(timeline.year(*years[high]))[1],
  )


def _around(
  words: str, bare_year: bool, anchor: tuple[int, int], timeline: Timeline
) -> tuple[int, int] | None:
  """Returns a window on both sides of the date, None if there is none."""
  match = _AROUND.search(words)
  if match:
    length = parse_length(match)
    if length.years and bare_year:
      return _years(anchor, -length.years, length.years, timeline)
    # 「前後共五個月」 counts the date itself: two on each side.
    each = (length.months - 1) // 2 if match["total"] else length.months
    return anchor[0] - each, anchor[1] + each
  match = _TWO_SIDES.search(words)
  if match:
    sides = []
    for number, unit in (("before", "unit"), ("after", "unit_after")):
      whole = MONTHS_PER_YEAR if match[unit] == "年" else 1
      half = match[number] == "半"
      sides.append(whole // 2 if half else whole * parse_numeral(match[number]))
    if bare_year and not any(side % MONTHS_PER_YEAR for side in sides):
      before, after = (side // MONTHS_PER_YEAR for side in sides)
      return _years(anchor, -before, after, timeline)
    return anchor[0] - sides[0], anchor[1] + sides[1]
  if _AROUND_VAGUE.search(words):
    if bare_year:
      return _years(anchor, -1, 1, timeline)
    return anchor[0] - 1, anchor[1] + 1
  return None


def _directed(
  words: str, bare_year: bool, anchor: tuple[int, int], timeline: Timeline
) -> tuple[int, int] | None:
  """Returns a window of known length on one side, None if there is none."""
  since, until = _SINCE.search(words), _UNTIL.search(words)
  side = _SIDE.search(words) or _BEYOND.search(words)
  included = _INCLUDED.search(words) is not None
  match = _DIRECTED.search(words)
  if match:
    past, word = match["past"] is not None, match["past"] or match["future"]
    included |= since is not None and (past or word in _FROM_HERE)
    rolling = match["within"] is not None or bool(
      re.fullmatch(f"{_STRICT_PAST}|{_STRICT_FUTURE}", word)
    )
  else:
    match = re.search(LENGTH, words[words.index(_ANCHOR) :])
    if match is None or not (since or until or side):
      return None
    past = side["past"] is not None if side else since is None
    included |= side is None
    rolling = True
  length = parse_length(match)
  plus = side is not None and side["plus"] is not None
  whole_years = length.years and (bare_year or not rolling)
  number = length.years if whole_years else length.months
  # Distances from the date: 含當月 counts it as one, 及其後 adds it.
  near = 0 if included or plus else 1
  far = number - 1 if included and not plus else number
  first, last = (-far, -near) if past else (near, far)
  if whole_years:
    return _years(anchor, first, last, timeline)
  low, high = anchor
  return (
    (low if first < 0 or near == 0 else high) + first,
    (high if last > 0 or near == 0 else low) + last,
  )


def _open(
  words: str, anchor: tuple[int, int], text: str, timeline: Timeline
) -> tuple[int, int]:
  """Returns a window without a length: one side of the date, or the date."""
  low, high, last = *anchor, len(timeline) - 1
  side = _SIDE.search(words) or _BEYOND.search(words)
  unread = (side and _VAGUE.search(words)) or _UNDIRECTED.search(words)
  if unread:
    length = unread[0].lstrip(_ANCHOR)
    raise DateError(
      f"cannot tell which months {length!r} means", text, text.rindex(length)
    )
  if side is None:
    low = 0 if _UNTIL.search(words) else low
    return low, last if _SINCE.search(words) else high
  if side["past"]:
    return 0, high if side["plus"] else low - 1
  return (low if side["plus"] else high + 1), last
