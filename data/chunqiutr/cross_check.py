"""What the four works say of the same events, and how records were made.

Why: the months of the works come from four scans that know nothing of one
another. Where two works tell of one event, their months must be the same or
there must be a reason; every pair that differs is listed with both places, so
that a reader can look it up. Called by `records`, shown by `audit`.

Source: ChunQiuTR section 6.2 (months checked by hand), Tables 8 and 9.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ctd_jax.chronology import annals
from ctd_jax.chronology.annals import Record
from ctd_jax_datasets.chunqiutr import alignment, events, sources

# A match as like as this is taken for the same event without doubt.
SURE = 0.8
# Characters of a record that help to find it; not a sentence.
_HEAD = 6
# Why two works may differ, the first that holds.
_BOTH_PRINT = "both print a month"
_SEASON = "a season stands for its first month"
_INSIDE = "told inside a longer passage"
_CARRIED = "a month is carried on from the entry before"
_UNSURE = "unsure"


def units(
  entries: Iterable[sources.Entry], parts: Iterable[events.Part]
) -> dict[str, dict[str, int]]:
  """Returns source -> entries and Han characters before and after cutting.

  Returns:
    `units`, `characters` and `longest` of the entries of the edition; the same
    of the parts they are cut into with `parts_` before the name. In the shape
    of the paper's Table 8.
  """
  before, after = (
    _lengths((text.source, text.text) for text in texts)
    for texts in (entries, parts)
  )
  return {
    source: {
      "units": len(lengths),
      "characters": sum(lengths),
      "longest": max(lengths),
      "parts": len(after[source]),
      "parts_longest": max(after[source], default=0),
    }
    for source, lengths in before.items()
  }


def _lengths(texts: Iterable[tuple[str, str]]) -> dict[str, list[int]]:
  lengths = collections.defaultdict(list)
  for source, text in texts:
    lengths[source].append(len(alignment.fold(text)))
  return lengths


def decisions(
  parts: Iterable[events.Part], entries: int, cut_at_events: int
) -> dict[str, int]:
  """Returns rule -> how often it gave a part of the base texts its month.

  Args:
    parts: dated.
    entries: number of entries they come from.
    cut_at_events: number of pieces the entries were cut into for their events.
  """
  parts = list(parts)
  counts = collections.Counter(map(_rule, parts))
  counts["entry cut where an event begins"] = cut_at_events - entries
  counts["entry cut where a month begins"] = len(parts) - cut_at_events
  return dict(sorted(counts.items()))


def _rule(part: events.Part) -> str:
  printed = annals.printed_date(part.text)
  if printed == annals.LEAP_MONTH:
    december = part.key.month == 12
    return f"閏月: {'month 12' if december else 'the month before it'}"
  if printed == annals.SEASON:
    first = part.key.month in annals.FIRST_MONTH.values()
    return f"season alone: {'its first month' if first else 'already in it'}"
  return {
    annals.MONTH: "month printed",
    annals.YEAR: "year alone: 正月",
    annals.NO_DATE: "no date: the month before it",
  }[printed]


def agreement(
  parts: Sequence[events.Part],
  matches: Mapping[str, Iterable[events.Match]],
) -> tuple[dict[str, dict[str, int]], list[dict[str, Any]]]:
  """Returns how often works agree on a month, and where they do not.

  Each sentence of the annals is compared once with each tradition.

  Args:
    parts: of all base texts.
    matches: tradition -> its matches.

  Returns:
    ("chunqiu <tradition>" -> {compared, same_year, same_month} of the matches
    that are `SURE`, and the same with `all_` before the name of all matches,
    rows of the disagreements in the order of the annals).
  """
  table, rows = {}, []
  for tradition, pairs in matches.items():
    counts = collections.Counter()
    for pair, event, part in events.pairs_of_parts(parts, pairs):
      chronicle, other = parts[event], parts[part]
      same_year = chronicle.key.triple[:2] == other.key.triple[:2]
      for kind in ["all_"] + [""] * (pair.score >= SURE):
        counts[f"{kind}compared"] += 1
        counts[f"{kind}same_year"] += same_year
        counts[f"{kind}same_month"] += chronicle.key == other.key
      if chronicle.key != other.key:
        rows.append((event, _disagreement(chronicle, other, pair)))
    names = ("compared", "same_year", "same_month")
    table[f"{sources.ANNALS} {tradition}"] = {
      kind + name: counts[kind + name]
      for kind in ("", "all_")
      for name in names
    }
  rows.sort(key=lambda row: row[0])
  return table, [row for _, row in rows]


def _disagreement(
  chronicle: events.Part, other: events.Part, pair: events.Match
) -> dict[str, Any]:
  return {
    "tradition": other.source,
    "annals_key": str(chronicle.key),
    "tradition_key": str(other.key),
    "annals_place": chronicle.spot.place,
    "tradition_place": other.spot.place,
    "annals_head": chronicle.text[:_HEAD],
    "tradition_head": other.text[:_HEAD],
    "score": pair.score,
    "sure": pair.score >= SURE,
    "reason": _reason(chronicle, other, pair),
  }


def _reason(
  chronicle: events.Part, other: events.Part, pair: events.Match
) -> str:
  """Returns why two works may give one event two months."""
  inside = pair.tradition.start > other.spot.start
  printed = {
    annals.printed_date(chronicle.text),
    annals.printed_date(other.text),
  }
  if other.source == sources.ZUOZHUAN and inside:
    return _INSIDE
  if printed == {annals.MONTH}:
    return _BOTH_PRINT
  if annals.NO_DATE in printed:
    return _CARRIED
  if annals.SEASON in printed:
    return _SEASON
  return _UNSURE


def versions(records: Iterable[Record]) -> dict[str, Any]:
  """Returns how records group into versions, and versions into months.

  Returns:
    versions: number of them; per_month: number of versions -> months;
    months_with_several; by_works: number of base texts that tell of an
    event -> versions; with_commentary: versions that any comment explains.
  """
  works = collections.defaultdict(set)
  months = collections.defaultdict(set)
  explained = set()
  for record in records:
    if record.kind == annals.EVENT:
      works[record.version].add(record.source)
      months[record.key].add(record.version)
    elif record.version:
      explained.add(record.version)
  per_month = collections.Counter(map(len, months.values()))
  by_works = collections.Counter(map(len, works.values()))
  return {
    "versions": len(works),
    "with_commentary": len(explained),
    "months_with_several": sum(
      count for number, count in per_month.items() if number > 1
    ),
    "per_month": {str(n): per_month[n] for n in sorted(per_month)},
    "by_works": {str(n): by_works[n] for n in sorted(by_works)},
  }
