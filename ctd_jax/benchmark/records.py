"""Records of a gallery: dated texts of three kinds.

A chronicle tells events; a month it passes over is filled with a placeholder,
so that "nothing happened" can be retrieved too; later commentary is filed under
the month it explains and never answers a query.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ctd_jax.chronology.timelines import TimeKey

EVENT = "event"
NO_EVENT = "no_event"  # placeholder of a month without an event
NEG_COMMENT = "neg_comment"  # commentary, a hard negative
KINDS = (EVENT, NO_EVENT, NEG_COMMENT)
# Kinds that may be positives of a query.
ANSWERING_KINDS = (EVENT, NO_EVENT)


@dataclasses.dataclass(frozen=True)
class Record:
  """A dated text of the gallery.

  Attributes:
    record_id: unique within a data set; tells nothing about order or time.
    text: as retrieved.
    source: the work it comes from, e.g. "zuozhuan" or "kong_yingda".
    kind: "event", "no_event" (placeholder of an empty month) or
      "neg_comment" (later commentary, never a positive).
    key: month it is filed under.
    order: position inside its work, from 0; -1 if it is not known. Metadata:
      only systems of track T0+order may read it.
    version: event it belongs to: records of one month, from several works,
      that tell of the same event or explain it share a version (paper,
      Figure 5); "" for a placeholder and for commentary on a whole month.
      Metadata like `key`: no retriever may read it.
    match_score: of commentary, how well the passage it was filed under fits,
      0-1; 1 for all else.
  """

  record_id: str
  text: str
  source: str
  kind: str
  key: TimeKey
  order: int
  version: str = ""
  match_score: float = 1.0

  def __post_init__(self):
    if self.kind not in KINDS:
      raise ValueError(
        f"kind of record {self.record_id!r} is one of {KINDS}, "
        f"not {self.kind!r}"
      )


def collect_months(
  records: Iterable[Record], kind: str = EVENT
) -> set[TimeKey]:
  """Returns the months that hold at least one record of `kind`."""
  return {record.key for record in records if record.kind == kind}
