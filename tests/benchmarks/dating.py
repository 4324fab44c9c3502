"""Accuracy and calibration of the dating model on a built data set.

Prints, for every variant and setting, the official and the event-only figures
(hit@1, MRR@10, nDCG@10; points, windows) and the accuracy and calibration of
the posterior of the hidden events. Labels of the train split alone are read;
those of the scored split only score.

  python -m tests.benchmarks.dating --data_dir=DIR
    [--split=validation] [--variants=strict,fitted,elimination]
    [--seeds=42,1,2] [--outside=FOLDER] [--ablate] [--strip=events]
    [--rows=FILE] [--plot=FILE]

`--ablate` also leaves out one kind of evidence at a time. `--outside` names the
folder of source texts: everything is measured once more with the bracket notes
of all editions in it, read for their citations (track T0+external).
`--strip=events` takes every date out of the records but placeholders,
`--strip=all` out of all.
"""

import argparse
import collections
import dataclasses
import itertools
import pathlib
import shlex
import sys
import time

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import EVENT
from ctd_jax.chronology import dates
from ctd_jax.dating import corpus, query_posterior
from ctd_jax.dating.dating_model import EVIDENCE, VARIANTS, DatingModel
from ctd_jax.dating.experts import base
from ctd_jax.evaluation import plots, protocol, results, significance
from ctd_jax.systems import dated_gallery
from ctd_jax.utils import files
from ctd_jax_datasets import load
from tests.benchmarks import posterior_metrics

MODES = (protocol.OFFICIAL_MODE, protocol.EVENT_ONLY_MODE)
DEPTH = 10  # records of a ranking
STRIPPED = ("none", "events", "all")


def without_dates(text: str, timeline) -> str:
  """Returns a text without anything that `expressions` reads as a date."""
  spans = [
    (start, end) for start, end, _ in dates.find_full_dates(text, timeline)
  ]
  spans += [(c.start, c.end) for c in dates.find_date_cues(text, timeline)]
  is_text = np.ones(len(text), bool)
  for start, end in spans:
    is_text[start:end] = False
  return "".join(itertools.compress(text, is_text))


def strip(benchmark, level: str):
  """Returns the benchmark with the dates taken out of its records."""
  texts = [record.text for record in benchmark.records]
  states = corpus.read_corpus(texts, benchmark.timeline).placeholder_month
  records = [
    record
    if level == "events" and state != corpus.UNKNOWN
    else dataclasses.replace(
      record, text=without_dates(record.text, benchmark.timeline)
    )
    for record, state in zip(benchmark.records, states, strict=True)
  ]
  return dataclasses.replace(benchmark, records=tuple(records))


def per_query(dated: dated_gallery.DatedGallery, dates, split: str, name: str):
  """Returns the per-query tables of one posterior, one for each of `MODES`."""
  queries = dated.benchmark.queries[split]
  top_k = query_posterior.rank_by_posterior(
    [query.text for query in queries],
    dates,
    DEPTH,
    make_masks(dated.benchmark),
  )
  return judge_rankings(dated, queries, top_k, split, name)


def make_masks(benchmark) -> dict[str, np.ndarray]:
  """Returns the galleries of `MODES`."""
  galleries = [protocol.get_mode(name).gallery for name in MODES]
  return {
    gallery: protocol.gallery_mask(benchmark.kinds, gallery)
    for gallery in galleries
  }


def judge_rankings(
  dated: dated_gallery.DatedGallery, queries, top_k, split: str, name: str
):
  """Returns the per-query tables of rankings, one for each of `MODES`."""
  benchmark = dated.benchmark
  made = runs.make_runs(
    name,
    dated.track,
    dated_gallery.SCORE_MODE,
    split,
    [query.query_id for query in queries],
    benchmark.record_ids,
    top_k,
  )
  kinds = {record.record_id: record.kind for record in benchmark.records}
  by_gallery = {run.gallery: run for run in made}
  modes = [protocol.get_mode(name) for name in MODES]
  return [
    protocol.evaluate_run(by_gallery[mode.gallery], queries, kinds, mode)
    for mode in modes
  ]


def report(name: str, split: str, tables, judged) -> None:
  """Prints one row."""
  cells = []
  for table in tables:
    means = table.means_by_measure()
    values = [means["hit@1"], means["mrr@10"], means["ndcg@10"]]
    values += [
      table.mean_of_family("hit@1", family) for family in ("point", "window")
    ]
    cells.append(f"{table.mode} " + " ".join(f"{v:.4f}" for v in values))
  cells.append(" ".join(f"{key} {value:.3f}" for key, value in judged.items()))
  print(f"{name:<44} {split:<10} " + " | ".join(cells), flush=True)


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--split", default="validation")
  parser.add_argument("--variants", default="fitted,elimination")
  parser.add_argument(
    "--seeds",
    type=lambda text: tuple(map(int, text.split(","))),
    default=(42,),
    help="e.g. 42,1,2",
  )
  parser.add_argument(
    "--ablate", action="store_true", help="leave out each evidence in turn"
  )
  parser.add_argument("--off", default="", help="experts to switch off")
  parser.add_argument("--strip", choices=STRIPPED, default="none")
  parser.add_argument("--outside", type=pathlib.Path)
  parser.add_argument(
    "--rows", type=pathlib.Path, help="file for result rows with intervals"
  )
  parser.add_argument(
    "--plot",
    type=pathlib.Path,
    help="file for the reliability of the first seed",
  )
  flags = parser.parse_args()
  if unknown := set(flags.variants.split(",")) - set(VARIANTS):
    parser.error(
      f"--variants: unknown {', '.join(sorted(unknown))}; there are "
      f"{', '.join(VARIANTS)}"
    )
  return flags


def settings_of(flags: argparse.Namespace) -> dict[str, tuple[str, ...]]:
  """Returns the evidence left out by name, the one to compare with first."""
  off = tuple(name for name in flags.off.split(",") if name)
  settings = {"-".join(["no", *off]) if off else "all": off}
  if flags.ablate:
    settings |= {
      "-".join(["no", *off, name]): (*off, name)
      for name in EVIDENCE
      if name not in off
    }
  return settings


def name_system(flags: argparse.Namespace, setting: str) -> str:
  """Returns the name of a system, with a place for its variant."""
  parts = ["dating-{}"]
  parts += [setting] * (setting != "all")
  parts += [f"stripped-{flags.strip}"] * (flags.strip != "none")
  return "-".join(parts)


@dataclasses.dataclass
class Measured:
  """One posterior over the seeds: tables by mode, its quality, its seconds.

  Of the first seed also the chance given to the likeliest month of every scored
  event, and whether that is right.
  """

  tables: list = dataclasses.field(default_factory=list)
  quality: list = dataclasses.field(default_factory=list)
  seconds: list = dataclasses.field(default_factory=list)
  first: tuple[np.ndarray, np.ndarray] | None = None


def galleries(flags: argparse.Namespace, benchmark):
  """Yields name, seed, dated gallery and the seconds it took to learn.

  The name has a place for the variant of the posterior.
  """
  tracks = [()]
  if flags.outside:
    tracks.append(dated_gallery.read_bracket_notes(flags.outside))
  read: dict[tuple, dated_gallery.DatedGallery] = {}
  # One encoder for a seed: what it reads, and so its fits, are the same for
  # every setting and track.
  encoders: dict[int, base.Expert] = {}
  for (name, off), seed, notes in itertools.product(
    settings_of(flags).items(), flags.seeds, tracks
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
    yield name_system(flags, name), seed, dated, time.monotonic() - started


def measure(flags: argparse.Namespace, benchmark) -> dict[str, Measured]:
  """Returns what was measured of each system and track, printing it."""
  months = np.array(
    [benchmark.timeline.ordinal(each.key) for each in benchmark.records]
  )
  scored = np.flatnonzero(
    (np.array(benchmark.record_splits) == flags.split)
    & (benchmark.kinds == EVENT)
  )
  if flags.strip != "none":
    benchmark = strip(benchmark, flags.strip)
  measured = collections.defaultdict(Measured)
  for template, seed, dated, learning in galleries(flags, benchmark):
    for variant in flags.variants.split(","):
      started = time.monotonic()
      dates = dated.date(variant)
      posterior = dates.posterior
      name = template.format(variant)
      found = per_query(dated, dates, flags.split, name)
      quality = posterior_metrics.compute_posterior_metrics(
        posterior, scored, months[scored]
      )
      title = f"{name}, {dated.track}"
      report(f"{title}, seed {seed}", flags.split, found, quality)
      each = measured[title]
      each.tables.append(found)
      each.quality.append(quality)
      each.seconds.append(learning + time.monotonic() - started)
      if len(each.tables) == 1:
        log_p = posterior.log_p(scored)
        right = log_p.argmax(axis=1) == months[scored]
        each.first = np.exp(log_p.max(axis=1)), right
  return measured


def rows_of(flags: argparse.Namespace, benchmark, measured: Measured) -> list:
  """Returns the result rows of one system: its rankings, then its dates."""
  tables = [
    protocol.average_seeds(each) for each in zip(*measured.tables, strict=True)
  ]
  about = {
    "seeds": flags.seeds,
    "command": shlex.join(
      ["python", "-m", "tests.benchmarks.dating", *sys.argv[1:]]
    ),
    "commit": files.code_commit(),
    "seconds": round(sum(measured.seconds), 1),
  }
  years = significance.find_query_years(benchmark, flags.split)
  rows = []
  for table in tables:
    rows += results.make_result_rows(table, benchmark.name, years, **about)
  first = tables[0]
  for metric in measured.quality[0]:
    rows.append(
      results.ResultRow(
        f"dating/{benchmark.name}",
        first.system,
        first.track,
        first.score_mode,
        first.split,
        "hidden_events",
        "all",
        metric,
        float(np.mean([each[metric] for each in measured.quality])),
        **about,
      )
    )
  return rows


def main() -> None:
  """Reads the flags, measures and prints."""
  flags = read_flags()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  measured = measure(flags, benchmark)
  if flags.rows:
    rows = [rows_of(flags, benchmark, each) for each in measured.values()]
    results.write_result_rows(flags.rows, itertools.chain.from_iterable(rows))
  if flags.plot:
    plots.plot_reliability(
      {name: each.first for name, each in measured.items()},
      flags.plot,
      f"{benchmark.name}, {flags.split}, dates of hidden events",
    )


if __name__ == "__main__":
  main()
