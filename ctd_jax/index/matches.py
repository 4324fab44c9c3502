"""All records that answer a question: found, counted and in order.

A time is answered in order of time and text, and so are events and questions
for all there is; other words are answered by relevance. Records that
have the words are exact; those that have only parts of them, or are near in
meaning, are near. How many there are does not depend on how many are shown.

Axes: n records, K months.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import difflib
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int64

from ctd_jax.chronology import question_words, sexagenary
from ctd_jax.index import answers, database, events, ranking
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.question_calendar import Question, QuestionError
from ctd_jax.index.ranking import Ranking, TimeQuery
from ctd_jax.index.vectors import NearRecords
from ctd_jax.utils.notes import Note

# Records less likely to fall in the question's time are left out.
MIN_PROBABILITY = 0.01
TIME_ORDER, RELEVANCE = SORTS = ("time", "relevance")
EVENT = "event"
GROUPS = (EVENT,)
_NOTEWORTHY = 1e-3  # below, a probability is shown as <.001
_MAX_GROUPED = 5000  # records; more take seconds
_PRINTS_DAY, _OF_TIME, _POSSIBLE = range(3)
# Work id -> which of its records may be found; None for all.
Masks = Mapping[int, Bool[np.ndarray, " n"]] | None
# Within a month, events come before commentary.
_KIND_ORDER = {"no_event": 1, "neg_comment": 2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchScope:
  """Which records a search may return, how many, and in which order."""

  k: int = 10  # records, or events if grouped
  offset: int = 0  # how many of these come before, on earlier pages
  works: Collection[str] | None = None  # names; None for all
  kinds: Collection[str] | None = None  # None for all but headings
  min_probability: float = MIN_PROBABILITY  # of falling in the time asked
  why: bool = False  # explain records that the model dated, 30 ms each
  sort: str | None = None  # one of `SORTS`; None decides by the question
  near: bool = False  # also records that have only parts of the words
  group: str | None = None  # one of `GROUPS`; None for record by record

  def __post_init__(self):
    for name, least in (("k", 1), ("offset", 0)):
      value = getattr(self, name)
      if value < least:
        raise ValueError(f"{name}={value}: expected {least} or more")
    for name, choices in (("sort", SORTS), ("group", GROUPS)):
      value = getattr(self, name)
      if value is not None and value not in choices:
        raise ValueError(
          f"{name}={value!r}: expected one of {', '.join(choices)}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Matches:
  """All records that answer a question, in order."""

  ranking: Ranking
  sort: str  # one of `SORTS`
  # records and works searched; matches, of all pages; events, if grouped. With
  # a time: in_time, more probable than not; left_out, less probable than asked
  # for. With words: exact and near.
  counts: Mapping[str, int]
  notes: tuple[Note, ...]
  # Where each event begins in `ranking`; None if they are not grouped.
  starts: Int64[np.ndarray, " E"] | None = None

  @property
  def num_units(self) -> int:
    """Number of records, or of events if grouped."""
    return len(self.ranking if self.starts is None else self.starts)

  def find_page(self, offset: int, k: int) -> range:
    """Returns the places in `ranking` of k records, or events."""
    first, stop = (min(it, self.num_units) for it in (offset, offset + k))
    if self.starts is not None:
      ends = [*self.starts.tolist(), len(self.ranking)]
      first, stop = ends[first], ends[stop]
    return range(first, stop)

  def find_event(self, place: int) -> int | None:
    """Returns the number of a record's event, from 1; None if not grouped."""
    if self.starts is None:
      return None
    return int(np.searchsorted(self.starts, place, side="right"))


def find_matches(
  index: IndexFolder, question: Question, scope: SearchScope
) -> Matches:
  """Returns all records of a time, or with words, or both."""
  works = find_works(index, scope.works, question.works)
  masks = mask_kinds(index, works, scope.kinds)
  query, words = make_time_query(index, question), list_words(question)
  counts = count_records(index, works, masks)
  if question.intervals and (words or question.day is not None):
    # For a day in a month, all records of the month count: not every calendar
    # knows with certainty whether the month has the day.
    whole = dataclasses.replace(query, month_weights=None)
    counts["in_time"] = count_in_time(index, works, masks, whole)
  notes: list[Note] = []
  day_rows: Collection[int] = ()
  if words:
    found = _match_words(index, question, scope, works, masks, counts)
    notes += _describe_words(index, words, counts)
  else:
    least = min(_NOTEWORTHY, scope.min_probability) if query else 0.0
    found, day_rows = rank_time(index, question, works, masks, least)
    if query is not None:
      mass = found.columns["mass"]
      if question.intervals:
        counts.setdefault("in_time", int((mass >= 0.5).sum()))
      counts["left_out"] = int((mass < scope.min_probability).sum())
      if counts["left_out"]:
        found = found.take(mass >= scope.min_probability)
    if question.day is not None and not np.isin(found.rows, [*day_rows]).any():
      day = sexagenary.format_cyclic_index(question.day)
      notes.append(Note("note.day.none", day=day))
  counts["matches"] = len(found)
  group = scope.group
  if group and len(found) > _MAX_GROUPED:
    group = None
    notes.append(Note("note.events.many", number=len(found), most=_MAX_GROUPED))
  # A list of events, or of all there is, is read as a chronicle.
  is_list = bool(group) or question_words.asks_for_all(question.text)
  sort = scope.sort or (RELEVANCE if words and not is_list else TIME_ORDER)
  if sort == TIME_ORDER:
    stop = len(found) if group else scope.offset + scope.k
    found = _order_by_time(index, found, question, query, day_rows, stop)
  else:
    # Records that are equally relevant come in order of time.
    decimals = 2 if "dense_score" not in found.columns else 7
    scores = -found.columns["score"].round(decimals)
    months, _ = _find_months(index, found, query)
    found = found.take(
      np.lexsort((found.rows, months, scores, _is_near(found)))
    )
  starts = None
  if group:
    found, starts = _group(index, found)
    counts["events"] = len(starts)
  return Matches(
    ranking=found, sort=sort, counts=counts, notes=tuple(notes), starts=starts
  )


def _match_words(
  index: IndexFolder,
  question: Question,
  scope: SearchScope,
  works: Sequence[database.IndexedWork],
  masks: Masks,
  counts: dict[str, int],
) -> Ranking:
  """Returns the records with the words.

  Those that have only parts of them, or are near by vector, are added if the
  scope asks for them or if no record has the words.

  Args:
    counts: gets the numbers of both, and of what is left out.
  """
  search = functools.partial(
    ranking.search_words, index.connection, question.words, None
  )
  near = find_near(index, question, works, masks)

  def rank(scores: Mapping[int, float]) -> tuple[Ranking, np.ndarray]:
    found = rank_words(index, question, scores, works, masks, near)
    return found, found.columns.get("mass", np.ones(len(found)))

  exact_scores = search(steps=ranking.EXACT)
  found, mass = rank(exact_scores)
  is_exact = np.isin(found.rows, [*exact_scores])
  is_shown = mass >= scope.min_probability
  counts["exact"] = int((is_exact & is_shown).sum())
  counts["left_out"] = int((is_exact & ~is_shown).sum())
  if scope.near or not counts["exact"]:
    found, mass = rank(search())
    is_exact = np.isin(found.rows, [*exact_scores])
    found.columns["is_near"] = ~is_exact
    found = found.take(mass >= scope.min_probability)
    counts["near"] = len(found) - counts["exact"]
    return found
  if parts := ranking.find_parts(index.connection, question.words):
    _, mass = rank(dict.fromkeys((*parts, *exact_scores), 0.0))
  num_shown = int((mass >= scope.min_probability).sum())
  counts["near"] = num_shown - counts["exact"]
  return found.take(is_exact & is_shown)


def _describe_words(
  index: IndexFolder, words: Sequence[str], counts: Mapping[str, int]
) -> Iterator[Note]:
  """Yields notes on how words were searched."""
  phrases = "、".join(words)
  if not counts["exact"]:
    if counts["left_out"]:
      number = counts["left_out"]
      yield Note("note.words.other_times", number=number, words=phrases)
    if counts["near"]:
      yield Note("note.words.near", words=phrases)
    elif not counts["left_out"]:
      yield Note("note.words.none", words=phrases)
  if index.manifest.dense and index.dense is None:
    yield Note("note.words.no_vectors", encoder=index.manifest.dense.name)


def _is_near(found: Ranking) -> Bool[np.ndarray, " n"]:
  return found.columns.get("is_near", np.zeros(len(found), bool))


def _order_by_time(
  index: IndexFolder,
  found: Ranking,
  question: Question,
  query: TimeQuery | None,
  day_rows: Collection[int],
  stop: int,
) -> Ranking:
  """Returns records in order of time and text.

  Those of the time come before those that are more probably of another. Within
  a month works stand beside each other by the days that open their records; a
  record without one follows the record before it in its work.

  Args:
    stop: how many must be in order; days are read for these alone.
  """
  months, is_of_time = _find_months(index, found, query)
  mass = found.columns.get("mass")
  if query is not None and mass is not None:
    is_of_time |= mass >= 0.5
  for first, last in question.late_spans:
    is_of_time &= (months < first) | (months > last)
  level = np.where(is_of_time, _OF_TIME, _POSSIBLE)
  if day_rows:
    level[np.isin(found.rows, [*day_rows])] = _PRINTS_DAY
  keys = np.stack([months, level, _is_near(found)])
  # One number to sort by; rows ascend already.
  joined = (keys[2] * (_POSSIBLE + 1) + keys[1]) * len(index.calendar) + keys[0]
  order = np.argsort(joined, kind="stable")
  # Up to the end of the last month that is reached.
  if stop < len(order):
    stop = int(np.searchsorted(joined[order], joined[order[stop - 1]], "right"))
  head = order[:stop]
  within = _place_within_months(index, found.rows[head], keys[:, head])
  order[:stop] = head[np.lexsort((found.rows[head], *within, *keys[:, head]))]
  return found.take(order)


def _find_months(
  index: IndexFolder, found: Ranking, query: TimeQuery | None
) -> tuple[Int64[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
  """Returns `WorkPosteriors.find_likeliest` of records of all works."""
  is_asked = np.full(len(index.calendar), query is None)
  for first, last in query.spans if query else ():
    is_asked[first : last + 1] = True
  months = np.zeros(len(found), np.int64)
  is_best = np.zeros(len(found), bool)
  for work in index.works:
    places = np.flatnonzero(
      (found.rows >= work.rows.start) & (found.rows < work.rows.stop)
    )
    if len(places):
      months[places], is_best[places] = index.posteriors_of(
        work
      ).find_likeliest(found.rows[places] - work.first_row, is_asked)
  return months, is_best


def _place_within_months(
  index: IndexFolder, rows: Int64[np.ndarray, " n"], keys: np.ndarray
) -> Int64[np.ndarray, "3 n"]:
  """Returns place of the work, day and kind of records, the last weighs most.

  Args:
    rows: ascending within each column of `keys`, the month in its first row.
  """
  columns = {
    row: (kind, events.find_days(head))
    for row, kind, head in database.fetch_columns(
      index.connection, rows.tolist(), "kind", "substr(text, 1, date_end)"
    )
  }
  printed = collections.defaultdict(set)
  for row, month in zip(rows.tolist(), keys[0].tolist(), strict=True):
    printed[month] |= columns[row][1]
  numbers = {
    month: events.number_days(index, month, days)
    for month, days in printed.items()
  }
  # Of each work in each month, the records and their first days.
  stretches = collections.defaultdict(list)
  places = np.zeros((3, len(rows)), np.int64)
  for place, (row, key) in enumerate(
    zip(rows.tolist(), keys.T.tolist(), strict=True)
  ):
    kind, days = columns[row]
    known = [numbers[key[0]][day] for day in days if day in numbers[key[0]]]
    work = index.work_order[index.work_of(row).work_id]
    places[0, place], places[2, place] = work, _KIND_ORDER.get(kind, 0)
    stretches[*key, *places[::2, place].tolist()].append(
      (place, min(known, default=0))
    )
  for stretch in stretches.values():
    # A work keeps its order: a day that runs against it is passed over.
    steady = _find_steady([day for _, day in stretch])
    last = 0
    for (place, day), is_steady in zip(stretch, steady, strict=True):
      last = day if is_steady else last
      places[1, place] = last
  return places


def _find_steady(days: Sequence[int]) -> list[bool]:
  """Returns which days are in the longest ascending run; 0 is no day."""
  ends: list[int] = []  # lowest last day of the runs of each length
  lengths = []
  for day in days:
    length = bisect.bisect_right(ends, day) if day else -1
    if day:
      ends[length : length + 1] = [day]
    lengths.append(length)
  wanted, is_steady = len(ends) - 1, [False] * len(days)
  for place in range(len(days) - 1, -1, -1):
    if wanted >= 0 and lengths[place] == wanted:
      is_steady[place], wanted = True, wanted - 1
  return is_steady


def _group(
  index: IndexFolder, found: Ranking
) -> tuple[Ranking, Int64[np.ndarray, " E"]]:
  """Returns records by event, and where each event begins."""
  labels = events.group_records(index, found.rows)
  # An event stands where its first record does.
  firsts = np.full(labels.max(initial=-1) + 1, len(found))
  np.minimum.at(firsts, labels, np.arange(len(found)))
  works = [
    index.work_order[index.work_of(row).work_id] for row in found.rows.tolist()
  ]
  order = np.lexsort((found.rows, works, firsts[labels]))
  starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
  return found.take(order), starts


def rank_time(
  index: IndexFolder,
  question: Question,
  works: Sequence[database.IndexedWork],
  masks: Masks = None,
  min_mass: float = 0.0,
) -> tuple[Ranking, Collection[int]]:
  """Returns all records of some probability with their scores for a time.

  Returns:
    And the rows of the records that print the question's day.
  """
  query = make_time_query(index, question)
  day_rows = None
  if question.day is not None:
    found = database.search_text(
      index.connection,
      [sexagenary.format_cyclic_index(question.day)],
      10 * ranking.MAX_MATCHES,
      months=query.hull,
    )
    day_rows = frozenset(match.row for match in found)
  query = query or TimeQuery(((0, len(index.calendar) - 1),))
  ranked = ranking.rank_by_time(
    [index.posteriors_of(work) for work in works],
    query,
    masks,
    day_rows,
    min_mass,
  )
  return ranked, day_rows or ()


def rank_words(
  index: IndexFolder,
  question: Question,
  scores: Mapping[int, float],
  works: Sequence[database.IndexedWork],
  masks: Masks,
  near: NearRecords | None,
) -> Ranking:
  """Returns the records with word scores, and those near, with scores."""
  return ranking.rank_by_words(
    [index.posteriors_of(work) for work in works],
    scores,
    make_time_query(index, question),
    masks,
    near,
    dense_weight=index.dense.weight if index.dense else 0.0,
  )


def find_near(
  index: IndexFolder,
  question: Question,
  works: Sequence[database.IndexedWork],
  masks: Masks,
) -> NearRecords | None:
  """Returns the records near to the words by vector; None without vectors."""
  if index.dense is None or not works:
    return None
  query = make_time_query(index, question)
  in_time = query and {
    work.work_id: index.posteriors_of(work).find_mass(query) >= MIN_PROBABILITY
    for work in works
  }
  words = " ".join(list_words(question))
  return index.dense.find_near(words, works, masks, in_time)


def make_time_query(index: IndexFolder, question: Question) -> TimeQuery | None:
  """Returns the months that a question asks for; None if it names no time."""
  spans = [(span.first, span.last) for span in question.intervals]
  if not spans:
    if question.day is None:
      return None
    spans = [(0, len(index.calendar) - 1)]
  weights = None
  if question.day is not None:
    # A day is in a month with the chance that the calendar gives it.
    weights = index.day_chances[:, question.day]
  return TimeQuery.make(spans, weights, question.late_spans)


def find_works(
  index: IndexFolder,
  names: Collection[str] | None,
  names_in_question: Collection[str],
) -> Sequence[database.IndexedWork]:
  """Returns works by name or title, those that the question names if None."""
  names = names if names is not None else names_in_question or None
  if names is None:
    return index.works
  by_name: dict[str, list[database.IndexedWork]] = {}
  for work in index.works:
    for name in dict.fromkeys((work.name, work.title or work.name)):
      by_name.setdefault(name, []).append(work)
  for name in names:
    if name not in by_name:
      nearest = difflib.get_close_matches(name, by_name, n=3, cutoff=0.3)
      raise ValueError(
        f"work {name!r}: the index has no such work; "
        + (f"the nearest: {', '.join(nearest)}; " if nearest else "")
        + f"it has {len(index.works)}, first {', '.join(list(by_name)[:8])}"
      )
  works = {work.work_id: work for name in names for work in by_name[name]}
  return list(works.values())


def mask_kinds(
  index: IndexFolder,
  works: Sequence[database.IndexedWork],
  kinds: Collection[str] | None,
) -> dict[int, Bool[np.ndarray, " n"]] | None:
  """Returns work id -> mask of its records of some kinds; None if all are.

  Args:
    kinds: as in the data, or in a reader's words; None for all but headings.
  """
  known = index.kinds
  names = {answers.name_kind(kind): kind for kind in known}
  for kind in kinds or ():
    if kind not in known and kind not in names:
      raise QuestionError(
        f"kind {kind!r}: no record has it; the index has {', '.join(names)}"
      )
  if kinds is not None:
    kinds = [names.get(kind, kind) for kind in kinds]
  wanted = [
    kind
    for kind in known
    if (kind in kinds if kinds is not None else kind != database.HEADING)
  ]
  if len(wanted) == len(known):
    return None
  return {work.work_id: index.mask_kinds(work, tuple(wanted)) for work in works}


def count_records(
  index: IndexFolder,
  works: Sequence[database.IndexedWork],
  masks: Masks = None,
) -> dict[str, int]:
  """Returns the numbers of records and works that are searched."""
  num_records = sum(
    work.num_records if masks is None else int(masks[work.work_id].sum())
    for work in works
  )
  return {"records": num_records, "works": len(works)}


def count_in_time(
  index: IndexFolder,
  works: Sequence[database.IndexedWork],
  masks: Masks,
  query: TimeQuery,
) -> int:
  """Returns the number of records that are more probably in a time than not."""
  in_time = 0
  for work in works:
    is_in_time = index.posteriors_of(work).find_mass(query) >= 0.5
    if masks is not None:
      is_in_time &= masks[work.work_id]
    in_time += int(is_in_time.sum())
  return in_time


def list_words(question: Question) -> tuple[str, ...]:
  """Returns the words of a question without its day, which counts as time."""
  if question.day is None:
    return question.words
  return tuple(
    word for word in question.words if _find_day(word) != question.day
  )


def _find_day(word: str) -> int | None:
  try:
    return sexagenary.parse_cyclic_index(word)
  except ValueError:
    return None
