"""Staged works: dated, and waiting to enter the database.

Each is a folder below `works/`, named after its inputs so that an interrupted
build finds it again:

  *.npy           posteriors, see `posteriors`
  records.jsonl   rows of `records`
  work.json       its sha256, then columns of `works` and hashes of the files
                  beside it; written last

The last two are removed when the database has them.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ctd_jax.benchmark.benchmark import NEG_COMMENT, NO_EVENT
from ctd_jax.dating.chronicle import undated_texts
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.chronicle_dates import CERTAIN
from ctd_jax.dating.corpus import UNKNOWN
from ctd_jax.index import manifest, posteriors
from ctd_jax.index.building import work_corrections, work_dating
from ctd_jax.index.building.sources import DatedWith, SourceWork
from ctd_jax.index.building.work_dating import DatedWork
from ctd_jax.index.corrections import Correction
from ctd_jax.index.database import HEADING, MODEL
from ctd_jax.index.manifest import ManifestFile
from ctd_jax.index.vectors import VECTORS_FOLDER
from ctd_jax.utils import files, output

WORKS_FOLDER, PASSAGES_FOLDER = "works", "passages"
LEFTOVERS = ROWS_FILE, WORK_FILE = "records.jsonl", "work.json"
# Columns of `records` that the text alone decides, and those that the calendar
# and the other records do, too.
TEXT_COLUMNS = (
  "record_id",
  "position",
  "text",
  "kind",
  "place",
  "headings",
  "section_start",
  "section_end",
)
DATE_COLUMNS = (
  "date_end",
  "start_month",
  "end_month",
  "best_month",
  "best_probability",
  "first_credible",
  "last_credible",
  "dated_by",
  "fixed",
)
_KEY_DIGITS = 12
_MAX_NAME = 40  # characters of the folder's name
_TEMPORARY = ".building-"
_MAX_DATE = 60  # characters that a date has at the beginning of a text


@dataclasses.dataclass(frozen=True, kw_only=True)
class StagingJob:
  """A work to date and stage."""

  work: SourceWork
  folder: pathlib.Path
  sha256: str  # of the work's source
  dated_with: DatedWith  # as far as known beforehand
  fixed: pathlib.Path | None = None  # --fixed file
  corrections: Sequence[Correction] = ()  # made by readers


@dataclasses.dataclass(frozen=True)
class StagedWork:
  """A dated work in its folder."""

  folder: pathlib.Path
  columns: dict[str, Any]  # of `works`, without rows and time
  files: dict[str, ManifestFile]  # names in the folder

  @property
  def name(self) -> str:
    """Name of the work."""
    return self.columns["name"]

  @property
  def num_records(self) -> int:
    """Number of records."""
    return self.columns["num_records"]

  @property
  def records_sha256(self) -> str:
    """Hash of the text columns of its records."""
    return self.columns["records_sha256"]

  def iterate_rows(self) -> Iterator[list[Any]]:
    """Yields `TEXT_COLUMNS` and `DATE_COLUMNS` of every record."""
    decode = msgspec.json.Decoder(list).decode
    with (self.folder / ROWS_FILE).open("rb") as file:
      for line in file:
        yield decode(line)


def name_folder(name: str, key: str) -> str:
  """Returns the folder name of a work; `key` is all its dates depend on."""
  readable = re.sub(r"[^\w-]+", "_", name)[-_MAX_NAME:].strip("_")
  digest = hashlib.sha256(key.encode()).hexdigest()[:_KEY_DIGITS]
  return f"{readable or 'work'}-{digest}"


def hash_names(names: Iterable[str]) -> str:
  """Returns a short hash of names in any order."""
  content = "\n".join(sorted(names))
  return hashlib.sha256(content.encode()).hexdigest()[:_KEY_DIGITS]


def find_staged_work(folder: pathlib.Path) -> StagedWork | None:
  """Returns a work that an earlier build staged whole; else None."""
  # If a file of a folder is damaged, its work is dated again.
  try:
    digest, content = files.read_text(folder / WORK_FILE).split("\n", 1)
    if digest != hashlib.sha256(content.encode()).hexdigest():
      return None
    columns = json.loads(content)
    entries = msgspec.convert(columns.pop("files"), dict[str, ManifestFile])
  except (FileNotFoundError, ValueError):
    return None
  found = {path.name for path in folder.iterdir()} - {WORK_FILE}
  if found != entries.keys() or any(manifest.find_damage(folder, entries)):
    return None
  return StagedWork(folder, columns, entries)


def stage_text(job: StagingJob, *, calendar: Calendar) -> StagedWork:
  """Dates a text by its order and stages it, unless that is done already."""
  # A process may have staged it and died before it could say so.
  if staged := find_staged_work(job.folder):
    return staged
  part = calendar.select_reigns(job.dated_with.reigns)
  dated = work_dating.date_text_by_order(
    job.work, part.calendar, job.fixed, job.corrections
  )
  return stage_work(job, work_dating.move_months(dated, part), calendar)


def stage_work(
  job: StagingJob, work: DatedWork, calendar: Calendar
) -> StagedWork:
  """Writes a dated work, its folder whole or not at all, and returns it."""
  folder = job.folder
  # A name of its own: another worker may date the same work.
  temporary = folder.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
  temporary.mkdir(parents=True)
  work.posteriors.save(temporary)
  posteriors.make_month_postings(work.posteriors).save(temporary)
  texts_digest, digest = hashlib.sha256(), hashlib.sha256()
  encode = msgspec.json.Encoder().encode
  with (temporary / ROWS_FILE).open("wb") as file:
    for row in output.Progress(
      _iterate_rows(work, calendar),
      f"{work.source.name}: writing",
      total=len(work.records),
      unit="record",
    ):
      line = encode(row)
      file.write(line + b"\n")
      digest.update(line)
      texts_digest.update(encode(row[: len(TEXT_COLUMNS)]))
  columns = {
    "name": work.source.name,
    "title": work.source.title,
    "source": work.source.source,
    "text_format": work.source.text_format,
    "sha256": job.sha256,
    "num_records": len(work.records),
    "dated_by": work.manner,
    # Otherwise those of another calendar could name its months.
    "printed_reigns": list(work.printed_reigns or job.dated_with.reigns),
    "warnings": msgspec.to_builtins(
      [*work_corrections.describe_left_out(work.corrections), *work.warnings]
    ),
    "records_sha256": texts_digest.hexdigest(),
    "dates_sha256": digest.hexdigest(),
    "dated_with": msgspec.to_builtins(
      msgspec.structs.replace(
        job.dated_with,
        corrections=work.corrections.applied,
        left_out=dict(work.corrections.left_out),
      ),
      str_keys=True,
    ),
  }
  entries = {
    path.name: manifest.hash_file(path) for path in sorted(temporary.iterdir())
  }
  content = json.dumps(
    columns | {"files": msgspec.to_builtins(entries)}, ensure_ascii=False
  )
  digest = hashlib.sha256(content.encode()).hexdigest()
  files.write_text(temporary / WORK_FILE, f"{digest}\n{content}")
  number = 1
  while folder.exists():
    if staged := find_staged_work(folder):  # another worker was faster
      shutil.rmtree(temporary)
      return staged
    number += 1
    folder = folder.with_name(f"{folder.name.split('~')[0]}~{number}")
  os.rename(temporary, folder)
  return StagedWork(folder, columns, entries)


def _iterate_rows(work: DatedWork, calendar: Calendar) -> Iterator[list[Any]]:
  summary = posteriors.summarize_posteriors(work.posteriors)
  dates = [column.tolist() for column in summary.values()]
  for record, span, known, *date, manner, is_fixed in zip(
    work.records,
    work.spans.tolist(),
    work.known_months.tolist(),
    *dates,
    work.dated_by,
    work.is_fixed.tolist(),
    strict=True,
  ):
    yield [
      record.record_id,
      record.position,
      record.text,
      record.kind,
      record.place,
      json.dumps(record.headings, ensure_ascii=False),
      *span,
      undated_texts.read_head(record.text[:_MAX_DATE], calendar).date_end,
      *(None if month == UNKNOWN else month for month in known),
      *date,
      manner,
      int(is_fixed),
    ]


def hash_rows(rows: Iterator[Sequence[Any]]) -> str:
  """Returns the sha256 of `TEXT_COLUMNS` and `DATE_COLUMNS` of rows."""
  digest = hashlib.sha256()
  encode = msgspec.json.Encoder().encode
  for row in rows:
    digest.update(encode(list(row)))
  return digest.hexdigest()


def iterate_labels(
  work: StagedWork, num_months: int
) -> Iterator[tuple[str, int]]:
  """Yields text and month of a staged work's records with certain dates."""
  columns = (*TEXT_COLUMNS, *DATE_COLUMNS)
  text, kind, month, chance, manner = map(
    columns.index,
    ("text", "kind", "best_month", "best_probability", "dated_by"),
  )
  for row in work.iterate_rows():
    if is_label(row[kind], row[month], row[chance], row[manner], num_months):
      yield row[text], row[month]


def is_label(
  kind: str, month: int, chance: float, manner: str, num_months: int
) -> bool:
  """Whether a record is an event with a certain date, to date others by."""
  return kind not in (HEADING, NEG_COMMENT, NO_EVENT) and is_sure(
    month, chance, manner, num_months
  )


def is_sure(month: int, chance: float, manner: str, num_months: int) -> bool:
  """Whether a date is given, or found by order with `CERTAIN` or more."""
  return manner != MODEL and chance >= CERTAIN and month < num_months


def remove_leftovers(folder: pathlib.Path, used: set[str]) -> None:
  """Removes unused folders, and files that the database has taken over.

  Args:
    used: folders of works, passages and vectors in use, relative to `folder`.
  """
  for parent in (WORKS_FOLDER, PASSAGES_FOLDER, VECTORS_FOLDER):
    for path in (folder / parent).glob("*/"):
      if f"{parent}/{path.name}" not in used:
        shutil.rmtree(path)
  for name in used:
    for file in LEFTOVERS:
      (folder / name / file).unlink(missing_ok=True)
    for path in (folder / name).glob(".*"):  # of a build that was stopped
      shutil.rmtree(path) if path.is_dir() else path.unlink()
