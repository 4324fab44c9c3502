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
from ctd_jax.tasks.evidence_qa.packs import CONFUSABLE, Pack

_MARK = re.compile(r"[\[［【]([\d,，、\s]+)[\]］】]")
_END = re.compile(r"[。！？；]+(?![\[［【])")  # of a statement, with its mark
MEASURES = (
  "citation_precision",
  "citation_recall",
  "supported",
  "coverage",
  "judged_coverage",
)


class NoVerdictError(ValueError):
  """A judge's reply that is not what was asked for."""


def cited(reply: str, items: int) -> tuple[list[int], int]:
  """Returns the numbers that a reply cites, and how many marks name nothing.

  Args:
    reply: of a model.
    items: of the pack; a number beyond it names nothing.
  """
  numbers = [
    int(number)
    for marks in _MARK.findall(reply)
    for number in re.findall(r"\d+", marks)
  ]
  real = [number for number in numbers if 1 <= number <= items]
  return list(dict.fromkeys(real)), len(numbers) - len(real)


def score(
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
  numbers, unknown = cited(reply, len(pack.items))
  right = set(pack.answers).intersection(numbers)
  values = {
    "citation_precision": len(right) / max(1, len(numbers) + unknown),
    "citation_recall": len(right) / max(1, len(pack.answers)),
    "supported": _supported(pack, reply),
    "coverage": _coverage(pack, reply),
  }
  if verdict is not None:
    values["judged_coverage"] = sum(verdict.values()) / max(1, len(verdict))
  return values


def wrong(pack: Pack, reply: str) -> dict[str, int]:
  """Returns kind of confusable record -> how many of it a reply cites."""
  numbers, _ = cited(reply, len(pack.items))
  roles = [pack.items[number - 1].role for number in numbers]
  return {role: roles.count(role) for role in CONFUSABLE}


def read_verdict(reply: str, pack: Pack) -> dict[int, bool]:
  """Returns number of an answering record -> whether it is told.

  Raises:
    NoVerdictError: if the reply holds no such JSON.
  """
  begin, end = reply.find("{"), reply.rfind("}")
  try:
    found = json.loads(reply[begin : end + 1])
    verdict = {number: found[str(number)] for number in pack.answers}
  except (KeyError, TypeError, ValueError) as error:
    raise NoVerdictError(f"no verdict in {reply!r}: {error}") from None
  for number, value in verdict.items():
    if value not in (0, 1):
      raise NoVerdictError(f"verdict on [{number}] is {value!r}, not 0 or 1")
  return {number: bool(value) for number, value in verdict.items()}


def _supported(pack: Pack, reply: str) -> float:
  """Returns the share of statements that cite a record that answers."""
  right = set(pack.answers)
  good = []
  for line in reply.splitlines():
    marks: list[int] = []
    # A mark belongs to what stands before it in its line.
    for part in reversed(_END.split(line)):
      marks = cited(part, len(pack.items))[0] if _MARK.search(part) else marks
      if _wording(_MARK.sub("", part)):
        good.append(not right.isdisjoint(marks))
  return sum(good) / max(1, len(good))


def _coverage(pack: Pack, reply: str) -> float:
  told = set(bm25.tokens(reply))
  shares = []
  for number in pack.answers:
    wanted = _wording(pack.items[number - 1].text)
    shares.append(len(wanted & told) / max(1, len(wanted)))
  return sum(shares) / max(1, len(shares))


def _wording(text: str) -> set[str]:
  """Returns the pairs of neighbouring characters, or the only character."""
  found = bm25.tokens(text)
  return {token for token in found if len(token) == min(2, len(found))}


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


def means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
  """Returns the mean of every measure over the answers that have it."""
  found = {}
  for name in MEASURES:
    values = [each[name] for each in scores if name in each]
    if values:
      found[name] = sum(values) / len(values)
  return found
