"""Corrected records in TEI, each with the date that a reader gave it.

An `ab` is a record, a `seg` its text, with a `date` at its head. The attributes
of the date are those of `tei_output`: `when-custom` is a month as astronomical
year and number, `notBefore-custom` and `notAfter-custom` are the first and last
of several, `-iso` are days of the proleptic Gregorian calendar. `resp` is the
reader; the reader's note follows the record.
"""

import itertools
from collections.abc import Iterator, Sequence

from ctd_jax import __version__
from ctd_jax.dating.chronicle.tei_output import (
  FOOTER,
  NAMESPACE,
  escape_text,
  format_attributes,
  format_custom_date,
)
from ctd_jax.index import calendars, record_answers
from ctd_jax.index.corrections import LocatedCorrection
from ctd_jax.index.index_folder import IndexFolder

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


def format_corrections(
  index: IndexFolder, rows: Sequence[LocatedCorrection]
) -> str:
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
  parts = [header]
  for _, of_work in itertools.groupby(rows, lambda row: row.correction.work):
    located = list(of_work)
    work = located[0].work
    parts.append(
      f"      <div{format_attributes({'n': work.name})}>\n"
      f"        <head>{escape_text(located[0].title)}</head>\n"
    )
    for row in located:
      parts += _format_records(index, row, f"#{keys[row.correction.name]}")
    parts.append("      </div>\n")
  return "".join((*parts, FOOTER))


def _format_records(
  index: IndexFolder, row: LocatedCorrection, person: str
) -> Iterator[str]:
  """Yields the elements of records; spaces in a seg are the text's own."""
  note = ""
  if row.correction.note:
    attributes = {"type": "correction", "resp": person}
    note = (
      f"<note{format_attributes(attributes)}>"
      f"{escape_text(row.correction.note)}</note>"
    )
  date = _format_date(index, row, person)
  for record in row.records:
    yield (
      f"        <ab{format_attributes({'n': record.record_id})}>"
      f"<seg{format_attributes({'n': record.place or None})}>"
      f"{date}{escape_text(record.text)}</seg>{note}</ab>\n"
    )


def _format_date(
  index: IndexFolder, row: LocatedCorrection, person: str
) -> str:
  reigns = row.work.printed_reigns
  ends = [
    calendars.describe_month(index.calendar, row.months[place], reigns)
    for place in (0, -1)
  ]
  first, last = (
    format_custom_date(month["ce_year"], month["month"], month["leap"])
    for month in ends
  )
  if first == last:
    months = {"when-custom": first}
  else:
    months = {"notBefore-custom": first, "notAfter-custom": last}
  spans = record_answers.find_spans(index, row.months, reigns)
  attributes = {
    "notBefore-iso": ends[0]["first_day"],
    "notAfter-iso": ends[1]["last_day"],
    "n": "; ".join(span.name for span in spans),
    **months,
    "datingMethod": f"#{_CALENDAR}",
    "cert": "high",
    "evidence": "external",
    "resp": person,
  }
  return f"<date{format_attributes(attributes)}/>"
