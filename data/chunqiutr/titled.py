"""Essays under titles: 魏了翁's 左傳要義 and 呂祖謙's 左氏傳說.

Why: both group what they say under titles of their own, by duke and year.
魏了翁 (KR1e0044) copies 孔穎達 passage by passage, so what he copies tells
where it belongs; 呂祖謙 (KR1e0039) writes his own and names the year in each
title. Called by `commentary`.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Sequence

from ctd_jax_datasets.chunqiutr import (
  alignment,
  editions,
  matching,
  notes,
  segmentation,
  sources,
)
from ctd_jax_datasets.chunqiutr.alignment import Candidate, Place, Reading

# A title of 魏了翁 has its number in front: 「(十/一)」, 「(二/十)」.
_NUMBER = re.compile(r"\([^()/]{0,2}/[^()/]?\)")
_NUMBER_DEPTHS = (1, 2)
# What 呂祖謙's title ends with: 「(五年)」, 「(同上)」.
_BRACKET = re.compile(r"\(([^)]*)\)$")
_SAME_YEAR = "同上"
_YEAR_BRACKET = re.compile(r"\(.*年/?\)$|\(同上/\)$")
_DUKE_DEPTH, _TITLE_DEPTH = 2, 3
_BOOK = re.compile("欽定四庫全書|春秋左傳要義|左氏傳[說説]卷")
_AUTHOR = re.compile("宋.*撰$")
# Sound glosses and marks of gaps inside the text.
_SMALL_TYPE = re.compile(r"\([^)]*\)")


@dataclasses.dataclass
class Section:
  """What stands under one title, or under several in a row.

  Attributes:
    years: span or years that the edition gives, for each title.
    titles: as printed, without number or year.
    body: as printed.
  """

  years: list[list[matching.Year]]
  titles: list[str]
  body: str = ""


def read_wei(
  paths: Sequence[pathlib.Path],
  kong_paths: Sequence[pathlib.Path],
  anchor: alignment.Anchor,
) -> Reading:
  """Returns the sections of 魏了翁, each where most of it is copied from.

  A section that shares little with KR1e0004 is matched by its title to the
  years in the heading of the juan.

  Args:
    paths: juan 1-31 of KR1e0044 in order.
    kong_paths: juan 1-60 of KR1e0004 in order.
    anchor: the annotated text.
  """
  sections = [section for path in paths for section in wei_sections(path)]
  copied = notes.annotated(kong_paths, anchor)
  places = _copied_from(
    [alignment.fold(section.body) for section in sections], copied
  )
  matcher = matching.Matcher(anchor)
  candidates = []
  checked = agreed = 0
  for section, place in zip(sections, places, strict=True):
    (title,), (years,) = section.titles, section.years
    if place is None or place.score < alignment.MIN_SCORE:
      place = matcher.best(alignment.fold(title), years)
    elif years:
      checked += 1
      agreed += (place.key.reign, place.key.year) in years
    said = segmentation.FRAMING.split(title + section.body)
    candidates.append(Candidate(tuple(said), place, "no year is named"))
  return Reading(len(sections), candidates, checked, agreed)


def read_lv(paths: Sequence[pathlib.Path], anchor: alignment.Anchor) -> Reading:
  """Returns the titles of 呂祖謙 with what is said about each.

  Several titles may share one text; a passage of it goes to the title whose
  part of the annals it is most like.

  Args:
    paths: juan 1-20 of KR1e0039 in order.
    anchor: the annals and 左傳.
  """
  matcher = matching.Matcher(anchor)
  candidates = []
  checked = agreed = 0
  for section in (found for path in paths for found in lv_sections(path)):
    places = []
    for title, years in zip(section.titles, section.years, strict=True):
      words = alignment.fold(title)
      reign_years = matcher.years_in(years[0][0])
      places.append(matcher.find(words, years, reign_years))
      free = matcher.best(words, reign_years)
      if free is not None:
        checked += 1
        agreed += (free.key.reign, free.key.year) in years
    said: dict[int, list[str]] = collections.defaultdict(list)
    for passage in segmentation.cut(section.body):
      said[_likest(passage, places, matcher)].append(passage)
    candidates += [
      Candidate(tuple(said[number]), place, "no entry of the year")
      for number, place in enumerate(places)
    ]
  return Reading(len(candidates), candidates, checked, agreed)


def wei_sections(path: pathlib.Path) -> list[Section]:
  """Returns the sections of a juan of KR1e0044, with the juan's years."""
  sections: list[Section] = []
  years: list[matching.Year] = []
  for depth, line in editions.printed_lines(path):
    if not line or _BOOK.match(line) or _AUTHOR.match(line):
      continue
    number = _NUMBER.match(line) if depth in _NUMBER_DEPTHS else None
    if number:
      title = _SMALL_TYPE.sub("", line[number.end() :])
      sections.append(Section([years], [title]))
    elif depth == 1 and (named := matching.span_of(alignment.fold(line))):
      years = named
    elif sections:
      sections[-1].body += _SMALL_TYPE.sub("", line)
  return sections


def lv_sections(path: pathlib.Path) -> list[Section]:
  """Returns the sections of a juan of KR1e0039.

  Raises:
    sources.SourceError: if a title stands before the first duke.
  """
  sections: list[Section] = []
  reign = None
  in_title = False
  for depth, line in editions.printed_lines(path):
    if not line or _BOOK.match(line):
      continue
    title = depth >= _TITLE_DEPTH or (depth and _YEAR_BRACKET.search(line))
    duke = matching.duke_of(alignment.fold(line))
    if depth == _DUKE_DEPTH and duke is not None:
      reign, in_title = duke, False
    elif title:
      if reign is None:
        raise sources.SourceError(
          f"{path}: the title {line} stands before the first duke; expected "
          "左氏傳說, KR1e0039"
        )
      if not in_title:
        sections.append(Section([], []))
      if depth <= _TITLE_DEPTH or not sections[-1].titles:
        sections[-1].titles.append(line)
        sections[-1].years.append([(reign, 0)])
      else:
        sections[-1].titles[-1] += line
      in_title = True
    elif sections:
      sections[-1].body += _SMALL_TYPE.sub("", line)
      in_title = False
  _read_years(sections)
  return sections


def _read_years(sections: Sequence[Section]) -> None:
  """Takes the years out of the titles, where (reign, 0) stands for none."""
  before: list[matching.Year] = []
  for section in sections:
    for number, title in enumerate(section.titles):
      ((reign, _),) = section.years[number]
      title = title.replace(")(", "").replace("/", "")
      bracket = _BRACKET.search(title)
      named = bracket and alignment.fold(bracket[1])
      if named and named != _SAME_YEAR:
        before = matching.years_of(named, reign)
      section.titles[number] = title[: bracket.start()] if bracket else title
      section.years[number] = before or [(reign, 0)]


def _copied_from(
  texts: Sequence[str], copied: Sequence[tuple[str, Place | None]]
) -> list[Place | None]:
  """Returns where most of each text is copied from, with the share copied.

  Args:
    texts: folded, in order.
    copied: stretches of the work that is copied, in order, with their places.
  """
  known = [(text, place) for text, place in copied if place is not None]
  source = alignment.Anchor.of([(text, place.key) for text, place in known])
  ends = list(itertools.accumulate(map(len, texts)))
  shares: list[collections.Counter[int]] = [
    collections.Counter() for _ in texts
  ]
  for here, there in alignment.tie("".join(texts), source.text):
    stretch = source.part_at(there)
    shares[bisect.bisect_right(ends, here)][known[stretch][1].part] += 1
  keys = {place.part: place.key for _, place in known}
  places: list[Place | None] = []
  for text, share in zip(texts, shares, strict=True):
    if share:
      ((part, count),) = share.most_common(1)
      places.append(Place(part, keys[part], count / len(text)))
    else:
      places.append(None)
  return places


def _likest(
  passage: str, places: Sequence[Place | None], matcher: matching.Matcher
) -> int:
  """Returns which of the places a passage is most like, the first of equals."""
  known = [number for number, place in enumerate(places) if place is not None]
  if len(known) < 2:
    return known[0] if known else 0
  words = alignment.fold(passage)
  return max(known, key=lambda number: matcher.fit(words, places[number].part))
