"""Chronicles dated by what they print and by their order, against their gold.

  python -m tests.benchmarks.chronicle_order --texts=zuozhuan,changbian \\
    --sources=DIR --outside=DIR [--variants=printed,years_cut] [--rows=FILE]

Each text is dated as `ctd_jax.date` does, in a process of its own, and compared
with the dates that its edition prints (`chronicle_gold`): kept when printed,
found again when cut. Places are of two families: `heads`, where a date is
printed, and `records`, entries without one that stand under the date before.
Of each is measured

  year, month   share of places whose most probable month is right
  coverage@90   share whose credible months hold the right one
  ece           expected calibration error of the most probable month

and of the run its seconds, with all compilation, and the peak of its memory.
`--show_errors=N` prints the first N wrong places.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import multiprocessing
import pathlib
import resource
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ctd_jax.evaluation import calibration, results
from ctd_jax.texts.works import Entry
from ctd_jax.utils import files, output
from tests.benchmarks import chronicle_texts, chronicle_variants
from tests.benchmarks.chronicle_calendar import Month
from tests.benchmarks.chronicle_gold import DatedPlace, GoldRecord

FAMILIES = ("heads", "records")
METRICS = ("year", "month", "coverage@90", "ece")
_MAX_DAYS_APART = 2  # of first days of one month in two calendars
_SHOWN_CHARACTERS = 24


@dataclasses.dataclass(frozen=True)
class DatedText:
  """What is measured of a dated chronicle.

  Attributes:
    starts: (record, position) of each section, ascending.
    months: ordinal of its most probable month.
    probabilities: of that month.
    credible: ordinals of its credible months; None if none were given.
    years: astronomical year of each month of the calendar.
    numbers: number of each, 1-12.
    is_leap: whether it is intercalary.
    first_days: Julian day number of its first day; None if not known.
    warnings: as they were printed.
  """

  starts: list[tuple[int, int]]
  months: np.ndarray
  probabilities: np.ndarray
  credible: list[np.ndarray] | None
  years: np.ndarray
  numbers: np.ndarray
  is_leap: np.ndarray
  first_days: np.ndarray | None
  warnings: tuple[str, ...] = ()

  def find_months(self, month: Month) -> frozenset[int]:
    """Returns the ordinals of a month that are right, none if it has none.

    The lunation, where its first day is known, and the month of the same name:
    tables differ by a month at times, above all before 104 BCE, and what is
    printed is the name.
    """
    rows = np.flatnonzero(
      (self.years == month.year)
      & (self.numbers == month.month)
      & (self.is_leap == month.is_leap)
    )
    ordinals = {int(row) for row in rows[:1]}
    if self.first_days is not None and month.first_day:
      row = int(np.abs(self.first_days - month.first_day).argmin())
      if abs(self.first_days[row] - month.first_day) <= _MAX_DAYS_APART:
        ordinals.add(row)
    return frozenset(ordinals)


@dataclasses.dataclass(frozen=True)
class Judgement:
  """One place, compared.

  Attributes:
    record: number of the record.
    place: with what is right.
    section: that holds it.
    year_right: whether the year is.
    month_right: whether the month is; None where it is not known.
    is_credible: whether the right month is among the credible ones, likewise.
    probability: of the month that was given.
  """

  record: int
  place: DatedPlace
  section: int
  year_right: bool
  month_right: bool | None
  is_credible: bool | None
  probability: float


@dataclasses.dataclass(frozen=True)
class Measurement:
  """One text in one variant.

  Attributes:
    figures: family -> metric -> value.
    counts: family -> number of places, of those with a month.
    num_records: that were dated.
    num_sections: that they were cut into.
    num_characters: of them.
    seconds: of dating, with compilation.
    gibibytes: peak memory of the process.
    errors: lines of `--show_errors`.
    warnings: of the run.
  """

  figures: dict[str, dict[str, float]]
  counts: dict[str, tuple[int, int]]
  num_records: int
  num_sections: int
  num_characters: int
  seconds: float
  gibibytes: float
  errors: tuple[str, ...]
  warnings: tuple[str, ...]


def date_text(entries: Sequence[Entry], reigns: str) -> DatedText:
  """Returns the dates of entries: the one place that knows how to get them.

  Args:
    entries: in order.
    reigns: what --reigns says.
  """
  from ctd_jax.dating.chronicle import chronicle_dating, chronicle_input

  dates = chronicle_dating.date_records(
    list(entries), chronicle_input.load_reigns(reigns, entries)
  )
  calendar = dates.calendar  # a long one was narrowed
  spans = calendar.day_spans
  return DatedText(
    [(section.record, section.start) for section in dates.sections],
    dates.months[:, 0],
    dates.probabilities[:, 0],
    [dates.credible.months_of(row) for row in range(len(dates.sections))],
    calendar.years,
    calendar.months,
    calendar.is_leap,
    None if spans is None else spans[:, 0],
    tuple(dates.warnings),
  )


def judge(
  records: Sequence[GoldRecord], dated: DatedText
) -> Iterator[Judgement]:
  """Yields every place, compared with the date of its section."""
  keys = np.array([_make_key(*start) for start in dated.starts])
  ordinals: dict[Month, frozenset[int]] = {}
  for number, record in enumerate(records):
    for place in record.places:
      key = _make_key(number, place.position)
      section = int(np.searchsorted(keys, key, "right")) - 1
      given = int(dated.months[section])
      right = place.month
      is_inside = given < len(dated.years)
      month_right = is_credible = None
      if right.month:
        if right not in ordinals:
          ordinals[right] = dated.find_months(right)
        month_right = given in ordinals[right]
        if dated.credible is not None:
          is_credible = not ordinals[right].isdisjoint(
            map(int, dated.credible[section])
          )
      year_right = bool(
        month_right or (is_inside and dated.years[given] == right.year)
      )
      yield Judgement(
        number,
        place,
        section,
        year_right,
        month_right,
        is_credible,
        float(dated.probabilities[section]),
      )


def compute_figures(judgements: Sequence[Judgement]) -> dict[str, float]:
  """Returns metric -> value; a metric without a place is left out."""
  figures = {}
  if judgements:
    figures["year"] = float(np.mean([j.year_right for j in judgements]))
  dated = [j for j in judgements if j.month_right is not None]
  if dated:
    is_right = np.array([j.month_right for j in dated])
    chances = np.array([j.probability for j in dated])
    figures["month"] = float(is_right.mean())
    figures["ece"] = float(
      calibration.expected_calibration_error(chances, is_right)
    )
  if dated and dated[0].is_credible is not None:
    figures["coverage@90"] = float(np.mean([j.is_credible for j in dated]))
  return figures


def measure(
  text: str,
  variant: str,
  folders: Mapping[str, pathlib.Path | None],
  num_shown: int,
) -> Measurement:
  """Returns what is measured of one text in one variant."""
  gold = chronicle_texts.read_gold(text, folders)
  front = gold.front if variant == chronicle_variants.PUBLISHED else ()
  records = chronicle_variants.make_variant((*front, *gold.records), variant)
  entries = [record.entry for record in records]
  start_time = time.monotonic()
  dated = date_text(entries, gold.reigns)
  seconds = time.monotonic() - start_time
  judgements = list(judge(records, dated))
  by_family = {
    family: [j for j in judgements if j.place.is_head == (family == "heads")]
    for family in FAMILIES
  }
  return Measurement(
    {family: compute_figures(found) for family, found in by_family.items()},
    {
      family: (
        len(found),
        sum(judgement.month_right is not None for judgement in found),
      )
      for family, found in by_family.items()
    },
    len(records),
    len(dated.starts),
    sum(len(entry.text) for entry in entries),
    seconds,
    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    tuple(_format_errors(records, dated, judgements, num_shown)),
    dated.warnings,
  )


def _make_key(record: int, position: int) -> int:
  return (record << 32) + position


def _format_errors(
  records: Sequence[GoldRecord],
  dated: DatedText,
  judgements: Sequence[Judgement],
  num_shown: int,
) -> Iterator[str]:
  """Yields a line for each of the first wrong places."""
  is_wrong = (
    j for j in judgements if not (j.year_right and j.month_right is not False)
  )
  for judgement, _ in zip(is_wrong, range(num_shown), strict=False):
    entry = records[judgement.record].entry
    position = judgement.place.position
    given = int(dated.months[judgement.section])
    name = "outside of the calendar"
    if given < len(dated.years):
      leap = "L" * bool(dated.is_leap[given])
      name = f"{dated.years[given]}.{dated.numbers[given]}{leap}"
    right = judgement.place.month
    leap = "L" * right.is_leap
    shown = entry.text[max(0, position - _SHOWN_CHARACTERS // 2) : position]
    shown += "|" + entry.text[position : position + _SHOWN_CHARACTERS]
    yield (
      f"{entry.place_at(position)}\t{shown}\tright {right.year}.{right.month}"
      f"{leap}\tgiven {name}\t{judgement.probability:.3f}"
    )


def make_rows(
  text: str, variant: str, measurement: Measurement, command: str
) -> list[results.ResultRow]:
  """Returns the figures of one text and variant as rows of results."""
  return [
    results.ResultRow(
      "chronicles",
      text,
      "T0+order",
      "posterior",
      "test",
      variant,
      family,
      metric,
      value,
      seeds=(),
      command=command,
      commit=files.code_commit(),
      seconds=round(measurement.seconds, 1),
    )
    for family, figures in (
      *measurement.figures.items(),
      ("all", {"gibibytes": round(measurement.gibibytes, 2)}),
    )
    for metric, value in figures.items()
  ]


def format_measurement(measurement: Measurement) -> str:
  """Returns a table of both families, and what the run cost."""
  rows = []
  for family in FAMILIES:
    figures = measurement.figures[family]
    rows.append(
      (
        family,
        *map(str, measurement.counts[family]),
        *(
          f"{figures[metric]:.4f}" if metric in figures else "-"
          for metric in METRICS
        ),
      )
    )
  table = output.format_table(
    f"{measurement.num_records} records, {measurement.num_characters} "
    f"characters, {measurement.num_sections} sections, "
    f"{measurement.seconds:.0f} s, {measurement.gibibytes:.2f} GiB",
    ("family", "places", "months", *METRICS),
    rows,
  )
  return "\n".join((table, *measurement.warnings, *measurement.errors))


def _read_names(allowed: Sequence[str], flag: str):
  """Returns a parser of names with commas."""

  def parse(value: str) -> list[str]:
    names = [name for name in value.split(",") if name]
    unknown = [name for name in names if name not in allowed]
    if unknown or not names:
      raise argparse.ArgumentTypeError(
        f"no {flag} {''.join(unknown[:1])!r}; there are {', '.join(allowed)}"
      )
    return names

  return parse


def read_flags(arguments: Sequence[str] | None = None) -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  every_text = list(chronicle_texts.TEXTS)
  parser.add_argument(
    "--texts",
    type=_read_names(every_text, "text"),
    default=[name for name in every_text if name != "tongjian_complete"],
    help=f"of {', '.join(every_text)}; by default all but tongjian_complete",
  )
  parser.add_argument(
    "--variants",
    type=_read_names(chronicle_variants.VARIANTS, "variant"),
    default=list(chronicle_variants.VARIANTS[1:]),
    help="; ".join(
      f"{name}: {text}"
      for name, text in chronicle_variants.DESCRIPTIONS.items()
    ),
  )
  for name, content in (
    ("sources", "source texts"),
    ("outside", "texts and calendars from outside"),
  ):
    parser.add_argument(
      f"--{name}", type=pathlib.Path, required=True, help=f"folder of {content}"
    )
  parser.add_argument(
    "--complete",
    type=pathlib.Path,
    help="folder of kanripo/KR2b0007 and NiuTrans/Classical-Modern",
  )
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  parser.add_argument(
    "--show_errors", type=int, default=0, help="wrong places to print"
  )
  parser.add_argument(
    "--gold_only", action="store_true", help="count the heads, date nothing"
  )
  return parser.parse_args(arguments)


def _list_folders(
  flags: argparse.Namespace,
) -> dict[str, pathlib.Path | None]:
  return {
    name: getattr(flags, name) for name in ("sources", "outside", "complete")
  }


def print_gold(flags: argparse.Namespace) -> None:
  """Prints how many heads were taken and why others were not."""
  for name in flags.texts:
    gold = chronicle_texts.read_gold(name, _list_folders(flags))
    places: collections.Counter[str] = collections.Counter(
      FAMILIES[not place.is_head]
      for record in gold.records
      for place in record.places
    )
    rows = [(key, str(value)) for key, value in gold.counts.items()]
    rows += [(f"places: {key}", str(value)) for key, value in places.items()]
    print(
      output.format_table(
        f"{name}: {len(gold.records)} records", ("heads", "number"), rows
      ),
      flush=True,
    )


def main() -> None:
  """Measures every text in every variant."""
  flags = read_flags()
  print_gold(flags)
  if flags.gold_only:
    return
  command = shlex.join(
    ["python", "-m", "tests.benchmarks.chronicle_order", *sys.argv[1:]]
  )
  rows = []
  context = multiprocessing.get_context("spawn")
  for text in flags.texts:
    for variant in flags.variants:
      # A process for each: its memory is its own.
      with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        measurement = pool.submit(
          *(measure, text, variant, _list_folders(flags), flags.show_errors),
        ).result()
      description = chronicle_variants.DESCRIPTIONS[variant]
      print(f"{text}, {variant} ({description})")
      print(format_measurement(measurement), flush=True)
      rows += make_rows(text, variant, measurement, command)
      if flags.rows:
        results.write_result_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
