"""Checks of tokenised texts: room after a prefix, cuts, texts that collapse.

A prefix that fills the length, or a length too short for texts to differ, makes
all queries one text. The training loss falls nevertheless, and every measure is
0.

Axes: N texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from absl import logging
from jaxtyping import Int

from ctd_jax.models.tokenizer import TextTokenizer


def check_prefix(
  tokenizer: TextTokenizer,
  prefix: str,
  max_length: int,
  prefix_name: str = "prefix",
  length_name: str = "max_length",
) -> None:
  """Checks that a prefix leaves a text at least half of its length.

  Args:
    tokenizer: vocabulary.
    prefix: put before every text.
    max_length: tokens read of a text, prefix and special tokens included.
    prefix_name: of the field or argument, for the error.
    length_name: likewise.

  Raises:
    ValueError: naming both, with their tokens and the least length.
  """
  if not prefix:
    return
  (count,) = tokenizer.tokenize([""], max_length, prefix).full_lengths
  if 2 * count > max_length:
    raise ValueError(
      f"{prefix_name}={_shorten(prefix)!r} has {count} tokens and leaves "
      f"{max(max_length - count, 0)} of {length_name}={max_length} to a text; "
      f"expected at least half: shorten the prefix or set {length_name} to "
      f"{2 * count} or more"
    )


def warn_of_cuts(
  full_lengths: Int[np.ndarray, " N"],
  max_length: int,
  texts_name: str,
  length_name: str = "max_length",
) -> None:
  """Warns of texts that are longer than what is read of them.

  Args:
    full_lengths: tokens of each text, uncut.
    max_length: tokens read of a text.
    texts_name: what the texts are, e.g. "records".
    length_name: of the field or argument to raise.
  """
  num_cut = int((full_lengths > max_length).sum())
  if num_cut:
    logging.warning(
      "%s: %d of %d are cut at %s=%d tokens; %d would hold them all",
      texts_name,
      num_cut,
      len(full_lengths),
      length_name,
      max_length,
      full_lengths.max(),
    )


def warn_of_collapse(
  texts: Sequence[str], rows: Iterable[Int[np.ndarray, " _"]], texts_name: str
) -> None:
  """Warns of distinct texts with the same tokens, hence the same vector.

  Args:
    texts: N texts.
    rows: their token ids, cut.
    texts_name: what the texts are, e.g. "queries".
  """
  groups = _group_by_tokens(texts, rows)
  collapsed_groups = [group for group in groups if len(group) > 1]
  if collapsed_groups:
    logging.warning(
      "%s: %d of %d distinct texts have the tokens of another, and no score "
      "tells them apart; %d rows of tokens are left. First: %s",
      texts_name,
      sum(map(len, collapsed_groups)),
      sum(map(len, groups)),
      len(groups),
      " | ".join(map(_shorten, collapsed_groups[0][:2])),
    )


def check_distinct(
  texts: Sequence[str],
  rows: Iterable[Int[np.ndarray, " _"]],
  texts_name: str,
  advice: str,
) -> None:
  """Raises ValueError if most texts cannot be told apart.

  That is, if the distinct texts have less than half as many distinct rows of
  tokens.

  Args:
    texts: N texts.
    rows: their token ids, cut.
    texts_name: what they are, e.g. "train queries".
    advice: what would fix it.
  """
  groups = _group_by_tokens(texts, rows)
  num_texts = sum(map(len, groups))
  if 2 * len(groups) < num_texts:
    raise ValueError(
      f"{texts_name}: {num_texts} distinct texts become {len(groups)} rows of "
      f"tokens, so that most have the vector of another; {advice}"
    )


def _group_by_tokens(
  texts: Sequence[str], rows: Iterable[Int[np.ndarray, " _"]]
) -> list[list[str]]:
  """Returns the distinct texts, those with the same tokens together."""
  groups: dict[bytes, dict[str, None]] = {}
  for text, row in zip(texts, rows, strict=True):
    groups.setdefault(row.tobytes(), {})[text] = None
  return [list(group) for group in groups.values()]


def _shorten(text: str) -> str:
  """Returns the beginning of a text that is too long for a line."""
  return text if len(text) <= 40 else f"{text[:40]}…"
