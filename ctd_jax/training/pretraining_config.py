"""Config of masked pre-training: its fields and checks.

The fields are those of `training.config` and a section of their own. Importing
this module costs nothing but ml_collections, because config files do.
"""

import ml_collections

from ctd_jax.training import config as training_config

TASK = "pretraining"  # value of `config.task`
# Fields of `training.config` that pre-training reads; * = all of a section.
_READ_FIELDS = frozenset(
  (
    *("name", "seed", "wandb_project", "data_dir", "sources", "batch_size"),
    *("accumulate_steps", "num_epochs", "log_every", "eval_every", "patience"),
    *("keep_latest", "mesh.*", "input.*", "optimizer.*", "model.encoder.*"),
    "model.pooling",
  )
)
_SPECIAL_TOKENS = 5  # [PAD], [UNK], [CLS], [SEP] and [MASK]
_MAX_VOCABULARY = 2**16  # tokens are kept in 16 bits


def pretraining_config() -> ml_collections.ConfigDict:
  """Returns the config of pre-training, without an experiment's sizes."""
  c = training_config.base_config()
  c.task = TASK
  c.pretraining = p = ml_collections.ConfigDict()
  p.texts = ()  # folders of published texts, --sources
  # Data sets whose records are not to be seen, --exclude; read from
  # config.data_dir, built of config.sources.
  p.exclude = ("chunqiutr/rebuilt",)
  p.vocabulary_size = 8192  # the commonest characters, and 5 special tokens
  p.mask_share = 0.15  # of the characters of a row
  p.validation_share = 0.01  # of the passages
  p.licence = ""  # of the weights, as the card names it: "cc-by-sa-4.0"
  return c


def check_task(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError for the config of another task."""
  if config.get("task") != TASK:
    raise ValueError(
      f"config.task={config.get('task')!r}: expected {TASK!r}; take "
      "configs/pretrain.py"
    )


def validate(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError for a bad field, or one that is not read."""
  training_config.validate(config)
  base = training_config.base_config()
  for field in sorted(training_config.field_names(base)):
    parts = field.split(".")
    sections = {".".join(parts[:i]) + ".*" for i in range(1, len(parts))}
    if _READ_FIELDS.isdisjoint({field, *sections}) and (
      training_config.get_field(config, field)
      != training_config.get_field(base, field)
    ):
      raise ValueError(
        f"config.{field}={training_config.get_field(config, field)!r}: "
        "pre-training does not read it"
      )
  section = config.pretraining
  if not section.texts:
    raise ValueError(
      "--sources is missing: name folders of published texts, as in "
      "--sources=texts/zizhitongjian,texts/shiji"
    )
  if not _SPECIAL_TOKENS < section.vocabulary_size <= _MAX_VOCABULARY:
    raise ValueError(
      f"config.pretraining.vocabulary_size={section.vocabulary_size}: expected "
      f"{_SPECIAL_TOKENS + 1} to {_MAX_VOCABULARY}"
    )
  for name in ("mask_share", "validation_share"):
    if not 0 < section[name] < 1:
      raise ValueError(
        f"config.pretraining.{name}={section[name]}: expected 0 < value < 1"
      )
