"""Records found by the questions that they would answer (PQR).

A query reads like other questions, not like a chronicle. A chat model writes
some pseudo-queries for every record beforehand; at most `MAX_QUESTIONS` are
encoded and reduced to at most `NUM_CLUSTERS` components, the centres of
clusters. A record scores with the component closest to the query; a record
without pseudo-queries has its own text. The questions come from a file, which
`python -m ctd_jax.systems.pseudo_queries` writes. Track T0: they are made from
the text of the record alone.

Axes: Q queries, N records, C components of a record, W width, m vectors of a
record, M vectors of all records, k results.

Source: ChunQiuTR, baseline PQR; constants of its release.
"""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
from absl import logging
from jaxtyping import Bool, Float, Int

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.retrieval import host_search
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import published, registry
from ctd_jax.utils import output

MAX_QUESTIONS = 20  # pseudo-queries of a record, as in the release
NUM_CLUSTERS = 4
CLUSTER_SEED = 0  # of the initial centres


@dataclasses.dataclass(frozen=True, kw_only=True)
class PQRConfig(published.PublishedConfig):
  """Settings of the dense encoder and of the file of pseudo-queries.

  Pseudo-queries take the prompt of queries and the length of records.
  """

  SECTION: ClassVar[str] = "pqr"
  REQUIRED: ClassVar[tuple[str, ...]] = ("source", "pseudo_queries")

  pseudo_queries: str | None = None  # JSON lines, see `systems.pseudo_queries`

  def validate(self) -> None:
    """Raises ValueError for a missing source or file or a wrong value."""
    self.check_choice("kind", ("dense",))
    super().validate()
    self.check_path("pseudo_queries")


class PseudoQueries(msgspec.Struct):
  """A line of the file of pseudo-queries."""

  sid: str | int
  generated_queries: list[str]


def read_pseudo_queries(
  path: str | os.PathLike[str], record_ids: Collection[str]
) -> dict[str, list[str]]:
  """Returns record id -> its pseudo-queries, stripped, without repetition.

  Args:
    path: JSON lines with the fields sid and generated_queries.
    record_ids: ids of the gallery; a record may have no line.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if a line is malformed, or its record is unknown or stands
      twice; the message names file, line and field.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise FileNotFoundError(f"config.pqr.pseudo_queries={path}: no such file")
  allowed_ids = frozenset(record_ids)
  questions_by_record: dict[str, list[str]] = {}
  for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
    if not line.strip():
      continue
    location = f"{path}:{number}"
    try:
      row = msgspec.json.decode(line, type=PseudoQueries)
    except msgspec.MsgspecError as error:
      raise ValueError(f"{location}: {error}") from None
    record_id = str(row.sid)
    if record_id not in allowed_ids:
      raise ValueError(
        f"{location}: field sid: {record_id!r} is not a record of "
        f"the data set, whose ids are like {min(allowed_ids)!r}"
      )
    if record_id in questions_by_record:
      raise ValueError(f"{location}: field sid: {record_id!r} occurs twice")
    stripped = (question.strip() for question in row.generated_queries)
    questions = list(dict.fromkeys(filter(None, stripped)))
    questions_by_record[record_id] = questions[:MAX_QUESTIONS]
  return questions_by_record


def cluster_centres(
  vectors: Float[np.ndarray, "m W"],
) -> Float[np.ndarray, "C W"]:
  """Returns the components of a record, of length 1.

  Args:
    vectors: vectors of its pseudo-queries, of length 1; up to `NUM_CLUSTERS`
      are the components themselves.
  """
  if len(vectors) <= NUM_CLUSTERS:
    return vectors
  from sklearn import cluster

  kmeans = cluster.KMeans(NUM_CLUSTERS, random_state=CLUSTER_SEED).fit(vectors)
  centres = kmeans.cluster_centers_
  norms = np.linalg.norm(centres, axis=1, keepdims=True)
  # The centre of opposite vectors may be 0.
  return (centres / np.maximum(norms, 1e-12)).astype(np.float32)


def _build_components(
  vectors: Float[np.ndarray, "M W"],
  record_rows: Int[np.ndarray, " M"],
  num_records: int,
) -> tuple[Float[np.ndarray, "N C W"], Bool[np.ndarray, "N C"]]:
  """Returns the components of all records, and which of them there are."""
  components = np.zeros(
    (num_records, NUM_CLUSTERS, vectors.shape[1]), np.float32
  )
  mask = np.zeros((num_records, NUM_CLUSTERS), bool)
  starts = np.searchsorted(record_rows, np.arange(num_records + 1))
  for row in output.Progress(range(num_records), desc="cluster"):
    centres = cluster_centres(vectors[starts[row] : starts[row + 1]])
    components[row, : len(centres)] = centres
    mask[row, : len(centres)] = True
  return components, mask


def make_search(
  record_ids: Sequence[str], texts: Sequence[str], config: PQRConfig
) -> registry.SearchFn:
  """Returns the search; its first call loads the encoder and encodes.

  Args:
    record_ids: [N].
    texts: texts of the records [N].
    config: config of the encoder and the file.
  """
  encode = published.encode_dense
  # Pseudo-queries are read like queries, with the length of records.
  question_config = dataclasses.replace(
    config, query_length=config.record_length
  )

  @functools.cache
  def load_and_encode() -> tuple[Any, np.ndarray, np.ndarray]:
    questions = read_pseudo_queries(config.pseudo_queries, record_ids)
    model = published.open_dense(config)
    row_questions = [
      (row, question)
      for row, record_id in enumerate(record_ids)
      for question in questions.get(record_id, ())
    ]
    rows_without = [
      row for row, i in enumerate(record_ids) if not questions.get(i)
    ]
    parts = []
    if row_questions:
      parts.append(
        encode(
          model,
          [question for _, question in row_questions],
          published.QUERY,
          question_config,
        )
      )
    if rows_without:
      logging.info(
        "%d of %d records have no pseudo-queries; their own text is used",
        len(rows_without),
        len(texts),
      )
      parts.append(
        encode(
          model, [texts[row] for row in rows_without], published.RECORD, config
        )
      )
    record_rows = np.array([*(row for row, _ in row_questions), *rows_without])
    # Stable sort: the order of a record's questions seeds its clusters.
    order = np.argsort(record_rows, kind="stable")
    return model, *_build_components(
      np.concatenate(parts)[order], record_rows[order], len(texts)
    )

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    model, components, mask = load_and_encode()
    vectors = encode(model, queries, published.QUERY, config)

    def make_scorer(members: np.ndarray) -> host_search.BlockScorer:
      own, is_there = components[members], mask[members]

      def score_block(start: int, stop: int) -> np.ndarray:
        # A component that is not there never wins: -1 is the least cosine.
        return np.max(
          [
            np.where(is_there[:, c], vectors[start:stop] @ own[:, c].T, -1)
            for c in range(NUM_CLUSTERS)
          ],
          axis=0,
        )

      return score_block

    return host_search.search_top_k_by_gallery(
      make_scorer, len(queries), len(texts), k, galleries
    )

  return search


@registry.register("pqr", config=PQRConfig)
def make_pqr(
  benchmark: Benchmark, config: PQRConfig, context: registry.Context
) -> registry.System:
  """Returns the search by pseudo-queries."""
  texts = [record.text for record in benchmark.records]
  return registry.System(
    track="T0",
    score_mode="pseudo_queries",
    search=make_search(benchmark.record_ids, texts, config),
    seeds=(CLUSTER_SEED,),
    name=config.name,
  )
