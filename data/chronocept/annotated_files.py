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
import csv
import hashlib
import io
import os
import pathlib
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from ctd_jax_datasets.chronocept import sample_records
from ctd_jax_datasets.chronocept.sample_records import (
  AXES,
  SPLITS,
  TARGETS,
  Sample,
)
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.source_files import SourceError

_REQUIRED = ("text", *TARGETS)
_OPTIONAL = ("id", "split", "log_base", *AXES)
_MIN_SPLIT_SIZE = 2  # correlations need two statements
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
  with source_files.reading(path):
    text = source_files.decode_utf8(path.read_bytes()).removeprefix("\ufeff")
    read = _read_csv if path.suffix.lower() == ".csv" else _read_json
    placed = list(read(text))
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
      samples[sample.sample_id] = sample
      split_by_id[sample.sample_id] = split
  if not placed[0][1]:
    split_by_id = _divide(list(samples))
    sizes = dict(collections.Counter(split_by_id.values()))
    logging.info(
      "%s: no split is given; by the hash of the ids: %s",
      path,
      ", ".join(sizes),
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


def _read_csv(text: str) -> Iterator[_PlacedRecord]:
  """Yields the records of a CSV table."""
  reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
  header = [name.strip() for name in reader.fieldnames or ()]
  missing = [name for name in _REQUIRED if name not in header]
  if missing:
    raise SourceError(
      f"line 1: no column {', '.join(missing)}; expected "
      f"{', '.join(_REQUIRED)} and, if you have them, {', '.join(_OPTIONAL)}"
    )
  unread = [name for name in header if name not in (*_REQUIRED, *_OPTIONAL)]
  if unread:
    logging.warning("columns that are not read: %s", ", ".join(unread))
  reader.fieldnames = header
  for number, row in enumerate(reader, start=1):
    place = f"line {reader.line_num}"
    if None in row or None in row.values():
      raise SourceError(
        f"{place}: expected {len(header)} columns; quote cells with a comma"
      )
    cells = {name: cell.strip() for name, cell in row.items()}
    base = {"log_base": cells["log_base"]} if cells.get("log_base") else {}
    yield (
      place,
      cells.get("split", ""),
      _make_record(cells.get("id") or f"row{number}", cells, cells, base),
    )


def _make_record(
  sample_id: str,
  values: Mapping[str, Any],
  axes: Mapping[str, str],
  base: Mapping[str, Any],
) -> dict[str, Any]:
  """Returns a record in the published schema, numbers as numbers."""
  return {
    "_id": sample_id,
    "parent_text": values["text"],
    "axes": {f"{axis}_axis": axes.get(axis, "") for axis in AXES},
    "target_values": {name: _to_number(values[name]) for name in TARGETS},
    **{name: _to_number(value) for name, value in base.items()},
  }


def _to_number(value: Any) -> Any:
  """Returns a number; what is none is left for the schema to refuse."""
  try:
    return float(value)
  except (TypeError, ValueError):
    return value


def _read_json(text: str) -> Iterator[_PlacedRecord]:
  """Yields the records of a JSON list."""
  num_skipped = 0
  for place, value in sample_records.iterate_records(text):
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
  return _make_record(
    str(task["id"]), {"text": task["data"]["text"], **means}, axes, {}
  )
