"""Records in TEI, each with its date.

An `ab` is a record, a `seg` its text, with a `date` at its head. The attributes
of the date are those of `tei_output`: `when-custom` is a month as astronomical
year and number, `notBefore-custom` and `notAfter-custom` are the first and last
of several, `-iso` are days of the proleptic Gregorian calendar. `resp` is the
reader who gave the date; the reader's note follows the record.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ctd_jax.dating.chronicle import tei_output
from ctd_jax.utils import output


class DatedText(NamedTuple):
  """A record with the attributes of its date."""

  record_id: str
  place: str
  text: str
  date: Mapping[str, str | None]
  title: str = ""  # of its work
  citation: str = ""
  note: str = ""  # of the reader


# Attributes, heading and records of a division.
Division = tuple[Mapping[str, Any], str, Sequence[DatedText]]


def format_records(
  title: str,
  description: str,
  titles: Iterable[str],
  groups: Iterable[Division],
  about: Iterable[tuple[str, Any]] = (),
  readers: Mapping[str, str] | None = None,
) -> str:
  """Returns a TEI document.

  Args:
    titles: those of the works.
    about: what else readers should know, by label.
    readers: name -> id of those who gave dates.
  """
  template = output.open_templates("index").get_template("records.tei.xml")
  return tei_output.replace_forbidden(
    template.render(
      title=title,
      description=description,
      titles=list(titles),
      groups=list(groups),
      about=list(about),
      readers=readers or {},
    )
  )


def describe_date(
  name: str, first: Mapping[str, Any], last: Mapping[str, Any]
) -> dict[str, str | None]:
  """Returns the attributes of a date.

  Args:
    name: of its months.
    first: first month, from `calendars.describe_month`.
    last: last month.
  """
  attributes = {
    "n": name,
    "notBefore-iso": first["first_day"],
    "notAfter-iso": last["last_day"],
  }
  if first["ce_year"] is None:  # outside the calendar
    return attributes
  start, end = (
    tei_output.format_custom_date(it["ce_year"], it["month"], it["leap"])
    for it in (first, last)
  )
  custom = {"notBefore-custom": start, "notAfter-custom": end}
  return (
    attributes
    | ({"when-custom": start} if start == end else custom)
    | {"datingMethod": "#regnal"}
  )
