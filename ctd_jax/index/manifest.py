"""Manifest of an index: version, calendar, works and hashes.

`manifest.json` is written last and atomically, after the database has the
works and a copy of it. `index_check` verifies it.
"""

import hashlib
import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ctd_jax.utils import files

FORMAT = 3
MANIFEST_FILE = "manifest.json"
DATABASE_FILE = "index.sqlite"
REBUILD = (
  "remove manifest.json and index.sqlite* there and build it again in the same "
  "folder, which keeps its corrections"
)
_MAX_BYTES = 256 << 20  # of the manifest
# Share of records that may be added before the passage dater is fitted again.
_MAX_GROWN = 0.1


class DamagedIndexError(ValueError):
  """A file of an index is damaged; the message names how to mend it."""

  def __init__(self, path: pathlib.Path, problem: str):
    advice = describe_repair(find_index_folder(path))
    super().__init__(f"{path}: {problem}; {advice}")
    self.path, self.problem = path, problem


def describe_repair(folder: pathlib.Path) -> str:
  """Returns how to mend an index."""
  quoted = shlex.quote(str(folder))
  return f"mend it with ctd-jax index --index={quoted} --repair"


def find_index_folder(path: pathlib.Path) -> pathlib.Path:
  """Returns the index that a file belongs to; without one, its own folder."""
  for folder in (path, *path.parents):
    if any(
      (folder / name).is_file() for name in (MANIFEST_FILE, DATABASE_FILE)
    ):
      return folder
  return path.parent


class ManifestFile(msgspec.Struct, frozen=True):
  """Size and hash of a file of an index."""

  bytes: int
  sha256: str


class EncoderEntry(msgspec.Struct, frozen=True):
  """The encoder that made the vectors of an index."""

  path: str  # at that time; or hub id
  name: str  # of the run or folder
  kind: str  # `run`, or `encoder` for a published one
  sha256: str  # of parameters, vocabulary and settings
  dimensions: int  # of a vector
  vectors: int  # how many, one per record


class Manifest(msgspec.Struct, frozen=True):
  """Contents of an index."""

  format: int  # of the folder, `FORMAT`
  generation: int  # number of the build, from 1
  made_with: str  # version of ctd_jax
  calendar: dict[str, Any]  # spec, sha256 and months
  works: list[dict[str, Any]]  # see `database.describe_works`
  # Path -> size and hash; without the database, whose rows are hashed by work.
  files: dict[str, ManifestFile]
  full_text_sha256: str  # of the tables of the full text
  dense: EncoderEntry | None = None  # encoder of the vectors
  passages: str | None = None  # folder of the passage dater
  # Whether passages were wanted, even if no record was sure enough; None in
  # indexes that do not record it.
  use_passages: bool | None = None
  # First rows of the works that the passage dater learned from; None in indexes
  # that do not record it, where they are all.
  learned_rows: list[int] | None = None

  @property
  def learned(self) -> frozenset[int]:
    """First rows of the works that the passage dater learned from."""
    rows = frozenset(work["first_row"] for work in self.works)
    return rows if self.learned_rows is None else rows & {*self.learned_rows}

  @property
  def unseen_works(self) -> list[dict[str, Any]]:
    """Works added since the passage dater was fitted."""
    learned = self.learned
    return [work for work in self.works if work["first_row"] not in learned]

  def can_learn_later(self, works: Sequence[dict[str, Any]]) -> bool:
    """Whether the passage dater stays as it is beside other works."""
    if self.passages is None:
      return False
    sizes = {work["first_row"]: work["num_records"] for work in works}
    num_learned = sum(sizes.get(row, 0) for row in self.learned)
    has_all = self.learned <= sizes.keys()
    return has_all and sum(sizes.values()) <= (1 + _MAX_GROWN) * num_learned

  @property
  def is_for_passages(self) -> bool:
    """Whether the index should date passages, even if it cannot yet."""
    if self.use_passages is None:
      return self.passages is not None
    return self.use_passages


class _ManifestFormat(msgspec.Struct):
  """The one field that every version has."""

  format: int


def read_manifest(folder: pathlib.Path) -> Manifest:
  """Returns manifest.json of an index; see `decode_manifest`."""
  path = folder / MANIFEST_FILE
  try:
    content = files.read_limited(path, _MAX_BYTES) if path.is_file() else b""
  except ValueError as error:
    raise DamagedIndexError(path, "larger than any of ours") from error
  return decode_manifest(folder, content)


def decode_manifest(folder: pathlib.Path, content: bytes) -> Manifest:
  """Returns the manifest of an index.

  Args:
    content: of manifest.json; empty if there is none.

  Raises:
    FileNotFoundError: if there is no index, or its first build did not end.
    DamagedIndexError: if it is damaged.
    ValueError: if it is of another version.
  """
  path = folder / MANIFEST_FILE
  if not content and not path.exists():
    advice = ""
    if (folder / DATABASE_FILE).exists():
      advice = f"; if a build had ended there, {describe_repair(folder)}"
    raise FileNotFoundError(
      f"{path}: missing; expected the folder of an index. Build it, or finish "
      f"a stopped build, with ctd-jax index --index={folder} --add=...{advice}"
    )
  try:
    version = msgspec.json.decode(content, type=_ManifestFormat).format
    if version == FORMAT:
      manifest = msgspec.json.decode(content, type=Manifest)
      # It may come from a stranger; links are looked for at opening.
      works = [str(work.get("folder", "")) for work in manifest.works]
      passages = [manifest.passages] if manifest.passages else []
      for name in (*manifest.files, *works, *passages):
        files.split_name(folder, name)
      return manifest
  except (ValueError, RecursionError) as error:
    raise DamagedIndexError(path, f"damaged ({error})") from error
  raise ValueError(
    f"{path}: an index of format {version}, this version reads {FORMAT}; use "
    f"the ctd_jax that made it, or {REBUILD}"
  )


def encode_manifest(manifest: Manifest) -> str:
  """Returns the content of manifest.json."""
  content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
  return content.decode() + "\n"


def write_manifest(folder: pathlib.Path, content: str) -> None:
  """Writes manifest.json atomically, from `encode_manifest`."""
  files.write_text(folder / MANIFEST_FILE, content)


def find_damage(
  folder: pathlib.Path,
  entries: Mapping[str, ManifestFile],
  max_hashed: int | None = None,
) -> Iterator[DamagedIndexError]:
  """Yields the files of an index that are not what was written.

  Args:
    entries: of the manifest.
    max_hashed: bytes up to which files are read, and not only their sizes;
      None for all.
  """
  for name, expected in entries.items():
    path = files.inside(folder, name)
    if not path.is_file():
      yield DamagedIndexError(path, "missing")
    elif (size := path.stat().st_size) != expected.bytes:
      yield DamagedIndexError(
        path,
        f"damaged, {size:,} bytes but the manifest has {expected.bytes:,}",
      )
    elif (max_hashed is None or size <= max_hashed) and (
      hash_file(path) != expected
    ):
      yield DamagedIndexError(path, "damaged, its bytes have changed")


def check_files(
  folder: pathlib.Path,
  entries: Mapping[str, ManifestFile],
  max_hashed: int | None = None,
) -> None:
  """Raises the first error of `find_damage`."""
  for error in find_damage(folder, entries, max_hashed):
    raise error


def hash_content(content: bytes) -> ManifestFile:
  """Returns size and sha256 of bytes."""
  return ManifestFile(len(content), hashlib.sha256(content).hexdigest())


def hash_file(path: pathlib.Path) -> ManifestFile:
  """Returns size and sha256 of a file."""
  return ManifestFile(path.stat().st_size, files.hash_file(path))
