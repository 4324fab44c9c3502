"""An index that is asked: rankings, readings, errors, nothing found."""

import collections
import dataclasses
import shutil
from concurrent import futures

import numpy as np
import pytest

import ctd_jax
from ctd_jax.dating import posterior, query_posterior
from ctd_jax.dating.chronicle import undated_texts
from ctd_jax.index import matches, ranking
from ctd_jax.index.asking import Index
from tests.index import small_index


@pytest.fixture(name="index")
def fixture_index(index_folder):
  return Index.open(index_folder)


def rows_of(answer):
  return [record.row for record in answer.results]


def test_time_is_answered_with_the_records_of_its_months(index):
  answer = index.ask("魯隱公元年")
  assert answer.intent == "time"
  assert rows_of(answer) == [1, 2, 3, 4]  # no heading
  assert answer.understood.intervals[0].first == 0
  assert answer.understood.intervals[0].name == "魯隱公元年"
  assert answer.understood.common_era == ("722 BCE",)
  named = index.ask("722 BCE").understood.intervals[0].name
  assert named == "魯隱公元年正月 – 魯隱公元年十二月"
  assert answer.counts == {
    **{"records": 9, "works": 2, "in_time": 4, "matches": 4, "left_out": 1}
  }
  assert answer.results[0].date.month["name"] == "魯隱公元年正月"
  assert answer.results[0].probability_asked == pytest.approx(1)


def test_uncertain_records_are_ranked_by_their_mass(index):
  answer = index.ask("魯隱公二年", sort="relevance")
  # 5 is known to be of the year, 7 with .9 and 8 with .7.
  assert rows_of(answer) == [5, 7, 8]
  masses = [record.probability_asked for record in answer.results]
  assert masses == pytest.approx([1, 0.9, 0.7], abs=0.02)


def test_time_is_read_in_order_of_time_and_text(index):
  # By month; what is told before what is said about it; works side by side.
  assert rows_of(index.ask("722 BCE..720 BCE")) == [1, 2, 3, 4, 5, 8, 7, 6, 9]


# Text, kind, month. Invented; the second work has an eclipse a month late.
ECLIPSES = (
  ("三年春，二月，公如某。", "event", 25),
  ("己巳，日有食之。", "event", 25),
  ("癸酉，某侯卒。", "event", 25),
  ("秋七月壬辰朔，日有食之，既。", "event", 30),
  ("冬十月朔，日有食之。", "event", 33),
  ("三年春二月己巳，日有食之。何以書？記異也。", "event", 25),
  ("日有食之，陰侵陽也。", "neg_comment", 25),
  ("秋七月壬辰朔，日有食之，既。既者何？", "event", {30: 0.5, 29: 0.3}),
  ("十一月朔，日有食之。", "event", 34),
)


@pytest.fixture(name="eclipses", scope="module")
def fixture_eclipses(tmp_path_factory):
  folder = tmp_path_factory.mktemp("eclipses")
  small_index.write_index(folder, ECLIPSES, 5)
  return Index.open(folder)


def test_month_begins_with_its_first_event_on_any_page(eclipses):
  # By day, then by work; a record without a day stands where its work has it.
  expected = [1, 2, 6, 3, 7]
  rows = rows_of(eclipses.ask("隱公三年二月", k=20))
  assert rows == expected
  pages = [eclipses.ask("隱公三年二月", k=2, offset=it) for it in (0, 2, 4)]
  assert [row for page in pages for row in rows_of(page)] == expected


@pytest.mark.parametrize(
  ("days", "steady"),
  [
    ([0, 3, 0, 5], [False, True, False, True]),
    # A day that is printed wrongly does not move the record that opens a month.
    ([28, 11, 12, 13, 28, 0], [False, True, True, True, True, False]),
    ([4, 4, 1], [True, True, False]),
    ([], []),
  ],
)
def test_days_that_go_back_are_passed_over(days, steady):
  assert matches._find_steady(days) == steady


@pytest.mark.parametrize("sort", ["time", "relevance"])
def test_records_of_one_event_are_one_event(eclipses, sort):
  answer = eclipses.ask("日有食之", k=20, sort=sort, group="event")
  events = collections.defaultdict(set)
  for record in answer.results:
    events[record.event].add(record.row)
  groups = [*map(sorted, events.values())]
  assert [2, 6] in [group[:2] for group in groups]
  assert [4, 8] in groups
  assert [5] in groups  # the same words, in another month
  assert [9] in groups
  assert answer.counts["matches"] == 7
  assert answer.counts["events"] == len(groups)
  first = eclipses.ask("日有食之", k=1, sort=sort, group="event")
  assert rows_of(first) == groups[0]
  assert first.next_offset == 1


@pytest.mark.parametrize("text", ["722 BCE..720 BCE", "日食", "人"])
@pytest.mark.parametrize("sort", [None, "time", "relevance"])
@pytest.mark.parametrize("group", [None, "event"])
def test_pages_go_on_and_count_the_same(index, text, sort, group):
  options = {"near": True, "sort": sort, "group": group}
  whole = index.ask(text, k=100, **options)
  assert len(whole.results) == whole.counts["matches"]
  assert whole.next_offset is None
  for k in (1, 2):
    rows, offset = [], 0
    while offset is not None:
      page = index.ask(text, k=k, offset=offset, **options)
      assert page.counts == whole.counts
      rows += [(it.rank, it.row, it.event) for it in page.results]
      offset = page.next_offset
    assert rows == [(it.rank, it.row, it.event) for it in whole.results]


def test_threads_have_connections_of_their_own(index):
  with futures.ThreadPoolExecutor(2) as pool:
    other = pool.submit(lambda: index.connection).result()
    rows = pool.map(lambda _: rows_of(index.ask("魯隱公元年")), range(8))
  assert other is not index.connection
  assert index.connection is index.connection
  assert set(map(tuple, rows)) == {(1, 2, 3, 4)}


def test_ranking_is_that_of_the_dating_systems(index):
  axis = undated_texts.make_month_axis(index.calendar)
  blocks, scores = [], []
  for work in index.works:
    arrays = index.posteriors_of(work).arrays
    chances = np.stack([arrays.p_months(row) for row in range(len(arrays))])
    blocks.append(np.log(np.maximum(chances, np.exp(posterior.LOG_IMPOSSIBLE))))
    scores.append(arrays.event_log_p)
  log_p = np.concatenate(blocks)
  for spans in ([(0, 0)], [(12, 23)], [(0, len(axis) - 1)]):
    query = ranking.TimeQuery.make(spans)
    works = [index.posteriors_of(work) for work in index.works]
    ranked = ranking.rank_by_time(works, query).best(20).records()
    expected = posterior.interval_log_mass(log_p, spans)[0] + np.maximum(
      np.concatenate(scores), query_posterior.MIN_EVENT_LOG_P
    )
    by_row = {item.row: item.score for item in ranked}
    np.testing.assert_allclose(
      [by_row[row + 1] for row in range(len(expected))], expected, atol=1e-3
    )


def test_words_are_exact_or_near(index):
  answer = index.ask("日食")  # one record has 日食, another 日有食之
  assert rows_of(answer) == [9]
  assert {"exact": 1, "near": 1, "matches": 1}.items() <= answer.counts.items()
  assert answer.results[0].highlights == ((0, 2),)
  assert "--near" in str(answer)
  both = index.ask("日食", near=True)
  assert [(it.row, it.is_near) for it in both.results] == [
    (9, False),
    (6, True),
  ]
  assert both.counts == answer.counts | {"matches": 2}
  in_time = index.ask("隱公三年日食", near=True)
  assert in_time.understood.intervals
  assert rows_of(in_time) == [9, 6]
  elsewhere = index.ask("隱公元年日食")
  assert not elsewhere.results
  assert elsewhere.counts["left_out"] == 1
  assert "from other times contain 日食" in " ".join(map(str, elsewhere.notes))
  only_near = index.ask("食日")
  assert set(rows_of(only_near)) == {6, 9}
  assert only_near.counts["exact"] == 0
  assert "parts of it" in str(only_near)


def test_day_is_of_the_records_that_print_it_first(index):
  answer = index.ask("隱公三年己巳")
  assert answer.understood.day == "己巳"
  assert rows_of(answer)[0] == 6
  assert not answer.notes
  (note,) = index.ask("隱公三年二月甲子").notes
  assert "甲子" in str(note)
  with_day = index.ask("隱公三年二月己巳").counts["in_time"]
  assert with_day == index.ask("隱公三年二月").counts["in_time"] > 0
  of_any_month = index.ask("己巳日有食之")
  assert rows_of(of_any_month)[0] == 6
  assert "in_time" not in of_any_month.counts


def test_works_are_named_by_their_titles_as_well(index):
  annals, *others = index.works
  titled = dataclasses.replace(annals, title="春秋經")
  vars(index)["works"] = (titled, *others)
  answer = index.ask("日食", works=["春秋經", "annals"])
  assert answer.counts["works"] == 1
  assert index.ask("《春秋經》日食").counts["works"] == 1


def test_ambiguous_name_lists_what_it_may_mean(index):
  answer = index.ask("元年")
  names = [reading.name for reading in answer.understood.readings]
  assert "魯隱公元年" in names
  assert len(names) > 5
  assert answer.understood.readings[0].num_records == 4
  assert not answer.is_empty


def test_lists_come_in_order_of_time(eclipses):
  for question, options, sort in (
    ("日有食之", {}, "relevance"),
    ("日有食之", {"group": "event"}, "time"),
    ("所有日有食之的記載", {}, "time"),
    ("all 日有食之", {}, "time"),
    ("所有日有食之的記載", {"sort": "relevance"}, "relevance"),
  ):
    answer = eclipses.ask(question, k=20, **options)
    assert answer.sort == sort
    scored = [
      (
        round(-it.score, 2) if sort == "relevance" else 0,
        it.date.month["ordinal"],
      )
      for it in answer.results
    ]
    assert scored == sorted(scored)


def test_kinds_have_names_for_readers(eclipses):
  answer = eclipses.ask("日有食之", kinds=["commentary"])
  assert [record.kind for record in answer.results] == ["neg_comment"]
  assert "· commentary" in str(answer)
  assert "neg_comment" not in str(answer)


def test_rows_of_many_questions_are_those_of_each(index):
  rows, scores = index.rank(["魯隱公元年五月", "魯隱公二年四月"], 3)
  assert rows[:, 0].tolist() == [3, 5]
  assert (np.diff(scores, axis=1) <= 0).all()
  hits = index.search(["魯隱公元年五月"], 2)
  assert hits[0][0][0] == "annals-2"


def test_record_comes_with_date_and_reasons(index):
  record = index.record(7)
  assert record.date.probability == pytest.approx(0.6, abs=0.01)
  assert [span.first for span in record.date.credible_90] == [20]
  total = sum(reason["weight"] for reason in record.reasons)
  months = len(index.calendar)
  expected = np.log(0.6 / 0.4) + np.log(months)
  assert total == pytest.approx(expected, abs=0.05)
  with pytest.raises(IndexError, match="row 77: no such record"):
    index.record(77)


@pytest.mark.parametrize(
  ("question", "options", "message"),
  [
    ("", {}, "empty"),
    ("寶元元年", {}, "宋"),
    ("魯隱公元年", {"k": 0}, "k=0: expected 1 or more"),
    ("魯隱公元年", {"offset": -1}, "offset=-1: expected 0 or more"),
    ("魯隱公元年", {"sort": "date"}, "sort='date': expected one of time, rel"),
    ("魯隱公元年", {"group": "work"}, "group='work': expected one of event"),
    ("魯隱公元年", {"intent": "date"}, "expected one of time, words, passage"),
    ("魯隱公元年", {"works": ["anals"]}, "the nearest: annals"),
    ("魯隱公元年", {"kinds": ["evnt"]}, "the index has event, heading"),
  ],
)
def test_errors_are_one_line(index, question, options, message):
  with pytest.raises(ValueError, match=r".") as error:
    index.ask(question, **options)
  text = str(error.value)
  assert message in text
  assert len(text.splitlines()) == 1
  assert len(text) < 400


@pytest.mark.parametrize(
  "name",
  [
    "works/notes/months.npy",
    "works/notes/posting_records.npy",
    "calendar/timeline.json",
    "calendar/months.npz",
    "manifest.json",
  ],
)
def test_damaged_folders_are_refused(index_folder, tmp_path, name):
  folder = shutil.copytree(index_folder, tmp_path / "copy")
  path = folder / name
  path.write_bytes(path.read_bytes()[:50])
  with pytest.raises(ValueError, match=f"{path.name}: damaged"):
    Index.open(folder).ask("魯隱公元年")
  path.unlink()
  with pytest.raises((ValueError, FileNotFoundError), match="missing") as error:
    Index.open(folder).ask("魯隱公元年")
  assert name == "manifest.json" or f"--index={folder} --repair" in str(
    error.value
  )


def test_other_folders_are_refused(index_folder, tmp_path):
  with pytest.raises(FileNotFoundError, match="expected the folder of an inde"):
    ctd_jax.Index.open(tmp_path)
  folder = shutil.copytree(index_folder, tmp_path / "copy")
  path = folder / "manifest.json"
  path.write_text(path.read_text().replace('"format": 3', '"format": 7'))
  with pytest.raises(ValueError, match="format 7"):
    Index.open(folder)
