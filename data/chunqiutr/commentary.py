"""Notes of 杜預 and 孔穎達, cut into pieces and dated by what they annotate.

Why: commentary repeats the wording of the entry it explains, often with the
date, and is never the answer: the benchmark's hard negatives. Two editions are
read. 四部叢刊 (KR1e0002) prints 杜預 in brackets, 陸德明's glosses run on;
文淵閣四庫全書 (KR1e0004) prints 孔穎達 in brackets after 疏. Months come from
`alignment`. Called by `records`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

from ctd_jax.chronology.timekey import TimeKey
from ctd_jax_datasets.chunqiutr import alignment, sources

DU_YU = "du_yu"
KONG_YINGDA = "kong_yingda"
COMMENT_SOURCES = (DU_YU, KONG_YINGDA)

# Shorter notes of 杜預 name a person or a place and say nothing else.
MIN_DU = 11
# A piece of 孔穎達 is closed at the first sentence end after so many
# characters; a rest shorter than MIN_REST stays with the piece before it.
MIN_KONG = 55
MIN_REST = 20

_BRACKETED = re.compile(r"\(([^)]*)\)")
_CORRIGENDA = re.compile(r"^#\+PROPERTY: JUAN .*考證", re.MULTILINE)
_KONG_OPENS = re.compile(r"注?正義曰")
# Where 陸德明's glosses begin: head character and its sound (two characters
# and 切, 音 and one character, 如字), a variant reading, or a ring. 八音 and
# the like are music.
_GLOSS = re.compile(
  r"[○〇]|釋文|.{3}切|[^八五六七德其之聲]音[^樂聲也者之]|.如字"
  r"|.[本字]?[亦又或]作|(.)\1{1,2}.之\1"
)
_SENTENCE_END = re.compile(r"[也矣耳焉乎哉](?![也矣耳焉乎哉者])")


@dataclasses.dataclass(frozen=True)
class Comment:
  """A piece of commentary.

  Attributes:
    source: one of `COMMENT_SOURCES`.
    text: unpunctuated, as printed.
    key: month of the entry it annotates.
  """

  source: str
  text: str
  key: TimeKey


def running_text(path: pathlib.Path) -> str:
  """Returns a juan as one string, small type joined inside `(...)`.

  The Siku editors' 考證 at the end of the juan is cut.
  """
  text = sources.read_text(path)
  corrigenda = _CORRIGENDA.search(text)
  if corrigenda:
    text = text[: corrigenda.start()]
  lines = [line for _, line in sources.kanripo_lines(text)]
  return "".join(lines).replace(")(", "").replace("/", "")


def parse_du(
  paths: list[pathlib.Path], anchor: alignment.Anchor
) -> list[Comment]:
  """Returns the notes of 杜預, sound glosses cut off, very short ones left out.

  Args:
    paths: juan 1-30 of KR1e0002 in order.
    anchor: the annotated text.
  """
  notes, text = _notes_and_text("".join(map(running_text, paths)))
  aligned = alignment.Alignment(anchor, text)
  comments = []
  for position, note in notes:
    note = cut_glosses(note)
    key = aligned.key_at(position)
    if len(note) >= MIN_DU and key is not None:
      comments.append(Comment(DU_YU, note, key))
  return comments


def parse_kong(
  paths: list[pathlib.Path], anchor: alignment.Anchor
) -> list[Comment]:
  """Returns 孔穎達's sub-commentary in pieces of a few sentences.

  Args:
    paths: juan 1-60 of KR1e0004 in order.
    anchor: the annotated text.
  """
  notes, text = _notes_and_text("".join(map(running_text, paths)))
  aligned = alignment.Alignment(anchor, text)
  return [
    Comment(KONG_YINGDA, piece, key)
    for position, note in notes
    if _KONG_OPENS.match(note) and (key := aligned.key_at(position)) is not None
    for unit in _KONG_OPENS.split(note)
    for piece in cut_sentences(unit)
  ]


def cut_glosses(note: str) -> str:
  """Returns a note of 杜預 without the sound glosses that follow it."""
  gloss = _GLOSS.search(note)
  return note[: gloss.start()] if gloss else note


def cut_sentences(text: str) -> list[str]:
  """Returns unpunctuated prose cut after final particles; pieces join to it.

  Pieces have at least `MIN_KONG` characters, the last at least `MIN_REST`;
  text shorter than that gives nothing.
  """
  pieces, start = [], 0
  for end in (match.end() for match in _SENTENCE_END.finditer(text)):
    if end - start >= MIN_KONG:
      pieces.append(text[start:end])
      start = end
  rest = text[start:]
  if len(rest) >= MIN_REST:
    pieces.append(rest)
  elif pieces:
    pieces[-1] += rest
  return pieces


def _notes_and_text(running: str) -> tuple[list[tuple[int, str]], str]:
  """Returns ((position, note), ...) and the folded text without the notes."""
  notes, text, length, start = [], [], 0, 0
  for match in _BRACKETED.finditer(running):
    between = alignment.fold(running[start : match.start()])
    text.append(between)
    length += len(between)
    notes.append((length, match[1]))
    start = match.end()
  text.append(alignment.fold(running[start:]))
  return notes, "".join(text)
