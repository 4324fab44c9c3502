"""Official division of the 3,036 months into train, validation and test.

Records and queries inherit the split of their month, so results are comparable
with published ones only if the months are divided in the same way.
`block_splits` applies the same idea to any calendar.

Source: `time_splits_by_month_v1.json` of the public ChunQiuTR release
(specification 1.3). Validation and test are one block of years in each reign,
the rest is train; 閔公, with two years, is divided by month.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from ctd_jax.benchmark.benchmark import SPLITS
from ctd_jax.chronology.reigns import TimeKey, Timeline

TRAIN, VALIDATION, TEST = SPLITS
# Names of the splits in the released file.
RELEASED_SPLIT_NAMES = {"train": TRAIN, "val": VALIDATION, "test": TEST}

# Reign -> (first year, last year) of the held-out block, both included.
_VALIDATION_YEARS = {
  1: (11, 11),
  2: (1, 2),
  3: (12, 14),
  5: (10, 12),
  6: (5, 6),
  7: (3, 4),
  8: (14, 15),
  9: (5, 7),
  10: (28, 30),
  11: (12, 12),
  12: (3, 4),
}
_TEST_YEARS = {
  1: (2, 2),
  2: (9, 10),
  3: (4, 6),
  5: (28, 30),
  6: (1, 2),
  7: (10, 11),
  8: (6, 7),
  9: (11, 13),
  10: (15, 17),
  11: (7, 8),
  12: (6, 8),
}
# 閔公 2: months 1-7 are validation, 8-12 test.
_DUKE_MIN, _DUKE_MIN_YEAR, _DUKE_MIN_LAST_VALIDATION = 4, 2, 7


@dataclasses.dataclass(frozen=True)
class SplitSizes:
  """Number of months in each split."""

  train: int
  validation: int
  test: int


OFFICIAL_SIZES = SplitSizes(train=2424, validation=295, test=317)


def official_split(key: TimeKey) -> str:
  """Returns the split of a month of the released map (timeline lu_release)."""
  if (key.reign, key.year) == (_DUKE_MIN, _DUKE_MIN_YEAR):
    return VALIDATION if key.month <= _DUKE_MIN_LAST_VALIDATION else TEST
  for split, blocks in ((VALIDATION, _VALIDATION_YEARS), (TEST, _TEST_YEARS)):
    if key.reign in blocks:
      first, last = blocks[key.reign]
      if first <= key.year <= last:
        return split
  return TRAIN


def official_splits(timeline: Timeline) -> dict[TimeKey, str]:
  """Returns the split of every month of `timeline`, in order of time.

  Raises:
    ValueError: if the sizes are not those of the release, which means that
      `timeline` is not the released map.
  """
  split_of = {key: official_split(key) for key in timeline.months}
  sizes = count_months(split_of)
  if sizes != OFFICIAL_SIZES:
    raise ValueError(
      f"timeline {timeline.name!r} divides into {sizes}, the released map "
      f"into {OFFICIAL_SIZES}; use the timeline lu_release"
    )
  return split_of


def block_splits(timeline: Timeline) -> dict[TimeKey, str]:
  """Returns a division of any timeline in the manner of the official one.

  In each reign one year in the middle of the first half is validation and one
  in the middle of the second half test, two years each in reigns of 20 years or
  more; reigns under four years are train.
  """
  split_of = {}
  for key in timeline.months:
    years = timeline.reigns[key.reign - 1].years
    length = 2 if years >= 20 else 1  # years of a block
    validation_start = years // 4 + 1
    test_start = 3 * years // 4 + 1
    split_of[key] = TRAIN
    if years >= 4:
      if validation_start <= key.year < validation_start + length:
        split_of[key] = VALIDATION
      elif test_start <= key.year < test_start + length:
        split_of[key] = TEST
  return split_of


def count_months(split_of: dict[TimeKey, str]) -> SplitSizes:
  """Returns how many months each split has."""
  splits = list(split_of.values())
  return SplitSizes(*(splits.count(split) for split in SPLITS))


def count_boundaries(split_of: dict[TimeKey, str]) -> int:
  """Returns how often two neighbouring months are of different splits."""
  splits = list(split_of.values())
  return sum(
    split != next_split for split, next_split in itertools.pairwise(splits)
  )


def format_split_map(split_of: Mapping[TimeKey, str]) -> dict[str, Any]:
  """Returns a division in the schema of the released file, ready for JSON.

  Args:
    split_of: split of every month, in order of time; no leap months.

  Returns:
    `split_by_sort_key`: key such as `1-2-12` -> train, val or test;
    `debug_info`: by reign, whether whole years were divided, which years
    there are, their splits and the number of months of each split.
  """
  names = {split: name for name, split in RELEASED_SPLIT_NAMES.items()}
  by_reign = collections.defaultdict(dict)
  for key, split in split_of.items():
    by_reign[key.reign][key] = names[split]
  return {
    "split_by_sort_key": {
      str(key): names[split] for key, split in split_of.items()
    },
    "debug_info": {
      str(reign): _format_debug_info(reign_names)
      for reign, reign_names in by_reign.items()
    },
  }


def _format_debug_info(reign_names: Mapping[TimeKey, str]) -> dict[str, Any]:
  """Returns how one reign is divided: key -> released name of the split."""
  by_year = collections.defaultdict(set)
  for key, name in reign_names.items():
    by_year[key.year].add(name)
  is_by_year = all(len(year_names) == 1 for year_names in by_year.values())
  info: dict[str, Any] = {
    "mode": "year" if is_by_year else "month",
    "years": list(by_year),
  }
  if is_by_year:
    info["split_years"] = {
      str(year): min(year_names) for year, year_names in by_year.items()
    }
  counts = collections.Counter(reign_names.values())
  info["month_counts"] = {name: counts[name] for name in RELEASED_SPLIT_NAMES}
  return info
