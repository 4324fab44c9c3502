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
from ctd_jax.models.pooling import pool_tokens
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.retrieval.search import TopK

SCORE_MODE = "reranked"
ANSWER_TOKENS = ("no", "yes")
_OUTPUT_TENSOR = "lm_head.weight"
# What the published rerankers were trained with.
_PROMPT_PREFIX = (
  "<|im_start|>system\nJudge whether the Document meets the requirements based "
  "on the Query and the Instruct provided. Note that the answer can only be "
  '"yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_PROMPT_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def _format_prompt(instruction: str, query: str, record: str) -> str:
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
    folder = hub_folders.find_model_folder(config.source)
    self._config = config
    self._encoder = TextEncoder.load(
      folder,
      pooling="last",
      max_length=config.max_length,
      dtype=config.dtype,
      scan_layers=True,
      prefix=_PROMPT_PREFIX,
      suffix=_PROMPT_SUFFIX,
    )
    encoder_config = self._encoder.config
    if not (
      isinstance(encoder_config, DecoderConfig) and encoder_config.causal
    ):
      raise ValueError(f"{folder}: expected a causal language model")
    empty_prompt = (
      _PROMPT_PREFIX
      + _format_prompt(config.instruction, "", "")
      + _PROMPT_SUFFIX
    )
    tokens = self._encoder.tokenizer.token_ids(
      [empty_prompt], encoder_config.max_length
    )
    if config.max_length <= len(tokens[0]):
      raise ValueError(
        f"config.rerank.max_length={config.max_length}: the prompt alone has "
        f"{len(tokens[0])} tokens"
      )
    self._answer_head = _answer_rows(folder, self._encoder)

  def __call__(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Returns p(yes) of pairs of query and record, fp32 [P]."""
    texts = [_format_prompt(self._config.instruction, *pair) for pair in pairs]
    probabilities = np.zeros(len(pairs), np.float32)
    batch_size = self._config.batch_size
    for rows, states, mask in self._encoder.iter_token_states(
      texts, batch_size
    ):
      probabilities[rows] = _probability_of_yes(
        states, mask, self._answer_head
      )[: len(rows)]
    return probabilities


def _answer_rows(folder: pathlib.Path, encoder: TextEncoder) -> np.ndarray:
  """Returns the rows of the output layer for `ANSWERS`, [2, D].

  The token table is the output layer where the folder has no other.
  """
  ids = [encoder.tokenizer.token_id(answer) for answer in ANSWER_TOKENS]
  if None in ids:
    raise ValueError(
      f"{folder}: {ANSWER_TOKENS[ids.index(None)]!r} is not one token of the "
      "vocabulary; a reranker answers with no or yes"
    )
  tensors = hub_folders.TensorFiles(folder)
  if _OUTPUT_TENSOR in tensors.shapes:
    rows = [
      tensors.read_tensor(_OUTPUT_TENSOR, (slice(i, i + 1), slice(None)))
      for i in ids
    ]
    return np.concatenate(rows)
  if not hub_folders.read_json(folder / hub_folders.CONFIG_FILE).get(
    "tie_word_embeddings"
  ):
    raise ValueError(
      f"{folder}: no tensor {_OUTPUT_TENSOR}, and config.json does not say "
      "tie_word_embeddings"
    )
  return np.asarray(encoder.params["embed_tokens"]["embedding"])[ids]


@jax.jit
def _probability_of_yes(
  states: jax.Array, mask: jax.Array, head: jax.Array
) -> jax.Array:
  """Returns the probability of the second answer after each text, [B]."""
  last_states = pool_tokens(states, mask, "last")
  logits = jnp.matmul(last_states, head.T, precision="highest")
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


def read_first_stage(
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
  allowed_names = set(benchmark.record_ids)
  tracks, rankings = set(), {}
  for split, queries in benchmark.queries.items():
    pattern = runs.run_file_name(glob.escape(config.first), split, "*")
    for path in sorted(folder.glob(pattern)):
      run = runs.read_run(path)
      ranked_names = {
        name for ranking in run.rankings.values() for name, _ in ranking
      }
      if ranked_names - allowed_names:
        raise ValueError(
          f"{path}: {min(ranked_names - allowed_names)} is no record of {benchmark.name}"
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


def make_reranking_ranker(
  benchmark: Benchmark,
  first_stage: FirstStage,
  config: ml_collections.ConfigDict,
) -> Callable[[Sequence[str], int, Mapping[str, np.ndarray]], TopK]:
  """Returns what ranks records for queries; it loads the model when called.

  Args:
    benchmark: whose records are ranked.
    first_stage: what chooses the candidates.
    config: `rerank` of a config.
  """
  rows = {name: row for row, name in enumerate(benchmark.record_ids)}
  load_reranker = functools.cache(lambda: Reranker(config))

  def first_stage_candidates(gallery: str, query: str) -> runs.Ranking:
    try:
      return first_stage.rankings[gallery][query][: config.depth]
    except KeyError:
      raise ValueError(
        f"config.rerank.runs={config.runs}: {config.first} was not asked over "
        f"{gallery}: {query}"
      ) from None

  def rank_records(
    queries: Sequence[str], k: int, galleries: Mapping[str, np.ndarray]
  ) -> TopK:
    candidates_by_gallery = {
      name: [first_stage_candidates(name, q) for q in queries]
      for name in galleries
    }
    # Galleries share most pairs; each is read once.
    pairs = sorted(
      {
        (query, name)
        for rankings in candidates_by_gallery.values()
        for query, ranking in zip(queries, rankings, strict=True)
        for name, _ in ranking
      }
    )
    if config.mixing:
      _check_cosines(candidates_by_gallery, config)
    texts = [(q, benchmark.records[rows[name]].text) for q, name in pairs]
    p_yes = dict(zip(pairs, load_reranker()(texts), strict=True))

    def rerank_candidates(query: str, ranking: runs.Ranking):
      candidate_p_yes = [p_yes[query, name] for name, _ in ranking]
      mixed_scores = _mix_scores(
        candidate_p_yes, [score for _, score in ranking], config
      )
      return _select_top_k([rows[name] for name, _ in ranking], mixed_scores, k)

    top_k = {}
    for name, rankings in candidates_by_gallery.items():
      reranked = list(map(rerank_candidates, queries, rankings))
      top_k[name] = tuple(map(np.stack, zip(*reranked, strict=True)))
    return top_k

  return rank_records


def _check_cosines(
  rankings_by_gallery: Mapping[str, Sequence[runs.Ranking]],
  config: ml_collections.ConfigDict,
) -> None:
  """Refuses, before the model is asked, scores that are no cosines."""
  cosines = (
    config.temperature * score
    for rankings in rankings_by_gallery.values()
    for ranking in rankings
    for _, score in ranking
  )
  max_abs_cosine = max(cosines, key=abs, default=0.0)
  if abs(max_abs_cosine) > 1.001:
    raise ValueError(
      f"config.rerank.mixing={config.mixing} needs cosines, and config.rerank."
      f"temperature={config.temperature} times a score of the first system is "
      f"{max_abs_cosine:.4g}"
    )


def _mix_scores(
  p_yes: Sequence[float],
  first_stage_scores: Sequence[float],
  config: ml_collections.ConfigDict,
) -> np.ndarray:
  """Returns the scores described above, fp32 [n].

  Args:
    p_yes: of the candidates [n].
    first_stage_scores: their scores by the first system [n].
    config: mixing is read, and temperature if that is not 0.
  """
  mixing = config.mixing
  p_yes_array = np.asarray(p_yes, np.float32)
  if not mixing:
    return p_yes_array
  cosines = config.temperature * np.asarray(first_stage_scores, np.float32)
  return (1 - mixing) * p_yes_array + mixing * np.clip((cosines + 1) / 2, 0, 1)


def _select_top_k(
  rows: Sequence[int], values: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the k best rows and their scores; -1 and -inf fill up.

  Ties go by row, which is by record id.
  """
  order = np.lexsort((rows, -values))[:k]
  indices = np.full(k, -1, np.int32)
  scores = np.full(k, -np.inf, np.float32)
  indices[: len(order)] = np.array(rows, np.int32)[order]
  scores[: len(order)] = values[order]
  return indices, scores
