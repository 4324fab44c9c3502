"""Durations named in an English text, in minutes.

The baseline `lexicon` predicts a curve from these words alone.
"""

from __future__ import annotations

import re

# Minutes of a unit; a year has 365 days and a month is a twelfth of it.
_UNITS = {
  "second": 1 / 60,
  "moment": 1.0,
  "minute": 1.0,
  "hour": 60.0,
  "morning": 240.0,
  "afternoon": 240.0,
  "evening": 240.0,
  "night": 600.0,
  "day": 1440.0,
  "weekend": 2880.0,
  "week": 10080.0,
  "fortnight": 20160.0,
  "month": 43800.0,
  "season": 131400.0,
  "term": 131400.0,
  "year": 525600.0,
  "decade": 5256000.0,
  "century": 52560000.0,
}
_PLURALS = {"centuries": "century"}
# Vague numbers at their usual size, and determiners that mean one.
_NUMBERS = {
  "quarter": 0.25,
  "half": 0.5,
  "a": 1,
  "an": 1,
  "one": 1,
  "this": 1,
  "the": 1,
  "all": 1,
  "whole": 1,
  "entire": 1,
  "each": 1,
  "every": 1,
  "two": 2,
  "couple": 2,
  "three": 3,
  "few": 3,
  "four": 4,
  "five": 5,
  "several": 5,
  "six": 6,
  "seven": 7,
  "eight": 8,
  "nine": 9,
  "ten": 10,
  "twelve": 12,
  "dozen": 12,
  "fifteen": 15,
  "twenty": 20,
  "thirty": 30,
  "forty": 40,
  "fifty": 50,
  "sixty": 60,
  "many": 10,
}
# Adverbs that imply a duration or a period, in minutes.
_ADVERBS = {
  "briefly": 1.0,
  "momentarily": 1.0,
  "overnight": 600.0,
  "tonight": 360.0,
  "today": 720.0,
  "tomorrow": 1440.0,
  "daily": 1440.0,
  "weekly": 10080.0,
  "monthly": 43800.0,
  "yearly": 525600.0,
  "annually": 525600.0,
  "permanently": 52560000.0,
  "forever": 52560000.0,
  "always": 52560000.0,
}
_UNIT = "|".join([*_PLURALS, *(f"{unit}s?" for unit in _UNITS)])
_NUMBER = rf"\d+(?:\.\d+)?|{'|'.join(_NUMBERS)}"
# At most two words stand between number and unit, and neither is a number: so
# "two long days" matches, and in "a few days" the number is "few", not "a".
_SPAN = re.compile(
  rf"\b(?P<number>{_NUMBER})(?:[ -](?!(?:{_NUMBER})\b)[a-z]+){{0,2}}?"
  rf"[ -](?P<unit>{_UNIT})\b"
)
# "half an hour" names one number; the article after it is dropped.
_FRACTION = re.compile(r"\b(half|quarter)(?: of)? an? ")
_ADVERB = re.compile(rf"\b({'|'.join(_ADVERBS)})\b")


def extract_durations(text: str) -> list[float]:
  """Returns the durations that a text names, in minutes.

  Args:
    text: English, any case.

  Returns:
    Durations of adverbs first, then of spans; [] if the text names none.
  """
  text = _FRACTION.sub(r"\1 ", text.lower())
  durations = [_ADVERBS[match[1]] for match in _ADVERB.finditer(text)]
  for match in _SPAN.finditer(text):
    unit = _PLURALS.get(match["unit"]) or match["unit"].removesuffix("s")
    # A number word, or digits.
    number = _NUMBERS.get(match["number"]) or float(match["number"])
    if number > 0:  # "0 hours" has no logarithm
      durations.append(number * _UNITS[unit])
  return durations
