"""Accuracy and calibration of the dating model on a built data set.

Prints, for every variant and setting, the official and the event-only figures
and the accuracy and calibration of the posterior of the hidden events. Labels
of the train split alone are read; those of the scored split only score.

  python -m tests.benchmarks.dating --data_dir=DIR
    [--split=validation] [--variants=strict,fitted,elimination]
    [--seeds=42,1,2] [--outside=FOLDER] [--ablate[=empty]] [--off=neural]
    [--strip=events] [--rows=FILE]

`--ablate` also leaves out one kind of evidence at a time. `--outside` names the
folder of source texts: everything is measured once more with the bracket notes
of all editions in it, read for their citations (track T0+external).
`--strip=events` takes every date out of the records but placeholders.
"""

import argparse
import collections
import dataclasses
import itertools
import pathlib
import time

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import EVENT, NO_EVENT
from ctd_jax.chronology import dates
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating import query_posterior
from ctd_jax.dating.dating_model import EVIDENCE, DatingModel
from ctd_jax.dating.experts import base
from ctd_jax.evaluation import protocol, results, significance
from ctd_jax.systems import dated_gallery, dating_systems
from ctd_jax_datasets import load
from tests.benchmarks import posterior_metrics, result_rows

MODES = (protocol.OFFICIAL_MODE, protocol.EVENT_ONLY_MODE)
DEPTH = 10  # records of a ranking


def strip_dates(text: str, timeline: Timeline) -> str:
  """Returns a text without anything that reads as a date.

  Args:
    text: punctuated or not.
    timeline: whose reigns are names.
  """
  is_text = np.ones(len(text), bool)
  for start, end, _ in dates.find_full_dates(text, timeline):
    is_text[start:end] = False
  for cue in dates.find_date_cues(text, timeline):
    is_text[cue.start : cue.end] = False
  return "".join(itertools.compress(text, is_text))


def strip_events(benchmark):
  """Returns the benchmark with the dates taken out of all but placeholders."""
  records = [
    record
    if record.kind == NO_EVENT
    else dataclasses.replace(
      record, text=strip_dates(record.text, benchmark.timeline)
    )
    for record in benchmark.records
  ]
  return dataclasses.replace(benchmark, records=tuple(records))


def judge_queries(benchmark, posterior, split: str, name: str, track: str):
  """Returns the per-query tables of one posterior, one for each of `MODES`."""
  queries = benchmark.queries[split]
  modes = [protocol.get_mode(mode) for mode in MODES]
  masks = {
    mode.gallery: protocol.gallery_mask(benchmark.kinds, mode.gallery)
    for mode in modes
  }
  top_k = query_posterior.rank_by_posterior(
    [query.text for query in queries], posterior, DEPTH, masks
  )
  made = runs.make_runs(
    name,
    track,
    dated_gallery.SCORE_MODE,
    split,
    [query.query_id for query in queries],
    benchmark.record_ids,
    top_k,
  )
  kinds = {record.record_id: record.kind for record in benchmark.records}
  by_gallery = {run.gallery: run for run in made}
  return [
    protocol.evaluate_run(by_gallery[mode.gallery], queries, kinds, mode)
    for mode in modes
  ]


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = result_rows.make_parser(__doc__)
  parser.add_argument("--variants", default="fitted,elimination")
  parser.add_argument(
    "--seeds",
    type=lambda text: tuple(map(int, text.split(","))),
    default=(42,),
    help="e.g. 42,1,2",
  )
  parser.add_argument(
    "--ablate",
    nargs="?",
    const=",".join(EVIDENCE),
    default="",
    help="evidence to leave out in turn; all without a value",
  )
  parser.add_argument("--off", help="one kind of evidence to leave out")
  parser.add_argument("--strip", choices=("events",))
  parser.add_argument("--outside", type=pathlib.Path)
  return parser.parse_args()


def list_settings(flags: argparse.Namespace) -> dict[str, tuple[str, ...]]:
  """Returns system -> evidence left out; a name has a place for its variant."""
  off = (flags.off,) if flags.off else ()
  left_out = [off]
  if flags.ablate:
    names = flags.ablate.split(",")
    left_out += [(*off, name) for name in names if name not in off]
  stripped = "-stripped-events" * bool(flags.strip)
  return {
    "-".join(["dating-{}", *["no"] * bool(names), *names]) + stripped: names
    for names in left_out
  }


@dataclasses.dataclass
class Measured:
  """One posterior over the seeds: tables by mode, its quality, its seconds."""

  tables: list = dataclasses.field(default_factory=list)
  quality: list = dataclasses.field(default_factory=list)
  seconds: float = 0.0


def learn_galleries(flags: argparse.Namespace, benchmark):
  """Yields name, dated gallery and the seconds it took to learn."""
  tracks = [()]
  if flags.outside:
    tracks.append(dated_gallery.read_bracket_notes(flags.outside))
  read: dict[tuple, dated_gallery.DatedGallery] = {}
  # One encoder for a seed: what it reads, and so its fits, are the same for
  # every setting and track.
  encoders: dict[int, base.Expert] = {}
  for (name, off), seed, notes in itertools.product(
    list_settings(flags).items(), flags.seeds, tracks
  ):
    started = time.monotonic()
    model = DatingModel.without(off, seed)
    experts = tuple(
      encoders.setdefault(seed, expert) if expert.name == "neural" else expert
      for expert in model.experts
    )
    model = dataclasses.replace(model, experts=experts)
    # Style alone is learned while reading.
    key = model.use_punctuation, bool(notes)
    if key not in read:
      read[key] = dated_gallery.read_dated_gallery(benchmark, notes, model)
    dated = dataclasses.replace(read[key], model=model)
    _ = dated.fitted_model
    yield name, dated, time.monotonic() - started


def measure(flags: argparse.Namespace, benchmark) -> list[Measured]:
  """Returns what was measured of each system and track."""
  months = np.array(
    [benchmark.timeline.ordinal(each.key) for each in benchmark.records]
  )
  scored = np.flatnonzero(
    (np.array(benchmark.record_splits) == flags.split)
    & (benchmark.kinds == EVENT)
  )
  if flags.strip:
    benchmark = strip_events(benchmark)
  measured = collections.defaultdict(Measured)
  for template, dated, learning in learn_galleries(flags, benchmark):
    for variant in flags.variants.split(","):
      started = time.monotonic()
      posterior = dated.date(variant)
      name = template.format(variant)
      track = dating_systems.TRACK_BY_VARIANT[variant]
      if dated.features.corpus.external_texts:
        track += runs.EXTERNAL
      tables = judge_queries(benchmark, posterior, flags.split, name, track)
      quality = posterior_metrics.compute_posterior_metrics(
        posterior.posterior, scored, months[scored]
      )
      of_system = measured[name, track]
      of_system.tables.append(tables)
      of_system.quality.append(quality)
      of_system.seconds += learning + time.monotonic() - started
  return list(measured.values())


def make_rows(
  flags: argparse.Namespace, benchmark, measured: Measured
) -> list[results.ResultRow]:
  """Returns the result rows of one system: its rankings, then its dates."""
  tables = [
    protocol.average_seeds(each) for each in zip(*measured.tables, strict=True)
  ]
  about = result_rows.describe_run("dating", measured.seconds)
  about["seeds"] = flags.seeds
  years = significance.find_query_years(benchmark, flags.split)
  rows = []
  for table in tables:
    rows += results.make_result_rows(table, benchmark.name, years, **about)
  first = tables[0]
  names = first.system, first.track, first.score_mode, first.split
  return rows + [
    results.ResultRow(
      f"dating/{benchmark.name}",
      *(*names, "hidden_events", "all", metric),
      float(np.mean([each[metric] for each in measured.quality])),
      **about,
    )
    for metric in measured.quality[0]
  ]


def main() -> None:
  """Reads the flags, measures and prints."""
  flags = read_flags()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  rows = []
  for each in measure(flags, benchmark):
    of_system = make_rows(flags, benchmark, each)
    result_rows.print_rows(of_system)
    rows += of_system
  result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
