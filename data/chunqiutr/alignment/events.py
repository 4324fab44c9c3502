"""Events: segments of the four base texts that tell of one matter in one month.

Source: ChunQiuTR Figure 5 (versions), section 6.3 (events of a month).
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ctd_jax.chronology import annals
from ctd_jax.chronology.timelines import TimeKey
from ctd_jax_datasets.chunqiutr import base_texts
from ctd_jax_datasets.chunqiutr.alignment.event_matching import (
  EXEGETIC,
  EventMatch,
  compute_similarity,
)
from ctd_jax_datasets.chunqiutr.alignment.text_units import (
  TextPosition,
  split_units,
)

# Least similarity (0-100) of a passage of 左傳 to an event of the same month;
# below that the wording is another event's.
_MIN_SIMILARITY_IN_MONTH = 40
_MIN_CHARS = 3  # of an event; two characters are similar by chance


@dataclasses.dataclass(frozen=True)
class DatedSegment:
  """A record of a base text before it has an id.

  Attributes:
    source: of its entry.
    text: an entry or a piece of it.
    key: month.
    position: where it begins.
  """

  source: str
  text: str
  key: TimeKey
  position: TextPosition


def cut_entries(
  entries: Sequence[base_texts.Entry],
  matches: Mapping[str, Iterable[EventMatch]],
) -> list[tuple[base_texts.Entry, list[int]]]:
  """Returns every entry with the positions at which its events begin.

  The editions of the annals divide it in three ways. An entry that tells of
  several events is cut where another edition of the same words begins an
  entry, if a sentence begins there: 經 where 公羊 or 穀梁 do, these where 經
  does. Commentary stays with the sentence it follows. 左傳 is not cut.

  Args:
    entries: of all base texts.
    matches: tradition -> its matches.
  """
  starts = collections.defaultdict(set)
  for entry in entries:
    starts[entry.location].add(0)
  exegetic_matches = [
    match for work in EXEGETIC for match in matches.get(work, ())
  ]
  for match in exegetic_matches:
    if match.tradition.start == 0:
      starts[match.annals.location].add(match.annals.start)
  texts = {entry.location: entry.text for entry in entries}
  matches_by_location = collections.defaultdict(list)
  for match in exegetic_matches:
    matches_by_location[match.tradition.location].append(match)
  for location, location_matches in matches_by_location.items():
    is_sentence_start = annals.make_sentence_start_test(texts[location])
    # Text before the first match belongs to its event, so no cut there.
    for match in sorted(
      location_matches, key=lambda match: match.tradition.start
    )[1:]:
      is_entry_start = match.annals.start in starts[match.annals.location]
      if is_entry_start and is_sentence_start(match.tradition.start):
        starts[location].add(match.tradition.start)
  return [(entry, sorted(starts[entry.location])) for entry in entries]


def group_events(
  segments: Sequence[DatedSegment], matches: Mapping[str, Iterable[EventMatch]]
) -> list[tuple[int, TimeKey]]:
  """Returns (event, month) of each segment; equal pairs are one version.

  Args:
    segments: of all base texts.
    matches: tradition -> its matches.

  Returns:
    (index of the segment of the annals about the same event, own month) for
    each segment; its own index if there is none. A segment about several
    events goes to the most similar one of its own month.
  """
  candidates = collections.defaultdict(list)
  for tradition_matches in matches.values():
    for match, event, segment in locate_matches(segments, tradition_matches):
      candidates[segment].append((match.score, event))
  for segment, event in _match_within_months(segments, candidates):
    candidates[segment].append((0.0, event))
  event_keys = []
  for index, segment in enumerate(segments):
    # The most similar event, of the same month if there is one; ties go to
    # the first. Score 1 keeps a segment without candidates with itself.
    event = max(
      candidates[index],
      key=lambda candidate: (
        segments[candidate[1]].key == segment.key,
        candidate[0],
        -candidate[1],
      ),
      default=(1, index),
    )[1]
    event_keys.append((event, segment.key))
  return event_keys


def _match_within_months(
  segments: Sequence[DatedSegment], matched_segments: Collection[int]
) -> list[tuple[int, int]]:
  """Returns (segment of 左傳, most similar event of its month) pairs.

  Only segments that are not in `matched_segments` are looked at. In the same
  month, less similarity is enough.
  """
  units_by_month = collections.defaultdict(list)
  for index, segment in enumerate(segments):
    if segment.source == base_texts.ANNALS:
      units_by_month[segment.key] += [
        (unit, index)
        for unit in split_units(segment.text, segment.position.location)
        if len(unit.body) >= _MIN_CHARS
      ]
  best_events = []
  for index, segment in enumerate(segments):
    month_units = units_by_month[segment.key]
    if (
      segment.source != base_texts.ZUOZHUAN
      or index in matched_segments
      or not month_units
    ):
      continue
    passages = list(
      split_units(segment.text, segment.position.location, clauses=True)
    )
    similarity = compute_similarity(
      [unit for unit, _ in month_units], passages
    ).max(axis=1)
    best_index = int(similarity.argmax())
    if similarity[best_index] >= _MIN_SIMILARITY_IN_MONTH:
      best_events.append((index, month_units[best_index][1]))
  return best_events


def locate_matches(
  segments: Sequence[DatedSegment], matches: Iterable[EventMatch]
) -> Iterator[tuple[EventMatch, int, int]]:
  """Yields (match, index of its segment of the annals, of the tradition)."""
  starts_by_location = collections.defaultdict(list)
  for index, segment in enumerate(segments):
    starts_by_location[segment.position.location].append(
      (segment.position.start, index)
    )

  def find_segment(position: TextPosition) -> int | None:
    starts = starts_by_location[position.location]
    # Starts of an entry rise, so the segment is the last one not after it.
    insertion_index = bisect.bisect(
      starts, position.start, key=lambda start_and_index: start_and_index[0]
    )
    return starts[insertion_index - 1][1] if insertion_index else None

  for match in matches:
    annals_index, tradition_index = (
      find_segment(match.annals),
      find_segment(match.tradition),
    )
    if annals_index is not None and tradition_index is not None:
      yield match, annals_index, tradition_index
