"""Ranking by a linked dater with the cosine of a text encoder added.

  python -m tests.benchmarks.cosine_fusion --data_dir=DIR --trained=FOLDER \\
    --encoder=WORKDIR [--split=validation] [--weights=0,0.3,1,3,10]

The score of a record is the log mass that its posterior has in the months of
the question, and so many times the cosine of question and record. FOLDER is
that of a trained dater (`config.linked.save`), WORKDIR that of a trained dual
encoder of the same data set. Questions without a date that is read are left
out. Prints hit@1, MRR@10 and nDCG@10, official and of events.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np

from ctd_jax.dating import month_ranking, query_posterior
from ctd_jax.retrieval import dense, host_search, trained_system
from ctd_jax.systems import dated_gallery, linked_dating
from ctd_jax.training import experiment as experiments
from ctd_jax.training import run_folder
from ctd_jax.utils import tables
from ctd_jax_datasets import load
from tests.benchmarks import dating

MEASURES = ("hit@1", "mrr@10", "ndcg@10")


def encode_texts(
  workdir: pathlib.Path, questions: list[str], records: list[str]
) -> tuple[np.ndarray, np.ndarray]:
  """Returns unit vectors of questions and records, [Q, D] and [N, D]."""
  config = run_folder.read_config(workdir)
  experiment = experiments.assemble_experiment(config, workdir)
  system = trained_system.restore_system(experiment)
  ranker = dense.TextRanker(system.config, system.model, system.mesh)

  def encode(texts: list[str], length: int) -> np.ndarray:
    tokens = experiments.tokenize_records(texts, system.backbone, length)
    return ranker.encode_records(system.params, tokens).vectors("semantic")

  return (
    encode(questions, config.query_length),
    encode(records, config.record_length),
  )


def main() -> None:
  """Reads the flags, ranks with every weight and prints."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--split", default="validation")
  parser.add_argument("--trained", required=True, help="folder of a dater")
  parser.add_argument("--encoder", required=True, type=pathlib.Path)
  parser.add_argument(
    "--weights",
    type=lambda text: tuple(map(float, text.split(","))),
    default=(0.0, 0.3, 1.0, 3.0, 10.0),
  )
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  gallery = dated_gallery.read_dated_gallery(
    benchmark, (), linked_dating.load_linked_model(flags.trained)
  )
  posterior = gallery.make_posterior("fitted")
  read = query_posterior.read_queries(
    [query.text for query in benchmark.queries[flags.split]],
    posterior.axis.timeline,
  )
  is_read = read.is_read
  queries = [
    query
    for query, is_dated in zip(
      benchmark.queries[flags.split], is_read, strict=True
    )
    if is_dated
  ]
  question_vectors, record_vectors = encode_texts(
    flags.encoder,
    [query.text for query in queries],
    [record.text for record in benchmark.records],
  )
  cosines = question_vectors @ record_vectors.T
  months, month_rows = np.unique(
    read.intervals[is_read], axis=0, return_inverse=True
  )
  log_mass = posterior.log_mass(np.arange(len(posterior)), months)
  log_mass += np.maximum(
    gallery.features.event_log_p, month_ranking.MIN_EVENT_LOG_P
  )
  log_mass = log_mass[month_rows.reshape(-1)]
  rows = []
  for weight in flags.weights:
    scores = log_mass + weight * cosines
    top_k = {}
    for name, mask in dating.make_masks(benchmark).items():
      members = np.flatnonzero(mask)
      columns, values = host_search.select_top_k(
        scores[:, members], dating.DEPTH
      )
      top_k[name] = np.append(members, -1)[columns], values
    cells = [f"{weight:g}"]
    for table in dating.judge_rankings(
      gallery, queries, top_k, flags.split, "fused"
    ):
      means = table.means_by_measure()
      cells += [f"{means[measure]:.4f}" for measure in MEASURES]
    rows.append(cells)
  print(
    tables.format_aligned_table(
      f"{len(queries)} questions of {benchmark.name}, {flags.split}",
      ("weight", *MEASURES, *(f"events {measure}" for measure in MEASURES)),
      rows,
    )
  )


if __name__ == "__main__":
  main()
