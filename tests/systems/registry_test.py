"""Registry of systems: discovery, sections, names, and cheap imports."""

import sys

import ml_collections
import numpy as np
import pytest

from ctd_jax import systems
from ctd_jax.systems import registry
from ctd_jax.training import config as training_config
from tests import synthetic
from tests.tools import processes

NAMES = (
  *("bm25", "bm25_timekde", "bm25_tuned", "bm25_timekde_tuned", "rules"),
  *("time_keys", "published", "pqr", "validity_prior"),
  *("dating-fitted", "dating-elimination", "dating-order"),
  *("dating-order-strict", "dating-strict"),
)
# A whole system: its section, its check, its search and its registration.
REVERSED_SYSTEM = """
import dataclasses
from typing import ClassVar

import numpy as np

from ctd_jax.systems import registry


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReversedConfig(registry.SystemConfig):
  SECTION: ClassVar[str] = "reversed"
  offset: int = 1
  comment: str | None = None

  def validate(self):
    self.check_positive("offset")
    super().validate()


@registry.register("reversed", config=ReversedConfig)
def make_reversed(benchmark, config, context):
  def search(queries, k, galleries):
    rows = np.arange(len(benchmark.records) - config.offset, -1, -1)[:k]
    indices = np.tile(rows, (len(queries), 1)).astype(np.int32)
    scores = np.tile(rows, (len(queries), 1)).astype(np.float32)
    return {name: (indices, scores) for name in galleries}

  return registry.System(track="T0", score_mode="reversed", search=search)
"""


@pytest.fixture
def reversed_system(tmp_path, monkeypatch):
  """A system of one file in a folder that joins the package."""
  (tmp_path / "reversed_records.py").write_text(REVERSED_SYSTEM)
  # A file that registers nothing is not imported.
  (tmp_path / "other_command.py").write_text("raise AssertionError")
  monkeypatch.setattr(systems, "__path__", list(systems.__path__))
  registrations = dict(registry._registrations)
  monkeypatch.setattr(registry, "_registrations", registrations)
  registry.load_system_modules([str(tmp_path)])
  yield "reversed"
  sys.modules.pop("ctd_jax.systems.reversed_records")


def base_config(*names):
  config = training_config.base_config()
  config.eval.baselines = names
  return config


def test_the_names_of_all_systems():
  assert registry.system_names() == tuple(sorted(NAMES))
  assert registry.model_dependent_names() == {"published", "pqr"}


def test_a_new_file_is_a_system_and_touches_nothing_else(reversed_system):
  config = base_config("bm25", reversed_system)
  assert reversed_system in registry.system_names()
  benchmark = synthetic.benchmark()
  last = len(benchmark.records) - 1

  def search():
    made = registry.make_systems(benchmark, config)
    assert list(made) == ["bm25", "reversed"]
    gallery = {"all": np.ones(last + 1, bool)}
    return made["reversed"].search(["x"], 2, gallery)["all"][0].tolist()

  assert search() == [[last, last - 1]]
  # Its section has defaults, overrides and checks.
  config.reversed = registry.default_section("reversed")
  assert config.reversed.offset == 1
  config.reversed.comment = "a placeholder takes text"
  config.reversed.offset = 2
  assert search() == [[last - 1, last - 2]]
  config.reversed.offset = 0
  with pytest.raises(ValueError, match=r"d\.offset=0: expected at least 1"):
    registry.validate(config)


def test_an_unknown_system_or_field_is_named_with_the_nearest():
  with pytest.raises(ValueError, match=r"'bm52' \(did you mean 'bm25'"):
    registry.validate(base_config("bm52"))
  config = base_config("published")
  config.published = ml_collections.ConfigDict({"sorce": "x"})
  with pytest.raises(ValueError, match=r"d\.sorce: no such field \(did you"):
    registry.validate(config)
  with pytest.raises(ValueError, match=r"no system reads config\.sprase"):
    registry.default_section("sprase")


def test_a_section_of_a_system_that_is_not_asked_for_is_not_checked():
  config = base_config("bm25")
  config.published = registry.default_section("published")
  config.published.kind = "relu"
  registry.validate(config)
  config.eval.baselines = ("published",)
  with pytest.raises(ValueError, match=r"config\.published\.kind='relu'"):
    registry.validate(config)


def test_a_section_read_back_from_json_is_the_same():
  config = base_config("dating-strict")
  config.dating = ml_collections.ConfigDict({"off": ["neural"]})
  registry.validate(config)
  config.dating.off = ["neurons"]
  with pytest.raises(ValueError, match=r"config\.dating\.off: unknown 'neuro"):
    registry.validate(config)


def test_a_run_may_not_be_called_like_a_system():
  with pytest.raises(ValueError, match=r"config\.name='bm25': a system"):
    registry.check_run_name("bm25")


def test_two_systems_of_one_name():
  with pytest.raises(ValueError, match="two systems are registered as 'bm25'"):
    registry.register("bm25")(lambda *_: None)


def test_an_override_of_no_field_is_explained():
  message = registry.explain_field(None, "published.source")
  assert "the system published of config.eval.baselines" in message
  assert "c.published = registry.default_section('published')" in message
  message = registry.explain_field(None, "published.sorce")
  assert message.startswith(" (did you mean 'source'?); the section published")
  message = registry.explain_field(base_config("bm25"), "sead")
  assert message == "; did you mean --config.seed?"
  assert registry.explain_field(None, "sead") == ""


@pytest.mark.slow
def test_configs_and_names_cost_no_import_of_jax():
  loaded = processes.list_loaded_modules(
    "from ctd_jax.systems import registry\n"
    "from ctd_jax_configs import published\n"
    "registry.system_names()\n"
    "published.get_config()"
  )
  heavy = {"jax", "flax", "tensorflow", "matplotlib", "sklearn"}
  assert not heavy & loaded
