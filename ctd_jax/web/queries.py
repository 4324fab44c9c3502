"""What a page shows, as parameters of its address.

`PageQuery` is the address; `resolve_query` reads it with an index. A time is
given as any question of a time, or as `@12`, the ordinal of a month, which is
what links made by a program use.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from ctd_jax.index import asking, calendars
from ctd_jax.index.answers import record_answers
from ctd_jax.index.questions.question_types import (
  INTENTS,
  TIME,
  WORDS,
  MonthSpan,
  Question,
)
from ctd_jax.web.errors import PageError
from ctd_jax.web.messages import LANGUAGES
from ctd_jax.web.served_index import ServedIndex

PAGE_SIZE = 20
MAX_PAGE = 500
_ORDINAL = re.compile(r"@(\d{1,7})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_FIELD = 200  # characters of all but the question
_MAX_VALUES = 200  # of a parameter that may be given often


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageQuery:
  """The parameters of a page.

  Attributes:
    text: of the question.
    intent: what it is taken for; "" for what it looks like.
    works: names of the works to look in; all if none.
    kinds: of the records; all but headings if none.
    first: time from which on, in place of what the question says.
    last: time up to which.
    words: to look for, with blanks between, in place of the question's; None
      for those.
    confidence: probability that a record has at least.
    page: of the results, from 1.
    language: of the interface; "" for what the browser asks for.
    index: sha256 of the index that a permalink was made with, or its head.
  """

  text: str = ""
  intent: str = ""
  works: tuple[str, ...] = ()
  kinds: tuple[str, ...] = ()
  first: str = ""
  last: str = ""
  words: str | None = None
  confidence: float = asking.MIN_PROBABILITY
  page: int = 1
  language: str = ""
  index: str = ""

  @property
  def is_empty(self) -> bool:
    """Whether nothing is asked."""
    return not (self.text.strip() or self.first or self.last or self.words)

  def replace(self, **changes: Any) -> PageQuery:
    """Returns the query with changes, at its first page."""
    return dataclasses.replace(self, **({"page": 1} | changes))

  def encode(self) -> str:
    """Returns the part of an address behind the question mark."""
    values: list[tuple[str, str]] = [
      (name, value)
      for name, value in (
        ("q", self.text),
        ("intent", self.intent),
        ("from", self.first),
        ("to", self.last),
        ("lang", self.language),
        ("index", self.index),
      )
      if value
    ]
    if self.words is not None:
      values.append(("words", self.words))
    values += [("work", name) for name in self.works]
    values += [("kind", name) for name in self.kinds]
    if self.confidence != asking.MIN_PROBABILITY:
      values.append(("p", f"{self.confidence:g}"))
    if self.page > 1:
      values.append(("page", str(self.page)))
    return urlencode(values)


@dataclasses.dataclass(frozen=True)
class ResolvedQuery:
  """A query as an index reads it.

  Attributes:
    query: the parameters.
    question: what is asked, with what the parameters say otherwise.
  """

  query: PageQuery
  question: Question


def parse_query(
  parameters: QueryParams | Mapping[str, str], max_question: int
) -> PageQuery:
  """Returns the parameters of a page.

  Args:
    parameters: of the address, or fields of a form.
    max_question: characters that a question may have.

  Raises:
    PageError: 422, naming the parameter.
  """
  for name, value in parameters.items():
    check_encoding(name + str(value))
  text = parameters.get("q", "")
  if len(text) > max_question:
    raise PageError(
      422, "error.question", {"length": len(text), "limit": max_question}
    )
  words = parameters.get("words")
  return PageQuery(
    text=text,
    intent=_parse_choice(parameters, "intent", INTENTS),
    works=_parse_list(parameters, "work"),
    kinds=_parse_list(parameters, "kind"),
    first=_parse_field(parameters, "from"),
    last=_parse_field(parameters, "to"),
    words=None if words is None else _parse_field(parameters, "words"),
    confidence=_parse_probability(parameters),
    page=_parse_page(parameters),
    language=_parse_choice(parameters, "lang", LANGUAGES),
    index=_parse_hash(parameters),
  )


def _parse_field(parameters: Mapping[str, str], name: str) -> str:
  value = parameters.get(name, "").strip()
  check_length(name, value, _MAX_FIELD)
  return value


def check_encoding(text: str) -> None:
  """Raises PageError, 422, for what is no Unicode text."""
  if _SURROGATE.search(text):
    raise PageError(422, "error.encoding", {})


def check_length(name: str, value: str, limit: int) -> None:
  """Raises PageError, 422, for a value that is too long.

  Args:
    name: of the parameter.
    value: that it has.
    limit: characters that are read.
  """
  if len(value) > limit:
    raise PageError(
      422,
      "error.field",
      {"name": name, "length": len(value), "limit": limit},
    )


def _parse_choice(
  parameters: Mapping[str, str], name: str, choices: tuple[str, ...]
) -> str:
  value = _parse_field(parameters, name)
  if value and value not in choices:
    refuse(name, value, ", ".join(choices))
  return value


def _parse_list(
  parameters: QueryParams | Mapping[str, str], name: str
) -> tuple[str, ...]:
  if isinstance(parameters, QueryParams):
    values = parameters.getlist(name)
  else:
    values = [parameters[name]] if name in parameters else []
  if len(values) > _MAX_VALUES:
    refuse(name, f"{len(values)} ×", f"≤ {_MAX_VALUES}")
  return tuple(dict.fromkeys(value for value in values if value))


def _parse_probability(parameters: Mapping[str, str]) -> float:
  value = _parse_field(parameters, "p")
  if not value:
    return asking.MIN_PROBABILITY
  try:
    probability = float(value)
  except ValueError:
    probability = -1.0
  if not 0 <= probability <= 1:
    refuse("p", value, "0 … 1")
  return probability


def _parse_page(parameters: Mapping[str, str]) -> int:
  value = _parse_field(parameters, "page") or "1"
  if not (value.isascii() and value.isdigit() and 1 <= int(value) <= MAX_PAGE):
    refuse("page", value, f"1 … {MAX_PAGE}")
  return int(value)


def _parse_hash(parameters: Mapping[str, str]) -> str:
  value = _parse_field(parameters, "index")
  if value and not re.fullmatch("[0-9a-f]{8,64}", value):
    refuse("index", value, "sha256")
  return value


def refuse(name: str, value: str, expected: str) -> NoReturn:
  """Raises PageError, 422, for a parameter that cannot be read.

  Args:
    name: of the parameter.
    value: that it has.
    expected: what would be right.
  """
  raise PageError(
    422,
    "error.parameter",
    {"name": name, "value": value[:40], "expected": expected},
  )


def check_names(
  served: ServedIndex, works: Sequence[str], kinds: Sequence[str]
) -> None:
  """Raises PageError, 422, for a work or kind that the index has not.

  Args:
    served: the index.
    works: names of works.
    kinds: of records.
  """
  known_works = [work.name for work in served.index.works]
  for parameter, names, known in (
    ("work", works, known_works),
    ("kind", kinds, served.index.kinds),
  ):
    for name in names:
      if name not in known:
        nearest = difflib.get_close_matches(name[:100], known, 3, 0.3)
        refuse(parameter, name, ", ".join(nearest or known[:8]))


def resolve_query(served: ServedIndex, query: PageQuery) -> ResolvedQuery:
  """Returns a query as the index reads it.

  Args:
    served: the index.
    query: not empty.

  Raises:
    PageError: 422, if a time cannot be read.
    ValueError: if the question cannot be.
  """
  check_names(served, query.works, query.kinds)
  if query.text.strip():
    question = asking.read_question(
      served.index, query.text, query.intent or None
    )
  else:
    question = Question("", TIME)
  if query.words is not None:
    words = tuple(query.words.split())
    question = dataclasses.replace(
      question, words=words, intent=WORDS if words else TIME, day=None
    )
  if query.first or query.last:
    span = _resolve_span(served, query)
    # Notes on how the time was read would be about another one.
    question = dataclasses.replace(
      question, intervals=(span,), readings=(), notes=()
    )
  return ResolvedQuery(query, question)


def _resolve_span(served: ServedIndex, query: PageQuery) -> MonthSpan:
  end = len(served.index.calendar) - 1
  first, last = 0, end
  if query.first:
    first = resolve_time(served, "from", query.first).first
  if query.last:
    last = resolve_time(served, "to", query.last).last
  if first > last:
    first, last = last, first
  name = record_answers.make_span(
    served.index, first, last, served.index.printed_reigns
  ).name
  return MonthSpan(first, last, name)


def resolve_time(served: ServedIndex, name: str, text: str) -> MonthSpan:
  """Returns the months of a time that a parameter gives.

  Args:
    served: the index.
    name: of the parameter.
    text: as `@12`, or as a question of a time.

  Raises:
    PageError: 422, if it is no time or may mean several.
  """
  ordinal = _ORDINAL.fullmatch(text)
  if ordinal:
    month = int(ordinal[1])
    if month >= len(served.index.calendar):
      refuse(name, text, f"@0 … @{len(served.index.calendar) - 1}")
    return MonthSpan(month, month, text)
  question = asking.read_question(served.index, text, TIME)
  if question.readings:
    refuse(
      name, text, "、".join(reading.name for reading in question.readings[:6])
    )
  spans = question.intervals
  return MonthSpan(
    min(span.first for span in spans), max(span.last for span in spans), text
  )


def format_month(served: ServedIndex, ordinal: int) -> str:
  """Returns a month as a field has it: by name, or by number if that is vague.

  Args:
    served: the index.
    ordinal: of the month.
  """
  name = calendars.name_month(
    served.index.calendar, ordinal, served.index.printed_reigns
  )
  try:
    span = resolve_time(served, "from", name)
  except (PageError, ValueError):
    return f"@{ordinal}"
  return name if span[:2] == (ordinal, ordinal) else f"@{ordinal}"
