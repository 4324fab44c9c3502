"""Records found by the questions that they would answer (PQR).

Why: a query reads unlike a chronicle, and like other questions. A model that
writes text makes some pseudo-queries of every record beforehand; at most
`MOST` are encoded, more than `CLUSTERS` vectors are replaced by the centres of
as many clusters, and a record scores with the one of these vectors that is
closest to the query. A record without pseudo-queries has its own text. The
questions come from a file, which `python -m ctd_jax.systems.pseudo_queries` writes.
Track T0: they are made of the text of the record alone. Called by `baselines`.

Axes: Q queries, N records, C components of a record, W width, k results.

Source: ChunQiuTR, baseline PQR; constants of its release.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import types
from collections.abc import Callable, Collection, Mapping, Sequence

import ml_collections
import numpy as np
import tqdm
from absl import logging

from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.models.token_encoder import TokenVectors
from ctd_jax.retrieval.search import TopK
from ctd_jax.systems import late_interaction

TRACK = "T0"
SCORE_MODE = "pseudo_queries"
RECORD_FIELD, QUESTIONS_FIELD = "sid", "generated_queries"  # fields of a line
MAX_QUESTIONS = 20  # pseudo-queries of a record
NUM_CLUSTERS = 4
CLUSTER_SEED = 0  # of the clusters


def read_pseudo_queries(
  path: str | os.PathLike[str], record_ids: Collection[str]
) -> dict[str, list[str]]:
  """Returns record id -> its pseudo-queries, stripped, without repetition.

  Args:
    path: JSON lines with the fields sid and generated_queries.
    record_ids: of the gallery; a record may have no line.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: naming file, line and field, if a line is malformed, or its
      record is unknown or stands twice.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise FileNotFoundError(f"config.pqr.pseudo_queries={path}: no such file")
  allowed_ids = frozenset(record_ids)
  questions_by_record: dict[str, list[str]] = {}
  with path.open(encoding="utf-8") as file:
    for number, line in enumerate(file, start=1):
      if not line.strip():
        continue
      location = f"{path}:{number}"
      record_id, questions = _parse_line(line, location)
      if record_id not in allowed_ids:
        raise ValueError(
          f"{location}: field {RECORD_FIELD}: {record_id!r} is no record of the data "
          f"set, whose ids are like {min(allowed_ids)!r}"
        )
      if record_id in questions_by_record:
        raise ValueError(
          f"{location}: field {RECORD_FIELD}: {record_id!r} stands twice"
        )
      questions_by_record[record_id] = questions
  return questions_by_record


def _parse_line(line: str, location: str) -> tuple[str, list[str]]:
  """Returns record id and pseudo-queries of a line."""
  try:
    entry = json.loads(line)
  except ValueError as error:
    raise ValueError(f"{location}: not JSON: {error}") from None
  if not isinstance(entry, dict):
    raise ValueError(f"{location}: expected an object")
  for field in (RECORD_FIELD, QUESTIONS_FIELD):
    if field not in entry:
      raise ValueError(f"{location}: no field {field}")
  record_id, questions = entry[RECORD_FIELD], entry[QUESTIONS_FIELD]
  if isinstance(record_id, bool) or not isinstance(record_id, str | int):
    raise ValueError(f"{location}: field {RECORD_FIELD}: expected a record id")
  if not isinstance(questions, list) or not all(
    isinstance(question, str) for question in questions
  ):
    raise ValueError(
      f"{location}: field {QUESTIONS_FIELD}: expected a list of texts"
    )
  stripped = (question.strip() for question in questions)
  return str(record_id), list(dict.fromkeys(filter(None, stripped)))[
    :MAX_QUESTIONS
  ]


def cluster_centres(vectors: np.ndarray) -> np.ndarray:
  """Returns the components [C, W] of a record, of length 1.

  Args:
    vectors: of its pseudo-queries [m, W], of length 1; up to `CLUSTERS` are
      the components themselves.
  """
  if len(vectors) <= NUM_CLUSTERS:
    return vectors
  kmeans = (
    _import_sklearn_cluster()
    .KMeans(NUM_CLUSTERS, random_state=CLUSTER_SEED)
    .fit(vectors)
  )
  centres = kmeans.cluster_centers_
  norms = np.linalg.norm(centres, axis=1, keepdims=True)
  return (centres / np.maximum(norms, 1e-12)).astype(np.float32)


def _import_sklearn_cluster() -> types.ModuleType:
  """Returns scikit-learn's clusters, without which other systems do."""
  try:
    from sklearn import cluster
  except ModuleNotFoundError as error:
    raise ValueError(
      f"the system pqr needs {error.name}: pip install 'ctd_jax[baselines]'"
    ) from None
  return cluster


def build_components(
  vectors: np.ndarray, record_rows: np.ndarray, num_records: int
) -> TokenVectors:
  """Returns the components of all records, [N, CLUSTERS, W].

  Args:
    vectors: of all pseudo-queries, of length 1, those of a record together.
    record_rows: record of each, ascending; every record has at least one.
    num_records: N.
  """
  components = np.zeros(
    (num_records, NUM_CLUSTERS, vectors.shape[1]), np.float32
  )
  mask = np.zeros((num_records, NUM_CLUSTERS), bool)
  starts = np.searchsorted(record_rows, np.arange(num_records + 1))
  for row in tqdm.trange(num_records, desc="cluster", delay=2.0, disable=None):
    record_centres = cluster_centres(vectors[starts[row] : starts[row + 1]])
    components[row, : len(record_centres)] = record_centres
    mask[row, : len(record_centres)] = True
  return TokenVectors(components, mask)


def make_pqr_ranker(
  record_ids: Sequence[str],
  texts: Sequence[str],
  config: ml_collections.ConfigDict,
) -> Callable[[Sequence[str], int, Mapping[str, np.ndarray]], TopK]:
  """Returns what ranks records for queries; it loads and encodes when called.

  Args:
    record_ids: [N].
    texts: of the records [N].
    config: `pqr` of a config.
  """

  @functools.cache
  def load_encoder() -> TextEncoder:
    return TextEncoder.load(
      config.source,
      pooling=config.pooling,
      normalize=True,
      max_length=config.record_length,
      prefix=config.record_prefix,
      end_token=config.end_token,
    )

  @functools.cache
  def encode_gallery() -> TokenVectors:
    questions = read_pseudo_queries(config.pseudo_queries, record_ids)
    _import_sklearn_cluster()  # what is missing is missed before the work
    row_questions = [
      (row, question)
      for row, record_id in enumerate(record_ids)
      for question in questions.get(record_id, ())
    ]
    rows_without_questions = [
      row for row, i in enumerate(record_ids) if not questions.get(i)
    ]
    if rows_without_questions:
      logging.info(
        "%d of %d records have no pseudo-queries; their own text stands in",
        len(rows_without_questions),
        len(texts),
      )
    record_rows = np.array(
      [*(row for row, _ in row_questions), *rows_without_questions]
    )
    query_encoder = dataclasses.replace(
      load_encoder(), prefix=config.query_prefix
    )
    vectors = np.concatenate(
      [
        query_encoder.encode([question for _, question in row_questions]),
        load_encoder().encode([texts[row] for row in rows_without_questions]),
      ]
    )
    order = np.argsort(record_rows, kind="stable")
    return build_components(vectors[order], record_rows[order], len(texts))

  def rank_records(
    queries: Sequence[str], k: int, galleries: Mapping[str, np.ndarray]
  ) -> TopK:
    records = [(np.arange(len(texts)), encode_gallery())]
    query_encoder = dataclasses.replace(
      load_encoder(), prefix=config.query_prefix, max_length=config.query_length
    )
    vectors = query_encoder.encode(queries)[:, None]
    query_vectors = TokenVectors(vectors, np.ones(vectors.shape[:2], bool))
    return late_interaction.search_top_k_by_maxsim(
      query_vectors, records, k, galleries
    )

  return rank_records
