"""Chronicles dated by what they print and by their order, against their gold.

  python -m tests.benchmarks.chronicle_order --texts=zuozhuan,changbian \\
    --sources=DIR --outside=DIR [--variants=printed,years_cut] [--rows=FILE]

Each text is dated as `ctd_jax.date` does and compared with the dates that its
edition prints (`chronicle_gold`): kept when printed, found again when cut. At
every place where a date is printed, it measures

  year, month   share whose most probable month is right
  coverage@90   share whose credible months hold the right one

With --pieces it does so for some years of a text alone, all years and months
cut. A date that is cut is still right for what follows it. Where entries are
left out or moved, and where months are cut, records are parted at every printed
date: an entry is what stands under one.
"""

import argparse
import itertools
import pathlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ctd_jax.dating.chronicle import chronicle_dating, chronicle_input
from ctd_jax.dating.chronicle.chronicle_dates import ChronicleDates
from ctd_jax.evaluation import results
from ctd_jax.texts.works import Entry
from tests.benchmarks import chronicle_texts, result_rows
from tests.benchmarks.chronicle_gold import GoldRecord, Month

_MAX_DAYS_APART = 2  # of first days of one month in two calendars
VARIANTS = (
  "printed",
  "years_cut",  # and headings
  "heads_cut",  # and seasons and months
  "halves",  # years cut, every second entry out
  "blocks",  # years cut, a third out in blocks
  "misplaced",  # years cut, a tenth of the entries moved
)
_NUM_KEPT, _NUM_LEFT_OUT = 40, 20  # mean lengths of blocks
_MOVED_SHARE = 0.1
_SEED = 42  # of what is left out or moved
_PUNCTUATION = re.compile(r"^[\W_]+")
_HAS_TEXT = re.compile(r"\w")


def make_variant(
  records: Sequence[GoldRecord], variant: str
) -> list[GoldRecord]:
  """Returns the records of a variant, their dates with them.

  Args:
    records: in order of print.
    variant: of `VARIANTS`.

  Raises:
    ValueError: if there is no such variant.
  """
  if variant not in VARIANTS:
    raise ValueError(f"no variant {variant!r}; there are {', '.join(VARIANTS)}")
  if variant == "printed":
    return list(records)
  entries = [record for record in records if not record.entry.is_heading]
  if variant == "years_cut":
    return _cut_all(entries, years_only=True)
  pieces = _cut_all(
    itertools.chain.from_iterable(map(split_record, entries)),
    years_only=variant != "heads_cut",
  )
  rng = np.random.default_rng(_SEED)
  if variant == "halves":
    return pieces[::2]
  if variant == "blocks":
    return _leave_out_blocks(pieces, rng)
  if variant == "misplaced":
    return _move_some(pieces, rng)
  return pieces


def cut_years(records: Sequence[GoldRecord], years: range) -> list[GoldRecord]:
  """Returns the records of some years, cut as in `heads_cut`.

  Raises:
    ValueError: if no record has a date in these years.
  """
  rows = [
    row
    for row, record in enumerate(records)
    if record.places and record.places[0].month.year in years
  ]
  if not rows:
    raise ValueError(f"no record is dated {years[0]} to {years[-1]}")
  piece = make_variant(records[rows[0] : rows[-1] + 1], "heads_cut")
  return list(itertools.dropwhile(lambda record: not record.places, piece))


def split_record(record: GoldRecord) -> list[GoldRecord]:
  """Returns the parts of a record, each from one printed date to the next."""
  text = record.entry.text
  starts = [0, *(start for start, _ in record.date_spans if start > 0)]
  pieces = []
  for start, stop in itertools.pairwise((*starts, len(text))):
    last = stop == len(text)

    def shift(spans: Iterable[tuple[int, int]], start=start, stop=stop):
      return tuple(
        (a - start, b - start) for a, b in spans if start <= a < stop
      )

    pieces.append(
      GoldRecord(
        _replace_text(record.entry, text[start:stop], start),
        tuple(
          place._replace(position=place.position - start)
          for place in record.places
          if start <= place.position < stop or (last and place.position == stop)
        ),
        shift(record.year_spans),
        shift(record.date_spans),
      )
    )
  return pieces


def cut_dates(record: GoldRecord, years_only: bool) -> GoldRecord:
  """Returns a record without its printed years, or without any printed date."""
  removed = record.year_spans if years_only else record.date_spans
  is_kept = np.ones(len(record.entry.text), bool)
  for first, last in removed:
    is_kept[first:last] = False
  text = "".join(itertools.compress(record.entry.text, is_kept))
  # 「，春，王正月」 is no opening: the pause after the year goes with it.
  opening = _PUNCTUATION.match(text)
  num_opening = opening.end() if opening and removed else 0
  text = text[num_opening:]

  def move(position: int) -> int:
    kept = int(is_kept[:position].sum()) - num_opening
    return min(max(kept, 0), max(len(text) - 1, 0))

  return GoldRecord(
    _replace_text(record.entry, text),
    tuple(
      place._replace(position=move(place.position)) for place in record.places
    ),
  )


def _cut_all(
  records: Iterable[GoldRecord], years_only: bool
) -> list[GoldRecord]:
  cut = (cut_dates(record, years_only) for record in records)
  # 「經元年」 leaves nothing.
  return [record for record in cut if _HAS_TEXT.search(record.entry.text)]


def _replace_text(entry: Entry, text: str, start: int = 0) -> Entry:
  place = entry.place_at(start)
  return Entry(text, place, entry.kind, line_starts=((0, place),))


def _leave_out_blocks(
  records: Sequence[GoldRecord], rng: np.random.Generator
) -> list[GoldRecord]:
  left: list[GoldRecord] = []
  start = 0
  while start < len(records):
    stop = start + 1 + rng.poisson(_NUM_KEPT)
    left += records[start:stop]
    start = stop + 1 + rng.poisson(_NUM_LEFT_OUT)
  return left


def _move_some(
  records: Sequence[GoldRecord], rng: np.random.Generator
) -> list[GoldRecord]:
  num_moved = round(_MOVED_SHARE * len(records))
  moved = set(rng.choice(len(records), num_moved, replace=False).tolist())
  rest = [record for row, record in enumerate(records) if row not in moved]
  for row in sorted(moved):
    rest.insert(int(rng.integers(len(rest) + 1)), records[row])
  return rest


def date_text(entries: Sequence[Entry], reigns: str) -> ChronicleDates:
  """Returns the dates of entries in order; `reigns` is what --reigns says."""
  return chronicle_dating.date_records(
    list(entries), chronicle_input.load_reigns(reigns, entries)
  )


def find_months(calendar, month: Month) -> frozenset[int]:
  """Returns the ordinals of a month that are right, none if it has none.

  The lunation, where its first day is known, and the month of the same name:
  tables differ by a month at times, above all before 104 BCE, and what is
  printed is the name.
  """
  rows = np.flatnonzero(
    (calendar.years == month.year)
    & (calendar.months == month.month)
    & (calendar.is_leap == month.is_leap)
  )
  ordinals = {int(row) for row in rows[:1]}
  if calendar.day_spans is not None and month.first_day:
    apart = np.abs(calendar.day_spans[:, 0] - month.first_day)
    if apart.min() <= _MAX_DAYS_APART:
      ordinals.add(int(apart.argmin()))
  return frozenset(ordinals)


class Judgement(NamedTuple):
  """One place, compared; None where the month is not known."""

  year_right: bool
  month_right: bool | None
  is_credible: bool | None  # whether the right month is


def judge(
  records: Sequence[GoldRecord], dates: ChronicleDates
) -> Iterator[Judgement]:
  """Yields every place, compared with the date of its section."""
  calendar = dates.calendar  # a long one was narrowed
  keys = np.array(
    [make_key(section.record, section.start) for section in dates.sections]
  )
  for number, record in enumerate(records):
    for place in record.places:
      key = make_key(number, place.position)
      section = int(np.searchsorted(keys, key, "right")) - 1
      given = int(dates.months[section, 0])
      month_right = is_credible = None
      if place.month.month:
        ordinals = find_months(calendar, place.month)
        month_right = given in ordinals
        credible = dates.credible.months_of(section)
        is_credible = not ordinals.isdisjoint(map(int, credible))
      year_right = bool(
        month_right
        or (
          given < len(calendar.years)
          and calendar.years[given] == place.month.year
        )
      )
      yield Judgement(year_right, month_right, is_credible)


def compute_figures(judgements: Sequence[Judgement]) -> dict[str, float]:
  """Returns metric -> value; a metric without a place is left out."""
  values = {
    "year": [each.year_right for each in judgements],
    "month": [each.month_right for each in judgements],
    "coverage@90": [each.is_credible for each in judgements],
  }
  known = {
    metric: [value for value in of_metric if value is not None]
    for metric, of_metric in values.items()
  }
  return {name: float(np.mean(each)) for name, each in known.items() if each}


def make_key(record: int, position: int) -> int:
  return (record << 32) + position


def measure(
  records: Sequence[GoldRecord], reigns: str, names: tuple[str, str, str]
) -> list[results.ResultRow]:
  """Returns the figures of records.

  `names` are those of the dataset, the text and the mode.
  """
  start_time = time.monotonic()
  dates = date_text([record.entry for record in records], reigns)
  seconds = time.monotonic() - start_time
  figures = compute_figures(list(judge(records, dates)))
  about = result_rows.describe_run("chronicle_order", seconds)
  dataset, text, mode = names
  names = dataset, text, "T0+order", "posterior", "test", mode, "heads"
  return [
    results.ResultRow(*names, metric, value, **about)
    for metric, value in figures.items()
  ]


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  texts = [
    name
    for name, (folder, *_) in chronicle_texts.TEXTS.items()
    if folder != "complete"
  ]
  parser.add_argument("--texts", default=",".join(texts))
  parser.add_argument("--variants", default=",".join(VARIANTS))
  parser.add_argument(
    "--pieces",
    help="years of texts, without their printed years and months, instead of "
    "whole texts: changbian:970-999,xinian:1127-1162",
  )
  parser.add_argument(
    "--sources", type=pathlib.Path, required=True, help="source texts"
  )
  parser.add_argument(
    "--outside",
    type=pathlib.Path,
    required=True,
    help="texts and calendars from outside",
  )
  parser.add_argument(
    "--complete",
    type=pathlib.Path,
    help="folder of kanripo/KR2b0007, kanripo/KR2b0024 and "
    "NiuTrans/Classical-Modern",
  )
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  return parser.parse_args()


def list_runs(
  flags: argparse.Namespace,
) -> Iterator[tuple[Sequence[GoldRecord], str, tuple[str, str, str]]]:
  """Yields the arguments of `measure` for each text and variant, or piece."""
  pieces = [
    piece.split(":") for piece in (flags.pieces or "").split(",") if piece
  ]
  texts = [text for text, _ in pieces] or flags.texts.split(",")
  for text in dict.fromkeys(texts):
    gold = chronicle_texts.read_gold(text, vars(flags))
    for of_text, years in pieces:
      if of_text == text:
        first, last = map(int, years.split("-"))
        piece = cut_years(gold.records, range(first, last + 1))
        names = "chronicles/years", f"{text} {years}", "heads_cut"
        yield piece, gold.reigns, names
    for variant in () if pieces else flags.variants.split(","):
      records = make_variant(gold.records, variant)
      yield records, gold.reigns, ("chronicles", text, variant)


def main() -> None:
  """Measures every text in every variant, or the pieces."""
  flags = read_flags()
  rows = []
  for records, reigns, names in list_runs(flags):
    of_text = measure(records, reigns, names)
    result_rows.print_rows(of_text)
    rows += of_text
    result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
