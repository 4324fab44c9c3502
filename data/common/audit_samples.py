"""Samples of records for reading by eye, verdicts, and rates of error.

A sample has a stratum for each source and kind of record, and each record
represents its share of the stratum. A rate is the weighted share with its 95 %
Wilson interval for the effective size of the sample.
"""

import collections
import dataclasses
import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ctd_jax.benchmark.benchmark import EVENT, NEG_COMMENT, NO_EVENT, Record
from ctd_jax.utils import files, output

# A stratum gets at least this share of an equal share of the sample, so that
# even a short work is read.
_LEAST_SHARE = 1 / 3
_Z_95 = 1.959964  # normal quantile of a two-sided 95 % interval

CORRECT = "ok"
# Kinds of error: verdict -> what is wrong.
ERRORS = {
  "month": "filed under another month than the source gives",
  "cut": "text begins or ends at the wrong place",
  "kind": "no event, or an event missed",
  "text": "marks or damage in the text",
}
# Not an error by the rules of the data set, but a reader would place it
# elsewhere.
CONVENTION = "convention"
VERDICTS = (CORRECT, *ERRORS, CONVENTION)
_SEPARATOR = "+"  # between verdicts on one record


@dataclasses.dataclass(frozen=True)
class SampledRecord:
  """A record of a sample."""

  record: Record  # as in the data set
  weight: float  # records of the data set that it stands for
  # Of source, kind, month and text; equal in another version if the record is.
  digest: str


class VerdictRow(msgspec.Struct, frozen=True):
  """A line of a file of verdicts."""

  data: str  # name and version of the data set
  seed: int
  id: str
  source: str
  kind: str
  key: str  # month it is filed under
  weight: float  # records that it stands for
  digest: str
  # `file:line` in the folder of sources, None for a placeholder.
  place: str | None
  # Of `VERDICTS`, several joined by `+`; None if it is not read yet.
  verdict: str | None
  reason: str | None


@dataclasses.dataclass(frozen=True)
class ErrorRate:
  """Share of records with an error, estimated from a stratified sample."""

  share: float  # weighted, 0-1
  low: float  # lower end of the 95 % interval
  high: float
  num_errors: int  # records of the sample with the error
  num_read: int  # records of the sample

  def __str__(self) -> str:
    if not self.num_read:
      return "–"
    return (
      f"{self.num_errors}: {100 * self.share:.1f} % "
      f"[{100 * self.low:.1f}, {100 * self.high:.1f}]"
    )


def digest_record(record: Record) -> str:
  """Returns twelve digits that stand for the contents of a record.

  Id and order are left out: one change moves those of all records.
  """
  contents = (record.source, record.kind, str(record.key), record.text)
  return hashlib.sha256("\t".join(contents).encode()).hexdigest()[:12]


def draw_sample(
  records: Iterable[Record], size: int, seed: int
) -> list[SampledRecord]:
  """Returns a sample with a stratum for each source and kind, in order.

  Strata get places by their size, a small one at least a third of an equal
  share. Which records are drawn depends on seed and contents alone.

  Raises:
    ValueError: if the sample has no place for every stratum.
  """
  strata: dict[tuple[str, str], list[Record]] = collections.defaultdict(list)
  for record in records:
    strata[record.kind, record.source].append(record)
  sizes = _divide_size(
    size, {name: len(members) for name, members in strata.items()}
  )
  sample = []
  for name, members in strata.items():
    drawn = sorted(members, key=lambda record: _draw_key(record, seed))
    weight = len(members) / sizes[name]
    sample += [
      SampledRecord(record, weight, digest_record(record))
      for record in drawn[: sizes[name]]
    ]
  return sorted(
    sample,
    key=lambda s: (
      s.record.kind,
      s.record.source,
      s.record.key,
      s.record.order,
    ),
  )


def _draw_key(record: Record, seed: int) -> tuple[str, str]:
  digest = hashlib.sha256(f"{seed}:{digest_record(record)}".encode())
  return digest.hexdigest(), record.record_id


def _divide_size(
  size: int, num_members: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
  """Returns the places of each stratum; they add up to `size`."""
  total = sum(num_members.values())
  size = min(size, total)
  if size < len(num_members):
    raise ValueError(
      f"a sample of {size} leaves some of the {len(num_members)} sources and "
      f"kinds unread; take {len(num_members)} or more"
    )
  least = max(1, int(_LEAST_SHARE * size / len(num_members)))
  sizes = {name: min(count, least) for name, count in num_members.items()}
  # The next place goes to the stratum that is furthest below its due.
  for _ in range(size - sum(sizes.values())):
    name = max(
      (name for name, count in num_members.items() if sizes[name] < count),
      key=lambda name: size * num_members[name] / total - sizes[name],
    )
    sizes[name] += 1
  return sizes


def make_rows(
  sample: Iterable[SampledRecord],
  data: str,
  seed: int,
  places: Mapping[str, str],
  earlier_rows: Iterable[VerdictRow] = (),
) -> list[VerdictRow]:
  """Returns a line for each record, with what an earlier reading said about it.

  Args:
    sample: sample from `draw_sample`.
    data: name and version of the data set.
    places: record id -> `file:line`.
    earlier_rows: verdicts that hold for records with the same contents.
  """
  earlier = {row.digest: row for row in earlier_rows}
  rows = []
  for sampled in sample:
    record = sampled.record
    known = earlier.get(sampled.digest)
    rows.append(
      VerdictRow(
        data,
        seed,
        record.record_id,
        record.source,
        record.kind,
        str(record.key),
        round(sampled.weight, 4),
        sampled.digest,
        places.get(record.record_id),
        known and known.verdict,
        known and known.reason,
      )
    )
  return rows


def write_verdicts(path: str | os.PathLike, rows: Iterable[VerdictRow]) -> None:
  """Writes lines with a header, separated by tabs."""
  lines = map(msgspec.structs.astuple, rows)
  files.write_text(
    path, output.format_delimited(VerdictRow.__struct_fields__, lines)
  )


def read_verdicts(path: str | os.PathLike) -> list[VerdictRow]:
  """Returns the lines of a file of verdicts, read or not."""
  rows: list[VerdictRow] = []
  for line, row in files.read_csv_rows(path, VerdictRow, delimiter="\t"):
    for verdict in split_verdict(row):
      if verdict not in VERDICTS:
        raise ValueError(
          f"{path}:{line}: verdict={verdict!r} is not one of "
          f"{', '.join(VERDICTS)}; join several with {_SEPARATOR}"
        )
    if CORRECT in split_verdict(row) and row.verdict != CORRECT:
      raise ValueError(
        f"{path}:{line}: verdict={row.verdict!r} says both that it is right "
        "and that it is not"
      )
    if rows and (row.data, row.seed) != (rows[0].data, rows[0].seed):
      raise ValueError(
        f"{path}:{line}: of {row.data} with seed {row.seed}, the lines above "
        f"of {rows[0].data} with seed {rows[0].seed}; one file, one sample"
      )
    rows.append(row)
  if not rows:
    raise ValueError(f"{path}: no line below the header")
  return rows


def split_verdict(row: VerdictRow) -> list[str]:
  """Returns the verdicts on a record, none if it is not read yet."""
  return row.verdict.split(_SEPARATOR) if row.verdict else []


def check_all_read(rows: Sequence[VerdictRow], name: object) -> None:
  """Raises ValueError if a record has no verdict: rates need all of them."""
  unread = [row.id for row in rows if not row.verdict]
  if unread:
    raise ValueError(
      f"{name}: {len(unread)} of {len(rows)} records have no verdict, the "
      f"first is {unread[0]}; fill the column with one of "
      f"{', '.join(VERDICTS)}"
    )


def estimate_rate(
  rows: Iterable[VerdictRow], verdicts: Iterable[str]
) -> ErrorRate:
  """Returns the share of records on which one of `verdicts` was given.

  The interval is Wilson's for the weighted share, at Kish's effective sample
  size: the number of unweighted records that would be as informative.

  Args:
    verdicts: a selection of `VERDICTS`.
  Source: Wilson (JASA 22, 1927); Kish, Survey Sampling (1965), 11.7.
  """
  verdicts = set(verdicts)
  pairs = [
    (row.weight, not verdicts.isdisjoint(split_verdict(row))) for row in rows
  ]
  if not pairs:
    return ErrorRate(0.0, 0.0, 1.0, 0, 0)
  total = sum(weight for weight, _ in pairs)
  share = sum(weight for weight, is_error in pairs if is_error) / total
  effective = total**2 / sum(weight**2 for weight, _ in pairs)
  z2 = _Z_95**2 / effective
  center = (share + z2 / 2) / (1 + z2)
  half = math.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
  return ErrorRate(
    share,
    max(0.0, center - half),
    min(1.0, center + half),
    sum(is_error for _, is_error in pairs),
    len(pairs),
  )


def describe_sample(rows: Sequence[VerdictRow]) -> str:
  """Returns the contents of the sample: data set, seed, records."""
  return (
    f"`{rows[0].data}`, seed {rows[0].seed}: {len(rows)} records read by eye"
  )


def tabulate_rates(rows: Sequence[VerdictRow]) -> list[list[str]]:
  """Returns a table with its header: kinds of error by kinds of records.

  A cell is the number of records, the share and its interval in percent.
  """
  columns = {
    "all": rows,
    **{
      kind: [row for row in rows if row.kind == kind]
      for kind in (EVENT, NO_EVENT, NEG_COMMENT)
    },
  }
  labels = {
    "any error": tuple(ERRORS),
    **{f"{name}: {text}": (name,) for name, text in ERRORS.items()},
    "month by rule alone (no error)": (CONVENTION,),
  }
  return [
    ["", *columns],
    ["records read", *(str(len(members)) for members in columns.values())],
    *(
      [
        label,
        *(str(estimate_rate(some, verdicts)) for some in columns.values()),
      ]
      for label, verdicts in labels.items()
    ),
  ]
