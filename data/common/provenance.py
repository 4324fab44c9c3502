"""What an exported folder says of itself: name, hash, calendar.

Why: a time key is three numbers; without the table of reigns they mean
nothing, and a figure measured on a folder needs a name that changes when the
folder does. Two files carry that: `reigns.tsv`, in the form of the tables in
`data/reigns`, and `metadata.json`. Both are written by `export` into every
folder and read by `beir`, which needs one of them in a folder made by somebody
else; `release` reads the second.
"""

from __future__ import annotations

import collections
import csv
import hashlib
import json
import pathlib
from collections.abc import Iterable
from typing import Any

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import TimeKey, Timeline
from ctd_jax.utils import files
from ctd_jax_datasets.common.errors import FolderError

METADATA_FILE = "metadata.json"
REIGNS_FILE = "reigns.tsv"
README_FILE = "README.md"
_UNHASHED_FILES = (
  METADATA_FILE,
  README_FILE,
)  # tell of the contents, belong not to them
_VERSION_DIGITS = 12  # of the hash, as version of a folder without one


def hash_files(folder: pathlib.Path, names: Iterable[str]) -> str:
  """Returns the sha256 of files of a folder, their names and order included.

  Args:
    folder: where they lie.
    names: relative to `folder`; hashed in sorted order.
  """
  hasher = hashlib.sha256()
  for name in sorted(names):
    contents = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    hasher.update(f"{name} {contents}\n".encode())
  return hasher.hexdigest()


def write_provenance(
  folder: pathlib.Path, benchmark: Benchmark, format_name: str
) -> dict[str, Any]:
  """Writes both files into a folder whose contents lie there already.

  Args:
    folder: a fresh export.
    benchmark: what was exported.
    format_name: how, e.g. "beir".

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
    "records": dict(sorted(kinds.items())),
    "queries": {split: len(rows) for split, rows in benchmark.queries.items()},
    "sha256": hash_files(folder, _list_contents(folder)),
  }
  text = json.dumps(metadata, ensure_ascii=False, indent=2)
  files.write_text(folder / METADATA_FILE, text + "\n")
  return metadata


def _write_reigns(path: pathlib.Path, benchmark: Benchmark) -> None:
  """Writes the calendar; authorities are kept where a table of ours has it."""
  timeline = benchmark.timeline
  table_name = "lu" if timeline.name == "lu_release" else timeline.name
  table_rows = {}
  if table_name in reign_tables.timeline_names():
    with (reign_tables.reign_table_dir() / f"{table_name}.tsv").open(
      encoding="utf-8"
    ) as file:
      for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
        table_rows[row["name"], row["state"], row["accession"]] = row
  lines = [reign_tables.TABLE_COLUMNS]
  for reign in timeline.reigns:
    identity = {
      "name": reign.name,
      "state": reign.state,
      "accession": str(reign.accession),
    }
    row = {
      "month": "1",
      "source": f"timeline {timeline.name} of {benchmark.name}",
      **table_rows.get(tuple(identity.values()), {}),
      **identity,
      "years": str(reign.years),
      "aliases": ",".join(reign.aliases),
    }
    lines.append([row[column] for column in reign_tables.TABLE_COLUMNS])
  files.write_text(path, "".join("\t".join(cells) + "\n" for cells in lines))


def _list_contents(folder: pathlib.Path) -> list[str]:
  return [
    path.relative_to(folder).as_posix()
    for path in folder.rglob("*")
    if path.is_file() and path.name not in _UNHASHED_FILES
  ]


def read_provenance(
  folder: pathlib.Path, names: Iterable[str]
) -> tuple[str, Timeline]:
  """Returns the name and the calendar of a folder.

  The name is that of `metadata.json` with its version; without one it is the
  folder's own and the version a piece of the hash, so that another content
  has another name.

  Args:
    folder: has `reigns.tsv`, or a `metadata.json` that names a timeline.
    names: the files that make up its contents.

  Raises:
    FolderError: if there is no calendar, or the contents are not those that
      `metadata.json` has the hash of.
    ValueError: if the table cannot be read; the message names the line.
  """
  metadata = read_metadata(folder)
  names = {*names} | {REIGNS_FILE} & {path.name for path in folder.iterdir()}
  sha256 = hash_files(folder, names)
  if sha256 != metadata.get("sha256", sha256):
    raise FolderError(
      f"{folder / METADATA_FILE}: sha256 is not that of the files beside it "
      f"({sha256}): they were changed since. If that was meant, take out "
      "`sha256` and give another `name` or `version`"
    )
  name = metadata.get("name", f"beir/{folder.name}")
  version = metadata.get("version", sha256[:_VERSION_DIGITS])
  return f"{name}:{version}", _read_timeline(folder, metadata)


def read_metadata(folder: pathlib.Path) -> dict[str, Any]:
  """Returns what `metadata.json` of a folder says, nothing without one.

  Raises:
    FolderError: if it is no JSON object, or says something in another form.
  """
  path = folder / METADATA_FILE
  if not path.exists():
    return {}
  try:
    metadata = json.loads(path.read_text(encoding="utf-8"))
  except (ValueError, RecursionError) as error:
    raise FolderError(f"{path}: not JSON: {error}") from None
  if not isinstance(metadata, dict):
    raise FolderError(f"{path}: should be an object such as {{'name': ...}}")
  for field in ("name", "version", "timeline", "sha256"):
    if not isinstance(metadata.get(field, ""), str):
      raise FolderError(f"{path}: {field} should be a string")
  return metadata


def _read_timeline(folder: pathlib.Path, metadata: dict[str, Any]) -> Timeline:
  path = folder / REIGNS_FILE
  if path.exists():
    try:
      rows = reign_tables.read_reign_table(path)
    except UnicodeDecodeError as error:
      raise FolderError(f"{path}: not UTF-8: {error.reason}") from None
    name = metadata.get("timeline", folder.name)
    timeline = Timeline(name, rows, _read_leap_months(folder, metadata))
  elif "timeline" in metadata:
    timeline = reign_tables.load_timeline(metadata["timeline"])
  else:
    raise FolderError(
      f"{folder}: no calendar; add {REIGNS_FILE} with the columns "
      f"{', '.join(reign_tables.TABLE_COLUMNS)}, or name one of "
      f"{', '.join(reign_tables.timeline_names())} as `timeline` in {METADATA_FILE}"
    )
  return timeline


def _read_leap_months(
  folder: pathlib.Path, metadata: dict[str, Any]
) -> frozenset[tuple[int, int, int]]:
  location = f"{folder / METADATA_FILE}: leap_months"
  texts = metadata.get("leap_months", [])
  if not isinstance(texts, list):
    raise FolderError(f'{location} should be a list such as ["1-2-3L"]')
  months = set()
  for text in texts:
    try:
      key = TimeKey.parse(str(text))
    except ValueError as error:
      raise FolderError(f"{location}: {error}") from None
    if not key.leap:
      raise FolderError(f"{location}: {text} should end in L, e.g. {text}L")
    months.add(key.triple)
  return frozenset(months)
