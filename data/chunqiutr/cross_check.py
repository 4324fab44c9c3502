"""Cross-check of the months that the four works give the same events.

The months of the works come from four independent scans. If two works report
the same event, their months must agree or differ for a known reason; every pair
that differs is listed with both locations, so that a reader can look it up.

Source: ChunQiuTR section 6.2 (months checked by hand), Tables 8 and 9.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ctd_jax.benchmark.benchmark import EVENT, Record
from ctd_jax.chronology import annals, dates
from ctd_jax_datasets.chunqiutr import base_texts, events, text_alignment

# From this similarity on a match is the same event without doubt.
MIN_SURE_SCORE = 0.8
_HEAD_LENGTH = 6  # characters that locate a record without quoting a sentence
# Reasons for two works to differ; the first that holds is given.
_BOTH_PRINT = "both print a month"
_SEASON = "a season stands for its first month"
_INSIDE_PASSAGE = "told inside a longer passage"
_MONTH_CARRIED = "a month is carried on from the entry before"
_UNSURE = "unsure"
_PRINTED_MONTH_COUNTS = (
  "pieces",
  "printed",
  "same_month",
  "year_named",
  "other_month",
  "entry_of_year",
)


def count_units(
  entries: Iterable[base_texts.Entry], segments: Iterable[events.DatedSegment]
) -> dict[str, dict[str, int]]:
  """Returns source -> counts of entries and their segments, as in Table 8.

  `units`, `characters` and `longest` count the entries of the edition, in Han
  characters; `parts` and `parts_longest` the segments they are cut into.
  """
  entry_lengths, segment_lengths = (
    collections.defaultdict(list) for _ in range(2)
  )
  for lengths, items in ((entry_lengths, entries), (segment_lengths, segments)):
    for item in items:
      length = len(text_alignment.fold_text(item.text))
      lengths[item.source].append(length)
  return {
    source: {
      "units": len(lengths),
      "characters": sum(lengths),
      "longest": max(lengths),
      "parts": len(segment_lengths[source]),
      "parts_longest": max(segment_lengths[source], default=0),
    }
    for source, lengths in entry_lengths.items()
  }


def count_decisions(
  segments: Iterable[events.DatedSegment], entries: int, cut_at_events: int
) -> dict[str, int]:
  """Returns the number of base-text segments that each rule dated.

  Args:
    cut_at_events: number of pieces the entries were cut into for their events.
  """
  segments = list(segments)
  counts = collections.Counter(map(_dating_rule, segments))
  counts["entry cut where an event begins"] = cut_at_events - entries
  counts["entry cut where a month begins"] = len(segments) - cut_at_events
  return dict(sorted(counts.items()))


def _dating_rule(segment: events.DatedSegment) -> str:
  date_kind = annals.classify_printed_date(segment.text)
  if date_kind == annals.PRINTED_LEAP_MONTH:
    is_december = segment.key.month == 12
    return f"閏月: {'month 12' if is_december else 'the month before it'}"
  if date_kind == annals.PRINTED_SEASON:
    is_first_month = segment.key.month in annals.FIRST_MONTH_OF_SEASON.values()
    month = "its first month" if is_first_month else "already in it"
    return f"season alone: {month}"
  return {
    annals.PRINTED_MONTH: "month printed",
    annals.PRINTED_YEAR: "year alone: 正月",
    annals.PRINTED_NO_DATE: "no date: the month before it",
  }[date_kind]


def measure_agreement(
  segments: Sequence[events.DatedSegment],
  matches: Mapping[str, Iterable[events.EventMatch]],
) -> tuple[dict[str, dict[str, int]], list[dict[str, Any]]]:
  """Returns the number of months works agree on, and their disagreements.

  Each sentence of the annals is compared once with each tradition of `matches`.

  Returns:
    ("chunqiu <tradition>" -> {compared, same_year, same_month} of the matches
    with at least `MIN_SURE_SCORE`, and with `all_` before the name of all
    matches, rows of the disagreements in the order of the annals).
  """
  table, rows = {}, []
  for tradition, tradition_matches in matches.items():
    counts = collections.Counter()
    for match, annals_index, tradition_index in events.locate_matches(
      segments, tradition_matches
    ):
      annals_segment, tradition_segment = (
        segments[annals_index],
        segments[tradition_index],
      )
      same_year = (
        annals_segment.key.triple[:2] == tradition_segment.key.triple[:2]
      )
      for kind in ["all_"] + [""] * (match.score >= MIN_SURE_SCORE):
        counts[f"{kind}compared"] += 1
        counts[f"{kind}same_year"] += same_year
        counts[f"{kind}same_month"] += (
          annals_segment.key == tradition_segment.key
        )
      if annals_segment.key != tradition_segment.key:
        rows.append(
          (
            annals_index,
            _disagreement_row(annals_segment, tradition_segment, match),
          )
        )
    names = ("compared", "same_year", "same_month")
    table[f"{base_texts.ANNALS} {tradition}"] = {
      kind + name: counts[kind + name]
      for kind in ("", "all_")
      for name in names
    }
  rows.sort(key=lambda row: row[0])
  return table, [row for _, row in rows]


def _disagreement_row(
  annals_segment: events.DatedSegment,
  tradition_segment: events.DatedSegment,
  match: events.EventMatch,
) -> dict[str, Any]:
  return {
    "tradition": tradition_segment.source,
    "annals_key": str(annals_segment.key),
    "tradition_key": str(tradition_segment.key),
    "annals_place": annals_segment.position.location,
    "tradition_place": tradition_segment.position.location,
    "annals_head": annals_segment.text[:_HEAD_LENGTH],
    "tradition_head": tradition_segment.text[:_HEAD_LENGTH],
    "score": match.score,
    "sure": match.score >= MIN_SURE_SCORE,
    "reason": _disagreement_reason(annals_segment, tradition_segment, match),
  }


def _disagreement_reason(
  annals_segment: events.DatedSegment,
  tradition_segment: events.DatedSegment,
  match: events.EventMatch,
) -> str:
  """Returns the reason for which two works may give an event two months."""
  # 左傳 tells a story over several months under one date.
  is_inside = match.tradition.start > tradition_segment.position.start
  date_kinds = {
    annals.classify_printed_date(annals_segment.text),
    annals.classify_printed_date(tradition_segment.text),
  }
  if tradition_segment.source == base_texts.ZUOZHUAN and is_inside:
    return _INSIDE_PASSAGE
  if date_kinds == {annals.PRINTED_MONTH}:
    return _BOTH_PRINT
  if annals.PRINTED_NO_DATE in date_kinds:
    return _MONTH_CARRIED
  if annals.PRINTED_SEASON in date_kinds:
    return _SEASON
  return _UNSURE


def count_printed_months(
  comments: Iterable[Record], segments: Iterable[events.DatedSegment]
) -> dict[str, dict[str, int]]:
  """Returns source -> how the months that commentary prints fit its own month.

  Commentary that prints another month than that of its entry compares, reckons
  in another calendar, or names a length of time; or it is at the wrong
  entry, most likely if it prints the date of an entry of the year.

  Returns:
    `pieces`; `printed`, how many print a month; of these `same_month`,
    `year_named`, others and each with its year, and `other_month`; of the last
    `entry_of_year`, month and day of an entry of 經 or 左傳 in the same year.
  """
  entry_dates = {
    (segment.key.reign, segment.key.year, segment.key.month, cue.day)
    for segment in segments
    if segment.source in (base_texts.ANNALS, base_texts.ZUOZHUAN)
    for cue in dates.find_date_cues(segment.text)
    if cue.day is not None
  }
  counts_by_source: dict[str, dict[str, int]] = {}
  for comment in comments:
    key = comment.key
    counts = counts_by_source.setdefault(
      comment.source, dict.fromkeys(_PRINTED_MONTH_COUNTS, 0)
    )
    counts["pieces"] += 1
    cues = [
      cue for cue in dates.find_date_cues(comment.text) if cue.month is not None
    ]
    cues_without_year = [
      cue for cue in cues if cue.year is None and cue.year_cycle is None
    ]
    if not cues:
      continue
    counts["printed"] += 1
    if any(cue.month == key.month for cue in cues):
      counts["same_month"] += 1
    elif not cues_without_year:
      counts["year_named"] += 1
    else:
      counts["other_month"] += 1
      counts["entry_of_year"] += any(
        (key.reign, key.year, cue.month, cue.day) in entry_dates
        for cue in cues_without_year
      )
  return counts_by_source


def count_versions(records: Iterable[Record]) -> dict[str, Any]:
  """Returns the groups of records by version, and of versions by month.

  Returns:
    versions: number of them; per_month: number of versions -> months;
    months_with_several; by_works: number of base texts that tell of an
    event -> versions; with_commentary: versions that any comment explains.
  """
  sources_by_version = collections.defaultdict(set)
  versions_by_month = collections.defaultdict(set)
  commented_versions = set()
  for record in records:
    if record.kind == EVENT:
      sources_by_version[record.version].add(record.source)
      versions_by_month[record.key].add(record.version)
    elif record.version:
      commented_versions.add(record.version)
  per_month = collections.Counter(map(len, versions_by_month.values()))
  by_works = collections.Counter(map(len, sources_by_version.values()))
  return {
    "versions": len(sources_by_version),
    "with_commentary": len(commented_versions),
    "months_with_several": sum(
      count for number, count in per_month.items() if number > 1
    ),
    "per_month": {str(n): per_month[n] for n in sorted(per_month)},
    "by_works": {str(n): by_works[n] for n in sorted(by_works)},
  }
