"""Editions of 資治通鑑: entries of one, year headings of the other.

The punctuated edition lacks the year headings, which the printed one has. Both
are compared character by character, so that every entry has the year under
which it is printed.
"""

import bisect
import dataclasses
import pathlib
import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from rapidfuzz.distance import Indel

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import base_texts
from ctd_jax_datasets.common.source_files import SourceError


def align_positions(source: str, target: str) -> Int[np.ndarray, " P"]:
  """Returns the position in `target` of every position in `source`, rising.

  A character that `target` lacks gets the position of the next one that both
  have. The last is the length of `target`.

  Source: shortest edit script of insertions and deletions (Indel distance).
  """
  target_positions = np.empty(len(source) + 1, int)
  for step in Indel.opcodes(source, target):
    length = step.src_end - step.src_start
    if step.tag == "equal":
      target_positions[step.src_start : step.src_end] = np.arange(
        step.dest_start, step.dest_start + length
      )
    else:  # characters that only `source` has, or that were replaced
      target_positions[step.src_start : step.src_end] = step.dest_end
  target_positions[-1] = len(target)
  return target_positions


def find_stretch(starts: Sequence[int], begin: int, end: int) -> int | None:
  """Returns the stretch that holds most of the characters `begin`..`end`.

  An edition that moves a word across a boundary moves no whole entry. A stretch
  continues from its start to the next; None if most is before the first.
  """
  # The stretch of the middle character holds at least half of them.
  num_starts_before = bisect.bisect_right(starts, (begin + end) // 2)
  return num_starts_before - 1 if num_starts_before else None


PUNCTUATED_FOLDER = "zizhitongjian_wikisource"
PRINTED_FOLDER = "zizhitongjian_KR2b0007"

# 「臣光曰」 and the older historians whom 司馬光 quotes: judgements, no events.
_REMARK = re.compile(
  r"(?:臣光曰|(?:習鑿齒|孫盛|干寶|袁宏|袁子|虞喜|崔鴻|蕭方等|裴子野|沈約|蕭子顯"
  r"|陳壽|魏收|李延壽|徐眾|荀崧)(?:論|評)?曰)"
)
_ITEM_NUMBER = re.compile(r"^\d+[\s　]+")
_FOOTNOTE = re.compile(r"\[\d+\]")
# 〔族〕(之): the editors read 族, the print has 之.
_EMENDED = re.compile(r"〔([^〕]*)〕(?:\([^)]*\))?")
_SPACE = re.compile(r"[\s　]+")
_YEAR_HEADING = re.compile(r"年（..，公元.*）$")
_SENTENCE_ENDS = "。！？」』"
_HAN = re.compile(r"[\u3400-\u9fff\U00020000-\U0003ffff]")
_NOTE = re.compile(r"\([^()]*\)?")
_PAGE = re.compile(r"<pb:[^>]*>")
_UNENCODED = re.compile(r"&KR\d+;")
# Print variants that only headings and the collation meet.
_GLYPHS = str.maketrans("熈寜㤗夘", "熙寧泰卯")

# Years by the names of the 爾雅, with the slips that headers have.
_STEMS = (
  "閼逢|瘀逢",
  "旃蒙",
  "柔兆",
  "強圉|強圖",
  "著雍",
  "屠維",
  "上章",
  "重光",
  "玄黓",
  "昭陽",
)
_BRANCHES = (
  "困敦",
  "赤奮若",
  "攝提格",
  "單閼",
  "執徐",
  "大荒落",
  "敦牂|郭牂",
  "協洽",
  "涒灘",
  "作噩",
  "閹茂|淹茂|鬮茂",
  "大淵獻",
)
_SPAN = re.compile(
  rf"({'|'.join(_STEMS)})({'|'.join(_BRANCHES)})(?:盡.*凡)?"
  rf"({numerals.NUMERAL_PATTERN})年"
)
_NUM_HEADER_LINES = 6
_NUMERAL_CHARACTERS = "元一二三四五六七八九十廿"


@dataclasses.dataclass(frozen=True)
class Entry:
  """A paragraph of the punctuated edition."""

  text: str  # without item number, footnote marks and line ends
  is_remark: (
    bool  # whether a historian speaks (「臣光曰」) rather than the annals
  )
  location: str  # `file:line`, for messages


@dataclasses.dataclass(frozen=True)
class PunctuatedJuan:
  """One juan of the punctuated edition."""

  entries: tuple[Entry, ...]  # in order; headings are not among them
  # Sexagenary number of the first year by the juan's own title
  # (「起旃蒙作噩」), 0 = 甲子; None if it cannot be read.
  first_sexagenary: int | None
  num_years: int | None  # how many years it says it has, None as before
  # Year headings that this edition prints, left out of the text.
  num_headings: int


@dataclasses.dataclass(frozen=True)
class PrintedJuan:
  """One juan of the edition that prints the years."""

  text: str  # Chinese characters only, folded, without notes
  # (position in `text`, first month of the year) of every heading.
  year_headings: tuple[tuple[int, TimeKey], ...]
  # (position in `text`, month) of every entry that opens with a month, or a
  # season and a month.
  month_openings: tuple[tuple[int, int], ...]


def extract_han(text: str) -> str:
  """Returns the Chinese characters of a text, folded for comparison."""
  characters = "".join(_HAN.findall(text))
  return numerals.fold_script(characters.translate(_GLYPHS))


def parse_punctuated_juan(path: pathlib.Path) -> PunctuatedJuan:
  """Returns a juan of the punctuated edition; no entry is a SourceError.

  A line is an entry; a line that does not end a sentence continues in the next.
  """
  lines = base_texts.read_text(path).split("\n")
  entries: list[Entry] = []
  num_headings, is_line_open = 0, False
  for line_number, raw_line in enumerate(lines, start=1):
    line = _FOOTNOTE.sub("", _ITEM_NUMBER.sub("", raw_line.strip()))
    line = _SPACE.sub("", _EMENDED.sub(r"\1", line))
    if not line:
      continue
    if _YEAR_HEADING.search(line):
      num_headings += 1
      continue
    if _is_title(line):
      continue
    if is_line_open or (entries and line[0] in "「『"):
      # A speech of several paragraphs belongs to what introduces it.
      last_entry = entries[-1]
      entries[-1] = dataclasses.replace(last_entry, text=last_entry.text + line)
    else:
      is_remark = _REMARK.match(line) is not None
      entries.append(Entry(line, is_remark, f"{path.name}:{line_number}"))
    is_line_open = line[-1] not in _SENTENCE_ENDS
  if not entries:
    raise SourceError(f"{path}: no entry; expected a paragraph a line")
  span_match = _SPAN.search(
    "".join(_HAN.findall("".join(lines[:_NUM_HEADER_LINES])))
  )
  return PunctuatedJuan(
    tuple(entries),
    _parse_sexagenary(span_match) if span_match else None,
    numerals.parse_numeral(span_match[3]) if span_match else None,
    num_headings,
  )


def _is_title(line: str) -> bool:
  """Whether a line names a ruler or a juan, or is like 「【晉紀一】起…」."""
  if line[-1] not in _SENTENCE_ENDS and "，" not in line:
    return True
  return line.startswith("【") or (
    len(line) < 40 and _SPAN.search("".join(_HAN.findall(line))) is not None
  )


def _parse_sexagenary(span_match: re.Match[str]) -> int:
  """Returns the place of the year that two names of the 爾雅 give."""
  stem, branch = (
    next(
      index for index, name in enumerate(names) if year_name in name.split("|")
    )
    for names, year_name in (
      (_STEMS, span_match[1]),
      (_BRANCHES, span_match[2]),
    )
  )
  return sexagenary.parse_cyclic_index(
    sexagenary.STEMS[stem] + sexagenary.BRANCHES[branch]
  )


def parse_printed_juan(
  path: pathlib.Path, timeline: Timeline, first_key: TimeKey
) -> PrintedJuan:
  """Returns a juan of the edition that prints the years, KR2b0007.

  The first heading names a month from `first_key` on. The others count only if
  they name the year after the last one, for 「三年」 is also a length of time.
  No heading is a SourceError.
  """
  page = _join_page(base_texts.read_text(path))
  year_headings = _find_year_headings(page, timeline, first_key)
  if not year_headings:
    raise SourceError(
      f"{path}: no year heading from "
      f"{timeline.full_reign_name(first_key.reign)}"
      f"{first_key.year}年 on; expected a date like 泰始元年春"
    )
  # Positions in the page become positions among its Chinese characters.
  han_counts = [0]
  for character in page:
    han_counts.append(han_counts[-1] + (_HAN.match(character) is not None))
  return PrintedJuan(
    extract_han(page),
    tuple((han_counts[position], key) for position, key in year_headings),
    tuple(
      (han_counts[position], month)
      for position, month in _find_month_openings(
        page, [p for p, _ in year_headings]
      )
    ),
  )


def _join_page(text: str) -> str:
  """Returns a Kanripo page: lines kept, notes and mark-up gone, folded."""
  lines = [
    _NOTE.sub("", _UNENCODED.sub("□", _PAGE.sub("", line))).rstrip("¶")
    for line in text.split("\n")
    if not line.startswith("#")
  ]
  page = "\n".join(line for line in lines if line)
  return numerals.fold_script(page.translate(_GLYPHS))


def _find_year_headings(
  page: str, timeline: Timeline, first_key: TimeKey
) -> list[tuple[int, TimeKey]]:
  """Returns (position, first month of the year) of the headings in order."""
  year_headings: list[tuple[int, TimeKey]] = []
  start = 0
  ordinal = timeline.ordinal(TimeKey(first_key.reign, first_key.year, 1))
  while ordinal < len(timeline):
    key = timeline.key_at(ordinal)
    span = _find_heading(page, start, key, timeline, bool(year_headings))
    if span is None:
      # The juan may begin later than it could; once begun it has no gaps.
      if year_headings:
        break
    else:
      year_headings.append((span[0], key))
      start = span[1]
    ordinal = (
      timeline.interval_ordinals(timeline.year_interval(key.reign, key.year))[1]
      + 1
    )
  return year_headings


def _find_heading(
  page: str, start: int, key: TimeKey, timeline: Timeline, has_begun: bool
) -> tuple[int, int] | None:
  """Returns (start, end) of the heading of a year at or after `start`."""
  reign = timeline.reigns[key.reign - 1]
  names = "|".join(
    numerals.fold_script(name) for name in (reign.name, *reign.aliases)
  )
  number = "元" if key.year == 1 else numerals.format_numeral(key.year)
  number = r"\n?".join(f"{number}年")  # a printed line may end within it
  # The first heading of a juan and of an era names the era.
  era = f"(?:{names})" if key.year == 1 or not has_begun else ""
  year_pattern = rf"(?<![{_NUMERAL_CHARACTERS}]){era}{number}"
  for pattern in (
    rf"(?P<heading>{year_pattern})(?=\s*[春夏秋冬])",
    # Without a season only on a new line, after 「是歲」 has closed a year.
    rf"　是歲[^　]*\n(?P<heading>{year_pattern})",
  ):
    match = re.compile(pattern).search(page, start)
    if match:
      return match.span("heading")
  return None


def _find_month_openings(
  page: str, heading_positions: list[int]
) -> list[tuple[int, int]]:
  """Returns (position, month) of the entries that open with a month."""
  date_pattern = re.compile(
    rf"[春夏秋冬]?\s*(正|{numerals.NUMERAL_PATTERN})月(?![而之])"
  )
  year_pattern = re.compile(r"[^年]*年\s*")
  opening_positions = [match.end() for match in re.finditer(r"　+\n?", page)]
  opening_positions += [
    year_pattern.match(page, position).end() for position in heading_positions
  ]
  return [
    (position, numerals.parse_numeral(match[1], "month"))
    for position in sorted(opening_positions)
    if (match := date_pattern.match(page, position))
  ]
