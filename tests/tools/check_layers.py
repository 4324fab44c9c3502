"""Check of the layers in pyproject.toml, as `lint-imports` does it.

python tests/tools/check_layers.py
"""

import sys

from importlinter.cli import lint_imports

if __name__ == "__main__":
  sys.exit(lint_imports(no_cache=True, no_logo=True))
