"""Registry of the systems that rank without a training run.

A system is one file of this package. It declares its section of the config, a
dataclass with `validate()`, and registers a factory:

  @dataclasses.dataclass(frozen=True, kw_only=True)
  class EchoConfig(registry.SystemConfig):
    SECTION = "echo"
    depth: int = 10  # records of a query

  @registry.register("echo", config=EchoConfig)
  def make_echo(benchmark, config, context) -> registry.System:
    ...

The registry imports every file of the package that registers something, on
first use, so a new file touches no other one. Such a file imports JAX, and
whatever else is slow, inside its factory: configs read the sections' defaults
from here, and `--help` reads the configs.

Axes: Q queries, N records, n some of them, K months, k results.
"""

import dataclasses
import functools
import importlib
import importlib.util
import pathlib
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import ml_collections
import numpy as np
from ml_collections import config_dict

from ctd_jax import systems
from ctd_jax.benchmark.benchmark import Benchmark
from ctd_jax.evaluation import protocol
from ctd_jax.retrieval.host_search import Galleries, TopK
from ctd_jax.training import config as training_config
from ctd_jax.training.config import suggest

# A file without it (a command, a helper) is not imported by the discovery.
_REGISTRATION = re.compile(r"^@(registry\.)?register\(", re.MULTILINE)


# (texts of queries [Q], k, gallery -> [N] bool) -> the k best records of every
# query, for every gallery. Nothing is computed before the first call.
SearchFn = Callable[[Sequence[str], int, Galleries], TopK]


@dataclasses.dataclass(frozen=True, kw_only=True)
class System:
  """A system, ready to rank the gallery of one benchmark."""

  track: str  # what it may read, one of `runs.TRACKS`
  score_mode: str  # name of the score that ranks
  search: SearchFn  # ranks the gallery
  # In run files and tables; None = the name it is registered with. One
  # registered system may stand for several models.
  name: str | None = None
  seeds: tuple[int, ...] = ()  # of the draws that it depends on
  # Rows of records [n] -> log p(month | record) [n, K], of a system that dates
  # the gallery.
  log_months: Callable[[np.ndarray], np.ndarray] | None = None
  # Texts of queries [Q] -> log p(month | query) [Q, K], of a system that dates
  # what they ask about.
  log_query_months: Callable[[Sequence[str]], np.ndarray] | None = None
  # The constants that were tried with their validation score, best first, as
  # tab-separated lines; of a system that is tuned.
  tuning_table: Callable[[], str] | None = None


@dataclasses.dataclass(frozen=True)
class Context:
  """Settings of an evaluation that a system may depend on."""

  seed: int  # `config.seed`
  # `config.eval.mode`, by which constants are chosen on validation.
  mode: protocol.EvaluationMode
  # `config.data_dir`, of other data sets that a system reads.
  data_dir: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SystemConfig:
  """Section of the config that a system reads; one dataclass a section."""

  # Name of the section, "" for a system that reads none.
  SECTION: ClassVar[str] = ""
  # Fields without a usable default. Rows of a system with such fields depend on
  # more than its name, e.g. on a model.
  REQUIRED: ClassVar[tuple[str, ...]] = ()

  def validate(self) -> None:
    """Raises ValueError, naming `config.SECTION.FIELD`, for a wrong value."""
    for field in self.REQUIRED:
      if not getattr(self, field):
        raise ValueError(
          f"config.{self.SECTION}.{field}: the system {self.SECTION} needs a "
          "value"
        )

  def field_error(self, field: str, expectation: str) -> ValueError:
    """Returns the error for a field that holds a wrong value."""
    return ValueError(
      f"config.{self.SECTION}.{field}={getattr(self, field)!r}: {expectation}"
    )

  def check_positive(self, *fields: str) -> None:
    """Raises ValueError if a field that is set is below 1."""
    for field in fields:
      value = getattr(self, field)
      if value is not None and value < 1:
        raise self.field_error(field, "expected at least 1")

  def check_path(self, field: str) -> None:
    """Raises ValueError if the path in a field does not exist."""
    path = pathlib.Path(getattr(self, field)).expanduser()
    if not path.exists():
      raise ValueError(f"config.{self.SECTION}.{field}={path}: no such path")

  def check_choice(self, field: str, choices: Sequence[str]) -> None:
    """Raises ValueError if a field holds none of the choices."""
    if getattr(self, field) not in choices:
      raise self.field_error(field, f"expected one of {', '.join(choices)}")


ConfigT = TypeVar("ConfigT", bound=SystemConfig)
# A factory that was registered for several names returns name -> system.
Factory = Callable[
  [Benchmark, ConfigT, Context], "System | Mapping[str, System]"
]


@dataclasses.dataclass(frozen=True)
class Registration:
  """A factory with the names of its systems and the section it reads."""

  names: tuple[str, ...]
  config: type[SystemConfig]
  factory: Factory

  def make_systems(
    self, benchmark: Benchmark, config: SystemConfig, context: Context
  ) -> Mapping[str, System]:
    """Returns name -> system; what the systems share is computed once."""
    result = self.factory(benchmark, config, context)
    return {self.names[0]: result} if isinstance(result, System) else result


_registrations: dict[str, Registration] = {}


def register(
  *names: str, config: type[ConfigT] = SystemConfig
) -> Callable[[Factory], Factory]:
  """Returns the decorator that registers a factory.

  Args:
    names: names of its systems, as `config.eval.baselines` names them. A
      factory of several returns them together, because they share what they
      read.
    config: dataclass of its section.

  Raises:
    ValueError: if another factory has one of the names, or another dataclass
      the section.
  """

  def add_factory(factory: Factory) -> Factory:
    registration = Registration(names, config, factory)
    for name in names:
      if name in _registrations:
        raise ValueError(f"two systems are registered as {name!r}")
    if (
      config.SECTION
      and _section_configs().get(config.SECTION, config) is not config
    ):
      raise ValueError(f"two dataclasses describe config.{config.SECTION}")
    _registrations.update(dict.fromkeys(names, registration))
    return factory

  return add_factory


def load_system_modules(folders: Iterable[str] = ()) -> None:
  """Imports the files of the package that register a system.

  Args:
    folders: folders to search too, as if their files were in the package.
  """
  # The import system then finds the files as submodules of the package.
  systems.__path__.extend(folders)
  for module in pkgutil.iter_modules(systems.__path__, f"{systems.__name__}."):
    spec = module.module_finder.find_spec(module.name, None)
    # Read, not imported: a command of the package may import JAX.
    if _REGISTRATION.search(spec.loader.get_source(module.name) or ""):
      importlib.import_module(module.name)


@functools.cache
def _load_once() -> None:
  """Imports the systems at the first question about them."""
  load_system_modules()


def system_names() -> tuple[str, ...]:
  """Returns the names of all systems, in alphabetical order."""
  _load_once()
  return tuple(sorted(_registrations))


def model_dependent_names() -> frozenset[str]:
  """Returns the systems whose rows depend on a model or file of the config."""
  _load_once()
  return frozenset(
    name
    for name, registration in _registrations.items()
    if registration.config.REQUIRED
  )


def default_section(name: str) -> ml_collections.ConfigDict:
  """Returns a section of the config with the defaults of its dataclass.

  Args:
    name: name of the section, e.g. "dating".

  Raises:
    ValueError: if it is unknown; the message lists the sections.
  """
  _load_once()
  configs = _section_configs()
  if name not in configs:
    raise ValueError(
      f"no system reads config.{name}; there are {', '.join(sorted(configs))}"
    )
  section = ml_collections.ConfigDict()
  hints = typing.get_type_hints(configs[name])
  for field in dataclasses.fields(configs[name]):
    value = field.default
    if value is None:  # a placeholder takes overrides of its type alone
      value = config_dict.placeholder(_optional_type(hints[field.name]))
    section[field.name] = value
  return section


def validate(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError for unknown systems or bad values in their sections.

  Args:
    config: eval.baselines is read, and the sections of the systems named
      there; a section that is absent has its defaults.

  Raises:
    ValueError: if a field is wrong; the message names it, its value and what is
      expected.
  """
  training_config.check_finite(config)
  names = system_names()
  for name in config.eval.baselines:
    if name not in names:
      raise ValueError(
        f"config.eval.baselines: unknown {name!r}{suggest(name, names)}; "
        f"there are {', '.join(names)}"
      )
  for name in config.eval.baselines:
    read_section(config, _registrations[name].config).validate()


def check_run_name(name: str, field: str = "config.name") -> None:
  """Raises ValueError if a run has the name of a system.

  Raises:
    ValueError: if the name is taken; the message names the field.
  """
  if name in system_names():
    raise ValueError(
      f"{field}={name!r}: a system has this name, and its run files would "
      f"be overwritten; expected none of {', '.join(system_names())}"
    )


def make_systems(
  benchmark: Benchmark, config: ml_collections.ConfigDict
) -> dict[str, System]:
  """Returns the systems of `config.eval.baselines` by their names in tables.

  No model is loaded and nothing is encoded before a system searches.

  Args:
    benchmark: benchmark whose gallery is ranked.
    config: seed, eval.baselines, eval.mode and the systems' sections.

  Raises:
    ValueError: if a field of the config is wrong; the message names it.
    FileNotFoundError: if a file that a section names is missing.
  """
  validate(config)
  context = Context(
    config.seed, protocol.get_mode(config.eval.mode), config.data_dir
  )
  system_by_name: dict[str, System] = {}
  for name in config.eval.baselines:
    # The factory of an earlier name may have made this system too.
    if name not in system_by_name:
      registration = _registrations[name]
      system_by_name |= registration.make_systems(
        benchmark, read_section(config, registration.config), context
      )
  return {
    system_by_name[name].name or name: system_by_name[name]
    for name in config.eval.baselines
  }


def read_section(
  config: ml_collections.ConfigDict, section_type: type[ConfigT]
) -> ConfigT:
  """Returns a section of the config as its dataclass.

  Args:
    config: config of an experiment; without the section the defaults hold.
    section_type: the dataclass.

  Raises:
    ValueError: if a field of the section is unknown; the message names it.
  """
  fields = dict(config.get(section_type.SECTION) or {})
  allowed = [field.name for field in dataclasses.fields(section_type)]
  for field, value in fields.items():
    if field not in allowed:
      raise ValueError(
        f"config.{section_type.SECTION}.{field}: no such field"
        f"{suggest(field, allowed)}; there are {', '.join(allowed)}"
      )
    if isinstance(value, list):  # as JSON reads a tuple
      fields[field] = tuple(value)
  return section_type(**fields)


def explain_field(config: ml_collections.ConfigDict | None, field: str) -> str:
  """Returns a hint for an override of an unknown field.

  Args:
    config: config to override; None if it could not be read.
    field: dotted, without "config.", e.g. "published.source".

  Returns:
    What is expected, after a semicolon, or "".
  """
  section, _, leaf = field.partition(".")
  names = [
    name
    for name in system_names()
    if section and section == _registrations[name].config.SECTION
  ]
  if not names:
    return training_config.suggest_field(config, field) if config else ""
  fields = dataclasses.fields(_registrations[names[0]].config)
  fields = [field.name for field in fields]
  if leaf not in fields:
    return (
      f"{suggest(leaf, fields)}; the section {section} has {', '.join(fields)}"
    )
  return (
    f"; the section {section} belongs to the system {' or '.join(names)} of "
    "config.eval.baselines: take a config that has it, or add to yours: "
    f"c.{section} = registry.default_section({section!r})"
  )


def _section_configs() -> dict[str, type[SystemConfig]]:
  """Returns section -> dataclass of the systems that were imported."""
  configs = (registration.config for registration in _registrations.values())
  return {config.SECTION: config for config in configs if config.SECTION}


def _optional_type(hint: Any) -> type:
  """Returns T of the annotation `T | None`."""
  (value_type,) = set(typing.get_args(hint)) - {types.NoneType}
  return value_type
