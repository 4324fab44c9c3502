"""Marks that all mandoku files share: page breaks, line ends, notes."""

from __future__ import annotations

import collections
import re

from ctd_jax.texts.source_files import mark_unencoded

PAGE_BREAK = re.compile(r"<pb:([^<>]*)>")
NOTE = re.compile(r"\(([^()]*)\)")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def name_page(name: str) -> str:
  """Returns `010-3b` of `KR2b0019_WYG_010-3b`."""
  return name.rsplit("_", 1)[-1]


def count_head_line(line: str, counts: collections.Counter[str]) -> None:
  """Counts a line that begins with `#` and its Chinese characters."""
  counts["head lines" if line.startswith("#+") else "comment lines"] += 1
  counts["Han characters in head and comment lines"] += len(_HAN.findall(line))


def strip_marks(line: str, counts: collections.Counter[str]) -> str:
  """Returns a line without page breaks and ends, □ for what has no code."""
  if "¶" in line:
    counts["line ends"] += line.count("¶")
    line = line.replace("¶", "")
  line, num_unencoded = mark_unencoded(line)
  if num_unencoded:
    counts["characters without a code"] += num_unencoded
  return line
