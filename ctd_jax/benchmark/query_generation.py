"""Query generation: quotas and the draw from everything that templates ask.

Windows over months of different splits are dropped, as are queries that no
record answers.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

from ctd_jax.benchmark.queries import (
  CHUNQIU_TITLE,
  GAP,
  POINT,
  SPLITS,
  WINDOW,
  Query,
  find_interval_split,
  find_positives,
  index_positives_by_month,
)
from ctd_jax.benchmark.query_templates import TEMPLATES
from ctd_jax.benchmark.records import Record, collect_months
from ctd_jax.chronology.timelines import TimeKey, Timeline


@dataclasses.dataclass(frozen=True)
class Quota:
  """Numbers of queries to draw for a split.

  Attributes:
    event_points: point queries on months with an event.
    empty_points: point queries on months without one.
    windows: window queries.
  """

  event_points: int
  empty_points: int
  windows: int


# Published family sizes, recovered from Tables 14-15. For train only the sum
# 13,053 is known: three points a month over its 1,215 months with an event and
# 1,209 without, as in the other splits; the others are windows.
OFFICIAL_QUOTAS: Mapping[str, Quota] = {
  "train": Quota(event_points=3645, empty_points=3627, windows=5781),
  "validation": Quota(event_points=427, empty_points=448, windows=645),
  "test": Quota(event_points=507, empty_points=454, windows=692),
}
# Ratios of the published sizes, for other chronicles.
POINTS_PER_MONTH = 3.0
WINDOWS_PER_MONTH = 2.2
# YEAR_* ask once a year where MONTH_* ask twelve times; a uniform draw could
# leave them out of a small split.
MIN_PER_GROUP = 5


def make_quotas_per_month(
  split_by_month: Mapping[TimeKey, str],
  event_months: Iterable[TimeKey],
) -> dict[str, Quota]:
  """Returns quotas in proportion to the months of each split.

  Args:
    split_by_month: split of every month.
    event_months: months that have an event record.

  Returns:
    split -> Quota, for every split in `split_by_month`.
  """
  months_with_event = set(event_months)
  counts = collections.Counter(
    (split, key in months_with_event) for key, split in split_by_month.items()
  )
  return {
    split: Quota(
      event_points=round(POINTS_PER_MONTH * counts[split, True]),
      empty_points=round(POINTS_PER_MONTH * counts[split, False]),
      windows=round(
        WINDOWS_PER_MONTH * (counts[split, True] + counts[split, False])
      ),
    )
    for split in sorted(set(split_by_month.values()))
  }


def generate_candidates(
  timeline: Timeline, title: str = CHUNQIU_TITLE
) -> Iterator[Query]:
  """Yields every query that the templates can ask, without id and positives.

  Args:
    timeline: the calendar; every month is an anchor.
    title: the chronicle's title as the questions quote it.
  """
  for anchor in timeline.months:
    is_first_month = anchor.month == 1 and not anchor.leap
    for template in TEMPLATES:
      # The text of YEAR_* names no month: one anchor per year is enough.
      if template.group.startswith("YEAR") and not is_first_month:
        continue
      interval = template.resolve_interval(timeline, anchor)
      if interval is not None:
        text = template.format_question(timeline, anchor, interval, title)
        yield Query("", text, template.family, template.group, interval)


def generate_queries(
  timeline: Timeline,
  split_by_month: Mapping[TimeKey, str],
  records: Iterable[Record],
  seed: int = 0,
  quotas: Mapping[str, Quota] | None = None,
  title: str = CHUNQIU_TITLE,
) -> dict[str, list[Query]]:
  """Returns the queries of every split, drawn from all the templates can ask.

  Points are dealt in turn to the months of a stratum (with or without event),
  each month getting different templates. Windows are drawn uniformly from the
  distinct texts whose months share a split, after `MIN_PER_GROUP` of each
  group. The draw orders texts by a hash of (seed, text), so it depends neither
  on the order of the records nor on Python's random generator.

  Args:
    timeline: the calendar.
    split_by_month: split of every month.
    records: the gallery; only id, kind and key are read, never the text.
    seed: of the draw.
    quotas: split -> how many to draw, e.g. `OFFICIAL_QUOTAS`; where a stratum
      has fewer candidates all of them are taken. By default
      `make_quotas_per_month`.
    title: the chronicle's title as the questions quote it.

  Returns:
    split -> queries sorted by id.

  Raises:
    ValueError: if `quotas` names a split that no month has.
  """
  records = list(records)
  positives_by_month = index_positives_by_month(records)
  months_with_event = collect_months(records)
  if quotas is None:
    quotas = make_quotas_per_month(split_by_month, months_with_event)
  unknown_splits = sorted(set(quotas) - set(split_by_month.values()))
  if unknown_splits:
    raise ValueError(
      f"quotas for splits that no month has: {unknown_splits}; months have "
      f"{sorted(set(split_by_month.values()))}"
    )
  strata = _stratify_candidates(
    generate_candidates(timeline, title),
    timeline,
    split_by_month,
    months_with_event,
  )
  sampled = []
  for split, quota in sorted(quotas.items()):
    for family, has_event, count in (
      (POINT, True, quota.event_points),
      (POINT, False, quota.empty_points),
      (WINDOW, True, quota.windows),
    ):
      answered_queries = []
      for query in strata[split, family, has_event]:
        positives = find_positives(query.interval, timeline, positives_by_month)
        if positives:
          answered_queries.append(
            dataclasses.replace(query, positives=positives)
          )
      sampled.extend(
        (split, query)
        for query in _sample_queries(answered_queries, count, seed)
      )
  return _assign_query_ids(sampled, seed)


def _stratify_candidates(
  candidates: Iterable[Query],
  timeline: Timeline,
  split_by_month: Mapping[TimeKey, str],
  months_with_event: Collection[TimeKey],
) -> Mapping[tuple[str | None, str, bool], list[Query]]:
  """Returns (split, family, has event) -> candidates with `paper_family`.

  All windows count as having an event: the paper does not divide them.
  """
  strata = collections.defaultdict(list)
  for query in candidates:
    split = find_interval_split(query.interval, timeline, split_by_month)
    has_event = (
      query.family == WINDOW or query.interval.start in months_with_event
    )
    paper_family = query.family if has_event else GAP
    strata[split, query.family, has_event].append(
      dataclasses.replace(query, paper_family=paper_family)
    )
  return strata


def _shuffle_key(seed: int, text: str) -> bytes:
  """Returns the sort key that shuffles texts under `seed`."""
  return hashlib.blake2b(f"{seed}:{text}".encode(), digest_size=8).digest()


def _sample_queries(
  stratum_queries: list[Query], count: int, seed: int
) -> list[Query]:
  """Returns `count` queries of one stratum (all, if there are fewer)."""
  shuffled = sorted(
    stratum_queries, key=lambda query: _shuffle_key(seed, query.text)
  )
  num_dealt = collections.Counter()
  round_of_query = {}
  for query in shuffled:
    dealt_to = query.interval if query.family == POINT else query.group
    round_of_query[query] = num_dealt[dealt_to]
    num_dealt[dealt_to] += 1
    if query.family == WINDOW:
      # After MIN_PER_GROUP queries of each group the draw is uniform.
      round_of_query[query] = min(round_of_query[query], MIN_PER_GROUP)
  return sorted(shuffled, key=round_of_query.__getitem__)[:count]


def _assign_query_ids(
  sampled: list[tuple[str, Query]], seed: int
) -> dict[str, list[Query]]:
  """Returns split -> queries with ids, numbered per family in shuffled order.

  Numbers run over all splits, so that an id betrays neither split nor date.
  """
  sampled = sorted(
    sampled, key=lambda split_query: _shuffle_key(seed + 1, split_query[1].text)
  )
  counts = collections.Counter()
  queries_by_split = {
    split: []
    for split in SPLITS
    if any(sampled_split == split for sampled_split, _ in sampled)
  }
  for split, query in sampled:
    query_id = f"{query.family}-{counts[query.family]:05d}"
    counts[query.family] += 1
    queries_by_split.setdefault(split, []).append(
      dataclasses.replace(query, query_id=query_id)
    )
  return {
    split: sorted(queries, key=lambda query: query.query_id)
    for split, queries in queries_by_split.items()
  }
