"""Invented eras, the second of which begins in the last year of the first."""

import pytest

from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import calendar

# 永熹二年 is 303 CE, 癸亥 (59).
ERAS = (
  "\t".join(reigns.TABLE_COLUMNS) + "\n安初\t滄\t300\t1\t3\t\tinvented\n"
  "永熹\t滄\t302\t6\t4\t永喜\tinvented\n"
)


@pytest.fixture(scope="session")
def eras(tmp_path_factory):
  """Calendar of the eras."""
  path = tmp_path_factory.mktemp("eras") / "table.tsv"
  path.write_text(ERAS, encoding="utf-8")
  return calendar.read_calendar(path)
