"""Large corpora: experts learn from a sample, and all records are found.

Weights, words, citations and what is kept of records without a label come from
a sample of a fixed size. The strings and the months of all records are kept, so
that a passage finds its parallel wherever it is; a string that no second record
holds is left out.

Axes: N records, n of the sample.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence

import numpy as np
from absl import logging
from jaxtyping import Int

from ctd_jax.chronology.timelines import Timeline
from ctd_jax.dating.chronicle.month_calendar import Calendar
from ctd_jax.dating.corpus import UNKNOWN, Labels, plain_text
from ctd_jax.dating.passages import corpus_fitting, wording_index
from ctd_jax.dating.passages.passage_scores import CorpusState
from ctd_jax.dating.passages.text_table import TextTable
from ctd_jax.dating.posterior import CredibleBlock

MAX_FITTED_RECORDS = 100_000  # that experts learn from
_MIN_TEXTS = 2  # that must hold a string


def fit_large_corpus(
  texts: Sequence[str],
  labels: Labels,
  calendar: Timeline | Calendar,
  posteriors: CredibleBlock | None,
  row_ids: Int[np.ndarray, " N"],
) -> CorpusState:
  """Returns what is kept of a large corpus; see `PassageDater.fit`."""
  rows = _sample_rows(texts)
  logging.info(
    "passages: learning from %s of %s records", f"{len(rows):,}", len(texts)
  )
  state = corpus_fitting.fit_corpus_state(
    [texts[row] for row in rows],
    Labels(labels.month[rows], labels.event_labels[rows]),
    calendar,
    None if posteriors is None else _take_posteriors(posteriors, rows),
    row_ids[rows],
    (),
  )
  # Of a kind that is not known a record counts as an event.
  is_event = labels.event_labels != 0
  is_event[rows] = state.wording.is_event[: len(rows)]
  cited = state.cited.renumber(rows, len(texts))
  wording = wording_index.build_wording_index(
    [plain_text(text) for text in texts],
    is_event,
    [cited.read_citation(row) for row in range(len(cited.numbers))],
    _MIN_TEXTS,
  )
  return dataclasses.replace(
    state,
    texts=TextTable.from_texts(texts),
    row_ids=np.asarray(row_ids, np.int64),
    months=np.asarray(labels.month, np.int32),
    wording=wording,
    records=state.records.renumber(
      rows, len(texts), wording_index.weigh_texts(wording)
    ),
    hidden=dataclasses.replace(state.hidden, rows=rows[state.hidden.rows]),
    cited=cited,
  )


def _sample_rows(texts: Sequence[str]) -> Int[np.ndarray, " n"]:
  """Returns the records to learn from, by their texts and not their order."""
  hashes = np.array([zlib.crc32(text.encode()) for text in texts])
  order = np.argsort(hashes, kind="stable")
  return np.sort(order[:MAX_FITTED_RECORDS])


def _take_posteriors(
  posteriors: CredibleBlock, rows: np.ndarray
) -> CredibleBlock:
  """Returns the posteriors of some records, by their number among these."""
  index = np.full(int(max(rows.max(), posteriors.rows.max(initial=0))) + 1, -1)
  index[rows] = np.arange(len(rows))
  taken = posteriors.select(index[posteriors.rows] != UNKNOWN)
  return dataclasses.replace(taken, rows=index[taken.rows])
