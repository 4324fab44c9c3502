"""Search for words: phrases first, then looser and looser.

A question 「日食」 should find 「日有食之」, which does not print the phrase.
So records are looked for in steps: with the phrases as they are; with the
characters of each near each other; with all of the characters; with any two
neighbours of them. A step is taken if the ones before found too few. Within a
step BM25 decides, as a share of the best of the step, so that scores of
different questions mean alike: 1 for the best record that has the phrases, 0
for one that has nothing.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence

from ctd_jax.index.storage import database, full_text

# Score of the best record of each step. Chosen on validation questions, see
# docs/guides/ask.md.
STEP_WEIGHTS = (1.0, 0.7, 0.5, 0.3)
# Characters that may stand between the characters of a phrase: 日有食之.
_MAX_APART = 3
# Of each step. More have the word than anyone reads; with a time those of the
# time are looked for besides.
MAX_MATCHES = 500
_TOKEN = re.compile(r"\w+")
_MAX_PAIRS = 64  # of neighbours; a long question repeats itself


def search_words(
  connection: sqlite3.Connection,
  words: Sequence[str],
  k: int,
  works: Sequence[database.IndexedWork] | None = None,
  months: tuple[int, int] | None = None,
) -> dict[int, float]:
  """Returns row -> score in 0..1 of the records that have the words.

  Args:
    words: phrases, in either script.
    k: how many records are wanted; looser steps are taken for fewer.
    months: first and last; of what is most probably of one of them.
  """
  scores: dict[int, float] = {}
  tokens = [_TOKEN.findall(full_text.split_tokens(word)) for word in words]
  tokens = [phrase for phrase in tokens if phrase]
  for weight, make_match in zip(STEP_WEIGHTS, _STEPS, strict=True):
    if len(scores) >= k:
      break
    match = make_match(tokens)
    if not match:
      continue
    matches = database.search_match(
      connection, match, MAX_MATCHES, works, months
    )
    best = max((found.score for found in matches), default=0.0)
    for found in matches:
      # A character that nearly all records have scores about 0.
      share = found.score / best if best > 0 else 1.0
      scores.setdefault(found.row, weight * max(share, 1e-3))
  return scores


def _match_phrases(tokens: Sequence[Sequence[str]]) -> str:
  return " AND ".join(dict.fromkeys(map(_quote, tokens)))


def _match_near(tokens: Sequence[Sequence[str]]) -> str:
  groups = []
  for phrase in tokens:
    if len(phrase) == 1:
      groups.append(_quote(phrase))
    else:
      parts = " ".join(_quote([token]) for token in phrase)
      distance = _MAX_APART + len(phrase) - 2
      groups.append(f"NEAR({parts}, {distance})")
  return " AND ".join(dict.fromkeys(groups))


def _match_all(tokens: Sequence[Sequence[str]]) -> str:
  parts = [_quote([token]) for phrase in tokens for token in phrase]
  return " AND ".join(dict.fromkeys(parts))


def _match_pairs(tokens: Sequence[Sequence[str]]) -> str:
  pairs = [
    _quote(phrase[start : start + 2])
    for phrase in tokens
    for start in range(max(len(phrase) - 1, 1))
  ]
  return " OR ".join(list(dict.fromkeys(pairs))[:_MAX_PAIRS])


def _quote(tokens: Sequence[str]) -> str:
  return '"' + " ".join(tokens) + '"'


_STEPS: tuple[Callable[[Sequence[Sequence[str]]], str], ...] = (
  _match_phrases,
  _match_near,
  _match_all,
  _match_pairs,
)


def find_highlights(words: Sequence[str], text: str) -> list[tuple[int, int]]:
  """Returns where words stand in a text; their characters where they do not."""
  spans = []
  for word in words:
    spans += (
      full_text.find_spans([word], text)
      or full_text.find_spans(
        [word[start : start + 2] for start in range(len(word) - 1)], text
      )
      or full_text.find_spans(list(word), text)
    )
  return merge_spans(spans)


def merge_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
  """Returns spans in order, those that touch as one."""
  merged: list[tuple[int, int]] = []
  for start, end in sorted(spans):
    if merged and start <= merged[-1][1]:
      merged[-1] = merged[-1][0], max(end, merged[-1][1])
    else:
      merged.append((start, end))
  return merged
