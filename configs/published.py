"""Published models without training, on the rebuilt Annals.

  pip install 'ctd_jax[baselines]'
  python -m ctd_jax.evaluate --baselines_only \\
    --config=configs/published.py:me5_large --workdir=runs/zs-me5-large

The argument is a key of `MODELS`, which have the prompts, pooling and lengths
of the authors' scripts; sentence-transformers runs them (see
`ctd_jax.systems.published`). --config.published.source names another folder or
hub id. Code that comes with a model runs only if you allow it:
`jina_colbert_v2` needs --config.published.run_model_code=True.

`rerank` reorders the first 50 records of another system, by default those of
qwen3_embedding_0_6b, and `pqr` needs a file of pseudo-queries:

  python -m ctd_jax.evaluate --baselines_only \\
    --config=configs/published.py:rerank \\
    --config.published.runs=runs/zs-qwen3-embedding-0-6b/evaluation/DATA_SET \\
    --workdir=runs/rerank
  python -m ctd_jax.systems.pseudo_queries --model=openai/gpt-4o \\
    --workdir=runs/pseudo
  python -m ctd_jax.evaluate --baselines_only \\
    --config=configs/published.py:pqr --workdir=runs/pqr \\
    --config.pqr.pseudo_queries=runs/pseudo/pseudo_queries.jsonl

`e5_small` and `maxsim_e5_small` read the folder e5_small, as unpacked by
`python -m tests.benchmarks.unpack_e5`, and have rows in tests/results. The
others have not been measured yet. Hardware: one accelerator; a CPU is enough
for the small models. Weights take 1.3 GB (gte_large_zh) to 16 GB
(qwen3_embedding_4b).

Published on the authors' files (Table 1, test, hit@1): me5_large .2916,
me5_large_instruct .2359, gte_large_zh .2293, bge_large_zh .2208, bge_m3 .2698,
gte_qwen2_1_5b .2783, e5_mistral_7b .2196, qwen3_embedding_0_6b .3376,
qwen3_embedding_4b .4410, splade_idf .1361, splade_l0 .0006, jina_colbert_v2
.2498, lfm2_colbert .3345, pqr .1585 (Qwen2.5-7B). The appendix lists
sentence_t5 without a figure; `rerank` has none either.
"""

from collections.abc import Mapping
from typing import Any

import ml_collections

from ctd_jax.models import tokenizer
from ctd_jax.systems import registry
from ctd_jax.training import config as training_config
from ctd_jax_configs import qwen

# The authors' instruction of mE5-instruct and GTE-Qwen2; that of Qwen3 and
# E5-Mistral is `qwen.TASK`. All but Qwen3 have a blank after the second colon.
_TIME_AWARE = (
  "Given a time-aware historical query about the Chunqiu corpus, retrieve "
  "relevant passages from the corpus."
)
# Of Qwen3-Reranker, to the letter; its model card has it as text. Of the blank
# lines at the end Jinja drops one.
_RERANKER_TEMPLATE = """\
<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the \
Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: {{ messages | selectattr("role", "eq", "system") \
| map(attribute="content") | first }}
<Query>: {{ messages | selectattr("role", "eq", "query") \
| map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") \
| map(attribute="content") | first }}<|im_end|>
<|im_start|>assistant
<think>

</think>


"""
_RAW = {"query_prompt": "", "record_prompt": ""}
_E5 = {"query_prompt": "query: ", "record_prompt": "passage: "}
_E5_SMALL = {"source": "e5_small", "query_length": 40, "record_length": 40}
_QWEN3 = {
  "query_prompt": tokenizer.format_instruction(qwen.TASK),
  "record_prompt": "",
  "end_token": "<|endoftext|>",
  "pooling": "last",
}
_SPARSE = "opensearch-project/opensearch-neural-sparse-encoding"
_BGE_M3 = {"source": "BAAI/bge-m3", "pooling": "cls", "dtype": "bfloat16"}
# Fields of the section `published`, and the name of the system.
MODELS: Mapping[str, Mapping[str, Any]] = {
  "e5_small": {**_E5, **_E5_SMALL, "pooling": "mean"},
  "me5_large": {
    "source": "intfloat/multilingual-e5-large",
    **_E5,
    "pooling": "mean",
  },
  "me5_large_instruct": {
    "source": "intfloat/multilingual-e5-large-instruct",
    "query_prompt": tokenizer.format_instruction(_TIME_AWARE) + " ",
    "record_prompt": "",
    "pooling": "mean",
  },
  "gte_large_zh": {"source": "thenlper/gte-large-zh", **_RAW, "pooling": "cls"},
  "bge_large_zh": {
    "source": "BAAI/bge-large-zh-v1.5",
    "query_prompt": "为这个句子生成表示以用于检索相关文章：",
    "record_prompt": "",
    "pooling": "cls",
    "dtype": "bfloat16",
  },
  "bge_m3": {**_BGE_M3, **_RAW},
  "gte_qwen2_1_5b": {
    "source": "Alibaba-NLP/gte-Qwen2-1.5B-instruct",
    "query_prompt": tokenizer.format_instruction(_TIME_AWARE) + " ",
    "record_prompt": "",
    "end_token": "<|endoftext|>",
    "pooling": "last",
    "dtype": "bfloat16",
  },
  "e5_mistral_7b": {
    "source": "intfloat/e5-mistral-7b-instruct",
    "query_prompt": tokenizer.format_instruction(qwen.TASK) + " ",
    "record_prompt": "",
    "end_token": "</s>",
    "pooling": "last",
    "dtype": "bfloat16",
    "batch_size": 8,
  },
  "qwen3_embedding_0_6b": {"source": "Qwen/Qwen3-Embedding-0.6B", **_QWEN3},
  "qwen3_embedding_4b": {"source": "Qwen/Qwen3-Embedding-4B", **_QWEN3},
  # The authors' script leaves the lengths to the library, as do late
  # interaction's.
  "sentence_t5": {
    "source": "sentence-transformers/sentence-t5-base",
    **_RAW,
    "query_length": None,
    "record_length": None,
  },
  "splade_idf": {
    "kind": "sparse",
    "source": f"{_SPARSE}-multilingual-v1",
    "pruning": 0.1,
    "batch_size": 8,
  },
  # The paper does not say which of several models with the l0 penalty it is.
  "splade_l0": {
    "kind": "sparse",
    "source": f"{_SPARSE}-doc-v3-distill",
    "batch_size": 8,
  },
  "jina_colbert_v2": {
    "kind": "maxsim",
    "source": "jinaai/jina-colbert-v2",
    "query_length": None,
    "record_length": None,
  },
  "lfm2_colbert": {
    "kind": "maxsim",
    "source": "LiquidAI/LFM2-ColBERT-350M",
    "query_length": None,
    "record_length": None,
  },
  # Not trained for late interaction.
  "maxsim_e5_small": {"kind": "maxsim", "name": "maxsim", **_E5, **_E5_SMALL},
  "rerank": {
    "kind": "rerank",
    "name": "rerank",
    "source": "Qwen/Qwen3-Reranker-0.6B",
    "first": "zs-qwen3-embedding-0-6b",
    "instruction": qwen.TASK,
    "template": _RERANKER_TEMPLATE,
    "max_length": 4096,
    "dtype": "bfloat16",
    "batch_size": 8,
  },
}
# Encoders of `pqr`: that of the paper, and one that needs no hub.
PQR_ENCODERS: Mapping[str, Mapping[str, Any]] = {
  "pqr": {**_BGE_M3, **_RAW},
  "pqr_e5_small": {**_E5, "source": "e5_small", "pooling": "mean"},
}


def get_config(argument: str = "me5_large") -> ml_collections.ConfigDict:
  """Returns the config; `argument` is what follows the colon."""
  if argument not in {**MODELS, **PQR_ENCODERS}:
    raise ValueError(
      f"unknown model {argument!r} after the config's name; expected one of "
      f"{', '.join([*MODELS, *PQR_ENCODERS])}"
    )
  system = "pqr" if argument in PQR_ENCODERS else "published"
  c = training_config.base_config()
  c.dataset = "chunqiutr/rebuilt"
  c.eval.baselines = (system,)
  c[system] = section = registry.default_section(system)
  section.query_length = 128
  section.record_length = 256
  if system == "published":
    section.name = f"zs-{argument.replace('_', '-')}"
  section.update({**MODELS, **PQR_ENCODERS}[argument])
  return c
