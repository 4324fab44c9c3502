"""The part of a corpus that dates passages: fitted, written and read.

Axes: N records, n hidden ones or passages, K months, Y years.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from absl import logging
from jaxtyping import Bool, Float, Float32, Int, UInt32
from scipy.special import logsumexp

from ctd_jax.chronology.reigns import Timeline
from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating import dating_model, expert_panel
from ctd_jax.dating.chronicle import undated_texts
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.corpus import UNKNOWN, Labels, MonthAxis, plain_text
from ctd_jax.dating.experts import base, citations, parallels
from ctd_jax.dating.experts.base import CorpusFeatures
from ctd_jax.dating.passages import citations as citations_lib
from ctd_jax.dating.passages import copies
from ctd_jax.dating.passages import scores as scores_lib
from ctd_jax.dating.passages.citations import PassageCitations, TextTable
from ctd_jax.dating.passages.scores import CorpusState, PassageWords
from ctd_jax.dating.posterior import CredibleBlock
from ctd_jax.utils import files, output

# Calibration: how far all experts together are believed.

CREDIBLE = 0.9  # share of the truth that the sets of passages should hold
_LOG_SCALES = np.linspace(-1, 0.5, 31)  # log inverse temperatures to try
# Mean log p that may be lost against the likeliest temperature, in nats.
_MAX_LOSS = 0.03


def fit_inverse_temperature(
  log_prior: Float[np.ndarray, " K"],
  scores: Float[np.ndarray, "n K"],
  months: Int[np.ndarray, " n"],
) -> float:
  """Returns the factor on scores with which 90 % sets hold 90 % of the truth.

  `scores` are sums of what the experts say, `log_prior` is normalised.
  """
  losses, coverages = [], []
  for scale in np.exp(_LOG_SCALES):
    log_p = log_prior + scale * scores
    log_p -= logsumexp(log_p, axis=1, keepdims=True)
    losses.append(-log_p[np.arange(len(months)), months].mean())
    coverages.append(measure_coverage(log_p, months))
  is_likely = np.array(losses) <= min(losses) + _MAX_LOSS
  is_wide = is_likely & (np.array(coverages) >= CREDIBLE)
  if is_wide.any():
    return float(np.exp(_LOG_SCALES[is_wide].max()))
  return float(np.exp(_LOG_SCALES[np.where(is_likely, coverages, -1).argmax()]))


def measure_coverage(
  log_p: Float[np.ndarray, "n K"], months: Int[np.ndarray, " n"]
) -> float:
  """Returns the share of passages whose sets of 90 % hold the true month."""
  true_p = log_p[np.arange(len(months)), months][:, None]
  # The month is in the set unless those before it make it up.
  mass_before = np.where(log_p > true_p, np.exp(log_p), 0).sum(axis=1)
  return float((mass_before < CREDIBLE).mean())


# Share of the years between the first and the last labelled record that may
# lack one, for passages to be searched among labelled records.
_MAX_BLANK_YEARS = 0.1
# One fold is enough for the one number of the temperature.
_CALIBRATION_FOLD = 0
_MAX_CALIBRATION_EVENTS = 400  # dated as passages
_MIN_CALIBRATION_EVENTS = 50  # below, the temperature is that of the corpus


def choose_fold_by(
  axis: MonthAxis,
  labels: Labels,
  posteriors: CredibleBlock,
  is_placed: Bool[np.ndarray, " N"],
) -> str:
  """Returns the unit hidden to learn weights, one of `corpus.FOLD_BY`."""
  # Whole years if records without a label have years of their own: no passage
  # from these years has a parallel with a label.
  of_row, best = _find_best(posteriors)
  placed = best[is_placed[of_row] & (best < len(axis))]
  months = np.append(labels.month[labels.is_known], placed)
  years = np.unique(axis.year_of[months])
  num_blank = int(years[-1]) - int(years[0]) + 1 - len(years)
  if num_blank <= _MAX_BLANK_YEARS * (num_blank + len(years)):
    return corpus_lib.RECORDS
  best = best[~is_placed[of_row] & (best < len(axis))]
  is_labelled = np.isin(axis.year_of[best], years)
  if not len(best) or is_labelled.mean() <= 0.5:
    return corpus_lib.YEARS
  return corpus_lib.RECORDS


def _find_best(posteriors: CredibleBlock) -> tuple[np.ndarray, np.ndarray]:
  """Returns rows with a likeliest month, and that month."""
  sizes = np.diff(posteriors.starts)
  record = np.repeat(np.arange(len(sizes)), sizes)
  order = np.lexsort((-np.asarray(posteriors.probabilities), record))
  best = order[posteriors.starts[:-1][sizes > 0]]
  return posteriors.rows[sizes > 0], np.asarray(posteriors.months)[best]


def fit_corpus_state(
  texts: Sequence[str],
  labels: Labels,
  calendar: Timeline | Calendar,
  posteriors: CredibleBlock,
  is_placed: Bool[np.ndarray, " N"],
  row_ids: Int[np.ndarray, " N"],
  external_texts: Sequence[str],
  is_placeholder: Bool[np.ndarray, " N"] | None = None,
) -> CorpusState:
  """Returns the kept part of a corpus; see `PassageDater.fit`."""
  axis = scores_lib.make_axis(calendar)
  fold_by = choose_fold_by(axis, labels, posteriors, is_placed)
  without, dates = {"neural"}, None
  if isinstance(calendar, Timeline):
    corpus = corpus_lib.read_axis_corpus(
      texts, axis, external_texts, is_placeholder
    )
  else:
    corpus, heads = undated_texts.read_headed_corpus(
      texts, axis, calendar, external_texts
    )
    dates = undated_texts.HeadDates(
      corpus=corpus, calendar=calendar, heads=heads, is_read=~labels.is_known
    )
  if fold_by == corpus_lib.RECORDS or dates is not None:
    # A known record of a month does not speak against another text of it.
    without.add("room")
  experts = dating_model.make_experts(without, dates=dates)
  if fold_by == corpus_lib.RECORDS:
    experts = (*experts, parallels.KnownParallels())
  has_comments = bool((labels.event_labels == 0).any())
  model = dating_model.DatingModel(experts, has_comments, fold_by)
  fitted = model.fit(corpus, labels)
  logging.info("passages: keeping the corpus, hidden by %s", fold_by)
  texts_kept = keep_texts(
    fitted.features, row_ids, _learn_copies(fitted, posteriors)
  )
  return dataclasses.replace(
    _keep_state(fitted, texts_kept, posteriors, is_placed),
    inverse_temperature=_calibrate(
      fitted, texts_kept, posteriors, is_placed, calendar
    ),
  )


def _calibrate(
  fitted: dating_model.FittedDatingModel,
  texts_kept: KeptTexts,
  posteriors: CredibleBlock,
  is_placed: Bool[np.ndarray, " N"],
  calendar: Timeline | Calendar,
) -> float:
  """Returns the inverse temperature of passages."""
  # Labelled events of one fold are hidden, and each is dated as a passage.
  features, labels = fitted.features, fitted.labels
  fold_of_record = corpus_lib.fold_records(
    features.corpus, labels, fitted.fold_by
  )
  is_hidden = fold_of_record == _CALIBRATION_FOLD
  rows = np.flatnonzero(is_hidden & features.is_event)
  rows = rows[np.argsort(features.corpus.text_hashes[rows], kind="stable")]
  rows = rows[:_MAX_CALIBRATION_EVENTS]
  hidden = dataclasses.replace(fitted, labels=labels.hide_records(is_hidden))
  state = _keep_state(hidden, texts_kept, posteriors, is_placed & ~is_hidden)
  reader = scores_lib.PassageReader(calendar, state.dates)
  scorer = scores_lib.PassageScorer(state, reader)
  log_prior = np.log(state.year_prior)[features.axis.year_of]
  scores, months = [], []
  for row in output.Progress(rows.tolist(), "passages", unit="event"):
    score = scorer.score(features.corpus.texts[row], [row])
    # A copy decides alone, and is believed by a measure of its own.
    if not score.copied.any():
      scores.append(score.sum_terms(len(log_prior)))
      months.append(labels.month[row])
  if len(scores) < _MIN_CALIBRATION_EVENTS:
    return float(fitted.weights.inverse_temperature)
  return fit_inverse_temperature(
    log_prior - logsumexp(log_prior), np.array(scores), np.array(months)
  )


def _keep_hidden_records(
  fitted: dating_model.FittedDatingModel,
  panel: expert_panel.ExpertPanel,
  scores: expert_panel.RecordScores,
  posteriors: CredibleBlock,
) -> scores_lib.HiddenRecords:
  """Returns the evidence of each record without a label, by itself."""
  events, num_events = scores.events, len(scores.events.targets)
  # Without parallels, so that no record hears itself from another.
  no_links = scipy.sparse.csr_array((num_events, num_events), dtype="f4")
  alone = dataclasses.replace(events, pooling_matrix=no_links)
  log_beliefs = np.concatenate(
    [
      alone.pool_experts(fitted.weights.pool_weights) + events.date_log_ratios,
      panel.score_words(scores.rows[num_events:]),
    ]
  ) + np.log(panel.year_prior)
  chances = np.exp(log_beliefs - logsumexp(log_beliefs, axis=1, keepdims=True))
  _set_posteriors(chances, scores.rows, posteriors, panel)
  order = np.argsort(scores.rows)
  counts, years, probabilities = scores_lib.compress_beliefs(
    chances[order].astype(np.float32)
  )
  num_comments = len(scores.rows) - num_events
  blank = scipy.sparse.csr_array(
    (num_comments, panel.features.axis.num_years), dtype="f4"
  )
  best, high = (
    scipy.sparse.vstack([events.citation_scores[score], blank], format="csr")[
      order
    ]
    for score in (citations.BEST, citations.BEST_ABOVE_FIRST_STEP)
  )
  rows = scores.rows[order]
  return scores_lib.HiddenRecords(
    rows=rows,
    starts=np.concatenate([[0], np.cumsum(counts)]),
    years=years.astype(np.int32),
    probabilities=probabilities.astype(np.float32),
    month_chances=panel.experts["dates"]
    .month_of_year_chances(rows)
    .astype(np.float32),
    best_citations=best,
    high_citations=high,
  )


def _set_posteriors(
  chances: np.ndarray,
  rows: np.ndarray,
  posteriors: CredibleBlock,
  panel: expert_panel.ExpertPanel,
) -> None:
  """Replaces the chances of years of records that have a posterior."""
  year_of = panel.features.axis.year_of
  index_of_row = {row: index for index, row in enumerate(rows.tolist())}
  for position, row in enumerate(posteriors.rows.tolist()):
    if row not in index_of_row:
      continue
    span = slice(posteriors.starts[position], posteriors.starts[position + 1])
    months = np.asarray(posteriors.months[span])
    is_inside = months < posteriors.num_months
    mass = np.bincount(
      year_of[months[is_inside]],
      posteriors.probabilities[span][is_inside],
      len(panel.year_prior),
    )
    rest = max(1 - mass.sum(), 0.0)
    chances[index_of_row[row]] = mass + rest * panel.year_prior


@dataclasses.dataclass(frozen=True, eq=False)
class KeptTexts:
  """The kept part of the texts, with or without a date."""

  texts: TextTable  # of the records
  row_ids: np.ndarray  # numbers of the records
  wording: citations_lib.WordingIndex  # which records hold which rare strings
  documents: np.ndarray  # that each citation is in, [M]
  copy_chances: np.ndarray  # from `copies.learn_chances`
  characters: np.ndarray  # see `CorpusState`


def _learn_copies(
  fitted: dating_model.FittedDatingModel, posteriors: CredibleBlock
) -> np.ndarray:
  """Returns the chances of copies."""
  features, axis = fitted.features, fitted.features.axis
  of_row, best = _find_best(posteriors)
  months = np.array(fitted.labels.month)
  months[of_row] = np.where(
    months[of_row] == UNKNOWN,
    np.where(best < len(axis), best, UNKNOWN),
    months[of_row],
  )
  return copies.learn_chances(
    base.choose_wording(features.corpus, features.is_event),
    np.where(months == UNKNOWN, UNKNOWN, axis.year_of[months]),
    features.is_event,
    features.corpus.text_hashes,
    fitted.fold_by == corpus_lib.YEARS,
  )


def keep_texts(
  features: CorpusFeatures,
  row_ids: Int[np.ndarray, " N"],
  copy_chances: np.ndarray,
) -> KeptTexts:
  """Returns the kept part of a corpus's texts."""
  corpus = features.corpus
  texts = base.choose_wording(corpus, features.is_event)
  cited = features.citation_pairs.citations
  # Texts from outside follow the records.
  outside = dict.fromkeys(
    each.host_text for each in cited if each.host == UNKNOWN
  )
  document_of = {text: len(texts) + row for row, text in enumerate(outside)}
  documents = [
    document_of[each.host_text] if each.host == UNKNOWN else each.host
    for each in cited
  ]
  is_event = np.append(features.is_event, np.zeros(len(outside), bool))
  return KeptTexts(
    texts=TextTable.from_texts(corpus.texts),
    row_ids=np.asarray(row_ids, np.int64),
    wording=citations_lib.build_wording_index(
      [*texts, *outside], is_event, cited
    ),
    documents=np.array(documents, int),
    copy_chances=copy_chances,
    characters=count_characters(corpus.texts),
  )


def count_characters(
  texts: Sequence[str],
) -> UInt32[np.ndarray, "2 characters"]:
  """Returns the code points of texts and how often each stands in them."""
  counts = collections.Counter()
  for text in texts:
    counts.update(text)
  codes = np.array([*map(ord, counts)], np.uint32)
  return np.stack([codes, np.array([*counts.values()], np.uint32)])


def _keep_state(
  fitted: dating_model.FittedDatingModel,
  texts_kept: KeptTexts,
  posteriors: CredibleBlock,
  is_placed: Bool[np.ndarray, " N"],
) -> CorpusState:
  """Returns all that is kept of a corpus with these labels."""
  features, labels = fitted.features, fitted.labels
  weights = fitted.weights
  panel = expert_panel.fit_panel(
    fitted.experts, features, labels, weights.by_expert
  )
  scores = expert_panel.score_hidden_records(panel, weights.pool_weights)
  experts, factors = panel.experts, None
  if "room" in experts:
    block = scores.make_block(weights.inverse_temperature, ~labels.is_known)
    factors = block.month_log_factors
  known = experts.get("known")
  return CorpusState(
    texts=texts_kept.texts,
    row_ids=texts_kept.row_ids,
    months=np.asarray(labels.month, np.int32),
    year_prior=np.asarray(panel.year_prior, float),
    wording=texts_kept.wording,
    records=keep_records(
      features, labels, citations_lib.weigh_texts(texts_kept.wording)
    ),
    hidden=_keep_hidden_records(fitted, panel, scores, posteriors),
    words=PassageWords.from_fitted(experts["words"]),
    cited=PassageCitations.from_fitted(experts["cited"], texts_kept.documents),
    parallel_model=experts["parallels"].parallel_model,
    comment_model=experts["parallels"].comment_model,
    known_model=None if known is None else known.model,
    pool_weights=weights.pool_weights,
    known_weights=weights.known_weights,
    inverse_temperature=float(weights.inverse_temperature),
    month_log_factors=factors,
    dates=scores_lib.make_tables(experts["dates"]),
    posteriors=posteriors,
    is_placed=is_placed,
    copy_chances=texts_kept.copy_chances,
    characters=texts_kept.characters,
  )


def keep_records(
  features: CorpusFeatures, labels: Labels, weights: Float32[np.ndarray, " D"]
) -> citations_lib.RecordTable:
  """Returns the features of a corpus's records that pairs read."""
  corpus, num_records = features.corpus, len(features.corpus)
  known_rows = np.flatnonzero(labels.is_known & features.is_event)
  training, _ = parallels.sample_training_rows(corpus, known_rows)
  is_teaching = ~labels.is_known
  is_teaching[training] = True
  starts, events, overlaps = citations_lib.list_comment_events(
    features.comment_pairs, num_records
  )
  return citations_lib.RecordTable(
    first_month=corpus.first_month.astype(np.int32),
    first_day=corpus.first_day.astype(np.int32),
    opening_year=corpus.opening_year.astype(np.int32),
    weights=weights,
    best_overlaps=citations_lib.BestOverlaps.from_pairs(
      features.parallel_pairs, num_records
    ),
    best_known=citations_lib.BestOverlaps.from_pairs(
      features.parallel_pairs, num_records, is_teaching
    ),
    comment_starts=starts,
    comment_events=events,
    comment_overlaps=overlaps,
  )


# Large corpora: experts learn from a sample, and all records are found.
#
# Weights, words, citations and what is kept of records without a label come
# from a sample of fixed size. The strings and the months of all records are
# kept, so that a passage finds its parallel wherever it is; a string that no
# second record holds is left out.

MAX_FITTED_RECORDS = 100_000  # that experts learn from
_MIN_TEXTS = 2  # that must hold a string


def fit_large_corpus(
  texts: Sequence[str],
  labels: Labels,
  calendar: Timeline | Calendar,
  posteriors: CredibleBlock,
  is_placed: Bool[np.ndarray, " N"],
  row_ids: Int[np.ndarray, " N"],
) -> CorpusState:
  """Returns the kept part of a large corpus; see `PassageDater.fit`."""
  # By their texts and not their order.
  hashes = np.array([zlib.crc32(text.encode()) for text in texts])
  order = np.argsort(hashes, kind="stable")
  rows = np.sort(order[:MAX_FITTED_RECORDS])
  logging.info(
    "passages: learning from %s of %s records", f"{len(rows):,}", len(texts)
  )
  state = fit_corpus_state(
    [texts[row] for row in rows],
    Labels(labels.month[rows], labels.event_labels[rows]),
    calendar,
    _take_posteriors(posteriors, rows),
    is_placed[rows],
    row_ids[rows],
    (),
  )
  # Of a kind that is not known a record counts as an event.
  is_event = labels.event_labels != 0
  is_event[rows] = state.wording.is_event[: len(rows)]
  cited = state.cited.renumber(rows, len(texts))
  wording = citations_lib.build_wording_index(
    [plain_text(text) for text in texts],
    is_event,
    [cited.read_citation(row) for row in range(len(cited.numbers))],
    _MIN_TEXTS,
  )
  return dataclasses.replace(
    state,
    texts=TextTable.from_texts(texts),
    row_ids=np.asarray(row_ids, np.int64),
    months=np.asarray(labels.month, np.int32),
    wording=wording,
    records=state.records.renumber(
      rows, len(texts), citations_lib.weigh_texts(wording)
    ),
    hidden=dataclasses.replace(state.hidden, rows=rows[state.hidden.rows]),
    cited=cited,
    posteriors=posteriors,
    is_placed=is_placed,
  )


def _take_posteriors(
  posteriors: CredibleBlock, rows: np.ndarray
) -> CredibleBlock:
  """Returns the posteriors of some records, by their number among these."""
  index = np.full(int(max(rows.max(), posteriors.rows.max(initial=0))) + 1, -1)
  index[rows] = np.arange(len(rows))
  taken = posteriors.select(index[posteriors.rows] != UNKNOWN)
  return dataclasses.replace(taken, rows=index[taken.rows])


# Saved state: nested dataclasses of arrays as .npy files and one JSON file.
#
# Large arrays are files of their own, which are mapped into memory when they
# are read; the small ones share one .npz. Nothing is executed when a folder
# is read: JSON names the dataclass of every part, and only those given are
# made.

VERSION = 2
STATE_FILE, SMALL_FILE = "state.json", "small.npz"
_SMALL_BYTES = 65_536  # arrays up to this size share a file


class _ArrayError(ValueError):
  """A file of an array cannot be read."""


def write_state(folder: pathlib.Path, state: Any) -> None:
  """Writes nested dataclasses, arrays and plain values to a new folder."""
  folder.mkdir(parents=True, exist_ok=True)
  if any(folder.iterdir()):
    raise FileExistsError(f"{folder}: not empty; a state needs a new folder")
  arrays: dict[str, np.ndarray] = {}
  tree = _describe(state, "", arrays)
  small = {}
  for name, array in arrays.items():
    if array.nbytes <= _SMALL_BYTES:
      small[name] = array
    else:
      np.save(folder / f"{name}.npy", array, allow_pickle=False)
  np.savez(folder / SMALL_FILE, **small)
  # Last, so that a folder with it is whole.
  files.write_text(
    folder / STATE_FILE,
    json.dumps({"version": VERSION, "state": tree}, ensure_ascii=False),
  )


def is_current(folder: pathlib.Path) -> bool:
  """Returns whether a folder has a state that this version reads."""
  try:
    content = json.loads(files.read_text(folder / STATE_FILE))
    return content["version"] == VERSION
  except (OSError, ValueError, KeyError, TypeError):
    return False


def read_state(folder: pathlib.Path, classes: Sequence[type]) -> Any:
  """Returns the state from `write_state`, large arrays mapped into memory.

  Args:
    classes: dataclasses that may be made.

  Raises:
    FileNotFoundError, ValueError: if a file is missing, damaged or outdated.
  """
  path = folder / STATE_FILE
  if not path.is_file():
    raise FileNotFoundError(f"{path}: missing; save a state there first")
  try:
    content = json.loads(files.read_text(path))
    version, tree = content["version"], content["state"]
  except (ValueError, KeyError, TypeError, RecursionError) as error:
    raise ValueError(f"{path}: damaged ({error}); save it again") from error
  if version != VERSION:
    raise ValueError(f"{path}: version {version}, this is {VERSION}")
  small = files.load_arrays(folder / SMALL_FILE)
  by_name = {each.__name__: each for each in classes}
  try:
    return _restore(tree, folder, small, by_name)
  except _ArrayError:
    raise
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    raise ValueError(f"{path}: damaged ({error}); save it again") from error


def _describe(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
  """Returns a value as JSON has it, its arrays put aside by name."""
  if value is None or isinstance(value, bool | int | float | str):
    return value
  if isinstance(value, np.ndarray):
    arrays[name] = value
    return {"array": name}
  if isinstance(value, scipy.sparse.csr_array):
    parts = (value.data, value.indices, value.indptr)
    return {
      "sparse": [
        _describe(part, f"{name}.{key}", arrays)
        for key, part in zip("dip", parts, strict=True)
      ],
      "shape": list(value.shape),
    }
  if isinstance(value, tuple):
    return {
      "tuple": [
        _describe(item, f"{name}.{index}", arrays)
        for index, item in enumerate(value)
      ]
    }
  if dataclasses.is_dataclass(value):
    return {
      "class": type(value).__name__,
      "fields": {
        field.name: _describe(
          getattr(value, field.name), f"{name}.{field.name}".strip("."), arrays
        )
        for field in dataclasses.fields(value)
      },
    }
  raise TypeError(f"{name}: a {type(value).__name__} cannot be saved")


def _restore(
  tree: Any,
  folder: pathlib.Path,
  small: Mapping[str, np.ndarray],
  classes: Mapping[str, type],
) -> Any:
  if not isinstance(tree, dict):
    return tree
  if "array" in tree:
    return _load_array(tree["array"], folder, small)
  if "sparse" in tree:
    parts = [_restore(part, folder, small, classes) for part in tree["sparse"]]
    return scipy.sparse.csr_array(tuple(parts), shape=tuple(tree["shape"]))
  if "tuple" in tree:
    return tuple(
      _restore(item, folder, small, classes) for item in tree["tuple"]
    )
  fields = {
    name: _restore(item, folder, small, classes)
    for name, item in tree["fields"].items()
  }
  return classes[tree["class"]](**fields)


def _load_array(
  name: str, folder: pathlib.Path, small: Mapping[str, np.ndarray]
) -> np.ndarray:
  if name in small:
    return small[name]
  path = files.inside(folder, f"{name}.npy")
  try:
    return files.map_array(path)
  except (OSError, ValueError) as error:
    raise _ArrayError(f"{path}: missing or {error}") from error
