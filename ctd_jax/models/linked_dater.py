"""Linked dater: undated records dated together, by attention over their links.

The year of an event mostly does not stand in its own text but in others: a
commentary that cites the year beside the same words, a parallel text with its
own printed date. Each hidden record starts with a belief over the years by its
own text. Then, for a few rounds, it gathers the beliefs of the records that it
is linked to. How far a link is to be believed is learned from the wording that
the two share; what it says is carried by the beliefs, so that no parameter
knows the calendar. See `link_messages`.

Axes: n events, m comments, b some events, k links into a record, Y regnal
years, K months.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Int

from ctd_jax.models.arrays import AnyArray
from ctd_jax.models.link_messages import (
  MAX_CHANCE,
  SAME_MONTH,
  LinkBeliefs,
  LinkScorer,
  MessageWeights,
  pass_beliefs,
  pass_cited_years,
)
from ctd_jax.models.linked_inputs import DatingInputs

_EVEN_CHANCE = 0.5  # of a month: a record above it needs no other's month


class LinkedScores(flax.struct.PyTreeNode):
  """What all evidence but the printed date says of hidden records.

  Attributes:
    event_terms: log scores of years by the kind of evidence, to be added up.
    comment_terms: likewise.
    event_months: log ratios of the months of a year.
    links: beliefs in the links, by kind.
    event_beliefs: chances of years that events sent in the last round.
    comment_beliefs: likewise of comments.
    inverse_temperature: of the whole.
  """

  event_terms: Mapping[str, Float[AnyArray, "n Y"]]
  comment_terms: Mapping[str, Float[AnyArray, "m Y"]]
  event_months: Float[AnyArray, "n 12"]
  links: Mapping[str, LinkBeliefs]
  event_beliefs: Float[AnyArray, "n Y"]
  comment_beliefs: Float[AnyArray, "m Y"]
  inverse_temperature: Float[AnyArray, ""]

  @property
  def event_years(self) -> Float[Array, "n Y"]:
    """Log scores of years, up to a constant."""
    return sum(self.event_terms.values())

  @property
  def comment_years(self) -> Float[Array, "m Y"]:
    """Log scores of years, up to a constant."""
    return sum(self.comment_terms.values())

  def score_months(
    self, inputs: DatingInputs, rows: Int[AnyArray, " b"]
  ) -> Float[Array, "b K"]:
    """Returns log scores of months of some events, before any balancing.

    Args:
      inputs: that made these scores.
      rows: indices of the events.
    """
    calendar = inputs.calendar
    return (
      inputs.event_dates[rows].astype(jnp.float32)
      + self.event_years[rows][:, calendar.year_of]
      + self.event_months[rows][:, calendar.month_of_year]
    )


@dataclasses.dataclass(frozen=True)
class LinkedDaterConfig:
  """Size of the model and the evidence that it uses.

  Attributes:
    readers: what reads the own text of events: names of `event_scores`.
    hidden_size: of the scorer of links.
    heads: of the attention over links.
    rounds: in which beliefs are passed on; 0 = own texts alone.
    dropout: in the scorer of links.
    use_citations: whether cited years count.
    use_parallels: whether events are linked to events.
    use_comments: whether events and comments are linked.
    use_capacity: whether the months are balanced against their capacity.
  """

  readers: tuple[str, ...] = ("words", "neural")
  hidden_size: int = 48
  heads: int = 2
  rounds: int = 2
  dropout: float = 0.1
  use_citations: bool = True
  use_parallels: bool = True
  use_comments: bool = True
  use_capacity: bool = True

  def __post_init__(self):
    for name in ("hidden_size", "heads"):
      if getattr(self, name) < 1:
        raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
    if self.rounds < 0:
      raise ValueError(f"rounds must be 0 or more, got {self.rounds}")
    if not 0 <= self.dropout < 1:
      raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")


class LinkedDater(nn.Module):
  """Dates hidden records together.

  Attributes:
    config: size and evidence.
  """

  config: LinkedDaterConfig = LinkedDaterConfig()

  def setup(self):
    """Makes the scorers of links and the weights of the evidence."""
    config = self.config

    def make_scorer(num_classes: int) -> LinkScorer:
      return LinkScorer(
        num_classes, config.hidden_size, config.heads, config.dropout
      )

    self.score_cited = make_scorer(2)
    self.score_parallels = make_scorer(4)
    self.score_comments = make_scorer(4)
    self.weigh_cited = MessageWeights(config.heads)
    self.weigh_parallels = MessageWeights(config.heads)
    self.weigh_comments = MessageWeights(config.heads)
    self.weigh_commented = MessageWeights(config.heads)

    def scalar(name: str, value: float) -> jax.Array:
      return self.param(name, nn.initializers.constant(value), ())

    self.prior_weight = scalar("prior", 1.0)
    self.log_month_weight = scalar("log_month_messages", float(np.log(0.5)))
    self.log_inverse_temperature = scalar(
      "log_inverse_temperature", float(np.log(0.85))
    )
    self.event_weights = {
      name: scalar(f"event_{name}", 0.5) for name in config.readers
    }
    self.comment_weight = scalar("comment_words", 0.5)

  def __call__(
    self, inputs: DatingInputs, deterministic: bool = True
  ) -> LinkedScores:
    """Returns the scores of all hidden records after the last round.

    Args:
      inputs: of the records.
      deterministic: whether dropout is off.
    """
    config, years_of = self.config, inputs.calendar.year_of
    links = self.score_links(inputs, deterministic)
    log_prior = self.prior_weight * jnp.log(inputs.year_prior)
    own_events = {"prior": log_prior} | {
      name: weight * inputs.event_scores[name]
      for name, weight in self.event_weights.items()
    }
    own_comments = {"prior": log_prior}
    if "words" in inputs.comment_scores:
      own_comments["words"] = (
        self.comment_weight * inputs.comment_scores["words"]
      )
    # What an event believes, and sends, includes its printed date.
    dates = _sum_months(inputs.event_dates, years_of, log_prior.shape[-1])
    shape = dates.shape
    event_terms, comment_terms = own_events, own_comments
    event_beliefs = jax.nn.softmax(dates + sum(own_events.values()))
    comment_beliefs = jax.nn.softmax(
      jnp.broadcast_to(
        sum(own_comments.values()), (len(inputs.commented.source), shape[1])
      )
    )
    sent = event_beliefs, comment_beliefs
    for _ in range(config.rounds):
      sent = event_beliefs, comment_beliefs
      event_messages, comment_messages = self._pass_beliefs(
        inputs, links, *sent
      )
      event_terms = own_events | event_messages
      comment_terms = own_comments | comment_messages
      event_beliefs = jax.nn.softmax(dates + sum(event_terms.values()))
      comment_beliefs = jax.nn.softmax(
        jnp.broadcast_to(sum(comment_terms.values()), comment_beliefs.shape)
      )
    return LinkedScores(
      event_terms={
        name: jnp.broadcast_to(term, shape)
        for name, term in event_terms.items()
      },
      comment_terms={
        name: jnp.broadcast_to(term, comment_beliefs.shape)
        for name, term in comment_terms.items()
      },
      event_months=self._pass_months(inputs, links),
      links=links,
      event_beliefs=sent[0],
      comment_beliefs=sent[1],
      inverse_temperature=jnp.exp(self.log_inverse_temperature),
    )

  def score_links(
    self, inputs: DatingInputs, deterministic: bool = True
  ) -> dict[str, LinkBeliefs]:
    """Returns the beliefs in links, by kind; those that do not count left out.

    Args:
      inputs: of the records.
      deterministic: whether dropout is off.
    """
    config, result = self.config, {}
    if config.use_citations:
      cited = inputs.cited_years
      result["cited"] = self.score_cited(
        cited.features, cited.is_link, deterministic
      )
    if config.use_parallels:
      links = inputs.parallels
      result["parallels"] = self.score_parallels(
        links.features, links.is_link, deterministic
      )
    if config.use_comments:
      # Both ways of a pair are of one chance.
      for name in ("comments", "commented"):
        links = getattr(inputs, name)
        result[name] = self.score_comments(
          links.features, links.is_link, deterministic
        )
    return result

  def classify_links(
    self, features: Mapping[str, Float[AnyArray, "n f"]]
  ) -> dict[str, Float[Array, "n c"]]:
    """Returns log p of the classes of single links.

    Args:
      features: ranks, by kind: "cited", "parallels" and "comments".
    """
    scorers = {
      "cited": self.score_cited,
      "parallels": self.score_parallels,
      "comments": self.score_comments,
    }
    return {
      name: scorers[name](ranks, jnp.ones(len(ranks), bool), False).log_p
      for name, ranks in features.items()
    }

  def _pass_beliefs(
    self,
    inputs: DatingInputs,
    links: Mapping[str, LinkBeliefs],
    event_beliefs: jax.Array,
    comment_beliefs: jax.Array,
  ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Returns the messages to events [n, Y] and to comments [m, Y], by kind."""
    prior = inputs.year_prior
    to_events, to_comments = {}, {}
    if "cited" in links:
      reigns = comment_beliefs @ inputs.calendar.has_reign  # [m, R]
      to_events["cited"] = pass_cited_years(
        inputs.cited_years,
        links["cited"],
        reigns,
        inputs.calendar.year_table,
        prior,
        self.weigh_cited(),
      )
    for name, beliefs, weigh, messages in (
      ("parallels", event_beliefs, self.weigh_parallels, to_events),
      ("comments", comment_beliefs, self.weigh_comments, to_events),
      ("commented", event_beliefs, self.weigh_commented, to_comments),
    ):
      if name in links:
        messages[name] = pass_beliefs(
          getattr(inputs, name).source, links[name], beliefs, prior, weigh()
        )
    return to_events, to_comments

  def _pass_months(
    self, inputs: DatingInputs, links: Mapping[str, LinkBeliefs]
  ) -> Float[Array, "n 12"]:
    """Returns log ratios of the months of a year by parallel events.

    The Annals may name the month of an event that a tradition tells without.
    """
    own = inputs.month_chances
    if "parallels" not in links or not self.config.rounds:
      return jnp.zeros_like(own)
    # [n, k]
    chance = MAX_CHANCE * jnp.exp(links["parallels"].log_p[..., SAME_MONTH])
    ratio = 12 * own[inputs.parallels.source]  # [n, k, 12]
    messages = jnp.log1p(chance[..., None] * (ratio - 1)).sum(axis=1)
    messages /= jnp.sqrt(1 + chance.sum(axis=1, keepdims=True))
    messages *= jnp.exp(self.log_month_weight)
    # What a record says of its own month needs no help.
    return jnp.where(own.max(axis=1, keepdims=True) > _EVEN_CHANCE, 0, messages)


def _sum_months(
  log_months: Float[AnyArray, "n K"],
  year_of: Int[AnyArray, " K"],
  num_years: int,
) -> Float[Array, "n Y"]:
  """Returns log masses of years."""
  chances = jnp.exp(log_months.astype(jnp.float32))
  sums = jax.ops.segment_sum(
    chances.T, year_of, num_years, indices_are_sorted=True
  )
  return jnp.log(jnp.maximum(sums.T, 1e-30))
