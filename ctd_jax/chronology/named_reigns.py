"""Reigns as a text prints them: by a name that others share, and a state.

「貞觀」 was an era of 唐 and of 日本, 「太宗」 a ruler of 朝鮮 and of others.
What is printed before the name, 「日本貞觀」, tells them apart.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from ctd_jax.chronology import date_grammar
from ctd_jax.chronology.date_grammar import DateCue
from ctd_jax.chronology.numerals import fold_script
from ctd_jax.chronology.timelines import Timeline


def name_printed_reigns(
  cues: Iterable[DateCue], text: str, timeline: Timeline
) -> list[DateCue]:
  """Returns date cues, their reigns named as `find_named_reigns` reads them.

  The state or ruler that is printed before a reign stays where it tells reigns
  of one name apart. A name that is an alias of several reigns stays as printed.

  Args:
    cues: of the text.
    text: that they were found in.
    timeline: whose reigns they name.
  """
  folded = fold_script(text)
  return [
    dataclasses.replace(cue, reign=_name_reign(cue, folded, timeline))
    if cue.reign
    else cue
    for cue in cues
  ]


def _name_reign(cue: DateCue, folded: str, timeline: Timeline) -> str:
  """Returns the name of the reign of a cue, after its state if that matters."""
  match = date_grammar.build_grammar(timeline).pattern.match(folded, cue.start)
  groups = match.groupdict() if match else {}
  printed_name = groups.get("reign") or groups.get("initial")
  if not printed_name:
    return cue.reign
  state = groups["state"] or ""
  all_rows = _find_rows(printed_name, "", timeline)
  rows = _find_rows(printed_name, state, timeline) or all_rows
  names = {timeline.reigns[row].name for row in rows}
  name = names.pop() if len(names) == 1 else printed_name
  # 「貞觀」 of 日本 is written 貞観 in its table.
  if len(rows) == len(all_rows) and len(
    find_named_reigns(name, timeline)
  ) == len(rows):
    return name
  return state + printed_name


@functools.lru_cache(maxsize=4096)
def find_named_reigns(name: str, timeline: Timeline) -> tuple[int, ...]:
  """Returns the rows of the reigns that a name means, none if it is of none.

  Args:
    name: of a reign, an alias of it, or one of these after the state and ruler
      in any of their names; either script.
    timeline: of the reigns.
  """
  folded = fold_script(name)
  for start in range(len(folded)):
    rows = _find_rows(folded[start:], folded[:start], timeline)
    if rows:
      return rows
  return ()


def _find_rows(name: str, state: str, timeline: Timeline) -> tuple[int, ...]:
  """Returns the rows of reigns of a folded name before which a state stands."""
  grammar = date_grammar.build_grammar(timeline)
  return tuple(
    number - 1
    for number in grammar.reigns.get(name, ())
    if grammar.ruler_patterns[number - 1].fullmatch(state)
  )
