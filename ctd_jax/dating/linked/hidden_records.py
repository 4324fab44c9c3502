"""Hidden records as the linked dater reads them.

Axes: N records, n hidden events, m hidden comments, o events that open a month,
k links into a record, P pairs, Y years.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Int

from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.expert_panel import ExpertPanel
from ctd_jax.dating.experts import citations, month_capacity
from ctd_jax.dating.experts.citation_pairs import HOST_REIGN, CitationPairs
from ctd_jax.dating.experts.parallel_pairs import ParallelPairs
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.dating.linked import link_tables
from ctd_jax.dating.linked.link_tables import LinkTables
from ctd_jax.dating.month_axis import MonthAxis
from ctd_jax.models.linked_inputs import (
  Calendar,
  CitedYears,
  DatingInputs,
  Links,
)

_MAX_RISE = 3.0  # of a month that must be filled, in one round of balancing


@dataclasses.dataclass(frozen=True, kw_only=True)
class HiddenRecords:
  """Records whose months are hidden, and what is read in them.

  Attributes:
    panel: experts of printed dates, years and words, fitted on the others.
    event_rows: rows of the hidden events, from `find_hidden_rows`.
    comment_rows: rows of the hidden comments, likewise.
    cited_pairs: citation of each link, UNKNOWN for padding.
    inputs: of the model; padded, so that all folds have one shape.
  """

  panel: ExpertPanel
  event_rows: Int[np.ndarray, " events"]
  comment_rows: Int[np.ndarray, " comments"]
  cited_pairs: Int[np.ndarray, "n k"]
  inputs: DatingInputs


@dataclasses.dataclass(frozen=True)
class Sizes:
  """Sizes that records are padded to.

  Attributes:
    events: n.
    comments: m.
    openers: o.
  """

  events: int
  comments: int
  openers: int

  @classmethod
  def largest(cls, sizes: list[Sizes]) -> Sizes:
    """Returns the sizes that hold each of `sizes`, at least 1."""
    return cls(
      *(
        max(1, *(getattr(size, field.name) for size in sizes))
        for field in dataclasses.fields(cls)
      )
    )


def find_hidden_rows(
  features: CorpusFeatures, labels: Labels
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
  """Returns the rows of hidden events and comments, by hashes of their texts.

  Not in the order of the records, which is to play no part: dropout depends on
  the index of a record.

  Args:
    features: the texts.
    labels: the known records; placeholders are known by their texts.
  """
  is_hidden = ~labels.is_known & ~features.corpus.is_placeholder
  order = np.argsort(features.corpus.text_hashes, kind="stable")
  order = order[is_hidden[order]]
  is_event = features.is_event[order]
  return order[is_event], order[~is_event]


def count_hidden(features: CorpusFeatures, labels: Labels) -> Sizes:
  """Returns how many records are hidden."""
  events, comments = find_hidden_rows(features, labels)
  return Sizes(
    len(events), len(comments), int(features.opens_month[events].sum())
  )


def read_hidden_records(
  panel: ExpertPanel, tables: LinkTables, sizes: Sizes
) -> HiddenRecords:
  """Returns the records that the labels of a panel hide.

  Args:
    panel: experts fitted on the known records, words weighted.
    tables: links of all records.
    sizes: at least as many as are hidden.
  """
  features, axis = panel.features, panel.features.axis
  events, comments = find_hidden_rows(features, panel.labels)
  event_index, comment_index = (
    panel.index_rows(events),
    panel.index_rows(comments),
  )
  dates = panel.experts["dates"]
  pairs = _select_citations(
    features, panel.labels, tables, events, comment_index
  )
  log_capacity, max_rise = _read_capacity(panel)
  openers = np.flatnonzero(features.opens_month[events])
  readers = {"words": panel.score_words(events)}
  if "neural" in panel.experts:
    readers["neural"] = panel.experts["neural"].log_scores(events)[0]
  num_events, num_comments = sizes.events, sizes.comments
  inputs = DatingInputs(
    calendar=make_calendar(axis),
    year_prior=panel.year_prior.astype(np.float32),
    event_scores={
      name: _pad(scores, num_events) for name, scores in readers.items()
    },
    comment_scores={"words": _pad(panel.score_words(comments), num_comments)},
    # Three digits are enough, and half of the memory.
    event_dates=_pad(dates.log_scores(events).astype(np.float16), num_events),
    month_chances=_pad(
      dates.month_of_year_chances(events).astype(np.float32),
      num_events,
      1 / 12,
    ),
    cited_years=_make_cited_years(
      features,
      panel.labels,
      tables,
      _pad(pairs, num_events, UNKNOWN),
      comment_index,
    ),
    parallels=_make_links(
      features.parallel_pairs,
      "event_row",
      tables,
      "parallels",
      "parallels",
      events,
      event_index,
      num_events,
    ),
    comments=_make_links(
      features.comment_pairs,
      "record_row",
      tables,
      "comments",
      "comments",
      events,
      comment_index,
      num_events,
    ),
    commented=_make_links(
      features.comment_pairs,
      "event_row",
      tables,
      "commented",
      "comments",
      comments,
      event_index,
      num_comments,
    ),
    openers=_pad(openers.astype(np.int32), sizes.openers),
    is_opener=_pad(np.ones(len(openers), np.float32), sizes.openers),
    log_capacity=log_capacity,
    max_rise=max_rise,
  )
  return HiddenRecords(
    panel=panel,
    event_rows=events,
    comment_rows=comments,
    cited_pairs=pairs,
    inputs=inputs,
  )


def make_calendar(axis: MonthAxis) -> Calendar:
  """Returns the years and months of an axis as arrays."""
  reigns, numbers, years = axis.regnal_years[::-1].T
  # One more column than year numbers, for those beyond the last.
  table = np.full((axis.num_reigns, numbers.max(initial=0) + 2), UNKNOWN)
  table[reigns, numbers] = years
  return Calendar(
    year_of=axis.year_of.astype(np.int32),
    month_of_year=(axis.month_of_year - 1).astype(np.int32),
    has_reign=axis.has_reign.astype(np.float32),
    year_table=table.astype(np.int32),
  )


def _select_citations(
  features: CorpusFeatures,
  labels: Labels,
  tables: LinkTables,
  events: np.ndarray,
  comment_index: np.ndarray,
) -> Int[np.ndarray, "n k"]:
  """Returns the citations of each event whose year is known or may be."""
  pairs = features.citation_pairs
  years = citations.resolve_years(features.axis, pairs, labels)
  hosts = _pair_hosts(pairs)
  is_hidden_host = (hosts != UNKNOWN) & (comment_index[hosts] != UNKNOWN)
  is_usable = (years != UNKNOWN) | (
    (pairs.reading == HOST_REIGN) & is_hidden_host
  )
  table = tables.cited[events]
  counts = (table != UNKNOWN) & _look_up(is_usable, table)
  counts &= ~_find_copies(
    _look_up(years, table, UNKNOWN),
    _look_up(tables.contexts, table),
    counts,
  )
  return link_tables.select_links(
    table, counts, link_tables.MAX_COUNTED_CITATIONS
  )


def _find_copies(
  years: np.ndarray, contexts: np.ndarray, counts: np.ndarray
) -> Bool[np.ndarray, "n k"]:
  """Returns which citations repeat an earlier one of the same event.

  Citations of one year with the same words after them are copies.
  """
  num_rows, width = years.shape
  row = np.repeat(np.arange(num_rows), width)
  keys = np.stack([row, years.ravel(), contexts.ravel()])
  keys = np.concatenate([keys, [np.arange(row.size)]])[:, counts.ravel()]
  order = np.lexsort(keys[::-1])
  keys = keys[:, order]
  is_copy = (keys[:3, 1:] == keys[:3, :-1]).all(axis=0)
  result = np.zeros(row.size, bool)
  result[keys[3, 1:][is_copy]] = True
  return result.reshape(years.shape)


def _pair_hosts(pairs: CitationPairs) -> np.ndarray:
  """Returns the record that cites, of each pair, UNKNOWN for outside texts."""
  hosts = np.array([citation.host for citation in pairs.citations], int)
  return hosts[pairs.citation_index]


def _make_cited_years(
  features: CorpusFeatures,
  labels: Labels,
  tables: LinkTables,
  table: Int[np.ndarray, "n k"],
  comment_index: np.ndarray,
) -> CitedYears:
  pairs = features.citation_pairs
  is_link = table != UNKNOWN
  years = citations.resolve_years(features.axis, pairs, labels)
  numbers = np.array(
    [citation.year_number for citation in pairs.citations], int
  )
  hosts = _pair_hosts(pairs)
  host_index = np.where(hosts == UNKNOWN, UNKNOWN, comment_index[hosts])
  return CitedYears(
    features=_look_up(tables.ranks["cited"], table),
    is_link=is_link,
    year=_look_up(years, table, UNKNOWN).astype(np.int32),
    year_number=_look_up(numbers[pairs.citation_index], table).astype(np.int32),
    host=_look_up(host_index, table, UNKNOWN).astype(np.int32),
  )


def _make_links(
  pairs: ParallelPairs,
  source_field: str,
  tables: LinkTables,
  table_name: str,
  ranks_name: str,
  rows: np.ndarray,
  source_index: np.ndarray,
  size: int,
) -> Links:
  """Returns the links into some records, from those that are hidden too."""
  table = getattr(tables, table_name)[rows]
  sources = source_index[getattr(pairs, source_field)]
  counts = _look_up(sources != UNKNOWN, table)
  selected = _pad(
    link_tables.select_links(table, counts, link_tables.MAX_COUNTED_LINKS),
    size,
    UNKNOWN,
  )
  return Links(
    source=_look_up(sources, selected).astype(np.int32),
    features=_look_up(tables.ranks[ranks_name], selected),
    is_link=selected != UNKNOWN,
  )


def _look_up(
  values: np.ndarray, table: np.ndarray, missing: int = 0
) -> np.ndarray:
  """Returns the values of the pairs of a table, `missing` for UNKNOWN."""
  blank = np.full((1, *values.shape[1:]), missing, values.dtype)
  return np.concatenate([values, blank])[table]


def _read_capacity(panel: ExpertPanel) -> tuple[np.ndarray, np.ndarray]:
  """Returns the log capacity of months, and how far each may be raised."""
  features, labels = panel.features, panel.labels
  num_months = len(features.axis)
  is_known_event = labels.is_known & features.is_event
  capacity, must_fill = month_capacity.compute_month_capacity(
    np.bincount(
      labels.month[labels.is_known & features.opens_month],
      minlength=num_months,
    ),
    np.bincount(labels.month[is_known_event], minlength=num_months),
    features.corpus.has_placeholder,
  )
  return (
    np.log(capacity).astype(np.float32),
    np.where(must_fill, _MAX_RISE, 0).astype(np.float32),
  )


def _pad(array: np.ndarray, size: int, value: float = 0) -> np.ndarray:
  """Returns the array with rows of a value added, `size` in all."""
  missing = np.full((size - len(array), *array.shape[1:]), value, array.dtype)
  return np.concatenate([array, missing])
