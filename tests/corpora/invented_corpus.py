"""Invented chronicles of Lu in any number, for tests and benchmarks."""

from __future__ import annotations

import pathlib

import numpy as np

from ctd_jax.chronology import date_expressions, numerals, reign_tables

REIGNS = "lu"
_PEOPLES = list("齊宋衛陳鄭蔡曹許邾莒")
_DEEDS = ("來盟", "伐我西鄙", "來聘", "平于我", "城其郛", "大水", "饑")
_DATED = 0.6  # share of the records that print a date
# Words of tales: a Han character each of those that print no date, some often.
_FIRST_CHARACTER, _NUM_CHARACTERS, _NUM_WORDS = 0x8500, 2560, 50_000
_WORDS_OF_TALE = 12
_RETOLD = 0.2  # share of the records whose tale others tell, too
_TALE, _CHOICE = 1, 2  # what a seed is for


def write_corpus(
  folder: pathlib.Path,
  num_works: int,
  num_records: int,
  seed: int = 0,
  has_tales: bool = False,
) -> None:
  """Writes chronicles, a file each: a record a line, in order of time.

  Args:
    folder: made if it is not there.
    num_works: number of files.
    num_records: of each of them.
    seed: of all that is drawn.
    has_tales: whether each record tells a tale too, its own or, in the words of
      others, one that records of several works tell.
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
    if has_tales:
      tales = _draw_tales(num_works, num_records, number, seed)
      lines = [line + tale for line, tale in zip(lines, tales, strict=True)]
    path = folder / f"chronicle{number:06}.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _draw_tales(
  num_works: int, num_records: int, number: int, seed: int
) -> list[str]:
  """Returns the tales of the records of a work."""
  rng = np.random.default_rng((seed, number, _CHOICE))
  num_tales = num_works * num_records
  # Those that all works know come behind those of one record.
  num_known = max(1, round(num_tales * _RETOLD / 3))
  tales = number * num_records + np.arange(num_records)
  is_retold = rng.random(num_records) < _RETOLD
  known = num_tales + rng.integers(num_known, size=num_records)
  texts = []
  for tale in np.where(is_retold, known, tales).tolist():
    words = tell_tale(tale, seed)
    if tale >= num_tales:  # at least half of it
      start = rng.integers(len(words) // 2 + 1)
      words = words[start : start + rng.integers(len(words) // 2, len(words))]
    texts.append(words + "。")
  return texts


def tell_tale(number: int, seed: int = 0) -> str:
  """Returns a tale, of words of which some are common and most are rare."""
  rng = np.random.default_rng((seed, number, _TALE))
  ranks = _NUM_WORDS ** rng.random(_WORDS_OF_TALE)  # as Zipf's law has it
  # Two characters of each word, by its rank.
  codes = np.stack([ranks.astype(int) * 7919, ranks.astype(int) * 104_729])
  codes = codes.T.ravel() // 7 % _NUM_CHARACTERS + _FIRST_CHARACTER
  return "".join(map(chr, codes.tolist()))
