"""Index: a corpus that answers questions about the time of its records.

  >>> import ctd_jax
  >>> index = ctd_jax.Index.open("annals.index")            # doctest: +SKIP
  >>> answer = index.ask("魯隱公元年五月", k=3)                # doctest: +SKIP
  >>> print(answer)                                         # doctest: +SKIP
  >>> [record.text for record in answer.results]            # doctest: +SKIP
  >>> index.date("五月，葬衛桓公。").dates.years[0].name        # doctest: +SKIP

An object keeps the state in which you opened it: after changing the index, open
it again.

A question is read, ranked against the records or dated as a passage, and
answered. What it leaves open is answered with its readings, never guessed.

Axes: n records of a work, Q questions, k results.
"""

import dataclasses
import datetime
import difflib
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float32, Int64

from ctd_jax.chronology import sexagenary
from ctd_jax.index import database, passage_answers, ranking, record_answers
from ctd_jax.index.answers import (
  Answer,
  AnswerRecord,
  PassageDate,
  Reading,
  Span,
  Understanding,
)
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.question_calendar import (
  PASSAGE,
  MonthSpan,
  Question,
  QuestionError,
)
from ctd_jax.index.ranking import RankedRecord, TimeQuery
from ctd_jax.utils.notes import Note

# Records less likely to fall in the time asked for are left out.
MIN_PROBABILITY = 0.01
MAX_OTHER_TIMES = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchScope:
  """Which records a search may return, and how many."""

  k: int = 10
  skip: int = 0  # better records, shown on earlier pages
  works: Collection[str] | None = None  # names; None for all
  kinds: Collection[str] | None = None  # None for all but headings
  min_probability: float = MIN_PROBABILITY  # of falling in the time asked
  why: bool = False  # explain records that the model dated, 30 ms each


class Index(IndexFolder):
  """A corpus that answers questions; `Index.open` reads one from a folder."""

  def record(self, row: int) -> AnswerRecord:
    """Returns a record with its date and the reasons for it.

    Raises:
      IndexError: if there is no such record.
    """
    self.work_of(row)
    record = database.fetch_records(self.connection, [row])[0]
    ranked = RankedRecord(row=row, score=0.0)
    return record_answers.make_answer_record(self, record, ranked, 1, why=True)

  def date(self, text: str) -> Answer:
    """Returns the date of a passage, which need not be in the index.

    Raises:
      FileNotFoundError: if the index was built without dating of passages.
      ValueError: if there is nothing to date.
    """
    return self.ask(text, intent=PASSAGE)

  def ask(
    self,
    question: str,
    k: int = 10,
    works: Collection[str] | None = None,
    intent: str | None = None,
    kinds: Collection[str] | None = None,
    min_probability: float = MIN_PROBABILITY,
    why: bool = False,
  ) -> Answer:
    """Returns the answer to a question.

    Args:
      question: a time, words, both, or a passage to date.
      works: names of the works to search; None for all.
      intent: time, words or passage; None decides by the question.
      kinds: kinds of records, such as event; None for all but headings.
      min_probability: records less probably of the time are left out.
      why: whether to explain records that the model dated, some 30 ms each.

    Raises:
      FileNotFoundError: if the index cannot date passages and you ask for it.
      ValueError: if the question cannot be read; says what would be right.
    """
    if k < 1:
      raise ValueError(f"k={k}: expected 1 or more")
    parsed = self.question_reader.read(question, intent)
    if parsed.intent == PASSAGE:
      return date_passage(self, parsed)
    scope = SearchScope(
      k=k,
      works=works,
      kinds=kinds,
      min_probability=min_probability,
      why=why,
    )
    return find_records(self, parsed, scope)

  def rank(
    self, questions: Sequence[str], k: int
  ) -> tuple[Int64[np.ndarray, "Q k"], Float32[np.ndarray, "Q k"]]:
    """Returns the rankings of many questions for a time or words.

    Returns:
      Rows of records, -1 if there are fewer; and scores, best first.
    """
    rows = np.full((len(questions), k), -1, np.int64)
    scores = np.full((len(questions), k), -np.inf, np.float32)
    for number, question in enumerate(questions):
      parsed = self.question_reader.read(question)
      ranked = rank_records(self, parsed, k)[:k]
      rows[number, : len(ranked)] = [item.row for item in ranked]
      scores[number, : len(ranked)] = [item.score for item in ranked]
    return rows, scores

  def search(
    self, queries: Sequence[str], k: int
  ) -> list[list[tuple[str, float]]]:
    """Returns (record id, score) of the k best records for every query.

    This makes an index a system that `ctd_jax.evaluate` can measure.
    """
    rows, scores = self.rank(queries, k)
    wanted = np.unique(rows[rows >= 0]).tolist()
    ids = dict(database.fetch_columns(self.connection, wanted, "record_id"))
    return [
      [
        (ids[row], float(score))
        for row, score in zip(ranked_rows, ranked_scores, strict=True)
        if row >= 0
      ]
      for ranked_rows, ranked_scores in zip(rows.tolist(), scores, strict=True)
    ]


def date_passage(index: IndexFolder, question: Question) -> Answer:
  """Returns the date of a passage."""
  dates = index.passage_dater.date(question.passage)
  return _make_answer(
    index,
    question,
    dates=passage_answers.make_passage_date(index, dates),
    notes=(
      *question.notes,
      *passage_answers.note_copies(index, question.passage),
    ),
  )


def find_records(
  index: IndexFolder,
  question: Question,
  scope: SearchScope,
  ranked: Sequence[RankedRecord] | None = None,
) -> Answer:
  """Returns the records of a time, or with words, or both.

  Args:
    ranked: result of `rank_records`, if you called it before.
  """
  k, skip = scope.k, scope.skip
  members = _find_works(index, scope.works, question.works)
  masks = mask_kinds(index, members, scope.kinds)
  query = make_time_query(index, question)
  readings = []
  for name, (first, last, _) in question.readings:
    counts = _count_records(index, members, masks, TimeQuery(((first, last),)))
    readings.append(
      Reading(
        name=name,
        first=first,
        last=last,
        common_era=record_answers.format_years(index, first, last),
        num_records=counts["in_time"],
      )
    )
  words = list_words(question)
  depth = find_depth(question, k)
  if ranked is None:
    ranked = rank_records(index, question, depth, members, masks, skip)
  ranked = ranked[: skip + depth]
  in_time = ranked
  if query is not None:
    in_time = [
      item for item in ranked if (item.mass or 0) >= scope.min_probability
    ]
  # For a day in a month, all records of the month count: not every calendar
  # knows with certainty whether the month has the day.
  counted = None
  if query is not None and question.intervals:
    counted = dataclasses.replace(query, month_weights=None)
  shown = in_time[skip : skip + k]
  notes = list(question.notes)
  if words:
    notes += _describe_search(index, words, ranked, in_time, shown)
  records = database.fetch_records(
    index.connection, [item.row for item in shown]
  )
  results = tuple(
    record_answers.make_answer_record(
      index, record, item, rank, question.words, scope.why
    )
    for rank, (item, record) in enumerate(
      zip(shown, records, strict=True), start=skip + 1
    )
  )
  return _make_answer(
    index,
    question,
    results=results,
    readings=tuple(readings),
    notes=notes,
    counts=_count_records(index, members, masks, counted),
  )


def _describe_search(
  index: IndexFolder,
  words: Sequence[str],
  ranked: Sequence[RankedRecord],
  in_time: Sequence[RankedRecord],
  shown: Sequence[RankedRecord],
) -> list[Note]:
  """Returns notes on how words were searched."""
  notes = []
  phrases = "、".join(words)
  num_near = sum(not item.word_score for item in shown)
  num_found = sum(bool(item.word_score) for item in ranked)
  if not num_found:
    notes.append(Note("note.words.none", words=phrases))
  elif not any(item.word_score for item in in_time):
    notes.append(
      Note("note.words.other_times", number=num_found, words=phrases)
    )
  if num_near and num_near == len(shown):
    notes.append(Note("note.words.all_near", words=phrases))
  elif num_near:
    notes.append(Note("note.words.some_near", number=num_near, words=phrases))
  if index.manifest.dense and index.dense is None:
    notes.append(
      Note("note.words.no_vectors", encoder=index.manifest.dense.name)
    )
  return notes


def find_depth(question: Question, k: int) -> int:
  """Returns the number of records to rank so that k can be shown."""
  # Words alone can put records of another time first. They are left out
  # later, so more are ranked than are shown.
  has_time = bool(question.intervals) or question.day is not None
  return k + (MAX_OTHER_TIMES if list_words(question) and has_time else 0)


def rank_records(
  index: IndexFolder,
  question: Question,
  k: int,
  works: Sequence[database.IndexedWork] | None = None,
  masks: Mapping[int, Bool[np.ndarray, " n"]] | None = None,
  skip: int = 0,
) -> list[RankedRecord]:
  """Returns the best records for a question.

  Args:
    masks: masks from `mask_kinds`; None for all records.
    skip: number of records on earlier pages. Words are matched as loosely as on
      those pages, so that no page repeats another.
  """
  works = index.works if works is None else works
  posteriors = [index.posteriors_of(work) for work in works]
  query, words = make_time_query(index, question), list_words(question)
  if not words:
    day_rows = None
    if question.day is not None:
      matches = database.search_text(
        index.connection,
        [sexagenary.format_cyclic_index(question.day)],
        10 * ranking.MAX_MATCHES,
        months=query.hull,
      )
      day_rows = frozenset(match.row for match in matches)
    query = query or TimeQuery(((0, len(index.calendar) - 1),))
    return ranking.rank_by_time(posteriors, query, skip + k, masks, day_rows)
  # A record that prints the day beside the words comes before one without.
  phrases = question.words
  scores = ranking.search_words(index.connection, phrases, k, works)
  if query is not None:
    # Records of the time are found even if many others have the words.
    scores = (
      ranking.search_words(index.connection, phrases, k, works, query.hull)
      | scores
    )
  if masks is not None:
    scores = {
      row: score
      for row, score in scores.items()
      if masks[(work := index.work_of(row)).work_id][row - work.first_row]
    }
  near = None
  if index.dense is not None and works:
    in_time = query and {
      work.work_id: index.posteriors_of(work).find_mass(query)
      >= MIN_PROBABILITY
      for work in works
    }
    near = index.dense.find_near(" ".join(words), works, masks, in_time)
  return ranking.rank_by_words(
    posteriors,
    scores,
    skip + k,
    query,
    near=near,
    dense_weight=index.dense.weight if index.dense else 0.0,
  )


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


def _find_works(
  index: IndexFolder,
  names: Collection[str] | None,
  names_in_question: Collection[str],
) -> Sequence[database.IndexedWork]:
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
    kinds: None for all but headings.
  """
  known = index.kinds
  for kind in kinds or ():
    if kind not in known:
      raise QuestionError(
        f"kind {kind!r}: no record has it; the index has {', '.join(known)}"
      )
  wanted = [
    kind
    for kind in known
    if (kind in kinds if kinds is not None else kind != database.HEADING)
  ]
  if len(wanted) == len(known):
    return None
  return {work.work_id: index.mask_kinds(work, tuple(wanted)) for work in works}


def _count_records(
  index: IndexFolder,
  works: Sequence[database.IndexedWork],
  masks: Mapping[int, np.ndarray] | None = None,
  query: TimeQuery | None = None,
) -> dict[str, int]:
  counts = {
    "records": sum(
      work.num_records if masks is None else int(masks[work.work_id].sum())
      for work in works
    ),
    "works": len(works),
  }
  if query is not None:
    in_time = 0
    for work in works:
      is_in_time = index.posteriors_of(work).find_mass(query) >= 0.5
      if masks is not None:
        is_in_time &= masks[work.work_id]
      in_time += int(is_in_time.sum())
    counts["in_time"] = in_time
  return counts


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


def _make_answer(
  index: IndexFolder,
  question: Question,
  results: tuple = (),
  readings: tuple[Reading, ...] = (),
  dates: PassageDate | None = None,
  notes: Sequence[Note] = (),
  counts: dict[str, int] | None = None,
) -> Answer:
  understood = Understanding(
    intervals=tuple(_name_interval(index, span) for span in question.intervals),
    common_era=tuple(
      record_answers.format_years(index, span.first, span.last)
      for span in question.intervals
    ),
    words=question.words,
    day=None
    if question.day is None
    else sexagenary.format_cyclic_index(question.day),
    readings=readings,
  )
  return Answer(
    question=question.text,
    intent=question.intent,
    understood=understood,
    results=results,
    dates=dates,
    counts=counts or _count_records(index, index.works),
    notes=tuple(notes or question.notes),
    versions=index.versions,
    asked_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    calendar_name=index.calendar.timeline.name,
  )


def _name_interval(index: IndexFolder, span: MonthSpan) -> Span:
  """Returns months by the name asked with; a year CE by its reign."""
  if span.name != record_answers.format_years(index, span.first, span.last):
    return Span(first=span.first, last=span.last, name=span.name)
  return record_answers.make_span(
    index, span.first, span.last, index.printed_reigns
  )
