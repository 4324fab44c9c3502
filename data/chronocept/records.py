"""Published JSON of samples, validated on reading, and written.

The authors' code takes "" for an axis that it does not find, and asks for one
axis by another name than the paper prints. Here both names are read, and every
other deviation from the schema is an error.

A file is a list of objects, or one object a line:

  {"_id": "H0001", "parent_text": "...", "axes": {"main_outcome_axis": "...",
   ...}, "target_values": {"location": 40.0, "scale": 9.5, "skewness": 1.2}}

`log_base` and `time_unit` are optional; the published records mean 1.1 and
minutes without saying so.

Source: Chronocept, arXiv 2505.07637v1, Figure 1.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import os
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from ctd_jax.utils import files
from ctd_jax_datasets.chronocept.samples import (
  AXES,
  LOG_BASE,
  TARGETS,
  TIME_UNIT,
  Sample,
)
from ctd_jax_datasets.common import json_values
from ctd_jax_datasets.common.errors import SourceError
from ctd_jax_datasets.common.findings import (
  DROPPED,
  CodeMeaning,
  FindingsReport,
)

_AXIS_BY_KEY = {f"{axis}_axis": axis for axis in AXES}
_HYPOTHETICAL_KEY = "hypothetical_axis"
# As the paper's figure spells it; the authors' code asks for the other.
_HYPOTHESIS_KEY = "hypothesis_axis"
_MEANINGS = {"member_repeated": CodeMeaning(DROPPED, "a member occurs twice")}
_NonEmptyText = Annotated[str, msgspec.Meta(pattern=r"\S")]


class AxesRecord(msgspec.Struct, forbid_unknown_fields=True):
  """Texts of the axes, "" if a sample has none on an axis."""

  main_outcome_axis: str
  static_axis: str
  generic_axis: str
  negation_axis: str
  intention_axis: str
  opinion_axis: str
  recurrent_axis: str
  hypothetical_axis: str | msgspec.UnsetType = msgspec.UNSET
  hypothesis_axis: str | msgspec.UnsetType = msgspec.UNSET

  def __post_init__(self):
    """Refuses two texts of one axis."""
    if msgspec.UNSET not in (self.hypothetical_axis, self.hypothesis_axis):
      raise ValueError(
        f"has both {_HYPOTHETICAL_KEY} and {_HYPOTHESIS_KEY}; keep one"
      )


class TargetsRecord(msgspec.Struct, forbid_unknown_fields=True):
  """Parameters of the skew-normal curve of a sample."""

  location: float  # log time
  scale: Annotated[float, msgspec.Meta(gt=0)]  # log time
  skewness: float  # shape alpha

  def __post_init__(self):
    """Refuses NaN and Infinity, which Python's JSON reader accepts."""
    _check_finite(self, TARGETS)


class SampleRecord(msgspec.Struct, forbid_unknown_fields=True):
  """A published record."""

  sample_id: _NonEmptyText = msgspec.field(name="_id")
  parent_text: _NonEmptyText
  axes: AxesRecord
  target_values: TargetsRecord
  log_base: Annotated[float, msgspec.Meta(gt=1)] = LOG_BASE
  time_unit: Literal["minute"] = TIME_UNIT

  def __post_init__(self):
    """Refuses an infinite base."""
    _check_finite(self, ("log_base",))


_STRUCT_BY_PATH = {
  "": SampleRecord,
  ".axes": AxesRecord,
  ".target_values": TargetsRecord,
}


def _check_finite(record: msgspec.Struct, names: Iterable[str]) -> None:
  for name in names:
    value = getattr(record, name)
    if not math.isfinite(value):
      raise ValueError(f"{name} is {value}; expected a finite number")


def read_json_samples(path: str | os.PathLike) -> list[Sample]:
  """Returns the samples of a file, in its order.

  Args:
    path: JSON list, or JSON lines, in the published schema.

  Raises:
    SourceError: naming file, record, id and field at fault, and what would be
      right.
    FileNotFoundError: if there is no such file.
  """
  path = pathlib.Path(path)
  samples: list[Sample] = []
  json_path_by_id: dict[str, str] = {}
  ids_without_axis = []
  with json_values.prefix_file_errors(path):
    text = json_values.decode_utf8(path.read_bytes())
    for json_path, value in _iterate_records(text):
      sample = parse_sample(value, json_path)
      first_json_path = json_path_by_id.setdefault(sample.sample_id, json_path)
      if first_json_path != json_path:
        raise SourceError(
          f"{json_path} ({sample.sample_id})._id: already the id of "
          f"{first_json_path}; expected an id of its own"
        )
      if not {_HYPOTHETICAL_KEY, _HYPOTHESIS_KEY} & set(value["axes"]):
        ids_without_axis.append(sample.sample_id)
      samples.append(sample)
    if not samples:
      raise SourceError("no record; expected a list of objects")
  if ids_without_axis:
    warnings.warn(
      f"{path}: {len(ids_without_axis)} of {len(samples)} records have neither "
      f"{_HYPOTHETICAL_KEY} nor {_HYPOTHESIS_KEY}, the first is "
      f"{ids_without_axis[0]}; the axis counts as empty",
      stacklevel=2,
    )
  return samples


def _iterate_records(text: str) -> Iterator[tuple[str, Any]]:
  """Yields (position in the file, record) of a JSON list or of JSON lines."""
  if text.lstrip().startswith("["):
    for number, value in enumerate(_parse_json(text, ""), start=1):
      yield f"record {number}", value
    return
  for number, line in enumerate(text.split("\n"), start=1):
    if line.strip():
      yield f"line {number}", _parse_json(line, f"line {number}")


def _parse_json(text: str, json_path: str) -> Any:
  """Returns the value of a text, refusing an object that repeats a member."""
  # msgspec would keep the last of two members without a word.
  report = FindingsReport(_MEANINGS)
  value = json_values.parse_json(text, report, json_path)
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
    SourceError: as `read_json_samples`, or naming an id that is in two splits.
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
          f"{paths[split]}: {sample.sample_id}._id: also in "
          f"{paths[first_split]}; a sample belongs to one split"
        )
  return samples_by_split


def parse_sample(value: Any, json_path: str) -> Sample:
  """Returns the sample of a record.

  Args:
    value: parsed JSON.
    json_path: position of the record in its file, for messages.

  Raises:
    SourceError: naming position, id and field at fault.
  """
  try:
    record = msgspec.convert(value, SampleRecord)
  except msgspec.ValidationError as error:
    raise SourceError(_describe_error(error, value, json_path)) from None
  texts = {
    _HYPOTHETICAL_KEY: "",
    # Leaves out what is unset.
    **msgspec.to_builtins(record.axes),
  }
  if _HYPOTHESIS_KEY in texts:
    texts[_HYPOTHETICAL_KEY] = texts[_HYPOTHESIS_KEY]
  return Sample(
    sample_id=record.sample_id,
    parent_text=record.parent_text,
    axes={axis: texts[key].strip() for key, axis in _AXIS_BY_KEY.items()},
    **msgspec.structs.asdict(record.target_values),
    log_base=record.log_base,
    time_unit=record.time_unit,
  )


def _describe_error(
  error: msgspec.ValidationError, value: Any, json_path: str
) -> str:
  """Returns the message with position, id, field and value at fault."""
  sample_id = value.get("_id") if isinstance(value, dict) else None
  if isinstance(sample_id, str) and sample_id.strip():
    json_path = f"{json_path} ({sample_id})"
  message, _, field_path = str(error).rpartition(" - at `$")
  if not message:  # about the record as a whole
    message, field_path = str(error), ""
  field_path = field_path.removesuffix("`")
  names = field_path.split(".")[1:]
  member = functools.reduce(operator.getitem, names, value)
  if not isinstance(member, dict):
    message += f"; it is {json_values.format_value(member)}"
  elif "unknown field" in message:
    known_names = _STRUCT_BY_PATH[field_path].__struct_encode_fields__
    message += f"; known are {', '.join(known_names)}"
  return f"{json_path}{field_path}: {message}"


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
  """Writes samples as a JSON list that `read_json_samples` reads."""
  rows = [to_json(sample) for sample in samples]
  text = json.dumps(rows, ensure_ascii=False, indent=1)
  files.write_text(path, text + "\n")
