"""Table of the three traditions' differences by 顧棟高: juan 42 of KR1e0114.

It collects opinions on single entries, some from every century; this juan holds
the units that the paper counts. An entry of the Annals stands at the margin,
the opinions in small type below it, one paragraph each.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from ctd_jax_datasets.chunqiutr import kanripo
from ctd_jax_datasets.chunqiutr.alignment import text_alignment, year_matching
from ctd_jax_datasets.chunqiutr.alignment.text_alignment import (
  AlignedWork,
  Candidate,
)
from ctd_jax_datasets.common import errors

# Of a line of small type, both columns; a shorter line ends a paragraph.
FULL_LINE_CHARS = 38
# A heading with wider margins has shorter full lines: two of one length, each
# at least so long, are one paragraph.
_MIN_FULL_LINE_CHARS = 30

_SMALL_TYPE = re.compile(r"\((.*)/(.*)\)")
_BRACKETED = re.compile(r"\(.*?\)")
# The quoted traditions, where the edition prints them: 「(左/)…(公/羊)…」.
_TRADITIONS = re.compile(r"\([左公]/")
_HEADING = re.compile("^(欽定四庫全書|春秋大事表卷|三[傳𫝊]異同表$)|顧棟.撰$")
# Last character of the titles of essays, which are on no entry.
_ESSAY = re.compile("[論後]$")
_ENTRY, _PARAGRAPH = "entry", "paragraph"
_YEAR = re.compile("[元一二三四五六七八九十]+年")


@dataclasses.dataclass
class Heading:
  """An entry of the Annals at the margin and the opinions below it.

  Attributes:
    reign: of the duke under whom it stands; None in the preface.
    entry_text: the entry, folded; empty if the paragraphs are on none.
    is_prose: whether lines in large type are the text, as in the preface and
      the essays, and not quotations of the table.
    paragraphs: opinions as printed.
  """

  reign: int | None
  entry_text: str = ""
  is_prose: bool = False
  paragraphs: list[str] = dataclasses.field(default_factory=list)


def read_gu(
  paths: Sequence[pathlib.Path], anchor: text_alignment.Anchor
) -> AlignedWork:
  """Returns the paragraphs with the entries that they stand under.

  A year that falls back without a new duke is either a misprint or a year of
  the next duke, whose heading one juan lacks; both readings are tried.

  Args:
    paths: juan 42 of KR1e0114.
    anchor: the annals and 左傳.
  """
  matcher = year_matching.AnchorMatcher(anchor)
  candidates: list[Candidate] = []
  num_checked = num_agreed = 0
  current_year = (1, 1)
  for heading in (heading for path in paths for heading in read_headings(path)):
    if not heading.entry_text:
      candidates += [
        Candidate((text,), None, "on no entry") for text in heading.paragraphs
      ]
      continue
    if heading.reign is not None and heading.reign > current_year[0]:
      current_year = (heading.reign, 1)
    printed_years = year_matching.parse_years(
      heading.entry_text, current_year[0]
    )
    named_years = printed_years or [current_year]
    if named_years[0] < current_year:
      named_years += year_matching.parse_years(
        heading.entry_text, current_year[0] + 1
      )
    words = _YEAR.sub("", heading.entry_text)
    reign_years = matcher.years_of_reign(current_year[0])
    free_match = matcher.best_match(words, reign_years)
    if printed_years and free_match is not None:
      num_checked += 1
      num_agreed += (free_match.key.reign, free_match.key.year) in printed_years
    nearby_years = reign_years + matcher.years_of_reign(current_year[0] + 1)
    anchor_match = matcher.find_match(words, named_years, nearby_years)
    if (
      anchor_match is not None
      and anchor_match.score >= text_alignment.MIN_SCORE
    ):
      matched_year = (anchor_match.key.reign, anchor_match.key.year)
      current_year = (
        printed_years[-1] if matched_year in printed_years else matched_year
      )
    # A bad match does not move the year on: the next heading would follow it.
    candidates += [
      Candidate((text,), anchor_match, "no entry of the year")
      for text in heading.paragraphs
    ]
  return AlignedWork(len(candidates), candidates, num_checked, num_agreed)


def read_headings(path: pathlib.Path) -> list[Heading]:
  """Returns the entries of a juan with the paragraphs below them.

  Raises:
    sources.SourceError: if the juan has no entry.
  """
  margin_headings = [Heading(None, is_prose=True)]
  unfinished = ""  # entry or paragraph that the next line goes on with
  previous_width = 0  # of the line before, if it is small type
  for depth, line in kanripo.read_printed_lines(path):
    current = margin_headings[-1]
    small_type = _SMALL_TYPE.fullmatch(line) if depth > 1 else None
    duke = year_matching.parse_duke(text_alignment.fold_text(line))
    if _HEADING.search(line):
      continue
    width = len(small_type[1] + small_type[2]) if small_type else 0
    if width >= _MIN_FULL_LINE_CHARS and width == previous_width:
      unfinished = _PARAGRAPH
    previous_width = width
    if not line:
      unfinished = ""
    elif duke is not None:
      margin_headings.append(Heading(duke))
      unfinished = ""
    elif small_type or current.is_prose:
      printed_text = small_type[1] + small_type[2] if small_type else line
      text = printed_text.replace(" ", "")
      if unfinished == _PARAGRAPH:
        current.paragraphs[-1] += text
      else:
        current.paragraphs.append(text)
      # Gaps between two opinions are part of the width of a line.
      is_full = not small_type or width >= FULL_LINE_CHARS
      unfinished = _PARAGRAPH if is_full else ""
    elif depth or _TRADITIONS.match(line):
      unfinished = ""
    elif _ESSAY.search(line):
      margin_headings.append(Heading(current.reign, "", True, [line]))
      unfinished = _PARAGRAPH
    else:
      words = text_alignment.fold_text(_BRACKETED.sub("", line))
      if unfinished == _ENTRY:
        current.entry_text += words
      else:
        margin_headings.append(Heading(current.reign, words))
      unfinished = _ENTRY
  if not any(heading.entry_text for heading in margin_headings):
    raise errors.SourceError(
      f"{path}: no entry at the margin under a duke; expected 三傳異同表, juan "
      "42 of KR1e0114"
    )
  return margin_headings
