"""Stored form of samples: features, writing and reading."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from ctd_jax_datasets.chronocept.samples import AXES, TARGETS, Sample

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


def read_samples(builder: tfds.core.DatasetBuilder) -> dict[str, list[Sample]]:
  """Returns split -> samples, in the order stored.

  Args:
    builder: of a built data set.
  """
  return {
    split: [_parse_example(row) for row in rows]
    for split, rows in builder.as_data_source().items()
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
