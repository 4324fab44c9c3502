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
from ctd_jax.benchmark.records import ANSWERING_KINDS
from ctd_jax.dating import dating_model, month_ranking
from ctd_jax.dating import features as evidence_lib
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.features import Experts, GalleryFeatures
from ctd_jax.dating.posterior import Posterior
from ctd_jax.retrieval.host_search import TopK
from ctd_jax.systems.dating_systems import VARIANTS

SCORE_MODE = "posterior"
TRACK, EXTERNAL_TRACK = "T0", "T0+external"
_BRACKET_NOTE = re.compile(r"\(([^)]*)\)")
_MARKUP = re.compile(r"(?m)^#.*$|<[^>]*>|&[^;\s]*;|[¶\s/\u3000]")


def make_train_labels(benchmark: Benchmark) -> Labels:
  """Returns what is known of the records: month and kind, of train alone."""
  is_train = np.array(benchmark.record_splits) == "train"
  months = [
    benchmark.timeline.ordinal(record.key) for record in benchmark.records
  ]
  event_labels = np.isin(benchmark.kinds, ANSWERING_KINDS).astype(int)
  return Labels(
    np.where(is_train, months, UNKNOWN),
    np.where(is_train, event_labels, UNKNOWN),
  )


def read_bracket_notes(folder: pathlib.Path) -> list[str]:
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
    notes += _BRACKET_NOTE.findall(text.replace(")(", ""))
  return notes


@dataclasses.dataclass(frozen=True)
class DatedGallery:
  """The gallery of a benchmark, dated from its texts; `read` makes it.

  Attributes:
    benchmark: whose gallery.
    features: what the texts say, before dates are learned.
    track: what it was read from.
  """

  benchmark: Benchmark
  features: GalleryFeatures
  track: str

  @functools.cached_property
  def labels(self) -> Labels:
    """What is known of the records."""
    return make_train_labels(self.benchmark)

  @functools.cached_property
  def expert_weights(self) -> dating_model.ExpertWeights:
    """What is learned once for all records."""
    return dating_model.fit_expert_weights(self.features, self.labels)

  def make_posterior(self, variant: str) -> Posterior:
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
      return dating_model.make_strict_posterior(
        self.features, self.labels, self.expert_weights
      )
    fitted_posterior = dating_model.make_fitted_posterior(
      self.features, self.labels, self.expert_weights
    )
    if variant == "elimination":
      return dating_model.exclude_labelled_months(fitted_posterior, self.labels)
    return fitted_posterior

  def rank_by_posterior(
    self,
    queries: Sequence[str],
    posterior: Posterior,
    k: int,
    galleries: Mapping[str, np.ndarray],
  ) -> TopK:
    """Returns the k best records of every query, for every gallery.

    Args:
      queries: [Q] texts.
      make_posterior: from `make_posterior`.
      k: results per query.
      galleries: name -> [N] bool.
    """
    return month_ranking.rank_by_posterior(
      queries, posterior, self.features.event_log_p, k, galleries
    )


def read_dated_gallery(
  benchmark: Benchmark,
  external_texts: Sequence[str] = (),
  experts: Experts | None = None,
  seed: int = 42,
) -> DatedGallery:
  """Returns the gallery of a benchmark, read.

  Args:
    benchmark: whose gallery.
    external_texts: texts from outside the gallery whose citations count as well.
    experts: which evidence is used; all by default.
    seed: of the neural expert.
  """
  features = evidence_lib.read_gallery_features(
    [record.text for record in benchmark.records],
    benchmark.timeline,
    make_train_labels(benchmark),
    experts,
    external_texts,
    seed,
  )
  track = EXTERNAL_TRACK if external_texts else TRACK
  return DatedGallery(benchmark, features, track)
