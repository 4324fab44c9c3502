"""Shapes of the rows that hold a training batch: two at most in a run.

Every shape is compiled once, which takes minutes for a large encoder. The usual
one holds nearly all batches, the large one those of unusually long texts. Both
follow from the first batches of the run, hence from its seed.

The texts of a batch are in any of its packs, not in that of their query: with
few queries on a device, one pack would be full and others half empty.
`TextPlaces` says where each text is. Many texts are dealt by length to units of
packs, which are then so similar that one layout serves all: every process of a
run has to know it, and its cost does not grow with their number.

Axes: P packs, R rows of a pack, N texts of a batch, U units.
"""

import contextlib
import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import logging
from jaxtyping import Int, Int32, Int64

from ctd_jax.models import packing
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.utils import files

# Of columns: a tensor core takes 8 or 16 at once, a vector of a TPU 128.
_WIDTH_MULTIPLES = {"tpu": 128}
_WIDTH_MULTIPLE = 32
# Columns of a row in which attention costs as much as everything else: six
# times the width of the states, for that is 768 in most encoders.
_ATTENTION_WIDTH = 6 * 768
# Texts of a unit, at least. Of the space of the first unit another leaves empty
# what its longest text takes, at most: a row, of more than a hundred. Units of
# a quarter would be laid out in half the time, but need one more row per pack.
_UNIT_TEXTS = 1024
# The large shape has room for batches so many standard deviations above the
# mean, of tokens of queries that are drawn independently.
_DEVIATIONS = 6


class RowShape(NamedTuple):
  """Shape of a pack."""

  rows: int  # R
  width: int  # columns of a row
  texts: int  # that it has places for

  @property
  def cost(self) -> float:
    """Time of its attention and all else, in columns."""
    return self.rows * self.width * (1 + self.width / _ATTENTION_WIDTH)


class TextPlaces(NamedTuple):
  """Positions of the texts of a batch."""

  shape: RowShape  # of every pack
  pack: Int[np.ndarray, " N"]  # of each text, [N]
  row: Int[np.ndarray, " N"]  # of its pack
  slot: Int[np.ndarray, " N"]  # of its row
  column: Int[np.ndarray, " N"]  # its first one
  place: Int[np.ndarray, " N"]  # among the texts of its pack


def width_multiple(platform: str) -> int:
  """Returns the number that widths of rows are multiples of."""
  return _WIDTH_MULTIPLES.get(platform, _WIDTH_MULTIPLE)


def arrange_batch(
  lengths: Int[np.ndarray, " N"], packs: int, shapes: Sequence[RowShape]
) -> TextPlaces:
  """Returns the places of texts in the first of the shapes that holds them.

  If none does, the last one grows.

  Args:
    lengths: tokens of the texts, at most the width of each shape.
    shapes: shapes to try, in this order.
  """
  unit_packs = count_unit_packs(len(lengths), packs)
  dealt = _deal_texts(lengths, packs // unit_packs)
  longest = lengths[dealt[:, 0]]
  for shape in shapes:
    layout = packing.fit_texts(
      longest[None], shape.rows * unit_packs, shape.width
    )
    if layout is not None:
      places = _deal_rows(layout.positions[0], unit_packs, shape)
      if places.place.max(initial=0) < shape.texts:
        return _repeat_unit(places, unit_packs, dealt)
  width = shapes[-1].width
  layout = packing.fit_texts(longest[None], len(longest), width)
  rows = -(-_count_rows(layout) // unit_packs)
  places = _deal_rows(
    layout.positions[0], unit_packs, RowShape(rows, width, len(longest))
  )
  return _repeat_unit(places, unit_packs, dealt)


def count_unit_packs(texts: int, packs: int) -> int:
  """Returns the number of packs in a unit; all units have the same layout."""
  sizes = (size for size in range(1, packs) if packs % size == 0)
  return next(
    (size for size in sizes if texts * size >= packs * _UNIT_TEXTS), packs
  )


def _deal_texts(
  lengths: Int[np.ndarray, " N"], units: int
) -> Int64[np.ndarray, "_ {units}"]:
  """Returns the texts of each unit, those of the first being the longest."""
  # The longest texts go to a unit each, the next longest likewise, and so on: a
  # row of the result has texts of about equal length, and a layout of its first
  # column fits every column.
  # No row has 2^16 columns, and numbers of 16 bits are sorted by their digits.
  keys = (lengths.max(initial=0) - lengths).astype(np.uint16)
  dealt = np.argsort(keys, kind="stable").reshape(-1, units)
  # The objective counts on it that one pack has the order of the batch.
  return dealt[np.argsort(dealt[:, 0])]


def _repeat_unit(
  places: TextPlaces, unit_packs: int, dealt: Int64[np.ndarray, "_ U"]
) -> TextPlaces:
  """Returns the places of the texts of all units, which lie alike."""

  def spread(values: Int[np.ndarray, "_ _"]) -> Int64[np.ndarray, " N"]:
    result = np.empty(dealt.size, np.int64)
    result[dealt] = values
    return result

  first_packs = unit_packs * np.arange(dealt.shape[1])
  return TextPlaces(
    places.shape,
    spread(places.pack[:, None] + first_packs),
    *(spread(values[:, None]) for values in places[2:]),
  )


def _deal_rows(
  positions: Int[np.ndarray, "N 3"], packs: int, shape: RowShape
) -> TextPlaces:
  """Returns the places of texts whose rows are dealt to packs in turns."""
  row, slot, column = positions.T
  # The first rows have the longest texts, hence the fewest.
  row, pack = np.divmod(row, packs)
  counts = np.bincount(pack, minlength=packs)
  place = np.empty_like(pack)
  # Of the texts of every pack, in order: 0, 1, 2, ...
  place[np.argsort(pack, kind="stable")] = np.arange(len(pack)) - np.repeat(
    np.cumsum(counts) - counts, counts
  )
  return TextPlaces(shape, pack, row, slot, column, place)


def _count_rows(layout: packing.Layout) -> int:
  """Returns the rows in use, of one pack."""
  return 1 + int(layout.positions[0, :, 0].max(initial=0))


def choose_shapes(
  batches: Sequence[Int[np.ndarray, "B _"]],
  packs: int,
  widths: Sequence[int],
) -> tuple[RowShape, RowShape]:
  """Returns the usual shape and the large one."""
  # Rows that each batch needs at each width.
  needs = {
    width: np.array(
      [_count_pack_rows(batch, packs, width) for batch in batches]
    )
    for width in widths
  }
  sums = np.array([batch.sum() for batch in batches])
  queries = np.concatenate([batch.sum(axis=1) for batch in batches])
  deviation = queries.std() * len(batches[0]) ** 0.5
  growth = max(1.0, (sums.mean() + _DEVIATIONS * deviation) / sums.max())
  num_texts = batches[0].size
  large = min(
    (
      RowShape(int(np.ceil(growth * needs[width].max())), width, num_texts)
      for width in widths
    ),
    key=lambda shape: shape.cost,
  )

  def mean_cost(shape: RowShape) -> float:
    is_held = needs[shape.width] <= shape.rows
    return float(np.where(is_held, shape.cost, large.cost).mean())

  usual = min(
    (
      RowShape(int(rows), width, num_texts)
      for width in widths
      for rows in np.unique(needs[width])
    ),
    key=mean_cost,
  )
  return tuple(_limit_texts(shape, batches, packs) for shape in (usual, large))


def _count_pack_rows(
  lengths: Int[np.ndarray, "B _"], packs: int, width: int
) -> int:
  """Returns the rows of a pack that a batch needs."""
  rows = _count_rows(_lay_out_unit(lengths, packs, width))
  return -(-rows // count_unit_packs(lengths.size, packs))


def _lay_out_unit(
  lengths: Int[np.ndarray, "B _"], packs: int, width: int
) -> packing.Layout:
  """Returns the layout of the first unit in as many rows as it needs."""
  unit_packs = count_unit_packs(lengths.size, packs)
  dealt = _deal_texts(lengths.reshape(-1), packs // unit_packs)
  longest = lengths.reshape(-1)[dealt[:, 0]]
  return packing.fit_texts(longest[None], len(longest), width)


def _limit_texts(
  shape: RowShape, batches: Sequence[Int[np.ndarray, "B _"]], packs: int
) -> RowShape:
  """Returns a shape with as many places for texts as packs will need."""
  num_texts = batches[0].size
  unit_packs = count_unit_packs(num_texts, packs)
  if unit_packs == 1:
    return shape._replace(texts=num_texts // packs)
  most = max(
    1 + int(_deal_rows(layout.positions[0], unit_packs, shape).place.max())
    for batch in batches
    for layout in (_lay_out_unit(batch, packs, shape.width),)
  )
  return shape._replace(texts=count_places(most, num_texts))


def count_places(texts: int, num_texts: int) -> int:
  """Returns places for the texts of a pack, with room to spare.

  A quarter more, which is little beside the tokens; in eights.
  """
  places = texts + texts // 4 + 8
  return min(places - places % 8, num_texts)


# Tokens of texts, one text after the other, in memory or in a mapped file.
#
# Processes of a machine that map one file share its memory, and read the
# pages that they need. What tokenises a text takes hundreds of times as long.
#
# Axes: N texts, C tokens of all texts.


_FORMAT = b"1"  # of the files; part of their names' fingerprint


@dataclasses.dataclass(frozen=True)
class TokenStore:
  """Tokens of texts."""

  ids: Int32[np.ndarray, " C"]  # of all tokens, text after text
  lengths: Int32[np.ndarray, " N"]  # tokens of each text
  # Of the file that `ids` is mapped from; None = it is in memory.
  path: pathlib.Path | None = None

  @functools.cached_property
  def starts(self) -> Int64[np.ndarray, " N"]:
    """Position of the first token of each text."""
    return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

  def copy_texts(
    self,
    texts: Int[np.ndarray, " _"],
    cells: Int[np.ndarray, " _"],
    target: Int32[np.ndarray, " _"],
  ) -> None:
    """Copies texts into a flat array; `cells` says where each begins."""
    lengths = self.lengths[texts]
    tokens = spread(self.starts[texts], lengths)
    target[spread(cells, lengths)] = self.ids[tokens]

  def __getstate__(self) -> dict[str, Any]:
    """Returns the data sent to another process; for a file, its path."""
    ids = self.ids if self.path is None else None
    return {"ids": ids, "lengths": self.lengths, "path": self.path}

  def __setstate__(self, state: dict[str, Any]) -> None:
    """Takes what `__getstate__` returned."""
    if state["path"] is not None:
      state["ids"] = np.load(state["path"], mmap_mode="r", allow_pickle=False)
    vars(self).update(state)


def spread(
  starts: Int[np.ndarray, " N"], lengths: Int[np.ndarray, " N"]
) -> Int64[np.ndarray, " _"]:
  """Returns start, start + 1, ... of each text, as many as it has tokens."""
  ends = np.cumsum(lengths, dtype=np.int64)
  total = int(ends[-1]) if len(ends) else 0
  return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def read_or_tokenize(
  folder: pathlib.Path,
  tokenizer: TextTokenizer,
  texts: Sequence[str],
  max_length: int,
  prefix: str,
) -> tuple[TokenStore, Int32[np.ndarray, " N"]] | None:
  """Returns the tokens of texts, and the tokens that each has uncut.

  None, and a warning, where the folder lacks them and cannot be written to.
  """
  name = _fingerprint(tokenizer, texts, max_length, prefix)
  # The tokens come last: where they are, the lengths are.
  lengths_path, ids_path = (
    folder / f"{name}.lengths.npy",
    folder / f"{name}.npy",
  )
  if not ids_path.exists():
    rows, full_lengths = tokenizer.tokenize(texts, max_length, prefix)
    lengths = np.array([len(row) for row in rows], np.int32)
    ids = np.concatenate([*rows, np.zeros(0, np.int32)])
    try:
      _save(lengths_path, np.stack([lengths, full_lengths]))
      _save(ids_path, ids)
    except OSError as error:
      logging.warning("tokens are not kept in %s: %s", folder, error)
      return None
    logging.info("wrote the tokens of %d texts to %s", len(texts), ids_path)
  lengths, full_lengths = np.load(lengths_path, allow_pickle=False)
  ids = np.load(ids_path, mmap_mode="r", allow_pickle=False)
  return TokenStore(ids, lengths, ids_path), full_lengths


def _save(path: pathlib.Path, array: np.ndarray) -> None:
  with files.atomic_path(path) as temporary:
    np.save(temporary, array)


def _fingerprint(
  tokenizer: TextTokenizer,
  texts: Sequence[str],
  max_length: int,
  prefix: str,
) -> str:
  """Returns a name that two inputs share only if their tokens are the same."""
  digest = hashlib.sha256(_FORMAT)
  for text in (tokenizer.fingerprint, str(max_length), prefix, *texts):
    data = text.encode()
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)
  return digest.hexdigest()[:32]


# Functions of rows, computed for a chunk of rows at a time.


_is_chunked = True


@contextlib.contextmanager
def in_one_chunk() -> Iterator[None]:
  """Has `map_in_chunks` make no chunks: XLA counts the body of a loop once."""
  global _is_chunked
  _is_chunked = False
  try:
    yield
  finally:
    _is_chunked = True


def map_in_chunks(
  function: Callable[..., Any],
  chunks: int,
  *trees: Any,
  recompute: bool = True,
) -> Any:
  """Returns `function(*trees)`, computed for one chunk of rows at a time.

  The backward pass computes a chunk again instead of keeping its activations,
  so that memory is that of one chunk, besides rows in and out: with an
  encoder, the cached gradients of large contrastive batches.

  Args:
    function: maps rows to rows, and none depends on another.
    chunks: number of chunks, which divides the rows; 1 = none are made.
    *trees: of arrays whose first axis counts the rows.
    recompute: whether the backward pass computes a chunk again; where the
      function does so itself, once is enough.

  Source: Gao et al., "Scaling Deep Contrastive Learning Batch Size under
    Memory Limited Setup" (2021), section 3; here by rematerialisation.
  """
  if chunks == 1 or not _is_chunked:
    return function(*trees)

  # Strided: a chunk has rows of every device, so that no row moves where the
  # batch is sharded.
  def split_rows(x: jax.Array) -> jax.Array:
    rows = len(x) // chunks
    return x.reshape(rows, chunks, *x.shape[1:]).swapaxes(0, 1)

  def join_rows(x: jax.Array) -> jax.Array:
    rows = x.shape[0] * x.shape[1]
    return x.swapaxes(0, 1).reshape(rows, *x.shape[2:])

  def chunk_function(rows: Any) -> Any:
    return function(*rows)

  if recompute:
    chunk_function = jax.checkpoint(chunk_function)
  return jax.tree.map(
    join_rows, jax.lax.map(chunk_function, jax.tree.map(split_rows, trees))
  )
