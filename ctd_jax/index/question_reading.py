"""Reads questions: what they ask for, and for which time.

A question names a time, words or both, or is a passage to date. Rules read it,
so the answer can say how it was understood. An ambiguous question is answered
with all its meanings.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.chronology import (
  mentions,
  question_words,
  questions,
  reigns,
  windows,
)
from ctd_jax.chronology.dates import build_grammar
from ctd_jax.chronology.numerals import DateError, fold_script
from ctd_jax.chronology.reigns import MONTHS_PER_YEAR, Timeline
from ctd_jax.chronology.western_dates import read_count
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.index import calendars, question_dates
from ctd_jax.index.question_calendar import (
  INTENTS,
  MAX_READINGS,
  PASSAGE,
  TIME,
  WORDS,
  CalendarMonths,
  DateMeaning,
  Question,
  QuestionError,
  format_years,
)
from ctd_jax.utils.notes import Note
from ctd_jax.utils.unicode_text import normalize

_ORDINAL = r"(?:\d{1,2}(?:st|nd|rd|th)?|[a-z]+(?:[-\s][a-z]+)?)"
_DATE = re.compile(
  rf"(?:(?:the\s+)?(?:(?P<leap>intercalary|leap)\s+)?(?:(?P<month>{_ORDINAL})\s+month"
  r"|(?P<season>spring|summer|autumn|fall|winter))\s+(?:of|in)\s+)?"
  rf"(?:the\s+)?(?P<year>{_ORDINAL})\s+(?:regnal\s+)?year\s+(?:of|in)\s+"
  r"(?:the\s+reign\s+of\s+)?(?:Duke\s+)?(?P<ruler>[A-Z][a-z]+)(?:\s+of\s+Lu\b)?",
  re.IGNORECASE,
)
_REIGN = re.compile(
  r"(?:the\s+)?(?:reign|time|days)\s+of\s+(?:Duke\s+)?(?P<ruler>[A-Z][a-z]+)"
  r"(?:\s+of\s+Lu\b)?",
  re.IGNORECASE,
)
_SEASONS = {
  "spring": "春",
  "summer": "夏",
  "autumn": "秋",
  "fall": "秋",
  "winter": "冬",
}
# Characters; the longest annals of one year have fewer.
MAX_PASSAGE = 20_000
# Longer texts are passages, whatever they look like.
MAX_QUESTION = 200
# Without punctuation a text of this many Han characters is not a list of words.
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
_EXAMPLES = Note("problem.question.examples")


def translate_dates(text: str, timeline: Timeline) -> tuple[str, list[Note]]:
  """Returns a question with English regnal dates in Chinese, and notes."""
  rulers: dict[str, int] = {}
  for number, label in enumerate(reigns.make_reign_labels(timeline), start=1):
    rulers.setdefault(label.lower(), number)
  notes = []

  def translate(match: re.Match[str]) -> str:
    number = rulers.get(match["ruler"].lower())
    date = number and _translate_date(match, timeline.full_reign_name(number))
    if not date:
      return match[0]
    notes.append(Note("note.question.read_as", date=match[0], other=date))
    return f" {date} "

  text = _DATE.sub(translate, text)
  return _REIGN.sub(translate, text), notes


def _translate_date(match: re.Match[str], name: str) -> str:
  """Returns the date in Chinese; "" if a number cannot be read."""
  if "year" not in match.re.groupindex:
    return f"{name}年間"
  year = read_count(match["year"].lower())
  if not 0 < year < 100:
    return ""
  date = name + calendars.format_year(year)
  if match["season"]:
    return date + _SEASONS[match["season"].lower()]
  if not match["month"]:
    return date
  month = read_count(match["month"].lower())
  if not 1 <= month <= MONTHS_PER_YEAR:
    return ""
  leap = "閏" if match["leap"] else ""
  return date + leap + calendars.format_month(month)


class QuestionReader:
  """Reader of the questions to one index."""

  def __init__(
    self,
    calendar: Calendar,
    printed_reigns: frozenset[int] = frozenset(),
    works: Sequence[str] = (),
    count_records: Callable[[], Int[np.ndarray, " K"]] | None = None,
  ):
    """Indexes the months of the calendar.

    Args:
      printed_reigns: rows of the reigns that the works name; these meanings of
        a date come first.
      works: names of the works.
      count_records: returns the number of records of each month; meanings with
        records come first.
    """
    self._count_records = count_records
    self._months = CalendarMonths(calendar)
    self._printed_reigns = printed_reigns
    self._works = works
    self._states = frozenset(
      fold_script(reign.state) for reign in calendar.timeline.reigns
    )

  def read(self, text: str, intent: str | None = None) -> Question:
    """Returns the reading of a question.

    Args:
      text: question in either script or in English. Words in 「」 or "" are
        matched exactly; a title in 《》 selects a work.
      intent: `TIME` reads no words, `WORDS` reads a passage as words, `PASSAGE`
        reads anything as a passage; None decides by the text.

    Raises:
      QuestionError: if the text or the intent cannot be read.
    """
    if intent is not None and intent not in INTENTS:
      raise QuestionError(
        f"intent {intent!r}: expected one of {', '.join(INTENTS)}"
      )
    _check_text(text)
    stripped = " ".join(normalize(text).text.split())
    if intent == PASSAGE:
      return Question(text, PASSAGE, passage=text.strip())
    if intent is None and self._is_passage(stripped):
      note = Note("note.question.passage")
      return Question(text, PASSAGE, passage=text.strip(), notes=(note,))
    if len(stripped) > MAX_QUESTION:
      raise QuestionError(
        Note(
          "problem.question.long_time", number=len(stripped), limit=MAX_QUESTION
        )
      )
    return self._read_question(text, stripped, intent)

  def _is_passage(self, text: str) -> bool:
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
    try:
      search = mentions.find_mentions(text, self._months)
      questions.resolve_mentions(text, search, self._months)
    except DateError as error:
      return "ambiguous" in str(error.problem)
    return True

  def _read_question(
    self, text: str, stripped: str, intent: str | None
  ) -> Question:
    notes: list[Note] = []
    rest, phrases = question_words.take_quotations(stripped)
    rest, works = self._take_titles(rest, notes)
    if not _HAN.search(rest):
      rest, translations = translate_dates(rest, self._months.timeline)
      notes += translations
    dates = question_dates.read_dates(rest, self._months, self._printed_reigns)
    if intent == WORDS and dates.is_season_alone:
      # 「夏，公伐齊」 is a sentence of annals, and any summer is no time.
      dates = dataclasses.replace(dates, intervals=(), notes=())
    words = phrases
    days = [rest[day.start : day.end] for day in dates.days]
    if intent != TIME:
      states = self._states if dates.intervals else frozenset()
      found = question_words.find_words(dates.rest, states)
      words += tuple(dict.fromkeys((*days, *found)))
    if intent == TIME and not dates.intervals:
      raise QuestionError(
        Note(
          "problem.question.no_date",
          text=_shorten(stripped),
          forms=_EXAMPLES,
          years=format_years(self._months.years),
        )
      )
    if not (words or dates.intervals or works) and not (
      question_words.is_question(rest)
    ):
      words = question_words.split_words(rest)
    if not (words or dates.intervals or works):
      raise QuestionError(
        Note(
          "problem.question.nothing", text=_shorten(stripped), forms=_EXAMPLES
        )
      )
    notes += dates.notes
    readings = self._sort_readings(dates.readings)
    if len(readings) > MAX_READINGS:
      notes.append(
        Note(
          "note.question.some_meanings",
          shown=MAX_READINGS,
          number=len(readings),
        )
      )
    elif readings:
      notes.append(Note("note.question.meanings", number=len(readings)))
    if not dates.intervals:
      names = build_grammar(self._months.timeline).reigns
      notes += [
        Note("note.question.reign", word=word, asked=f"{word}年間")
        for word in words
        if len(word) > 1 and fold_script(word) in names
      ]
    has_words = not set(words).issubset(days)
    return Question(
      text=text,
      intent=WORDS if has_words or not dates.intervals else TIME,
      intervals=dates.intervals,
      words=words,
      readings=readings[:MAX_READINGS],
      day=dates.days[0].index if dates.days else None,
      works=works,
      notes=tuple(dict.fromkeys(notes)),
      late_spans=dates.late_spans,
    )

  def _sort_readings(
    self, readings: Sequence[DateMeaning]
  ) -> tuple[DateMeaning, ...]:
    """Returns the meanings of a date, those with records first."""
    if len(readings) < 2:
      return ()
    if self._count_records is None:
      return tuple(readings)
    before = np.concatenate([[0], np.cumsum(self._count_records())])

    def sort_key(reading: DateMeaning) -> tuple[bool, int]:
      first, last, _ = reading.span
      return bool(before[last + 1] == before[first]), first

    return tuple(sorted(readings, key=sort_key))

  def _take_titles(
    self, text: str, notes: list[Note]
  ) -> tuple[str, tuple[str, ...]]:
    """Returns a text without titles, and the works that they name."""
    works: list[str] = []
    for match in windows.BOOK_TITLE.finditer(text):
      title = match[0][1:-1]
      folded = fold_script(title)
      names = {folded, re.split("[·・]", folded)[0]}
      named = [
        work
        for work in self._works
        if fold_script(normalize(work).text) in names
      ]
      works += named
      if not named:
        notes.append(Note("note.question.title", title=title))
    text = windows.BOOK_TITLE.sub(lambda m: " " * len(m[0]), text)
    return text, tuple(dict.fromkeys(works))


def _check_text(text: str) -> None:
  if not normalize(text).text.strip():
    raise QuestionError(Note("problem.question.empty", forms=_EXAMPLES))
  if len(text) > MAX_PASSAGE:
    raise QuestionError(
      Note(
        "problem.question.long",
        number=len(text),
        limit=MAX_QUESTION,
        limit_of_passage=MAX_PASSAGE,
      )
    )
  control = _CONTROL.search(text)
  if control:
    raise QuestionError(
      Note(
        "problem.question.control",
        position=control.start(),
        code=f"U+{ord(control[0]):04X}",
      )
    )


def _shorten(text: str) -> str:
  return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]}…"
