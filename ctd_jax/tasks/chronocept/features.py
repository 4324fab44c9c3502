"""Samples as arrays: what the baselines of validity curves read and predict.

Why: every baseline reads the same nine fields in the same order, through the
same frozen encoder. Encoding dominates the cost of most of them, so it is done
once and kept on disk under encoder, length and texts. `validity.experiment`
calls it.

Axes: N samples, S fields, L tokens, D width.

Source: Chronocept, arXiv 2505.07637v1, and the order of fields in the authors'
baselines (github.com/krishgoel/chronocept-baseline-models, fc375d6).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import pathlib
import random
import tempfile
from collections.abc import Sequence

import numpy as np

from ctd_jax.models.text_encoder import TextEncoder
from ctd_jax.tasks.chronocept import time_axis
from ctd_jax_datasets.chronocept.samples import AXES, LOG_BASE, Sample

FIELDS = ("parent", *AXES)
# Axes as annotated; none at all; or each sample's among one another's places.
AXES_GIVEN, AXES_REMOVED, AXES_SHUFFLED = "given", "removed", "shuffled"
AXES_ABLATIONS = (AXES_GIVEN, AXES_REMOVED, AXES_SHUFFLED)


def make_field_texts(
  samples: Sequence[Sample], axes: str = AXES_GIVEN, seed: int = 0
) -> list[tuple[str, ...]]:
  """Returns the texts of the fields of each sample, "" where absent.

  Args:
    samples: N samples.
    axes: one of `ABLATIONS`. Removed axes leave the parent alone; shuffled,
      the eight texts of a sample change places at random.
    seed: of the places; with the id it fixes them for each sample.
  """
  rows = []
  for sample in samples:
    texts = [sample.axes[axis] for axis in AXES]
    if axes == AXES_REMOVED:
      texts = []
    elif axes == AXES_SHUFFLED:
      random.Random(f"{sample.sample_id}:{seed}").shuffle(texts)
    rows.append((sample.parent_text, *texts))
  return rows


def extract_targets(samples: Sequence[Sample]) -> np.ndarray:
  """Returns location, scale and skewness of samples, float64 [N, 3].

  Location and scale are to `LOG_BASE`, whatever base a sample is stored with.
  """
  values = np.array([sample.targets for sample in samples], np.float64)
  ratios = [time_axis.base_ratio(s.log_base, LOG_BASE) for s in samples]
  values[:, :2] *= np.array(ratios)[:, None]
  return values


@dataclasses.dataclass(frozen=True)
class FrozenFeatures:
  """Vectors and token states of a frozen encoder, kept on disk.

  Attributes:
    source: folder or hub id of the encoder.
    max_length: tokens read of a field.
    cache_dir: of the cache; a file for each text and kind would be many, so a
      file holds all that was asked for at once.
  """

  source: str
  max_length: int
  cache_dir: pathlib.Path

  @functools.cached_property
  def encoder(self) -> TextEncoder:
    """The encoder; loaded only if something is not in the cache."""
    return TextEncoder.load(
      self.source, pooling="cls", max_length=self.max_length
    )

  def encode_vectors(self, rows: Sequence[Sequence[str]]) -> np.ndarray:
    """Returns the first token's states of the fields in a row, [N, S * D].

    Args:
      rows: texts of the S fields of N samples. An absent field is encoded
        like any text, as published: a constant that says it is absent.
    """
    texts, text_indices = _deduplicate_texts(rows)
    arrays = self._read_cache("vectors", texts)
    if arrays is None:
      arrays = {"vectors": self.encoder.encode(texts)}
      self._write_cache("vectors", texts, arrays)
    return arrays["vectors"][text_indices].reshape(len(rows), -1)

  def encode_sequences(
    self, rows: Sequence[Sequence[str]], pad_to_max_length: bool
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the states of the tokens of all fields, one after the other.

    Args:
      rows: texts of the S fields of N samples.
      pad_to_max_length: whether each field takes `max_length` places, as published, the
        unused ones zero and read; or only as many as it has tokens.

    Returns:
      (states, lengths): fp32 [N, L, D] and int32 [N], what is to be read.
    """
    texts, text_indices = _deduplicate_texts(rows)
    arrays = self._read_cache("tokens", texts)
    if arrays is None:
      states, mask = self.encoder.encode_tokens(texts)
      arrays = {"states": states, "mask": mask}
      self._write_cache("tokens", texts, arrays)
    states, mask = arrays["states"], arrays["mask"]
    if pad_to_max_length:
      num_padding = self.max_length - states.shape[1]
      states = np.pad(states, ((0, 0), (0, num_padding), (0, 0)))
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
    lengths = np.array(
      [len(states_of_sample) for states_of_sample in sample_states], np.int32
    )
    field_states = np.zeros(
      (len(rows), lengths.max(), states.shape[-1]), np.float32
    )
    for row, states_of_sample in zip(field_states, sample_states, strict=True):
      row[: len(states_of_sample)] = states_of_sample
    return field_states, lengths

  def tokenize_rows(
    self, rows: Sequence[Sequence[str]]
  ) -> dict[str, np.ndarray]:
    """Returns ids and masks of parents and axes, apart: axes are much shorter.

    Args:
      rows: texts of the S fields of N samples, the parent first.

    Returns:
      "ids" and "mask", int32 [N, 1, L], of the parents; "axis_ids" and
      "axis_mask", int32 [N, S - 1, L], of the axes, if there are any. L is the
      longest text's length. An absent field has no token.
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
    """Returns ids and mask of fields, int32 [N, S, L] both."""
    texts = [text for row in rows for text in row]
    ids, mask = self.encoder.tokenizer.encode(texts, self.max_length)
    mask[[not text for text in texts]] = 0
    max_tokens = max(1, int(mask.sum(axis=1).max()))
    shape = len(rows), -1, max_tokens
    return (
      ids[:, :max_tokens].reshape(shape),
      mask[:, :max_tokens].reshape(shape),
    )

  def _cache_path(self, kind: str, texts: Sequence[str]) -> pathlib.Path:
    model = pathlib.Path(self.source).expanduser()
    name = str(model.resolve()) if model.is_dir() else self.source
    cache_key = "\0".join([name, str(self.max_length), kind, *texts])
    return (
      self.cache_dir / f"{hashlib.sha256(cache_key.encode()).hexdigest()}.npz"
    )

  def _read_cache(
    self, kind: str, texts: Sequence[str]
  ) -> dict[str, np.ndarray] | None:
    path = self._cache_path(kind, texts)
    if not path.exists():
      return None
    with np.load(path) as arrays:
      return dict(arrays)

  def _write_cache(
    self, kind: str, texts: Sequence[str], arrays: dict[str, np.ndarray]
  ) -> None:
    write_arrays(self._cache_path(kind, texts), arrays)


def write_arrays(
  path: str | os.PathLike, arrays: dict[str, np.ndarray]
) -> None:
  """Writes named arrays as .npz, the whole file or nothing."""
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=path.parent) as folder:
    temporary = pathlib.Path(folder) / path.name
    np.savez(temporary, **arrays)
    os.replace(temporary, path)


def _deduplicate_texts(
  rows: Sequence[Sequence[str]],
) -> tuple[list[str], np.ndarray]:
  """Returns the different texts, and which of them each field is, [N, S]."""
  # Sorted: fields that change places need no new encoding.
  texts = sorted({text for row in rows for text in row})
  index_by_text = {text: index for index, text in enumerate(texts)}
  return texts, np.array(
    [[index_by_text[text] for text in row] for row in rows]
  )
