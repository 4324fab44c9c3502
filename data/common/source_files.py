"""Source files: in a folder or downloaded, checked by size, sha256 or git blob
id.

Texts of public editions are listed in a `checksums.tsv` with size and sha256.
Files of the authors are named by a commit and recognised by the id that git
gives to their bytes, so a clone of their repository will do.
"""

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums, download_manager


class SourceError(ValueError):
  """Error of a source file that its parser cannot read; names the location."""


class FolderError(ValueError):
  """Error of a data set's folder; names file, line and field."""


ENVIRONMENT_VARIABLE = "CTD_JAX_SOURCES"
_TIMEOUT_S = 30  # seconds for the first request
_MISMATCH = re.compile(r"Artifact (\S+), downloaded to (.+?), has wrong")


def read_file_infos(
  table: pathlib.Path,
) -> dict[str, tuple[str, checksums.UrlInfo]]:
  """Returns name in a sources folder -> (URL, size and sha256).

  Args:
    table: a `checksums.tsv` of TFDS: URL, size, sha256 and name.
  """
  return {
    info.filename: (url, info)
    for url, info in checksums.load_url_infos(table).items()
  }


def resolve_sources_folder(
  user_folder: str | os.PathLike | None, is_required: bool = False
) -> pathlib.Path | None:
  """Returns the folder to read sources from, None to download them.

  Without a folder of the user's, the variable `CTD_JAX_SOURCES` counts. Raises
  SourceError if there is no such folder, or it is required and not named.
  """
  user_folder = user_folder or os.environ.get(ENVIRONMENT_VARIABLE)
  if not user_folder and is_required:
    raise SourceError(
      "name the folder of source texts with --sources or "
      f"{ENVIRONMENT_VARIABLE}"
    )
  if not user_folder:
    return None
  folder = pathlib.Path(user_folder).expanduser()
  if not folder.is_dir():
    raise SourceError(
      f"{folder}: no such folder; --sources (or {ENVIRONMENT_VARIABLE}) names "
      "the folder of the source texts that checksums.tsv lists"
    )
  return folder


def check_folder_files(
  folder: pathlib.Path,
  file_infos: Mapping[str, tuple[str, checksums.UrlInfo]],
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file, after checking all of them.

  Raises:
    SourceError: if a file is missing or differs; the message names the first,
      with its expected and actual size and sha256.
  """
  paths = {}
  for name, (url, info) in sorted(file_infos.items()):
    path = folder / name
    if not path.is_file():
      raise SourceError(f"{path}: missing; it is {url}")
    _check_file(path, path, url, info)
    paths[name] = path
  return paths


def download_files(
  manager: tfds.download.DownloadManager,
  file_infos: Mapping[str, tuple[str, checksums.UrlInfo]],
  variable: str = ENVIRONMENT_VARIABLE,
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file, downloaded and checked by TFDS.

  `file_infos` has the URL of each, size and sha256 (None where not known);
  `variable` may name a folder of them instead, for messages.

  Raises:
    SourceError: if the network or a checksum fails. A file that differs is
      removed; those that were whole stay in the download folder.
  """
  urls = {name: url for name, (url, _) in file_infos.items()}
  try:
    # TFDS tries for minutes before it gives up; one request tells at once.
    probe = urllib.request.Request(next(iter(urls.values())), method="HEAD")
    urllib.request.urlopen(probe, timeout=_TIMEOUT_S).close()
    paths = manager.download(urls)  # checks size and sha256 itself
  except download_manager.NonMatchingChecksumError as error:
    # The message begins "Artifact URL, downloaded to PATH, has wrong".
    url, path = _MISMATCH.match(str(error)).groups()
    try:
      (info,) = (
        info for known_url, info in file_infos.values() if known_url == url
      )
      _check_file(pathlib.Path(path), url, url, info)
      raise SourceError(f"{url}: {error}") from None
    finally:
      # TFDS downloads into a folder NAME.tmp.RANDOM/ of each file's own.
      shutil.rmtree(pathlib.Path(path).parent, ignore_errors=True)
  except OSError as error:
    reason = " ".join(str(error).split())
    raise SourceError(
      f"{next(iter(urls.values()))} cannot be downloaded ({reason}); name a "
      f"folder that holds {next(iter(urls))} with --sources or {variable}"
    ) from None
  return {name: pathlib.Path(path) for name, path in paths.items()}


def _check_file(
  path: pathlib.Path, display_name: object, url: str, info: checksums.UrlInfo
) -> None:
  """Raises SourceError about `display_name` if the sha256 is another."""
  content = path.read_bytes()
  digest = hashlib.sha256(content).hexdigest()
  if digest != info.checksum:
    raise SourceError(
      f"{display_name}: expected {int(info.size)} bytes, sha256 "
      f"{info.checksum}, got {len(content)} bytes, sha256 {digest}; "
      f"fetch it again from {url}"
    )


def select_folder_files(
  files: Mapping[str, pathlib.Path], folder: str
) -> list[pathlib.Path]:
  """Returns the paths whose name begins with `folder`, in order of name."""
  paths = [files[name] for name in sorted(files) if name.startswith(folder)]
  if not paths:
    raise SourceError(f"no source file of {folder}/ was given")
  return paths


# Why a file of the authors is noted: it may be newer than this reader.
FILE_DIFFERS = "the file is not the released one (git blob id)"
RELEASE_FOLDER_VARIABLE = "CTD_JAX_RELEASE"  # names the authors' files' folder


@dataclasses.dataclass(frozen=True)
class Blob:
  """A file of a commit."""

  url: str  # where its bytes are served
  blob_id: str  # by which git knows them


def compute_blob_id(content: bytes) -> str:
  """Returns the id that git gives to a file with this content."""
  head = f"blob {len(content)}\0".encode()
  return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def find_folder_files(
  folder: str | os.PathLike, urls: Mapping[str, str]
) -> dict[str, pathlib.Path]:
  """Returns name -> path of every known file in a folder of the user's.

  The folder may be a clone of the repository, whose files are below it. The
  content is not compared: it may have been corrected. Missing files are a
  SourceError that names them all with their public address.
  """
  folder = pathlib.Path(folder).expanduser()
  if not folder.is_dir():
    raise SourceError(
      f"{folder}: no such folder; it should hold {', '.join(urls)}"
    )
  # The last path counts: a file of the folder itself before one of a clone.
  paths = {
    name: path
    for name, url in urls.items()
    for subfolder in (pathlib.PurePosixPath(url).parent.name, "")
    if (path := folder / subfolder / name).is_file()
  }
  missing = [
    f"{name} (it is {url})" for name, url in urls.items() if name not in paths
  ]
  if missing:
    raise SourceError(f"{folder}: missing {', '.join(missing)}")
  return paths


def locate_blobs(
  manager: tfds.download.DownloadManager,
  blobs: Mapping[str, Blob],
  folder: str | os.PathLike | None = None,
) -> dict[str, pathlib.Path]:
  """Returns the path of every known file by name, in a folder or downloaded.

  Raises:
    SourceError: if a file is missing, the network fails or a download has
      another blob id; such a file is removed, so that the next try downloads
      it again.
  """
  if folder is not None:
    return find_folder_files(
      folder, {name: blob.url for name, blob in blobs.items()}
    )
  # fetch checks size and sha256 where they are recorded; here they are not.
  unchecked = checksums.UrlInfo(size=None, checksum=None, filename=None)
  paths = download_files(
    manager,
    {name: (blob.url, unchecked) for name, blob in blobs.items()},
    RELEASE_FOLDER_VARIABLE,
  )
  for name, path in paths.items():
    content = path.read_bytes()
    actual_id = compute_blob_id(content)
    if actual_id != blobs[name].blob_id:
      path.unlink()
      raise SourceError(
        f"{blobs[name].url}: expected git blob {blobs[name].blob_id}, got "
        f"{actual_id} ({len(content)} bytes); a file that was changed on "
        "purpose is read from a folder"
      )
  return paths


# JSON of other people's files. A value that a reader cannot use is a
# SourceError; an oddity that it can live with is noted. Both say
# `file:line: reason`.


MAX_EXAMPLES = 5  # places that are kept of a reason
_MAX_EXAMPLE_CHARS = 160  # two lines of a terminal
_LINE = re.compile(r"line (\d+)\b[.:,]? ?")


def locate(file: object, message: str) -> str:
  """Returns a message behind its file, and behind its line if it begins so."""
  line = _LINE.match(message)
  if line is None:
    return f"{file}: {message}" if file else message
  return f"{file}:{line[1]}: {message[line.end() :]}".rstrip(": ")


class FileNotes:
  """Oddities of files that are read nevertheless.

  Attributes:
    file: name of the file that is being read.
    facts: counts to read beside the oddities.
  """

  def __init__(self, file: str = ""):
    self.file = file
    self.facts: dict[str, int | bool] = {}
    self._counts: dict[str, int] = {}
    self._examples: dict[str, list[str]] = {}

  def add(self, place: str, reason: str, detail: object = "") -> None:
    """Counts an oddity.

    Args:
      place: `line 12`, or where in a document of JSON.
      reason: the same sentence for all cases of a kind, with what was done.
    """
    self._counts[reason] = self._counts.get(reason, 0) + 1
    examples = self._examples.setdefault(reason, [])
    if len(examples) < MAX_EXAMPLES:
      example = locate(self.file, place)
      if detail != "":
        example += f": {detail}"
      if len(example) > _MAX_EXAMPLE_CHARS:
        example = example[: _MAX_EXAMPLE_CHARS - 1] + "…"
      examples.append(example)

  def count(self, reason: str) -> int:
    """Returns the number of times a reason was given."""
    return self._counts.get(reason, 0)

  def to_json(self) -> dict[str, Any]:
    """Returns facts and oddities, ready for JSON."""
    return {
      "facts": dict(self.facts),
      "findings": [
        {"reason": reason, "count": count, "examples": self._examples[reason]}
        for reason, count in self._counts.items()
      ],
    }

  def format_table(self) -> str:
    """Returns facts and oddities as lines of text."""
    lines = [f"{name}: {value}" for name, value in self.facts.items()]
    for reason, count in self._counts.items():
      lines.append(f"{count:>7}  {reason}")
      lines += [
        f"{'':>9}e.g. {example}" for example in self._examples[reason][:2]
      ]
    return "\n".join(lines if self._counts else [*lines, "no findings"])


_TYPE_NAMES = {dict: "an object {...}", list: "a list [...]", str: "a string"}
_MAX_VALUE_CHARS = 40  # of a value that a message quotes
# `int` would also take 1_0 and digits of other scripts.
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


@contextlib.contextmanager
def reading(
  path: pathlib.Path, notes: FileNotes | None = None
) -> Iterator[None]:
  """Puts file and line in front of errors raised and notes made inside."""
  if notes is not None:
    notes.file = path.name
  try:
    yield
  except SourceError as error:
    raise SourceError(locate(path, str(error))) from None


def decode_utf8(content: bytes) -> str:
  """Returns the text of a UTF-8 file.

  Raises:
    SourceError: if a byte is not UTF-8; the message names the first.
  """
  try:
    return content.decode("utf-8")
  except UnicodeDecodeError as error:
    raise SourceError(
      f"byte {error.start} is not UTF-8; save the file as UTF-8"
    ) from None


def read_blob(path: pathlib.Path, blob: Blob, notes: FileNotes) -> str:
  """Returns the text of a file; notes if it is not the released one."""
  content = path.read_bytes()
  blob_id = compute_blob_id(content)
  if blob_id != blob.blob_id:
    notes.add(f"blob {blob_id}", FILE_DIFFERS, f"released is {blob.blob_id}")
  return decode_utf8(content)


def parse_json(
  text: str, notes: FileNotes | None = None, location: str = ""
) -> Any:
  """Returns the value that `text` writes; `NaN` is accepted.

  An object that names a member twice is noted, and the last one counts; without
  notes it is an error. `location` is the place in the file, or "".
  """

  def collect_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
      counts = collections.Counter(name for name, _ in pairs)
      for name in (name for name, count in counts.items() if count > 1):
        if notes is None:
          raise SourceError(
            f"{location or 'member'}: {format_value(name)} occurs twice in one "
            "object; keep one"
          )
        notes.add(
          location or "member",
          "a JSON member occurs twice; the last counts",
          format_value(name),
        )
    return members

  head = f"{location}: " if location else ""
  try:
    value = json.loads(text, object_pairs_hook=collect_members)
    # A lone surrogate is legal JSON that no file can be written with.
    json.dumps(value, ensure_ascii=False).encode("utf-8")
  except SourceError:
    raise  # which is a ValueError, too
  except json.JSONDecodeError as error:
    position = f"column {error.colno}"
    if not location:
      position = f"line {error.lineno}, {position}"
    cut_short_hint = " (the file ends here; was it cut short?)"
    hint = cut_short_hint if error.pos >= len(text.rstrip()) else ""
    raise SourceError(
      f"{head}{position}: not JSON: {error.msg}{hint}"
    ) from None
  except UnicodeEncodeError as error:
    bad_character = error.object[error.start]
    raise SourceError(
      f"{head}holds half a character, {bad_character!a}; write the whole one"
    ) from None
  except RecursionError:
    raise SourceError(f"{head}not the schema: nested too deeply") from None
  except ValueError as error:
    # Python refuses numbers of thousands of digits.
    raise SourceError(f"{head}not JSON: {error}") from None
  return value


def format_value(value: object) -> str:
  """Returns `value` as JSON, shortened for a message."""
  text = json.dumps(value, ensure_ascii=False, default=str)
  return (
    text if len(text) <= _MAX_VALUE_CHARS else text[:_MAX_VALUE_CHARS] + "…"
  )


def expect_type(value: Any, kind: type, location: str) -> Any:
  """Returns `value` if it is of `kind` (dict, list or str)."""
  if not isinstance(value, kind):
    raise SourceError(
      f"{location}: {format_value(value)} should be {_TYPE_NAMES[kind]}"
    )
  return value


def get_member(
  value: dict[str, Any], name: str, kind: type, location: str
) -> Any:
  """Returns the member `name` of an object, of the given kind.

  Raises:
    SourceError: if it is missing or of another kind.
  """
  if name not in value:
    raise SourceError(f"{location}: has no {name!r}, {_TYPE_NAMES[kind]}")
  path = f"{location}.{name}" if location else name
  return expect_type(value[name], kind, path)


def iterate_members(
  value: dict[str, Any], name: str, location: str, notes: FileNotes
) -> Iterator[tuple[str, dict[str, Any]]]:
  """Yields (place, object) of the list that is a member of an object.

  A missing member is an empty list. A value that is not a list is skipped, as
  the authors' loaders do, and is a finding.

  Raises:
    SourceError: if the list holds anything but objects.
  """
  path = f"{location}.{name}"
  items = value.get(name, [])
  if not isinstance(items, list):
    notes.add(path, "the value should be a list; skipped", format_value(items))
    return
  for number, item in enumerate(items):
    yield f"{path}[{number}]", expect_type(item, dict, f"{path}[{number}]")


def parse_integer(value: Any, location: str) -> int:
  """Returns a whole number, which may be written as a string or as 3.0."""
  if isinstance(value, str):
    is_integer = _INTEGER.fullmatch(value) is not None
  elif isinstance(value, float):
    is_integer = value.is_integer()
  else:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
  if is_integer:
    # Python refuses numbers of thousands of digits.
    with contextlib.suppress(ValueError):
      return int(value)
  raise SourceError(
    f"{location}: {format_value(value)} should be a whole number"
  )


def parse_sort_key(value: Any, location: str) -> tuple[int, int, int]:
  """Returns the three numbers of a sort key: reign, year, month."""
  if not isinstance(value, list) or len(value) != 3:
    raise SourceError(
      f"{location}: {format_value(value)} should be [reign, year, month], "
      "e.g. [1, 2, 12]"
    )
  reign, year, month = (
    parse_integer(number_value, f"{location}[{number}]")
    for number, number_value in enumerate(value)
  )
  return reign, year, month
