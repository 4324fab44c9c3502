"""The published JSON of samples, read with every field checked, and written.

Why: a reader that takes "" for an axis it cannot find trains on nothing
without a word; the authors' own code asks for an axis by another name than the
one printed in the paper. Called by the builder and by `reader`.

A file is a list of objects, or one object a line:

  {"_id": "H0001", "parent_text": "...", "axes": {"main_outcome_axis": "...",
   ...}, "target_values": {"location": 40.0, "scale": 9.5, "skewness": 1.2}}

`log_base` and `time_unit` may be given; 1.1 and minutes are what the published
records leave unsaid.

Source: Chronocept, arXiv 2505.07637v1, Figure 1.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from ctd_jax.utils import files
from ctd_jax_datasets.chronocept.samples import (
  AXES,
  LOG_BASE,
  TARGETS,
  TIME_UNIT,
  Sample,
)
from ctd_jax_datasets.chunqiutr import release_json
from ctd_jax_datasets.chunqiutr.findings import (
  DROPPED,
  CodeMeaning,
  FindingsReport,
)
from ctd_jax_datasets.chunqiutr.release_json import (
  expect_type,
  format_value,
  get_member,
)
from ctd_jax_datasets.chunqiutr.sources import SourceError

_AXIS_BY_KEY = {f"{axis}_axis": axis for axis in AXES}
_HYPOTHETICAL_KEY = "hypothetical_axis"
# As the paper's figure spells it; the authors' code asks for the other.
_HYPOTHESIS_KEY = "hypothesis_axis"
_REQUIRED_KEYS = ("_id", "parent_text", "axes", "target_values")
_OPTIONAL_KEYS = ("log_base", "time_unit")
_MEANINGS = {"member_repeated": CodeMeaning(DROPPED, "a member occurs twice")}


def read_json_samples(path: str | os.PathLike) -> list[Sample]:
  """Returns the samples of a file, in its order.

  Args:
    path: JSON list, or JSON lines, in the published schema.

  Raises:
    SourceError: naming file, record, id and field of what is wrong, and what
      would be right.
    FileNotFoundError: if there is no such file.
  """
  path = pathlib.Path(path)
  samples: list[Sample] = []
  json_path_by_id: dict[str, str] = {}
  ids_without_axis = []
  with release_json.prefix_file_errors(path):
    for json_path, value in _iterate_records(
      release_json.decode_utf8(path.read_bytes())
    ):
      sample = parse_sample(value, json_path)
      first_json_path = json_path_by_id.setdefault(sample.sample_id, json_path)
      if first_json_path != json_path:
        raise SourceError(
          f"{json_path} ({sample.sample_id})._id: already the id of {first_json_path}; "
          "expected an id of its own"
        )
      if not {_HYPOTHETICAL_KEY, _HYPOTHESIS_KEY} & set(value["axes"]):
        ids_without_axis.append(sample.sample_id)
      samples.append(sample)
    if not samples:
      raise SourceError("no record; expected a list of objects")
  if ids_without_axis:
    warnings.warn(
      f"{path}: {len(ids_without_axis)} of {len(samples)} records have neither "
      f"{_HYPOTHETICAL_KEY} nor {_HYPOTHESIS_KEY}, the first is {ids_without_axis[0]}; the axis "
      "counts as empty",
      stacklevel=2,
    )
  return samples


def _iterate_records(text: str) -> Iterable[tuple[str, Any]]:
  """Yields (place, record) of a JSON list or of JSON lines."""
  if text.lstrip().startswith("["):
    for number, value in enumerate(_parse_json(text, ""), start=1):
      yield f"record {number}", value
    return
  for number, line in enumerate(text.split("\n"), start=1):
    if line.strip():
      yield f"line {number}", _parse_json(line, f"line {number}")


def _parse_json(text: str, json_path: str) -> Any:
  report = FindingsReport(_MEANINGS)
  value = release_json.parse_json(text, report, json_path)
  for finding in report.findings:
    raise SourceError(
      f"{finding.examples[0]} occurs twice in one object; keep one"
    )
  return value


def read_splits(
  paths: Mapping[str, str | os.PathLike],
) -> dict[str, list[Sample]]:
  """Returns split -> samples.

  Args:
    paths: split -> file.

  Raises:
    SourceError: as `read_file`, or naming an id that two splits have.
  """
  samples_by_split = {
    split: read_json_samples(path) for split, path in paths.items()
  }
  split_by_id: dict[str, str] = {}
  for split, samples in samples_by_split.items():
    for sample in samples:
      first_split = split_by_id.setdefault(sample.sample_id, split)
      if first_split != split:
        raise SourceError(
          f"{paths[split]}: {sample.sample_id}._id: also in {paths[first_split]}; a "
          "sample belongs to one split"
        )
  return samples_by_split


def parse_sample(value: Any, json_path: str) -> Sample:
  """Returns the sample of a record.

  Args:
    value: a JSON object.
    json_path: of the record in its file, for messages.

  Raises:
    SourceError: naming place, id and field of what is wrong.
  """
  expect_type(value, dict, json_path)
  sample_id = _get_text(value, "_id", json_path)
  json_path = f"{json_path} ({sample_id})"
  _check_keys(value, (*_REQUIRED_KEYS, *_OPTIONAL_KEYS), json_path)
  targets = get_member(value, "target_values", dict, json_path)
  targets_path = f"{json_path}.target_values"
  _check_keys(targets, TARGETS, targets_path)
  location, scale, skewness = (
    _get_number(targets, name, targets_path) for name in TARGETS
  )
  if scale <= 0:
    raise SourceError(f"{targets_path}.scale: {scale} should be above 0")
  log_base = _get_number({"log_base": LOG_BASE, **value}, "log_base", json_path)
  if log_base <= 1:
    raise SourceError(f"{json_path}.log_base: {log_base} should be above 1")
  time_unit = value.get("time_unit", TIME_UNIT)
  if time_unit != TIME_UNIT:
    raise SourceError(
      f"{json_path}.time_unit: {format_value(time_unit)} should be {TIME_UNIT!r}"
    )
  return Sample(
    sample_id=sample_id,
    parent_text=_get_text(value, "parent_text", json_path),
    axes=_parse_axes(
      get_member(value, "axes", dict, json_path), f"{json_path}.axes"
    ),
    location=location,
    scale=scale,
    skewness=skewness,
    log_base=log_base,
    time_unit=time_unit,
  )


def to_json(sample: Sample) -> dict[str, Any]:
  """Returns the record of a sample, its base and unit included."""
  return {
    "_id": sample.sample_id,
    "parent_text": sample.parent_text,
    "axes": {key: sample.axes[axis] for key, axis in _AXIS_BY_KEY.items()},
    "target_values": dict(zip(TARGETS, sample.targets, strict=True)),
    "log_base": sample.log_base,
    "time_unit": sample.time_unit,
  }


def write_json_samples(
  path: str | os.PathLike, samples: Iterable[Sample]
) -> None:
  """Writes samples as a JSON list that `read_file` reads."""
  rows = [to_json(sample) for sample in samples]
  text = json.dumps(rows, ensure_ascii=False, indent=1)
  files.write_text(path, text + "\n")


def _parse_axes(values: Mapping[str, Any], json_path: str) -> dict[str, str]:
  _check_keys(values, (*_AXIS_BY_KEY, _HYPOTHESIS_KEY), json_path)
  if _HYPOTHETICAL_KEY in values and _HYPOTHESIS_KEY in values:
    raise SourceError(
      f"{json_path}: has both {_HYPOTHETICAL_KEY} and {_HYPOTHESIS_KEY}; keep one"
    )
  canonical_values = {
    _HYPOTHETICAL_KEY if key == _HYPOTHESIS_KEY else key: value
    for key, value in values.items()
  }
  canonical_values.setdefault(_HYPOTHETICAL_KEY, "")
  return {
    axis: get_member(canonical_values, key, str, json_path).strip()
    for key, axis in _AXIS_BY_KEY.items()
  }


def _check_keys(
  value: Mapping[str, Any], names: Iterable[str], json_path: str
) -> None:
  for name in value:
    if name not in names:
      raise SourceError(
        f"{json_path}: unknown key {format_value(name)}; known are {', '.join(names)}"
      )


def _get_text(value: dict[str, Any], name: str, json_path: str) -> str:
  text = get_member(value, name, str, json_path)
  if not text.strip():
    raise SourceError(f"{json_path}.{name}: is empty; expected a text")
  return text


def _get_number(value: Mapping[str, Any], name: str, json_path: str) -> float:
  if name not in value:
    raise SourceError(f"{json_path}: has no {name!r}, a number")
  number = value[name]
  if isinstance(number, bool) or not isinstance(number, int | float):
    raise SourceError(
      f"{json_path}.{name}: {format_value(number)} should be a number"
    )
  # JSON knows integers beyond any float, and Python reads NaN and Infinity.
  try:
    is_finite = math.isfinite(number)
  except OverflowError:
    is_finite = False
  if not is_finite:
    raise SourceError(
      f"{json_path}.{name}: {format_value(number)} should be a finite number"
    )
  return float(number)
