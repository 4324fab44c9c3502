"""State of passage dating in an index: what dates a text that is not in it.

`passages/<generation>/` holds what a `PassageDater` has learned of all records:
those that are dated for sure are its labels, the others count with their
posteriors. It is made anew when works come or go. The manifest names the folder
that is in use, so that one which is half written is never opened.

Axes: N records that are no headings, K months.
"""

from __future__ import annotations

import pathlib
import shutil
import sqlite3

import numpy as np
from absl import logging
from jaxtyping import Int

from ctd_jax.benchmark.records import NEG_COMMENT
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.posterior import CredibleBlock
from ctd_jax.index.building import staged_works
from ctd_jax.index.building.staged_works import PASSAGES_FOLDER
from ctd_jax.index.storage import database
from ctd_jax.index.storage.database import HEADING
from ctd_jax.index.storage.posterior_arrays import PosteriorArrays


def fit_passage_state(
  folder: pathlib.Path, connection: sqlite3.Connection, calendar: Calendar
) -> str | None:
  """Fits what dates passages and returns its folder, relative to the index.

  None if no record is dated for sure, which is logged.

  Args:
    folder: of the index.
    connection: to its database.
    calendar: of the index.
  """
  # Here and not above: it is not needed to look an index up.
  from ctd_jax.dating.passages.passage_dater import PassageDater

  generation = database.get_property(connection, "generation")
  name = f"{PASSAGES_FOLDER}/{generation}"
  target = folder / name
  shutil.rmtree(target, ignore_errors=True)  # of a build that was broken off
  texts, labels, row_ids = _read_records(connection, len(calendar))
  if not labels.is_known.any():
    logging.warning("no record is dated for sure: passages cannot be dated")
    return None
  logging.info(
    "learning to date passages from %s records, %s of them sure",
    f"{len(texts):,}",
    f"{int(labels.is_known.sum()):,}",
  )
  dater = PassageDater.fit(
    texts,
    labels,
    calendar,
    posteriors=_read_posteriors(
      folder, connection, calendar, row_ids, ~labels.is_known
    ),
    row_ids=row_ids,
  )
  dater.save(target)
  return name


def _read_records(
  connection: sqlite3.Connection, num_months: int
) -> tuple[list[str], Labels, Int[np.ndarray, " N"]]:
  texts, months, events, rows = [], [], [], []
  cursor = connection.execute(
    "SELECT row, text, kind, best_month, best_probability, dated_by "
    "FROM records WHERE kind != ? ORDER BY row",
    (HEADING,),
  )
  for row, text, kind, month, chance, manner in cursor:
    is_sure = staged_works.is_sure(month, chance, manner, num_months)
    rows.append(row)
    texts.append(text)
    months.append(month if is_sure else UNKNOWN)
    events.append(int(kind != NEG_COMMENT) if is_sure else UNKNOWN)
  labels = Labels(np.array(months, int), np.array(events, int))
  return texts, labels, np.array(rows, int)


def _read_posteriors(
  folder: pathlib.Path,
  connection: sqlite3.Connection,
  calendar: Calendar,
  row_ids: Int[np.ndarray, " N"],
  is_wanted: np.ndarray,
) -> CredibleBlock:
  """Returns the posteriors of the records that are not sure."""
  num_months = len(calendar)
  rows, parts = [], []
  for work in database.list_works(connection):
    first, stop = np.searchsorted(row_ids, (work.rows.start, work.rows.stop))
    of_work = np.arange(first, stop)[is_wanted[first:stop]]
    arrays = PosteriorArrays.open(folder / work.folder, num_months)
    rows.append(of_work)
    parts.append(arrays.take(row_ids[of_work] - work.first_row))
  joined = PosteriorArrays.concatenate(parts)
  return CredibleBlock(
    rows=np.concatenate(rows),
    starts=joined.starts,
    months=joined.months,
    probabilities=joined.probabilities.astype(float),
    num_months=num_months,
  )
