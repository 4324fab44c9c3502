"""Index: a corpus that answers questions about the time of its records.

  >>> import ctd_jax
  >>> index = ctd_jax.Index.open("annals.index")            # doctest: +SKIP
  >>> answer = index.ask("魯隱公元年五月", k=3)                # doctest: +SKIP
  >>> print(answer)                                         # doctest: +SKIP
  >>> [record.text for record in answer.results]            # doctest: +SKIP
  >>> index.date("五月，葬衛桓公。").dates.years[0].name        # doctest: +SKIP

An object keeps the state in which you opened it: after changing the index, open
it again.

Axes: Q questions, k results.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Float32, Int64

from ctd_jax.index import asking, database, record_answers
from ctd_jax.index.answers import Answer, AnswerRecord
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.question_calendar import PASSAGE
from ctd_jax.index.ranking import RankedRecord


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
    min_probability: float = asking.MIN_PROBABILITY,
    why: bool = False,
  ) -> Answer:
    """Returns the answer to a question.

    Args:
      question: a time, words, both, or a passage to date.
      works: names of the works to search; None for all.
      intent: time, words or passage; None decides by the question.
      kinds: of records, such as event; None for all but headings.
      min_probability: records less probably of the time are left out.
      why: whether to explain records that the model dated, some 30 ms each.

    Raises:
      FileNotFoundError: if you ask about a passage and the index was built
        without
        dating of passages.
      ValueError: if the question cannot be read; says what would be right.
    """
    if k < 1:
      raise ValueError(f"k={k}: expected 1 or more")
    parsed = asking.read_question(self, question, intent)
    if parsed.intent == PASSAGE:
      return asking.date_passage(self, parsed)
    scope = asking.SearchScope(
      k=k,
      works=works,
      kinds=kinds,
      min_probability=min_probability,
      why=why,
    )
    return asking.find_records(self, parsed, scope)

  def rank(
    self, questions: Sequence[str], k: int
  ) -> tuple[Int64[np.ndarray, "Q k"], Float32[np.ndarray, "Q k"]]:
    """Returns the rankings of many questions for a time or words.

    Returns:
      Rows of records, -1 where there are fewer; and scores, best first.
    """
    rows = np.full((len(questions), k), -1, np.int64)
    scores = np.full((len(questions), k), -np.inf, np.float32)
    for number, question in enumerate(questions):
      parsed = asking.read_question(self, question)
      ranked = asking.rank_records(self, parsed, k)[:k]
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
    ids = {
      record.row: record.record_id
      for record in database.fetch_records(self.connection, wanted)
    }
    return [
      [
        (ids[row], float(score))
        for row, score in zip(ranked_rows, ranked_scores, strict=True)
        if row >= 0
      ]
      for ranked_rows, ranked_scores in zip(rows.tolist(), scores, strict=True)
    ]
