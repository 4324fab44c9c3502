"""Placeholders: the records of months without any entry.

A question about an empty month must have an answer, so the benchmark puts one
short statement there (kind "no_event").

Source: the wordings that the paper prints (specification 6.6); date first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ctd_jax.benchmark.queries import CHUNQIU_TITLE
from ctd_jax.benchmark.records import NO_EVENT, Record, collect_months
from ctd_jax.chronology import date_expressions
from ctd_jax.chronology.timelines import TimeKey, Timeline

TEMPLATES = (
  "{date}：經傳於是月史事闕如，無專條可錄。",
  "{date}。{title}經文及三傳於此月無事可書。",
  "{date}。{title}及三傳皆不載此月之事。",
)

SOURCE = "placeholder"
SOURCE_TITLE = "無事之月"


def format_placeholder(
  key: TimeKey, timeline: Timeline, seed: int = 0, title: str = CHUNQIU_TITLE
) -> str:
  """Returns the statement that nothing is recorded in the month `key`."""
  # Drawn by a hash of (seed, key): the wording of a month does not depend on
  # which other months are empty.
  digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
  template = TEMPLATES[int.from_bytes(digest, "big") % len(TEMPLATES)]
  date = date_expressions.format_key(key, timeline)
  return template.format(date=date, title=title)


def make_placeholders(
  records: Iterable[Record],
  timeline: Timeline,
  seed: int = 0,
  title: str = CHUNQIU_TITLE,
) -> list[Record]:
  """Returns a placeholder record for every month without an event.

  Args:
    records: the gallery so far.
    timeline: months that need an answer.
    seed: of the wordings.
    title: the chronicle's, in its brackets.

  Returns:
    Records of kind "no_event" in order of time, without id.
  """
  event_months = collect_months(records)
  empty_months = (key for key in timeline.months if key not in event_months)
  return [
    Record(
      "",
      format_placeholder(key, timeline, seed, title),
      SOURCE,
      NO_EVENT,
      key,
      order,
    )
    for order, key in enumerate(empty_months)
  ]
