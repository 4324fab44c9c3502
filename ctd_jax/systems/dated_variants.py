"""Systems of a dated gallery: one for each variant of its posterior.

Axes: n records, K months.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

if TYPE_CHECKING:  # they import JAX
  from ctd_jax.dating.posterior import Posterior
  from ctd_jax.systems.dated_gallery import DatedGallery


def make_variant_systems(
  variant_by_name: Mapping[str, str],
  read_gallery: Callable[[], DatedGallery],
  track: str,
  seed: int,
) -> dict[str, registry.System]:
  """Returns a system for each variant; they share one gallery.

  Args:
    variant_by_name: name of a system -> variant, of `dating.options.VARIANTS`.
    read_gallery: returns the gallery, the same at each call.
    track: what its texts are read from.
    seed: of its model.
  """
  return {
    name: _make_variant_system(variant, read_gallery, track, seed)
    for name, variant in variant_by_name.items()
  }


def _make_variant_system(
  variant: str,
  read_gallery: Callable[[], DatedGallery],
  track: str,
  seed: int,
) -> registry.System:
  @functools.cache
  def posterior() -> Posterior:
    return read_gallery().make_posterior(variant)

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    return read_gallery().rank_by_posterior(queries, posterior(), k, galleries)

  return registry.System(
    track=track,
    score_mode="posterior",
    search=search,
    seeds=(seed,),
    log_months=lambda rows: posterior().log_p(rows),
    log_query_months=lambda queries: read_gallery().date_queries(
      queries, posterior()
    ),
  )
