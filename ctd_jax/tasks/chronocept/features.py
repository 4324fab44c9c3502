"""Features and targets of samples: texts, frozen vectors, z-scores.

All baselines read the same nine fields in the same order through the same
frozen encoder. Encoding dominates the cost of most of them, so its results are
cached on disk, keyed by encoder, length and texts.

The published z-scores use the statistics of each split, test included, so test
statistics leak into the scores; the honest ones use those of train.

Axes: N samples, S fields, L tokens, D features, SD = S x D, T = 3 targets.

Source: Chronocept, arXiv 2505.07637v1, and the order of fields in the authors'
baselines (github.com/krishgoel/chronocept-baseline-models, fc375d6).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Float32, Float64, Int
from sklearn.preprocessing import StandardScaler

from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.tasks.chronocept import curves
from ctd_jax.utils import files
from ctd_jax_datasets.chronocept.sample_records import (
  AXES,
  LOG_BASE,
  TARGETS,
  Sample,
)


@dataclasses.dataclass(frozen=True)
class TargetScaler:
  """Mean and population standard deviation of each target."""

  mean: Float[np.ndarray, " T"]  # [T]
  sd: Float[np.ndarray, " T"]  # [T], positive

  @classmethod
  def fit(
    cls, targets: Float[np.ndarray, "N T"], split: str = "train"
  ) -> TargetScaler:
    """Returns the scaler fitted to the targets of a split.

    Raises:
      ValueError: if a target does not vary.
    """
    fitted = StandardScaler().fit(targets)
    # Its scale_ is 1 where the variance is 0, which would hide the fault.
    if not (fitted.var_ > 0).all():
      name = TARGETS[int(np.argmin(fitted.var_))]
      raise ValueError(
        f"{name} has the same value in all {len(targets)} samples of "
        f"split {split}; z-scores need at least two values"
      )
    return cls(fitted.mean_, fitted.scale_)

  @classmethod
  def identity(cls, width: int) -> TargetScaler:
    """Returns the scaler of raw units, which changes nothing."""
    return cls(np.zeros(width), np.ones(width))

  def transform(
    self, targets: Float[np.ndarray, "*B T"]
  ) -> Float[np.ndarray, "*B T"]:
    """Returns the z-scores of targets."""
    # [*B, T] - [T]
    return (targets - self.mean) / self.sd

  def inverse(
    self, scores: Float[np.ndarray, "*B T"]
  ) -> Float[np.ndarray, "*B T"]:
    """Returns the targets of z-scores."""
    return scores * self.sd + self.mean


def fit_split_scalers(
  targets: Mapping[str, np.ndarray],
) -> dict[str, TargetScaler]:
  """Returns each split's own scaler, as published.

  Args:
    targets: split -> [N, T].
  """
  return {
    split: TargetScaler.fit(values, split) for split, values in targets.items()
  }


def fit_train_scalers(
  targets: Mapping[str, np.ndarray],
) -> dict[str, TargetScaler]:
  """Returns the train split's scaler for every split.

  Args:
    targets: split -> [N, T], "train" among them.
  """
  # One scaler object for all splits.
  return dict.fromkeys(targets, TargetScaler.fit(targets["train"]))


# Axes as annotated, no axes, or the axes of each sample in random order.
AXES_GIVEN, AXES_REMOVED, AXES_SHUFFLED = "given", "removed", "shuffled"
AXES_ABLATIONS = (AXES_GIVEN, AXES_REMOVED, AXES_SHUFFLED)


def make_field_texts(
  samples: Sequence[Sample], axes: str = AXES_GIVEN, seed: int = 0
) -> list[tuple[str, ...]]:
  """Returns the field texts of each sample, the parent first.

  Args:
    axes: one of `AXES_ABLATIONS`. "removed" leaves the parent alone; "shuffled"
      permutes the eight axis texts of each sample.
    seed: seed of the permutations, together with the sample's id.

  Returns:
    N tuples of S texts, "" if a field is absent.
  """
  rows = []
  for sample in samples:
    texts = [sample.axes[axis] for axis in AXES if axes != AXES_REMOVED]
    if axes == AXES_SHUFFLED:
      random.Random(f"{sample.sample_id}:{seed}").shuffle(texts)
    rows.append((sample.parent_text, *texts))
  return rows


def extract_targets(
  samples: Sequence[Sample],
) -> Float64[np.ndarray, "N 3"]:
  """Returns location, scale and skewness of samples.

  Location and scale are converted to `LOG_BASE`.

  Args:
    samples: N samples, with logarithms to any base.
  """
  values = np.array([sample.targets for sample in samples], np.float64)
  values[:, :2] *= np.array(
    [curves.base_ratio(s.log_base, LOG_BASE) for s in samples]
  )[:, None]
  return values


@dataclasses.dataclass(frozen=True)
class FrozenFeatures:
  """Vectors and token states of a frozen encoder, cached on disk."""

  source: str  # folder or hub id of the encoder
  max_length: int  # tokens that are read of each field
  # Folder of the cache, with one file for each set of texts; None keeps none.
  cache_dir: pathlib.Path | None

  @functools.cached_property
  def encoder(self) -> TextEncoder:
    """The encoder; loaded only for what the cache lacks."""
    return TextEncoder.load(
      self.source,
      pooling="cls",
      normalize=False,
      prefix="",
      max_length=self.max_length,
    )

  def encode_vectors(
    self, rows: Sequence[Sequence[str]]
  ) -> Float32[np.ndarray, "N SD"]:
    """Returns the states of the first tokens of the fields, concatenated.

    Args:
      rows: texts of the S fields of N samples. An absent field is encoded like
        any other text, as published: "" has a constant vector.
    """
    texts, text_indices = _deduplicate_texts(rows)
    arrays = self._read_or_encode(
      "vectors", texts, lambda: {"vectors": self.encoder.encode(texts)}
    )
    # [N, S, D] -> [N, S * D]
    return arrays["vectors"][text_indices].reshape(len(rows), -1)

  def encode_sequences(
    self, rows: Sequence[Sequence[str]], pad_to_max_length: bool
  ) -> tuple[Float32[np.ndarray, "N L D"], Int[np.ndarray, " N"]]:
    """Returns the token states of all fields, concatenated.

    Args:
      rows: texts of the S fields of N samples.
      pad_to_max_length: pads as published: each field takes `max_length`
        positions, and the zeros behind its tokens are read like states.
        Otherwise it takes as many positions as it has tokens.

    Returns:
      (states, lengths), where lengths counts the positions to be read.
    """
    texts, text_indices = _deduplicate_texts(rows)
    arrays = self._read_or_encode(
      "tokens",
      texts,
      lambda: dict(
        zip(("states", "mask"), self.encoder.encode_tokens(texts), strict=True)
      ),
    )
    states, mask = arrays["states"], arrays["mask"]  # [texts, L, D], [texts, L]
    if pad_to_max_length:
      # `encode_tokens` pads to the longest text only.
      states = np.pad(
        states, ((0, 0), (0, self.max_length - states.shape[1]), (0, 0))
      )
      field_states = states[text_indices].reshape(
        len(rows), -1, states.shape[-1]
      )
      return field_states, np.full(len(rows), field_states.shape[1], np.int32)
    sample_states = [
      np.concatenate(
        [states[text_index][mask[text_index] > 0] for text_index in row]
      )
      for row in text_indices
    ]
    lengths = np.array([*map(len, sample_states)], np.int32)
    # Zeros behind `lengths` are not read.
    field_states = np.zeros(
      (len(rows), lengths.max(), states.shape[-1]), np.float32
    )
    for row, states_of_sample in zip(field_states, sample_states, strict=True):
      row[: len(states_of_sample)] = states_of_sample
    return field_states, lengths

  def tokenize_rows(
    self, rows: Sequence[Sequence[str]]
  ) -> dict[str, np.ndarray]:
    """Returns ids and masks of the parents and, separately, of the axes.

    Axes are much shorter than parents, so padding them together would waste
    most of the computation.

    Args:
      rows: texts of the S fields of N samples, the parent first.

    Returns:
      "ids" and "mask", int32 [N, 1, L], of the parents; "axis_ids" and
      "axis_mask", int32 [N, S - 1, L], of the axes, if there are any. L is the
      length of the longest text. The mask of an absent field is all 0.
    """
    ids, mask = self._tokenize_fields([row[:1] for row in rows])
    arrays = {"ids": ids, "mask": mask}
    if len(rows[0]) > 1:
      ids, mask = self._tokenize_fields([row[1:] for row in rows])
      arrays |= {"axis_ids": ids, "axis_mask": mask}
    return arrays

  def _tokenize_fields(
    self, rows: Sequence[Sequence[str]]
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids and mask of fields, both int32 [N, S, L]."""
    texts = [text for row in rows for text in row]
    ids, mask = self.encoder.tokenizer.encode(texts, self.max_length)
    # The tokenizer gives "" its special tokens.
    mask[[not text for text in texts]] = 0
    length = max(1, int(mask.sum(axis=1).max()))
    return tuple(
      x[:, :length].reshape(len(rows), -1, length) for x in (ids, mask)
    )

  def _read_or_encode(
    self,
    kind: str,
    texts: Sequence[str],
    encode: Callable[[], dict[str, np.ndarray]],
  ) -> dict[str, np.ndarray]:
    """Returns the arrays of texts, from the cache if it has them."""
    if self.cache_dir is None:
      return encode()
    model = pathlib.Path(self.source).expanduser()
    name = str(model.resolve()) if model.is_dir() else self.source
    # NUL separates the parts, since texts do not contain it.
    key = "\0".join([name, str(self.max_length), kind, *texts])
    path = self.cache_dir / f"{hashlib.sha256(key.encode()).hexdigest()}.npz"
    if path.exists():
      return files.load_arrays(path)
    arrays = encode()
    with files.atomic_path(path) as temporary:
      np.savez(temporary, **arrays)
    return arrays


def _deduplicate_texts(
  rows: Sequence[Sequence[str]],
) -> tuple[list[str], np.ndarray]:
  """Returns the distinct texts and the index of each field's text, [N, S]."""
  # Sorted, so that permuted fields have the same cache key.
  texts = sorted({text for row in rows for text in row})
  index_by_text = {text: index for index, text in enumerate(texts)}
  return texts, np.array(
    [[index_by_text[text] for text in row] for row in rows]
  )
