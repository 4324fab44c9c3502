"""Fields that every experiment has, and the methods that switch them.

`base()` is the full CTD, repaired; `apply_method` turns it into the baseline,
an ablation or the released code. Experiments (`tiny.py`, `small.py`) start from
these and set sizes.
"""

from collections.abc import Mapping
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
)
RELEASE = "release"
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


def base_config() -> ml_collections.ConfigDict:
  """Returns the config of CTD, without an experiment's sizes."""
  c = ml_collections.ConfigDict()
  c.name = ""  # system name in run files and tables
  c.seed = 42  # parameters, dropout, order and draws
  c.score_mode = "ctd"  # trained, validated and tested with this score

  # Who reads the date of a query in mode "posterior": "parser" (the rules of
  # ctd_jax.chronology; in training, the query's known months) or "head" (the
  # model's own posterior).
  c.query_dates = "parser"

  # Data.
  c.dataset = "chunqiutr/mini"  # TFDS name, built on first use, or beir:FOLDER
  c.data_dir = config_dict.placeholder(str)  # None = TFDS's own default
  c.sources = config_dict.placeholder(str)  # folder of source texts, or None
  c.query_length = 40  # tokens; the longest query has 37
  c.record_length = 64  # tokens; the date of a record stands in front
  c.batch_size = 32  # queries a step, over all devices
  # Parts in which a batch is encoded and its pairs are scored: the memory of
  # one part and of the pairs, for encoding everything twice.
  c.encode_chunks = 1
  c.num_epochs = 10.0  # passes over the train queries
  c.balance_positive_kinds = True  # draw event or placeholder first

  # Devices, see ctd_jax.training.partitioning; those that are left split the batch.
  c.mesh = ml_collections.ConfigDict()
  c.mesh.fsdp = 1  # share parameters and the batch
  c.mesh.tensor = 1  # share matrices

  # Hard negatives a query, by type (see input_pipeline.NEGATIVE_TYPES).
  # Without near_event, events of train months took the first rank of most
  # validation queries that were missed.
  c.negatives = ml_collections.ConfigDict()
  c.negatives.same_month_comment = 1
  c.negatives.near_placeholder = 1
  c.negatives.near_event = 1
  c.negatives.any_comment = 0
  c.negatives.release_comment = 0  # as the release draws its one negative

  # Model.
  c.model = m = ml_collections.ConfigDict()
  m.encoder = ml_collections.ConfigDict()
  m.encoder.hidden_size = 128
  m.encoder.num_layers = 2
  m.encoder.num_heads = 2
  m.encoder.mlp_size = 512
  m.encoder.max_length = 128  # rows of the position table
  m.encoder.dropout = 0.0
  m.encoder.dtype = "float32"  # activations; parameters are always fp32
  m.pooling = "mean"  # CLS does not leave the initial loss from scratch
  m.temperature = 0.05  # of every cosine
  m.use_context = True  # absolute calendar context, gated
  m.use_bias = True  # relative offset bias
  m.codebook = "index"  # or "release": positions in [0, 1]
  # Or "index", periods from 2 months. In its one run validation hit@1 fell
  # while the loss fell; other fields differed too, so the cause is not known.
  m.offset_features = "release"  # frequencies <= 1: a smooth function
  m.scalar_axis = "timeline"  # or "release": padded reign x year x month grid
  m.context_dim = 64  # width of each codebook
  m.bias_dim = 32  # Fourier features of an offset
  m.gate_init = 4.0  # gamma; release 1.0
  m.bias_scale_init = 0.1  # epsilon; release 0.0
  m.use_posterior = False  # of the month; score_mode "posterior" needs it
  m.posterior_dim = 64  # features of a year in it
  m.mass_weight_init = 1.0  # of the log mass of the months asked for

  # Loss.
  c.loss = ml_collections.ConfigDict()
  c.loss.multi_positive = True  # all rows whose interval overlaps
  c.loss.reduction = "sum_inside"  # -log of the summed probability
  c.loss.bias_columns = "all"  # or "positives": no bias on hard negatives
  # Whether the other side of a score has no gradient, as in the release's
  # recipe for several processes.
  c.loss.detach_gathered = False
  c.loss.calendar_weight = 1.0  # lambda, heads on the record; paper 0.1
  c.loss.calendar_smoothing = 0.2  # mass given to the neighbouring classes
  c.loss.calendar_reduction = "mean"  # over the three heads; paper: "sum"
  c.loss.query_calendar_weight = 1.0  # heads on the query; release 0.0
  c.loss.posterior_weight = 0.0  # month of records and queries, on timeline

  # Optimizer: AdamW, linear warm-up and decay.
  c.optimizer = ml_collections.ConfigDict()
  c.optimizer.learning_rate = 1e-3  # peak
  c.optimizer.temporal_rate_factor = 1.0  # rate of the temporal modules
  c.optimizer.warmup_fraction = 0.1
  c.optimizer.weight_decay = 0.01
  # What is decayed: "matrices", or "release": also gates and RMS norms.
  c.optimizer.decay = "matrices"
  c.optimizer.clip_norm = 1.0  # 0 = no clipping

  # Loop.
  c.log_every = 50  # steps
  c.eval_every = 400  # steps; validation and checkpoint
  c.keep_latest = 2  # checkpoints, beside the best one

  # The dated systems among the baselines.
  c.dating = ml_collections.ConfigDict()
  # Folder of source texts whose bracket notes are read for their citations
  # (track T0+external); None = the gallery alone (T0).
  c.dating.outside = config_dict.placeholder(str)
  c.dating.off = ()  # experts to do without, see ctd_jax.dating.features

  # Late interaction among the baselines. None = what the folder declares, else
  # what is said here.
  c.maxsim = ml_collections.ConfigDict()
  c.maxsim.source = config_dict.placeholder(str)  # folder or hub id
  c.maxsim.query_prefix = config_dict.placeholder(str)  # none
  c.maxsim.record_prefix = config_dict.placeholder(str)  # none
  c.maxsim.query_length = config_dict.placeholder(int)  # 32 tokens
  c.maxsim.record_length = config_dict.placeholder(int)  # 180 tokens

  # Pseudo-queries among the baselines.
  c.pqr = ml_collections.ConfigDict()
  c.pqr.source = config_dict.placeholder(str)  # folder or hub id
  # File of JSON lines, see ctd_jax.systems.pseudo_queries.
  c.pqr.pseudo_queries = config_dict.placeholder(str)
  c.pqr.pooling = "cls"
  c.pqr.end_token = ""  # ends every text; "" = what the folder says
  c.pqr.query_prefix = ""  # before queries and pseudo-queries
  c.pqr.record_prefix = ""  # before the text of a record without any
  c.pqr.query_length = 128  # tokens
  c.pqr.record_length = 256  # tokens, also of pseudo-queries

  # Sparse vectors of a masked language model among the baselines.
  c.sparse = ml_collections.ConfigDict()
  c.sparse.source = config_dict.placeholder(str)  # folder or hub id
  c.sparse.activation = "log"  # or "loglog", of models with the l0 penalty
  c.sparse.query_length = 128  # tokens
  c.sparse.record_length = 256  # tokens
  c.sparse.batch_size = 8  # records a step
  c.sparse.dtype = "float32"  # activations; parameters are always fp32

  # A language model among the baselines that orders what another system found.
  c.rerank = ml_collections.ConfigDict()
  c.rerank.source = config_dict.placeholder(str)  # folder or hub id
  c.rerank.runs = config_dict.placeholder(str)  # folder of run files
  c.rerank.first = "bm25"  # the system whose run files are read there
  c.rerank.depth = 50  # records of a query that are put in order
  c.rerank.instruction = "Retrieve the records that answer the query."
  c.rerank.mixing = 0.0  # share of the first system's cosine in the score
  c.rerank.temperature = 0.05  # times a score of the first system: a cosine
  c.rerank.max_length = 4096  # tokens of a prompt
  c.rerank.batch_size = 8  # pairs a step
  c.rerank.dtype = "bfloat16"  # activations; parameters are always fp32

  # Evaluation.
  c.eval = ml_collections.ConfigDict()
  c.eval.mode = "neg1_ne1_dq0"  # protocol that selects the checkpoint
  # What ranks at validation and test; "" = what was trained. The release
  # trains "ctd" and ranks with "semantic".
  c.eval.score_mode = ""
  c.eval.batch_size = 256  # texts a step when encoding
  c.eval.depth = 50  # records kept for a query in a run file
  # What searches for run files: "exact", or "faiss:INDEX" with an index of the
  # kinds Flat, IVF or HNSW as FAISS describes it, e.g. "faiss:HNSW32":
  # approximate, for the scores "semantic" and "absolute".
  c.eval.backend = "exact"
  # Folder, seen by all processes, for the encodings of records: evaluation and
  # the export of vectors read them from there and do not make them anew.
  # Nothing is removed there. None = memory, as at validation.
  c.eval.vectors_dir = config_dict.placeholder(str)
  c.eval.splits = ("validation", "test")
  c.eval.baselines = ("bm25", "bm25_timekde", "rules")
  return c


def use_published_encoder(c: ml_collections.ConfigDict, source: str) -> None:
  """Makes the encoder of `c` a published one, in place.

  Geometry, vocabulary and initial parameters are those of the folder.

  Args:
    c: a config.
    source: folder with config.json, model.safetensors and tokenizer.json, or
      a hub id.
  """
  c.model.encoder = e = ml_collections.ConfigDict()
  e.source = source
  e.end_token = ""  # ends every text; "" = what the tokenizer's files say
  e.query_prefix = ""  # before every query, e.g. an instruction
  e.record_prefix = ""  # before every record
  e.dtype = "bfloat16"  # activations; parameters are always fp32
  e.scan_layers = True  # compile one layer, not all
  e.remat = False  # compute activations again in the backward pass


def apply_method(c: ml_collections.ConfigDict, argument: str) -> None:
  """Turns the full CTD in `c` into another system, in place.

  zs: the encoder as it is, not trained. ft: contrastive fine-tuning with one
  positive. tempdate, tempdate_smooth: ft plus the heads' cross-entropy on
  records. multi: ft plus multi-positives. bias, ctx: multi plus one temporal
  module. ctd: both. posterior: multi plus the posterior of the month;
  ctd_posterior: ctd plus the same. All keep the same encoder and the same
  hard negatives.

  Args:
    c: a config.
    argument: METHOD, repaired; METHOD-release, with every value that the
      released code has; or METHOD-no_REPAIR, with one of `REPAIRS` undone.

  Raises:
    ValueError: if the method or the variant is unknown.
  """
  method, _, variant = argument.partition("-")
  if method not in METHODS:
    raise ValueError(
      f"unknown method {method!r} after the config's name; "
      f"expected one of {', '.join(METHODS)}"
    )
  _undo_repairs(c, variant)
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
  c.score_mode = temporal_modes.get(method, "semantic")
  c.loss.multi_positive = method == "multi" or method in temporal_modes
  needs_heads = method in temporal_modes
  if not needs_heads:
    c.loss.query_calendar_weight = 0.0
  if not needs_heads and not method.startswith("tempdate"):
    c.loss.calendar_weight = 0.0
  if method == "tempdate":
    c.loss.calendar_smoothing = 0.0


def _undo_repairs(c: ml_collections.ConfigDict, variant: str) -> None:
  """Gives fields their released values: of all repairs, of one or of none."""
  variants = {"": (), RELEASE: tuple(REPAIRS)}
  variants |= {f"no_{name}": (name,) for name in REPAIRS}
  if variant not in variants:
    raise ValueError(
      f"unknown variant {variant!r} after the method; expected one of "
      f"{', '.join(filter(None, variants))}"
    )
  for name in variants[variant]:
    c.update_from_flattened_dict(REPAIRS[name])
