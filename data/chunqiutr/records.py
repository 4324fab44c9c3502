"""The gallery of the `rebuilt` data set: source files in, records out.

Why: here the rules meet. Entries of the four base texts get months from the
scan and are cut where the month changes; commentary gets months from the text
it annotates; every month without an entry gets a placeholder; what falls
outside the released map is left out and counted. Called by the builder.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import random
from collections.abc import Iterable, Mapping, Sequence

from ctd_jax.chronology import annals
from ctd_jax.chronology.annals import Record
from ctd_jax.chronology.timekey import TimeKey, Timeline
from ctd_jax_datasets.chunqiutr import (
  alignment,
  commentary,
  placeholders,
  sources,
)

SEED = 20
# Commentary of these traditions asks and explains, an annals entry never
# does: a sentence with one of these particles is no new entry.
_EXPLAINING = "也矣者乎何"
_EXEGETIC = (sources.GONGYANG, sources.GULIANG)
_FOLDERS = {
  "zuozhuan_KR1e0001": {"A": sources.ANNALS, "B": sources.ZUOZHUAN},
  "guliangzhuan_KR1e0008": {"": sources.GULIANG},
}
_LINES_FOLDER = "gongyangzhuan_wikisource"
_DU_FOLDER = "duyu_jijie_KR1e0002"
_KONG_FOLDER = "zuozhuan_zhushu_KR1e0004"


@dataclasses.dataclass(frozen=True)
class Dated:
  """A part of an entry with its month.

  Attributes:
    source: of the entry.
    text: the part.
    key: month.
    place: `file:line` of the entry.
  """

  source: str
  text: str
  key: TimeKey
  place: str


@dataclasses.dataclass(frozen=True)
class Gallery:
  """Everything the benchmark retrieves from.

  Attributes:
    records: sorted by id.
    left_out: reason -> number of texts that are in the sources but not here.
  """

  records: tuple[Record, ...]
  left_out: Mapping[str, int]


def build_gallery(
  files: Mapping[str, pathlib.Path], timeline: Timeline, seed: int = SEED
) -> Gallery:
  """Returns the records of the source files.

  Args:
    files: name -> path, as in `checksums.tsv`.
    timeline: months that exist, `lu_release`.
    seed: shuffles the numbers of the ids and draws placeholder wordings.

  Raises:
    sources.SourceError: if a file is not what its parser expects.
  """
  entries, undated = read_entries(files)
  dated = date_entries(entries)
  anchor = alignment.Anchor.of(
    [
      (part.text, part.key)
      for part in dated
      if part.source in (sources.ANNALS, sources.ZUOZHUAN)
    ]
  )
  comments = commentary.parse_du(_files_of(files, _DU_FOLDER), anchor)
  comments += commentary.parse_kong(_files_of(files, _KONG_FOLDER), anchor)
  left_out = collections.Counter(undated=undated)
  records: list[Record] = []
  orders: collections.Counter[str] = collections.Counter()

  def add(source: str, text: str, kind: str, key: TimeKey):
    order = orders[source]
    orders[source] += 1
    if key in timeline:
      records.append(Record("", text, source, kind, key, order))
    else:
      left_out[f"{source} outside the released months"] += 1

  for part in dated:
    add(part.source, part.text, annals.EVENT, part.key)
  for comment in comments:
    add(comment.source, comment.text, annals.NEG_COMMENT, comment.key)
  records += placeholders.fill_months(records, timeline, seed)
  return Gallery(number_records(records, seed), dict(left_out))


def number_records(records: Iterable[Record], seed: int) -> tuple[Record, ...]:
  """Returns the records with ids `r00000`..., sorted by id.

  The numbers are shuffled, so that an id tells nothing about time or source.
  """
  records = list(records)
  random.Random(seed).shuffle(records)
  return tuple(
    dataclasses.replace(record, record_id=f"r{number:05d}")
    for number, record in enumerate(records)
  )


def read_entries(
  files: Mapping[str, pathlib.Path],
) -> tuple[list[sources.Entry], int]:
  """Returns the entries of all base texts and how many have no year."""
  entries: list[sources.Entry] = []
  undated = 0
  for folder, layers in _FOLDERS.items():
    for path in _files_of(files, folder):
      found, without_year = sources.parse_numbered(path, layers)
      entries += found
      undated += without_year
  for path in _files_of(files, _LINES_FOLDER):
    entries += sources.parse_lines(path, sources.GONGYANG)
  return entries, undated


def date_entries(entries: Sequence[sources.Entry]) -> list[Dated]:
  """Returns the entries cut where the month changes, in the given order.

  Each source is one scan: 經 and 傳 of a year stand one after the other in
  KR1e0001, and the second begins at 正月 again.
  """
  scanners: dict[str, annals.Scanner] = collections.defaultdict(annals.Scanner)
  dated = []
  for entry in entries:
    scanner = scanners[entry.source]
    scanner.enter_reign(entry.reign)
    if entry.year is not None:
      scanner.enter_year(entry.year)
    stop = _EXPLAINING if entry.source in _EXEGETIC else ""
    for text, key in annals.split_entry(entry.text, scanner, stop):
      dated.append(Dated(entry.source, text, key, entry.place))
  return dated


def _files_of(
  files: Mapping[str, pathlib.Path], folder: str
) -> list[pathlib.Path]:
  """Returns the paths whose name begins with `folder`, in order of name."""
  found = [files[name] for name in sorted(files) if name.startswith(folder)]
  if not found:
    raise sources.SourceError(f"no source file of {folder}/ was given")
  return found
