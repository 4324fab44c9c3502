"""Whether every Chinese character of a file stands in some entry or note."""

import collections
import pathlib
import re

HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# What a mandoku file has beside its text, and characters made of parts.
_BESIDE_TEXT = re.compile(
  r"^#.*$|<pb:[^<>]*>|\[[^\[\]\n]*[*+@/-][^\[\]\n]*\]", re.MULTILINE
)


def count_lost_han(works, folder) -> int:
  """Returns how many characters of the files the works lack or have twice."""
  kept = collections.Counter()
  for work in works:
    for entry in work.entries:
      kept.update(HAN.findall(entry.text + entry.label))
      for note in entry.notes:
        kept.update(HAN.findall(note.text))
  printed = collections.Counter()
  for path in pathlib.Path(folder).rglob("*.txt"):
    text = path.read_text(encoding="utf-8")
    printed.update(HAN.findall(_BESIDE_TEXT.sub("", text)))
  return (printed - kept).total() + (kept - printed).total()
