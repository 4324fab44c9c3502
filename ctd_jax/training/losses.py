"""Losses of the retriever: contrastive, calendrical, of posterior and order.

Plain fine-tuning, TempDate, CTD and the ablations are weighted sums of these
functions, which `objective` forms. They map arrays to fp32 scalars (that of the
order to one a query) and know no model.

Axes: B queries in a batch (row i of the records is query i's own positive),
N = B + hard negatives of the batch, C classes of a calendar head, K months of
the timeline.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models.encoding import Encoding
from ctd_jax.training import devices
from ctd_jax.training.packing import map_in_chunks

# Finite, so that a masked entry has a zero gradient rather than a NaN.
MASKED_LOGIT = -1e9
# Inverse temperature of the ranking loss, as its author and its users have it.
_COSENT_SCALE = 20.0


def interval_mask(
  ends: Int[Array, "B 2"], months: Int[Array, " N"]
) -> Bool[Array, "B N"]:
  """Returns whether each query's interval contains each record's month.

  All are ordinal months; intervals are closed.

  Source: paper, multi-positive objective, and the released code.
  """
  return (ends[:, :1] <= months) & (months <= ends[:, 1:])


class NceSums(NamedTuple):
  """Sums over the logits of texts, of which the contrastive loss is made."""

  total: jax.Array  # log of the summed exponentials of all logits
  # The same of the positives ("sum_inside"), or the sum of their logits
  # ("mean_outside").
  positive: jax.Array


def sum_logits(
  logits: Float[Array, "*texts N"],
  is_positive: Bool[Array, "*texts N"],
  reduction: str = "sum_inside",
) -> NceSums:
  """Returns the sums over the last axis of logits, fp32.

  Args:
    logits: scores already divided by the temperature.
    is_positive: True for those that the loss asks to be high.
    reduction: "sum_inside" = -log of the summed probability of the positives,
      as released: one easy positive satisfies it. "mean_outside" = mean of
      -log p over the positives: every positive has to be found.
  """
  logits = logits.astype(jnp.float32)  # bf16 sums would lose small terms
  if reduction == "sum_inside":
    masked_logits = jnp.where(is_positive, logits, MASKED_LOGIT)
    positive = jax.nn.logsumexp(masked_logits, -1)
  else:
    positive = jnp.where(is_positive, logits, 0).sum(-1)
  return NceSums(jax.nn.logsumexp(logits, -1), positive)


def join_sums(
  sums: NceSums, axis: int | tuple[int, ...], reduction: str
) -> NceSums:
  """Returns the sums over all blocks of logits, from those over each."""
  join = jax.nn.logsumexp if reduction == "sum_inside" else jnp.sum
  return NceSums(jax.nn.logsumexp(sums.total, axis), join(sums.positive, axis))


def multi_positive_nce(
  sums: NceSums, num_positives: Int[Array, " B"], reduction: str = "sum_inside"
) -> Float[Array, ""]:
  """Returns the mean over texts of a contrastive loss with many positives."""
  positive = sums.positive
  if reduction == "mean_outside":
    positive = positive / jnp.maximum(num_positives, 1)
  return jnp.mean(sums.total - positive)


def smoothed_targets(
  labels: Int[Array, " B"], classes: int, eps: float, kind: str = "neighbours"
) -> Float[Array, "B C"]:
  """Returns target probabilities, of which other classes have a part eps.

  Args:
    labels: right classes, from 0.
    classes: C.
    eps: mass taken from the right class; 0 = none.
    kind: "neighbours" = shared by the neighbours that exist: half each inside,
      all to the only one at an end; months do not wrap. "uniform" = shared by
      all classes, the right one too.

  Source: released code, calendar loss; "uniform" is the label smoothing that
  the paper names.
  """
  target = jax.nn.one_hot(labels, classes, dtype=jnp.float32)
  if classes == 1 or eps <= 0:
    return target
  if kind == "uniform":
    return optax.smooth_labels(target, eps)
  below = jax.nn.one_hot(labels - 1, classes, dtype=jnp.float32)
  above = jax.nn.one_hot(labels + 1, classes, dtype=jnp.float32)
  # one_hot of an index outside the classes is a zero row.
  neighbours = below + above
  neighbours /= jnp.maximum(neighbours.sum(axis=1, keepdims=True), 1.0)
  return (1.0 - eps) * target + eps * neighbours


def calendar_cross_entropy(
  logits: Sequence[Float[Array, "B _"]],
  labels: Int[Array, "B 3"],
  eps: float = 0.0,
  reduction: str = "mean",
  kind: str = "neighbours",
) -> Float[Array, ""]:
  """Returns the loss of the three calendar heads on dated texts.

  Args:
    logits: logits of reign, year and month; each head has its own classes.
    labels: (reign, year, month), each counted from 0. A time key counts from
      1: subtract one.
    eps: smoothing, see `smoothed_targets`; 0 = plain.
    reduction: over the heads, "mean" (the release) or "sum" (the paper).
    kind: of the smoothing.

  Source: paper, calendar objective, and the released code.
  """
  targets = [
    smoothed_targets(labels[:, head], values.shape[-1], eps, kind)
    for head, values in enumerate(logits)
  ]
  return interval_calendar_cross_entropy(logits, targets, reduction)


def interval_calendar_cross_entropy(
  logits: Sequence[Float[Array, "B _"]],
  targets: Sequence[Float[Array, "B _"]],
  reduction: str = "mean",
) -> Float[Array, ""]:
  """Returns the loss of the calendar heads against soft targets.

  For queries: the targets are the marginals of the uniform distribution over
  the months of the query's interval, made once by the input pipeline.
  """
  losses = []
  for values, target in zip(logits, targets, strict=True):
    log_p = jax.nn.log_softmax(values.astype(jnp.float32), axis=-1)
    losses.append(-(target * log_p).sum(axis=-1).mean())
  total = sum(losses)
  return total / len(losses) if reduction == "mean" else total


def interval_cross_entropy(
  log_p: Float[Array, "B K"], ends: Int[Array, "B 2"]
) -> Float[Array, ""]:
  """Returns the loss of posteriors of the month.

  The mean of -log p over the months of each interval: for a dated text, whose
  interval is one month, its negative log-likelihood.
  """
  ordinals = jnp.arange(log_p.shape[1])
  is_inside = (ends[:, :1] <= ordinals) & (ordinals <= ends[:, 1:])  # [B, K]
  # where, not a product: 0 * -inf of a month without mass would be NaN.
  return -(jnp.where(is_inside, log_p, 0).sum(1) / is_inside.sum(1)).mean()


def cosent_loss(
  similarities: Float[Array, "B N"], labels: Float[Array, "B N"]
) -> Float[Array, " B"]:
  """Returns the loss of pairs in the wrong order, of each row.

  Of similarities s and labels y it is log(1 + sum exp(20 (s_k - s_j))) over all
  pairs of columns with y_j > y_k: only the order of the labels counts. The
  original compares all pairs of texts in a batch; a ranking compares the
  records of one query. The sum over k is cumulative over sorted labels, so that
  the cost is N log N.

  Source: Su, "CoSENT" (2022), the loss that TEMPS is trained with.
  """
  order = jnp.argsort(labels, axis=1)
  labels = jnp.take_along_axis(labels, order, axis=1)
  scores = _COSENT_SCALE * jnp.take_along_axis(
    similarities.astype(jnp.float32), order, axis=1
  )
  num_below = jax.vmap(jnp.searchsorted)(labels, labels)  # strictly, [B, N]
  sums = jax.lax.cumlogsumexp(scores, axis=1)
  sums = jnp.pad(sums, ((0, 0), (1, 0)), constant_values=MASKED_LOGIT)
  below = jnp.take_along_axis(sums, num_below, axis=1)
  # log(1 + sum_j exp(-s_j) sum_k exp(s_k))
  return jax.nn.softplus(jax.nn.logsumexp(below - scores, axis=1))


# Contrastive loss of a batch, no array of which has the scores of all pairs.
#
# A batch has B * B * (1 + H) pairs. A block of queries meets a block of
# records, and only sums of rows and columns remain of their scores; the
# backward pass scores the block again, unless the batch is small enough for
# one.
#
# Axes: B queries in the global batch, H hard negatives a query, S shards of
# the batch over devices; of a block b queries, and the m = n*(1+H) records of
# n queries that they meet.


# Pairs that a device scores at once: the hidden units of their bias stay in the
# cache of a processor, and take little memory beside a chunk of texts.
_PAIRS_PER_BLOCK = 32_768
# Queries among them: low and wide blocks take a processor less time than square
# ones.
_ROWS_PER_BLOCK = 64


class Queries(NamedTuple):
  """Queries of a block, its rows."""

  number: jax.Array  # of each in the batch, int [b]
  process: jax.Array  # of the release that has it, int [b]
  encoding: Encoding  # [b]
  month_p: jax.Array  # p(month), [b, K]; K = 0 where months are not compared
  ends: jax.Array  # first and last ordinal month, int [b, 2]
  num_positives: jax.Array  # records of the batch that answer it, int [b]


class Records(NamedTuple):
  """Records of a block, its columns: those of n queries, the positive first."""

  number: jax.Array  # of the query in the batch, int [n]
  process: jax.Array  # of the release that has them, int [n]
  encoding: Encoding  # [n, 1+H]
  # Probabilities of months, [n, 1+H, K]; K = 0 where months are not compared.
  month_p: jax.Array
  months: jax.Array  # ordinal, int [n, 1+H]
  # Whether the kind of each hard negative can answer a query, bool [n, H].
  can_answer: jax.Array
  # Queries of the batch that the positive answers, int [n].
  num_positives: jax.Array


class RowSums(NamedTuple):
  """Statistics of a block's queries."""

  nce: NceSums  # sums of the loss, [b]
  top: jax.Array  # largest score, [b]
  is_correct: jax.Array  # whether its record answers, bool [b]


def count_blocks(size: int, records: int, shards: int) -> tuple[int, int]:
  """Returns the numbers of blocks of queries and of records, of equal size."""
  rows = size // shards
  row_block = _largest_divisor(rows, _ROWS_PER_BLOCK)
  column_block = _largest_divisor(
    size, _PAIRS_PER_BLOCK // (row_block * records)
  )
  return rows // row_block, size // column_block


def _largest_divisor(number: int, limit: int) -> int:
  """Returns the largest divisor up to a limit, at least 1."""
  return next(n for n in range(max(1, limit), 0, -1) if number % n == 0)


@dataclasses.dataclass(frozen=True)
class ContrastiveLoss:
  """The loss of scores between the queries and the records of a batch."""

  # `(..., mode, method=...)` of the dual encoder.
  apply: Callable[..., jax.Array]
  mesh: Mesh  # devices over which the batch is split
  loss: ml_collections.FrozenConfigDict  # `config.loss`
  score_mode: str  # `config.score_mode`

  def compute(
    self, query: Encoding, record: Encoding, batch: Any
  ) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns the contrastive loss and the share of right first records.

    A hard negative that answers another query of the batch is left out of that
    query's denominator. Rows stay on the devices that encoded them; the
    records of all devices are gathered on each, with their gradient.
    """
    size = len(query.scalar)
    numbers, ends = jnp.arange(size), batch["query_ends"]
    processes = numbers // (size // self.loss.emulated_processes)
    months = batch["positive_month"]
    hard_months = batch["negative_month"].reshape(size, -1)
    group = 1 + hard_months.shape[1]
    row_positives = column_positives = jnp.ones(size, jnp.int32)
    if self.loss.multi_positive:
      overlap = interval_mask(ends, months)  # [B, B]
      row_positives, column_positives = overlap.sum(axis=1), overlap.sum(axis=0)
    # The rows of all devices, on each of them.
    record, *of_records = jax.lax.with_sharding_constraint(
      (
        record,
        jnp.column_stack([months, hard_months]),
        batch["negative_answers"].reshape(hard_months.shape),
        column_positives,
      ),
      devices.replicated_sharding(self.mesh),
    )
    query_p, record_p = (
      self.apply(each, self.score_mode, method="month_p")
      for each in (query, record)
    )
    queries = Queries(numbers, processes, query, query_p, ends, row_positives)
    grouped = jax.tree.map(
      lambda x: x.reshape(size, group, *x.shape[1:]), (record, record_p)
    )
    records = Records(numbers, processes, *grouped, *of_records)
    rows, columns = self._sum_pairs(queries, records)
    reduction = self.loss.reduction
    forward = multi_positive_nce(rows.nce, row_positives, reduction)
    backward = multi_positive_nce(columns, column_positives, reduction)
    return 0.5 * (forward + backward), jnp.mean(rows.is_correct)

  def _sum_pairs(
    self, queries: Queries, records: Records
  ) -> tuple[RowSums, NceSums]:
    """Returns the sums of all queries [B], and those of all positives [B]."""
    shards = devices.count_batch_shards(self.mesh)
    row_blocks, column_blocks = count_blocks(*records.months.shape, shards)
    reduction = self.loss.reduction

    def sum_rows(queries: Queries) -> tuple[RowSums, NceSums]:
      def sum_block(records: Records) -> tuple[RowSums, NceSums]:
        rows, columns = self._sum_block(queries, records, shards)
        # [1, b] and [n, S]: a row of the block, and rows of its columns.
        return jax.tree.map(lambda x: x[None], rows), columns

      rows, columns = map_in_chunks(sum_block, column_blocks, records)
      best_block = jnp.argmax(rows.top, axis=0, keepdims=True)
      rows = RowSums(
        join_sums(rows.nce, 0, reduction),
        rows.top.max(axis=0),
        jnp.take_along_axis(rows.is_correct, best_block, axis=0)[0],
      )
      return rows, jax.tree.map(lambda x: x[None], columns)

    rows, columns = map_in_chunks(
      sum_rows, row_blocks, queries, recompute=column_blocks == 1
    )
    return rows, join_sums(columns, (0, 2), reduction)

  def _sum_block(
    self, queries: Queries, records: Records, shards: int
  ) -> tuple[RowSums, NceSums]:
    """Returns the sums over the scores of a block."""
    forward, backward = self.score_block(queries, records)
    # [m]: positives, then hard negatives.
    months = jnp.concatenate(
      [records.months[:, 0], records.months[:, 1:].reshape(-1)]
    )
    overlap = interval_mask(queries.ends, months)
    num_positives = backward.shape[1]
    # Commentary lies in the interval too, but answers no query.
    can_answer = jnp.pad(records.can_answer.reshape(-1), (num_positives, 0))
    forward = jnp.where(overlap & can_answer, MASKED_LOGIT, forward)
    answers = overlap[:, :num_positives]
    is_own = queries.number[:, None] == records.number
    is_positive = answers if self.loss.multi_positive else is_own
    # A text that no other is positive for has its own.
    of_queries = is_positive | (is_own & (queries.num_positives == 0)[:, None])
    of_records = is_positive | (is_own & (records.num_positives == 0))

    def pad_negatives(mask: jax.Array) -> jax.Array:
      return jnp.pad(mask, ((0, 0), (0, forward.shape[1] - num_positives)))

    def split_shards(pairs: jax.Array) -> jax.Array:
      # No device waits for another before the sums of all blocks are joined.
      return pairs.T.reshape(num_positives, shards, -1)

    sum_terms = functools.partial(sum_logits, reduction=self.loss.reduction)
    scores = jax.lax.stop_gradient(forward)
    best_record = jnp.argmax(scores, axis=1, keepdims=True)
    rows = RowSums(
      sum_terms(forward, pad_negatives(of_queries)),
      scores.max(axis=1),
      jnp.take_along_axis(pad_negatives(answers), best_record, axis=1)[:, 0],
    )
    return rows, sum_terms(split_shards(backward), split_shards(of_records))

  def score_block(
    self, queries: Queries, records: Records
  ) -> tuple[Float[Array, "b m"], Float[Array, "b n"]]:
    """Returns the scores of the two directions of the contrastive loss.

    Scores are those of the mode, unless a field of the loss asks for the
    released code's; of "temps" they are the cosines, since its similarity in
    time has a loss of its own. `bias_columns="positives"` leaves the hard
    negatives without the temporal term. `emulated_processes=W` gives loss and
    gradient of the release in W processes, on any number of devices: row i of
    the batch belongs to process i // (B / W), and

    - a process gathers the vectors of all, its own included, without their
      gradient, so that cosines pass it to the rows of either direction alone,
      and none to hard negatives;
    - only pairs of one process have a temporal term, with its whole gradient;
    - every row counts the same, since the processes have equally many and the
      release averages their gradients.

    Returns:
      Of queries against positives, then negatives; of positives against
      queries, a positive in a column.

    Source: released code, in-batch loss and its form over processes.
    """
    query = queries.encoding
    of_records = records.encoding, records.month_p
    positive, positive_p = jax.tree.map(lambda x: x[:, 0], of_records)
    negative, negative_p = jax.tree.map(
      lambda x: jax.lax.collapse(x[:, 1:], 0, 2), of_records
    )
    is_emulated = self.loss.emulated_processes > 1

    def gather(encoding: Encoding) -> Encoding:
      return jax.lax.stop_gradient(encoding) if is_emulated else encoding

    def cosine(query: Encoding, record: Encoding) -> jax.Array:
      return self.apply(query, record, self.score_mode, method="cosine")

    def temporal(
      record: Encoding, month_p: jax.Array, process: jax.Array
    ) -> jax.Array:
      terms = self.apply(
        *(query, record, self.score_mode, queries.month_p, month_p),
        method="temporal",
      )
      if not is_emulated:
        return terms
      return jnp.where(queries.process[:, None] == process, terms, 0)

    bias = temporal(positive, positive_p, records.process)
    hard_scores = cosine(query, gather(negative))
    if self.loss.bias_columns == "all":
      group = records.months.shape[1] - 1
      hard_scores += temporal(
        negative, negative_p, jnp.repeat(records.process, group)
      )
    forward = backward = cosine(query, gather(positive)) + bias
    if is_emulated:  # the cosine is the same, its gradient is not
      backward = cosine(gather(query), positive) + bias
    return jnp.concatenate([forward, hard_scores], axis=1), backward
