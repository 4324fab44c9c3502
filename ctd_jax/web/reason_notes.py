"""Sentences of an index in the language of a page.

An index says its notes, reasons, warnings and errors in English. The catalogues
have these sentences with the values in braces, what is more special before what
is less. One that they have not is left as it is, and marked as English.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import string

import markupsafe

from ctd_jax.index.answers import answer_phrases
from ctd_jax.web import messages

_PREFIXES = ("note.", "problem.")
_NUMBER = r"[\d,]+"
_NUMBERS = frozenset(("number", "last"))
_STATEMENT = "statement"  # value that is itself a term
_TEXTS = "texts"  # value of several texts, each with its date in brackets
_DATE_OF_TEXT = re.compile(r"」 \(([^()「」]*)\)(?:, (?=「))?")
_PROBLEM = "problem"  # value that has to be a sentence of the catalogues
# Values that may be such sentences, and those that may be several.
_LISTS = frozenset(("hint", "reasons"))
_SENTENCES = _LISTS | frozenset(
  (
    *("month", "before", "after", "message", "name"),
    *("count", "forms", "owner", "remedy", _PROBLEM),
  )
)
# As `repr` quotes a value.
_QUOTED = re.compile(r"""(['"])(.*)\1""", re.DOTALL)
_YEARS = re.compile(r"(?<=CE) to (?=\d)")
_MAX_LENGTH = 1_200  # characters; longer ones quote what was sent
_MAX_NESTING = 3


def translate_note(language: str, note: str) -> str:
  """Returns a sentence in a language.

  Args:
    language: one of `messages.LANGUAGES`.
    note: of a question, an answer or a reason; a warning or an error.
  """
  if language == messages.ENGLISH or len(note) > _MAX_LENGTH:
    return note
  return _find_translation(language, note, 0) or note


def write_note(language: str, note: str) -> markupsafe.Markup:
  """Returns a sentence as HTML, marked as English where it stays so.

  Args:
    language: one of `messages.LANGUAGES`.
    note: as of `translate_note`.
  """
  text = translate_note(language, note)
  cleaned = markupsafe.escape(answer_phrases.clean(text))
  if language == messages.ENGLISH or text != note:
    return cleaned
  return markupsafe.Markup('<span lang="{}">{}</span>').format(
    messages.ENGLISH, cleaned
  )


def _find_translation(language: str, note: str, nesting: int) -> str | None:
  """Returns a sentence in a language; None if no catalogue has it."""
  for pattern in _list_patterns():
    match = pattern.match(note)
    if match is None:
      continue
    values = {
      name: _translate_value(language, name, value, nesting)
      for name, value in match.groupdict().items()
    }
    if None not in values.values():
      return messages.translate(language, pattern.message, **values)
  return None


def _translate_value(
  language: str, name: str, value: str, nesting: int
) -> str | None:
  """Returns a value of a sentence; None if it is not what it has to be."""
  if name == _STATEMENT:
    return messages.translate_term(language, name, value)
  if name == _TEXTS:
    return _DATE_OF_TEXT.sub(
      lambda it: (
        f"」（{_find_translation(language, it[1], nesting) or it[1]}）"
      ),
      value,
    )
  if name in _SENTENCES and nesting < _MAX_NESTING:
    parts = value.split("; ") if name in _LISTS else [value]
    sentences = [_find_translation(language, it, nesting + 1) for it in parts]
    if None not in sentences:
      return "；".join(sentences)
  if name == _PROBLEM:
    return None
  return _YEARS.sub(" – ", _QUOTED.sub(r"「\2」", value))


@dataclasses.dataclass(frozen=True)
class _Pattern:
  """What the English text of a message looks like.

  Attributes:
    message: its name.
    literals: what stands before, between and after its values.
    pattern: of the whole.
  """

  message: str
  literals: tuple[str, ...]
  pattern: re.Pattern[str]

  def match(self, text: str) -> re.Match[str] | None:
    """Returns the match of a whole text.

    A text is matched only if it has all that stands between values, in order:
    of others, which somebody may have sent, the pattern would try every way to
    divide them.
    """
    first, last = self.literals[0], self.literals[-1]
    if not (text.startswith(first) and text.endswith(last)):
      return None
    end = 0
    for literal in self.literals:
      start = text.find(literal, end)
      if start < 0:
        return None
      end = start + len(literal)
    return self.pattern.fullmatch(text)


@functools.cache
def _list_patterns() -> list[_Pattern]:
  """Returns what the sentences of the catalogues look like."""
  return [
    _make_pattern(name, texts[messages.ENGLISH])
    for name, texts in messages.load_messages().items()
    if name.startswith(_PREFIXES)
  ]


def _make_pattern(message: str, text: str) -> _Pattern:
  literals, parts = [""], []
  for literal, name, _, _ in string.Formatter().parse(text):
    parts.append(re.escape(literal))
    literals[-1] += literal
    if name:
      value = _NUMBER if name in _NUMBERS else ".+?"
      parts.append(f"(?P<{name}>{value})")
      literals.append("")
  pattern = re.compile("".join(parts), re.DOTALL)
  return _Pattern(message, (*literals,), pattern)
