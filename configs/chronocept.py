"""Baselines of validity curves on Chronocept or its synthetic stand-in.

  python -m ctd_jax.train --config=configs/chronocept.py:ffnn \\
    --workdir=runs/ffnn
  python -m ctd_jax.train --config=configs/chronocept.py:ffnn,synthetic_2 \\
    --config.protocol=paper --workdir=runs/ffnn-2-paper

The argument is a model (`MODELS`) and, after a comma, a variant of
`chronocept/`; without one, synthetic_1. Hyperparameters are the published
final ones of the benchmark that the variant is, or imitates. `--config.encoder`
is the folder or hub id of the frozen encoder; the published baselines use
google-bert/bert-base-uncased.

Hardware: 2 CPU cores. With MiniLM `bilstm` takes one to two minutes for each
seed, `bert` one to four minutes for each epoch. Rows measured with MiniLM are
in tests/results/chronocept_*.json.
"""

import ml_collections
from ml_collections import config_dict

# The last four are lower bounds, which the others should beat.
MODELS = (
  *("linear", "svr", "xgboost", "ffnn", "bilstm", "bert"),
  *("mean", "median", "nearest", "tfidf"),
)
# Models with randomly initialised parameters, which several seeds are for.
RANDOM_INIT_MODELS = ("ffnn", "bilstm", "bert")


def get_config(argument: str = "ffnn") -> ml_collections.ConfigDict:
  """Returns the config of a model on a variant of the data set.

  Args:
    argument: MODEL or MODEL,VARIANT, the part of the flag after the colon.

  Raises:
    ValueError: if there is no such model.
  """
  model, _, variant = argument.partition(",")
  if model not in MODELS:
    raise ValueError(
      f"unknown model {model!r} after the config's name; expected one of "
      f"{', '.join(MODELS)}"
    )
  c = ml_collections.ConfigDict()
  c.task = "validity"  # experiment that the entry point runs
  c.name = model  # system name in tables
  # A model for each seed.
  c.seeds = (0, 1, 2, 3, 4) if model in RANDOM_INIT_MODELS else (0,)

  # Data: a variant, or data of your own: json:FOLDER, json:FILE, csv:FILE.
  c.dataset = f"chronocept/{variant or 'synthetic_1'}"
  c.data_dir = config_dict.placeholder(str)  # None = the default of TFDS
  c.sources = config_dict.placeholder(str)  # folder of the published files
  c.axes = "given"  # or "removed" (parent alone), "shuffled" (in train)

  # Frozen encoder: the state of the first token, or of all tokens for bilstm.
  c.encoder = "sentence-transformers/all-MiniLM-L6-v2"
  c.cache_dir = "~/.cache/ctd_jax/embeddings"
  c.max_length = 128  # tokens of a field under the honest protocol

  # honest: z-scores of train, one max_length for all models, the best epoch by
  # validation. paper: z-scores of each split by itself, the published
  # max_length, the last epoch.
  c.protocol = "honest"
  c.paper_max_length = {"ffnn": 128, "bert": 64}.get(model, 16)
  c.paper_raw_targets = model == "bert"  # learns raw units under `paper`

  c.model = _model_config(model, c.dataset.endswith("_2"))
  c.grid = _search_grid(model)  # field of c.model -> values
  c.search = False  # whether to search the grid instead of c.model
  return c


def _model_config(
  name: str, is_second_benchmark: bool
) -> ml_collections.ConfigDict:
  """Returns the published final hyperparameters of a model."""
  m = ml_collections.ConfigDict()
  m.kind = name
  if name == "linear":
    m.fit_intercept = False
  if name == "svr":
    m.C = 1.0
    m.epsilon = 1.0  # in z-scores: errors below one deviation cost nothing
    m.kernel = "rbf"
  if name == "xgboost":
    m.n_estimators = 50
    m.max_depth = 3
    m.learning_rate = 0.1
  if name not in RANDOM_INIT_MODELS:
    return m
  m.epochs = 100
  m.batch_size = 0  # samples; 0 = the whole train split
  m.learning_rate = 1e-4
  m.weight_decay = 0.0
  m.decoupled = False  # whether decay is decoupled (AdamW)
  m.l1 = 0.0  # weight of the sum of absolute parameters
  if name == "ffnn":
    m.hidden_size = 256 if is_second_benchmark else 64
    m.dropout = 0.0
    m.learning_rate = 1e-2 if is_second_benchmark else 1e-3
    m.l1 = 1e-3
  if name == "bilstm":
    m.hidden_size = 64  # of each direction
  if name == "bert":
    m.epochs = 10  # as in the authors' notebook; the paper says 50
    m.batch_size = 4
    m.weight_decay = 0.01
    m.decoupled = True
    m.dropout = 0.0
  return m


def _search_grid(name: str) -> ml_collections.ConfigDict:
  """Returns the published grid of a model."""
  rates = (1e-2, 1e-3, 1e-4)
  grids = {
    "linear": {"fit_intercept": (True, False)},
    "svr": {
      "C": (0.1, 1.0, 10.0),
      "epsilon": (0.01, 0.1, 1.0),
      "kernel": ("linear", "rbf"),
    },
    "xgboost": {
      "n_estimators": (50, 100),
      "max_depth": (3, 5),
      "learning_rate": (0.1, 0.01),
    },
    "ffnn": {
      "hidden_size": (64, 128, 256),
      "dropout": (0.0, 0.2, 0.5),
      "learning_rate": rates,
      "l1": (0.0, 1e-4, 1e-3),
      "weight_decay": (0.0, 1e-3, 1e-2),
    },
    "bilstm": {"hidden_size": (64, 128, 256), "learning_rate": rates},
    "bert": {"dropout": (0.0, 0.2, 0.4)},
  }
  return ml_collections.ConfigDict(grids.get(name, {}))
