"""Later commentary, cut into pieces and dated by the text it explains.

Five works are read: 杜預 and 孔穎達 (`notes`), 魏了翁 and 呂祖謙 (`essays`),
and the table of 顧棟高 (juan 42 of KR1e0114), which prints an entry at the
margin and the opinions on it below. A piece is accepted if its place in the
annals is sure enough.
"""

import collections
import dataclasses
import pathlib
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ctd_jax.chronology.reigns import TimeKey
from ctd_jax_datasets.chunqiutr import base_texts, essays, text_alignment
from ctd_jax_datasets.chunqiutr.text_alignment import AlignedWork, Candidate
from ctd_jax_datasets.common import source_files

# Of a line of small type, both columns; a shorter line ends a paragraph.
FULL_LINE_CHARS = 38
# A heading with wider margins has shorter full lines: two lines of the same
# length, each at least this long, are one paragraph.
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
  """An entry of the Annals at the margin and the opinions below it."""

  reign: int | None  # of the duke under whom it is; None in the preface
  entry_text: str = ""  # the entry, folded; empty if the paragraphs are on none
  # Whether lines in large type are the text, as in the preface and the essays,
  # and not quotations of the table.
  is_prose: bool = False
  paragraphs: list[str] = dataclasses.field(default_factory=list)


def read_gu(
  paths: Sequence[pathlib.Path], anchor: text_alignment.Anchor
) -> AlignedWork:
  """Returns the paragraphs of KR1e0114, juan 42, under their entries.

  A year that falls back without a new duke is either a misprint or a year of
  the next duke, whose heading one juan lacks; both readings are tried.
  """
  matcher = text_alignment.AnchorMatcher(anchor)
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
    printed_years = text_alignment.parse_years(
      heading.entry_text, current_year[0]
    )
    named_years = printed_years or [current_year]
    if named_years[0] < current_year:
      named_years += text_alignment.parse_years(
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
  """Returns the entries of a juan with the paragraphs below them."""
  margin_headings = [Heading(None, is_prose=True)]
  unfinished = ""  # entry or paragraph that the next line continues with
  previous_width = 0  # of the line before, if it is small type
  for depth, line in base_texts.read_printed_lines(path):
    current = margin_headings[-1]
    small_type = _SMALL_TYPE.fullmatch(line) if depth > 1 else None
    duke = text_alignment.parse_duke(text_alignment.fold_text(line))
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
    raise source_files.SourceError(
      f"{path}: no entry at the margin under a duke; expected 三傳異同表, juan "
      "42 of KR1e0114"
    )
  return margin_headings


DU_YU = "du_yu"
KONG_YINGDA = "kong_yingda"
GU_DONGGAO = "gu_donggao"
WEI_LIAOWENG = "wei_liaoweng"
LV_ZUQIAN = "lv_zuqian"


@dataclasses.dataclass(frozen=True)
class WorkSpec:
  """Reader of one work."""

  title: str
  # Of its juan, in a folder of sources, and of the work it copies.
  folders: tuple[str, ...]
  # (paths of each folder in order, anchor) -> aligned work.
  read_work: Callable[..., text_alignment.AlignedWork]
  min_chars: int  # a shorter piece only names a person or a place


_DU_FOLDER = "duyu_jijie_KR1e0002"
_KONG_FOLDER = "zuozhuan_zhushu_KR1e0004"
_GU_FOLDER = "gudonggao_dashibiao_KR1e0114"
_WEI_FOLDER = "weiliaoweng_yaoyi_KR1e0044"
_LV_FOLDER = "lvzuqian_zuoshizhuanshuo_KR1e0039"

# Of 杜預's notes 13 characters leave about as many as the paper's 3,652.
WORKS = {
  DU_YU: WorkSpec("春秋經傳集解", (_DU_FOLDER,), essays.read_du, 13),
  KONG_YINGDA: WorkSpec("春秋左傳正義", (_KONG_FOLDER,), essays.read_kong, 20),
  GU_DONGGAO: WorkSpec("春秋大事表", (_GU_FOLDER,), read_gu, 20),
  WEI_LIAOWENG: WorkSpec(
    "春秋左傳要義", (_WEI_FOLDER, _KONG_FOLDER), essays.read_wei, 20
  ),
  LV_ZUQIAN: WorkSpec("左氏傳說", (_LV_FOLDER,), essays.read_lv, 20),
}
COMMENT_SOURCES = tuple(WORKS)  # in the order of the gallery


@dataclasses.dataclass(frozen=True)
class Comment:
  """A piece of commentary."""

  source: str  # one of `COMMENT_SOURCES`
  text: str
  key: TimeKey  # month of the entry it explains
  # Index of the segment of the anchor that it explains; None if it explains a
  # month as a whole.
  segment_index: int | None
  match_score: float  # fit to that segment, 0 to 1


def parse_works(
  files: Mapping[str, pathlib.Path],
  anchor: text_alignment.Anchor,
  map_function: Callable[..., Iterable] = map,
) -> tuple[list[Comment], dict[str, dict[str, Any]]]:
  """Returns the pieces of all works in the order of `WORKS`, and source ->
  counts.

  The counts are those of the paper's Tables 18 and 19. `map_function` may
  work in several processes.
  """
  tasks = [
    (
      source,
      [
        source_files.select_folder_files(files, folder)
        for folder in work.folders
      ],
      anchor,
    )
    for source, work in WORKS.items()
  ]
  results = list(map_function(_parse_work, *zip(*tasks, strict=True)))
  comments = [
    comment for work_comments, _ in results for comment in work_comments
  ]
  return comments, {
    source: audit for source, (_, audit) in zip(WORKS, results, strict=True)
  }


def _parse_work(
  source: str,
  paths: Sequence[Sequence[pathlib.Path]],
  anchor: text_alignment.Anchor,
) -> tuple[list[Comment], dict[str, Any]]:
  """Returns the pieces of one work and its audit."""
  work = WORKS[source]
  aligned_work = work.read_work(*paths, anchor)
  rejected: collections.Counter[str] = collections.Counter()
  accepted: list[tuple[tuple[str, ...], text_alignment.AnchorMatch]] = []
  for candidate in aligned_work.candidates:
    anchor_match = candidate.anchor_match
    if anchor_match is None:
      rejected[candidate.reason] += 1
    elif anchor_match.score < text_alignment.MIN_SCORE:
      rejected["score too low"] += 1
    else:
      accepted.append((candidate.passages, anchor_match))
  pieces = [
    Comment(
      source,
      piece,
      anchor_match.key,
      anchor_match.segment_index,
      round(anchor_match.score, 4),
    )
    for passages, anchor_match in accepted
    for passage in passages
    for piece in essays.cut_pieces(passage)
  ]
  long_pieces = [piece for piece in pieces if len(piece.text) >= work.min_chars]
  # A work of which nothing is accepted still has a row in the audit.
  lengths = [len(piece.text) for piece in long_pieces] or [0]
  scores = [anchor_match.score for _, anchor_match in accepted] or [0.0]
  return long_pieces, {
    "units": aligned_work.num_units,
    "candidates": len(aligned_work.candidates),
    "accepted": len(accepted),
    "rejected": dict(sorted(rejected.items())),
    "years_checked": aligned_work.num_years_checked,
    "years_agreed": aligned_work.num_years_agreed,
    "mean_score": round(statistics.fmean(scores), 4),
    "pieces": len(long_pieces),
    "dropped_short": len(pieces) - len(long_pieces),
    "mean_chars": round(statistics.fmean(lengths), 1),
    "max_chars": max(lengths),
  }
