"""What a config cannot mean, refused before any work.

Why: a wrong name or size is cheap to name at the start and dear to find after
hours. Called by `experiment`, and by `evaluate` for systems that need no
training.
"""

from __future__ import annotations

import pathlib

import ml_collections

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.benchmark.queries import SPLITS
from ctd_jax.dating.features import EXPERT_NAMES
from ctd_jax.evaluation import protocol
from ctd_jax.models.dual_encoder import INNER_PRODUCTS, SCORE_MODES
from ctd_jax.retrieval import approximate
from ctd_jax.systems import learned_sparse, registry

QUERY_DATES = ("parser", "head")
_POSITIVE_FIELDS = (
  *("eval.batch_size", "sparse.batch_size", "rerank.batch_size"),
  *("rerank.depth", "rerank.max_length"),
  *("maxsim.query_length", "maxsim.record_length"),
  *("pqr.query_length", "pqr.record_length"),
  *("sparse.query_length", "sparse.record_length"),
)
_PATH_FIELDS = ("rerank.runs", "pqr.pseudo_queries")  # of what has to be there


def check_config(config: ml_collections.ConfigDict) -> None:
  """Refuses at the start what a run would refuse at the end.

  Raises:
    ValueError: naming the field.
  """
  check_evaluation(config)
  for name in ("eval_every", "log_every", "keep_latest"):
    if config[name] < 1:
      raise ValueError(f"config.{name}={config[name]}: expected at least 1")
  if config.encode_chunks < 1 or config.batch_size % config.encode_chunks:
    raise ValueError(
      f"config.encode_chunks={config.encode_chunks} does not divide "
      f"config.batch_size={config.batch_size}"
    )
  if config.name in registry.BASELINE_NAMES or not runs.is_valid_name(
    config.name
  ):
    raise ValueError(
      f"config.name={config.name!r}: expected a name without white space, "
      f"colons and slashes that is not one of {', '.join(registry.BASELINE_NAMES)}"
    )
  if config.query_dates not in QUERY_DATES:
    raise ValueError(
      f"config.query_dates={config.query_dates!r}: expected one of "
      f"{', '.join(QUERY_DATES)}"
    )


def check_evaluation(config: ml_collections.ConfigDict) -> None:
  """Refuses what `config.eval` and its systems' sections cannot mean.

  Raises:
    ValueError: naming the field.
  """
  protocol.get_mode(config.eval.mode)
  if config.eval.depth < 10:  # the measures look at the first ten
    raise ValueError(
      f"config.eval.depth={config.eval.depth}: expected at least 10"
    )
  if config.eval.score_mode not in ("", *SCORE_MODES):
    raise ValueError(
      f"config.eval.score_mode={config.eval.score_mode!r}: expected one of "
      f"{', '.join(SCORE_MODES)}, or nothing for the one that is trained"
    )
  _check_backend(config)
  source_folder = config.dating.outside
  if source_folder is not None and not pathlib.Path(source_folder).is_dir():
    raise ValueError(f"config.dating.outside={source_folder}: no such folder")
  for field, allowed_names in (
    ("eval.baselines", registry.BASELINE_NAMES),
    ("eval.splits", SPLITS),
    ("dating.off", EXPERT_NAMES),
  ):
    group, leaf = field.split(".")
    for name in config[group][leaf]:
      if name not in allowed_names:
        raise ValueError(
          f"config.{field}: unknown {name!r}; there are {', '.join(allowed_names)}"
        )
  if config.sparse.activation not in learned_sparse.ACTIVATIONS:
    raise ValueError(
      f"config.sparse.activation={config.sparse.activation!r}: expected one of "
      f"{', '.join(learned_sparse.ACTIVATIONS)}"
    )
  if not 0 <= config.rerank.mixing <= 1:
    raise ValueError(
      f"config.rerank.mixing={config.rerank.mixing}: expected 0 to 1"
    )
  for field in _POSITIVE_FIELDS:
    group, leaf = field.split(".")
    if config[group][leaf] is not None and config[group][leaf] < 1:
      raise ValueError(
        f"config.{field}={config[group][leaf]}: expected at least 1"
      )
  for system in config.eval.baselines:
    for field in registry.REQUIRED_FIELDS.get(system, ()):
      group, leaf = field.split(".")
      if not config[group][leaf]:
        raise ValueError(f"config.{field}: the system {system} needs a value")
      path = pathlib.Path(config[group][leaf]).expanduser()
      if field in _PATH_FIELDS and not path.exists():
        raise ValueError(f"config.{field}={path}: there is no such path")


def _check_backend(config: ml_collections.ConfigDict) -> None:
  """Refuses an index that cannot know the score that ranks.

  Raises:
    ValueError: naming the field.
  """
  backend, mode = config.eval.backend, config.eval.score_mode
  mode = mode or config.score_mode
  if backend != "exact" and not backend.startswith(approximate.BACKEND_PREFIX):
    raise ValueError(
      f"config.eval.backend={backend!r}: expected 'exact', or an index such as "
      f"'{approximate.BACKEND_PREFIX}HNSW32'"
    )
  if backend != "exact" and mode not in INNER_PRODUCTS:
    raise ValueError(
      f"config.eval.backend={backend!r} knows inner products alone, and the "
      f"score {mode!r} has terms for every pair; rank with --config.eval."
      "backend=exact or --config.eval.score_mode=absolute"
    )


def check_trainable(benchmark: Benchmark) -> None:
  """Refuses a data set that has nothing to learn from or to select by.

  Raises:
    ValueError: naming what it lacks, and what can be done with it instead.
  """
  missing = [
    f"{split} queries"
    for split in ("train", "validation")
    if not benchmark.queries[split]
  ]
  if "train" not in benchmark.record_splits:
    missing.append("train records")
  if missing:
    raise ValueError(
      f"{benchmark.name} has no {' and no '.join(missing)}: a run cannot be "
      "trained on it. It can be evaluated: python -m ctd_jax.evaluate "
      "--dataset=... --workdir=... with a run trained elsewhere, or with "
      "--baselines_only"
    )
  for query in benchmark.queries["train"]:
    if not query.positives:
      raise ValueError(
        f"{benchmark.name}: no record answers the train query {query.query_id}"
      )
