"""Conversion of dates, compared with sxtwl, and its speed on one core.

  python -m tests.benchmarks.conversions --num_dates=20000

Random days of the lunar months of eight long eras are written as dates, read,
and compared with the day and the cyclic day that sxtwl gives. sxtwl computes
months by the rules of 1645; where a calendar of the time had another leap month
or new moon, the two differ, and the months are listed.
"""

import argparse
import collections
import random
import time

import sxtwl

from ctd_jax.chronology import date_readings, numerals, sexagenary

# State, era, astronomical year of 元年, years.
_ERAS = (
  ("唐", "開元", 713, 29),
  ("宋", "元豐", 1078, 8),
  ("元", "至正", 1341, 28),
  ("明", "嘉靖", 1522, 45),
  ("明", "萬曆", 1573, 48),
  ("清", "康熙", 1662, 61),
  ("清", "乾隆", 1736, 60),
  ("清", "光緒", 1875, 34),
)


def main() -> None:
  """Prints how many dates agree, where others differ, and dates a second."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--num_dates", type=int, default=20_000)
  parser.add_argument("--seed", type=int, default=0)
  options = parser.parse_args()
  dates = make_dates(options.num_dates, random.Random(options.seed))
  reader = date_readings.load_reader("zh")
  differences = collections.Counter()
  for text, day, cycle in dates:
    reading = reader.read(text)[0]
    if (reading.first_day, reading.cyclic_day) != (day, cycle):
      month = text.rpartition("月")[0]
      differences[f"{month}月", reading.first_day - day] += 1
  num_agreed = len(dates) - sum(differences.values())
  print(f"{num_agreed:,} of {len(dates):,} dates agree with sxtwl")
  for (month, days), number in sorted(differences.items()):
    print(f"  {month}: {number} dates {days:+d} days")
  texts = [text for text, _, _ in dates]
  for name in ("明", "zh", "all"):
    measure_speed(name, [t for t in texts if name != "明" or t[0] == "明"])


def make_dates(
  number: int, chance: random.Random
) -> list[tuple[str, int, str]]:
  """Returns dates with their Julian day numbers and cyclic days."""
  dates = []
  while len(dates) < number:
    state, era, first_year, num_years = chance.choice(_ERAS)
    year = chance.randint(1, num_years)
    month, number_of_day = chance.randint(1, 12), chance.randint(1, 29)
    day = sxtwl.fromLunar(first_year + year - 1, month, number_of_day, False)
    julian_day = sexagenary.to_julian_day(
      day.getSolarYear(), day.getSolarMonth(), day.getSolarDay()
    )
    pair = day.getDayGZ()
    text = (
      f"{state}{era}{numerals.format_numeral(year) if year > 1 else '元'}年"
      f"{numerals.format_numeral(month) if month > 1 else '正'}月"
      f"{numerals.format_numeral(number_of_day)}日"
    )
    cycle = sexagenary.STEMS[pair.tg] + sexagenary.BRANCHES[pair.dz]
    dates.append((text, julian_day, cycle))
  return dates


def measure_speed(calendars: str, texts: list[str]) -> None:
  """Prints dates a second, as the cells of a table are converted."""
  reader = date_readings.load_reader(calendars)
  start = time.process_time()
  for text in texts:
    for reading in reader.read(text)[:1]:
      reading.to_dict()
  seconds = time.process_time() - start
  print(f"{calendars}: {len(texts) / seconds:,.0f} dates a second")


if __name__ == "__main__":
  main()
