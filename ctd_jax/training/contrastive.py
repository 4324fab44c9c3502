"""Contrastive loss of a batch, no array of which has the scores of all pairs.

A batch has B * B * (1 + H) pairs. A block of queries meets a block of records,
and what is left of their scores are sums of rows and of columns; the backward
pass scores the block again, unless the batch is small enough for one.

Axes: B queries in the global batch, H hard negatives a query, S shards of the
batch over devices; of a block b queries, and the m = n*(1+H) records of n
queries that they meet.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
from jax.sharding import Mesh
from jaxtyping import Array, Float

from ctd_jax.models.encoding import Encoding
from ctd_jax.training import losses, partitioning
from ctd_jax.training.losses import NceSums
from ctd_jax.training.row_chunks import map_in_chunks

# Pairs that a device scores at once: the hidden units of their bias stay in the
# cache of a processor, and take little memory beside a chunk of texts.
_PAIRS_PER_BLOCK = 32_768
# Queries among them: low and wide blocks take a processor less time than square
# ones.
_ROWS_PER_BLOCK = 64


class Queries(NamedTuple):
  """Queries of a block, its rows.

  Attributes:
    number: of each in the batch, int [b].
    process: of the release that has it, int [b].
    encoding: [b].
    month_p: p(month), [b, K]; K = 0 where months are not compared.
    ends: first and last ordinal month, int [b, 2].
    num_positives: records of the batch that answer it, int [b].
  """

  number: jax.Array
  process: jax.Array
  encoding: Encoding
  month_p: jax.Array
  ends: jax.Array
  num_positives: jax.Array


class Records(NamedTuple):
  """Records of a block, its columns: those of n queries, the positive first.

  Attributes:
    number: of the query in the batch, int [n].
    process: of the release that has them, int [n].
    encoding: [n, 1+H].
    month_p: p(month), [n, 1+H, K]; K = 0 where months are not compared.
    months: ordinal, int [n, 1+H].
    can_answer: whether a hard negative is of a kind that answers, bool [n, H].
    num_positives: queries of the batch that the positive answers, int [n].
  """

  number: jax.Array
  process: jax.Array
  encoding: Encoding
  month_p: jax.Array
  months: jax.Array
  can_answer: jax.Array
  num_positives: jax.Array


class RowSums(NamedTuple):
  """What a block leaves of its queries.

  Attributes:
    nce: sums of the loss, [b].
    top: largest score, [b].
    is_correct: whether it is of a record that answers, bool [b].
  """

  nce: NceSums
  top: jax.Array
  is_correct: jax.Array


def count_blocks(size: int, records: int, shards: int) -> tuple[int, int]:
  """Returns in how many blocks queries and records are scored, all alike.

  Args:
    size: B.
    records: of each query, 1 + H.
    shards: of the queries, over devices; divides them. A block has queries of
      each.
  """
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
  """The loss of scores between the queries and the records of a batch.

  Attributes:
    apply: `(..., mode, method=...)` of the dual encoder.
    mesh: devices over which the batch is split.
    loss: `config.loss`.
    score_mode: `config.score_mode`.
  """

  apply: Callable[..., jax.Array]
  mesh: Mesh
  loss: ml_collections.FrozenConfigDict
  score_mode: str

  def compute(
    self, query: Encoding, record: Encoding, batch: Any
  ) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns the contrastive loss and the share of right first records.

    A hard negative that answers another query of the batch is left out of that
    query's denominator. Rows stay on the devices that encoded them; the
    records of all devices are gathered on each, with their gradient.

    Args:
      query: B.
      record: B*(1+H), those of a query together, its positive first.
      batch: see `input_pipeline.training_batches`.
    """
    size = len(query.scalar)
    numbers, ends = jnp.arange(size), batch["query_ends"]
    processes = numbers // (size // self.loss.emulated_processes)
    months = batch["positive_month"]
    hard_months = batch["negative_month"].reshape(size, -1)
    group = 1 + hard_months.shape[1]
    row_positives = column_positives = jnp.ones(size, jnp.int32)
    if self.loss.multi_positive:
      overlap = losses.interval_mask(*ends.T, months, months)  # [B, B]
      row_positives, column_positives = overlap.sum(axis=1), overlap.sum(axis=0)
    # The rows of all devices, on each of them.
    record, *of_records = jax.lax.with_sharding_constraint(
      (
        record,
        jnp.column_stack([months, hard_months]),
        batch["negative_answers"].reshape(hard_months.shape),
        column_positives,
      ),
      partitioning.replicated_sharding(self.mesh),
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
    forward = losses.multi_positive_nce(rows.nce, row_positives, reduction)
    backward = losses.multi_positive_nce(columns, column_positives, reduction)
    return 0.5 * (forward + backward), jnp.mean(rows.is_correct)

  def _sum_pairs(
    self, queries: Queries, records: Records
  ) -> tuple[RowSums, NceSums]:
    """Returns the sums of all queries [B], and those of all positives [B]."""
    shards = partitioning.count_batch_shards(self.mesh)
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
        losses.join_sums(rows.nce, 0, reduction),
        rows.top.max(axis=0),
        jnp.take_along_axis(rows.is_correct, best_block, axis=0)[0],
      )
      return rows, jax.tree.map(lambda x: x[None], columns)

    rows, columns = map_in_chunks(
      sum_rows, row_blocks, queries, recompute=column_blocks == 1
    )
    return rows, losses.join_sums(columns, (0, 2), reduction)

  def _sum_block(
    self, queries: Queries, records: Records, shards: int
  ) -> tuple[RowSums, NceSums]:
    """Returns the sums over the scores of a block.

    Returns:
      Of its queries, [b]; of its positives, over the queries of each shard,
      [n, S].
    """
    forward, backward = self.score_block(queries, records)
    # [m]: positives, then hard negatives.
    months = jnp.concatenate(
      [records.months[:, 0], records.months[:, 1:].reshape(-1)]
    )
    overlap = losses.interval_mask(*queries.ends.T, months, months)
    num_positives = backward.shape[1]
    # Commentary lies in the interval too, but answers no query.
    can_answer = jnp.pad(records.can_answer.reshape(-1), (num_positives, 0))
    forward = jnp.where(overlap & can_answer, losses.MASKED_LOGIT, forward)
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

    sum_terms = functools.partial(
      losses.sum_logits, reduction=self.loss.reduction
    )
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

    Args:
      queries: of the block.
      records: of the block.

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
