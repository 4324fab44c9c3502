"""Measures the dating experts on a built data set and writes result rows.

Prints, for every variant and ablation, the official and the event-only figures
(hit@1, MRR@10, nDCG@10; points, windows) and how right and calibrated the
posterior of the hidden events is. Labels of the train split alone are read;
those of the scored split only score.

  python tests/benchmarks/dating.py --data_dir=DIR [--split=validation]
    [--variants=strict,fitted,elimination] [--ablate] [--outside=DIR]

`--outside` names a folder of source texts: bracket notes of all commentaries in
it are read for their citations (track T0+external).
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import re
import sys
import time

import numpy as np

from ctd_jax import evaluate
from ctd_jax.chronology.annals import ANSWERING_KINDS, EVENT
from ctd_jax.dating import dater, ranking
from ctd_jax.dating.gallery import UNKNOWN, Labels
from ctd_jax.dating.posterior import quality
from ctd_jax.evaluation import protocol, results, summary
from ctd_jax.retrieval import runs
from ctd_jax_datasets import load

MODES = (protocol.OFFICIAL, protocol.EVENT_ONLY)
ABLATIONS = [field.name for field in dataclasses.fields(dater.Experts)]
_BRACKETED = re.compile(r"\(([^)]*)\)")
_MARKUP = re.compile(r"(?m)^#.*$|<[^>]*>|&[^;\s]*;|[¶\s/\u3000]")


def labels_of(benchmark) -> Labels:
  """Returns what is known of the records: month and kind, of train alone."""
  train = np.array(benchmark.record_splits) == "train"
  months = [benchmark.timeline.ordinal(each.key) for each in benchmark.records]
  answers = np.isin(benchmark.kinds, ANSWERING_KINDS).astype(int)
  return Labels(
    np.where(train, months, UNKNOWN), np.where(train, answers, UNKNOWN)
  )


def outside_notes(folder: pathlib.Path) -> list[str]:
  """Returns the bracket notes of the Kanripo editions below `folder`."""
  notes = []
  for path in sorted(folder.glob("*KR1e*/**/*.txt")):
    text = _MARKUP.sub("", path.read_text(encoding="utf-8"))
    notes += [note for note in _BRACKETED.findall(text.replace(")(", ""))]
  return notes


def per_query(benchmark, posterior, log_answers, split, system, track):
  """Returns the per-query tables of one posterior, one for each of `MODES`."""
  queries = benchmark.queries[split]
  galleries = {
    protocol.mode(mode).gallery: protocol.gallery_mask(
      benchmark.kinds, protocol.mode(mode).gallery
    )
    for mode in MODES
  }
  found = ranking.topk(
    [query.text for query in queries], posterior, log_answers, 10, galleries
  )
  made = runs.from_topk(
    system,
    track,
    ranking.SCORE_MODE,
    split,
    [query.query_id for query in queries],
    benchmark.record_ids,
    found,
  )
  kinds = {record.record_id: record.kind for record in benchmark.records}
  tables = []
  for mode in map(protocol.mode, MODES):
    run = next(run for run in made if run.gallery == mode.gallery)
    tables.append(protocol.evaluate_run(run, queries, kinds, mode))
  return tables


def report(name: str, split: str, tables, judged) -> None:
  """Prints one row."""
  cells = []
  for table in tables:
    every = table.means()
    values = [every["hit@1"], every["mrr@10"], every["ndcg@10"]]
    values += [table.mean("hit@1", family) for family in ("point", "window")]
    cells.append(f"{table.mode} " + " ".join(f"{v:.4f}" for v in values))
  cells.append(" ".join(f"{key} {value:.3f}" for key, value in judged.items()))
  print(f"{name:<34} {split:<10} " + " | ".join(cells), flush=True)


def main() -> None:
  """Reads the flags, measures and prints."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--split", default="validation")
  parser.add_argument("--variants", default="fitted,elimination")
  parser.add_argument("--ablate", action="store_true")
  parser.add_argument("--off", default="", help="experts to switch off")
  parser.add_argument("--outside", type=pathlib.Path)
  parser.add_argument(
    "--rows", type=pathlib.Path, help="file for result rows with intervals"
  )
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  labels = labels_of(benchmark)
  texts = [record.text for record in benchmark.records]
  notes = outside_notes(flags.outside) if flags.outside else []
  off = [name for name in flags.off.split(",") if name]
  settings = {"all": off}
  if flags.ablate:
    settings |= {f"without {name}": [*off, name] for name in ABLATIONS}
  months = np.array(
    [benchmark.timeline.ordinal(each.key) for each in benchmark.records]
  )
  scored = (np.array(benchmark.record_splits) == flags.split) & (
    benchmark.kinds == EVENT
  )
  years = summary.years_of(benchmark, flags.split)
  rows = []
  read: dict[bool, dater.Evidence] = {}
  for name, missing in settings.items():
    start = time.monotonic()
    experts = dater.Experts(**dict.fromkeys(missing, False))
    # Style alone is learned while reading; the rest is switched afterwards.
    seen = experts.punctuation
    if seen not in read:
      read[seen] = dater.read(texts, benchmark.timeline, labels, experts, notes)
    evidence = dataclasses.replace(read[seen], experts=experts)
    weights = dater.learn(evidence, labels)
    print(
      f"{name}: weights after {time.monotonic() - start:.0f} s", file=sys.stderr
    )
    for variant in flags.variants.split(","):
      if variant == "strict":
        posterior = dater.strict(evidence, labels, weights)
      else:
        posterior = dater.fitted(evidence, labels, weights)
        if variant == "elimination":
          posterior = dater.eliminated(posterior, labels)
      tables = per_query(
        benchmark,
        posterior,
        evidence.log_answers,
        flags.split,
        "-".join(["dating", variant, *missing]),
        "T0+external" if notes else "T0",
      )
      judged = quality(posterior, np.flatnonzero(scored), months[scored])
      title = f"{variant}, {name}" + (f" -{','.join(off)}" if off else "")
      report(title, flags.split, tables, judged)
      for table in tables:
        rows += results.result_rows(
          table,
          benchmark.name,
          years,
          command=" ".join(["python", *sys.argv]),
          commit=evaluate.commit(),
          seconds=round(time.monotonic() - start, 1),
        )
  if flags.rows:
    results.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
