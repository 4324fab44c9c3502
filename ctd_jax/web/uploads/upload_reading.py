"""Preview of an upload: what is recognised, before anything is built.

  python -m ctd_jax.web.uploads.upload_reading REQUEST

REQUEST is a JSON file with the members of `ReadingRequest`. A process of its
own reads the texts, so that one that takes too long, or too much, is ended and
the server is not. What was read is written as JSON, whole or not at all.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import resource
import sys
from collections.abc import Sequence
from typing import Any

from ctd_jax.utils import files
from ctd_jax.web.uploads import upload_estimate

MAX_MEMORY = 12 << 30  # bytes of addresses
_SAMPLE = 400_000  # characters of a work whose dates are looked for
_MAX_WORKS = 60
_MAX_RECORDS, _MAX_HEADINGS, _MAX_NAMES = 8, 12, 24
_MAX_TEXT = 240  # characters of a record that are shown
# What is said of a text and of a work when no more is known.
EMPTY_PREVIEW = {
  "error": "",
  "error_key": "",
  "calendar": None,
  "calendar_error": "",
  "num_works": 0,
  "works": [],
  "seconds": 0.0,
}
_NO_DATES = {"manner": "", "warnings": []}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingRequest:
  """What is to be read.

  Attributes:
    source: as of `sources.read_source`.
    root: folder that messages are to leave out.
    index: folder of the index.
    has_index: whether it has a calendar.
    unit: of plain text; "" as it looks.
    encoding: that files were converted from.
    reigns: calendar of an index without; "" as the text says.
    output: file that is written.
  """

  source: str
  root: str
  index: str
  has_index: bool
  unit: str
  encoding: str
  reigns: str
  output: str


def main() -> None:
  """Reads what the argument says."""
  values = json.loads(files.read_text(sys.argv[1]))
  resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
  write_preview(ReadingRequest(**values))


def write_preview(request: ReadingRequest) -> None:
  """Writes the preview of an upload, or what is wrong with it.

  Args:
    request: what is to be read.
  """
  try:
    preview = make_preview(request)
  except (ValueError, OSError) as error:
    preview = EMPTY_PREVIEW | {"error": _hide_folder(str(error), request)}
  except (MemoryError, RecursionError) as error:
    problem = f"too large to be read here ({type(error).__name__})"
    preview = EMPTY_PREVIEW | {"error": problem}
  content = json.dumps(preview, ensure_ascii=False)
  files.write_text(pathlib.Path(request.output), content)


def _hide_folder(message: str, request: ReadingRequest) -> str:
  """Returns a message without the folder of the upload and our flags."""
  message = message.replace(request.root + "/", "").replace(request.root, "")
  return message.replace("--add=", "").replace("beir:", "")


def make_preview(request: ReadingRequest) -> dict[str, Any]:
  """Returns what is recognised in the texts of an upload, fit for JSON.

  Args:
    request: what is to be read.

  Raises:
    ValueError: naming file and line of what cannot be read.
    FileNotFoundError: if there is no such calendar.
  """
  from ctd_jax.index import calendars
  from ctd_jax.index.building import source_calendars, sources

  works = sources.read_source(request.source, request.unit or None)
  preview: dict[str, Any] = EMPTY_PREVIEW | {"num_works": len(works)}
  calendar = None
  if request.has_index:
    calendar = calendars.load_index_calendar(pathlib.Path(request.index))
  else:
    try:
      _, calendar = source_calendars.choose_calendar(
        works, request.reigns or None
      )
    except (ValueError, FileNotFoundError) as error:
      preview["calendar_error"] = str(error)
  if calendar is not None:
    _check_months(works, calendar)
    preview["calendar"] = {
      "name": calendar.timeline.name,
      "first": calendars.name_month(calendar, 0),
      "last": calendars.name_month(calendar, len(calendar) - 1),
    }
  preview["works"] = [
    _describe_work(work, calendar) for work in works[:_MAX_WORKS]
  ]
  if calendar is not None:
    folder = pathlib.Path(request.index)
    preview["seconds"] = upload_estimate.estimate_seconds(
      preview["works"],
      len(calendar),
      upload_estimate.count_characters(folder) if request.has_index else 0,
    )
  return preview


def _check_months(works: Sequence[Any], calendar: Any) -> None:
  """Raises ValueError for a month that a record gives and cannot be of."""
  from ctd_jax.index.building import group_dating

  choices = group_dating.DatingChoices()
  dater = group_dating.WorkDater(calendar, choices, works)
  for work in works:
    if not work.is_text:
      dater.read_known_months(work)


def _describe_work(work: Any, calendar: Any) -> dict[str, Any]:
  """Returns what is said of a work."""
  items = work.entries or work.records
  is_heading = [
    item.is_heading if work.is_text else item.kind == "heading"
    for item in items
  ]
  headings = [
    item.text for item, heads in zip(items, is_heading, strict=True) if heads
  ]
  records = [
    item for item, heads in zip(items, is_heading, strict=True) if not heads
  ]
  num_characters = sum(len(item.text) for item in items)
  description = {
    "name": work.name,
    "title": work.title,
    "format": work.text_format,
    # Behind format and numbers of records and headings.
    "left_out": work.reading.split(", ")[3:] if work.is_text else [],
    "num_records": len(records),
    "num_headings": len(headings),
    "num_characters": num_characters,
    "headings": [text[:_MAX_TEXT] for text in headings[:_MAX_HEADINGS]],
    "records": [
      {
        "text": item.text[:_MAX_TEXT],
        "length": len(item.text),
        "place": str(item.place),
        "headings": list(item.headings),
      }
      for item in records[:_MAX_RECORDS]
    ],
  }
  description |= _NO_DATES
  if calendar is not None:
    description |= _describe_dates(work, calendar)
  return description


def _describe_dates(work: Any, calendar: Any) -> dict[str, Any]:
  """Returns by what a work would be dated, and what it prints of dates."""
  from ctd_jax.dating.chronicle import (
    chronicle_dating,
    dating_warnings,
    section_headings,
    unknown_eras,
  )
  from ctd_jax.dating.sequence import section_kinds
  from ctd_jax.index.building import work_dating

  entries = _take_sample(work.entries or work_dating.make_entries(work.records))
  sections = chronicle_dating.read_all_sections(entries, calendar)
  names = collections.Counter(
    values[0]
    for section in sections
    for statement, *values in section.statements
    if statement in ("year", "era") and values[0]
  )
  unknown = collections.Counter(
    era.name
    for entry in entries
    for era in unknown_eras.find_unknown_eras(entry.text, calendar)
  )
  marks = (section_headings.match_stream_mark(entry.text) for entry in entries)
  streams = collections.Counter(mark[1] for mark in marks if mark)
  return {
    "manner": work_dating.choose_manner(work, calendar),
    "num_sampled": len(entries),
    "num_sampled_characters": sum(len(entry.text) for entry in entries),
    "num_sections": len(sections),
    "num_dates": sum(bool(section.statements) for section in sections),
    "num_years": sum(
      section.kind in (section_kinds.YEAR, section_kinds.NAMED)
      for section in sections
    ),
    "num_known": sum(
      bool(record.start or record.end) for record in work.records
    ),
    "reigns": names.most_common(_MAX_NAMES),
    "unknown": unknown.most_common(_MAX_NAMES),
    "streams": streams.most_common(_MAX_NAMES),
    "warnings": [
      *dating_warnings.list_unknown_eras(entries, calendar),
      *dating_warnings.list_missing_dates(sections, entries, calendar),
    ],
  }


def _take_sample(entries: Sequence[Any]) -> list[Any]:
  """Returns the first entries, up to so many characters."""
  sample, num_characters = [], 0
  for entry in entries:
    sample.append(entry)
    num_characters += len(entry.text)
    if num_characters > _SAMPLE:
      break
  return sample


if __name__ == "__main__":
  main()
