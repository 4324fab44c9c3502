"""Plain text: one record per line, or per paragraph between blank lines."""

import collections
import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from ctd_jax.chronology.western_dates import parse_roman_numeral
from ctd_jax.texts.works import (
  APPARATUS,
  HEADING,
  TEXT,
  Entry,
  EntryAssembly,
  EntryList,
  Place,
  SideNote,
  SourceFile,
  mark_unencoded,
)

# Year headings of Western annals: "A.D. 787.", "787", "An. dccxcvii.".


_ERA_BEFORE = (
  r"(?:A\.?\s?D\.?|A\.|C\.?\s?E\.?|B\.?\s?C\.?(?:\s?E\.?)?"
  r"|Anno(?:\s+Domini)?|Ann?\.|Year|Annal)"
)
_ERA_AFTER = r"(?:A\.?\s?D\.?|B\.?\s?C\.?(?:\s?E\.?)?|C\.?\s?E\.?)"
_HEADING = re.compile(
  # 1074-03-02 is a day.
  rf"(?!\d{{4}}-\d\d-\d\d)(?P<bracket>[\[(])?(?:(?P<before>{_ERA_BEFORE})\s*)?"
  r"(?P<year>\d{1,4}|[ivxlcdm]{1,15})(?:\s*[-–/]\s*(?P<last>\d{1,4}))?"
  rf"(?:\s*(?P<after>{_ERA_AFTER}))?[\])]?"
  r"(?P<end>\.?\s*(?:[—–]|--?)\s*|[.:,;]+\s+|[.:,;]*\s*\Z|(?P<space>\s+))",
  re.IGNORECASE,
)
# "U431.1:": year and item of the Irish annals.
_ITEM_HEADING = re.compile(r"[A-Z]{1,3}(?P<year>\d{3,4})\.\d{1,3}\b[.:]?\s*")
_MIN_BARE_DIGITS = 3
_MONTHS = (
  r"(?:january|february|march|april|may|june|july|august|september|october"
  r"|november|december|januar(?:y|ius|ii)|februarius|martius|aprilis|maius"
  r"|junius|iunius|julius|iulius|augustus|octobris|novembris|decembris"
  r"|mense\s+\w+|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
)
_MONTH_LINE = re.compile(
  rf"[\[(]?(?:(?:in|the\s+month\s+of)\s+)?{_MONTHS}\.?(?:,?\s+\d{{3,4}})?[.:,)\]]*\Z",
  re.IGNORECASE,
)
_LATIN_LETTER = re.compile(r"[A-Za-z\u00c0-\u024f]")
_MIN_HEADINGS = 3
_MIN_UNLABELLED_YEAR = 100
_MIN_ORDERED_SHARE = 0.9


class YearHeading(NamedTuple):
  """A year that opens a paragraph."""

  year: int  # astronomical: 0 is 1 BCE
  has_era: bool  # whether "A.D.", "BC" or "Anno" is printed
  end: int  # how many characters of the paragraph the heading takes


def match_year_heading(text: str) -> YearHeading | None:
  """Returns the year that opens `text` as its heading, or None.

  A number or Roman numeral that a full stop, colon, comma, dash, the end of the
  text or a capital follows: "In 787 he came" has no heading. Source: headings
  of the English, Irish and Latin annals in print.
  """
  item = _ITEM_HEADING.match(text)
  if item is not None:
    return YearHeading(int(item["year"]), False, item.end())
  match = _HEADING.match(text)
  if match is None:
    return None
  number = match["year"]
  year = int(number) if number.isdecimal() else parse_roman_numeral(number)
  era = f"{match['before'] or ''}{match['after'] or ''}"
  if not year or (not number.isdecimal() and len(number) < 2):
    return None
  if match["space"] and not (
    text[match.end()].isupper()
    and (era or match["bracket"] or len(number) >= _MIN_BARE_DIGITS)
    and (era or number.isdecimal())
  ):
    return None
  if "b" in era.lower():
    year = 1 - year
  return YearHeading(year, bool(era), match.end())


def split_year_headings(entries: Sequence[Entry]) -> list[Entry]:
  """Returns entries with the years of Western annals as headings.

  A text is taken for annals if it is written in an alphabet, at least three
  paragraphs open with a year, and the years run forwards; without an era
  ("787.") they have to go beyond 100, for lists are numbered too. What follows
  a year is under it, and months that stand alone under their year.
  """
  years = {
    index: heading
    for index, entry in enumerate(entries)
    if entry.kind in (TEXT, HEADING)
    and (heading := match_year_heading(entry.text)) is not None
  }
  if not _are_annals(entries, list(years.values())):
    return list(entries)
  result = []
  upper: tuple[str, ...] = ()
  year_text: tuple[str, ...] = ()
  month_text: tuple[str, ...] = ()
  for index, entry in enumerate(entries):
    if entry.kind == HEADING or entry.headings != upper:
      year_text = month_text = ()
      upper = entry.headings
    if entry.kind == TEXT and index in years:
      end = years[index].end
      heading = _cut_entry(entry, 0, end)
      result.append(dataclasses.replace(heading, kind=HEADING))
      year_text, month_text = (heading.text,), ()
      if not entry.text[end:].strip():
        continue
      entry = _cut_entry(entry, end, len(entry.text))
    elif entry.kind == TEXT and _MONTH_LINE.match(entry.text):
      result.append(
        dataclasses.replace(entry, kind=HEADING, headings=upper + year_text)
      )
      month_text = (entry.text,)
      continue
    result.append(
      dataclasses.replace(entry, headings=upper + year_text + month_text)
    )
  return result


def _are_annals(
  entries: Sequence[Entry], headings: Sequence[YearHeading]
) -> bool:
  if len(headings) < _MIN_HEADINGS:
    return False
  sample = "".join(entry.text[:200] for entry in entries[:200])
  if len(_LATIN_LETTER.findall(sample)) < len(sample) / 2:
    return False
  years = [heading.year for heading in headings]
  num_ordered = sum(
    year <= following for year, following in itertools.pairwise(years)
  )
  if num_ordered < _MIN_ORDERED_SHARE * (len(years) - 1):
    return False
  return (
    sum(heading.has_era for heading in headings) * 2 >= len(headings)
    or max(years) >= _MIN_UNLABELLED_YEAR
  )


def _cut_entry(entry: Entry, start: int, end: int) -> Entry:
  """Returns the part of an entry from `start` to `end`, blanks trimmed."""
  part = entry.text[start:end]
  start += len(part) - len(part.lstrip())
  end = start + len(part.strip())
  is_last = end == len(entry.text)
  line_starts: list[tuple[int, Place]] = [(0, entry.place_at(start))]
  line_starts += [
    (position - start, place)
    for position, place in entry.line_starts
    if start < position < end
  ]
  notes = tuple(
    SideNote(max(0, note.position - start), note.text, note.place, note.kind)
    for note in entry.notes
    if (note.position > start or start == 0)
    and (note.position <= end or is_last)
  )
  return dataclasses.replace(
    entry,
    text=part.strip(),
    place=line_starts[0][1],
    notes=notes,
    line_starts=tuple(line_starts),
  )


UNITS = ("line", "paragraph")
_SENTENCE_END = re.compile(r"[。！？!?.．」』”’\"')）]\s*\Z")
_PUNCTUATION = re.compile(r"[，。！？；：、「」『』《》!?;:,.．]")
_MARKED_HEADING = re.compile(r"(={1,6})\s*(.+?)\s*\1\s*\Z")
_BRACKETED_HEADING = re.compile(r"【([^【】]*)】(.*)\Z")
_NUMERAL = r"[一二三四五六七八九十百千〇零廿卅\d]"
_VOLUME_HEADING = re.compile(
  rf".{{0,12}}(?:第?{_NUMERAL}+[卷巻章回篇]|[卷巻]第?{_NUMERAL}+|[卷巻][上中下])"
  r"(?:[\s　].{0,20})?\Z"
)
# 「起昭陽大荒落，盡屠維大淵獻，凡七年。」: the years of a juan of 通鑑.
_SPAN_LINE = re.compile(r"起.{2,12}[，,]?盡.{2,14}[，,]?凡.{1,3}年[。]?\Z")
_NAVIGATION = re.compile(r"(?:上一[篇卷頁页]|下一[篇卷頁页]|回目[錄录]|返回)")
_ITEM = re.compile(
  rf"(\d{{1,3}})[\s　]+(?=[\u3400-\u9fff「『《])|({_NUMERAL}{{1,4}})、(?=\S)"
  r"|（([經传傳经]?[一二三四五六七八九十百・·\d]*)）(?=[\u3400-\u9fff])"
)
_FOOTNOTE_MARK = re.compile(r"\[\d{1,3}\]")
# 〔族〕(之): the editors read 族, the print has 之.
_EMENDATION = re.compile(r"〔([^〔〕]*)〕\(([^()]*)\)")
_MAX_HEADING_LENGTH = 20
_MAX_CAPITALS = 60
_PUNCTUATED_SHARE = 0.5
_LINE_SHARE = 0.8
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_SOFT_HYPHEN_END = re.compile(r"[A-Za-z]-\Z")


def find_unit(text: str) -> str:
  """Returns `line` or `paragraph`: what holds a record in this text.

  Paragraphs, where empty lines divide the text and lines within a paragraph
  break off in the middle of a sentence.
  """
  blocks = [
    [line for line in block.split("\n") if line.strip()]
    for block in re.split(r"\n[ \t　\r]*\n", text.strip("\n"))
  ]
  blocks = [block for block in blocks if block]
  inner_lines = [line for block in blocks for line in block[:-1]]
  if len(blocks) < 2 or not inner_lines:
    return "line"
  num_ends = sum(
    _SENTENCE_END.search(line) is not None or _is_marked_heading(line.strip())
    for line in inner_lines
  )
  return "line" if num_ends >= _LINE_SHARE * len(inner_lines) else "paragraph"


def read_plain(
  files: Sequence[SourceFile], unit: str | None = None
) -> EntryList:
  """Returns the entries of one work.

  Args:
    files: files in order; if there are several, each goes under its own name.
    unit: `line` or `paragraph`; found for each file if None.
  """
  entry_list = EntryList()
  for file in files:
    entry_list.close_headings()
    lines = file.text.split("\n")
    if len(files) > 1:
      assembly = EntryAssembly()
      assembly.start_line(Place(file.name, 1))
      # `01_隱公.txt` is 隱公.
      name = file.name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
      assembly.add_spaced(re.sub(r"\A\d+[_.\s-]+(?=\S)", "", name))
      entry_list.add(assembly, HEADING, level=-1)
      entry_list.counts["headings from file names"] += 1
    is_line = (unit or find_unit(file.text)) == "line"
    is_punctuated = _is_punctuated(lines)
    block: list[tuple[int, str]] = []
    for number, raw_line in enumerate(lines, start=1):
      line = raw_line.strip()
      heading = _match_heading(line, is_punctuated and is_line)
      if block and (is_line or not line or heading):
        _add_block(block, file.name, entry_list)
        block = []
      if not line:
        continue
      entry_list.counts["indents"] += len(raw_line) - len(raw_line.lstrip("　"))
      if heading is not None:
        kind, level, text, mark_count = heading
        entry_list.counts["heading marks"] += mark_count
        assembly = EntryAssembly()
        assembly.start_line(Place(file.name, number))
        assembly.add_spaced(_clean(text, entry_list.counts))
        entry_list.add(assembly, kind, level=level)
        continue
      block.append((number, line))
    if block:
      _add_block(block, file.name, entry_list)
  return entry_list


def _is_punctuated(lines: Sequence[str]) -> bool:
  lines = [line.strip() for line in lines if line.strip()]
  num_ends = sum(_SENTENCE_END.search(line) is not None for line in lines)
  return bool(lines) and num_ends >= _PUNCTUATED_SHARE * len(lines)


def _is_marked_heading(line: str) -> bool:
  return bool(_MARKED_HEADING.match(line) or _BRACKETED_HEADING.match(line))


def _match_heading(
  line: str, is_punctuated: bool
) -> tuple[str, int, str, int] | None:
  """Returns (kind, level, text, characters of its marks), None for text."""
  match = _MARKED_HEADING.match(line)
  if match:
    return HEADING, len(match[1]), match[2], 2 * len(match[1])
  match = _BRACKETED_HEADING.match(line)
  if match and not (
    _PUNCTUATION.search(match[2]) and not _SPAN_LINE.match(match[2].strip())
  ):
    return HEADING, 1, f"{match[1]} {match[2]}", 2
  if len(_NAVIGATION.findall(line)) >= 2:
    return APPARATUS, 0, line, 0
  if _SPAN_LINE.match(line):
    return HEADING, 2, line, 0
  if _PUNCTUATION.search(line):
    return None
  if not _HAN.search(line):
    # A line in capitals heads others; years and months are found later.
    is_heading = (
      line.isupper()
      and len(line) <= _MAX_CAPITALS
      and match_year_heading(line) is None
      and not _MONTH_LINE.match(line)
    )
    return (HEADING, 2, line, 0) if is_heading else None
  if _VOLUME_HEADING.match(line):
    return HEADING, 1, line, 0
  if is_punctuated and len(line) <= _MAX_HEADING_LENGTH:
    return HEADING, 3, line, 0
  return None


def _clean(text: str, counts: collections.Counter[str]) -> str:
  """Returns text without footnote marks, □ for what has no code."""
  text, num_marks = _FOOTNOTE_MARK.subn("", text)
  counts["footnote marks"] += num_marks
  text, num_unencoded = mark_unencoded(text)
  counts["characters without a code"] += num_unencoded
  return text


def _add_block(
  block: list[tuple[int, str]], file_name: str, entry_list: EntryList
) -> None:
  """Adds an entry of the lines of a block."""
  counts = entry_list.counts
  assembly = EntryAssembly()
  label = ""
  is_hyphenated = False
  for index, (number, line) in enumerate(block):
    place = Place(file_name, number)
    line = _clean(line, counts)
    if index == 0:
      item = _ITEM.match(line)
      if item is not None:
        label = item[1] or item[2] or item[3] or ""
        counts["item numbers"] += 1
        counts["Han characters in item numbers"] += len(_HAN.findall(item[0]))
        line = line[item.end() :]
    assembly.start_line(place)
    if index and not is_hyphenated:
      line = f" {line}"
    is_hyphenated = (
      index + 1 < len(block)
      and _SOFT_HYPHEN_END.search(line) is not None
      and block[index + 1][1][:1].islower()
    )
    if is_hyphenated:
      counts["hyphens at line ends"] += 1
      line = line[:-1]
    position = 0
    for match in _EMENDATION.finditer(line):
      assembly.add_spaced(line[position : match.start()] + match[1])
      counts["other readings"] += 1
      assembly.add_note(match[2], place, "reading")
      position = match.end()
    assembly.add_spaced(line[position:])
  entry_list.add(assembly, TEXT, label=label)
