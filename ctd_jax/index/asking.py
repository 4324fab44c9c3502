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

import datetime
import functools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from jaxtyping import Float32, Int64

from ctd_jax.chronology import sexagenary
from ctd_jax.index import (
  database,
  matches,
  passage_answers,
  ranking,
  record_answers,
)
from ctd_jax.index.answer_files import ShownAnswer
from ctd_jax.index.answers import (
  Answer,
  AnswerRecord,
  PassageDate,
  Reading,
  Span,
  Understanding,
)
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.matches import MIN_PROBABILITY, Matches, SearchScope
from ctd_jax.index.question_calendar import (
  PASSAGE,
  TIME,
  MonthSpan,
  Question,
)
from ctd_jax.index.ranking import RankedRecord, TimeQuery
from ctd_jax.utils.notes import Note


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
    offset: int = 0,
    sort: str | None = None,
    near: bool = False,
    group: str | None = None,
  ) -> Answer:
    """Returns the answer to a question.

    Args:
      question: a time, words, both, or a passage to date.
      k: number of records, or of events if you group them.
      works: names of the works to search; None for all.
      intent: time, words or passage; None decides by the question.
      kinds: kinds of records, such as event; None for all but headings.
      min_probability: records less probably of the time are left out.
      why: whether to explain records that the model dated, some 30 ms each.
      offset: number of records, or events, on the pages before.
      sort: "time", which is the order of time and text, or "relevance"; None
        for time if you ask for a time, events or all there is, else relevance.
      near: whether to add records that have only parts of the words; without
        a record that has them, they are shown in any case.
      group: "event" to show the records that tell one event together.

    Raises:
      FileNotFoundError: if the index cannot date passages and you ask for it.
      ValueError: if the question cannot be read; says what would be right.
    """
    scope = SearchScope(
      k=k,
      works=works,
      kinds=kinds,
      min_probability=min_probability,
      why=why,
      offset=offset,
      sort=sort,
      near=near,
      group=group,
    )
    parsed = self.question_reader.read(question, intent)
    if parsed.intent == PASSAGE:
      return date_passage(self, parsed)
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
      ranked = rank_records(self, parsed, k)
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
  dates = index.passage_dater.date(
    question.passage.translate(index.corpus_spelling)
  )
  return _make_answer(
    index,
    question,
    dates=passage_answers.make_passage_date(index, dates),
    notes=(
      *question.notes,
      *passage_answers.note_unseen(index.manifest),
    ),
  )


def find_records(
  index: IndexFolder,
  question: Question,
  scope: SearchScope,
  found: Matches | None = None,
) -> Answer:
  """Returns the records of a time, or with words, or both.

  Args:
    found: result of `find_matches`, if you called it before.
  """
  works = matches.find_works(index, scope.works, question.works)
  masks = matches.mask_kinds(index, works, scope.kinds)
  readings = tuple(
    Reading(
      name=name,
      first=first,
      last=last,
      common_era=record_answers.format_years(index, first, last),
      num_records=matches.count_in_time(
        index, works, masks, TimeQuery(((first, last),))
      ),
    )
    for name, (first, last, _) in question.readings
  )
  if found is None:
    found = matches.find_matches(index, question, scope)
  page = found.find_page(scope.offset, scope.k)
  shown = found.ranking.take(
    np.arange(len(found.ranking))[page.start : page.stop]
  )
  records = database.fetch_records(index.connection, shown.rows.tolist())
  results = tuple(
    record_answers.make_answer_record(
      index,
      record,
      item,
      place + 1,
      question.words,
      scope.why,
      found.find_event(place),
    )
    for place, item, record in zip(page, shown.records(), records, strict=True)
  )
  end = scope.offset + scope.k
  return _make_answer(
    index,
    question,
    results=results,
    readings=readings,
    notes=[*question.notes, *found.notes],
    counts=found.counts,
    sort=found.sort,
    next_offset=end if end < found.num_units else None,
  )


def list_records(index: IndexFolder, answer: Answer) -> Sequence[AnswerRecord]:
  """Returns the records of an answer; the parallels of a passage."""
  if answer.dates is None:
    return answer.results
  return describe_rows(index, [it.row for it in answer.dates.parallels])


def describe_rows(
  index: IndexFolder,
  rows: Sequence[int],
  events: Sequence[int | None] | None = None,
) -> tuple[AnswerRecord, ...]:
  """Returns records in this order, with the numbers of their events."""
  records = database.fetch_records(index.connection, rows)
  events = events or [None] * len(records)
  return tuple(
    record_answers.make_answer_record(
      index, record, RankedRecord(record.row, 0.0), rank, event=event
    )
    for rank, (record, event) in enumerate(
      zip(records, events, strict=True), start=1
    )
  )


def answer_rows(
  index: IndexFolder,
  name: str,
  rows: Sequence[int],
  events: Sequence[int | None] | None = None,
  num_matches: int | None = None,
) -> Answer:
  """Returns chosen records, such as those of a page, as an answer.

  Args:
    name: what they are, such as a month.
    num_matches: how many there are, with those left out.
  """
  counts = matches.count_records(index, index.works)
  return _make_answer(
    index,
    Question(name, TIME),
    results=describe_rows(index, rows, events),
    counts=counts | {"matches": num_matches or len(rows)},
    sort=matches.TIME_ORDER,
  )


def rank_records(
  index: IndexFolder, question: Question, k: int
) -> list[RankedRecord]:
  """Returns the k best records for a question, also beyond its time."""
  works = matches.find_works(index, None, question.works)
  if not matches.list_words(question):
    ranked, _ = matches.rank_time(index, question, works)
    return ranked.best(k).records()
  query = matches.make_time_query(index, question)
  search = functools.partial(
    ranking.search_words, index.connection, question.words, k, works
  )
  scores = search()
  if query is not None:
    # Records of the time are found even if many others have the words.
    scores = search(months=query.hull) | scores
  near = matches.find_near(index, question, works, None)
  ranked = matches.rank_words(index, question, scores, works, None, near)
  return ranked.best(k).records()


def _make_answer(
  index: IndexFolder,
  question: Question,
  results: tuple = (),
  readings: tuple[Reading, ...] = (),
  dates: PassageDate | None = None,
  notes: Sequence[Note] = (),
  counts: Mapping[str, int] | None = None,
  sort: str = matches.RELEVANCE,
  next_offset: int | None = None,
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
  return ShownAnswer(
    question=question.text,
    intent=question.intent,
    understood=understood,
    results=results,
    dates=dates,
    counts=dict(counts or matches.count_records(index, index.works)),
    sort=sort,
    next_offset=next_offset,
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
