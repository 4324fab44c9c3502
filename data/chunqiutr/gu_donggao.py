"""顧棟高's table of the three traditions' differences: juan 42 of KR1e0114.

Why: opinions on single entries, some from every century; the paper's units are
this juan. An entry of the Annals stands at the margin, the opinions in small
type below, one paragraph each. Called by `commentary`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Sequence

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
_ENTRY, _PARAGRAPH = "entry", "paragraph"
_YEAR = re.compile("[元一二三四五六七八九十]+年")


@dataclasses.dataclass
class Heading:
  """An entry of the Annals at the margin and the opinions below it.

  Attributes:
    reign: of the duke under whom it stands; None in the preface.
    words: the entry, folded; empty if the paragraphs are on none.
    prose: whether lines in large type are the text, as in the preface and the
      essays, and not what the table quotes.
    paragraphs: opinions as printed.
  """

  reign: int | None
  words: str = ""
  prose: bool = False
  paragraphs: list[str] = dataclasses.field(default_factory=list)


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


def headings(path: pathlib.Path) -> list[Heading]:
  """Returns the entries of a juan with the paragraphs below them.

  Raises:
    sources.SourceError: if the juan has no entry.
  """
  found = [Heading(None, prose=True)]
  unfinished = ""  # entry or paragraph that the next line goes on with
  for depth, line in editions.printed_lines(path):
    current = found[-1]
    small = _SMALL_TYPE.fullmatch(line) if depth > 1 else None
    duke = matching.duke_of(alignment.fold(line))
    if _HEADING.search(line):
      continue
    if not line:
      unfinished = ""
    elif duke is not None:
      found.append(Heading(duke))
      unfinished = ""
    elif small or current.prose:
      said = small[1] + small[2] if small else line
      if unfinished == _PARAGRAPH:
        current.paragraphs[-1] += said
      else:
        current.paragraphs.append(said)
      full = not small or len(said) >= FULL_LINE
      unfinished = _PARAGRAPH if full else ""
    elif depth or _TRADITIONS.match(line):
      unfinished = ""
    elif _ESSAY.search(line):
      found.append(Heading(current.reign, "", True, [line]))
      unfinished = _PARAGRAPH
    else:
      words = alignment.fold(_BRACKETED.sub("", line))
      if unfinished == _ENTRY:
        current.words += words
      else:
        found.append(Heading(current.reign, words))
      unfinished = _ENTRY
  if not any(heading.words for heading in found):
    raise sources.SourceError(
      f"{path}: no entry at the margin under a duke; expected 三傳異同表, juan "
      "42 of KR1e0114"
    )
  return found
