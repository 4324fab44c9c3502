"""Linked dater: undated records dated together, by attention over their links.

The year of an event mostly does not stand in its own text but in others: a
commentary that cites the year beside the same words, a parallel text with its
own printed date. Each hidden record starts with a belief over the years by its
own text. Then, for a few rounds, it gathers the beliefs of the records that it
is linked to. How far a link is to be believed is learned from the wording that
the two share; what it says is carried by the beliefs, so that no parameter
knows the calendar. See `link_messages`.

Axes: n events, s those that speak, m comments, b some events, k links into a
record, Y regnal years, K months, R reigns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
from ctd_jax.models.linked_inputs import (
  Calendar,
  CommentInputs,
  DatingInputs,
  EventInputs,
)

READERS = ("words", "neural")  # of the own text of events
_EVEN_CHANCE = 0.5  # of a month: a record above it needs no other's month


class Beliefs(NamedTuple):
  """What all records believe, and send.

  Attributes:
    events: chances of years of events, [n, Y].
    comments: chances of years of comments, [m, Y].
    comment_reigns: chances of reigns of comments, [m, R].
  """

  events: Any
  comments: Any
  comment_reigns: Any


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
  event_beliefs: Float[AnyArray, "s Y"]
  comment_beliefs: Float[AnyArray, "m Y"]
  inverse_temperature: Float[AnyArray, ""]

  @property
  def event_years(self) -> Float[AnyArray, "n Y"]:
    """Log scores of years, up to a constant."""
    return sum(self.event_terms.values())

  @property
  def comment_years(self) -> Float[AnyArray, "m Y"]:
    """Log scores of years, up to a constant."""
    return sum(self.comment_terms.values())

  def score_months(
    self,
    calendar: Calendar,
    rows: Int[AnyArray, " b"],
    dates: Float[AnyArray, "b K"],
  ) -> Float[Array, "b K"]:
    """Returns log scores of months of some events, before any balancing.

    Args:
      calendar: the months.
      rows: indices of the events.
      dates: log likelihood ratios of months by their printed dates.
    """
    return (
      dates.astype(jnp.float32)
      + self.event_years[rows][:, calendar.year_of]
      + self.event_months[rows][:, calendar.month_of_year]
    )


@dataclasses.dataclass(frozen=True)
class LinkedDaterConfig:
  """Size of the model and the evidence that it uses.

  Attributes:
    readers: what reads the own text of events, of READERS.
    hidden_size: of the scorer of links.
    heads: of the attention over links.
    rounds: in which beliefs are passed on; 0 = own texts alone.
    dropout: in the scorer of links.
    use_days: whether printed days count.
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
  use_days: bool = True
  use_citations: bool = True
  use_parallels: bool = True
  use_comments: bool = True
  use_capacity: bool = True

  def __post_init__(self):
    for name in self.readers:
      if name not in READERS:
        raise ValueError(
          f"readers: unknown {name!r}; there are {', '.join(READERS)}"
        )
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
    events, comments = inputs.events, inputs.comments
    event_links = self.score_event_links(events, deterministic)
    comment_links = self.score_comment_links(comments, deterministic)
    last_round = pass_rounds(
      self.config.rounds,
      lambda sent: self.date_events(inputs.calendar, events, event_links, sent),
      lambda sent: self.date_comments(
        inputs.calendar, comments, comment_links, sent
      ),
    )
    return LinkedScores(
      event_terms=last_round.event_terms,
      comment_terms=last_round.comment_terms,
      event_months=self.date_months(events, event_links, events.month_chances),
      links=event_links | comment_links,
      event_beliefs=last_round.sent.events,
      comment_beliefs=last_round.sent.comments,
      inverse_temperature=jnp.exp(self.log_inverse_temperature),
    )

  def date_new_events(
    self,
    calendar: Calendar,
    events: EventInputs,
    sent: Beliefs | None,
    month_chances: Float[AnyArray, "n 12"],
  ) -> tuple[
    dict[str, Float[Array, "b Y"]],
    Float[Array, "b 12"],
    dict[str, LinkBeliefs],
  ]:
    """Returns the scores of events that are none of the hidden ones.

    They hear the others and are not heard: log scores of years by kind, log
    ratios of the months of a year, and the beliefs in the links.

    Args:
      calendar: the years.
      events: their links come from the hidden records.
      sent: what these believed in the round before the last; None = no
        messages.
      month_chances: of the hidden events, by their printed dates.
    """
    links = self.score_event_links(events)
    terms, _ = self.date_events(calendar, events, links, sent)
    return terms, self.date_months(events, links, month_chances), links

  def score_event_links(
    self, events: EventInputs, deterministic: bool = True
  ) -> dict[str, LinkBeliefs]:
    """Returns the beliefs in the links into events, by kind.

    Those that do not count are left out.

    Args:
      events: some or all of the hidden events.
      deterministic: whether dropout is off.
    """
    config, result = self.config, {}
    for name, is_used, links, score in (
      ("cited", config.use_citations, events.cited_years, self.score_cited),
      (
        "parallels",
        config.use_parallels,
        events.parallels,
        self.score_parallels,
      ),
      ("comments", config.use_comments, events.comments, self.score_comments),
    ):
      if is_used:
        result[name] = score(links.features, links.is_link, deterministic)
    return result

  def score_comment_links(
    self, comments: CommentInputs, deterministic: bool = True
  ) -> dict[str, LinkBeliefs]:
    """Returns the beliefs in the links into comments, as of events.

    Args:
      comments: some or all of the hidden comments.
      deterministic: whether dropout is off.
    """
    if not self.config.use_comments:
      return {}
    links = comments.commented
    # A pair has one chance, whichever way it is followed.
    beliefs = self.score_comments(links.features, links.is_link, deterministic)
    return {"commented": beliefs}

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

  def date_events(
    self,
    calendar: Calendar,
    events: EventInputs,
    links: Mapping[str, LinkBeliefs],
    sent: Beliefs | None,
  ) -> tuple[dict[str, Float[Array, "b Y"]], Float[Array, "b Y"]]:
    """Returns the log scores of years of some events, by kind, and beliefs.

    Args:
      calendar: the years.
      events: some or all of the hidden events.
      links: beliefs in the links into them.
      sent: what all records believed in the round before; None = no messages.
    """
    shape = events.date_years.shape
    terms = {
      "prior": jnp.broadcast_to(self._log_prior(calendar), shape),
    } | {
      name: weight * events.scores[name]
      for name, weight in self.event_weights.items()
    }
    if sent is not None:
      if "cited" in links:
        terms["cited"] = pass_cited_years(
          events.cited_years,
          links["cited"],
          sent.comment_reigns,
          calendar.year_table,
          calendar.year_prior,
          self.weigh_cited(),
        )
      for name, beliefs, weigh in (
        ("parallels", sent.events, self.weigh_parallels),
        ("comments", sent.comments, self.weigh_comments),
      ):
        if name in links:
          terms[name] = pass_beliefs(
            getattr(events, name).source,
            links[name],
            beliefs,
            calendar.year_prior,
            weigh(),
          )
    # What an event believes, and sends, includes its printed date.
    return terms, jax.nn.softmax(events.date_years + sum(terms.values()))

  def date_comments(
    self,
    calendar: Calendar,
    comments: CommentInputs,
    links: Mapping[str, LinkBeliefs],
    sent: Beliefs | None,
  ) -> tuple[
    dict[str, Float[Array, "b Y"]], Float[Array, "b Y"], Float[Array, "b R"]
  ]:
    """Returns the log scores of years of some comments, by kind, and beliefs.

    And the chance of each reign, by them.

    Args:
      calendar: the years.
      comments: some or all of the hidden comments.
      links: beliefs in the links into them.
      sent: what all records believed in the round before; None = no messages.
    """
    shape = len(comments.commented.source), len(calendar.year_prior)
    terms = {"prior": jnp.broadcast_to(self._log_prior(calendar), shape)}
    if "words" in comments.scores:
      terms["words"] = self.comment_weight * comments.scores["words"]
    if sent is not None and "commented" in links:
      terms["commented"] = pass_beliefs(
        comments.commented.source,
        links["commented"],
        sent.events,
        calendar.year_prior,
        self.weigh_commented(),
      )
    beliefs = jax.nn.softmax(sum(terms.values()))
    return terms, beliefs, beliefs @ calendar.has_reign

  def date_months(
    self,
    events: EventInputs,
    links: Mapping[str, LinkBeliefs],
    month_chances: Float[AnyArray, "n 12"],
  ) -> Float[Array, "b 12"]:
    """Returns log ratios of the months of a year by parallel events.

    The Annals may name the month of an event that a tradition tells without.

    Args:
      events: some or all of the hidden events.
      links: beliefs in the links into them.
      month_chances: of all hidden events, by their printed dates.
    """
    own = events.month_chances
    if "parallels" not in links or not self.config.rounds:
      return jnp.zeros_like(own)
    # [b, k]
    chance = MAX_CHANCE * jnp.exp(links["parallels"].log_p[..., SAME_MONTH])
    ratio = 12 * month_chances[events.parallels.source]  # [b, k, 12]
    messages = jnp.log1p(chance[..., None] * (ratio - 1)).sum(axis=1)
    messages /= jnp.sqrt(1 + chance.sum(axis=1, keepdims=True))
    messages *= jnp.exp(self.log_month_weight)
    # What a record says of its own month needs no help.
    return jnp.where(own.max(axis=1, keepdims=True) > _EVEN_CHANCE, 0, messages)

  def _log_prior(self, calendar: Calendar) -> Float[Array, " Y"]:
    return self.prior_weight * jnp.log(calendar.year_prior)


class Round(NamedTuple):
  """What the last round made.

  Attributes:
    event_terms: log scores of years by kind, [n, Y].
    comment_terms: likewise, [m, Y].
    sent: beliefs that were passed on in it; own ones if there was none.
  """

  event_terms: Mapping[str, AnyArray]
  comment_terms: Mapping[str, AnyArray]
  sent: Beliefs


def pass_rounds(
  rounds: int,
  date_events: Callable[[Beliefs | None], tuple[Mapping[str, Any], Any]],
  date_comments: Callable[[Beliefs | None], tuple[Mapping[str, Any], Any, Any]],
) -> Round:
  """Returns the last of some rounds in which beliefs are passed on.

  Args:
    rounds: how many; before the first, records believe their own texts.
    date_events: terms and beliefs of all events by what was sent.
    date_comments: likewise of all comments.
  """
  event_terms, event_beliefs = date_events(None)
  comment_terms, *comment_beliefs = date_comments(None)
  sent = Beliefs(event_beliefs, *comment_beliefs)
  for _ in range(rounds):
    sent = Beliefs(event_beliefs, *comment_beliefs)
    event_terms, event_beliefs = date_events(sent)
    comment_terms, *comment_beliefs = date_comments(sent)
  return Round(event_terms, comment_terms, sent)
