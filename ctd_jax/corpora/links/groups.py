"""Groups of works, which are linked in three steps with files in between.

  strings, of a group     which of its sections hold which string
  parts, of all strings   which sections of the corpus hold those of a part
  links, of a group       of each of its works, by the parts

Strings are cut into parts by their hashes, so that no process holds those of a
corpus. The files between the steps lie beside the corpus, in a folder that is
named by all that they are made from, until the last step is done.
"""

from __future__ import annotations

import hashlib
import pathlib
import shutil
from collections.abc import Sequence

import msgspec
import pyarrow as pa
from pyarrow import feather

import ctd_jax
from ctd_jax.corpora.corpus_files import WorkOutcome
from ctd_jax.utils import files

_VERSION = 1  # raised when the same is made into other links
_GROUP_CHARACTERS = 2**19  # of works whose strings are read at once
_PART_OCCURRENCES = 2**22  # of strings that are joined at once
_MAX_SECTIONS = 2**31 - 1
_PREFIX = ".links-"
_NAME_DIGITS = 12
_HASH_BITS = 64


class WorkGroup(msgspec.Struct, frozen=True, kw_only=True):
  """Works that follow each other.

  Attributes:
    number: of the group, from 0.
    first_section: of its first work, among those of the corpus.
    works: at least one.
  """

  number: int
  first_section: int
  works: tuple[WorkOutcome, ...]


class LinkPlan(msgspec.Struct, frozen=True, kw_only=True):
  """What the steps have to know of the corpus.

  Attributes:
    out: its folder.
    fingerprint: of all that the links are made from.
    group_starts: first section of every group.
    num_sections: that hold a string; 0 before the first step is done.
    part_bits: of a hash, that say the part of its string.
  """

  out: str
  fingerprint: str
  group_starts: tuple[int, ...]
  num_sections: int = 0
  part_bits: int = 0

  @property
  def num_parts(self) -> int:
    """Number of parts of the strings."""
    return 1 << self.part_bits

  @property
  def folder(self) -> pathlib.Path:
    """Of the files between the steps."""
    return pathlib.Path(self.out) / (_PREFIX + self.fingerprint[:_NAME_DIGITS])

  def find_path(self, kind: str, number: int) -> pathlib.Path:
    """Returns the path of a file between the steps.

    Args:
      kind: "strings" or "sections" of a group, or "part" of the strings.
      number: of the group or part.
    """
    # Names of parts say how many there are, too.
    prefix = f"{self.part_bits}-" if kind == "part" else ""
    return self.folder / f"{kind}-{prefix}{number:06}.arrow"

  def with_strings(self, num_sections: int, num_occurrences: int) -> LinkPlan:
    """Returns the plan after the first step.

    Args:
      num_sections: that hold a string.
      num_occurrences: of strings in sections.
    """
    num_parts = -(-num_occurrences // _PART_OCCURRENCES)
    return msgspec.structs.replace(
      self,
      num_sections=num_sections,
      part_bits=max(num_parts - 1, 0).bit_length(),
    )

  def bounds_of_part(self, number: int) -> tuple[int, int]:
    """Returns the first and the last hash of a part."""
    shift = _HASH_BITS - self.part_bits
    return number << shift, ((number + 1) << shift) - 1


def plan_groups(
  out: str, works: Sequence[WorkOutcome]
) -> tuple[LinkPlan, list[WorkGroup]]:
  """Returns how the works of a corpus are linked.

  Args:
    out: folder of the corpus.
    works: that are dated, in order.

  Raises:
    ValueError: if there are more sections than are counted.
  """
  digest = hashlib.sha256(f"{_VERSION} {ctd_jax.__version__}".encode())
  groups: list[WorkGroup] = []
  members: list[WorkOutcome] = []
  characters = first_section = num_sections = 0
  for index, work in enumerate(works):
    digest.update(f"\n{work.name} {work.fingerprint}".encode())
    members.append(work)
    characters += work.characters
    num_sections += work.sections
    if characters >= _GROUP_CHARACTERS or index == len(works) - 1:
      groups.append(
        WorkGroup(
          number=len(groups), first_section=first_section, works=tuple(members)
        )
      )
      members, characters, first_section = [], 0, num_sections
  if num_sections > _MAX_SECTIONS:
    raise ValueError(
      f"--links: {num_sections:,} sections, and {_MAX_SECTIONS:,} can be "
      "linked; date them as several corpora"
    )
  plan = LinkPlan(
    out=out,
    fingerprint=digest.hexdigest(),
    group_starts=tuple(group.first_section for group in groups),
  )
  return plan, groups


def write_table(path: pathlib.Path, table: pa.Table) -> None:
  """Writes a table whole, to be read by `open_table`."""
  with files.atomic_path(path) as temporary:
    feather.write_feather(
      table,
      str(temporary),
      compression="uncompressed",
      chunksize=max(len(table), 1),
    )


def open_table(path: pathlib.Path) -> dict[str, pa.Array]:
  """Returns the columns of a table, of which is read what is looked at."""
  table = feather.read_table(str(path), memory_map=True)
  return {
    name: column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    for name, column in zip(table.column_names, table.columns, strict=True)
  }


def remove_folders(out: pathlib.Path, plan: LinkPlan | None = None) -> None:
  """Removes the files between the steps.

  Args:
    out: folder of the corpus.
    plan: whose files stay.
  """
  for path in out.glob(f"{_PREFIX}*"):
    if plan is None or path != plan.folder:
      shutil.rmtree(path, ignore_errors=True)
