"""Published editions are read whole: no character of the text is lost."""

import collections
import os
import pathlib

import pytest

from ctd_jax.texts import read_works
from tests.texts.coverage import count_lost_han

FOLDERS = {
  "CTD_JAX_OUTSIDE": "KR2b0019 KR2b0004 KR2b0001 KR2a0012 KR2a0001",
  "CTD_JAX_SOURCES": (
    "zuozhuan_KR1e0001 guliangzhuan_KR1e0008 duyu_jijie_KR1e0002"
    " guliang_jijie_KR1e0009 gongyang_zhushu_KR1e0006"
    " gudonggao_dashibiao_KR1e0114 zizhitongjian_KR2b0007"
  ),
}


def find_folder(variable, name) -> pathlib.Path:
  folder = pathlib.Path(os.environ.get(variable, ""), name)
  if not folder.exists():
    pytest.skip(f"{variable} names no folder with {name}")
  return folder


@pytest.mark.slow
@pytest.mark.parametrize(
  ("variable", "name"),
  [(key, name) for key, names in FOLDERS.items() for name in names.split()],
)
def test_no_character_is_lost_and_places_are_true(variable, name):
  folder = find_folder(variable, name)
  works = read_works(folder)
  assert count_lost_han(works, folder) == 0
  (work,) = works
  lines = {
    path.name: path.read_text(encoding="utf-8").split("\n")
    for path in folder.glob("*.txt")
  }
  for entry in work.records[::7]:
    for position in range(0, len(entry.text), 50):
      character = entry.text[position]
      place = entry.place_at(position)
      assert character == "□" or (
        character in lines[place.file][place.line - 1]
      ), (place, character)


@pytest.mark.slow
def test_annals_by_days_are_cut_into_their_entries():
  folder = find_folder("CTD_JAX_OUTSIDE", "KR2b0019")
  (work,) = read_works(folder)
  # About 15,300 entries open with a day; entries without one are as many.
  assert 34_000 < len(work.records) < 35_000
  rulers = collections.Counter(
    entry.headings[-1] for entry in work.records if entry.headings
  )
  assert rulers["神宗"] > 5000
  assert work.counts["notes"] > 12_000


def test_commentary_of_the_three_kingdoms_is_apart():
  folder = find_folder("CTD_JAX_OUTSIDE", "KR2a0012")
  (work,) = read_works(folder)
  text = "".join(entry.text for entry in work.records)
  assert "魏書曰" not in text  # whom the commentary quotes
  assert sum("魏書曰" in note.text for note in work.commentary().entries) > 50
  assert work.counts["pages printed twice"] == 68


def test_years_of_the_bamboo_annals_stand_under_their_kings():
  folder = find_folder("CTD_JAX_OUTSIDE", "KR2b0001")
  (work,) = read_works(folder)
  kings = [e.text for e in work.entries if e.is_heading and e.indent == 0]
  assert kings[:3] == ["黄帝軒轅氏", "帝顓頊髙陽氏", "帝嚳髙辛氏"]
  assert kings[-1] == "慎靚王"
  assert {e.indent for e in work.records} == {0, 1}
