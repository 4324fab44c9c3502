"""Evidence packs: a question with records, prompts about it, scores of answers.

To answer from retrieved records, a model has to tell the right month from the
next one. Besides the answers, a pack has records that a retriever confuses with
them: of neighbouring months, of the same month in other years, placeholders and
commentary. Citations are read from marks such as [3] and say on which records
an answer rests; whether it covers their content is measured by their wording,
or judged by a model.

Axes: N records, sorted by id.

Source: ChunQiuTR, appendix B.2.5 (the two tasks; the wording of prompts is
ours).
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int

from ctd_jax.benchmark.benchmark import (
  EVENT,
  NEG_COMMENT,
  NO_EVENT,
  Benchmark,
  Query,
)
from ctd_jax.chronology import dates
from ctd_jax.evaluation import significance
from ctd_jax.retrieval import bm25
from ctd_jax.tasks import chat
from ctd_jax.tasks.chat import Conversation
from ctd_jax_datasets import load

NEAR_MONTH, SAME_MONTH = "near month", "same month of another year"
PLACEHOLDER, COMMENTARY = "placeholder", "commentary"
ANSWER_ROLE = "answer"
CONFUSABLE_ROLES = (NEAR_MONTH, SAME_MONTH, PLACEHOLDER, COMMENTARY)
_NEAR_LIMIT_MONTHS = 12  # a record farther away has another year


@dataclasses.dataclass(frozen=True)
class PackItem:
  """Record in a pack."""

  record_id: str  # id of the record
  date: str  # month as a chronicle writes it
  text: str  # text of the record
  role: str  # `ANSWER_ROLE` or one of `CONFUSABLE_ROLES`


@dataclasses.dataclass(frozen=True)
class Pack:
  """Question with the evidence to answer it from."""

  question_id: str  # id of the query
  question: str  # text of the query
  items: tuple[PackItem, ...]  # records in the order of their numbers, from 1
  all_answers: int  # number of records that answer, in the pack or not

  @property
  def answers(self) -> tuple[int, ...]:
    """Numbers of the answering items, from 1."""
    return tuple(
      n for n, i in enumerate(self.items, 1) if i.role == ANSWER_ROLE
    )


def make_packs(
  benchmark: Benchmark,
  queries: Sequence[Query],
  max_answers: int = 6,
  max_confusable: int = 6,
  seed: int = 0,
) -> list[Pack]:
  """Returns a pack for every query.

  Args:
    max_answers: maximal number of answering records; a sample if there are
      more.
    max_confusable: number of other records, the roles in turn, the nearest
      first.
    seed: seed of draws and order, together with the query's id.
  """
  records = {record.record_id: record for record in benchmark.records}
  keys = [record.key for record in benchmark.records]
  ordinals = np.array([benchmark.timeline.ordinal(key) for key in keys])
  months = np.array([key.month for key in keys])
  packs = []
  for query in queries:
    # One generator for each query: a pack does not depend on the others.
    rng = random.Random(f"{seed}:{query.query_id}")
    positive_ids = sorted(query.positives)
    if len(positive_ids) > max_answers:
      positive_ids = rng.sample(positive_ids, max_answers)
    labeled_records = [(records[name], ANSWER_ROLE) for name in positive_ids]
    labeled_records += [
      (benchmark.records[row], role)
      for row, role in _find_confusable(
        benchmark, query, ordinals, months, max_confusable
      )
    ]
    rng.shuffle(labeled_records)
    items = tuple(
      PackItem(
        record.record_id,
        dates.format_key(record.key, benchmark.timeline),
        record.text,
        role,
      )
      for record, role in labeled_records
    )
    packs.append(Pack(query.query_id, query.text, items, len(query.positives)))
  return packs


def _find_confusable(
  benchmark: Benchmark,
  query: Query,
  ordinals: Int[np.ndarray, " N"],
  months: Int[np.ndarray, " N"],
  count: int,
) -> list[tuple[int, str]]:
  """Returns (row, role) of confusable records, the nearest ones first."""
  timeline, kinds = benchmark.timeline, benchmark.kinds
  start, end = timeline.interval_ordinals(query.interval)
  # Months; 0 inside the interval.
  distances = np.maximum(0, np.maximum(start - ordinals, ordinals - end))
  query_months = [key.month for key in timeline.iterate_keys(query.interval)]
  is_outside_event = (kinds == EVENT) & (distances > 0)
  pools = {
    NEAR_MONTH: is_outside_event & (distances < _NEAR_LIMIT_MONTHS),
    SAME_MONTH: is_outside_event
    & (distances >= _NEAR_LIMIT_MONTHS)
    & np.isin(months, query_months),
    PLACEHOLDER: (kinds == NO_EVENT) & (distances > 0),
    COMMENTARY: kinds == NEG_COMMENT,
  }
  ranked = []
  for number, role in enumerate(CONFUSABLE_ROLES):
    rows = np.flatnonzero(pools[role])
    # Stable: of equal distances the smaller id comes first.
    nearest = rows[np.argsort(distances[rows], kind="stable")[:count]]
    ranked += [(rank, number, row) for rank, row in enumerate(nearest.tolist())]
  # After the nearest of each role the second nearest, and so on.
  ranked.sort()
  return [(row, CONFUSABLE_ROLES[number]) for _, number, row in ranked[:count]]


def load_packs(
  dataset: str,
  data_dir: str | None,
  split: str,
  answers: int,
  confusable: int,
  seed: int,
) -> tuple[str, list[Pack], dict[str, tuple[int, int]]]:
  """Returns a data set's name, its packs, and query id -> (reign, year).

  Args:
    dataset: data set, or beir:FOLDER; the other arguments as in `make_packs`.
  """
  benchmark = load.build_benchmark(dataset, data_dir, None)
  if not benchmark.queries.get(split):
    raise ValueError(f"--split={split}: {benchmark.name} has no query")
  queries = chat.interleave(
    benchmark.queries[split], lambda query: query.family, seed
  )
  packs = make_packs(benchmark, queries, answers, confusable, seed)
  return benchmark.name, packs, significance.find_query_years(benchmark, split)


_ANSWER_INSTRUCTION = (
  "你研讀編年史書。請只根據所附史料回答問題：問題問的是哪些月份，就只用那些月份的記載，"
  "其他年月的記載即使相似也不可採用；注疏之語不算當時的記載。逐條陳述，"
  "每條末尾用方括號註明所據史料的編號，如[3]；無事可記則說明無事，並註明所據。"
)
_UNDATED_NOTE = "史料未標年月，請自行判斷。"
_JUDGING_INSTRUCTION = (
  "你是閱卷人。下面有一個問題、一份作答和若干條應當說到的史料。逐條判斷作答是否說出了"
  "該條史料的要點，措辭可以不同，事實不可相違。只輸出一個JSON對象，鍵為史料的編號，"
  "值為1（說到）或0（未說到）。"
)


def make_answer_prompt(pack: Pack, with_dates: bool = True) -> Conversation:
  """Returns the conversation that asks for an answer with citations.

  Args:
    pack: question and evidence; the prompt does not have the roles.
    with_dates: whether the prompt has the month of each record.
  """
  lines = [
    f"[{number}] {f'（{item.date}）' if with_dates else ''}{item.text}"
    for number, item in enumerate(pack.items, start=1)
  ]
  instruction = (
    _ANSWER_INSTRUCTION if with_dates else _ANSWER_INSTRUCTION + _UNDATED_NOTE
  )
  text = "\n".join(["史料：", *lines, "", f"問題：{pack.question}"])
  return instruction, text


def make_judging_prompt(pack: Pack, reply: str) -> Conversation:
  """Returns the conversation that asks which records a reply covers."""
  lines = [f"[{n}] {pack.items[n - 1].text}" for n in pack.answers]
  text = "\n".join(
    [f"問題：{pack.question}", f"作答：{reply}", "應當說到的史料：", *lines]
  )
  return _JUDGING_INSTRUCTION, text


# Half and full width, also several numbers in one mark.
_CITATION_PATTERN = re.compile(r"[\[［【]([\d,，、\s]+)[\]］】]")
# A mark may follow the full stop: 「宋人來盟。[2]」.
_STATEMENT_END_PATTERN = re.compile(r"[。！？；]+(?![\[［【])")
MEASURES = (
  "citation_precision",
  "citation_recall",
  "supported",
  "coverage",
  "judged_coverage",
)


def parse_citations(reply: str, num_items: int) -> tuple[list[int], int]:
  """Returns the cited numbers, each once, and the count of invalid ones.

  Args:
    num_items: size of the pack; a number beyond it is invalid.
  """
  numbers = [
    int(number)
    for marks in _CITATION_PATTERN.findall(reply)
    for number in re.findall(r"\d+", marks)
  ]
  valid_numbers = [number for number in numbers if 1 <= number <= num_items]
  return list(dict.fromkeys(valid_numbers)), len(numbers) - len(valid_numbers)


def score_answer(pack: Pack, reply: str) -> dict[str, float]:
  """Returns the measures of an answer, each from 0 to 1.

  - `citation_precision`: share of the cited records that answer, 0 if none is
    cited; an invalid number counts as a wrong record.
  - `citation_recall`: share of the answering records that are cited.
  - `supported`: share of the statements that cite an answering record; a mark
    belongs to all statements before it in its line.
  - `coverage`: mean share of the character bigrams of an answering record that
    occur in the reply.
  """
  numbers, num_invalid = parse_citations(reply, len(pack.items))
  cited_answers = set(pack.answers).intersection(numbers)
  return {
    "citation_precision": len(cited_answers)
    / max(1, len(numbers) + num_invalid),
    "citation_recall": len(cited_answers) / max(1, len(pack.answers)),
    "supported": _supported_share(pack, reply),
    "coverage": _mean_coverage(pack, reply),
  }


def count_wrong_citations(pack: Pack, reply: str) -> dict[str, int]:
  """Returns role of a confusable record -> number of cited ones."""
  numbers, _ = parse_citations(reply, len(pack.items))
  roles = [pack.items[number - 1].role for number in numbers]
  return {role: roles.count(role) for role in CONFUSABLE_ROLES}


def parse_verdict(reply: str, pack: Pack) -> dict[int, bool]:
  """Returns number of an answering record -> whether the answer covers it.

  Raises:
    ValueError: if the reply has no JSON with 0 or 1 for each number.
  """
  start, end = reply.find("{"), reply.rfind("}")
  try:
    data = json.loads(reply[start : end + 1])
    verdict = {number: data[str(number)] for number in pack.answers}
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(f"no verdict in {reply!r}: {error}") from None
  for number, value in verdict.items():
    if value not in (0, 1):
      raise ValueError(f"verdict on [{number}] is {value!r}, not 0 or 1")
  return {number: bool(value) for number, value in verdict.items()}


def _supported_share(pack: Pack, reply: str) -> float:
  """Returns the share of statements that cite an answering record."""
  answer_numbers = set(pack.answers)
  is_supported = []
  for line in reply.splitlines():
    marks: list[int] = []
    # Backwards: a mark belongs to the statements before it in its line.
    for statement in reversed(_STATEMENT_END_PATTERN.split(line)):
      marks = (
        parse_citations(statement, len(pack.items))[0]
        if _CITATION_PATTERN.search(statement)
        else marks
      )
      if _extract_bigrams(_CITATION_PATTERN.sub("", statement)):
        is_supported.append(not answer_numbers.isdisjoint(marks))
  return sum(is_supported) / max(1, len(is_supported))


def _mean_coverage(pack: Pack, reply: str) -> float:
  """Returns the mean share of a record's bigrams that the reply has."""
  # Characters and bigrams, so that records of one character count, too.
  reply_tokens = set(bm25.tokenize_bigrams(reply))
  shares = []
  for number in pack.answers:
    record_bigrams = _extract_bigrams(pack.items[number - 1].text)
    shares.append(
      len(record_bigrams & reply_tokens) / max(1, len(record_bigrams))
    )
  return sum(shares) / max(1, len(shares))


def _extract_bigrams(text: str) -> set[str]:
  """Returns the bigrams of a text, or its only character."""
  tokens = bm25.tokenize_bigrams(text)
  return {token for token in tokens if len(token) == min(2, len(tokens))}


def quote_all(pack: Pack) -> str:
  """Returns the answer that quotes and cites all records, a lower bound."""
  return "\n".join(
    f"{item.text}[{number}]" for number, item in enumerate(pack.items, start=1)
  )


def quote_answers(pack: Pack) -> str:
  """Returns the answer that quotes the answering records, an upper bound."""
  return "\n".join(
    f"{pack.items[number - 1].text}[{number}]" for number in pack.answers
  )


def average_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
  """Returns the mean of every measure over the answers that have it."""
  mean_scores = {}
  for name in MEASURES:
    values = [measures[name] for measures in scores if name in measures]
    if values:
      mean_scores[name] = sum(values) / len(values)
  return mean_scores
