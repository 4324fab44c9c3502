"""Undated texts, dated by a chronicle that the order decoder has dated.

  python -m tests.benchmarks.undated_texts --chronicle=tongjian \\
    --sources=DIR --outside=DIR [--undated=sanguozhi] [--strip=all] \\
    [--without=neural] [--show=N] [--model=linked [--trained=FOLDER]]

`--model=linked` dates them by the linked network, trained on the chronicle or,
with `--trained`, elsewhere.

The chronicle is dated as `ctd_jax.date` does. Undated are then a tenth of its
sections, taken out of it and dated in no order; or, with --undated, the
stretches of another work that begin where its edition prints a month. All that
reads as a date is stripped from them (--strip=all), or nothing (--strip=none).
What is right is what the editions print (`chronicle_gold`). Measured of the
posterior:

  year, month   share of texts whose most probable year, month is right
  within_1      share whose most probable month is right to one month
  near          share whose most probable month is right to three years
  coverage@90   share whose smallest set of months of 90 % holds the right one
  size@90       median of the months in that set
  nll           mean of -log p of the right month
  ece           expected calibration error of the most probable month

and the seconds of dating the chronicle, and of fitting and dating the texts.
`--show=N` prints N texts with their reasons.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import pathlib
import time
import zlib
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import date_expressions
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating import calibration
from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  labelled_corpus,
)
from ctd_jax.dating.chronicle.chronicle_dates import (
  ChronicleDates,
  CredibleMonths,
)
from ctd_jax.dating.dating_model import DatingModel
from ctd_jax.dating.linked.linked_model import LinkedDatingModel
from ctd_jax.dating.linked.trained_dater import TrainedDater
from tests.benchmarks import chronicle_texts
from tests.benchmarks.chronicle_calendar import Month
from tests.benchmarks.chronicle_gold import GoldRecord
from tests.benchmarks.chronicle_order import DatedText

STRIPPED = ("all", "none")
_HELD_OUT = 10  # one section in so many
_NEAR_YEARS = 3
_MIN_CHARACTERS = 8  # of a text, dates stripped


@dataclasses.dataclass(frozen=True)
class UndatedText:
  """A text, and the month that is right.

  Attributes:
    text: as it is to be dated.
    month: ordinal in the calendar of the chronicle.
  """

  text: str
  month: int


def strip_dates(text: str, timeline: Timeline) -> str:
  """Returns a text without anything that reads as a date.

  Args:
    text: punctuated or not.
    timeline: whose reigns are names.
  """
  is_text = np.ones(len(text), bool)
  spans = [
    (start, end)
    for start, end, _ in date_expressions.find_full_dates(text, timeline)
  ]
  spans += [
    (cue.start, cue.end)
    for cue in date_expressions.find_date_cues(text, timeline)
  ]
  for start, end in spans:
    is_text[start:end] = False
  return "".join(itertools.compress(text, is_text)).lstrip("，、。；：")


def find_right_months(
  dates: ChronicleDates, records: Sequence[GoldRecord]
) -> np.ndarray:
  """Returns the ordinal of the month that is right of each section.

  -1 where the edition prints none for it, or two.
  """
  finder = make_month_finder(dates)
  keys = [(section.record, section.start) for section in dates.sections]
  starts = np.array([(record << 32) + start for record, start in keys])
  months = np.full(len(starts), -1)
  num_months = np.zeros(len(starts), int)
  for number, record in enumerate(records):
    for place in record.places:
      if not place.month.month:
        continue
      row = np.searchsorted(starts, (number << 32) + place.position, "right")
      month = find_month(finder, place.month)
      num_months[row - 1] += month != months[row - 1]
      months[row - 1] = month
  return np.where(num_months == 1, months, -1)


def make_month_finder(dates: ChronicleDates) -> DatedText:
  """Returns the calendar, as `chronicle_order` compares it with months."""
  calendar = dates.calendar
  spans = calendar.day_spans
  return DatedText(
    [],
    dates.months[:, 0],
    dates.probabilities[:, 0],
    None,
    calendar.years,
    calendar.months,
    calendar.is_leap,
    None if spans is None else spans[:, 0],
  )


def find_month(finder: DatedText, month: Month) -> int:
  """Returns the ordinal of a month, -1 if there is none, or two."""
  ordinals = finder.find_months(month)
  return min(ordinals) if len(ordinals) == 1 else -1


def take_sections(dates: ChronicleDates, is_kept: np.ndarray) -> ChronicleDates:
  """Returns some sections of a dated chronicle."""
  rows = np.flatnonzero(is_kept)
  months = [dates.credible.months_of(row) for row in rows]
  probabilities = [dates.credible.probabilities_of(row) for row in rows]
  return dataclasses.replace(
    dates,
    sections=[dates.sections[row] for row in rows],
    months=dates.months[rows],
    probabilities=dates.probabilities[rows],
    credible=CredibleMonths(
      np.cumsum([0, *map(len, months)]),
      np.concatenate(months),
      np.concatenate(probabilities),
    ),
    outside=dates.outside[rows],
    offsets=None if dates.offsets is None else dates.offsets[rows],
    is_fixed=dates.is_fixed[rows],
  )


def hold_out_sections(
  dates: ChronicleDates, records: Sequence[GoldRecord], stripped: str
) -> tuple[ChronicleDates, list[UndatedText]]:
  """Returns the chronicle without a tenth of its sections, and these."""
  months = find_right_months(dates, records)
  texts = [dates.text_of(row) for row in range(len(dates))]
  undated = [
    text if stripped == "none" else strip_dates(text, dates.calendar.timeline)
    for text in texts
  ]
  # By the text, so that copies are all held out.
  is_held_out = np.array(
    [zlib.crc32(text.encode()) % _HELD_OUT == 0 for text in texts]
  )
  is_text = np.array([len(text) >= _MIN_CHARACTERS for text in undated])
  rows = np.flatnonzero(is_held_out & is_text & (months >= 0))
  return take_sections(dates, ~is_held_out), [
    UndatedText(undated[row], int(months[row])) for row in rows
  ]


def read_other_work(
  dates: ChronicleDates, records: Sequence[GoldRecord], stripped: str
) -> list[UndatedText]:
  """Returns the stretches of another work that begin at printed months."""
  finder, timeline = make_month_finder(dates), dates.calendar.timeline
  texts = []
  for record in records:
    text = record.entry.text
    heads = [place for place in record.places if place.is_head]
    stops = [place.position for place in heads[1:]] + [len(text)]
    for place, stop in zip(heads, stops, strict=False):
      month = find_month(finder, place.month) if place.month.month else -1
      stretch = text[place.position : stop]
      if stripped == "all":
        stretch = strip_dates(stretch, timeline)
      if month >= 0 and len(stretch) >= _MIN_CHARACTERS:
        texts.append(UndatedText(stretch, month))
  return texts


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--chronicle", default="tongjian")
  parser.add_argument("--undated", default="", help="another work")
  parser.add_argument("--sources", type=pathlib.Path, required=True)
  parser.add_argument("--outside", type=pathlib.Path, required=True)
  parser.add_argument("--strip", choices=STRIPPED, default="all")
  parser.add_argument("--without", default="", help="evidence to leave out")
  parser.add_argument("--model", choices=("counts", "linked"), default="counts")
  parser.add_argument("--trained", help="folder of a trained dater")
  parser.add_argument("--min_probability", type=float, default=0.9)
  parser.add_argument("--show", type=int, default=0)
  flags = parser.parse_args()
  if flags.trained and flags.model == "counts":
    parser.error("--trained: of --model=linked alone")
  if flags.without and flags.model == "linked":
    parser.error("--without: of --model=counts alone")
  return flags


def make_model(
  labelled: labelled_corpus.LabelledCorpus, flags: argparse.Namespace
) -> DatingModel | LinkedDatingModel:
  """Returns the model of the flags, before it is fitted."""
  if flags.model == "counts":
    return labelled.make_model([n for n in flags.without.split(",") if n])
  model = LinkedDatingModel.make()
  if flags.trained:
    trained = TrainedDater.load(flags.trained)
    model = LinkedDatingModel.from_trained(trained)
  return labelled.make_linked_model(model)


def main() -> None:
  """Reads the flags, measures and prints."""
  flags = read_flags()
  folders = {
    "sources": flags.sources,
    "outside": flags.outside,
    "complete": None,
  }
  gold = chronicle_texts.read_gold(flags.chronicle, folders)
  entries = [record.entry for record in gold.records]
  start = time.monotonic()
  calendar = chronicle_input.load_reigns(gold.reigns, entries)
  dates = chronicle_dating.date_records(entries, calendar)
  decoding_seconds = time.monotonic() - start
  if flags.undated:
    other = chronicle_texts.read_gold(flags.undated, folders)
    undated = read_other_work(dates, other.records, flags.strip)
  else:
    dates, undated = hold_out_sections(dates, gold.records, flags.strip)
  start = time.monotonic()
  labelled = labelled_corpus.make_labelled_corpus(
    dates, [each.text for each in undated], flags.min_probability
  )
  model = make_model(labelled, flags)
  fitted = model.fit(labelled.corpus, labelled.labels)
  posterior = labelled.join_posterior(fitted.predict())
  months = np.array([each.month for each in undated])
  figures = dict(
    calibration.compute_posterior_metrics(posterior, labelled.text_rows, months)
  )
  log_p = posterior.log_p(labelled.text_rows)
  year_of = posterior.axis.year_of
  distances = np.abs(year_of[log_p.argmax(axis=1)] - year_of[months])
  figures["near"] = float((distances <= _NEAR_YEARS).mean())
  seconds = time.monotonic() - start
  figures |= {
    "texts": len(undated),
    "labelled": int(labelled.labels.is_known.sum()),
    "months": len(labelled.corpus.axis),
    "seconds_decoding": decoding_seconds,
    "seconds_dating": seconds,
  }
  print(" ".join(f"{name} {value:.4g}" for name, value in figures.items()))
  for index in range(min(flags.show, len(undated))):
    row = int(labelled.text_rows[index])
    log_p = posterior.log_p(np.array([row]))[0]
    names = [
      "".join(map(str, dates.name_month(month)))
      for month in (int(log_p.argmax()), undated[index].month)
    ]
    print(f"\n{undated[index].text[:60]}\n  {names[0]}", end=" ")
    print(f"p {np.exp(log_p.max()):.3f}; right: {names[1]}")
    for reason in fitted.explain(row)[:4]:
      print(
        f"  {reason.expert} {reason.weight:+.2f} {reason.evidence.note[:80]}"
      )


if __name__ == "__main__":
  main()
