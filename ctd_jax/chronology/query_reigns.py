"""Reigns that a question names without a year, 「僖公年間」, 「泰始時」.

Positions count the characters of the text as given.
"""

from __future__ import annotations

import re

from ctd_jax.chronology import date_grammar
from ctd_jax.chronology.timelines import Timeline

# What says that the time of a reign is meant, behind its name.
REIGN_SUFFIX = re.compile(
  "年間|[末初]年|中葉|[初末晚]期|之世|在位(?:期間|時期?|之時)?|時期|時代|之時|期間|一朝|[時代末初](?!年)"
  # 「中郎」 and 「朝鮮」 go on.
  "|中(?![郎書山原國央常宮丞興平元和統宗軍護尉])|朝(?![鮮廷臣])"
)
MAX_NAME = 12  # characters of a reign's name with state and ruler
_FIRST_YEAR = "元年"


def find_named_reigns(
  folded: str, end: int, timeline: Timeline
) -> tuple[int, list[int]]:
  """Returns where the name of a reign begins, and the numbers of its reigns.

  Args:
    folded: a question, folded to Traditional script.
    end: position after the name.
    timeline: the reigns.

  Returns:
    `end` and no number where there is no such name.
  """
  # What can be the reign of a first year is the name of a reign.
  head = max(end - MAX_NAME, 0)
  for match, cue in date_grammar.iterate_matches(
    folded[head:end] + _FIRST_YEAR, timeline
  ):
    # One character is the duke of a gloss, 「僖八年」, and no name.
    if (
      cue.reign
      and cue.end == end - head + len(_FIRST_YEAR)
      and cue.start <= end - head - 2
    ):
      numbers = date_grammar.candidate_reigns(match, cue, timeline)
      return head + cue.start, numbers
  return end, []
