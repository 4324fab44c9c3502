"""Choice of the constants of `ctd_jax.dating.chronicle.reliability`.

  python -m tests.benchmarks.chronicle_reliability \\
    --texts=guliang,houhanji,zuozhuan,zuozhuan_wikisource \\
    --others=gongyang,sanguozhi,tongjian --sources=DIR --outside=DIR

Each text is dated with entries out, blocks out and entries misplaced
(`chronicle_variants`). The constants are those with which the credible months
of --texts, which are to hold 90 % of what is right, stray least from 87 to 93 %
in sum; of equal ones those with the least mean -log p. Where more than 93 % of
the most probable months are right no set can hold less, and that is no fault.
With the chosen constants and with those of the package a table shows both the
texts that they were chosen on and --others.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  dated_units,
  reliability,
)
from ctd_jax.dating.chronicle.emissions import SectionEmissions
from ctd_jax.dating.chronicle.reliability import TemperConstants
from ctd_jax.dating.sequence import decoder
from ctd_jax.dating.sequence.transition_model import TransitionModel
from ctd_jax.evaluation import calibration
from ctd_jax.utils import tables
from tests.benchmarks import (
  chronicle_order,
  chronicle_texts,
  chronicle_variants,
)

VARIANTS = ("halves", "blocks", "misplaced")
SHARPNESS = (0.65, 0.7)
RESTART_SLOPE = (20.0, 25.0, 30.0, 35.0)
MISPLACED_PER_RETURN = (2.0, 3.0, 4.0)
LEAST, MOST = 0.87, 0.93  # share of sets that hold what is right
_MIN_CHANCE = 1e-6  # of a month that was ruled out


@dataclasses.dataclass(frozen=True)
class DecodedHeads:
  """The printed heads of a text in a variant, decoded and not yet tempered.

  Attributes:
    name: of text and variant.
    posterior: of each head where it tells of the place it stands in, float32
      [R, P].
    other: of each where it tells of another, likewise; both add up to 1.
    log_emissions: of the same, float32 [R, S, P].
    right: ordinals that are right, of each.
    model: of the whole text.
    emissions: of the whole text.
  """

  name: tuple[str, str]
  posterior: np.ndarray
  other: np.ndarray
  log_emissions: np.ndarray
  right: list[frozenset[int]]
  model: TransitionModel
  emissions: SectionEmissions


@dataclasses.dataclass(frozen=True)
class Figures:
  """What is measured with some constants.

  Attributes:
    coverage: share of credible sets that hold what is right.
    month: share of most probable months that are right.
    num_credible: mean size of the sets.
    ece: expected calibration error of the most probable month.
    loss: mean -log p of what is right.
    sharpness: power.
    misplaced: share that may be of any month.
  """

  coverage: float
  month: float
  num_credible: float
  ece: float
  loss: float
  sharpness: float
  misplaced: float

  @property
  def deviation(self) -> float:
    """How far the coverage is from 87 to 93 %, as far as it could be there."""
    return max(LEAST - self.coverage, self.coverage - max(MOST, self.month), 0)


def decode_heads(
  text: str, variant: str, folders: Mapping[str, pathlib.Path | None]
) -> DecodedHeads:
  """Returns the heads of a text with their posteriors."""
  gold = chronicle_texts.read_gold(text, folders)
  records = chronicle_variants.make_variant(gold.records, variant)
  entries = [record.entry for record in records]
  calendar = chronicle_input.load_reigns(gold.reigns, entries)
  sections = chronicle_dating.read_all_sections(entries, calendar)
  calendar = chronicle_dating.weigh_readings(sections, calendar)
  units, unit_of_section = dated_units.join_headings(sections)
  emissions = SectionEmissions(units, calendar)
  prior = chronicle_dating.make_first_place_prior(emissions, calendar, None)
  windows = chronicle_dating.find_windows(emissions, calendar, prior)
  model, log_transitions, _ = chronicle_dating.learn_transitions(
    emissions, calendar, prior, windows
  )
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
  heads = [
    (int(unit_of_section[judgement.section]), months)
    for judgement in chronicle_order.judge(records, dated)
    if judgement.place.is_head and judgement.place.month.month
    if (months := dated.find_months(judgement.place.month))
  ]
  rows = np.array([row for row, _ in heads])
  posterior = np.empty((len(rows), len(calendar) + 1), np.float32)
  other = np.empty_like(posterior)
  for block in decoder.iter_posteriors(
    emissions, emissions.kinds, log_transitions, prior
  ):
    index = rows - block.start
    is_here = (index >= 0) & (index < len(block.own))
    posterior[is_here] = block.own[index[is_here]]
    other[is_here] = block.other[index[is_here]]
  return DecodedHeads(
    (text, variant),
    posterior,
    other,
    np.concatenate([emissions(row, row + 1) for row in rows.tolist()]),
    [months for _, months in heads],
    model,
    emissions,
  )


def measure(heads: DecodedHeads, constants: TemperConstants) -> Figures:
  """Returns what the heads have with some constants."""
  measured = reliability.measure_reliability(
    heads.model, heads.emissions, constants
  )
  temper = dataclasses.replace(
    measured, emissions=lambda start, stop: heads.log_emissions[start:stop]
  )
  block = decoder.SectionPosteriors(
    0, heads.posterior + heads.other, heads.posterior, heads.other, 0.0
  )
  posterior = block.date(temper)
  order = np.argsort(-posterior, axis=1, kind="stable")
  sums = np.cumsum(np.take_along_axis(posterior, order, 1), axis=1)
  sizes = (sums < decoder.CREDIBLE).sum(1) + 1
  is_right = np.array(
    [
      places[0] in right
      for places, right in zip(order, heads.right, strict=True)
    ]
  )
  is_credible = [
    not right.isdisjoint(places[:size].tolist())
    for places, size, right in zip(order, sizes, heads.right, strict=True)
  ]
  chances = np.array(
    [
      row[list(right)].sum()
      for row, right in zip(posterior, heads.right, strict=True)
    ]
  )
  return Figures(
    coverage=float(np.mean(is_credible)),
    month=float(is_right.mean()),
    num_credible=float(sizes.mean()),
    ece=float(
      calibration.expected_calibration_error(posterior.max(1), is_right)
    ),
    loss=float(-np.log(np.maximum(chances, _MIN_CHANCE)).mean()),
    sharpness=measured.sharpness,
    misplaced=measured.misplaced,
  )


def choose_constants(all_heads: Sequence[DecodedHeads]) -> TemperConstants:
  """Returns the constants with which the sets stray least, and prints all."""
  trials = []
  for values in itertools.product(
    SHARPNESS, RESTART_SLOPE, MISPLACED_PER_RETURN
  ):
    constants = TemperConstants(*values)
    figures = [measure(heads, constants) for heads in all_heads]
    deviation = sum(figure.deviation for figure in figures)
    loss = float(np.mean([figure.loss for figure in figures]))
    trials.append((round(deviation, 3), loss, values))
  rows = [
    (*map(str, values), f"{deviation:.3f}", f"{loss:.4f}")
    for deviation, loss, values in sorted(trials)
  ]
  header = ("power", "restarts", "returns", "deviation", "-log p")
  print(tables.format_table("constants", header, rows), flush=True)
  return TemperConstants(*min(trials)[-1])


def print_figures(
  title: str, all_heads: Sequence[DecodedHeads], constants: TemperConstants
) -> None:
  """Prints what every text and variant has with some constants."""
  rows = []
  for heads in all_heads:
    figures = measure(heads, constants)
    rows.append(
      (
        *heads.name,
        str(len(heads.right)),
        f"{figures.coverage:.3f}",
        f"{figures.month:.3f}",
        f"{figures.num_credible:.1f}",
        f"{figures.ece:.3f}",
        f"{figures.loss:.3f}",
        f"{figures.sharpness:.2f}",
        f"{figures.misplaced:.3f}",
      )
    )
  header = ("text", "variant", "heads", "coverage@90", "month", "size", "ece")
  header += ("-log p", "power", "misplaced")
  title = f"{title}: {constants}"
  print(tables.format_table(title, header, rows), flush=True)


def main() -> None:
  """Chooses the constants and shows what they do."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--texts", default="guliang,houhanji,zuozhuan,zuozhuan_wikisource"
  )
  parser.add_argument("--others", default="gongyang,sanguozhi,tongjian")
  parser.add_argument(
    "--variants",
    default=",".join(VARIANTS),
    help=f"of {', '.join(chronicle_variants.VARIANTS)}",
  )
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

  def decode(texts: str) -> list[DecodedHeads]:
    names = [name for name in texts.split(",") if name]
    return [
      decode_heads(text, variant, folders)
      for text, variant in itertools.product(names, flags.variants.split(","))
    ]

  all_heads = decode(flags.texts)
  chosen = choose_constants(all_heads)
  print_figures("chosen on", all_heads, chosen)
  all_heads += decode(flags.others)
  print_figures("chosen, all", all_heads, chosen)
  print_figures("package, all", all_heads, TemperConstants())


if __name__ == "__main__":
  main()
