"""Year encoder: the regnal year of a text by a small neural encoder.

Axes: N records, n some of them, L tokens, T texts of a batch in R rows of W
columns, Y years, F features of a year, S updates, U updates of a call.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Float32, Int

from ctd_jax.dating.corpus import Labels, MonthAxis
from ctd_jax.dating.experts import base
from ctd_jax.dating.experts.base import CorpusFeatures
from ctd_jax.dating.experts.wording import make_year_kernels
from ctd_jax.models import calendar_heads, packing
from ctd_jax.models.encoders import bert
from ctd_jax.models.packing import PackedTexts, encode_packed
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import input_pipeline
from ctd_jax.training.input_pipeline import Tokens
from ctd_jax.training.losses import MASKED_LOGIT
from ctd_jax.utils import output

MAX_TOKENS = 48  # events are short; most end before
MAX_UPDATES = 400  # of a large corpus
# Times that a record is read, at most. By the likelihood of held-out years, ten
# are as good for a small corpus as twenty or forty, which memorise it.
MAX_EPOCHS = 10
_NUM_YEAR_FEATURES = 32  # F
_BATCH_SIZE = 64
_GROUP_SIZE = 16  # batches among which texts are dealt by their lengths
_LEARNING_RATE = 1e-3
# Updates of a call, about a second of a core. One by one they take a sixth more
# time: memory is mapped and arguments are checked for each.
_CALL_UPDATES = 40  # U
# Rows of a batch to encode are a multiple, so that few programs are compiled.
_ROW_STEP = 32


class YearEncoderModule(nn.Module):
  """Encoder, mean of its states, logits of the years."""

  config: bert.BertConfig  # geometry of the encoder
  num_years: int  # number of regnal years Y

  @nn.compact
  def __call__(
    self, texts: PackedTexts, deterministic: bool = True
  ) -> Float[Array, "T Y"]:
    """Returns logits of the regnal year of each text, fp32."""
    encoder = bert.BertEncoder(self.config)
    pooled = encode_packed(encoder, texts, "mean", deterministic)[0]
    # [T, F] @ [F, Y]: smooth in the year, because its features are.
    features = calendar_heads.make_year_features(
      self.num_years, _NUM_YEAR_FEATURES
    )
    return nn.Dense(_NUM_YEAR_FEATURES)(pooled) @ features.T


@dataclasses.dataclass(frozen=True)
class EncoderInputs:
  """Texts as tokens, and the geometry of the encoder that reads them."""

  tokens: Tokens  # of all records, [N]
  config: bert.BertConfig  # geometry of the encoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedYearEncoder:
  """An encoder fitted on the known records."""

  inputs: EncoderInputs  # texts of all records
  num_years: int  # number of regnal years Y
  params: Any  # of the encoder; None if no record is known
  name = "neural"

  def log_scores(
    self, rows: Int[np.ndarray, " n"]
  ) -> Float32[np.ndarray, "1 n Y"]:
    """Returns log ratios of years, of mean 0 for each record."""
    if self.params is None:
      return np.zeros((1, len(rows), self.num_years), np.float32)
    tokens = self.inputs.tokens[rows]
    model = YearEncoderModule(self.inputs.config, self.num_years)
    # Events are repeated from work to work; each text is encoded once.
    ids, first, inverse = np.unique(
      tokens.ids, axis=0, return_index=True, return_inverse=True
    )
    logits = np.zeros((len(ids), self.num_years), np.float32)
    for indices, texts in _iter_batches(ids, tokens.mask[first]):
      batch_logits = np.asarray(_predict_logits(model, self.params, texts))
      logits[indices] = batch_logits[: len(indices)]
    logits = logits[inverse.reshape(-1)]
    return (logits - logits.mean(axis=1, keepdims=True))[None]

  def explain(self, row: int, year: int) -> base.Evidence:
    """Returns the evidence of one record; see `base.FittedExpert`."""
    return base.Evidence(note="the whole text")


@dataclasses.dataclass(frozen=True, kw_only=True)
class YearEncoder:
  """The expert that reads a text whole."""

  seed: int = 42  # of parameters, order and dropout
  # Of a fit, of 64 records each; see `count_updates`.
  max_updates: int = MAX_UPDATES
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
    return self.fit_encoder(
      features.axis, _read_inputs(features), labels, features.is_event
    )

  def fit_encoder(
    self,
    axis: MonthAxis,
    inputs: EncoderInputs,
    labels: Labels,
    is_training: Bool[np.ndarray, " N"],
  ) -> FittedYearEncoder:
    """Returns an encoder fitted on the known records in `is_training`."""
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
    lengths = mask.sum(axis=1)
    batches = self._draw_batches(lengths)
    num_updates = len(batches)
    learning_rates = _make_learning_rates(num_updates)
    # All calls have one shape: the last is filled up with batches that it does
    # not run.
    shape = num_updates + -num_updates % _CALL_UPDATES, _BATCH_SIZE
    batches = np.resize(batches, shape)
    learning_rates = np.resize(learning_rates, shape[0])
    targets, log_prior = _make_targets(years, model.num_years)
    # All batches at once: they share one number of rows, so one program.
    layout = packing.arrange_texts(lengths[batches], MAX_TOKENS)
    init_key = jax.random.key(self.seed)
    # Dropout takes a quarter of the time with threefry, a tenth with this.
    dropout_key = jax.random.key(self.seed, impl="rbg")
    bar = output.Progress(
      desc="dating: encoder of years",
      total=num_updates,
      unit="update",
      leave=False,
    )
    state = None
    with bar:
      for start in range(0, num_updates, _CALL_UPDATES):
        call = slice(start, start + _CALL_UPDATES)
        rows = batches[call].reshape(-1)
        texts = packing.pack_texts(
          ids[rows], mask[rows], layout.select_packs(call)
        )
        if state is None:
          state = _init_state(model, texts, init_key)
        count = min(_CALL_UPDATES, num_updates - start)
        state = _run_updates(
          model,
          state,
          _Updates(
            texts,
            years[batches[call]],
            learning_rates[call],
            np.int32(start),
            np.int32(count),
          ),
          targets,
          log_prior,
          dropout_key,
        )
        # The bar waits for what it counts.
        jax.block_until_ready(state)
        bar.update(count)
    return state[0]

  def _draw_batches(self, lengths: np.ndarray) -> np.ndarray:
    """Returns the texts of every update, [S, T], by their lengths [n]."""
    # A text comes as often as any other. The batches of a group are dealt texts
    # of all lengths alike, so that they fill as many rows.
    num_updates = count_updates(len(lengths), self.max_updates)
    num_epochs = -(-num_updates * _BATCH_SIZE // len(lengths))
    rng = np.random.default_rng(self.seed)
    order = np.concatenate(
      [rng.permutation(len(lengths)) for _ in range(num_epochs)]
    )[: num_updates * _BATCH_SIZE]
    groups = []
    for start in range(0, len(order), _GROUP_SIZE * _BATCH_SIZE):
      group = order[start : start + _GROUP_SIZE * _BATCH_SIZE]
      group = group[np.argsort(lengths[group], kind="stable")]
      # [T, batches of the group]: a row holds texts of about one length.
      groups.append(rng.permuted(group.reshape(_BATCH_SIZE, -1), axis=1).T)
    return np.concatenate(groups)


def count_updates(num_examples: int, max_updates: int = MAX_UPDATES) -> int:
  """Returns the number of updates in a fit, lower for a small corpus."""
  return min(max_updates, -(-MAX_EPOCHS * num_examples // _BATCH_SIZE))


def _make_targets(
  years: Int[np.ndarray, " n"], num_years: int
) -> tuple[Float32[np.ndarray, "Y Y"], Float32[np.ndarray, " Y"]]:
  """Returns target chances for texts of each year, and the log prior."""
  # What the known records alone say about a year is left to the prior: logits
  # are ratios to it. Years without a known record take no part in the fit.
  counts = np.bincount(years, minlength=num_years)
  kernel = make_year_kernels(num_years)[0]
  density = np.where(counts > 0, kernel @ counts, 1)
  log_prior = np.where(counts > 0, np.log(density), MASKED_LOGIT)
  targets = kernel * (counts > 0)
  targets /= np.maximum(targets.sum(axis=1, keepdims=True), 1e-9)
  return targets.astype(np.float32), log_prior.astype(np.float32)


def _make_learning_rates(num_updates: int) -> Float32[np.ndarray, " S"]:
  """Returns the learning rate of every update: up in a tenth, down a cosine."""
  # By NumPy: optax would compile a dozen programs for every number of updates.
  steps, num_warmup = np.arange(num_updates), num_updates // 10
  decay = (steps - num_warmup) / (num_updates - num_warmup)
  factors = np.where(
    steps < num_warmup,
    steps / max(num_warmup, 1),
    0.5 * (1 + np.cos(np.pi * decay)),
  )
  return (_LEARNING_RATE * factors).astype(np.float32)


# One corpus is read at a time; its tokens serve every fit.
@functools.lru_cache(maxsize=1)
def _read_inputs(features: CorpusFeatures) -> EncoderInputs:
  return make_encoder_inputs(features.event_bodies, features.alphabet_texts)


def make_encoder_inputs(
  texts: Sequence[str], alphabet: Sequence[str], width: int = 128
) -> EncoderInputs:
  """Returns the texts as tokens; `alphabet` has the characters to know."""
  tokenizer = TextTokenizer.build(alphabet)
  config = bert.BertConfig(
    vocab_size=tokenizer.vocab_size,
    hidden_size=width,
    num_layers=1,
    mlp_size=4 * width,
    max_length=MAX_TOKENS,
    dropout=0.2,
  )
  # A token is about a character: what is far behind need not be read.
  texts = [text[: 2 * MAX_TOKENS] for text in texts]
  tokens = input_pipeline.tokenize_texts(tokenizer, texts, MAX_TOKENS)
  return EncoderInputs(tokens, config)


def _iter_batches(
  ids: np.ndarray, mask: np.ndarray
) -> Iterator[tuple[np.ndarray, PackedTexts]]:
  """Yields all texts in batches: indices of texts [n], packed, n of T real."""
  order = np.argsort(mask.sum(axis=1), kind="stable")
  # Dealt by length, so that the batches fill as many rows.
  num_batches = -(-len(order) // _BATCH_SIZE)
  for batch in range(num_batches):
    indices = order[batch::num_batches]
    texts = np.resize(indices, _BATCH_SIZE)
    token_mask = mask[texts]
    token_mask[len(indices) :] = 0
    layout = packing.arrange_texts(token_mask.sum(axis=1)[None], MAX_TOKENS)
    rows = layout.rows + -layout.rows % _ROW_STEP
    yield (
      indices,
      packing.pack_texts(ids[texts], token_mask, layout._replace(rows=rows)),
    )


@functools.partial(jax.jit, static_argnames="model")
def _predict_logits(
  model: YearEncoderModule, params: Any, texts: PackedTexts
) -> jax.Array:
  return model.apply({"params": params}, texts)


def _make_optimizer(learning_rate: Any) -> optax.GradientTransformation:
  return optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(learning_rate, weight_decay=0.01),
  )


def _select_pack(texts: PackedTexts, index: int | jax.Array) -> PackedTexts:
  return jax.tree.map(lambda x: x[index][None], texts)


@functools.partial(jax.jit, static_argnames="model")
def _init_state(
  model: YearEncoderModule, texts: PackedTexts, key: jax.Array
) -> tuple[Any, Any]:
  """Returns parameters and the state of the optimizer before any update."""
  params = model.init(key, _select_pack(texts, 0))["params"]
  return params, _make_optimizer(0.0).init(params)


class _Updates(NamedTuple):
  """The updates of one call."""

  texts: PackedTexts  # a pack for each of U updates
  years: jax.Array  # of the texts, [U, T]
  learning_rates: jax.Array  # of the updates, [U]
  start: jax.Array  # number of the first update, which its dropout depends on
  count: jax.Array  # updates to run, at most U


@functools.partial(jax.jit, static_argnames="model", donate_argnames="state")
def _run_updates(
  model: YearEncoderModule,
  state: tuple[Any, Any],
  updates: _Updates,
  targets: jax.Array,
  log_prior: jax.Array,
  key: jax.Array,
) -> tuple[Any, Any]:
  """Returns the state after the first updates of a call."""

  def update(index: jax.Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
    return _update(
      model,
      state,
      _select_pack(updates.texts, index),
      targets[updates.years[index]],
      log_prior,
      updates.learning_rates[index],
      jax.random.fold_in(key, updates.start + index),
    )

  return jax.lax.fori_loop(0, updates.count, update, state)


def _update(
  model: YearEncoderModule,
  state: tuple[Any, Any],
  texts: PackedTexts,
  targets: jax.Array,
  log_prior: jax.Array,
  learning_rate: jax.Array,
  key: jax.Array,
) -> tuple[Any, Any]:
  """Returns the state after an update on texts with targets [T, Y]."""
  params, optimizer_state = state

  def loss(params):
    logits = model.apply(
      {"params": params}, texts, deterministic=False, rngs={"dropout": key}
    )
    log_p = jax.nn.log_softmax(logits + log_prior)
    return -(targets * jnp.maximum(log_p, MASKED_LOGIT)).sum(1).mean()

  updates, optimizer_state = _make_optimizer(learning_rate).update(
    jax.grad(loss)(params), optimizer_state, params
  )
  return optax.apply_updates(params, updates), optimizer_state
