"""Answers as files: table rows (CSV, TSV) and one self-contained page (HTML).

A passage has one row per parallel, an ambiguous question one per reading. The
page needs no script, file or host. It names the question, the time and the
hash of the index, so that others can check that they ask the same.
"""

import functools
import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import markupsafe
import numpy as np

from ctd_jax.chronology import reigns
from ctd_jax.index import answers
from ctd_jax.index.answers import Answer, RecordDate
from ctd_jax.utils import output

CSV, TSV = FORMATS = ("csv", "tsv")
_DELIMITERS = {CSV: ",", TSV: "\t"}
# Header of an answer without rows.
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
# A spreadsheet would compute cells that begin with these.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
WIDTH, HEIGHT = 640, 150
_LEFT, _BOTTOM, _TOP = 42, 22, 8
_MAX_BARS = 300
_SHARE = 0.999  # of the probability that is drawn


def format_table(answer: Answer, table_format: str) -> str:
  """Returns an answer as CSV or TSV with a header."""
  rows = list(_list_rows(answer))
  columns = list(rows[0]) if rows else _RECORD_COLUMNS
  return format_rows(rows, columns, table_format)


def format_rows(
  rows: Iterable[dict[str, Any]], columns: Sequence[str], table_format: str
) -> str:
  """Returns rows as CSV or TSV with a header."""
  cells = (
    [_format_cell(row.get(name), table_format) for name in columns]
    for row in rows
  )
  return output.format_delimited(
    columns, cells, _DELIMITERS[table_format], quoted=table_format == CSV
  )


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
  """Returns the value of a cell that `format_rows` wrote."""
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


def draw_posterior(curve: Sequence[tuple[int, float]]) -> str:
  """Returns an SVG of the years that hold nearly all of the probability.

  Args:
    curve: (astronomical year, probability), ascending.
  """
  years, chances = _find_drawn(curve)
  step = -(-len(years) // _MAX_BARS)
  starts = np.arange(0, len(years), step)
  heights = np.add.reduceat(chances, starts)
  top = float(heights.max())
  width = (WIDTH - _LEFT) / len(starts)
  floor = HEIGHT - _BOTTOM
  parts = []
  for number, (start, chance) in enumerate(zip(starts, heights, strict=True)):
    height = (floor - _TOP) * float(chance) / top if top else 0.0
    title = html.escape(
      f"{_name_years(years, start, step)}: {float(chance):.3f}"
    )
    parts.append(
      f'<rect x="{_LEFT + number * width:.1f}" y="{floor - height:.1f}" '
      f'width="{max(width * 0.85, 0.8):.1f}" height="{height:.1f}">'
      f"<title>{title}</title></rect>"
    )
  label = html.escape(
    f"Probability of years from {_format_year(years[0])} to "
    f"{_format_year(years[-1])}"
  )
  return (
    f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
    f'<g class="bars">{"".join(parts)}</g>'
    f'<line x1="{_LEFT}" x2="{WIDTH}" y1="{floor}" y2="{floor}"/>'
    f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{top:.2g}</text>'
    f'<text x="{_LEFT - 4}" y="{floor}" text-anchor="end">0</text>'
    f"{_label_years(years, starts, width)}</svg>"
  )


def _find_drawn(
  curve: Sequence[tuple[int, float]],
) -> tuple[np.ndarray, np.ndarray]:
  years = np.array([year for year, _ in curve])
  chances = np.array([chance for _, chance in curve])
  total = chances.sum()
  if total <= 0:
    return years, chances
  sums = np.cumsum(chances) / total
  first = int(np.searchsorted(sums, (1 - _SHARE) / 2))
  last = int(np.searchsorted(sums, (1 + _SHARE) / 2))
  # A single year is shown among its neighbours.
  first, last = max(first - 3, 0), min(last + 3, len(years) - 1)
  return years[first : last + 1], chances[first : last + 1]


def _label_years(years: np.ndarray, starts: np.ndarray, width: float) -> str:
  num_labels = min(6, len(starts))
  bars = np.unique(np.linspace(0, len(starts) - 1, num_labels).round())
  labels = []
  for bar in bars.astype(int).tolist():
    anchor = "start" if bar == 0 else "middle"
    anchor = "end" if bar == len(starts) - 1 and bar else anchor
    x = _LEFT + (bar + {"start": 0, "middle": 0.5, "end": 1}[anchor]) * width
    labels.append(
      f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">'
      f"{_format_year(years[starts[bar]])}</text>"
    )
  return "".join(labels)


def _name_years(years: np.ndarray, start: int, step: int) -> str:
  last = min(start + step, len(years)) - 1
  names = dict.fromkeys((_format_year(years[start]), _format_year(years[last])))
  return " – ".join(names)


def _format_year(year: int | np.integer) -> str:
  return reigns.format_common_era_year(int(year))


def format_page(answer: Answer) -> str:
  """Returns an answer as an HTML page."""
  figure = ""
  if answer.dates is not None:
    figure = draw_posterior(answer.dates.curve)
  template = output.open_templates("index").get_template("answer_page.html")
  return template.render(
    answer=answer,
    figure=markupsafe.Markup(figure),  # its texts are escaped
    chance=answers.format_chance,
    clean=answers.clean,
    name_evidence=answers.name_evidence,
    list_weighty=answers.list_weighty,
    name_weightless=answers.name_weightless,
    spans=functools.partial(answers.format_spans, max_spans=8),
    split_marks=split_marks,
  )


def split_marks(
  text: str, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[str, bool]]:
  """Yields the parts of a text and whether each is marked."""
  position = 0
  for start, end in spans:
    if start > position:
      yield text[position:start], False
    yield text[start:end], True
    position = end
  if position < len(text):
    yield text[position:], False
