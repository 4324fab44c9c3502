"""Fitting of the linked dater: the likelihood of events whose years are hidden.

Known records are hidden in folds, blocks of years together, as the records to
be dated are; every update dates the events of one fold by what is left. Beside
it the scorers of links learn from links whose two months are known, which are
many times more.

The loop of `training.trainer` is for batches of texts. Here an example is a
whole corpus with some of its years hidden, all of it on the device, and the
training takes minutes: there are neither checkpoints nor shards of a batch.
Memory grows with the records of a fold, ten folds of every corpus at a time.
Corpora differ in their shapes: each has compiled programs of its own.

Axes: t events whose months are learned, P links of known months, f features of
a link, K months.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import logging
from jaxtyping import Array, Float, Int

from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.experts import citations, parallel_texts
from ctd_jax.dating.experts.parallel_pairs import ParallelPairs
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.dating.linked.link_tables import LinkTables
from ctd_jax.models.arrays import AnyArray
from ctd_jax.models.link_messages import balance_months
from ctd_jax.models.linked_dater import LinkedDater
from ctd_jax.models.linked_inputs import DatingInputs, Openers, pad_rows
from ctd_jax.training.losses import MASKED_LOGIT
from ctd_jax.utils import progress

_NETWORKS, _SCALARS = "networks", "scalars"  # groups of parameters


@dataclasses.dataclass(frozen=True)
class FittingConfig:
  """How the parameters are learned; chosen on validation.

  Attributes:
    link_steps: updates of the scorers of links alone, before all others.
    steps: updates on hidden folds.
    learning_rate: greatest, of the scorers of links; a cosine takes it to 0.
    scalar_rate_factor: times that of the weights of the evidence.
    weight_decay: of the scorers of links, in the updates on hidden folds.
    clip_norm: greatest norm of a gradient.
    link_weight: of the loss of links, beside that of events.
    retrieval_weight: of the contrastive loss of questions, beside that of
      events.
    links_per_step: links of each kind that an update learns from.
    averaging: share that the average of the parameters keeps at an update.
  """

  link_steps: int = 300
  steps: int = 200
  learning_rate: float = 8e-3
  scalar_rate_factor: float = 5.0
  weight_decay: float = 1e-2
  clip_norm: float = 1.0
  link_weight: float = 0.5
  retrieval_weight: float = 3.0
  links_per_step: int = 4096
  averaging: float = 0.95

  def __post_init__(self):
    for name in (
      *("link_steps", "steps", "weight_decay", "link_weight"),
      "retrieval_weight",
    ):
      if getattr(self, name) < 0:
        raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
    for name in ("learning_rate", "links_per_step"):
      if getattr(self, name) <= 0:
        raise ValueError(
          f"{name} must be greater than 0, got {getattr(self, name)}"
        )
    if not 0 <= self.averaging < 1:
      raise ValueError(f"averaging must be in [0, 1), got {self.averaging}")


class Targets(flax.struct.PyTreeNode):
  """Events whose months are learned.

  Attributes:
    rows: indices of the events.
    months: their ordinal months.
    weights: 1, or 0 for padding.
    opens_month: 1 for events that open a month.
    dates: log likelihood ratios of months by their printed dates.
  """

  rows: Int[AnyArray, " t"]
  months: Int[AnyArray, " t"]
  weights: Float[AnyArray, " t"]
  opens_month: Float[AnyArray, " t"]
  dates: Float[AnyArray, "t K"]


class Fold(flax.struct.PyTreeNode):
  """Hidden records, and what is true of some.

  Attributes:
    inputs: of the model.
    openers: the events that open a month, which share the room of the months.
    targets: the events whose months are learned.
  """

  inputs: DatingInputs
  openers: Openers
  targets: Targets


def pad_folds(folds: Sequence[Fold]) -> list[Fold]:
  """Returns the folds with as many events, comments and targets each.

  So they share one compiled program; see `linked_inputs.pad_rows`.

  Args:
    folds: of one corpus.
  """

  def pad(trees: Sequence[Any]) -> list[Any]:
    size = max(1, *(len(jax.tree.leaves(tree)[0]) for tree in trees))
    return [pad_rows(tree, size) for tree in trees]

  events = pad([fold.inputs.events for fold in folds])
  comments = pad([fold.inputs.comments for fold in folds])
  targets = pad([fold.targets for fold in folds])
  openers = pad(
    [
      (fold.openers.rows, fold.openers.is_opener, fold.openers.dates)
      for fold in folds
    ]
  )
  return [
    Fold(
      inputs=fold.inputs.replace(events=events[i], comments=comments[i]),
      openers=fold.openers.replace(
        rows=openers[i][0], is_opener=openers[i][1], dates=openers[i][2]
      ),
      targets=targets[i],
    )
    for i, fold in enumerate(folds)
  ]


@dataclasses.dataclass(frozen=True)
class LinkExamples:
  """Links of known months.

  Attributes:
    ranks: features of the links.
    classes: of the links.
  """

  ranks: Float[np.ndarray, "P f"]
  classes: Int[np.ndarray, " P"]


def make_link_examples(
  features: CorpusFeatures, tables: LinkTables, labels: Labels
) -> dict[str, LinkExamples]:
  """Returns the links whose two months are known, by kind.

  Args:
    features: the texts and their pairs.
    tables: ranks of the features of the pairs.
    labels: the known months.
  """
  axis, cited = features.axis, features.citation_pairs
  years = citations.resolve_years(axis, cited, labels)
  event_months = labels.month[features.event_records][cited.event_index]
  known = np.flatnonzero((years != UNKNOWN) & (event_months != UNKNOWN))
  # The order of the records plays no part in what is drawn.
  known = known[np.argsort(citations.hash_pairs(cited)[known], kind="stable")]
  examples = {
    "cited": LinkExamples(
      tables.ranks["cited"][known],
      (axis.year_of[event_months[known]] == years[known]).astype(int),
    )
  }
  for name, pairs in (
    ("parallels", features.parallel_pairs),
    ("comments", features.comment_pairs),
  ):
    known, classes = _classify_known_pairs(features, pairs, labels)
    examples[name] = LinkExamples(tables.ranks[name][known], classes)
  return examples


def _classify_known_pairs(
  features: CorpusFeatures, pairs: ParallelPairs, labels: Labels
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the pairs of two known months, and their classes."""
  months = labels.month[pairs.record_row], labels.month[pairs.event_row]
  known = np.flatnonzero((months[0] != UNKNOWN) & (months[1] != UNKNOWN))
  known = known[np.argsort(pairs.pair_hashes[known], kind="stable")]
  return known, parallel_texts.classify_pairs(
    features.axis, months[0][known], months[1][known]
  )


@dataclasses.dataclass(frozen=True)
class TrainingCorpus:
  """What one corpus teaches.

  Attributes:
    model: to be fitted; those of all corpora have the same parameters.
    folds: of hidden records, at least one.
    examples: from `make_link_examples`.
  """

  model: LinkedDater
  folds: Sequence[Fold]
  examples: Mapping[str, LinkExamples]

  @property
  def used_examples(self) -> dict[str, LinkExamples]:
    """Links of the kinds that the model reads and the corpus has."""
    config = self.model.config
    is_used = {
      "cited": config.use_citations,
      "parallels": config.use_parallels,
      "comments": config.use_comments,
    }
    return {
      name: links
      for name, links in self.examples.items()
      if len(links.classes) and is_used[name] and config.rounds
    }


def fit_params(
  corpora: Sequence[TrainingCorpus], config: FittingConfig, seed: int
) -> Any:
  """Returns the parameters after all updates.

  Every fold of every corpus is as likely to be drawn for an update.

  Args:
    corpora: to learn from, at least one.
    config: of the updates.
    seed: of parameters, order and dropout.
  """
  rng = np.random.default_rng(seed)
  key = jax.random.key(seed)
  folds, corpus_of_fold = [], []
  for corpus in corpora:
    folds += jax.device_put(pad_folds(corpus.folds))
    corpus_of_fold += [corpus] * len(corpus.folds)
  params = jax.jit(corpora[0].model.init)(key, folds[0].inputs)["params"]
  if not config.steps + config.link_steps:
    return params
  link_optimizer = optax.adamw(config.learning_rate, b2=0.98)
  params = _fit_links(corpora, params, link_optimizer, config, rng, key)
  optimizer = make_optimizer(config)
  state = optimizer.init(params)
  log_factors = [jnp.zeros_like(fold.openers.log_capacity) for fold in folds]
  average = params
  bar = progress.Progress(
    range(config.steps), "dating: linked records", unit="update"
  )
  losses = []
  for step in bar:
    fold = int(rng.integers(len(folds)))
    corpus = corpus_of_fold[fold]
    average, params, state, loss, log_factors[fold] = _update(
      corpus.model,
      optimizer,
      config,
      (average, params, state),
      folds[fold],
      log_factors[fold],
      _draw_links(corpus.used_examples, config.links_per_step, rng),
      jax.random.fold_in(key, step),
    )
    losses.append(loss)
  if losses:
    last = np.mean(jax.device_get(losses[-len(folds) :]))
    logging.info(
      "dating: linked records, %d updates, -log p of hidden events %.3f",
      config.steps,
      last,
    )
  return average


def make_optimizer(config: FittingConfig) -> optax.GradientTransformation:
  """Returns clipped AdamW; the weights of the evidence are not decayed."""
  schedule = optax.warmup_cosine_decay_schedule(
    0.0, config.learning_rate, config.steps // 10, max(config.steps, 1)
  )
  return optax.chain(
    optax.clip_by_global_norm(config.clip_norm),
    optax.partition(
      {
        _NETWORKS: optax.adamw(
          schedule, b2=0.98, weight_decay=config.weight_decay
        ),
        _SCALARS: optax.adam(
          lambda step: config.scalar_rate_factor * schedule(step), b2=0.98
        ),
      },
      lambda params: jax.tree.map(
        lambda value: _NETWORKS if value.ndim > 1 else _SCALARS, params
      ),
    ),
  )


def _fit_links(
  corpora: Sequence[TrainingCorpus],
  params: Any,
  optimizer: optax.GradientTransformation,
  config: FittingConfig,
  rng: np.random.Generator,
  key: jax.Array,
) -> Any:
  """Returns the parameters after updates of the scorers of links alone.

  The corpora take turns.
  """
  corpora = [corpus for corpus in corpora if corpus.used_examples]
  if not corpora:
    return params
  key = jax.random.fold_in(key, config.steps)  # no update below has this key
  state = optimizer.init(params)
  bar = progress.Progress(
    range(config.link_steps), "dating: links", unit="update", leave=False
  )
  for step in bar:
    corpus = corpora[step % len(corpora)]
    links = _draw_links(corpus.used_examples, config.links_per_step, rng)
    params, state = _update_links(
      *(corpus.model, optimizer, params, state, links),
      jax.random.fold_in(key, step),
    )
  return params


def _draw_links(
  examples: Mapping[str, LinkExamples], size: int, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
  """Returns ranks and classes of some links of each kind."""
  ranks, classes = {}, {}
  for name, links in examples.items():
    rows = rng.integers(len(links.classes), size=size)
    ranks[name], classes[name] = links.ranks[rows], links.classes[rows]
  return ranks, classes


def compute_link_loss(
  model: LinkedDater,
  params: Any,
  links: tuple[Mapping[str, jax.Array], Mapping[str, jax.Array]],
  dropout_key: jax.Array,
) -> Float[Array, ""]:
  """Returns the cross entropy of the classes of links, summed over kinds.

  Args:
    model: that scores them.
    params: its parameters.
    links: ranks and classes by kind.
    dropout_key: fresh for each update.
  """
  ranks, classes = links
  log_p = model.apply(
    {"params": params},
    ranks,
    rngs={"dropout": dropout_key},
    method="classify_links",
  )
  return sum(
    -jnp.take_along_axis(log_p[name], classes[name][:, None], 1).mean()
    for name in log_p
  )


def date_targets(
  model: LinkedDater,
  params: Any,
  fold: Fold,
  log_factors: Float[Array, " K"],
  dropout_key: jax.Array,
) -> tuple[Float[Array, "t K"], Float[Array, " K"]]:
  """Returns log p(month) of hidden events whose months are known.

  And the factors of the months after one more round of balancing, through which
  no gradient passes: they follow the scores from update to update.

  Args:
    model: that dates them.
    params: its parameters.
    fold: hidden records; the months of some are known.
    log_factors: of the months, as balanced so far.
    dropout_key: fresh for each update.
  """
  scores = model.apply(
    {"params": params}, fold.inputs, False, rngs={"dropout": dropout_key}
  )
  calendar, openers, targets = fold.inputs.calendar, fold.openers, fold.targets
  log_months = scores.score_months(calendar, targets.rows, targets.dates)
  if model.config.use_capacity:
    opener_scores = scores.score_months(calendar, openers.rows, openers.dates)
    log_factors = balance_months(
      jax.lax.stop_gradient(opener_scores),
      openers.is_opener,
      openers.log_capacity,
      openers.max_rise,
      log_factors,
    )
    log_months += targets.opens_month[:, None] * log_factors
  log_p = jax.nn.log_softmax(scores.inverse_temperature * log_months)
  return log_p, log_factors


def compute_date_loss(
  log_p: Float[Array, "t K"], targets: Targets
) -> Float[Array, ""]:
  """Returns the mean of -log p of the true months of events.

  Args:
    log_p: of their months, from `date_targets`.
    targets: their months.
  """
  true_log_p = jnp.take_along_axis(log_p, targets.months[:, None], 1)[:, 0]
  total = jnp.maximum(targets.weights.sum(), 1)
  return -(targets.weights @ true_log_p) / total


def compute_retrieval_loss(
  log_p: Float[Array, "t K"], targets: Targets
) -> Float[Array, ""]:
  """Returns the contrastive loss of questions for the months of the events.

  Question i asks for the month of event i. Its positives are all events of that
  month, and the score of an event is the log mass that it has there, by which a
  gallery is ranked. Questions for one month have the same loss, so that sums
  are made of months and never of pairs of events.

  Args:
    log_p: of the months of events, from `date_targets`.
    targets: their months.
  """
  months, num_months = targets.months, log_p.shape[1]
  # Padding is as unlikely everywhere as a finite number says.
  log_p = jnp.where(targets.weights[:, None] > 0, log_p, MASKED_LOGIT)
  own_log_p = jnp.take_along_axis(log_p, months[:, None], 1)[:, 0]
  greatest = jax.lax.stop_gradient(
    jax.ops.segment_max(own_log_p, months, num_months)[months]
  )
  own_p = jnp.exp(own_log_p - greatest)
  log_right = greatest + jnp.log(
    jax.ops.segment_sum(own_p, months, num_months)[months]
  )
  log_all = jax.nn.logsumexp(log_p, axis=0)[months]
  total = jnp.maximum(targets.weights.sum(), 1)
  return (targets.weights @ (log_all - log_right)) / total


@functools.partial(
  jax.jit, static_argnames=("model", "optimizer"), donate_argnames="state"
)
def _update_links(
  model: LinkedDater,
  optimizer: optax.GradientTransformation,
  params: Any,
  state: Any,
  links: Any,
  key: jax.Array,
) -> tuple[Any, Any]:
  gradient = jax.grad(
    lambda params: compute_link_loss(model, params, links, key)
  )
  updates, state = optimizer.update(gradient(params), state, params)
  return optax.apply_updates(params, updates), state


@functools.partial(jax.jit, static_argnames=("model", "optimizer", "config"))
def _update(
  model: LinkedDater,
  optimizer: optax.GradientTransformation,
  config: FittingConfig,
  state: tuple[Any, Any, Any],
  fold: Fold,
  log_factors: jax.Array,
  links: Any,
  key: jax.Array,
) -> tuple[Any, Any, Any, jax.Array, jax.Array]:
  """Returns the average, parameters and optimizer's state after an update."""
  average, params, optimizer_state = state
  date_key, link_key = jax.random.split(key)

  def compute_loss(params: Any) -> tuple[jax.Array, tuple[jax.Array, Any]]:
    log_p, factors = date_targets(model, params, fold, log_factors, date_key)
    total = loss = compute_date_loss(log_p, fold.targets)
    if config.retrieval_weight:
      total += config.retrieval_weight * compute_retrieval_loss(
        log_p, fold.targets
      )
    if links[0]:
      total += config.link_weight * compute_link_loss(
        model, params, links, link_key
      )
    return total, (loss, factors)

  gradient = jax.grad(compute_loss, has_aux=True)
  grads, (loss, log_factors) = gradient(params)
  updates, optimizer_state = optimizer.update(grads, optimizer_state, params)
  params = optax.apply_updates(params, updates)
  average = optax.incremental_update(params, average, 1 - config.averaging)
  return average, params, optimizer_state, loss, log_factors
