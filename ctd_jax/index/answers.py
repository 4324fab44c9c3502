"""The answer of an index: one object, as JSON and as text for a terminal.

All forms of an answer are made from this object. Within one `SCHEMA_VERSION`,
fields are added but never renamed or removed (see answer.schema.json).
"""

import dataclasses
import io
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from rich import box, console, padding, table
from rich.text import Text

from ctd_jax.chronology import reigns
from ctd_jax.index import calendars, date_levels
from ctd_jax.index.date_levels import SureDate
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note

SCHEMA_VERSION = 1
MAX_SPANS = 3
# Kinds of evidence as a reader knows them; the others are called as in data.
_NAMES_OF_EVIDENCE = {
  "openings": "printed date",
  "days": "day",
  "cited": "citations",
  "parallels": "parallels without a date",
  "known": "parallels with a date",
  "copies": "the same words",
  "empty": "empty months",
  "room": "one opening a month",
  "unknown": "unknown words",
  "corpus": "other records",
}
_GIVEN = ("keys", "reader")  # what is given needs no weight
_MIN_WEIGHT = 0.05  # below, a weight is printed as 0
_WHITE_SPACE = re.compile(r"\s+")
_YEAR_AND_MONTH = re.compile(r"(.*年)(.+月)\Z")
DEFAULT_WIDTH = 80
_MAX_TEXT = 160  # characters of a record
_MAX_COPIES = 5  # records with the words of a passage
_DATE_SHARE = 31  # percent of the width, within these columns
_MIN_DATE, _MAX_DATE = 18, 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
  """Consecutive months."""

  first: int  # ordinal of the first month
  last: int  # ordinal of the last month
  name: str  # as a text would call them


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
  """One meaning of an ambiguous question."""

  name: str  # ask the question again by this name
  first: int
  last: int  # ordinal, included
  common_era: str  # years, such as "722 BCE"
  num_records: int  # more probably in these months than not


@dataclasses.dataclass(frozen=True, kw_only=True)
class Understanding:
  """How a question was understood: its time, words and day."""

  intervals: tuple[Span, ...] = ()  # months asked for
  common_era: tuple[str, ...] = ()  # years of each interval
  words: tuple[str, ...] = ()  # phrases to find
  day: str | None = None  # sexagenary day, such as 甲子
  readings: tuple[Reading, ...] = ()  # meanings that the question leaves open


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordDate:
  """Date of a record."""

  sure: SureDate  # what may be said of it
  month: dict[str, Any]  # most probable, from `calendars.describe_month`
  common_era: str  # its year; "" outside the calendar
  probability: float  # of `month`
  outside: float  # probability of no month of the calendar
  credible_50: tuple[Span, ...]  # smallest set that holds 50 %
  credible_90: tuple[Span, ...]  # smallest set that holds 90 %
  known: Span | None  # given by a data set or a reader
  dated_by: str  # keys, order or model
  is_fixed: bool  # whether a reader set the date


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerRecord:
  """A record in an answer."""

  rank: int  # from 1
  row: int  # in the index
  record_id: str  # within its work
  work: str
  title: str
  text: str
  kind: str  # event, no_event, neg_comment, text or heading
  place: str  # where it is printed
  headings: tuple[str, ...]  # outermost first
  date: RecordDate
  score: float  # not comparable between questions
  probability_asked: float | None  # of the months asked for
  # Time (log probability), kind (log chance that texts of its kind answer),
  # words (0..1), dense (0..1) and cosine.
  score_parts: dict[str, float]
  highlights: tuple[tuple[int, int], ...]  # spans of the words in the text
  # For the month of `date`, largest weight first: expert, weight (log odds in
  # nats), note, spans, linked rows, months.
  reasons: tuple[dict[str, Any], ...]
  edition: str = ""  # of the work
  citation: Note | str = ""  # work, place, edition and date, to be copied
  is_near: bool = False  # has only parts of the words
  event: int | None = None  # number of its event, if the answer is grouped


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelyMonth:
  """A month and its probability."""

  ordinal: int
  name: str
  common_era: str
  probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelyYear:
  """A year and its probability."""

  name: str  # reign and regnal year
  ce_year: int  # astronomical, 0 = 1 BCE
  common_era: str
  first: int  # ordinal of its first month
  last: int  # ordinal of its last month
  probability: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parallel:
  """A record with the words of a passage, or one that supports its date."""

  row: int
  record_id: str
  work: str
  title: str
  text: str
  place: str
  date: RecordDate
  expert: str  # kind of evidence that it belongs to, "copies" first
  # Share of the passage's characters that a copy has, else 0; whether it has
  # all of them in a row, or all but the date.
  copied: float
  is_exact: bool
  weight: float  # of that evidence with all its records, nats
  share: float  # of `weight` in the weights of all that speaks for the month
  edition: str = ""  # of the work
  citation: Note | str = ""  # as of a record


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassageDate:
  """Date of a passage, and the reasons for it."""

  sure: SureDate  # the headline
  month: dict[str, Any]  # most probable, from `calendars.describe_month`
  common_era: str
  probability: float  # of `month`
  outside: float  # probability of no month of the calendar
  months: tuple[LikelyMonth, ...]  # most probable first
  years: tuple[LikelyYear, ...]  # most probable first
  credible_50: tuple[Span, ...]  # smallest set that holds 50 %
  credible_90: tuple[Span, ...]  # smallest set that holds 90 %
  prior_log_odds: float  # of `month`, before reading
  log_odds: float  # of `month`; the weights add up to the gain
  reasons: tuple[dict[str, Any], ...]
  parallels: tuple[Parallel, ...]  # copies, then strongest evidence first
  curve: tuple[tuple[int, float], ...]  # every (astronomical year, probability)


def to_json(explained: AnswerRecord | PassageDate) -> dict[str, Any]:
  """Returns a record or date as JSON values, each reason's note as text and
  code.
  """
  values = msgspec.to_builtins(explained)
  for cited in (values, *values.get("parallels", ())):
    if isinstance(cited.get("citation"), dict):
      cited["citation"] = cited["citation"]["text"]
  for reason in values["reasons"]:
    note = reason["note"]
    if isinstance(note, str):  # a kind of evidence that has nothing to say
      note = {"code": "", "values": {}, "text": note}
    reason |= {
      "note": note["text"],
      "code": note["code"],
      "values": note["values"],
    }
  return values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Versions:
  """Versions and hashes of what made an answer."""

  ctd_jax: str
  index_format: int  # of the folder
  generation: int  # how often the index was changed
  index_sha256: str  # of the manifest, which hashes all files
  calendar_sha256: str  # of the months
  encoder: str | None = None  # name and hash; None if no vectors are asked


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
  """Answer of an index to a question."""

  question: str
  intent: str  # one of `question_calendar.INTENTS`
  understood: Understanding
  results: tuple[AnswerRecord, ...]  # in the order of `sort`
  dates: PassageDate | None  # of a passage
  counts: dict[str, int]  # see `matches.Matches`
  notes: tuple[Note, ...]  # what the reader should know
  versions: Versions
  asked_at: str  # ISO 8601
  calendar_name: str
  sort: str = "relevance"  # or time, the order of time and text
  next_offset: int | None = None  # of the records after these; None at the end

  @property
  def is_empty(self) -> bool:
    """Whether there is no record, no date and no choice of readings."""
    return not (self.results or self.dates or self.understood.readings)

  def to_dict(self) -> dict[str, Any]:
    """Returns the answer as JSON values."""
    values = msgspec.to_builtins(self)
    return (
      {"schema_version": SCHEMA_VERSION}
      | values
      | {
        "results": [*map(to_json, self.results)],
        "dates": self.dates and to_json(self.dates),
        "notes": [str(note) for note in self.notes],
        "coded_notes": values["notes"],
      }
    )

  def __str__(self) -> str:
    return format_answer(self)


def write_citations(answer: Answer, language: str) -> Answer:
  """Returns an answer whose citations are texts in a language."""
  dates = answer.dates
  return dataclasses.replace(
    answer,
    results=cite_all(answer.results, language),
    dates=dates
    and dataclasses.replace(
      dates, parallels=cite_all(dates.parallels, language)
    ),
  )


def cite_all(
  cited: Sequence[AnswerRecord] | Sequence[Parallel], language: str
) -> tuple:
  """Returns records whose citations are texts in a language."""
  return tuple(
    dataclasses.replace(
      it,
      citation=reigns.write_years(language, notes.write(it.citation, language)),
    )
    for it in cited
  )


def clean(text: Note | str) -> str:
  """Returns a text on one line, with control characters shown as 「␛」."""
  return notes.show_controls(_WHITE_SPACE.sub(" ", str(text)))


def format_chance(probability: float) -> str:
  """Returns a probability with as many digits as mean something."""
  if probability >= 0.9995:
    return "1"
  if probability < 0.001:
    return "<.001"
  return f"{probability:.3f}"[1:].rstrip("0") or "0"


def format_spans(spans: Sequence[Span], max_spans: int = MAX_SPANS) -> str:
  """Returns month spans as text; many are summed up by number, first and last.

  A year is named once: 「元狩二年三月 – 五月, 七月」. Spans come in order; one
  outside the calendar is the last.
  """
  inside = [span for span in spans if span.name != calendars.OUTSIDE]
  if len(inside) > max_spans:
    ends = inside[0].name.split(" – ")[0], inside[-1].name.split(" – ")[-1]
    size = sum(span.last - span.first + 1 for span in inside)
    text = f"{size:,} months, {ends[0]} … {ends[1]}"
  else:
    text = _name_spans(inside)
  if len(inside) == len(spans):
    return text
  return f"{text}, or {calendars.OUTSIDE}" if text else calendars.OUTSIDE


def _name_spans(spans: Sequence[Span]) -> str:
  year, parts = None, []
  for span in spans:
    names = []
    for name in span.name.split(" – "):
      match = _YEAR_AND_MONTH.match(name)
      names.append(match[2] if match and match[1] == year else name)
      year = match[1] if match else None
    parts.append(" – ".join(names))
  return ", ".join(parts)


def name_evidence(expert: str) -> str:
  """Returns a kind of evidence in a reader's words."""
  return _NAMES_OF_EVIDENCE.get(expert, expert)


def name_kind(kind: str) -> str:
  """Returns a kind of record in a reader's words."""
  return str(notes.of_term("kind", kind))


def list_weighty(reasons: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
  """Returns the reasons that are given facts or have a weight other than 0."""
  return [
    reason
    for reason in reasons
    if reason["expert"] in _GIVEN or abs(reason["weight"]) >= _MIN_WEIGHT
  ]


def name_weightless(reasons: Sequence[dict[str, Any]]) -> str:
  """Returns the kinds of evidence that were read but weigh nothing."""
  weighty = list_weighty(reasons)
  return ", ".join(
    dict.fromkeys(
      name_evidence(reason["expert"])
      for reason in reasons
      if reason not in weighty
    )
  )


def format_reasons(
  reasons: Sequence[dict[str, Any]], number: int | None
) -> list[str]:
  """Returns reasons as lines, largest weight first, in nats.

  Args:
    number: how many; None adds the kinds of evidence that weigh nothing.
  """
  lines = [
    clean(reason["note"])
    if reason["expert"] in _GIVEN
    else f"{reason['weight']:+.1f} {name_evidence(reason['expert'])}: "
    f"{clean(reason['note'])}"
    for reason in list_weighty(reasons)[:number]
  ]
  weightless = name_weightless(reasons)
  if weightless and (number is None or not lines):
    lines.append(f" 0.0 of no weight: {weightless}")
  return lines


def format_answer(
  answer: Answer, width: int = DEFAULT_WIDTH, why: bool = False
) -> str:
  """Returns an answer as plain text; `why` prints all reasons."""
  text = io.StringIO()
  out = console.Console(file=text, width=width, color_system=None, emoji=False)
  _print(answer, out, why)
  return text.getvalue().rstrip("\n")


def print_answer(answer: Answer, why: bool) -> None:
  """Prints an answer, in colour if the output is a terminal."""
  width = None if sys.stdout.isatty() else DEFAULT_WIDTH
  out = console.Console(width=width, emoji=False, highlight=False)
  _print(answer, out, why)


def print_saved(answer: Answer, number: int, path: pathlib.Path) -> None:
  """Prints what was saved to a file, and what was not."""
  out = console.Console(width=DEFAULT_WIDTH, emoji=False, highlight=False)
  for line in (
    *_describe_question(answer),
    *map(Text, map(clean, answer.notes)),
  ):
    out.print(line)
  total = answer.counts.get("matches", number)
  rest = f" of {total:,}" if total > number else ""
  out.print(Text(f"{path}: records saved: {number:,}{rest}"))
  if answer.next_offset is not None:
    out.print(Text(f"--offset={answer.next_offset} saves more"))


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
  event = None
  for record in answer.results:
    chance = record.probability_asked
    if record.event is not None and record.event != event:
      grid.add_section()
      event = record.event
    grid.add_row(
      str(record.rank if event is None else event),
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
  """Adds a date column that leaves most of the width to the texts."""
  size = min(max(width * _DATE_SHARE // 100, _MIN_DATE), _MAX_DATE)
  grid.add_column("date", width=size, overflow="fold")


def _describe_date(date: RecordDate) -> Text:
  """Returns a date at the level that it is sure of, and the credible months if
  there are several.
  """
  sure = date.sure
  if not sure.name:
    name, chance = date.month["name"], format_chance(date.probability)
    text = Text(format_spans(date.credible_90))
    text.append(f"\nlikeliest {name}, {chance}", "dim")
    return text
  text = Text(sure.name)
  if sure.common_era not in sure.name:
    text.append(f"\n{sure.common_era}", "dim")
  if date.probability < date_levels.ALMOST:
    chance, spans = format_chance(sure.probability), date.credible_90
    text.append(f"\n{chance}; 90 %: {format_spans(spans)}", "dim")
  return text


def _describe_record(record: AnswerRecord, why: bool) -> Text:
  text = _mark(record.text, record.highlights)
  place = f" · {record.place}" if record.place else ""
  kind = (
    "" if record.kind in ("event", "text") else f" · {name_kind(record.kind)}"
  )
  text.append(
    "\n" + clean(f"{record.title} · {record.record_id}{place}{kind}"), "dim"
  )
  if why and "words" in record.score_parts:
    text.append("\n" + format_score(record), "dim italic")
  for line in format_reasons(record.reasons, None if why else 1):
    text.append("\n" + line, "dim italic")
  return text


def format_score(record: AnswerRecord) -> str:
  """Returns a record's score and its parts."""
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
  """Returns the text of a record, cut around its first mark."""
  # The text is cut a third before its first mark, so that readers see some
  # context.
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


def format_headline(dates: PassageDate) -> str:
  """Returns the date of a passage at the level that it is sure of."""
  sure = dates.sure
  if not sure.name:
    return "no time is sure enough to be named; the likeliest follow"
  years = "" if sure.common_era in sure.name else sure.common_era
  chance = f"p {format_chance(sure.probability)}"
  return "  ".join(filter(None, (sure.name, years, chance)))


def split_copies(
  dates: PassageDate,
) -> tuple[list[Parallel], list[Parallel]]:
  """Returns the copies of a passage, and near ones from other times.

  If the date is sure, a record of another time with most of the words is a
  formula and no copy.
  """
  copies, formulas = [], []
  for it in filter(lambda it: it.copied, dates.parallels):
    is_apart = (
      it.date.sure.first > dates.sure.last
      or it.date.sure.last < dates.sure.first
    )
    is_formula = not it.is_exact and is_apart
    is_formula &= bool(dates.sure.name and it.date.sure.name)
    (formulas if is_formula else copies).append(it)
  return copies, formulas


def format_copies(dates: PassageDate) -> list[str]:
  """Returns where the words of a passage stand, a line for each record."""
  copies, _ = split_copies(dates)
  return [
    f"{_describe_copy(it)} in {clean(it.title)}, "
    + (it.date.sure.name or "of no certain date")
    for it in copies
  ]


def _describe_copy(copy: Parallel) -> str:
  if not copy.is_exact:
    return f"{copy.copied:.0%} of it stands"
  dateless = "" if copy.copied >= 1 else ", without its date,"
  return f"stands word for word{dateless}"


def _print_dates(dates: PassageDate, out: console.Console, why: bool) -> None:
  copies = format_copies(dates)
  for line in copies if why else copies[:_MAX_COPIES]:
    out.print(Text(line))
  if len(copies) > _MAX_COPIES and not why:
    number = len(copies) - _MAX_COPIES
    records = "record" if number == 1 else "records"
    out.print(Text(f"and in {number} more {records}", "dim"))
  if number := len(split_copies(dates)[1]):
    records = "record" if number == 1 else "records"
    out.print(
      Text(f"similar words stand in {number} {records} from other times", "dim")
    )
  out.print(Text.assemble(("date  ", "dim"), (format_headline(dates), "bold")))
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
    share = f"{100 * parallel.share:.0f} %"
    if round(100 * parallel.share) == 0:
      share = ""  # the words are the same, and the date rests on others
    text = _mark(parallel.text, ())
    text.append("\n" + clean(f"{parallel.title} · {parallel.record_id}"), "dim")
    grid.add_row(
      # The share is that of all records of this evidence together.
      "″" if share and parallel.expert == expert else share,
      _describe_date(parallel.date),
      text,
    )
    expert = parallel.expert
  return grid


def _describe_outcome(answer: Answer) -> Iterable[Text]:
  if answer.understood.readings and not answer.results:
    yield Text("ask again with one of these names", "dim")
  elif answer.dates is None:
    yield Text(_count_results(answer), "dim" if answer.results else "")
  for note in answer.notes:
    yield Text(clean(note), "dim")


def _count_results(answer: Answer) -> str:
  """Returns how many records are shown, and how many more there are."""
  counts = answer.counts
  scope = f"of {counts['records']:,} records"
  number = counts["matches"]
  if not answer.results:
    if number:
      return f"no more than {number:,} found, {scope}; --offset is beyond them"
    return f"nothing found, {scope}"
  parts = [f"{len(answer.results)} shown of {number:,} found, {scope}"]
  if "events" in counts:
    parts.append(f"{counts['events']:,} events")
  if "in_time" in counts:
    parts.append(
      f"{counts['in_time']:,} fall in this time with probability .5 or more"
    )
  if counts.get("left_out"):
    parts.append(f"{counts['left_out']:,} less probable ones are left out")
  if counts.get("near") and number == counts["exact"]:
    words = "、".join(map(clean, answer.understood.words))
    parts.append(
      f"{counts['exact']:,} with {words}; {counts['near']:,} have parts of it "
      "(--near shows them)"
    )
  if answer.next_offset is not None:
    parts.append(f"--offset={answer.next_offset} shows more")
  return "; ".join(parts)
