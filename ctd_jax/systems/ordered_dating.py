"""Systems that date works by their order, registered; see `dated_gallery`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.systems import dating_systems, registry

if TYPE_CHECKING:  # it imports JAX
  from ctd_jax.dating.query_posterior import GalleryDates

# System -> whether records of train months have the months of their labels.
USES_LABELS = {"dating-order": True, "dating-order-strict": False}


@registry.register(*USES_LABELS)
def make_ordered_systems(
  benchmark: Benchmark,
  config: registry.SystemConfig,
  context: registry.Context,
) -> dict[str, registry.System]:
  """Returns the systems; nothing is dated before the first search."""
  return {
    name: _make_system(benchmark, use_labels)
    for name, use_labels in USES_LABELS.items()
  }


def _make_system(benchmark: Benchmark, use_labels: bool) -> registry.System:
  @functools.cache
  def date_gallery() -> GalleryDates:
    # Here and not above: it is slow to import, and `--help` reads this file.
    from ctd_jax.systems import dated_gallery

    return dated_gallery.date_gallery(benchmark, use_labels)

  return dating_systems.make_posterior_system(date_gallery, "T0+order", ())
