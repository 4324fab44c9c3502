"""Notes printed between the words that they explain: 杜預 and 孔穎達.

Two editions print the annals with notes in brackets. 四部叢刊 (KR1e0002) has
杜預's, with 陸德明's glosses run on; 文淵閣四庫全書 (KR1e0004) has 孔穎達's
after 疏. The annotated words end where the note begins, so the text without
notes is tied to the anchor and gives each note its position.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from ctd_jax_datasets.chunqiutr import kanripo
from ctd_jax_datasets.chunqiutr.alignment import text_alignment
from ctd_jax_datasets.chunqiutr.alignment.text_alignment import (
  AlignedWork,
  Candidate,
)
from ctd_jax_datasets.chunqiutr.commentary import segmentation

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
    anchor: the annotated text.
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
    anchor: the annotated text.
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
      for comment in segmentation.FRAMING.split(note)
      if comment
    ],
  )


def read_stretches(
  paths: Sequence[pathlib.Path], anchor: text_alignment.Anchor
) -> list[tuple[str, text_alignment.AnchorMatch | None]]:
  """Returns an edition, text and notes, in stretches that end with a note.

  Args:
    paths: juan of KR1e0004 in order.
    anchor: the annotated text.

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
    note: as printed.
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
    juan_notes, juan_text = _split_notes(kanripo.read_running_text(path))
    notes += [(length + position, note) for position, note in juan_notes]
    texts.append(juan_text)
    juan_starts.append(length)
    length += len(juan_text)
  return notes, "".join(texts), juan_starts


def _split_notes(running: str) -> tuple[list[tuple[int, str]], str]:
  """Returns (position, note) pairs and the folded text without the notes.

  A position counts characters of the folded text before the note.
  """
  notes, text, length, start = [], [], 0, 0
  for match in _BRACKETED.finditer(running):
    body_text = text_alignment.fold_text(running[start : match.start()])
    text.append(body_text)
    length += len(body_text)
    notes.append((length, match[1]))
    start = match.end()
  text.append(text_alignment.fold_text(running[start:]))
  return notes, "".join(text)
