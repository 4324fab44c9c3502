"""Scoring of hidden records block by block, so that memory is bounded.

Links, beliefs and scores of all records are kept; what is made of the k links
of a record times the years, of one block at a time. Time grows with the links,
that is with the records.

Axes: n events, b some more, m comments, Y regnal years.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from ctd_jax.models.arrays import AnyArray
from ctd_jax.models.link_messages import LinkBeliefs
from ctd_jax.models.linked_dater import (
  Beliefs,
  LinkedDater,
  LinkedScores,
  pass_rounds,
)
from ctd_jax.models.linked_inputs import (
  Calendar,
  DatingInputs,
  EventInputs,
  pad_rows,
)

BLOCK = 4096  # records
# Records of a smaller corpus are a multiple: one program serves several folds.
_STEP = 1024


def score_records(
  network: LinkedDater, params: Any, inputs: DatingInputs, block: int = BLOCK
) -> LinkedScores:
  """Returns the scores that the network gives to all hidden records.

  Args:
    network: that scores them.
    params: its parameters.
    inputs: of the records.
    block: records at once.
  """

  def apply(method: str, *arguments: Any) -> Any:
    return _apply(network, params, method, *arguments)

  num_events = len(inputs.events.date_years)
  num_comments = len(inputs.comments.commented.source)
  events = pad_rows(inputs.events, _round_up(num_events, block))
  comments = pad_rows(inputs.comments, _round_up(num_comments, block))
  event_links = map_blocks(
    functools.partial(apply, "score_event_links"), block, events
  )
  comment_links = map_blocks(
    functools.partial(apply, "score_comment_links"), block, comments
  )

  def date(method: str, records: Any, links: Any, sent: Any) -> Any:
    sent = jax.device_put(sent)  # once, and not for every block
    return map_blocks(
      lambda *part: apply(method, inputs.calendar, *part, sent),
      block,
      records,
      links,
    )

  last_round = pass_rounds(
    network.config.rounds,
    functools.partial(date, "date_events", events, event_links),
    functools.partial(date, "date_comments", comments, comment_links),
  )
  event_months = map_blocks(
    lambda *part: apply("date_months", *part, events.month_chances),
    block,
    events,
    event_links,
  )

  def cut(tree: Any, size: int) -> Any:
    return jax.tree.map(lambda rows: rows[:size], tree)

  return LinkedScores(
    event_terms=cut(last_round.event_terms, num_events),
    comment_terms=cut(last_round.comment_terms, num_comments),
    event_months=event_months[:num_events],
    links=cut(event_links, num_events) | cut(comment_links, num_comments),
    event_beliefs=last_round.sent.events[:num_events],
    comment_beliefs=last_round.sent.comments[:num_comments],
    inverse_temperature=np.asarray(np.exp(params["log_inverse_temperature"])),
  )


def score_new_events(
  network: LinkedDater,
  params: Any,
  calendar: Calendar,
  events: EventInputs,
  sent: Beliefs | None,
  month_chances: Float[AnyArray, "n 12"],
) -> tuple[
  dict[str, np.ndarray], Float[AnyArray, "b 12"], dict[str, LinkBeliefs]
]:
  """Returns what `LinkedDater.date_new_events` says, on the host.

  Args:
    network: that scores them.
    params: its parameters.
    calendar: the years.
    events: that are none of the hidden records, few enough for one block.
    sent: what the hidden records believed in the round before the last; None =
      no messages.
    month_chances: of the hidden events, by their printed dates.
  """
  arguments = calendar, events, sent, month_chances
  return jax.device_get(_apply(network, params, "date_new_events", *arguments))


def _round_up(size: int, block: int) -> int:
  """Returns the number of rows that a corpus is filled up to."""
  step = block if size > block else min(block, _STEP)
  return max(step, -(-size // step) * step)


def map_blocks(function: Callable[..., Any], block: int, *trees: Any) -> Any:
  """Returns what a function makes of all rows, on the host.

  Args:
    function: of as many trees, whose leaves have as many rows as its result.
    block: rows at once.
    trees: their leaves have one number of rows, below or a multiple of it.
  """
  size = len(jax.tree.leaves(trees)[0])
  results = []
  for start in range(0, size, block):
    part = jax.tree.map(lambda rows, i=start: rows[i : i + block], trees)
    results.append(jax.device_get(function(*part)))
  if len(results) == 1:
    return results[0]
  return jax.tree.map(lambda *parts: np.concatenate(parts), *results)


@functools.partial(jax.jit, static_argnames=("network", "method"))
def _apply(
  network: LinkedDater, params: Any, method: str, *arguments: Any
) -> Any:
  return network.apply({"params": params}, *arguments, method=method)
