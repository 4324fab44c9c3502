"""Verdicts on answers, with the rule or model that gave them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

# Words of an answer that leaves several possibilities open.
HEDGE_PATTERN = re.compile(
  r"或者?|还是|要么|也可能|抑或|[/／]|不一定|难以|无法确定|不确定"
)
MAX_SHORT_LENGTH = 24  # characters of an answer that is nothing but an answer

# Sources of a verdict besides the names of the rules.
UNDECIDED = "undecided"  # no rule could read the answer; a model may decide
UNPARSED = "unparsed"  # no answer, or not in the JSON that was asked for
REFUSED = "refused"  # the answerer declined
MODEL = "model"  # majority of votes of the judging model


@dataclasses.dataclass(frozen=True)
class AnswerVerdict:
  """Verdict on one answer.

  Attributes:
    correct: whether the answer counts as correct.
    source: name of the rule, or one of the constants above.
    measures: name of a finer metric, e.g. kendall_tau -> value.
    why: reason, in a few words.
  """

  correct: bool
  source: str
  measures: Mapping[str, float] = dataclasses.field(default_factory=dict)
  why: str = ""


def make_undecided(why: str, **measures: float) -> AnswerVerdict:
  """Returns the verdict of a rule that cannot read an answer."""
  return AnswerVerdict(False, UNDECIDED, measures, why)
