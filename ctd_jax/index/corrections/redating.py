"""Dating again: the works of an index whose corrections have changed.

Each is read from where it was added from, as it was added then, and only if it
is still the same text. The other works of its data set are read too, for they
date it, and stay as they are.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Collection, Mapping

from absl import logging

from ctd_jax.index.building import index_builder, staged_works
from ctd_jax.index.building.group_dating import UNDATED, DatingChoices
from ctd_jax.index.building.index_builder import BuildOptions, BuildResult
from ctd_jax.index.building.sources import SourceRequest, SourceWork
from ctd_jax.index.building.staged_works import DatedWith
from ctd_jax.index.corrections import correction_checks
from ctd_jax.index.index_folder import IndexFolder
from ctd_jax.index.storage import correction_spans, manifest
from ctd_jax.index.storage.corrections import Correction
from ctd_jax.index.storage.database import ORDER, IndexedWork
from ctd_jax.utils.notes import Note


@dataclasses.dataclass(frozen=True)
class RedateResult:
  """What dating again did.

  Attributes:
    build: of the works that were dated again; None if there were none.
    problems: why others were not, each with what to do.
  """

  build: BuildResult | None
  problems: tuple[Note | str, ...]


def redate_index(folder: pathlib.Path) -> RedateResult:
  """Dates the works again whose corrections have changed.

  Args:
    folder: of the index.

  Raises:
    FileNotFoundError: if there is no index.
    ValueError: if a build goes wrong; the index is what it was.
  """
  index = IndexFolder.open(folder)
  works = {work.name: work for work in index.works}
  pending = correction_checks.pending_works(index)
  dated_with, problems = {}, []
  by_request: dict[SourceRequest, list[str]] = {}
  for name in pending:
    row = staged_works.read_dated_with(folder / works[name].folder)
    if row.source is None:
      problems.append(
        f"{name}: the index does not say how it was added; add it again, "
        f"--add={works[name].source}, which dates it with its corrections"
      )
      continue
    dated_with[name] = row
    by_request.setdefault(row.source, []).append(name)
  read: list[SourceWork] = []
  targets: list[str] = []
  for request, names in by_request.items():
    try:
      for name in names:
        _check_fixed(index, works[name], dated_with[name])
      read += _read_again(folder, request, names, works)
    except (FileNotFoundError, ValueError) as error:
      problems.append(Note("problem.at", place=", ".join(names), problem=error))
    else:
      targets += names
  build = None
  if targets:
    build = index_builder.build_works(
      folder,
      read,
      BuildOptions(
        choices=_choose_again(folder, targets, dated_with),
        use_passages=index.manifest.is_for_passages,
      ),
      targets=targets,
    )
  return RedateResult(build, tuple(problems))


def _read_again(
  folder: pathlib.Path,
  request: SourceRequest,
  names: Collection[str],
  works: Mapping[str, IndexedWork],
) -> list[SourceWork]:
  """Returns the works of a source that the index has.

  Raises:
    FileNotFoundError: if the source is gone.
    ValueError: naming what of it has changed.
  """
  argument = request.format_argument(folder)
  path = request.find_path(folder)
  if path is not None and not path.exists():
    raise FileNotFoundError(Note("problem.build.gone", file=path))
  read = {work.name: work for work in request.read(folder)}
  groups = {read[name].group for name in names if name in read}
  for name in names:
    if name not in read:
      raise ValueError(Note("problem.build.not_there", file=argument))
  same = []
  for name, work in read.items():
    if name not in works:
      logging.info(
        "%s of %s is not in the index, and stays out", name, argument
      )
    elif work.group in groups and not _is_same(work, works[name]):
      raise ValueError(
        Note(
          "problem.build.changed",
          file=argument,
          name=name,
          flag=f"--add={argument}",
        )
      )
    elif work.group in groups:
      same.append(work)
  return same


def _is_same(work: SourceWork, indexed: IndexedWork) -> bool:
  return work.hash_contents() == indexed.sha256


def _check_fixed(
  index: IndexFolder, work: IndexedWork, dated_with: DatedWith
) -> None:
  """Refuses a file of --fixed that is gone, has changed or is contradicted.

  Raises:
    FileNotFoundError: if it is gone.
    ValueError: if it has changed; naming the correction of a record that it
      dates.
  """
  if dated_with.fixed is None:
    return
  path = index.folder / dated_with.fixed
  if not path.is_file():
    raise FileNotFoundError(
      Note("problem.build.gone_fixed", file=path, work=work.name)
    )
  if manifest.hash_file(path).sha256 != dated_with.fixed_sha256:
    raise ValueError(
      Note("problem.build.changed_fixed", file=path, work=work.name)
    )
  for correction in index.corrections.active(work.name):
    if correction.correction_id not in dated_with.corrections:
      _check_correction(index, work, correction)


def _check_correction(
  index: IndexFolder, work: IndexedWork, correction: Correction
) -> None:
  """Refuses a correction of a record that --fixed dates.

  Raises:
    ValueError: naming both.
  """
  row_of = correction_spans.find_rows(
    index.folder, work.name, correction_spans.list_ends([correction])
  )
  first = row_of.get(correction.first_record)
  last = row_of.get(correction.last_record)
  if first is None or last is None or last < first:
    return  # left out by the build
  try:
    correction_checks.check_fixed_rows(index, work, range(first, last + 1))
  except ValueError as error:
    raise ValueError(
      Note(
        "problem.build.correction",
        number=correction.correction_id,
        record=correction.record_span,
        problem=error,
      )
    ) from None


def _choose_again(
  folder: pathlib.Path,
  names: Collection[str],
  dated_with: Mapping[str, DatedWith],
) -> DatingChoices:
  """Returns the choices that works were added with."""

  def list_names(manner: str) -> tuple[str, ...]:
    return tuple(name for name in names if dated_with[name].manner == manner)

  return DatingChoices(
    in_order=list_names(ORDER),
    undated=list_names(UNDATED),
    fixed_of={
      name: folder / dated_with[name].fixed
      for name in names
      if dated_with[name].fixed is not None
    },
  )
