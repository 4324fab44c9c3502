"""A tiny encoder in the published layout, and a few samples, for tests."""

import pathlib
import shutil
import string

from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax_datasets.chronocept import chronocept_dataset_builder

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "encoders" / "bert"
SIZES = {"train": 24, "validation": 10, "test": 9}


def encoder(folder: pathlib.Path) -> pathlib.Path:
  """Returns a folder with a BERT of width 16 that reads single letters."""
  shutil.copytree(GOLDEN, folder)
  TextTokenizer.build([string.ascii_lowercase]).save(folder)
  return folder


def samples(benchmark="benchmark_1"):
  """Returns split -> the first synthetic samples."""
  actual = chronocept_dataset_builder.generate_samples(benchmark)
  return {split: actual[split][:size] for split, size in SIZES.items()}
