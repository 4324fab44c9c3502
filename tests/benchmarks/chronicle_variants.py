"""Chronicles with dates cut out, entries left out, and entries misplaced.

A date that is cut is still right for what follows it. Where entries are left
out or moved, and where months are cut, records are parted at every printed
date: an entry is what stands under one.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from ctd_jax.texts.works import Entry
from tests.benchmarks.chronicle_gold import DatedPlace, GoldRecord

PUBLISHED, PRINTED, YEARS_CUT, HEADS_CUT, HALVES, BLOCKS, MISPLACED = (
  VARIANTS
) = (
  "published",
  "printed",
  "years_cut",
  "heads_cut",
  "halves",
  "blocks",
  "misplaced",
)
DESCRIPTIONS = {
  PUBLISHED: "with tables of contents and prefaces",
  PRINTED: "as printed, these left out",
  YEARS_CUT: "headings and years cut",
  HEADS_CUT: "headings, years, seasons and months cut",
  HALVES: "years cut, every second entry out",
  BLOCKS: "years cut, a third out in blocks",
  MISPLACED: "years cut, a tenth of the entries moved",
}
_NUM_KEPT, _NUM_LEFT_OUT = 40, 20  # mean lengths of blocks
_MOVED_SHARE = 0.1
_PUNCTUATION = re.compile(r"^[\W_]+")
_HAS_TEXT = re.compile(r"\w")


def make_variant(
  records: Sequence[GoldRecord], variant: str, seed: int = 42
) -> list[GoldRecord]:
  """Returns the records of a variant, their dates with them.

  Args:
    records: in order of print.
    variant: of `VARIANTS`.
    seed: of what is left out or moved.
  """
  if variant in (PUBLISHED, PRINTED):
    return list(records)
  entries = [record for record in records if not record.entry.is_heading]
  if variant == YEARS_CUT:
    return _cut_all(entries, years_only=True)
  pieces = list(itertools.chain.from_iterable(map(split_record, entries)))
  pieces = _cut_all(pieces, years_only=variant != HEADS_CUT)
  rng = np.random.default_rng(seed)
  if variant == HALVES:
    return pieces[::2]
  if variant == BLOCKS:
    return _leave_out_blocks(pieces, rng)
  if variant == MISPLACED:
    return _move_some(pieces, rng)
  return pieces


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
          dataclasses.replace(place, position=place.position - start)
          for place in record.places
          if start <= place.position < stop or (last and place.position == stop)
        ),
        shift(record.year_spans),
        shift(record.date_spans),
      )
    )
  # A part that opens without a date goes on under the date before it.
  for index in range(1, len(pieces)):
    piece, before = pieces[index], pieces[index - 1]
    if not piece.places and before.places:
      carried = DatedPlace(0, before.places[-1].month, is_head=False)
      pieces[index] = dataclasses.replace(piece, places=(carried,))
  return pieces


def cut_dates(record: GoldRecord, years_only: bool) -> GoldRecord:
  """Returns a record without its printed years, or without any printed date."""
  spans = record.year_spans if years_only else record.date_spans
  pieces, start = [], 0
  removed: list[tuple[int, int]] = []
  for first, last in spans:
    pieces.append(record.entry.text[start:first])
    start = last
    removed.append((first, last))
  pieces.append(record.entry.text[start:])
  text = "".join(pieces)
  # 「，春，王正月」 is no opening: the pause after the year goes with it.
  opening = _PUNCTUATION.match(text)
  num_opening = opening.end() if opening and removed else 0
  text = text[num_opening:]

  def move(position: int) -> int:
    before = sum(
      min(position, last) - first for first, last in removed if first < position
    )
    return min(max(position - before - num_opening, 0), max(len(text) - 1, 0))

  return GoldRecord(
    _replace_text(record.entry, text),
    tuple(
      dataclasses.replace(place, position=move(place.position))
      for place in record.places
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
