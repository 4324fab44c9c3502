"""Input pipeline: from the texts of a benchmark to batches of integers.

`Tokens` holds texts tokenised once; `training_batches` draws a positive record
and hard negatives of train months for every query, packs their texts, and can
be stopped and resumed at any batch. Time becomes integers here and nowhere
else.

Reading needs no device, so processes that read ahead do not touch them. The
state of an iterator is the number of the next batch: it continues exactly with
any number of readers, and nothing that was read ahead counts.

Axes: B queries in a batch, H hard negatives a query, T train queries, N texts
or records, L tokens, P packs, G/Y/M reign, year and month classes.
"""

from __future__ import annotations

import dataclasses
import functools
import multiprocessing
import os
import pathlib
import pickle
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grain
import jax
import ml_collections
import numpy as np
from absl import flags, logging
from jaxtyping import Bool, Float32, Int, Int32, Int64

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import ANSWERING_KINDS, Benchmark
from ctd_jax.benchmark.runs import Run
from ctd_jax.chronology.reigns import Interval, Timeline
from ctd_jax.models import packing
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import packing as packing_lib
from ctd_jax.training.batches import (
  MINED,
  BatchPlanner,
  BatchTexts,
  MinedNegatives,
  NegativeSampler,
  Positives,
  check_rankings,
)
from ctd_jax.training.packing import RowShape, TextPlaces, TokenStore


@dataclasses.dataclass(frozen=True)
class Share:
  """The share of a batch that a process has, equal and in order."""

  index: int = 0  # of the process
  count: int = 1  # of processes

  def of(self, rows: int) -> slice:
    """Returns which of this many rows are in the share."""
    size = rows // self.count
    return slice(self.index * size, (self.index + 1) * size)


WHOLE = Share()  # of one process


@dataclasses.dataclass(frozen=True)
class Teacher:
  """A teacher's scores of train queries against records."""

  pairs: Int64[np.ndarray, " _"]  # query * N + row of the gallery, rising
  scores: Float32[np.ndarray, " _"]
  num_records: int  # of the gallery, N

  @classmethod
  def read(cls, path: str, benchmark: Benchmark) -> Teacher:
    """Returns the scores of a TREC run, `config.loss.teacher`; counts them."""
    rankings = runs.read_run(path, "train", "train").rankings
    row_of = check_rankings(benchmark, rankings, f"config.loss.teacher={path}")
    queries = benchmark.queries["train"]
    pairs = [
      (number * len(row_of) + row_of[name], score)
      for number, query in enumerate(queries)
      for name, score in rankings.get(query.query_id, ())
    ]
    # Margins are those of a positive: a query without one teaches none.
    listed = [
      {name for name, _ in rankings.get(query.query_id, ())}
      for query in queries
    ]
    with_positive = sum(
      not names.isdisjoint(query.positives)
      for names, query in zip(listed, queries, strict=True)
    )
    logging.info(
      "%s scores %d pairs of %d of %d train queries, and a positive of %d; "
      "others have no part in its loss",
      path,
      len(pairs),
      sum(map(bool, listed)),
      len(queries),
      with_positive,
    )
    numbers, scores = zip(*sorted(pairs), strict=True)
    return cls(
      np.array(numbers, np.int64), np.array(scores, np.float32), len(row_of)
    )

  def look_up(
    self, queries: Int[np.ndarray, " B"], rows: Int[np.ndarray, " N"]
  ) -> Float32[np.ndarray, "B N"]:
    """Returns the score of every pair, NaN where the run has none."""
    wanted = queries[:, None] * self.num_records + rows
    place = np.searchsorted(self.pairs, wanted).clip(max=len(self.pairs) - 1)
    return np.where(
      self.pairs[place] == wanted, self.scores[place], np.float32(np.nan)
    )


@dataclasses.dataclass(frozen=True)
class BatchReader(grain.transforms.Map):
  """Makes the arrays of a batch from its number.

  It knows the lengths of all texts of the batch, and so, like every other
  process, where each is; it reads those in its own packs.
  """

  planner: BatchPlanner  # says which texts a batch has
  share: Share  # of this process
  packs: int  # of the global batch, P
  shapes: Sequence[RowShape]  # of their rows
  queries: TokenStore  # tokens of the train queries
  records: TokenStore  # tokens of the gallery
  query_ends: Int32[np.ndarray, "T 2"]  # ordinal months
  query_targets: tuple[np.ndarray, ...]  # of the heads, [T, classes]
  record_months: Int32[np.ndarray, " N"]  # ordinal
  record_classes: Int32[np.ndarray, "N 3"]  # reign, year, month from 0
  record_is_positive: Bool[np.ndarray, " N"]  # of a kind that can answer
  teacher: Teacher | None = None

  def map(self, element: int) -> dict[str, Any]:
    """Returns one batch; see `input_pipeline.training_batches`."""
    texts = self.planner.plan(element)
    lengths = self.planner.count_tokens(texts).reshape(-1)
    places = packing_lib.arrange_batch(lengths, self.packs, self.shapes)
    own_queries = self.share.of(len(texts.queries))
    query, records = texts.queries[own_queries], texts.records[own_queries]
    positive, negatives = records[:, 0], records[:, 1:].reshape(-1)
    reign, year, month = (targets[query] for targets in self.query_targets)
    order = places.pack * places.shape.texts + places.place
    taught = {}
    if self.teacher is not None:  # of all records of the batch, as `Pairs`
      first, hard = texts.records[:, 0], texts.records[:, 1:].reshape(-1)
      columns = np.concatenate([first, hard])
      taught = {"teacher": self.teacher.look_up(query, columns)}
    return {
      **taught,
      "texts": self._pack_texts(texts, lengths, places),
      "text_order": order[self.share.of(len(order))].astype(np.int32),
      "query_ends": self.query_ends[query],
      "query_reign": reign,
      "query_year": year,
      "query_month": month,
      "positive_month": self.record_months[positive],
      "positive_classes": self.record_classes[positive],
      "negative_month": self.record_months[negatives],
      "negative_answers": self.record_is_positive[negatives],
    }

  def _pack_texts(
    self, texts: BatchTexts, lengths: np.ndarray, places: TextPlaces
  ) -> packing.PackedTexts:
    """Returns the texts in the packs of this process."""
    rows, width, num_places = places.shape
    own_packs = self.share.of(self.packs)
    own = np.flatnonzero(
      (own_packs.start <= places.pack) & (places.pack < own_packs.stop)
    )
    pack = places.pack[own] - own_packs.start
    row, slot = places.row[own], places.slot[own]
    packs = own_packs.stop - own_packs.start
    ids = np.zeros(packs * rows * width, np.int32)
    segments = np.zeros_like(ids)
    cells = (pack * rows + row) * width + places.column[own]
    segments[packing_lib.spread(cells, lengths[own])] = np.repeat(
      (slot + 1).astype(np.int32), lengths[own]
    )
    query, column = np.divmod(own, 1 + texts.records.shape[1])
    is_query = column == 0
    self.queries.copy_texts(
      texts.queries[query[is_query]], cells[is_query], ids
    )
    self.records.copy_texts(
      texts.records[query[~is_query], column[~is_query] - 1],
      cells[~is_query],
      ids,
    )
    # A place without a text, or whose text has no tokens, is told by this.
    size = packing.slots_per_row(width)
    slots = np.full((packs, num_places), rows * size, np.int32)
    slots[pack, places.place[own]] = np.where(
      lengths[own] > 0, row * size + slot, rows * size
    )
    shape = packs, rows, width
    return packing.PackedTexts(
      ids.reshape(shape), segments.reshape(shape), slots
    )


_READ_AHEAD = 4  # batches of a process that reads
_PLACED_AHEAD = 2  # batches on the devices, besides the current one
_NUM_BATCHES = 2**40  # more than any run has
_ORDER = 1  # of the batches of a seed; another one makes another number


def _end_with_parent(folder: pathlib.Path, index: int, count: int) -> None:
  """Has this worker end when the run that it reads for is killed."""
  # It would wait for ever for somebody to take its batches.
  del index, count
  parent = multiprocessing.parent_process()

  def wait_and_exit() -> None:
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)

  threading.Thread(target=wait_and_exit, name="parent", daemon=True).start()


class _FiledReader(grain.transforms.Map):
  """Reader that a worker gets through a file, not through its pipe.

  A pipe holds 64 KiB: where a worker is killed before it has read the rest, the
  run would wait for ever to write it.
  """

  def __init__(self, reader: grain.transforms.Map, path: pathlib.Path):
    """Writes the reader to a file that stays until all workers have begun."""
    self._reader, self._path = reader, path
    with path.open("wb") as file:
      pickle.dump(reader, file)

  def __getstate__(self) -> pathlib.Path:
    return self._path

  def __setstate__(self, path: pathlib.Path) -> None:
    self._path = path
    with path.open("rb") as file:
      self._reader = pickle.load(file)

  def map(self, element: int) -> Any:
    """Returns the batch of a number."""
    return self._reader.map(element)


class BatchIterator(grain.DatasetIterator):
  """Endless iterator over the batches of a process."""

  def __init__(
    self,
    reader: grain.transforms.Map,
    workers: int = 0,
    place: Callable[[Any], Any] | None = None,
  ):
    """Starts with the first batch, and reading when the first is asked for."""
    super().__init__()
    self._reader = reader
    self._workers = workers
    self._place = place
    self._next = 0
    self._batches: grain.DatasetIterator | None = None
    self._remove_files: Callable[[], Any] | None = None  # given to workers

  def _open(self) -> grain.DatasetIterator:
    """Returns an iterator over the batches from the next one on."""
    reader = self._reader
    if self._workers:
      folder = pathlib.Path(tempfile.mkdtemp(prefix="ctd_jax-reader-"))
      self._remove_files = weakref.finalize(
        self, shutil.rmtree, folder, ignore_errors=True
      )
      reader = _FiledReader(reader, folder / "reader")
    dataset = (
      grain.MapDataset.range(self._next, _NUM_BATCHES)
      .map(reader)
      .to_iter_dataset(
        grain.ReadOptions(num_threads=1, prefetch_buffer_size=_READ_AHEAD)
      )
    )
    if self._workers:
      if not flags.FLAGS.is_parsed():  # where no command has: grain reads some
        flags.FLAGS.mark_as_parsed()
      dataset = dataset.mp_prefetch(
        grain.MultiprocessingOptions(
          num_workers=self._workers, per_worker_buffer_size=_READ_AHEAD
        ),
        functools.partial(_end_with_parent, folder),
      )
    if self._place is not None:
      dataset = grain.experimental.ThreadPrefetchIterDataset(
        dataset.map(self._place), prefetch_buffer_size=_PLACED_AHEAD
      )
    return iter(dataset)

  def __next__(self) -> Any:
    """Returns the next batch."""
    self.start_prefetch()
    batch = next(self._batches)
    self._next += 1
    return batch

  def start_prefetch(self) -> None:
    """Begins to read ahead."""
    if self._batches is None:
      self._batches = self._open()
      self._batches.start_prefetch()

  def get_state(self) -> dict[str, int]:
    """Returns the number of the next batch, and the order that it is of."""
    return {"next_index": self._next, "order": _ORDER}

  def set_state(self, state: dict[str, int]) -> None:
    """Goes to the batch that a state names."""
    if state.get("order") != _ORDER:
      raise ValueError(
        "begun with another input pipeline, whose batches come in another "
        f"order: {state}, expected 'order': {_ORDER}"
      )
    self.close()
    self._next = state["next_index"]

  def read_as(self, other: BatchIterator) -> None:
    """Goes on with the batches that another iterator makes of the numbers."""
    self.close()
    self._reader = other._reader

  def close(self) -> None:
    """Ends what reads ahead."""
    if self._batches is not None:
      self._batches.close()
      self._batches = None
    if self._remove_files is not None:
      self._remove_files()
      self._remove_files = None


# Sample from which the shapes of rows are chosen: number of texts, least and
# greatest number of batches, and number of windows.
_SAMPLE_TEXTS = 20_000
_SAMPLE_BATCHES = (4, 200)
_SAMPLE_WINDOWS = 16


@dataclasses.dataclass(frozen=True)
class Tokens:
  """Tokenised texts."""

  ids: Int32[np.ndarray, "N L"]  # of tokens
  mask: Int32[np.ndarray, "N L"]  # 1 = a token, 0 = padding
  # Tokens that each text has before it is cut to L.
  full_lengths: Int32[np.ndarray, " N"]

  def __len__(self) -> int:
    return len(self.ids)

  @functools.cached_property
  def store(self) -> TokenStore:
    """The tokens without padding."""
    return TokenStore(self.ids[self.mask > 0], self.lengths.astype(np.int32))

  @functools.cached_property
  def lengths(self) -> Int[np.ndarray, " N"]:
    """Tokens of each text."""
    return self.mask.sum(axis=1)

  def __getitem__(self, rows: Any) -> Tokens:
    return Tokens(self.ids[rows], self.mask[rows], self.full_lengths[rows])


def tokenize_texts(
  tokenizer: TextTokenizer,
  texts: Sequence[str],
  max_length: int,
  prefix: str = "",
  folder: pathlib.Path | None = None,
) -> Tokens:
  """Returns texts as tokens, cut or padded to one length.

  Args:
    prefix: comes before every text and counts in its length.
    folder: folder that keeps tokens; None = nowhere.
  """
  kept = None
  if folder is not None:
    kept = packing_lib.read_or_tokenize(
      folder, tokenizer, texts, max_length, prefix
    )
  if kept is None:
    rows, full_lengths = tokenizer.tokenize(texts, max_length, prefix)
    return Tokens(*tokenizer.pad(rows, max_length), full_lengths)
  store, full_lengths = kept
  rows = np.split(store.ids, store.starts[1:])[: len(texts)]
  tokens = Tokens(*tokenizer.pad(rows, max_length), full_lengths)
  tokens.__dict__["store"] = store  # the mapped one
  return tokens


def build_tokenizer(
  benchmark: Benchmark, extra_tokens: Sequence[str] = ()
) -> TextTokenizer:
  """Returns a character tokenizer over what training may see.

  That is the text of train records and train queries; a character that only
  a held-out month has is unknown, as new texts will have unknown ones.
  """
  texts = [
    record.text
    for record, split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
    if split == "train"
  ]
  return TextTokenizer.build(
    texts + [query.text for query in benchmark.queries["train"]],
    extra_tokens=extra_tokens,
  )


def calendar_targets(
  interval: Interval, timeline: Timeline
) -> tuple[
  Float32[np.ndarray, " G"],
  Float32[np.ndarray, " Y"],
  Float32[np.ndarray, " M"],
]:
  """Returns class probabilities of reign, year and month of an interval.

  They are uniform over its months; of one month they are one-hot.
  """
  targets = tuple(
    np.zeros(count, np.float32) for count in timeline.class_counts
  )
  months = list(timeline.iterate_keys(interval))
  for key in months:
    # A time key counts from 1, classes from 0.
    for target, class_number in zip(targets, key.triple, strict=True):
      target[class_number - 1] += 1 / len(months)
  return targets


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchSettings:
  """Form of a run's batches, and the processes that read them."""

  batch_size: int  # queries of the global batch, B
  seed: int  # of the order and the draws
  negatives: Mapping[str, int]  # hard negatives a query of each type; H in all
  mining_margin: float | None  # see `MinedNegatives.make`
  balance_kinds: bool  # draw event or placeholder first, then a record of it
  # Into which the texts of the global batch are divided, for devices and for
  # `encode_chunks`.
  packs: int
  widths: Sequence[int]  # of rows, to choose from; see `packing.row_widths`
  share: Share = WHOLE  # of this process
  workers: int = 0  # processes that read ahead; 0 = a thread does

  @classmethod
  def from_config(
    cls, config: ml_collections.ConfigDict, packs: int, widths: Sequence[int]
  ) -> BatchSettings:
    """Returns the settings of a run's config in this process."""
    return cls(
      batch_size=config.batch_size,
      seed=config.seed,
      negatives=config.negatives.to_dict(),
      mining_margin=config.mining.margin,
      balance_kinds=config.balance_positive_kinds,
      packs=packs,
      widths=widths,
      share=Share(jax.process_index(), jax.process_count()),
      workers=config.input.workers,
    )


def training_batches(
  benchmark: Benchmark,
  queries: Tokens,
  records: Tokens,
  settings: BatchSettings,
  place: Callable[[dict[str, Any]], Any] | None = None,
  mined: Run | None = None,
  teacher: Teacher | None = None,
) -> BatchIterator:
  """Returns an endless, resumable iterator over training batches.

  Every query comes once an epoch in a new order. Its draws depend on the seed
  and on its place in the sequence, not on what was read before, so an
  iterator restored at batch k continues exactly as the uninterrupted one. Each
  process reads its own share of the global batch, which is the same however
  many there are.

  Args:
    queries: tokens of its train queries.
    records: tokens of its gallery.
    place: puts a batch on devices ahead of time.
    mined: rankings of the train queries from which negatives of the type
      `mined` are drawn; without them they are any train records.
    teacher: whose scores batches have.

  Returns:
    An iterator over what `place` makes of dictionaries: texts,
    `packing.PackedTexts` of every query, its positive and its negatives,
    wherever there was room for them; text_order `[B*(2+H)]`, the place of each
    among those of all packs, in this order; and numpy arrays: query_ends
    `[B, 2]` (ordinal months); query_reign, query_year, query_month (target
    probabilities); positive_month `[B]` (ordinal); positive_classes `[B, 3]`
    (0-based reign, year, month); negative_month
    `[B*H]` (ordinal); negative_answers `[B*H]` (whether records of
    its kind can answer a query at all); with a teacher its scores, `[B, N]` as
    in `losses.Pairs`.

  Raises:
    ValueError: if the batch does not divide into the packs, or is larger than
      an epoch; or see `MinedNegatives.make`.
  """
  train_queries = benchmark.queries["train"]
  batch_size, packs = settings.batch_size, settings.packs
  if batch_size % packs:
    raise ValueError(
      f"config.batch_size={batch_size} does not divide into {packs} "
      "packs: config.encode_chunks of them on each of the devices that split "
      "the batch"
    )
  if batch_size > len(train_queries):
    raise ValueError(
      f"config.batch_size={batch_size} exceeds the "
      f"{len(train_queries)} train queries of {benchmark.name}"
    )
  timeline = benchmark.timeline
  targets = [calendar_targets(q.interval, timeline) for q in train_queries]
  query_ends = np.array(
    [timeline.interval_ordinals(q.interval) for q in train_queries], np.int32
  )
  negatives = dict(settings.negatives)
  num_mined = negatives.pop(MINED, 0)
  planner = BatchPlanner(
    batch_size,
    settings.seed,
    Positives.make(benchmark, settings.balance_kinds),
    NegativeSampler(benchmark, negatives),
    MinedNegatives.make(benchmark, num_mined, mined, settings.mining_margin),
    query_ends,
    queries.lengths,
    records.lengths,
  )
  reader = BatchReader(
    planner=planner,
    share=settings.share,
    packs=packs,
    shapes=_choose_shapes(planner, packs, settings.widths),
    queries=queries.store,
    records=records.store,
    query_ends=query_ends,
    query_targets=tuple(
      np.stack(head_targets) for head_targets in zip(*targets, strict=True)
    ),
    record_months=np.array(
      [timeline.ordinal(r.key) for r in benchmark.records], np.int32
    ),
    record_classes=np.array([r.key.triple for r in benchmark.records], np.int32)
    - 1,
    record_is_positive=np.isin(benchmark.kinds, ANSWERING_KINDS),
    teacher=teacher,
  )
  return BatchIterator(reader, settings.workers, place)


def _choose_shapes(
  planner: BatchPlanner, packs: int, widths: Sequence[int]
) -> tuple[RowShape, RowShape]:
  """Returns the shapes of rows, by the first batches of a run; logs them."""
  num_texts = planner.count_tokens(planner.plan(0)).size
  count = int(np.clip(_SAMPLE_TEXTS // num_texts, *_SAMPLE_BATCHES))
  # Batches of one window are alike; those of several are not quite.
  step = max(1, _SAMPLE_WINDOWS * planner.window_batches // count)
  sample = [
    planner.count_tokens(planner.plan(number))
    for number in range(0, count * step, step)
  ]
  usual, large = packing_lib.choose_shapes(sample, packs, widths)
  mean = np.mean([tokens.sum() for tokens in sample])
  logging.info(
    "texts in %d packs of %d rows of %d columns, about %.0f%% full; "
    "of %d rows of %d columns where they need more",
    packs,
    usual.rows,
    usual.width,
    100 * mean / (packs * usual.rows * usual.width),
    large.rows,
    large.width,
  )
  return usual, large
