"""Variants of a benchmark that show whether its figures can be trusted.

A variant is a data set with a name of its own, `NAME+split1` or
`NAME+undated`, so that every command can be given one.
"""

import collections
import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np

from ctd_jax.benchmark.benchmark import (
  CHUNQIU_TITLE,
  EVENT,
  NO_EVENT,
  SPLITS,
  Benchmark,
  Record,
  find_positives,
  index_positives_by_month,
)
from ctd_jax.benchmark.generation import generate_queries
from ctd_jax.chronology import dates
from ctd_jax.chronology.reigns import TimeKey

TRAIN, VALIDATION, TEST = SPLITS


def parse_name(name: str) -> tuple[str, str]:
  """Returns the name of a data set, and of its variant, "" for itself."""
  base, _, variant = name.rpartition("+")
  is_variant = variant in AUDITS or re.fullmatch(r"split[1-9]\d*", variant)
  return (base, variant) if base and is_variant else (name, "")


def make_variant(benchmark: Benchmark, variant: str) -> Benchmark:
  """Returns a variant of a benchmark.

  Args:
    variant: split1, split2, ... or one of `AUDITS`.

  Raises:
    ValueError: if the benchmark lacks a split.
  """
  if variant in AUDITS:
    made = AUDITS[variant](benchmark)
  else:
    made = _draw_splits(benchmark, int(variant.removeprefix("split")))
  name, colon, version = benchmark.name.partition(":")
  return dataclasses.replace(made, name=f"{name}+{variant}{colon}{version}")


# Audits: what a system reads of the benchmark is changed, and never what it is
# scored by. A figure that stays where it should fall, or moves where it should
# stay, shows a leak.
#
#   hidden     keys, places and versions of held-out records at random, other
#              ids: nothing changes
#   permuted   months of train records permuted: what is learned is lost
#   alone      all texts but those of test records and placeholders are blank:
#              what other texts tell is lost
#   undated    test events without the date that opens them: only words and
#              parallels are left
#   silent     test events are blank: nothing is found


def _audit_hidden(benchmark: Benchmark) -> Benchmark:
  draw = np.random.default_rng(1)
  records = benchmark.records
  months = draw.choice(len(benchmark.timeline), len(records))
  places = draw.permutation(len(records))
  # Sorted by the new ids, the records also stand in another order.
  new_ids = {
    record.record_id: f"r{number:05d}"
    for record, number in zip(
      records, draw.permutation(len(records)), strict=True
    )
  }
  changed = []
  for record, split, month, place in zip(
    records, benchmark.record_splits, months.tolist(), places, strict=True
  ):
    fields = {"record_id": new_ids[record.record_id]}
    if split != TRAIN:
      key = benchmark.timeline.key_at(month)
      fields |= {"key": key, "order": int(place), "version": ""}
    changed.append((dataclasses.replace(record, **fields), split))
  changed.sort(key=lambda pair: pair[0].record_id)
  return dataclasses.replace(
    benchmark,
    records=tuple(record for record, _ in changed),
    record_splits=tuple(split for _, split in changed),
    queries={
      split: tuple(
        dataclasses.replace(
          query, positives=tuple(sorted(map(new_ids.get, query.positives)))
        )
        for query in queries
      )
      for split, queries in benchmark.queries.items()
    },
  )


def _audit_permuted(benchmark: Benchmark) -> Benchmark:
  rows = [
    row
    for row, (record, split) in enumerate(
      zip(benchmark.records, benchmark.record_splits, strict=True)
    )
    if split == TRAIN and record.kind != NO_EVENT
  ]
  records = list(benchmark.records)
  order = np.random.default_rng(1).permutation(rows).tolist()
  for row, other in zip(rows, order, strict=True):
    records[row] = dataclasses.replace(
      records[row], key=benchmark.records[other].key
    )
  positives = index_positives_by_month(records)
  answered = tuple(
    dataclasses.replace(query, positives=found)
    for query in benchmark.queries[TRAIN]
    if (found := find_positives(query.interval, benchmark.timeline, positives))
  )
  return dataclasses.replace(
    benchmark,
    records=tuple(records),
    queries={**benchmark.queries, TRAIN: answered},
  )


def _change_texts(
  benchmark: Benchmark, change: Callable[[Record, str], str]
) -> Benchmark:
  """Returns the benchmark with a text for each record and its split."""
  return dataclasses.replace(
    benchmark,
    records=tuple(
      dataclasses.replace(record, text=change(record, split))
      for record, split in zip(
        benchmark.records, benchmark.record_splits, strict=True
      )
    ),
  )


_BLANK = "闕"  # encoders and BM25 want a character


def _audit_alone(benchmark: Benchmark) -> Benchmark:
  return _change_texts(
    benchmark,
    lambda record, split: (
      record.text if split == TEST or record.kind == NO_EVENT else _BLANK
    ),
  )


def _audit_undated(benchmark: Benchmark) -> Benchmark:
  def cut_opening(record: Record, split: str) -> str:
    if split != TEST or record.kind != EVENT:
      return record.text
    cues = dates.find_date_cues(record.text, benchmark.timeline)
    if not cues or cues[0].start > 2:  # a date further inside
      return record.text
    return record.text[cues[0].end :].lstrip("，、。 ") or _BLANK

  return _change_texts(benchmark, cut_opening)


def _audit_silent(benchmark: Benchmark) -> Benchmark:
  return _change_texts(
    benchmark,
    lambda record, split: (
      _BLANK if split == TEST and record.kind == EVENT else record.text
    ),
  )


AUDITS: dict[str, Callable[[Benchmark], Benchmark]] = {
  "hidden": _audit_hidden,
  "permuted": _audit_permuted,
  "alone": _audit_alone,
  "undated": _audit_undated,
  "silent": _audit_silent,
}


# Other splits of a benchmark, drawn by a seed.
#
# Systems were developed for months on one split. On another their figures show
# whether they fit the chronicle or the split. Nothing else changes: the same
# records and templates, and in each reign one block for validation and one for
# test, as long as those of the published split.


def _draw_splits(benchmark: Benchmark, seed: int) -> Benchmark:
  """Returns a benchmark with other blocks held out and queries about these."""
  # A block has whole years, or months in a reign where the published split
  # divides a year. Test blocks are years of published train where a reign has
  # enough of these: nobody chose constants on them.
  timeline = benchmark.timeline
  published = {
    record.key: split
    for record, split in zip(
      benchmark.records, benchmark.record_splits, strict=True
    )
  }
  if missing := set(SPLITS) - set(published.values()):
    raise ValueError(
      f"{benchmark.name} has no {min(missing)} months to draw again"
    )
  draw = np.random.default_rng(seed)
  split_of: dict[TimeKey, str] = {}
  for _, keys in itertools.groupby(timeline.months, lambda key: key.reign):
    keys = [key for key in keys if key in published]
    years = [
      [*of_year] for _, of_year in itertools.groupby(keys, lambda key: key.year)
    ]
    if any(len({published[key] for key in of_year}) > 1 for of_year in years):
      years = [[key] for key in keys]
    drawn = _draw_blocks([published[of_year[0]] for of_year in years], draw)
    for of_year, split in zip(years, drawn, strict=True):
      split_of |= dict.fromkeys(of_year, split)
  texts = "".join(query.text for query in benchmark.queries[TEST])
  titles = collections.Counter(re.findall("《[^》]+》", texts)).most_common(1)
  queries = generate_queries(
    timeline,
    split_of,
    benchmark.records,
    seed,
    title=titles[0][0] if titles else CHUNQIU_TITLE,
  )
  return dataclasses.replace(
    benchmark,
    record_splits=tuple(split_of[record.key] for record in benchmark.records),
    queries={split: tuple(queries.get(split, ())) for split in SPLITS},
  )


def _draw_blocks(published: Sequence[str], draw: np.random.Generator) -> list:
  """Returns the splits of the years of a reign, for those published."""
  size = {split: published.count(split) for split in SPLITS}
  stops = len(published) - size[TEST] + 1, len(published) - size[VALIDATION] + 1
  choices = []
  for test_start, start in itertools.product(*map(range, stops)):
    of_test = range(test_start, test_start + size[TEST])
    if not {*of_test} & {*range(start, start + size[VALIDATION])}:
      others = sum(published[year] != TRAIN for year in of_test)
      choices.append((others, test_start, start))
  fewest = min(choices)[0]
  choices = [choice for choice in choices if choice[0] == fewest]
  _, test_start, start = choices[draw.integers(len(choices))]
  result = [TRAIN] * len(published)
  result[test_start : test_start + size[TEST]] = [TEST] * size[TEST]
  result[start : start + size[VALIDATION]] = [VALIDATION] * size[VALIDATION]
  return result
