"""Costs of large corpora: from measured rows, and on the page as from them."""

import pytest

from ctd_jax.evaluation import result_tables, results
from ctd_jax.evaluation.results import ResultRow
from tests.tools import corpus_costs


def make_rows(mode: str, system: str, **figures: float) -> list[ResultRow]:
  return [
    ResultRow(
      "cost/x", system, "1 core", "cost", "all", mode, "all", metric, value
    )
    for metric, value in figures.items()
  ]


def test_costs_are_those_of_the_largest_size():
  rows = [
    *make_rows("corpora", "local-1000", processor=30.0, disk=1.0),
    *make_rows("corpora", "local-3000", processor=36.0, disk=1.5),
    *make_rows("corpora", "DirectRunner-2-3000", processor=99.0, disk=2.0),
    *make_rows("shards", "build-2000", processor=7.2, disk=4.0),
    *make_rows("shards", "lance-2000", processor_ms=20.0),
  ]
  line = corpus_costs.format_table(rows).splitlines()[2]
  assert line == "| 10^6 | 3.3 | 500 | 1 | 2,000 | 10 |"
  with pytest.raises(ValueError, match="mode shards and system lance"):
    corpus_costs.format_table(rows[:-1])


def test_the_page_has_the_tables_of_the_rows():
  rows = results.read_result_rows(corpus_costs.ROWS)
  text = corpus_costs.PAGE.read_text(encoding="utf-8")
  assert result_tables.fill_tables(text, rows, corpus_costs.PAGE.name) == text
  table = corpus_costs.format_table(rows)
  assert corpus_costs.fill_page(text, table) == text
  with pytest.raises(ValueError, match="no lines <!-- costs -->"):
    corpus_costs.fill_page("", table)
