"""Corpora that a linked dater is trained on beside the gallery it dates."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

from ctd_jax.dating.chronicle import (
  chronicle_dating,
  chronicle_input,
  labelled_corpus,
)
from ctd_jax.dating.linked import joint_training
from ctd_jax.dating.linked.joint_training import KnownRecords
from ctd_jax.dating.linked.linked_model import LinkedDatingModel
from ctd_jax.systems import dated_gallery
from ctd_jax.systems.dated_gallery import DatedGallery
from ctd_jax_datasets import load


def train_with_corpora(
  gallery: DatedGallery,
  names: Sequence[str],
  data_dir: str | os.PathLike | None = None,
) -> DatedGallery:
  """Returns a gallery whose model was trained on it and other corpora.

  Args:
    gallery: read, with a linked model that is to be trained.
    names: of the corpora, see `read_known_records`.
    data_dir: of the data sets among them.

  Raises:
    FileNotFoundError: as `read_known_records`.
    ValueError: likewise; or if no corpus has a known event.
  """
  model = gallery.model
  all_records = [
    KnownRecords(
      model=model,
      corpus=gallery.features.corpus,
      labels=dated_gallery.make_train_labels(gallery.benchmark),
      features=gallery.features,
    )
  ]
  all_records += [read_known_records(name, model, data_dir) for name in names]
  trained = joint_training.train_dater(model, all_records)
  return dataclasses.replace(
    gallery, model=LinkedDatingModel.from_trained(trained)
  )


def read_known_records(
  name: str,
  model: LinkedDatingModel,
  data_dir: str | os.PathLike | None = None,
) -> KnownRecords:
  """Returns a corpus to learn from.

  Args:
    name: of a data set, whose train months are known; or FILE=REIGNS of a
      chronicle, a record a line, dated as `ctd_jax.date` does: known are the
      sections that are sure.
    model: to be trained.
    data_dir: of the data set.

  Raises:
    FileNotFoundError: if there is no such file, or the data set is not built.
    ValueError: naming the data set, or file and line, at fault.
  """
  path, is_chronicle, reigns = name.rpartition("=")
  if not is_chronicle:
    benchmark = load.load_benchmark(name, data_dir)
    gallery = dated_gallery.read_dated_gallery(benchmark, model=model)
    return KnownRecords(
      model=model,
      corpus=gallery.features.corpus,
      labels=dated_gallery.make_train_labels(benchmark),
      features=gallery.features,
    )
  try:
    records = chronicle_input.read_records(
      pathlib.Path(path).expanduser(), chronicle_input.LINE
    )
    calendar = chronicle_input.load_reigns(reigns, records)
    labelled = labelled_corpus.make_labelled_corpus(
      chronicle_dating.date_records(records, calendar)
    )
  except ValueError as error:  # it names the flags of ctd-jax date
    raise ValueError(f"config.linked.corpora: {name}: {error}") from error
  return KnownRecords(
    model=labelled.make_linked_model(model),
    corpus=labelled.corpus,
    labels=labelled.labels,
  )
