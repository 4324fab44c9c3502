"""Moves of chronicles out of their order, counted where their dates are known.

  python -m tests.benchmarks.chronicle_moves --sources=DIR --outside=DIR \\
    --complete=DIR [--choose]

Prints, for each kind of section, how often training chronicles rest, jump, go
back and begin again, by the dates that their editions print, and the shape of
the gamma distribution of a text's share of moves. With --choose it dates pieces
of 資治通鑑 without their dates, first years given, and prints how often the
dates move apart, for each number of stray moves. The constants of
`transition_model` were chosen so. 長編 is a test and not read here.
"""

import argparse
import pathlib
from collections.abc import Iterator, Sequence
from unittest import mock

import numpy as np
from scipy.special import gammaln

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  transition_model,
)
from ctd_jax.dating.chronicle import emissions as emissions_lib
from ctd_jax.dating.chronicle import sections as sections_lib
from tests.benchmarks import chronicle_order, chronicle_texts
from tests.benchmarks.chronicle_gold import GoldRecord

TEXTS = (
  *("tongjian_complete", "houhanji", "zuozhuan", "zuozhuan_wikisource"),
  *("guliang", "gongyang", "shiji", "sanguozhi"),
)
VARIANTS = ("printed", "years_cut", "heads_cut")
SHAPES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
STRAY_MOVES = (0, 1, 3, 6)
# Pieces of 資治通鑑: calendar -> first years.
PIECES = {
  "曹魏,晉,劉宋,南齊,南梁,陳,隋": range(225, 550, 30),
  "唐,武周": range(620, 880, 30),
}
_NUM_YEARS = 30
_APART = 12  # months that a step may be wrong
_KINDS = (
  *("NO_DATE", "DAY", "MONTH", "SEASON", "YEAR", "NAMED", "STREAM"),
  *("TOLD_MONTH", "TOLD_YEAR"),
)


def list_places(
  records: Sequence[GoldRecord], sections, calendar
) -> Iterator[tuple[int, list[int]]]:
  """Yields section and right months of every place that the calendar has."""
  keys = [
    chronicle_order.make_key(section.record, section.start)
    for section in sections
  ]
  for number, record in enumerate(records):
    for place in record.places:
      months = (
        chronicle_order.find_months(calendar, place.month)
        if place.month.month
        else np.flatnonzero(calendar.years == place.month.year).tolist()
      )
      if months:
        key = chronicle_order.make_key(number, place.position)
        section = int(np.searchsorted(keys, key, "right")) - 1
        yield max(section, 0), sorted(months)


def count_moves(
  records: Sequence[GoldRecord], reigns: str
) -> dict[str, np.ndarray]:
  """Returns move -> number of it by kind, and `sections`."""
  entries = [record.entry for record in records]
  calendar = chronicle_input.load_reigns(reigns, entries)
  units, _ = sections_lib.join_headings(
    chronicle_dating.read_all_sections(entries, calendar)
  )
  kinds = emissions_lib.SectionEmissions(units, calendar).kinds
  path = np.zeros(len(units), int)
  places = dict(list_places(records, units, calendar))
  first = min(places)
  path[first] = places[first][0]
  for section in range(first + 1, len(units)):
    before = path[section - 1]
    months = places.get(section, [before])
    path[section] = before if before in months else months[0]
  moves, kinds, _ = transition_model.find_moves(
    path[first:],
    kinds[first:],
    transition_model.find_boundaries(calendar.years, calendar.months),
  )
  counts = {"sections": np.bincount(kinds, minlength=len(_KINDS))}
  for name, is_move in moves.items():
    counts[name] = np.bincount(kinds[is_move], minlength=len(_KINDS))
  return counts


def fit_shape(moved: np.ndarray, expected: np.ndarray) -> float:
  """Returns the likeliest shape of a gamma-Poisson model of mean 1."""

  def score(shape: float) -> float:
    total = shape + expected
    return float(
      np.sum(
        gammaln(shape + moved)
        - gammaln(shape)
        + shape * np.log(shape / total)
        + moved * np.log(expected / total)
      )
    )

  return max(SHAPES, key=score)


def count_errors(records: Sequence[GoldRecord], reigns: str) -> tuple[int, int]:
  """Returns how many steps between places are wrong, and of how many."""
  entries = [record.entry for record in records]
  calendar = chronicle_input.load_reigns(reigns, entries)
  dates = chronicle_dating.date_records(
    entries, calendar, records[0].places[0].month.year
  )
  places = list(list_places(records, dates.sections, dates.calendar))
  steps = np.diff(
    [(dates.months[row, 0], month) for row, month in places], axis=0
  )
  return int((abs(steps[:, 0] - steps[:, 1]) > _APART).sum()), len(steps)


def main() -> None:
  """Prints the counts, and the choice if asked."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  for name in ("sources", "outside", "complete"):
    parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
  parser.add_argument("--choose", action="store_true")
  flags = parser.parse_args()
  if flags.choose:
    gold = chronicle_texts.read_gold("tongjian_complete", vars(flags))
    for num_stray in STRAY_MOVES:
      with mock.patch.object(transition_model, "_STRAY_MOVES", num_stray):
        errors = [
          count_errors(
            chronicle_order.cut_years(
              gold.records, range(year, year + _NUM_YEARS)
            ),
            reigns,
          )
          for reigns, years in PIECES.items()
          for year in years
        ]
      print(f"stray moves {num_stray}: wrong steps, steps", *np.sum(errors, 0))
    return
  prior = transition_model.TransitionModel()
  moved, expected, total = [], [], {}
  for text in TEXTS:
    gold = chronicle_texts.read_gold(text, vars(flags))
    for variant in VARIANTS:
      counts = count_moves(
        chronicle_order.make_variant(gold.records, variant), gold.reigns
      )
      moved.append((counts["jump"] + counts["restart"]).sum())
      expected.append(counts["sections"] @ np.add(prior.jump, prior.restart))
      print(f"{text} {variant}: moves {moved[-1]}, prior {expected[-1]:.1f}")
      for name, of_kind in counts.items():
        total[name] = total.get(name, 0) + of_kind
  for kind, name in enumerate(_KINDS):
    print(name, *(f"{move} {counts[kind]}" for move, counts in total.items()))
  print("shape", fit_shape(np.array(moved), np.array(expected)))


if __name__ == "__main__":
  main()
