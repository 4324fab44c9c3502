"""Corrected records in TEI, each with the date that a reader gave it.

An `ab` is a record, a `seg` its text, with a `date` at its head. The attributes
of the date are those of `tei_output`: `when-custom` is a month as astronomical
year and number, `notBefore-custom` and `notAfter-custom` are the first and last
of several, `-iso` are days of the proleptic Gregorian calendar. `resp` is the
reader, whose note stands beside the record.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from ctd_jax import __version__
from ctd_jax.dating.chronicle.tei_output import (
  FOOTER,
  NAMESPACE,
  escape_text,
  format_attributes,
  format_custom_date,
)
from ctd_jax.index.corrections import Correction
from ctd_jax.index.database import IndexRecord

_CALENDAR, _NOBODY = "regnal", "a reader"
_HEADER = """\
<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="{namespace}">
  <teiHeader>
    <fileDesc>
      <titleStmt>
        <title>Corrected dates of {titles}</title>
{readers}      </titleStmt>
      <publicationStmt>
        <p>Unpublished: {number} corrections, written by ctd_jax {version}.</p>
      </publicationStmt>
      <sourceDesc>
        <p>{titles}</p>
      </sourceDesc>
    </fileDesc>
    <profileDesc>
      <calendarDesc>
        <calendar xml:id="{calendar}">
          <p>Reign, regnal year and month of the calendar of the index. In
            -custom attributes the year is astronomical, 0000 for 1 BCE, and the
            month a number from 01, with L for a leap month.</p>
        </calendar>
      </calendarDesc>
    </profileDesc>
  </teiHeader>
  <text>
    <body>
"""
_READER = """\
        <respStmt>
          <resp>dates given by hand</resp>
          <name xml:id="{key}">{name}</name>
        </respStmt>
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatedRecords:
  """The records of a correction that holds, with their months."""

  correction: Correction
  title: str  # of the work
  records: Sequence[IndexRecord]
  months: str  # by name
  first: dict[str, Any]  # as from `calendars.describe_month`
  last: dict[str, Any]


def format_corrections(rows: Sequence[DatedRecords]) -> str:
  """Returns a TEI document of corrected records, a division per work."""
  names = dict.fromkeys(row.correction.name for row in rows)
  keys = {name: f"reader-{number}" for number, name in enumerate(names, 1)}
  readers = "".join(
    _READER.format(key=key, name=escape_text(name or _NOBODY))
    for name, key in keys.items()
  )
  titles = ", ".join(dict.fromkeys(row.title for row in rows)) or "no work"
  header = _HEADER.format(
    namespace=NAMESPACE,
    titles=escape_text(titles),
    readers=readers,
    number=len(rows),
    version=__version__,
    calendar=_CALENDAR,
  )
  rows = sorted(rows, key=lambda row: row.records[0].row)
  works = itertools.groupby(rows, lambda row: row.correction.work)
  body = (_format_work(name, list(of_work), keys) for name, of_work in works)
  return "".join((header, *body, FOOTER))


def _format_work(
  name: str, rows: Sequence[DatedRecords], keys: dict[str, str]
) -> str:
  records = "".join(
    _format_record(record, row, keys) for row in rows for record in row.records
  )
  return (
    f"      <div{format_attributes({'n': name})}>\n"
    f"        <head>{escape_text(rows[0].title)}</head>\n"
    f"{records}      </div>\n"
  )


def _format_record(
  record: IndexRecord, row: DatedRecords, keys: dict[str, str]
) -> str:
  """Returns a record's element; spaces in its seg are the text's own."""
  correction = row.correction
  person = f"#{keys[correction.name]}"
  note = ""
  if correction.note:
    attributes = {"type": "correction", "resp": person}
    note = (
      f"<note{format_attributes(attributes)}>"
      f"{escape_text(correction.note)}</note>"
    )
  return (
    f"        <ab{format_attributes({'n': record.record_id})}>"
    f"<seg{format_attributes({'n': record.place or None})}>"
    f"{_format_date(row, person)}{escape_text(record.text)}</seg>{note}</ab>\n"
  )


def _format_date(row: DatedRecords, person: str) -> str:
  first, last = (
    format_custom_date(month["ce_year"], month["month"], month["leap"])
    for month in (row.first, row.last)
  )
  if first == last:
    months = {"when-custom": first}
  else:
    months = {"notBefore-custom": first, "notAfter-custom": last}
  attributes = {
    "notBefore-iso": row.first["first_day"],
    "notAfter-iso": row.last["last_day"],
    "n": row.months,
    **months,
    "datingMethod": f"#{_CALENDAR}",
    "cert": "high",
    "evidence": "external",
    "resp": person,
  }
  return f"<date{format_attributes(attributes)}/>"
