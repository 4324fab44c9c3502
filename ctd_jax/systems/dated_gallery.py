"""Retrieval systems that date the gallery first: benchmark in, rankings out.

Why: a posterior is compared with other retrievers where they all meet, in run
files. Of a benchmark this reads the texts, and month and kind of the records of
train months; months and kinds of the others stay outside. Called by `evaluate`
and the benchmark scripts.

Axes: N records, Q queries, k results.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.chronology.annals import ANSWERING_KINDS
from ctd_jax.dating import dating_model, month_ranking
from ctd_jax.dating import features as evidence_lib
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.features import Evidence, Experts
from ctd_jax.dating.posterior import Posterior
from ctd_jax.retrieval.search import Found

SCORE_MODE = "posterior"
TRACK, EXTERNAL_TRACK = "T0", "T0+external"
VARIANTS = ("fitted", "elimination", "strict")
NAMES = tuple(f"dating-{variant}" for variant in VARIANTS)
_BRACKETED = re.compile(r"\(([^)]*)\)")
_MARKUP = re.compile(r"(?m)^#.*$|<[^>]*>|&[^;\s]*;|[¶\s/\u3000]")


def labels_of(benchmark: Benchmark) -> Labels:
  """Returns what is known of the records: month and kind, of train alone."""
  train = np.array(benchmark.record_splits) == "train"
  months = [benchmark.timeline.ordinal(each.key) for each in benchmark.records]
  answers = np.isin(benchmark.kinds, ANSWERING_KINDS).astype(int)
  return Labels(
    np.where(train, months, UNKNOWN), np.where(train, answers, UNKNOWN)
  )


def bracket_notes(folder: pathlib.Path) -> list[str]:
  """Returns the bracket notes of the Kanripo editions below `folder`.

  Raises:
    FileNotFoundError: if there is no such edition below it.
    ValueError: naming a file that is not UTF-8.
  """
  paths = sorted(folder.glob("*KR1e*/**/*.txt"))
  if not paths:
    raise FileNotFoundError(
      f"{folder}: no texts *KR1e*/**/*.txt below it; expected the folder of "
      "source texts that chunqiutr/rebuilt is built from"
    )
  notes = []
  for path in paths:
    try:
      text = _MARKUP.sub("", path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
      raise ValueError(f"{path}: not UTF-8 at byte {error.start}") from error
    notes += _BRACKETED.findall(text.replace(")(", ""))
  return notes


@dataclasses.dataclass(frozen=True)
class DatedGallery:
  """The gallery of a benchmark, dated from its texts; `read` makes it.

  Attributes:
    benchmark: whose gallery.
    evidence: what the texts say, before dates are learned.
    track: what it was read from.
  """

  benchmark: Benchmark
  evidence: Evidence
  track: str

  @functools.cached_property
  def labels(self) -> Labels:
    """What is known of the records."""
    return labels_of(self.benchmark)

  @functools.cached_property
  def weights(self) -> dating_model.Weights:
    """What is learned once for all records."""
    return dating_model.learn(self.evidence, self.labels)

  def posterior(self, variant: str) -> Posterior:
    """Returns the posterior of all records.

    Args:
      variant: "fitted" = records of train months have the months that they
        are known to have; "elimination" = as well, months that have known
        records have no others; "strict" = every record is dated by others.

    Raises:
      ValueError: if the variant is unknown.
    """
    if variant not in VARIANTS:
      raise ValueError(f"variant must be one of {VARIANTS}, got {variant!r}")
    if variant == "strict":
      return dating_model.strict(self.evidence, self.labels, self.weights)
    fitted = dating_model.fitted(self.evidence, self.labels, self.weights)
    if variant == "elimination":
      return dating_model.eliminated(fitted, self.labels)
    return fitted

  def topk(
    self,
    queries: Sequence[str],
    posterior: Posterior,
    k: int,
    galleries: Mapping[str, np.ndarray],
  ) -> Found:
    """Returns the k best records of every query, for every gallery.

    Args:
      queries: [Q] texts.
      posterior: from `posterior`.
      k: results per query.
      galleries: name -> [N] bool.
    """
    return month_ranking.topk(
      queries, posterior, self.evidence.log_answers, k, galleries
    )


def read(
  benchmark: Benchmark,
  outside: Sequence[str] = (),
  experts: Experts | None = None,
  seed: int = 42,
) -> DatedGallery:
  """Returns the gallery of a benchmark, read.

  Args:
    benchmark: whose gallery.
    outside: texts from outside the gallery whose citations count as well.
    experts: which evidence is used; all by default.
    seed: of the neural expert.
  """
  evidence = evidence_lib.read(
    [record.text for record in benchmark.records],
    benchmark.timeline,
    labels_of(benchmark),
    experts,
    outside,
    seed,
  )
  track = EXTERNAL_TRACK if outside else TRACK
  return DatedGallery(benchmark, evidence, track)
