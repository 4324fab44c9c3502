"""Texts for pre-training: what is read and left out, rows, masks.

Running text and notes are read; headings, what editors add, and the notes that
`Work.commentary` leaves out are not. Neither is a passage, an entry or a note,
that shares a string with a record of an excluded data set, nor one beside it
that prints a date: an encoder that has read them would know labels of the test.

Axes: N rows, B rows of a batch, W tokens of a row, K masked tokens of a row.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import pathlib
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import grain
import ml_collections
import numpy as np
from jaxtyping import Int, Int32, UInt16, UInt64

from ctd_jax import texts
from ctd_jax.chronology import dates
from ctd_jax.chronology.glyphs import fold_text
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.models.tokenizer import SPECIAL_TOKENS, TextTokenizer
from ctd_jax.texts.works import TEXT, Work
from ctd_jax.training import experiment as experiments
from ctd_jax.training.input_pipeline import WHOLE, Share
from ctd_jax.utils import output
from ctd_jax.utils.unicode_text import normalize

MASK = "[MASK]"
SHARED_LENGTH = 12  # Han characters that two passages do not share by chance
# Columns of the table of counts, in Han characters.
COUNTS = (
  *("read", "headings", "shared", "dated", "repeated", "train", "validation"),
)
_NOT_HAN = re.compile(r"[^〇\u3400-\u9fff\U00020000-\U0003ffff]")
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: no power of it is 0
_MIN_COVERAGE = 0.95  # share of the characters that the vocabulary must have
_BUCKETS = 10_000  # of passages; some buckets are held out
# Streams of random numbers of a seed.
_ORDER, _TRAIN, _VALIDATION = range(3)


def fold_han(text: str) -> str:
  """Returns the Han characters of a text, in one spelling and one script."""
  return _NOT_HAN.sub("", fold_text(normalize(text).text))


class SharedStrings:
  """Finds texts that share `SHARED_LENGTH` characters with given ones."""

  def __init__(self, folded_texts: Iterable[str]):
    """Hashes all strings of that length.

    Args:
      folded_texts: from `fold_han`.
    """
    folded_texts = list(folded_texts)
    hashes = [_hash_strings(text) for text in folded_texts]
    # One that nothing has: a search always has something to compare with.
    self._hashes = np.unique(np.concatenate([*hashes, np.zeros(1, np.uint64)]))
    self._joined = "\n".join(folded_texts)

  def find_in(self, folded: str) -> bool:
    """Returns whether a text shares a string."""
    hashes = _hash_strings(folded)
    places = np.searchsorted(self._hashes, hashes)
    found = self._hashes[np.minimum(places, len(self._hashes) - 1)]
    return bool((found == hashes).any())

  def has_whole(self, folded: str) -> bool:
    """Returns whether a text too short to share a string is part of one."""
    return 0 < len(folded) < SHARED_LENGTH and folded in self._joined


def _hash_strings(folded: str) -> UInt64[np.ndarray, " _"]:
  """Returns a hash of every string of `SHARED_LENGTH` characters."""
  codes = np.frombuffer(folded.encode("utf-32-le"), np.uint32)
  count = max(0, len(codes) - SHARED_LENGTH + 1)
  hashes = np.zeros(count, np.uint64)
  for start in range(SHARED_LENGTH):
    hashes = hashes * _HASH_FACTOR + codes[start : start + count]
  return hashes


class WorkCounts(NamedTuple):
  """Counts of a work's Han characters: read, left out (and why), kept."""

  folder: str  # of the work, below the folder that was read
  title: str
  counts: collections.Counter[str]  # by `COUNTS`


@dataclasses.dataclass(frozen=True)
class PretrainingTexts:
  """Texts as rows of tokens."""

  tokenizer: TextTokenizer
  train: UInt16[np.ndarray, "N W"]
  validation: UInt16[np.ndarray, "_ W"]
  works: Sequence[WorkCounts]
  coverage: float  # share of the train characters that are in the vocabulary

  @property
  def digest(self) -> str:
    """A hash of all rows: equal means the same texts."""
    digest = hashlib.sha256(self.train.tobytes())
    digest.update(self.validation.tobytes())
    return digest.hexdigest()[:16]

  def list_counts(self) -> list[list[str | int]]:
    """Returns the lines of the table of counts, the sum of all works last."""
    total = sum((work.counts for work in self.works), collections.Counter())
    return [
      [work.folder, work.title, *(work.counts[name] for name in COUNTS)]
      for work in (*self.works, WorkCounts("all", "", total))
    ]


def read_pretraining_texts(
  config: ml_collections.ConfigDict,
) -> PretrainingTexts:
  """Returns the texts of a config's folders, without what is left out.

  Raises:
    ValueError: if a folder holds no text, nothing is left to train or to
      validate with, or the vocabulary is too small; the message says which.
  """
  section = config.pretraining
  benchmarks = [
    experiments.build_benchmark(name, config.data_dir, config.sources)
    for name in section.exclude
  ]
  excluded = SharedStrings(
    fold_han(record.text)
    for benchmark in benchmarks
    for record in benchmark.records
  )
  timelines = [benchmark.timeline for benchmark in benchmarks]
  works: list[WorkCounts] = []
  passages_by_work = []
  for folder in output.Progress(section.texts, desc="read", unit="folder"):
    for work in texts.read_works(folder):
      place = pathlib.PurePath(work.entries[0].place.file)
      name = str(pathlib.PurePath(folder).name / place.parent)
      counts, passages = _choose_passages(work, excluded, timelines)
      works.append(WorkCounts(name, work.title, counts))
      passages_by_work.append(passages)
  limit = section.validation_share * _BUCKETS

  def is_held_out(folded: str) -> bool:
    return zlib.crc32(folded.encode()) % _BUCKETS < limit

  held_out = SharedStrings(
    folded
    for passages in passages_by_work
    for _, folded in passages
    if is_held_out(folded)
  )
  kept: dict[str, list[str]] = {"train": [], "validation": []}
  for work, passages in zip(works, passages_by_work, strict=True):
    for text, folded in passages:
      kind = "train"
      if is_held_out(folded):
        kind = "validation"
      elif held_out.find_in(folded):
        kind = "repeated"
      work.counts[kind] += len(folded)
      if kind in kept:
        kept[kind].append(text)
  _check_kept(section, kept, works)
  tokenizer = TextTokenizer.build(
    kept["train"], (MASK,), section.vocabulary_size
  )
  width = config.model.encoder.max_length
  train = _fill_rows(tokenizer, kept["train"], width)
  is_character = (train == tokenizer.unk_id) | (train >= len(SPECIAL_TOKENS))
  coverage = 1 - (train == tokenizer.unk_id).sum() / is_character.sum()
  if coverage < _MIN_COVERAGE:
    raise ValueError(
      f"config.pretraining.vocabulary_size={section.vocabulary_size} has "
      f"{coverage:.0%} of the characters of the texts; expected at least "
      f"{_MIN_COVERAGE:.0%}: set it higher"
    )
  return PretrainingTexts(
    tokenizer,
    train,
    _fill_rows(tokenizer, kept["validation"], width),
    works,
    float(coverage),
  )


def _choose_passages(
  work: Work, excluded: SharedStrings, timelines: Sequence[Timeline]
) -> tuple[collections.Counter[str], list[tuple[str, str]]]:
  """Returns counts, and the passages that stay, as they are and folded.

  Args:
    timelines: of the excluded data sets, whose reigns name years.
  """

  def prints_date(text: str) -> bool:
    return any(dates.find_date_cues(text, timeline) for timeline in timelines)

  is_text = [entry.kind == TEXT for entry in work.entries]
  # Number of the last entry of text up to each entry: notes belong to one.
  numbers = np.cumsum(is_text).tolist()
  passages = [
    (number, entry.text)
    for number, entry in zip(numbers, work.entries, strict=True)
    if entry.kind == TEXT
  ]
  for note in work.commentary().entries:
    passages.append((numbers[note.commented[0]], note.text))
  counts = collections.Counter(
    headings=sum(
      len(fold_han(entry.text)) for entry in work.entries if entry.kind != TEXT
    )
  )
  folded_texts = [fold_han(text) for _, text in passages]
  is_shared = [
    excluded.find_in(folded) or excluded.has_whole(folded)
    for folded in folded_texts
  ]
  near = {
    number + step
    for (number, _), shared in zip(passages, is_shared, strict=True)
    if shared
    for step in (-1, 0, 1)
  }
  kept = []
  for (number, text), folded, shared in zip(
    passages, folded_texts, is_shared, strict=True
  ):
    counts["read"] += len(folded)
    if shared:
      counts["shared"] += len(folded)
    elif number in near and prints_date(text):
      counts["dated"] += len(folded)
    elif folded:
      kept.append((text, folded))
  return counts, kept


def _check_kept(
  section: ml_collections.ConfigDict,
  kept: dict[str, list[str]],
  works: Sequence[WorkCounts],
) -> None:
  """Raises ValueError if nothing is left to train or to validate with."""
  total = sum((work.counts for work in works), collections.Counter())
  if not kept["train"]:
    raise ValueError(
      f"--sources={','.join(section.texts)}: nothing is left to train with; of "
      f"{total['read']} Han characters {total['shared']} are of passages that "
      f"share {SHARED_LENGTH} with a record of {', '.join(section.exclude)}, "
      f"{total['dated']} of dated ones beside them, and {total['repeated']} of "
      "passages that share as many with a validation passage"
    )
  if not kept["validation"]:
    raise ValueError(
      f"config.pretraining.validation_share={section.validation_share} holds "
      f"out none of {len(kept['train'])} passages; set it higher"
    )


def _fill_rows(
  tokenizer: TextTokenizer, passages: Sequence[str], width: int
) -> UInt16[np.ndarray, "_ W"]:
  """Returns passages one behind another, cut into rows; the last is padded."""
  # Longer than any passage.
  tokens = np.concatenate(tokenizer.tokenize(passages, 2**30).ids)
  rows = np.full((-(-len(tokens) // width), width), tokenizer.pad_id, np.uint16)
  rows.reshape(-1)[: len(tokens)] = tokens
  return rows


@dataclasses.dataclass(frozen=True)
class MaskedReader(grain.transforms.Map):
  """Makes the arrays of a batch from its number, the same on any machine.

  15 % of the characters are to be predicted: of these 80 % are masked, 10 % are
  another character, and 10 % stay.

  Source: Devlin et al. 2019, section 3.1; share and size as configured.
  """

  rows: UInt16[np.ndarray, "N W"]
  vocab_size: int  # the mask has the last id
  batch_size: int  # rows of the global batch, B
  mask_share: float
  seed: int
  is_training: bool = True  # rows in an order of each epoch; else as they are
  share: Share = WHOLE  # of this process

  def map(self, element: int) -> dict[str, np.ndarray]:
    """Returns ids, segments, columns, labels and weights of this process."""
    numbers = np.arange(self.batch_size) + element * self.batch_size
    epochs, places = np.divmod(numbers, len(self.rows))
    chosen = np.concatenate(
      [
        self._order_rows(epoch)[places[epochs == epoch]]
        for epoch in np.unique(epochs).tolist()
      ]
    )
    stream = _TRAIN if self.is_training else _VALIDATION
    rng = np.random.default_rng((self.seed, stream, element))
    batch = self._mask(self.rows[chosen].astype(np.int32), rng)
    own = self.share.of(self.batch_size)
    return {name: array[own] for name, array in batch.items()}

  def _order_rows(self, epoch: int) -> Int[np.ndarray, " N"]:
    """Returns the order of the rows in an epoch."""
    if not self.is_training:
      return np.arange(len(self.rows))
    rng = np.random.default_rng((self.seed, _ORDER, epoch))
    return rng.permutation(len(self.rows))

  def _mask(
    self, ids: Int32[np.ndarray, "B W"], rng: np.random.Generator
  ) -> dict[str, np.ndarray]:
    """Returns rows with masked characters, and what these were."""
    mask_id, first = self.vocab_size - 1, len(SPECIAL_TOKENS)
    # [CLS] is the first token of a passage, see `TextTokenizer.build`.
    starts = ids == SPECIAL_TOKENS.index("[CLS]")
    segments = np.cumsum(starts, axis=1) + ~starts[:, :1]
    segments = np.where(ids == SPECIAL_TOKENS.index("[PAD]"), 0, segments)
    is_character = (ids >= first) & (ids != mask_id)
    # The same number in all rows; a row without as many has weights of 0.
    count = max(1, round(self.mask_share * ids.shape[1]))
    draws = rng.random(ids.shape) + ~is_character
    columns = np.sort(np.argsort(draws, axis=1)[:, :count], axis=1)
    labels = np.take_along_axis(ids, columns, axis=1)
    kinds = rng.random(columns.shape)
    others = rng.integers(first, mask_id, columns.shape, np.int32)
    shown = np.where(
      kinds < 0.8, mask_id, np.where(kinds < 0.9, others, labels)
    )
    weights = np.take_along_axis(is_character, columns, axis=1)
    masked = ids.copy()
    np.put_along_axis(masked, columns, np.where(weights, shown, labels), axis=1)
    return {
      "ids": masked,
      "segments": segments.astype(np.int32),
      "columns": columns.astype(np.int32),
      "labels": labels,
      "weights": weights.astype(np.float32),
    }
