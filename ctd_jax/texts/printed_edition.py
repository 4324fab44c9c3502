"""Printed editions: lines made into paragraphs, headings and entries.

The end of a line is not the end of a sentence; what is a heading, a paragraph
or subordinate text shows only by indents and by lines that are not full.
"""

import collections
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ctd_jax.chronology import numerals, sexagenary
from ctd_jax.texts.works import (
  APPARATUS,
  HEADING,
  TEXT,
  EntryAssembly,
  EntryList,
  Place,
  SourceFile,
  mark_unencoded,
)

# Patterns of printed lines: titles, headings, rulers, dates, separators.


_NUMERAL = r"[一二三四五六七八九十百千〇零廿卅\d]"
# 「續資治通鑑長編巻六」, 「公羊第二」, 「卷第四終」.
TITLE_LINE = re.compile(
  rf".{{0,20}}(?:[卷巻]|第){_NUMERAL}+(?:[上中下]|之[上中下]*{_NUMERAL}*|考[證証]|終|目[錄録])*"
  rf"(?:　.*)?\Z|.{{0,20}}[卷巻](?:第|苐)?(?:{_NUMERAL}+|[上中下])"
  rf"(?:[上中下]|之[上中下]*{_NUMERAL}*|考[證証]|終|目[錄録])*(?:　.*)?\Z"
)
SERIES_LINE = re.compile(r"欽定四[庫厙]全書")
AUTHOR_LINE = re.compile(
  r"(?:撰|注|註|疏|䟽|音[義註注]|[集]解|學|校|編|輯|述|譔|著|集註|集注|校正|正義)\Z"
)
# 「帝扄」, 「周武王」, 「隱公」: a ruler whose years follow.
RULER_LINE = re.compile(
  r"(?:帝.{1,3}|[帝黄黃炎].{2,5}氏|.{1,4}[公王帝]"
  r"|.{1,2}公[元一二三四五六七八九十]+年)\Z"
)
FIRST_YEAR = "元年"
# 「葬某公」 is an entry of the annals.
VERB_OPENING = re.compile(r"[葬𦵏塟立弑弒殺㑹會盟執納歸伐公]")
# The makers of the edition sign after the text.
EDITOR_LINE = re.compile(r"總　*纂|總　*校|詳　*校|覆　*校|校　*對|謄　*[録錄]")
COLLATION_TITLE = re.compile(
  r".{2,16}(?:[卷巻].{1,8}|[原總]?目[録錄]?)考[證証]\Z"
)
# 「提要」, up to 「乾隆四十六年十一月恭校上」.
_SUMMARY_TITLE, _SUMMARY_END = "提要", "恭校上"
VOLUME_LINE = re.compile(rf"{_NUMERAL}+[卷巻]\Z")
DATE_CUE = re.compile(
  rf"[{sexagenary.STEMS}][{sexagenary.BRANCHES}]|(?:元|{_NUMERAL}+)[年月]"
  r"|[春夏秋冬閏]|正月|是[月歲嵗年日]"
)
# 「二年春」, not 「三年之喪」.
YEAR_CUE = re.compile(
  r"(?:元|[一二三四五六七八九十百廿卅有]{1,5})年"
  r"(?:[春夏秋冬閏]|[正一二三四五六七八九十]{1,2}月)"
)
YEAR_OPENING = re.compile(r"(?:元|[一二三四五六七八九十百廿卅有]{1,5})年")
_CYCLIC_YEAR = re.compile(rf"{sexagenary.PAIR_PATTERN}[年歲嵗]?\Z")
# 「順天三年」 behind the year of the cycle in small type.
_YEAR_NEAR = re.compile(rf"[^()　]{{0,6}}(?:元|{_NUMERAL}+)年")
# 「二十」 at the end of a line and 「一年」 in the next are one numeral.
_NUMERAL_ACROSS = re.compile(
  r"[十廿卅]\n[一二三四五六七八九]|[二三四五六七八九]\n十"
)
SEPARATOR = re.compile(r"\([^()]*\)|[○〇]|　+|[ \t]+|[()]")
PLAIN_LINE = re.compile(r"[^()○〇　 \t]*\Z")
# 「(臣/)等謹案」, 「(臣明楷)」: editors write their own name small.
HUMBLE_NAME = re.compile(r"臣.{0,3}\Z")
ZERO_BEFORE = re.compile(r"[一二三四五六七八九百千十]\Z")
LABELLED_TITLE = re.compile(r"[注註][疏䟽]")


# Marks that all mandoku files share: page breaks, line ends, notes.


PAGE_BREAK = re.compile(r"<pb:([^<>]*)>")
NOTE = re.compile(r"\(([^()]*)\)")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def name_page(name: str) -> str:
  """Returns `010-3b` of `KR2b0019_WYG_010-3b`."""
  return name.rsplit("_", 1)[-1]


def count_head_line(line: str, counts: collections.Counter[str]) -> None:
  """Counts a line that begins with `#` and its Chinese characters."""
  counts["head lines" if line.startswith("#+") else "comment lines"] += 1
  counts["Han characters in head and comment lines"] += len(_HAN.findall(line))


def strip_marks(line: str, counts: collections.Counter[str]) -> str:
  """Returns a line without page breaks and ends, □ for what has no code."""
  if "¶" in line:
    counts["line ends"] += line.count("¶")
    line = line.replace("¶", "")
  line, num_unencoded = mark_unencoded(line)
  if num_unencoded:
    counts["characters without a code"] += num_unencoded
  return line


# Lines of a printed edition: places, indents, widths in the column.


_WIDE_QUANTILE = 0.97
_MIN_LINES_OF_QUANTILE = 1000
_WIDE_SHARE = 0.65
_FULL_SHARE = 0.5  # of lines of one width, to be sure of it
_NEAR = 0.75  # of the width of the lines that seem full; annals are narrower
_MIN_PAGE_LENGTH = 60


class Line(NamedTuple):
  """A printed line without its marks; `body` is "" if nothing is printed.

  `width` counts the characters that stand in the column, two of a note for
  one, the indent included; `is_apparatus` says that the line is the editors'
  collation or on a page that the transcript has twice.
  """

  place: Place
  indent: int
  body: str
  width: int
  is_apparatus: bool


def read_printed_lines(
  file: SourceFile, counts: collections.Counter[str]
) -> list[Line]:
  """Returns the printed lines of a juan."""
  lines = []
  page = ""
  is_collation = opened_by_title = is_page_top = False
  for number, raw_line in enumerate(file.text.split("\n"), start=1):
    if raw_line.startswith("#"):
      count_head_line(raw_line, counts)
      if raw_line.startswith("#+PROPERTY: JUAN"):
        is_collation = raw_line.rstrip().endswith("考證")
      continue
    place = Place(file.name, number, page)
    line = raw_line
    if "<pb:" in line:
      breaks = list(PAGE_BREAK.finditer(line))
      counts["page breaks"] += len(breaks)
      page = name_page(breaks[-1][1])
      line = PAGE_BREAK.sub("", line)
      if raw_line.startswith("<pb:"):
        place = Place(file.name, number, page)
      if not line.strip("¶ \t\r"):
        counts["line ends"] += line.count("¶")
        is_page_top = True
        continue  # the mark of a page is not an empty line
    line = strip_marks(line, counts).rstrip()
    if is_page_top and not line:
      continue  # nor is what some transcripts leave below it
    is_page_top = False
    body = line.lstrip("　")
    indent = len(line) - len(body)
    body = body.strip(" \t")
    # Two characters of a note are beside each other in the column.
    width = indent + len(NOTE.sub("", body))
    for note in NOTE.findall(body):
      columns = note.split("/")
      width += (
        max(map(len, columns)) if len(columns) > 1 else (len(note) + 1) // 2
      )
    if opened_by_title and SERIES_LINE.match(body):
      # The next juan of the same file.
      is_collation = opened_by_title = False
    lines.append(Line(place, indent, body, width, is_collation))
    if (
      indent and body.endswith(("考證", "考証")) and COLLATION_TITLE.match(body)
    ):
      is_collation = opened_by_title = True
  return _mark_repeated_pages(_mark_summaries(lines), counts)


def _mark_summaries(lines: Sequence[Line]) -> list[Line]:
  """Returns the lines, what a series says of a book marked as apparatus."""
  marked, start = list(lines), None
  for number, line in enumerate(lines):
    is_end = line.body.endswith(_SUMMARY_END)
    if line.indent and line.body == _SUMMARY_TITLE:
      start = number
    elif start is not None and (is_end or SERIES_LINE.match(line.body)):
      for row in range(start, number + is_end):
        marked[row] = marked[row]._replace(is_apparatus=True)
      start = None
  return marked


def _mark_repeated_pages(
  lines: list[Line], counts: collections.Counter[str]
) -> list[Line]:
  """Returns the lines, those of pages that came before marked as apparatus."""
  # Some transcripts have a page twice, in place of another: read as text, its
  # dates would run back.
  earlier_pages: set[str] = set()
  marked: list[Line] = []
  for _, group in itertools.groupby(lines, key=lambda line: line.place.page):
    page = list(group)
    text = "".join(line.body for line in page)
    if len(text) >= _MIN_PAGE_LENGTH and text in earlier_pages:
      counts["pages printed twice"] += 1
      page = [line._replace(is_apparatus=True) for line in page]
    earlier_pages.add(text)
    marked += page
  return marked


def find_full_width(lines: list[Line]) -> int:
  """Returns the number of characters in a full line.

  The commonest width among the wide ones: tables of contents and annals of a
  few words have more short lines than full ones, and slips of a transcript make
  some lines too wide.
  """
  widths = sorted(line.width for line in lines)
  if not widths:
    return 0
  # One line in thousands can be anything.
  is_long = len(widths) >= _MIN_LINES_OF_QUANTILE
  wide = widths[int(_WIDE_QUANTILE * len(widths)) if is_long else -1]
  wide *= _WIDE_SHARE
  counts = collections.Counter(width for width in widths if width >= wide)
  full = max(counts, key=lambda width: (counts[width], width))
  # A line too wide by far hides the width that most lines have.
  (common, count), *_ = collections.Counter(widths).most_common(1)
  is_common = count >= _FULL_SHARE * len(widths) and common >= _NEAR * full
  return common if is_common else full


def _find_own_width(juan: list[Line], work_width: int) -> int:
  """Returns the width of a full line in a juan, the work's if unclear."""
  # A file of another edition may be printed narrower than the others. Verses
  # leave room too, but their headings and prefaces do not.
  lines = [line for line in juan if line.body]
  width = find_full_width(lines)
  num_full = sum(line.width == width for line in lines)
  num_wider = sum(line.width > width for line in lines)
  is_clear = (
    width >= _WIDE_SHARE * work_width
    and num_full >= _OWN_SHARE * len(lines)
    and num_wider <= (1 - _WIDE_QUANTILE) * len(lines)
  )
  return min(width, work_width) if is_clear else work_width


_OWN_SHARE = 0.4
_MIN_LINES_OF_INDENT = 6
_RUN_SHARE = 0.3
_YEAR_SHARE = 0.3
_SEPARATOR_SHARE = 0.01
_AUTHOR_INDENT = 9
_MAX_AUTHOR_LINES = 2
_MAX_OPENING_INDENT = 3
# 「音義(…)」, 「疏(…)」: what the 注疏 call the note that follows.
_NOTE_LABELS = ("音義", "疏", "䟽")
# Glosses that other works label so, where they do it as often as this.
_GLOSS_LABELS = ("音義", "音註", "音注", "音釋", "釋音", "釋文")
_MIN_LABELLED = 20
_MAX_RULER_WIDTH = 7
_TABULAR_GAP = "　　　"


class _Paragraph(NamedTuple):
  """Printed lines that belong together."""

  # `is_isolated`: empty lines are around it; `is_spaced`: a full-width space
  # separates it from the line above.

  lines: list[Line]
  is_isolated: bool
  is_spaced: bool


class PrintedEdition:
  """The lines of a printed edition made into entries."""

  def __init__(
    self, juans: list[list[Line]], title: str, entry_list: EntryList
  ):
    self._juans = juans
    self._title = title
    self._entry_list = entry_list
    self._counts = entry_list.counts
    lines = [line for juan in juans for line in juan if line.body]
    self._work_width = self._full_width = find_full_width(lines)
    self._opening_indents = self._find_opening_indents()
    self._entries_hang = self._do_entries_hang()
    self._work_text_indents = self._find_text_indents(juans)
    self._text_indents: frozenset[int] = frozenset()
    self._has_text_begun = False
    self._note_labels = self._find_note_labels(lines)
    self._years_open = self._do_years_open()
    # Whether full-width spaces within lines divide entries, as in annals, or
    # are gaps of the print.
    full_lines = [
      line.body for line in lines if line.width >= self._full_width - 1
    ]
    num_spaces = sum("　" in NOTE.sub("", body) for body in full_lines)
    self._spaces_divide = bool(
      full_lines and num_spaces / len(full_lines) >= _SEPARATOR_SHARE
    )

  def _find_note_labels(self, lines: list[Line]) -> tuple[str, ...]:
    """Returns the edition's name for the notes that follow."""
    counts = {
      label: sum(line.body.count(f"{label}(") for line in lines)
      for label in _GLOSS_LABELS
    }
    labels = [label for label, n in counts.items() if n >= _MIN_LABELLED]
    if LABELLED_TITLE.search(self._title):
      labels += _NOTE_LABELS
    return tuple(dict.fromkeys(labels))

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
          num_years += YEAR_OPENING.match(next_line.body) is not None
    return num_years > _YEAR_SHARE * num_openings

  def _find_text_indents(self, juans: list[list[Line]]) -> dict[int, bool]:
    """Returns of each indent whether running text is printed with it."""
    # Running text continues in the next line; headings do not.
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
      if count >= _MIN_LINES_OF_INDENT
    }

  def _find_opening_indents(self) -> frozenset[int]:
    """Returns the indents of first lines that run on unindented."""
    # A heading fills its line by chance only.
    num_full: collections.Counter[int] = collections.Counter()
    num_short: collections.Counter[int] = collections.Counter()
    for juan in self._juans:
      for line, following in itertools.pairwise(juan):
        if line.indent and following.body and not following.indent:
          is_full = line.width >= self._full_width - 1
          (num_full if is_full else num_short)[line.indent] += 1
    return frozenset(
      indent
      for indent, count in num_full.items()
      if indent <= _MAX_OPENING_INDENT and count > num_short[indent]
    )

  def _do_entries_hang(self) -> bool:
    """Whether only the first line of an entry stands out, as in diaries."""
    indents = collections.Counter(
      following.indent
      for juan in self._juans
      for line, following in itertools.pairwise(juan)
      if line.body
      and following.body
      and line.indent == 0
      and line.width >= self._full_width - 1
    )
    return indents[1] > indents[0]

  def read(self) -> None:
    """Adds the entries of all juan."""
    for juan in self._juans:
      self._entry_list.close_headings()
      self._has_text_begun = False
      self._full_width = _find_own_width(juan, self._work_width)
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

  def _is_full(self, line: Line, next_line: Line) -> bool:
    """Whether the text of a line continues in the next one."""
    is_near = line.width >= self._full_width - 1
    if is_near and _NUMERAL_ACROSS.match(
      f"{line.body[-1:]}\n{next_line.body[:1]}"
    ):
      return True
    if (
      self._years_open
      and next_line.indent == 0
      and YEAR_CUE.match(next_line.body)
    ):
      return False
    note = NOTE.match(next_line.body)
    if (
      note
      and _CYCLIC_YEAR.match(note[1].replace("/", ""))
      and _YEAR_NEAR.match(next_line.body, note.end())
    ):
      return False
    if line.width >= self._full_width:
      return True
    # One short is a slip of the transcript as often as the end of an entry.
    return is_near and DATE_CUE.match(next_line.body) is None

  def _find_next_opening(self, paragraphs: list[_Paragraph], index: int) -> str:
    """Returns how the next paragraph that is not indented opens: with its
    first year ("元年"), with a year ("年") or otherwise ("")."""
    for paragraph in paragraphs[index + 1 :]:
      line = paragraph.lines[0]
      if line.indent == 0:
        if line.body.startswith(FIRST_YEAR):
          return FIRST_YEAR
        return "年" if YEAR_OPENING.match(line.body) else ""
    return ""

  def _split_paragraphs(self, juan: list[Line]) -> Iterator[_Paragraph]:
    paragraph: list[Line] = []
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
      # A full-width space that would end the line above comes before this.
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

  def _continues(self, paragraph: list[Line], line: Line) -> bool:
    """Whether the indent of a line fits the paragraph above it."""
    previous = paragraph[-1]
    if line.indent == previous.indent:
      return True
    if previous.is_apparatus:
      return line.indent > paragraph[0].indent  # hanging indent
    if self._entries_hang and previous.indent == 0 and line.indent == 1:
      return True
    # A first line that is indented alone.
    if (
      len(paragraph) > 1 or line.indent or previous.indent in self._text_indents
    ):
      return False
    # Names of those whose lives follow have gaps between them.
    return previous.indent == 1 or (
      previous.indent in self._opening_indents
      and "　" not in NOTE.sub("", previous.body)
      and not self._is_title(previous)
    )

  def _is_title(self, line: Line) -> bool:
    """Whether the line names the work or one of its juan."""
    body = NOTE.sub("", line.body)
    return bool(
      TITLE_LINE.match(body)
      or VOLUME_LINE.match(body)
      or COLLATION_TITLE.match(body)
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
    if kind == TEXT and self._opens_unindented(paragraph):
      indent = 0
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

  def _opens_unindented(self, paragraph: _Paragraph) -> bool:
    """Whether only the first line of a paragraph is indented."""
    return len(paragraph.lines) > 1 and paragraph.lines[1].indent == 0

  def _classify(
    self, paragraph: _Paragraph, next_opening: str
  ) -> tuple[str, int]:
    """Returns the kind of a paragraph, and the level if it is a heading."""
    lines = paragraph.lines
    first = lines[0]
    body = NOTE.sub("", first.body)
    if SERIES_LINE.match(body) or (first.indent and EDITOR_LINE.match(body)):
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
        or (AUTHOR_LINE.search(lines[-1].body) and not DATE_CUE.match(body))
      )
    ):
      return APPARATUS, 0
    if not is_short:
      return self._classify_long(paragraph, body)
    if paragraph.is_spaced or (first.indent == 0 and DATE_CUE.match(body)):
      return TEXT, 0
    num_characters = first.width - first.indent
    # 「周武王」 and then years, or any name and then a first year.
    is_ruler = (
      num_characters < _MAX_RULER_WIDTH
      and VERB_OPENING.match(body) is None
      and (
        (next_opening == FIRST_YEAR and first.indent == 0 and self._years_open)
        or (bool(next_opening) and RULER_LINE.match(body) is not None)
      )
    )
    if first.indent:
      if first.indent in self._text_indents and not is_ruler:
        return TEXT, 0
      # An entry of one line where first lines are indented: 「四年春正月…」.
      if (
        first.indent in self._opening_indents
        and num_characters > _MAX_RULER_WIDTH
        and DATE_CUE.match(body)
      ):
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
      or self._opens_unindented(paragraph)
      or len(paragraph.lines) > 2
    ):
      return TEXT, 0
    return HEADING, 1 + first.indent

  def _add_lines(
    self, lines: list[Line], kind: str, level: int, indent: int
  ) -> None:
    """Adds a paragraph, cut where ○ or a full-width space divides entries."""
    assembly = EntryAssembly()
    counts = self._counts
    note_ends_line = False
    for index, line in enumerate(lines):
      assembly.start_line(line.place)
      body = line.body
      if PLAIN_LINE.match(body):
        assembly.add_unspaced(body)
        note_ends_line = False
        continue
      position = 0
      for match in SEPARATOR.finditer(body):
        assembly.add_unspaced(body[position : match.start()])
        is_line_start = match.start() == 0
        position, mark = match.end(), match[0]
        if mark[0] == "(" and len(mark) > 1:
          note = mark[1:-1]
          counts["note columns"] += note.count("/")
          note = note.replace("/", "")
          num_blanks = len(note)
          note = re.sub(r"[\s　]+", "", note)
          counts["blanks"] += num_blanks - len(note)
          if not len(assembly) and _CYCLIC_YEAR.match(note):
            # The year of an entry, in small type at its head.
            counts["years in small type"] += 1
            assembly.add_unspaced(f"（{note}）")
          elif HUMBLE_NAME.match(note):
            counts["names in small type that are text"] += 1
            assembly.add_unspaced(note)
          elif is_line_start and note_ends_line and assembly.has_notes:
            counts["notes joined over lines"] += 1
            assembly.extend_note(note)
          else:
            counts["notes"] += 1
            # What names the note in large type is taken out of the text.
            label = next(filter(assembly.remove_end, self._note_labels), "")
            assembly.add_note(label + note, line.place)
          continue
        if mark in "()":
          counts["brackets without a pair"] += 1
          continue
        if not self._divides(kind, mark, body, match):
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
      notes = assembly.take_notes(end=0)
      self._counts["notes moved to the entry before"] += len(notes)
      self._entry_list.append_notes(notes)
    self._entry_list.add(assembly, kind, indent=indent, level=level)

  def _divides(
    self, kind: str, mark: str, body: str, match: re.Match[str]
  ) -> bool:
    """Whether a mark between characters begins another entry."""
    if kind != TEXT:
      return False
    if mark == "○":
      return True
    if mark == "〇":  # also the numeral, 「一〇五」
      return ZERO_BEFORE.search(body[: match.start()]) is None
    if mark[0] != "　":
      return False
    return self._spaces_divide or bool(DATE_CUE.match(body, match.end()))
