"""Source works: what an index is built from, before it is dated.

Axis: K months of the calendar.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

from ctd_jax.chronology.timelines import Timeline
from ctd_jax.texts.works import Entry

# Position of a record in a work whose order is not known.
NO_POSITION = -1


@dataclasses.dataclass(frozen=True, slots=True)
class SourceRecord:
  """A record as it is read.

  Attributes:
    record_id: unique within its work.
    text: as printed.
    kind: event, no_event, neg_comment, text or heading.
    place: where it is printed, "" where nothing is known of it.
    headings: above it, the highest first.
    position: order in its work, `NO_POSITION` where it is not known.
    start: first month it is known to be of, as written; None if none is known.
    end: last month, likewise; None if there is only one.
    location: where it was read from, for errors.
    is_hidden: whether the months are known and not to be used.
  """

  record_id: str
  text: str
  kind: str
  place: str = ""
  headings: tuple[str, ...] = ()
  position: int = NO_POSITION
  start: str | None = None
  end: str | None = None
  location: str = ""
  is_hidden: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceWork:
  """A work as it is read: records, or entries that are yet to be cut.

  Attributes:
    name: by which flags call it, unique in an index.
    title: as the edition gives it.
    source: path or data set.
    text_format: mandoku, tei, markdown, plain, beir or dataset.
    records: of a data set, in order of the work where there is one.
    entries: of a text, in order; its records are the sections of these.
    timeline: that written months are of; None if they are of none.
    group: what was added together, and is dated together.
    reading: what was read and left out, in words.
  """

  name: str
  title: str
  source: str
  text_format: str
  records: Sequence[SourceRecord] = ()
  entries: Sequence[Entry] = ()
  timeline: Timeline | None = None
  group: str = ""
  reading: str = ""

  @property
  def is_text(self) -> bool:
    """Whether it is a text, which is cut into records by its dates."""
    return bool(self.entries)

  @property
  def has_order(self) -> bool:
    """Whether its records stand in an order."""
    return self.is_text or any(
      record.position != NO_POSITION for record in self.records
    )

  def __len__(self) -> int:
    """Number of records or entries."""
    return len(self.entries) or len(self.records)

  def hash_contents(self) -> str:
    """Returns the sha256 of all that was read."""
    digest = hashlib.sha256(f"{self.title}\n{self.text_format}\n".encode())
    if self.timeline is not None:
      digest.update(repr(self.timeline.reigns).encode())
    for entry in self.entries:
      parts = (entry.text, str(entry.place), entry.kind, entry.headings)
      digest.update(repr(parts).encode())
    for record in self.records:
      parts = (
        record.record_id,
        record.text,
        record.kind,
        record.position,
        record.start,
        record.end,
        record.is_hidden,
      )
      digest.update(repr(parts).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
