"""Calendar of a build: that of the index, or the one that its works ask for."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from ctd_jax.dating.chronicle import (
  chronicle_input,
  month_calendar,
  western_calendar,
)
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.index import calendars
from ctd_jax.index.building.source_works import SourceWork


def open_calendar(
  folder: pathlib.Path,
  works: Sequence[SourceWork],
  reigns: str | None,
  is_first: bool,
) -> Calendar:
  """Returns the calendar of the index, written first if it is new.

  Args:
    folder: of the index.
    works: that are added.
    reigns: as of `choose_calendar`.
    is_first: whether no build has ended in the folder.

  Raises:
    FileNotFoundError: as of `choose_calendar`.
    ValueError: likewise; if the index has another calendar, or no work is
      added to a new one.
  """
  if not is_first:
    calendar = calendars.load_index_calendar(folder)
    if reigns is not None:
      _check_calendar(folder, calendar, works, reigns)
    return calendar
  if not works:
    raise ValueError(f"--index={folder}: no index there; --add builds one")
  spec, calendar = choose_calendar(works, reigns)
  calendars.write_index_calendar(folder, calendar, spec)
  return calendar


def _check_calendar(
  folder: pathlib.Path,
  calendar: Calendar,
  works: Sequence[SourceWork],
  reigns: str,
) -> None:
  _, requested = choose_calendar(works, reigns)
  if calendars.hash_calendar(requested) != calendars.hash_calendar(calendar):
    raise ValueError(
      f"--reigns={reigns}: the index has another calendar, "
      f"{calendar.timeline.name}, by which its works are dated; leave the flag "
      f"out, or build an index of its own"
    )


def choose_calendar(
  works: Sequence[SourceWork], reigns: str | None
) -> tuple[str, Calendar]:
  """Returns the calendar of works, and what it was asked for by.

  Args:
    works: as read.
    reigns: as of `chronicle_input.load_reigns`; None where the works say it.

  Raises:
    FileNotFoundError: as of `chronicle_input.load_reigns`.
    ValueError: if nothing says it, or works say different ones.
  """
  entries = [entry for work in works for entry in work.entries]
  if reigns is not None:
    return reigns, chronicle_input.load_reigns(reigns, entries)
  timelines = {
    work.timeline.name: work.timeline for work in works if work.timeline
  }
  if len(timelines) > 1:
    raise ValueError(
      f"the data sets have different calendars, {', '.join(timelines)}; name "
      "one that has the months of all by --reigns, or build an index of each"
    )
  if timelines:
    ((name, timeline),) = timelines.items()
    return name, month_calendar.make_calendar(timeline)
  try:
    calendar = western_calendar.load_western_calendar(
      western_calendar.COMMON_ERA, entries
    )
  except ValueError:
    raise ValueError(
      "no calendar: the works do not say which; name it by --reigns, polities "
      "(--reigns=宋, --reigns=zh), a reign table, or CE:700-1160"
    ) from None
  return calendar.timeline.name, calendar
