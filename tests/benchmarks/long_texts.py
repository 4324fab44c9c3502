"""Growth of reading time with the length of hostile texts.

A pattern that tries every end for every start takes sixteen times as long on a
text of four times the length. Every reader gets the same few characters over
and over, at 25,000 and at 100,000 characters; growth is the ratio of the times
divided by the ratio of the lengths, so 1 is linear and 4 quadratic. Short times
are noise and not judged.

  python -m tests.benchmarks.long_texts
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable

from ctd_jax.chronology import (
  annals,
  date_expressions,
  numerals,
  query_dates,
  reign_tables,
)
from ctd_jax_datasets.chunqiutr import kanripo

SHORT, LONG = 25_000, 100_000  # characters
MAX_GROWTH = 2.0  # between linear and quadratic
NOISE_S = 0.2  # a shorter time is not judged
LU = reign_tables.load_timeline("lu")
# Pieces of the readers' patterns, so that every character may begin or continue
# a match.
UNITS = (
  *("三月", "三月，", "夏四月。", "魯隱公元年正月", "魯隱", "閏", "元", "癸未"),
  *("歲在", "歲在癸", "王", "春", "冬，", "　", "，", "9", "1.", "十", "十有"),
  *("整", "個", "三個", "前", "前三月後", "後的", "自", "至", "同", "次年"),
  *(
    "「",
    "」",
    "「。」",
    "《",
    "》",
    "《春》",
    "（",
    "。",
    "。三月",
    "三月。也",
  ),
  *("<pb:", "&KR1", "A1.", "A1.2.3", "〔1.2《", "\n", "#", "a", "(corr.="),
)


def _interval(text: str) -> None:
  query_dates.parse_interval(f"魯隱公元年正月{text}", LU)


def _entry(text: str) -> None:
  annals.split_entry_by_month(text, annals.MonthScanner(reign=1, year=1), "也")


READERS: dict[str, Callable[[str], object]] = {
  "find_cues": date_expressions.find_date_cues,
  "find_full_dates": lambda text: date_expressions.find_full_dates(text, LU),
  "parse_key": lambda text: date_expressions.parse_key(text, LU),
  "parse_interval": _interval,
  "parse_numeral": numerals.parse_numeral,
  "opening_cues": annals.find_opening_cues,
  "split_entry": _entry,
  "kanripo_lines": kanripo.parse_kanripo_lines,
}


def measure_seconds(reader: Callable[[str], object], text: str) -> float:
  """Returns the shortest of three times of a reader; it may refuse the text."""
  best = float("inf")
  for _ in range(3):
    start = time.process_time()
    with contextlib.suppress(ValueError):
      reader(text)
    best = min(best, time.process_time() - start)
  return best


def main() -> int:
  """Prints the growth of every reader; returns 1 if one is not linear."""
  worst_of_all = 0.0
  print(f"{'reader':<16} {'slowest':>9} {'growth':>7}  characters")
  for name, reader in READERS.items():
    times = []
    for unit in UNITS:
      text = unit * (LONG // len(unit) + 1)
      short = measure_seconds(reader, text[:SHORT])
      long = measure_seconds(reader, text[:LONG])
      growth = long / max(short, 1e-9) * SHORT / LONG
      times.append((growth if long > NOISE_S else 0.0, long, unit))
    worst, _, unit = max(times)
    slowest = max(long for _, long, _ in times)
    worst_of_all = max(worst_of_all, worst)
    shown = f"{worst:7.2f}  {unit!r}" if worst else f"{'-':>7}"
    print(f"{name:<16} {slowest:8.2f}s {shown}")
  return int(worst_of_all > MAX_GROWTH)


if __name__ == "__main__":
  sys.exit(main())
