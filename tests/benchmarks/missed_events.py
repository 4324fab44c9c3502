"""Evidence that the linked dater had for the events whose month it misses.

  python -m tests.benchmarks.missed_events --data_dir=DIR --split=validation \\
    [--trained=FOLDER] [--seed=42] [--outside=FOLDER] [--rows=FILE]

Every event of the split is counted by the strongest evidence of its right year:

  cited      a citation of that year stands among its links
  linked     a linked record is of that year and is itself dated to it
  unsure     a linked record is of that year, and is not dated to it
  unlinked   no link, but some citation of that year in the texts shares a
             string of three characters with the event
  nothing    none of these: no text says it

and by what came of it: the month is right, the year alone, or neither. What is
cited or linked and yet missed was outweighed. Events that read as commentary
are left out; how many is said.

Then the questions are ranked as if the months of some were known: of `cited`
events (right-cited), of these and `linked` ones (right-linked), and so on. That
is what a better use of the evidence could reach, and what needs more of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import pathlib
import shlex
import sys

import numpy as np

from ctd_jax.benchmark.records import EVENT
from ctd_jax.dating.corpus import UNKNOWN, Labels
from ctd_jax.dating.experts import citations
from ctd_jax.dating.linked.linked_model import (
  FittedLinkedModel,
  LinkedDatingModel,
)
from ctd_jax.dating.linked.trained_dater import TrainedDater
from ctd_jax.evaluation import comparison, results
from ctd_jax.systems import dated_gallery, linked_dating
from ctd_jax.utils import provenance, tables
from ctd_jax_datasets import load
from tests.benchmarks import dating
from tests.benchmarks.result_steps import EVENT_EVIDENCE

OUTCOMES = ("month", "year", "neither")
_SHARED_CHARS = 3  # of a string that makes two texts alike
DATASET = "evidence"


def find_evidence(
  model: FittedLinkedModel, rows: np.ndarray, months: np.ndarray
) -> list[str]:
  """Returns the strongest evidence of the right year of each event.

  Args:
    model: fitted on the labels of train records.
    rows: the events, by their style too, not labelled.
    months: right ordinal month of every record.
  """
  features, axis = model.features, model.features.axis
  years = axis.year_of[months]
  log_p = model.predict().log_p(np.arange(len(features.corpus)))
  predicted = axis.to_years(log_p).argmax(axis=1)
  records = model.read_records(model.labels)
  events, index_of = (
    records.inputs.events,
    {row: index for index, row in enumerate(records.event_rows)},
  )
  # Labels of the split are read here, to judge what the model had.
  judged = Labels(months, np.zeros(len(months), int))
  pairs = features.citation_pairs
  cited_years = citations.resolve_years(axis, pairs, judged)
  strings_of_year = _collect_strings(pairs, cited_years)
  result = []
  for row in rows:
    index, year = index_of[row], years[row]
    cited = records.cited_pairs[index]
    linked = np.concatenate(
      [
        records.event_rows[
          events.parallels.source[index][events.parallels.is_link[index]]
        ],
        records.comment_rows[
          events.comments.source[index][events.comments.is_link[index]]
        ],
      ]
    )
    linked = linked[years[linked] == year]
    strings = _list_strings(features.corpus.bodies[row])
    if (cited_years[cited[cited != UNKNOWN]] == year).any():
      result.append("cited")
    elif (predicted[linked] == year).any():
      result.append("linked")
    elif len(linked):
      result.append("unsure")
    elif strings & strings_of_year.get(year, set()):
      result.append("unlinked")
    else:
      result.append("nothing")
  return result


def _list_strings(text: str) -> set[str]:
  return {
    text[start : start + _SHARED_CHARS]
    for start in range(len(text) - _SHARED_CHARS + 1)
  }


def _collect_strings(pairs, cited_years: np.ndarray) -> dict[int, set[str]]:
  """Returns the strings that stand behind the citations of each year."""
  result: dict[int, set[str]] = {}
  for citation, year in dict(
    zip(pairs.citation_index.tolist(), cited_years.tolist(), strict=True)
  ).items():
    if year != UNKNOWN:
      text = pairs.citations[citation].text_after
      result.setdefault(year, set()).update(_list_strings(text))
  return result


def judge(
  model: FittedLinkedModel, rows: np.ndarray, months: np.ndarray
) -> list[str]:
  """Returns what came of each event, of OUTCOMES."""
  log_p = model.predict().log_p(rows)
  year_of = model.features.axis.year_of
  years = model.features.axis.to_years(log_p).argmax(axis=1)
  return np.select(
    [log_p.argmax(axis=1) == months[rows], years == year_of[months[rows]]],
    OUTCOMES[:2],
    OUTCOMES[2],
  ).tolist()


def rank_as_if_right(
  gallery: dated_gallery.DatedGallery,
  split: str,
  rows: np.ndarray,
  evidence: list[str],
  months: np.ndarray,
) -> list:
  """Returns the tables of questions, the months of more and more events right.

  Args:
    gallery: dated by the model.
    split: of the questions.
    rows: the events.
    evidence: of each.
    months: right ordinal month of every record.
  """
  posterior = gallery.make_posterior("fitted")
  is_right = np.zeros(len(rows), bool)
  question_tables = []
  for name in EVENT_EVIDENCE:
    is_right |= np.array(evidence) == name
    certain_months = posterior.certain_months.copy()
    certain_months[rows[is_right]] = months[rows[is_right]]
    question_tables += dating.per_query(
      gallery,
      dataclasses.replace(posterior, certain_months=certain_months),
      split,
      f"right-{name}",
    )
  return question_tables


def main() -> None:
  """Reads the flags, counts and prints."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--name", default="chunqiutr/rebuilt")
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--split", default="validation")
  parser.add_argument("--seed", type=int, default=42)
  parser.add_argument("--trained", help="folder of a trained dater")
  parser.add_argument("--outside", type=pathlib.Path)
  parser.add_argument("--rows", type=pathlib.Path, help="file of result rows")
  flags = parser.parse_args()
  benchmark = load.load_benchmark(flags.name, flags.data_dir)
  if flags.trained:
    model = LinkedDatingModel.from_trained(TrainedDater.load(flags.trained))
  else:
    model = linked_dating.make_linked_model(
      linked_dating.LinkedConfig(), flags.seed
    )
  notes = ()
  if flags.outside:
    notes = dated_gallery.read_bracket_notes(flags.outside)
  gallery = dated_gallery.read_dated_gallery(benchmark, notes, model)
  rows = np.flatnonzero(
    (np.array(benchmark.record_splits) == flags.split)
    & (benchmark.kinds == EVENT)
  )
  months = np.array(
    [benchmark.timeline.ordinal(record.key) for record in benchmark.records]
  )
  fitted = gallery.fitted_model
  is_event = fitted.features.is_event[rows]
  if not is_event.all():
    print(f"{(~is_event).sum()} of {len(rows)} read as commentary: left out")
  rows = rows[is_event]
  evidence = find_evidence(fitted, rows, months)
  outcomes = judge(fitted, rows, months)
  counts = {
    name: [
      sum(
        pair == (name, outcome) for pair in zip(evidence, outcomes, strict=True)
      )
      for outcome in OUTCOMES
    ]
    for name in EVENT_EVIDENCE
  }
  print(
    tables.format_aligned_table(
      f"{len(rows)} events of {benchmark.name}, {flags.split}",
      ("evidence", *OUTCOMES),
      [(name, *map(str, values)) for name, values in counts.items()],
    )
  )
  question_tables = rank_as_if_right(
    gallery, flags.split, rows, evidence, months
  )
  measures = ("hit@1", "mrr@10", "ndcg@10")
  print(
    tables.format_aligned_table(
      "questions, ranked as if the months of these events were known",
      ("events", "questions", *measures),
      [
        (
          table.system,
          table.mode,
          *(f"{table.means_by_measure()[each]:.3f}" for each in measures),
        )
        for table in question_tables
      ],
    )
  )
  if flags.rows:
    source = {
      "seeds": (flags.seed,),
      "command": shlex.join(
        ["python", "-m", "tests.benchmarks.missed_events", *sys.argv[1:]]
      ),
      "commit": provenance.code_commit(),
    }
    years = comparison.find_query_years(benchmark, flags.split)
    question_rows = itertools.chain.from_iterable(
      results.make_result_rows(table, benchmark.name, years, **source)
      for table in question_tables
    )
    results.write_result_rows(
      flags.rows,
      [
        results.ResultRow(
          f"{DATASET}/{benchmark.name}",
          name,
          gallery.track,
          dated_gallery.SCORE_MODE,
          flags.split,
          "hidden_events",
          "all",
          outcome,
          float(value),
          **source,
        )
        for name, values in counts.items()
        for outcome, value in zip(OUTCOMES, values, strict=True)
      ]
      + [*question_rows],
    )


if __name__ == "__main__":
  main()
