"""Tiny random models of the published implementations, and their outputs.

The golden files and the live comparison use the same families and the same
reranker. Needs the extra [parity].

Axes: B texts, L tokens, D features, S states (one more than layers), P pairs.
"""

import copy
import pathlib

import numpy as np
import torch
import transformers

from tests.models import published_folder

torch.set_num_threads(1)  # models too small to share
LENGTHS = (9, 5, 1, 7)
# A reranker's prompt as the model card of Qwen3-Reranker has it.
BEFORE = (
  "<|im_start|>system\nJudge whether the Document meets the requirements based "
  "on the Query and the Instruct provided. Note that the answer can only be "
  '"yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
BEHIND = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
QUESTIONS = (
  ("元年正月有何記事？", "元年春王正月"),
  ("元年正月有何記事？", "夏五月鄭伯克段于鄢"),
  ("三月有何記事？", "三月公及邾儀父盟于蔑" * 4),
)
PAIRS = [
  f"<Instruct>: 求記事\n<Query>: {query}\n<Document>: {record}"
  for query, record in QUESTIONS
]
VOCABULARY = 40
_SIZES = {
  "vocab_size": VOCABULARY,
  "hidden_size": 16,
  "num_hidden_layers": 3,
  "num_attention_heads": 4,
  "intermediate_size": 24,
  "max_position_embeddings": 32,
  # Larger than in use: with tiny weights any mask looks right.
  "initializer_range": 0.3,
}
_GROUPED = {**_SIZES, "num_key_value_heads": 2, "pad_token_id": 0}
FAMILIES = {
  "bert": transformers.BertConfig(**_SIZES),
  "distilbert": transformers.DistilBertConfig(
    vocab_size=VOCABULARY,
    dim=16,
    n_layers=3,
    n_heads=4,
    hidden_dim=24,
    max_position_embeddings=32,
    initializer_range=0.3,
  ),
  "xlm-roberta": transformers.XLMRobertaConfig(
    **{**_SIZES, "max_position_embeddings": 34}, type_vocab_size=1
  ),
  "qwen2": transformers.Qwen2Config(**_GROUPED),
  "qwen2-bidirectional": transformers.Qwen2Config(**_GROUPED, is_causal=False),
  "qwen3": transformers.Qwen3Config(
    **_GROUPED,
    head_dim=8,
    rope_parameters={"rope_theta": 1e6, "rope_type": "default"},
  ),
  "mistral": transformers.MistralConfig(**_GROUPED, sliding_window=16),
}


def make(
  family: str, seed: int, kind: type = transformers.AutoModel, **fields
) -> transformers.PreTrainedModel:
  """Returns a model whose every parameter is random, in evaluation mode.

  Args:
    family: one of `FAMILIES`.
    seed: of the parameters.
    kind: the bare model, or one with an output layer.
    **fields: of the config that are other than the family's.
  """
  torch.manual_seed(seed)
  config = copy.deepcopy(FAMILIES[family])
  config.update(fields)
  model = kind.from_config(config).eval()
  with torch.no_grad():
    for parameter in model.parameters():
      # Zero biases and unit scales would hide a forgotten one.
      parameter.add_(0.1 * torch.randn_like(parameter))
  return model


def write_reranker(folder: pathlib.Path, tied: bool, seed: int = 0) -> None:
  """Writes a tiny causal language model whose tokens are characters.

  Args:
    folder: made if needed.
    tied: whether its output layer is its token table.
    seed: of the parameters.
  """
  size = published_folder.write_tokenizer(
    folder,
    [BEFORE, BEHIND, *PAIRS],
    ends=False,
    words=("yes", "no"),
    special=("<|im_start|>", "<|im_end|>", "<think>", "</think>"),
  )
  model = make(
    "qwen3",
    seed,
    transformers.AutoModelForCausalLM,
    vocab_size=size,
    max_position_embeddings=512,
    tie_word_embeddings=tied,
  )
  save(model, folder)


def p_yes(folder: pathlib.Path) -> np.ndarray:
  """Returns the probability of yes for each of `PAIRS`, [P].

  Source: the steps of the model card of Qwen3-Reranker: the prompt's ends are
  tokenised apart, and the batch is padded on the left.
  """
  tokenizer = transformers.PreTrainedTokenizerFast(
    tokenizer_file=str(folder / "tokenizer.json"), pad_token="<pad>"
  )
  model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
  parts = [
    [tokenizer.encode(text, add_special_tokens=False) for text in prompt]
    for prompt in ((BEFORE, pair, BEHIND) for pair in PAIRS)
  ]
  rows = [[*before, *pair, *behind] for before, pair, behind in parts]
  columns = max(map(len, rows))
  ids = torch.tensor([[0] * (columns - len(row)) + row for row in rows])
  mask = torch.tensor(
    [[0] * (columns - len(row)) + [1] * len(row) for row in rows]
  )
  answers = tokenizer.convert_tokens_to_ids(["no", "yes"])
  with torch.no_grad():
    last = model(input_ids=ids, attention_mask=mask).logits[:, -1, answers]
  return torch.softmax(last, dim=-1)[:, 1].numpy()


def texts(side: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
  """Returns ids and mask of random texts padded on one side, [B, L]."""
  columns = max(LENGTHS) + 2
  rng = np.random.default_rng(seed)
  # 1 is the pad token of the XLM-R family, 0 of the others.
  ids = np.ones((len(LENGTHS), columns), np.int32)
  mask = np.zeros_like(ids)
  for row, length in enumerate(LENGTHS):
    first = columns - length if side == "left" else 0
    tokens = rng.integers(4, VOCABULARY, length)
    ids[row, first : first + length] = tokens
    mask[row, first : first + length] = 1
  return ids, mask


def positions(mask: np.ndarray) -> torch.Tensor:
  """Returns the position of each token in its text, from 0, [B, L]."""
  return torch.tensor(np.maximum(mask.cumsum(1) - 1, 0))


def states(
  model: transformers.PreTrainedModel, ids: np.ndarray, mask: np.ndarray
) -> np.ndarray:
  """Returns the states before the first layer and after each, [S, B, L, D].

  The last is what the model returns, after a decoder's final norm.
  """
  position_ids = positions(mask)
  if model.config.model_type == "xlm-roberta":
    position_ids = (position_ids + 1) * torch.tensor(
      mask
    ) + model.config.pad_token_id
  with torch.no_grad():
    output = model(
      input_ids=torch.tensor(ids, dtype=torch.long),
      attention_mask=torch.tensor(mask, dtype=torch.long),
      position_ids=position_ids,
      output_hidden_states=True,
    )
  return np.stack([state.numpy() for state in output.hidden_states])


def save(model: transformers.PreTrainedModel, folder: pathlib.Path) -> None:
  """Writes config.json and weights as their library does."""
  model.save_pretrained(folder)
