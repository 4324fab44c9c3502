"""Config of a training run: fields, methods, published encoders, checks.

`base_config` is the full CTD with the released code repaired; `apply_method`
turns it into a baseline, an ablation or the released code. A config file starts
from these and sets sizes. Fields of untrained systems are not here: a config
takes them from `ctd_jax.systems.registry.default_section`.

Importing this module costs nothing but ml_collections, because every config
file does; `validate` imports what it compares with.
"""

import difflib
import importlib.util
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import ml_collections
from ml_collections import config_dict

METHODS = (
  "zs",
  "ft",
  "tempdate",
  "tempdate_smooth",
  "multi",
  "bias",
  "ctx",
  "ctd",
  "posterior",
  "ctd_posterior",
  "temps",
  "date_prefix",
  "time_tokens",
)
RELEASE, PAPER_TEXT = "release", "paper"
ADAPTERS = "lora"  # variant of a method
# What differs from the released code, by repair: field -> released value.
# Source: the released code's training script and its published recipes.
REPAIRS: Mapping[str, Mapping[str, Any]] = {
  "codebooks": {
    "model.codebook": "release",
    "model.offset_features": "release",
  },
  "timeline": {"model.scalar_axis": "release"},
  "starts": {"model.gate_init": 1.0, "model.bias_scale_init": 0.0},
  "bias_columns": {"loss.bias_columns": "positives"},
  "supervision": {
    "loss.calendar_weight": 0.1,
    "loss.query_calendar_weight": 0.0,
  },
  "balance": {"balance_positive_kinds": False},
  "negatives": {
    "negatives.same_month_comment": 0,
    "negatives.near_placeholder": 0,
    "negatives.near_event": 0,
    "negatives.any_comment": 0,
    "negatives.release_comment": 1,
  },
  "groups": {
    "optimizer.temporal_rate_factor": 1.0,
    "optimizer.decay": "release",
    "optimizer.clip_norm": 0.0,
  },
  "scorer": {"eval.score_mode": "semantic"},
}
# What differs from the paper's text, likewise. It gives no temperature, starts
# only "near zero", and no rates of its own: docs/concepts/models.md has a line
# for each.
PAPER: Mapping[str, Mapping[str, Any]] = {
  **{
    name: REPAIRS[name]
    for name in ("codebooks", "timeline", "supervision", "balance", "groups")
  },
  "starts": {"model.gate_init": 1.0, "model.bias_scale_init": 0.01},
  "negatives": {
    "negatives.same_month_comment": 1,
    "negatives.near_placeholder": 0,
    "negatives.near_event": 0,
    "negatives.any_comment": 0,
  },
  # Validation hit@1 of one run of the small encoder, by temperature: .071 (1),
  # .093 (.5), .112 (.25), .052 (.1).
  "similarity": {"model.similarity": "dot", "model.temperature": 0.25},
  "context_matrix": {"model.context_bias": False},
  "heads": {"loss.calendar_reduction": "sum"},
  "smoothing": {"loss.calendar_targets": "uniform"},
}

# Fields that name a choice.
CHOICES: Mapping[str, Collection[str]] = {
  "query_dates": ("parser", "head"),
  "loss.reduction": ("sum_inside", "mean_outside"),
  "loss.bias_columns": ("all", "positives"),
  "loss.calendar_reduction": ("mean", "sum"),
  "loss.calendar_targets": ("neighbours", "uniform"),
  "optimizer.name": ("adamw", "adamaxw", "lamb", "lion", "nadamw"),
  "optimizer.schedule": ("linear", "cosine", "constant"),
  "optimizer.decay": ("matrices", "release"),
  "dates.form": ("", "prefix", "tokens"),
  "dates.records": ("text", "key"),
  "optimizer.moment_dtype": ("float32", "bfloat16"),
  "model.lora.base_dtype": ("float32", "bfloat16"),
}
_AT_LEAST_ONE = (
  "query_length",
  "record_length",
  "batch_size",
  "encode_chunks",
  "accumulate_steps",
  "eval_every",
  "log_every",
  "keep_latest",
  "mining.depth",
  "loss.emulated_processes",
  "model.gaussian_dim",
)
_AT_LEAST_ZERO = (
  "num_epochs",
  "patience",
  "input.workers",
  "mining.refresh_every",
  "optimizer.learning_rate",
  "optimizer.temporal_rate_factor",
  "optimizer.weight_decay",
  "optimizer.clip_norm",
  "model.lora.rank",
  "model.lora.alpha",
  "loss.calendar_weight",
  "loss.query_calendar_weight",
  "loss.posterior_weight",
  "loss.gaussian_weight",
)
_SHARES = (
  "optimizer.warmup_fraction",
  "loss.calendar_smoothing",
  "model.lora.dropout",
)
NEGATIVE_TYPES = (
  "same_month_comment",
  "near_placeholder",
  "near_event",
  "any_comment",
  "release_comment",
  "mined",
)


# docs/reference/config.md shows what follows. --8<-- [start:fields]
def base_config() -> ml_collections.ConfigDict:
  """Returns the config of CTD, without an experiment's sizes."""
  c = ml_collections.ConfigDict()
  c.name = ""  # system name in run files and tables
  c.seed = 42  # parameters, dropout, order and draws
  c.score_mode = "ctd"  # trained, validated and tested with this score
  # Reader of a query's date in mode "posterior": "parser" (the rules of
  # ctd_jax.chronology; in training, the query's known months) or "head" (the
  # model's own posterior).
  c.query_dates = "parser"
  c.wandb_project = config_dict.placeholder(str)  # None = no Weights & Biases

  # Data.
  c.dataset = "chunqiutr/mini"  # TFDS name, built on first use, or beir:FOLDER
  c.data_dir = config_dict.placeholder(str)  # None = TFDS's own default
  c.sources = config_dict.placeholder(str)  # folder of source texts, or None
  c.query_length = 40  # tokens; the longest query has 37
  c.record_length = 64  # tokens; the date of a record is in front
  c.batch_size = 32  # queries a step, over all devices
  # Chunks in which a batch is encoded and its pairs are scored: the memory of
  # one chunk and of the pairs, at the price of encoding everything twice.
  c.encode_chunks = 1
  # Steps of which one update has the mean gradient; parameters change at the
  # last of them. In-batch negatives are those of a step, so that it is another
  # loss than that of a batch as many times as large: see `encode_chunks`.
  c.accumulate_steps = 1
  c.num_epochs = 10.0  # passes over the train queries
  c.balance_positive_kinds = True  # draw event or placeholder first

  # Axes of devices; see `devices`.
  c.mesh = ml_collections.ConfigDict()  # devices left over split the batch
  c.mesh.fsdp = 1  # devices that share parameters and the batch
  c.mesh.tensor = 1  # devices that share matrices

  # Dates that are put before texts; see `date_marks`.
  c.dates = ml_collections.ConfigDict()
  c.dates.form = ""  # none; "prefix" = in words; "tokens" = of the vocabulary
  # Of a record: "text" = stated in it (track T0); "key" = its time key (T1).
  c.dates.records = "text"

  # How texts are read; see `input_pipeline`. No number depends on it.
  c.input = ml_collections.ConfigDict()
  c.input.workers = 0  # processes that read ahead of each; 0 = a thread
  # Folder, seen by all processes of a machine, for the tokens of the texts,
  # which are then read from there, by their pages, and not tokenised again.
  # Nothing is removed there. None = memory; with several processes or with
  # workers, the folder "tokens" of the run.
  c.input.tokens_dir = config_dict.placeholder(str)

  # Hard negatives a query, by type; see `batches`.
  c.negatives = ml_collections.ConfigDict()
  c.negatives.same_month_comment = 1
  c.negatives.near_placeholder = 1
  # Without it, events of train months took the first rank of most validation
  # queries that were missed.
  c.negatives.near_event = 1
  c.negatives.any_comment = 0
  c.negatives.release_comment = 0  # as the release draws its one negative
  c.negatives.mined = 0  # from the list that `mining` makes

  # Lists of train records for each train query, best first, of which negatives
  # are drawn. What lies in a month of the query is never one.
  c.mining = ml_collections.ConfigDict()
  # "bm25"; "self", the model that is trained; the folder of a run, an export or
  # an encoder; or a TREC run of train queries, a file.
  c.mining.source = "bm25"
  c.mining.depth = 50  # records of a list, before any is left out
  # A record that scores above the query's best positive less this, in units of
  # the source's score, is left out. None = none.
  c.mining.margin = config_dict.placeholder(float)
  c.mining.refresh_every = 0  # steps, of "self"; 0 = once, before the first

  # An encoder made from scratch, and the temporal modules.
  c.model = m = ml_collections.ConfigDict()
  m.encoder = ml_collections.ConfigDict()
  m.encoder.hidden_size = 128
  m.encoder.num_layers = 2
  m.encoder.num_heads = 2
  m.encoder.mlp_size = 512
  m.encoder.max_length = 128  # rows of the position table
  m.encoder.dropout = 0.0  # of states
  m.encoder.attention_dropout = 0.0  # of the weights of the attention
  m.encoder.dtype = "float32"  # activations; parameters are always fp32
  # "auto": the kernel for the device, "splash" on a TPU or "cudnn" on an NVIDIA
  # GPU, in bf16 and without attention_dropout; else "plain". Or one of these
  # three or "xla", which is refused where it cannot be had. Their numbers are
  # the same, to rounding, and a resumed run may have another.
  m.encoder.attention = "auto"
  # What a step keeps for its backward pass: "all"; "products" of matrices and
  # kernels, between which is computed again; or "auto", the latter on an
  # accelerator. Numbers are the same, to rounding.
  m.encoder.kept_activations = "auto"
  m.pooling = "mean"  # CLS does not leave the initial loss from scratch
  m.similarity = "cosine"  # or "dot", over the root of the vectors' width
  m.temperature = 0.05  # divides every similarity
  # Queries have an encoder of their own, which starts as that of the records. A
  # step encodes all texts with both, and an export has room for one only.
  m.separate_towers = False
  m.learn_temperature = False  # from that on, between 0.01 and 1, as in CLIP
  m.use_context = True  # absolute calendar context, gated
  m.use_bias = True  # relative offset bias
  m.codebook = "index"  # or "release": positions in [0, 1]
  # Or "index", periods from 2 months. In its one run validation hit@1 fell
  # while the loss fell; other fields differed too, so the cause is not known.
  m.offset_features = "release"  # frequencies <= 1: a smooth function
  m.scalar_axis = "timeline"  # or "release": padded reign x year x month grid
  m.context_dim = 64  # width of each codebook
  m.context_bias = True  # of their projection; the paper writes a matrix
  m.bias_dim = 32  # Fourier features of an offset
  m.gate_init = 4.0  # gamma; release 1.0
  m.bias_scale_init = 0.1  # epsilon; release 0.0
  m.use_posterior = False  # of the month; score_mode "posterior" needs it
  m.posterior_dim = 64  # features of a year in it
  m.mass_weight_init = 1.0  # of the log mass of the months asked for
  m.use_gaussian = False  # of a text over time; score_mode "temps" needs it
  m.gaussian_dim = 8  # its dimensions
  # Adapters of a published encoder, which stays frozen; see `encoders.layers`.
  m.lora = ml_collections.ConfigDict()
  m.lora.rank = 0  # columns of the narrow matrices; 0 = all is trained
  m.lora.alpha = 32.0  # alpha / rank times their product is added
  m.lora.dropout = 0.0  # of what they read
  m.lora.targets = ()  # projections, e.g. ("query", "value"); () = all
  # Of the encoder's own parameters, or "bfloat16", of half the size: the same
  # where encoder.dtype is that and they were published in it.
  m.lora.base_dtype = "float32"

  # The loss of pairs, and weights of the losses of dates; see `objective`.
  c.loss = ml_collections.ConfigDict()
  # "nce", "softmax", "triplet", "margin_mse", "kl", "listmle", or one that
  # `module` registers; "" = the one of the module, "nce" without.
  c.loss.name = ""
  c.loss.module = config_dict.placeholder(str)  # Python module, or None
  c.loss.options = ""  # fields of it: "margin=2", or several with commas
  # TREC run of train queries, by any system; a pair that it lacks is left out.
  c.loss.teacher = config_dict.placeholder(str)
  c.loss.multi_positive = True  # all rows whose interval overlaps
  c.loss.reduction = "sum_inside"  # of "nce": -log of the summed probability
  c.loss.bias_columns = "all"  # or "positives": no bias on hard negatives
  # Processes of the released code whose loss is computed, on any devices: each
  # has its share of the batch and its own bias, and no gradient of the others.
  c.loss.emulated_processes = 1
  # Numbers of first dimensions, e.g. (32, 64): the loss is the mean over whole
  # vectors and those cut to each, which `eval.dimension` ranks with.
  c.loss.matryoshka = ()
  c.loss.calendar_weight = 1.0  # lambda, heads on the record; paper 0.1
  c.loss.calendar_smoothing = 0.2  # mass taken from the right class
  # Who gets it: the neighbouring classes, or "uniform", all of them.
  c.loss.calendar_targets = "neighbours"
  c.loss.calendar_reduction = "mean"  # over the three heads; paper: "sum"
  c.loss.query_calendar_weight = 1.0  # heads on the query; release 0.0
  c.loss.posterior_weight = 0.0  # month of records and queries, on timeline
  c.loss.gaussian_weight = 0.0  # order of a query's records by their time

  c.optimizer = ml_collections.ConfigDict()
  c.optimizer.name = "adamw"  # or "adamaxw", "lamb", "lion", "nadamw", of optax
  c.optimizer.learning_rate = 1e-3  # peak
  # After the warm-up, which is linear: "linear" or "cosine" to 0, "constant".
  c.optimizer.schedule = "linear"
  c.optimizer.temporal_rate_factor = 1.0  # rate of the temporal modules
  c.optimizer.freeze_encoder = False  # True = the temporal modules alone learn
  c.optimizer.warmup_fraction = 0.1  # of all updates
  c.optimizer.weight_decay = 0.01  # times the learning rate, per update
  c.optimizer.decay = "matrices"  # or "release": also gates and RMS norms
  c.optimizer.clip_norm = 1.0  # of the gradient; 0 = no clipping
  # Of the first moment, or "bfloat16"; the second is always fp32.
  c.optimizer.moment_dtype = "float32"

  # Loop.
  c.log_every = 50  # steps
  c.eval_every = 400  # steps; validation and checkpoint
  # Validations without a better one after which the run ends; 0 = it does not.
  c.patience = 0
  c.keep_latest = 2  # checkpoints, besides the best one

  # Validation and evaluation.
  c.eval = ml_collections.ConfigDict()
  c.eval.mode = "neg1_ne1_dq0"  # protocol that selects the checkpoint
  # Score that ranks at validation and test; "" = the trained one. The release
  # trains "ctd" and ranks with "semantic".
  c.eval.score_mode = ""
  # Of every vector that ranks, the first so many dimensions; 0 = all.
  c.eval.dimension = 0
  c.eval.batch_size = 256  # texts a step when encoding
  c.eval.depth = 50  # records of a query in a run file
  # Folder, seen by all processes, for the encodings of records: evaluation and
  # the export of vectors read them there instead of encoding again. Nothing is
  # removed there. None = memory, as at validation.
  c.eval.vectors_dir = config_dict.placeholder(str)
  c.eval.splits = ("validation", "test")
  # Measure every run once more without the records of train months.
  c.eval.mask_train = False
  c.eval.baselines = ("bm25", "bm25_timekde", "rules")
  return c


# --8<-- [end:fields]
def use_published_encoder(c: ml_collections.ConfigDict, source: str) -> None:
  """Makes the encoder of `c` a published one, in place.

  Geometry, vocabulary and initial parameters are those of the folder.
  """
  c.model.encoder = e = ml_collections.ConfigDict()
  e.source = source  # folder or hub id
  e.end_token = ""  # ends every text; "" = as the tokenizer says
  # Before every query, e.g. an instruction; at most half of the query_length.
  e.query_prefix = ""
  e.record_prefix = ""  # before every record
  e.dtype = "bfloat16"  # activations; parameters are always fp32
  e.attention = "auto"  # or "plain", "xla", "cudnn", "splash", as above
  e.kept_activations = "auto"  # or "all", "products", as above
  # Of the weights of the attention, while that of states is as published. None
  # = as published too, .1 for most BERTs.
  e.attention_dropout = config_dict.placeholder(float)
  e.attention_dropout = 0.0
  e.scan_layers = True  # compile one layer, not all
  e.remat = False  # compute activations again in the backward pass


def apply_method(c: ml_collections.ConfigDict, argument: str) -> None:
  """Turns the full CTD in `c` into another system, in place.

  zs: the encoder as it is, not trained. ft: contrastive fine-tuning with one
  positive. tempdate, tempdate_smooth: ft plus the heads' cross-entropy on
  records. multi: ft plus multi-positives. bias, ctx: multi plus one temporal
  module. ctd: both. posterior: multi plus the posterior of the month;
  ctd_posterior: ctd plus the same. Published relatives: temps: multi plus a
  Gaussian over time that is computed from the encoder's states and moves
  nothing in it; date_prefix: multi of texts behind their dates; time_tokens:
  the same with tokens for dates, plus the heads' cross-entropy. All have the
  same encoder and the same hard negatives.

  Args:
    argument: METHOD, repaired; METHOD-release or METHOD-paper, with every
      value that the released code or the paper's text has, and a published
      encoder in fp32 with the dropout of its folder; METHOD-no_NAME or
      METHOD-paper_NAME, with one entry of `REPAIRS` or `PAPER`; or METHOD-lora,
      which trains adapters of rank 16 of a published encoder. Their learning
      rate is that of the config.

  Raises:
    ValueError: if the method or the variant is unknown.
  """
  method, _, variant = argument.partition("-")
  if method not in METHODS:
    raise ValueError(
      f"unknown method {method!r} after the config's name; "
      f"expected one of {', '.join(METHODS)}"
    )
  if variant == ADAPTERS:
    c.model.lora.rank = 16
  else:
    _apply_variant(c, variant)
  if method.endswith("posterior"):
    c.score_mode = "posterior"
    c.model.use_posterior = True
    c.loss.posterior_weight = 1.0
  if method in ("ctd", "ctd_posterior"):
    return
  if method == "zs":
    c.num_epochs = 0.0
  c.model.use_bias = method == "bias"
  c.model.use_context = method == "ctx"
  temporal_modes = {"bias": "ctd", "ctx": "absolute", "posterior": "posterior"}
  relatives = ("temps", "date_prefix", "time_tokens")
  c.score_mode = temporal_modes.get(method, "semantic")
  c.loss.multi_positive = method in ("multi", *relatives, *temporal_modes)
  needs_heads = method in ("time_tokens", *temporal_modes)
  if not needs_heads:
    c.loss.query_calendar_weight = 0.0
  if not needs_heads and not method.startswith("tempdate"):
    c.loss.calendar_weight = 0.0
  if method == "tempdate":
    c.loss.calendar_smoothing = 0.0
  if method == "tempdate_smooth":  # its name says so, in the paper too
    c.loss.calendar_targets = "neighbours"
  if method == "temps":
    c.score_mode = "temps"
    c.model.use_gaussian = True
    c.loss.gaussian_weight = 1.0
  date_forms = {"date_prefix": ("prefix", 12), "time_tokens": ("tokens", 4)}
  if method in date_forms:
    # A text keeps its length: the longest date is 魯僖公三十三年十二月至.
    c.dates.form, tokens = date_forms[method]
    c.query_length += 2 * tokens
    c.record_length += tokens


def _apply_variant(c: ml_collections.ConfigDict, variant: str) -> None:
  """Gives fields the values of the release or the paper: all, one, or none."""
  variants: dict[str, Collection[Mapping[str, Any]]] = {
    "": (),
    RELEASE: REPAIRS.values(),
    PAPER_TEXT: PAPER.values(),
  }
  variants |= {f"no_{name}": (fields,) for name, fields in REPAIRS.items()}
  variants |= {f"paper_{name}": (fields,) for name, fields in PAPER.items()}
  if variant not in variants:
    raise ValueError(
      f"unknown variant {variant!r} after the method; expected one of "
      f"{', '.join((*filter(None, variants), ADAPTERS))}"
    )
  for fields in variants[variant]:
    c.update_from_flattened_dict(fields)
  if variant in (RELEASE, PAPER_TEXT) and "source" in c.model.encoder:
    # Faster here, but no repairs: an ablation leaves them as they are.
    c.model.encoder.dtype = "float32"
    c.model.encoder.attention_dropout = None


def field_names(fields: Mapping[str, Any], prefix: str = "") -> set[str]:
  """Returns the dotted names of all fields, e.g. `eval.splits`."""
  names = set()
  for name, value in fields.items():
    if isinstance(value, Mapping | ml_collections.ConfigDict):
      names |= field_names(value, f"{prefix}{name}.")
    else:
      names.add(prefix + name)
  return names


def suggest(name: str, choices: Iterable[str]) -> str:
  """Returns " (did you mean ...?)" with the nearest choice, if one is near."""
  nearest = difflib.get_close_matches(name, list(choices), n=1)
  return f" (did you mean {nearest[0]!r}?)" if nearest else ""


def suggest_field(config: ml_collections.ConfigDict, field: str) -> str:
  """Returns "; did you mean ...?" with the field nearest to an unknown one."""
  names = sorted(field_names(config))
  nearest = difflib.get_close_matches(field, names, n=1)
  if not nearest:
    # Somebody may have left the section out, or taken another one.
    leaves = {name.rpartition(".")[2]: name for name in names}
    leaf = field.rpartition(".")[2]
    nearest = [
      leaves[name] for name in difflib.get_close_matches(leaf, leaves, n=1)
    ]
  return f"; did you mean --config.{nearest[0]}?" if nearest else ""


def validate(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError for a bad training field before anything is built.

  Lengths against the encoder, the batch against devices and queries, and the
  name against those of the systems are checked where those are known.

  Raises:
    ValueError: if a field is wrong; the message names it, its value and what is
      expected.
  """
  # At call time: configs are parsed, and --help shown, without JAX.
  from ctd_jax.benchmark import runs
  from ctd_jax.models.dual_encoder import SCORE_MODES
  from ctd_jax.models.encoders.layers import PROJECTIONS

  if not runs.is_valid_name(config.name):
    raise ValueError(
      f"config.name={config.name!r}: expected a name without white space, "
      "colons and slashes"
    )
  for field, choices in {"score_mode": SCORE_MODES, **CHOICES}.items():
    value = get_field(config, field)
    if value not in choices:
      raise ValueError(
        f"config.{field}={value!r}: expected one of {', '.join(choices)}"
      )
  check_finite(config)
  counts = tuple(f"negatives.{name}" for name in config.negatives)
  for lowest, fields in ((1, _AT_LEAST_ONE), (0, _AT_LEAST_ZERO + counts)):
    for field in fields:
      value = get_field(config, field)
      if value < lowest:
        raise ValueError(f"config.{field}={value}: expected at least {lowest}")
  for field in _SHARES:
    value = get_field(config, field)
    if not 0 <= value < 1:
      raise ValueError(f"config.{field}={value}: expected 0 <= value < 1")
  for field in ("encode_chunks", "loss.emulated_processes"):
    if config.batch_size % get_field(config, field):
      raise ValueError(
        f"config.{field}={get_field(config, field)} does not divide "
        f"config.batch_size={config.batch_size}"
      )
  for name in config.negatives:
    if name not in NEGATIVE_TYPES:
      raise ValueError(
        f"config.negatives.{name}: unknown type; there are "
        f"{', '.join(NEGATIVE_TYPES)}"
      )
  for target in config.model.lora.targets:
    if target not in PROJECTIONS:
      raise ValueError(
        f"config.model.lora.targets: unknown {target!r}; there are "
        f"{', '.join(PROJECTIONS)}"
      )
  for is_found, message in _find_conflicts(config):
    if is_found:
      raise ValueError(message)
  if config.wandb_project and not importlib.util.find_spec("wandb"):
    raise ValueError(
      f"config.wandb_project={config.wandb_project!r} needs wandb: pip install "
      "'ctd_jax[wandb]'"
    )
  validate_evaluation(config.eval)


def check_finite(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if a field is NaN or infinite."""
  for field in sorted(field_names(config)):
    value = get_field(config, field)
    if isinstance(value, float) and not math.isfinite(value):
      raise ValueError(f"config.{field}={value}: expected a finite number")


def validate_evaluation(section: ml_collections.ConfigDict) -> None:
  """Raises ValueError for a bad `config.eval`, which untrained systems read."""
  from ctd_jax.benchmark.benchmark import SPLITS
  from ctd_jax.evaluation import protocol
  from ctd_jax.models.dual_encoder import SCORE_MODES

  protocol.get_mode(section.mode)
  if section.depth < 10:  # the measures look at the first ten
    raise ValueError(f"config.eval.depth={section.depth}: expected at least 10")
  for name, lowest in (("batch_size", 1), ("dimension", 0)):
    if section[name] < lowest:
      raise ValueError(
        f"config.eval.{name}={section[name]}: expected at least {lowest}"
      )
  if section.score_mode not in ("", *SCORE_MODES):
    raise ValueError(
      f"config.eval.score_mode={section.score_mode!r}: expected one of "
      f"{', '.join(SCORE_MODES)}, or nothing for the one that is trained"
    )
  for split in section.splits:
    if split not in SPLITS:
      raise ValueError(
        f"config.eval.splits: unknown {split!r}; there are {', '.join(SPLITS)}"
      )


def get_field(config: ml_collections.ConfigDict, field: str) -> Any:
  """Returns the value of a field by its dotted name, e.g. "eval.mode"."""
  for name in field.split("."):
    config = config[name]
  return config


def _find_conflicts(
  config: ml_collections.ConfigDict,
) -> Iterator[tuple[bool, str]]:
  """Yields (whether fields conflict, error message) for each rule."""
  mode, model, loss = config.score_mode, config.model, config.loss
  rank, has_source = model.lora.rank, "source" in model.encoder
  yield (
    mode in ("semantic", "temps") and (model.use_context or model.use_bias),
    f"config.score_mode={mode!r} scores without the temporal modules that "
    "config.model.use_context or use_bias turn on; what is trained is what "
    "is scored",
  )
  yield (
    mode not in ("ctd", "posterior") and model.use_bias,
    "config.model.use_bias needs config.score_mode='ctd' or 'posterior'",
  )
  yield (
    (mode == "posterior") != model.use_posterior,
    "config.model.use_posterior and config.score_mode='posterior' need each "
    "other",
  )
  yield (
    loss.bias_columns == "positives" and model.use_posterior,
    "config.loss.bias_columns='positives': the posterior of the month has "
    "to rank hard negatives too; set it to 'all'",
  )
  yield (
    loss.emulated_processes > 1 and model.use_posterior,
    f"config.loss.emulated_processes={loss.emulated_processes}: the "
    "posterior of the month has to rank the whole batch; set it to 1",
  )
  yield (
    loss.posterior_weight and not model.use_posterior,
    "config.loss.posterior_weight needs config.model.use_posterior",
  )
  yield (
    len({mode == "temps", model.use_gaussian, loss.gaussian_weight > 0}) > 1,
    "config.score_mode='temps', config.model.use_gaussian and "
    "config.loss.gaussian_weight above 0 need each other",
  )
  yield (
    config.eval.score_mode == "temps" and mode != "temps",
    "config.eval.score_mode='temps' needs config.score_mode='temps', which "
    "chooses its weight at validation",
  )
  yield (
    mode == "temps" and model.similarity != "cosine",
    f"config.model.similarity={model.similarity!r}: config.score_mode='temps' "
    "mixes cosines with the similarity in time; set it to 'cosine'",
  )
  yield (
    config.dates.records == "key" and not config.dates.form,
    "config.dates.records='key' needs config.dates.form='prefix' or 'tokens'",
  )
  yield (
    config.dates.form == "tokens" and has_source,
    "config.dates.form='tokens': the vocabulary of a published encoder "
    "(config.model.encoder.source) has no tokens for dates; take 'prefix'",
  )
  yield (
    rank and model.separate_towers,
    f"config.model.lora.rank={rank} adapts one encoder; set it to 0 or "
    "config.model.separate_towers to False",
  )
  yield (
    model.learn_temperature and not 0.01 <= model.temperature <= 1,
    f"config.model.temperature={model.temperature}: one that is learned "
    "(config.model.learn_temperature) stays between 0.01 and 1",
  )
  yield (
    (config.eval.dimension or loss.matryoshka) and model.similarity != "cosine",
    "config.eval.dimension and config.loss.matryoshka: vectors are cut where "
    "config.model.similarity='cosine' alone",
  )
  yield (
    config.mining.refresh_every and config.mining.source != "self",
    f"config.mining.refresh_every={config.mining.refresh_every}: only the "
    "lists of config.mining.source='self' change; set it to 0",
  )
  yield (
    not config.negatives.mined
    and (config.mining.source != "bm25" or config.mining.margin is not None),
    "config.mining is not read, since config.negatives.mined=0; set that to a "
    "number of negatives, or leave config.mining as it is",
  )
  yield (
    config.optimizer.moment_dtype != "float32"
    and config.optimizer.name in ("adamaxw", "lamb"),
    f"config.optimizer.moment_dtype={config.optimizer.moment_dtype!r}: "
    f"{config.optimizer.name} keeps its moments in float32",
  )
  yield (
    rank and not has_source,
    f"config.model.lora.rank={rank}: adapters need a published encoder, see "
    "config.model.encoder.source; one made from scratch has to be trained",
  )
  yield (
    rank and config.optimizer.freeze_encoder,
    f"config.optimizer.freeze_encoder=True with config.model.lora.rank={rank}: "
    "adapters belong to the encoder and would not be trained; set the first to "
    "False or the second to 0",
  )
