"""Plain text: a record a line, or a paragraph between empty lines."""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence

from ctd_jax.texts.assembly import EntryAssembly, EntryList
from ctd_jax.texts.source_files import SourceFile, mark_unencoded
from ctd_jax.texts.works import APPARATUS, HEADING, TEXT, Place
from ctd_jax.texts.year_headings import is_month_line, match_year_heading

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
    files: in order; of several files, each stands under its own name.
    unit: `line` or `paragraph`; found for each file if None.
  """
  entry_list = EntryList()
  for file in files:
    entry_list.close_headings()
    lines = file.text.split("\n")
    if len(files) > 1:
      assembly = EntryAssembly()
      assembly.start_line(Place(file.name, 1))
      assembly.add_spaced(name_part(file.name))
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
      indent = len(raw_line) - len(raw_line.lstrip("　"))
      entry_list.counts["indents"] += indent
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


def name_part(file_name: str) -> str:
  """Returns `隱公` of `01_隱公.txt`, else the name without its ending."""
  stem = file_name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
  return re.sub(r"\A\d+[_.\s-]+(?=\S)", "", stem)


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
    return (HEADING, 2, line, 0) if _is_capital_heading(line) else None
  if _VOLUME_HEADING.match(line):
    return HEADING, 1, line, 0
  if is_punctuated and len(line) <= _MAX_HEADING_LENGTH:
    return HEADING, 3, line, 0
  return None


def _is_capital_heading(line: str) -> bool:
  """Whether a line in capitals heads others; years and months come later."""
  return (
    line.isupper()
    and len(line) <= _MAX_CAPITALS
    and match_year_heading(line) is None
    and not is_month_line(line)
  )


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
