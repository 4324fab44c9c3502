"""Workload of a planned run: geometry, calendar and lengths of its texts.

Neither weights nor texts are read. What they would say is assumed instead.
"""

from __future__ import annotations

import dataclasses
import pathlib

import huggingface_hub
import ml_collections

from ctd_jax.chronology import reign_tables
from ctd_jax.chronology.timelines import Timeline
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.pretrained import geometry, hub_folders
from ctd_jax.models.pretrained.geometry import EncoderConfig
from ctd_jax.training import backbone
from ctd_jax_datasets import load, registry
from ctd_jax_datasets.common import beir


@dataclasses.dataclass(frozen=True)
class Workload:
  """What a step is planned for.

  Attributes:
    encoder: geometry.
    timeline: calendar of the data set.
    query_tokens: of every query.
    record_tokens: of every record.
  """

  encoder: EncoderConfig
  timeline: Timeline
  query_tokens: int
  record_tokens: int


def read_workload(
  config: ml_collections.ConfigDict,
  query_tokens: int | None = None,
  record_tokens: int | None = None,
  vocab_size: int = 8000,
) -> Workload:
  """Returns the workload of a config.

  Args:
    config: of the run.
    query_tokens: of every query; None = as many as the config cuts it to.
    record_tokens: of every record, likewise.
    vocab_size: of an encoder that is made from scratch.

  Raises:
    FileNotFoundError: if the geometry of a published encoder is not to be had.
    ValueError: if there is no such data set, or a number lies outside its
      range.
  """
  return Workload(
    encoder=_read_geometry(config.model, vocab_size),
    timeline=_read_timeline(config),
    query_tokens=_choose_length(config, "query", query_tokens),
    record_tokens=_choose_length(config, "record", record_tokens),
  )


def _choose_length(
  config: ml_collections.ConfigDict, side: str, tokens: int | None
) -> int:
  """Returns the tokens of the texts of a side."""
  longest = config[f"{side}_length"]
  if tokens is None:
    return longest
  if not 1 <= tokens <= longest:
    raise ValueError(
      f"--{side}_tokens={tokens}: expected 1 to {longest}, which is "
      f"config.{side}_length"
    )
  return tokens


def _read_geometry(
  section: ml_collections.ConfigDict, vocab_size: int
) -> EncoderConfig:
  """Returns the geometry of `config.model`."""
  fields, source_fields = backbone.split_encoder_fields(section)
  if not source_fields["source"]:
    return BertConfig(vocab_size, **fields)
  try:
    folder = _find_geometry_folder(source_fields["source"])
    return geometry.read_encoder_config(folder, **fields)
  except FileNotFoundError as error:
    raise FileNotFoundError(
      f"config.model.encoder.source: {error}; name a folder that holds its "
      f"{hub_folders.CONFIG_FILE} with --config.model.encoder.source=FOLDER"
    ) from None


def _find_geometry_folder(source: str) -> pathlib.Path:
  """Returns a folder with config.json; of a hub id no more is downloaded."""
  folder = pathlib.Path(source).expanduser()
  if folder.is_dir() or not hub_folders.is_hub_id(source):
    return folder
  try:
    path = huggingface_hub.hf_hub_download(source, hub_folders.CONFIG_FILE)
  except Exception as error:  # network, proxy and hub errors share no base
    raise FileNotFoundError(
      f"{source}: neither a folder here nor a model that the hub gave "
      f"({type(error).__name__})"
    ) from error
  return pathlib.Path(path).parent


def _read_timeline(config: ml_collections.ConfigDict) -> Timeline:
  """Returns the calendar of a data set, which need not be built."""
  if config.dataset.startswith(beir.BEIR_PREFIX):
    return load.load_benchmark(config.dataset).timeline
  builder = registry.make_builder(config.dataset, config.data_dir)
  return reign_tables.load_timeline(builder.info.metadata["timeline"])
