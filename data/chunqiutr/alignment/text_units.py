"""Sentences and clauses of an entry, in the form that is compared."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator

from ctd_jax.chronology import annals
from ctd_jax_datasets.chunqiutr.alignment import text_alignment

# Its opening clause identifies a passage; longer text only costs time.
_MAX_PASSAGE_CHARS = 120


_CLAUSE_ENDS = annals.SENTENCE_ENDS + "，、："


# 左傳 quotes the annals so.
_QUOTES = re.compile("^[故先]?書曰")


# 公羊 writes 邾婁 for 邾.
_NAME_VARIANTS = {"邾婁": "邾"}


@dataclasses.dataclass(frozen=True)
class TextPosition:
  """Where a sentence or clause begins.

  Attributes:
    location: `file:line` of its entry, which names the entry.
    start: its first character in the entry's text.
  """

  location: str
  start: int


@dataclasses.dataclass(frozen=True)
class TextUnit:
  """A sentence or clause, and what is compared of it.

  Attributes:
    position: where it begins.
    year: of its entry, None if the edition does not number years.
    rank: 2 if it opens an entry, 1 a sentence, 0 a clause.
    text: folded from here on; of the annals only the sentence.
    body: the same without an opening date.
    clause: the first clause of `body`.
  """

  position: TextPosition
  year: int | None
  rank: int
  text: str
  body: str
  clause: str


def split_units(
  text: str, location: str, year: int | None = None, clauses: bool = False
) -> Iterator[TextUnit]:
  """Yields the sentences of an entry, or all its clauses."""
  is_sentence_start = annals.make_sentence_start_test(text)
  is_unit_start = (
    annals.make_sentence_start_test(text, _CLAUSE_ENDS)
    if clauses
    else is_sentence_start
  )
  starts = [0, *filter(is_unit_start, range(1, len(text)))]
  for start, end in itertools.pairwise([*starts, len(text)]):
    passage = (
      text[start : start + _MAX_PASSAGE_CHARS] if clauses else text[start:end]
    )
    cues = annals.find_opening_cues(passage)
    body = passage[cues[-1].end if cues else 0 :].lstrip(_CLAUSE_ENDS)
    body = _QUOTES.sub("", body)
    ends = [body.find(mark) for mark in _CLAUSE_ENDS if mark in body]
    yield TextUnit(
      TextPosition(location, start),
      year,
      2 if start == 0 else int(is_sentence_start(start)),
      _fold_names(passage),
      _fold_names(body),
      _fold_names(body[: min(ends, default=None)]),
    )


def _fold_names(text: str) -> str:
  text = text_alignment.fold_text(text)
  for name, standard_name in _NAME_VARIANTS.items():
    text = text.replace(name, standard_name)
  return text
