"""Masked pre-training of a character encoder on published texts.

Axes: B rows of a batch, W tokens of a row, K masked tokens of a row, D
features, V entries of the vocabulary.

Source: Devlin et al. 2019, section 3.1, without next-sentence prediction.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import huggingface_hub
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from ctd_jax.models.dual_encoder import ENCODER
from ctd_jax.models.encoders import layers
from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.layers import TokenIds, TokenMask
from ctd_jax.models.pretrained import folders, weights
from ctd_jax.models.pretrained.vector_settings import SideSettings
from ctd_jax.training import (
  devices,
  loop,
  pretraining_config,
  pretraining_texts,
  run_folder,
)
from ctd_jax.training import experiment as experiments
from ctd_jax.training import metrics as metrics_lib
from ctd_jax.training.backbone import Backbone
from ctd_jax.training.experiment import TrainingSetup
from ctd_jax.training.input_pipeline import BatchIterator, Share
from ctd_jax.training.objective import Batch, Metrics
from ctd_jax.training.pretraining_texts import (
  COUNTS,
  SHARED_LENGTH,
  MaskedReader,
  PretrainingTexts,
)
from ctd_jax.training.run_folder import Folder
from ctd_jax.training.speed import StepWork
from ctd_jax.utils import files, output

# The best checkpoint has the highest value, the lowest loss.
SELECTION_METRIC = "validation/log_likelihood"
ENCODER_FOLDER = "encoder"  # of the result, in the workdir
COUNTS_FILE = "texts.tsv"
CARD_FILE = "README.md"


@dataclasses.dataclass(frozen=True)
class MaskedModelConfig:
  """Geometry of a masked language model."""

  encoder: BertConfig


class MaskedLanguageModel(nn.Module):
  """Scores of the vocabulary for tokens of a row: [B, K, V]."""

  config: MaskedModelConfig

  @nn.compact
  def __call__(
    self,
    ids: TokenIds,
    segments: TokenMask,
    columns: Int[Array, "B K"] | None = None,
    deterministic: bool = True,
  ) -> Float[Array, "B K V"]:
    """Returns logits, fp32.

    Args:
      ids: token ids.
      segments: passage of each token, from 1; 0 = padding.
      columns: positions of the tokens that are predicted; None = all.
    """
    config = self.config.encoder
    encoder = config.make_encoder().clone(name=ENCODER, parent=self)
    states = encoder(ids, segments, deterministic, columns)
    states = layers.make_dense(config, config.hidden_size, "transform")(states)
    states = nn.LayerNorm(epsilon=config.layer_norm_eps, name="norm")(
      layers.gelu(states)
    )
    # Tied to the table that the encoder reads tokens from.
    tables = self.variables["params"][ENCODER]["embeddings"]
    logits = jnp.matmul(
      states.astype(config.dtype),
      tables["word_embeddings"]["embedding"].T.astype(config.dtype),
      precision=layers.get_precision(config),
      preferred_element_type=jnp.float32,
    )
    zeros = nn.initializers.zeros
    return logits + self.param("bias", zeros, (config.vocab_size,))


@dataclasses.dataclass(frozen=True)
class MaskedObjective:
  """The loss of masked tokens; the loop reads it as an `Objective`."""

  model: MaskedLanguageModel
  mesh: Mesh  # devices over which the rows are split
  encode_chunks: int = 1
  freezes_encoder: bool = False

  def compute_loss(
    self, params: Any, batch: Batch, dropout_key: jax.Array | None
  ) -> tuple[Float[Array, ""], Metrics]:
    """Returns the mean loss of the masked tokens, and the share predicted.

    Args:
      dropout_key: None = no dropout.
    """
    rngs = None if dropout_key is None else {"dropout": dropout_key}
    with devices.use_mesh(self.mesh):
      logits = self.model.apply(
        {"params": params},
        *(batch[name] for name in ("ids", "segments", "columns")),
        deterministic=rngs is None,
        rngs=rngs,
      )
    labels, token_weights = batch["labels"], batch["weights"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    count = jnp.maximum(token_weights.sum(), 1.0)
    loss = (losses * token_weights).sum() / count
    is_right = logits.argmax(axis=-1) == labels
    accuracy = (is_right * token_weights).sum() / count
    return loss, {"loss": loss, "accuracy": accuracy}


@dataclasses.dataclass(frozen=True)
class PretrainingSetup(TrainingSetup):
  """A run of pre-training."""

  model: MaskedLanguageModel  # the encoder and its head
  texts: PretrainingTexts  # rows of tokens

  def training_batches(
    self,
    place: Callable[[dict[str, Any]], Any] | None = None,
    mined: Any = None,
  ) -> BatchIterator:
    """Returns an endless, resumable iterator over batches of masked rows."""
    del mined  # of retrieval
    reader = self.make_reader(self.texts.train)
    return BatchIterator(reader, self.config.input.workers, place)

  def make_reader(
    self, rows: np.ndarray, is_training: bool = True
  ) -> MaskedReader:
    """Returns the reader of this process."""
    return MaskedReader(
      rows,
      self.tokenizer.vocab_size,
      self.config.batch_size,
      self.config.pretraining.mask_share,
      self.config.seed,
      is_training,
      Share(jax.process_index(), jax.process_count()),
    )

  def make_objective(self) -> MaskedObjective:
    """Returns the loss that a step minimises."""
    return MaskedObjective(self.model, self.mesh)

  def count_work(self, batch: Mapping[str, Any]) -> StepWork:
    """Returns the size of a batch over all processes."""
    return StepWork.of_rows(batch["segments"], queries=0)

  def describe(self) -> str:
    """Returns what the run is trained on, for the log."""
    rows, width = self.texts.train.shape
    return (
      f"{len(self.texts.works)} works, {rows} rows of {width} tokens, "
      f"{len(self.texts.validation)} for validation, "
      f"{self.tokenizer.vocab_size} entries for {self.texts.coverage:.2%} of "
      "the characters"
    )


def make_validator(
  setup: PretrainingSetup,
) -> Callable[[Any], tuple[Any, dict[str, float]]]:
  """Returns a function of parameters to these and their metrics."""
  size = setup.config.batch_size
  rows = setup.texts.validation
  # Rows of padding weigh nothing.
  rows = np.pad(rows, ((0, -len(rows) % size), (0, 0)))
  reader = setup.make_reader(rows, is_training=False)
  objective = setup.make_objective()
  evaluate = jax.jit(
    functools.partial(objective.compute_loss, dropout_key=None)
  )

  def validate(params: Any) -> tuple[Any, dict[str, float]]:
    sums, count = np.zeros(2), 0.0
    for number in range(len(rows) // size):
      batch = devices.make_global_batch(reader.map(number), setup.mesh)
      _, metrics = evaluate(params, batch)
      weight = float(batch["weights"].sum())
      sums += weight * np.array([metrics["loss"], metrics["accuracy"]])
      count += weight
    loss, accuracy = (sums / count).tolist()
    return params, {
      "validation/loss": loss,
      "validation/accuracy": accuracy,
      SELECTION_METRIC: -loss,
    }

  return validate


def assemble_setup(
  config: ml_collections.ConfigDict, workdir: str | os.PathLike
) -> PretrainingSetup:
  """Returns the run of a config; reads its texts.

  Args:
    config: see `pretraining_config`.
    workdir: folder of the run.
  """
  pretraining_config.validate(config)
  workdir = run_folder.resolve_folder(workdir)
  texts = pretraining_texts.read_pretraining_texts(config)
  fields = {
    name: value
    for name, value in config.model.encoder.items()
    if value is not None
  }
  encoder = BertConfig(texts.tokenizer.vocab_size, **fields)
  steps = experiments.count_total_steps(
    config.num_epochs,
    config.batch_size,
    len(texts.train),
    config.accumulate_steps,
    f"rows of {encoder.max_length} tokens",
  )
  section = config.pretraining
  description = {
    "task": config.task,
    "texts": texts.digest,
    "vocabulary": texts.tokenizer.fingerprint,
    "mask_share": section.mask_share,
    "model": run_folder.fixed_model_fields(
      {"encoder": config.model.encoder.to_dict()}
    ),
  }
  return PretrainingSetup(
    **experiments.make_run_parts(
      config, workdir, steps, SELECTION_METRIC, description
    ),
    backbone=Backbone(texts.tokenizer, encoder),
    model=MaskedLanguageModel(MaskedModelConfig(encoder)),
    texts=texts,
  )


def pretrain(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike,
  stop_after: int | None = None,
) -> None:
  """Pre-trains an encoder and writes it to WORKDIR/encoder.

  Args:
    config: see `pretraining_config`.
    workdir: created if absent; a run found there is resumed.
    stop_after: leave the loop after this many steps, as a cut-off would.

  Raises:
    CheckpointError: if the workdir holds a run of another config or texts.
    Preempted: if a signal said so; the state has been saved.
    ValueError: if a field or a text is wrong; the message names it.
  """
  with devices.PreemptionWatch() as watch:
    setup = assemble_setup(config, workdir)
    header, rows = ("folder", "work", *COUNTS), setup.texts.list_counts()
    if devices.is_coordinator():
      print(output.format_table("Han characters", header, rows))
      files.write_text(
        setup.workdir / COUNTS_FILE, output.format_delimited(header, rows)
      )
    validate = make_validator(setup)
    is_finished = loop.train(setup, validate, watch, stop_after)
    if is_finished:
      _write_result(setup)
    setup.checkpoints.close()


def _write_result(setup: PretrainingSetup) -> None:
  """Writes the best checkpoint as a folder that other programs load."""
  folder: Folder = setup.workdir / ENCODER_FOLDER
  step = setup.checkpoints.best_step
  params = devices.fetch_to_host(setup.restore_params(step)[ENCODER])
  if not devices.is_coordinator():
    return
  encoder = setup.backbone.encoder
  side = SideSettings("", encoder.max_length)
  weights.export_encoder(
    folder,
    encoder,
    params,
    setup.tokenizer,
    setup.config.model.pooling,
    side,
    side,
    dtype="bfloat16",  # half the size; what is lost is below a seed's noise
  )
  files.write_text(folder / CARD_FILE, str(_make_card(setup, step, folder)))
  print(f"encoder      {folder}, step {step}; see its {CARD_FILE}")


_CARD = """\
---
{{ card_data }}
---

# {{ name }}

A character encoder that `ctd_jax` pre-trained: {{ layers }} layers of width
{{ width }}, {{ tokens }} tokens, {{ entries }} entries in the vocabulary,
weights in bfloat16. Of {{ steps }} steps of training, step {{ step }} was best.

- Licence: {{ licence or "not stated" }}
- sha256 of {{ weights }}: `{{ digest }}`
- Made by `{{ command }}`{% if commit %}, commit `{{ commit }}`{% endif %}

## Texts

{{ table }}
Headings and what editors add are not read. `shared` passages have
{{ shared_length }} Han characters in common with a record of
{{ excluded or "no data set" }}, or are part of one; `dated` ones are beside
these and print a date; `repeated` ones share as many with a `validation`
passage. All three are left out.

## Measured

Masked characters of the validation passages: {{ accuracy }} predicted, loss
{{ loss }}.
"""


def _make_card(
  setup: PretrainingSetup, step: int, folder: Folder
) -> huggingface_hub.ModelCard:
  """Returns the card of the encoder in a folder."""
  section, encoder = setup.config.pretraining, setup.backbone.encoder
  curves = metrics_lib.read_curves(setup.workdir)
  loss, accuracy = (
    dict(zip(*curves[name], strict=True))[step]
    for name in ("validation/loss", "validation/accuracy")
  )
  licence = {"license": section.licence}
  if not section.licence:
    licence = {"license": "other", "license_name": "not-stated"}
  return huggingface_hub.ModelCard.from_template(
    huggingface_hub.ModelCardData(
      language="lzh",  # Literary Chinese
      library_name="sentence-transformers",
      pipeline_tag="feature-extraction",
      tags=["ctd_jax", "masked-language-modelling"],
      **licence,
    ),
    template_str=_CARD,
    name=setup.config.name,
    layers=encoder.num_layers,
    width=encoder.hidden_size,
    tokens=encoder.max_length,
    entries=encoder.vocab_size,
    steps=setup.total_steps,
    step=step,
    licence=section.licence,
    weights=folders.WEIGHTS_FILE,
    digest=files.hash_file(folder / folders.WEIGHTS_FILE),
    command=files.command_line(),
    commit=files.code_commit(),
    table=output.format_table(
      "Han characters",
      ("folder", "work", *COUNTS),
      setup.texts.list_counts(),
      markdown=True,
    ),
    shared_length=SHARED_LENGTH,
    excluded=", ".join(section.exclude),
    accuracy=f"{accuracy:.1%}",
    loss=f"{loss:.3f}",
  )
