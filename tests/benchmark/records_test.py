"""Records: kinds are checked, months are collected by kind."""

import pytest

from ctd_jax.benchmark.benchmark import Record
from ctd_jax.chronology.reigns import TimeKey


def test_kinds_are_checked():
  with pytest.raises(ValueError, match="'comment'"):
    Record("r00000", "盟。", "chunqiu", "comment", TimeKey(1, 1, 1), 0)
