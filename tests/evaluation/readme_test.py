"""What the README says is so; its tables are checked by report_test."""

import importlib.util
import pathlib
import re

import pytest

from ctd_jax_configs import common
from ctd_jax_datasets import build

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_first_command_stands_near_the_top():
  lines = README.splitlines()
  first = next(i for i, line in enumerate(lines, 1) if "./launch/" in line)
  assert first <= 30


def test_files_and_modules_exist():
  folders = "configs|launch|tests|data|ctd_jax"
  for place in re.findall(rf"(?<![\w/])(?:{folders})/[\w./-]*\w", README):
    assert (ROOT / place).exists(), place
  modules = set(re.findall(r"python -m ([\w.]+)", README))
  assert modules
  for module in modules:
    assert importlib.util.find_spec(module), module


def test_methods_are_those_of_the_configs():
  sentence = re.search(r"the method \(([^)]*)\)", README)[1]
  assert tuple(re.findall(r"`(\w+)`", sentence)) == common.METHODS


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
  return build.build_dataset("chunqiutr/mini", tmp_path_factory.mktemp("mini"))


def test_example_is_in_the_data(mini):
  question = re.search(r"^> (.+)$", README, re.MULTILINE)[1]
  rows = re.findall(
    r"^\| `(\S+) Q0 (r\d+) .*` \| (.+) \| (.+) \|$", README, re.M
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
