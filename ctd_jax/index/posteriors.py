"""Posteriors of a work on disk: its probable months as mapped arrays.

A record keeps the months that hold `SHARE` of its probability, each with
`MIN_PROBABILITY` or more, and the chance of no month of the calendar. The rest
is spread evenly over all K months. Files of a folder:

  starts.npy         int64 [n + 1], where the months of each record begin
  months.npy         int32, ordinals, ascending for each record
  probabilities.npy  float32, of these
  outside.npy        float32 [n]
  event_log_p.npy    float32 [n], log p(answering kind | text), 0 without kinds

Axes: n records of a work, b some of them, K months.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Float32, Int, Int32, Int64, Shaped

from ctd_jax.index.manifest import DamagedIndexError
from ctd_jax.utils import files

SHARE = 0.999
MIN_PROBABILITY = 1e-4
CREDIBLE = 0.9
# A posterior as flat as this is as well spread evenly.
_MAX_MONTHS = 4096
_MAX_CHANCE = 1 + 1e-3  # of float32 that are added up
_ARRAYS = {
  "starts": np.int64,
  "months": np.int32,
  "probabilities": np.float32,
  "outside": np.float32,
  "event_log_p": np.float32,
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PosteriorArrays:
  """Posteriors of some records."""

  starts: Int64[np.ndarray, " starts"]  # where each record's months begin
  months: Int32[np.ndarray, " total"]  # ordinals, ascending for each record
  probabilities: Float32[np.ndarray, " total"]
  outside: Float32[np.ndarray, " n"]  # p(no month of the calendar)
  event_log_p: Float32[np.ndarray, " n"]  # log p(answering kind | text)
  num_months: int  # K, of the calendar

  def __len__(self) -> int:
    return len(self.outside)

  @functools.cached_property
  def held(self) -> Float[np.ndarray, " n"]:
    """Probability of the months that are kept."""
    sums = np.zeros(len(self.probabilities) + 1)
    np.cumsum(self.probabilities, dtype=np.float64, out=sums[1:])
    return sums[self.starts[1:]] - sums[self.starts[:-1]]

  @functools.cached_property
  def rest(self) -> Float32[np.ndarray, " n"]:
    """Probability spread evenly over the months."""
    rest = 1 - self.held - self.outside
    return np.maximum(rest, 0).astype(np.float32)

  def p_months(self, index: int) -> Float32[np.ndarray, " K"]:
    """Returns p(month) of a record; with `outside` it adds up to 1."""
    span = slice(self.starts[index], self.starts[index + 1])
    result = np.full(
      self.num_months, self.rest[index] / self.num_months, np.float32
    )
    result[self.months[span]] += self.probabilities[span]
    return result

  def credible_months(
    self, index: int, share: float = CREDIBLE
  ) -> Int64[np.ndarray, " m"]:
    """Returns the smallest set of months that holds a share, ascending.

    The ordinal after the last is outside the calendar.
    """
    span = slice(self.starts[index], self.starts[index + 1])
    even = self.rest[index] / self.num_months
    months = np.append(self.months[span], self.num_months).astype(np.int64)
    chances = np.append(
      (self.probabilities[span] + even).astype(np.float32), self.outside[index]
    )
    if chances.max() >= max(share, 0.5):  # as of most records
      return months[[chances.argmax()]]
    best = _find_smallest(chances, share)
    if best is None or chances[best].min() <= even:
      # Months that are not kept are needed too, each with what is left.
      months = np.arange(self.num_months + 1)
      chances = np.append(self.p_months(index), self.outside[index])
      best = _find_smallest(chances, share)
      best = np.arange(len(chances)) if best is None else best
    return np.sort(months[best])

  def save(self, folder: pathlib.Path) -> None:
    """Writes the arrays to a folder."""
    for name in _ARRAYS:
      np.save(folder / f"{name}.npy", getattr(self, name))

  @classmethod
  def open(cls, folder: pathlib.Path, num_months: int) -> PosteriorArrays:
    """Returns the arrays of a folder, mapped into memory."""
    paths = {name: folder / f"{name}.npy" for name in _ARRAYS}
    arrays = {
      name: _map_array(path, _ARRAYS[name]) for name, path in paths.items()
    }
    sizes = len(arrays["starts"]) - 1, len(arrays["months"])
    if (
      len(arrays["outside"]) != sizes[0]
      or len(arrays["event_log_p"]) != sizes[0]
      or len(arrays["probabilities"]) != sizes[1]
    ):
      raise DamagedIndexError(folder, "damaged, its arrays differ in length")
    _check(paths["starts"], _are_starts(arrays["starts"], sizes[1]))
    _check(paths["months"], _are_below(arrays["months"], num_months))
    for name in ("probabilities", "outside"):
      _check(paths[name], _are_below(arrays[name], _MAX_CHANCE))
    # Minus infinity is a kind that never answers.
    _check(paths["event_log_p"], bool((arrays["event_log_p"] < 1e-3).all()))
    opened = cls(**arrays, num_months=num_months)
    sums = opened.held + opened.outside
    _check(paths["probabilities"], _are_below(sums, _MAX_CHANCE))
    return opened

  @classmethod
  def concatenate(cls, parts: list[PosteriorArrays]) -> PosteriorArrays:
    """Returns the posteriors of several lists of records as one."""
    offsets = np.cumsum([0, *(len(part.months) for part in parts)])
    starts = [
      part.starts[:-1] + offset
      for part, offset in zip(parts, offsets, strict=False)
    ]
    return cls(
      starts=np.concatenate([*starts, offsets[-1:]]).astype(np.int64),
      **{
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in _ARRAYS
        if name != "starts"
      },
      num_months=parts[0].num_months,
    )

  def take(self, rows: Int[np.ndarray, " b"]) -> PosteriorArrays:
    """Returns the posteriors of some records, in this order."""
    sizes = np.diff(self.starts)[rows]
    starts = find_starts(sizes)
    entries = np.repeat(self.starts[rows] - starts[:-1], sizes) + np.arange(
      starts[-1]
    )
    return PosteriorArrays(
      starts=starts,
      months=self.months[entries],
      probabilities=self.probabilities[entries],
      outside=self.outside[rows],
      event_log_p=self.event_log_p[rows],
      num_months=self.num_months,
    )


def _map_array(path: pathlib.Path, dtype: type) -> np.ndarray:
  try:
    array = files.map_array(path)
  except FileNotFoundError:
    raise DamagedIndexError(path, "missing") from None
  except ValueError as error:
    raise DamagedIndexError(path, str(error)) from error
  if array.ndim != 1 or array.dtype != dtype:
    raise DamagedIndexError(
      path, f"damaged, {array.dtype} of shape {array.shape}"
    )
  return array


# Of arrays that may come from a stranger, one pass over each.


def _check(path: pathlib.Path, is_right: bool) -> None:
  if not is_right:
    raise DamagedIndexError(path, "damaged, it holds impossible values")


def _are_starts(starts: np.ndarray, total: int) -> bool:
  return bool(
    len(starts)
    and starts[0] == 0
    and starts[-1] == total
    and (np.diff(starts) >= 0).all()
  )


def _are_below(values: np.ndarray, stop: int | float) -> bool:
  """Whether all values are 0 or more and below a number; NaN is not."""
  return bool(((values >= 0) & (values < stop)).all())


def _find_smallest(
  chances: Float32[np.ndarray, " m"], share: float
) -> Int64[np.ndarray, " s"] | None:
  order = np.argsort(-chances, kind="stable")
  size = int((np.cumsum(chances[order]) < share).sum()) + 1
  return order[:size] if size <= len(order) else None


def make_posterior_arrays(
  blocks: Iterable[np.ndarray],
  num_months: int,
  event_log_p: Float[np.ndarray, " n"] | None = None,
) -> PosteriorArrays:
  """Returns compact posteriors from full ones.

  Args:
    blocks: p(months) and, last, p(outside) of consecutive records, [b, K + 1].
    event_log_p: log probability that each record is an event; 0 if None.
  """
  sizes, months, probabilities, outside = [], [], [], []
  for block in blocks:
    rows, columns, chances = _find_likely_months(block[:, :-1])
    sizes.append(np.bincount(rows, minlength=len(block)))
    months.append(columns.astype(np.int32))
    probabilities.append(chances.astype(np.float32))
    outside.append(block[:, -1].astype(np.float32))
  all_outside = _join(outside, np.float32)
  return PosteriorArrays(
    starts=find_starts(_join(sizes, np.int64)),
    months=_join(months, np.int32),
    probabilities=_join(probabilities, np.float32),
    outside=all_outside,
    event_log_p=np.zeros(len(all_outside), np.float32)
    if event_log_p is None
    else event_log_p.astype(np.float32),
    num_months=num_months,
  )


def find_starts(
  sizes: Shaped[np.ndarray, " n"],
) -> Int64[np.ndarray, " starts"]:
  """Returns the starts of stretches of these sizes, and the last one's end."""
  return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _join(parts: list[np.ndarray], dtype: type) -> np.ndarray:
  return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype)


def _find_likely_months(
  p_months: Float[np.ndarray, "b K"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  rows, columns = np.nonzero(p_months >= MIN_PROBABILITY)
  chances = p_months[rows, columns]
  order = np.lexsort((-chances, rows))
  rows, columns, chances = rows[order], columns[order], chances[order]
  first = np.searchsorted(rows, np.arange(len(p_months)))
  sums = np.cumsum(chances, dtype=np.float64)
  before = sums - chances  # of likelier months, and of the rows above
  before -= before[first[rows]]
  rank = np.arange(len(rows)) - first[rows]
  is_kept = (before < SHARE * p_months.sum(axis=1)[rows]) & (rank < _MAX_MONTHS)
  rows, columns, chances = rows[is_kept], columns[is_kept], chances[is_kept]
  order = np.lexsort((columns, rows))
  return rows[order], columns[order], chances[order]


def make_certain_posteriors(
  months: Int[np.ndarray, " n"], num_months: int
) -> PosteriorArrays:
  """Returns the posteriors of records of known months; K is outside."""
  is_inside = months < num_months
  return PosteriorArrays(
    starts=find_starts(is_inside),
    months=months[is_inside].astype(np.int32),
    probabilities=np.ones(int(is_inside.sum()), np.float32),
    outside=(~is_inside).astype(np.float32),
    event_log_p=np.zeros(len(months), np.float32),
    num_months=num_months,
  )


def summarize_posteriors(
  posteriors: PosteriorArrays,
) -> dict[str, np.ndarray]:
  """Returns the best month and the range of credible months of every record.

  best_month (K = outside), best_probability, first_credible and last_credible,
  each [n].
  """
  # Credible months come from those kept, which hold enough unless a posterior
  # is flat; a flat one gets all months.
  num_records, num_months = len(posteriors), posteriors.num_months
  sizes = np.diff(posteriors.starts)
  # Outside is one place more, of every record.
  rows = np.concatenate(
    [np.repeat(np.arange(num_records), sizes), np.arange(num_records)]
  )
  places = np.concatenate(
    [posteriors.months, np.full(num_records, num_months, np.int32)]
  )
  chances = np.concatenate([posteriors.probabilities, posteriors.outside])
  order = np.lexsort((places, -chances, rows))
  rows, places, chances = rows[order], places[order], chances[order]
  first = np.searchsorted(rows, np.arange(num_records))
  sums = np.cumsum(chances, dtype=np.float64)
  before = sums - chances
  before -= before[first[rows]]
  is_credible = (before < CREDIBLE - 1e-6) & (chances > 0)
  is_month = is_credible & (places < num_months)
  low = np.full(num_records, num_months)
  high = np.full(num_records, -1)
  np.minimum.at(low, rows[is_month], places[is_month])
  np.maximum.at(high, rows[is_month], places[is_month])
  high = np.where(high < 0, num_months, high)
  held = np.bincount(rows, chances, num_records)
  is_flat = held < CREDIBLE - 1e-6
  return {
    "best_month": places[first].astype(int),
    "best_probability": chances[first].astype(float),
    "first_credible": np.where(is_flat, 0, low),
    "last_credible": np.where(is_flat, num_months - 1, high),
  }


# Postings: the records of every month. A question asks for a few months, and
# the same numbers sorted by month answer in a time that depends on these months
# alone. Files beside the arrays that they are made from:
#
#   posting_starts.npy         int64 [K + 1], where each month's records begin
#   posting_records.npy        int32, records within the work, ascending
#   posting_probabilities.npy  float32, of these
#   rest.npy                   float32 [n], spread evenly over all months


_FILES = {
  "starts": ("posting_starts.npy", np.int64),
  "records": ("posting_records.npy", np.int32),
  "probabilities": ("posting_probabilities.npy", np.float32),
  "rest": ("rest.npy", np.float32),
}
POSTING_FILES = frozenset(file for file, _ in _FILES.values())


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MonthPostings:
  """The records of every month, to rank without reading whole posteriors."""

  starts: Int64[np.ndarray, " starts"]  # where each month's records begin
  records: Int32[np.ndarray, " total"]  # ascending for each month
  probabilities: Float32[np.ndarray, " total"]  # of the month
  # Of each record, spread evenly over all months.
  rest: Float32[np.ndarray, " n"]

  def __len__(self) -> int:
    return len(self.rest)

  @property
  def num_months(self) -> int:
    """Number of months K."""
    return len(self.starts) - 1

  def sum_mass(
    self,
    spans: Sequence[tuple[int, int]],
    month_weights: Float[np.ndarray, " K"] | None = None,
  ) -> Float[np.ndarray, " n"]:
    """Returns the probability of every record to be in some months.

    Args:
      spans: first and last month, included; disjoint.
      month_weights: factor of each month's mass; 1 if None.
    """
    mass = np.zeros(len(self))
    weight = 0.0
    for first, last in spans:
      if not 0 <= first <= last < self.num_months:
        raise ValueError(
          f"an interval is first..last within 0..{self.num_months - 1}, got "
          f"{first}..{last}"
        )
      entries = slice(int(self.starts[first]), int(self.starts[last + 1]))
      values = self.probabilities[entries]
      if month_weights is None:
        weight += last - first + 1
      else:
        weights = month_weights[first : last + 1]
        weight += weights.sum()
        sizes = np.diff(self.starts[first : last + 2])
        values = values * np.repeat(weights, sizes)
      if len(values):
        mass += np.bincount(self.records[entries], values, len(self))
    return mass + self.rest * (weight / self.num_months)

  def save(self, folder: pathlib.Path) -> None:
    """Writes the postings to the folder of a work."""
    for name, (file_name, _) in _FILES.items():
      np.save(folder / file_name, getattr(self, name))

  @classmethod
  def open(
    cls, folder: pathlib.Path, num_records: int, num_months: int
  ) -> MonthPostings:
    """Returns the postings of a work, mapped into memory."""
    paths = {
      name: folder / file_name for name, (file_name, _) in _FILES.items()
    }
    arrays = {
      name: _map_array(path, _FILES[name][1]) for name, path in paths.items()
    }
    total = len(arrays["records"])
    if (
      len(arrays["starts"]) != num_months + 1
      or len(arrays["probabilities"]) != total
      or len(arrays["rest"]) != num_records
    ):
      raise DamagedIndexError(folder, "damaged, its postings differ in length")
    _check(paths["starts"], _are_starts(arrays["starts"], total))
    _check(paths["records"], _are_below(arrays["records"], num_records))
    for name in ("probabilities", "rest"):
      _check(paths[name], _are_below(arrays[name], _MAX_CHANCE))
    return cls(**arrays)


def make_month_postings(posteriors: PosteriorArrays) -> MonthPostings:
  """Returns the postings of a work's posteriors."""
  records = np.repeat(
    np.arange(len(posteriors), dtype=np.int32), np.diff(posteriors.starts)
  )
  # Stable: the records of a month stay in order.
  order = np.argsort(posteriors.months, kind="stable")
  sizes = np.bincount(posteriors.months, minlength=posteriors.num_months)
  return MonthPostings(
    starts=find_starts(sizes),
    records=records[order],
    probabilities=np.asarray(posteriors.probabilities)[order],
    rest=np.asarray(posteriors.rest),
  )
