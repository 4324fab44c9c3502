"""Published tokenizers, adapted to what `TextTokenizer` expects of one."""

from __future__ import annotations

import pathlib

import msgspec
import tokenizers
from tokenizers import processors

from ctd_jax.models.pretrained import hub_folders

TOKENIZER_FILE = "tokenizer.json"
# Its presence tells a published vocabulary from one that `TextTokenizer.build`
# made.
SETTINGS_FILE = "tokenizer_config.json"
# Usual names, where the settings name none.
_PAD_TOKENS = ("[PAD]", "<pad>")
_UNK_TOKENS = ("[UNK]", "<unk>")


class _AddedToken(msgspec.Struct):
  """A token with rules of matching, of which only the text is read."""

  content: str


_Token = str | _AddedToken | None


class _Settings(msgspec.Struct, kw_only=True):
  """Fields of tokenizer_config.json that are read."""

  pad_token: _Token = None
  unk_token: _Token = None
  eos_token: _Token = None
  mask_token: _Token = None
  add_eos_token: bool | None = False


def read_mask_token(folder: pathlib.Path) -> str | None:
  """Returns the mask token that the settings of a tokenizer name, if any.

  Raises:
    FileNotFoundError: if the folder has no tokenizer_config.json.
    ValueError: if it is not JSON, or a field is of another type.
  """
  settings = hub_folders.read_json(folder / SETTINGS_FILE, _Settings)
  return _token_text(settings.mask_token)


def adapt_tokenizer(
  tokenizer: tokenizers.Tokenizer, folder: pathlib.Path, end_token: str
) -> dict[str, str | None]:
  """Adapts a published tokenizer in place; returns its pad and unk tokens.

  Padding and truncation are switched off, and the end token is added to every
  text where the file does not do so.

  Args:
    tokenizer: of the folder's tokenizer.json.
    folder: with tokenizer_config.json.
    end_token: token that ends every text; "" = what the settings say.

  Returns:
    {"pad_token": ..., "unk_token": ...}; the latter is None where nothing is
    unknown.

  Raises:
    ValueError: if the settings are not JSON, or a token that is needed is
      missing.
  """
  # Files carry the lengths of whoever saved them.
  tokenizer.no_padding()
  tokenizer.no_truncation()
  path = folder / SETTINGS_FILE
  settings = hub_folders.read_json(path, _Settings)

  def read_token(role: str) -> str | None:
    token = _token_text(getattr(settings, role))
    if token is not None and tokenizer.token_to_id(token) is None:
      raise ValueError(f"{path}: {role} {token!r} is not in the vocabulary")
    return token

  final_token = end_token or (
    read_token("eos_token") if settings.add_eos_token else ""
  )
  if final_token:
    _append_end_token(tokenizer, final_token, folder)

  def find_in_vocabulary(*tokens: str) -> str | None:
    candidates = (t for t in tokens if tokenizer.token_to_id(t) is not None)
    return next(candidates, None)

  # A decoder often has no pad token. Its end token will do: the mask hides it.
  pad_token = (
    read_token("pad_token")
    or find_in_vocabulary(*_PAD_TOKENS)
    or read_token("eos_token")
  )
  if pad_token is None:
    raise ValueError(f"{path}: no pad_token and no eos_token to pad with")
  unk_token = read_token("unk_token") or find_in_vocabulary(*_UNK_TOKENS)
  return {"pad_token": pad_token, "unk_token": unk_token}


def find_added_tokens(
  tokenizer: tokenizers.Tokenizer,
) -> tuple[list[str], list[str]]:
  """Returns the tokens that are added in front of every text and behind it.

  Raises:
    ValueError: if the tokenizer changes the tokens of a text otherwise.
  """
  plain = tokenizer.encode("a", add_special_tokens=False).tokens
  tokens = tokenizer.encode("a").tokens
  size = len(plain)
  for first in range(len(tokens) - size + 1):
    if tokens[first : first + size] == plain:
      return tokens[:first], tokens[first + size :]
  raise ValueError(
    f"the tokenizer does more than add tokens: {plain} becomes {tokens}"
  )


def _token_text(token: _Token) -> str | None:
  return token.content if isinstance(token, _AddedToken) else token


def _append_end_token(
  tokenizer: tokenizers.Tokenizer, token: str, folder: pathlib.Path
) -> None:
  """Makes every text end with `token`, unless it does so already."""
  index = tokenizer.token_to_id(token)
  if index is None:
    raise ValueError(
      f"{folder / TOKENIZER_FILE}: the end token {token!r} is not in the "
      "vocabulary"
    )
  leading_tokens, trailing_tokens = find_added_tokens(tokenizer)
  if trailing_tokens[-1:] == [token]:
    return
  # One template for all: a second one after the first would take the tokens
  # that the first has added for another text.
  template_tokens = dict.fromkeys((*leading_tokens, *trailing_tokens, token))
  tokenizer.post_processor = processors.TemplateProcessing(
    single=[*leading_tokens, "$A", *trailing_tokens, token],
    special_tokens=[
      (special_token, tokenizer.token_to_id(special_token))
      for special_token in template_tokens
    ],
  )
