"""The benchmark's six evaluation modes: which records, which queries.

Why: a figure means nothing without its gallery and its queries. A mode names
both: neg{0,1} keeps commentary (`neg_comment`) in the gallery or not, ne{0,1}
keeps placeholders (`no_event`), dq{0,1} drops queries that only placeholders
answer. Called by `evaluate` and `train`.

A figure is also of a family of queries, in one of two views. The release has
points (|Q| = 1, one month asked for) and windows (|Q| > 1). The paper's text
divides the points: those on a month with an event (here `event_point`, since
`point` is the release's word) and those on a month that the chronicle passes
over (`gap`); its windows are the release's. So a point counts twice, and
`point` is `event_point` and `gap` together. Windows are divided likewise by
what answers them: `event_window`, and `gap_window` where placeholders alone do.
These four are the cells of `macro`, in which each counts the same however few
its queries are: most official hits are placeholders, and an average over
queries hides that the events are missed.

Source: ChunQiuTR release, evaluation switches; Tables 13-15. Official is
neg1_ne1_dq0; event-only here is neg1_ne0_dq1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.benchmark import measures, runs
from ctd_jax.benchmark import queries as queries_lib
from ctd_jax.benchmark.records import EVENT, KINDS, NEG_COMMENT, NO_EVENT

EVENT_POINT = "event_point"
EVENT_WINDOW, GAP_WINDOW = "event_window", "gap_window"
CELLS = (EVENT_POINT, queries_lib.GAP, EVENT_WINDOW, GAP_WINDOW)
MACRO_FAMILY = "macro"
FAMILIES = (
  "all",
  queries_lib.POINT,
  queries_lib.WINDOW,
  *CELLS,
  MACRO_FAMILY,
)
# Measure -> kind of the positive that a query's first record has to be; the
# two sum to hit@1.
FIRST_KIND_BY_MEASURE = {"event_hit@1": EVENT, "placeholder_hit@1": NO_EVENT}
# paper_family of a query -> families it counts in besides the release's.
_POINT_FAMILIES = {
  "": (),
  queries_lib.POINT: (EVENT_POINT,),
  queries_lib.GAP: (queries_lib.GAP,),
}
_WINDOW_FAMILIES = {"": (), queries_lib.WINDOW: ()}

# Gallery id -> kinds of record it holds.
GALLERY_KINDS = {
  "neg0_ne0": (EVENT,),
  "neg0_ne1": (EVENT, NO_EVENT),
  "neg1_ne0": (EVENT, NEG_COMMENT),
  "neg1_ne1": KINDS,
}


@dataclasses.dataclass(frozen=True)
class EvaluationMode:
  """One setting of the protocol.

  Attributes:
    name: as the published tables write it, e.g. neg1_ne1_dq0.
    gallery: key of `GALLERIES`.
    drop_no_event: whether queries that only placeholders answer are left out.
  """

  name: str
  gallery: str
  drop_no_event: bool


# A gallery without placeholders has nothing for dq0 to keep.
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
  """What a run is worth in one mode, query by query.

  Attributes:
    system: of the run; likewise `track`, `score_mode` and `split`.
    mode: name of the mode.
    values: measure -> query id -> value, for every query kept.
    families: query id -> those of `FAMILIES` it counts in, see `families_of`,
      for every query kept.
  """

  system: str
  track: str
  score_mode: str
  split: str
  mode: str
  values: Mapping[str, Mapping[str, float]]
  families: Mapping[str, tuple[str, ...]]

  def values_of_family(
    self, measure: str, family: str = "all"
  ) -> dict[str, float]:
    """Returns query id -> value for the queries of one of `FAMILIES`.

    Empty where the mode keeps no query of the family, as dq1 keeps no gap.

    Raises:
      ValueError: if there is no such family; the message lists all.
    """
    values = self.values[measure]
    return {
      query_id: values[query_id]
      for query_id in self._query_ids_of_family(family)
    }

  def _query_ids_of_family(self, family: str) -> list[str]:
    """Returns the ids of the queries of a family."""
    if family not in FAMILIES:
      raise ValueError(
        f"family is one of {', '.join(FAMILIES)}; got {family!r}"
      )
    families_to_match = {family} if family != MACRO_FAMILY else set(CELLS)
    return [
      query_id
      for query_id, families in self.families.items()
      if not families_to_match.isdisjoint(families)
    ]

  def cell_by_query(self, family: str) -> dict[str, str] | None:
    """Returns query id -> cell for `macro`, whose cells count the same."""
    if family != MACRO_FAMILY:
      return None
    return {
      query_id: cell
      for query_id, families in self.families.items()
      for cell in set(families).intersection(CELLS)
    }

  def mean_of_family(self, measure: str, family: str = "all") -> float:
    """Returns the mean over the queries of a family, 0 if there is none."""
    values = self.values_of_family(measure, family)
    return measures.compute_mean(values, self.cell_by_query(family))

  def means_by_measure(self, family: str = "all") -> dict[str, float]:
    """Returns measure -> mean over the queries of a family."""
    query_ids, strata = (
      self._query_ids_of_family(family),
      self.cell_by_query(family),
    )
    return {
      measure: measures.compute_mean(
        {query_id: values[query_id] for query_id in query_ids}, strata
      )
      for measure, values in self.values.items()
    }


def average_seeds(tables: Sequence[PerQueryScores]) -> PerQueryScores:
  """Returns the mean of every value over runs of one system, e.g. its seeds.

  Args:
    tables: of the same system, mode and queries; at least one.
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
  query: queries_lib.Query, kinds_by_record_id: Mapping[str, str]
) -> tuple[str, ...]:
  """Returns those of `FAMILIES` in which a query counts, but for `macro`.

  A point that does not say which it is in the paper's view (`paper_family` is
  empty) counts in the release's view only.

  Args:
    query: of any split.
    kinds_by_record_id: of its positives at least.

  Raises:
    ValueError: naming the query, if the two views contradict each other.
  """
  allowed_families = (
    _WINDOW_FAMILIES if query.family == queries_lib.WINDOW else _POINT_FAMILIES
  )
  if query.paper_family not in allowed_families:
    raise ValueError(
      f"query {query.query_id}: paper_family of a {query.family} is "
      f"{' or '.join(filter(None, allowed_families))}; got {query.paper_family!r}"
    )
  families = ("all", query.family, *allowed_families[query.paper_family])
  if query.family == queries_lib.WINDOW:
    is_gap = is_pure_no_event(query.positives, kinds_by_record_id)
    families += (GAP_WINDOW if is_gap else EVENT_WINDOW,)
  return families


def gallery_mask(kinds: Sequence[str], gallery: str) -> np.ndarray:
  """Returns [N] bool: which records a gallery holds.

  Args:
    kinds: of the records [N], each one of `KINDS`.
    gallery: key of `GALLERIES`.

  Raises:
    ValueError: if a kind or the gallery is unknown.
  """
  if gallery not in GALLERY_KINDS:
    raise ValueError(
      f"gallery is one of {', '.join(GALLERY_KINDS)}; got {gallery!r}"
    )
  unknown = set(kinds) - set(KINDS)
  if unknown:
    raise ValueError(
      f"kind of a record is one of {', '.join(KINDS)}; got {sorted(unknown)}"
    )
  return np.isin(np.array(kinds, dtype=str), GALLERY_KINDS[gallery])


def gallery_masks(kinds: Sequence[str]) -> dict[str, np.ndarray]:
  """Returns gallery -> [N] bool, all four, for `search.search_top_k`."""
  return {gallery: gallery_mask(kinds, gallery) for gallery in GALLERY_KINDS}


def is_pure_no_event(
  positives: Sequence[str], kinds_by_record_id: Mapping[str, str]
) -> bool:
  """Returns whether placeholders, and nothing else, answer a query."""
  return {kinds_by_record_id[record_id] for record_id in positives} == {
    NO_EVENT
  }


def build_qrels(
  queries: Sequence[queries_lib.Query],
  kinds_by_record_id: Mapping[str, str],
  mode: EvaluationMode,
) -> dict[str, tuple[str, ...]]:
  """Returns query id -> positives in the gallery, for the queries kept.

  Args:
    queries: of one split.
    kinds_by_record_id: of every record of the corpus.
    mode: see `mode`.

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
    positives = dict.fromkeys(query.positives)
    if not gallery_kinds.issuperset(kinds):
      pairs = zip(query.positives, kinds, strict=True)
      positives = dict.fromkeys(
        record_id for record_id, kind in pairs if kind in gallery_kinds
      )
    if positives:
      positives_by_query[query.query_id] = tuple(positives)
  return positives_by_query


def evaluate_run(
  run: runs.Run,
  queries: Sequence[queries_lib.Query],
  kinds_by_record_id: Mapping[str, str],
  mode: EvaluationMode,
  names: Sequence[str] = measures.DEFAULT_MEASURES,
) -> PerQueryScores:
  """Returns the measures of a run in one mode, query by query.

  Args:
    run: over the gallery of `mode`.
    queries: all queries of the run's split.
    kinds_by_record_id: of every record of the corpus.
    mode: see `mode`.
    names: measures, see `evaluation.measures`.

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
      **measures.compute_per_query(positives_by_query, run.rankings, names),
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
  """Returns the values of `FIRST_OF_KIND` for every query judged."""
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
  """Raises ValueError if the run cannot be what the mode asks about."""
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
  query_by_record = {
    record_id: query_id
    for query_id, ranking in run.rankings.items()
    for record_id, _ in ranking
  }
  for record_id in query_by_record:
    if kinds_by_record_id.get(record_id) not in gallery_kinds:
      raise ValueError(
        f"run {run.tag}, query {query_by_record[record_id]}: {record_id} is not a record "
        f"of the gallery {gallery}"
      )
