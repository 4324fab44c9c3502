"""Year encoder: the regnal year of a text by a small neural encoder.

The vocabulary weighs strings one by one; an encoder weighs them in context. It
is fitted anew for every set of known records, as the other experts are, with
targets that reach into neighbouring years. Its logits are a smooth function of
the year, so a year without a known record lies between its neighbours.

Axes: N records, n some of them, L tokens, B records of a batch, Y years,
F features of a year, S updates.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Float32, Int

from ctd_jax.dating.corpus import Labels, MonthAxis
from ctd_jax.dating.experts import base
from ctd_jax.dating.experts.vocabulary import make_year_kernels
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.models import month_posterior
from ctd_jax.models.encoders import bert
from ctd_jax.models.pooling import pool_tokens
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import input_pipeline
from ctd_jax.training.input_pipeline import Tokens
from ctd_jax.training.losses import MASKED_LOGIT

MAX_TOKENS = 48  # events are short; most end before
NUM_UPDATES = 400
_NUM_YEAR_FEATURES = 32  # F
_BATCH_SIZE = 64
_LEARNING_RATE = 1e-3
_BLOCK = 512  # texts encoded at once


class YearEncoderModule(nn.Module):
  """Encoder, mean of its states, logits of the years.

  Attributes:
    config: geometry of the encoder.
    num_years: number of regnal years Y.
  """

  config: bert.BertConfig
  num_years: int

  @nn.compact
  def __call__(
    self,
    ids: Int[Array, "B L"],
    mask: Int[Array, "B L"],
    deterministic: bool = True,
  ) -> Float[Array, "B Y"]:
    """Returns logits of the regnal year of each text, fp32.

    Args:
      ids: tokens.
      mask: 1 where a token is real, 0 at padding.
      deterministic: whether dropout is off.
    """
    states = bert.BertEncoder(self.config)(ids, mask, deterministic)
    code = nn.Dense(_NUM_YEAR_FEATURES)(pool_tokens(states, mask, "mean"))
    # [B, F] @ [F, Y]: smooth in the year, because its features are.
    features = month_posterior.make_year_features(
      self.num_years, _NUM_YEAR_FEATURES
    )
    return code @ features.T


@dataclasses.dataclass(frozen=True)
class EncoderInputs:
  """Texts as tokens, and the geometry of the encoder that reads them.

  Attributes:
    tokens: of all records, [N].
    config: geometry of the encoder.
  """

  tokens: Tokens
  config: bert.BertConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedYearEncoder:
  """An encoder fitted on the known records.

  Attributes:
    inputs: texts of all records.
    num_years: number of regnal years Y.
    params: of the encoder; None if no record is known.
  """

  inputs: EncoderInputs
  num_years: int
  params: Any
  name = "neural"

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "1 n Y"]:
    """Returns log ratios of years, of mean 0 for each record."""
    if self.params is None:
      return np.zeros((1, len(rows), self.num_years), np.float32)
    model = YearEncoderModule(self.inputs.config, self.num_years)
    blocks = [
      np.asarray(_predict_logits(model, self.params, batch.ids, batch.mask))[
        :num_rows
      ]
      for batch, num_rows in input_pipeline.padded_batches(
        self.inputs.tokens[rows], _BLOCK
      )
    ]
    logits = np.concatenate(
      blocks or [np.zeros((0, self.num_years), np.float32)]
    )
    return (logits - logits.mean(axis=1, keepdims=True))[None]

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the evidence of one record; see `base.FittedExpert`."""
    del row, year
    return base.Evidence(note="the whole text")


@dataclasses.dataclass(frozen=True, kw_only=True)
class YearEncoder:
  """The expert that reads a text whole.

  Attributes:
    seed: of parameters, order and dropout.
    num_updates: that a fit makes, of 64 records each.
    width: of the encoder.
    num_layers: of the encoder.
  """

  seed: int = 42
  num_updates: int = NUM_UPDATES
  width: int = 128
  num_layers: int = 1
  # Fits by a digest of what they depend on: a set of labels comes back for
  # every variant of the posterior.
  _params_by_digest: dict[bytes, Any] = dataclasses.field(
    default_factory=dict, repr=False, compare=False
  )
  name = "neural"

  def fit(
    self,
    features: CorpusFeatures,
    labels: Labels,
    peers: Mapping[str, base.FittedExpert],
  ) -> FittedYearEncoder:
    """Returns an encoder fitted on the known events; see `base.Expert`."""
    del peers
    inputs = _read_inputs(features, self.width, self.num_layers)
    return self.fit_encoder(features.axis, inputs, labels, features.is_event)

  def fit_encoder(
    self,
    axis: MonthAxis,
    inputs: EncoderInputs,
    labels: Labels,
    is_training: Bool[np.ndarray, " N"],
  ) -> FittedYearEncoder:
    """Returns an encoder fitted on known records.

    Args:
      axis: the years.
      inputs: texts of all records.
      labels: known months.
      is_training: which known records are learned from.
    """
    training_rows = np.flatnonzero(labels.is_known & is_training)
    if not len(training_rows):
      return FittedYearEncoder(
        inputs=inputs, num_years=axis.num_years, params=None
      )
    years = axis.year_of[labels.month[training_rows]]
    # By their text, so that the order of the records plays no part.
    order = np.lexsort([years, *inputs.tokens.ids[training_rows].T])
    training_rows, years = training_rows[order], years[order]
    ids, mask = (
      inputs.tokens.ids[training_rows],
      inputs.tokens.mask[training_rows],
    )
    digest = hashlib.blake2b(repr((inputs.config, axis.num_years)).encode())
    for array in (ids, mask, years):
      digest.update(np.ascontiguousarray(array))
    key = digest.digest()
    if key not in self._params_by_digest:
      self._params_by_digest[key] = self._fit_params(
        YearEncoderModule(inputs.config, axis.num_years), ids, mask, years
      )
    return FittedYearEncoder(
      inputs=inputs,
      num_years=axis.num_years,
      params=self._params_by_digest[key],
    )

  def _fit_params(
    self,
    model: YearEncoderModule,
    ids: np.ndarray,
    mask: np.ndarray,
    years: np.ndarray,
  ) -> Any:
    """Returns the parameters after all updates on texts [n, L], years [n]."""
    rng = np.random.default_rng(self.seed)
    num_examples = self.num_updates * _BATCH_SIZE
    num_epochs = -(-num_examples // len(years))
    order = np.concatenate(
      [rng.permutation(len(years)) for _ in range(num_epochs)]
    )
    counts = np.bincount(years, minlength=model.num_years)
    kernel = make_year_kernels(model.num_years)[0]
    # What the known records alone say of a year is left to the prior: logits
    # are ratios to it. Years without a known record take no part in the fit.
    density = np.where(counts > 0, kernel @ counts, 1)
    log_prior = np.where(counts > 0, np.log(density), MASKED_LOGIT)
    targets = kernel * (counts > 0)
    targets /= np.maximum(targets.sum(axis=1, keepdims=True), 1e-9)
    # Of a large corpus the updates reach some records only.
    used_rows, order = np.unique(order[:num_examples], return_inverse=True)
    return _run_updates(
      model,
      ids[used_rows],
      mask[used_rows],
      targets[years[used_rows]].astype(np.float32),
      log_prior.astype(np.float32),
      order.reshape(self.num_updates, _BATCH_SIZE),
      jax.random.key(self.seed),
    )


# One corpus is read at a time; its tokens serve every fit.
@functools.lru_cache(maxsize=1)
def _read_inputs(
  features: CorpusFeatures, width: int, num_layers: int
) -> EncoderInputs:
  return make_encoder_inputs(
    features.event_bodies, features.alphabet_texts, width, num_layers
  )


def make_encoder_inputs(
  texts: Sequence[str],
  alphabet: Sequence[str],
  width: int = 128,
  num_layers: int = 1,
) -> EncoderInputs:
  """Returns the texts [N] as tokens.

  Args:
    texts: of all records.
    alphabet: texts whose characters are the vocabulary.
    width: of the encoder.
    num_layers: of the encoder.
  """
  tokenizer = TextTokenizer.build(alphabet)
  config = bert.BertConfig(
    vocab_size=tokenizer.vocab_size,
    hidden_size=width,
    num_layers=num_layers,
    mlp_size=4 * width,
    max_length=MAX_TOKENS,
    dropout=0.2,
  )
  # A token is about a character: what lies far behind need not be read.
  texts = [text[: 2 * MAX_TOKENS] for text in texts]
  tokens = input_pipeline.tokenize_texts(tokenizer, texts, MAX_TOKENS)
  return EncoderInputs(tokens, config)


@functools.partial(jax.jit, static_argnames="model")
def _predict_logits(
  model: YearEncoderModule, params, ids: jax.Array, mask: jax.Array
):
  return model.apply({"params": params}, ids, mask)


@functools.partial(jax.jit, static_argnames="model")
def _run_updates(model, ids, mask, targets, log_prior, batches, key):
  """Returns parameters after the updates of `batches`, rows [S, B]."""
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
