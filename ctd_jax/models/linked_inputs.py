"""Inputs of the linked dater: hidden records, their links, and the calendar.

Axes: n events, m comments, o events that open a month, k links into a record,
f features of a link, Y regnal years, K months, R reigns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.struct
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from ctd_jax.models.arrays import AnyArray

# Features of a link are ranks 0 ... NUM_KNOTS - 1 among those of all links.
NUM_KNOTS = 11


class Links(flax.struct.PyTreeNode):
  """Links into each of n records, the strongest k.

  Attributes:
    source: index of the record that speaks.
    features: ranks of what both share.
    is_link: False where there are fewer than k.
  """

  source: Int[AnyArray, "n k"]
  features: Float[AnyArray, "n k f"]
  is_link: Bool[AnyArray, "n k"]


class CitedYears(flax.struct.PyTreeNode):
  """Years cited beside the words of each event.

  Attributes:
    features: ranks of what citation and event share.
    is_link: False where there are fewer than k.
    year: index of the cited year; -1 where the text names no ruler and the
      record that cites is itself hidden.
    year_number: of the regnal year, for those.
    host: index of that record among the comments, for those.
  """

  features: Float[AnyArray, "n k f"]
  is_link: Bool[AnyArray, "n k"]
  year: Int[AnyArray, "n k"]
  year_number: Int[AnyArray, "n k"]
  host: Int[AnyArray, "n k"]


class Calendar(flax.struct.PyTreeNode):
  """The years and months that records are dated in.

  Attributes:
    year_of: year of each month.
    month_of_year: of each month, 0-11.
    has_reign: whether a year is of a reign.
    year_table: year by reign and year number, -1 if there is none.
    year_prior: chance of each year.
  """

  year_of: Int[AnyArray, " K"]
  month_of_year: Int[AnyArray, " K"]
  has_reign: Float[AnyArray, "Y R"]
  year_table: Int[AnyArray, "R numbers"]
  year_prior: Float[AnyArray, " Y"]


class EventInputs(flax.struct.PyTreeNode):
  """Hidden events: what their own texts say, and the links into them.

  Attributes:
    scores: log scores of years by the own text, by what reads it.
    date_years: log likelihood ratios of years by the printed date.
    month_chances: chance of each month of the year by it.
    cited_years: citations beside events.
    parallels: links from events.
    comments: links from comments.
  """

  scores: Mapping[str, Float[AnyArray, "n Y"]]
  date_years: Float[AnyArray, "n Y"]
  month_chances: Float[AnyArray, "n 12"]
  cited_years: CitedYears
  parallels: Links
  comments: Links


class CommentInputs(flax.struct.PyTreeNode):
  """Hidden comments: what their own texts say, and the links into them.

  Attributes:
    scores: log scores of years by the own text, by what reads it.
    commented: links from events.
  """

  scores: Mapping[str, Float[AnyArray, "m Y"]]
  commented: Links


class DatingInputs(flax.struct.PyTreeNode):
  """Hidden records and the calendar that they are dated in.

  Attributes:
    calendar: the years and months.
    events: the hidden events.
    comments: the hidden comments.
  """

  calendar: Calendar
  events: EventInputs
  comments: CommentInputs


class Openers(flax.struct.PyTreeNode):
  """Hidden events that open a month, which share what room the months have.

  Attributes:
    rows: indices of the events.
    is_opener: 1, or 0 for padding.
    dates: log likelihood ratios of months by the printed date.
    log_capacity: log of the number of hidden records that may open a month.
    max_rise: greatest step by which the capacity may raise a month.
  """

  rows: Int[AnyArray, " o"]
  is_opener: Float[AnyArray, " o"]
  dates: Float[AnyArray, "o K"]
  log_capacity: Float[AnyArray, " K"]
  max_rise: Float[AnyArray, " K"]


def pad_rows(tree: Any, size: int) -> Any:
  """Returns a tree of NumPy arrays with rows of zeros added to every leaf.

  Such rows are links that are none, or records that nothing is linked to.

  Args:
    tree: leaves of one number of rows, at most `size`.
    size: number of rows.
  """

  def pad(rows: np.ndarray) -> np.ndarray:
    missing = (size - len(rows), *rows.shape[1:])
    return np.concatenate([rows, np.zeros(missing, rows.dtype)])

  return jax.tree.map(pad, tree)
