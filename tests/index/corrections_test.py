"""Store of corrections: what is kept, refused, undone, and by whom at once."""

import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent import futures

import numpy as np
import pytest

from ctd_jax.index.correction_dates import find_months
from ctd_jax.index.corrections import (
  CORRECTIONS_FILE,
  ConflictError,
  Correction,
  CorrectionStore,
  hash_texts,
)
from ctd_jax.index.database import DATABASE_FILE
from tests.index import small_index


@pytest.fixture(name="store")
def fixture_store(index_folder, tmp_path):
  shutil.copyfile(index_folder / DATABASE_FILE, tmp_path / DATABASE_FILE)
  return CorrectionStore(tmp_path)


def add(store, first="annals-1", last=None, **changes):
  values = {"work": "annals", "first_record": first}
  values |= {"last_record": last or first, "date": "隱公元年五月"}
  values |= {
    "note": "杜預",
    "name": "A",
    "texts_sha256": hash_texts(["text"], 0),
  }
  key = changes.pop("key", f"{first} {last}")
  return store.add(Correction(**values | changes), key)


@pytest.mark.parametrize(
  ("date", "months"),
  [
    ("685 BCE", (444, 456)),
    ("公元前685年", (444, 456)),
    ("685", (444, 456)),  # from here on as questions have it
    ("in 685 BCE", (444, 456)),
    ("685-680 BCE", (444, 516)),
    ("莊公九年五月至七月", (448, 451)),
    ("魯莊公九年春夏", (444, 450)),
    ("before 685 BCE", (0, 444)),
    ("0685-05", "did you mean 685 BCE"),
    ("685 CE", "did you mean 685 BCE"),
    ("1685 CE", "outside the calendar"),
    ("莊公九年?", "not a date"),
    ("莊公九年五月或六月", "not a date"),
    ("莊公初年", "not a date"),
    ("莊公九年 城濮", "not a date"),
    ("六月", "does not name a reign"),
  ],
)
def test_a_date_is_read_as_in_questions(date, months):
  calendar = small_index.load_calendar()
  if isinstance(months, str):
    with pytest.raises(ValueError, match=months):
      find_months(date, calendar)
    return
  found = np.flatnonzero(find_months(date, calendar))
  assert found.tolist() == [*range(*months)]


def test_reading_makes_no_file(store):
  assert store.active() == store.history() == []
  assert store.count() == store.version() == 0
  assert store.get(1) is None
  assert list(store.check()) == []
  assert not store.path.exists()


def test_a_correction_is_what_was_given(store):
  correction = add(store, date=" 隱公元年五月 ", note="一\n二")
  assert correction.date == "隱公元年五月"
  assert (correction.note, correction.name) == ("一\n二", "A")
  assert correction.made.endswith("+00:00")
  assert correction.undone is None
  again = CorrectionStore(store.path.parent)
  assert again.active("annals") == [correction] == again.history()
  assert again.get(correction.correction_id) == correction
  assert again.active("notes") == []


def test_durable_when_it_returns(store):
  add(store)
  connection = sqlite3.connect(store.path)
  assert [*connection.execute("PRAGMA journal_mode")] == [("wal",)]
  assert [*store._open().execute("PRAGMA synchronous")] == [(2,)]  # FULL


def test_names_and_notes_are_read_by_the_owner_alone(store):
  def list_files():
    return [*store.path.parent.glob("corrections*")]

  add(store)
  assert len(list_files()) >= 3  # with WAL and journal
  for path in list_files():
    assert not path.stat().st_mode & 0o077, path
    path.chmod(0o644)  # as earlier versions left them
  other = CorrectionStore(store.path.parent)
  other.undo(1, "", "undo")
  for path in list_files():
    assert not path.stat().st_mode & 0o077, path


def test_a_form_sent_twice_is_one_correction(store):
  first = add(store, key="form")
  assert add(store, key="form") == first
  assert store.count() == 1
  with pytest.raises(
    ConflictError, match="this form already made correction 1 of"
  ):
    add(store, key="form", date="隱公元年六月")
  undone = store.undo(first.correction_id, "B", "other form")
  assert store.undo(first.correction_id, "B", "other form") == undone
  assert undone.undone_by == "B"
  assert add(store, key="form") == undone  # no new one
  with pytest.raises(ConflictError, match="was undone by B at"):
    store.undo(first.correction_id, "C", "third form")


def test_version_rises_with_every_change(store):
  empty = store.version()
  first = add(store)
  assert empty < (added := store.version())
  store.undo(first.correction_id, "", "undo")
  assert added < store.version()


@pytest.mark.parametrize(
  ("first", "last"),
  [("annals-1", "annals-3"), ("annals-2", None), ("annals-0", "annals-5")],
)
def test_overlapping_is_refused_until_undone(store, first, last):
  other = add(store, "annals-1", "annals-3", name="")
  pattern = r"annals-1\.\.annals-3 is .*by somebody \(correction 1\)"
  with pytest.raises(ConflictError, match=pattern):
    add(store, first, last, key="second")
  assert store.count() == 1
  store.undo(other.correction_id, "", "undo")
  add(store, first, last, key="second")
  assert store.count() == 2
  assert store.count(only_active=True) == 1


def test_neighbours_do_not_overlap(store):
  add(store, "annals-1", "annals-3")
  add(store, "annals-0")
  add(store, "annals-4", "annals-5")
  add(store, "notes-0", work="notes")
  assert store.count(only_active=True) == 4
  assert store.count("annals") == 3


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"first_record": "annals-9"}, "annals has no record annals-9"),
    ({"work": "lost"}, "lost has no record annals-1"),
    ({"first_record": "annals-3"}, "annals-1 comes before annals-3"),
    ({"date": " "}, "date: empty"),
    ({"date": "隱公\t元年"}, "a control character"),
    ({"note": "x" * 10_001}, "note: 10,001 characters"),
    ({"name": "\ud800"}, "name"),
    ({"note": "\ud800"}, "note: .* is not valid Unicode"),
    ({"key": ""}, "key: empty"),
  ],
)
def test_what_is_wrong_is_named(store, changes, message):
  with pytest.raises(ValueError, match=message) as caught:
    add(store, **changes)
  assert not isinstance(caught.value, ConflictError)
  assert store.count() == 0


def test_no_index_no_file(tmp_path):
  with pytest.raises(FileNotFoundError, match="no index"):
    add(CorrectionStore(tmp_path))
  with pytest.raises(ValueError, match="there are no corrections"):
    CorrectionStore(tmp_path).undo(1, "", "undo")
  assert not list(tmp_path.iterdir())


def test_history_of_a_record_has_the_ranges_it_lies_in(store):
  wide = add(store, "annals-0", "annals-4")
  store.undo(wide.correction_id, "B", "undo")
  single = add(store, "annals-2")
  add(store, "annals-3")
  numbers = [row.correction_id for row in store.history("annals", "annals-2")]
  assert numbers == [single.correction_id, wide.correction_id]
  assert store.count("annals", "annals-2") == 2
  assert [row.correction_id for row in store.history(limit=1, offset=1)] == [2]
  assert store.history("annals", "annals-2", limit=1, offset=1)[0].undone
  with pytest.raises(ValueError, match="name its work"):
    store.history(record_id="annals-2")


def test_a_correction_outlives_its_record(store):
  add(store, "annals-1", "annals-3")
  with sqlite3.connect(store.path.parent / DATABASE_FILE) as connection:
    connection.execute("UPDATE records SET record_id = 'x' || record_id")
  assert len(store.history("annals", "annals-1")) == 1
  add(store, "xannals-2")  # where the other one lay nobody knows
  assert store.count(only_active=True) == 2


def test_a_file_that_is_moved_away_gets_nothing_more(store, tmp_path):
  add(store)
  copy = tmp_path / "copy"
  copy.mkdir()
  for path in tmp_path.glob("corrections.*"):
    path.rename(copy / path.name)
  assert store.active() == []
  second = add(store, "annals-2")
  assert store.active() == [second]
  assert CorrectionStore(tmp_path).active() == [second]
  # Another file in its place, as of a copy that is put back.
  for path in tmp_path.glob("corrections.*"):
    path.unlink()
  for path in copy.iterdir():
    path.rename(tmp_path / path.name)
  assert [row.first_record for row in store.active()] == ["annals-1"]
  third = add(store, "annals-3")
  assert CorrectionStore(tmp_path).active()[-1] == third
  assert list(store.check()) == []


@pytest.mark.parametrize("content", [b"", b"no database" * 100])
def test_a_damaged_file_is_named(store, content):
  store.path.write_bytes(content)
  with pytest.raises(ValueError, match=CORRECTIONS_FILE):
    store.active()
  assert CORRECTIONS_FILE in " ".join(map(str, store.check()))


def test_another_version_is_refused(store):
  add(store)
  with sqlite3.connect(store.path) as connection:
    connection.execute("PRAGMA user_version=99")
  with pytest.raises(ValueError, match="of version 99, this ctd_jax reads 1"):
    CorrectionStore(store.path.parent).active()


def test_threads_share_a_store(store):
  with futures.ThreadPoolExecutor(6) as pool:
    added = pool.map(lambda number: add(store, f"annals-{number}"), range(6))
  assert {row.correction_id for row in added} == {*range(1, 7)}


_WRITER = """
import sys
from ctd_jax.index.corrections import Correction, CorrectionStore
folder, number, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = CorrectionStore(folder)
for row in range(number, total, 4):
  record = f"r{row}"
  correction = Correction(work="annals", first_record=record,
    last_record=record, date="date", texts_sha256="x")
  store.add(correction, key=record)
  print(record, flush=True)
"""


def test_killed_writers_lose_nothing_they_confirmed(store, tmp_path):
  """Four processes add 200 corrections and are killed again and again."""
  total = 200
  with sqlite3.connect(tmp_path / DATABASE_FILE) as connection:
    connection.execute("DELETE FROM records")
    connection.executemany(
      "INSERT INTO records(row, work_id, record_id, text) VALUES (?, 1, ?, '')",
      [(row + 1, f"r{row}") for row in range(total)],
    )
  generator = random.Random(1)

  def start(number):
    with (tmp_path / f"out-{number}").open("a+") as output:
      output.seek(0)
      # It goes on after those that were confirmed to it.
      first = str(number + 4 * len(output.readlines()))
      return subprocess.Popen(
        [sys.executable, "-c", _WRITER, tmp_path, first, str(total)],
        stdout=output,
        cwd=pathlib.Path(__file__).parents[2],
      )

  writers = [start(number) for number in range(4)]
  for _ in range(8):
    time.sleep(generator.uniform(0.15, 0.35))
    number = generator.randrange(4)
    writers[number].send_signal(signal.SIGKILL)
    writers[number].wait()
    writers[number] = start(number)
  assert [writer.wait(60) for writer in writers] == [0] * 4
  records = [row.first_record for row in store.active()]
  assert sorted(records) == sorted(f"r{row}" for row in range(total))
  assert list(store.check()) == []
  assert not [*tmp_path.glob("*.new*")]


def test_equal_texts_are_told_apart_by_their_number():
  texts = [text for text, _, _ in small_index.RECORDS[:2]]
  assert hash_texts(texts, 0) != hash_texts(texts, 1)
  assert hash_texts(["ab", "c"], 0) != hash_texts(["a", "bc"], 0)
