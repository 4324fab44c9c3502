"""Inputs of the linked dater: hidden records, their links, and the calendar.

Axes: n events, m comments, o events that open a month, k links into a record,
f features of a link, Y regnal years, K months, R reigns.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.struct
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
  """

  year_of: Int[AnyArray, " K"]
  month_of_year: Int[AnyArray, " K"]
  has_reign: Float[AnyArray, "Y R"]
  year_table: Int[AnyArray, "R numbers"]


class DatingInputs(flax.struct.PyTreeNode):
  """Hidden records, what their own texts say, and their links.

  Attributes:
    calendar: the years and months.
    year_prior: chance of each year.
    event_scores: log scores of years by the own text of events, by what reads
      them.
    comment_scores: likewise of comments.
    event_dates: log likelihood ratios of months by the printed date of events.
    month_chances: chance of each month of the year by it.
    cited_years: citations beside events.
    parallels: events linked to events.
    comments: comments linked to events.
    commented: events linked to comments.
    openers: indices of the events that open a month.
    is_opener: 1, or 0 for padding.
    log_capacity: log of the number of hidden records that may open a month.
    max_rise: greatest step by which the capacity may raise a month.
  """

  calendar: Calendar
  year_prior: Float[AnyArray, " Y"]
  event_scores: Mapping[str, Float[AnyArray, "n Y"]]
  comment_scores: Mapping[str, Float[AnyArray, "m Y"]]
  event_dates: Float[AnyArray, "n K"]
  month_chances: Float[AnyArray, "n 12"]
  cited_years: CitedYears
  parallels: Links
  comments: Links
  commented: Links
  openers: Int[AnyArray, " o"]
  is_opener: Float[AnyArray, " o"]
  log_capacity: Float[AnyArray, " K"]
  max_rise: Float[AnyArray, " K"]
