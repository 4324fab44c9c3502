"""Statements that you annotated: a CSV file, or JSON in one file.

A CSV file has a row for each statement, with the columns text, location, scale
and skewness. A column id names the statement, split says train, validation or
test, log_base gives the base of the logarithms (1.1), and columns named like
`AXES` hold the segments.

A JSON file is a list of published records, or an export of Label Studio: tasks
whose data have a `text` (and perhaps a `split`) and whose annotations have
fields `location`, `scale` and `skewness` (Number or TextArea) and perhaps
Labels named like `AXES`. Of several annotators the numbers are averaged and the
segments joined, as in the paper.

Without splits, statements are divided 70 : 20 : 10 in the order of the hash of
their ids, so a statement keeps its place when others are added.
"""

import collections
import hashlib
import math
import os
import pathlib
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from absl import logging

from ctd_jax.utils import files
from ctd_jax_datasets.chronocept import sample_records
from ctd_jax_datasets.chronocept.sample_records import (
  AXES,
  LOG_BASE,
  SPLITS,
  TARGETS,
  Sample,
)
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError

# A row of a CSV file.
_Row = msgspec.defstruct(
  "_Row",
  [
    ("text", str),
    *((target, float) for target in TARGETS),
    *((name, str | None, None) for name in ("id", "split", *AXES)),
    ("log_base", float | None, None),
  ],
)
_MIN_SPLIT_SIZE = 2  # correlations need two statements
_FEW_TESTED = 20  # below, an interval of a correlation of .5 holds 0
_MAX_YEARS = 10_000  # a location above is more likely minutes
_LOG_YEAR = math.log(365.25 * 24 * 60)  # of the minutes of a year
_SHARES = {"validation": 0.2, "test": 0.1}  # of a file without splits
# (place, split or "", record in the published schema).
_PlacedRecord = tuple[str, str, dict[str, Any]]


def read_annotated_file(path: str | os.PathLike) -> dict[str, list[Sample]]:
  """Returns split -> samples of a CSV or JSON file.

  Raises:
    FileNotFoundError: if there is no such file.
    SourceError: naming file, place and field at fault.
  """
  path = pathlib.Path(path).expanduser()
  if not path.is_file():
    raise FileNotFoundError(f"{path}: no such file")
  is_csv = path.suffix.lower() == ".csv"
  placed = _read_csv(path) if is_csv else []
  with source_files.reading(path):
    if not is_csv:
      placed = list(_read_json(source_files.decode_utf8(path.read_bytes())))
    if not placed:
      raise SourceError("no annotated statement in the file")
    samples: dict[str, Sample] = {}
    split_by_id: dict[str, str] = {}
    for place, split, record in placed:
      sample = sample_records.parse_sample(record, place)
      if sample.sample_id in samples:
        raise SourceError(f"{place}: the id {sample.sample_id} occurs twice")
      if split not in ("", *SPLITS) or bool(split) != bool(placed[0][1]):
        raise SourceError(
          f"{place}: split={split!r}; expected {', '.join(SPLITS)}, for all "
          "statements or for none"
        )
      log_years = sample.location * math.log(sample.log_base) - _LOG_YEAR
      if log_years > math.log(_MAX_YEARS):
        raise SourceError(
          f"{place}: location={sample.location:g} is over {_MAX_YEARS:,} "
          f"years; expected the logarithm of minutes to base "
          f"{sample.log_base:g} (a day is "
          f"{math.log(24 * 60, sample.log_base):.1f})"
        )
      samples[sample.sample_id] = sample
      split_by_id[sample.sample_id] = split
  if not placed[0][1]:
    if len(samples) < _MIN_SPLIT_SIZE * len(SPLITS):
      raise SourceError(
        f"{path}: {len(samples)} statements; expected at least "
        f"{_MIN_SPLIT_SIZE * len(SPLITS)}, two for each of {', '.join(SPLITS)}"
      )
    split_by_id = _divide(list(samples))
    logging.info("%s: no split is given; divided by the hash of the ids", path)
  sizes = collections.Counter(split_by_id.values())
  logging.info("%s: %s", path, ", ".join(f"{s} {sizes[s]}" for s in SPLITS))
  if sizes["test"] < _FEW_TESTED:
    logging.warning(
      "%s: %d statements in the test split: too few to compare models",
      path,
      sizes["test"],
    )
  return {
    split: [s for s in samples.values() if split_by_id[s.sample_id] == split]
    for split in SPLITS
  }


def _divide(sample_ids: list[str]) -> dict[str, str]:
  """Returns the split of each id."""
  ranked = sorted(
    sample_ids, key=lambda name: hashlib.sha256(name.encode()).hexdigest()
  )
  split_by_id = dict.fromkeys(ranked, "train")
  for split, share in _SHARES.items():
    size = max(_MIN_SPLIT_SIZE, round(share * len(sample_ids)))
    split_by_id |= dict.fromkeys(ranked[:size], split)
    del ranked[:size]
  return split_by_id


def _read_csv(path: pathlib.Path) -> list[_PlacedRecord]:
  """Returns the records of a CSV table."""
  try:
    rows = list(files.read_csv_rows(path, _Row))
  except ValueError as error:
    raise SourceError(str(error)) from None
  return [
    (
      f"line {line}",
      row.split or "",
      _make_record(
        row.id or f"row{number}",
        row.text,
        {name: getattr(row, name) for name in TARGETS},
        {axis: getattr(row, axis) or "" for axis in AXES},
        LOG_BASE if row.log_base is None else row.log_base,
      ),
    )
    for number, (line, row) in enumerate(rows, start=1)
  ]


def _make_record(
  sample_id: str,
  text: str,
  targets: Mapping[str, float],
  text_by_axis: Mapping[str, str],
  log_base: float = LOG_BASE,
) -> dict[str, Any]:
  """Returns a record in the published schema."""
  return {
    "_id": sample_id,
    "parent_text": text,
    "axes": {f"{axis}_axis": text_by_axis[axis] for axis in AXES},
    "target_values": targets,
    "log_base": log_base,
  }


def _read_json(text: str) -> Iterator[_PlacedRecord]:
  """Yields the records of a JSON list."""
  num_skipped = 0
  records = sample_records.iterate_records(text.removeprefix("\ufeff"))
  for place, value in records:
    if not isinstance(value, dict) or "annotations" not in value:
      value = dict(value) if isinstance(value, dict) else value
      split = value.pop("split", "") if isinstance(value, dict) else ""
      yield place, split, value
      continue
    place = f"{place} (task {value.get('id')})"
    try:
      record = _read_task(value)
    except (AttributeError, KeyError, TypeError, IndexError) as error:
      raise SourceError(
        f"{place}: not a task of Label Studio's JSON export with data.text: "
        f"{error!r}"
      ) from None
    except ValueError as error:
      raise SourceError(f"{place}: {error}") from None
    if record is None:
      num_skipped += 1
    else:
      yield place, value["data"].get("split") or "", record
  if num_skipped:
    logging.warning("%d tasks without an annotation are left out", num_skipped)


def _read_task(task: Mapping[str, Any]) -> dict[str, Any] | None:
  """Returns the record of a task, None without annotations."""
  numbers: dict[str, list[float]] = {name: [] for name in TARGETS}
  segments: dict[str, set[tuple[int, str]]] = {axis: set() for axis in AXES}
  annotations = [a for a in task["annotations"] if not a.get("was_cancelled")]
  for item in (item for each in annotations for item in each["result"]):
    value, name = item["value"], item["from_name"]
    if item["type"] == "labels":
      for label in value["labels"]:
        axis = label.lower().replace(" ", "_").removesuffix("_axis")
        if axis not in AXES:
          raise ValueError(
            f"label {label!r}: expected one of {', '.join(AXES)}"
          )
        segments[axis].add((value["start"], value["text"]))
    elif name in TARGETS:
      given = value["number"] if item["type"] == "number" else value["text"]
      numbers[name].append(
        float(given[0] if isinstance(given, list) else given)
      )
  if not annotations:
    return None
  missing = [name for name in TARGETS if not numbers[name]]
  if missing:
    raise ValueError(
      f"no annotation has the field {', '.join(missing)} (Number or TextArea)"
    )
  means = {name: statistics.fmean(given) for name, given in numbers.items()}
  axes = {
    axis: " ".join(text for _, text in sorted(found))
    for axis, found in segments.items()
  }
  return _make_record(str(task["id"]), task["data"]["text"], means, axes)
