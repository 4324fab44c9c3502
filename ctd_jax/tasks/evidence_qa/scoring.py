"""Scores of an answer from a pack: its content and its citations.

An answer may read well and rest on the wrong month. Citations are read from the
marks `[3]`; they say on which records an answer rests. Whether it covers the
content of these records is measured by their wording, or judged by a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from ctd_jax.retrieval import bm25
from ctd_jax.tasks.evidence_qa.packs import CONFUSABLE_ROLES, Pack

# Half and full width, also several numbers in one mark.
_CITATION_PATTERN = re.compile(r"[\[［【]([\d,，、\s]+)[\]］】]")
# A mark may follow the full stop: 「宋人來盟。[2]」.
_STATEMENT_END_PATTERN = re.compile(r"[。！？；]+(?![\[［【])")
MEASURES = (
  "citation_precision",
  "citation_recall",
  "supported",
  "coverage",
  "judged_coverage",
)


class NoVerdictError(ValueError):
  """Reply of a judge without a readable verdict."""


def parse_citations(reply: str, num_items: int) -> tuple[list[int], int]:
  """Returns the cited numbers, each once, and the count of invalid ones.

  Args:
    reply: reply of a model.
    num_items: size of the pack; a number beyond it is invalid.
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
  """Returns the measures of an answer, each from 0 to 1.

  - `citation_precision`: share of the cited records that answer, 0 if none is
    cited; an invalid number counts as a wrong record.
  - `citation_recall`: share of the answering records that are cited.
  - `supported`: share of the statements that cite an answering record; a mark
    belongs to all statements before it in its line.
  - `coverage`: mean share of the character bigrams of an answering record that
    occur in the reply.
  - `judged_coverage`: share of the answering records that the judge finds
    covered; absent without a verdict.

  Args:
    pack: question and evidence.
    reply: reply of a model.
    verdict: number of an answering record -> whether the reply covers it.
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
  """Returns role of a confusable record -> number of cited ones."""
  numbers, _ = parse_citations(reply, len(pack.items))
  roles = [pack.items[number - 1].role for number in numbers]
  return {role: roles.count(role) for role in CONFUSABLE_ROLES}


def parse_verdict(reply: str, pack: Pack) -> dict[int, bool]:
  """Returns number of an answering record -> whether the answer covers it.

  Raises:
    NoVerdictError: if the reply has no JSON with 0 or 1 for each number.
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
  """Returns the share of statements that cite an answering record."""
  answer_numbers = set(pack.answers)
  is_supported = []
  for line in reply.splitlines():
    marks: list[int] = []
    # Backwards: a mark belongs to the statements before it in its line.
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
  """Returns the mean share of a record's bigrams that the reply has."""
  # Characters and bigrams, so that records of one character count, too.
  reply_tokens = set(bm25.tokenize_bigrams(reply))
  shares = []
  for number in pack.answers:
    record_bigrams = _extract_bigrams(pack.items[number - 1].text)
    shares.append(
      len(record_bigrams & reply_tokens) / max(1, len(record_bigrams))
    )
  return sum(shares) / max(1, len(shares))


def _extract_bigrams(text: str) -> set[str]:
  """Returns the bigrams of a text, or its only character."""
  tokens = bm25.tokenize_bigrams(text)
  return {token for token in tokens if len(token) == min(2, len(tokens))}


def quote_all(pack: Pack) -> str:
  """Returns the answer that quotes and cites all records, a lower bound."""
  return "\n".join(
    f"{item.text}[{number}]" for number, item in enumerate(pack.items, start=1)
  )


def quote_answers(pack: Pack) -> str:
  """Returns the answer that quotes the answering records, an upper bound."""
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
