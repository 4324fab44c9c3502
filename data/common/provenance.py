"""Name, hash and calendar of an exported folder.

A time key is three numbers, which mean nothing without the table of reigns,
and a figure measured on a folder needs a name that changes when the folder
does. Two files carry both: `reigns.tsv`, in the form of the tables in
`data/reigns`, and `metadata.json`. An export always has the two; a folder made
by somebody else needs one of them.
"""

import collections
import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from etils import epath

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.chronology import reigns
from ctd_jax.chronology.reigns import TimeKey, Timeline
from ctd_jax.utils import files, output
from ctd_jax.utils.notes import Note
from ctd_jax_datasets.common.source_files import FolderError

METADATA_FILE = "metadata.json"
REIGNS_FILE = "reigns.tsv"
README_FILE = "README.md"
# They describe the contents and are not hashed with them.
_UNHASHED_FILES = (METADATA_FILE, README_FILE)
_VERSION_DIGITS = 12  # of the hash, as version of a folder without one
# Path and problem in a message of msgspec: "... - at `$.leap_months[0]`".
_MSGSPEC_PATH = re.compile(r"(?P<problem>.*) - at `\$\.?(?P<path>.*)`")

_MSGSPEC_MISSING = re.compile(r"Object missing required field `(.*)`")


class FolderMetadata(msgspec.Struct):
  """Members of `metadata.json` that a reader uses; all may be missing."""

  name: str | None = None  # of the data set, None for the folder's own
  version: str | None = None  # of the data set, None for a piece of the hash
  timeline: str | None = None  # name of the calendar
  sha256: str | None = None  # of the contents, None if they may change
  leap_months: list[str] = []  # keys such as "1-2-3L"
  titles: dict[str, str] = {}  # source of a record -> title of the work


def hash_files(folder: epath.Path, names: Iterable[str]) -> str:
  """Returns the sha256 of files of a folder, their names and order included.

  Args:
    names: relative to `folder`; hashed in sorted order.
  """
  hasher = hashlib.sha256()
  for name in sorted(names):
    contents = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    hasher.update(f"{name} {contents}\n".encode())
  return hasher.hexdigest()


def write_provenance(
  folder: epath.Path, benchmark: Benchmark, format_name: str
) -> dict[str, Any]:
  """Writes both files into a folder that holds its contents already.

  Returns:
    The metadata as written.
  """
  timeline = benchmark.timeline
  _write_reigns(folder / REIGNS_FILE, benchmark)
  name, _, version = benchmark.name.rpartition(":")
  kinds = collections.Counter(record.kind for record in benchmark.records)
  metadata = {
    "name": name,
    "version": version,
    "format": format_name,
    "timeline": timeline.name,
    "leap_months": [
      str(TimeKey(*month, True)) for month in sorted(timeline.leap_months)
    ],
    **({"titles": {**benchmark.titles}} if benchmark.titles else {}),
    "records": dict(sorted(kinds.items())),
    "queries": {split: len(rows) for split, rows in benchmark.queries.items()},
    "sha256": hash_files(
      folder,
      [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in _UNHASHED_FILES
      ],
    ),
  }
  text = json.dumps(metadata, ensure_ascii=False, indent=2)
  files.write_text(folder / METADATA_FILE, text + "\n")
  return metadata


def _write_reigns(path: epath.Path, benchmark: Benchmark) -> None:
  """Writes the calendar, with the authority of each reign if it is known."""
  timeline = benchmark.timeline
  # The released months are those of `lu` without some; they share its table.
  table_name = reigns.table_of_timeline(timeline.name)
  table_rows = {}
  if table_name in reigns.timeline_names():
    table_rows = {
      (row["name"], row["state"], row["accession"]): row
      for row in files.read_tsv_rows(
        reigns.reign_table_dir() / f"{table_name}.tsv"
      )
    }
  lines = []
  for reign in timeline.reigns:
    identity = {
      "name": reign.name,
      "state": reign.state,
      "accession": str(reign.accession),
    }
    row = {
      "source": f"timeline {timeline.name} of {benchmark.name}",
      **table_rows.get(tuple(identity.values()), {}),
      **identity,
      "month": str(reign.first_month),
      "years": str(reign.years),
      "aliases": ",".join(reign.aliases),
    }
    lines.append([row[column] for column in reigns.TABLE_COLUMNS])
  table = output.format_delimited(reigns.TABLE_COLUMNS, lines, quoted=False)
  files.write_text(path, table)


def read_provenance(
  folder: epath.Path, names: Iterable[str]
) -> tuple[str, Timeline]:
  """Returns the name and the calendar of a folder.

  The name is that of `metadata.json` with its version; without one it is the
  folder's own and the version a piece of the hash of the files `names`, so that
  another content has another name.

  Raises:
    FolderError: if there is no calendar, or the contents are not those that
      `metadata.json` has the hash of.
    ValueError: if the table cannot be read; the message names the line.
  """
  metadata = read_metadata(folder)
  # The calendar belongs to the contents: other reigns, other meanings of keys.
  names = {*names} | {REIGNS_FILE} & {path.name for path in folder.iterdir()}
  sha256 = hash_files(folder, names)
  if metadata.sha256 not in (None, sha256):
    raise FolderError(
      Note("problem.beir.sha256", file=folder / METADATA_FILE, sha256=sha256)
    )
  name = f"beir/{folder.name}" if metadata.name is None else metadata.name
  version = metadata.version
  if version is None:
    version = sha256[:_VERSION_DIGITS]
  timeline = _read_reigns(folder, metadata)
  leap_months = set(timeline.leap_months)
  for number, text in enumerate(metadata.leap_months):
    location = f"{folder / METADATA_FILE}: leap_months[{number}]"
    try:
      key = TimeKey.parse(text)
    except ValueError as error:
      raise FolderError(f"{location}: {error}") from None
    if not key.leap:
      raise FolderError(f"{location}: {text} should end in L, e.g. {text}L")
    if TimeKey(*key.triple) not in timeline:
      raise FolderError(
        f"{location}: {text} follows a month that timeline {timeline.name} "
        "does not have"
      )
    leap_months.add(key.triple)
  return f"{name}:{version}", dataclasses.replace(
    timeline, leap_months=frozenset(leap_months)
  )


def read_metadata(folder: epath.Path) -> FolderMetadata:
  """Returns the contents of `metadata.json`, defaults without the file.

  Raises:
    FolderError: if a member has another type or the file is not JSON; the
      message names the member or the file.
  """
  path = folder / METADATA_FILE
  if not path.exists():
    return FolderMetadata()
  try:
    return msgspec.json.decode(path.read_bytes(), type=FolderMetadata)
  except msgspec.ValidationError as error:
    raise FolderError(f"{path}: {describe_mismatch(error)}") from None
  except (ValueError, RecursionError) as error:
    raise FolderError(
      Note("problem.beir.not_json", file=path, message=error)
    ) from None


def describe_mismatch(error: msgspec.ValidationError) -> str:
  """Returns a message of msgspec with the member first: `a.b: Expected ...`."""
  message = str(error)
  match = _MSGSPEC_PATH.fullmatch(message)
  path, problem = match.groups()[::-1] if match else ("", message)
  missing = _MSGSPEC_MISSING.fullmatch(problem)
  if missing:
    path = f"{path}.{missing[1]}" if path else missing[1]
    problem = "missing"
  return f"{path}: {problem}" if path else problem


def _read_reigns(folder: epath.Path, metadata: FolderMetadata) -> Timeline:
  path = folder / REIGNS_FILE
  if path.exists():
    try:
      rows = reigns.read_reign_table(path)
    except UnicodeDecodeError as error:
      raise FolderError(
        Note("problem.table.utf8_reason", file=path, message=error.reason)
      ) from None
    name = folder.name if metadata.timeline is None else metadata.timeline
    return Timeline(name, rows)
  if metadata.timeline is not None:
    return reigns.load_timeline(metadata.timeline)
  raise FolderError(
    Note(
      "problem.beir.calendar",
      folder=folder,
      columns=", ".join(reigns.TABLE_COLUMNS),
      names=", ".join(reigns.timeline_names()),
    )
  )
