"""Answers as files: tables, JSON, TEI, references, and a page.

`WRITERS` has a writer for each suffix. A passage has one row per parallel, an
ambiguous question one per reading. The page needs no script, file or host. It
names the question, the time and the hash of the index, so that others can
check that they ask the same.
"""

import collections
import dataclasses
import functools
import html
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ctd_jax.dating.chronicle import tei_output
from ctd_jax.index import answers, charts, records_tei
from ctd_jax.index.answers import Answer, AnswerRecord, RecordDate
from ctd_jax.index.records_tei import DatedText
from ctd_jax.utils import notes, output

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
  "common_era",
  "astronomical_year",
  "first_day",
  "last_day",
  "probability",
  "credible_from",
  "credible_to",
  "dated_by",
  "probability_asked",
  "score",
  "text",
  "title",
  "edition",
  "event",
  "citation",
)
# A spreadsheet would compute cells that begin with these.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
MAX_RECORDS = 10_000  # in a file, unless you ask for more
_MAX_CELL = 32_767  # characters of a spreadsheet's cell
_WIDTHS = {"text": 80, "citation": 60, "month": 22, "work": 22, "place": 22}
_MAX_TITLES = 2  # that a file's name has
_MAX_NAME = 60  # characters of it; Han characters take three bytes
_MAX_REFERENCE = 40  # characters of the title of a reference
_FRAME_HEIGHT = 480  # pixels, in a notebook


@dataclasses.dataclass(frozen=True)
class Writer:
  """A format of answers."""

  media_type: str
  # Records are those of the answer, or the parallels of a passage.
  write: Callable[[Answer, Sequence[AnswerRecord]], str | bytes]


def write_answer(
  answer: Answer,
  suffix: str,
  records: Sequence[AnswerRecord] | None = None,
  language: str = notes.ENGLISH,
) -> bytes:
  """Returns an answer as the content of a file.

  Args:
    suffix: one of `WRITERS`.
    records: parallels of a passage as records.
    language: of citations.

  Raises:
    ValueError: if the format needs an extra that is not installed.
  """
  answer = answers.write_citations(answer, language)
  records = (
    answer.results if records is None else answers.cite_all(records, language)
  )
  content = WRITERS[suffix].write(answer, records)
  return content if isinstance(content, bytes) else content.encode()


def find_suffix(name: str) -> str:
  """Returns the suffix in `WRITERS` that a file's name ends with.

  Raises:
    ValueError: if it has none of them.
  """
  for suffix in sorted(WRITERS, key=len, reverse=True):
    if name.lower().endswith(suffix):
      return suffix
  raise ValueError(
    f"{name}: expected a name that ends with {', '.join(WRITERS)}"
  )


def name_file(answer: Answer, suffix: str) -> str:
  """Returns a file name that says what an answer holds."""
  understood = answer.understood
  titles = [*dict.fromkeys(record.title for record in answer.results)]
  # The meanings of an ambiguous date are many, and no stretch of time.
  spans = () if understood.readings else understood.intervals
  ends = (
    [spans[0].name.split(" – ")[0], spans[-1].name.split(" – ")[-1]]
    if spans
    else []
  )
  words = [word for word in understood.words if word != understood.day]
  day = [understood.day] if understood.day else []
  asked = [*dict.fromkeys(ends), *day, *words] or [answer.question]
  parts = (titles if len(titles) <= _MAX_TITLES else []) + asked
  name = re.sub(r"[^\w.-]+", "_", answers.clean("_".join(parts))).strip("._")
  return f"{name[:_MAX_NAME].strip('._') or 'answer'}{suffix}"


def _format_lines(answer: Answer, records: Sequence[AnswerRecord]) -> str:
  values: list[Any] = [answers.to_json(record) for record in records]
  if not values and answer.understood.readings:
    values = list(_list_rows(answer))
  return "".join(json.dumps(it, ensure_ascii=False) + "\n" for it in values)


def _format_workbook(answer: Answer, _: Sequence[AnswerRecord]) -> bytes:
  """Returns a workbook: a row for each record, and a sheet about the answer."""
  try:
    import openpyxl  # of an extra, and slow
    from openpyxl.cell.cell import Cell
  except ModuleNotFoundError as error:
    raise ValueError(
      "a spreadsheet needs openpyxl: pip install 'ctd_jax[xlsx]'"
    ) from error
  book = openpyxl.Workbook()
  sheet = book.active
  sheet.title = "records"
  num_cut = 0  # characters

  def append(sheet: Any, values: Iterable[Any]) -> None:
    cells = []
    for value in values:
      is_text = isinstance(value, str)
      text = notes.show_controls(value)[:_MAX_CELL] if is_text else value
      nonlocal num_cut
      num_cut += len(value) - len(text) if is_text else 0
      cell = Cell(sheet, value=text)
      if is_text:
        cell.data_type = "s"  # also if it begins as a formula does
        cell.quotePrefix = text.startswith(_FORMULA_STARTS)
      cells.append(cell)
    sheet.append(cells)

  rows = list(_list_rows(answer))
  columns = list(rows[0]) if rows else _RECORD_COLUMNS
  append(sheet, columns)
  for row in rows:
    append(sheet, row.values())
  sheet.freeze_panes = "B2"
  sheet.auto_filter.ref = sheet.dimensions
  for number, name in enumerate(columns, start=1):
    letter = openpyxl.utils.get_column_letter(number)
    sheet.column_dimensions[letter].width = _WIDTHS.get(name, 14)
  about = book.create_sheet("about")
  for pair in _describe_answer(answer):
    append(about, pair)
  if num_cut:
    append(about, ("characters left out of long cells", num_cut))
  content = io.BytesIO()
  book.save(content)
  return content.getvalue()


def _describe_answer(answer: Answer) -> Iterator[tuple[str, Any]]:
  """Yields what a reader of a file should know of its answer."""
  yield "question", answer.question
  yield from answer.counts.items()
  for note in answer.notes:
    yield "note", str(note)
  yield "asked at", answer.asked_at
  yield "software", f"ctd_jax {answer.versions.ctd_jax}"
  yield "index sha256", answer.versions.index_sha256


def _format_tei(answer: Answer, records: Sequence[AnswerRecord]) -> str:
  return records_tei.format_records(
    name_file(answer, "").replace("_", " "),
    "the records of an answer",
    dict.fromkeys(record.title for record in records),
    [
      (
        {"type": "event", "n": event} if event is not None else {},
        "",
        [_describe_record(record) for record in group],
      )
      for event, group in itertools.groupby(records, lambda it: it.event)
    ],
    _describe_answer(answer),
  )


def _describe_record(record: AnswerRecord) -> DatedText:
  month = record.date.month
  grade = {"cert": tei_output.grade(record.date.probability)}
  return DatedText(
    record.record_id,
    record.place,
    record.text,
    records_tei.describe_date(month["name"], month, month) | grade,
    record.title,
    record.citation,
  )


# Field of CSL-JSON, of BibTeX, and of RIS.
_FIELDS = (
  ("title", "title", "TI"),
  ("container-title", "booktitle", "T2"),
  ("edition", "edition", "ET"),
  ("section", "chapter", "SE"),
  ("page", "pages", "SP"),
  ("abstract", "abstract", "AB"),
  ("note", "note", "N1"),
  ("language", "language", "LA"),
)
_BIBTEX_ESCAPES = str.maketrans(
  {character: f"\\{character}" for character in "&%$#_{}"}
  | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
  }
)


def _list_references(records: Sequence[AnswerRecord]) -> list[dict[str, str]]:
  """Returns records as CSL-JSON; the time of an event is no date of print."""
  references, keys = [], collections.Counter()
  for record in records:
    key = re.sub(r"[^A-Za-z0-9]+", "-", f"{record.work}-{record.record_id}")
    key = key.strip("-") or "record"
    keys[key] += 1
    text = answers.clean(record.text)
    title = text[:_MAX_REFERENCE] + "…" * (len(text) > _MAX_REFERENCE)
    reference = {
      "id": key if keys[key] == 1 else f"{key}-{keys[key]}",
      "type": "chapter",
      "title": title,
      "container-title": record.title,
      "edition": record.edition,
      "section": ", ".join(record.headings),
      "page": record.place or record.record_id,
      "abstract": text,
      "note": str(record.citation),
      "language": "lzh",
    }
    references.append(
      {name: answers.clean(value) for name, value in reference.items() if value}
    )
  return references


def _format_csl(_: Answer, records: Sequence[AnswerRecord]) -> str:
  references = _list_references(records)
  return json.dumps(references, ensure_ascii=False, indent=2) + "\n"


def _format_bibtex(_: Answer, records: Sequence[AnswerRecord]) -> str:
  entries = []
  for it in _list_references(records):
    fields = "".join(
      f"  {field} = {{{it[name].translate(_BIBTEX_ESCAPES)}}},\n"
      for name, field, _ in _FIELDS
      if name in it
    )
    entries.append(f"@inbook{{{it['id']},\n{fields}}}\n")
  return "\n".join(entries)


def _format_ris(_: Answer, records: Sequence[AnswerRecord]) -> str:
  entries = []
  for it in _list_references(records):
    lines = [("TY", "CHAP"), ("ID", it["id"])]
    lines += [(tag, it[name]) for name, _, tag in _FIELDS if name in it]
    # A line ends with CR LF, as the format wants.
    entries.append(
      "".join(f"{tag}  - {value}\r\n" for tag, value in (*lines, ("ER", "")))
    )
  return "\r\n".join(entries)


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
      "title": record.title,
      "edition": record.edition,
      "event": record.event,
      "citation": str(record.citation),
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
      "title": parallel.title,
      "edition": parallel.edition,
      "citation": str(parallel.citation),
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
    "common_era": date.common_era,
    "astronomical_year": date.month["ce_year"],
    "first_day": date.month["first_day"],
    "last_day": date.month["last_day"],
    "probability": date.probability,
    "credible_from": spans[0].name.split(" – ")[0] if spans else "",
    "credible_to": spans[-1].name.split(" – ")[-1] if spans else "",
    "dated_by": date.dated_by,
  }


class ShownAnswer(Answer):
  """An answer with forms for notebooks."""

  def to_pandas(self) -> Any:
    """Returns the rows of `format_table` as a DataFrame.

    Raises:
      ModuleNotFoundError: if pandas is not installed.
    """
    try:
      import pandas
    except ModuleNotFoundError as error:
      message = "to_pandas needs pandas: pip install 'ctd_jax[pandas]'"
      raise ModuleNotFoundError(message, name="pandas") from error
    rows = list(_list_rows(self))
    return pandas.DataFrame(rows, columns=None if rows else _RECORD_COLUMNS)

  def _repr_html_(self) -> str:
    """Returns the page of `format_page` in a frame, apart from the notebook."""
    page = html.escape(format_page(self))
    return (
      f'<iframe sandbox srcdoc="{page}" width="100%" height="{_FRAME_HEIGHT}" '
      'style="border:0"></iframe>'
    )


def format_page(answer: Answer) -> str:
  """Returns an answer as an HTML page."""
  figure = ""
  if answer.dates is not None:
    figure = charts.draw_years(
      answer.dates.curve, "Probability of years", answers.format_chance
    )
  template = output.open_templates("index").get_template("answer_page.html")
  return template.render(
    answer=answer,
    figure=figure,
    chance=answers.format_chance,
    clean=answers.clean,
    copies=answers.format_copies,
    headline=answers.format_headline,
    name_evidence=answers.name_evidence,
    name_kind=answers.name_kind,
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


WRITERS = {
  ".csv": Writer(
    "text/csv",
    lambda answer, _: output.BYTE_ORDER_MARK + format_table(answer, CSV),
  ),
  ".tsv": Writer(
    "text/tab-separated-values", lambda answer, _: format_table(answer, TSV)
  ),
  ".xlsx": Writer(
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    _format_workbook,
  ),
  ".jsonl": Writer("application/x-ndjson", _format_lines),
  ".xml": Writer("application/tei+xml", _format_tei),
  ".bib": Writer("application/x-bibtex", _format_bibtex),
  ".ris": Writer("application/x-research-info-systems", _format_ris),
  ".csl.json": Writer("application/vnd.citationstyles.csl+json", _format_csl),
  ".json": Writer(
    "application/json",
    lambda answer, _: (
      json.dumps(answer.to_dict(), ensure_ascii=False, indent=2) + "\n"
    ),
  ),
  ".html": Writer("text/html", lambda answer, _: format_page(answer)),
}
