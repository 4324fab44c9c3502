"""How samples are stored, and how they are read back.

Why: the fields of a stored sample are written and read in one place. Called by
the builder, `summary` and `reader`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from ctd_jax_datasets.chronocept.samples import AXES, TARGETS, Sample

_KEYS = {axis: f"{axis}_axis" for axis in AXES}


def features() -> tfds.features.FeaturesDict:
  """Returns the features of a sample."""
  text = tfds.features.Text

  def number(doc: str) -> tfds.features.Tensor:
    # As bytes: the other encoding keeps no more than 32 bits.
    return tfds.features.Tensor(
      shape=(),
      dtype=np.float64,
      encoding=tfds.features.Encoding.BYTES,
      doc=doc,
    )

  return tfds.features.FeaturesDict(
    {
      "id": text(doc="e.g. H0028, S0000 if synthetic"),
      "parent_text": text(doc="the statement"),
      **{key: text(doc="pieces of the statement") for key in _KEYS.values()},
      "location": number("xi, log of the time since publication; no peak"),
      "scale": number("omega > 0, in the same unit"),
      "skewness": number("alpha, the shape"),
      "log_base": number("of location and scale"),
      "time_unit": text(doc="of the time before the logarithm"),
    }
  )


def example_of(sample: Sample) -> dict[str, Any]:
  """Returns the example of a sample."""
  return {
    "id": sample.sample_id,
    "parent_text": sample.parent_text,
    **{key: sample.axes[axis] for axis, key in _KEYS.items()},
    **dict(zip(TARGETS, sample.targets, strict=True)),
    "log_base": sample.log_base,
    "time_unit": sample.time_unit,
  }


def read_samples(builder: tfds.core.DatasetBuilder) -> dict[str, list[Sample]]:
  """Returns split -> samples, in the order stored.

  Args:
    builder: of a data set that has been built.
  """
  return {
    split: [_sample_of(row) for row in rows]
    for split, rows in builder.as_data_source().items()
  }


def _sample_of(row: dict[str, Any]) -> Sample:
  text = bytes.decode
  return Sample(
    sample_id=text(row["id"]),
    parent_text=text(row["parent_text"]),
    axes={axis: text(row[key]) for axis, key in _KEYS.items()},
    **{target: float(row[target]) for target in TARGETS},
    log_base=float(row["log_base"]),
    time_unit=text(row["time_unit"]),
  )
