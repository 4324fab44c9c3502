"""Headings of a chronicle, and marks of its streams.

A record that is nothing but a date, a reign or the mark of a stream heads what
follows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ctd_jax.chronology import numerals
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle import reign_names
from ctd_jax.dating.chronicle.printed_dates import DatePart, PrintedDate
from ctd_jax.dating.chronicle.punctuation import PUNCTUATION
from ctd_jax.dating.chronicle.sections import SectionDraft
from ctd_jax.dating.sequence import section_kinds

_HEADING_BRACKETS = "【】《》〈〉〔〕[]「」『』（）()#＃*＊"
_ORNAMENT = PUNCTUATION + _HEADING_BRACKETS
_STREAM_NAMES = (
  "(?:(?:左氏?|公羊|[穀谷]梁|春秋)?[經经經傳传]文?|[綱纲目注註疏])"
)
_BRACKETED_STREAM = re.compile(
  rf"[\sA-Z0-9]*[【〔\[《〈（(「]({_STREAM_NAMES})[】〕\]》〉）)」][：:\sA-Z0-9]*"
  "(?![曰云稱称言有])"
)
# Before a date, or alone.
_BARE_STREAM = re.compile(rf"\s*({_STREAM_NAMES})[：:，、。\s]*")
# 「隱公元年經」 as a heading.
_TRAILING_STREAM = re.compile(r"[：:，、。\s]*([經经傳传]文?)\s*\Z")
# What may follow the mark of a stream: 「傳元年春」.
_DATE_OPENING = re.compile(
  rf"(?:元|{numerals.NUMERAL_PATTERN})年|[春夏秋冬](?=[，、王])"
  rf"|[春夏秋冬]?王?閏?(?:正|{numerals.NUMERAL_PATTERN})?月"
)
_RANGE = re.compile("[起至盡訖]")
# 「僖公上」, 「隱公第一」: the part of a reign that a volume has.
_VOLUME_OF_REIGN = re.compile(
  rf"(?:[上中下]|之?[上中下]|[第之]{numerals.NUMERAL_PATTERN})+\Z"
)


def match_stream_mark(text: str) -> re.Match[str] | None:
  """Returns the mark of a stream that opens a record, 經 or 公羊傳 (group 1).

  In brackets, alone, or before a date; None if there is none.
  """
  bracketed = _BRACKETED_STREAM.match(text)
  if bracketed:
    return bracketed
  match = _BARE_STREAM.match(text)
  if match and (
    match.end() == len(text) or _DATE_OPENING.match(text, match.end())
  ):
    return match
  return None


def read_heading(
  text: str,
  dates: Sequence[PrintedDate],
  timeline: Timeline,
  is_heading: bool,
) -> SectionDraft | None:
  """Returns the section that a heading is; None if the record is none.

  A record is a heading if it is nothing but one date, a reign or the mark of a
  stream, or known as one.

  Args:
    text: of the record.
    dates: in it, in order.
    timeline: of the reigns that a heading may name.
    is_heading: whether the record is known to head others.
  """
  stream = match_stream_mark(text)
  trailing = None if stream else _TRAILING_STREAM.search(text)
  start = stream.end() if stream else 0
  stop = trailing.start() if trailing else len(text)
  draft = SectionDraft(0, start)
  reign = _find_reign(text[start:stop].strip(_ORNAMENT), timeline)
  if reign is not None:
    draft.kind, draft.statements = section_kinds.NAMED, [("year", reign, 0)]
    start = stop
  else:
    for date in dates:
      if (
        text[start : date.start].strip(_ORNAMENT)
        or date.first_part <= draft.last_part
      ):
        break
      draft.add_date(date)
      start = date.end
  is_all_read = not text[start:stop].strip(_ORNAMENT)
  if (stream or trailing) and is_all_read:
    draft.kind = section_kinds.STREAM
  if draft.kind != section_kinds.NO_DATE and is_all_read:
    draft.date_end = len(text) if draft.statements else 0
    return draft
  if not is_heading:
    return None
  # 「太祖文皇帝上之中元嘉六年」; a range is that of a volume.
  years = [date for date in dates if date.first_part == DatePart.YEAR]
  draft = SectionDraft(
    0, 0, kind=section_kinds.STREAM * bool(stream or trailing)
  )
  if len(years) == 1 and not _RANGE.search(text):
    draft.add_date(years[0])
    if text[: years[0].start].strip(_ORNAMENT):
      draft.date_end = 0
  return draft


def _find_reign(name: str, timeline: Timeline) -> str | None:
  """Returns the reign that a heading names, alone or with the part of it."""
  by_heading = reign_names.index_reign_names(timeline).by_heading
  name = numerals.fold_script(name)
  return by_heading.get(name) or by_heading.get(_VOLUME_OF_REIGN.sub("", name))
