"""Compares eras and months with two published tables.

    python -m ctd_jax_datasets.calendars.witnesses --folder=FOLDER

FOLDER has files of two Ruby libraries, which are only compared with: of
when_exe (lib/when_exe/region) `vietnamese.rb`, `korean.rb`, `east_asian.rb`,
and `japanese/epochs.rb` as `japanese.rb`; of wareki `calendar_def.rb`.
"""

import functools
import pathlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
import opencc
from absl import app, flags

from ctd_jax.chronology import calendar_tables, era_calendars, sexagenary
from ctd_jax.chronology.numerals import fold_script

# File of when_exe -> polities here, and stream of its dates (None: Gregorian).
_FILES = {
  "vietnamese": ("vi", "zhou_qing"),
  "japanese": ("日本", "japan"),
  "korean": ("朝鮮", None),
  "east_asian": ("滿洲國", None),
}
_ERA = re.compile(r'\["\[([^\]=<,]+)([^\]]*)\]1(?:\.[^"]*)?"(.*)')
# 0701-03-21, 0923-04=11 (a leap month), 1044.10, 1085
_DATE = re.compile(r'[;"\s:](\d{3,4})(?:[.-](\d\d)(?:(=?)-?\.?(\d\d))?)?(?!\d)')
_FIRST_YEAR_OF_WAREKI = 445
_FIRST_GREGORIAN_YEAR = 1873
_FOLDER = flags.DEFINE_string("folder", None, "folder of the files")


def read_eras(path: pathlib.Path) -> Iterator[tuple[list[str], list[int]]]:
  """Yields the names of an era, and year, month, leap, day of its beginning.

  What the file does not say is 0.
  """
  for line in path.read_text(encoding="utf-8").splitlines():
    era = _ERA.search(line)
    date = era and _DATE.search(era[3])
    if date:
      names = [era[1], *re.findall(r"alias\d?:([^=,\]]+)", era[2])]
      year, month, leap, day = date.groups()
      yield names, [int(year), int(month or 0), bool(leap), int(day or 0)]


def compare_eras(folder: pathlib.Path) -> dict[str, str]:
  """Returns eras that begin otherwise here -> what both say, and `compared`.

  Eras that the tables lack are left out.
  """
  differences, compared = {}, 0
  for file, (polity, stream) in _FILES.items():
    first: dict[str, list[calendar_tables.Era]] = {}
    for era in era_calendars.load_calendar(polity).eras:
      for name in {_normalise(n) for n in (era.name, *era.spellings)}:
        first.setdefault(name, []).append(era)
    for names, date in read_eras(folder / f"{file}.rb"):
      eras = [
        era
        for name in names
        for era in first.get(_normalise(name), ())
        if abs(era.first_year - date[0]) < 20
      ]
      if not eras:
        continue
      compared += 1
      if not any(_begins(era, date, stream) for era in eras):
        theirs = "-".join(str(int(part)) for part in date)
        ours = sexagenary.to_gregorian_dates(eras[0].first_day).tolist()
        differences[eras[0].name] = f"{theirs}, here {ours}"
  return {**differences, "compared": str(compared)}


def compare_months(folder: pathlib.Path) -> set[tuple[int, int, bool]]:
  """Returns year, month and leap of months that begin otherwise in wareki."""
  text = (folder / "calendar_def.rb").read_text(encoding="utf-8")
  theirs = {}
  for year, packed in enumerate(
    (int(number, 16) for number in re.findall("0x([0-9a-f]+)", text)),
    start=_FIRST_YEAR_OF_WAREKI,
  ):
    # First day, lengths, number of a leap month.
    day, leap_month = packed & 0x3FFFFF, packed >> 36
    labels = sorted(
      [(month, False) for month in range(1, 13)]
      + [(leap_month, True)] * bool(leap_month)
    )
    for position, label in enumerate(labels):
      theirs[year, *label] = day
      day += 29 + (packed >> 22 + position & 1)
  stream = calendar_tables.load_streams()["japan"]
  columns = (stream.years, stream.months, stream.is_leap, stream.first_days)
  ours = {
    (year, month, leap): day
    for year, month, leap, day in zip(
      *(column.tolist() for column in columns), strict=True
    )
    if year < _FIRST_GREGORIAN_YEAR
  }
  return {key for key, _ in theirs.items() ^ ours.items()}


def _begins(
  era: calendar_tables.Era, date: Sequence[int], stream: str | None
) -> bool:
  """Returns whether an era begins on a day, in a month, or in a year."""
  year, month, leap, day = date
  if not month:
    return era.first_year == year
  if stream is None:
    return era.first_day == sexagenary.to_julian_day(year, month, day)
  months = calendar_tables.load_streams()[stream]
  is_month = (months.years == year) & (months.months == month)
  is_month &= months.is_leap == leap
  (found,) = np.flatnonzero(is_month)[:1]
  # Of Vietnam the tables have months.
  if day and stream == "japan":
    return era.first_day == months.first_days[found] + day - 1
  after = era.first_day - months.first_days[found]
  return 0 <= after < months.lengths[found]


@functools.cache
def _converter() -> opencc.OpenCC:
  return opencc.OpenCC("jp2t")


def _normalise(name: str) -> str:
  return fold_script(_converter().convert(name)).translate(
    str.maketrans("暦佑啓", "曆祐啟")
  )


def main(argv: Sequence[str]) -> None:
  """Entry point for absl."""
  if len(argv) > 1:
    raise app.UsageError(f"unknown arguments: {' '.join(argv[1:])}")
  folder = pathlib.Path(_FOLDER.value)
  for name, difference in compare_eras(folder).items():
    print(name, difference)
  for year, month, leap in sorted(compare_months(folder)):
    print(f"month {year}-{month}{'L' * leap}")


if __name__ == "__main__":
  flags.mark_flag_as_required("folder")
  app.run(main)
