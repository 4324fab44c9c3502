"""Late interaction of a published token encoder (track T0).

Source: Khattab and Zaharia 2020 (MaxSim).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.systems import registry

if TYPE_CHECKING:  # they import JAX
  from ctd_jax.models.token_encoder import TokenEncoder
  from ctd_jax.retrieval.late_interaction import RecordGroups

TRACK = "T0"  # it reads texts alone
SCORE_MODE = "late_interaction"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxSimConfig(registry.SystemConfig):
  """Token encoder; None = what its folder declares, else the value named."""

  SECTION: ClassVar[str] = "maxsim"
  REQUIRED: ClassVar[tuple[str, ...]] = ("source",)

  source: str | None = None  # folder or hub id
  query_prefix: str | None = None  # none
  record_prefix: str | None = None  # none
  query_length: int | None = None  # 32 tokens
  record_length: int | None = None  # 180 tokens

  def validate(self) -> None:
    """Raises ValueError for a missing source or a length below 1."""
    self.check_positive("query_length", "record_length")
    super().validate()


def make_search(
  texts: Sequence[str], config: MaxSimConfig
) -> registry.SearchFn:
  """Returns the search; its first call loads the encoder and encodes.

  Args:
    texts: of the records [N].
    config: of the encoder.
  """

  @functools.cache
  def load_and_encode() -> tuple[TokenEncoder, RecordGroups]:
    from ctd_jax.models.token_encoder import TokenEncoder

    encoder = TokenEncoder.load(**dataclasses.asdict(config))
    return encoder, encoder.encode(texts, encoder.record)

  def search(queries: Sequence[str], k: int, galleries: Galleries) -> TopK:
    from ctd_jax.retrieval import late_interaction

    encoder, records = load_and_encode()
    # One group: all queries are padded to the longest of them.
    ((_, query_vectors),) = encoder.encode(
      queries, encoder.query, pad_to_longest=True
    )
    return late_interaction.search_top_k_by_maxsim(
      query_vectors, records, k, galleries
    )

  return search


@registry.register("maxsim", config=MaxSimConfig)
def make_maxsim(
  benchmark: Benchmark, config: MaxSimConfig, context: registry.Context
) -> registry.System:
  """Returns late interaction over the gallery."""
  texts = [record.text for record in benchmark.records]
  return registry.System(
    track=TRACK, score_mode=SCORE_MODE, search=make_search(texts, config)
  )
