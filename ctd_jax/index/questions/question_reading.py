"""Questions about an index: what is asked for, at which time.

A question names a time, words, or both, or is itself a passage to be dated. It
is read by rules, so that what was understood can be told, and what is ambiguous
is answered with all that it may mean (`Question.readings`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.chronology import (
  query_dates,
  query_mentions,
  question_words,
  window_patterns,
)
from ctd_jax.chronology.date_grammar import build_grammar
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.index.questions import question_dates, question_english
from ctd_jax.index.questions.question_calendar import (
  CalendarMonths,
  format_years,
)
from ctd_jax.index.questions.question_dates import QuestionDates
from ctd_jax.index.questions.question_types import (
  INTENTS,
  MAX_READINGS,
  PASSAGE,
  TIME,
  WORDS,
  Question,
  QuestionError,
  Reading,
)

# Characters; the longest annals of one year have fewer.
MAX_PASSAGE = 20_000
# Longer texts are passages, whatever they look like.
MAX_QUESTION = 200
# Without punctuation a text of so many Han characters is no list of words.
_MAX_UNPUNCTUATED = 40
_MAX_PHRASE = 12
_MAX_ENGLISH_WORDS = 25
_MAX_EXCERPT = 40
# Tabulators and ends of lines are blanks.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_HAN = re.compile(
  "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_HAN_RUN = re.compile(rf"{_HAN.pattern}+")
_CLAUSE = re.compile("[。；：]|，(?=.)", re.DOTALL)
_SENTENCE = re.compile("[。；：]")
_ENDS_ASKING = re.compile(r"[？?][\s」』”\"]*\Z")
_EXAMPLES = "such as 魯隱公元年五月, 722 BCE or 葬衛桓公"


class QuestionReader:
  """Reader of the questions that one index is asked."""

  def __init__(
    self,
    calendar: Calendar,
    printed_reigns: Collection[int] = frozenset(),
    works: Sequence[str] = (),
    count_records: Callable[[], Int[np.ndarray, " K"]] | None = None,
  ):
    """Indexes the months of the calendar.

    Args:
      calendar: of the index.
      printed_reigns: rows of the reigns that the works of the index name; they
        come first among those that a date may mean.
      works: names of the works of the index.
      count_records: gives the number of records of each month; meanings of a
        date that have records come first. All are alike if None.
    """
    self._count_records = count_records
    self._months = CalendarMonths(calendar)
    self._printed_reigns = frozenset(printed_reigns)
    self._works = tuple(works)
    self._states = frozenset(
      fold_script(reign.state) for reign in calendar.timeline.reigns
    )

  def read(self, text: str, intent: str | None = None) -> Question:
    """Returns what a question asks for.

    Args:
      text: in either script, or in English: a time, words to look for, both, or
        a passage to be dated. Words in 「」 or "" are looked for as they are; a
        title in 《》 that names a work of the index asks for that work.
      intent: one of `INTENTS`, if it is known: `TIME` reads the months and no
        words, `WORDS` as words what would else be a passage, `PASSAGE` anything
        as a passage. None decides by the text.

    Raises:
      QuestionError: for a text that is empty, too long or not text, a date that
        the calendar lacks, an unknown era, or a window that cannot be read.
      ValueError: if there is no such intent.
    """
    if intent is not None and intent not in INTENTS:
      raise ValueError(
        f"intent {intent!r}: expected one of {', '.join(INTENTS)}"
      )
    _check_text(text)
    stripped = " ".join(text.split())
    if intent == PASSAGE:
      return Question(text, PASSAGE, passage=text.strip())
    if intent is None and self._is_passage(stripped):
      note = "read as a passage to be dated, not as words to look for"
      return Question(text, PASSAGE, passage=text.strip(), notes=(note,))
    if len(stripped) > MAX_QUESTION:
      raise QuestionError(
        f"question of {len(stripped):,} characters: expected up to "
        f"{MAX_QUESTION}; a text to be dated is asked as a passage"
      )
    return self._read_question(text, stripped, intent)

  def _is_passage(self, text: str) -> bool:
    """Whether a text is to be dated rather than answered."""
    if len(text) > MAX_QUESTION:
      return True
    if question_words.is_question(text):
      return False
    plain, _ = question_words.take_quotations(text)
    num_han = len(_HAN.findall(text))
    if not num_han:
      return len(text.split()) > _MAX_ENGLISH_WORDS
    marks = _CLAUSE.findall(plain)
    has_sentence = _SENTENCE.search(plain) is not None
    if _ENDS_ASKING.search(text):
      return has_sentence
    if num_han > _MAX_UNPUNCTUATED:
      return True
    if not (marks or has_sentence):
      # As printed editions have it: no phrase to look for is so long.
      longest = max(map(len, _HAN_RUN.findall(plain)), default=0)
      return longest > _MAX_PHRASE and not self._has_date(plain)
    return has_sentence or len(marks) > 1 or not self._has_date(plain)

  def _has_date(self, text: str) -> bool:
    """Whether a text names a month or year of the calendar."""
    try:
      search = query_mentions.find_mentions(text, self._months)
      query_dates.resolve_mentions(text, search, self._months)
    except DateError as error:
      return "ambiguous" in error.problem
    return True

  def _read_question(
    self, text: str, stripped: str, intent: str | None
  ) -> Question:
    notes: list[str] = []
    rest, phrases = question_words.take_quotations(stripped)
    rest, works = self._take_titles(rest, notes)
    if not _HAN.search(rest):
      rest, translations = question_english.translate_dates(
        rest, self._months.timeline
      )
      notes += translations
    dates = question_dates.read_dates(rest, self._months, self._printed_reigns)
    words = phrases
    if intent != TIME:
      words += self._find_words(rest, dates)
    if intent == TIME and not dates.intervals:
      raise QuestionError(
        f"no date in {_shorten(stripped)!r}: expected {_EXAMPLES}; the "
        f"calendar holds {format_years(self._months.years)}"
      )
    if not (words or dates.intervals or works) and not (
      question_words.is_question(rest)
    ):
      words = question_words.split_words(rest)
    if not (words or dates.intervals or works):
      raise QuestionError(
        f"neither a date nor a word to look for in {_shorten(stripped)!r}: "
        f"expected {_EXAMPLES}"
      )
    notes += dates.notes
    readings = self._sort_readings(dates.readings)
    if len(readings) > MAX_READINGS:
      notes.append(
        f"{MAX_READINGS} of {len(readings):,} meanings of the date are listed; "
        "all are searched"
      )
    elif readings:
      notes.append(
        f"the date may mean {len(readings)} things; all are searched"
      )
    if not dates.intervals:
      notes += self._note_reigns(words)
    has_words = bool(set(words) - self._list_day_words(rest, dates))
    return Question(
      text,
      WORDS if has_words or not dates.intervals else TIME,
      dates.intervals,
      words,
      "",
      readings[:MAX_READINGS],
      dates.days[0].index if dates.days else None,
      works,
      tuple(dict.fromkeys(notes)),
    )

  def _sort_readings(self, readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """Returns several meanings of a date, those with records first, by time."""
    if len(readings) < 2:
      return ()
    if self._count_records is None:
      return tuple(readings)
    before = np.concatenate([[0], np.cumsum(self._count_records())])

    def sort_key(reading: Reading) -> tuple[bool, int]:
      first, last, _ = reading.span
      return bool(before[last + 1] == before[first]), first

    return tuple(sorted(readings, key=sort_key))

  def _note_reigns(self, words: Sequence[str]) -> list[str]:
    """Returns how to ask for the time of what is asked for as a word."""
    names = build_grammar(self._months.timeline).reigns
    return [
      f"{word} is looked for as a word; {word}年間 asks for its months"
      for word in words
      if len(word) > 1 and fold_script(word) in names
    ]

  def _list_day_words(self, text: str, dates: QuestionDates) -> set[str]:
    return {text[day.start : day.end] for day in dates.days}

  def _find_words(self, text: str, dates: QuestionDates) -> tuple[str, ...]:
    """Returns the words of a question, the pairs of its days first."""
    words = question_words.find_words(
      dates.rest, self._states if dates.intervals else frozenset()
    )
    pairs = tuple(text[day.start : day.end] for day in dates.days)
    return tuple(dict.fromkeys(pairs + words))

  def _take_titles(
    self, text: str, notes: list[str]
  ) -> tuple[str, tuple[str, ...]]:
    """Returns a text without titles, and the works of the index they name."""
    works: list[str] = []
    for match in window_patterns.BOOK_TITLE.finditer(text):
      title = match[0][1:-1]
      named = _match_works(title, self._works)
      works += named
      if not named:
        notes.append(f"《{title}》 is no work of the index; all are searched")
    text = window_patterns.BOOK_TITLE.sub(lambda m: " " * len(m[0]), text)
    return text, tuple(dict.fromkeys(works))


def read_question(
  text: str,
  calendar: Calendar,
  printed_reigns: Collection[int] = frozenset(),
  *,
  intent: str | None = None,
  works: Sequence[str] = (),
) -> Question:
  """Returns what a question asks for.

  Whoever asks more than one keeps a `QuestionReader`.

  Args:
    text: as of `QuestionReader.read`.
    calendar: of the index.
    printed_reigns: as of `QuestionReader`.
    intent: as of `QuestionReader.read`.
    works: names of the works of the index.

  Raises:
    QuestionError: as `QuestionReader.read`.
    ValueError: as `QuestionReader.read`.
  """
  return QuestionReader(calendar, printed_reigns, works).read(text, intent)


def _check_text(text: str) -> None:
  """Raises QuestionError for what is no question, whatever it means."""
  if not text.strip():
    raise QuestionError(f"the question is empty: expected {_EXAMPLES}")
  if len(text) > MAX_PASSAGE:
    raise QuestionError(
      f"question of {len(text):,} characters: expected up to {MAX_QUESTION}, "
      f"or a passage of up to {MAX_PASSAGE:,}; a longer text is added to an "
      "index"
    )
  control = _CONTROL.search(text)
  if control:
    raise QuestionError(
      f"character {control.start()} of the question is the control character "
      f"U+{ord(control[0]):04X}: expected plain text in UTF-8"
    )


def _match_works(title: str, works: Sequence[str]) -> list[str]:
  """Returns the works that a title names, 《資治通鑑·齊紀》 資治通鑑."""
  title = fold_script(title)
  names = {title, re.split("[·・]", title)[0]}
  return [work for work in works if fold_script(work) in names]


def _shorten(text: str) -> str:
  return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]}…"
