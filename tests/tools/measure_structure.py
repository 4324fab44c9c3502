"""Figures of the code's style and structure, for any commit.

  python tests/tools/measure_structure.py [--root=FOLDER]

Counted over the sources without tests, by parsing alone; nothing is imported:

  vague names        bound identifiers that are bare participles or pointer
                     words, per 1,000 bound identifiers
  one-word functions share of the public module-level functions
  comments           lines with a comment, per 100 lines of code
  question openings  module docstrings that open with What, Which, How, ...
  loose modules      Python files at the top of the package
  knot               packages in the largest cycle of imports
  config's way       functions reached from `train.main` that take the whole
                     config of a run, as a ConfigDict or inside an Experiment
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator

SOURCES = ("ctd_jax", "data", "configs")
INSTALLED = {"data": "ctd_jax_datasets", "configs": "ctd_jax_configs"}
# Words that name a moment of the writing, not a thing.
VAGUE = frozenset(
  [
    "told",
    "asked",
    "said",
    "found",
    "kept",
    "made",
    "wanted",
    "known",
    "hidden",
    "given",
    "taken",
    "shown",
    "held",
    "seen",
    "named",
    "heard",
    "drawn",
    "left",
    "read",
    "chosen",
    "meant",
    "passed",
    "opened",
    "begun",
    "stated",
    "each",
    "one",
    "other",
    "others",
    "place",
    "places",
    "part",
    "parts",
    "whole",
    "thing",
    "things",
    "own",
    "here",
    "there",
    "both",
    "rest",
    "what",
    "how",
  ]
)
QUESTION = re.compile(r"(What|Which|Where|How|Who|When|Whether)\b")
# Annotations of a parameter that holds the whole config of a run.
CONFIGS = re.compile(r"ConfigDict|\bExperiment\b")
WHOLE_CONFIG_NAMES = ("config", "experiment")


def source_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields the Python files of the sources, tests left out."""
  for folder in SOURCES:
    for path in sorted((root / folder).rglob("*.py")):
      if not path.is_symlink() and not path.parent.is_symlink():
        yield path


def module_name(root: pathlib.Path, path: pathlib.Path) -> str:
  """Returns the dotted name that a file has once installed."""
  parts = list(path.relative_to(root).with_suffix("").parts)
  parts[0] = INSTALLED.get(parts[0], parts[0])
  return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def count_style(files: list[pathlib.Path]) -> dict[str, float]:
  """Returns the rows about names, functions, comments and docstrings."""
  counts: collections.Counter[str] = collections.Counter()
  for path in files:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docstring_lines: set[int] = set()
    for node in ast.walk(tree):
      documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
      if isinstance(node, documented) and ast.get_docstring(node):
        first = node.body[0]
        docstring_lines.update(range(first.lineno, first.end_lineno + 1))
      name = None
      if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        name = node.id
      elif isinstance(node, ast.arg):
        name = node.arg
      if name:
        counts["names"] += 1
        counts["vague"] += name in VAGUE
    opening = ast.get_docstring(tree)
    counts["modules"] += bool(opening)
    counts["questions"] += bool(opening and QUESTION.match(opening))
    for node in tree.body:
      if isinstance(node, ast.FunctionDef) and node.name[0] != "_":
        counts["public"] += 1
        counts["one word"] += "_" not in node.name
    code, comments = _code_and_comments(text)
    counts["code"] += len(code - docstring_lines)
    counts["comments"] += len(comments)
  return {
    "files": len(files),
    "vague names per 1,000": 1000 * counts["vague"] / counts["names"],
    "one-word public functions, %": 100 * counts["one word"] / counts["public"],
    "comments per 100 lines": 100 * counts["comments"] / counts["code"],
    "modules that open with a question": counts["questions"],
  }


def _code_and_comments(text: str) -> tuple[set[int], set[int]]:
  """Returns the lines that hold code and those that hold a comment."""
  code: set[int] = set()
  comments: set[int] = set()
  layout = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
  }
  for token in tokenize.generate_tokens(io.StringIO(text).readline):
    if token.type == tokenize.COMMENT:
      comments.add(token.start[0])
    elif token.type not in layout:
      code.update(range(token.start[0], token.end[0] + 1))
  return code, comments


def import_graph(
  root: pathlib.Path, files: list[pathlib.Path]
) -> dict[str, set[str]]:
  """Returns module -> modules of the project that it imports."""
  modules = {module_name(root, path): path for path in files}
  graph: dict[str, set[str]] = {name: set() for name in modules}
  for name, path in modules.items():
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
      if isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
          for target in (f"{node.module}.{alias.name}", node.module):
            if target in modules:
              graph[name].add(target)
              break
      elif isinstance(node, ast.Import):
        graph[name].update({a.name for a in node.names} & modules.keys())
  return graph


def largest_cycle(graph: dict[str, set[str]]) -> int:
  """Returns the nodes of the largest cycle of a graph; 0 without a cycle."""
  reached: dict[str, set[str]] = {}
  for start in graph:
    seen: set[str] = set()
    pending = [*graph[start]]
    while pending:
      node = pending.pop()
      if node not in seen:
        seen.add(node)
        pending += graph.get(node, ())
    reached[start] = seen
  sizes = [
    sum(start in reached.get(node, ()) for node in reached[start])
    for start in graph
    if start in reached[start]
  ]
  return max(sizes, default=0)


def package_graph(graph: dict[str, set[str]]) -> dict[str, set[str]]:
  """Returns the imports between packages: the first folder below the root."""

  def package(name: str) -> str:
    parts = name.split(".")
    if parts[0] != "ctd_jax":
      return parts[0]
    is_folder = any(other.startswith(name + ".") for other in graph)
    if len(parts) == 2 and not is_folder:
      return name  # a module at the top, such as a command
    return ".".join(parts[:2])

  packages: dict[str, set[str]] = collections.defaultdict(set)
  for name, targets in graph.items():
    packages[package(name)].update(map(package, targets))
  return {name: found - {name} for name, found in packages.items()}


def count_config_stops(root: pathlib.Path) -> int:
  """Returns how many functions on the way to the step take the whole config.

  Calls are followed by name from `train.main`, which overcounts alike at every
  commit: a function counts if its name is called anywhere on the way.
  """
  functions: dict[str, list[ast.FunctionDef]] = collections.defaultdict(list)
  for path in source_files(root):
    relative = path.relative_to(root)
    if relative.parts[0] != "ctd_jax" or "tasks" in relative.parts:
      continue
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
      if isinstance(node, ast.FunctionDef):
        functions[node.name].append(node)
      elif isinstance(node, ast.ClassDef):
        functions[node.name] += [
          item
          for item in node.body
          if isinstance(item, ast.FunctionDef) and item.name == "__init__"
        ]
  entry = ast.parse((root / "ctd_jax/train.py").read_text(encoding="utf-8"))
  pending = [node for node in ast.walk(entry) if isinstance(node, ast.Call)]
  called: set[str] = set()
  stops: set[int] = set()
  while pending:
    target = pending.pop().func
    name = getattr(target, "attr", getattr(target, "id", ""))
    if name in called:
      continue
    called.add(name)
    for function in functions.get(name, ()):
      if _takes_whole_config(function):
        stops.add(id(function))
        pending += [n for n in ast.walk(function) if isinstance(n, ast.Call)]
  return len(stops)


def _takes_whole_config(function: ast.FunctionDef) -> bool:
  arguments = function.args
  return any(
    argument.arg in WHOLE_CONFIG_NAMES
    and argument.annotation is not None
    and CONFIGS.search(ast.unparse(argument.annotation))
    for argument in (*arguments.args, *arguments.kwonlyargs)
  )


def main() -> None:
  """Prints the figures of a checkout."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument(
    "--root",
    type=pathlib.Path,
    default=pathlib.Path(__file__).resolve().parents[2],
    help="a checkout; this one by default",
  )
  root = parser.parse_args().root
  files = list(source_files(root))
  graph = import_graph(root, files)
  figures = count_style(files) | {
    "modules loose at the top": len(list((root / "ctd_jax").glob("*.py"))),
    "files in the largest cycle": largest_cycle(graph),
    "packages in the largest knot": largest_cycle(package_graph(graph)),
    "config's way, functions": count_config_stops(root),
    "lines of README": len((root / "README.md").read_text().splitlines()),
  }
  for name, value in figures.items():
    print(f"{name:<36}{value:>8.1f}".replace(".0", "  "))


if __name__ == "__main__":
  main()
