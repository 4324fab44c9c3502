"""Hidden records as the linked dater reads them.

Axes: N records, n hidden events, m hidden comments, k links into a record, w
links kept of it, P pairs, K months, Y years.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Float16, Int

from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.expert_panel import ExpertPanel
from ctd_jax.dating.experts import citations, month_capacity
from ctd_jax.dating.experts.citation_pairs import HOST_REIGN, CitationPairs
from ctd_jax.dating.features import CorpusFeatures
from ctd_jax.dating.linked import link_tables
from ctd_jax.dating.linked.link_tables import LinkTables
from ctd_jax.dating.month_axis import MonthAxis
from ctd_jax.models.linked_inputs import (
  Calendar,
  CitedYears,
  CommentInputs,
  DatingInputs,
  EventInputs,
  Links,
  Openers,
  pad_rows,
)

_LOG_IMPOSSIBLE_YEAR = -50.0  # of a known record
_MAX_RISE = 3.0  # of a month that must be filled, in one round of balancing


@dataclasses.dataclass(frozen=True, kw_only=True)
class HiddenRecords:
  """Records whose months are hidden, and what is read in them.

  Attributes:
    panel: experts of printed dates, years and words, fitted on the others.
    event_rows: rows of the hidden events, from `find_hidden_rows`; then those
      of known events, where they speak.
    num_hidden: number of the hidden events n.
    comment_rows: rows of the hidden comments, likewise.
    citation_pairs: citations beside the events.
    cited_pairs: of these, of each link; UNKNOWN for padding.
    inputs: of the model.
  """

  panel: ExpertPanel
  event_rows: Int[np.ndarray, " events"]
  num_hidden: int
  comment_rows: Int[np.ndarray, " comments"]
  citation_pairs: CitationPairs
  cited_pairs: Int[np.ndarray, "n k"]
  inputs: DatingInputs


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


def read_hidden_records(
  panel: ExpertPanel, tables: LinkTables, known_speak: bool = False
) -> HiddenRecords:
  """Returns the records that the labels of a panel hide.

  Args:
    panel: experts fitted on the known records, words weighted.
    tables: links of all records.
    known_speak: whether known events send messages, too: of use where a record
      may be of a month of theirs.
  """
  features, labels = panel.features, panel.labels
  events, comments = find_hidden_rows(features, labels)
  num_hidden, event_rows = len(events), events
  if known_speak:
    is_known_event = labels.is_known & features.is_event
    event_rows = np.concatenate([events, np.flatnonzero(is_known_event)])
  event_index, comment_index = (
    panel.index_rows(event_rows),
    panel.index_rows(comments),
  )
  cited_pairs, cited_years = read_cited_years(
    features.axis,
    labels,
    features.citation_pairs,
    tables,
    events,
    comment_index,
  )
  readers = {"words": panel.score_words(events)}
  if "neural" in panel.experts:
    readers["neural"] = panel.experts["neural"].log_scores(events)[0]
  parallels, comment_pairs = features.parallel_pairs, features.comment_pairs
  inputs = DatingInputs(
    calendar=make_calendar(features.axis, panel.year_prior),
    events=EventInputs(
      scores=readers,
      date_years=panel.score_dates(events),
      month_chances=panel.experts["dates"]
      .month_of_year_chances(events)
      .astype(np.float32),
      cited_years=cited_years,
      parallels=make_links(
        tables,
        "parallels",
        tables.parallels[events],
        event_index[parallels.event_row],
      ),
      comments=make_links(
        tables,
        "comments",
        tables.comments[events],
        comment_index[comment_pairs.record_row],
      ),
    ),
    comments=CommentInputs(
      scores={"words": panel.score_words(comments)},
      commented=make_links(
        tables,
        "comments",
        tables.commented[comments],
        event_index[comment_pairs.event_row],
      ),
    ),
  )
  if known_speak:
    known_months = labels.month[event_rows[num_hidden:]]
    inputs = inputs.replace(
      events=_add_known_events(inputs.events, features.axis, known_months)
    )
  return HiddenRecords(
    panel=panel,
    event_rows=event_rows,
    num_hidden=num_hidden,
    comment_rows=comments,
    citation_pairs=features.citation_pairs,
    cited_pairs=cited_pairs,
    inputs=inputs,
  )


def _add_known_events(
  events: EventInputs, axis: MonthAxis, months: Int[np.ndarray, " known"]
) -> EventInputs:
  """Returns the events with known ones after them, of which the month is sure.

  Args:
    events: that are hidden.
    axis: the months.
    months: of the known events.
  """
  num_hidden = len(events.date_years)
  events = pad_rows(events, num_hidden + len(months))
  rows = np.arange(num_hidden, len(events.date_years))
  events.date_years[rows] = _LOG_IMPOSSIBLE_YEAR
  events.date_years[rows, axis.year_of[months]] = 0
  events.month_chances[rows, axis.month_of_year[months] - 1] = 1
  return events


def read_openers(records: HiddenRecords) -> Openers:
  """Returns the hidden events that open a month, and the room of the months.

  Args:
    records: from `read_hidden_records`.
  """
  panel = records.panel
  features, labels = panel.features, panel.labels
  rows = records.event_rows[: records.num_hidden]
  rows = np.flatnonzero(features.opens_month[rows])
  capacity = month_capacity.MonthCapacity().fit(features, labels, {})
  return Openers(
    rows=rows.astype(np.int32),
    is_opener=np.ones(len(rows), np.float32),
    dates=read_date_scores(records, rows),
    log_capacity=np.log(capacity.capacity).astype(np.float32),
    max_rise=np.where(capacity.must_fill, _MAX_RISE, 0).astype(np.float32),
  )


def read_date_scores(
  records: HiddenRecords, rows: Int[np.ndarray, " n"]
) -> Float16[np.ndarray, "n K"]:
  """Returns log likelihood ratios of months by the printed dates of events.

  Args:
    records: from `read_hidden_records`.
    rows: indices of the events.
  """
  dates = records.panel.experts["dates"]
  # Three digits are enough, and half of the memory.
  return dates.log_scores(records.event_rows[rows]).astype(np.float16)


def make_calendar(
  axis: MonthAxis, year_prior: Float[np.ndarray, " Y"]
) -> Calendar:
  """Returns the years and months of an axis as arrays.

  Args:
    axis: the months.
    year_prior: chance of each year.
  """
  reigns, numbers, years = axis.regnal_years[::-1].T
  # One more column than year numbers, for those beyond the last.
  table = np.full((axis.num_reigns, numbers.max(initial=0) + 2), UNKNOWN)
  table[reigns, numbers] = years
  return Calendar(
    year_of=axis.year_of.astype(np.int32),
    month_of_year=(axis.month_of_year - 1).astype(np.int32),
    has_reign=axis.has_reign.astype(np.float32),
    year_table=table.astype(np.int32),
    year_prior=year_prior.astype(np.float32),
  )


def read_cited_years(
  axis: MonthAxis,
  labels: Labels,
  pairs: CitationPairs,
  tables: LinkTables,
  events: Int[np.ndarray, " n"],
  comment_index: Int[np.ndarray, " N"],
) -> tuple[Int[np.ndarray, "n k"], CitedYears]:
  """Returns the citations beside each event that count, and what they say.

  Args:
    axis: the years.
    labels: the known records.
    pairs: of citations and events.
    tables: links of all events of the pairs.
    events: rows of some of them.
    comment_index: index of every record among the hidden comments, or UNKNOWN.
  """
  years = citations.resolve_years(axis, pairs, labels)
  table = _select_citations(pairs, years, tables, events, comment_index)
  return table, _make_cited_years(pairs, years, tables, table, comment_index)


def _select_citations(
  pairs: CitationPairs,
  years: np.ndarray,
  tables: LinkTables,
  events: np.ndarray,
  comment_index: np.ndarray,
) -> Int[np.ndarray, "n k"]:
  """Returns the citations of each event whose year is known or may be."""
  hosts = _pair_hosts(pairs)
  is_hidden_host = (hosts != UNKNOWN) & (comment_index[hosts] != UNKNOWN)
  is_usable = (years != UNKNOWN) | (
    (pairs.reading == HOST_REIGN) & is_hidden_host
  )
  table = tables.cited[events]
  counts = _look_up(is_usable, table)
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
  pairs: CitationPairs,
  years: np.ndarray,
  tables: LinkTables,
  table: Int[np.ndarray, "n k"],
  comment_index: np.ndarray,
) -> CitedYears:
  is_link = table != UNKNOWN
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


def make_links(
  tables: LinkTables,
  kind: str,
  table: Int[np.ndarray, "n w"],
  sources: Int[np.ndarray, " P"],
) -> Links:
  """Returns the links into some records, from those that are hidden too.

  Args:
    tables: links of all records.
    kind: of the pairs, in `tables.ranks`.
    table: pairs of the records, the strongest first.
    sources: index of the record that speaks in each pair, UNKNOWN if its month
      is known.
  """
  counts = _look_up(sources != UNKNOWN, table)
  selected = link_tables.select_links(
    table, counts, link_tables.MAX_COUNTED_LINKS
  )
  return Links(
    source=_look_up(sources, selected).astype(np.int32),
    features=_look_up(tables.ranks[kind], selected),
    is_link=selected != UNKNOWN,
  )


def _look_up(
  values: np.ndarray, table: np.ndarray, missing: int = 0
) -> np.ndarray:
  """Returns the values of the pairs of a table, `missing` for UNKNOWN."""
  blank = np.full((1, *values.shape[1:]), missing, values.dtype)
  return np.concatenate([values, blank])[table]
