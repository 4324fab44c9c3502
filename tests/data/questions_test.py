"""Queries of the data sets, asked of an index: the months of the benchmark."""

import os
import pathlib

import pytest

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.index.question_calendar import TIME
from ctd_jax.index.question_reading import QuestionReader
from ctd_jax_datasets import build, load

SOURCES = os.environ.get("CTD_JAX_SOURCES")


def check_questions(benchmark: Benchmark) -> None:
  """Checks that every query asks for its months and for no words."""
  timeline = benchmark.timeline
  calendar = calendar_lib.make_calendar(timeline)
  lunations = calendar_lib.map_time_keys(timeline, calendar)
  reader = QuestionReader(calendar)
  for queries in benchmark.queries.values():
    for query in queries:
      question = reader.read(query.text)
      first, last = timeline.interval_ordinals(query.interval)
      (span,) = question.intervals
      assert (span.first, span.last) == (lunations[first], lunations[last]), (
        query.text
      )
      assert (question.intent, question.words) == (TIME, ()), query.text


def test_queries_of_mini_ask_for_their_months(mini_benchmark):
  check_questions(mini_benchmark)


@pytest.mark.slow
@pytest.mark.skipif(not SOURCES, reason="CTD_JAX_SOURCES names no folder")
@pytest.mark.parametrize("name", ["chunqiutr/rebuilt", "zztj/rebuilt"])
def test_queries_of_rebuilt_data_sets_ask_for_their_months(name, tmp_path):
  build.build_dataset(name, tmp_path, sources=pathlib.Path(SOURCES))
  check_questions(load.load_benchmark(name, tmp_path))
