"""Building of a dated corpus: all its works, then what became of them."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterable, Sequence

import ctd_jax
from ctd_jax.corpora import beam_runner, corpus_files, work_steps
from ctd_jax.corpora.corpus_files import CorpusFile, WorkOutcome
from ctd_jax.corpora.work_steps import CorpusSettings
from ctd_jax.dating.chronicle import western_calendar
from ctd_jax.utils import progress

LOCAL = "local"  # runner: this process
_MAX_NAMED = 5  # works in the summary


def build_corpus(
  paths: Sequence[pathlib.Path],
  settings: CorpusSettings,
  runner: str = LOCAL,
  workers: int = 1,
  runner_arguments: Sequence[str] = (),
) -> CorpusFile:
  """Dates and encodes the works of a corpus; returns what became of them.

  Args:
    paths: as of `work_steps.list_sources`.
    settings: of the corpus.
    runner: `LOCAL` or one of Beam.
    workers: processes, where the runner is on this machine.
    runner_arguments: flags of the runner.

  Raises:
    FileNotFoundError: if a path, calendar or encoder is not there.
    ValueError: naming the flag that is wrong.
  """
  out = pathlib.Path(settings.out)
  corpus_files.check_folder(out)
  sources = work_steps.list_sources(paths)
  _check_apart(out, sources)
  # Errors before any dating.
  if not western_calendar.is_western_name(settings.reigns):
    work_steps.load_calendar(settings.reigns)
  encoder = (
    work_steps.open_encoder(settings.encoder).sha256 if settings.encoder else ""
  )
  if runner == LOCAL:
    outcomes = _build_here(sources, settings)
  else:
    outcomes = beam_runner.run_steps(
      sources, settings, runner, workers, runner_arguments
    )
  outcomes = _refuse_parts(
    sorted(outcomes, key=lambda outcome: (outcome.source, outcome.work))
  )
  corpus = CorpusFile(
    version=ctd_jax.__version__,
    reigns=settings.reigns,
    encoder=encoder,
    works=tuple(outcome for outcome in outcomes if not outcome.error),
    failed=tuple(outcome for outcome in outcomes if outcome.error),
  )
  corpus_files.write_corpus_file(out, corpus)
  return corpus


def _build_here(
  sources: Sequence[str], settings: CorpusSettings
) -> list[WorkOutcome]:
  """Returns the outcomes of all works, one source after another."""
  outcomes = []
  for source in progress.Progress(sources, "corpus", unit="source"):
    for outcome in work_steps.date_source(settings, source):
      if settings.encoder:
        outcome = work_steps.encode_work(settings, outcome)
      outcomes.append(outcome)
  return outcomes


def _check_apart(out: pathlib.Path, sources: Iterable[str]) -> None:
  """Raises an error if the output would be read the next time."""
  for source in map(pathlib.Path, sources):
    if out.resolve().is_relative_to(source):
      raise ValueError(
        f"--out={out}: lies in {source}, which is read; name another folder"
      )


def _refuse_parts(outcomes: Sequence[WorkOutcome]) -> list[WorkOutcome]:
  """Returns the outcomes, of which parts of one work are errors.

  Files that lie in one folder and name the same work are its parts; dated
  apart, those behind the first would not know their year.
  """
  sources: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
  for outcome in outcomes:
    if outcome.work:
      parent = str(pathlib.Path(outcome.source).parent)
      sources[parent, outcome.work].append(outcome.source)
  result = []
  for outcome in outcomes:
    parent = str(pathlib.Path(outcome.source).parent)
    parts = sources[parent, outcome.work] if outcome.work else ()
    if len(parts) > 1:
      outcome = WorkOutcome(
        source=outcome.source,
        work=outcome.work,
        error=f"{len(parts)} sources hold parts of it, of which the first is "
        f"{parts[0]}: put them into a folder of their own",
      )
    result.append(outcome)
  return result


def format_summary(out: pathlib.Path, corpus: CorpusFile) -> str:
  """Returns what became of a corpus, for people.

  Args:
    out: its folder.
    corpus: as of `build_corpus`.
  """
  warned = sum(bool(work.warnings) for work in corpus.works)
  lines = [
    f"{'dated':<13}{len(corpus.works):,} works, {corpus.sections:,} sections"
  ]
  if warned:
    lines.append(f"{'warnings':<13}of {warned:,} works, see corpus.json")
  for number, outcome in enumerate(corpus.failed[:_MAX_NAMED]):
    label = "" if number else "not dated"
    name = outcome.work or pathlib.Path(outcome.source).name
    lines.append(f"{label:<13}{name}: {outcome.error}")
  if len(corpus.failed) > _MAX_NAMED:
    lines.append(f"{'':<13}and {len(corpus.failed) - _MAX_NAMED:,} more")
  lines.append(f"{'written':<13}{out}")
  return "\n".join(lines)
