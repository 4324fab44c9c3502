"""Systems `dating-*`: they date the gallery first; see `dated_gallery`.

Those of `SYSTEM_NAMES` date it by parallels, citations and words, those of
`USES_LABELS` by the order of the records in their works.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ctd_jax.benchmark import runs
from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.dating.dating_model import EVIDENCE, STRICT, VARIANTS
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

if TYPE_CHECKING:  # they import JAX
  from ctd_jax.dating.query_posterior import GalleryDates
  from ctd_jax.systems.dated_gallery import DatedGallery

# System that dates by order -> whether records of train months have the months
# of their labels.
USES_LABELS = {"dating-order": True, "dating-order-strict": False}
# Variant -> track: a strict one learns from the keys of train records, the
# others also give these records their months.
TRACK_BY_VARIANT = {
  variant: runs.TRAINED if variant == STRICT else runs.LOOKUP
  for variant in VARIANTS
}
SYSTEM_NAMES = tuple(f"dating-{variant}" for variant in VARIANTS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatingConfig(registry.SystemConfig):
  """Evidence that the dated systems use."""

  SECTION: ClassVar[str] = "dating"

  # Folder of source texts whose bracket notes are read for their citations
  # (track T0+...+external); None = the gallery alone.
  outside: str | None = None
  off: tuple[str, ...] = ()  # evidence left out, see `dating_model.EVIDENCE`

  def validate(self) -> None:
    """Raises ValueError for a missing folder or an unknown expert."""
    super().validate()
    if self.outside is not None and not pathlib.Path(self.outside).is_dir():
      raise ValueError(f"config.dating.outside={self.outside}: no such folder")
    for name in self.off:
      if name not in EVIDENCE:
        raise ValueError(
          f"config.dating.off: unknown {name!r}; there are "
          f"{', '.join(EVIDENCE)}"
        )


@registry.register(*SYSTEM_NAMES, config=DatingConfig)
def make_dating_systems(
  benchmark: Benchmark, config: DatingConfig, context: registry.Context
) -> dict[str, registry.System]:
  """Returns a system for each variant; they share one gallery."""

  @functools.cache
  def read_gallery() -> DatedGallery:
    from ctd_jax.dating.dating_model import DatingModel
    from ctd_jax.systems import dated_gallery

    notes: Sequence[str] = ()
    if config.outside:
      notes = dated_gallery.read_bracket_notes(pathlib.Path(config.outside))
    return dated_gallery.read_dated_gallery(
      benchmark, notes, DatingModel.without(config.off, context.seed)
    )

  def date_variant(variant: str) -> GalleryDates:
    return read_gallery().date(variant)

  more = runs.EXTERNAL if config.outside else ""
  # An ablation has a name of its own.
  suffix = "-".join(["", "no", *config.off]) if config.off else ""
  return {
    name: make_posterior_system(
      functools.partial(date_variant, variant),
      TRACK_BY_VARIANT[variant] + more,
      (context.seed,),
      name + suffix,
    )
    for name, variant in zip(SYSTEM_NAMES, VARIANTS, strict=True)
  }


@registry.register(*USES_LABELS)
def make_ordered_systems(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> dict[str, registry.System]:
  """Returns the systems; nothing is dated before the first search."""

  def date_by_order(use_labels: bool) -> GalleryDates:
    # Here and not above: it is slow to import, and `--help` reads this file.
    from ctd_jax.systems import dated_gallery

    return dated_gallery.date_gallery(benchmark, use_labels)

  return {
    name: make_posterior_system(
      functools.partial(date_by_order, use_labels),
      (runs.LOOKUP if use_labels else runs.TRAINED) + runs.ORDER,
      (),
    )
    for name, use_labels in USES_LABELS.items()
  }


def make_posterior_system(
  date_gallery: Callable[[], GalleryDates],
  track: str,
  seeds: tuple[int, ...],
  name: str | None = None,
) -> registry.System:
  """Returns a system that ranks by the posterior of the records.

  Args:
    date_gallery: returns the dates of the records; called once.
    track: track that they are read from.
    seeds: seeds of the model.
    name: in run files and tables; None = as registered.
  """
  date_gallery = functools.cache(date_gallery)

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    from ctd_jax.dating import query_posterior

    return query_posterior.rank_by_posterior(
      queries, date_gallery(), k, galleries
    )

  def date_queries(queries: Sequence[str]) -> np.ndarray:
    from ctd_jax.dating import query_posterior

    return query_posterior.date_queries(queries, date_gallery())

  return registry.System(
    track=track,
    score_mode="posterior",
    search=search,
    name=name,
    seeds=seeds,
    log_months=lambda rows: date_gallery().posterior.log_p(rows),
    log_query_months=date_queries,
  )
