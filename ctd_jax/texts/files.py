"""Files of texts: encodings, formats, and which files make one work."""

import codecs
import collections
import html
import os
import pathlib
import re
from collections.abc import Sequence

from ctd_jax.texts import kanripo, markdown, plain, table, tei
from ctd_jax.texts.works import (
  ENTRY_KINDS,
  Entry,
  SourceFile,
  TextError,
  Work,
  mark_unencoded,
)
from ctd_jax.utils.files import printable_name
from ctd_jax.utils.notes import Note

TEXT_FORMATS = ("mandoku", "tei", "markdown", "plain", "table")
_SUFFIXES = frozenset(
  (
    *(".txt", ".text", ".md", ".markdown", ".xml", ".tei", ".org", ""),
    *table.TABLE_SUFFIXES,
  )
)
_MARKDOWN_SUFFIXES = frozenset((".md", ".markdown"))
_TEI_SUFFIXES = frozenset((".xml", ".tei"))
# Other files next to texts in a repository.
_ABOUT_FILE = re.compile(
  r"(?:readme|license|licence|copying|changelog|contributing|authors)\b",
  re.IGNORECASE,
)
_BYTE_ORDER_MARKS = (
  (codecs.BOM_UTF8, "utf-8"),
  (codecs.BOM_UTF32_LE, ""),
  (codecs.BOM_UTF32_BE, ""),
  (codecs.BOM_UTF16_LE, "utf-16-le"),
  (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OTHER_ENCODINGS = ("gb18030", "big5hkscs", "shift_jis", "euc_kr")
# The characters that no Chinese text goes without, in both scripts.
_COMMON = frozenset(
  "之不一人以年王大子而於于有其也月為为公曰者十二三中上是的了"
)
_DIGITS = re.compile(r"(\d+)")
# What is no text of the work, for the count of characters.
_TEI_MARKUP = re.compile(
  r"<teiHeader\b.*?</teiHeader>|<!--.*?-->|<[^<>]*>", re.DOTALL
)
_MANDOKU_MARKUP = re.compile(r"^#.*$|<pb:[^<>]*>", re.MULTILINE)
_KANRIPO_IDENTIFIER = re.compile(r"KR\d[a-z]\d{4}")


def read_works(
  path: str | os.PathLike,
  *,
  text_format: str | None = None,
  unit: str | None = None,
  columns: str | None = None,
) -> list[Work]:
  """Returns the works of a file or folder, as they were published.

  Files of a folder that name the same work, or name none and lie in the same
  folder, are its parts, in the order of their names; numbers in names count as
  numbers. A TEI file is a work of its own unless its `idno` says otherwise.
  README, LICENSE and the like are not texts, nor are hidden files.

  Args:
    path: path of a file, or of a folder, which is searched recursively.
    text_format: `mandoku`, `tei`, `markdown`, `plain` or `table`; found from
      the content of each file if None.
    unit: unit that holds a record of plain text, `line` or `paragraph`; found
      from the text if None.
    columns: columns of a table (CSV, TSV, XLSX), see `table.read_table`. In a
      folder, tables without a column of text are not read.

  Raises:
    TextError: if there is no text, a name is not UTF-8 or has control
      characters, or a file is not UTF-8 (or UTF-16 with a byte order mark),
      holds U+0000 or is not well-formed. The message names file and line.
    ValueError: if `text_format` or `unit` is not one of those.
  """
  if text_format is not None and text_format not in TEXT_FORMATS:
    raise ValueError(
      f"text_format={text_format!r}: expected one of {', '.join(TEXT_FORMATS)}"
    )
  if unit is not None and unit not in plain.UNITS:
    raise ValueError(f"unit={unit!r}: expected one of {', '.join(plain.UNITS)}")
  root = pathlib.Path(path)
  # A folder may name a work.
  _check_name(root if root.name else root.resolve())
  if not root.exists():
    raise TextError(Note("problem.file.missing", file=root))
  paths = [root] if root.is_file() else _list_files(root)
  base = root.parent if root.is_file() else root
  groups: dict[tuple[str, str, str], list[SourceFile]] = {}
  for file_path in paths:
    _check_name(file_path)
    table.refuse_workbook(file_path)
    is_workbook = file_path.suffix.lower() == table.WORKBOOK_SUFFIX
    file = SourceFile(
      file_path.relative_to(base).as_posix(),
      (table.read_workbook if is_workbook else read_text)(file_path),
    )
    file_format = text_format or _detect_format(file)
    if file_format == "table" and not (
      root.is_file() or table.is_text_table(file.text, columns)
    ):
      continue
    key = _name_work(file, file_format, root)
    groups.setdefault((file_format, *key), []).append(file)
  if not groups:
    raise TextError(
      Note(
        "problem.file.no_text",
        file=root,
        names=", ".join(sorted(_SUFFIXES - {""})),
      )
    )
  works = [
    _read_work(file_format, identifier, files, unit, columns)
    for (file_format, _, identifier), files in groups.items()
  ]
  for work in works:
    if not any(entry.text for entry in work.entries):
      raise TextError(
        Note("problem.file.no_records", file=root, work=work.identifier)
      )
  return works


def _check_name(path: pathlib.Path) -> None:
  """Raises TextError if a name cannot be shown or stored."""
  # Names become titles, ids and places in tables, where an escaped form would
  # no longer lead to the file.
  name = printable_name(path)
  if name != str(path):
    raise TextError(Note("problem.file.name", file=name))


def read_text(path: pathlib.Path) -> str:
  """Returns a file as text, with `\\n` at the ends of lines.

  Raises:
    TextError: if it is not UTF-8 or UTF-16 with a byte order mark, or holds
      U+0000.
  """
  content = path.read_bytes()
  encoding = "utf-8"
  for mark, marked_encoding in _BYTE_ORDER_MARKS:
    if content.startswith(mark):
      if not marked_encoding:
        raise TextError(Note("problem.file.utf32", place=f"{path}:1"))
      content, encoding = content[len(mark) :], marked_encoding
      break
  try:
    text = content.decode(encoding)
  except UnicodeDecodeError as error:
    line = content[: error.start].count(b"\n") + 1
    guess = _guess_encoding(content).upper()
    remedy = (
      Note(
        "problem.file.guess",
        guess=guess,
        command=f"iconv -f {guess} -t UTF-8",
      )
      if guess
      else Note("problem.file.save")
    )
    raise TextError(
      Note(
        "problem.file.encoding",
        place=f"{path}:{line}",
        position=error.start,
        encoding=encoding.upper(),
        remedy=remedy,
      )
    ) from None
  text = text.replace("\r\n", "\n").replace("\r", "\n")
  position = text.find("\0")
  if position >= 0:
    line = text.count("\n", 0, position) + 1
    raise TextError(Note("problem.file.control", place=f"{path}:{line}"))
  return text


def _guess_encoding(content: bytes) -> str:
  """Returns the encoding that makes the bytes read as Chinese, or ""."""
  best, best_share = "", 0.05
  for encoding in _OTHER_ENCODINGS:
    # The cut can fall within a character.
    text = content[:20_000].decode(encoding, errors="replace")
    num_wide = sum(character > "\u2fff" for character in text)
    share = sum(character in _COMMON for character in text) / max(num_wide, 1)
    if share > best_share and text.count("\ufffd") <= 1 + len(text) // 200:
      best, best_share = encoding, share
  return {"big5hkscs": "big5"}.get(best, best)


def _list_files(root: pathlib.Path) -> list[pathlib.Path]:
  """Returns the texts of a folder by their names; numbers sort as numbers."""
  paths = [
    path
    for path in root.rglob("*")
    if path.is_file()
    and path.suffix.lower() in _SUFFIXES
    and not _ABOUT_FILE.match(path.name)
    and not any(part.startswith(".") for part in path.relative_to(root).parts)
  ]
  return sorted(
    paths,
    key=lambda path: [
      [
        (int(piece), "") if piece.isdecimal() else (-1, piece)
        for piece in _DIGITS.split(part)
        if piece
      ]
      for part in path.relative_to(root).parts
    ],
  )


def _detect_format(file: SourceFile) -> str:
  suffix = pathlib.PurePath(file.name).suffix.lower()
  if suffix in table.TABLE_SUFFIXES:
    return "table"
  if kanripo.is_mandoku(file.text):
    return "mandoku"
  if tei.is_tei(file.text) or suffix in _TEI_SUFFIXES:
    return "tei"
  if suffix in _MARKDOWN_SUFFIXES or markdown.is_markdown(file.text):
    return "markdown"
  return "plain"


def _name_work(
  file: SourceFile, file_format: str, root: pathlib.Path
) -> tuple[str, str]:
  """Returns (folder, identifier) of the work that a file belongs to."""
  name = pathlib.PurePath(file.name)
  folder = name.parent.as_posix()
  if file_format == "mandoku":
    match = _KANRIPO_IDENTIFIER.match(name.name)
    identifier = kanripo.read_identifier(file.text) or (match and match[0])
    if identifier:
      return folder, identifier
  if file_format in ("tei", "table") or root.is_file():
    return folder, name.stem
  return folder, root.resolve().name if folder == "." else name.parent.name


def _read_work(
  file_format: str,
  identifier: str,
  files: Sequence[SourceFile],
  unit: str | None,
  columns: str | None,
) -> Work:
  """Returns one work."""
  properties: dict[str, str] = {}
  if file_format == "mandoku":
    entry_list = kanripo.read_mandoku(files)
    properties = kanripo.read_properties(files)
  elif file_format == "tei":
    entry_list, properties = tei.read_tei(files)
    identifier = properties.get("ID", identifier)
  elif file_format == "markdown":
    entry_list = markdown.read_markdown(files)
    properties = markdown.read_front_matter(files[0].text)
  elif file_format == "table":
    entry_list = table.read_table(files[0], columns)
  else:
    entry_list = plain.read_plain(files, unit)
  entries: list[Entry] = entry_list.entries
  counts = entry_list.counts
  if file_format not in ("mandoku", "table"):
    entries = plain.split_year_headings(entries)
    counts["years made headings"] += len(entries) - len(entry_list.entries)
  counts["files"] = len(files)
  return Work(
    identifier,
    properties.get("TITLE", identifier),
    file_format,
    properties,
    tuple(entries),
    {kind: count for kind, count in sorted(counts.items()) if count},
    _count_characters(entries, files, file_format),
  )


def _count_characters(
  entries: Sequence[Entry], files: Sequence[SourceFile], file_format: str
) -> dict[str, int]:
  """Returns how many characters went where, see `Work.characters`."""
  pieces: dict[str, list[str]] = {kind: [] for kind in (*ENTRY_KINDS, "notes")}
  labels = []
  for entry in entries:
    pieces[entry.kind].append(entry.text)
    labels.append(entry.label)
    # A date in an attribute is no text; one in the margin is counted.
    pieces["notes"] += [note.text for note in entry.notes]
  kept = {
    kind: _count_letters("".join(texts)) for kind, texts in pieces.items()
  }
  source = collections.Counter[str]()
  # Tables are not counted: the cells of their columns are kept whole.
  for file in files if file_format != "table" else ():
    text = file.text
    if file_format == "tei":
      text = html.unescape(_TEI_MARKUP.sub("", text))
    elif file_format == "mandoku":
      text = _MANDOKU_MARKUP.sub("", text)
    source += _count_letters(mark_unencoded(text)[0])
  source -= sum(kept.values(), _count_letters("".join(labels)))
  return {kind: letters.total() for kind, letters in kept.items()} | {
    "dropped": source.total()
  }


def _count_letters(text: str) -> collections.Counter[str]:
  return collections.Counter(
    {
      character: count
      for character, count in collections.Counter(text).items()
      if character.isalpha()
    }
  )
