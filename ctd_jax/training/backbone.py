"""The encoder that a config names: from scratch, or published and fine-tuned.

Why: with `config.model.encoder.source` the vocabulary, the geometry and the
initial parameters come from one folder; without it the vocabulary is made of
the training texts and the geometry stands in the config. A run that has begun
finds its own copy of vocabulary and geometry in its workdir, and needs the
published folder no more. Called by `experiment`.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax
import ml_collections

from ctd_jax.benchmark.dataset import Benchmark
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.pretrained import geometry, hub_folders, state_dict
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.models.text_encoder import read_folder
from ctd_jax.models.tokenizer import TextTokenizer
from ctd_jax.training import input_pipeline

# What a published encoder is asked; the rest of its fields are geometry.
_SOURCE_FIELDS = ("source", "end_token", "query_prefix", "record_prefix")


@dataclasses.dataclass(frozen=True)
class Backbone:
  """Vocabulary, geometry and origin of an encoder; `make` returns one.

  Attributes:
    tokenizer: its vocabulary.
    encoder: its geometry.
    source: folder or hub id of its initial parameters; "" = random ones.
    query_prefix: stands before every query.
    record_prefix: stands before every record.
  """

  tokenizer: TextTokenizer
  encoder: EncoderConfig
  source: str = ""
  query_prefix: str = ""
  record_prefix: str = ""

  def load_params(self, sharding: jax.sharding.Sharding) -> Any:
    """Returns the published parameters, None where they are random.

    Args:
      sharding: where they live.

    Raises:
      FileNotFoundError: if the folder or its weights are missing.
      ValueError: if the weights do not fit.
    """
    if not self.source:
      return None
    folder = hub_folders.find_model_folder(self.source)
    return state_dict.load_params(folder, self.encoder, sharding)

  def save(self, folder: pathlib.Path) -> None:
    """Writes what a run that goes on needs: vocabulary and geometry."""
    self.tokenizer.save(folder)
    if self.source:
      geometry.write_encoder_config(folder, self.encoder)


def make_backbone(
  config: ml_collections.ConfigDict,
  benchmark: Benchmark,
  saved_folder: pathlib.Path | None,
) -> Backbone:
  """Returns the backbone of a config.

  Args:
    config: the whole config; `model.encoder` and `model.pooling` are read.
    benchmark: whose training texts give a vocabulary from scratch.
    saved_folder: where `Backbone.save` wrote for a run that has begun, or None.

  Raises:
    FileNotFoundError: if the folder, the hub's model or a file is missing.
    ValueError: if a file does not fit the config.
  """
  encoder_fields = config.model.encoder.to_dict()
  source_fields = {
    name: encoder_fields.pop(name, "") for name in _SOURCE_FIELDS
  }
  end_token = source_fields.pop("end_token")
  if source_fields["source"]:
    folder = saved_folder or hub_folders.find_model_folder(
      source_fields["source"]
    )
    tokenizer, encoder = read_folder(
      folder, config.model.pooling, end_token, **encoder_fields
    )
    return Backbone(tokenizer, encoder, **source_fields)
  if saved_folder is None:
    tokenizer = input_pipeline.build_tokenizer(benchmark)
  else:
    tokenizer = TextTokenizer.load(saved_folder)
  return Backbone(tokenizer, BertConfig(tokenizer.vocab_size, **encoder_fields))
