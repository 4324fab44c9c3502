"""Essays under titles: 魏了翁's 左傳要義 and 呂祖謙's 左氏傳說.

Both group their essays under titles of their own, by duke and year. 魏了翁
(KR1e0044) copies 孔穎達 passage by passage, so the copied text dates a section;
呂祖謙 (KR1e0039) writes his own and names the year in each title.
"""

import bisect
import collections
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Sequence

from ctd_jax_datasets.chunqiutr import base_texts, text_alignment
from ctd_jax_datasets.chunqiutr.text_alignment import (
  AlignedWork,
  AnchorMatch,
  Candidate,
)
from ctd_jax_datasets.common import source_files

# Notes between the words that they explain: 杜預 and 孔穎達. A note is dated by
# the text before it. Commentary has no punctuation, so it is cut at final
# particles and where somebody is quoted.


# A piece ends at the first sentence end after so many characters, or after
# fewer where the next sentence quotes somebody. That makes a few sentences, and
# over all works within 2 % of the paper's 11,894 pieces.
MIN_PIECE_CHARS = 110
MIN_CHARS_BEFORE_QUOTE = 70
MIN_TAIL_CHARS = 20  # a shorter tail stays with the piece before it

# 正義曰 and its misprints; 注 in front means that a note is explained. A ring
# stands where the next explanation begins.
FRAMING = re.compile("注?[正止之]義[曰白]|注?正[議羲]曰|○")
_END = "也矣耳焉乎哉"  # final particles
# Not 耳目; not 焉 that asks, before a verb; not 乎 for 於, nor 於是乎.
_SENTENCE_END = re.compile(
  "(?:[也矣哉]|耳(?!目)|焉(?![得能知依辟解])|(?<!於是)乎(?![其前後周]))"
  f"(?![{_END}者])"
)
# The name of a quoted source has up to eight characters: 「鄭𤣥覲禮注云」.
_QUOTES = re.compile(f"[^{_END}者曰云]{{1,8}}[曰云]")
# Words that open a sentence; later prose has few final particles. 當時, 以此 or
# 學者 does not after a word that governs it, nor 何故 after 曰.
_OPENERS = re.compile(
  "大抵|然則|然而|且如|又如|至如|蓋|葢|盖|到得|須看|若使|殊不知"
  "|(?<![曰云])何故|(?<!之)學者|(?<![必止但今未良能])(?<!杜意)以此"
  "|(?<![以於自非即卽據其記載使若然故竟知])當時(?!之[^人臣])"
)
# A year of another duke opens a quotation wherever it is.
_QUOTED_YEAR = re.compile(
  "[隱隠𨼆桓莊荘閔僖文宣成襄昭定哀]公?[元一二三四五六七八九十]{1,3}年"
  "[經傳𫝊注]{0,2}[曰云]"
)


def cut_pieces(text: str) -> list[str]:
  """Returns unpunctuated prose in pieces that join to it.

  All but the last have at least `MIN_CHARS_BEFORE_QUOTE` characters, the last
  at least `MIN_TAIL_CHARS`, unless the whole text is shorter.
  """
  ends = {match.end() for match in _SENTENCE_END.finditer(text)}
  ends |= {match.start() for match in _OPENERS.finditer(text)}
  quotes = {match.start() for match in _QUOTED_YEAR.finditer(text)}
  quotes |= {end for end in ends if _QUOTES.match(text, end)}
  pieces, start = [], 0
  for position in sorted(ends | quotes):
    min_chars = (
      MIN_CHARS_BEFORE_QUOTE if position in quotes else MIN_PIECE_CHARS
    )
    if position - start >= min_chars:
      pieces.append(text[start:position])
      start = position
  tail = text[start:]
  if pieces and len(tail) < MIN_TAIL_CHARS:
    pieces[-1] += tail
  elif tail:
    pieces.append(tail)
  return pieces


_BRACKETED = re.compile(r"\(([^)]*)\)")
_SUB_COMMENTARY = "疏"
# Where 陸德明's glosses begin: head character and its sound (two characters
# and 切 or, where a gloss continues or ends with it, 反; 音 and one character;
# 如字), a variant reading, or a ring. 八音 and the like are music.
_GLOSS = re.compile(
  r"[○〇]|釋文|.{3}切|.{3}反(?=$|下同|注[同下]|.{3}反(?:$|.{3}反))"
  r"|[^八五六七德其之聲]音[^樂聲也者之]|.如字"
  r"|(?P<variant>.(?:[本字]?[亦又或]作|本作|本或|一本))"
  r"|(?P<head>.)(?P=head){1,2}.之(?P=head)"
)
# Of the words that a variant reading repeats, and of those it repeats from.
_MAX_HEAD_CHARS = 8
_CONTEXT_CHARS = 80


def read_du(
  paths: Sequence[pathlib.Path], anchor: text_alignment.Anchor
) -> AlignedWork:
  """Returns the notes of 杜預 (KR1e0002), sound glosses cut off."""
  notes, text, juan_starts = _read_notes(paths)
  aligned = text_alignment.Alignment(anchor, text, juan_starts)
  return AlignedWork(
    len(notes),
    [
      Candidate((comment,), aligned.match_at(position))
      for position, note in notes
      if (
        comment := cut_glosses(
          note, text[max(0, position - _CONTEXT_CHARS) : position]
        )
      )
    ],
  )


def read_kong(
  paths: Sequence[pathlib.Path], anchor: text_alignment.Anchor
) -> AlignedWork:
  """Returns the sub-commentary of 孔穎達 (KR1e0004), cut at each 正義曰."""
  notes, text, juan_starts = _read_notes(paths)
  # Other brackets hold 杜預's notes, which KR1e0002 prints better.
  notes = [
    (position, note)
    for position, note in notes
    if text[position - 1 : position] == _SUB_COMMENTARY
  ]
  aligned = text_alignment.Alignment(anchor, text, juan_starts)
  return AlignedWork(
    len(notes),
    [
      Candidate((comment,), aligned.match_at(position))
      for position, note in notes
      for comment in FRAMING.split(note)
      if comment
    ],
  )


def read_stretches(
  paths: Sequence[pathlib.Path], anchor: text_alignment.Anchor
) -> list[tuple[str, text_alignment.AnchorMatch | None]]:
  """Returns the juan of KR1e0004 in stretches that end with a note.

  Each is folded, text and notes, with the match of its note.
  """
  notes, text, juan_starts = _read_notes(paths)
  aligned = text_alignment.Alignment(anchor, text, juan_starts)
  stretches, start = [], 0
  for position, note in notes:
    stretch = text[start:position] + text_alignment.fold_text(note)
    stretches.append((stretch, aligned.match_at(position)))
    start = position
  return stretches


def cut_glosses(note: str, annotated_text: str = "") -> str:
  """Returns a note of 杜預 without the sound glosses that follow it.

  Args:
    annotated_text: folded words before the note. A variant reading begins with
      the words that have one, as many as stand there or in the note before.
  """
  gloss = _GLOSS.search(note)
  if gloss is None:
    return note
  start = gloss.start()
  # A variant of one character, before the next gloss, has a head of one.
  if gloss["variant"] and not _GLOSS.match(note, gloss.end() + 1):
    head_end = start + 1
    for num_chars in range(2, min(_MAX_HEAD_CHARS, head_end) + 1):
      comment = note[: head_end - num_chars]
      head = text_alignment.fold_text(note[head_end - num_chars : head_end])
      if head in annotated_text or head in text_alignment.fold_text(comment):
        start = head_end - num_chars
  return note[:start]


def _read_notes(
  paths: Sequence[pathlib.Path],
) -> tuple[list[tuple[int, str]], str, list[int]]:
  """Returns `_split_notes` of all juan and where each juan begins."""
  notes, texts, juan_starts, length = [], [], [], 0
  for path in paths:
    juan_notes, juan_text = _split_notes(base_texts.read_running_text(path))
    notes += [(length + position, note) for position, note in juan_notes]
    texts.append(juan_text)
    juan_starts.append(length)
    length += len(juan_text)
  return notes, "".join(texts), juan_starts


def _split_notes(running: str) -> tuple[list[tuple[int, str]], str]:
  """Returns (position, note) pairs and the folded text without the notes."""
  notes, text, length, start = [], [], 0, 0
  for match in _BRACKETED.finditer(running):
    body_text = text_alignment.fold_text(running[start : match.start()])
    text.append(body_text)
    length += len(body_text)
    notes.append((length, match[1]))
    start = match.end()
  text.append(text_alignment.fold_text(running[start:]))
  return notes, "".join(text)


# A title of 魏了翁 has its number in front: 「(十/一)」, 「(二/十)」.
_NUMBER = re.compile(r"\([^()/]{0,2}/[^()/]?\)")
_NUMBER_DEPTHS = (1, 2)
# End of 呂祖謙's titles: 「(五年)」, 「(同上)」.
_TITLE_BRACKET = re.compile(r"\(([^)]*)\)$")
_SAME_YEAR = "同上"
_YEAR_BRACKET = re.compile(r"\(.*年/?\)$|\(同上/\)$")
_DUKE_DEPTH, _TITLE_DEPTH = 2, 3
_BOOK = re.compile("欽定四庫全書|春秋左傳要義|左氏傳[說説]卷")
_AUTHOR = re.compile("宋.*撰$")
# Sound glosses and marks of gaps inside the text.
_SMALL_TYPE = re.compile(r"\([^)]*\)")
# A section of which less is copied may be copied from another note that says
# the same; what it is about is in its title and first words.
_MIN_SURE_SHARE = 0.6
_OPENING_CHARS = 24
# Of a copied passage; fewer characters may agree with another note by chance.
_MIN_COPIED_CHARS = 20


@dataclasses.dataclass
class TitledSection:
  """The text under one title, or under several titles in a row."""

  # Span or years that the edition gives, for each title.
  years: list[list[text_alignment.Year]]
  titles: list[str]  # as printed, without number or year
  body: str = ""


def read_wei(
  paths: Sequence[pathlib.Path],
  kong_paths: Sequence[pathlib.Path],
  anchor: text_alignment.Anchor,
) -> AlignedWork:
  """Returns the sections of 魏了翁, each where most of it is copied from.

  A section that joins the notes on two entries is divided where the second
  begins. What shares little with KR1e0004 is matched by the title to the years
  in the heading of the juan. `paths` are the juan of KR1e0044, `kong_paths`
  those of KR1e0004.
  """
  sections = [section for path in paths for section in read_wei_sections(path)]
  # 魏了翁 copies 孔穎達, whose text is aligned with the annals already.
  kong_stretches = read_stretches(kong_paths, anchor)
  copies_by_section = _match_copies(
    [text_alignment.fold_text(section.body) for section in sections],
    kong_stretches,
  )
  matcher = text_alignment.AnchorMatcher(anchor)
  candidates = []
  num_checked = num_agreed = 0
  for section, copies in zip(sections, copies_by_section, strict=True):
    (title,), (years,) = section.titles, section.years
    bodies = _split_at_characters(
      section.body, [start for start, _ in copies[1:]]
    )
    for text, (_, copied_match) in zip(
      [title + bodies[0], *bodies[1:]], copies, strict=True
    ):
      anchor_match = copied_match
      if anchor_match is None or anchor_match.score < text_alignment.MIN_SCORE:
        anchor_match = matcher.best_match(
          text_alignment.fold_text(title), years
        )
      elif years:
        num_checked += 1
        num_agreed += (anchor_match.key.reign, anchor_match.key.year) in years
      candidates.append(
        Candidate(
          tuple(FRAMING.split(text)),
          anchor_match,
          "no year is named",
        )
      )
  candidates = rematch_between_neighbors(candidates, matcher)
  return AlignedWork(len(sections), candidates, num_checked, num_agreed)


def read_lv(
  paths: Sequence[pathlib.Path], anchor: text_alignment.Anchor
) -> AlignedWork:
  """Returns the titles of 呂祖謙 (KR1e0039) with the passages about each.

  Several titles may share one text; a passage of it goes to the title whose
  segment of the annals it resembles most.
  """
  matcher = text_alignment.AnchorMatcher(anchor)
  candidates = []
  num_checked = num_agreed = 0
  for section in (
    titled_section
    for path in paths
    for titled_section in read_lv_sections(path)
  ):
    anchor_matches = []
    for title, years in zip(section.titles, section.years, strict=True):
      words = text_alignment.fold_text(title)
      reign_years = matcher.years_of_reign(years[0][0])
      anchor_matches.append(matcher.find_match(words, years, reign_years))
      free_match = matcher.best_match(words, reign_years)
      if free_match is not None:
        num_checked += 1
        num_agreed += (free_match.key.reign, free_match.key.year) in years
    # Titles in a row share one text: each passage goes to one of them.
    passages_by_title: dict[int, list[str]] = collections.defaultdict(list)
    for passage in cut_pieces(section.body):
      passages_by_title[
        _most_similar_title(passage, anchor_matches, matcher)
      ].append(passage)
    candidates += [
      Candidate(
        tuple(passages_by_title[number]), anchor_match, "no entry of the year"
      )
      for number, anchor_match in enumerate(anchor_matches)
    ]
  return AlignedWork(len(candidates), candidates, num_checked, num_agreed)


def read_wei_sections(path: pathlib.Path) -> list[TitledSection]:
  """Returns the sections of a juan of KR1e0044, with the juan's years."""
  sections: list[TitledSection] = []
  years: list[text_alignment.Year] = []
  for depth, line in base_texts.read_printed_lines(path):
    if not line or _BOOK.match(line) or _AUTHOR.match(line):
      continue
    number = _NUMBER.match(line) if depth in _NUMBER_DEPTHS else None
    if number:
      title = _SMALL_TYPE.sub("", line[number.end() :])
      sections.append(TitledSection([years], [title]))
    elif depth == 1 and (
      span := text_alignment.parse_year_span(text_alignment.fold_text(line))
    ):
      years = span
    elif sections:
      sections[-1].body += _SMALL_TYPE.sub("", line)
  return sections


def read_lv_sections(path: pathlib.Path) -> list[TitledSection]:
  """Returns the sections of a juan of KR1e0039."""
  sections: list[TitledSection] = []
  reign = None
  in_title = False
  for depth, line in base_texts.read_printed_lines(path):
    if not line or _BOOK.match(line):
      continue
    title = depth >= _TITLE_DEPTH or (depth and _YEAR_BRACKET.search(line))
    duke = text_alignment.parse_duke(text_alignment.fold_text(line))
    if depth == _DUKE_DEPTH and duke is not None:
      reign, in_title = duke, False
    elif title:
      if reign is None:
        raise source_files.SourceError(
          f"{path}: the title {line} stands before the first duke; expected "
          "左氏傳說, KR1e0039"
        )
      if not in_title:
        sections.append(TitledSection([], []))
      if depth <= _TITLE_DEPTH or not sections[-1].titles:
        sections[-1].titles.append(line)
        sections[-1].years.append([(reign, 0)])
      else:
        sections[-1].titles[-1] += line
      in_title = True
    elif sections:
      sections[-1].body += _SMALL_TYPE.sub("", line)
      in_title = False
  # Only now: 「同上」 refers to the title before, perhaps of another section.
  _extract_years(sections)
  return sections


def _extract_years(sections: Sequence[TitledSection]) -> None:
  """Takes the years out of the titles, where (reign, 0) stands for none."""
  previous_years: list[text_alignment.Year] = []
  for section in sections:
    for number, title in enumerate(section.titles):
      ((reign, _),) = section.years[number]
      title = title.replace(")(", "").replace("/", "")
      bracket = _TITLE_BRACKET.search(title)
      named_years = bracket and text_alignment.fold_text(bracket[1])
      if named_years and named_years != _SAME_YEAR:
        previous_years = text_alignment.parse_years(named_years, reign)
      section.titles[number] = title[: bracket.start()] if bracket else title
      section.years[number] = previous_years or [(reign, 0)]


def rematch_between_neighbors(
  candidates: Sequence[Candidate], matcher: text_alignment.AnchorMatcher
) -> list[Candidate]:
  """Returns the sections, those out of order matched again by their opening.

  A section with a doubtful match, in a year outside those of the sure sections
  before and after it, goes to the entry between them that its opening fits.
  """
  sure_years = [
    (index, (candidate.anchor_match.key.reign, candidate.anchor_match.key.year))
    for index, candidate in enumerate(candidates)
    if candidate.anchor_match is not None
    and candidate.anchor_match.score >= _MIN_SURE_SHARE
  ]
  rematched = list(candidates)
  for (first, first_year), (last, last_year) in itertools.pairwise(sure_years):
    years = [
      year
      for reign in range(first_year[0], last_year[0] + 1)
      for year in matcher.years_of_reign(reign)
      if first_year <= year <= last_year
    ]
    for index in range(first + 1, last):
      candidate = candidates[index]
      match = candidate.anchor_match
      if match is None or (match.key.reign, match.key.year) in years:
        continue
      opening = text_alignment.fold_text("".join(candidate.passages))
      opening = opening[:_OPENING_CHARS]
      better_match = matcher.best_match(opening, years)
      if better_match is not None and better_match.score >= max(
        text_alignment.MIN_SCORE,
        matcher.fit_score(opening, match.segment_index),
      ):
        rematched[index] = dataclasses.replace(
          candidate, anchor_match=better_match
        )
  return rematched


def _match_copies(
  texts: Sequence[str], stretches: Sequence[tuple[str, AnchorMatch | None]]
) -> list[list[tuple[int, AnchorMatch | None]]]:
  """Returns the segments that each text is copied from, with positions."""
  matched_stretches = [
    (text, anchor_match)
    for text, anchor_match in stretches
    if anchor_match is not None
  ]
  copied_anchor = text_alignment.Anchor.from_segments(
    [(text, anchor_match.key) for text, anchor_match in matched_stretches]
  )
  ends = list(itertools.accumulate(map(len, texts)))
  # (position in the text, segment) of every character that is copied.
  copied_characters: list[list[tuple[int, int]]] = [[] for _ in texts]
  for position, anchor_position in text_alignment.tie_texts(
    "".join(texts), copied_anchor.text
  ):
    stretch_index = copied_anchor.segment_at(anchor_position)
    text_index = bisect.bisect_right(ends, position)
    copied_characters[text_index].append(
      (
        position - ends[text_index] + len(texts[text_index]),
        matched_stretches[stretch_index][1].segment_index,
      )
    )
  keys = {
    anchor_match.segment_index: anchor_match.key
    for _, anchor_match in matched_stretches
  }
  copies_by_text: list[list[tuple[int, AnchorMatch | None]]] = []
  for text, characters in zip(texts, copied_characters, strict=True):
    if not characters:
      copies_by_text.append([(0, None)])
      continue
    passages = _find_copied_passages(characters)
    copies = []
    for (start, segment_index), (end, _) in itertools.pairwise(
      [*passages, (len(text), -1)]
    ):
      num_copied = sum(
        start <= position < end and copied_segment == segment_index
        for position, copied_segment in characters
      )
      copies.append(
        (
          start,
          AnchorMatch(
            segment_index, keys[segment_index], num_copied / (end - start)
          ),
        )
      )
    copies_by_text.append(copies)
  return copies_by_text


def _find_copied_passages(
  characters: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
  """Returns (position, segment) of the passages of a text, the first at 0."""
  passages: list[tuple[int, int]] = []
  previous_end = 0
  for segment_index, group in itertools.groupby(
    characters, key=lambda character: character[1]
  ):
    positions = [position for position, _ in group]
    if len(positions) < _MIN_COPIED_CHARS:
      continue
    if not passages or passages[-1][1] != segment_index:
      # What stands between two passages introduces the second.
      passages.append((previous_end, segment_index))
    previous_end = positions[-1] + 1
  if len(passages) > 1:
    return passages
  segment_counts = collections.Counter(segment for _, segment in characters)
  return [(0, segment_counts.most_common(1)[0][0])]


def _split_at_characters(text: str, positions: Sequence[int]) -> list[str]:
  """Returns a text, cut before the folded characters at `positions`."""
  indices = [
    index
    for index, character in enumerate(text)
    if text_alignment.fold_text(character)
  ]
  cuts = [0, *(indices[position] for position in positions), len(text)]
  return [text[start:end] for start, end in itertools.pairwise(cuts)]


def _most_similar_title(
  passage: str,
  anchor_matches: Sequence[AnchorMatch | None],
  matcher: text_alignment.AnchorMatcher,
) -> int:
  """Returns the title whose segment the passage resembles most."""
  matched_titles = [
    number
    for number, anchor_match in enumerate(anchor_matches)
    if anchor_match is not None
  ]
  if len(matched_titles) < 2:
    return matched_titles[0] if matched_titles else 0
  words = text_alignment.fold_text(passage)
  return max(
    matched_titles,
    key=lambda number: matcher.fit_score(
      words, anchor_matches[number].segment_index
    ),
  )
