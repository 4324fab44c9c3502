"""Names of the reigns of a timeline, as headings and records print them."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Iterator

from ctd_jax.chronology import numerals
from ctd_jax.chronology.name_patterns import build_names_pattern
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle.printed_dates import DateStatement

_NEW_ERA_VERBS = ("改元", "改年", "建元", "年號")


@dataclasses.dataclass(frozen=True)
class ReignNames:
  """Names of the reigns of a timeline, for look-ups.

  Attributes:
    by_heading: what a heading may be in the spelling of `fold_script`, with and
      without the state -> reign.
    by_name: names and aliases -> reigns.
    new_era: a verb of a new era and a name.
  """

  by_heading: dict[str, str]
  by_name: dict[str, tuple[str, ...]]
  new_era: re.Pattern[str]


@functools.lru_cache(maxsize=8)
def index_reign_names(timeline: Timeline) -> ReignNames:
  """Returns the names of the reigns of a timeline, which it remembers."""
  by_heading: dict[str, str] = {}
  by_name: dict[str, tuple[str, ...]] = {}
  # 「太祖」 is a ruler of several eras, and others count years by that name.
  rulers_of_eras = {
    reign.state[start:]
    for reign in timeline.reigns
    for start in range(1, len(reign.state) - 1)
    if not reign.state.endswith(reign.name)
  }
  rows_by_name = collections.Counter(reign.name for reign in timeline.reigns)
  for reign in timeline.reigns:
    for name in (reign.name, *reign.aliases):
      if name not in rulers_of_eras:
        by_heading.setdefault(numerals.fold_script(name), reign.name)
      # A state tells reigns of one name apart.
      state = reign.state if rows_by_name[reign.name] > 1 else ""
      by_heading.setdefault(
        numerals.fold_script(reign.state + name), state + reign.name
      )
      reigns = by_name.get(name, ())
      by_name[name] = tuple(dict.fromkeys((*reigns, reign.name)))
  verbs = build_names_pattern(_NEW_ERA_VERBS)
  return ReignNames(
    by_heading,
    by_name,
    re.compile(f"{verbs}({build_names_pattern(by_name)})"),
  )


def find_new_eras(
  text: str, timeline: Timeline
) -> Iterator[tuple[int, DateStatement]]:
  """Yields where a record says that an era begins, 「改元太康」, and which."""
  names = index_reign_names(timeline)
  for match in names.new_era.finditer(text):
    for reign in names.by_name[match[1]]:
      yield match.start(), ("era", reign)
