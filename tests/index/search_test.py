"""An index that is asked: rankings, readings, errors, nothing found."""

import dataclasses
import shutil
from concurrent import futures

import numpy as np
import pytest

import ctd_jax
from ctd_jax.dating import posterior, query_posterior
from ctd_jax.dating.chronicle import undated_texts
from ctd_jax.index import asking, ranking
from ctd_jax.index.asking import Index, SearchScope


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
  assert answer.counts == {"records": 9, "works": 2, "in_time": 4}
  assert answer.results[0].date.month["name"] == "魯隱公元年正月"
  assert answer.results[0].probability_asked == pytest.approx(1)


def test_uncertain_records_are_ranked_by_their_mass(index):
  answer = index.ask("魯隱公二年")
  # 5 is known to be of the year, 7 with .9 and 8 with .7.
  assert rows_of(answer) == [5, 7, 8]
  masses = [record.probability_asked for record in answer.results]
  assert masses == pytest.approx([1, 0.9, 0.7], abs=0.02)


def test_pages_go_on_where_the_one_before_ended(index):
  for text in ("魯隱公", "日食", "魯隱公年間的人"):
    question = index.question_reader.read(text)
    whole = rows_of(asking.find_records(index, question, SearchScope()))
    for k in (1, 2):
      pages = [
        asking.find_records(index, question, SearchScope(k=k, skip=skip))
        for skip in range(0, 10, k)
      ]
      rows = [row for page in pages for row in rows_of(page)]
      assert rows == whole[: len(rows)]
      ranks = [record.rank for page in pages for record in page.results]
      assert ranks == list(range(1, len(rows) + 1))


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
    ranked = ranking.rank_by_time(
      [index.posteriors_of(work) for work in index.works], query, 20
    )
    expected = posterior.interval_log_mass(log_p, spans)[0] + np.maximum(
      np.concatenate(scores), query_posterior.MIN_EVENT_LOG_P
    )
    by_row = {item.row: item.score for item in ranked}
    np.testing.assert_allclose(
      [by_row[row + 1] for row in range(len(expected))], expected, atol=1e-3
    )


def test_words_are_found_also_apart_and_in_a_time(index):
  assert rows_of(index.ask("日食"))[0] == 9  # 日食 as it is
  assert set(rows_of(index.ask("日食"))) == {6, 9}  # 日有食之
  assert index.ask("日食").results[0].highlights == ((0, 2),)
  in_time = index.ask("隱公三年日食")
  assert in_time.understood.intervals
  assert set(rows_of(in_time)) == {6, 9}
  elsewhere = index.ask("隱公元年日食")
  assert not elsewhere.results
  assert "from other times contain 日食" in " ".join(map(str, elsewhere.notes))


def test_day_is_of_the_records_that_print_it_first(index):
  answer = index.ask("隱公三年己巳")
  assert answer.understood.day == "己巳"
  assert rows_of(answer)[0] == 6
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
