"""Records as an answer shows them: date, credible months and reasons.

For records dated by the model, reasons are computed on request. For others they
come from what the record prints: each statement is scored as the order decoder
scores it, and the rest of the log odds is due to the record's place in its
work. So the weights add up to the log odds of the month against chance.

Axes: K months.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from ctd_jax.chronology import reigns, sexagenary
from ctd_jax.dating.chronicle import emissions, undated_texts
from ctd_jax.dating.chronicle.calendar import Calendar
from ctd_jax.dating.chronicle.sections import (
  DAY_STATEMENTS,
  DateStatement,
  Section,
)
from ctd_jax.dating.experts import date_features
from ctd_jax.index import (
  answers,
  calendars,
  database,
  date_levels,
  ranking,
)
from ctd_jax.index.answers import AnswerRecord, RecordDate, Span
from ctd_jax.index.date_levels import SureDate
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.ranking import RankedRecord
from ctd_jax.utils import notes
from ctd_jax.utils.notes import Note

# Evidence whose linked records have the date that they support.
WORDING = ("parallels", "known", "copies")
_MAX_RECORDS = 3  # that a note names
_MAX_CHARACTERS = 24  # of each
MIN_YEAR_MASS = 0.1  # in the year of the supported month
_MAX_PROBABILITY = 1 - 1e-6  # so that log odds are finite
# Before 104 BCE a month has a day in some of the calendars that are possible.
_MAX_LOG_RATIO = 1.5
_MAX_MONTHS = 5  # named by a reason
_NEAR = 3  # records; beyond, the distance is given
_NAMES_OF_STATEMENTS = {
  "months": "season",
  "doubtful month": "month, which may be one spoken of",
  "leap": "leap month",
  "cycle": "year of the cycle",
  "ruled year": "year of the ruler",
  "doubtful year": "year that the cycle contradicts",
  "marked cycle": "year of the cycle",
  "month day": "day",
}
_HAN = re.compile("[\u3400-\u9fff]")
_PAGE = re.compile(r"\(p\. (.+)\)\Z")  # of `texts.works.Place`
_MARKED_DAYS = {"first day": "note.day.first", "last day": "note.day.last"}


def name_linked(
  index: IndexFolder, reasons: Iterable[dict[str, Any]], month: int
) -> list[dict[str, Any]]:
  """Returns reasons whose notes name the records that share wording.

  Args:
    reasons: reasons as JSON values.
    month: ordinal that the reasons are for.
  """
  return [
    reason
    | {"note": _note_records(index, reason["linked"], month, reason["expert"])}
    if reason["expert"] in WORDING and reason["linked"]
    else reason
    for reason in reasons
  ]


def _note_records(
  index: IndexFolder, rows: Sequence[int], month: int, expert: str
) -> Note:
  masses = {row: find_year_mass(index, row, month) for row in rows}
  order = sorted(rows, key=lambda row: masses[row] < MIN_YEAR_MASS)
  records = database.fetch_records(index.connection, order[:_MAX_RECORDS])
  texts = []
  for record in records:
    text = record.text[:_MAX_CHARACTERS]
    text += "…" * (len(record.text) > len(text))
    date = _describe_date(index, record, masses[record.row])
    texts.append(Note("note.text", text=text, date=date))
  is_copy = expert == "copies"
  if rest := len(rows) - len(records):
    code = "note.copies" if is_copy else "note.links"
    return Note(code, texts=texts, number=rest)
  return Note("note.copy" if is_copy else "note.link", texts=texts)


def _describe_date(
  index: IndexFolder, record: database.IndexRecord, year_mass: float
) -> str | Note:
  """Returns the time of a record that is sure, else what is known of it."""
  sure = find_sure_date(index, record.row)
  if sure.name:
    chance = answers.format_chance(sure.probability)
    is_sure = sure.probability >= date_levels.ALMOST
    return sure.name if is_sure else f"{sure.name}, p {chance}"
  if year_mass >= MIN_YEAR_MASS:
    return Note("problem.text.year", chance=answers.format_chance(year_mass))
  return Note("problem.text.unsure")


def find_sure_date(index: IndexFolder, row: int) -> SureDate:
  """Returns the narrowest time of a record that is sure enough to be named."""
  work = index.work_of(row)
  arrays, position = index.posteriors_of(work).arrays, row - work.first_row
  chances = np.append(arrays.p_months(position), arrays.outside[position])
  return date_levels.find_sure_date(
    index.calendar, chances, work.printed_reigns
  )


def find_year_mass(index: IndexFolder, row: int, month: int) -> float:
  """Returns the probability that a record falls in the year of a month."""
  if month >= len(index.calendar):
    return 0.0
  work = index.work_of(row)
  arrays = index.posteriors_of(work).arrays
  position = row - work.first_row
  span = slice(int(arrays.starts[position]), int(arrays.starts[position + 1]))
  years = index.calendar.years
  is_of_year = years[np.asarray(arrays.months[span])] == years[month]
  return float(np.asarray(arrays.probabilities[span])[is_of_year].sum())


@dataclasses.dataclass(frozen=True)
class Neighbour:
  """The nearest record with a certain date before or after another."""

  row: int
  month: str  # most probable, by name


def find_log_odds(probability: float) -> float:
  """Returns log odds, finite even for certainty."""
  probability = min(max(probability, 1 - _MAX_PROBABILITY), _MAX_PROBABILITY)
  return math.log(probability / (1 - probability))


def _explain_record(
  index: IndexFolder, record: database.IndexRecord
) -> list[dict[str, Any]]:
  """Returns the reasons from a record's printed dates and its place."""
  calendar, neighbours = index.calendar, _find_neighbours(index, record)
  printed_reigns = index.work_of(record.row).printed_reigns
  num_months = len(calendar)
  log_odds = find_log_odds(record.best_probability)
  prior = find_log_odds(1 / (num_months + 1))
  if record.start_month is not None or record.best_month >= num_months:
    return [_explain_whole(record, log_odds - prior)]
  reasons = []
  section = undated_texts.read_head(record.text, calendar)
  scores = np.zeros(num_months)
  before = find_log_odds(1 / num_months)
  for statement in section.statements:
    statement_scores = _score_statement(section, statement, calendar)
    scores += statement_scores
    others = np.delete(scores, record.best_month)
    after = 0.0
    if len(others):
      after = float(scores[record.best_month] - logsumexp(others))
    is_day = statement[0] in (*DAY_STATEMENTS, "month day")
    reasons.append(
      {
        "expert": "day" if is_day else "printed date",
        "weight": after - before,
        "note": _describe_statement(
          record, section, statement, statement_scores, calendar, printed_reigns
        ),
        "spans": [[section.start, section.date_end]],
        "linked": [],
        "months": [],
      }
    )
    before = after
  is_in_order = record.dated_by == database.ORDER
  reasons.append(
    {
      "expert": record.dated_by,
      "weight": log_odds - prior - sum(it["weight"] for it in reasons),
      "note": _describe_order(record, neighbours)
      if is_in_order
      else Note("note.model"),
      "spans": [],
      "linked": [other.row for other in neighbours],
      "months": [],
    }
  )
  return sorted(reasons, key=lambda reason: -abs(reason["weight"]))


def _explain_whole(
  record: database.IndexRecord, weight: float
) -> dict[str, Any]:
  if record.fixed:
    expert, note = "reader", Note("note.reader")
  elif record.start_month is not None:
    expert, note = database.KEYS, Note("note.keys")
  else:
    expert, note = record.dated_by, Note("note.outside")
  return {
    "expert": expert,
    "weight": weight,
    "note": note,
    "spans": [],
    "linked": [],
    "months": [],
  }


def _score_statement(
  section: Section, statement: DateStatement, calendar: Calendar
) -> Float[np.ndarray, " K"]:
  single = dataclasses.replace(section, statements=(statement,))
  by_offset = emissions.SectionEmissions([single], calendar)(0, 1)[0, :, :-1]
  if len(by_offset) == 1:
    return by_offset[0].astype(np.float64)
  log_prior = np.log(date_features.OFFSET_PRIOR)[:, None]
  return logsumexp(by_offset + log_prior, axis=0)


def _describe_statement(
  record: database.IndexRecord,
  section: Section,
  statement: DateStatement,
  scores: Float[np.ndarray, " K"],
  calendar: Calendar,
  printed_reigns: Sequence[int],
) -> Note:
  """Returns a note on a statement and whether the month fits it."""
  is_fitting = scores >= scores.max() - _MAX_LOG_RATIO
  fits = bool(is_fitting[record.best_month])
  if statement[0] in DAY_STATEMENTS:
    return _describe_day(
      record.best_month, statement, is_fitting, calendar, printed_reigns
    )
  printed = record.text[section.start : section.date_end].strip("，。、 　")
  evidence = notes.of_term(
    "statement",
    _NAMES_OF_STATEMENTS.get(statement[0], emissions.name_evidence(statement)),
  )
  return Note(
    "note.date.fits" if fits else "note.date.other",
    printed=printed,
    statement=evidence,
    number=int(is_fitting.sum()) - fits,
  )


def _describe_day(
  month: int,
  statement: DateStatement,
  is_fitting: Bool[np.ndarray, " K"],
  calendar: Calendar,
  printed_reigns: Sequence[int],
) -> Note:
  """Returns a note on a day: its number in the month, or where it would be."""
  name: Note | str = sexagenary.format_cyclic_index(int(statement[1]))
  if statement[0] in _MARKED_DAYS:
    name = Note(_MARKED_DAYS[statement[0]], day=name)
  if is_fitting[month]:
    number = _find_day_number(
      month, int(statement[1]), calendar, printed_reigns
    )
    if number:
      return Note("note.day.number", day=name, number=number)
    return Note("note.day.possible", day=name)
  fitting = np.flatnonzero(is_fitting)
  nearest = fitting[np.argsort(np.abs(fitting - month), kind="stable")]
  spans = [
    Span(
      first=near,
      last=near,
      name=calendars.name_month(calendar, near, printed_reigns),
    )
    for near in sorted(nearest[:_MAX_MONTHS].tolist())
  ]
  months = answers.format_spans(spans, _MAX_MONTHS)
  return Note("note.day.impossible", day=name, months=months)


def _find_day_number(
  month: int,
  cyclic_day: int,
  calendar: Calendar,
  printed_reigns: Sequence[int],
) -> int | None:
  """Returns which day of a month a sexagenary day is, if known."""
  days = calendar.find_days(month, printed_reigns)
  if days is None:
    return None
  first, length = days
  number = (
    cyclic_day - sexagenary.cyclic_index_of_day(first)
  ) % sexagenary.CYCLE_LENGTH + 1
  return number if number <= length else None


def _describe_order(
  record: database.IndexRecord, neighbours: Sequence[Neighbour]
) -> Note:
  """Returns a note on the sure records around a record in its work."""
  names = []
  for other in neighbours:
    distance = abs(other.row - record.row)
    side = "before" if other.row < record.row else "after"
    names.append(
      Note(f"note.far.{side}", month=other.month, number=distance)
      if distance > _NEAR
      else other.month
    )
  if not names:
    return Note("note.place")
  if len(names) == 1:
    if neighbours[0].row < record.row:
      return Note("note.place.after", before=names[0])
    return Note("note.place.before", after=names[0])
  if names[0] == names[1]:
    return Note("note.stands.among", month=names[0])
  return Note("note.stands.between", before=names[0], after=names[1])


def find_spans(
  index: IndexFolder,
  months: Sequence[int] | Int[np.ndarray, " m"],
  printed_reigns: Collection[int] = (),
) -> tuple[Span, ...]:
  """Returns months as spans of consecutive ones; outside is its own span."""
  runs: list[list[int]] = []
  for month in map(int, months):
    is_next = bool(runs) and runs[-1][1] == month - 1
    if is_next and month < len(index.calendar):
      runs[-1][1] = month
    else:
      runs.append([month, month])
  return tuple(
    make_span(index, first, last, printed_reigns) for first, last in runs
  )


def make_span(
  index: IndexFolder,
  first: int,
  last: int,
  printed_reigns: Collection[int] = (),
) -> Span:
  """Returns consecutive months with their name."""
  reigns = frozenset(printed_reigns)
  names = [index.name_month(month, reigns) for month in (first, last)]
  name = " – ".join(names) if last > first else names[0]
  return Span(first=first, last=last, name=name)


def format_years(index: IndexFolder, first: int, last: int) -> str:
  """Returns the years of months, "722 BCE" or "722 BCE – 720 BCE"."""
  num_months = len(index.calendar)
  if first >= num_months:
    return ""
  years = [
    reigns.format_common_era_year(int(index.calendar.years[month]))
    for month in (first, min(last, num_months - 1))
  ]
  return " – ".join(dict.fromkeys(years))


def make_record_date(
  index: IndexFolder, record: database.IndexRecord
) -> RecordDate:
  """Returns the date of a record."""
  work = index.work_of(record.row)
  posteriors = index.posteriors_of(work).arrays
  position = record.row - work.first_row
  reigns = work.printed_reigns
  describe = functools.partial(
    find_spans, index, printed_reigns=frozenset(reigns)
  )
  known = None
  if record.start_month is not None:
    known = make_span(index, record.start_month, record.end_month, reigns)
  return RecordDate(
    month=calendars.describe_month(index.calendar, record.best_month, reigns),
    common_era=format_years(index, record.best_month, record.best_month),
    probability=record.best_probability,
    sure=find_sure_date(index, record.row),
    outside=float(posteriors.outside[position]),
    credible_50=describe(posteriors.credible_months(position, 0.5)),
    credible_90=describe(posteriors.credible_months(position, 0.9)),
    known=known,
    dated_by=record.dated_by,
    is_fixed=record.fixed,
  )


def make_answer_record(
  index: IndexFolder,
  record: database.IndexRecord,
  ranked: RankedRecord,
  rank: int,
  words: Sequence[str] = (),
  why: bool = False,
  event: int | None = None,
) -> AnswerRecord:
  """Returns a record as part of an answer, with `words` highlighted."""
  work = index.work_of(record.row)
  date = make_record_date(index, record)
  parts = {"kind": ranked.kind_log_p}
  if ranked.mass is not None:
    parts["time"] = float(np.log(max(ranked.mass, 1e-11)))
  if ranked.word_score is not None:
    parts["words"] = ranked.word_score
  if ranked.dense_score is not None:
    parts |= {"dense": ranked.dense_score, "cosine": ranked.cosine}
  return AnswerRecord(
    rank=rank,
    row=record.row,
    record_id=record.record_id,
    work=work.name,
    title=work.title or work.name,
    text=record.text,
    kind=record.kind,
    place=record.place or "",
    headings=record.headings,
    date=date,
    score=ranked.score,
    probability_asked=ranked.mass,
    score_parts=parts,
    highlights=tuple(ranking.find_highlights(words, record.text)),
    reasons=tuple(find_reasons(index, record, why)),
    edition=index.editions.get(work.work_id, ""),
    citation=cite_record(index, record, date.sure),
    is_near=ranked.is_near,
    event=event,
  )


def cite_record(
  index: IndexFolder, record: database.IndexRecord, sure: SureDate
) -> Note:
  """Returns work, place, edition and date of a record, without an address."""
  work = index.work_of(record.row)
  title = work.title or work.name
  title = f"《{title}》" if _HAN.search(title) else title
  page = _PAGE.search(record.place or "")
  place = f"p. {page[1]}" if page else record.place
  where = filter(None, (title, *record.headings, place, record.record_id))
  source = answers.clean(", ".join(where))
  if edition := index.editions.get(work.work_id, ""):
    edition = answers.clean(edition)
    source = Note("cite.source", place=source, edition=edition)
  if not sure.name:
    return Note("cite.undated", source=source)
  years = f" ({sure.common_era})" if sure.common_era else ""
  date = f"{sure.name}{years}"
  if record.dated_by == database.KEYS and not record.fixed:
    return Note("cite.edition", source=source, date=date)
  return Note(
    "cite.program",
    source=source,
    date=date,
    version=index.versions.ctd_jax,
    chance=answers.format_chance(sure.probability),
    index=index.versions.index_sha256[:12],
  )


def find_reasons(
  index: IndexFolder, record: database.IndexRecord, why: bool = False
) -> list[dict[str, Any]]:
  """Returns the reasons of a record, largest weight first.

  Args:
    why: whether to read a record that the model dated again, some 30 ms.
  """
  # Keys need no explanation, and without a passage dater there is none.
  if (
    why
    and record.dated_by == database.MODEL
    and record.start_month is None
    and record.best_month < len(index.calendar)
    and index.manifest.passages is not None
  ):
    reasons = _read_again(index, record)
    return sorted(reasons, key=lambda reason: -abs(reason["weight"]))
  return _explain_record(index, record)


def _read_again(
  index: IndexFolder, record: database.IndexRecord
) -> list[dict[str, Any]]:
  """Returns the reasons of a record as if it were not in the index."""
  # The last reason is what the date owes to the other undated records, with
  # which the index dated it.
  dates = index.passage_dater.date(
    record.text, month=record.best_month, exclude=[record.row]
  )
  reasons = [reason.to_dict() for reason in dates.reasons]
  log_odds = find_log_odds(record.best_probability)
  total = log_odds - dates.prior_log_odds
  reasons.append(
    {
      "expert": "corpus",
      "weight": total - sum(reason["weight"] for reason in reasons),
      "note": Note("note.corpus"),
      "spans": [],
      "linked": [],
      "months": [],
    }
  )
  return name_linked(index, reasons, record.best_month)


def _find_neighbours(
  index: IndexFolder, record: database.IndexRecord
) -> list[Neighbour]:
  if record.dated_by != database.ORDER:
    return []
  work = index.work_of(record.row)
  neighbours = []
  for comparison, direction in (("<", "DESC"), (">", "ASC")):
    # By its rows, which are in order; "+" keeps SQLite from other indexes, by
    # which it would sort the work.
    found = index.connection.execute(
      f"SELECT row, best_month FROM records WHERE row {comparison} ? AND row "
      "BETWEEN ? AND ? AND kind != ? AND best_probability >= ? AND "
      f"+best_month < ? ORDER BY row {direction} LIMIT 1",
      (
        record.row,
        work.rows[0],
        work.rows[-1],
        database.HEADING,
        date_levels.ALMOST,
        len(index.calendar),
      ),
    ).fetchone()
    if found is not None:
      row, month = found
      neighbours.append(
        Neighbour(
          row,
          calendars.name_month(index.calendar, month, work.printed_reigns),
        )
      )
  return neighbours
