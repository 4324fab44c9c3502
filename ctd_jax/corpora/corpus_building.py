"""Building of a dated corpus: all its works, then what became of them."""

from __future__ import annotations

import collections
import functools
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import ctd_jax
from ctd_jax.corpora import corpus_files, shards, work_steps
from ctd_jax.corpora.corpus_files import CorpusFile, CorpusLinks, WorkOutcome
from ctd_jax.corpora.links import groups, linking
from ctd_jax.corpora.shards import Shard
from ctd_jax.corpora.work_steps import CorpusSettings
from ctd_jax.dating.chronicle import western_calendar
from ctd_jax.retrieval import lance_tables
from ctd_jax.utils import progress
from ctd_jax.utils.beam_runner import MapItems

_MAX_NAMED = 5  # works in the summary


def build_corpus(
  paths: Sequence[pathlib.Path],
  settings: CorpusSettings,
  map_items: MapItems[Any, Any] = map,
) -> CorpusFile:
  """Dates and encodes the works of a corpus; returns what became of them.

  Then its works are linked and its shards are made, if it is to have any.

  Args:
    paths: as of `work_steps.list_sources`.
    settings: of the corpus.
    map_items: maps what is read by itself, then what links it, then the shards;
      see `beam_runner`.

  Raises:
    FileNotFoundError: if a path, calendar or encoder is not there.
    ValueError: naming the flag that is wrong.
  """
  out = pathlib.Path(settings.out)
  corpus_files.check_folder(out)
  _check_shards(settings)
  sources = work_steps.list_sources(paths)
  _check_apart(out, sources)
  # Errors before any dating.
  if not western_calendar.is_western_name(settings.reigns):
    work_steps.load_calendar(settings.reigns)
  encoder = (
    work_steps.open_encoder(settings.encoder).sha256 if settings.encoder else ""
  )
  build_source = functools.partial(work_steps.build_source, settings)
  outcomes = [
    outcome
    for of_source in progress.Progress(
      map_items(build_source, sources), "corpus", len(sources), unit="source"
    )
    for outcome in of_source
  ]
  outcomes = _refuse_parts(
    sorted(outcomes, key=lambda outcome: (outcome.source, outcome.work))
  )
  works = tuple(outcome for outcome in outcomes if not outcome.error)
  links = None
  if settings.has_links:
    links = linking.link_works(settings.out, works, map_items)
  corpus = CorpusFile(
    version=ctd_jax.__version__,
    reigns=settings.reigns,
    encoder=encoder,
    works=works,
    links=links,
    failed=tuple(outcome for outcome in outcomes if outcome.error),
  )
  shards.remove_list(out)
  corpus_files.write_corpus_file(out, corpus)
  groups.remove_folders(out)
  _write_shards(settings, corpus, map_items)
  return corpus


def _check_shards(settings: CorpusSettings) -> None:
  """Raises an error if shards are asked for that cannot be made."""
  if settings.shard_rows is not None:
    if settings.encoder is None:
      raise ValueError(
        f"--shard_rows={settings.shard_rows}: shards hold vectors; name an "
        "--encoder"
      )
    lance_tables.import_lancedb("--shard_rows")


def _write_shards(
  settings: CorpusSettings, corpus: CorpusFile, map_items: MapItems[Any, Any]
) -> None:
  """Makes the shards of a corpus and removes those of another one."""
  planned: list[Shard] = []
  if settings.shard_rows is not None:
    planned = shards.plan_shards(corpus, settings.shard_rows)
  write_shard = functools.partial(shards.write_shard, settings.out)
  for _ in progress.Progress(
    map_items(write_shard, planned) if planned else (),
    "shards",
    len(planned),
    unit="shard",
  ):
    pass
  if planned:
    shards.write_list(pathlib.Path(settings.out), planned)
  shards.remove_others(pathlib.Path(settings.out), planned)


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
  if corpus.links is not None:
    lines += _format_links(corpus.links, corpus.sections)
  for number, outcome in enumerate(corpus.failed[:_MAX_NAMED]):
    label = "" if number else "not dated"
    name = outcome.work or pathlib.Path(outcome.source).name
    lines.append(f"{label:<13}{name}: {outcome.error}")
  if len(corpus.failed) > _MAX_NAMED:
    lines.append(f"{'':<13}and {len(corpus.failed) - _MAX_NAMED:,} more")
  lines.append(f"{'written':<13}{out}")
  return "\n".join(lines)


def _format_links(links: CorpusLinks, num_sections: int) -> list[str]:
  """Returns what came of links, and what was left out."""
  statements = [
    f"{links.linked_sections:,} of {links.read_sections:,} sections, by "
    f"{links.links:,} links",
    f"{links.common_strings:,} of {links.shared_strings:,} strings that "
    f"sections share left out: more than {links.max_sections:,} hold them",
  ]
  if rest := num_sections - links.read_sections:
    statements.append(
      f"{rest:,} sections not compared: headings, or without two Han "
      "characters beside the date"
    )
  if links.cut_sections:
    statements.append(
      f"{links.cut_sections:,} sections have more links than are kept"
    )
  labels = ["linked", *[""] * len(statements)]
  return [
    f"{label:<13}{statement}"
    for label, statement in zip(labels, statements, strict=False)
  ]
