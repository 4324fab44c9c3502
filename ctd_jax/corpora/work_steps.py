"""The two steps of a work of a corpus: its dates, then its vectors.

They take names and write files, so that they can be called anywhere, and again:
by a loop here, or by the workers of a runner on machines that see the folders.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
from collections.abc import Sequence

import msgspec
import numpy as np

import ctd_jax
from ctd_jax import texts
from ctd_jax.corpora import corpus_files
from ctd_jax.corpora.corpus_files import (
  DATES_FOLDER,
  VECTORS_FOLDER,
  WorkOutcome,
)
from ctd_jax.dating.chronicle import chronicle_input, western_calendar
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.chronicle_output import dated_chronicle
from ctd_jax.index import calendars
from ctd_jax.index.dense import encoders
from ctd_jax.index.dense.encoders import VectorEncoder
from ctd_jax.texts import Entry, TextError, Work, files

_VERSION = 2  # raised when the same is made into other files
_BLOCK = 4096  # texts encoded at once; the rounding of vectors may depend on it


class CorpusSettings(msgspec.Struct, frozen=True, kw_only=True):
  """What a corpus is made with.

  Attributes:
    out: its folder.
    reigns: calendar, as of `chronicle_input.load_reigns`.
    unit: of plain text, "line" or "paragraph"; found from the text if None.
    encoder: of vectors, as of `encoders.open_encoder`; None for no vectors.
    shard_rows: sections of a shard, of a corpus with vectors; None for no
      shards.
    has_links: whether sections of different works are linked.
  """

  out: str
  reigns: str
  unit: str | None = None
  encoder: str | None = None
  shard_rows: int | None = None
  has_links: bool = False


def list_sources(paths: Sequence[pathlib.Path]) -> list[str]:
  """Returns what is read by itself: files, and the entries of folders.

  Args:
    paths: of files; of folders of which each entry, a text or a folder, holds
      works of its own. README, LICENSE and the like are no texts.

  Raises:
    FileNotFoundError: naming the path that is not there.
    ValueError: if there is nothing.
  """
  sources: list[str] = []
  for path in paths:
    if not path.exists():
      raise FileNotFoundError(f"--input={path}: no such file or folder")
    if not path.is_dir():
      sources.append(str(path.resolve()))
      continue
    sources += [
      str(entry.resolve())
      for entry in path.iterdir()
      if files.is_text_file(entry)
      or (entry.is_dir() and not entry.name.startswith("."))
    ]
  if not sources:
    names = ",".join(map(str, paths))
    raise ValueError(f"--input={names}: neither a text there nor a folder")
  return sorted(set(sources))


def build_source(settings: CorpusSettings, source: str) -> list[WorkOutcome]:
  """Dates and encodes the works of a source and returns their outcomes.

  Args:
    settings: of the corpus.
    source: path of a file or folder.
  """
  outcomes = date_source(settings, source)
  if settings.encoder:
    for outcome in outcomes:
      encode_work(settings, outcome)
  return outcomes


def date_source(settings: CorpusSettings, source: str) -> list[WorkOutcome]:
  """Dates the works of a source, each into a file, and returns their outcomes.

  What cannot be read or dated is an outcome, too: one text of a million must
  not end the run.

  Args:
    settings: of the corpus.
    source: path of a file or folder.
  """
  try:
    works = texts.read_works(source, unit=settings.unit)
  except TextError as error:
    return [WorkOutcome(source=source, error=str(error))]
  return [_date_work(settings, source, work) for work in works]


def _date_work(
  settings: CorpusSettings, source: str, work: Work
) -> WorkOutcome:
  """Dates a work; see `date_source`."""
  records = chronicle_input.list_records(work)
  outcome = WorkOutcome(
    source=source,
    work=work.identifier,
    title=work.title,
    reading=chronicle_input.summarize_reading(work),
  )
  if not records:
    return msgspec.structs.replace(
      outcome, error=f"{work.text_format} without a record"
    )
  name = corpus_files.name_work(source, work.identifier)
  path = corpus_files.find_path(pathlib.Path(settings.out), DATES_FOLDER, name)
  try:
    calendar, calendar_hash = load_calendar(settings.reigns, records)
    fingerprint = _hash_parts(
      "dates",
      msgspec.json.encode(outcome),
      _hash_records(records),
      calendar_hash,
    )
    if earlier := corpus_files.read_outcome(path, fingerprint):
      return earlier
    dated = dated_chronicle.date_records(work.identifier, records, calendar)
  except ValueError as error:
    return msgspec.structs.replace(outcome, error=str(error))
  outcome = msgspec.structs.replace(
    outcome,
    name=name,
    sections=len(dated.rows),
    characters=sum(len(row.text) for row in dated.rows),
    warnings=tuple(dated.dates.warnings),
    fingerprint=fingerprint,
  )
  corpus_files.write_dates(path, outcome, dated.rows, fingerprint)
  return outcome


def encode_work(settings: CorpusSettings, outcome: WorkOutcome) -> None:
  """Writes the vectors of a work, if it is dated and they are not there.

  Args:
    settings: of the corpus, with an encoder.
    outcome: of `date_source`.
  """
  if outcome.error:
    return
  out = pathlib.Path(settings.out)
  encoder = open_encoder(settings.encoder)
  fingerprint = _hash_parts("vectors", outcome.fingerprint, encoder.sha256)
  path = corpus_files.find_path(out, VECTORS_FOLDER, outcome.name)
  if corpus_files.read_outcome(path, fingerprint) is None:
    row_texts = corpus_files.read_texts(
      corpus_files.find_path(out, DATES_FOLDER, outcome.name)
    )
    blocks = [
      encoder.encode_records(row_texts[start : start + _BLOCK])
      for start in range(0, len(row_texts), _BLOCK)
    ]
    vectors = np.concatenate(blocks)
    corpus_files.write_vectors(path, outcome, vectors, fingerprint)


@functools.lru_cache(maxsize=1)  # once in a process
def open_encoder(source: str) -> VectorEncoder:
  """Returns the encoder of a corpus; see `encoders.open_encoder`."""
  return encoders.open_encoder(source)


def load_calendar(
  reigns: str, records: Sequence[Entry] = ()
) -> tuple[Calendar, str]:
  """Returns a calendar and its hash; see `chronicle_input.load_reigns`.

  Args:
    reigns: as it is asked for.
    records: of the work, whose years the common era has.

  Raises:
    FileNotFoundError: if there is none of that name.
    ValueError: if it cannot be read.
  """
  if not western_calendar.is_western_name(reigns):
    return _load_common_calendar(reigns)
  calendar = chronicle_input.load_reigns(reigns, records)
  return calendar, calendars.hash_calendar(calendar)


@functools.lru_cache(maxsize=1)  # seconds, and the same for all works
def _load_common_calendar(reigns: str) -> tuple[Calendar, str]:
  calendar = chronicle_input.load_reigns(reigns)
  return calendar, calendars.hash_calendar(calendar)


def _hash_records(records: Sequence[Entry]) -> str:
  """Returns the sha256 of all of a work that its dates depend on."""
  digest = hashlib.sha256()
  for entry in records:
    digest.update(repr(entry).encode("utf-8", "surrogatepass"))
  return digest.hexdigest()


def _hash_parts(*parts: str | bytes) -> str:
  """Returns the sha256 of parts, this version and that of the package."""
  digest = hashlib.sha256(f"{_VERSION} {ctd_jax.__version__}".encode())
  for part in parts:
    digest.update(b"\n" + (part.encode() if isinstance(part, str) else part))
  return digest.hexdigest()
