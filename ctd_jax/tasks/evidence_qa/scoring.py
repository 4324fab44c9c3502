"""What an answer from a pack is worth: what it tells and what it cites.

Why: an answer may read well and stand on the wrong month. Citations are read
from the marks `[3]`; they say which records an answer rests on. Whether it
tells what they say is measured by their wording, or judged by a model. Called
by `python -m ctd_jax.tasks.evidence_qa`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from ctd_jax.retrieval import bm25
from ctd_jax.tasks.evidence_qa.packs import CONFUSABLE_ROLES, Pack

_CITATION_PATTERN = re.compile(r"[\[［【]([\d,，、\s]+)[\]］】]")
_STATEMENT_END_PATTERN = re.compile(
  r"[。！？；]+(?![\[［【])"
)  # of a statement, with its mark
MEASURES = (
  "citation_precision",
  "citation_recall",
  "supported",
  "coverage",
  "judged_coverage",
)


class NoVerdictError(ValueError):
  """A judge's reply that is not what was asked for."""


def parse_citations(reply: str, num_items: int) -> tuple[list[int], int]:
  """Returns the numbers that a reply cites, and how many marks name nothing.

  Args:
    reply: of a model.
    num_items: of the pack; a number beyond it names nothing.
  """
  numbers = [
    int(number)
    for marks in _CITATION_PATTERN.findall(reply)
    for number in re.findall(r"\d+", marks)
  ]
  valid_numbers = [number for number in numbers if 1 <= number <= num_items]
  return list(dict.fromkeys(valid_numbers)), len(numbers) - len(valid_numbers)


def score_answer(
  pack: Pack, reply: str, verdict: Mapping[int, bool] | None = None
) -> dict[str, float]:
  """Returns what an answer is worth, each from 0 to 1.

  `citation_precision`: share of the cited records that answer (0 if none is
  cited); a mark that names nothing counts as a wrong one. `citation_recall`:
  share of the answering records that are cited. `supported`: share of the
  statements that cite a record that answers, where a mark is for all that
  stands before it in its line. `coverage`: mean share of an answering record's
  pairs of neighbouring characters that the reply has.
  `judged_coverage`: share of the answering records that a judge finds told;
  absent without a verdict.

  Args:
    pack: question and evidence.
    reply: of a model.
    verdict: number of an answering record -> whether it is told.
  """
  numbers, num_invalid = parse_citations(reply, len(pack.items))
  cited_answers = set(pack.answers).intersection(numbers)
  values = {
    "citation_precision": len(cited_answers)
    / max(1, len(numbers) + num_invalid),
    "citation_recall": len(cited_answers) / max(1, len(pack.answers)),
    "supported": _supported_share(pack, reply),
    "coverage": _mean_coverage(pack, reply),
  }
  if verdict is not None:
    values["judged_coverage"] = sum(verdict.values()) / max(1, len(verdict))
  return values


def count_wrong_citations(pack: Pack, reply: str) -> dict[str, int]:
  """Returns kind of confusable record -> how many of it a reply cites."""
  numbers, _ = parse_citations(reply, len(pack.items))
  roles = [pack.items[number - 1].role for number in numbers]
  return {role: roles.count(role) for role in CONFUSABLE_ROLES}


def parse_verdict(reply: str, pack: Pack) -> dict[int, bool]:
  """Returns number of an answering record -> whether it is told.

  Raises:
    NoVerdictError: if the reply holds no such JSON.
  """
  start, end = reply.find("{"), reply.rfind("}")
  try:
    data = json.loads(reply[start : end + 1])
    verdict = {number: data[str(number)] for number in pack.answers}
  except (KeyError, TypeError, ValueError) as error:
    raise NoVerdictError(f"no verdict in {reply!r}: {error}") from None
  for number, value in verdict.items():
    if value not in (0, 1):
      raise NoVerdictError(f"verdict on [{number}] is {value!r}, not 0 or 1")
  return {number: bool(value) for number, value in verdict.items()}


def _supported_share(pack: Pack, reply: str) -> float:
  """Returns the share of statements that cite a record that answers."""
  answer_numbers = set(pack.answers)
  is_supported = []
  for line in reply.splitlines():
    marks: list[int] = []
    # A mark belongs to what stands before it in its line.
    for statement in reversed(_STATEMENT_END_PATTERN.split(line)):
      marks = (
        parse_citations(statement, len(pack.items))[0]
        if _CITATION_PATTERN.search(statement)
        else marks
      )
      if _extract_bigrams(_CITATION_PATTERN.sub("", statement)):
        is_supported.append(not answer_numbers.isdisjoint(marks))
  return sum(is_supported) / max(1, len(is_supported))


def _mean_coverage(pack: Pack, reply: str) -> float:
  reply_tokens = set(bm25.tokenize_bigrams(reply))
  shares = []
  for number in pack.answers:
    record_bigrams = _extract_bigrams(pack.items[number - 1].text)
    shares.append(
      len(record_bigrams & reply_tokens) / max(1, len(record_bigrams))
    )
  return sum(shares) / max(1, len(shares))


def _extract_bigrams(text: str) -> set[str]:
  """Returns the pairs of neighbouring characters, or the only character."""
  tokens = bm25.tokenize_bigrams(text)
  return {token for token in tokens if len(token) == min(2, len(tokens))}


def quote_all(pack: Pack) -> str:
  """Returns the answer that tells all and cites all: what needs no model."""
  return "\n".join(
    f"{item.text}[{number}]" for number, item in enumerate(pack.items, start=1)
  )


def quote_answers(pack: Pack) -> str:
  """Returns the answer that tells just what answers: the best there can be."""
  return "\n".join(
    f"{pack.items[number - 1].text}[{number}]" for number in pack.answers
  )


def average_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
  """Returns the mean of every measure over the answers that have it."""
  mean_scores = {}
  for name in MEASURES:
    values = [measures[name] for measures in scores if name in measures]
    if values:
      mean_scores[name] = sum(values) / len(values)
  return mean_scores
