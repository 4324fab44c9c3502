"""Undated texts, dated by a chronicle that the order decoder has dated.

  python -m tests.benchmarks.undated_texts --chronicle=tongjian \\
    --undated=sanguozhi --sources=DIR --outside=DIR [--ctd=WORKDIR]
    [--rows=FILE]

The chronicle is dated as `ctd_jax.date` does. The undated texts are stretches
of other works that begin where their editions print a month, those of all works
together; everything that reads as a date is stripped from them. The dates that
the editions print are right (`chronicle_gold`). Systems are

  parser          the date a text prints; months that fit it are equally likely
  dating-fitted   the pipeline of counts, with weights learned on the chronicle
  ctd             a trained dual encoder: a text gets the months of the dated
                  texts it resembles. The encoder has not seen the chronicle;
                  how much a resemblance counts is learned on it

Measures of the posterior, with intervals that resample years:

  year, month   share of texts whose most probable year, month is right
  coverage@90   share whose smallest set of months of 90 % holds the right one
  size@90       median of the months in that set
  nll           mean of -log p of the right month

Axes: n texts, m dated sections, K months.
"""

import argparse
import dataclasses
import itertools
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
import scipy.sparse

from ctd_jax.benchmark import runs
from ctd_jax.dating.chronicle.chronicle_dates import ChronicleDates
from ctd_jax.dating.corpus import MonthAxis
from ctd_jax.evaluation import results, significance
from ctd_jax.retrieval import dense, trained_system
from ctd_jax.training import experiment as experiments
from ctd_jax.training import run_folder, train_step
from tests.benchmarks import (
  chronicle_order,
  chronicle_texts,
  dating,
  labelled_corpus,
  posterior_metrics,
  result_rows,
)
from tests.benchmarks.chronicle_gold import GoldRecord
from tests.benchmarks.labelled_corpus import LabelledCorpus

_MIN_CHARACTERS = 8  # of a text, dates stripped
_SEED = 0  # of ties, and of the sections that likeness is weighed on
_TIE = 1e-6  # nats
_MAX_SECTIONS = 1000
# Factors on the scores of the encoder, and shares that no likeness decides.
_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_UNDECIDED = (0.01, 0.03, 0.1, 0.3, 0.6, 0.9)


class UndatedText(NamedTuple):
  """A text without dates, and the month that is right."""

  text: str
  month: int  # ordinal in the calendar of the chronicle
  work: str


@dataclasses.dataclass(frozen=True)
class DatedTexts:
  """Undated texts, as one system dates them."""

  system: str
  score_mode: str
  log_p: np.ndarray  # of the months of each text, [n, K]
  seconds: float  # of fitting and dating
  seeds: tuple[int, ...] = ()


def read_other_work(
  dates: ChronicleDates, records: Sequence[GoldRecord], work: str
) -> list[UndatedText]:
  """Returns the stretches of another work that begin at printed months."""
  texts = []
  for record in records:
    text = record.entry.text
    stops = [place.position for place in record.places[1:]] + [len(text)]
    for place, stop in zip(record.places, stops, strict=False):
      if not place.month.month:
        continue
      months = chronicle_order.find_months(dates.calendar, place.month)
      stretch = dating.strip_dates(
        text[place.position : stop], dates.calendar.timeline
      ).lstrip("，、。；：")
      if len(months) == 1 and len(stretch) >= _MIN_CHARACTERS:
        texts.append(UndatedText(stretch, *months, work))
  return texts


def read_flags() -> argparse.Namespace:
  """Returns the flags."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--chronicle", default="tongjian")
  parser.add_argument("--undated", required=True, help="other works")
  parser.add_argument("--sources", type=pathlib.Path, required=True)
  parser.add_argument("--outside", type=pathlib.Path, required=True)
  parser.add_argument(
    "--ctd", type=pathlib.Path, help="workdir of a trained dual encoder"
  )
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  return parser.parse_args()


def date_texts(
  labelled: LabelledCorpus, ctd: pathlib.Path | None = None
) -> Iterator[DatedTexts]:
  """Yields the texts as each system dates them.

  Args:
    labelled: the chronicle and the texts.
    ctd: workdir of a trained dual encoder.
  """
  start = time.monotonic()
  log_p = parse_dates(labelled)
  yield DatedTexts("parser", "dates", log_p, time.monotonic() - start)
  start = time.monotonic()
  if ctd is not None:
    log_p = date_by_neighbours(labelled, ctd)
    yield DatedTexts("ctd", "neighbours", log_p, time.monotonic() - start)
  start = time.monotonic()
  fitted = labelled.make_model().fit(labelled.corpus, labelled.labels)
  log_p = fitted.predict().log_p(labelled.text_rows)
  seconds = time.monotonic() - start
  yield DatedTexts("dating-fitted", "posterior", log_p, seconds, (42,))


def parse_dates(labelled: LabelledCorpus) -> np.ndarray:
  """Returns log p of the months by printed dates alone, [n, K].

  Months that a date admits alike are put in order by chance.
  """
  (dates,) = (
    expert for expert in labelled.make_model().experts if expert.name == "dates"
  )
  scores = dates.log_scores(labelled.text_rows)
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
    experiments.tokenize_side(
      "record",
      [corpus.texts[row] for row in rows],
      backbone,
      config,
      "records",
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
    month_matrix: 1 where a section is dated to a month, [m, K].
    factor: on the scores.
    undecided: share that is spread over all months.
  """
  chances = np.asarray(jax.nn.softmax(factor * scores))
  by_month = chances @ month_matrix
  return np.log((1 - undecided) * by_month + undecided / by_month.shape[1])


def measure_texts(
  log_p: np.ndarray, axis: MonthAxis, months: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
  """Returns what is measured of every text, and of all of them.

  Args:
    log_p: of the months, [n, K].
    axis: the months.
    months: that are right, [n].
  """
  years = axis.year_of[months]
  holds, sizes = posterior_metrics.find_credible_sets(log_p, months)
  values = {
    "month": log_p.argmax(axis=1) == months,
    "year": axis.to_years(log_p).argmax(axis=1) == years,
    "nll": -log_p[np.arange(len(log_p)), months],
    "coverage@90": holds,
  }
  return values, {"size@90": float(np.median(sizes)), "texts": len(log_p)}


def make_rows(
  dated: DatedTexts,
  axis: MonthAxis,
  undated: Sequence[UndatedText],
  chronicle: str,
) -> list[results.ResultRow]:
  """Returns the figures of one system, work by work."""
  rows = []
  about = result_rows.describe_run("undated_texts", dated.seconds)
  for work in dict.fromkeys(text.work for text in undated):
    index = np.array([text.work == work for text in undated])
    months = np.array([text.month for text in undated])[index]
    values, figures = measure_texts(dated.log_p[index], axis, months)
    years = {
      str(row): int(year) for row, year in enumerate(axis.year_of[months])
    }
    intervals = {
      metric: significance.compute_bootstrap_interval(
        dict(zip(years, each.astype(float).tolist(), strict=True)), years
      )
      for metric, each in values.items()
    }
    figures |= {metric: float(each.mean()) for metric, each in values.items()}
    track = runs.TEXTS if dated.system == "parser" else runs.TRAINED
    names = dated.system, track, dated.score_mode, "test", work, "all"
    rows += [
      results.ResultRow(
        f"across/{chronicle}",
        *names,
        metric,
        value,
        *intervals.get(metric, (None, None)),
        seeds=dated.seeds,
        **about,
      )
      for metric, value in figures.items()
    ]
  return rows


def main() -> None:
  """Reads the flags, measures and prints."""
  flags = read_flags()
  folders = {"sources": flags.sources, "outside": flags.outside}
  gold = chronicle_texts.read_gold(flags.chronicle, folders)
  # Read before the chronicle is dated: a wrong name is said at once.
  gold_by_work = {
    work: chronicle_texts.read_gold(work, folders)
    for work in flags.undated.split(",")
  }
  dates = chronicle_order.date_text(
    [record.entry for record in gold.records], gold.reigns
  )
  undated = [
    text
    for work, other in gold_by_work.items()
    for text in read_other_work(dates, other.records, work)
  ]
  labelled = labelled_corpus.make_labelled_corpus(
    dates, [each.text for each in undated]
  )
  rows = []
  for dated in date_texts(labelled, flags.ctd):
    axis = labelled.corpus.axis
    of_system = make_rows(dated, axis, undated, flags.chronicle)
    result_rows.print_rows(of_system)
    rows += of_system
    result_rows.write_rows(flags.rows, rows)


if __name__ == "__main__":
  main()
