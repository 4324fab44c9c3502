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
from ctd_jax_datasets.chunqiutr.findings import DROPPED, Meaning, Report
from ctd_jax_datasets.chunqiutr.release_json import expect, member, shown
from ctd_jax_datasets.chunqiutr.sources import SourceError

_AXIS_KEYS = {f"{axis}_axis": axis for axis in AXES}
_HYPOTHETICAL = "hypothetical_axis"
# As the paper's figure spells it; the authors' code asks for the other.
_HYPOTHESIS = "hypothesis_axis"
_REQUIRED = ("_id", "parent_text", "axes", "target_values")
_OPTIONAL = ("log_base", "time_unit")
_MEANINGS = {"member_repeated": Meaning(DROPPED, "a member occurs twice")}


def read_file(path: str | os.PathLike) -> list[Sample]:
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
  places: dict[str, str] = {}
  unspelt = []
  with release_json.in_file(path):
    for place, value in _values(release_json.decode(path.read_bytes())):
      sample = parse(value, place)
      first = places.setdefault(sample.sample_id, place)
      if first != place:
        raise SourceError(
          f"{place} ({sample.sample_id})._id: already the id of {first}; "
          "expected an id of its own"
        )
      if not {_HYPOTHETICAL, _HYPOTHESIS} & set(value["axes"]):
        unspelt.append(sample.sample_id)
      samples.append(sample)
    if not samples:
      raise SourceError("no record; expected a list of objects")
  if unspelt:
    warnings.warn(
      f"{path}: {len(unspelt)} of {len(samples)} records have neither "
      f"{_HYPOTHETICAL} nor {_HYPOTHESIS}, the first is {unspelt[0]}; the axis "
      "counts as empty",
      stacklevel=2,
    )
  return samples


def _values(text: str) -> Iterable[tuple[str, Any]]:
  """Yields (place, record) of a JSON list or of JSON lines."""
  if text.lstrip().startswith("["):
    for number, value in enumerate(_json(text, ""), start=1):
      yield f"record {number}", value
    return
  for number, line in enumerate(text.split("\n"), start=1):
    if line.strip():
      yield f"line {number}", _json(line, f"line {number}")


def _json(text: str, place: str) -> Any:
  report = Report(_MEANINGS)
  value = release_json.parse(text, report, place)
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
  found = {split: read_file(path) for split, path in paths.items()}
  splits: dict[str, str] = {}
  for split, samples in found.items():
    for sample in samples:
      first = splits.setdefault(sample.sample_id, split)
      if first != split:
        raise SourceError(
          f"{paths[split]}: {sample.sample_id}._id: also in {paths[first]}; a "
          "sample belongs to one split"
        )
  return found


def parse(value: Any, place: str) -> Sample:
  """Returns the sample of a record.

  Args:
    value: a JSON object.
    place: of the record in its file, for messages.

  Raises:
    SourceError: naming place, id and field of what is wrong.
  """
  expect(value, dict, place)
  sample_id = _text(value, "_id", place)
  place = f"{place} ({sample_id})"
  _known(value, (*_REQUIRED, *_OPTIONAL), place)
  targets = member(value, "target_values", dict, place)
  inside = f"{place}.target_values"
  _known(targets, TARGETS, inside)
  location, scale, skewness = (
    _number(targets, name, inside) for name in TARGETS
  )
  if scale <= 0:
    raise SourceError(f"{inside}.scale: {scale} should be above 0")
  base = _number({"log_base": LOG_BASE, **value}, "log_base", place)
  if base <= 1:
    raise SourceError(f"{place}.log_base: {base} should be above 1")
  unit = value.get("time_unit", TIME_UNIT)
  if unit != TIME_UNIT:
    raise SourceError(
      f"{place}.time_unit: {shown(unit)} should be {TIME_UNIT!r}"
    )
  return Sample(
    sample_id=sample_id,
    parent_text=_text(value, "parent_text", place),
    axes=_axes(member(value, "axes", dict, place), f"{place}.axes"),
    location=location,
    scale=scale,
    skewness=skewness,
    log_base=base,
    time_unit=unit,
  )


def to_json(sample: Sample) -> dict[str, Any]:
  """Returns the record of a sample, its base and unit included."""
  return {
    "_id": sample.sample_id,
    "parent_text": sample.parent_text,
    "axes": {key: sample.axes[axis] for key, axis in _AXIS_KEYS.items()},
    "target_values": dict(zip(TARGETS, sample.targets, strict=True)),
    "log_base": sample.log_base,
    "time_unit": sample.time_unit,
  }


def write_file(path: str | os.PathLike, samples: Iterable[Sample]) -> None:
  """Writes samples as a JSON list that `read_file` reads."""
  rows = [to_json(sample) for sample in samples]
  text = json.dumps(rows, ensure_ascii=False, indent=1)
  files.write_text(path, text + "\n")


def _axes(values: Mapping[str, Any], place: str) -> dict[str, str]:
  _known(values, (*_AXIS_KEYS, _HYPOTHESIS), place)
  if _HYPOTHETICAL in values and _HYPOTHESIS in values:
    raise SourceError(
      f"{place}: has both {_HYPOTHETICAL} and {_HYPOTHESIS}; keep one"
    )
  spelt = {
    _HYPOTHETICAL if key == _HYPOTHESIS else key: value
    for key, value in values.items()
  }
  spelt.setdefault(_HYPOTHETICAL, "")
  return {
    axis: member(spelt, key, str, place).strip()
    for key, axis in _AXIS_KEYS.items()
  }


def _known(value: Mapping[str, Any], names: Iterable[str], place: str) -> None:
  for name in value:
    if name not in names:
      raise SourceError(
        f"{place}: unknown key {shown(name)}; known are {', '.join(names)}"
      )


def _text(value: dict[str, Any], name: str, place: str) -> str:
  text = member(value, name, str, place)
  if not text.strip():
    raise SourceError(f"{place}.{name}: is empty; expected a text")
  return text


def _number(value: Mapping[str, Any], name: str, place: str) -> float:
  if name not in value:
    raise SourceError(f"{place}: has no {name!r}, a number")
  number = value[name]
  if isinstance(number, bool) or not isinstance(number, int | float):
    raise SourceError(f"{place}.{name}: {shown(number)} should be a number")
  # JSON knows integers beyond any float, and Python reads NaN and Infinity.
  try:
    finite = math.isfinite(number)
  except OverflowError:
    finite = False
  if not finite:
    raise SourceError(
      f"{place}.{name}: {shown(number)} should be a finite number"
    )
  return float(number)
