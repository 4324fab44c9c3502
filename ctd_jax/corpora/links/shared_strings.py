"""Strings of the sections of a corpus, and the sections that hold each.

They are those of `shared_wording`: 2 to 5 Han characters in one spelling, of a
section without the date at its head. First those of each group are written, by
their hashes; then each part of all strings is joined from the groups.

Axes: o occurrences of strings in sections, V strings.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa
from jaxtyping import Int, UInt64
from pyarrow import parquet

from ctd_jax.corpora import corpus_files
from ctd_jax.corpora.corpus_files import DATES_FOLDER, WorkOutcome
from ctd_jax.corpora.links import groups
from ctd_jax.corpora.links.groups import LinkPlan, WorkGroup
from ctd_jax.dating.corpus import plain_text
from ctd_jax.dating.experts import ngrams, shared_wording

DAYS = ("first_julian_day", "last_julian_day")
_TEXT_COLUMNS = ("text", "printed", "is_heading")
_MAX_OPEN = 256  # files at once


class GroupStrings(msgspec.Struct, frozen=True):
  """What the first step found.

  Attributes:
    occurrences: of strings in sections, each counted once in a section.
    sections: that hold a string.
  """

  occurrences: int
  sections: int


class PartStrings(msgspec.Struct, frozen=True):
  """What the second step found.

  Attributes:
    shared: strings that two sections hold, or more.
    common: of these, the ones that too many hold.
    common_occurrences: sections of each of these, added up.
  """

  shared: int
  common: int
  common_occurrences: int


def read_bodies(out: str, work: WorkOutcome) -> list[str]:
  """Returns what of the sections of a work is compared, "" of headings.

  Args:
    out: folder of the corpus.
    work: that is dated.
  """
  path = corpus_files.find_path(pathlib.Path(out), DATES_FOLDER, work.name)
  table = parquet.read_table(path, columns=list(_TEXT_COLUMNS))
  columns = (table[name].to_pylist() for name in _TEXT_COLUMNS)
  return [
    ""
    if is_heading
    else plain_text(text.partition(printed)[2])
    if printed
    else plain_text(text)
    for text, printed, is_heading in zip(*columns, strict=True)
  ]


def write_strings(plan: LinkPlan, group: WorkGroup) -> GroupStrings:
  """Writes the strings and the dates of a group, unless they are there.

  Args:
    plan: of the corpus.
    group: of works.
  """
  path = plan.find_path("strings", group.number)
  if not path.exists():
    _write_sections(plan, group)
    bodies = [
      body for work in group.works for body in read_bodies(plan.out, work)
    ]
    rows, hashes = _find_strings(bodies)
    table = pa.table(
      {
        "string": hashes,
        "section": (rows + group.first_section).astype(np.int32),
      }
    )
    groups.write_table(path, table)
  sections = groups.open_table(path)["section"].to_numpy()
  return GroupStrings(len(sections), len(np.unique(sections)))


def _find_strings(
  bodies: list[str],
) -> tuple[Int[np.ndarray, " o"], UInt64[np.ndarray, " o"]]:
  """Returns bodies and the strings that they hold, by string and body."""
  found = ngrams.Occurrences.find(bodies, shared_wording.LENGTHS)
  order = np.lexsort((found.rows, found.hashes))
  rows, hashes = found.rows[order], found.hashes[order]
  # A section may hold a string often.
  is_first = (np.diff(rows, prepend=-1) != 0) | _mark_new(hashes)
  return rows[is_first], hashes[is_first]


def _mark_new(hashes: np.ndarray) -> np.ndarray:
  """Returns which of ascending hashes differ from the one before."""
  return np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]


def _write_sections(plan: LinkPlan, group: WorkGroup) -> None:
  """Writes work, row and days of the sections of a group."""
  tables = []
  for work in group.works:
    path = corpus_files.find_path(
      pathlib.Path(plan.out), DATES_FOLDER, work.name
    )
    table = parquet.read_table(path, columns=["work", "row", *DAYS])
    name = pa.repeat(pa.scalar(work.name), len(table))
    tables.append(table.append_column("file", name).replace_schema_metadata())
  groups.write_table(
    plan.find_path("sections", group.number),
    pa.concat_tables(tables).combine_chunks(),
  )


def join_strings(plan: LinkPlan, part: int) -> PartStrings:
  """Writes the sections of each string of a part, unless they are there.

  Strings of one section are left out; of those that too many hold their number
  alone is written.

  Args:
    plan: of the corpus, with its strings.
    part: number of the part.
  """
  path = plan.find_path("part", part)
  if not path.exists():
    groups.write_table(path, _join_groups(plan, part))
  counts = groups.open_table(path)["count"].to_numpy()
  is_common = ~_is_rare(plan, counts)
  return PartStrings(
    len(counts), int(is_common.sum()), int(counts[is_common].sum())
  )


def _is_rare(plan: LinkPlan, counts: np.ndarray) -> np.ndarray:
  return shared_wording.weigh_strings(counts, plan.num_sections) > 0


def _join_groups(plan: LinkPlan, part: int) -> pa.Table:
  """Returns strings of a part with count and sections, by string."""
  hashes, sections = [], []
  first, last = map(np.uint64, plan.bounds_of_part(part))
  for number in range(len(plan.group_starts)):
    columns = groups.open_table(plan.find_path("strings", number))
    group_hashes = columns["string"].to_numpy()
    start = np.searchsorted(group_hashes, first)
    stop = np.searchsorted(group_hashes, last, side="right")
    hashes.append(group_hashes[start:stop])
    sections.append(columns["section"].to_numpy()[start:stop])
  all_hashes = np.concatenate(hashes)
  # Stable: sections ascend from group to group.
  order = np.argsort(all_hashes, kind="stable")
  all_hashes = all_hashes[order]
  starts = np.flatnonzero(_mark_new(all_hashes))
  counts = np.diff(starts, append=len(all_hashes))
  is_shared = counts > 1
  is_listed = is_shared & _is_rare(plan, counts)
  listed = np.concatenate(sections)[order][np.repeat(is_listed, counts)]
  sizes = np.where(is_listed, counts, 0)[is_shared]
  offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
  return pa.table(
    {
      "string": all_hashes[starts[is_shared]],
      "count": counts[is_shared].astype(np.int32),
      "sections": pa.ListArray.from_arrays(offsets, listed),
    }
  )


class StringLookup:
  """Strings of all parts, looked up by their hashes."""

  def __init__(self, plan: LinkPlan):
    """Opens no file yet.

    Args:
      plan: of the corpus, whose parts are joined.
    """
    self._plan = plan
    self._open_part = functools.lru_cache(_MAX_OPEN)(
      lambda part: groups.open_table(plan.find_path("part", part))
    )

  def count_sections(
    self, hashes: UInt64[np.ndarray, " V"]
  ) -> Int[np.ndarray, " V"]:
    """Returns how many sections hold each string: one, if it is in no part.

    Args:
      hashes: of strings that a section holds, ascending.
    """
    counts = np.ones(len(hashes), np.int32)
    for block, positions, is_known, columns in self._iter_parts(hashes):
      known = positions[is_known]
      counts[block][is_known] = columns["count"].to_numpy()[known]
    return counts

  def list_sections(
    self, hashes: UInt64[np.ndarray, " V"]
  ) -> tuple[Int[np.ndarray, " o"], Int[np.ndarray, " o"]]:
    """Returns strings and the sections that hold them, by string and section.

    Args:
      hashes: of some strings, ascending.
    """
    strings, sections = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for block, positions, is_known, columns in self._iter_parts(hashes):
      lists = columns["sections"].take(pa.array(positions[is_known]))
      numbers = np.arange(block.start, block.stop)[is_known]
      sizes = np.diff(lists.offsets.to_numpy())
      strings.append(np.repeat(numbers, sizes))
      sections.append(lists.flatten().to_numpy())
    return np.concatenate(strings), np.concatenate(sections)

  def _iter_parts(
    self, hashes: np.ndarray
  ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, dict[str, pa.Array]]]:
    """Yields the strings of a part, where they would be, and are, and it."""
    for part in range(self._plan.num_parts):
      first, last = map(np.uint64, self._plan.bounds_of_part(part))
      block = slice(
        int(np.searchsorted(hashes, first)),
        int(np.searchsorted(hashes, last, side="right")),
      )
      if block.start < block.stop:
        columns = self._open_part(part)
        part_hashes = columns["string"].to_numpy()
        positions = np.searchsorted(part_hashes, hashes[block])
        positions = np.minimum(positions, max(len(part_hashes) - 1, 0))
        if len(part_hashes):
          is_known = part_hashes[positions] == hashes[block]
          yield block, positions, is_known, columns
