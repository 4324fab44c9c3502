"""Manifest of an index: its version, its calendar, its works and hashes.

`manifest.json` is written last, whole or not at all, when the database has
taken the works in. What it says is checked by `index_check`.
"""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any

import msgspec

from ctd_jax.utils import files

FORMAT = 2
MANIFEST_FILE = "manifest.json"
_CHUNK = 1 << 20  # bytes hashed at once


class ManifestFile(msgspec.Struct, frozen=True):
  """A file of an index.

  Attributes:
    bytes: its size.
    sha256: of its contents.
  """

  bytes: int
  sha256: str


class EncoderEntry(msgspec.Struct, frozen=True):
  """With what the vectors of an index were made.

  Attributes:
    path: of the encoder, where it lay then; or its hub id.
    name: of the run or the folder.
    kind: `run` or `encoder`, a published one.
    sha256: of its parameters, vocabulary and settings.
    dimensions: of a vector.
    vectors: number of them, one for each record.
  """

  path: str
  name: str
  kind: str
  sha256: str
  dimensions: int
  vectors: int


class Manifest(msgspec.Struct, frozen=True):
  """What an index holds.

  Attributes:
    format: of the folder, `FORMAT`.
    generation: number of the build, from 1.
    made_with: version of ctd_jax.
    calendar: spec, sha256 and months.
    works: name, title, records, dated_by, folder and sha256 of each.
    files: path below the folder -> size and hash; all but the database, whose
      rows the works have hashes of.
    dense: encoder of the vectors, None without.
    passages: folder of what dates passages, None without.
    use_passages: whether it was to date passages, which it cannot as long as
      no record is dated for sure; None where an index does not say it.
  """

  format: int
  generation: int
  made_with: str
  calendar: dict[str, Any]
  works: list[dict[str, Any]]
  files: dict[str, ManifestFile]
  dense: EncoderEntry | None = None
  passages: str | None = None
  use_passages: bool | None = None

  @property
  def is_for_passages(self) -> bool:
    """Whether the index is to date passages, whether or not it can by now."""
    if self.use_passages is None:
      return self.passages is not None
    return self.use_passages


class _ManifestFormat(msgspec.Struct):
  """The one member that every version has."""

  format: int


def read_manifest(folder: pathlib.Path) -> Manifest:
  """Returns the manifest of an index.

  Args:
    folder: of the index.

  Raises:
    FileNotFoundError: if there is no index, or its first build was not ended.
    ValueError: naming the file, if it is damaged or of another version.
  """
  path = folder / MANIFEST_FILE
  if not path.is_file():
    raise FileNotFoundError(
      f"{path}: missing; expected the folder of an index. It is built, and a "
      "build that was broken off is ended, by python -m ctd_jax.index "
      f"--index={folder} --add=..."
    )
  content = path.read_bytes()
  try:
    version = msgspec.json.decode(content, type=_ManifestFormat).format
    if version == FORMAT:
      return msgspec.json.decode(content, type=Manifest)
  except (msgspec.DecodeError, UnicodeDecodeError) as error:
    raise ValueError(
      f"{path}: damaged ({error}); build the index again"
    ) from error
  raise ValueError(
    f"{path}: an index of format {version}, this version reads {FORMAT}; use "
    "the ctd_jax that made it, or remove manifest.json and index.sqlite* there "
    "and build it again in the same folder, which keeps its corrections"
  )


def write_manifest(folder: pathlib.Path, manifest: Manifest) -> None:
  """Writes the manifest of an index, whole or not at all."""
  content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
  files.write_text(folder / MANIFEST_FILE, content.decode() + "\n")


def hash_manifest(folder: pathlib.Path) -> str:
  """Returns the sha256 of the manifest, by which an index is cited."""
  return hashlib.sha256((folder / MANIFEST_FILE).read_bytes()).hexdigest()


def hash_file(path: pathlib.Path) -> ManifestFile:
  """Returns size and sha256 of a file."""
  digest, size = hashlib.sha256(), 0
  with path.open("rb") as file:
    while chunk := file.read(_CHUNK):
      digest.update(chunk)
      size += len(chunk)
  return ManifestFile(size, digest.hexdigest())
