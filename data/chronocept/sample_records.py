"""Samples of Chronocept: typed values, stored form, published JSON, statistics.

The published files are a list of objects or JSON lines, on the hub or in a
folder. A malformed record is refused with its position, id, field and value.

Source: Chronocept, arXiv 2505.07637v1, figure 1 (schema) and Tables 3 and 5.
"""

import collections
import dataclasses
import functools
import math
import operator
import os
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums

from ctd_jax.utils import files
from ctd_jax_datasets.common import source_files
from ctd_jax_datasets.common.base_builder import BaseBuilder
from ctd_jax_datasets.common.source_files import SourceError

# In the order in which the authors' baselines concatenate them.
AXES = (
  "main_outcome",
  "static",
  "generic",
  "hypothetical",
  "negation",
  "intention",
  "opinion",
  "recurrent",
)
TARGETS = ("location", "scale", "skewness")
SPLITS = ("train", "validation", "test")
LOG_BASE = 1.1  # Table 9: an hour is 42.96
TIME_UNIT = "minute"
BENCHMARKS = ("benchmark_1", "benchmark_2")
FOLDER = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Sample:
  """A text and the curve of its validity."""

  sample_id: str  # e.g. H0028.
  parent_text: str
  # Name in `AXES` -> the segments of the text on that axis, "" if none.
  axes: dict[str, str]
  # Xi of the skew-normal, a logarithm to `log_base` of the time since
  # publication in `time_unit`; not the peak.
  location: float
  scale: float  # omega > 0, in units of log time
  skewness: float  # alpha, the shape; not the third standardised moment
  log_base: float = LOG_BASE  # base of the logarithm, above 1
  time_unit: str = TIME_UNIT  # unit of the time before the logarithm is taken

  @property
  def targets(self) -> tuple[float, float, float]:
    """Location, scale and skewness."""
    return self.location, self.scale, self.skewness


@dataclasses.dataclass(frozen=True)
class TargetStatistics:
  """Number, mean and population standard deviation of targets."""

  n: int
  mean: tuple[float, ...]  # of each of `TARGETS`
  sd: tuple[float, ...]  # of each of `TARGETS`, with n in the denominator


def read_target_statistics() -> dict[str, dict[str, TargetStatistics]]:
  """Returns benchmark -> split -> statistics of the published targets.

  Source: `target_statistics.tsv`, each row with its source.
  """
  # The table has a row for each target, in the order of `TARGETS`.
  rows = collections.defaultdict(list)
  for row in files.read_tsv_rows(FOLDER / "target_statistics.tsv"):
    rows[row["benchmark"], row["split"]].append(row)
  statistics_by_benchmark: dict[str, dict[str, TargetStatistics]] = {
    name: {} for name in BENCHMARKS
  }
  for (benchmark, split), targets in rows.items():
    statistics_by_benchmark[benchmark][split] = TargetStatistics(
      int(targets[0]["n"]),  # repeated in the rows of a split
      tuple(float(row["mean"]) for row in targets),
      tuple(float(row["sd"]) for row in targets),
    )
  return statistics_by_benchmark


def read_axis_counts(benchmark: str) -> dict[str, int]:
  """Returns axis -> number of published samples with a text on it.

  Args:
    benchmark: one of `BENCHMARKS`.
  Source: `axis_counts.tsv`, each row with its source.
  """
  return {
    row["axis"]: int(row[benchmark])
    for row in files.read_tsv_rows(FOLDER / "axis_counts.tsv")
  }


_KEY_BY_AXIS = {axis: f"{axis}_axis" for axis in AXES}


def make_sample_features() -> tfds.features.FeaturesDict:
  """Returns the TFDS features of a sample."""
  text_feature = tfds.features.Text

  def make_float_feature(doc: str) -> tfds.features.Tensor:
    # Encoding.NONE stores floats in 32 bits.
    return tfds.features.Tensor(
      shape=(),
      dtype=np.float64,
      encoding=tfds.features.Encoding.BYTES,
      doc=doc,
    )

  return tfds.features.FeaturesDict(
    {
      "id": text_feature(doc="e.g. H0028, S0000 if synthetic"),
      "parent_text": text_feature(doc="the statement"),
      **{
        key: text_feature(doc="pieces of the statement")
        for key in _KEY_BY_AXIS.values()
      },
      "location": make_float_feature(
        "xi, log of the time since publication; no peak"
      ),
      "scale": make_float_feature("omega > 0, in the same unit"),
      "skewness": make_float_feature("alpha, the shape"),
      "log_base": make_float_feature("of location and scale"),
      "time_unit": text_feature(doc="of the time before the logarithm"),
    }
  )


def make_example(sample: Sample) -> dict[str, Any]:
  """Returns the example of a sample."""
  return {
    "id": sample.sample_id,
    "parent_text": sample.parent_text,
    **{key: sample.axes[axis] for axis, key in _KEY_BY_AXIS.items()},
    **dict(zip(TARGETS, sample.targets, strict=True)),
    "log_base": sample.log_base,
    "time_unit": sample.time_unit,
  }


def read_samples(builder: BaseBuilder) -> dict[str, list[Sample]]:
  """Returns split -> samples, in the order stored."""
  return {
    split: [_parse_example(row) for row in rows]
    for split, rows in builder.read_splits().items()
  }


def _parse_example(row: dict[str, Any]) -> Sample:
  decode = bytes.decode
  return Sample(
    sample_id=decode(row["id"]),
    parent_text=decode(row["parent_text"]),
    axes={axis: decode(row[key]) for axis, key in _KEY_BY_AXIS.items()},
    # NumPy scalars become the floats of a sample.
    **{target: float(row[target]) for target in TARGETS},
    log_base=float(row["log_base"]),
    time_unit=decode(row["time_unit"]),
  )


_AXIS_BY_KEY = {f"{axis}_axis": axis for axis in AXES}
_HYPOTHETICAL_KEY = "hypothetical_axis"
# As the paper's figure spells it; the authors' code asks for the other.
_HYPOTHESIS_KEY = "hypothesis_axis"
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
    """Raises ValueError for two texts of one axis."""
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
    """Raises ValueError for NaN and Infinity, which Python's JSON accepts."""
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
    """Raises ValueError for an infinite base."""
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
  """
  path = pathlib.Path(path)
  samples: list[Sample] = []
  json_path_by_id: dict[str, str] = {}
  ids_without_axis = []
  with source_files.reading(path):
    text = source_files.decode_utf8(path.read_bytes())
    for json_path, value in iterate_records(text):
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


def iterate_records(text: str) -> Iterator[tuple[str, Any]]:
  """Yields (position in the file, record) of a JSON list or of JSON lines."""
  if text.lstrip().startswith("["):
    for number, value in enumerate(source_files.parse_json(text), start=1):
      yield f"record {number}", value
    return
  for number, line in enumerate(text.split("\n"), start=1):
    if line.strip():
      yield (
        f"line {number}",
        source_files.parse_json(line, location=f"line {number}"),
      )


def read_splits(
  paths: Mapping[str, str | os.PathLike],
) -> dict[str, list[Sample]]:
  """Returns split -> samples of the files.

  Raises SourceError as `read_json_samples`, or for an id in two splits.
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
  """Returns the sample of a record at `json_path`.

  Raises SourceError naming position, id and field at fault.
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
    message += f"; it is {source_files.format_value(member)}"
  elif "unknown field" in message:
    known_names = _STRUCT_BY_PATH[field_path].__struct_encode_fields__
    message += f"; known are {', '.join(known_names)}"
  return f"{json_path}{field_path}: {message}"


HUB_URL = "https://huggingface.co/datasets/krishgoel/chronocept/resolve/main"
CHECKSUMS = pathlib.Path(__file__).with_name("checksums.tsv")
# Split -> file name in the folder of a benchmark.
SPLIT_FILES = {
  "train": "train.json",
  "validation": "valid.json",
  "test": "test.json",
}
# TFDS accepts any download of a URL without size and checksum.
_UNREGISTERED = checksums.UrlInfo(size=None, checksum=None, filename=None)


def locate_published_files(
  manager: tfds.download.DownloadManager,
  benchmark: str,
  folder: str | os.PathLike | None = None,
) -> dict[str, pathlib.Path]:
  """Returns split -> path of the files of a benchmark.

  A folder has the three files, or the benchmark's folder with them. Checksums
  are compared only for downloads.
  """
  urls = {
    name: f"{HUB_URL}/{benchmark}/{name}" for name in SPLIT_FILES.values()
  }
  if folder is not None:
    paths = source_files.find_folder_files(folder, urls)
  else:
    registered = (
      checksums.load_url_infos(CHECKSUMS) if CHECKSUMS.exists() else {}
    )
    paths = source_files.download_files(
      manager,
      {
        name: (url, registered.get(url, _UNREGISTERED))
        for name, url in urls.items()
      },
      source_files.RELEASE_FOLDER_VARIABLE,
    )
  return {split: paths[name] for split, name in SPLIT_FILES.items()}
