"""Runs and qrels as TREC files, the border between systems and evaluation.

BM25, a dual encoder and somebody else's system meet only here: every system
writes a `Run`, and `evaluation.protocol` reads nothing else.

Order and ties. A ranking is by score descending, then record id ascending.
trec_eval and pytrec_eval keep scores as float32 and break ties by *descending*
document id, which would undo that order. Scores are therefore made strictly
decreasing in float32: a score that is not below its predecessor becomes
the next float32 below it (`numpy.nextafter`). A tie moves by a few units in
the last place, every tool keeps our order, and the figures of the file are
those of the rankings in memory.

Axes: Q queries, N records, k results.
"""

import collections
import dataclasses
import os
import re
import statistics
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pytrec_eval
from absl import logging
from jaxtyping import Float, Float32, Int

from ctd_jax.utils import files

# Information that a system may read: texts; the time keys of train records, as
# a training signal or looked up while ranking; texts from outside, or the order
# of records in their source; the time keys of all records. See
# docs/concepts/benchmark.md.
TEXTS, TRAINED, LOOKUP = "T0", "T0+train", "T0+lookup"
EXTERNAL, ORDER = "+external", "+order"
TRACKS = (
  *(
    f"{t}{more}"
    for more in ("", EXTERNAL, ORDER)
    for t in (TEXTS, TRAINED, LOOKUP)
  ),
  "T1",
)
_FILE_NAME = re.compile(
  r"run\.(?P<system>.+)\.(?P<split>\w+)\.(?P<gallery>\w+)\.trec"
)
# Columns are split at white space, tags at colons, paths at slashes.
_FORBIDDEN_CHARACTERS = re.compile(r"[\s:/\\]")

# (record id, score), best first.
Ranking = Sequence[tuple[str, float]]


@dataclasses.dataclass(frozen=True)
class Run:
  """One system's rankings over one gallery for the queries of one split."""

  system: str  # name of the system, without white space, colons and slashes
  track: str  # what the system may read: one of `TRACKS`
  score_mode: str  # what the score is, e.g. `semantic`, `ctd`, `lexical`
  split: str  # of the queries: train, validation or test
  gallery: str  # which records were searched, e.g. `neg1_ne1`
  # For each query id, records with their scores, best first.
  rankings: Mapping[str, Ranking]

  def __post_init__(self):
    for field in ("system", "score_mode", "split", "gallery"):
      value = getattr(self, field)
      if not is_valid_name(value):
        raise ValueError(
          f"{field} of a run must be non-empty, without white space, ':' and "
          f"slashes; got {value!r}"
        )
    if self.track not in TRACKS:
      raise ValueError(
        f"track of a run is one of {', '.join(TRACKS)}; got {self.track!r}"
      )

  @property
  def tag(self) -> str:
    """Last column of the file: system:track:score_mode."""
    return f"{self.system}:{self.track}:{self.score_mode}"

  @property
  def file_name(self) -> str:
    """Name of the run's file, see `run_file_name`."""
    return run_file_name(self.system, self.split, self.gallery)

  @property
  def depth(self) -> int:
    """Records of the longest ranking; 0 if there are no rankings."""
    return max(map(len, self.rankings.values()), default=0)


def reads_no_more(track: str, than: str) -> bool:
  """Returns whether all that a track allows is allowed in another track too."""
  if than == "T1":
    return True
  # What is looked up may also teach.
  allowed = {*than.replace("lookup", "train+lookup").split("+")}
  return {*track.split("+")} <= allowed


def allow_lookup(track: str) -> str:
  """Returns a track in which the keys of train records are looked up too."""
  base, *more = track.replace("+train", "").replace("+lookup", "").split("+")
  return track if base == "T1" else "+".join([LOOKUP, *more])


def run_file_name(system: str, split: str, gallery: str) -> str:
  """Returns run.<system>.<split>.<gallery>.trec."""
  return f"run.{system}.{split}.{gallery}.trec"


def is_run_file_name(name: str) -> bool:
  """Whether a file name has the form of `run_file_name`."""
  return _FILE_NAME.fullmatch(name) is not None


def is_valid_name(text: str) -> bool:
  """Whether `text` can name a system in a run file and its file name."""
  return bool(text) and not _FORBIDDEN_CHARACTERS.search(text)


def make_strictly_decreasing(
  scores: Sequence[float | np.floating] | Float[np.ndarray, " k"],
) -> Float32[np.ndarray, " k"]:
  """Returns the scores as float32, each below the one before it.

  Scores that already decrease strictly in float32 are returned unchanged, so
  applying this twice changes nothing.

  Args:
    scores: scores of one ranking, not increasing.

  Raises:
    ValueError: if a score is not finite in float32 or exceeds its predecessor.
  """
  with np.errstate(over="ignore"):
    float32_scores = np.asarray(scores, np.float32)
  if not np.all(np.isfinite(float32_scores)):
    raise ValueError("scores of a ranking must be finite in float32")
  if np.any(np.diff(float32_scores) > 0):
    raise ValueError("scores of a ranking must not increase with the rank")
  if np.all(np.diff(float32_scores) < 0):
    return float32_scores
  # From the second on: the smaller of the score and the next float32 below the
  # one before. A long tie goes down step by step.
  decreasing = float32_scores.copy()
  floor = np.float32(-np.inf)
  for rank in range(1, len(decreasing)):
    decreasing[rank] = min(
      decreasing[rank], np.nextafter(decreasing[rank - 1], floor)
    )
  if not np.all(np.isfinite(decreasing)):
    raise ValueError("scores are too close to the lowest float32 to break ties")
  return decreasing


def _part_ties(
  scores: Float[np.ndarray, "Q k"], counts: Int[np.ndarray, " Q"]
) -> Float32[np.ndarray, "Q k"]:
  """Returns the first scores of each row strictly decreasing."""
  decreasing = np.array(scores, np.float32)
  is_padding = np.arange(decreasing.shape[1]) >= counts[:, None]
  # Most rows decrease already; only the others are walked score by score.
  with np.errstate(invalid="ignore"):  # padding: -inf - -inf
    is_decreasing = np.isfinite(decreasing) & (
      np.diff(decreasing, prepend=np.inf) < 0
    )
  for row in np.flatnonzero(~np.all(is_decreasing | is_padding, axis=1)):
    ranked = slice(counts[row])
    decreasing[row, ranked] = make_strictly_decreasing(decreasing[row, ranked])
  return decreasing


def make_runs(
  system: str,
  track: str,
  score_mode: str,
  split: str,
  query_ids: Sequence[str],
  record_ids: Sequence[str],
  top_k: Mapping[str, tuple[Int[np.ndarray, "Q k"], Float[np.ndarray, "Q k"]]],
) -> list[Run]:
  """Returns one `Run` per gallery from the result of `search.search_top_k`.

  Args:
    system: see `Run`.
    track: see `Run`.
    score_mode: see `Run`.
    split: see `Run`.
    query_ids: ids of the Q queries, in the order of the rows of `top_k`.
    record_ids: ids of the N records, in the order in which they were searched.
    top_k: gallery -> (indices, scores), best first; index -1 means that the
      gallery has fewer than k records.

  Raises:
    ValueError: if there is not one ranking for each query id.
  """
  runs = []
  for gallery, (indices, scores) in top_k.items():
    if len(indices) != len(query_ids):
      raise ValueError(
        f"{len(query_ids)} query ids for {len(indices)} rankings of {gallery}"
      )
    rankings = {}
    # Index -1 takes the last id; `counts` cuts it off again.
    names = np.array(record_ids, object)[indices].tolist()
    counts = np.sum(indices >= 0, axis=1)
    scores = _part_ties(scores, counts).tolist()
    for query_id, record_names, values, count in zip(
      query_ids, names, scores, counts, strict=True
    ):
      ranking = zip(record_names[:count], values[:count], strict=True)
      rankings[query_id] = list(ranking)
    runs.append(Run(system, track, score_mode, split, gallery, rankings))
  return runs


def write_run(run: Run, folder: str | os.PathLike) -> files.AnyPath:
  """Returns the path of the TREC file written for `run`.

  Columns: query id, Q0, record id, rank from 1, score, tag. A query with an
  empty ranking has no line; evaluation counts it 0.

  Args:
    run: its rankings best first.
    folder: made if absent; the file is named `Run.file_name`.

  Raises:
    ValueError: if the file exists with another tag, or a score is not finite.
  """
  path = files.as_path(folder) / run.file_name
  # Two systems of one name would overwrite each other without notice.
  if path.exists():
    with path.open("r", encoding="utf-8") as file:
      tag = next(iter(file.readline().split()[-1:]), run.tag)
    if tag != run.tag:
      raise ValueError(
        f"{path} holds the run {tag}, not {run.tag}; give the systems different"
        " names or remove the file"
      )
  lines = []
  for query_id, ranking in run.rankings.items():
    scores = make_strictly_decreasing([score for _, score in ranking])
    for rank, ((record_id, _), score) in enumerate(
      zip(ranking, scores, strict=True), start=1
    ):
      # Nine significant digits read back as the same float32.
      lines.append(f"{query_id} Q0 {record_id} {rank} {score:.9g} {run.tag}\n")
  files.write_text(path, "".join(lines))
  return path


def read_run(
  path: str | os.PathLike,
  split: str | None = None,
  gallery: str | None = None,
) -> Run:
  """Returns the run of a TREC file, each ranking best first.

  Ranks are not read: the order is score (as float32) descending, then record
  id ascending, and ties are then parted as in `write_run`. A tag of another
  program, such as `bm25`, names the system alone: the run is then taken as of
  track T0, and a warning says so.

  Args:
    path: a file named run.<system>.<split>.<gallery>.trec, or any file if
      `split` and `gallery` are given.
    split: split of the queries; by default from the file name.
    gallery: gallery that was searched; by default from the file name.

  Raises:
    ValueError: if a line is malformed, a record occurs twice for a query, or
      the tag changes (the message names file and line); or if the file is
      empty.
  """
  path = files.as_path(path)
  name_match = _FILE_NAME.fullmatch(path.name)
  if name_match is None and (split is None or gallery is None):
    raise ValueError(
      f"{path}: cannot tell split and gallery from the name; expected "
      "run.<system>.<split>.<gallery>.trec"
    )
  scores_by_query: dict[str, dict[str, float]] = {}
  tag = None
  for location, columns in _read_columns(path, 6):
    query_id, _, record_id, rank, score, line_tag = columns
    _parse_number(location, "rank", rank, int)
    if tag is None:
      tag, fields = line_tag, _parse_tag(location, line_tag)
    elif line_tag != tag:
      raise ValueError(
        f"{location}: tag {line_tag!r} differs from {tag!r} above"
      )
    ranking = scores_by_query.setdefault(query_id, {})
    if record_id in ranking:
      raise ValueError(
        f"{location}: record {record_id} occurs twice for query {query_id}"
      )
    ranking[record_id] = _parse_number(location, "score", score, float)
    with np.errstate(over="ignore"):  # 1e300 is infinite in float32
      if not np.isfinite(np.float32(ranking[record_id])):
        raise ValueError(
          f"{location}: score {score!r} is not finite in float32"
        )
  if tag is None:
    raise ValueError(f"{path}: no line in this run file")
  return Run(
    *fields,
    split or name_match["split"],
    gallery or name_match["gallery"],
    {
      query_id: sort_ranking(ranking)
      for query_id, ranking in scores_by_query.items()
    },
  )


def _parse_tag(location: str, tag: str) -> tuple[str, str, str]:
  """Returns system, track and score mode of a tag, ours or another's."""
  system, *rest = tag.split(":")
  if len(rest) == 2:
    if rest[0] not in TRACKS:
      raise ValueError(
        f"{location}: tag {tag!r} is not system:track:score_mode with a "
        f"track among {', '.join(TRACKS)}"
      )
    return system, *rest
  logging.warning(
    "%s: tag %r names no track; taken as %s (texts only). If the system read "
    "more, write the tag as system:track:score_mode",
    location,
    tag,
    TRACKS[0],
  )
  return _FORBIDDEN_CHARACTERS.sub("_", tag), TRACKS[0], "search"


def sort_ranking(scores: Mapping[str, float]) -> Ranking:
  """Returns records best first; ties are ordered by id, then broken.

  Args:
    scores: record id -> score.

  Raises:
    ValueError: if a score is not finite in float32.
  """
  with np.errstate(over="ignore"):
    float32_scores = {name: np.float32(score) for name, score in scores.items()}
  sorted_items = sorted(
    float32_scores.items(), key=lambda item: (-item[1], item[0])
  )
  decreasing = make_strictly_decreasing([score for _, score in sorted_items])
  names = [record_id for record_id, _ in sorted_items]
  return list(zip(names, decreasing.tolist(), strict=True))


def write_qrels(
  path: str | os.PathLike, qrels: Mapping[str, Iterable[str]]
) -> None:
  """Writes the relevant records of each query as TREC qrels, relevance 1."""
  files.write_text(
    path,
    "".join(
      f"{query_id} 0 {record_id} 1\n"
      for query_id, record_ids in qrels.items()
      for record_id in record_ids
    ),
  )


def read_qrels(path: str | os.PathLike) -> dict[str, tuple[str, ...]]:
  """Returns query -> relevant records of a TREC qrels file.

  Lines of relevance 0 or less are judged and not relevant; they are left out.

  Raises:
    ValueError: if a line is malformed or repeated, where the message names file
      and line; or if no record is relevant.
  """
  qrels: dict[str, list[str]] = {}
  judged_pairs = set()  # irrelevant ones too
  for location, (query_id, _, record_id, relevance) in _read_columns(path, 4):
    if (query_id, record_id) in judged_pairs:
      raise ValueError(f"{location}: {query_id} and {record_id} judged twice")
    judged_pairs.add((query_id, record_id))
    # Some tools write 1.0.
    if _parse_number(location, "relevance", relevance, float) > 0:
      qrels.setdefault(query_id, []).append(record_id)
  if not qrels:
    raise ValueError(f"{path}: no line with a relevance above 0")
  return {query_id: tuple(records) for query_id, records in qrels.items()}


def _read_columns(
  path: str | os.PathLike, num_columns: int
) -> Iterator[tuple[str, list[str]]]:
  """Yields (file:line, columns) of a file with columns between white space.

  A byte order mark and empty lines are passed over.
  """
  with files.as_path(path).open("r", encoding="utf-8-sig") as file:
    for number, line in enumerate(file, start=1):
      values = line.split()
      if not values:
        continue
      if len(values) != num_columns:
        raise ValueError(
          f"{path}:{number}: {len(values)} columns where {num_columns} are "
          "expected"
        )
      yield f"{path}:{number}", values


def _parse_number(location: str, column: str, text: str, number_type: type):
  try:
    number = number_type(text)
    if number != number:  # NaN, which compares as nothing
      raise ValueError
    return number
  except ValueError:
    raise ValueError(
      f"{location}: {column} {text!r} is not a number ({number_type.__name__})"
    ) from None


# Measures of a ranking, per query, computed by trec_eval's own code.
#
# The figures are those that trec_eval gives for the written run file.
#
# Names are `measure@cutoff`. R@K of the benchmark's paper is the share of
# queries with any positive in the top K: here `hit@K`. `recall@K` is the
# share of a query's positives found in the top K.


DEFAULT_MEASURES = (
  "hit@1",
  "hit@5",
  "hit@10",
  "mrr@10",
  "ndcg@10",
  "recall@10",
)
# A window has more than ten answers: recall at 50 tells systems apart there.
_DEEP_CUTOFF = 50
DEEP_MEASURES = (*DEFAULT_MEASURES, f"recall@{_DEEP_CUTOFF}")
_RECIPROCAL_RANK = "recip_rank"
# Measure -> its name in trec_eval.
_TREC_EVAL_NAMES = {
  "hit": "success",
  "recall": "recall",
  "precision": "P",
  "mrr": _RECIPROCAL_RANK,
  # Relevance is 0 or 1 here, so the gain is binary; the ideal ranking holds
  # min(number of positives, cutoff) ones.
  "ndcg": "ndcg_cut",
}
_MEASURE_NAME = re.compile(rf"({'|'.join(_TREC_EVAL_NAMES)})@([1-9]\d*)")


def select_measures(depth: int) -> tuple[str, ...]:
  """Returns the measures of rankings that hold `depth` records at most."""
  return DEEP_MEASURES if depth >= _DEEP_CUTOFF else DEFAULT_MEASURES


def parse_measure(name: str) -> tuple[str, int]:
  """Returns trec_eval's measure and the cutoff of a name such as `hit@1`.

  Raises:
    ValueError: if the name has another form.
  """
  match = _MEASURE_NAME.fullmatch(name)
  if match is None:
    raise ValueError(
      f"unknown measure {name!r}; expected one of "
      f"{', '.join(_TREC_EVAL_NAMES)}, then @ and a cutoff, e.g. hit@1"
    )
  return _TREC_EVAL_NAMES[match[1]], int(match[2])


def compute_per_query(
  qrels: Mapping[str, Iterable[str]],
  rankings: Mapping[str, Ranking],
  names: Sequence[str] = DEFAULT_MEASURES,
) -> dict[str, dict[str, float]]:
  """Returns measure -> query id -> value, for every query of `qrels`.

  A query that the rankings lack counts 0. Rankings of other queries are
  ignored.

  Args:
    qrels: query id -> ids of its positives, at least one.
    rankings: query id -> (record id, score), best first.
    names: see the module docstring.

  Raises:
    ValueError: if a name is unknown or a query has no positive.
  """
  parsed_measures = {name: parse_measure(name) for name in names}
  relevance = {
    query_id: dict.fromkeys(ids, 1) for query_id, ids in qrels.items()
  }
  for query_id, positives in relevance.items():
    if not positives:
      raise ValueError(f"query {query_id} has no positive")
  values = {name: dict.fromkeys(relevance, 0.0) for name in names}
  if not relevance:
    return values
  # trec_eval sorts by score: minus the rank keeps our order whatever it does
  # with ties.
  trec_eval_scores = {
    query_id: {name: -float(rank) for rank, (name, _) in enumerate(ranking)}
    for query_id, ranking in rankings.items()
    if query_id in relevance and ranking
  }
  # trec_eval has no cutoff for the reciprocal rank.
  trec_eval_keys = {
    name: kind if kind == _RECIPROCAL_RANK else f"{kind}_{cutoff}"
    for name, (kind, cutoff) in parsed_measures.items()
  }
  evaluator = pytrec_eval.RelevanceEvaluator(
    relevance, set(trec_eval_keys.values())
  )
  for query_id, query_values in evaluator.evaluate(trec_eval_scores).items():
    for name, (kind, cutoff) in parsed_measures.items():
      value = query_values[trec_eval_keys[name]]
      # A reciprocal rank below 1 / cutoff: the first positive is past it.
      if kind == _RECIPROCAL_RANK and value < 1 / cutoff:
        value = 0.0
      values[name][query_id] = value
  return values


def compute_mean(
  values: Mapping[str, float], strata: Mapping[str, Hashable] | None = None
) -> float:
  """Returns the mean over queries; 0 without queries.

  Args:
    values: query id -> value.
    strata: query id -> stratum; the mean is then that of the strata's means.
  """
  if not values:
    return 0.0
  if strata is None:
    return statistics.fmean(values.values())
  values_by_stratum = collections.defaultdict(list)
  for query_id, value in values.items():
    values_by_stratum[strata[query_id]].append(value)
  return statistics.fmean(map(statistics.fmean, values_by_stratum.values()))
