"""The loss of the pairs of a batch, from a whole matrix or in blocks.

A batch has B * B * (1 + H) pairs. A loss that asks for it gets all their
scores. One that offers sums (`losses.BlockedLoss`) does without: a block of
queries meets a block of records, and only sums of rows and columns remain of
their scores; the backward pass scores the block again, unless the batch is
small enough for one.

Axes: B queries in the global batch, H hard negatives a query, N = B * (1 + H)
records, S shards of the batch over devices; of a block b queries, and the m =
n*(1+H) records of n queries that they meet.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models.encoding import Encoding
from ctd_jax.training import devices, losses
from ctd_jax.training.losses import MASKED_LOGIT, BlockedLoss, Loss, Pairs
from ctd_jax.training.packing import map_in_chunks


def interval_mask(
  ends: Int[Array, "B 2"], months: Int[Array, " N"]
) -> Bool[Array, "B N"]:
  """Returns whether each query's interval contains each record's month.

  All are ordinal months; intervals are closed.

  Source: paper, multi-positive objective, and the released code.
  """
  return (ends[:, :1] <= months) & (months <= ends[:, 1:])


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


class Block(NamedTuple):
  """Scores of a block, and what its records are to its queries."""

  # Of queries against positives, then negatives, [b, m]; MASKED_LOGIT where a
  # hard negative answers a query that it was not drawn for.
  forward: jax.Array
  backward: jax.Array  # the same of positives against queries, [b, n]
  is_valid: jax.Array  # not masked, [b, m]
  is_own: jax.Array  # drawn for the query, [b, n]
  answers: jax.Array  # positives that answer a query, by its months, [b, n]
  of_queries: jax.Array  # positives in the loss of queries, [b, n]
  of_records: jax.Array  # queries in that of positives, [b, n]

  def pad(self, mask: jax.Array) -> jax.Array:
    """Returns a mask of positives as one of all records, [b, m]."""
    return jnp.pad(mask, ((0, 0), (0, self.forward.shape[1] - mask.shape[1])))

  def find_best(self) -> tuple[Float[Array, " b"], Bool[Array, " b"]]:
    """Returns the largest score of a query, and whether its record answers."""
    scores = jax.lax.stop_gradient(self.forward)
    best_record = jnp.argmax(scores, axis=1, keepdims=True)
    is_correct = jnp.take_along_axis(self.pad(self.answers), best_record, 1)
    return scores.max(axis=1), is_correct[:, 0]


class RowSums(NamedTuple):
  """Statistics of a block's queries."""

  sums: Any  # of the loss, [b]
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
class PairLoss:
  """The loss of scores between the queries and the records of a batch."""

  # `(..., mode, method=...)` of the dual encoder.
  apply: Callable[..., jax.Array]
  mesh: Mesh  # devices over which the batch is split
  loss: ml_collections.FrozenConfigDict  # `config.loss`
  score_mode: str  # `config.score_mode`
  function: Loss  # that `loss` names

  def compute(
    self, query: Encoding, record: Encoding, batch: Any
  ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Returns the loss, and as a metric the share of right first records.

    With a teacher, also the share of the drawn records that it scores. A hard
    negative that answers another query of the batch is left out of that query's
    denominator. Rows stay on the devices that encoded them; the records of all
    devices are gathered on each, with their gradient.
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
    if not isinstance(self.function, BlockedLoss):
      return self._compute_whole(queries, records, batch.get("teacher"))
    rows, columns = self._sum_pairs(queries, records)
    forward = self.function.finish(rows.sums, row_positives)
    backward = self.function.finish(columns, column_positives)
    metrics = {"batch_hit@1": jnp.mean(rows.is_correct)}
    return 0.5 * (forward + backward), metrics

  def _compute_whole(
    self, queries: Queries, records: Records, teacher: jax.Array | None
  ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Returns loss and metrics of a function of the whole matrix."""
    shards = devices.count_batch_shards(self.mesh)
    row_blocks, _ = count_blocks(*records.months.shape, shards)
    # What a pair has beside its score is in memory for a block alone.
    block = map_in_chunks(
      lambda rows: self._match_block(rows, records), row_blocks, queries
    )
    group = records.months.shape[1] - 1
    own = jnp.concatenate(
      [block.is_own, jnp.repeat(block.is_own, group, axis=1)], axis=1
    )
    _, is_correct = block.find_best()
    metrics = {"batch_hit@1": jnp.mean(is_correct)}
    if teacher is None:
      teacher = jnp.zeros((len(own), 0))
      is_taught = teacher > 0
    else:
      is_taught = ~jnp.isnan(teacher) & block.is_valid
      teacher = jnp.where(is_taught, teacher, 0)
      metrics["taught"] = losses.mean_of(is_taught.astype(jnp.float32), own)
    pairs = Pairs(
      block.forward,
      block.pad(block.of_queries),
      block.is_valid,
      own,
      teacher,
      is_taught,
    )
    return self.function(pairs), metrics

  def _sum_pairs(
    self, queries: Queries, records: Records
  ) -> tuple[RowSums, Any]:
    """Returns the sums of all queries [B], and those of all positives [B]."""
    shards = devices.count_batch_shards(self.mesh)
    row_blocks, column_blocks = count_blocks(*records.months.shape, shards)

    def sum_rows(queries: Queries) -> tuple[RowSums, Any]:
      def sum_block(records: Records) -> tuple[RowSums, Any]:
        rows, columns = self._sum_block(queries, records, shards)
        # [1, b] and [n, S]: a row of the block, and rows of its columns.
        return jax.tree.map(lambda x: x[None], rows), columns

      rows, columns = map_in_chunks(sum_block, column_blocks, records)
      best_block = jnp.argmax(rows.top, axis=0, keepdims=True)
      rows = RowSums(
        self.function.join(rows.sums, 0),
        rows.top.max(axis=0),
        jnp.take_along_axis(rows.is_correct, best_block, axis=0)[0],
      )
      return rows, jax.tree.map(lambda x: x[None], columns)

    rows, columns = map_in_chunks(
      sum_rows, row_blocks, queries, recompute=column_blocks == 1
    )
    return rows, self.function.join(columns, (0, 2))

  def _sum_block(
    self, queries: Queries, records: Records, shards: int
  ) -> tuple[RowSums, Any]:
    """Returns the sums over the scores of a block."""
    block = self._match_block(queries, records)

    def split_shards(pairs: jax.Array) -> jax.Array:
      # No device waits for another before the sums of all blocks are joined.
      return pairs.T.reshape(pairs.shape[1], shards, -1)

    sum_scores = self.function.sum_scores
    rows = RowSums(
      sum_scores(block.forward, block.pad(block.of_queries)), *block.find_best()
    )
    return rows, sum_scores(
      split_shards(block.backward), split_shards(block.of_records)
    )

  def _match_block(self, queries: Queries, records: Records) -> Block:
    """Returns the scores of a block, and which of its records answer."""
    forward, backward = self.score_block(queries, records)
    # [m]: positives, then hard negatives.
    months = jnp.concatenate(
      [records.months[:, 0], records.months[:, 1:].reshape(-1)]
    )
    overlap = interval_mask(queries.ends, months)
    num_positives = backward.shape[1]
    # Commentary lies in the interval too, but answers no query.
    can_answer = jnp.pad(records.can_answer.reshape(-1), (num_positives, 0))
    is_valid = ~(overlap & can_answer)
    forward = jnp.where(is_valid, forward, MASKED_LOGIT)
    answers = overlap[:, :num_positives]
    is_own = queries.number[:, None] == records.number
    is_positive = answers if self.loss.multi_positive else is_own
    # A text that no other is positive for has its own.
    of_queries = is_positive | (is_own & (queries.num_positives == 0)[:, None])
    of_records = is_positive | (is_own & (records.num_positives == 0))
    return Block(
      forward, backward, is_valid, is_own, answers, of_queries, of_records
    )

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
