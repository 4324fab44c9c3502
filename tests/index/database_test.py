"""Database of an index: full text of single characters, rows, damage."""

import pytest

from ctd_jax.chronology import glyphs
from ctd_jax.index import database
from tests.index.small_index import insert

TEXTS = (
  "夏，四月，葬衛桓公。",
  "秋，衞人殺州吁于濮。",
  "𠀀山崩，𫠠水竭。",
  "王□立，〓氏滅之。",
  "〇年，日々祭ル。",
  "787. Her nam Beorhtric cyning Offan dóhtor.",
)


@pytest.fixture(name="connection")
def fixture_connection(tmp_path):
  database.create_database(tmp_path)
  connection = database.open_database(tmp_path, readonly=False)
  for row, text in enumerate(TEXTS, start=1):
    words = database.split_tokens(text)
    insert(connection, "full_text", rowid=row, words=words)
    values = {"work_id": 1, "record_id": row, "headings": "[]"}
    insert(connection, "records", row=row, text=text, best_month=row, **values)
  yield connection
  connection.close()


def find(connection, *words, **options):
  matches = database.search_text(connection, words, 10, **options)
  return sorted(match.row for match in matches)


@pytest.mark.parametrize(
  ("words", "rows"),
  [
    (["葬"], [1]),
    (["卫"], [1, 2]),  # simplified, and both glyphs
    (["衛桓"], [1]),
    (["卫桓公"], [1]),
    (["桓衛"], []),
    (["月葬"], [1]),  # across punctuation, which editors added
    (["四月", "葬"], [1]),
    (["𠀀"], [3]),
    (["崩𫠠"], [3]),
    (["□"], [4]),
    (["王立"], []),  # a missing character stands between
    (["〇年"], [5]),
    (["ル"], [5]),
    (["beorhtric"], [6]),
    (["dohtor"], [6]),
    (["Offan dohtor"], [6]),
    (['"葬"'], [1]),
    (["葬 OR 殺"], []),
    (["NEAR(葬)"], []),
    (["，。"], []),
    ([""], []),
  ],
)
def test_phrases_of_any_length_are_found(connection, words, rows):
  assert find(connection, *words) == rows


def test_words_are_joined_or_alternatives(connection):
  assert find(connection, "葬", "殺") == []
  assert find(connection, "葬", "殺", match_any=True) == [1, 2]


def test_matches_are_of_months_and_works(connection):
  assert find(connection, "衛", months=(2, 9)) == [2]
  assert find(connection, "衛", works=[]) == []
  with pytest.raises(ValueError, match="k=0"):
    database.search_text(connection, ["衛"], 0)


def test_records_come_in_the_order_asked(connection):
  records = database.fetch_records(connection, [3, 99, 1])
  assert [record.row for record in records] == [3, 1]
  assert records[0].text == TEXTS[2]


def test_folding_keeps_positions():
  text = "葬衛桓公，戰于鞌，𠀀"
  assert len(glyphs.fold_text(text)) == len(text)
  spans = database.find_spans(["卫桓公", "戰於", "公戰"], text)
  assert spans == [(1, 4), (3, 6), (5, 7)]
  # Variant glyphs of prints.
  spans = database.find_spans(["鹽鐵", "喪"], "罷塩鐡，居䘮")
  assert spans == [(1, 3), (5, 6)]


def test_no_database_and_no_index_are_told_apart(tmp_path):
  with pytest.raises(FileNotFoundError, match="python -m ctd_jax.index"):
    database.open_database(tmp_path)
  (tmp_path / "index.sqlite").write_bytes(b"no database at all" * 500)
  with pytest.raises(ValueError, match=r"index.sqlite: damaged"):
    database.open_database(tmp_path)


def test_a_folder_that_cannot_be_written_is_read(tmp_path, monkeypatch):
  database.create_database(tmp_path)
  monkeypatch.setattr("os.access", lambda *arguments: False)
  connection = database.open_database(tmp_path)
  assert database.get_property(connection, "generation") == "0"
  connection.close()
