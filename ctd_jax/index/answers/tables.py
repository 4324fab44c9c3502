"""Answer as rows of a table: one for each record, CSV or TSV.

A passage has a row for each parallel, and an ambiguous question one for each
reading.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ctd_jax.index.answers.answer import Answer, RecordDate

CSV, TSV = FORMATS = ("csv", "tsv")
_DELIMITERS = {CSV: ",", TSV: "\t"}
# Of an answer without a row, whose header is told all the same.
_RECORD_COLUMNS = (
  "rank",
  "row",
  "record_id",
  "work",
  "place",
  "kind",
  "month",
  "common_era_year",
  "first_day",
  "last_day",
  "probability",
  "credible_from",
  "credible_to",
  "dated_by",
  "probability_asked",
  "score",
  "text",
)
# A spreadsheet would compute what begins so.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def format_table(answer: Answer, table_format: str) -> str:
  """Returns an answer as CSV or TSV, with a header.

  Args:
    answer: of an index.
    table_format: one of `FORMATS`. In TSV, tabs and line ends within a text are
      written as spaces.
  """
  rows = list(_list_rows(answer))
  columns = list(rows[0]) if rows else _RECORD_COLUMNS
  return format_rows(rows, columns, table_format)


def format_rows(
  rows: Iterable[dict[str, Any]], columns: Sequence[str], table_format: str
) -> str:
  """Returns rows as CSV or TSV, with a header.

  Args:
    rows: column -> value.
    columns: in order.
    table_format: as of `format_table`.
  """
  text = io.StringIO()
  writer = csv.DictWriter(
    text,
    columns,
    delimiter=_DELIMITERS[table_format],
    lineterminator="\n",
    quoting=csv.QUOTE_NONE if table_format == TSV else csv.QUOTE_MINIMAL,
    quotechar=None if table_format == TSV else '"',
  )
  writer.writeheader()
  for row in rows:
    writer.writerow(
      {name: _format_cell(value, table_format) for name, value in row.items()}
    )
  return text.getvalue()


def _format_cell(value: Any, table_format: str) -> str:
  if value is None:
    return ""
  if isinstance(value, float):
    return f"{value:.6g}"
  text = str(value)
  if isinstance(value, str) and text.startswith(_FORMULA_STARTS):
    text = "'" + text
  return " ".join(text.split()) if table_format == TSV else text


def read_cell(text: str) -> str:
  """Returns what a cell stood for that `format_rows` wrote.

  Args:
    text: of the cell.
  """
  is_marked = text.startswith("'") and text[1:].startswith(_FORMULA_STARTS)
  return text[1:] if is_marked else text


def _list_rows(answer: Answer) -> Iterator[dict[str, Any]]:
  for record in answer.results:
    yield {
      "rank": record.rank,
      "row": record.row,
      "record_id": record.record_id,
      "work": record.work,
      "place": record.place,
      "kind": record.kind,
      **_describe_date(record.date),
      "probability_asked": record.probability_asked,
      "score": record.score,
      "text": record.text,
    }
  if answer.results:
    return
  for rank, parallel in enumerate(
    answer.dates.parallels if answer.dates else (), start=1
  ):
    yield {
      "rank": rank,
      "row": parallel.row,
      "record_id": parallel.record_id,
      "work": parallel.work,
      "place": parallel.place,
      **_describe_date(parallel.date),
      "evidence": parallel.expert,
      "weight": parallel.weight,
      "share": parallel.share,
      "text": parallel.text,
    }
  for reading in answer.understood.readings:
    yield {
      "reading": reading.name,
      "years": reading.common_era,
      "first_month": reading.first,
      "last_month": reading.last,
      "num_records": reading.num_records,
    }


def _describe_date(date: RecordDate) -> dict[str, Any]:
  spans = date.credible_90
  return {
    "month": date.month["name"],
    "common_era_year": date.month["ce_year"],
    "first_day": date.month["first_day"],
    "last_day": date.month["last_day"],
    "probability": date.probability,
    "credible_from": spans[0].name.split(" – ")[0] if spans else "",
    "credible_to": spans[-1].name.split(" – ")[-1] if spans else "",
    "dated_by": date.dated_by,
  }
