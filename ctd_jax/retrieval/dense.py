"""Ranks the gallery with a model's own score, or the one `config.eval` names.

The gallery is encoded once, in packed batches that drop nothing, and every
query is scored against all of it with the score that was trained; each gallery
filters that one ranking. Several processes share the texts and the queries, and
each has all results. `train` validates with it and `evaluate` writes its runs
to files.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import tqdm
from absl import logging

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import protocol
from ctd_jax.models import packing
from ctd_jax.models.ctd_config import INNER_PRODUCTS
from ctd_jax.models.encoding import Encoding
from ctd_jax.retrieval import (
  approximate,
  encoding_store,
  host_search,
  search,
)
from ctd_jax.training import distributed, partitioning, train_step
from ctd_jax.training.experiment import Experiment
from ctd_jax.training.input_pipeline import Tokens


def select_scoring_params(params: Any) -> Any:
  """Returns the parameters that turn encodings into scores and dates.

  Of several processes each works with these by itself.
  """
  scoring_params = {
    name: subtree for name, subtree in params.items() if name != "encoder"
  }
  return distributed.to_process_local(scoring_params)


class Ranker:
  """Encodes texts and ranks records; compiled functions are kept."""

  def __init__(self, experiment: Experiment):
    """Prepares the compiled functions.

    Args:
      experiment: what to rank and how.
    """
    self._experiment = experiment
    config = experiment.config
    self._score_mode = config.eval.score_mode or config.score_mode
    self._encode_step = train_step.make_encode_step(experiment.model)
    self._score_function = train_step.make_score_function(
      experiment.model, self._score_mode
    )

  def encode_texts(
    self, params: Any, tokens: Tokens, description: str
  ) -> Encoding:
    """Returns the encodings of all texts, as host arrays `[N, ...]`."""
    size = self._experiment.config.eval.batch_size
    shards = partitioning.count_batch_shards(self._experiment.mesh)
    size += -size % shards
    # Every process has all texts; each encodes the rows of its devices.
    sharding = partitioning.batch_sharding(self._experiment.mesh)
    encodings, order = [], []
    with tqdm.tqdm(
      desc=description,
      total=len(tokens),
      unit="text",
      leave=False,
      delay=2.0,
      disable=None,
    ) as bar:
      for rows, texts in packing.iter_packed_batches(
        tokens.ids,
        tokens.mask,
        size,
        shards,
        self._experiment.backbone.encoder.max_length,
      ):
        texts = jax.tree.map(
          lambda x: jax.make_array_from_callback(
            x.shape, sharding, x.__getitem__
          ),
          texts,
        )
        encodings.append(
          distributed.fetch_to_host(self._encode_step(params, texts))
        )
        order.append(rows)
        bar.update((rows >= 0).sum())
    order = np.concatenate(order)
    # Those that are no text come first.
    text_positions = np.argsort(order)[-len(tokens) :]
    return jax.tree.map(
      lambda *leaves: np.concatenate(leaves)[text_positions], *encodings
    )

  def encode_gallery(self, params: Any) -> Encoding:
    """Returns the encodings of all records.

    In memory, or where `config.eval.vectors_dir` names a folder, mapped from
    files there; those that it has of the same are not made again.
    """
    records, model = self._experiment.records, self._experiment.model
    folder = self._experiment.config.eval.vectors_dir
    if not folder:
      return self.encode_texts(params, records, "encode records")
    name = encoding_store.fingerprint_encodings(params, records, model.config)[
      :16
    ]
    folder = pathlib.Path(folder).expanduser() / name
    logging.info("encodings of %d records are in %s", len(records), folder)
    return encoding_store.encode_to_files(
      folder,
      len(records),
      lambda rows: self.encode_texts(params, records[rows], "encode records"),
    )

  def rank_split(
    self,
    params: Any,
    split: str,
    galleries: Mapping[str, np.ndarray],
    depth: int,
    records: Encoding | None = None,
    backend: str | None = None,
  ) -> list[runs.Run]:
    """Returns one run for each gallery.

    Args:
      params: of the model.
      split: whose queries.
      galleries: name -> mask over the records.
      depth: records kept for a query.
      records: encoding of the gallery if there is one already.
      backend: what searches; None = what `config.eval.backend` names.
    """
    if records is None:
      records = self.encode_texts(
        params, self._experiment.records, "encode records"
      )
    queries = self.encode_texts(
      params, self._experiment.queries[split], "encode queries"
    )
    query_intervals = self._experiment.query_intervals
    if query_intervals:
      queries = queries.replace(interval=query_intervals[split])
    count = len(queries.scalar)
    local_rows = distributed.process_slice(count)
    top_k = self._search_top_k(
      params,
      jax.tree.map(lambda x: x[local_rows], queries),
      records,
      depth,
      galleries,
      backend or self._experiment.config.eval.backend,
    )
    top_k = distributed.all_gather(top_k, count)
    return runs.make_runs(
      self._experiment.config.name,
      "T0",
      self._score_mode,
      split,
      [query.query_id for query in self._experiment.benchmark.queries[split]],
      self._experiment.benchmark.record_ids,
      top_k,
    )

  def _search_top_k(
    self,
    params: Any,
    queries: Encoding,
    records: Encoding,
    depth: int,
    galleries: Mapping[str, np.ndarray],
    backend: str,
  ) -> host_search.TopK:
    """Returns the first records of encoded queries, for every gallery."""
    model = self._experiment.model
    if backend == "exact":
      scoring_params = select_scoring_params(params)
      variables = {"params": scoring_params}
      if self._score_mode not in INNER_PRODUCTS:
        variables |= model.tables(scoring_params)
      score = jax.tree_util.Partial(self._score_function, variables)
      return search.search_top_k(queries, records, score, depth, galleries)
    return approximate.search_approximate_top_k(
      queries.vectors(self._score_mode) / model.config.temperature,
      records.vectors(self._score_mode),
      depth,
      galleries,
      backend.removeprefix(approximate.BACKEND_PREFIX),
    )

  def compute_validation_metrics(self, params: Any) -> dict[str, float]:
    """Returns the validation metrics of the mode that selects.

    The search is exact, whatever that of the evaluation is.
    """
    benchmark = self._experiment.benchmark
    mode = protocol.get_mode(self._experiment.config.eval.mode)
    gallery = mode.gallery
    (run,) = self.rank_split(
      params,
      "validation",
      {gallery: protocol.gallery_mask(benchmark.kinds, gallery)},
      depth=10,
      backend="exact",
    )
    kinds = {record.record_id: record.kind for record in benchmark.records}
    table = protocol.evaluate_run(
      run, benchmark.queries["validation"], kinds, mode
    )
    return {
      f"validation/{measure}": table.mean_of_family(measure)
      for measure in table.values
    }
