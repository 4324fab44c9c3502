"""Encoder of an index: records and questions as vectors of length 1.

It is a trained run (workdir or export) or a published encoder. A run uses the
prefixes and lengths that it was trained with; only the cosine in its score is
used, because the index has posteriors for the time.

Axes: n texts, D width of a vector.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging
from jaxtyping import Float32

from ctd_jax.index.manifest import EncoderEntry

if TYPE_CHECKING:
  from ctd_jax.retrieval.trained_system import TrainedSystem

NO_ENCODER = "none"  # value of the flag
RUN, PUBLISHED = "run", "encoder"
_SHOWN_DIGITS = 12  # of a hash
_EXPECTED = (
  "the workdir of a run that was trained to its end, an exported run, or a "
  "published encoder with config.json and model.safetensors"
)

EncodeTexts = Callable[[Sequence[str]], Float32[np.ndarray, "n D"]]


@dataclasses.dataclass(frozen=True)
class VectorEncoder:
  """Makes vectors of records and questions; `open_encoder` opens one."""

  # An export has the hash of its workdir, unless adapters were merged into it.
  entry: EncoderEntry
  encode_records: EncodeTexts = dataclasses.field(repr=False)
  encode_questions: EncodeTexts = dataclasses.field(repr=False)


def describe_encoder(entry: EncoderEntry) -> str:
  """Returns an encoder as errors and summaries name it."""
  return f"{entry.name} (sha256 {entry.sha256[:_SHOWN_DIGITS]})"


def find_encoder_path(source: str | os.PathLike) -> str:
  """Returns the absolute path of an encoder, or its hub id."""
  from ctd_jax.models.pretrained import folders
  from ctd_jax.training import run_folder

  folder = run_folder.resolve_folder(source)
  if folder.exists():
    return str(folder)
  if folders.is_hub_id(source):
    return str(source)
  raise FileNotFoundError(
    f"--encoder={source}: no such folder; expected {_EXPECTED}, or {NO_ENCODER}"
  )


def open_encoder(
  source: str | os.PathLike, data_dir: str | os.PathLike | None = None
) -> VectorEncoder:
  """Returns an encoder with its parameters.

  Args:
    source: workdir or export of a run, a published encoder's folder or hub id.
    data_dir: folder with the data set of a workdir; None to use its config.
  """
  from ctd_jax.models.pretrained import folders
  from ctd_jax.training import run_folder

  path = find_encoder_path(source)
  folder = run_folder.resolve_folder(path)
  if (folder / run_folder.TRAINING_FILE).exists():
    return _open_run(path, _restore_run(folder, data_dir))
  if (folder / run_folder.SYSTEM_FILE).exists():
    from ctd_jax.retrieval import trained_system

    return _open_run(path, trained_system.read_system(pathlib.Path(folder)))
  folder = folders.find_model_folder(path)
  weights = folders.WEIGHTS_FILE, folders.INDEX_FILE
  if not any((folder / name).is_file() for name in weights):
    raise FileNotFoundError(
      f"--encoder={path}: no encoder there; expected {_EXPECTED}"
    )
  return _open_published(path, folder)


def open_encoder_of(
  entry: EncoderEntry,
  source: str | os.PathLike | None = None,
  data_dir: str | os.PathLike | None = None,
) -> VectorEncoder:
  """Returns the encoder that made an index's vectors.

  Args:
    source: its new location; None if it is where it was.

  Raises:
    ValueError: if it is another encoder.
  """
  made_with = describe_encoder(entry)
  if source is None:
    try:
      source = _find_recorded_path(entry.path)
    except FileNotFoundError:
      raise FileNotFoundError(
        f"{entry.path}: missing; it held the encoder of this index, "
        f"{made_with}; give its folder with --encoder=FOLDER, or search "
        f"without vectors with --encoder={NO_ENCODER}"
      ) from None
  encoder = open_encoder(source, data_dir)
  if encoder.entry.sha256 != entry.sha256:
    raise ValueError(
      f"--encoder={source}: {describe_encoder(encoder.entry)}, but "
      f"the vectors of the index were made with {made_with} of {entry.path}; "
      "name that one, or make them again with python -m ctd_jax.index "
      f"--encoder={source}"
    )
  return encoder


def _find_recorded_path(path: str) -> str:
  """Returns where an encoder that an index names is on this machine.

  Raises:
    FileNotFoundError: if it is not here. The index may come from a stranger:
      opening it sends no request to a hub or bucket.
  """
  from ctd_jax.models.pretrained import folders

  if folders.is_hub_id(path) and not os.path.isdir(path):
    return str(folders.find_model_folder(path, may_download=False))
  if "://" in path:
    raise FileNotFoundError(path)
  return find_encoder_path(path)


def _restore_run(
  workdir: Any, data_dir: str | os.PathLike | None
) -> TrainedSystem:
  from ctd_jax.retrieval import trained_system
  from ctd_jax.training import experiment as experiments
  from ctd_jax.training import run_folder

  logging.info(
    "%s: the data set of the run is loaded with it; python -m ctd_jax.export "
    "makes a folder that needs none",
    workdir,
  )
  config = run_folder.read_config(workdir)
  if data_dir is not None:
    config.data_dir = os.fspath(data_dir)
  experiment = experiments.assemble_experiment(config, workdir)
  if experiment.checkpoints.best_step is None:
    raise FileNotFoundError(
      f"--encoder={workdir}: no checkpoint there; train it to its first "
      "validation"
    )
  return trained_system.restore_system(experiment)


def _open_run(path: str, system: TrainedSystem) -> VectorEncoder:
  from ctd_jax.models import dual_encoder
  from ctd_jax.retrieval import dense
  from ctd_jax.training import date_marks, input_pipeline
  from ctd_jax.training import experiment as experiments

  config, backbone = system.config, system.backbone
  if date_marks.find_track(config) == "T1":
    raise ValueError(
      f"--encoder={path}: config.dates.records='key': the run reads the time "
      "keys of records (track T1), and those of an index are what is looked "
      "for; expected a run with config.dates.records='text'"
    )
  mode = system.score_mode
  # The cosine of the other scores is that of the vectors with context.
  mode = mode if mode in dual_encoder.INNER_PRODUCTS else "absolute"
  ranker = dense.TextRanker(config, system.model, system.mesh)

  def encode(
    params: Any, tokens: input_pipeline.Tokens, description: str
  ) -> Float32[np.ndarray, "n D"]:
    encoding = ranker.encode_texts(params, tokens, description)
    # An index compares cosines, whatever the run was trained with.
    vectors = encoding.vectors(mode)
    if config.model.similarity != "cosine":
      vectors = dual_encoder.normalize_vectors(vectors)
    return np.asarray(vectors, np.float32)

  def encode_records(texts: Sequence[str]) -> Float32[np.ndarray, "n D"]:
    tokens = experiments.tokenize_side(
      "record", texts, backbone, config, "records"
    )
    return encode(system.params, tokens, "encode records")

  def encode_questions(texts: Sequence[str]) -> Float32[np.ndarray, "n D"]:
    tokens = experiments.tokenize_side(
      "query", texts, backbone, config, "questions"
    )
    params = dual_encoder.choose_query_tower(system.params)
    return encode(params, tokens, "encode questions")

  settings = {
    "kind": RUN,
    "vectors": mode,
    "model": _describe_config(system.model.config),
    "tokenizer": backbone.tokenizer.fingerprint,
    "query": [backbone.query_prefix, config.query_length],
    "record": [backbone.record_prefix, config.record_length],
  }
  if config.dates.form:  # left out of the hash of runs without
    settings["dates"] = config.dates.form
  if config.eval.dimension:
    settings["dimension"] = config.eval.dimension
  entry = EncoderEntry(
    path=path,
    name=config.name,
    kind=RUN,
    sha256=_hash_encoder(settings, system.params),
    dimensions=config.eval.dimension or system.model.config.encoder.hidden_size,
    vectors=0,
  )
  return VectorEncoder(entry, encode_records, encode_questions)


def _open_published(path: str, folder: pathlib.Path) -> VectorEncoder:
  from ctd_jax.models.pretrained import vector_settings
  from ctd_jax.models.text_encoder import TextEncoder

  declared = vector_settings.read_vector_settings(folder)
  if declared.pooling is None:
    raise ValueError(
      f"--encoder={path}: does not say how its vectors are made; expected "
      f"{vector_settings.MODULES_FILE} with a pooling, as "
      "sentence-transformers writes it"
    )
  records = TextEncoder.load(folder, side="record", normalize=True)
  max_tokens = records.config.max_length
  questions = dataclasses.replace(
    records,
    prefix=declared.query.prefix,
    max_length=min(declared.query.max_length or max_tokens, max_tokens),
  )
  settings = {
    "kind": PUBLISHED,
    "pooling": records.pooling,
    "encoder": _describe_config(records.config),
    "tokenizer": records.tokenizer.fingerprint,
    "query": [questions.prefix, questions.max_length],
    "record": [records.prefix, records.max_length],
  }
  entry = EncoderEntry(
    path=path,
    name=path if not pathlib.Path(path).is_absolute() else folder.name,
    kind=PUBLISHED,
    sha256=_hash_encoder(settings, records.params),
    dimensions=records.width,
    vectors=0,
  )
  return VectorEncoder(entry, records.encode, questions.encode)


def _describe_config(config: Any) -> dict[str, Any]:
  """Returns the fields of a configuration that its vectors depend on."""
  from ctd_jax.models import dual_encoder

  # Unset fields, fields outside the repr and an unused Gaussian are left out,
  # so that the hash of a model stays when others get new fields.
  fields = {
    field.name: value
    for field in dataclasses.fields(config)
    if field.repr and (value := getattr(config, field.name)) is not None
  }
  if not fields.get("use_gaussian", True):
    del fields["use_gaussian"], fields["gaussian_dim"]
  return {
    name: _describe_config(value) if dataclasses.is_dataclass(value) else value
    for name, value in dual_encoder.drop_old_values(fields).items()
  }


def _hash_encoder(settings: Mapping[str, Any], params: Any) -> str:
  """Returns a hash of all that vectors depend on."""
  from flax import traverse_util

  from ctd_jax.training import devices

  digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
  leaves = traverse_util.flatten_dict(params, sep="/")
  for name in sorted(leaves):
    # Leaf by leaf: a sharded model may not fit on one host.
    leaf = np.ascontiguousarray(devices.fetch_to_host(leaves[name]))
    digest.update(f"{name} {leaf.dtype} {leaf.shape}".encode())
    digest.update(leaf.reshape(-1).view(np.uint8))  # bf16 is not a buffer
  return digest.hexdigest()
