"""Reading twice the text takes about twice the time, whatever the text is."""

import random

import pytest

from ctd_jax.chronology import dates
from ctd_jax.index import passage_answers
from ctd_jax.index.asking import Index
from tests.benchmarks import growth
from tests.web import annals_index

# Some of those of `tests.benchmarks.growth`.
UNITS = {
  "clauses": ("元年", "丁已三月"),
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


def list_clauses_slowly(passage, index):
  """Returns the clauses of a passage, all the rest read again after a date."""
  clauses = []
  for match in passage_answers._CLAUSE.finditer(passage):
    clause = match[0]
    while cues := dates.find_date_cues(clause, index.calendar.timeline):
      if cues[0].start:
        break
      clause = clause[cues[0].end :]
    if 5 <= len(clause) <= 40:
      clauses.append(clause)
  return list(dict.fromkeys(clauses))[:12]


def test_clauses_lack_the_dates_at_their_start(index):
  draw = random.Random(1)
  parts = (
    "元年",
    "泰始二年",
    "正月",
    "丁已",
    "甲子",
    "三月而",
    "雨雹羣臣",
    "王",
  )
  parts += (
    "公會齊侯于某",
    "，",
    "。",
    "十",
    "春",
    "己未",
    "閏",
    "年",
    "二十八",
  )
  for _ in range(150):
    passage = "".join(draw.choices(parts, k=draw.randrange(40)))
    expected = list_clauses_slowly(passage, index)
    assert passage_answers.list_clauses(passage, index) == expected, passage
