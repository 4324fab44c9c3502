"""Dates the works that are added together, each by keys, order or model.

Works with keys or an order come first, because the model learns from them.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging
from jaxtyping import Bool, Float32, Int

from ctd_jax.benchmark.benchmark import NEG_COMMENT, NO_EVENT
from ctd_jax.dating import corpus as corpus_lib
from ctd_jax.dating.chronicle.calendar import Calendar, CalendarPart
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.experts import base
from ctd_jax.dating.passages.passages import PassageDater
from ctd_jax.index import posteriors
from ctd_jax.index.building import (
  model_dating,
  work_corrections,
  work_dating,
)
from ctd_jax.index.building.model_dating import LabelPool
from ctd_jax.index.building.source_calendars import DateReader
from ctd_jax.index.building.sources import SourceRecord, SourceWork
from ctd_jax.index.building.work_corrections import WorkCorrections
from ctd_jax.index.building.work_dating import DatedWork
from ctd_jax.index.corrections import Correction
from ctd_jax.index.database import KEYS, MODEL, ORDER, TEXT
from ctd_jax.index.posteriors import PosteriorArrays
from ctd_jax.utils.notes import Note

UNDATED = "undated"  # how an index remembers --undated; --order is `ORDER`
# Gives the records that have a certain date by now.
LabelSource = Callable[[], LabelPool]
# Gives a dater of passages for so many records of works, if one will do.
DaterSource = Callable[[Collection[str], int], PassageDater | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatingChoices:
  """Flags that choose how works are dated; names as printed or as added."""

  in_order: tuple[str, ...] = ()  # works in order of time
  undated: tuple[str, ...] = ()  # works in no order
  fixed: pathlib.Path | None = None  # corrections of the one text that is added
  # Name of a work -> its corrections.
  fixed_of: Mapping[str, pathlib.Path] = dataclasses.field(default_factory=dict)
  # Name of a work -> rows of its reigns, as an index remembers them.
  reigns_of: Mapping[str, tuple[int, ...]] = dataclasses.field(
    default_factory=dict
  )

  def find_fixed(self, work: SourceWork) -> pathlib.Path | None:
    """Returns the file of a work's corrections."""
    return self.fixed_of.get(work.name, self.fixed if work.is_text else None)

  def find_manner(self, work: SourceWork) -> str | None:
    """Returns `UNDATED` or `ORDER` if a flag asks for it."""
    if {work.name, work.group} & {*self.undated}:
      return UNDATED
    if work.name in self.in_order:
      return ORDER
    # A data set that is in order may have a source that is in none.
    is_chosen = work.has_order and work.group in self.in_order
    return ORDER if is_chosen else None

  def check_names(self, works: Sequence[SourceWork]) -> None:
    """Raises ValueError if a flag names a work that is not added."""
    names = {name for work in works for name in (work.name, work.group)}
    for flag, chosen in (("order", self.in_order), ("undated", self.undated)):
      for name in chosen:
        if name not in names:
          raise ValueError(
            f"--{flag}={name}: not among the works being added: "
            f"{', '.join(sorted(names))}"
          )
    both = {*self.in_order} & {*self.undated}
    if both:
      raise ValueError(
        f"--order and --undated both name {', '.join(sorted(both))}; a work is "
        "one or the other"
      )
    if self.fixed and sum(work.is_text for work in works) != 1:
      raise ValueError(
        f"--fixed={self.fixed}: corrects a single text; add that text alone"
      )


class _RecordClues(NamedTuple):
  """Evidence in a work's texts besides their order."""

  stated_months: Int[np.ndarray, " n"]  # stated by a placeholder, else UNKNOWN
  event_log_p: Float32[np.ndarray, " n"]  # log p(answering kind | text)


def _read_group_clues(
  works: Sequence[SourceWork], reader: DateReader
) -> dict[str, _RecordClues]:
  """Returns name -> clues, for works with a common timeline."""
  # The kind of a hidden record is hidden too. Its style beside that of the
  # others predicts it.
  records = [record for work in works for record in work.records]
  kinds = np.array([record.kind for record in records])
  is_hidden = np.array([record.is_hidden for record in records], bool)
  corpus = corpus_lib.read_corpus(
    [record.text for record in records],
    reader.timeline,
    is_placeholder=kinds == NO_EVENT,
  )
  event_log_p = work_dating.make_event_log_p(kinds.tolist())
  if is_hidden.any():
    is_event = np.where(is_hidden, UNKNOWN, kinds != NEG_COMMENT)
    months = np.full(len(records), UNKNOWN)
    event_log_p = base.predict_event_log_p(
      corpus, Labels(months, is_event.astype(int))
    )
  stated_months = np.where(
    corpus.is_placeholder,
    reader.lunation_of[corpus.placeholder_month],
    UNKNOWN,
  )
  stops = np.cumsum([len(work.records) for work in works])
  return {
    work.name: _RecordClues(
      stated_months[stop - len(work.records) : stop],
      event_log_p[stop - len(work.records) : stop].astype(np.float32),
    )
    for work, stop in zip(works, stops, strict=True)
  }


class WorkDater:
  """Dates works on the calendar of an index."""

  def __init__(
    self,
    calendar: Calendar,
    choices: DatingChoices,
    works: Sequence[SourceWork],
    corrections: Mapping[str, Sequence[Correction]] | None = None,
    reigns_of: Mapping[str, tuple[int, ...]] | None = None,
    find_dater: DaterSource | None = None,
  ):
    """Takes works; `reigns_of` has rows of reigns by work, if not all."""
    self._find_dater = find_dater
    self._calendar = calendar
    self._choices = choices
    self._works = works
    self._reigns_of = reigns_of or {}
    self._corrections = corrections or {}
    self._corrected: dict[str, WorkCorrections] = {}
    self._readers: dict[str, DateReader] = {}
    self._clues: dict[str, dict[str, _RecordClues]] = {}

  def choose_manner(self, work: SourceWork) -> str:
    """Returns keys, order or model."""
    asked = self._choices.find_manner(work)
    return work_dating.choose_manner(
      work, self._calendar, MODEL if asked == UNDATED else asked
    )

  def read_known_months(self, work: SourceWork) -> Int[np.ndarray, "n 2"]:
    """Returns the known first and last months of a data set's work."""
    months = self._reader_of(work).read_known_months(work)
    is_known = months[:, 0] != UNKNOWN
    if is_known.any() and (months[is_known, 0] >= len(self._calendar)).all():
      raise ValueError(
        Note(
          "problem.calendar.outside",
          work=work.name,
          calendar=self._calendar.timeline.name,
        )
      )
    return self._match_corrections(work).limit_months(months)

  def _match_corrections(self, work: SourceWork) -> WorkCorrections:
    if work.name not in self._corrected:
      self._corrected[work.name] = work_corrections.match_corrections(
        work.name,
        self._corrections.get(work.name, ()),
        work.records,
        self._part_of(work),
      )
    return self._corrected[work.name]

  def _part_of(self, work: SourceWork) -> CalendarPart:
    return self._calendar.select_reigns(self._reigns_of.get(work.name, ()))

  def _add_corrections(self, dated: DatedWork) -> DatedWork:
    corrected = self._match_corrections(dated.source)
    rows = np.arange(len(dated.records))
    is_corrected = np.isin(rows, [*corrected.months])
    return dataclasses.replace(
      dated, is_fixed=dated.is_fixed | is_corrected, corrections=corrected
    )

  def _reader_of(self, work: SourceWork) -> DateReader:
    if work.group not in self._readers:
      self._readers[work.group] = DateReader(self._part_of(work), work.timeline)
    return self._readers[work.group]

  def date_with_own_dates(self, work: SourceWork, manner: str) -> DatedWork:
    """Returns a data set's work dated by keys or order."""
    num_months = len(self._calendar)
    known_months = self.read_known_months(work)
    if manner == KEYS:
      return self._add_corrections(
        work_dating.date_by_keys(work, known_months, num_months)
      )
    clues, part = self._read_clues(work), self._part_of(work)
    dated = work_dating.date_records_by_order(
      work,
      part.find_own(known_months),
      part.calendar,
      part.find_own(clues.stated_months),
    )
    dated = work_dating.move_months(dated, part)
    return dataclasses.replace(
      self._add_corrections(dated),
      posteriors=dataclasses.replace(
        dated.posteriors, event_log_p=clues.event_log_p
      ),
    )

  def _read_clues(self, work: SourceWork) -> _RecordClues:
    if work.timeline is None:
      unknown = np.full(len(work.records), UNKNOWN)
      return _RecordClues(unknown, _read_event_log_p(work))
    if work.group not in self._clues:
      members = [peer for peer in self._works if peer.group == work.group]
      self._clues[work.group] = _read_group_clues(
        members, self._reader_of(work)
      )
    return self._clues[work.group][work.name]

  def date_by_model(
    self,
    works: Sequence[SourceWork],
    peers: Sequence[SourceWork],
    labels: LabelSource,
  ) -> Iterable[DatedWork]:
    """Yields works dated by the model.

    Args:
      peers: other works of the data set, whose keys are known.
      labels: records with certain dates, for works without a timeline.
    """
    of_timeline = [work for work in works if work.timeline is not None]
    groups: dict[str, list[SourceWork]] = {}
    for work in of_timeline:
      groups.setdefault(work.group, []).append(work)
    for group, members in groups.items():
      others = [peer for peer in peers if peer.group == group]
      yield from self._date_group(members, others, labels)
    others = [work for work in works if work.timeline is None]
    if others:
      yield from self._date_others(others, labels)

  def _date_group(
    self,
    works: Sequence[SourceWork],
    peers: Sequence[SourceWork],
    labels: LabelSource,
  ) -> Iterable[DatedWork]:
    reader = self._reader_of(works[0])
    for work in (*works, *peers):
      self.read_known_months(work)
    records = [record for work in (*works, *peers) for record in work.records]
    ordinals = np.concatenate(
      [self._find_ordinals(work) for work in (*works, *peers)]
    )
    has_few_labels = (ordinals != UNKNOWN).sum() < model_dating.MIN_LABELS
    if has_few_labels or len(records) > model_dating.MAX_GROUP_RECORDS:
      yield from self._date_others(works, labels)
      return
    logging.info(
      "dating %s records of %s works by the model",
      f"{len(records):,}",
      len(works),
    )
    posteriors = model_dating.date_group(
      records,
      ordinals,
      works[0].timeline,
      reader.lunation_of,
      len(self._calendar),
    )
    start = 0
    for work in works:
      rows = np.arange(start, start + len(work.records))
      start += len(work.records)
      known_months = self.read_known_months(work)
      yield self._limit(work, known_months, posteriors.take(rows))

  def _find_ordinals(self, work: SourceWork) -> Int[np.ndarray, " n"]:
    reader = self._reader_of(work)
    ordinals = np.array(
      [reader.find_ordinal(record) for record in work.records], int
    )
    for row, is_allowed in self._match_corrections(work).months.items():
      months = np.flatnonzero(is_allowed)
      of_timeline = np.flatnonzero(np.isin(reader.lunation_of, months))
      is_known = len(months) == 1 and len(of_timeline) > 0
      ordinals[row] = of_timeline[0] if is_known else UNKNOWN
    return ordinals

  def _limit(
    self,
    work: SourceWork,
    known_months: Int[np.ndarray, "n 2"],
    posteriors: PosteriorArrays,
  ) -> DatedWork:
    """Returns a work dated by the model, with known months kept."""
    first, last = known_months.T
    return self._add_corrections(
      work_dating.make_dated_work(
        work,
        known_months,
        model_dating.limit_to_known_months(posteriors, known_months),
        np.where((first != UNKNOWN) & (first == last), KEYS, MODEL),
        MODEL,
      )
    )

  def _date_others(
    self, works: Sequence[SourceWork], labels: LabelSource
  ) -> Iterable[DatedWork]:
    works = [
      self._make_records(work) if work.is_text else work for work in works
    ]
    known = {work.name: self.read_known_months(work) for work in works}
    months_of = [known[work.name] for work in works]
    is_open = [
      (months[:, 0] == UNKNOWN) | (months[:, 0] != months[:, 1])
      for months in months_of
    ]
    texts = [
      work.records[row].text
      for work, is_open_here in zip(works, is_open, strict=True)
      for row in np.flatnonzero(is_open_here).tolist()
    ]
    num_months = len(self._calendar)
    names = [work.name for work in works]
    dater = self._find_dater and self._find_dater(names, len(texts))
    try:
      if dater and texts:
        dated = model_dating.date_passages(texts, dater, num_months)
      else:
        pool = _add_known_records(labels(), works, known, num_months)
        dated = model_dating.date_texts(texts, pool, self._calendar)
    except ValueError as error:
      raise ValueError(
        Note("problem.at", place=", ".join(names), problem=error)
      ) from error
    start = 0
    for work, months, is_open_here in zip(
      works, months_of, is_open, strict=True
    ):
      rows = np.arange(start, start + is_open_here.sum())
      start += len(rows)
      posteriors = dataclasses.replace(
        _join_known_months(dated.take(rows), months, is_open_here),
        event_log_p=_read_event_log_p(work),
      )
      yield self._limit(work, months, posteriors)

  def _make_records(self, text: SourceWork) -> SourceWork:
    records = [
      SourceRecord(
        record_id=str(number),
        text=entry.text,
        kind=TEXT,
        place=str(entry.place),
        headings=entry.headings,
        position=number - 1,
      )
      for number, entry in enumerate(text.entries, 1)
      if not entry.is_heading
    ]
    work = dataclasses.replace(text, records=records, entries=())
    fixed = self._choices.find_fixed(text)
    if fixed is not None:
      self._corrected[text.name] = work_corrections.add_fixed_entries(
        self._match_corrections(work), fixed, text.entries, self._part_of(work)
      )
    return work


def _read_event_log_p(work: SourceWork) -> Float32[np.ndarray, " n"]:
  """Returns log p(answering kind) by the kinds of records, unless hidden."""
  return work_dating.make_event_log_p(
    ["" if record.is_hidden else record.kind for record in work.records]
  )


def _join_known_months(
  dated: PosteriorArrays,
  known_months: Int[np.ndarray, "n 2"],
  is_open: Bool[np.ndarray, " n"],
) -> PosteriorArrays:
  """Adds records of known months to those the model dated (`is_open`)."""
  certain = posteriors.make_certain_posteriors(
    known_months[~is_open, 0], dated.num_months
  )
  place = np.empty(len(is_open), int)
  place[is_open] = np.arange(len(dated))
  place[~is_open] = len(dated) + np.arange(len(certain))
  return PosteriorArrays.concatenate([dated, certain]).take(place)


def _add_known_records(
  pool: LabelPool,
  works: Sequence[SourceWork],
  known_months: dict[str, np.ndarray],
  num_months: int,
) -> LabelPool:
  """Returns the labels with the known records of the works themselves."""
  texts, months = [*pool.texts], pool.months.tolist()
  for work in works:
    spans = known_months[work.name]
    for record, (first, last) in zip(work.records, spans, strict=True):
      if UNKNOWN < first == last < num_months and record.kind != "neg_comment":
        texts.append(record.text)
        months.append(int(first))
  return LabelPool(texts=texts, months=np.array(months, int))
