"""The year of a text by a small encoder that reads it whole.

Why: `vocabulary` weighs strings one by one; an encoder can weigh them in their
context. It is fitted anew for every set of known records, as the other experts
are, with targets that reach into neighbouring years, and its logits are a
smooth function of the year, so that a year it was never shown lies between
those it was. How far to believe it is learned out of fold. Called by `dater`.

Axes: N records, n some of them, L tokens, Y years, F features of a year,
S updates of B records.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from ctd_jax.dating.corpus import Labels, MonthAxis
from ctd_jax.dating.experts.vocabulary import make_year_kernels
from ctd_jax.models import month_posterior
from ctd_jax.models.encoders import bert
from ctd_jax.models.pooling import pool_tokens
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import input_pipeline
from ctd_jax.training.input_pipeline import Tokens
from ctd_jax.training.losses import MASKED_LOGIT

MAX_TOKENS = 48  # tokens
NUM_UPDATES = 400
_NUM_YEAR_FEATURES = 32
_BATCH_SIZE = 64
_LEARNING_RATE = 1e-3
_BLOCK = 512


class YearEncoder(nn.Module):
  """Encoder, mean of its states, logits of the years: [B, Y]."""

  config: bert.BertConfig
  years: int

  @nn.compact
  def __call__(
    self, ids: jax.Array, mask: jax.Array, deterministic: bool = True
  ) -> jax.Array:
    """Returns logits of the regnal year of each text, fp32 [B, Y]."""
    states = bert.BertEncoder(self.config)(ids, mask, deterministic)
    code = nn.Dense(_NUM_YEAR_FEATURES)(pool_tokens(states, mask, "mean"))
    features = month_posterior.make_year_features(
      self.years, _NUM_YEAR_FEATURES
    )
    return code @ features.T


@dataclasses.dataclass(frozen=True)
class YearPredictor:
  """Texts as tokens, and the encoders fitted on them so far.

  Attributes:
    tokens: of all records [N].
    seed: of parameters, order and dropout.
    num_updates: that a fit makes, S.
    config: geometry of the encoder.
  """

  tokens: Tokens
  seed: int
  num_updates: int
  config: bert.BertConfig
  _params_by_key: dict[bytes, Any] = dataclasses.field(default_factory=dict)

  def predict_log_ratios(
    self,
    axis: MonthAxis,
    labels: Labels,
    is_training: np.ndarray,
    rows: np.ndarray,
  ) -> np.ndarray:
    """Returns log ratios of years by the known records, float32 [n, Y].

    Args:
      axis: the years.
      labels: known months.
      is_training: which known records are learned from, bool [N].
      rows: records asked about, [n].
    """
    training_rows = np.flatnonzero(labels.is_known & is_training)
    if not len(training_rows):
      return np.zeros((len(rows), axis.num_years), np.float32)
    years = axis.year_of[labels.month[training_rows]]
    # By their text, so that the order of the records plays no part.
    order = np.lexsort([years, *self.tokens.ids[training_rows].T])
    training_rows, years = training_rows[order], years[order]
    model = YearEncoder(self.config, axis.num_years)
    key = training_rows.tobytes() + years.tobytes()
    if key not in self._params_by_key:
      self._params_by_key[key] = self._fit_encoder(model, training_rows, years)
    blocks = [
      np.asarray(
        _predict_logits(model, self._params_by_key[key], batch.ids, batch.mask)
      )[:num_rows]
      for batch, num_rows in input_pipeline.padded_batches(
        self.tokens[rows], _BLOCK
      )
    ]
    logits = np.concatenate(
      blocks or [np.zeros((0, axis.num_years), np.float32)]
    )
    return logits - logits.mean(axis=1, keepdims=True)

  def _fit_encoder(
    self, model: YearEncoder, training_rows: np.ndarray, years: np.ndarray
  ):
    rng = np.random.default_rng(self.seed)
    num_examples = self.num_updates * _BATCH_SIZE
    num_epochs = -(-num_examples // len(training_rows))
    order = np.concatenate(
      [rng.permutation(len(training_rows)) for _ in range(num_epochs)]
    )
    counts = np.bincount(years, minlength=model.years)
    kernel = make_year_kernels(model.years)[0]
    # What the known records alone say of a year is left to the prior: logits
    # are ratios to it. Years without a known record take no part in the fit.
    density = np.where(counts > 0, kernel @ counts, 1)
    log_prior = np.where(counts > 0, np.log(density), MASKED_LOGIT)
    targets = kernel * (counts > 0)
    targets /= np.maximum(targets.sum(axis=1, keepdims=True), 1e-9)
    # Of a large gallery the updates reach some records only.
    used_rows, order = np.unique(order[:num_examples], return_inverse=True)
    return _fit_params(
      model,
      self.tokens.ids[training_rows[used_rows]],
      self.tokens.mask[training_rows[used_rows]],
      targets[years[used_rows]].astype(np.float32),
      log_prior.astype(np.float32),
      order.reshape(self.num_updates, _BATCH_SIZE),
      jax.random.key(self.seed),
    )


def make_year_predictor(
  texts: Sequence[str],
  alphabet: Sequence[str],
  seed: int,
  num_updates: int = NUM_UPDATES,
  width: int = 128,
  layers: int = 1,
) -> YearPredictor:
  """Returns the texts [N], ready for encoders to be fitted.

  Args:
    texts: of all records.
    alphabet: texts whose characters are the vocabulary.
    seed: of parameters, order and dropout.
    num_updates: that a fit makes, of 64 records each.
    width: of the encoder.
    layers: of the encoder.
  """
  tokenizer = TextTokenizer.build(alphabet)
  config = bert.BertConfig(
    vocab_size=tokenizer.vocab_size,
    hidden_size=width,
    num_layers=layers,
    mlp_size=4 * width,
    max_length=MAX_TOKENS,
    dropout=0.2,
  )
  # A token is about a character: what lies far behind need not be read.
  texts = [text[: 2 * MAX_TOKENS] for text in texts]
  tokens = input_pipeline.tokenize_texts(tokenizer, texts, MAX_TOKENS)
  return YearPredictor(tokens, seed, num_updates, config)


@functools.partial(jax.jit, static_argnames="model")
def _predict_logits(
  model: YearEncoder, params, ids: jax.Array, mask: jax.Array
):
  return model.apply({"params": params}, ids, mask)


@functools.partial(jax.jit, static_argnames="model")
def _fit_params(model, ids, mask, targets, log_prior, batches, key):
  """Returns parameters after the updates of `batches` (rows, [S, B])."""
  schedule = optax.schedules.warmup_cosine_decay_schedule(
    0.0, _LEARNING_RATE, len(batches) // 10, len(batches)
  )
  optimizer = optax.chain(
    optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.01)
  )
  params = model.init(key, ids[:1], mask[:1])["params"]

  def loss(params, rows, key):
    logits = model.apply(
      {"params": params},
      ids[rows],
      mask[rows],
      deterministic=False,
      rngs={"dropout": key},
    )
    log_p = jax.nn.log_softmax(logits + log_prior)
    return -(targets[rows] * jnp.maximum(log_p, MASKED_LOGIT)).sum(1).mean()

  def update(carry, batch):
    params, state, step = carry
    gradient = jax.grad(loss)(params, batch, jax.random.fold_in(key, step))
    updates, state = optimizer.update(gradient, state, params)
    return (optax.apply_updates(params, updates), state, step + 1), None

  carry = params, optimizer.init(params), 0
  (params, _, _), _ = jax.lax.scan(update, carry, batches)
  return params
