"""Dense retrieval: the gallery ranked by the score of a trained model.

The gallery is encoded once, in packed batches that drop nothing, and every
query is scored against all of it with the score that was trained, or the one
that `config.eval` names; each gallery filters that one ranking. Several
processes share the texts and the queries, and each has all results.

Axes: Q queries, N records, k results.
"""

import functools
import hashlib
import os
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from absl import logging

from ctd_jax.benchmark import runs
from ctd_jax.evaluation import calibration, protocol
from ctd_jax.models import packing
from ctd_jax.models.calendar_heads import CalendarLogits, Gaussians
from ctd_jax.models.dual_encoder import (
  ENCODER,
  INNER_PRODUCTS,
  QUERY_ENCODER,
  DualEncoder,
  choose_query_tower,
)
from ctd_jax.models.encoding import Encoding
from ctd_jax.retrieval import search
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.training import date_marks, devices, train_step
from ctd_jax.training import experiment as experiments
from ctd_jax.training.experiment import SELECTION_METRIC, Experiment
from ctd_jax.training.input_pipeline import Tokens
from ctd_jax.utils import files, output

# Store of encodings: a gallery in files. It may be larger than the memory, and
# encoding it may outlast the machine. It is written in chunks, and a run that
# begins again encodes only the missing ones.

_VERSION = 2  # raised when files or the encodings in them change
CHUNK_SIZE = 65_536  # texts encoded and written at once
# Names of the files, one for every leaf of an encoding.
_FILE_NAMES = Encoding(
  semantic="semantic",
  absolute="absolute",
  scalar="scalar",
  logits=CalendarLogits("reign_logits", "year_logits", "month_logits"),
  year_code="year_code",
  gaussian=Gaussians("gaussian_mean", "gaussian_log_variance"),
  interval="interval",
)


def fingerprint_encodings(params: Any, tokens: Tokens, config: Any) -> str:
  """Returns the hexadecimal hash of everything that encodings depend on.

  Args:
    params: parameters of the dual encoder.
    tokens: tokens of the texts.
    config: config of the dual encoder; its repr names every field.
  """
  digest = hashlib.sha256(repr((_VERSION, config)).encode())
  # Array by array: a sharded model may not fit on one host.
  for leaf in (*jax.tree.leaves(params), tokens.ids, tokens.mask):
    leaf = np.ascontiguousarray(devices.fetch_to_host(leaf))
    digest.update(str(leaf.shape).encode())
    digest.update(leaf.reshape(-1).view(np.uint8))  # bf16 is not a buffer
  return digest.hexdigest()


def encode_to_files(
  folder: pathlib.Path,
  num_texts: int,
  encode_rows: Callable[[slice], Encoding],
  chunk_size: int = CHUNK_SIZE,
) -> Encoding:
  """Returns the encodings of all texts, as arrays mapped from files.

  Args:
    folder: folder of these encodings alone; see `fingerprint_encodings`.
    num_texts: number of texts N, at least 1.
    encode_rows: encodes the texts of a slice; every process calls it.
    chunk_size: texts encoded and written at once.
  """
  for start in range(0, num_texts, chunk_size):
    rows = slice(start, min(start + chunk_size, num_texts))
    # Written after the rows: a chunk that was cut off has none.
    marker = folder / f"done.{rows.start:09}-{rows.stop:09}"
    # All or none: encoding is a collective of all processes.
    if devices.is_true_in_all_processes(marker.exists()):
      continue
    encoding = encode_rows(rows)
    if devices.is_coordinator():
      write = functools.partial(_write_rows, folder, num_texts, rows)
      jax.tree.map(write, _FILE_NAMES, encoding)
      marker.touch()
  devices.wait_for_all("encodings in files")
  return jax.tree.map(
    lambda name: np.load(
      folder / f"{name}.npy", mmap_mode="r", allow_pickle=False
    ),
    _FILE_NAMES,
  )


def _write_rows(
  folder: pathlib.Path,
  num_texts: int,
  rows: slice,
  name: str,
  array: np.ndarray,
) -> None:
  """Writes some rows of a file, which is made for all texts."""
  path = folder / f"{name}.npy"
  if not path.exists():
    with files.atomic_path(path) as temporary:
      shape = num_texts, *array.shape[1:]
      np.lib.format.open_memmap(temporary, "w+", array.dtype, shape)
      # Reserves the space: writing into a hole of a mapped file on a full disk
      # kills the process without a message. macOS lacks the call.
      if hasattr(os, "posix_fallocate"):
        with temporary.open("r+b") as file:
          os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
  stored = np.load(path, mmap_mode="r+", allow_pickle=False)
  stored[rows] = array
  stored.flush()


# The posterior of a record is a number for each of thousands of months,
# computed again for every block of queries: few blocks, each of few records.
_POSTERIOR_BLOCKS = {"query_block": 1024, "record_block": 4096}
# Weights of the similarity in time that validation tries; the authors give
# theirs to one decimal.
FUSION_WEIGHTS = tuple(tenths / 10 for tenths in range(11))


def select_scoring_params(params: Any) -> Any:
  """Returns the parameters that turn encodings into scores and dates.

  They are local to the process: each scores its own queries.
  """
  scoring_params = {
    name: subtree
    for name, subtree in params.items()
    if name not in (ENCODER, QUERY_ENCODER)
  }
  return devices.to_process_local(scoring_params)


class TextRanker:
  """A model that encodes and ranks any tokenised texts; it compiles once."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    model: DualEncoder,
    mesh: jax.sharding.Mesh,
  ):
    """Prepares the compiled functions.

    Args:
      config: config of the run; its score and its section `eval` are read.
      model: the dual encoder.
      mesh: devices that encode.
    """
    self._config, self._model, self._mesh = config, model, mesh
    self._score_mode = config.eval.score_mode or config.score_mode
    self._dimension = config.eval.dimension
    if self._dimension > model.config.encoder.hidden_size:
      raise ValueError(
        f"config.eval.dimension={self._dimension}: the vectors have "
        f"{model.config.encoder.hidden_size} dimensions"
      )
    self._encode_step = train_step.make_encode_step(
      model, mesh, self._dimension
    )
    self._score_function = train_step.make_score_function(
      model, self._score_mode
    )

  def encode_texts(
    self, params: Any, tokens: Tokens, description: str
  ) -> Encoding:
    """Returns the encodings of all texts, as host arrays `[N, ...]`."""
    size = self._config.eval.batch_size
    shards = devices.count_batch_shards(self._mesh)
    size += -size % shards  # every device gets as many rows
    # Every process has all texts; each encodes the rows of its devices.
    sharding = devices.batch_sharding(self._mesh)
    encodings, order = [], []
    with output.Progress(
      desc=description, total=len(tokens), unit="text", leave=False
    ) as bar:
      for rows, texts in packing.iter_packed_batches(
        tokens.ids,
        tokens.mask,
        size,
        shards,
        self._model.config.encoder.max_length,
      ):
        texts = jax.tree.map(
          lambda x: jax.make_array_from_callback(
            x.shape, sharding, x.__getitem__
          ),
          texts,
        )
        encodings.append(
          devices.fetch_to_host(self._encode_step(params, texts))
        )
        order.append(rows)
        bar.update((rows >= 0).sum())
    order = np.concatenate(order)
    # Rows that only fill the last batch are -1 and sort first.
    text_positions = np.argsort(order)[-len(tokens) :]
    return jax.tree.map(
      lambda *leaves: np.concatenate(leaves)[text_positions], *encodings
    )

  def encode_records(self, params: Any, records: Tokens) -> Encoding:
    """Returns the encodings of a gallery.

    They are in memory, or mapped from files where `config.eval.vectors_dir`
    names a folder; encodings that are already there are not made again.
    """
    vectors_dir = self._config.eval.vectors_dir
    if not vectors_dir:
      return self.encode_texts(params, records, "encode records")
    model = self._model.config
    if self._dimension:  # whole vectors keep their names
      model = model, self._dimension
    name = fingerprint_encodings(params, records, model)[:16]
    folder = pathlib.Path(vectors_dir).expanduser() / name
    logging.info("encodings of %d records are in %s", len(records), folder)
    return encode_to_files(
      folder,
      len(records),
      lambda rows: self.encode_texts(params, records[rows], "encode records"),
    )

  def search_queries(
    self,
    params: Any,
    tokens: Tokens,
    intervals: np.ndarray | None,
    records: Encoding,
    k: int,
    galleries: Galleries,
  ) -> TopK:
    """Returns the k best records of tokenised queries, for every gallery.

    Args:
      params: parameters of the model.
      tokens: tokens of the queries.
      intervals: first and last ordinal month that the parser reads in them,
        int32 [Q, 2]; None if the model dates them.
      records: encodings of all records.
      k: results per query.
      galleries: masks over the records.
    """
    queries = self.encode_texts(
      choose_query_tower(params), tokens, "encode queries"
    )
    if intervals is not None:
      queries = queries.replace(interval=intervals)
    count = len(queries.scalar)
    # Every process searches for its share of the queries.
    local_rows = devices.process_slice(count)
    local_queries = jax.tree.map(lambda x: x[local_rows], queries)
    scoring_params = select_scoring_params(params)
    variables = {"params": scoring_params}
    if self._score_mode not in INNER_PRODUCTS:
      # Tables of all offsets, so that a pair costs a look-up.
      variables |= self._model.tables(scoring_params)
    top_k = search.search_top_k(
      local_queries,
      records,
      jax.tree_util.Partial(self._score_function, variables),
      k,
      galleries,
      **(_POSTERIOR_BLOCKS if self._score_mode == "posterior" else {}),
    )
    return devices.all_gather(top_k, count)


class Ranker(TextRanker):
  """The model of an experiment, which ranks its records for its queries."""

  def __init__(self, experiment: Experiment):
    """Prepares the compiled functions.

    Args:
      experiment: data set, model and settings of the evaluation.
    """
    super().__init__(experiment.config, experiment.model, experiment.mesh)
    self._experiment = experiment

  def encode_gallery(self, params: Any) -> Encoding:
    """Returns the encodings of all records; see `encode_records`."""
    return self.encode_records(params, self._experiment.records)

  def rank_split(
    self,
    params: Any,
    split: str,
    galleries: Galleries,
    depth: int,
    records: Encoding | None = None,
  ) -> list[runs.Run]:
    """Returns one run for each gallery.

    Args:
      params: parameters of the model.
      split: split of the queries.
      galleries: masks over the records.
      depth: records kept for a query.
      records: encodings of the gallery, if they exist already.
    """
    if records is None:
      records = self.encode_texts(
        params, self._experiment.records, "encode records"
      )
    query_intervals = self._experiment.query_intervals
    top_k = self.search_queries(
      params,
      self._experiment.queries[split],
      query_intervals[split] if query_intervals else None,
      records,
      depth,
      galleries,
    )
    return runs.make_runs(
      self._experiment.config.name,
      date_marks.find_track(self._experiment.config),
      self._score_mode,
      split,
      [query.query_id for query in self._experiment.benchmark.queries[split]],
      self._experiment.benchmark.record_ids,
      top_k,
    )

  def validate(self, params: Any) -> tuple[Any, dict[str, float]]:
    """Returns parameters with what validation chooses, and their metrics.

    That is the weight of the similarity in time in mode "temps": the first of
    the best of `FUSION_WEIGHTS`, which is among the metrics then.
    """
    if self._score_mode != "temps":
      return params, self.compute_validation_metrics(params)
    records = self.encode_texts(
      params, self._experiment.records, "encode records"
    )
    trials = []
    module = params["gaussian"]
    for weight in FUSION_WEIGHTS:
      value = jax.device_put(np.float32(weight), module["weight"].sharding)
      trial_params = {**params, "gaussian": {**module, "weight": value}}
      metrics = self.compute_validation_metrics(trial_params, records)
      trials.append(
        (trial_params, {**metrics, "validation/fusion_weight": weight})
      )
    return max(trials, key=lambda trial: trial[1][SELECTION_METRIC])

  def compute_validation_metrics(
    self, params: Any, records: Encoding | None = None
  ) -> dict[str, float]:
    """Returns the validation metrics of the mode that selects checkpoints.

    Args:
      params: parameters of the model.
      records: encodings of the gallery, if they exist already.
    """
    benchmark = self._experiment.benchmark
    mode = protocol.get_mode(self._experiment.config.eval.mode)
    gallery = mode.gallery
    (run,) = self.rank_split(
      params,
      "validation",
      {gallery: protocol.gallery_mask(benchmark.kinds, gallery)},
      depth=10,
      records=records,
    )
    kinds = {record.record_id: record.kind for record in benchmark.records}
    table = protocol.evaluate_run(
      run, benchmark.queries["validation"], kinds, mode
    )
    return {
      f"validation/{measure}": table.mean_of_family(measure)
      for measure in table.values
    }


def write_model_runs(experiment: Experiment) -> None:
  """Ranks with the best checkpoint and writes the run files.

  Raises:
    FileNotFoundError: if the workdir has no checkpoint.
    checkpoints.CheckpointError: if it has another architecture.
  """
  workdir, config = experiment.workdir, experiment.config
  step = experiment.checkpoints.best_step
  if step is None:
    raise FileNotFoundError(
      f"no checkpoint in {workdir}/checkpoints; train it to the first "
      "validation (config.eval_every)"
    )
  params = experiment.restore_params(step)
  logging.info("%s: evaluating the checkpoint of step %d", config.name, step)
  ranker = Ranker(experiment)
  records = ranker.encode_gallery(params)
  masks = protocol.gallery_masks(experiment.benchmark.kinds)
  model_config = experiment.model.config
  # Dates are written only if the posterior is over the data set's own months.
  writes_dates = (
    model_config.use_posterior
    and model_config.month_classes
    == train_step.month_classes(experiment.benchmark.timeline)
  )
  for split in experiments.evaluation_splits(
    experiment.benchmark, config.eval.splits
  ):
    split_runs = ranker.rank_split(
      params, split, masks, config.eval.depth, records
    )
    if devices.is_coordinator():
      for run in split_runs:
        runs.write_run(run, experiment.evaluation)
    if writes_dates:
      _write_dates(experiment, params, records, split)


def _write_dates(
  experiment: Experiment, params: Any, records: Encoding, split: str
) -> None:
  """Writes the model's dates of the records of a split."""
  rows = calibration.find_split_rows(experiment.benchmark, split)
  if len(rows):
    log_p = experiment.model.apply(
      {"params": select_scoring_params(params)},
      jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), records),
      method="log_months",
    )
    if not devices.is_coordinator():
      return
    calibration.write_dates(
      experiment.evaluation,
      experiment.config.name,
      split,
      experiment.benchmark,
      rows,
      np.asarray(log_p),
    )
