"""Reading twice the text takes about twice the time, whatever the text is."""

import pytest

from ctd_jax.index.asking import Index
from tests.benchmarks import growth
from tests.web import annals_index

# Some of those of `tests.benchmarks.growth`.
UNITS = {
  "sections": ("正月", "、"),
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
  """Returns an index of short annals."""
  folder = tmp_path_factory.mktemp("annals")
  return Index.open(annals_index.build_index(folder, use_passages=False))


@pytest.mark.parametrize("name", UNITS)
def test_time_grows_no_faster_than_the_text(name, index, tmp_path):
  read = growth.list_readers(index, tmp_path)[name]
  read("春王正月，")
  for unit in UNITS[name]:
    shorter, longer = growth.measure(read, unit, 4_000)
    assert longer <= growth.MAX_RATIO * shorter, unit
