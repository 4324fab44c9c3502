"""The 52 templates, their intervals, and the draw of queries."""

import collections
import random

import pytest

from ctd_jax.benchmark import generation
from ctd_jax.benchmark.benchmark import Record
from ctd_jax.chronology import reigns
from ctd_jax.chronology.questions import parse_interval
from ctd_jax.chronology.reigns import Interval, Reign, TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import base_texts

LU = reigns.load_timeline("lu_release")
MINI = reigns.load_timeline("mini")
BY_INDEX = {template.index: template for template in generation.TEMPLATES}


def ask(index, anchor, timeline=LU):
  template = BY_INDEX[index]
  interval = template.resolve_interval(timeline, TimeKey(*anchor))
  text = template.format_question(timeline, TimeKey(*anchor), interval)
  return text, str(interval)


def gallery(timeline, seed=0, busy=0.5):
  """One placeholder or one to nine events a month, and a comment each."""
  draw = random.Random(seed)
  rows = []
  for key in timeline.months:
    if draw.random() < busy:
      rows += [("event", key)] * draw.randint(1, 9)
    else:
      rows.append(("no_event", key))
    rows.append(("neg_comment", key))
  return [
    Record(f"r{number:05d}", "文", "made", kind, key, number)
    for number, (kind, key) in enumerate(rows)
  ]


def test_templates_have_the_published_groups_and_numbers():
  assert list(BY_INDEX) == list(range(1, 53))
  spans = collections.defaultdict(list)
  for template in generation.TEMPLATES:
    spans[template.group, template.family].append(template.index)
  assert {key: (rows[0], rows[-1]) for key, rows in spans.items()} == {
    ("BASE_CONTENT", "point"): (1, 12),
    ("BASE_EXISTENCE", "point"): (13, 20),
    ("MONTH_PAST", "window"): (21, 26),
    ("MONTH_FUTURE", "window"): (27, 31),
    ("MONTH_AROUND", "window"): (32, 36),
    ("MONTH_RANGE", "window"): (37, 41),
    ("YEAR_CURRENT", "window"): (42, 46),
    ("YEAR_PAST", "window"): (47, 49),
    ("YEAR_FUTURE", "window"): (50, 52),
  }


def test_printed_queries_come_out_verbatim():
  assert ask(1, (8, 6, 2)) == ("魯成公六年二月，魯國有何記事？", "8-6-2..8-6-2")
  assert ask(21, (8, 7, 1)) == (
    "請檢索魯成公七年正月之前半年內，《春秋》中所有相關記事。",
    "8-6-7..8-6-12",
  )


@pytest.mark.parametrize(
  ("index", "anchor", "interval"),
  [
    (22, (2, 1, 2), "1-11-11..2-1-1"),  # three months back over an accession
    (26, (1, 3, 5), "1-2-5..1-3-4"),
    (27, (1, 1, 1), "1-1-2..1-1-7"),
    (32, (5, 1, 1), "4-2-12..5-1-2"),
    (34, (3, 4, 6), "3-4-3..3-4-9"),
    (37, (6, 2, 11), "6-2-11..6-3-1"),
    (42, (4, 2, 5), "4-2-1..4-2-12"),
    (47, (6, 1, 1), "5-32-1..5-32-12"),  # the map ends 僖公 at year 32
    (49, (2, 2, 1), "1-11-1..2-1-12"),
    (50, (4, 2, 1), "5-1-1..5-1-12"),
    (52, (4, 1, 1), "4-2-1..5-1-12"),
    # Clipped at the ends of the timeline.
    (21, (1, 1, 4), "1-1-1..1-1-3"),
    (34, (12, 26, 11), "12-26-8..12-26-12"),
    (49, (1, 2, 1), "1-1-1..1-1-12"),
    (52, (12, 25, 1), "12-26-1..12-26-12"),
    # Nothing, or one month, is left; or the second date does not exist.
    (21, (1, 1, 1), "None"),
    (23, (1, 1, 2), "None"),
    (28, (12, 26, 12), "None"),
    (37, (12, 26, 11), "None"),
    (47, (1, 1, 1), "None"),
    (50, (12, 26, 1), "None"),
  ],
)
def test_interval(index, anchor, interval):
  resolved = BY_INDEX[index].resolve_interval(LU, TimeKey(*anchor))
  assert str(resolved) == interval


def test_whole_years_and_month_counts_include_leap_months():
  timeline = Timeline(
    "leap", (Reign("甲公", "滄", -100, 3),), frozenset({(1, 2, 12)})
  )
  year = BY_INDEX[50].resolve_interval(timeline, TimeKey(1, 1, 1))
  assert str(year) == "1-2-1..1-2-12L"
  past = BY_INDEX[23].resolve_interval(timeline, TimeKey(1, 3, 1))
  assert str(past) == "1-2-12..1-2-12L"


def test_every_question_names_its_time_in_full_and_differs_from_all_others():
  texts = [
    query.text for query in generation.generate_candidates(MINI, "《滄史》")
  ]
  assert len(set(texts)) == len(texts)
  names = tuple(MINI.full_reign_name(reign) for reign in range(1, 5))
  assert all(any(name in text for name in names) for text in texts)
  assert not any("春秋" in text or "魯" in text for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("timeline", [MINI, LU], ids=["mini", "lu_release"])
def test_the_text_says_the_interval(timeline):
  every = list(generation.generate_candidates(timeline))
  for query in every if timeline is MINI else every[::11]:
    assert parse_interval(query.text, timeline) == query.interval, query


@pytest.fixture(scope="module")
def official():
  records, split_of = gallery(LU), base_texts.official_splits(LU)
  drawn = generation.generate_queries(
    LU, split_of, records, quotas=generation.OFFICIAL_QUOTAS
  )
  return records, split_of, drawn


@pytest.mark.slow
def test_official_sizes(official):
  records, _, drawn = official
  assert {s: len(rows) for s, rows in drawn.items()} == {
    "train": 13053,
    "validation": 1520,
    "test": 1653,
  }
  events = {record.key for record in records if record.kind == "event"}
  test = drawn["test"]
  points = [query for query in test if query.family == "point"]
  assert sum(query.interval.start in events for query in points) == 507
  assert len(points) == 961
  groups = collections.Counter(query.group for query in test)
  assert set(groups) == {template.group for template in generation.TEMPLATES}
  assert min(groups.values()) >= generation.MIN_PER_GROUP
  ids = [query.query_id for rows in drawn.values() for query in rows]
  assert len(set(ids)) == 16226
  assert {i.split("-")[0] for i in ids} == {"point", "window"}


def test_windows_never_straddle_splits(official):
  _, split_of, drawn = official
  for split, rows in drawn.items():
    for query in rows:
      splits = {split_of[key] for key in LU.iterate_keys(query.interval)}
      assert splits == {split}


def test_positives_are_all_answers_and_no_comment(official):
  records, _, drawn = official
  answers = [record for record in records if record.kind != "neg_comment"]
  for query in drawn["test"][::20]:
    expected = {r.record_id for r in answers if r.key in query.interval}
    assert set(query.positives) == expected
    assert query.positives == tuple(sorted(expected))


def test_points_are_dealt_evenly(official):
  _, _, drawn = official
  events = {r.key for r in official[0] if r.kind == "event"}
  counts = {True: collections.Counter(), False: collections.Counter()}
  for query in drawn["validation"]:
    if query.family == "point":
      key = query.interval.start
      counts[key in events][key] += 1
  for counter in counts.values():
    assert max(counter.values()) - min(counter.values()) <= 1


@pytest.mark.slow
def test_draw_depends_on_the_seed_and_not_on_record_order():
  records = gallery(MINI)
  split_of = base_texts.block_splits(MINI)
  first = generation.generate_queries(MINI, split_of, records, seed=3)
  again = generation.generate_queries(MINI, split_of, records[::-1], seed=3)
  other = generation.generate_queries(MINI, split_of, records, seed=4)
  assert first == again
  assert first != other


@pytest.mark.slow
def test_quotas_scale_with_months_and_short_strata_give_all_they_have():
  records = gallery(MINI, busy=1.1)  # an event in every month
  split_of = base_texts.block_splits(MINI)
  drawn = generation.generate_queries(MINI, split_of, records)
  months = collections.Counter(split_of.values())
  for split, rows in drawn.items():
    families = collections.Counter(query.family for query in rows)
    assert families["point"] == 3 * months[split]
    assert families["window"] == round(2.2 * months[split])
  greedy = {"test": generation.Quota(10**6, 10**6, 0)}
  drawn = generation.generate_queries(MINI, split_of, records, quotas=greedy)
  assert len(drawn["test"]) == 20 * months["test"]


@pytest.mark.slow
def test_queries_without_an_answer_are_dropped():
  key = TimeKey(2, 3, 4)
  record = Record("r00000", "文", "made", "event", key, 0)
  split_of = dict.fromkeys(MINI.months, "train")
  quotas = {"train": generation.Quota(10**6, 10**6, 10**6)}
  drawn = generation.generate_queries(MINI, split_of, [record], quotas=quotas)
  assert drawn["train"]
  for query in drawn["train"]:
    assert query.positives == ("r00000",)
    assert query.interval.overlaps(Interval.single_month(key))


def test_quotas_of_an_unknown_split_are_refused():
  with pytest.raises(ValueError, match=r"\['val'\].*\['train'\]"):
    generation.generate_queries(
      MINI,
      dict.fromkeys(MINI.months, "train"),
      [],
      quotas={"val": generation.Quota(1, 1, 1)},
    )
