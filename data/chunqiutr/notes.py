"""Notes printed between the words that they explain: 杜預 and 孔穎達.

A note is dated by the text before it. Commentary has no punctuation; it is cut
into pieces of a few sentences at final particles and where somebody is quoted.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from ctd_jax_datasets.chunqiutr import base_texts, text_alignment
from ctd_jax_datasets.chunqiutr.text_alignment import AlignedWork, Candidate

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
# A year of another duke opens a quotation wherever it stands.
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
# and 切 or, where a gloss goes on or ends with it, 反; 音 and one character;
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
  """Returns the notes of 杜預, sound glosses cut off.

  Args:
    paths: juan 1-30 of KR1e0002 in order.
  """
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
  """Returns 孔穎達's sub-commentary, divided where 正義曰 opens again.

  Args:
    paths: juan 1-60 of KR1e0004 in order.
  """
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
  """Returns an edition, text and notes, in stretches that end with a note.

  Args:
    paths: juan of KR1e0004 in order.

  Returns:
    (folded stretch, match of its note) in the order they are printed.
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
