"""What is written stays; what is cut off is done again."""

import pytest

from ctd_jax.tasks.chat_models import Journal


def test_every_cut_of_the_last_line_is_survived(tmp_path):
  path = tmp_path / "j.jsonl"
  with Journal(path) as journal:
    journal.append("a", "漢")
    journal.append("b", "唐")
  content = path.read_bytes()
  first = content.index(b"\n") + 1
  for length in range(first, len(content)):
    path.write_bytes(content[:length])
    with Journal(path) as journal:
      assert list(journal) == ["a"], length
      journal.append("b", "唐")
    assert path.read_bytes() == content


def test_a_key_is_written_once_and_comes_back_in_order(tmp_path):
  path = tmp_path / "new" / "j.jsonl"
  with Journal(path) as journal:
    journal.append("二", {"x": [1, "隋"]})
    journal.append("一", None)
    with pytest.raises(ValueError, match="'二' already exists"):
      journal.append("二", 2)
  with Journal(path) as journal:
    assert list(journal.items()) == [("二", {"x": [1, "隋"]}), ("一", None)]


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (b'{"key": "a", "value": 1}\nhello\n', "line 2: expected"),
    (b'{"key": "a"}\n', "line 1: expected"),
    (b'{"key": "a", "value": 1}\n' * 2, "line 2: the key 'a' occurs twice"),
  ],
)
def test_edited_files_are_refused(tmp_path, content, message):
  path = tmp_path / "j.jsonl"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=f"j.jsonl, {message}"):
    Journal(path)
  assert path.read_bytes() == content


def test_two_writers_are_refused(tmp_path):
  path = tmp_path / "j.jsonl"
  with Journal(path), pytest.raises(ValueError, match="another run is writing"):
    Journal(path)
  with Journal(path):
    pass  # free again
