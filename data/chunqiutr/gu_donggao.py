"""顧棟高's table of the three traditions' differences: juan 42 of KR1e0114.

Why: opinions on single entries, some from every century; the paper's units are
this juan. An entry of the Annals stands at the margin, the opinions in small
type below, one paragraph each. Called by `commentary`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Sequence

from ctd_jax_datasets.chunqiutr import alignment, editions, matching, sources
from ctd_jax_datasets.chunqiutr.alignment import Candidate, Reading

# Characters of a printed line of small type, both columns; a paragraph ends
# with a line that is not full.
FULL_LINE = 38

_SMALL_TYPE = re.compile(r"\((.*)/(.*)\)")
_BRACKETED = re.compile(r"\(.*?\)")
# The quoted traditions, where the edition prints them: 「(左/)…(公/羊)…」.
_TRADITIONS = re.compile(r"\([左公]/")
_HEADING = re.compile("^(欽定四庫全書|春秋大事表卷|三[傳𫝊]異同表$)|顧棟.撰$")
# Essays after the table are on no entry.
_ESSAY = re.compile("[論後]$")
_YEAR = re.compile("[元一二三四五六七八九十]+年")


@dataclasses.dataclass
class Heading:
  """An entry of the Annals at the margin and the opinions below it.

  Attributes:
    reign: of the duke under whom it stands; None before the first.
    words: the entry, folded; empty if the paragraphs are on none.
    paragraphs: opinions as printed.
  """

  reign: int | None
  words: str
  paragraphs: list[str]


def read(paths: Sequence[pathlib.Path], anchor: alignment.Anchor) -> Reading:
  """Returns the paragraphs with the entries that they stand under.

  A year number that falls back without a new duke is either a misprint or the
  next duke, whose heading one juan lacks; both are looked at.

  Args:
    paths: juan 42 of KR1e0114.
    anchor: the annals and 左傳.
  """
  matcher = matching.Matcher(anchor)
  candidates: list[Candidate] = []
  checked = agreed = 0
  state = (1, 1)
  for heading in (heading for path in paths for heading in headings(path)):
    if not heading.words:
      candidates += [
        Candidate((text,), None, "on no entry") for text in heading.paragraphs
      ]
      continue
    if heading.reign is not None and heading.reign > state[0]:
      state = (heading.reign, 1)
    marked = matching.years_of(heading.words, state[0])
    named = marked or [state]
    if named[0] < state:
      named += matching.years_of(heading.words, state[0] + 1)
    words = _YEAR.sub("", heading.words)
    reign = matcher.years_in(state[0])
    free = matcher.best(words, reign)
    if marked and free is not None:
      checked += 1
      agreed += (free.key.reign, free.key.year) in marked
    near = reign + matcher.years_in(state[0] + 1)
    place = matcher.find(words, named, near)
    if place is not None and place.score >= alignment.MIN_SCORE:
      found = (place.key.reign, place.key.year)
      state = marked[-1] if found in marked else found
    candidates += [
      Candidate((text,), place, "no entry of the year")
      for text in heading.paragraphs
    ]
  return Reading(len(candidates), candidates, checked, agreed)


def headings(path: pathlib.Path) -> Iterator[Heading]:
  """Yields the entries of a juan with the paragraphs below them.

  Raises:
    sources.SourceError: if the juan has no entry.
  """
  current = Heading(None, "", [])
  open_heading = open_paragraph = essay = False
  found = 0
  for depth, line in editions.printed_lines(path):
    small = _SMALL_TYPE.fullmatch(line) if depth > 1 else None
    if _HEADING.search(line):
      continue
    if not line:
      open_heading = False
    elif (reign := matching.duke_of(alignment.fold(line))) is not None:
      yield current
      current, essay = Heading(reign, "", []), False
      open_heading = open_paragraph = False
    elif small:
      said = small[1] + small[2]
      if open_paragraph:
        current.paragraphs[-1] += said
      else:
        current.paragraphs.append(said)
      open_paragraph = len(said) >= FULL_LINE
      open_heading = False
    elif essay or current.reign is None:
      if open_paragraph:
        current.paragraphs[-1] += line
      else:
        current.paragraphs.append(line)
      open_paragraph = True
    elif depth or _TRADITIONS.match(line):
      open_heading = False
    else:
      words = alignment.fold(_BRACKETED.sub("", line))
      if open_heading:
        current.words += words
        continue
      yield current
      essay = bool(_ESSAY.search(words))
      current = Heading(
        current.reign, "" if essay else words, [line] if essay else []
      )
      open_heading, open_paragraph = not essay, essay
      found += not essay
  yield current
  if not found:
    raise sources.SourceError(
      f"{path}: no entry at the margin under a duke; expected 三傳異同表, juan "
      "42 of KR1e0114"
    )
