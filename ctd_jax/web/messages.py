"""Messages of the interface in its languages.

The tables in `locales` have a message a line: its name, and its text in each of
the languages, with the values in braces. `messages.tsv` has those of the pages,
`problems.tsv` warnings and errors of what they show.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
from collections.abc import Callable, Mapping
from typing import Any

ENGLISH, TRADITIONAL, SIMPLIFIED = LANGUAGES = ("en", "zh-Hant", "zh-Hans")
_TABLES = ("messages.tsv", "problems.tsv")
# Of those that read Chinese, who write it in simplified characters.
_SIMPLIFIED_TAGS = ("zh-hans", "zh-cn", "zh-sg", "zh-my")

Translate = Callable[..., str]


@functools.cache
def load_messages() -> Mapping[str, Mapping[str, str]]:
  """Returns name -> language -> text."""
  folder = importlib.resources.files("ctd_jax").joinpath("web/locales")
  table: dict[str, dict[str, str]] = {}
  for name in _TABLES:
    lines = folder.joinpath(name).read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
      table[row["message"]] = {
        language: row[language] for language in LANGUAGES
      }
  return table


def translate(language: str, name: str, /, **values: Any) -> str:
  """Returns a message.

  Args:
    language: one of `LANGUAGES`.
    name: of the message.
    **values: that stand in braces.

  Raises:
    KeyError: if there is no such message.
  """
  return load_messages()[name][language].format(**values)


def bind_language(language: str) -> Translate:
  """Returns `translate` for a language."""
  return functools.partial(translate, language)


def translate_term(language: str, group: str, term: str) -> str:
  """Returns the name of a value, such as a kind; itself where there is none.

  Args:
    language: one of `LANGUAGES`.
    group: of values, the first part of the message's name.
    term: the value.
  """
  message = load_messages().get(f"{group}.{term.replace(' ', '_')}")
  return message[language] if message else term


def choose_language(requested: str, accepted: str) -> str:
  """Returns the language of a page.

  Args:
    requested: one of `LANGUAGES`, or "".
    accepted: header Accept-Language of the browser.
  """
  if requested:
    return requested
  for tag, _ in sorted(map(_read_weight, accepted.split(",")), key=_by_weight):
    if tag.startswith("zh"):
      is_simplified = tag == "zh" or tag.startswith(_SIMPLIFIED_TAGS)
      return SIMPLIFIED if is_simplified else TRADITIONAL
    if tag.startswith("en"):
      return ENGLISH
  return ENGLISH


def _read_weight(part: str) -> tuple[str, float]:
  tag, _, weight = part.partition(";q=")
  try:
    return tag.strip().lower(), float(weight or 1)
  except ValueError:
    return tag.strip().lower(), 0.0


def _by_weight(item: tuple[str, float]) -> float:
  return -item[1]
