"""Records: kinds are checked, months are collected by kind."""

import pytest

from ctd_jax.benchmark.benchmark import Record, collect_months
from ctd_jax.chronology.reigns import TimeKey


def test_kinds_are_checked():
  with pytest.raises(ValueError, match="'comment'"):
    Record("r00000", "盟。", "chunqiu", "comment", TimeKey(1, 1, 1), 0)


def test_months_of_counts_one_kind():
  records = [
    Record("r00000", "盟。", "chunqiu", "event", TimeKey(1, 1, 1), 0),
    Record("r00001", "盟也", "du_yu", "neg_comment", TimeKey(1, 1, 2), 0),
  ]
  assert collect_months(records) == {TimeKey(1, 1, 1)}
