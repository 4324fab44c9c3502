"""README and site agree with the code, the data and the measured rows."""

import doctest
import functools
import importlib.util
import pathlib
import re

import pytest

import ctd_jax
from ctd_jax import cli
from ctd_jax.evaluation import result_tables, results, scoring
from ctd_jax.training import config as training_config
from ctd_jax_datasets import build, load
from tests.benchmarks import all_results

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The changelog names commands that have moved.
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]


def read_page(name: str) -> str:
  return (ROOT / "docs" / name).read_text(encoding="utf-8")


def page_name(page: pathlib.Path) -> str:
  return str(page.relative_to(ROOT))


def test_readme_is_short_and_begins_with_a_command():
  lines = README.read_text(encoding="utf-8").splitlines()
  assert len(lines) <= 150
  first = next(i for i, line in enumerate(lines, 1) if line == "```sh")
  assert first <= 30


# Names of tasks, which look like paths.
INSPECT_TASKS = ("ctd_jax/ctm", "ctd_jax/ito", "ctd_jax/evidence_qa")


@pytest.mark.parametrize("page", CURRENT, ids=page_name)
def test_files_and_modules_exist(page):
  text = page.read_text(encoding="utf-8")
  folders = "configs|launch|tests|data|ctd_jax|docs"
  for path in re.findall(rf"(?<![\w/*.])(?:{folders})/[\w./-]*\w", text):
    assert path in INSPECT_TASKS or (ROOT / path).exists(), path
  for module in re.findall(r"python -m ((?:ctd_jax|tests)[\w.]*)", text):
    assert importlib.util.find_spec(module.removesuffix(".NAME")), module


@pytest.mark.slow
@pytest.mark.parametrize(
  "page", [p for p in PAGES if "<!-- table:" in p.read_text()], ids=page_name
)
def test_tables_agree_with_the_rows(page):
  text = page.read_text(encoding="utf-8")
  folder = ROOT / "tests" / "results"
  rows = results.read_result_folder(folder)
  comparisons = results.read_comparison_rows(folder / results.COMPARISON_FILE)
  filled = result_tables.fill_tables(text, rows, page.name, comparisons)
  assert filled == text
  # A file or group without rows is one that a step will write.
  plan = all_results.read_plan()
  known = {
    "file": {row.file for row in rows} | {step.target for step in plan},
    "group": {row.group for row in comparisons} | {step.name for step in plan},
  }
  for key, names in known.items():
    for listed in re.findall(rf"<!-- table:.* {key}=(\S+)", text):
      assert names.issuperset(listed.split(","))


def test_methods_are_those_of_the_configs():
  table = read_page("tutorials/train.md").split("| method |")[1]
  table = table.split("\n\n")[0]
  names = [
    name
    for line in table.splitlines()[2:]
    for name in re.findall(r"`(\w+)`", line.split("|")[1])
  ]
  assert tuple(names) == training_config.METHODS


def test_differences_from_paper_and_release_are_those_of_the_configs():
  variants = ["ctd-paper", "ctd-release", "ctd"]
  columns = []
  for variant in variants:
    columns.append(config := training_config.base_config())
    training_config.apply_method(config, variant)

  def show(config, field):
    value = training_config.get_field(config, field)
    if field == "negatives":
      return ", ".join(f"{name}={n}" for name, n in value.items() if n)
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"

  lines = re.findall(
    r"^\| [^|]+ \| `([\w.]+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|",
    read_page("concepts/models.md").split("## Paper, release, ours")[1],
    re.MULTILINE,
  )
  entries = {
    f"no_{name}": fields for name, fields in training_config.REPAIRS.items()
  }
  for name, fields in training_config.PAPER.items():
    if fields not in entries.values():
      entries[f"paper_{name}"] = fields
  for field, *values, alone in lines:
    assert values == [show(config, field) for config in columns], field
    assert alone == ", ".join(
      f"`{name}`"
      for name, fields in entries.items()
      if any(key.startswith(field) for key in fields)
    )
  fields = {key for fields in entries.values() for key in fields}
  assert {field for field, *_ in lines} == {
    "negatives" if name.startswith("negatives.") else name for name in fields
  }


def test_commands_are_those_of_the_console_script():
  rows = re.findall(
    r"^\| `([\w-]+)` \| `([\w.]+)` \| (.+) \|$",
    read_page("reference/commands.md"),
    re.MULTILINE,
  )
  assert {name: (module, text) for name, module, text in rows} == cli.COMMANDS
  for page in CURRENT:
    commands = re.findall(
      r"^ *ctd-jax ([a-z][\w-]+)", page.read_text(encoding="utf-8"), re.M
    )
    assert set(commands) <= cli.COMMANDS.keys(), page


@pytest.fixture(scope="module")
def mini(mini_data_dir):
  return build.build_dataset("chunqiutr/mini", mini_data_dir)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "documented"),
  [
    ("ctd_jax", ctd_jax),
    ("load_benchmark", load.load_benchmark),
    ("scoring", scoring),
  ],
)
def test_examples_of_docstrings_run(name, documented, mini, monkeypatch):
  # The examples read the default folder; here it is that of the test.
  data_dir = mini.data_path.parents[2]
  monkeypatch.setattr(
    ctd_jax,
    "load_benchmark",
    functools.partial(load.load_benchmark, data_dir=data_dir),
    raising=False,
  )
  finder = doctest.DocTestFinder(recurse=False)
  (examples,) = finder.find(documented, name, globs={})
  outcome = doctest.DocTestRunner().run(examples)
  assert outcome.attempted >= 2
  assert not outcome.failed


@pytest.mark.slow
def test_example_is_in_the_data(mini):
  page = read_page("getting-started.md")
  question = re.search(r"^> (.+)$", page, re.MULTILINE)[1]
  rows = re.findall(
    r"^\| `(\S+) Q0 (r\d+) .*` \| (.+) \| (.+) \|$", page, re.MULTILINE
  )
  assert len(rows) == 3
  texts = {
    example["id"].decode(): example["text"].decode()
    for example in mini.as_data_source("records")
  }
  queries = {
    example["id"].decode(): example for example in mini.as_data_source("test")
  }
  for query_id, record_id, text, verdict in rows:
    query = queries[query_id]
    assert query["text"].decode() == question
    assert texts[record_id] == text
    answers = record_id.encode() in list(query["positives"])
    assert answers == (verdict == "right")
