"""Messages along links: what linked records say of the years of one another.

A message of k links with odds o and beliefs b is
  a(year) = log(1 + sum_k o_k b_k(year) / prior(year)),
softmax attention over the links and over "none of them" (odds 1), but for a
constant; and, since several links that agree say more than one,
  s(year) = sum_k log(1 + c_k (b_k(year) / prior(year) - 1)
                        + d_k (b'_k(year) / prior(year) - 1)) / (1 + sum c)^g
with the chance c_k that both are of one year, and d_k that they are of near
ones, of which b' are the beliefs. Both are added with learned weights.

Axes: n records that receive, s that speak, m comments, o events that open a
month, k links into a record, f features of a link, c classes of a link, Y
regnal years, K months, R reigns.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from ctd_jax.models.arrays import AnyArray
from ctd_jax.models.linked_inputs import NUM_KNOTS, CitedYears

# Classes of a link between two records, and of a citation.
SAME_MONTH, SAME_YEAR, NEAR, FAR = range(4)
OTHER_YEAR, CITED_YEAR = range(2)
MAX_NEAR_YEARS = 3  # distance of NEAR
MAX_CHANCE = 0.9999  # of a link, so that no message is infinite
_LOG_ODDS_BOUNDS = (-12.0, 9.0)
_NO_LINK = -30.0  # log odds
# Bounds of what balances a month, and of its step in one round.
_FACTOR_BOUNDS, _MAX_STEP = (-8.0, 4.0), 3.0


class LinkBeliefs(flax.struct.PyTreeNode):
  """How far each link is to be believed.

  Attributes:
    log_p: of the classes.
    log_odds: of one year, as each head attends to it.
    chance: that both are of one year, less what is not independent.
  """

  log_p: Float[AnyArray, "*links c"]
  log_odds: Float[AnyArray, "*links heads"]
  chance: Float[AnyArray, "*links"]


class LinkScorer(nn.Module):
  """Two layers over ranks of features, beside a linear one.

  Attributes:
    num_classes: of a link.
    hidden_size: of the layer between.
    heads: of the attention.
    dropout: of that layer.
  """

  num_classes: int
  hidden_size: int
  heads: int
  dropout: float

  @nn.compact
  def __call__(
    self,
    features: Float[AnyArray, "*links f"],
    is_link: Bool[AnyArray, "*links"],
    deterministic: bool = True,
  ) -> LinkBeliefs:
    """Returns the beliefs in links.

    Args:
      features: ranks, 0 ... NUM_KNOTS - 1.
      is_link: False for padding.
      deterministic: whether dropout is off.
    """
    # A feature is NUM_KNOTS - 1 ramps, each of which has its own weight: a
    # chance may rise and fall with it.
    knots = jnp.arange(NUM_KNOTS - 1, dtype=jnp.float32)
    ramps = jnp.clip(features[..., None].astype(jnp.float32) - knots, 0, 1)
    ramps = ramps.reshape(*features.shape[:-1], -1) - 0.5
    size = self.num_classes + self.heads + 1
    hidden = nn.gelu(nn.Dense(self.hidden_size, name="hidden")(ramps))
    hidden = nn.Dropout(self.dropout)(hidden, deterministic)
    zeros = nn.initializers.zeros
    scores = nn.Dense(
      size,
      kernel_init=nn.initializers.variance_scaling(0.01, "fan_in", "normal"),
      name="output",
    )(hidden)
    scores += nn.Dense(size, use_bias=False, kernel_init=zeros, name="linear")(
      ramps
    )
    log_p = jax.nn.log_softmax(scores[..., : self.num_classes])
    log_same, log_other = _split_classes(log_p)
    heads = scores[..., self.num_classes : -1]
    log_odds = jnp.clip(
      (log_same - log_other)[..., None] + heads, *_LOG_ODDS_BOUNDS
    )
    # Copies of one another are of one year and yet say nothing new.
    chance = jnp.exp(log_same) * jax.nn.sigmoid(3 + scores[..., -1])
    return LinkBeliefs(
      log_p=jnp.where(is_link[..., None], log_p, _NO_LINK),
      log_odds=jnp.where(is_link[..., None], log_odds, _NO_LINK),
      chance=jnp.where(is_link, MAX_CHANCE * chance, 0),
    )


def _split_classes(log_p: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns log p of one year, and of any other."""
  if log_p.shape[-1] == 2:
    return log_p[..., CITED_YEAR], log_p[..., OTHER_YEAR]
  return (
    jnp.logaddexp(log_p[..., SAME_MONTH], log_p[..., SAME_YEAR]),
    jnp.logaddexp(log_p[..., NEAR], log_p[..., FAR]),
  )


class MessageWeights(nn.Module):
  """Weights of the two messages of one kind of links.

  Attributes:
    heads: of the attention.
  """

  heads: int

  @nn.compact
  def __call__(self) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns weights of the attention, [heads], of the sum, and its power."""

    def positive(name: str, value: float, *shape: int) -> jax.Array:
      initial = nn.initializers.constant(np.log(value))
      return jnp.exp(self.param(name, initial, shape))

    return (
      positive("attention", 0.5 / self.heads, self.heads),
      positive("sum", 0.3),
      positive("power", 0.5),
    )


def pass_beliefs(
  source: Int[AnyArray, "n k"],
  links: LinkBeliefs,
  beliefs: Float[AnyArray, "s Y"],
  prior: Float[AnyArray, " Y"],
  weights: tuple[Float[AnyArray, " heads"], Float[Array, ""], Float[Array, ""]],
) -> Float[Array, "n Y"]:
  """Returns what linked records say of the years of each record.

  Args:
    source: index of the record that each link comes from.
    links: how far each is to be believed.
    beliefs: chances of years of the records that speak.
    prior: chance of each year.
    weights: of the attention, of the sum, and its power.
  """
  attention_weights, sum_weight, power = weights
  # Of the linked records alone, so that a block of receivers costs its links.
  linked = beliefs[source]  # [n, k, Y]
  near_linked = _spread_to_near_years(linked) / prior
  linked /= prior
  message = _attend(links.log_odds, linked, attention_weights)
  chance = links.chance[..., None]
  near_chance = (1 - chance) * jnp.exp(links.log_p[..., NEAR, None])
  terms = jnp.log1p(
    jnp.maximum(
      chance * (linked - 1) + near_chance * (near_linked - 1), -MAX_CHANCE
    )
  )
  total = terms.sum(axis=1) / (1 + chance.sum(axis=1)) ** power
  return message + sum_weight * total


def pass_cited_years(
  cited: CitedYears,
  links: LinkBeliefs,
  reign_chances: Float[AnyArray, "m R"],
  year_table: Int[AnyArray, "R numbers"],
  prior: Float[AnyArray, " Y"],
  weights: tuple[Float[AnyArray, " heads"], Float[Array, ""], Float[Array, ""]],
) -> Float[Array, "n Y"]:
  """Returns what cited years say of the years of each event.

  A year without a ruler, in a record that is itself hidden, is every ruler's by
  the chance that the record is of that reign.

  Args:
    cited: the citations.
    links: how far each is to be believed.
    reign_chances: chance of each reign, of the records that cite.
    year_table: year by reign and year number, -1 if there is none.
    prior: chance of each year.
    weights: of the attention, of the sum, and its power, which is not used: the
      citations of a year are few, and copies have been left out.
  """
  attention_weights, sum_weight, _ = weights
  num_reigns = len(year_table)
  # Every citation is of one year for sure, or of one in each reign: [n, k, R].
  years = year_table[jnp.arange(num_reigns), cited.year_number[..., None]]
  shares = jnp.where(
    (years >= 0) & (cited.host >= 0)[..., None], reign_chances[cited.host], 0
  )
  shares = jnp.where((cited.year >= 0)[..., None], 0, shares)
  years = jnp.concatenate([cited.year[..., None], years], axis=-1)
  is_certain = (cited.year >= 0)[..., None].astype(shares.dtype)
  shares = jnp.concatenate([is_certain, shares], axis=-1)  # [n, k, 1 + R]
  years = jnp.maximum(years, 0)
  rows = jnp.arange(len(years))[:, None, None]

  def add_up(values: jax.Array) -> jax.Array:  # [n, k, 1 + R] -> [n, Y]
    return jnp.zeros((len(years), len(prior))).at[rows, years].add(values)

  message = 0.0
  for head, weight in enumerate(attention_weights):
    odds = jnp.exp(links.log_odds[..., head, None])
    odds = jnp.where(cited.is_link[..., None], odds, 0)
    message += weight * jnp.log1p(add_up(odds * shares) / prior)
  chance = links.chance[..., None] * shares
  ratios = chance / (prior[years] * (1 - chance))
  return message + sum_weight * add_up(jnp.log1p(ratios))


def balance_months(
  month_scores: Float[AnyArray, "o K"],
  is_opener: Float[AnyArray, " o"],
  log_capacity: Float[AnyArray, " K"],
  max_rise: Float[AnyArray, " K"],
  log_factors: Float[AnyArray, " K"],
) -> Float[Array, " K"]:
  """Returns the factors of months after one more round of balancing.

  Each work opens a month once, so that the records which open a month share
  what room it has: Sinkhorn scaling of the columns.

  Args:
    month_scores: log scores of the records that open a month.
    is_opener: 1, or 0 for padding.
    log_capacity: log of the number of records that may open a month.
    max_rise: greatest step by which a month may be raised.
    log_factors: before the round.
  """
  chances = jax.nn.softmax(month_scores + log_factors)
  mass = is_opener @ chances
  step = jnp.clip(log_capacity - jnp.log(mass + 1e-6), -_MAX_STEP, max_rise)
  return jnp.clip(log_factors + step, *_FACTOR_BOUNDS)


def _attend(
  log_odds: Float[AnyArray, "n k heads"],
  ratios: Float[AnyArray, "n k Y"],
  weights: Float[AnyArray, " heads"],
) -> Float[Array, "n Y"]:
  """Returns the weighted attention of all heads, in logs."""
  odds = jnp.exp(log_odds)
  sums = jnp.einsum("nkh,nky->hny", odds, ratios)
  return jnp.einsum("h,hny->ny", weights, jnp.log1p(sums))


def _spread_to_near_years(
  beliefs: Float[AnyArray, "n k Y"],
) -> Float[Array, "n k Y"]:
  """Returns beliefs of which each year is dealt evenly to those around it."""
  num_years = beliefs.shape[-1]
  years = np.arange(num_years)
  before = np.minimum(years, MAX_NEAR_YEARS)
  after = np.minimum(num_years - 1 - years, MAX_NEAR_YEARS)
  shares = beliefs / np.maximum(before + after, 1).astype(np.float32)
  width = MAX_NEAR_YEARS
  padded = jnp.pad(shares, ((0, 0), (0, 0), (width, width)))
  return sum(
    padded[..., shift : shift + num_years]
    for shift in range(2 * width + 1)
    if shift != width
  )
