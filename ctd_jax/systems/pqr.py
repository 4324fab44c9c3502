"""Records found by the questions that they would answer (PQR).

A query reads unlike a chronicle and like other questions. A chat model writes
some pseudo-queries of every record beforehand; at most `MAX_QUESTIONS` are
encoded and reduced to a few components (see `retrieval.record_components`), and
a record scores with the component that is closest to the query. A record
without pseudo-queries has its own text. The questions come from a file, which
`python -m ctd_jax.systems.pseudo_queries` writes. Track T0: they are made of
the text of the record alone.

Axes: Q queries, N records, W width, k results.

Source: ChunQiuTR, baseline PQR; constants of its release.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from absl import logging

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

if TYPE_CHECKING:  # they import JAX
  from ctd_jax.models.text_encoder import TextEncoder
  from ctd_jax.models.token_encoder import TokenVectors

TRACK = "T0"
SCORE_MODE = "pseudo_queries"
RECORD_FIELD, QUESTIONS_FIELD = "sid", "generated_queries"  # fields of a line
MAX_QUESTIONS = 20  # pseudo-queries of a record, as in the release


@dataclasses.dataclass(frozen=True, kw_only=True)
class PQRConfig(registry.SystemConfig):
  """Encoder and file of pseudo-queries."""

  SECTION: ClassVar[str] = "pqr"
  REQUIRED: ClassVar[tuple[str, ...]] = ("source", "pseudo_queries")

  source: str | None = None  # folder or hub id
  pseudo_queries: str | None = None  # JSON lines, see `systems.pseudo_queries`
  pooling: str = "cls"
  end_token: str = ""  # ends every text; "" = what the folder says
  query_prefix: str = ""  # before queries and pseudo-queries
  record_prefix: str = ""  # before the text of a record without any
  query_length: int = 128  # tokens
  record_length: int = 256  # tokens, also of pseudo-queries

  def validate(self) -> None:
    """Raises ValueError for a missing source or file or a wrong value."""
    self.check_positive("query_length", "record_length")
    super().validate()
    self.check_path("pseudo_queries")


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
          f"{location}: field {RECORD_FIELD}: {record_id!r} is no record of "
          f"the data set, whose ids are like {min(allowed_ids)!r}"
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


def make_search(
  record_ids: Sequence[str], texts: Sequence[str], config: PQRConfig
) -> registry.SearchFn:
  """Returns the search; its first call loads the encoder and encodes.

  Args:
    record_ids: [N].
    texts: of the records [N].
    config: of the encoder and the file.
  """

  @functools.cache
  def load_encoder() -> TextEncoder:
    from ctd_jax.models.text_encoder import TextEncoder

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
    from ctd_jax.retrieval import record_components

    questions = read_pseudo_queries(config.pseudo_queries, record_ids)
    # If it is missing, fail before texts are encoded.
    record_components.import_sklearn_cluster()
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
    # Stable sort: the order of a record's questions seeds its clusters.
    order = np.argsort(record_rows, kind="stable")
    return record_components.build_components(
      vectors[order], record_rows[order], len(texts)
    )

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    from ctd_jax.models.token_encoder import TokenVectors
    from ctd_jax.retrieval import late_interaction

    records = [(np.arange(len(texts)), encode_gallery())]
    query_encoder = dataclasses.replace(
      load_encoder(), prefix=config.query_prefix, max_length=config.query_length
    )
    # A query is a single vector, [Q, 1, W]: MaxSim takes its best component.
    vectors = query_encoder.encode(queries)[:, None]
    query_vectors = TokenVectors(vectors, np.ones(vectors.shape[:2], bool))
    return late_interaction.search_top_k_by_maxsim(
      query_vectors, records, k, galleries
    )

  return search


@registry.register("pqr", config=PQRConfig)
def make_pqr(
  benchmark: Benchmark, config: PQRConfig, context: registry.Context
) -> registry.System:
  """Returns the search by pseudo-queries."""
  from ctd_jax.retrieval.record_components import CLUSTER_SEED

  texts = [record.text for record in benchmark.records]
  return registry.System(
    track=TRACK,
    score_mode=SCORE_MODE,
    search=make_search(benchmark.record_ids, texts, config),
    seeds=(CLUSTER_SEED,),
  )
