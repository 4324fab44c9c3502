"""Choice of the constants of `ctd_jax.dating.chronicle.reliability`.

  python -m tests.benchmarks.chronicle_reliability --texts=guliang,houhanji \\
    --sources=DIR --outside=DIR

Each text is dated in each variant of `chronicle_order`. Printed are, by
variant, the share of the entries without a date that stand in the month of the
entry before, and what the text was believed to have; and, by the power of the
posterior and the number of misplaced sections for each that goes back, the mean
over the variants of -log p of the right months. The least is chosen.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
from collections.abc import Mapping

import numpy as np

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dated_units,
  reliability,
)
from ctd_jax.dating.chronicle.emissions import SectionEmissions
from ctd_jax.dating.chronicle.reliability import Reliability
from ctd_jax.dating.sequence import decoder
from ctd_jax.dating.sequence.section_kinds import NO_DATE
from ctd_jax.utils import tables
from tests.benchmarks import (
  chronicle_order,
  chronicle_texts,
  chronicle_variants,
)

VARIANTS = ("printed", "years_cut", "halves", "blocks", "misplaced")
SHARPNESS = (1.0, 0.8, 0.7, 0.65, 0.6, 0.5)
MISPLACED_PER_RETURN = (0.0, 1.0, 2.0, 4.0)
_MIN_CHANCE = 1e-6  # of a month that was ruled out


def measure_likelihoods(
  text: str, variant: str, folders: Mapping[str, pathlib.Path | None]
) -> tuple[list[float], str]:
  """Returns mean -log p for each pair of constants, and a line on the text."""
  gold = chronicle_texts.read_gold(text, folders)
  records = chronicle_variants.make_variant(gold.records, variant)
  entries = [record.entry for record in records]
  calendar = chronicle_input.load_reigns(gold.reigns, entries)
  sections = chronicle_dating.read_all_sections(entries, calendar)
  units, unit_of_section = dated_units.join_headings(sections)
  emissions = SectionEmissions(units, calendar)
  prior = chronicle_dating.make_first_place_prior(emissions, calendar, None)
  model, log_transitions, _ = chronicle_dating.learn_transitions(
    emissions, calendar, prior
  )
  posterior = np.empty((len(units), len(calendar) + 1), np.float32)
  for start, block, _ in decoder.iter_posteriors(
    emissions, emissions.kinds, log_transitions, prior
  ):
    posterior[start : start + len(block)] = block
  spans = calendar.day_spans
  dated = chronicle_order.DatedText(
    [(section.record, section.start) for section in sections],
    np.zeros(len(sections), int),
    np.zeros(len(sections)),
    None,
    calendar.years,
    calendar.months,
    calendar.is_leap,
    None if spans is None else spans[:, 0],
  )
  right = np.array(
    [
      (
        unit_of_section[judgement.section],
        dated.find_month(judgement.place.month),
      )
      for judgement in chronicle_order.judge(records, dated)
      if judgement.place.month.month
    ]
  )
  right = right[right[:, 1] >= 0]
  rows, months = right.T
  measured = reliability.measure_reliability(model, emissions.kinds)
  kept = (1 - measured.sharpness) / (1 - reliability.SHARPNESS)
  returns = measured.misplaced / reliability.MISPLACED_PER_RETURN
  losses = []
  for sharpness, number in itertools.product(SHARPNESS, MISPLACED_PER_RETURN):
    temper = Reliability(1 - (1 - sharpness) * kept, number * returns)
    chances = temper(posterior[rows])[np.arange(len(rows)), months]
    losses.append(float(-np.log(np.maximum(chances, _MIN_CHANCE)).mean()))
  is_carried = (emissions.kinds[rows[1:]] == NO_DATE) & (
    rows[1:] == rows[:-1] + 1
  )
  stays = np.mean((months[1:] == months[:-1])[is_carried])
  line = (
    f"{text}, {variant}: {is_carried.sum()} entries without a date, "
    f"{stays:.3f} in the month before, believed {model.rest[NO_DATE]:.3f}; "
    f"{measured}"
  )
  return losses, line


def main() -> None:
  """Prints the likelihoods of the right months."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--texts", default="guliang,houhanji")
  for name in ("sources", "outside", "complete"):
    parser.add_argument(
      f"--{name}", type=pathlib.Path, required=name != "complete"
    )
  flags = parser.parse_args()
  folders = {
    "sources": flags.sources,
    "outside": flags.outside,
    "complete": flags.complete,
  }
  losses = []
  for text, variant in itertools.product(flags.texts.split(","), VARIANTS):
    row, line = measure_likelihoods(text, variant, folders)
    losses.append(row)
    print(line, flush=True)
  means = np.mean(losses, axis=0).reshape(len(SHARPNESS), -1)
  rows = [
    (f"{sharpness:.2f}", *(f"{mean:.4f}" for mean in row))
    for sharpness, row in zip(SHARPNESS, means, strict=True)
  ]
  header = ("power", *(f"{number:.0f}" for number in MISPLACED_PER_RETURN))
  title = "mean -log p, by misplaced sections for each that goes back"
  print(tables.format_aligned_table(title, header, rows))


if __name__ == "__main__":
  main()
