"""Published dense encoders without training, on the rebuilt Annals.

  python -m ctd_jax.train --config=configs/zero_shot.py:me5_large \\
    --workdir=runs/zs-me5-large

The method is `zs` of `training.config.apply_method`. The argument is a key of
`ENCODERS`, which have the prefixes, instructions, pooling and lengths of the
authors' scripts. The weights are read from --config.model.encoder.source: a
folder, or a hub id, which is downloaded. They must be safetensors: where there
is only a pytorch_model.bin, as there was of bge_m3, convert it first.
Sentence-T5, which the paper's appendix lists without a figure, is not
supported: a T5 is of another architecture.

Hardware: one accelerator. Parameters are fp32: 1.3 GB (gte_large_zh) to 28 GB
(e5_mistral_7b), and as much again on disk for the checkpoint. What the authors
ran in half precision computes in bfloat16 here.

Published on the authors' files (Table 1, test, hit@1): me5_large .2916,
me5_large_instruct .2359, gte_large_zh .2293, bge_large_zh .2208, bge_m3 .2698,
gte_qwen2_1_5b .2783, e5_mistral_7b .2196, qwen3_embedding_0_6b .3376,
qwen3_embedding_4b .4410. Not measured with this config yet.
"""

from collections.abc import Mapping

import ml_collections

from ctd_jax.models import tokenizer
from ctd_jax.training import config as training_config
from ctd_jax_configs import qwen

# The authors' instruction of mE5-instruct and GTE-Qwen2; that of Qwen3 and
# E5-Mistral is `qwen.TASK`. All but Qwen3 have a blank after the second colon.
_TIME_AWARE = (
  "Given a time-aware historical query about the Chunqiu corpus, retrieve "
  "relevant passages from the corpus."
)
_QWEN3 = {
  "query_prefix": tokenizer.format_instruction(qwen.TASK),
  "end_token": "<|endoftext|>",
  "pooling": "last",
}
# Fields of `model.encoder`, and the pooling.
ENCODERS: Mapping[str, Mapping[str, str]] = {
  "me5_large": {
    "source": "intfloat/multilingual-e5-large",
    "query_prefix": "query: ",
    "record_prefix": "passage: ",
    "pooling": "mean",
  },
  "me5_large_instruct": {
    "source": "intfloat/multilingual-e5-large-instruct",
    "query_prefix": tokenizer.format_instruction(_TIME_AWARE) + " ",
    "pooling": "mean",
  },
  "gte_large_zh": {"source": "thenlper/gte-large-zh", "pooling": "cls"},
  "bge_large_zh": {
    "source": "BAAI/bge-large-zh-v1.5",
    "query_prefix": "为这个句子生成表示以用于检索相关文章：",
    "pooling": "cls",
    "dtype": "bfloat16",
  },
  "bge_m3": {"source": "BAAI/bge-m3", "pooling": "cls", "dtype": "bfloat16"},
  "gte_qwen2_1_5b": {
    "source": "Alibaba-NLP/gte-Qwen2-1.5B-instruct",
    "query_prefix": tokenizer.format_instruction(_TIME_AWARE) + " ",
    "end_token": "<|endoftext|>",
    "pooling": "last",
    "dtype": "bfloat16",
  },
  "e5_mistral_7b": {
    "source": "intfloat/e5-mistral-7b-instruct",
    "query_prefix": tokenizer.format_instruction(qwen.TASK) + " ",
    "end_token": "</s>",
    "pooling": "last",
    "dtype": "bfloat16",
  },
  "qwen3_embedding_0_6b": {"source": "Qwen/Qwen3-Embedding-0.6B", **_QWEN3},
  "qwen3_embedding_4b": {"source": "Qwen/Qwen3-Embedding-4B", **_QWEN3},
}


def get_config(argument: str = "me5_large") -> ml_collections.ConfigDict:
  """Returns the config; `argument` is what follows the colon."""
  if argument not in ENCODERS:
    raise ValueError(
      f"unknown encoder {argument!r} after the config's name; expected one of "
      f"{', '.join(ENCODERS)}"
    )
  row = {"dtype": "float32", **ENCODERS[argument]}
  c = training_config.base_config()
  c.name = f"zs-{argument.replace('_', '-')}"
  c.dataset = "chunqiutr/rebuilt"
  c.query_length = 128
  c.record_length = 256
  training_config.use_published_encoder(c, row.pop("source"))
  c.model.pooling = row.pop("pooling")
  c.model.encoder.update(row)
  c.eval.batch_size = 32
  training_config.apply_method(c, "zs")
  return c
