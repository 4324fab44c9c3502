"""Invented chronicles of Lu in any number, for tests and benchmarks."""

from __future__ import annotations

import pathlib

import numpy as np

from ctd_jax.chronology import date_expressions, numerals, reign_tables

REIGNS = "lu"
_PEOPLES = list("齊宋衛陳鄭蔡曹許邾莒")
_DEEDS = ("來盟", "伐我西鄙", "來聘", "平于我", "城其郛", "大水", "饑")
_DATED = 0.6  # share of the records that print a date


def write_corpus(
  folder: pathlib.Path, num_works: int, num_records: int, seed: int = 0
) -> None:
  """Writes chronicles, a file each: a record a line, in order of time.

  Args:
    folder: made if it is not there.
    num_works: number of files.
    num_records: of each of them.
    seed: of all that is drawn.
  """
  folder.mkdir(parents=True, exist_ok=True)
  timeline = reign_tables.load_timeline(REIGNS)
  months = timeline.months
  for number in range(num_works):
    rng = np.random.default_rng((seed, number))
    steps = rng.choice(3, num_records, p=(0.5, 0.4, 0.1))
    last_start = max(1, len(months) - int(steps.sum()))
    ordinals = rng.integers(last_start) + np.cumsum(steps)
    lines, year = [], None
    for ordinal in ordinals % len(months):
      key = months[ordinal]
      event = f"{rng.choice(_PEOPLES)}人{rng.choice(_DEEDS)}。"
      if (key.reign, key.year) != year:
        date = date_expressions.format_key(key, timeline) + "，"
      elif rng.random() < _DATED:
        date = f"{numerals.format_numeral(key.month)}月，"
      else:
        date = ""
      year = key.reign, key.year
      lines.append(date + event)
    path = folder / f"chronicle{number:06}.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
