"""The invented chronicle has the structure it claims."""

import collections
import itertools
import re

import pytest

from ctd_jax.benchmark import generation
from ctd_jax.chronology import reigns
from ctd_jax.chronology.annals import MonthScanner
from ctd_jax_datasets.chunqiutr import mini

TIMELINE = reigns.load_timeline("mini")
COMMENTARY = (mini.NOTES, mini.GLOSSES)
PERSON = re.compile(
  "(?:公子|東里|[仲叔季桑蓼蒯])[衍煦朔彌渠昀騫翟皋閎恂逵璞澄]"
)


@pytest.fixture(scope="module")
def records():
  return mini.generate_records(0)


def of(records, source):
  rows = [record for record in records if record.source == source]
  return sorted(rows, key=lambda record: record.order)


def test_same_seed_same_records(records):
  assert mini.generate_records(0) == records
  assert mini.generate_records(1) != records


@pytest.mark.parametrize("seed", range(5))
def test_size_and_empty_months_for_any_seed(seed):
  found = mini.generate_records(seed)
  assert 1200 <= len(found) <= 2000
  months = {record.key for record in found if record.kind == "event"}
  assert 0.4 <= len(months) / len(TIMELINE) <= 0.6
  assert {record.key for record in found} == months


def test_kinds_follow_sources(records):
  kinds = {(record.kind, record.source) for record in records}
  assert kinds == {
    *(("event", s) for s in (mini.ANNALS, mini.NARRATIVE, mini.DIALOGUE)),
    *(("neg_comment", source) for source in COMMENTARY),
  }


def test_ids_are_shuffled_and_orders_count_each_work(records):
  ids = [record.record_id for record in records]
  assert ids == [f"r{number:05d}" for number in range(len(records))]
  for source in {record.source for record in records}:
    rows = of(records, source)
    assert [record.order for record in rows] == list(range(len(rows)))
    keys = [record.key for record in rows]
    assert keys == sorted(keys)
  ordinals = [TIMELINE.ordinal(record.key) for record in records]
  steps = [abs(a - b) for a, b in itertools.pairwise(ordinals)]
  assert sum(steps) / len(steps) > len(TIMELINE) / 4  # a third if random


def test_scanning_the_annals_recovers_their_months(records):
  scanner = MonthScanner()
  for record in of(records, mini.ANNALS):
    if record.key.reign != scanner.reign:
      scanner.enter_reign(record.key.reign)
    assert scanner.read_entry_month(record.text) == record.key, record


def test_annals_often_omit_the_date(records):
  annals = of(records, mini.ANNALS)
  date = re.compile(
    "(?:.{1,4}年，)?[春夏秋冬]，|王?[正一二三四五六七八九十有]+月"
  )
  dated = sum(date.match(record.text) is not None for record in annals)
  assert 0.5 <= dated / len(annals) <= 0.8
  assert any(re.match("[春夏秋冬]，[^月]+$", r.text) for r in annals)


def test_commentaries_repeat_an_entry_of_their_month(records):
  entries = collections.defaultdict(set)
  for record in of(records, mini.ANNALS):
    entries[record.key].add(record.text.rstrip("。").split("，", 5)[-1])
  for source in (mini.NARRATIVE, mini.DIALOGUE):
    for record in of(records, source):
      assert any(entry in record.text for entry in entries[record.key])


def test_late_commentary_is_unpunctuated_and_quotes_dates(records):
  comments = [r.text for source in COMMENTARY for r in of(records, source)]
  assert not any(set(text) & set("，。：、；「」？！") for text in comments)
  quoting = sum(
    bool(re.match("[元一二三四五六七八九十有]*年?[春夏秋冬]", t))
    for t in comments
  )
  assert quoting > len(comments) / 4
  citing = re.compile("滄.公(?:元|[一二三四五六七八九十]+)年")
  assert sum(bool(citing.search(text)) for text in comments) > 20


def test_near_duplicates_stand_in_neighbouring_months(records):
  entries = collections.defaultdict(list)
  for record in of(records, mini.ANNALS):
    core = record.text.rstrip("。").split("，", 5)[-1]
    entries[re.sub("[復又]", "", core)].append(TIMELINE.ordinal(record.key))
  close = [
    core
    for core, months in entries.items()
    if any(0 < b - a <= 2 for a, b in itertools.pairwise(months))
  ]
  assert len(close) >= 10


def test_names_are_evidence_of_the_date(records):
  seen = collections.defaultdict(set)
  for record in of(records, mini.ANNALS):
    for name in PERSON.findall(record.text):
      seen[name].add(TIMELINE.ordinal(record.key))
  spells = [max(m) - min(m) for m in seen.values() if len(m) > 1]
  assert len(spells) > 10
  # An envoy of another state may bear the same name, hence the tolerance.
  short = sum(spell <= 110 for spell in spells)
  assert short / len(spells) > 0.6


@pytest.mark.slow
def test_every_split_can_be_asked(records):
  split_of = mini.make_splits()
  assert set(split_of) == set(TIMELINE.months)
  sizes = collections.Counter(split_of.values())
  assert sizes["train"] >= 0.7 * len(TIMELINE)
  assert sizes["validation"] == sizes["test"] == 48
  drawn = generation.generate_queries(
    TIMELINE, split_of, records, title=mini.TITLE
  )
  every = {template.group for template in generation.TEMPLATES}
  for rows in drawn.values():
    assert {query.group for query in rows} == every
  assert any(mini.TITLE in query.text for query in drawn["test"])
