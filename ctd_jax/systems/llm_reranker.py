"""The first records of another system, put in order by a language model.

The model reads query and record together and is asked whether the record meets
the query; a record scores with the probability of yes among {no, yes} as the
next token:

  score = (1 - mixing) * p(yes) + mixing * clip((cosine + 1) / 2, 0, 1)

with the cosine of the first system. Why: two texts read together are understood
better than two vectors; it costs a forward pass a pair, so another system
chooses the candidates. Their run files are read, as those of any system: a
dense encoder's, BM25's, somebody else's. The track is that of the first system:
what is read beyond its ranking are texts. Called by `baselines`.

Axes: Q queries, k results, P pairs, D width.

Source: ChunQiuTR, optional reranker; model card of Qwen3-Reranker (prompt).
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import pathlib
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.models.encoders.decoder import DecoderConfig
from ctd_jax.models.pooling import pool
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.retrieval.search import Found

SCORE_MODE = "reranked"
ANSWERS = ("no", "yes")
_OUTPUT = "lm_head.weight"
# What the published rerankers were trained with.
_BEFORE = (
  "<|im_start|>system\nJudge whether the Document meets the requirements based "
  "on the Query and the Instruct provided. Note that the answer can only be "
  '"yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_BEHIND = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def _question(instruction: str, query: str, record: str) -> str:
  """Returns what the model is asked, without what stands around it."""
  return f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {record}"


class Reranker:
  """A causal language model that says no or yes."""

  def __init__(self, config: ml_collections.ConfigDict):
    """Loads a folder or the model of a hub id.

    Args:
      config: `rerank` of a config.

    Raises:
      FileNotFoundError: if the folder or one of its files is missing.
      ValueError: if a file does not fit, a token is missing, or it is no
        causal language model.
    """
    folder = hub_folders.find(config.source)
    self._config = config
    self._encoder = TextEncoder.load(
      folder,
      pooling="last",
      max_length=config.max_length,
      dtype=config.dtype,
      scan_layers=True,
      prefix=_BEFORE,
      suffix=_BEHIND,
    )
    geometry = self._encoder.config
    if not (isinstance(geometry, DecoderConfig) and geometry.causal):
      raise ValueError(f"{folder}: expected a causal language model")
    empty = _BEFORE + _question(config.instruction, "", "") + _BEHIND
    tokens = self._encoder.tokenizer.token_ids([empty], geometry.max_length)
    if config.max_length <= len(tokens[0]):
      raise ValueError(
        f"config.rerank.max_length={config.max_length}: the prompt alone has "
        f"{len(tokens[0])} tokens"
      )
    self._head = _answer_rows(folder, self._encoder)

  def __call__(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Returns p(yes) of pairs of query and record, fp32 [P]."""
    texts = [_question(self._config.instruction, *pair) for pair in pairs]
    found = np.zeros(len(pairs), np.float32)
    size = self._config.batch_size
    for rows, states, mask in self._encoder.batches(texts, size):
      found[rows] = _p_yes(states, mask, self._head)[: len(rows)]
    return found


def _answer_rows(folder: pathlib.Path, encoder: TextEncoder) -> np.ndarray:
  """Returns the rows of the output layer for `ANSWERS`, [2, D].

  The token table is the output layer where the folder has no other.
  """
  ids = [encoder.tokenizer.token_id(answer) for answer in ANSWERS]
  if None in ids:
    raise ValueError(
      f"{folder}: {ANSWERS[ids.index(None)]!r} is not one token of the "
      "vocabulary; a reranker answers with no or yes"
    )
  tensors = hub_folders.TensorFiles(folder)
  if _OUTPUT in tensors.shapes:
    rows = [tensors.read(_OUTPUT, (slice(i, i + 1), slice(None))) for i in ids]
    return np.concatenate(rows)
  if not hub_folders.read_json(folder / hub_folders.CONFIG).get(
    "tie_word_embeddings"
  ):
    raise ValueError(
      f"{folder}: no tensor {_OUTPUT}, and config.json does not say "
      "tie_word_embeddings"
    )
  return np.asarray(encoder.params["embed_tokens"]["embedding"])[ids]


@jax.jit
def _p_yes(states: jax.Array, mask: jax.Array, head: jax.Array) -> jax.Array:
  """Returns the probability of the second answer after each text, [B]."""
  last = pool(states, mask, "last")
  logits = jnp.matmul(last, head.T, precision="highest")
  return jax.nn.softmax(logits, axis=-1)[:, 1]


@dataclasses.dataclass(frozen=True)
class FirstStage:
  """What another system found.

  Attributes:
    track: of that system.
    rankings: gallery -> text of a query -> records with scores, best first.
  """

  track: str
  rankings: Mapping[str, Mapping[str, runs.Ranking]]


def read_first(
  config: ml_collections.ConfigDict, benchmark: Benchmark
) -> FirstStage:
  """Returns the rankings in the run files of the first system.

  Queries of the same text have the same ranking, as texts alone are asked.

  Args:
    config: `rerank` of a config; without its `runs` nothing is found.
    benchmark: that was asked.

  Raises:
    FileNotFoundError: if there is none.
    ValueError: naming the file, if one is malformed or of another data set.
  """
  if not config.runs:
    return FirstStage("T0", {})
  folder = pathlib.Path(config.runs).expanduser()
  known = set(benchmark.record_ids)
  tracks, rankings = set(), {}
  for split, queries in benchmark.queries.items():
    pattern = runs.file_name(glob.escape(config.first), split, "*")
    for path in sorted(folder.glob(pattern)):
      run = runs.read_run(path)
      named = {name for found in run.rankings.values() for name, _ in found}
      if named - known:
        raise ValueError(
          f"{path}: {min(named - known)} is no record of {benchmark.name}"
        )
      tracks.add(run.track)
      rankings.setdefault(run.gallery, {}).update(
        {query.text: run.rankings.get(query.query_id, []) for query in queries}
      )
  if len(tracks) != 1:
    raise FileNotFoundError(
      f"config.rerank.runs={config.runs}: expected run.{config.first}.*.trec "
      f"of one track, found {', '.join(sorted(tracks)) or 'none'}"
    )
  return FirstStage(tracks.pop(), rankings)


def system(
  benchmark: Benchmark, first: FirstStage, config: ml_collections.ConfigDict
) -> Callable[[Sequence[str], int, Mapping[str, np.ndarray]], Found]:
  """Returns what ranks records for queries; it loads the model when called.

  Args:
    benchmark: whose records are ranked.
    first: what chooses the candidates.
    config: `rerank` of a config.
  """
  rows = {name: row for row, name in enumerate(benchmark.record_ids)}
  reranker = functools.cache(lambda: Reranker(config))

  def candidates(gallery: str, query: str) -> runs.Ranking:
    try:
      return first.rankings[gallery][query][: config.depth]
    except KeyError:
      raise ValueError(
        f"config.rerank.runs={config.runs}: {config.first} was not asked over "
        f"{gallery}: {query}"
      ) from None

  def rank(
    queries: Sequence[str], k: int, galleries: Mapping[str, np.ndarray]
  ) -> Found:
    found = {name: [candidates(name, q) for q in queries] for name in galleries}
    # Galleries share most pairs; each is read once.
    pairs = sorted(
      {
        (query, name)
        for rankings in found.values()
        for query, ranking in zip(queries, rankings, strict=True)
        for name, _ in ranking
      }
    )
    if config.mixing:
      _check_cosines(found, config)
    texts = [(q, benchmark.records[rows[name]].text) for q, name in pairs]
    p_yes = dict(zip(pairs, reranker()(texts), strict=True))

    def order(query: str, ranking: runs.Ranking):
      given = [p_yes[query, name] for name, _ in ranking]
      values = _mixed(given, [score for _, score in ranking], config)
      return _best([rows[name] for name, _ in ranking], values, k)

    ordered = {}
    for name, rankings in found.items():
      parts = list(map(order, queries, rankings))
      ordered[name] = tuple(map(np.stack, zip(*parts, strict=True)))
    return ordered

  return rank


def _check_cosines(
  found: Mapping[str, Sequence[runs.Ranking]], config: ml_collections.ConfigDict
) -> None:
  """Refuses, before the model is asked, scores that are no cosines."""
  cosines = (
    config.temperature * score
    for rankings in found.values()
    for ranking in rankings
    for _, score in ranking
  )
  farthest = max(cosines, key=abs, default=0.0)
  if abs(farthest) > 1.001:
    raise ValueError(
      f"config.rerank.mixing={config.mixing} needs cosines, and config.rerank."
      f"temperature={config.temperature} times a score of the first system is "
      f"{farthest:.4g}"
    )


def _mixed(
  p_yes: Sequence[float],
  first: Sequence[float],
  config: ml_collections.ConfigDict,
) -> np.ndarray:
  """Returns the scores described above, fp32 [n].

  Args:
    p_yes: of the candidates [n].
    first: their scores by the first system [n].
    config: mixing is read, and temperature if that is not 0.
  """
  share = config.mixing
  values = np.asarray(p_yes, np.float32)
  if not share:
    return values
  cosines = config.temperature * np.asarray(first, np.float32)
  return (1 - share) * values + share * np.clip((cosines + 1) / 2, 0, 1)


def _best(
  rows: Sequence[int], values: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the k best rows and their scores; -1 and -inf fill up.

  Ties go by row, which is by record id.
  """
  best = np.lexsort((rows, -values))[:k]
  indices = np.full(k, -1, np.int32)
  scores = np.full(k, -np.inf, np.float32)
  indices[: len(best)] = np.array(rows, np.int32)[best]
  scores[: len(best)] = values[best]
  return indices, scores
