"""Titles and editions of the works of an index, for citations.

They come from the sources. `titles.tsv` in the folder of the index may say
them better: a header with work, title and edition, and a line for each work; an
empty cell keeps what the source says.
"""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from absl import logging

from ctd_jax.index.database import IndexedWork
from ctd_jax.utils import files, notes

TITLES_FILE = "titles.tsv"
COLUMNS = ("work", "title", "edition")
_KANRIPO_ID = re.compile(r"KR\d\w+")


def read_titles(
  folder: pathlib.Path, works: Sequence[IndexedWork]
) -> tuple[list[IndexedWork], dict[int, str]]:
  """Returns works with their titles, and work id -> edition.

  Raises:
    ValueError: if a line of titles.tsv is wrong; says which.
  """
  path = folder / TITLES_FILE
  rows = files.read_tsv_rows(path, COLUMNS) if path.is_file() else []
  edited = {row["work"]: row for row in rows}
  if len(edited) < len(rows):
    raise ValueError(f"{path}: names a work twice; expected a line for each")
  names = [work.name for work in works]
  for name in edited.keys() - set(names):
    # Perhaps it was removed from the index.
    logging.warning(
      "%s: work %r is not in the index, which has %s",
      path,
      notes.show_controls(name),
      ", ".join(names[:8]),
    )
  titled = [
    dataclasses.replace(work, title=row["title"].strip() or work.title)
    if (row := edited.get(work.name))
    else work
    for work in works
  ]
  editions = {
    work.work_id: edited.get(work.name, {}).get("edition", "").strip()
    or _describe_source(work)
    for work in works
  }
  return titled, editions


def _describe_source(work: IndexedWork) -> str:
  """Returns the edition of a work as far as its source says it."""
  if work.text_format == "mandoku" and _KANRIPO_ID.fullmatch(work.name):
    return f"Kanseki Repository, {work.name}"
  if work.text_format == "dataset":
    return f"data set {work.source}"
  return pathlib.PurePath(work.source).name
