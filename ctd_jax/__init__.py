"""Retrieval and dating of records in chronicles dated by reigns.

The names of `__all__` are the public API. They are imported on first use, so
that `import ctd_jax` costs nothing:

  >>> import ctd_jax
  >>> benchmark = ctd_jax.load_benchmark("chunqiutr/mini")
  >>> len(benchmark.queries["test"])
  250
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from ctd_jax.chronology.date_readings import parse_date
  from ctd_jax.dating.dating_model import DatingModel
  from ctd_jax.evaluation.scoring import evaluate
  from ctd_jax.index.asking import Index
  from ctd_jax.models.text_encoder import TextEncoder
  from ctd_jax.retrieval.retriever import Retriever
  from ctd_jax.tasks.chronocept.systems import ValidityModel
  from ctd_jax_datasets.load import load_benchmark

__version__ = "0.2.0"

__all__ = [
  "DatingModel",
  "Index",
  "Retriever",
  "TextEncoder",
  "ValidityModel",
  "evaluate",
  "load_benchmark",
  "parse_date",
]

# Public name -> module that defines it.
_MODULES = {
  "DatingModel": "ctd_jax.dating.dating_model",
  "Index": "ctd_jax.index.asking",
  "Retriever": "ctd_jax.retrieval.retriever",
  "TextEncoder": "ctd_jax.models.text_encoder",
  "ValidityModel": "ctd_jax.tasks.chronocept.systems",
  "evaluate": "ctd_jax.evaluation.scoring",
  "load_benchmark": "ctd_jax_datasets.load",
  "parse_date": "ctd_jax.chronology.date_readings",
}


def __getattr__(name: str) -> Any:
  if name not in _MODULES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  value = getattr(importlib.import_module(_MODULES[name]), name)
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return sorted([*__all__, "__version__"])
