"""Masked pre-training of a character encoder on folders of published texts.

  python -m ctd_jax.pretrain --config=configs/pretrain.py \\
    --sources=FOLDER,FOLDER --workdir=runs/pretrain
  python -m ctd_jax.pretrain --config=configs/pretrain.py:small \\
    --sources=FOLDER --workdir=runs/pretrain
  python -m ctd_jax.train --config=configs/bert.py:ctd \\
    --config.model.encoder.source=runs/pretrain/encoder --workdir=runs/ctd

Without an argument: 23 million parameters, which are 47 MB in bf16, for an
accelerator and 50 to 100 million characters; not measured yet. `small`: the
encoder of configs/small.py, for 3 million characters on 2 CPU cores in about
10 minutes.
"""

import ml_collections

from ctd_jax.training import pretraining_config


def get_config(argument: str = "") -> ml_collections.ConfigDict:
  """Returns the config; `argument` is "" or "small"."""
  if argument not in ("", "small"):
    raise ValueError(f"unknown size {argument!r}; expected small, or nothing")
  c = pretraining_config.pretraining_config()
  c.name = "pretrained"
  e = c.model.encoder
  c.batch_size = 64  # rows of 128 tokens
  c.num_epochs = 2.0
  c.eval_every = 200
  c.optimizer.learning_rate = 2e-3
  if argument == "small":
    c.name = "pretrained-small"
    return c
  e.num_layers = 6
  e.hidden_size = 512
  e.num_heads = 8
  e.mlp_size = 2048
  e.max_length = 512  # tokens of a row, too
  e.dropout = 0.1
  e.dtype = "bfloat16"
  c.batch_size = 256  # 131,072 tokens
  c.num_epochs = 20.0
  c.eval_every = 1000
  c.optimizer.learning_rate = 1e-3
  c.optimizer.schedule = "cosine"
  c.optimizer.warmup_fraction = 0.05
  return c
