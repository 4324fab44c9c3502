"""Postings of months: which records may be of a month, and how probably.

`posterior_arrays` lists the months of a record; a question asks for the records
of a month. The same numbers, sorted by month, answer in a time that depends on
the months asked for and not on all that are kept. Files in the folder of a
work, beside the arrays that they are made from:

  posting_starts.npy         int64 [K + 1], where the records of a month begin
  posting_records.npy        int32, records within the work, ascending
  posting_probabilities.npy  float32, of these
  rest.npy                   float32 [n], what is spread evenly over the months

Axes: n records of a work, K months, m spans.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32, Int32, Int64

from ctd_jax.index.storage.posterior_arrays import PosteriorArrays
from ctd_jax.utils import files

_FILES = {
  "starts": "posting_starts.npy",
  "records": "posting_records.npy",
  "probabilities": "posting_probabilities.npy",
  "rest": "rest.npy",
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MonthPostings:
  """The records of every month.

  Attributes:
    starts: where the records of each month begin; the last is their number.
    records: ascending for each month.
    probabilities: that these are of the month.
    rest: of each record, spread evenly over all months.
  """

  starts: Int64[np.ndarray, " starts"]
  records: Int32[np.ndarray, " total"]
  probabilities: Float32[np.ndarray, " total"]
  rest: Float32[np.ndarray, " n"]

  def __len__(self) -> int:
    """Number of records."""
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
    """Returns the probability of every record to be of some months.

    Args:
      spans: first and last month of each, included; disjoint.
      month_weights: what the mass of a month counts for; 1 if None.

    Raises:
      ValueError: if a span does not lie within the calendar.
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
    for name, file_name in _FILES.items():
      with files.atomic_path(folder / file_name) as path:
        np.save(path, getattr(self, name))

  @classmethod
  def open(cls, folder: pathlib.Path) -> MonthPostings | None:
    """Returns the postings of a work, mapped into memory; None without any.

    Args:
      folder: of the work.

    Raises:
      ValueError: naming the file that is damaged.
    """
    arrays = {}
    for name, file_name in _FILES.items():
      path = folder / file_name
      if not path.is_file():
        return None
      try:
        # An empty array cannot be mapped.
        arrays[name] = np.asarray(np.load(path, mmap_mode="r"))
      except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error
    if arrays["starts"][-1] != len(arrays["records"]) or len(
      arrays["records"]
    ) != len(arrays["probabilities"]):
      raise ValueError(
        f"{folder}: damaged, its postings are of several lengths"
      )
    return cls(**arrays)


def make_month_postings(posteriors: PosteriorArrays) -> MonthPostings:
  """Returns the postings of the posteriors of a work.

  Args:
    posteriors: of its records.
  """
  records = np.repeat(
    np.arange(len(posteriors), dtype=np.int32), np.diff(posteriors.starts)
  )
  # Stable: the records of a month stay in order.
  order = np.argsort(posteriors.months, kind="stable")
  sizes = np.bincount(posteriors.months, minlength=posteriors.num_months)
  return MonthPostings(
    starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    records=records[order],
    probabilities=np.asarray(posteriors.probabilities)[order],
    rest=np.asarray(posteriors.rest),
  )
