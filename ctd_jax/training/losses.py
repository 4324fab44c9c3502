"""Losses of the pairs of a batch; a run names one of them in `config.loss`.

A loss is a class whose fields are its options and which maps the scores of a
batch to a number:

  @losses.register("hinge")
  class Hinge(losses.Loss):
    margin: float = 1.0

    def __call__(self, pairs):
      own = jnp.diagonal(pairs.scores)[:, None]
      violation = jax.nn.relu(self.margin + pairs.scores - own)
      return losses.mean_of(violation, pairs.valid & ~pairs.positives)

It may stand in any module: --config.loss.module names it. A loss that is made
of sums over rows and columns, as `Nce`, offers them, and no array then has the
scores of all pairs.

Axes: B queries in a batch, H hard negatives a query, N = B * (1 + H) records.
"""

import abc
import dataclasses
import hashlib
import importlib.util
import inspect
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import msgspec
import optax
from absl import logging
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.training.config import suggest

# Finite, so that a masked entry has a zero gradient rather than a NaN.
MASKED_LOGIT = -1e9
DEFAULT = "nce"


class Pairs(NamedTuple):
  """Queries of a batch (rows) against all its records (columns), [B, N].

  Column i is the positive that was drawn for query i; behind the B positives
  stand the hard negatives, those of a query together.
  """

  scores: jax.Array  # over the temperature, fp32; MASKED_LOGIT where not valid
  # Records that answer the query, by its months; with
  # `config.loss.multi_positive=False` the one that was drawn for it. A row has
  # at least one.
  positives: jax.Array
  # False for a hard negative that answers the query of the row, having been
  # drawn for another.
  valid: jax.Array
  own: jax.Array  # records drawn for the query: its positive, its negatives
  # Scores of the teacher's run, fp32; 0 where it has none. [B, 0] without one.
  teacher: jax.Array
  is_taught: jax.Array  # whether it has one, of valid pairs

  @property
  def own_positives(self) -> Bool[Array, "B N"]:
    """Whether a record is the positive that was drawn for the query."""
    return jnp.eye(*self.scores.shape, dtype=bool)


class Loss(abc.ABC):
  """Base of all losses; a subclass declares its options as fields."""

  # Whether it reads a teacher's scores: "unused", "optional" or "required".
  TEACHER: ClassVar[str] = "unused"

  @abc.abstractmethod
  def __call__(self, pairs: Pairs) -> Float[Array, ""]:
    """Returns the loss of a batch."""


class BlockedLoss(Loss):
  """A loss of sums over the scores of each query, and of each positive.

  A block of the matrix gives sums of its part, which are joined.
  """

  @abc.abstractmethod
  def sum_scores(
    self,
    scores: Float[Array, "*texts N"],
    is_positive: Bool[Array, "*texts N"],
  ) -> Any:
    """Returns the sums over the last axis, a pytree of arrays."""

  @abc.abstractmethod
  def join(self, sums: Any, axis: int | tuple[int, ...]) -> Any:
    """Returns the sums over all blocks, from those over each."""

  @abc.abstractmethod
  def finish(
    self, sums: Any, num_positives: Int[Array, " B"]
  ) -> Float[Array, ""]:
    """Returns the loss of one direction, the mean over its texts."""

  def __call__(self, pairs: Pairs) -> Float[Array, ""]:
    """Returns the mean of both directions, from a whole matrix."""
    size = len(pairs.scores)
    own = jnp.eye(size, dtype=bool)
    answers = pairs.positives[:, :size].T
    answers |= own & ~answers.any(axis=1, keepdims=True)
    sides = (
      (pairs.scores, pairs.positives),
      (pairs.scores[:, :size].T, answers),
    )
    return 0.5 * sum(
      self.finish(self.sum_scores(scores, mask), mask.sum(axis=1))
      for scores, mask in sides
    )


_losses: dict[str, type[Loss]] = {}


def register(name: str) -> Callable[[type[Loss]], type[Loss]]:
  """Returns the decorator that registers a loss and makes it a dataclass.

  Raises:
    ValueError: if another loss has the name, or it is no subclass of `Loss`.
  """

  def add(loss_type: Any) -> type[Loss]:
    if not (isinstance(loss_type, type) and issubclass(loss_type, Loss)):
      raise ValueError(
        f"@losses.register({name!r}) stands above {loss_type.__name__}, which "
        "is not a subclass of losses.Loss"
      )
    if name in _losses:
      raise ValueError(
        f"two losses are registered as {name!r}, in "
        f"{_losses[name].__module__} and in {loss_type.__module__}"
      )
    # Frozen: a loss is a static argument of jit.
    made = dataclasses.dataclass(frozen=True, kw_only=True)(loss_type)
    _losses[name] = made
    return made

  return add


def make_loss(section: ml_collections.ConfigDict) -> Loss:
  """Returns the loss that a run is trained with; imports its module.

  For training alone: a module is code, and the config of a run that is
  evaluated or asked may be a stranger's.

  Args:
    section: `config.loss`. Options of the loss that are fields there, as
      `reduction` is, are read there.

  Raises:
    ValueError: if module, name, options or teacher are wrong; the message names
      the field.
  """
  names = _import_losses(section.module) if section.module else [DEFAULT]
  name = section.name or names[0]
  if not section.name and len(names) > 1:
    raise ValueError(
      f"config.loss.module={section.module} registers {', '.join(names)}; "
      f"take one: --config.loss.name={name}"
    )
  if name not in _losses:
    raise ValueError(
      f"config.loss.name={name!r}: no such loss{suggest(name, _losses)}; "
      f"there are {', '.join(sorted(_losses))}; one of your own is in the "
      "module of config.loss.module"
    )
  loss_type = _losses[name]
  _check_teacher(name, loss_type, section.teacher)
  if section.emulated_processes > 1 and not issubclass(loss_type, BlockedLoss):
    raise ValueError(
      f"config.loss.emulated_processes={section.emulated_processes}: the "
      f"loss {name} is one of the whole batch; set it to 1"
    )
  fields = [field.name for field in dataclasses.fields(loss_type)]
  values = {field: section[field] for field in fields if field in section}
  for item in filter(None, section.options.split(",")):
    field, _, value = item.partition("=")
    if field.strip() not in fields:
      raise ValueError(
        f"config.loss.options: the loss {name} has no option "
        f"{field.strip()!r}{suggest(field, fields)}; it has "
        f"{', '.join(fields) or 'none'}"
      )
    values[field.strip()] = value.strip()
  try:
    return msgspec.convert(values, loss_type, strict=False)
  except msgspec.ValidationError as error:
    raise ValueError(
      f"config.loss.options={section.options!r}: {error}"
    ) from None


def try_loss(section: ml_collections.ConfigDict) -> None:
  """Checks a run's loss before data is read.

  A loss of your own is called with random scores of four queries. An error in
  its code is raised as it is, with a note.

  Args:
    section: `config.loss`.

  Raises:
    ValueError: see `make_loss`; or if the loss of the module is not one number,
      or the loss or its gradient is not finite.
  """
  loss = make_loss(section)
  if not section.module:
    return
  name = type(loss).__name__
  logging.info("loss: %r of config.loss.module=%s", loss, section.module)
  pairs = _make_trial_pairs(bool(section.teacher))
  try:
    inspect.signature(loss).bind(pairs)
  except TypeError as error:
    raise ValueError(
      f"config.loss.module={section.module}: {name}.__call__ takes one "
      f"argument, the pairs of a batch: def __call__(self, pairs); {error}"
    ) from None

  def compute(scores: jax.Array) -> jax.Array:
    return loss(pairs._replace(scores=scores))

  try:
    shape = jax.eval_shape(compute, pairs.scores).shape
  except Exception as error:
    error.add_note(
      f"config.loss.module={section.module}: {name} was called with the pairs "
      f"of four queries. It declares TEACHER = {loss.TEACHER!r}; without a "
      "teacher, pairs.teacher has no columns."
    )
    raise
  if shape:
    raise ValueError(
      f"config.loss.module={section.module}: {name} returns an array of shape "
      f"{shape} for {len(pairs.scores)} queries; return one number, their mean"
    )
  value, gradient = jax.jit(jax.value_and_grad(compute))(pairs.scores)
  for what, numbers in (("loss", value), ("gradient", gradient)):
    if not jnp.isfinite(numbers).all():
      raise ValueError(
        f"config.loss.module={section.module}: the {what} of {name} is not "
        "finite for four queries with random scores (masked ones are "
        f"{MASKED_LOGIT:g}). If a function such as a square root is not finite "
        "somewhere, mask its input with jnp.where, not its result"
      )


def _make_trial_pairs(has_teacher: bool) -> Pairs:
  """Returns pairs of four queries with one hard negative each, one masked."""
  keys = jax.random.split(jax.random.key(0), 2)
  scores, teacher = (4 * jax.random.normal(key, (4, 8)) for key in keys)
  drawn = jnp.eye(4, 8, dtype=bool)
  valid = jnp.ones((4, 8), bool).at[0, 5].set(False)
  is_taught = valid & (teacher > -2)
  if not has_teacher:
    teacher, is_taught = jnp.zeros((4, 0)), jnp.zeros((4, 0), bool)
  return Pairs(
    jnp.where(valid, scores, MASKED_LOGIT),
    drawn.at[1, 0].set(True),
    valid,
    drawn | jnp.eye(4, 8, 4, dtype=bool),
    jnp.where(is_taught, teacher, 0),
    is_taught,
  )


def hash_module(module: str | None) -> str:
  """Returns the SHA-256 of a module's file, "" without one."""
  spec = importlib.util.find_spec(module) if module else None
  if spec is None or not spec.has_location:
    return ""
  return hashlib.sha256(pathlib.Path(spec.origin).read_bytes()).hexdigest()


def _import_losses(module: str) -> list[str]:
  """Returns the names that a module registers."""
  # The console script has its own folder on Python's path, not this one.
  if os.getcwd() not in sys.path:
    sys.path.append(os.getcwd())
  try:
    importlib.import_module(module)
  except ModuleNotFoundError as error:
    if not module.startswith(error.name.removesuffix(".py")):
      raise  # the module is there and lacks another
    raise ValueError(
      f"config.loss.module={module}: no such module in {os.getcwd()} or on "
      "Python's path; my_losses names my_losses.py"
    ) from None
  names = [
    name
    for name, loss_type in _losses.items()
    if f"{loss_type.__module__}.".startswith(f"{module}.")
  ]
  if not names:
    raise ValueError(
      f"config.loss.module={module} registers no loss; put "
      '@losses.register("NAME") above a class in it'
    )
  return names


def _check_teacher(
  name: str, loss_type: type[Loss], teacher: str | None
) -> None:
  """Raises ValueError if a loss and a teacher do not go together."""
  if teacher and loss_type.TEACHER == "unused":
    raise ValueError(
      f"config.loss.teacher={teacher}: the loss {name} reads no teacher's "
      "scores; take one that does with config.loss.name, or set "
      'TEACHER = "required" in the class if it is yours'
    )
  if not teacher and loss_type.TEACHER == "required":
    raise ValueError(
      f"config.loss.name={name!r} needs config.loss.teacher, a TREC run of "
      "train queries"
    )
  if teacher and not pathlib.Path(teacher).expanduser().is_file():
    raise ValueError(f"config.loss.teacher={teacher}: no such file")


def mean_of(
  values: Float[Array, "*axes"], mask: Bool[Array, "*axes"]
) -> Float[Array, ""]:
  """Returns the mean of the values in a mask; 0 if there are none."""
  return jnp.where(mask, values, 0).sum() / jnp.maximum(mask.sum(), 1)


def sum_below(
  scores: Float[Array, "B N"], labels: Float[Array, "B N"]
) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
  """Returns scores by rising label, and what those of lower labels sum to.

  The latter is the log of the summed exponentials of all scores in the row
  whose label is lower; far below all scores if no label is lower. The sum is
  cumulative, so that the cost is N log N.
  """
  order = jnp.argsort(labels, axis=1)
  labels = jnp.take_along_axis(labels, order, axis=1)
  scores = jnp.take_along_axis(scores, order, axis=1)
  num_below = jax.vmap(jnp.searchsorted)(labels, labels)  # strictly, [B, N]
  sums = jax.lax.cumlogsumexp(scores, axis=1)
  sums = jnp.pad(sums, ((0, 0), (1, 0)), constant_values=MASKED_LOGIT)
  return scores, jnp.take_along_axis(sums, num_below, axis=1)


class NceSums(NamedTuple):
  """Sums over the scores of texts, the parts of `Nce`."""

  total: jax.Array  # log of the summed exponentials of all scores
  # The same of the positives ("sum_inside"), or the sum of their scores
  # ("mean_outside").
  positive: jax.Array


@register(DEFAULT)
class Nce(BlockedLoss):
  """InfoNCE with many positives, of queries and of positives.

  "sum_inside" is -log of the summed probability of the positives, as released:
  one easy positive satisfies it. "mean_outside" is the mean of -log p over the
  positives: every positive has to be found.
  """

  reduction: str = "sum_inside"

  def sum_scores(self, scores, is_positive) -> NceSums:
    """Returns the sums over the last axis, fp32."""
    scores = scores.astype(jnp.float32)  # bf16 sums would lose small terms
    if self.reduction == "sum_inside":
      masked_scores = jnp.where(is_positive, scores, MASKED_LOGIT)
      positive = jax.nn.logsumexp(masked_scores, -1)
    else:
      positive = jnp.where(is_positive, scores, 0).sum(-1)
    return NceSums(jax.nn.logsumexp(scores, -1), positive)

  def join(self, sums, axis) -> NceSums:
    """Returns the sums over all blocks."""
    join = jax.nn.logsumexp if self.reduction == "sum_inside" else jnp.sum
    return NceSums(
      jax.nn.logsumexp(sums.total, axis), join(sums.positive, axis)
    )

  def finish(self, sums, num_positives) -> Float[Array, ""]:
    """Returns the mean over texts."""
    positive = sums.positive
    if self.reduction == "mean_outside":
      positive = positive / jnp.maximum(num_positives, 1)
    return jnp.mean(sums.total - positive)


def _add_nce(
  loss: Float[Array, ""], weight: float, pairs: Pairs
) -> Float[Array, ""]:
  """Returns a teacher's loss with that of all pairs, taught or not."""
  return loss + weight * Nce()(pairs) if weight else loss


@register("softmax")
class Softmax(Loss):
  """Cross-entropy of the query's own positive among all that do not answer."""

  def __call__(self, pairs: Pairs) -> Float[Array, ""]:
    """Returns the loss of a batch."""
    others = pairs.positives & ~pairs.own_positives
    logits = jnp.where(others, MASKED_LOGIT, pairs.scores)
    return optax.softmax_cross_entropy_with_integer_labels(
      logits, jnp.arange(len(logits))
    ).mean()


@register("triplet")
class Triplet(Loss):
  """Margin between the own positive and the hardest negative of the batch.

  Source: Hermans et al., "In Defense of the Triplet Loss" (2017).
  """

  margin: float = 4.0  # of scores: a cosine of .2 at the temperature .05

  def __call__(self, pairs: Pairs) -> Float[Array, ""]:
    """Returns the loss of a batch."""
    negatives = jnp.where(pairs.positives, MASKED_LOGIT, pairs.scores)
    hardest = negatives.max(axis=1)
    return jax.nn.relu(
      self.margin + hardest - jnp.diagonal(pairs.scores)
    ).mean()


@register("margin_mse")
class MarginMse(Loss):
  """Squared difference between the student's and the teacher's margins.

  A margin is that of the own positive over another record. Source: Hofstätter
  et al., "Improving Efficient Neural Ranking Models with Cross-Architecture
  Knowledge Distillation" (2020).
  """

  TEACHER = "required"
  scale: float = 1.0  # of the teacher's margins
  nce: float = 0.0  # weight of `Nce`, which is added

  def __call__(self, pairs: Pairs) -> Float[Array, ""]:
    """Returns the loss of a batch."""

    def margins(scores: jax.Array) -> jax.Array:
      return jnp.diagonal(scores)[:, None] - scores

    error = margins(pairs.scores) - self.scale * margins(pairs.teacher)
    is_taught = pairs.is_taught & jnp.diagonal(pairs.is_taught)[:, None]
    loss = mean_of(jnp.square(error), is_taught & ~pairs.own_positives)
    return _add_nce(loss, self.nce, pairs)


@register("kl")
class Kl(Loss):
  """Divergence of the student's from the teacher's distribution.

  Over the records of a row that the teacher scores.
  """

  TEACHER = "required"
  temperature: float = 1.0  # divides the teacher's scores
  nce: float = 0.0  # weight of `Nce`, which is added

  def __call__(self, pairs: Pairs) -> Float[Array, ""]:
    """Returns the loss of a batch."""
    student, teacher = (
      jax.nn.log_softmax(jnp.where(pairs.is_taught, scores, MASKED_LOGIT))
      for scores in (pairs.scores, pairs.teacher / self.temperature)
    )
    rows = optax.losses.kl_divergence_with_log_targets(student, teacher)
    loss = mean_of(rows, pairs.is_taught.sum(axis=1) > 1)
    return _add_nce(loss, self.nce, pairs)


@register("listmle")
class ListMle(Loss):
  """Likelihood of an order: each record before all that are less relevant.

  Relevance is the teacher's score; without a teacher positives are relevant,
  and all others are not. The mean over records that have such others. Source:
  Xia et al., "Listwise Approach to Learning to Rank" (2008).
  """

  TEACHER = "optional"

  def __call__(self, pairs: Pairs) -> Float[Array, ""]:
    """Returns the loss of a batch."""
    is_ranked, relevance = pairs.is_taught, pairs.teacher
    if not relevance.size:  # no teacher
      is_ranked, relevance = pairs.valid, pairs.positives.astype(jnp.float32)
    scores, below = sum_below(
      jnp.where(is_ranked, pairs.scores, MASKED_LOGIT),
      jnp.where(is_ranked, relevance, -jnp.inf),
    )
    # -log(exp(s) / (exp(s) + sum of those below))
    return mean_of(jax.nn.softplus(below - scores), below > MASKED_LOGIT / 2)
