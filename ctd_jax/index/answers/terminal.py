"""Answer as a table for the terminal, as wide as that is.

Han characters are two columns wide, which `rich` knows. Colours are left out
where the output is no terminal or NO_COLOR is set. What a corpus holds is
printed as it is, but for control characters: they could move the cursor.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich import box, console, padding, table
from rich.text import Text

from ctd_jax.index import calendars
from ctd_jax.index.answers.answer import (
  Answer,
  AnswerRecord,
  PassageDate,
  RecordDate,
)
from ctd_jax.index.answers.answer_phrases import (
  MAX_SPANS,
  clean,
  format_chance,
  format_reasons,
  format_spans,
)

DEFAULT_WIDTH = 80
_MAX_TEXT = 160  # characters of a record
_SURE = 0.9  # of a month that is named alone
_VAGUE = 0.1  # of one that is named after the months that hold 90 %
_DATE_SHARE = 31  # percent of the width, within these columns
_MIN_DATE, _MAX_DATE = 18, 40


def format_answer(
  answer: Answer, width: int = DEFAULT_WIDTH, why: bool = False
) -> str:
  """Returns an answer as plain text.

  Args:
    answer: of an index.
    width: in columns.
    why: whether all reasons are given, not only the weightiest.
  """
  text = io.StringIO()
  _print(
    answer,
    console.Console(file=text, width=width, color_system=None, emoji=False),
    why,
  )
  return text.getvalue().rstrip("\n")


def print_answer(
  answer: Answer, why: bool = False, file: TextIO | None = None
) -> None:
  """Prints an answer, in colours if the output is a terminal.

  Args:
    answer: of an index.
    why: whether all reasons are given, not only the weightiest.
    file: to print to; the standard output by default.
  """
  file = file or sys.stdout
  width = None if file.isatty() else DEFAULT_WIDTH
  _print(
    answer,
    console.Console(file=file, width=width, emoji=False, highlight=False),
    why,
  )


def _print(answer: Answer, out: console.Console, why: bool) -> None:
  for line in _describe_question(answer):
    out.print(line)
  if answer.understood.readings:
    out.print(_make_readings(answer))
  if answer.dates is not None:
    _print_dates(answer.dates, out, why)
  if answer.results:
    out.print(_make_results(answer, out.width, why))
  for line in _describe_outcome(answer):
    out.print(line)


def _describe_question(answer: Answer) -> Iterable[Text]:
  """Yields what the question was taken for."""
  understood = answer.understood
  if not understood.readings:
    for span, years in zip(
      understood.intervals[:MAX_SPANS], understood.common_era, strict=False
    ):
      yield Text.assemble(("time  ", "dim"), (span.name, "bold"), f"  {years}")
    if len(understood.intervals) > MAX_SPANS:
      yield Text(f"      and {len(understood.intervals) - MAX_SPANS} more")
  if understood.day:
    yield Text.assemble(("day   ", "dim"), (understood.day, "bold"))
  words = [clean(word) for word in understood.words if word != understood.day]
  if words:
    yield Text.assemble(("words ", "dim"), ("、".join(words), "bold"))


def _make_readings(answer: Answer) -> table.Table:
  grid = _make_table()
  grid.add_column("it may mean", overflow="fold")
  grid.add_column("years")
  grid.add_column("records", justify="right")
  for reading in answer.understood.readings:
    grid.add_row(
      Text(reading.name), reading.common_era, f"{reading.num_records:,}"
    )
  return grid


def _make_results(answer: Answer, width: int, why: bool) -> table.Table:
  grid = _make_table()
  grid.expand = True
  grid.add_column("", justify="right", style="dim")
  _add_date_column(grid, width)
  grid.add_column("p", justify="right", no_wrap=True)
  grid.add_column("record", ratio=1, overflow="fold")
  for record in answer.results:
    chance = record.probability_asked
    grid.add_row(
      str(record.rank),
      _describe_date(record.date),
      format_chance(record.date.probability if chance is None else chance),
      _describe_record(record, why),
    )
  return grid


def _make_table() -> table.Table:
  return table.Table(
    box=box.SIMPLE_HEAD,
    show_edge=False,
    pad_edge=False,
    padding=(0, 1, 0, 0),
    header_style="dim",
  )


def _add_date_column(grid: table.Table, width: int) -> None:
  """Adds a column of dates that leaves most of the width to the texts."""
  size = min(max(width * _DATE_SHARE // 100, _MIN_DATE), _MAX_DATE)
  grid.add_column("date", width=size, overflow="fold")


def _describe_date(date: RecordDate) -> Text:
  """Returns the most probable month, and the credible ones if several are.

  Of a month that is hardly likelier than others these come first.
  """
  name, chance = date.month["name"], format_chance(date.probability)
  if date.probability < _VAGUE:
    text = Text(format_spans(date.credible_90))
    text.append(f"\nlikeliest {name}, {chance}", "dim")
    return text
  text = Text(name)
  if date.common_era:
    text.append(f"\n{date.common_era}", "dim")
  if date.probability < _SURE:
    text.append(f"\n{chance}; 90 %: {format_spans(date.credible_90)}", "dim")
  return text


def _describe_record(record: AnswerRecord, why: bool) -> Text:
  text = _mark(record.text, record.highlights)
  place = f" · {record.place}" if record.place else ""
  kind = "" if record.kind in ("event", "text") else f" · {record.kind}"
  text.append(
    "\n" + clean(f"{record.title} · {record.record_id}{place}{kind}"), "dim"
  )
  if why and "words" in record.score_parts:
    text.append("\n" + format_score(record), "dim italic")
  for line in format_reasons(record.reasons, None if why else 1):
    text.append("\n" + line, "dim italic")
  return text


def format_score(record: AnswerRecord) -> str:
  """Returns what a record is ranked by, and the parts of it."""
  names = ["words", "dense", "cosine"]
  if record.probability_asked is not None:
    names = ["time", "kind", *names]  # without a time neither counts
  parts = ", ".join(
    f"{name} {round(record.score_parts[name], 2) + 0.0:.2f}"  # no -0.00
    for name in names
    if name in record.score_parts
  )
  return f"score {record.score:.2f}: {parts}"


def _mark(text: str, spans: Sequence[tuple[int, int]]) -> Text:
  """Returns the text of a record, or what stands around its first mark."""
  start = max(spans[0][0] - _MAX_TEXT // 3, 0) if spans else 0
  start = 0 if len(text) <= _MAX_TEXT else min(start, len(text) - _MAX_TEXT)
  stop = start + _MAX_TEXT
  marked = Text("…" if start else "")
  position = start
  for first, last in spans:
    if position <= first and last <= stop:
      marked.append(clean(text[position:first]))
      marked.append(clean(text[first:last]), "bold yellow")
      position = last
  marked.append(clean(text[position:stop]))
  if stop < len(text):
    marked.append("…")
  return marked


def _print_dates(dates: PassageDate, out: console.Console, why: bool) -> None:
  grid = _make_table()
  grid.add_column("year")
  grid.add_column("", style="dim")
  grid.add_column("p", justify="right")
  grid.add_column("month")
  grid.add_column("p", justify="right")
  for row in range(min(max(len(dates.years), len(dates.months)), 6)):
    year = dates.years[row] if row < len(dates.years) else None
    month = dates.months[row] if row < len(dates.months) else None
    grid.add_row(
      year.name if year else "",
      year.common_era if year else "",
      format_chance(year.probability) if year else "",
      month.name if month else "",
      format_chance(month.probability) if month else "",
    )
  out.print(grid)
  for share, spans in ((50, dates.credible_50), (90, dates.credible_90)):
    out.print(Text.assemble((f"{share} %  ", "dim"), Text(format_spans(spans))))
  if dates.outside >= 0.01:
    out.print(
      Text.assemble(
        (f"{format_chance(dates.outside):>4}  ", "dim"), calendars.OUTSIDE
      )
    )
  out.print(
    Text.assemble(
      ("\nwhy ", "dim"),
      dates.month["name"],
      (
        f"  log odds {dates.log_odds:+.1f}, {dates.prior_log_odds:+.1f} "
        "before reading",
        "dim",
      ),
    )
  )
  for line in format_reasons(dates.reasons, None if why else 6):
    out.print(padding.Padding(Text(line), (0, 0, 0, 2)))
  if dates.parallels:
    out.print(_make_parallels(dates, out.width, why))


def _make_parallels(dates: PassageDate, width: int, why: bool) -> table.Table:
  grid = _make_table()
  grid.expand = True
  grid.add_column("share", justify="right", no_wrap=True)
  _add_date_column(grid, width)
  grid.add_column("parallel", ratio=1, overflow="fold")
  expert = None
  for parallel in dates.parallels[: None if why else 5]:
    text = _mark(parallel.text, ())
    text.append("\n" + clean(f"{parallel.work} · {parallel.record_id}"), "dim")
    grid.add_row(
      # The share is that of all records of this evidence together.
      f"{100 * parallel.share:.0f} %" if parallel.expert != expert else "″",
      _describe_date(parallel.date),
      text,
    )
    expert = parallel.expert
  return grid


def _describe_outcome(answer: Answer) -> Iterable[Text]:
  """Yields how much was found, and what a reader should know of it."""
  counts, understood = answer.counts, answer.understood
  if understood.readings and not answer.results:
    yield Text("ask again with one of these names", "dim")
  elif answer.dates is None:
    scope = f"of {counts['records']:,} records"
    in_time = counts.get("in_time")
    if not answer.results:
      yield Text(f"nothing found, {scope}")
    elif in_time is not None:
      yield Text(
        f"{len(answer.results)} shown; {in_time:,} {scope} are of this time "
        "with probability .5 or more",
        "dim",
      )
    else:
      yield Text(f"{len(answer.results)} shown, {scope}", "dim")
  for note in answer.notes:
    yield Text(clean(note), "dim")
