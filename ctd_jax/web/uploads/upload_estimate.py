"""Time that a build takes, from rates that were measured."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Sequence
from typing import Any

from ctd_jax.index.storage import database

_START_SECONDS = 12.0
_SECONDS_PER_SECTION_MONTH = 1e-6  # by order
# Of all the characters of the index: it learns from all.
_MODEL_SECONDS_PER_CHARACTER = 1e-4
_PASSAGE_SECONDS_PER_CHARACTER = 1e-4


def estimate_seconds(
  works: Sequence[dict[str, Any]], num_months: int, num_characters: int
) -> float:
  """Returns how long it takes to date works, on a core that does only this.

  Rates are from building, one after the other, 後漢紀 (210,000 characters,
  1,247 sections) and 三國志 (447,000) by their order and 左氏傳說 by the
  model, in the 26,682 months of all of China: 63, 80 and 161 s of a core.

  Args:
    works: as described.
    num_months: of the calendar.
    num_characters: of the index as it is.
  """
  num_characters += sum(work["num_characters"] for work in works)
  seconds = _START_SECONDS + num_characters * _PASSAGE_SECONDS_PER_CHARACTER
  if any(work["manner"] == "model" for work in works):
    seconds += num_characters * _MODEL_SECONDS_PER_CHARACTER
  for work in works:
    if work["manner"] == "order":
      num_sampled = max(work["num_sampled_characters"], 1)
      num_sections = work["num_sections"] * work["num_characters"] / num_sampled
      seconds += num_sections * num_months * _SECONDS_PER_SECTION_MONTH
  return seconds


def count_characters(folder: pathlib.Path) -> int:
  """Returns how many characters the records of an index have.

  Args:
    folder: of the index.
  """
  with contextlib.closing(database.open_database(folder)) as connection:
    (total,) = connection.execute(
      "SELECT coalesce(sum(length(text)), 0) FROM records"
    ).fetchone()
  return total


def format_seconds(seconds: float) -> str:
  """Returns a time as 40 s, 5 min or 2.5 h; rough, as estimates are.

  Args:
    seconds: of the time.
  """
  if seconds < 90:
    return f"{max(round(seconds / 10), 1) * 10} s"
  if seconds < 5400:
    return f"{round(seconds / 60)} min"
  return f"{seconds / 3600:.1f} h"
