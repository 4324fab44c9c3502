"""Questions in plain words about events: when was it, and what tells of it?

  python -m tests.benchmarks.natural_questions --data_dir=DIR
    [--split=validation] [--systems=bm25,dating-fitted] [--off=neural]
    [--rows=FILE]

A question is made of an event of the split: all that reads as a date is taken
out of its text, the first four to twelve characters of a clause are left, and a
template asks for their time, 「葬衛桓公在何時？」. Five groups:

  plain     the characters as printed
  recalled  one of them forgotten, as people remember a text
  reign     besides, the reign is named, 「隱公時，…」
  season    the season, 「…在哪一年的夏天？」
  month     the month, 「五月，…，在哪一年？」

Events and placeholders of the event's month are right: all of them (`all`), or
only those that do not print the characters, with the others taken out of the
ranking (`others`). Of systems that date queries the likeliest month
and year are compared too (`month`, `year`), and -log p of the right month is
given (`nll`). Intervals resample years. Labels of the split only score.
"""

import argparse
import dataclasses
import itertools
import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ctd_jax.benchmark import benchmark as benchmark_lib
from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import EVENT, Benchmark, Query, Record
from ctd_jax.chronology import dates, questions
from ctd_jax.chronology.reigns import Interval
from ctd_jax.dating.corpus import MonthAxis
from ctd_jax.evaluation import protocol, results, significance
from ctd_jax.retrieval.host_search import TopK
from ctd_jax.systems import registry
from ctd_jax.training import config as training_config
from ctd_jax_datasets import load
from tests.benchmarks import dating, result_rows

_CLAUSE = re.compile("[\u3400-\u9fff]{4,}")
_MAX_CHARACTERS = 12
_MIN_RECALLED = 5  # characters of which one may be forgotten
TEMPLATES = {
  "plain": (
    "{phrase}在何時？",
    "{phrase}，何年何月？",
    "何時{phrase}？",
    "請問{phrase}發生在什麼時候？",
  ),
  "reign": ("{reign}時，{phrase}在何時？", "{reign}年間何時{phrase}？"),
  "season": (
    "{season}，{phrase}，在哪一年？",
    "{phrase}在哪一年的{season}天？",
  ),
  "month": ("{month}，{phrase}，在哪一年？", "{phrase}在哪一年的{month}？"),
}
TEMPLATES["recalled"] = TEMPLATES["plain"]
GROUPS = ("plain", "recalled", "reign", "season", "month")
MODES = ("all", "others")
MEASURES = ("hit@1",)
_MODE = protocol.get_mode(protocol.OFFICIAL_MODE)
_CUTOFF = 10
_MAX_QUESTIONS = 1000  # of a group
Values = dict[str, dict[str, float]]  # measure -> query id -> value


@dataclasses.dataclass(frozen=True)
class NaturalQuestion:
  """A question and what is right.

  Attributes:
    query: with the records of the month.
    phrase: that the question holds, as printed.
    month: ordinal.
  """

  query: Query
  phrase: str
  month: int


def draw_phrase(
  record: Record, benchmark: Benchmark, draw: np.random.Generator
) -> str | None:
  """Returns characters of one clause of an event, None without any."""
  text = dating.strip_dates(record.text, benchmark.timeline)
  clauses = _CLAUSE.findall(text)
  if not clauses:
    return None
  clause = clauses[int(draw.integers(len(clauses)))]
  length = int(draw.integers(4, min(len(clause), _MAX_CHARACTERS) + 1))
  return clause[:length]


def make_questions(
  benchmark: Benchmark, split: str, group: str, number: int
) -> Iterator[NaturalQuestion]:
  """Yields questions of one group.

  Args:
    benchmark: of whose events.
    split: whose events.
    group: of `GROUPS`.
    number: of questions at most.
  """
  timeline = benchmark.timeline
  positives = benchmark_lib.index_positives_by_month(benchmark.records)
  records = [
    record
    for record, record_split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
    if record_split == split and record.kind == EVENT
  ]
  # By the text, so that the choice does not depend on the order.
  records.sort(
    key=lambda record: (zlib.crc32(record.text.encode()), record.text)
  )
  drawn: set[tuple[str, int]] = set()
  for record in records:
    draw = np.random.default_rng(zlib.crc32(record.record_id.encode()))
    phrase = draw_phrase(record, benchmark, draw)
    month = timeline.ordinal(record.key)
    if phrase is None or (phrase, month) in drawn:
      continue
    if len(drawn) == number:
      return
    template = TEMPLATES[group][int(draw.integers(len(TEMPLATES[group])))]
    asked = phrase
    if group == "recalled":
      if len(phrase) < _MIN_RECALLED:
        continue
      gap = int(draw.integers(1, len(phrase) - 1))
      asked = phrase[:gap] + phrase[gap + 1 :]
    key = record.key
    text = template.format(
      phrase=asked,
      reign=timeline.reigns[key.reign - 1].name,
      season=dates.season_of_month(key.month),
      month=dates.format_key(key, timeline, "month"),
    )
    if questions.parse_query_interval(text, timeline) is not None:
      continue  # a date after all
    drawn.add((phrase, month))
    yield NaturalQuestion(
      Query(
        f"{group}-{len(drawn):05d}",
        text,
        benchmark_lib.POINT,
        group,
        Interval.single_month(key),
        tuple(positives[key]),
      ),
      phrase,
      month,
    )


def find_printing(
  benchmark: Benchmark, questions: Sequence[NaturalQuestion]
) -> list[set[str]]:
  """Returns the ids of the records that print the characters of questions."""
  return [
    {
      record.record_id
      for record in benchmark.records
      if question.phrase in record.text
    }
    for question in questions
  ]


def measure_rankings(
  benchmark: Benchmark,
  system: str,
  questions: Sequence[NaturalQuestion],
  printing: Sequence[set[str]],
  ranked: TopK,
) -> dict[str, Values]:
  """Returns mode -> values of the rankings of some questions.

  Args:
    benchmark: whose records.
    system: its name.
    questions: that were asked.
    printing: from `find_printing`.
    ranked: deep enough for what the mode `others` takes out.
  """
  kinds = {record.record_id: record.kind for record in benchmark.records}
  queries = [question.query for question in questions]
  (run,) = runs.make_runs(
    *(system, "T0", "natural", "validation"),
    [query.query_id for query in queries],
    benchmark.record_ids,
    ranked,
  )
  values = {}
  for mode in MODES:
    judged, rankings = queries, run.rankings
    if mode == "others":
      judged = [
        dataclasses.replace(
          query,
          positives=tuple(each for each in query.positives if each not in ids),
        )
        for query, ids in zip(queries, printing, strict=True)
      ]
      rankings = {
        query.query_id: [
          pair for pair in run.rankings[query.query_id] if pair[0] not in ids
        ]
        for query, ids in zip(queries, printing, strict=True)
      }
    rankings = {name: each[:_CUTOFF] for name, each in rankings.items()}
    table = protocol.evaluate_run(
      dataclasses.replace(run, rankings=rankings),
      judged,
      kinds,
      _MODE,
      MEASURES,
    )
    values[mode] = {name: dict(table.values[name]) for name in MEASURES}
  return values


def measure_dates(
  axis: MonthAxis, questions: Sequence[NaturalQuestion], log_p: np.ndarray
) -> Values:
  """Returns the values of the dates of questions, log p [Q, K]."""
  months = np.array([question.month for question in questions])
  by_measure = {
    "month": log_p.argmax(axis=1) == months,
    "year": axis.to_years(log_p).argmax(axis=1) == axis.year_of[months],
    "nll": -log_p[np.arange(len(months)), months],
  }
  ids = [question.query.query_id for question in questions]
  return {
    name: dict(zip(ids, map(float, values), strict=True))
    for name, values in by_measure.items()
  }


def select_group(values: Values, group: str) -> Values:
  """Returns the values of the questions of a group."""
  return {
    name: {
      query_id: value
      for query_id, value in of_measure.items()
      if query_id.startswith(f"{group}-")
    }
    for name, of_measure in values.items()
  }


def make_systems(
  benchmark: Benchmark, flags: argparse.Namespace
) -> dict[str, registry.System]:
  """Returns the systems of the flags."""
  config = training_config.base_config()
  config.eval.baselines = flags.systems
  config.dating = registry.default_section("dating")
  config.dating.off = flags.off
  return registry.make_systems(benchmark, config)


def measure_system(
  benchmark: Benchmark,
  name: str,
  system: registry.System,
  questions: Sequence[NaturalQuestion],
) -> dict[str, Values]:
  """Returns mode -> values of a system."""
  printing = find_printing(benchmark, questions)
  texts = [question.query.text for question in questions]
  gallery = {
    _MODE.gallery: protocol.gallery_mask(benchmark.kinds, _MODE.gallery)
  }
  depth = _CUTOFF + max(map(len, printing))
  ranked = system.search(texts, depth, gallery)
  values = measure_rankings(benchmark, name, questions, printing, ranked)
  if system.log_query_months:
    axis = MonthAxis.from_timeline(benchmark.timeline)
    log_p = system.log_query_months(texts)
    values["all"] |= measure_dates(axis, questions, log_p)
  return values


def make_rows(
  asked: registry.System,
  values: dict[str, Values],
  years: Mapping[str, tuple[int, int]],
  **about,
) -> list[results.ResultRow]:
  """Returns the rows of a system, with intervals by years.

  Args:
    asked: that gave the answers.
    values: mode -> its values.
    years: question id -> reign and year.
    **about: fields of all rows.
  """
  rows = []
  for mode, group in itertools.product(MODES, GROUPS):
    for metric, of_group in select_group(values[mode], group).items():
      if not of_group:
        continue
      low, high = significance.compute_bootstrap_interval(of_group, years)
      rows.append(
        results.ResultRow(
          track=asked.track,
          score_mode=asked.score_mode,
          mode=mode,
          family=group,
          metric=metric,
          value=float(np.mean(list(of_group.values()))),
          low=low,
          high=high,
          seeds=asked.seeds,
          **about,
        )
      )
  return rows


def read_flags() -> argparse.Namespace:
  """Returns the flags."""

  def read_names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))

  parser = result_rows.make_parser(__doc__)
  parser.add_argument(
    "--systems", type=read_names, default=("bm25", "dating-fitted")
  )
  parser.add_argument("--off", type=read_names, default=(), help="evidence")
  return parser.parse_args()


def main() -> None:
  """Reads the flags, measures and prints."""
  flags = read_flags()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  questions = [
    question
    for group in GROUPS
    for question in make_questions(
      benchmark, flags.split, group, _MAX_QUESTIONS
    )
  ]
  years = {
    question.query.query_id: question.query.interval.start.triple[:2]
    for question in questions
  }
  rows = []
  for name, system in make_systems(benchmark, flags).items():
    start = time.monotonic()
    values = measure_system(benchmark, name, system, questions)
    seconds = time.monotonic() - start
    of_system = make_rows(
      system,
      values,
      years,
      dataset=f"questions/{benchmark.name}",
      system=name,
      split=flags.split,
      **result_rows.describe_run("natural_questions", seconds),
    )
    result_rows.print_rows(of_system)
    rows += of_system
  result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
