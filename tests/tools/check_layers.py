"""Check of the layers in pyproject.toml, and that no files import in a circle.

python tests/tools/check_layers.py
"""

import graphlib
import sys

import grimp
from importlinter.cli import lint_imports

PACKAGES = ("ctd_jax", "ctd_jax_configs", "ctd_jax_datasets")


def find_circle() -> list[str]:
  """Returns modules of which each imports the next; none if there is no circle.

  The root is left out: it imports its public names when they are first used.
  """
  graph = grimp.build_graph(*PACKAGES)
  modules = graph.modules - {"ctd_jax"}
  imported = {
    module: graph.find_modules_directly_imported_by(module) & modules - {module}
    for module in modules
  }
  try:
    graphlib.TopologicalSorter(imported).prepare()
  except graphlib.CycleError as error:
    return error.args[1][::-1]
  return []


if __name__ == "__main__":
  sys.path.insert(0, ".")  # this checkout, and not an installed one
  if circle := find_circle():
    print("modules import in a circle:", " -> ".join(circle))
  status = lint_imports(no_cache=True, no_logo=True)
  sys.exit(status or bool(circle))
