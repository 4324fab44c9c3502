"""Head of a masked language model: a logit for each vocabulary entry.

Learned sparse retrieval weighs the vocabulary entries that a text suggests to
the pretrained model. One module serves BERT, DistilBERT and the XLM-R family;
only the names of their tensors differ.

Axes: B texts, L tokens, D features, V vocabulary entries.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float

from ctd_jax.models.encoders.bert import BertConfig
from ctd_jax.models.encoders.layers import make_dense
from ctd_jax.models.pretrained import hub_folders

# Parameter -> tensor, of BERT, of the XLM-R family and of DistilBERT.
_HEAD_NAMES = (
  {
    "transform": "cls.predictions.transform.dense",
    "norm": "cls.predictions.transform.LayerNorm",
    "bias": "cls.predictions.bias",
    "decoder": "cls.predictions.decoder.weight",
  },
  {
    "transform": "lm_head.dense",
    "norm": "lm_head.layer_norm",
    "bias": "lm_head.bias",
    "decoder": "lm_head.decoder.weight",
  },
  {
    "transform": "vocab_transform",
    "norm": "vocab_layer_norm",
    "bias": "vocab_projector.bias",
    "decoder": "vocab_projector.weight",
  },
)


class MaskedLMHead(nn.Module):
  """Logits of all vocabulary entries for every token, fp32 [..., V].

  Source: Devlin et al. 2019, as the reference weights have it: projection,
  GELU, layer norm, product with the token table, bias.
  """

  config: BertConfig

  @nn.compact
  def __call__(
    self, states: Float[Array, "*tokens D"], table: Float[Array, "V D"]
  ) -> Float[Array, "*tokens V"]:
    """Returns the logits, fp32 [..., V].

    Args:
      states: last states of the encoder, of one text [L, D] or of several
        [B, L, D].
      table: token table, a row for each entry, [V, D].
    """
    config = self.config
    hidden_states = make_dense(config, config.hidden_size, "transform")(states)
    hidden_states = nn.gelu(hidden_states, approximate=False)
    # In fp32 also where the projection computes in bf16.
    norm = nn.LayerNorm(epsilon=config.layer_norm_eps, name="norm")
    bias = self.param("bias", nn.initializers.zeros, (config.vocab_size,))
    # LN(gelu(W x + b)) E^T + c
    return norm(hidden_states) @ table.T + bias


def load_masked_lm_head(
  folder: pathlib.Path, config: BertConfig, params: Any
) -> tuple[Any, Float[Array, "V D"]]:
  """Returns the parameters of `MaskedLMHead` and the token table it takes.

  Args:
    folder: of the model.
    config: geometry of its encoder.
    params: parameters of its encoder; their token table is returned where the
      folder has no output layer of its own.

  Raises:
    FileNotFoundError: if the weights are missing.
    ValueError: naming the tensors that are missing or of another shape.
  """
  tensors = hub_folders.TensorFiles(folder)
  table = params["embeddings"]["word_embeddings"]["embedding"]
  width = config.hidden_size
  for names in _HEAD_NAMES:
    if f"{names['transform']}.weight" in tensors.shapes:
      break
  else:
    expected_names = " or ".join(
      f"{names['transform']}.weight" for names in _HEAD_NAMES
    )
    raise ValueError(
      f"{folder}: the weights have no masked-LM head; expected {expected_names}"
    )
  shapes = {
    f"{names['transform']}.weight": (width, width),
    f"{names['transform']}.bias": (width,),
    f"{names['norm']}.weight": (width,),
    f"{names['norm']}.bias": (width,),
    names["bias"]: (config.vocab_size,),
  }
  # Usually tied to the token table and then not stored.
  if names["decoder"] in tensors.shapes:
    shapes[names["decoder"]] = table.shape
  arrays = _read_tensors(folder, tensors, shapes)
  head = {
    "transform": {
      # Stored [out, in].
      "kernel": arrays[f"{names['transform']}.weight"].T,
      "bias": arrays[f"{names['transform']}.bias"],
    },
    "norm": {
      "scale": arrays[f"{names['norm']}.weight"],
      "bias": arrays[f"{names['norm']}.bias"],
    },
    "bias": arrays[names["bias"]],
  }
  head = jax.tree.map(jnp.asarray, head)
  return head, jnp.asarray(arrays.get(names["decoder"], table))


def _read_tensors(
  folder: pathlib.Path,
  tensors: hub_folders.TensorFiles,
  shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, np.ndarray]:
  """Returns whole tensors of the given shapes, by name."""
  mismatches = [
    f"{name} {tensors.shapes.get(name, 'missing')} instead of {shape}"
    for name, shape in shapes.items()
    if tensors.shapes.get(name) != shape
  ]
  if mismatches:
    raise ValueError(f"{folder}: masked-LM head: {', '.join(mismatches)}")
  return {
    name: tensors.read_tensor(name, (slice(None),) * len(shape))
    for name, shape in shapes.items()
  }
