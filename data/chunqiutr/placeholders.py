"""Placeholders: what stands in the gallery for a month without any entry.

Why: a question about an empty month must have an answer, so the benchmark
puts one short statement there (kind "no_event"). Called by the builders.

Source: the wordings that the paper prints (specification 6.6); date first.
"""

from __future__ import annotations

import hashlib

from ctd_jax.chronology import expressions
from ctd_jax.chronology.timekey import TimeKey, Timeline

WORDINGS = (
  "{date}：經傳於是月史事闕如，無專條可錄。",
  "{date}。《春秋》經文及三傳於此月無事可書。",
  "{date}。《春秋》及三傳皆不載此月之事。",
)


def placeholder(key: TimeKey, timeline: Timeline, seed: int = 0) -> str:
  """Returns the statement that nothing is recorded in the month `key`.

  The wording is drawn by a hash of (seed, key), so it stays the same whatever
  other months are empty.
  """
  digest = hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()
  wording = WORDINGS[int.from_bytes(digest, "big") % len(WORDINGS)]
  return wording.format(date=expressions.format_key(key, timeline))
