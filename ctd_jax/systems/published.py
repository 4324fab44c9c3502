"""Published models as they are, run by sentence-transformers.

`config.published.kind` says how a model ranks:

  dense   a vector for each text, ranked by cosine; `SentenceTransformer`
  sparse  weights of vocabulary entries, ranked by dot product; `SparseEncoder`
  maxsim  a vector for each token: the sum over the query's tokens of the best
          cosine with a token of the record; `MultiVectorEncoder`
  rerank  the first records of another system, reordered by a model that reads
          query and record together; `CrossEncoder`

The models read texts alone (track T0); a reranked list keeps the track of the
system it starts from. Nothing in a model's folder is executed unless
`run_model_code` is set. Needs the extra [baselines].

Axes: Q queries, N records, P pairs, k results.

Source: ChunQiuTR, zero-shot baselines, SPLADE, ColBERT, optional reranker. The
release searches ColBERT vectors approximately and filters the best 2,000 of
SPLADE; here every gallery is searched whole.
"""

import dataclasses
import functools
import glob
import json
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.retrieval import host_search
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry
from ctd_jax.utils import output

QUERY, RECORD = "query", "record"  # sides
# Kind -> name of its score in run files.
_SCORE_MODES = {
  "dense": "semantic",
  "sparse": "sparse",
  "maxsim": "late_interaction",
  "rerank": "reranked",
}
# Pooling -> its name in sentence-transformers.
_POOLINGS = {"cls": "cls", "mean": "mean", "last": "lasttoken"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedConfig(registry.SystemConfig):
  """A published model; None = as its folder says."""

  SECTION: ClassVar[str] = "published"
  REQUIRED: ClassVar[tuple[str, ...]] = ("source",)

  kind: str = "dense"  # or "sparse", "maxsim", "rerank"
  source: str | None = None  # folder or hub id
  name: str | None = None  # in run files and tables; None = the kind
  # True executes Python files that come with the model (trust_remote_code).
  # Read them first.
  run_model_code: bool = False
  dtype: str = "float32"  # of weights and activations
  batch_size: int = 32  # texts or pairs a step
  # Of encoders.
  query_prompt: str | None = None  # before every query; "" = none
  record_prompt: str | None = None  # before every record; "" = none
  query_length: int | None = None  # tokens, prompt and special ones included
  record_length: int | None = None  # tokens
  pooling: str | None = None  # of dense vectors: "cls", "mean", "last"
  end_token: str | None = None  # ends every text, if the tokenizer adds none
  pruning: float = 0.0  # of sparse vectors: least share of the largest entry
  # Of rerankers.
  runs: str | None = None  # folder of the first system's run files
  first: str = "bm25"  # the system whose run files are read there
  depth: int = 50  # records of a query that are reordered
  instruction: str | None = None  # the task, for models that are told it
  template: str | None = None  # chat template: roles system, query, document
  max_length: int | None = None  # tokens of a pair
  # score = (1 - mixing) * model + mixing * clip((cosine + 1) / 2, 0, 1)
  mixing: float = 0.0
  temperature: float = 1.0  # times a score of the first system: its cosine

  def validate(self) -> None:
    """Raises ValueError for a missing source or folder or a wrong value."""
    self.check_choice("dtype", ("float32", "bfloat16", "float16"))
    self.check_choice("kind", tuple(_SCORE_MODES))
    if self.pooling:
      self.check_choice("pooling", tuple(_POOLINGS))
    self.check_positive("batch_size", "query_length", "record_length")
    self.check_positive("depth", "max_length")
    for field in ("pruning", "mixing"):
      if not 0 <= getattr(self, field) <= 1:
        raise self.field_error(field, "expected 0 to 1")
    if self.name:
      registry.check_run_name(self.name, f"config.{self.SECTION}.name")
    super().validate()
    if self.kind == "rerank":
      if not self.runs:
        raise self.field_error("runs", "a reranker needs a folder of run files")
      self.check_path("runs")


@registry.register("published", config=PublishedConfig)
def make_published(
  benchmark: Benchmark, config: PublishedConfig, context: registry.Context
) -> registry.System:
  """Returns the system of a published model."""
  track = "T0"
  if config.kind == "rerank":
    track, rankings = _read_first_runs(config, benchmark)
    search = functools.partial(_rerank, benchmark, config, rankings)
  else:
    search = _make_search([r.text for r in benchmark.records], config)
  return registry.System(
    track=track,
    score_mode=_SCORE_MODES[config.kind],
    search=search,
    name=config.name or config.kind,
  )


def _make_search(
  texts: Sequence[str], config: PublishedConfig
) -> registry.SearchFn:
  """Returns the search of an encoder, which encodes the records [N] once."""
  open_model, encode_side, make_scorers = {
    "dense": (open_dense, encode_dense, _score_vectors),
    "sparse": (_open_sparse, _encode_sparse, _score_weights),
    "maxsim": (_open_maxsim, encode, _score_tokens),
  }[config.kind]

  @functools.cache
  def load_and_encode() -> tuple[Any, Any]:
    model = open_model(config)
    return model, encode_side(model, texts, RECORD, config)

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    model, records = load_and_encode()
    scorers = make_scorers(
      model, encode_side(model, queries, QUERY, config), records
    )
    top_k = host_search.search_top_k_by_gallery(
      scorers, len(queries), len(texts), k, galleries
    )
    if config.kind != "sparse":
      return top_k
    # Without an entry in common a record is not a result.
    return {
      name: (np.where(s > 0, i, -1), np.where(s > 0, s, -np.inf))
      for name, (i, s) in top_k.items()
    }

  return search


def _import_library() -> Any:
  """Returns sentence_transformers, which comes with an extra."""
  try:
    import sentence_transformers
  except ModuleNotFoundError as error:
    raise ValueError(
      f"published models need {error.name}: pip install 'ctd_jax[baselines]'"
    ) from None
  return sentence_transformers


def _open_model(kind: str, config: PublishedConfig, **options: Any) -> Any:
  """Returns a model of the library; `kind` is the name of its class."""
  field = f"config.{config.SECTION}"
  library = _import_library()
  try:
    return getattr(library, kind)(
      config.source,
      trust_remote_code=config.run_model_code,
      model_kwargs={"dtype": config.dtype},
      **options,
    )
  except (ValueError, ImportError) as error:
    if config.run_model_code or "trust_remote_code" not in str(error):
      raise
    raise ValueError(
      f"{field}.source={config.source}: this model comes with Python code of "
      f"its own; read it, then allow it with --{field}.run_model_code=True"
    ) from error
  except OSError as error:
    raise FileNotFoundError(
      f"{field}.source={config.source}: neither a folder of a model nor a hub "
      f"id that can be loaded ({str(error).splitlines()[0]})"
    ) from error


def encode(
  model: Any,
  texts: Sequence[str],
  side: str,
  config: PublishedConfig,
  **options: Any,
) -> Any:
  """Returns the encodings of texts, as the model's class gives them.

  Args:
    model: model of the library.
    texts: texts to encode.
    side: `QUERY` or `RECORD`, which has its prompt and length.
    config: config of the model.
    **options: further arguments of `encode_query` and `encode_document`.
  """
  length = getattr(config, f"{side}_length")
  prompt = getattr(config, f"{side}_prompt")
  if length:
    from ctd_jax.models import text_encoder

    options["processing_kwargs"] = {"text": {"max_length": length}}
    rows = model.tokenizer([(prompt or "") + text for text in texts])
    rows = list(map(np.array, rows["input_ids"]))
    names, field = f"texts of side {side}", f"{side}_length"
    text_encoder.warn_of_cuts(
      np.array(list(map(len, rows))), length, names, field
    )
    # A model that does not know the script reads all texts alike.
    text_encoder.check_distinct(
      texts, [row[:length] for row in rows], names, f"raise {field}"
    )
  method = model.encode_query if side == QUERY else model.encode_document
  return method(
    list(texts),
    prompt=prompt,
    batch_size=config.batch_size,
    show_progress_bar=sys.stderr.isatty(),
    **options,
  )


def open_dense(config: PublishedConfig) -> Any:
  """Returns the `SentenceTransformer` of a config."""
  model = _open_model("SentenceTransformer", config)
  if config.pooling:
    from sentence_transformers.sentence_transformer import modules

    for index, module in enumerate(model):
      if isinstance(module, modules.Pooling):
        model[index] = modules.Pooling(
          module.embedding_dimension, _POOLINGS[config.pooling]
        )
  model.set_pooling_include_prompt(True)  # as the release does
  if config.end_token:
    _end_texts(model.tokenizer, config)
  return model


def _end_texts(tokenizer: Any, config: PublishedConfig) -> None:
  """Makes a tokenizer end every text with `end_token`, unless it does."""
  from tokenizers import processors

  backend, token = tokenizer.backend_tokenizer, config.end_token
  index = backend.token_to_id(token)
  if index is None:
    raise config.field_error("end_token", "expected an entry of the vocabulary")
  if backend.encode("").ids[-1:] != [index]:
    # As a part of the tokenizer, for which cutting a text leaves room.
    backend.post_processor = processors.TemplateProcessing(
      single=f"$A {token}", special_tokens=[(token, index)]
    )


def encode_dense(
  model: Any, texts: Sequence[str], side: str, config: PublishedConfig
) -> np.ndarray:
  """Returns vectors of length 1, fp32; see `encode`."""
  return encode(model, texts, side, config, normalize_embeddings=True)


def _score_vectors(model: Any, queries: np.ndarray, records: np.ndarray):
  """Returns the maker of scorers by cosine."""

  def make_scorer(members: np.ndarray) -> host_search.BlockScorer:
    transposed = records[members].T
    return lambda start, stop: queries[start:stop] @ transposed

  return make_scorer


_open_sparse = functools.partial(_open_model, "SparseEncoder")


def _encode_sparse(
  model: Any, texts: Sequence[str], side: str, config: PublishedConfig
) -> Any:
  """Returns the weights of texts without special tokens, a csr_array."""
  import scipy.sparse

  found = encode(model, texts, side, config, save_to_cpu=True).coalesce()
  rows, columns = found.indices().numpy()
  weights = found.values().float().numpy()
  is_kept = ~np.isin(columns, model.tokenizer.all_special_ids)
  if side == RECORD:
    largest = np.zeros(len(texts), np.float32)
    np.maximum.at(largest, rows[is_kept], weights[is_kept])
    is_kept &= weights > config.pruning * largest[rows]
  return scipy.sparse.csr_array(
    (weights[is_kept], (rows[is_kept], columns[is_kept])), tuple(found.shape)
  )


def _score_weights(model: Any, queries: Any, records: Any):
  """Returns the maker of scorers by dot product."""

  def make_scorer(members: np.ndarray) -> host_search.BlockScorer:
    # [V, n]: rows of the vocabulary, which a query has few of.
    transposed = records[members].T.tocsr()
    return lambda start, stop: (queries[start:stop] @ transposed).toarray()

  return make_scorer


def _open_maxsim(config: PublishedConfig) -> Any:
  """Returns the `MultiVectorEncoder` of a config."""
  # An encoder that was not trained for late interaction has its last states
  # compared; the library would project them with random weights.
  if _has_projection(config):
    return _open_model("MultiVectorEncoder", config)
  encoder = _open_model("SentenceTransformer", config)[0]
  from sentence_transformers import MultiVectorEncoder
  from sentence_transformers.base.modules import Normalize
  from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

  return MultiVectorEncoder(
    modules=[
      encoder,
      MultiVectorMask(),
      Normalize(module_input_name="token_embeddings"),
    ]
  )


def _has_projection(config: PublishedConfig) -> bool:
  """Returns whether the model's files hold a projection of token states."""
  read_file = _import_library().util.load_file_path

  def read_field(name: str, field: str) -> str:
    path = read_file(config.source, name)
    content = json.loads(pathlib.Path(path).read_text("utf-8")) if path else []
    parts = [content] if isinstance(content, dict) else content
    return " ".join(str(part.get(field)) for part in parts)

  # Layouts of the library and of PyLate, then of ColBERT's authors.
  return "Dense" in read_field("modules.json", "type") or bool(
    re.search(
      "HF_ColBERT|ForRetrieval", read_field("config.json", "architectures")
    )
  )


def _score_tokens(model: Any, queries: Sequence, records: Sequence):
  """Returns the maker of scorers by MaxSim (Khattab and Zaharia 2020)."""
  blocks = output.Progress(range(0, len(queries), 64), "score", unit="block")
  # [Q, N], which galleries share: a pair costs many products.
  scores = np.concatenate(
    [model.similarity(queries[i : i + 64], records).cpu() for i in blocks]
  )
  return lambda members: lambda start, stop: scores[start:stop, members]


def _read_first_runs(
  config: PublishedConfig, benchmark: Benchmark
) -> tuple[str, Mapping[str, Mapping[str, runs.Ranking]]]:
  """Returns the first system's track and gallery -> query's text -> ranking."""
  # Queries of the same text share a ranking: systems are given texts alone.
  folder = pathlib.Path(config.runs).expanduser()
  tracks, rankings = set(), {}
  for split, queries in benchmark.queries.items():
    pattern = runs.run_file_name(glob.escape(config.first), split, "*")
    for path in sorted(folder.glob(pattern)):
      run = runs.read_run(path)
      ranked = {r for ranking in run.rankings.values() for r, _ in ranking}
      if unknown := ranked - set(benchmark.record_ids):
        raise ValueError(
          f"{path}: {min(unknown)} is not a record of {benchmark.name}"
        )
      tracks.add(run.track)
      rankings.setdefault(run.gallery, {}).update(
        {query.text: run.rankings.get(query.query_id, []) for query in queries}
      )
  if len(tracks) != 1:
    raise FileNotFoundError(
      f"config.published.runs={config.runs}: expected run.{config.first}."
      f"*.trec of one track, found {', '.join(sorted(tracks)) or 'none'}"
    )
  return tracks.pop(), rankings


def _rerank(
  benchmark: Benchmark,
  config: PublishedConfig,
  rankings: Mapping[str, Mapping[str, runs.Ranking]],
  queries: Sequence[str],
  k: int,
  galleries: Galleries,
) -> TopK:
  """Returns the first system's candidates in the order of the model."""
  rows = {name: row for row, name in enumerate(benchmark.record_ids)}
  candidates = {}  # (gallery, query) -> rows and the first system's scores
  for name in galleries:
    for query in queries:
      if query not in rankings.get(name, {}):
        raise ValueError(
          f"config.published.runs={config.runs}: {config.first} was not asked "
          f"over {name}: {query}"
        )
      ranking = rankings[name][query][: config.depth]
      # By row, so that ties go by record id.
      candidates[name, query] = sorted((rows[r], s) for r, s in ranking)
  scores = [score for found in candidates.values() for _, score in found]
  largest = config.temperature * max(map(abs, scores), default=0.0)
  if config.mixing and largest > 1.001:  # before the model is loaded
    raise ValueError(
      f"config.published.mixing={config.mixing} needs cosines, and config."
      f"published.temperature={config.temperature} times a score of the first "
      f"system is {largest:.4g}"
    )
  # Galleries share most pairs; the model reads a pair once.
  pairs = sorted(
    {(q, row) for (_, q), xs in candidates.items() for row, _ in xs}
  )
  texts = [(query, benchmark.records[row].text) for query, row in pairs]
  model_scores = dict(zip(pairs, score_pairs(config, texts), strict=True))

  def order(gallery: str, query: str) -> tuple[np.ndarray, np.ndarray]:
    found = candidates[gallery, query]
    values = np.array([model_scores[query, r] for r, _ in found], np.float32)
    if config.mixing:
      cosines = config.temperature * np.array([s for _, s in found], np.float32)
      values = (1 - config.mixing) * values + config.mixing * np.clip(
        (cosines + 1) / 2, 0, 1
      )
    columns, values = host_search.select_top_k(values[None], k)
    found_rows = np.array([*(row for row, _ in found), -1], np.int32)
    return found_rows[columns[0]], values[0]

  return {
    name: tuple(
      map(np.stack, zip(*(order(name, q) for q in queries), strict=True))
    )
    for name in galleries
  }


def score_pairs(
  config: PublishedConfig, pairs: Sequence[tuple[str, str]]
) -> np.ndarray:
  """Returns the model's scores of pairs of query and record, fp32 [P].

  Of a causal language model that is the probability of yes among no and yes.
  """
  if not pairs:
    return np.zeros(0, np.float32)
  model = _open_model(
    "CrossEncoder",
    config,
    max_length=config.max_length,
    processor_kwargs={"chat_template": config.template}
    if config.template
    else {},
  )
  if model.num_labels != 1:
    raise ValueError(
      f"config.published.source={config.source}: the model has "
      f"{model.num_labels} labels; expected one score for a pair"
    )
  return model.predict(
    list(pairs),
    prompt=config.instruction,
    batch_size=config.batch_size,
    show_progress_bar=sys.stderr.isatty(),
  )
