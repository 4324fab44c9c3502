"""Links of the works of a corpus: sections of others in the same words.

  links/NAME.parquet      a row for each link of a section of a work: `work` and
                          `row`, in dates/`file`.parquet; the section that it
                          leads to, `other_work`, `other_row`, `other_file`,
                          likewise; `weight`, `share`, `days_apart`

Works of different folders may have one name; a file has but one work.

The measure is that of the dating models: the weight of a link is that of the
strings that both sections hold and few others do (`shared_wording`), and of a
section about 20 links are kept, the heaviest (`parallel_pairs`). `share` is the
weight beside that of all strings of the section; `days_apart` the days between
the two dates, 0 if they can be the same day, and none if one has no date.

Axes: n sections of a work, V strings, o occurrences, P links.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse
from jaxtyping import Float32, Int

from ctd_jax.corpora import corpus_files
from ctd_jax.corpora.corpus_files import (
  LINKS_FOLDER,
  CorpusLinks,
  LinkCounts,
  WorkOutcome,
)
from ctd_jax.corpora.links import groups, shared_strings
from ctd_jax.corpora.links.groups import LinkPlan, WorkGroup
from ctd_jax.corpora.links.shared_strings import DAYS, StringLookup
from ctd_jax.dating.experts import ngrams, parallel_pairs, shared_wording
from ctd_jax.utils import progress
from ctd_jax.utils.beam_runner import MapItems

# A link weighs as much as so many strings that two sections hold and no third:
# a word of four characters has six, of 2, 3 and 4.
_MIN_STRINGS = 6
_MAX_OPEN = 256  # files at once


def link_works(
  out: str, works: Sequence[WorkOutcome], map_items: MapItems[Any, Any]
) -> CorpusLinks:
  """Writes the links of all works that are not there; returns what came of it.

  Args:
    out: folder of the corpus.
    works: that are dated, in order.
    map_items: maps groups of works, and parts of their strings.

  Raises:
    ValueError: if there are more sections than can be linked.
  """
  plan, work_groups = groups.plan_groups(out, works)
  if earlier := _read_earlier(plan, works):
    return earlier
  groups.remove_folders(pathlib.Path(out), plan)

  def run(name: str, function: Any, items: Sequence[Any]) -> list[Any]:
    step = functools.partial(function, plan)
    # One item needs no workers, whose start takes longer.
    results = (map_items if len(items) > 1 else map)(step, items)
    return [*progress.Progress(results, name, len(items), unit="item")]

  strings = run("strings", shared_strings.write_strings, work_groups)
  plan = plan.with_strings(
    sum(found.sections for found in strings),
    sum(found.occurrences for found in strings),
  )
  parts = run(
    "shared strings",
    shared_strings.join_strings,
    range(plan.num_parts) if work_groups else (),
  )
  counts = run("links", write_links, work_groups)
  return CorpusLinks(
    fingerprint=plan.fingerprint,
    read_sections=plan.num_sections,
    max_sections=_find_max_sections(plan),
    shared_strings=sum(part.shared for part in parts),
    common_strings=sum(part.common for part in parts),
    common_occurrences=sum(part.common_occurrences for part in parts),
    min_weight=_find_min_weight(plan),
    links=sum(count.links for count in counts),
    linked_sections=sum(count.linked_sections for count in counts),
    cut_sections=sum(count.cut_sections for count in counts),
  )


def _read_earlier(
  plan: LinkPlan, works: Sequence[WorkOutcome]
) -> CorpusLinks | None:
  """Returns what came of the same links earlier, if all of them are there."""
  out = pathlib.Path(plan.out)
  try:
    links = corpus_files.read_corpus_file(out).links
  except (FileNotFoundError, ValueError):  # of no run, or of a broken one
    return None
  if links is None or links.fingerprint != plan.fingerprint:
    return None
  are_there = all(_read_counts(plan, work) is not None for work in works)
  return links if are_there else None


def _read_counts(plan: LinkPlan, work: WorkOutcome) -> LinkCounts | None:
  """Returns what came of the links of a work; None if they are to be made."""
  path = corpus_files.find_path(pathlib.Path(plan.out), LINKS_FOLDER, work.name)
  return corpus_files.read_outcome(path, plan.fingerprint, LinkCounts)


def _find_max_sections(plan: LinkPlan) -> int:
  """Returns how many sections may hold a string for it to count."""
  counts = np.arange(1, shared_wording.MAX_EVENTS + 1)
  weights = shared_wording.weigh_strings(counts, plan.num_sections)
  return int(np.count_nonzero(weights))


def _find_min_weight(plan: LinkPlan) -> float:
  """Returns what a link weighs at least."""
  [weight] = shared_wording.weigh_strings(np.array([2]), plan.num_sections)
  return _MIN_STRINGS * float(weight)


def write_links(plan: LinkPlan, group: WorkGroup) -> LinkCounts:
  """Writes the links of the works of a group that are not there.

  Args:
    plan: of the corpus, whose parts are joined.
    group: of works.

  Returns:
    What came of all works of the group.
  """
  strings, sections = StringLookup(plan), _SectionLookup(plan)
  first_section, results = group.first_section, []
  for work in group.works:
    counts = _read_counts(plan, work)
    if counts is None:
      counts = _write_work(plan, work, first_section, strings, sections)
    results.append(counts)
    first_section += work.sections
  return LinkCounts(
    links=sum(counts.links for counts in results),
    linked_sections=sum(counts.linked_sections for counts in results),
    cut_sections=sum(counts.cut_sections for counts in results),
  )


def _write_work(
  plan: LinkPlan,
  work: WorkOutcome,
  first_section: int,
  strings: StringLookup,
  sections: _SectionLookup,
) -> LinkCounts:
  """Writes the links of a work and returns what came of them."""
  bodies = shared_strings.read_bodies(plan.out, work)
  own = range(first_section, first_section + len(bodies))
  rows, others, weights, shares, num_cut = _find_links(
    plan, bodies, own, strings
  )
  one, other = sections.take(rows + first_section), sections.take(others)
  table = pa.table(
    {
      "work": one["work"],
      "row": one["row"],
      "file": one["file"],
      "other_work": other["work"],
      "other_row": other["row"],
      "other_file": other["file"],
      "weight": weights,
      "share": shares,
      "days_apart": _count_days_apart(one, other),
    }
  )
  counts = LinkCounts(
    links=len(rows),
    linked_sections=len(np.unique(rows)),
    cut_sections=num_cut,
  )
  corpus_files.write_table(
    corpus_files.find_path(pathlib.Path(plan.out), LINKS_FOLDER, work.name),
    table,
    counts,
    plan.fingerprint,
  )
  return counts


def _find_links(
  plan: LinkPlan, bodies: Sequence[str], own: range, strings: StringLookup
) -> tuple[
  Int[np.ndarray, " P"],
  Int[np.ndarray, " P"],
  Float32[np.ndarray, " P"],
  Float32[np.ndarray, " P"],
  int,
]:
  """Returns the links of the sections of a work to those of others.

  Args:
    plan: of the corpus.
    bodies: of its sections.
    own: these, among those of the corpus.
    strings: of the corpus.

  Returns:
    Section among those of the work, section among those of the corpus, weight
    and share of each link; number of sections that have more.
  """
  vocabulary, held = ngrams.count_ngrams(bodies, shared_wording.LENGTHS)
  counts = strings.count_sections(vocabulary.hashes)
  idf = shared_wording.weigh_strings(counts, plan.num_sections)
  text_weights = held @ idf
  columns = np.flatnonzero((counts > 1) & (idf > 0))
  held, idf = held[:, columns], idf[columns]
  hashes = vocabulary.hashes[columns]
  min_weight, num_cut = _find_min_weight(plan), 0
  blocks = [(np.zeros(0, np.int64),) * 2 + (np.zeros(0, np.float32),)]
  for block in shared_wording.cut_blocks(held @ counts[columns]):
    others, overlap = _overlap_others(held[block], hashes, idf, own, strings)
    overlap.data[overlap.data < min_weight] = 0
    overlap.eliminate_zeros()
    rows, places, weights, floors = shared_wording.select_top_entries(
      overlap, parallel_pairs.NUM_CANDIDATES
    )
    num_cut += int(np.count_nonzero(floors))
    blocks.append((rows + np.int64(block.start), others[places], weights))
  rows, others, weights = map(np.concatenate, zip(*blocks, strict=True))
  return rows, others, weights, weights / text_weights[rows], num_cut


def _overlap_others(
  held: scipy.sparse.csr_array,
  hashes: np.ndarray,
  idf: np.ndarray,
  own: range,
  strings: StringLookup,
) -> tuple[np.ndarray, scipy.sparse.csr_array]:
  """Returns sections of other works, and what some of a work share with each.

  Args:
    held: which of the sections holds which string, [n, V].
    hashes: of the strings.
    idf: weight of each.
    own: sections of the work.
    strings: of the corpus.
  """
  used = np.unique(held.indices)
  string, section = strings.list_sections(hashes[used])
  is_other = (section < own.start) | (section >= own.stop)
  others, column = np.unique(section[is_other], return_inverse=True)
  holders = scipy.sparse.coo_array(
    (np.ones(len(column), np.float32), (string[is_other], column)),
    shape=(len(used), len(others)),
  )
  return others, shared_wording.overlap_strings(
    held[:, used], idf[used], holders.tocsr()
  )


class _SectionLookup:
  """Work, row and days of the sections of a corpus, looked up by number."""

  def __init__(self, plan: LinkPlan):
    self._starts = np.array(plan.group_starts)
    self._open_group = functools.lru_cache(_MAX_OPEN)(
      lambda group: pa.table(
        groups.open_table(plan.find_path("sections", group))
      )
    )

  def take(self, sections: Int[np.ndarray, " P"]) -> pa.Table:
    """Returns a row for each section."""
    group = np.searchsorted(self._starts, sections, side="right") - 1
    order = np.argsort(group, kind="stable")
    tables = [self._open_group(0).slice(0, 0)]
    tables += [
      self._open_group(number).take(sections[rows] - self._starts[number])
      for number, rows in _iter_equal(group, order)
    ]
    # Back in the order that was asked for.
    return pa.concat_tables(tables).take(np.argsort(order, kind="stable"))


def _iter_equal(
  values: np.ndarray, order: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
  """Yields each value and where it is."""
  unique, starts = np.unique(values[order], return_index=True)
  yield from zip(unique.tolist(), np.split(order, starts[1:]), strict=False)


def _count_days_apart(one: pa.Table, other: pa.Table) -> pa.ChunkedArray:
  """Returns the days between the dates of sections, none without a date."""
  first, last = DAYS
  return pc.max_element_wise(
    pc.subtract(one[first], other[last]),
    pc.subtract(other[first], one[last]),
    0,
    skip_nulls=False,
  )
