"""Settings for an encoder's vectors, as its folder declares them.

The layout is that of sentence-transformers: modules.json lists the steps, the
folder of the pooling names its kind, and prompts and lengths have files of
their own. It is read here without that library, which needs torch.

A text is read as a query or as a record, its side. sentence-transformers has
one length for both; ours are stored next to it under the names that PyLate
uses, and other libraries ignore them.
"""

import dataclasses
import json
import pathlib
from typing import Any

import msgspec

from ctd_jax.models import tokenizer
from ctd_jax.models.pretrained import folders
from ctd_jax.utils import files

SIDES = ("query", "record")
MODULES_FILE = "modules.json"
LENGTH_FILE = "sentence_bert_config.json"
PROMPTS_FILE = "config_sentence_transformers.json"
_MODULE = "sentence_transformers.models"
_POOLING_FOLDER = "1_Pooling"
_NORMALIZE_FOLDER = "2_Normalize"
# Our name -> its field in folders of every age, and its name in newer ones.
_POOLING_FIELDS = {
  "cls": "pooling_mode_cls_token",
  "mean": "pooling_mode_mean_tokens",
  "last": "pooling_mode_lasttoken",
}
_POOLING_NAMES = {"cls": "cls", "mean": "mean", "lasttoken": "last"}
# Names of prompts, the first that is there. Source: `encode_query` and
# `encode_document` of sentence-transformers.
_PROMPT_NAMES = {
  "query": ("query",),
  "record": ("document", "passage", "corpus"),
}


class Module(msgspec.Struct):
  """An entry of modules.json."""

  path: str
  type: str

  @property
  def kind(self) -> str:
    """Last part of the type, e.g. "Pooling"."""
    return self.type.rpartition(".")[2]


class _Declared(msgspec.Struct):
  """Fields that are read, each of one of three files."""

  max_seq_length: int | None = None  # LENGTH_FILE
  model_max_length: float | None = None  # of the tokenizer; 1e30 = unknown
  prompts: dict[str, str] = {}  # PROMPTS_FILE, with all below
  default_prompt_name: str | None = None
  query_length: int | None = None
  document_length: int | None = None


@dataclasses.dataclass(frozen=True)
class SideSettings:
  """Settings for reading queries, or records."""

  prefix: str = ""  # put before every text
  # Tokens read of a text; None if the folder does not say.
  max_length: int | None = None


@dataclasses.dataclass(frozen=True)
class VectorSettings:
  """Settings that a folder declares for its vectors."""

  # "cls", "mean" or "last"; None if the folder does not say.
  pooling: str | None = None
  normalize: bool | None = None  # whether vectors have length 1; None likewise
  query: SideSettings = SideSettings()  # settings of queries
  record: SideSettings = SideSettings()  # settings of records

  def choose(
    self, folder: pathlib.Path, side: str | None, name: str, value: Any
  ) -> Any:
    """Returns a setting of one side.

    Args:
      folder: folder that declares these settings, for the error.
      side: "query" or "record"; None if both have the same.
      name: name of the setting, a field of `SideSettings`.
      value: given by the caller; None = the declared one.
    """
    if value is not None:
      return value
    if side is not None:
      return getattr(getattr(self, side), name)
    of_query, of_record = getattr(self.query, name), getattr(self.record, name)
    if of_query != of_record:
      raise ValueError(
        f"{folder} declares {name} {of_query!r} of a query and {of_record!r} "
        f"of a record; give side='query' or side='record', or {name}="
      )
    return of_query


def read_modules(folder: pathlib.Path) -> list[Module]:
  """Returns the steps that modules.json lists, [] without the file."""
  path = folder / MODULES_FILE
  return folders.read_json(path, list[Module]) if path.is_file() else []


def read_vector_settings(
  folder: pathlib.Path, reads_steps: bool = True
) -> VectorSettings:
  """Returns the settings that a folder declares for its vectors.

  Args:
    folder: folder of a published or exported encoder.
    reads_steps: whether pooling and normalisation are read; a caller who names
      both may use a folder with other steps.
  """
  modules = read_modules(folder) if reads_steps else []
  pooling = None
  for module in modules:
    if module.kind == "Pooling":
      parts = files.split_name(folder, module.path)
      pooling = _read_pooling(folder.joinpath(*parts, "config.json"))
    elif module.kind not in ("Transformer", "Normalize"):
      raise ValueError(
        f"{folder / MODULES_FILE}: a step {module.kind!r}; vectors of "
        "Transformer, Pooling and Normalize alone are computed here. Give "
        "pooling= and normalize= to have them without it"
      )
  normalize = None
  if modules:
    normalize = any(module.kind == "Normalize" for module in modules)
  return VectorSettings(pooling, normalize, *_read_sides(folder))


def _read_pooling(path: pathlib.Path) -> str:
  """Returns the pooling that the config.json of its step names."""
  fields = folders.read_json(path)
  if fields.get("include_prompt") is False:
    raise ValueError(
      f"{path}: include_prompt is false; the tokens of a prompt are always "
      "pooled here"
    )
  named = fields.get("pooling_mode")
  poolings = {kind for name, kind in _POOLING_NAMES.items() if name == named}
  poolings |= {
    kind for kind, field in _POOLING_FIELDS.items() if fields.get(field) is True
  }
  others = {
    name
    for name, value in fields.items()
    if name.startswith("pooling_mode_") and value is True
  } - set(_POOLING_FIELDS.values())
  if len(poolings) != 1 or others:
    raise ValueError(
      f"{path}: expected one pooling of {', '.join(_POOLING_NAMES)}; got "
      f"{named or ', '.join(sorted(poolings | others)) or 'none'}"
    )
  return poolings.pop()


def _read_sides(folder: pathlib.Path) -> tuple[SideSettings, SideSettings]:
  """Returns prefix and length of queries and of records."""

  def read(name: str) -> _Declared:
    path = folder / name
    if not path.is_file():
      return _Declared()
    return folders.read_json(path, _Declared)

  length = read(LENGTH_FILE).max_seq_length
  if length is None:
    tokens = read(tokenizer.SETTINGS_FILE).model_max_length
    if tokens and tokens < 2**31:
      length = int(tokens)
  declared = read(PROMPTS_FILE)
  prompts = declared.prompts

  def find_prompt(side: str) -> str:
    names = (*_PROMPT_NAMES[side], declared.default_prompt_name)
    return next((prompts[name] for name in names if name in prompts), "")

  return (
    SideSettings(find_prompt("query"), declared.query_length or length),
    SideSettings(find_prompt("record"), declared.document_length or length),
  )


def write_vector_settings(
  folder: pathlib.Path, settings: VectorSettings, width: int
) -> None:
  """Writes the files that `read_vector_settings` and other libraries read.

  If both sides have a length, libraries with one length read the longer.
  """
  # A pipeline of modules, each with its folder; the first has the root.
  steps = {"Transformer": "", "Pooling": _POOLING_FOLDER}
  if settings.normalize:
    steps["Normalize"] = _NORMALIZE_FOLDER
  modules = [
    {"idx": i, "name": str(i), "path": path, "type": f"{_MODULE}.{kind}"}
    for i, (kind, path) in enumerate(steps.items())
  ]
  # One boolean for each pooling, of which exactly one is true.
  pooling_fields = {
    field: kind == settings.pooling for kind, field in _POOLING_FIELDS.items()
  }
  query, record = settings.query, settings.record
  contents = {
    MODULES_FILE: modules,
    f"{_POOLING_FOLDER}/config.json": {
      "word_embedding_dimension": width,
      **pooling_fields,
    },
    PROMPTS_FILE: {
      "prompts": {"query": query.prefix, "document": record.prefix},
      "similarity_fn_name": "cosine" if settings.normalize else "dot",
    },
  }
  if query.max_length and record.max_length:
    contents[LENGTH_FILE] = {
      "max_seq_length": max(query.max_length, record.max_length)
    }
    contents[PROMPTS_FILE] |= {
      "query_length": query.max_length,
      "document_length": record.max_length,
    }
  for name, content in contents.items():
    text = json.dumps(content, ensure_ascii=False, indent=2)
    files.write_text(folder / name, text + "\n")
  if settings.normalize:
    # The module has no settings, but its folder is looked for.
    (folder / _NORMALIZE_FOLDER).mkdir(exist_ok=True)
