"""Evaluation modes of the benchmark: galleries, queries and their families.

A figure means nothing without its gallery and its queries. A mode names both:
neg{0,1} leaves commentary (`neg_comment`) out of the gallery or keeps it,
ne{0,1} placeholders (`no_event`), and dq1 drops the queries that only
placeholders answer.

A figure also belongs to a family of queries, in one of two views. The release
has points (|Q| = 1, one month) and windows (|Q| > 1). The paper's text divides
the points: those on a month with an event (here `event_point`, since `point` is
the release's word) and those on a month that the chronicle passes over (`gap`);
its windows are the release's. A point therefore counts in two families, and
`point` is the union of `event_point` and `gap`. Windows are divided likewise
into `event_window` and `gap_window`, which placeholders alone answer.

These four families are the cells of `macro`, the mean of the cells' means. Most
official hits are placeholders: a mean over queries hides that a system misses
the events, the macro mean does not. Nor does the family `only_events`: the
queries without a placeholder among their positives, on which a parser of dates
finds nothing.

Axes: N records.

Source: ChunQiuTR release, evaluation switches; Tables 13-15. Official is
neg1_ne1_dq0; event-only here is neg1_ne0_dq1.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging
from jaxtyping import Bool, Shaped

from ctd_jax.benchmark import benchmark, runs
from ctd_jax.benchmark.benchmark import EVENT, KINDS, NEG_COMMENT, NO_EVENT

EVENT_POINT = "event_point"
EVENT_WINDOW, GAP_WINDOW = "event_window", "gap_window"
CELLS = (EVENT_POINT, benchmark.GAP, EVENT_WINDOW, GAP_WINDOW)
MACRO_FAMILY = "macro"
ONLY_EVENTS = "only_events"
_MIN_MASKED = 10  # records of a masked ranking that the measures look at
FAMILIES = (
  "all",
  benchmark.POINT,
  benchmark.WINDOW,
  *CELLS,
  MACRO_FAMILY,
  ONLY_EVENTS,
)
# Measure -> kind that the first record must have besides being a positive. The
# two sum to hit@1, since a positive is an event or a placeholder.
FIRST_KIND_BY_MEASURE = {"event_hit@1": EVENT, "placeholder_hit@1": NO_EVENT}
# paper_family of a query -> families it counts in besides the release's. Data
# sets of somebody else have no paper_family ("").
_POINT_FAMILIES = {
  "": (),
  benchmark.POINT: (EVENT_POINT,),
  benchmark.GAP: (benchmark.GAP,),
}
_WINDOW_FAMILIES = {"": (), benchmark.WINDOW: ()}

# Gallery -> kinds of record it holds.
GALLERY_KINDS = {
  "neg0_ne0": (EVENT,),
  "neg0_ne1": (EVENT, NO_EVENT),
  "neg1_ne0": (EVENT, NEG_COMMENT),
  "neg1_ne1": KINDS,
}


@dataclasses.dataclass(frozen=True)
class EvaluationMode:
  """One setting of the protocol."""

  name: str  # as the published tables write it, e.g. neg1_ne1_dq0
  gallery: str  # key of `GALLERY_KINDS`
  # Whether queries that only placeholders answer are left out.
  drop_no_event: bool

  @property
  def title(self) -> str:
    """The mode in words, e.g. "events and commentary; questions on events"."""
    added = [
      words
      for kind, words in (
        (NEG_COMMENT, "commentary"),
        (NO_EVENT, "empty months"),
      )
      if kind in GALLERY_KINDS[self.gallery]
    ]
    *first, last = ["events", *added]
    searched = f"{', '.join(first)} and {last}" if first else last
    asked = "questions on events" if self.drop_no_event else "all questions"
    return f"{searched}; {asked}"


# Without placeholders in the gallery dq0 and dq1 keep the same queries: six
# modes, not eight.
MODES = {
  f"{gallery}_dq{int(drop)}": EvaluationMode(
    f"{gallery}_dq{int(drop)}", gallery, drop
  )
  for gallery, kinds in GALLERY_KINDS.items()
  for drop in (False, True)
  if drop or NO_EVENT in kinds
}
OFFICIAL_MODE = "neg1_ne1_dq0"
EVENT_ONLY_MODE = "neg1_ne0_dq1"


@dataclasses.dataclass(frozen=True)
class PerQueryScores:
  """Measures of a run in one mode, query by query."""

  system: str  # of the run; likewise `track`, `score_mode` and `split`
  track: str
  score_mode: str
  split: str
  mode: str  # name of the mode
  # Measure -> query id -> value, for every query of the mode.
  values: Mapping[str, Mapping[str, float]]
  # Query id -> families it counts in, see `families_of`, for every query of the
  # mode.
  families: Mapping[str, tuple[str, ...]]

  def values_of_family(
    self, measure: str, family: str = "all"
  ) -> dict[str, float]:
    """Returns query id -> value for the queries of one of `FAMILIES`.

    Empty where the mode has no query of the family: dq1 drops every gap.

    Raises:
      ValueError: if there is no such family; the message lists all.
    """
    if family not in FAMILIES:
      raise ValueError(
        f"family is one of {', '.join(FAMILIES)}; got {family!r}"
      )
    values = self.values[measure]
    families_to_match = {family} if family != MACRO_FAMILY else set(CELLS)
    return {
      query_id: values[query_id]
      for query_id, families in self.families.items()
      if not families_to_match.isdisjoint(families)
    }

  def cell_by_query(self, family: str) -> dict[str, str] | None:
    """Returns query id -> cell for `macro`, None for any other family."""
    if family != MACRO_FAMILY:
      return None
    return {
      query_id: cell
      for query_id, families in self.families.items()
      for cell in set(families).intersection(CELLS)
    }

  def mean_of_family(self, measure: str, family: str = "all") -> float:
    """Returns the mean over the queries of a family, 0 without any."""
    return runs.compute_mean(
      self.values_of_family(measure, family), self.cell_by_query(family)
    )


def mode_title(name: str) -> str:
  """Returns a mode in words, or its name if it belongs to another task."""
  return MODES[name].title if name in MODES else name


def average_seeds(tables: Sequence[PerQueryScores]) -> PerQueryScores:
  """Returns per-query means over runs of one system that differ in the seed.

  Args:
    tables: tables of the same system, mode and queries, at least one.
  """
  first = tables[0]
  values = {
    measure: {
      query_id: float(
        np.mean([table.values[measure][query_id] for table in tables])
      )
      for query_id in first.values[measure]
    }
    for measure in first.values
  }
  return dataclasses.replace(first, values=values)


def get_mode(name: str) -> EvaluationMode:
  """Returns the mode of that name.

  Raises:
    ValueError: if there is none; the message lists all.
  """
  if name not in MODES:
    raise ValueError(f"mode is one of {', '.join(MODES)}; got {name!r}")
  return MODES[name]


def families_of(
  query: benchmark.Query, kinds_by_record_id: Mapping[str, str]
) -> tuple[str, ...]:
  """Returns those of `FAMILIES` in which a query counts, but for `macro`.

  A point without `paper_family` counts in the release's view only.

  Args:
    kinds_by_record_id: kinds of its positives at least.

  Raises:
    ValueError: if the two views contradict each other; the message names the
      query.
  """
  allowed_families = (
    _WINDOW_FAMILIES if query.family == benchmark.WINDOW else _POINT_FAMILIES
  )
  if query.paper_family not in allowed_families:
    raise ValueError(
      f"query {query.query_id}: paper_family of a {query.family} is "
      f"{' or '.join(filter(None, allowed_families))}; got "
      f"{query.paper_family!r}"
    )
  families = ("all", query.family, *allowed_families[query.paper_family])
  kinds = {kinds_by_record_id[record_id] for record_id in query.positives}
  if query.family == benchmark.WINDOW:
    families += (GAP_WINDOW if kinds == {NO_EVENT} else EVENT_WINDOW,)
  return (*families, ONLY_EVENTS) if NO_EVENT not in kinds else families


def gallery_mask(
  kinds: Sequence[str] | Shaped[np.ndarray, " N"], gallery: str
) -> Bool[np.ndarray, " N"]:
  """Returns True for the records that a gallery holds.

  Args:
    kinds: kinds of the N records, each one of `KINDS`.
    gallery: key of `GALLERY_KINDS`.

  Raises:
    ValueError: if the gallery is unknown.
  """
  if gallery not in GALLERY_KINDS:
    raise ValueError(
      f"gallery is one of {', '.join(GALLERY_KINDS)}; got {gallery!r}"
    )
  return np.isin(np.array(kinds, dtype=str), GALLERY_KINDS[gallery])


def gallery_masks(
  kinds: Sequence[str] | Shaped[np.ndarray, " N"],
) -> dict[str, Bool[np.ndarray, " N"]]:
  """Returns gallery -> mask of its records, for all four galleries."""
  return {gallery: gallery_mask(kinds, gallery) for gallery in GALLERY_KINDS}


def build_qrels(
  queries: Sequence[benchmark.Query],
  kinds_by_record_id: Mapping[str, str],
  mode: EvaluationMode,
) -> dict[str, tuple[str, ...]]:
  """Returns query id -> positives in the gallery, for the queries of a mode.

  A query without a positive in the gallery is left out in every mode.

  Args:
    kinds_by_record_id: kind of every record in the benchmark, by id.

  Raises:
    ValueError: if two queries share an id or a positive is not a record.
  """
  gallery_kinds = set(GALLERY_KINDS[mode.gallery])
  positives_by_query = {}
  for query in queries:
    if query.query_id in positives_by_query:
      raise ValueError(f"two queries have the id {query.query_id}")
    try:
      kinds = [kinds_by_record_id[record_id] for record_id in query.positives]
    except KeyError as error:
      raise ValueError(
        f"query {query.query_id}: positive {error.args[0]} is not a record"
      ) from None
    if mode.drop_no_event and set(kinds) == {NO_EVENT}:
      continue
    positives = dict.fromkeys(query.positives)  # without repetitions
    if not gallery_kinds.issuperset(kinds):
      pairs = zip(query.positives, kinds, strict=True)
      positives = dict.fromkeys(
        record_id for record_id, kind in pairs if kind in gallery_kinds
      )
    if positives:
      positives_by_query[query.query_id] = tuple(positives)
  return positives_by_query


MASK = "+mask"  # of the name of a run without the records of train months


def mask_train_records(run: runs.Run, data: benchmark.Benchmark) -> runs.Run:
  """Returns a run without the records of train months.

  None of them answers a question about other months, and a system that looks
  up their keys knows it. So do all others after this filter; the run gets the
  name SYSTEM+mask and the track of systems that look keys up.
  """
  is_train = dict(zip(data.record_ids, data.record_splits, strict=True))
  rankings = {
    query_id: [hit for hit in ranking if is_train.get(hit[0]) != "train"]
    for query_id, ranking in run.rankings.items()
  }
  is_short = [
    len(rankings[query_id]) < _MIN_MASKED <= len(ranking)
    for query_id, ranking in run.rankings.items()
  ]
  if any(is_short):
    logging.warning(
      "%s%s, %s: %d of %d rankings hold fewer than %d records that are not of "
      "train; rank deeper (config.eval.depth)",
      *(run.system, MASK, run.gallery, sum(is_short), len(is_short)),
      _MIN_MASKED,
    )
  return dataclasses.replace(
    run,
    system=run.system + MASK,
    track=runs.allow_lookup(run.track),
    rankings=rankings,
  )


def evaluate_run(
  run: runs.Run,
  queries: Sequence[benchmark.Query],
  kinds_by_record_id: Mapping[str, str],
  mode: EvaluationMode,
  names: Sequence[str] = runs.DEFAULT_MEASURES,
) -> PerQueryScores:
  """Returns the measures of a run in one mode, query by query.

  Args:
    run: over the gallery of `mode`.
    kinds_by_record_id: kind of every record in the benchmark, by id.

  Raises:
    ValueError: if the run is over another gallery, holds records from outside
      it, or answers none of the queries.
  """
  positives_by_query = build_qrels(queries, kinds_by_record_id, mode)
  _check_run(run, positives_by_query, kinds_by_record_id, mode.gallery)
  return PerQueryScores(
    run.system,
    run.track,
    run.score_mode,
    run.split,
    mode.name,
    {
      **runs.compute_per_query(positives_by_query, run.rankings, names),
      **_first_kind_values(run, positives_by_query, kinds_by_record_id),
    },
    {
      query.query_id: families_of(query, kinds_by_record_id)
      for query in queries
      if query.query_id in positives_by_query
    },
  )


def _first_kind_values(
  run: runs.Run,
  positives_by_query: Mapping[str, Sequence[str]],
  kinds_by_record_id: Mapping[str, str],
) -> dict[str, dict[str, float]]:
  """Returns the values of `FIRST_KIND_BY_MEASURE` for every query."""
  kind_of_hit = {}
  for query_id, positives in positives_by_query.items():
    for record_id, _ in run.rankings.get(query_id, [])[:1]:
      if record_id in positives:
        kind_of_hit[query_id] = kinds_by_record_id[record_id]
  return {
    measure: {
      query_id: float(kind_of_hit.get(query_id) == kind)
      for query_id in positives_by_query
    }
    for measure, kind in FIRST_KIND_BY_MEASURE.items()
  }


def _check_run(
  run: runs.Run,
  positives_by_query: Mapping[str, Sequence[str]],
  kinds_by_record_id: Mapping[str, str],
  gallery: str,
) -> None:
  """Raises ValueError if the run is not one over the mode's gallery."""
  if run.gallery != gallery:
    raise ValueError(
      f"run {run.tag} searched {run.gallery}; this mode needs {gallery}"
    )
  if positives_by_query and not positives_by_query.keys() & run.rankings.keys():
    raise ValueError(
      f"run {run.tag} answers none of the {len(positives_by_query)} queries of "
      f"{run.split}; are its query ids those of the benchmark?"
    )
  gallery_kinds = GALLERY_KINDS[gallery]
  # One query for each record is enough to name the fault.
  query_by_record = {
    record_id: query_id
    for query_id, ranking in run.rankings.items()
    for record_id, _ in ranking
  }
  for record_id in query_by_record:
    if kinds_by_record_id.get(record_id) not in gallery_kinds:
      raise ValueError(
        f"run {run.tag}, query {query_by_record[record_id]}: {record_id} is "
        f"not a record of the gallery {gallery}"
      )
