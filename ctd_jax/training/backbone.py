"""Encoder of a config: made from scratch, or published and fine-tuned.

With `config.model.encoder.source` the vocabulary, the geometry and the initial
parameters come from one folder; without it the vocabulary is made of the
training texts and the geometry is in the config. A run that has begun
finds its own copy of vocabulary and geometry in its workdir and does not need
the published folder again.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import ml_collections

from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.chronology.reigns import Timeline
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.layers import LoraConfig
from ctd_jax.models.pretrained import folders, weights
from ctd_jax.models.pretrained.folders import EncoderConfig
from ctd_jax.models.text_encoder import read_folder
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import input_pipeline
from ctd_jax.training.date_marks import NO_MARKS, DateMarks
from ctd_jax.training.run_folder import Folder

# Fields of a published encoder that are not geometry.
_SOURCE_FIELDS = ("source", "end_token", "query_prefix", "record_prefix")


@dataclasses.dataclass(frozen=True)
class Backbone:
  """Vocabulary, geometry and origin of a text encoder."""

  tokenizer: TextTokenizer  # its vocabulary
  encoder: EncoderConfig  # its geometry, with its adapters
  # Folder or hub id of its initial parameters; "" = random ones.
  source: str = ""
  query_prefix: str = ""  # comes before every query
  record_prefix: str = ""  # comes before every record
  # Dates that come before the texts, behind the prefixes.
  date_marks: DateMarks = NO_MARKS

  def move_to(self, timeline: Timeline) -> Backbone:
    """Returns the backbone for texts of a calendar; see `DateMarks.move_to`."""
    return dataclasses.replace(
      self, date_marks=self.date_marks.move_to(timeline)
    )

  def load_params(self, sharding: Any) -> Any:
    """Returns the published parameters, None if they are random.

    Args:
      sharding: one for all parameters, or a tree of them.
    """
    if not self.source:
      return None
    folder = folders.find_model_folder(self.source)
    dtype = self.encoder.lora.base_dtype if self.encoder.lora else "float32"
    return weights.load_params(
      folder, dataclasses.replace(self.encoder, lora=None), sharding, dtype
    )

  def hash_weights(self) -> str:
    """Returns a hash of the published weights, hexadecimal."""
    with _naming_source():
      folder = folders.find_model_folder(self.source)
      return folders.hash_weights(folder)

  def save(self, folder: Folder) -> None:
    """Writes vocabulary and geometry, which a resumed run reads."""
    self.tokenizer.save(folder)
    if self.source:
      folders.write_encoder_config(folder, self.encoder)


def read_published_backbone(
  section: ml_collections.ConfigDict, saved_folder: Folder | None
) -> Backbone:
  """Returns the backbone of a config that names a published encoder.

  Args:
    section: `config.model`, whose encoder has a source.
    saved_folder: folder that `Backbone.save` wrote for a run that has begun;
      None for a new one, which needs the weights too.
  """
  geometry_fields, source_fields = split_encoder_fields(section)
  end_token = source_fields.pop("end_token")
  with _naming_source():
    folder = saved_folder or folders.find_model_folder(source_fields["source"])
    tokenizer, encoder = read_folder(
      folder, section.pooling, end_token, **geometry_fields
    )
    if saved_folder is None:
      folders.TensorFiles(folder)  # opened here, read when training starts
  return Backbone(tokenizer, encoder, **source_fields)


@contextlib.contextmanager
def _naming_source() -> Iterator[None]:
  """Has the error of what is missing name the field of the config."""
  try:
    yield
  except FileNotFoundError as error:
    raise FileNotFoundError(
      f"config.model.encoder.source: {error}; name a folder of the model with "
      "--config.model.encoder.source=FOLDER"
    ) from None


def make_scratch_backbone(
  section: ml_collections.ConfigDict,
  benchmark: Benchmark | None,
  saved_folder: Folder | None,
  date_marks: DateMarks = NO_MARKS,
) -> Backbone:
  """Returns the backbone of a config that gives a geometry.

  Args:
    section: `config.model`.
    benchmark: benchmark whose training texts give the vocabulary of a new run;
      not read where there is a folder.
    saved_folder: folder that `Backbone.save` wrote for a run that has begun, or
      an exported folder; None for a new run.
    date_marks: date marks, whose tokens the vocabulary also has.
  """
  geometry_fields, _ = split_encoder_fields(section)
  if saved_folder is None:
    tokenizer = input_pipeline.build_tokenizer(benchmark, date_marks.vocabulary)
  else:
    tokenizer = TextTokenizer.load(saved_folder)
  encoder = BertConfig(tokenizer.vocab_size, **geometry_fields)
  return Backbone(tokenizer, encoder, date_marks=date_marks)


def split_encoder_fields(
  section: ml_collections.ConfigDict,
) -> tuple[dict[str, Any], dict[str, str]]:
  """Returns the fields of geometry and those of a published folder.

  A field that is None is left to the folder. The adapters are geometry.
  """
  geometry_fields = {
    name: value for name, value in section.encoder.items() if value is not None
  }
  source_fields = {
    name: geometry_fields.pop(name, "") for name in _SOURCE_FIELDS
  }
  if section.lora.rank:
    lora_fields = section.lora.to_dict()
    targets = tuple(lora_fields.pop("targets"))  # a list where read as JSON
    geometry_fields["lora"] = LoraConfig(**lora_fields, targets=targets)
  return geometry_fields, source_fields
