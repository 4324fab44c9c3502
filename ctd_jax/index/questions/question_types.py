"""What a question means: months, words, or a passage to be dated."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

TIME, WORDS, PASSAGE = INTENTS = ("time", "words", "passage")


class QuestionError(ValueError):
  """A question that cannot be read; one line says why and what would be."""


class MonthSpan(NamedTuple):
  """Stretch of lunations, both ends included.

  Attributes:
    first: ordinal in the calendar of the index.
    last: ordinal, not before the first.
    name: as a text would call it.
  """

  first: int
  last: int
  name: str


class Reading(NamedTuple):
  """One of several things that a question may mean.

  Attributes:
    name: of the date under this reading, e.g. 晉武帝泰始元年.
    span: its months.
  """

  name: str
  span: MonthSpan


@dataclasses.dataclass(frozen=True)
class Question:
  """A question as it was understood.

  Attributes:
    text: as asked.
    intent: `TIME` (what happened then), `WORDS` (which records speak of it, at
      that time if there are intervals), or `PASSAGE` (when was this written
      of).
    intervals: months that are asked for, any of them; those of all readings if
      there are several. None at all means any time.
    words: words and phrases to look for, as written; the pair of a sexagenary
      day is one.
    passage: text to be dated; empty unless that is the intent.
    readings: what the date may mean, if it may mean several things; the first
      `MAX_READINGS` of them.
    day: index of a sexagenary day, 0 = 甲子, if one is asked for.
    works: names of the works asked for, as the index calls them; all if none.
    notes: what was understood and what was left out, a sentence each.
  """

  text: str
  intent: str
  intervals: tuple[MonthSpan, ...] = ()
  words: tuple[str, ...] = ()
  passage: str = ""
  readings: tuple[Reading, ...] = ()
  day: int | None = None
  works: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()


# Names of rulers and eras listed for one date.
MAX_READINGS = 24
