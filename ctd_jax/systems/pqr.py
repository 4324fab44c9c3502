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
from ctd_jax.retrieval.search import Found
from ctd_jax.systems import late_interaction

TRACK = "T0"
SCORE_MODE = "pseudo_queries"
RECORD, QUESTIONS = "sid", "generated_queries"  # fields of a line
MOST = 20  # pseudo-queries of a record
CLUSTERS = 4
SEED = 0  # of the clusters


def read(
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
  known = frozenset(record_ids)
  found: dict[str, list[str]] = {}
  with path.open(encoding="utf-8") as file:
    for number, line in enumerate(file, start=1):
      if not line.strip():
        continue
      place = f"{path}:{number}"
      record_id, questions = _parse(line, place)
      if record_id not in known:
        raise ValueError(
          f"{place}: field {RECORD}: {record_id!r} is no record of the data "
          f"set, whose ids are like {min(known)!r}"
        )
      if record_id in found:
        raise ValueError(f"{place}: field {RECORD}: {record_id!r} stands twice")
      found[record_id] = questions
  return found


def _parse(line: str, place: str) -> tuple[str, list[str]]:
  """Returns record id and pseudo-queries of a line."""
  try:
    entry = json.loads(line)
  except ValueError as error:
    raise ValueError(f"{place}: not JSON: {error}") from None
  if not isinstance(entry, dict):
    raise ValueError(f"{place}: expected an object")
  for field in (RECORD, QUESTIONS):
    if field not in entry:
      raise ValueError(f"{place}: no field {field}")
  record_id, questions = entry[RECORD], entry[QUESTIONS]
  if isinstance(record_id, bool) or not isinstance(record_id, str | int):
    raise ValueError(f"{place}: field {RECORD}: expected a record id")
  if not isinstance(questions, list) or not all(
    isinstance(question, str) for question in questions
  ):
    raise ValueError(f"{place}: field {QUESTIONS}: expected a list of texts")
  stripped = (question.strip() for question in questions)
  return str(record_id), list(dict.fromkeys(filter(None, stripped)))[:MOST]


def centres(vectors: np.ndarray) -> np.ndarray:
  """Returns the components [C, W] of a record, of length 1.

  Args:
    vectors: of its pseudo-queries [m, W], of length 1; up to `CLUSTERS` are
      the components themselves.
  """
  if len(vectors) <= CLUSTERS:
    return vectors
  clusters = _cluster().KMeans(CLUSTERS, random_state=SEED).fit(vectors)
  found = clusters.cluster_centers_
  norms = np.linalg.norm(found, axis=1, keepdims=True)
  return (found / np.maximum(norms, 1e-12)).astype(np.float32)


def _cluster() -> types.ModuleType:
  """Returns scikit-learn's clusters, without which other systems do."""
  try:
    from sklearn import cluster
  except ModuleNotFoundError as error:
    raise ValueError(
      f"the system pqr needs {error.name}: pip install 'ctd_jax[baselines]'"
    ) from None
  return cluster


def components(
  vectors: np.ndarray, owners: np.ndarray, records: int
) -> TokenVectors:
  """Returns the components of all records, [N, CLUSTERS, W].

  Args:
    vectors: of all pseudo-queries, of length 1, those of a record together.
    owners: record of each, ascending; every record has at least one.
    records: N.
  """
  found = np.zeros((records, CLUSTERS, vectors.shape[1]), np.float32)
  mask = np.zeros((records, CLUSTERS), bool)
  starts = np.searchsorted(owners, np.arange(records + 1))
  for row in tqdm.trange(records, desc="cluster", delay=2.0, disable=None):
    parts = centres(vectors[starts[row] : starts[row + 1]])
    found[row, : len(parts)] = parts
    mask[row, : len(parts)] = True
  return TokenVectors(found, mask)


def system(
  record_ids: Sequence[str],
  texts: Sequence[str],
  config: ml_collections.ConfigDict,
) -> Callable[[Sequence[str], int, Mapping[str, np.ndarray]], Found]:
  """Returns what ranks records for queries; it loads and encodes when called.

  Args:
    record_ids: [N].
    texts: of the records [N].
    config: `pqr` of a config.
  """

  @functools.cache
  def encoder() -> TextEncoder:
    return TextEncoder.load(
      config.source,
      pooling=config.pooling,
      normalize=True,
      max_length=config.record_length,
      prefix=config.record_prefix,
      end_token=config.end_token,
    )

  @functools.cache
  def gallery() -> TokenVectors:
    questions = read(config.pseudo_queries, record_ids)
    _cluster()  # what is missing is missed before the work
    asked = [
      (row, question)
      for row, record_id in enumerate(record_ids)
      for question in questions.get(record_id, ())
    ]
    silent = [row for row, i in enumerate(record_ids) if not questions.get(i)]
    if silent:
      logging.info(
        "%d of %d records have no pseudo-queries; their own text stands in",
        len(silent),
        len(texts),
      )
    owners = np.array([*(row for row, _ in asked), *silent])
    asking = dataclasses.replace(encoder(), prefix=config.query_prefix)
    vectors = np.concatenate(
      [
        asking.encode([question for _, question in asked]),
        encoder().encode([texts[row] for row in silent]),
      ]
    )
    order = np.argsort(owners, kind="stable")
    return components(vectors[order], owners[order], len(texts))

  def rank(
    queries: Sequence[str], k: int, galleries: Mapping[str, np.ndarray]
  ) -> Found:
    records = [(np.arange(len(texts)), gallery())]
    asking = dataclasses.replace(
      encoder(), prefix=config.query_prefix, max_length=config.query_length
    )
    vectors = asking.encode(queries)[:, None]
    asked = TokenVectors(vectors, np.ones(vectors.shape[:2], bool))
    return late_interaction.topk(asked, records, k, galleries)

  return rank
