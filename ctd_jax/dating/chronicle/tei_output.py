"""TEI of a dated chronicle: the text with a `date` at the head of every
section.

An `ab` is a record, a `seg` a section. The attributes of `date`: `when-iso`,
or `notBefore-iso` and `notAfter-iso` (Gregorian days with 90 %); `n`, the
month as a text names it; `when-custom`, the same as 0311-06 or 0311-06L;
`cert` by probability; `evidence` and `resp`, internal or given by hand.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from xml.sax import saxutils

from ctd_jax import __version__
from ctd_jax.dating.chronicle.chronicle_dates import CERTAIN, DOUBTFUL
from ctd_jax.dating.chronicle.date_tables import format_month
from ctd_jax.dating.chronicle.dated_sections import DatedSection

NAMESPACE = "http://www.tei-c.org/ns/1.0"
# Characters that XML cannot hold are replaced by U+FFFD.
_FORBIDDEN = re.compile(
  "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
_DECODER, _EDITOR, _CALENDAR = "ctd_jax", "editor", "regnal"
_HEADER = """\
<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="{namespace}">
  <teiHeader>
    <fileDesc>
      <titleStmt>
        <title>{title}</title>
        <respStmt>
          <resp>dates by what the text prints and by its order</resp>
          <name xml:id="{decoder}">ctd_jax {version}</name>
        </respStmt>
        <respStmt>
          <resp>dates given by hand</resp>
          <name xml:id="{editor}">user of ctd_jax</name>
        </respStmt>
      </titleStmt>
      <publicationStmt>
        <p>Unpublished: {num_sections} dated sections.</p>
      </publicationStmt>
      <sourceDesc>
        <p>{sources}</p>
      </sourceDesc>
    </fileDesc>
    <encodingDesc>
      <p>An ab is a record of the source, a seg a section under one date. Dates
        are days of the proleptic Gregorian calendar; not-before and not-after
        hold the date with a probability of 0.9. cert is high where the most
        probable month has a probability of {certain} or more, low below
        {doubtful}, else medium.</p>
    </encodingDesc>
    <profileDesc>
      <calendarDesc>
        <calendar xml:id="{calendar}">
          <p>Reign, regnal year and month of the lunisolar calendars of East
            Asia. In when-custom the year is astronomical, 0000 for 1 BCE, and
            the month a number from 01, with L for a leap month.</p>
        </calendar>
      </calendarDesc>
    </profileDesc>
  </teiHeader>
  <text>
    <body>
"""
FOOTER = """\
    </body>
  </text>
</TEI>
"""


def format_dates_tei(rows: Sequence[DatedSection], title: str = "") -> str:
  """Returns a TEI document of the sections, in order.

  The title is by default the names of the chronicle's files.
  """
  sources = ", ".join(dict.fromkeys(row.place.file for row in rows))
  header = _HEADER.format(
    namespace=NAMESPACE,
    title=escape_text(title or sources),
    sources=escape_text(sources),
    num_sections=len(rows),
    version=__version__,
    decoder=_DECODER,
    editor=_EDITOR,
    calendar=_CALENDAR,
    certain=CERTAIN,
    doubtful=DOUBTFUL,
  )
  records = itertools.groupby(rows, lambda row: row.place.record)
  body = (_format_record(record, sections) for record, sections in records)
  return "".join((header, *body, FOOTER))


def _format_record(record: int, rows: Iterable[DatedSection]) -> str:
  """Returns the element of a record; spaces in it are the text's own."""
  sections = "".join(map(_format_section, rows))
  return f'      <ab n="{record}">{sections}</ab>\n'


def _format_section(row: DatedSection) -> str:
  attributes = {
    "xml:id": f"r{row.place.record}.{row.place.start}",
    "n": f"{row.place.file}:{row.place.line}",
    **({"type": "heading"} if row.is_heading else {}),
  }
  head, printed, rest = "", "", row.text
  if row.printed:
    head, printed, rest = row.text.partition(row.printed)
  return (
    f"<seg{format_attributes(attributes)}>{escape_text(head)}"
    f"{_format_date(row, printed)}{escape_text(rest)}</seg>"
  )


def _format_date(row: DatedSection, printed: str) -> str:
  """Returns the element of a date; "" if nothing is known about it."""
  month, dates = row.months.month, row.dates
  if month is None:
    return f"<date>{escape_text(printed)}</date>" if printed else ""
  if dates.not_before == dates.not_after:
    days = {"when-iso": dates.not_before}
  else:
    days = {"notBefore-iso": dates.not_before, "notAfter-iso": dates.not_after}
  attributes = {
    **days,
    "n": format_month(month),
    "when-custom": format_custom_date(
      month.common_era_year, month.month, month.is_leap
    ),
    "datingMethod": f"#{_CALENDAR}",
    **({"calendar": f"#{_CALENDAR}"} if printed else {}),
    "cert": grade(row.months.probability),
    "evidence": "external" if row.is_fixed else "internal",
    "resp": f"#{_EDITOR if row.is_fixed else _DECODER}",
  }
  return (
    f"<date{format_attributes(attributes)}>"
    f'<certainty locus="value" degree="{row.months.probability:.4f}"/>'
    f"{escape_text(printed)}</date>"
  )


def format_custom_date(year: int, month: int, is_leap: bool) -> str:
  """Returns a month as `when-custom` has it, 0311-06."""
  return f"{'-' * (year < 0)}{abs(year):04d}-{month:02d}{'L' * is_leap}"


def grade(probability: float) -> str:
  """Returns how sure a date is, as TEI names it."""
  if probability >= CERTAIN:
    return "high"
  return "low" if probability < DOUBTFUL else "medium"


def format_attributes(attributes: dict[str, str | None]) -> str:
  """Returns the attributes of an element, without those that are None."""
  return "".join(
    f" {name}={saxutils.quoteattr(replace_forbidden(value))}"
    for name, value in attributes.items()
    if value is not None
  )


def escape_text(text: str) -> str:
  """Returns a text as the content of an element."""
  return saxutils.escape(replace_forbidden(text))


def replace_forbidden(text: str) -> str:
  """Returns a text without characters that XML forbids."""
  return _FORBIDDEN.sub("\ufffd", text)
