"""Kanripo's mandoku files: marks, printed lines, paragraphs, entries.

Two families write the same marks. Printed editions (WYG, SBCK) keep the lines
of the block print: the end of a line is no end of a sentence, and what is a
heading, a paragraph or subordinate text shows only by indents and by lines that
are not full. TLS editions have a clause a line, `**` headings and item numbers.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.texts.assembly import EntryAssembly, EntryList
from ctd_jax.texts.works import (
  APPARATUS,
  HEADING,
  MISSING_CHARACTER,
  TEXT,
  Place,
)

_MODE_LINE = re.compile(r"#\s*-\*-.*mandoku", re.IGNORECASE)
_PROPERTY = re.compile(r"#\+(\w+):\s*(.*?)\s*$")
_PAGE_BREAK = re.compile(r"<pb:([^<>]*)>")
# A character without a code: its number at Kanripo, its parts as in [車*犬], a
# private code that means something else in every font, a control character
# that a transcript left in its place, or the printers' 〓.
_UNENCODED = re.compile(
  r"&KR\d+;"
  r"|\[(?=[^\[\]]*[\u3400-\u9fff])(?:[\u2e80-\u9fff\U00020000-\U0003ffff?()]*"
  r"[*+@/-])+[\u2e80-\u9fff\U00020000-\U0003ffff?()]*\]"
  r"|[〓\x01-\x08\x0e-\x1f\x7f\ue000-\uf8ff\U000f0000-\U0010fffd]"
)
_MAY_BE_UNENCODED = re.compile(
  r"[&\[〓\x01-\x08\x0e-\x1f\x7f\ue000-\uf8ff\U000f0000-\U0010fffd]"
)
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_NOTE = re.compile(r"\(([^()]*)\)")
# 「(臣/)等謹案」, 「(臣明楷)」: editors write their own name small.
_HUMBLE_NAME = re.compile(r"臣.{0,3}\Z")
_ZERO_BEFORE = re.compile(r"[一二三四五六七八九百千十]\Z")

_NUMERAL = r"[一二三四五六七八九十百千〇零廿卅\d]"
# 「續資治通鑑長編巻六」, 「公羊第二」, 「卷第四終」.
_TITLE_LINE = re.compile(
  rf".{{0,20}}(?:[卷巻]|第){_NUMERAL}+(?:[上中下]|之[上中下]*{_NUMERAL}*|考[證証]|終|目[錄録])*"
  rf"(?:　.*)?\Z|.{{0,20}}[卷巻](?:第|苐)?(?:{_NUMERAL}+|[上中下])"
  rf"(?:[上中下]|之[上中下]*{_NUMERAL}*|考[證証]|終|目[錄録])*(?:　.*)?\Z"
)
_SERIES_LINE = re.compile(r"欽定四[庫厙]全書")
_AUTHOR_LINE = re.compile(
  r"(?:撰|注|註|疏|䟽|音[義註注]|[集]解|學|校|編|輯|述|譔|著|集註|集注|校正|正義)\Z"
)
# 「帝扄」, 「周武王」, 「隱公」: a ruler whose years follow.
_RULER_LINE = re.compile(
  r"(?:帝.{1,3}|[帝黄黃炎].{2,5}氏|.{1,4}[公王帝]"
  r"|.{1,2}公[元一二三四五六七八九十]+年)\Z"
)
_FIRST_YEAR = "元年"
# 「葬某公」 is an entry of the annals.
_VERB_OPENING = re.compile(r"[葬𦵏塟立弑弒殺㑹會盟執納歸伐公]")
# Whoever made the edition signs after the text.
_EDITOR_LINE = re.compile(
  r"總　*纂|總　*校|詳　*校|覆　*校|校　*對|謄　*[録錄]"
)
_COLLATION_TITLE = re.compile(
  r".{2,16}(?:[卷巻].{1,8}|[原總]?目[録錄]?)考[證証]\Z"
)
_VOLUME_LINE = re.compile(rf"{_NUMERAL}+[卷巻]\Z")
_DATE_CUE = re.compile(
  rf"[{sexagenary.STEMS}][{sexagenary.BRANCHES}]|(?:元|{_NUMERAL}+)[年月]"
  r"|[春夏秋冬閏]|正月|是[月歲嵗年日]"
)
# 「二年春」, not 「三年之喪」.
_YEAR_CUE = re.compile(
  r"(?:元|[一二三四五六七八九十百廿卅有]{1,5})年"
  r"(?:[春夏秋冬閏]|[正一二三四五六七八九十]{1,2}月)"
)
_YEAR_OPENING = re.compile(r"(?:元|[一二三四五六七八九十百廿卅有]{1,5})年")
_SEPARATOR = re.compile(r"\([^()]*\)|[○〇]|　+|[ \t]+|[()]")
_PLAIN_LINE = re.compile(r"[^()○〇　 \t]*\Z")
_WIDE_QUANTILE = 0.97
_MIN_LINES_OF_QUANTILE = 1000
_WIDE_SHARE = 0.65
_MIN_PAGE_LENGTH = 60
_MIN_LINES = 20  # below, the widest line is a full one
_MIN_LINES_OF_INDENT = 6
_RUN_SHARE = 0.3
_YEAR_SHARE = 0.3
_SEPARATOR_SHARE = 0.01
_AUTHOR_INDENT = 9
_MAX_AUTHOR_LINES = 2
# 「音義(…)」, 「疏(…)」: what the 注疏 call the note that follows.
_NOTE_LABELS = ("音義", "疏", "䟽")
_LABELLED_TITLE = re.compile(r"[注註][疏䟽]")
_MAX_RULER_WIDTH = 7
_TABULAR_GAP = "　　　"

_TLS_HEADING = re.compile(r"(\*+)\s+(?:([\d.]+)\s+)?(.*)")
_TLS_TITLE = re.compile(
  r"(?:\d+ )?(?:([A-Z]?\d+(?:\.\d+)*)\s*)?《([^《》]+)》\Z"
)
_TLS_ITEM = re.compile(r"([A-Z]?\d+(?:\.\d+){2,})\s*")
_TLS_STRAY_NUMBER = re.compile(r"(\d+) +")
_MIN_ITEMS = 3
_WITHIN_SENTENCE = "，、：；"


class SourceFile(NamedTuple):
  """A file that was decoded.

  Attributes:
    name: below the path that was read.
    text: its text, `\\n` at line ends.
  """

  name: str
  text: str


class _Line(NamedTuple):
  """A printed line without its marks; `body` is "" where nothing is printed.

  `width` counts the characters that stand in the column, two of a note for
  one, the indent included; `is_apparatus` says that the line is the editors'
  collation or on a page that the transcript has twice.
  """

  place: Place
  indent: int
  body: str
  width: int
  is_apparatus: bool


class _Paragraph(NamedTuple):
  """Printed lines that belong together.

  `is_isolated`: empty lines are around it; `is_spaced`: a full-width space
  divides it from the line above.
  """

  lines: list[_Line]
  is_isolated: bool
  is_spaced: bool


def is_mandoku(text: str) -> bool:
  """Whether the first lines of a file have mandoku's marks."""
  head = text[:4000]
  return bool(
    _MODE_LINE.match(head)
    or _PAGE_BREAK.search(head)
    or re.search(r"^#\+(?:TITLE|PROPERTY):", head, re.MULTILINE)
  )


def mark_unencoded(text: str) -> tuple[str, int]:
  """Returns the text with □ for each character without a code, and how many."""
  if not _MAY_BE_UNENCODED.search(text):
    return text, 0
  return _UNENCODED.subn(MISSING_CHARACTER, text)


def read_properties(files: Sequence[SourceFile]) -> dict[str, str]:
  """Returns what the `#+` heads say: values that all files have in common.

  Of `#+PROPERTY: ID KR2b0019` the key is `ID`.
  """
  values: dict[str, list[str]] = {}
  for file in files:
    for key, value in _iterate_properties(file.text):
      if value not in values.setdefault(key, []):
        values[key].append(value)
  return {
    key: alternatives[0]
    for key, alternatives in values.items()
    if len(alternatives) == 1 and alternatives[0]
  }


def read_identifier(text: str) -> str:
  """Returns the identifier that the head of a file gives, or ""."""
  return dict(_iterate_properties(text[:4000])).get("ID", "")


def _iterate_properties(text: str) -> Iterator[tuple[str, str]]:
  for line in text.split("\n"):
    if not line.startswith("#"):
      # Heads stand before the text; only collations have one further down.
      if line.strip():
        return
      continue
    match = _PROPERTY.match(line)
    if match is None:
      continue
    key, value = match[1].upper(), match[2]
    if key == "PROPERTY":
      key, _, value = value.partition(" ")
      key, value = key.upper(), value.strip()
    yield key, value


def read_mandoku(files: Sequence[SourceFile]) -> EntryList:
  """Returns the entries of one work.

  Args:
    files: its juan, in order.
  """
  entry_list = EntryList()
  printed: list[list[_Line]] = []
  for file in files:
    if _is_tls(file.text):
      _read_tls(file, entry_list)
    else:
      printed.append(_read_printed_lines(file, entry_list.counts))
  if printed:
    _PrintedEdition(printed, _title_of(files), entry_list).read()
  return entry_list


def _title_of(files: Sequence[SourceFile]) -> str:
  return read_properties(files[:1]).get("TITLE", "")


def _is_tls(text: str) -> bool:
  return bool(
    re.search(r"^\*+ ", text, re.MULTILINE)
    or dict(_iterate_properties(text)).get("BASEEDITION", "").lower() == "tls"
  )


def _name_page(name: str) -> str:
  """Returns `010-3b` of `KR2b0019_WYG_010-3b`."""
  return name.rsplit("_", 1)[-1]


def _count_head_line(line: str, counts: collections.Counter[str]) -> None:
  counts["head lines" if line.startswith("#+") else "comment lines"] += 1
  counts["Han characters in head and comment lines"] += len(_HAN.findall(line))


def _strip_marks(line: str, counts: collections.Counter[str]) -> str:
  """Returns a line without page breaks and ends, □ for what has no code."""
  if "¶" in line:
    counts["line ends"] += line.count("¶")
    line = line.replace("¶", "")
  line, num_unencoded = mark_unencoded(line)
  if num_unencoded:
    counts["characters without a code"] += num_unencoded
  return line


# Printed editions.


def _read_printed_lines(
  file: SourceFile, counts: collections.Counter[str]
) -> list[_Line]:
  """Returns the printed lines of a juan."""
  lines = []
  page = ""
  is_collation = is_page_top = False
  for number, raw_line in enumerate(file.text.split("\n"), start=1):
    if raw_line.startswith("#"):
      _count_head_line(raw_line, counts)
      if raw_line.startswith("#+PROPERTY: JUAN"):
        is_collation = raw_line.rstrip().endswith("考證")
      continue
    place = Place(file.name, number, page)
    line = raw_line
    if "<pb:" in line:
      breaks = list(_PAGE_BREAK.finditer(line))
      counts["page breaks"] += len(breaks)
      page = _name_page(breaks[-1][1])
      line = _PAGE_BREAK.sub("", line)
      if raw_line.startswith("<pb:"):
        place = Place(file.name, number, page)
      if not line.strip("¶ \t\r"):
        counts["line ends"] += line.count("¶")
        is_page_top = True
        continue  # the mark of a page is no empty line
    line = _strip_marks(line, counts).rstrip()
    if is_page_top and not line:
      continue  # nor is what some transcripts leave below it
    is_page_top = False
    body = line.lstrip("　")
    indent = len(line) - len(body)
    body = body.strip(" \t")
    width = indent + len(body)
    if "(" in body:
      width = indent + len(_NOTE.sub(_measure_note, body))
    lines.append(_Line(place, indent, body, width, is_collation))
    if (
      indent
      and body.endswith(("考證", "考証"))
      and _COLLATION_TITLE.match(body)
    ):
      is_collation = True
  return _mark_repeated_pages(lines, counts)


def _mark_repeated_pages(
  lines: list[_Line], counts: collections.Counter[str]
) -> list[_Line]:
  """Returns the lines, those of pages that came before marked as apparatus.

  Some transcripts have a page twice, in place of another: read as text, its
  dates would run back.
  """
  earlier_pages: set[str] = set()
  marked: list[_Line] = []
  for _, group in itertools.groupby(lines, key=lambda line: line.place.page):
    page = list(group)
    text = "".join(line.body for line in page)
    if len(text) >= _MIN_PAGE_LENGTH and text in earlier_pages:
      counts["pages printed twice"] += 1
      page = [line._replace(is_apparatus=True) for line in page]
    earlier_pages.add(text)
    marked += page
  return marked


def _measure_note(match: re.Match[str]) -> str:
  """Returns as many characters as the note is long in the column."""
  note = match[1]
  if "/" in note:
    return "x" * max(map(len, note.split("/")))
  return "x" * ((len(note) + 1) // 2)


class _PrintedEdition:
  """The lines of a printed edition made into entries."""

  def __init__(
    self, juans: list[list[_Line]], title: str, entry_list: EntryList
  ):
    self._juans = juans
    self._title = title
    self._entry_list = entry_list
    self._counts = entry_list.counts
    lines = [line for juan in juans for line in juan if line.body]
    self._full_width = _find_full_width(lines)
    self._work_text_indents = self._find_text_indents(juans)
    self._text_indents: frozenset[int] = frozenset()
    self._has_text_begun = False
    self._has_note_labels = _LABELLED_TITLE.search(title) is not None
    self._years_open = self._do_years_open()
    # Whether full-width spaces within lines divide entries, as in annals, or
    # are gaps of the print.
    full_lines = [
      line.body for line in lines if line.width >= self._full_width - 1
    ]
    num_spaces = sum("　" in _NOTE.sub("", body) for body in full_lines)
    self._spaces_divide = bool(
      full_lines and num_spaces / len(full_lines) >= _SEPARATOR_SHARE
    )

  def _do_years_open(self) -> bool:
    """Whether paragraphs open with a year, as those of annals by years do."""
    num_openings = num_years = 0
    for juan in self._juans:
      for line, next_line in itertools.pairwise(juan):
        if (
          line.body
          and line.width < self._full_width - 1
          and next_line.body
          and next_line.indent == 0
        ):
          num_openings += 1
          num_years += _YEAR_OPENING.match(next_line.body) is not None
    return num_years > _YEAR_SHARE * num_openings

  def _find_text_indents(
    self, juans: list[list[_Line]], min_lines: int = _MIN_LINES_OF_INDENT
  ) -> dict[int, bool]:
    """Returns of each indent whether running text is printed with it.

    Running text goes on in the next line; headings do not.
    """
    num_lines: collections.Counter[int] = collections.Counter()
    num_runs: collections.Counter[int] = collections.Counter()
    for juan in juans:
      previous = None
      for line in juan:
        if not line.body:
          previous = None
          continue
        num_lines[line.indent] += 1
        if (
          previous is not None
          and previous.indent == line.indent
          and previous.width >= self._full_width - 1
        ):
          num_runs[line.indent] += 1
        previous = line
    return {
      indent: num_runs[indent] / count >= _RUN_SHARE
      for indent, count in num_lines.items()
      if count >= min_lines
    }

  def read(self) -> None:
    """Adds the entries of all juan."""
    for juan in self._juans:
      self._entry_list.close_headings()
      self._has_text_begun = False
      text_indents = self._work_text_indents | self._find_text_indents([juan])
      self._text_indents = frozenset(
        indent for indent, is_text in text_indents.items() if is_text
      )
      self._counts["indents"] += sum(line.indent for line in juan)
      paragraphs = list(self._split_paragraphs(juan))
      for index, paragraph in enumerate(paragraphs):
        self._add_paragraph(
          paragraph, self._find_next_opening(paragraphs, index)
        )

  def _is_full(self, line: _Line, next_line: _Line) -> bool:
    """Whether the text of a line goes on in the next one."""
    if (
      self._years_open
      and next_line.indent == 0
      and _YEAR_CUE.match(next_line.body)
    ):
      return False
    if line.width >= self._full_width:
      return True
    # One short is a slip of the transcript as often as the end of an entry.
    return (
      line.width == self._full_width - 1
      and _DATE_CUE.match(next_line.body) is None
    )

  def _find_next_opening(self, paragraphs: list[_Paragraph], index: int) -> str:
    """Returns how the next paragraph that is not indented opens: with its
    first year ("元年"), with a year ("年") or otherwise ("")."""
    for paragraph in paragraphs[index + 1 :]:
      line = paragraph.lines[0]
      if line.indent == 0:
        if line.body.startswith(_FIRST_YEAR):
          return _FIRST_YEAR
        return "年" if _YEAR_OPENING.match(line.body) else ""
    return ""

  def _split_paragraphs(self, juan: list[_Line]) -> Iterator[_Paragraph]:
    paragraph: list[_Line] = []
    is_after_gap, is_spaced = True, False
    for line in juan:
      if not line.body:
        if paragraph:
          yield _Paragraph(paragraph, is_after_gap, is_spaced)
        paragraph, is_after_gap, is_spaced = [], True, False
        continue
      if not paragraph:
        paragraph = [line]
        continue
      previous = paragraph[-1]
      is_full = (
        self._is_full(previous, line)
        and line.is_apparatus == previous.is_apparatus
      )
      is_end_title = (
        is_full
        and line.width < self._full_width - 1
        and line.body.startswith(self._title[:2] or _TABULAR_GAP)
        and self._is_title(line)
      )
      # Small type is miscounted most easily, and no entry begins with it.
      is_note_open = (
        previous.body.endswith(")")
        and line.body.startswith("(")
        and line.is_apparatus == previous.is_apparatus
      )
      if (is_note_open or (is_full and not is_end_title)) and self._continues(
        paragraph, line
      ):
        paragraph.append(line)
        continue
      # A full-width space that would end the line above stands before this.
      is_next_spaced = (
        is_full
        and self._spaces_divide
        and line.indent == 1
        and (previous.indent == 0 or is_spaced)
        and 1 not in self._text_indents
        and not self._is_title(line)
      )
      yield _Paragraph(paragraph, False, is_spaced)
      paragraph, is_after_gap, is_spaced = [line], False, is_next_spaced
    if paragraph:
      yield _Paragraph(paragraph, False, is_spaced)

  def _continues(self, paragraph: list[_Line], line: _Line) -> bool:
    """Whether the indent of a line fits the paragraph above it."""
    previous = paragraph[-1]
    if line.indent == previous.indent:
      return True
    if previous.is_apparatus:
      return line.indent > paragraph[0].indent  # hanging indent
    # A first line that is indented alone.
    return (
      len(paragraph) == 1
      and line.indent == 0
      and previous.indent == 1
      and 1 not in self._text_indents
    )

  def _is_title(self, line: _Line) -> bool:
    """Whether the line names the work or one of its juan."""
    body = _NOTE.sub("", line.body)
    return bool(
      _TITLE_LINE.match(body)
      or _VOLUME_LINE.match(body)
      or _COLLATION_TITLE.match(body)
      or (
        self._title
        and len(body.split(_TABULAR_GAP)[0]) <= len(self._title) + 4
        and numerals.fold_script(body).startswith(
          numerals.fold_script(self._title)
        )
      )
    )

  def _add_paragraph(self, paragraph: _Paragraph, next_opening: str) -> None:
    kind, level = self._classify(paragraph, next_opening)
    first = paragraph.lines[0]
    if first.is_apparatus and not (kind == HEADING and level == 0):
      kind = APPARATUS
    if kind == TEXT:
      self._has_text_begun = True
    elif kind == HEADING and level == 0:
      self._has_text_begun = False  # a file can hold several juan
    indent = first.indent
    if (
      kind == TEXT
      and indent == 1
      and self._spaces_divide
      and 1 not in self._text_indents
    ):
      # The space that divides entries, where one begins with a line.
      self._counts["marks between entries"] += 1
      indent = 0
    self._add_lines(paragraph.lines, kind, level, indent)

  def _classify(
    self, paragraph: _Paragraph, next_opening: str
  ) -> tuple[str, int]:
    """Returns the kind of a paragraph, and the level if it is a heading."""
    lines = paragraph.lines
    first = lines[0]
    body = _NOTE.sub("", first.body)
    if _SERIES_LINE.match(body) or (first.indent and _EDITOR_LINE.match(body)):
      return APPARATUS, 0
    is_short = len(lines) == 1 and first.width < self._full_width
    if is_short and self._is_title(first):
      return HEADING, 0
    if (
      not self._has_text_begun
      and len(lines) <= _MAX_AUTHOR_LINES
      and (is_short or first.indent)
      and (
        first.indent >= _AUTHOR_INDENT
        or (_AUTHOR_LINE.search(lines[-1].body) and not _DATE_CUE.match(body))
      )
    ):
      return APPARATUS, 0
    if not is_short:
      return self._classify_long(paragraph, body)
    if paragraph.is_spaced or (first.indent == 0 and _DATE_CUE.match(body)):
      return TEXT, 0
    num_characters = first.width - first.indent
    # 「周武王」 and then years, or any name and then a first year.
    is_ruler = (
      num_characters < _MAX_RULER_WIDTH
      and _VERB_OPENING.match(body) is None
      and (
        (next_opening == _FIRST_YEAR and first.indent == 0 and self._years_open)
        or (bool(next_opening) and _RULER_LINE.match(body) is not None)
      )
    )
    if first.indent:
      if first.indent in self._text_indents and not is_ruler:
        return TEXT, 0
      return HEADING, 1 + first.indent
    names_work = not self._has_text_begun and bool(
      self._title and self._title in body
    )
    if (
      is_ruler
      or (
        # 「文帝」, or the names of those whose lives follow.
        paragraph.is_isolated
        and not self._has_text_begun
        and (num_characters <= _MAX_RULER_WIDTH or "　" in body)
      )
      or names_work
    ):
      return HEADING, 1
    return TEXT, 0

  def _classify_long(self, paragraph: _Paragraph, body: str) -> tuple[str, int]:
    """Returns kind and level of what fills a line or more."""
    first = paragraph.lines[0]
    if not self._has_text_begun and len(paragraph.lines) == 1:
      if first.indent and self._is_title(first):
        return HEADING, 0
      if paragraph.is_isolated and "　" in body:
        return HEADING, 1  # the names of those whose lives follow
      if _TABULAR_GAP in body:
        return APPARATUS, 0
    if (
      first.indent == 0
      or paragraph.is_spaced
      or first.indent in self._text_indents
      or len(paragraph.lines) > 2
    ):
      return TEXT, 0
    return HEADING, 1 + first.indent

  def _add_lines(
    self, lines: list[_Line], kind: str, level: int, indent: int
  ) -> None:
    """Adds a paragraph, cut where ○ or a full-width space divides entries."""
    assembly = EntryAssembly()
    counts = self._counts
    note_ends_line = False
    for index, line in enumerate(lines):
      assembly.start_line(line.place)
      body = line.body
      if _PLAIN_LINE.match(body):
        assembly.add_unspaced(body)
        note_ends_line = False
        continue
      position = 0
      for match in _SEPARATOR.finditer(body):
        assembly.add_unspaced(body[position : match.start()])
        is_line_start = match.start() == 0
        position = match.end()
        mark = match[0]
        if mark[0] == "(" and len(mark) > 1:
          note = mark[1:-1]
          counts["note columns"] += note.count("/")
          note = note.replace("/", "")
          num_blanks = len(note)
          note = re.sub(r"[\s　]+", "", note)
          counts["blanks"] += num_blanks - len(note)
          if _HUMBLE_NAME.match(note):
            counts["names in small type that are text"] += 1
            assembly.add_unspaced(note)
          elif is_line_start and note_ends_line and assembly.has_notes:
            counts["notes joined over lines"] += 1
            assembly.extend_note(note)
          else:
            counts["notes"] += 1
            label = self._take_note_label(assembly)
            assembly.add_note(label + note, line.place)
          continue
        if mark in "()":
          counts["brackets without a pair"] += 1
          continue
        divides = self._divides(kind, mark, body, match)
        if not divides:
          if mark in "○〇":
            assembly.add_unspaced(mark)
          elif kind == HEADING and len(assembly) and mark[0] == "　":
            assembly.add_unspaced("　")
          else:
            counts["blanks"] += len(mark)
          continue
        counts["marks between entries"] += 1
        self._add_entry(assembly, kind, level, indent)
        assembly = EntryAssembly()
        assembly.start_line(line.place)
      assembly.add_unspaced(body[position:])
      note_ends_line = body.endswith(")") and (
        index + 1 == len(lines) or self._is_full(line, lines[index + 1])
      )
    self._add_entry(assembly, kind, level, indent)

  def _add_entry(
    self, assembly: EntryAssembly, kind: str, level: int, indent: int
  ) -> None:
    """Adds an entry; a note that opens it comments on the entry before."""
    entries = self._entry_list.entries
    if kind == TEXT and entries and entries[-1].kind == TEXT:
      num_notes = self._entry_list.move_opening_notes(assembly)
      self._counts["notes moved to the entry before"] += num_notes
    self._entry_list.add(assembly, kind, indent=indent, level=level)

  def _take_note_label(self, assembly: EntryAssembly) -> str:
    """Returns what names the next note in large type, out of the text."""
    if self._has_note_labels:
      for label in _NOTE_LABELS:
        if assembly.remove_end(label):
          return label
    return ""

  def _divides(
    self, kind: str, mark: str, body: str, match: re.Match[str]
  ) -> bool:
    """Whether a mark between characters begins another entry."""
    if kind != TEXT:
      return False
    if mark == "○":
      return True
    if mark == "〇":  # also the numeral, 「一〇五」
      return _ZERO_BEFORE.search(body[: match.start()]) is None
    if mark[0] != "　":
      return False
    return self._spaces_divide or bool(_DATE_CUE.match(body, match.end()))


def _find_full_width(lines: list[_Line]) -> int:
  """Returns how many characters a full line has.

  The commonest width among the wide ones: tables of contents and annals of a
  few words have more short lines than full ones, and slips of a transcript make
  some lines too wide.
  """
  widths = sorted(line.width for line in lines)
  if not widths:
    return 0
  if len(widths) < _MIN_LINES:
    return widths[-1]
  # One line in thousands can be anything.
  is_long = len(widths) >= _MIN_LINES_OF_QUANTILE
  wide = widths[int(_WIDE_QUANTILE * len(widths)) if is_long else -1]
  wide *= _WIDE_SHARE
  counts = collections.Counter(width for width in widths if width >= wide)
  return max(counts, key=lambda width: (counts[width], width))


# TLS editions.


def _read_tls(file: SourceFile, entry_list: EntryList) -> None:
  """Adds the entries of a juan with a clause a line.

  Where items are numbered, an item is an entry; else what stands between empty
  lines or comments.
  """
  counts = entry_list.counts
  entry_list.close_headings()
  lines = file.text.split("\n")
  is_numbered = (
    sum(
      _TLS_ITEM.match(_PAGE_BREAK.sub("", line)) is not None for line in lines
    )
    >= _MIN_ITEMS
  )
  assembly, label, page = EntryAssembly(), "", ""

  def close_entry() -> EntryAssembly:
    entry_list.add(assembly, label=label)
    return EntryAssembly()

  def is_open() -> bool:
    # An editor's comment can stand within a sentence.
    return is_numbered or assembly.last_character in _WITHIN_SENTENCE

  for number, line in enumerate(lines, start=1):
    if line.startswith("#"):
      _count_head_line(line, counts)
      if not is_open():
        assembly, label = close_entry(), ""
      continue
    if not line.strip():
      if not is_open():
        assembly, label = close_entry(), ""
      continue
    # Parts of the line between page breaks, each with its page.
    parts = _PAGE_BREAK.split(line)
    is_first = True
    for index, part in enumerate(parts):
      if index % 2:
        page = _name_page(part)
        counts["page breaks"] += 1
        continue
      part = _strip_marks(part, counts).strip(" \t\r　")
      if not part:
        continue
      place = Place(file.name, number, page)
      if is_first:
        heading = _match_tls_heading(part)
        if heading is not None:
          assembly, label = close_entry(), ""
          level, heading_label, text = heading
          assembly.start_line(place)
          assembly.add_spaced(text)
          entry_list.add(assembly, HEADING, label=heading_label, level=level)
          assembly = EntryAssembly()
          counts["item numbers"] += bool(heading_label)
          is_first = False
          continue
        item = _TLS_ITEM.match(part) or _TLS_STRAY_NUMBER.match(part)
        if item is not None:
          counts["item numbers"] += 1
          if "." in item[1]:
            assembly, label = close_entry(), item[1]
          part = part[item.end() :]
      is_first = False
      assembly.start_line(place)
      _add_tls_part(part, place, assembly, counts)
  close_entry()


def _match_tls_heading(part: str) -> tuple[int, str, str] | None:
  """Returns (level, label, text) of a heading line."""
  match = _TLS_HEADING.match(part)
  if match is not None:
    return len(match[1]), match[2] or "", match[3]
  match = _TLS_TITLE.match(part)
  if match is not None:
    label = match[1] or ""
    return 10 + label.count("."), label, match[2]
  return None


def _add_tls_part(
  part: str,
  place: Place,
  assembly: EntryAssembly,
  counts: collections.Counter[str],
) -> None:
  position = 0
  for match in _NOTE.finditer(part):
    assembly.add_spaced(part[position : match.start()])
    counts["notes"] += 1
    assembly.add_note(match[1], place)
    position = match.end()
  rest = part[position:]
  counts["brackets without a pair"] += rest.count("(") + rest.count(")")
  assembly.add_spaced(rest.replace("(", "").replace(")", ""))
