"""Works of several tables in one index: one axis of days, each by its own."""

import shutil

import numpy as np
import pytest

from ctd_jax import Index
from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import calendar as calendar_lib
from ctd_jax.dating.chronicle import chronicle_input
from ctd_jax.index import index_check, manifest, redating, repair
from ctd_jax.index.building import source_calendars, sources
from tests.index import corpora
from tests.index.corpora import build_index

LU = """魯僖公二十八年
二十八年春正月，晉侯伐曹，曹人懼。
夏四月己巳，晉師與楚人戰於桐丘。
五月癸丑，公會晉侯盟於桐丘。
"""
JIN = """晉懷帝永嘉五年
五年春正月，石勒攻陷桐丘。
六月丁酉，劉曜入桐門。
秋七月，王彌與勒相猜。
"""


TABLES = {
  "xi": "僖公\t魯\t-658\t1\t33\t\tinvented",
  "huai": "永嘉\t晉懷帝\t307\t1\t7\t\tinvented",
}


@pytest.fixture(name="texts", scope="module")
def fixture_texts(tmp_path_factory):
  folder = tmp_path_factory.mktemp("texts")
  (folder / "lu.txt").write_text(LU, encoding="utf-8")
  (folder / "jin.txt").write_text(JIN, encoding="utf-8")
  corpora.write_beir(folder / "annals", corpora.list_dated_records(20))
  header = "\t".join(reigns.TABLE_COLUMNS)
  for name, row in TABLES.items():
    table = f"{header}\n{row}\n"
    (folder / f"{name}.tsv").write_text(table, encoding="utf-8")
  return folder


@pytest.fixture(name="mixed", scope="module")
def fixture_mixed(texts, tmp_path_factory):
  """Returns an index of two texts, whose tables are found by their reigns."""
  folder = tmp_path_factory.mktemp("mixed") / "index"
  build_index(folder, texts / "lu.txt", texts / "jin.txt", reigns="lu,tongjian")
  return folder


@pytest.mark.parametrize(
  "names",
  [("lu", "tongjian"), ("tongjian", "lu"), ("lu", "mini"), ("jin", "晉")],
)
def test_a_part_of_a_joined_calendar_is_the_calendar_itself(names):
  calendars = [chronicle_input.load_reigns(name) for name in names]
  joined, rows_of = calendar_lib.join_calendars(calendars, ",".join(names))
  for calendar, rows in zip(calendars, rows_of, strict=True):
    part = joined.select_reigns(rows)
    assert part.calendar.timeline.reigns == calendar.timeline.reigns
    for name in ("years", "months", "is_leap"):
      np.testing.assert_array_equal(
        getattr(part.calendar, name), getattr(calendar, name)
      )
    assert (part.calendar.day_spans is None) == (calendar.day_spans is None)
    month = len(calendar) // 2
    assert joined.find_days(part.months[month], rows) == calendar.find_days(
      month
    )
    assert (part.find_own(part.months) == np.arange(len(calendar) + 1)).all()
  leading = joined.readings.take(joined.readings.starts)
  assert (np.diff(np.mean(leading.bound_days(), 0)) > 0).all()


def test_joined_calendars_are_one_as_those_of_several_polities():
  for first, second in (("北宋", "遼"), ("北宋", "李"), ("唐", "ja")):
    joined, _ = calendar_lib.join_calendars(
      [chronicle_input.load_reigns(name) for name in (first, second)], "both"
    )
    native = chronicle_input.load_reigns(f"{first},{second}")
    assert len(joined) == len(native)
    assert len(joined.readings.years) == len(native.readings.years)


@pytest.mark.parametrize(
  ("question", "found"),
  [
    ("魯僖公二十八年四月", {"lu": "魯僖公二十八年四月"}),
    ("僖公二十八年四月己巳", {"lu": "魯僖公二十八年四月"}),
    ("632 BCE", {"lu": "魯僖公二十八年正月"}),
    ("永嘉五年六月", {"jin": "晉懷帝永嘉五年六月"}),
    ("永嘉五年六月丁酉", {"jin": "晉懷帝永嘉五年六月"}),
    ("311 CE", {"jin": "晉懷帝永嘉五年正月"}),
    (
      "632 BCE..311 CE",
      {"lu": "魯僖公二十八年正月", "jin": "晉懷帝永嘉五年正月"},
    ),
    ("桐丘", {"lu": "魯僖公二十八年四月", "jin": "晉懷帝永嘉五年正月"}),
  ],
)
def test_a_question_of_one_calendar_is_answered_by_all_works(
  mixed, question, found
):
  results = Index.open(mixed).ask(question, k=20).results
  names = {}
  for record in sorted(results, key=lambda record: record.row):
    names.setdefault(record.work, record.date.month["name"])
  assert names == found


def test_days_are_of_the_table_that_knows_them(mixed):
  index = Index.open(mixed)
  (jin,) = index.ask("永嘉五年六月").results
  assert jin.date.month["first_day"] == "0311-07-04"
  (lu,) = index.ask("魯僖公二十八年四月").results
  assert lu.date.month["first_day"] is None


def test_a_mixed_index_is_corrected_and_repaired(mixed, tmp_path):
  folder = shutil.copytree(mixed, tmp_path / "index")
  corpora.correct(folder, "jin", "4", "永嘉五年八月")
  redating.redate_index(folder)
  (record,) = Index.open(folder).ask("永嘉五年八月").results
  assert record.work == "jin"
  assert index_check.check_index(folder) == []
  for path in folder.glob("works/*/months.npy"):
    path.unlink()
  assert repair.repair_index(folder).problems == ()
  (again,) = Index.open(folder).ask("永嘉五年八月").results
  assert again.date == record.date


@pytest.mark.slow
def test_a_data_set_brings_its_own_table(texts, tmp_path):
  folder = tmp_path / "index"
  table = str(texts / "huai.tsv")
  build_index(folder, texts / "annals", texts / "jin.txt", reigns=table)
  assert manifest.read_manifest(folder).calendar["spec"] == f"{table},lu"
  index = Index.open(folder)
  works = {work.name: work for work in index.works}
  assert all(
    index.calendar.timeline.reigns[row].state == "魯"
    for row in works["annals/annals"].printed_reigns
  )
  assert index.ask("隱公元年正月").results[0].work == "annals/annals"
  assert index.ask("永嘉五年六月").results[0].work == "jin"
  # A table that it lacks is refused, with how to have it.
  with pytest.raises(ValueError, match="--reigns=.*huai.tsv,lu,wei --add="):
    build_index(folder, f"{texts / 'jin.txt'}:reigns=wei")


@pytest.mark.parametrize(
  ("reigns", "source", "message"),
  [
    ("jin,tongjian", "jin.txt", r"jin \(1\), tongjian \(1\).*:reigns=jin"),
    ("tongjian,CE:300-320", "jin.txt", "do not begin together"),
    ("tongjian", "jin.txt:reigns=jni", "no such file"),
  ],
)
def test_a_calendar_in_doubt_is_asked_for(
  texts, tmp_path, reigns, source, message
):
  with pytest.raises((ValueError, FileNotFoundError), match=message):
    build_index(tmp_path / "index", str(texts / source), reigns=reigns)


def test_each_text_may_name_its_table(texts, tmp_path):
  works = sources.make_request(
    tmp_path, f"{texts / 'jin.txt'}:reigns=tongjian+jin"
  ).read(tmp_path)
  chosen = source_calendars.choose_calendar(works, "lu,jin")
  assert [*chosen.tables] == ["lu", "jin", "tongjian"]
  rows = chosen.find_own(works[0])
  assert {*rows} == {*chosen.tables["jin"], *chosen.tables["tongjian"]}
