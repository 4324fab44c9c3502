"""Trained dater: parameters of the linked dater as a folder of their own.

Nothing in it knows a calendar: a link is judged by the wording that two texts
share, a string by its length and rarity. So a dater trained on one corpus dates
the records of another. What is read off the known records of a corpus, which
years have which strings, is read off every corpus anew, and the encoder of
years is fitted to them anew.

linked_dater.json says what the model is, linked_dater.safetensors holds its
parameters.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import msgspec
import numpy as np
from absl import logging
from flax import traverse_util
from jaxtyping import Float
from safetensors import numpy as safetensors_numpy

from ctd_jax.dating.experts.vocabulary import YearVocabulary
from ctd_jax.models.linked_dater import LinkedDaterConfig
from ctd_jax.models.pretrained import hub_folders
from ctd_jax.utils import files

MODEL_FILE, PARAMS_FILE = "linked_dater.json", "linked_dater.safetensors"
_FORMAT = 1


class _ModelFile(msgspec.Struct, forbid_unknown_fields=True):
  """Content of MODEL_FILE."""

  format: int
  config: LinkedDaterConfig
  word_weights: dict[str, list[float]]
  trained_on: str
  seed: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TrainedDater:
  """What was learned, of no corpus in particular.

  Attributes:
    config: of the network.
    params: of the network.
    word_weights: of the strings of each length and rarity, by kernel; see
      `YearVocabulary.group_names`.
    trained_on: description of the corpus, for people.
    seed: of the training.
  """

  config: LinkedDaterConfig
  params: Any
  word_weights: Mapping[str, list[float]]
  trained_on: str
  seed: int

  def weigh_words(self, vocabulary: YearVocabulary) -> Float[np.ndarray, " f"]:
    """Returns the weights of the groups of strings of a corpus.

    Strings of a length and rarity that training had not have none.

    Args:
      vocabulary: of the corpus.
    """
    weights = [
      self.word_weights.get(name, [0.0] * vocabulary.num_kernels)
      for name in vocabulary.group_names
    ]
    # By kernel, then by group, as `words.FittedWords` has them.
    return np.array(weights).reshape(-1, vocabulary.num_kernels).T.ravel()

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the folder, which is made if needed.

    Args:
      folder: that `load` reads.
    """
    folder = pathlib.Path(folder).expanduser()
    tensors = {
      name: np.asarray(leaf, np.float32, order="C")
      for name, leaf in traverse_util.flatten_dict(
        jax.device_get(self.params), sep="/"
      ).items()
    }
    with files.atomic_path(folder / PARAMS_FILE) as temporary:
      safetensors_numpy.save_file(tensors, temporary)
    content = _ModelFile(
      format=_FORMAT,
      config=self.config,
      word_weights=dict(self.word_weights),
      trained_on=self.trained_on,
      seed=self.seed,
    )
    # Last: its presence says that the parameters are there.
    text = msgspec.json.format(msgspec.json.encode(content), indent=2)
    files.write_text(folder / MODEL_FILE, text.decode() + "\n")
    logging.info("dating: the trained dater is in %s", folder)

  @classmethod
  def load(cls, folder: str | os.PathLike) -> TrainedDater:
    """Returns the dater that `save` wrote.

    Args:
      folder: with the two files.

    Raises:
      FileNotFoundError: if a file is missing.
      ValueError: naming the file that is damaged or of another version.
    """
    folder = pathlib.Path(folder).expanduser()
    content = hub_folders.read_json(folder / MODEL_FILE, _ModelFile)
    if content.format != _FORMAT:
      raise ValueError(
        f"{folder / MODEL_FILE}: format {content.format}, expected {_FORMAT}; "
        "train it again with this version"
      )
    tensors = hub_folders.read_tensors(folder / PARAMS_FILE)
    logging.info(
      "dating: the dater of %s, trained on %s", folder, content.trained_on
    )
    return cls(
      config=content.config,
      params=traverse_util.unflatten_dict(tensors, sep="/"),
      word_weights=content.word_weights,
      trained_on=content.trained_on,
      seed=content.seed,
    )


def prepare_folder(folder: str | os.PathLike) -> None:
  """Makes the folder that a dater is to be saved in.

  Args:
    folder: that must not hold one.

  Raises:
    OSError: if it cannot be made, or written to.
    ValueError: if it holds a dater, which would be lost.
  """
  folder = pathlib.Path(folder).expanduser()
  if (folder / MODEL_FILE).exists():
    raise ValueError(
      f"{folder} holds a trained dater; remove it, or name another folder"
    )
  folder.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryFile(dir=folder):
    pass  # it can be written to


def name_weights(
  weights: Float[np.ndarray, " f"], vocabulary: YearVocabulary
) -> dict[str, list[float]]:
  """Returns the weights of groups of strings by name of the group.

  Args:
    weights: as `weigh_words` returns them.
    vocabulary: whose groups they are of.
  """
  by_group = weights.reshape(vocabulary.num_kernels, -1).T
  return dict(zip(vocabulary.group_names, by_group.tolist(), strict=True))


def average_weights(
  weights: Sequence[Mapping[str, list[float]]],
) -> dict[str, list[float]]:
  """Returns the mean weights of groups of strings, by name of the group.

  Args:
    weights: of several corpora; the mean is over those that have the group.
  """
  names = dict.fromkeys(name for by_name in weights for name in by_name)
  return {
    name: np.mean(
      [by_name[name] for by_name in weights if name in by_name], axis=0
    ).tolist()
    for name in names
  }
