"""Notes of questions and of reasons in the language of a page.

An index says them in English. The catalogue has these sentences with the values
in braces, what is more special before what is less; one that it has not is left
as it is.
"""

from __future__ import annotations

import functools
import re
import string

from ctd_jax.web import messages

_PREFIX = "note."
_NUMBER = r"[\d,]+"
_STATEMENT = "statement"  # value that is itself translated
# Likewise: months that may say how far the record stands.
_PLACES = frozenset(("month", "before", "after"))


def translate_note(language: str, note: str) -> str:
  """Returns a note in a language.

  Args:
    language: one of `messages.LANGUAGES`.
    note: of a question, an answer or a reason.
  """
  if language == messages.ENGLISH:
    return note
  for name, pattern in _list_patterns():
    match = pattern.fullmatch(note)
    if match:
      values = match.groupdict()
      for name_of_value in _PLACES.intersection(values):
        values[name_of_value] = translate_note(language, values[name_of_value])
      if _STATEMENT in values:
        values[_STATEMENT] = messages.translate_term(
          language, _STATEMENT, values[_STATEMENT]
        )
      return messages.translate(language, name, **values)
  return note


@functools.cache
def _list_patterns() -> list[tuple[str, re.Pattern[str]]]:
  """Returns (message, what its English text looks like)."""
  return [
    (name, _make_pattern(texts[messages.ENGLISH]))
    for name, texts in messages.load_messages().items()
    if name.startswith(_PREFIX)
  ]


def _make_pattern(text: str) -> re.Pattern[str]:
  parts = []
  for literal, name, _, _ in string.Formatter().parse(text):
    parts.append(re.escape(literal))
    if name:
      value = _NUMBER if name == "number" else ".+?"
      parts.append(f"(?P<{name}>{value})")
  return re.compile("".join(parts), re.DOTALL)
