"""Data sets of `ctd_jax`, installed as `ctd_jax_datasets`.

Importing this package registers the builders with TFDS, so that
`tfds.builder("chunqiutr/mini")` works from any folder, and lets `tfds.load`
read their file format where TensorFlow is installed. Fact tables that need
no builder (`reigns/*.tsv`) are found without importing it.
"""

from ctd_jax_datasets.chronocept import chronocept_dataset_builder
from ctd_jax_datasets.chunqiutr import chunqiutr_dataset_builder
from ctd_jax_datasets.common import base_builder
from ctd_jax_datasets.ctm import ctm_dataset_builder
from ctd_jax_datasets.zztj import zztj_dataset_builder

__all__ = [
  "chronocept_dataset_builder",
  "chunqiutr_dataset_builder",
  "ctm_dataset_builder",
  "zztj_dataset_builder",
]

base_builder.register_adapter()
