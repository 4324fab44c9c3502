"""Query generation: quotas and the draw from everything that templates ask.

Windows over months of different splits are dropped, as are queries that no
record answers.
"""

import collections
import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

from ctd_jax.benchmark.benchmark import (
  CHUNQIU_TITLE,
  GAP,
  POINT,
  SPLITS,
  WINDOW,
  Query,
  Record,
  collect_months,
  find_interval_split,
  find_positives,
  index_positives_by_month,
)
from ctd_jax.chronology import dates
from ctd_jax.chronology.numerals import format_numeral
from ctd_jax.chronology.reigns import Interval, TimeKey, Timeline

# Templates of the benchmark's queries: 52 texts in nine groups.
#
# The release publishes the templates as nine groups and three printed texts;
# the other 49 texts are written anew here.
#
# A template has an anchor month and resolves to an interval:
#
# BASE_* the anchor MONTH_PAST, _FUTURE `span` months next to the anchor,
# which is excluded, as in the printed example (half a year before 成公七年正月
# starts at 成公六年七月) MONTH_AROUND the anchor and `span` months on either
# side
# MONTH_RANGE `span` months from the anchor to a second date, both in
# YEAR_CURRENT the regnal year of the anchor YEAR_PAST, _FUTURE `span` whole
# years next to it, which is excluded
#
# Windows that run over an end of the timeline are clipped. Two kinds are left
# out: a clipped range, whose text would name a month that does not exist, and
# a window of which fewer than two months remain.


@dataclasses.dataclass(frozen=True)
class QueryTemplate:
  """Text of a query with slots, and the interval that it means."""

  index: int  # 1-52, the published numbering of the groups
  group: str  # published group, e.g. MONTH_PAST; decides how `span` is read
  # The question, with slots: {date} the anchor month, {end} the second date of
  # a range, {year} the anchor's regnal year, {state} the ruler's state, {title}
  # the chronicle's title with its brackets.
  text: str
  # Months (MONTH_*) or years (YEAR_*); 1 for BASE_* and YEAR_CURRENT.
  span: int = 1

  @property
  def family(self) -> str:
    """`point` (one month) or `window` (several)."""
    return POINT if self.group.startswith("BASE") else WINDOW

  def resolve_interval(
    self, timeline: Timeline, anchor: TimeKey
  ) -> Interval | None:
    """Returns the months that the text means, clipped to the timeline.

    Args:
      timeline: the calendar.
      anchor: the month (for YEAR_*: a month of the year) in the text.

    Returns:
      The interval, or None if the timeline leaves too few months, see the
      module's docstring.

    Raises:
      KeyError: if the timeline has no month `anchor`.
    """
    if self.family == POINT:
      timeline.ordinal(anchor)  # raises if there is no such month
      return Interval.single_month(anchor)
    if self.group.startswith("YEAR"):
      first, last = self._year_bounds(timeline, anchor)
    else:
      month = timeline.ordinal(anchor)
      first, last = {
        "MONTH_PAST": (month - self.span, month - 1),
        "MONTH_FUTURE": (month + 1, month + self.span),
        "MONTH_AROUND": (month - self.span, month + self.span),
        "MONTH_RANGE": (month, month + self.span - 1),
      }[self.group]
      if self.group == "MONTH_RANGE" and last >= len(timeline):
        return None
    first, last = max(first, 0), min(last, len(timeline) - 1)
    if last <= first:  # a window has at least two months
      return None
    return Interval(timeline.key_at(first), timeline.key_at(last))

  def _year_bounds(
    self, timeline: Timeline, anchor: TimeKey
  ) -> tuple[int, int]:
    """Returns the ordinals of both ends for YEAR_*, in whole years."""
    first, last = timeline.interval_ordinals(
      timeline.year_interval(anchor.reign, anchor.year)
    )
    if self.group == "YEAR_CURRENT":
      return first, last
    # Whole years are walked one by one: a year may hold 13 months, and the
    # years of a window may belong to two reigns.
    is_past = self.group == "YEAR_PAST"
    start, end = (first, first - 1) if is_past else (last + 1, last)  # empty
    for _ in range(self.span):
      edge = start - 1 if is_past else end + 1
      if not 0 <= edge < len(timeline):
        break  # clipped
      key = timeline.key_at(edge)
      year_start, year_end = timeline.interval_ordinals(
        timeline.year_interval(key.reign, key.year)
      )
      start, end = min(start, year_start), max(end, year_end)
    return start, end

  def format_question(
    self,
    timeline: Timeline,
    anchor: TimeKey,
    interval: Interval,
    title: str = CHUNQIU_TITLE,
  ) -> str:
    """Returns the question about an anchor.

    Args:
      timeline: timeline that names the reigns.
      anchor: month of the question.
      interval: interval from `resolve_interval`; its end is the second date of
        a range.
      title: title of the chronicle, with its brackets.
    """
    number = "元" if anchor.year == 1 else format_numeral(anchor.year)
    return self.text.format(
      date=dates.format_key(anchor, timeline),
      end=dates.format_key(interval.end, timeline),
      year=f"{timeline.full_reign_name(anchor.reign)}{number}年",
      state=timeline.reigns[anchor.reign - 1].state,
      title=title,
    )


# Numbers 1, 2 and 21 are those printed in the paper (Figures 9-11).
TEMPLATES = tuple(
  QueryTemplate(index, group, text, span)
  for index, (group, span, text) in enumerate(
    (
      ("BASE_CONTENT", 1, "{date}，{state}國有何記事？"),
      ("BASE_CONTENT", 1, "查詢{title}，{date}這一月有什麼重要事件？"),
      ("BASE_CONTENT", 1, "{title}於{date}記載了哪些史事？"),
      ("BASE_CONTENT", 1, "請列出{date}見於{title}經傳的全部記錄。"),
      ("BASE_CONTENT", 1, "{date}發生了什麼事？"),
      ("BASE_CONTENT", 1, "試檢{title}經傳，{date}條下所書何事？"),
      ("BASE_CONTENT", 1, "{date}當月，經文與傳文各記何事？"),
      ("BASE_CONTENT", 1, "欲知{date}諸國大事，當讀{title}哪些條目？"),
      ("BASE_CONTENT", 1, "在{date}，諸侯有何會盟、征伐或朝聘之舉？"),
      ("BASE_CONTENT", 1, "請摘錄{title}中{date}的經文及相關傳文。"),
      ("BASE_CONTENT", 1, "{date}，史官書於策者為何？"),
      ("BASE_CONTENT", 1, "關於{date}，{title}及其傳文有哪些記述？"),
      ("BASE_EXISTENCE", 1, "{date}，{title}是否有事可書？"),
      ("BASE_EXISTENCE", 1, "{title}經傳在{date}有無記事？"),
      ("BASE_EXISTENCE", 1, "請查{date}是否見於{title}記載。"),
      ("BASE_EXISTENCE", 1, "{date}這個月，經傳是否闕而不書？"),
      ("BASE_EXISTENCE", 1, "{title}可曾收錄{date}的史事？若無，請註明。"),
      ("BASE_EXISTENCE", 1, "核對{title}：{date}究竟有事還是無事？"),
      ("BASE_EXISTENCE", 1, "{date}的記錄，今本{title}中存否？"),
      ("BASE_EXISTENCE", 1, "{date}，{state}國可有任何條目載入{title}經傳？"),
      ("MONTH_PAST", 6, "請檢索{date}之前半年內，{title}中所有相關記事。"),
      ("MONTH_PAST", 3, "{title}在{date}之前三個月內有哪些記載？"),
      (
        "MONTH_PAST",
        2,
        "請回溯{date}前兩個月（不計當月），{state}國有何大事？",
      ),
      ("MONTH_PAST", 4, "{date}之前四個月間，經傳所書諸事為何？"),
      ("MONTH_PAST", 3, "在{date}之前的三個月裡，諸侯有何動向？"),
      ("MONTH_PAST", 12, "查考{date}之前一年內{title}所載史事，當月除外。"),
      ("MONTH_FUTURE", 6, "請檢索{date}之後半年內，{title}中所有相關記事。"),
      ("MONTH_FUTURE", 3, "{date}之後三個月內，{state}國發生了哪些事件？"),
      ("MONTH_FUTURE", 2, "{date}以後兩個月間，{title}續記何事？"),
      ("MONTH_FUTURE", 4, "{date}之後的四個月裡，經傳有何後續記述？"),
      ("MONTH_FUTURE", 3, "緊接{date}之後的三個月，諸國有何事見於{title}？"),
      ("MONTH_AROUND", 1, "{date}前後各一個月內，{title}有哪些記事？"),
      ("MONTH_AROUND", 2, "以{date}為中心，前後各兩個月，經傳所書何事？"),
      ("MONTH_AROUND", 3, "請彙集{date}前後各三個月的全部記載。"),
      ("MONTH_AROUND", 1, "{date}及其前後各一個月，{state}國有何動靜？"),
      ("MONTH_AROUND", 2, "查{title}，{date}前後各兩個月之間有何史事？"),
      ("MONTH_RANGE", 3, "自{date}至{end}，{title}記有哪些事？"),
      ("MONTH_RANGE", 4, "從{date}到{end}，{state}國發生了什麼？"),
      ("MONTH_RANGE", 6, "請列出{date}至{end}的全部經傳記錄，首尾兩月皆計。"),
      ("MONTH_RANGE", 2, "{title}自{date}起，至{end}止，載有何事？"),
      ("MONTH_RANGE", 5, "由{date}迄{end}，諸侯會盟征伐之事有哪些？"),
      ("YEAR_CURRENT", 1, "{year}全年，{title}有何記事？"),
      ("YEAR_CURRENT", 1, "{year}這一年，{state}國有哪些大事？"),
      ("YEAR_CURRENT", 1, "請通覽{title}中{year}一整年的經傳條目。"),
      ("YEAR_CURRENT", 1, "{year}，是年經傳共書何事？"),
      ("YEAR_CURRENT", 1, "在{year}整年當中，諸國會盟、征伐、災異各有哪些？"),
      ("YEAR_PAST", 1, "{year}的前一年，{title}記有何事？"),
      ("YEAR_PAST", 1, "請查{year}之前一年全年的經傳記載。"),
      ("YEAR_PAST", 2, "{year}之前兩年間，{state}國有哪些史事？"),
      ("YEAR_FUTURE", 1, "{year}的次年，{title}記有何事？"),
      ("YEAR_FUTURE", 1, "請查{year}之後一年全年的經傳記載。"),
      ("YEAR_FUTURE", 2, "{year}之後兩年間，{state}國有哪些史事？"),
    ),
    start=1,
  )
)


@dataclasses.dataclass(frozen=True)
class Quota:
  """Numbers of queries to draw for a split."""

  event_points: int  # point queries on months with an event
  empty_points: int  # point queries on months without one
  windows: int  # window queries


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
    seed: seed of the draw.
    quotas: split -> how many to draw, e.g. `OFFICIAL_QUOTAS`; where a stratum
      has fewer candidates all of them are taken. By default in proportion to
      the months of each split.
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
    counts = collections.Counter(
      (split, key in months_with_event) for key, split in split_by_month.items()
    )
    quotas = {
      split: Quota(
        event_points=round(POINTS_PER_MONTH * counts[split, True]),
        empty_points=round(POINTS_PER_MONTH * counts[split, False]),
        windows=round(
          WINDOWS_PER_MONTH * (counts[split, True] + counts[split, False])
        ),
      )
      for split in set(split_by_month.values())
    }
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
      answered_queries = [
        dataclasses.replace(query, positives=positives)
        for query in strata[split, family, has_event]
        if (
          positives := find_positives(
            query.interval, timeline, positives_by_month
          )
        )
      ]
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
  """Returns (split, family, has event) -> candidates with `paper_family`."""
  # All windows count as having an event: the paper does not divide them.
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
  """Returns split -> queries, numbered per family in shuffled order."""
  # Numbers run over all splits, so that an id betrays neither split nor date.
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
