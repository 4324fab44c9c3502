"""Pairs of records with shared wording, and of citations with events.

Axes: N records, P pairs, E events, M citations, n records to compare,
f features of a pair.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float32, Int, Int8, Num, UInt32

from ctd_jax.chronology import dates, sexagenary
from ctd_jax.chronology.numerals import (
  NUMERAL_PATTERN,
  fold_script,
  parse_numeral,
)
from ctd_jax.dating.corpus import (
  UNKNOWN,
  Corpus,
  MonthAxis,
  cut_blocks,
  find_sorted,
)
from ctd_jax.dating.experts import wording

NUM_CANDIDATES = 20  # events that a record is paired with
_EVEN_OVERLAP = 5  # added to what an overlap is divided by
RIVAL_SHARE = 0.8  # share of the best overlap that makes a rival
# What a record prints of its date, and the value if it does not.
_DATE_FIELDS = (("first_month", 0), ("first_day", -1), ("opening_year", 0))
_BLOCK = 65_536  # pairs whose features are made at once
# Of the hash of a pair's record, so that a pair differs from its reverse.
_HASH_MULTIPLIER = np.uint32(31)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParallelPairs:
  """Records paired with the events nearest in wording."""

  record_row: Int[np.ndarray, " P"]  # row of the record
  event_row: Int[np.ndarray, " P"]  # row of the event, another record
  features: Float32[np.ndarray, "P f"]  # of the pair
  pair_hashes: UInt32[np.ndarray, " P"]  # made of the two texts

  def __len__(self) -> int:
    return len(self.record_row)

  @property
  def overlap(self) -> Float32[np.ndarray, " P"]:
    """Weight of the strings that the two of each pair share."""
    return np.expm1(self.features[:, 0])

  def take(self, is_kept: Bool[np.ndarray, " P"]) -> ParallelPairs:
    """Returns some of the pairs."""
    return ParallelPairs(
      record_row=self.record_row[is_kept],
      event_row=self.event_row[is_kept],
      features=self.features[is_kept],
      pair_hashes=self.pair_hashes[is_kept],
    )


def make_parallel_pairs(
  corpus: Corpus,
  event_records: Int[np.ndarray, " E"],
  string_index: wording.EventStringIndex,
  rows: Int[np.ndarray, " n"],
  texts: Sequence[str],
) -> ParallelPairs:
  """Returns `rows` paired with the events nearest in wording, never themselves.

  Args:
    string_index: wording of the events.
    texts: compared text of each row, [n].
  """
  # Event that each record is itself, if it is one.
  event_position, is_event = find_sorted(event_records, rows)
  self_event = np.where(is_event, event_position, UNKNOWN)
  nearest_pairs, sums = _find_nearest_events(string_index, texts, self_event)
  text_index, event_index, overlap = nearest_pairs
  max_overlap, text_weight, max_event_overlap = sums
  is_rival = overlap >= RIVAL_SHARE * max_overlap[text_index]
  num_rivals = np.bincount(text_index, weights=is_rival, minlength=len(rows))
  ranks = rank_within_rows(text_index, overlap)
  event_weights = string_index.event_weights
  record = rows[text_index].astype(np.int32)
  event = event_records[event_index].astype(np.int32)

  def make_features(block: slice) -> list[np.ndarray]:
    text_rows, event_rows = text_index[block], event_index[block]
    columns = make_overlap_columns(
      overlap=overlap[block],
      max_overlap=max_overlap[text_rows],
      max_event_overlap=max_event_overlap[event_rows],
      text_weight=text_weight[text_rows],
      event_weight=event_weights[event_rows],
      num_rivals=num_rivals[text_rows],
      rank=ranks[block],
    )
    columns += compare_dates(corpus, record[block], corpus, event[block])
    return columns

  hashes = corpus.text_hashes
  return ParallelPairs(
    record_row=record,
    event_row=event,
    features=stack_features(make_features, len(record)),
    pair_hashes=hashes[record] * _HASH_MULTIPLIER + hashes[event],
  )


def make_overlap_columns(
  *,
  overlap: Float32[np.ndarray, " P"],
  max_overlap: Num[np.ndarray, " P"],
  max_event_overlap: Float32[np.ndarray, " P"],
  text_weight: Float32[np.ndarray, " P"],
  event_weight: Float32[np.ndarray, " P"],
  num_rivals: Num[np.ndarray, " P"],
  rank: Int[np.ndarray, " P"],
) -> list[np.ndarray]:
  """Returns the first features of pairs: what of their wording is shared."""
  return [
    np.log1p(overlap),
    overlap / (max_overlap + _EVEN_OVERLAP),
    overlap / (max_event_overlap + _EVEN_OVERLAP),
    overlap / (text_weight + _EVEN_OVERLAP),
    overlap / (event_weight + _EVEN_OVERLAP),
    np.log1p(num_rivals),
    rank,
    np.log1p(text_weight),
    np.log1p(event_weight),
    overlap < RIVAL_SHARE * max_overlap,
  ]


def make_agreement_columns(
  values: Int[np.ndarray, " P"],
  event_values: Int[np.ndarray, " P"],
  missing_value: int,
) -> list[np.ndarray]:
  """Returns whether both texts of a pair print the same value, and differ."""
  has_values = (values != missing_value) & (event_values != missing_value)
  is_same = values == event_values
  return [has_values & is_same, has_values & ~is_same]


def compare_dates(
  records: Any,
  rows: Int[np.ndarray, " P"],
  events: Any,
  event_rows: Int[np.ndarray, " P"],
) -> list[np.ndarray]:
  """Returns whether the two of a pair print the same month, day and year."""
  return [
    column
    for name, missing_value in _DATE_FIELDS
    for column in make_agreement_columns(
      getattr(records, name)[rows],
      getattr(events, name)[event_rows],
      missing_value,
    )
  ]


def _find_nearest_events(
  string_index: wording.EventStringIndex,
  texts: Sequence[str],
  self_event: np.ndarray,
) -> tuple[list[np.ndarray], tuple[np.ndarray, ...]]:
  """Returns the pairs of texts and events, with sums over all overlaps."""
  max_overlap, text_weight = np.zeros((2, len(texts)), np.float32)
  max_event_overlap = np.zeros(string_index.event_strings.shape[0], np.float32)
  blocks = [(np.zeros(0, np.int32),) * 2 + (np.zeros(0, np.float32),)]
  for block, (string_matrix,) in string_index.iter_blocks(
    len(texts), lambda block: string_index.encode(texts[block])
  ):
    overlap = string_index.overlap(string_matrix)
    self_of_entry = np.repeat(self_event[block], np.diff(overlap.indptr))
    overlap.data[overlap.indices == self_of_entry] = 0
    overlap.eliminate_zeros()
    text_index, event_index, value = wording.select_top_entries(
      overlap, NUM_CANDIDATES
    )
    blocks.append((text_index + np.int32(block.start), event_index, value))
    max_overlap[block] = wording.row_max(overlap)
    text_weight[block] = string_matrix @ string_index.idf
    np.maximum.at(max_event_overlap, overlap.indices, overlap.data)
  pairs = [np.concatenate(arrays) for arrays in zip(*blocks, strict=True)]
  return pairs, (max_overlap, text_weight, max_event_overlap)


def stack_features(
  make_features: Callable[[slice], list[np.ndarray]], size: int
) -> np.ndarray:
  """Returns the features of `size` pairs, float32 [P, f], made in blocks."""
  result = np.zeros((size, len(make_features(slice(0, 0)))), np.float32)
  for block in cut_blocks(size, _BLOCK):
    result[block] = np.stack(make_features(block), axis=1)
  return result


def rank_within_rows(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
  """Returns the number of pairs in the same row with a greater value, [P]."""
  positions = np.arange(len(rows), dtype=np.int32)
  is_new_row = np.diff(rows, prepend=-1) != 0
  is_new_value = is_new_row | (np.diff(values, prepend=np.inf) != 0)
  value_starts, row_starts = (
    np.maximum.accumulate(np.where(is_new, positions, 0))
    for is_new in (is_new_value, is_new_row)
  )
  return value_starts - row_starts


# Citations of years in commentary, paired with events they may be about.
#
# 「僖二十八年傳曰…」 in a comment dates the event that the next words report,
# and the event itself, undated in the corpus, uses the same rare words. A year
# without a ruler belongs to the ruler named before it in the same text, or to
# the time that the comment explains; these readings of a citation are kept
# apart.

# How the ruler of a year is known: named with it, named before it in the same
# text, or that of the citing record.
NAMED_REIGN, PRECEDING_REIGN, HOST_REIGN = range(3)
# Stretches of text whose wording is compared; the last is all of the text.
CONTEXTS = ("near", "next", "after", "just", "before", "whole")
RIVAL_CONTEXTS = ("after", "whole")  # where near equals are counted
NUM_CITED_EVENTS = 25  # events compared with a citation
_CHARS_AFTER, _CHARS_BEFORE = 40, 30  # characters read around a citation
_DATE_CHARS = 14  # characters after a citation that may continue with its date
_NUM_OVERLAP_FEATURES = 16  # that `make_overlap_features` makes
# A ruler of another state is not in the timeline: 晉文公三年.
_STATE_NAMES = "晉齊宋鄭衛陳蔡曹楚秦許莒邾杞燕滕薛吳越周虢虞紀"
# Characters beside which 三年 is a duration, an age or a rank: 三年之喪,
# 凡三年.
_EXCLUDED_BEFORE = frozenset("公王侯伯子帝宗祖之其凡居後積期比各百千")
_EXCLUDED_AFTER = frozenset("而之矣乃老長者")
# 在 and 見 refer to a year where an event is told, 為 to one that is computed.
_SEE_CHARACTERS, _FOR_CHARACTER = "在見", "為"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Citation:
  """A year named inside a text."""

  host: int  # record whose text it is in, UNKNOWN for a text from outside
  reign: int  # ruler, from 0, or UNKNOWN if the text names none
  preceding_reign: int  # ruler named before it in the same text, or UNKNOWN
  year_number: int  # of the regnal year
  text_after: str  # text after it, up to the next citation
  text_before: str  # text before it, down to the citation before
  host_text: str  # all of the text
  span: tuple[int, int]  # first character of the date in it, and the end
  # Character before it, "" at the beginning of the text.
  preceding_character: str
  work_marker: str  # 經 or 傳 if that follows, else ""

  @property
  def undated_host_text(self) -> str:
    """The text with a line break, which no string crosses, for the date."""
    start, end = self.span
    return f"{self.host_text[:start]}\n{self.host_text[end:]}"


def read_citations(
  axis: MonthAxis, texts: Mapping[int, str] | Sequence[str]
) -> list[Citation]:
  """Returns the citations in plain texts, by record or from outside."""
  is_external = not isinstance(texts, Mapping)
  pattern, rulers = _compile_year_pattern(axis)
  citations = []
  for host, text in enumerate(texts) if is_external else texts.items():
    matches = [
      match for match in pattern.finditer(text) if _is_year(match, text)
    ]
    preceding_reign = UNKNOWN
    # Where the citation before ends and the one after begins.
    previous_ends = [0, *(match.end() for match in matches)]
    next_starts = [*(match.start() for match in matches[1:]), len(text)]
    for match, previous_end, next_start in zip(
      matches, previous_ends, next_starts, strict=False
    ):
      start, end = match.span()
      reign = rulers.get(match["ruler"], UNKNOWN)
      citations.append(
        Citation(
          host=UNKNOWN if is_external else host,
          reign=reign,
          preceding_reign=preceding_reign,
          year_number=parse_numeral(match["year"], "year"),
          text_after=text[end : min(next_start, end + _CHARS_AFTER)],
          text_before=text[max(previous_end, start - _CHARS_BEFORE) : start],
          host_text=text,
          span=(start, end),
          preceding_character=text[max(start - 1, 0) : start],
          work_marker=match["work"] or "",
        )
      )
      preceding_reign = reign if reign != UNKNOWN else preceding_reign
  return citations


def _compile_year_pattern(
  axis: MonthAxis,
) -> tuple[re.Pattern[str], dict[str, int]]:
  rulers: dict[str, int] = {}
  for reign, ruler in enumerate(axis.timeline.reigns):
    name = fold_script(ruler.name)
    rulers[name] = reign
    if len(name) == 2 and name.endswith("公"):
      rulers[name[0]] = reign
  names = "|".join(sorted(map(re.escape, rulers), key=lambda name: -len(name)))
  return (
    re.compile(
      rf"(?:(?<![{_STATE_NAMES}])(?P<ruler>{names}))?"
      rf"(?P<year>元|{NUMERAL_PATTERN})年"
      r"(?P<work>[經傳])?"
    ),
    rulers,
  )


def _is_year(match: re.Match[str], text: str) -> bool:
  return bool(match["ruler"]) or (
    text[: match.start()][-1:] not in _EXCLUDED_BEFORE
    and text[match.end() :][:1] not in _EXCLUDED_AFTER
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CitationPairs:
  """Readings of citations, paired with the events they may be about."""

  citations: tuple[Citation, ...]  # [M]
  citation_index: Int[np.ndarray, " P"]  # index into `citations`
  event_index: Int[np.ndarray, " P"]  # index into the events
  event_hashes: UInt32[np.ndarray, " P"]  # made of the event's text
  reading: Int8[np.ndarray, " P"]  # NAMED_REIGN, PRECEDING_REIGN or HOST_REIGN
  features: Float32[np.ndarray, "P f"]  # of the pair

  @property
  def overlaps(self) -> dict[str, Float32[np.ndarray, " P"]]:
    """Weight of the strings that the two of each pair share, by context."""
    columns, column = {}, 0
    for name in CONTEXTS:
      columns[name] = column
      column += 4 if name in RIVAL_CONTEXTS else 2
    return {
      name: np.expm1(self.features[:, column])
      for name, column in columns.items()
    }


def make_citation_pairs(
  corpus: Corpus,
  event_records: Int[np.ndarray, " E"],
  string_index: wording.EventStringIndex,
  citations: Sequence[Citation],
) -> CitationPairs:
  """Returns each citation paired with the events nearest in wording."""
  encoders = {
    name: lambda block, texts=texts: string_index.encode(texts[block])
    for name, texts in cut_contexts(citations).items()
  }
  encoders["whole"] = lambda block: string_index.encode_without_spans(
    [citation.host_text for citation in citations[block]],
    [citation.span for citation in citations[block]],
  )
  event_weights = string_index.event_weights
  blocks = [
    (np.zeros(0, np.int32),) * 2
    + (np.zeros((0, _NUM_OVERLAP_FEATURES), np.float32),)
  ]
  for block, string_matrices in string_index.iter_blocks(
    len(citations), *encoders.values()
  ):
    overlaps = dict(
      zip(encoders, map(string_index.overlap, string_matrices), strict=True)
    )
    rows, *others = _find_cited_events(overlaps, event_weights)
    blocks.append((rows + np.int32(block.start), *others))
  rows, columns, overlap_features = map(
    np.concatenate, zip(*blocks, strict=True)
  )
  return pair_citations(
    corpus,
    event_records,
    event_weights,
    citations,
    rows=rows,
    columns=columns,
    overlap_features=overlap_features,
  )


def cut_contexts(citations: Sequence[Citation]) -> dict[str, list[str]]:
  """Returns the text around each citation, from near to far."""
  return {
    "near": [citation.text_after[:9] for citation in citations],
    "next": [citation.text_after[:20] for citation in citations],
    "after": [citation.text_after for citation in citations],
    "just": [citation.text_before[-9:] for citation in citations],
    "before": [citation.text_before for citation in citations],
  }


def pair_citations(
  corpus: Corpus,
  event_records: Int[np.ndarray, " E"],
  event_weights: Float32[np.ndarray, " indexed"],
  citations: Sequence[Citation],
  *,
  rows: Int[np.ndarray, " P"],
  columns: Int[np.ndarray, " P"],
  overlap_features: Float32[np.ndarray, "P o"],
) -> CitationPairs:
  """Returns pairs whose wording has been compared, once for every reading.

  Args:
    rows: citation of each pair.
    columns: event of each pair.
    overlap_features: result of `make_overlap_features`.
  """
  *_, year_numbers = number_citations(citations)
  preceding_characters = np.array(
    [citation.preceding_character for citation in citations], str
  )
  work_markers = np.array([citation.work_marker for citation in citations], str)
  text_lengths = np.array(
    [len(citation.text_after) for citation in citations], int
  )
  follows_see = np.isin(preceding_characters, list(_SEE_CHARACTERS))
  months, days = _read_context_dates(citations)
  pair_event_records = event_records[columns].astype(np.int32)

  def features(block: slice) -> list[np.ndarray]:
    citation_index, event_record = rows[block], pair_event_records[block]
    return [
      *overlap_features[block].T,
      follows_see[citation_index],
      preceding_characters[citation_index] == _FOR_CHARACTER,
      preceding_characters[citation_index] == "",
      work_markers[citation_index] == "傳",
      work_markers[citation_index] == "經",
      np.log1p(event_weights[columns[block]]),
      text_lengths[citation_index],
      *make_agreement_columns(
        months[citation_index], corpus.first_month[event_record], 0
      ),
      *make_agreement_columns(
        days[citation_index], corpus.first_day[event_record], -1
      ),
      *make_agreement_columns(
        year_numbers[citation_index], corpus.opening_year[event_record], 0
      ),
    ]

  return _expand_readings(
    citations,
    rows,
    columns,
    corpus.text_hashes[pair_event_records],
    stack_features(features, len(rows)),
  )


def number_citations(citations: Sequence[Citation]) -> Int[np.ndarray, "4 M"]:
  """Returns host, reign, preceding reign and number of the year of each."""
  return (
    np.array(
      [
        (each.host, each.reign, each.preceding_reign, each.year_number)
        for each in citations
      ],
      int,
    )
    .reshape(-1, 4)
    .T
  )


def _find_cited_events(
  overlaps: Mapping[str, scipy.sparse.csr_array], event_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns citations, the events nearest in wording, and features."""
  rows, columns, _ = wording.select_top_entries(
    rank_overlaps(overlaps).tocsr(), NUM_CITED_EVENTS
  )
  values, max_overlaps, num_rivals = {}, {}, {}
  for name, overlap in overlaps.items():
    values[name] = wording.lookup_entries(overlap, rows, columns)
    row_max = wording.row_max(overlap)
    max_overlaps[name] = row_max[rows]
    if name in RIVAL_CONTEXTS:
      rivals = is_rival(values[name], max_overlaps[name])
      num_rivals[name] = np.bincount(
        rows, weights=rivals, minlength=overlap.shape[0]
      )[rows]
  features = make_overlap_features(
    values, max_overlaps, num_rivals, event_weights[columns]
  )
  return rows, columns, features


def rank_overlaps(overlaps: Mapping[str, Any]) -> Any:
  """Returns the overlap that chooses the events paired with a citation."""
  return (
    overlaps["after"]
    + 0.5 * overlaps["before"]
    + 0.5 * overlaps["near"]
    + 0.2 * overlaps["whole"]
  )


def is_rival(
  values: Float32[np.ndarray, "*pairs"],
  max_overlaps: Float32[np.ndarray, "*#pairs"],
) -> Bool[np.ndarray, "*pairs"]:
  """Returns whether an event shares nearly as much as the best one."""
  return (values >= RIVAL_SHARE * max_overlaps) & (values > 0)


def make_overlap_features(
  values: Mapping[str, Float32[np.ndarray, " P"]],
  max_overlaps: Mapping[str, Float32[np.ndarray, " P"]],
  num_rivals: Mapping[str, Num[np.ndarray, " P"]],
  event_weights: Float32[np.ndarray, " P"],
) -> Float32[np.ndarray, "P o"]:
  """Returns the first features of pairs: what of their wording is shared.

  Args:
    values: overlap of each pair by context, in the order of CONTEXTS.
    max_overlaps: greatest overlap of the citation, by context.
    num_rivals: near equals of the best, for each of RIVAL_CONTEXTS.
  """
  features = []
  for name, value in values.items():
    features += [np.log1p(value), value / (max_overlaps[name] + 5)]
    if name in RIVAL_CONTEXTS:
      features += [value / (event_weights + 5), np.log1p(num_rivals[name])]
  return np.stack(features, axis=1).astype(np.float32)


def _expand_readings(
  citations: Sequence[Citation],
  rows: np.ndarray,
  columns: np.ndarray,
  event_hashes: np.ndarray,
  features: np.ndarray,
) -> CitationPairs:
  """Returns the pairs once for every reading of the citation."""
  has_host, has_reign, has_preceding_reign, _ = (
    number_citations(citations)[:, rows] != UNKNOWN
  )
  pairs_by_reading = {
    NAMED_REIGN: np.flatnonzero(has_reign),
    PRECEDING_REIGN: np.flatnonzero(~has_reign & has_preceding_reign),
    HOST_REIGN: np.flatnonzero(~has_reign & has_host),
  }
  order = np.concatenate(list(pairs_by_reading.values()))
  reading = np.repeat(
    list(pairs_by_reading),
    [len(pair_rows) for pair_rows in pairs_by_reading.values()],
  )

  def make_features(block: slice) -> list[np.ndarray]:
    block_reading = reading[block]
    return [
      *features[order[block]].T,
      block_reading == PRECEDING_REIGN,
      block_reading == HOST_REIGN,
    ]

  return CitationPairs(
    citations=tuple(citations),
    citation_index=rows[order],
    event_index=columns[order],
    event_hashes=event_hashes[order],
    reading=reading.astype(np.int8),
    features=stack_features(make_features, len(order)),
  )


def _read_context_dates(
  citations: Sequence[Citation],
) -> tuple[np.ndarray, np.ndarray]:
  """Returns month (0 if none) and day (-1) right after each citation."""
  months, days = [], []
  for citation in citations:
    # The year is put back: a season counts after a year.
    cues = dates.find_date_cues(f"元年{citation.text_after[:_DATE_CHARS]}")
    cue = cues[0] if cues and cues[0].start <= 1 else None
    season = cue and cue.season and 1 + 3 * dates.SEASONS.index(cue.season)
    months.append((cue and (cue.month or season)) or 0)
    days.append(
      sexagenary.parse_cyclic_index(cue.day) if cue and cue.day else -1
    )
  return np.array(months, int), np.array(days, int)
