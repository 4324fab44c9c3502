"""Systems that date undated texts by a dated chronicle; see `undated_texts`.

  parser          what a text prints of its date, every month else as likely
  dating-fitted   the pipeline of counts, with weights learned on the chronicle
  ctd             a trained dual encoder: a text is of the months of the dated
                  texts that it is like. Its parameters know nothing of the
                  chronicle; how far a likeness counts is learned on it

Axes: n texts, m dated sections, K months.
"""

import dataclasses
import itertools
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
import scipy.sparse

from ctd_jax.dating.dating_model import FittedDatingModel
from ctd_jax.retrieval import dense, trained_system
from ctd_jax.training import experiment as experiments
from ctd_jax.training import run_folder, train_step
from tests.benchmarks.labelled_corpus import LabelledCorpus

SYSTEMS = ("parser", "counts")
_SEED = 0  # of ties, and of the sections that likeness is weighed on
_TIE = 1e-6  # nats
_MAX_SECTIONS = 1000
# Factors on the scores of the encoder, and shares that no likeness decides.
_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_UNDECIDED = (0.01, 0.03, 0.1, 0.3, 0.6, 0.9)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatedTexts:
  """Undated texts, as one system dates them.

  Attributes:
    system: name.
    score_mode: of its rows.
    log_p: of the months of each text, [n, K].
    seconds: of fitting and dating.
    seeds: of its draws.
    fitted: gives the reasons, if there are any.
  """

  system: str
  score_mode: str
  log_p: np.ndarray
  seconds: float
  seeds: tuple[int, ...] = ()
  fitted: FittedDatingModel | None = None


def date_texts(
  labelled: LabelledCorpus,
  systems: Sequence[str],
  ctd: pathlib.Path | None = None,
) -> Iterator[DatedTexts]:
  """Yields the texts as each system dates them.

  Args:
    labelled: the chronicle and the texts.
    systems: of SYSTEMS.
    ctd: workdir of a trained dual encoder.
  """
  if "parser" in systems:
    yield _measure_seconds("parser", "dates", lambda: parse_dates(labelled))
  if ctd is not None:
    yield _measure_seconds(
      "ctd", "neighbours", lambda: date_by_neighbours(labelled, ctd)
    )

  if "counts" in systems:
    start = time.monotonic()
    fitted = labelled.make_model().fit(labelled.corpus, labelled.labels)
    log_p = fitted.predict().log_p(labelled.text_rows)
    yield DatedTexts(
      system="dating-fitted",
      score_mode="posterior",
      log_p=log_p,
      seconds=time.monotonic() - start,
      seeds=(42,),
      fitted=fitted,
    )


def _measure_seconds(
  system: str, score_mode: str, date: Callable[[], np.ndarray]
) -> DatedTexts:
  start = time.monotonic()
  log_p = date()
  return DatedTexts(
    system=system,
    score_mode=score_mode,
    log_p=log_p,
    seconds=time.monotonic() - start,
  )


def parse_dates(labelled: LabelledCorpus) -> np.ndarray:
  """Returns log p of the months by printed dates alone, [n, K].

  Months that a date admits alike are put in order by chance.
  """
  (dates,) = (
    expert for expert in labelled.make_model().experts if expert.name == "dates"
  )
  scores = dates.score_dates(labelled.text_rows)
  rng = np.random.default_rng(_SEED)
  scores = scores + _TIE * rng.random(scores.shape)
  return np.asarray(jax.nn.log_softmax(scores))


def date_by_neighbours(
  labelled: LabelledCorpus, workdir: pathlib.Path
) -> np.ndarray:
  """Returns log p of the months by the scores of a dual encoder, [n, K].

  p(month) = (1 - u) sum of softmax(f score) over the sections of the month
  + u / K; f and u are of greatest likelihood on sections of the chronicle,
  each dated by the others.

  Args:
    labelled: the chronicle and the texts.
    workdir: of the trained run.
  """
  corpus, labels = labelled.corpus, labelled.labels
  experiment = experiments.assemble_experiment(
    run_folder.read_config(workdir), workdir
  )
  system = trained_system.restore_system(experiment)
  config, backbone = system.config, system.backbone
  ranker = dense.TextRanker(config, system.model, system.mesh)
  known = np.flatnonzero(labels.is_known)
  rows = np.concatenate([known, labelled.text_rows])
  encodings = ranker.encode_records(
    system.params,
    experiments.tokenize_records(
      [corpus.texts[row] for row in rows], backbone, config.record_length
    ),
  )
  parts = [
    jax.tree.map(lambda leaf, part=part: leaf[part], encodings)
    for part in (slice(len(known)), slice(len(known), None))
  ]
  variables = {"params": dense.select_scoring_params(system.params)}
  variables |= system.model.tables(variables["params"])
  score = jax.jit(
    train_step.make_score_function(system.model, system.score_mode)
  )

  def score_sections(queries) -> np.ndarray:
    return np.asarray(score(variables, queries, parts[0]))

  months = labels.month[known]
  month_matrix = scipy.sparse.csr_array(
    (np.ones(len(known), np.float32), (np.arange(len(known)), months)),
    shape=(len(known), len(corpus.axis)),
  )
  sample = np.random.default_rng(_SEED).permutation(len(known))[:_MAX_SECTIONS]
  scores = score_sections(
    jax.tree.map(lambda leaf: leaf[sample], parts[0])
  ).copy()
  scores[np.arange(len(sample)), sample] = -np.inf  # the section itself

  def find_likelihood(setting: tuple[float, float]) -> float:
    log_p = pool_neighbours(scores, month_matrix, *setting)
    return float(log_p[np.arange(len(sample)), months[sample]].mean())

  factor, undecided = setting = max(
    itertools.product(_FACTORS, _UNDECIDED), key=find_likelihood
  )
  print(
    f"factor {factor}, undecided {undecided}: {-find_likelihood(setting):.3f} "
    f"nats on sections, {np.log(len(corpus.axis)):.3f} by chance",
    flush=True,
  )
  return pool_neighbours(
    score_sections(parts[1]), month_matrix, factor, undecided
  )


def pool_neighbours(
  scores: np.ndarray,
  month_matrix: scipy.sparse.csr_array,
  factor: float,
  undecided: float,
) -> np.ndarray:
  """Returns log p of the months, [n, K].

  Args:
    scores: of texts against dated sections, [n, m].
    month_matrix: 1 where a section is of a month, [m, K].
    factor: on the scores.
    undecided: share that is spread over all months.
  """
  chances = np.asarray(jax.nn.softmax(factor * scores))
  by_month = chances @ month_matrix
  return np.log((1 - undecided) * by_month + undecided / by_month.shape[1])
