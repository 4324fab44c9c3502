"""Damage of an index, and its repair."""

import shutil

import pytest

from ctd_jax.index import corrections
from ctd_jax.index.corrections import CorrectionStore
from tests.index import corpora
from tests.web import annals_index


@pytest.fixture(name="original", scope="module")
def fixture_original(tmp_path_factory):
  """Returns an index whose corrections are made, one of them undone."""
  folder = tmp_path_factory.mktemp("original")
  index = annals_index.build_index(folder, use_passages=False)
  for record in ("1", "2", "3"):
    corpora.correct(index, "annals", record, "泰始元年")
  CorrectionStore(index).undo(2, "B", "undo")
  return index


def damage(path, how, place=0.5):
  """Damages a file: flip a bit, truncate, zero or delete."""
  content = bytearray(path.read_bytes())
  start = int(len(content) * place)
  if how == "delete":
    path.unlink()
    return
  if how == "flip":
    content[min(start, len(content) - 1)] ^= 0x10
  elif how == "zero":
    content[start : start + 4096] = bytes(len(content[start : start + 4096]))
  else:
    del content[start:]
  path.write_bytes(content)


@pytest.mark.parametrize("how", ["flip", "truncate", "zero", "delete"])
@pytest.mark.parametrize("name", ["corrections.sqlite", "corrections.jsonl"])
@pytest.mark.parametrize("place", [0, 0.7])
def test_no_correction_is_lost(original, tmp_path, name, how, place):
  folder = shutil.copytree(original, tmp_path / "index")
  store = CorrectionStore(folder)
  before = store.history()
  assert [*store.check()] == []
  store._open().execute("PRAGMA wal_checkpoint(TRUNCATE)")
  store._open().close()
  damage(folder / name, how, place)
  problems = [*CorrectionStore(folder).check()]
  if how == "flip" and name.endswith("sqlite") and not problems:
    pytest.skip("the bit belongs to nothing")
  assert name in problems[0]
  assert corrections.mend_file(folder)
  store = CorrectionStore(folder)
  assert [*store.check()] == []
  assert store.history() == before
  assert corrections.mend_file(folder) == []
  # The next has a number of its own.
  corpora.correct(folder, "annals", "2", "泰始元年", key="new")
  assert store.history()[0].correction_id == 4
  assert [*store.check()] == []
