"""Undated texts, dated by a chronicle that the order decoder has dated.

  python -m tests.benchmarks.undated_texts --chronicle=tongjian \\
    --sources=DIR --outside=DIR [--undated=sanguozhi] [--strip=all] \\
    [--systems=parser,counts] [--ctd=WORKDIR] [--rows=FILE] [--show=N]

The chronicle is dated as `ctd_jax.date` does. Undated are then a tenth of its
sections, taken out of it and dated in no order; or, with --undated, the
stretches of other works that begin where their editions print a month, those of
all works together. All that reads as a date is stripped from them
(--strip=all), or nothing (--strip=none). What is right is what the editions
print (`chronicle_gold`). `undated_systems` says how each system dates them.
Measured of the posterior:

  year, month   share of texts whose most probable year, month is right
  near          share whose most probable month is right to three years
  coverage@90   share whose smallest set of months of 90 % holds the right one
  size@90       median of the months in that set
  nll           mean of -log p of the right month
  ece           expected calibration error of the most probable month

with intervals that resample the years. `--show=N` prints N texts with the
reasons of the last system that has any.
"""

import argparse
import dataclasses
import itertools
import pathlib
import shlex
import sys
import zlib
from collections.abc import Sequence

import numpy as np

from ctd_jax.chronology import dates
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating.chronicle import chronicle_dating, chronicle_input
from ctd_jax.dating.chronicle.chronicle_dates import (
  ChronicleDates,
  CredibleMonths,
)
from ctd_jax.dating.corpus import MonthAxis
from ctd_jax.dating.dating_model import FittedDatingModel
from ctd_jax.evaluation import results, significance
from ctd_jax.evaluation.calibration import expected_calibration_error
from ctd_jax.utils import files
from tests.benchmarks import (
  chronicle_texts,
  labelled_corpus,
  posterior_metrics,
  undated_systems,
)
from tests.benchmarks.chronicle_calendar import Month
from tests.benchmarks.chronicle_gold import GoldRecord
from tests.benchmarks.chronicle_order import DatedText

STRIPPED = ("all", "none")
HELD_OUT = "held_out"  # sections of the chronicle itself
_HELD_OUT = 10  # one section in so many
_NEAR_YEARS = 3
_MIN_CHARACTERS = 8  # of a text, dates stripped


@dataclasses.dataclass(frozen=True)
class UndatedText:
  """A text, and the month that is right.

  Attributes:
    text: as it is to be dated.
    month: ordinal in the calendar of the chronicle.
    work: that it is of.
  """

  text: str
  month: int
  work: str = HELD_OUT


def strip_dates(text: str, timeline: Timeline) -> str:
  """Returns a text without anything that reads as a date.

  Args:
    text: punctuated or not.
    timeline: whose reigns are names.
  """
  is_text = np.ones(len(text), bool)
  spans = [
    (start, end) for start, end, _ in dates.find_full_dates(text, timeline)
  ]
  spans += [
    (cue.start, cue.end) for cue in dates.find_date_cues(text, timeline)
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
  dates: ChronicleDates,
  records: Sequence[GoldRecord],
  stripped: str,
  work: str,
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
        texts.append(UndatedText(stretch, month, work))
  return texts


def read_flags(arguments: Sequence[str] | None = None) -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

  def read_names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]

  parser.add_argument("--chronicle", default="tongjian")
  parser.add_argument(
    "--undated", type=read_names, default=[], help="other works"
  )
  parser.add_argument("--sources", type=pathlib.Path, required=True)
  parser.add_argument("--outside", type=pathlib.Path, required=True)
  parser.add_argument("--strip", choices=STRIPPED, default="all")
  parser.add_argument(
    "--systems",
    type=read_names,
    default=["counts"],
    help=f"of {', '.join(undated_systems.SYSTEMS)}",
  )
  parser.add_argument(
    "--ctd", type=pathlib.Path, help="workdir of a trained dual encoder"
  )
  parser.add_argument("--min_probability", type=float, default=0.9)
  parser.add_argument("--show", type=int, default=0)
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  flags = parser.parse_args(arguments)
  if unknown := set(flags.systems) - set(undated_systems.SYSTEMS):
    parser.error(
      f"--systems: unknown {', '.join(sorted(unknown))}; there are "
      f"{', '.join(undated_systems.SYSTEMS)}"
    )
  return flags


def measure_texts(
  log_p: np.ndarray, axis: MonthAxis, months: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
  """Returns what is measured of every text, and of all of them.

  Args:
    log_p: of the months, [n, K].
    axis: the months.
    months: that are right, [n].
  """
  predicted = log_p.argmax(axis=1)
  years = axis.year_of[months]
  holds, sizes = posterior_metrics.find_credible_sets(log_p, months)
  is_right = predicted == months
  values = {
    "month": is_right,
    "year": axis.to_years(log_p).argmax(axis=1) == years,
    "near": np.abs(axis.year_of[predicted] - years) <= _NEAR_YEARS,
    "nll": -log_p[np.arange(len(log_p)), months],
    "coverage@90": holds,
  }
  return values, {
    "size@90": float(np.median(sizes)),
    "ece": float(
      expected_calibration_error(np.exp(log_p.max(axis=1)), is_right)
    ),
    "texts": len(log_p),
  }


def make_rows(
  dated: undated_systems.DatedTexts,
  axis: MonthAxis,
  undated: Sequence[UndatedText],
  chronicle: str,
) -> list[results.ResultRow]:
  """Returns the figures of one system as rows of results, work by work."""
  rows = []
  about = {
    "seeds": dated.seeds,
    "command": shlex.join(
      ["python", "-m", "tests.benchmarks.undated_texts", *sys.argv[1:]]
    ),
    "commit": files.code_commit(),
    "seconds": round(dated.seconds, 1),
  }
  for work in dict.fromkeys(text.work for text in undated):
    index = np.array([text.work == work for text in undated])
    months = np.array([text.month for text in undated])[index]
    values, figures = measure_texts(dated.log_p[index], axis, months)
    ids = list(map(str, range(len(months))))
    years = dict(zip(ids, axis.year_of[months].tolist(), strict=True))
    intervals = {
      metric: significance.compute_bootstrap_interval(
        dict(zip(ids, each.astype(float).tolist(), strict=True)), years
      )
      for metric, each in values.items()
    }
    figures |= {metric: float(each.mean()) for metric, each in values.items()}
    rows += [
      results.ResultRow(
        f"across/{chronicle}",
        *(dated.system, "T0", dated.score_mode, "test", work, "all"),
        metric,
        value,
        *intervals.get(metric, (None, None)),
        **about,
      )
      for metric, value in figures.items()
    ]
    print(
      dated.system,
      work,
      *(f"{name} {value:.4g}" for name, value in figures.items()),
      f"seconds {dated.seconds:.0f}",
      flush=True,
    )
  return rows


def show_texts(
  fitted: FittedDatingModel,
  labelled: labelled_corpus.LabelledCorpus,
  undated: Sequence[UndatedText],
) -> None:
  """Prints texts with the reasons of their months."""
  posterior = fitted.predict()
  for row, text in zip(labelled.text_rows.tolist(), undated, strict=False):
    log_p = posterior.log_p(np.array([row]))[0]
    names = [
      "".join(map(str, labelled.dates.name_month(month)))
      for month in (int(log_p.argmax()), text.month)
    ]
    print(f"\n{text.text[:60]}\n  {names[0]}", end=" ")
    print(f"p {np.exp(log_p.max()):.3f}; right: {names[1]}")
    for reason in fitted.explain(row)[:4]:
      print(
        f"  {reason.expert} {reason.weight:+.2f} {reason.evidence.note[:80]}"
      )


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
  calendar = chronicle_input.load_reigns(gold.reigns, entries)
  dates = chronicle_dating.date_records(entries, calendar)
  undated = []
  for work in flags.undated:
    other = chronicle_texts.read_gold(work, folders)
    undated += read_other_work(dates, other.records, flags.strip, work)
  if not flags.undated:
    dates, undated = hold_out_sections(dates, gold.records, flags.strip)
  labelled = labelled_corpus.make_labelled_corpus(
    dates, [each.text for each in undated], flags.min_probability
  )
  axis = labelled.corpus.axis
  print(
    f"{len(undated)} texts, {int(labelled.labels.is_known.sum())} labels, "
    f"{len(axis)} months, {axis.num_years} years",
    flush=True,
  )
  rows, shown = [], None
  for dated in undated_systems.date_texts(labelled, flags.systems, flags.ctd):
    rows += make_rows(dated, axis, undated, flags.chronicle)
    if flags.rows:
      results.write_result_rows(flags.rows, rows)
    shown = dated.fitted or shown
  if shown is not None:
    show_texts(shown, labelled, undated[: flags.show])


if __name__ == "__main__":
  main()
