"""Staging of texts, each dated by itself, here or by other processes."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import msgspec

from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.index.building import staged_works, work_dating
from ctd_jax.index.building.source_works import SourceWork
from ctd_jax.index.building.staged_works import DatedWith, StagedWork
from ctd_jax.index.storage.corrections import Correction


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextJob:
  """A text that is to be dated by its order.

  Attributes:
    work: as read.
    fixed: file of corrections; None without.
    corrections: of readers.
    folder: of the staged work.
    sha256: of what it was read from.
    dated_with: as far as it is known before.
  """

  work: SourceWork
  fixed: pathlib.Path | None
  corrections: Sequence[Correction]
  folder: pathlib.Path
  sha256: str
  dated_with: DatedWith


def stage_text(job: TextJob, *, calendar: Calendar) -> StagedWork:
  """Dates a text and writes it, unless it is there already.

  Args:
    job: the text, and where it goes.
    calendar: of the index.

  Raises:
    ValueError: as of `work_dating.date_text_by_order`.
  """
  # By a process that died before it could say so.
  if staged := staged_works.find_staged_work(job.folder):
    return staged
  dated = work_dating.date_text_by_order(
    job.work, calendar, job.fixed, job.corrections
  )
  dated_with = msgspec.structs.replace(
    job.dated_with,
    corrections=dated.corrections.applied,
    left_out=dict(dated.corrections.left_out),
  )
  return staged_works.stage_work(
    job.folder, dated, calendar, job.sha256, dated_with
  )
