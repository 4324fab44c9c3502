"""Collation: positions of one edition in another, character by character.

The edition that prints the years is not the one that is read, so positions have
to be carried over. Two prints of a book differ in a few characters of a hundred
and never in order; the shortest edit between them is the collation.

Axes: P positions in the source edition, its end included.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from rapidfuzz.distance import Indel


def align_positions(source: str, target: str) -> Int[np.ndarray, " P"]:
  """Returns the position in `target` of every position in `source`.

  Args:
    source: text of P - 1 characters.
    target: the same text in another edition.

  Returns:
    Positions, never falling; a character that `target` lacks gets the position
    of the next one that both have. The last is the length of `target`.

  Source: shortest edit script of insertions and deletions (Indel distance).
  """
  target_positions = np.empty(len(source) + 1, int)
  for step in Indel.opcodes(source, target):
    length = step.src_end - step.src_start
    if step.tag == "equal":
      target_positions[step.src_start : step.src_end] = np.arange(
        step.dest_start, step.dest_start + length
      )
    else:  # characters that only `source` has, or that were replaced
      target_positions[step.src_start : step.src_end] = step.dest_end
  target_positions[-1] = len(target)
  return target_positions


def find_stretch(starts: Sequence[int], begin: int, end: int) -> int | None:
  """Returns the stretch that holds most of the characters `begin`..`end`.

  An edition that moves a word across a boundary moves no whole entry.

  Args:
    starts: first character of every stretch, rising; a stretch goes on to the
      next one.
    begin: first character.
    end: after the last character.

  Returns:
    Index into `starts`; None if most lies before the first.
  """
  # The stretch of the middle character holds at least half of them.
  num_starts_before = bisect.bisect_right(starts, (begin + end) // 2)
  return num_starts_before - 1 if num_starts_before else None
