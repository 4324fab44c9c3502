"""Python in another process, for tests of commands."""

import subprocess
import sys


def run_python(*arguments: object, **options) -> subprocess.CompletedProcess:
  """Runs Python with these arguments; its output is text."""
  return subprocess.run(
    [sys.executable, *map(str, arguments)],
    capture_output=True,
    text=True,
    check=False,
    **options,
  )


def list_loaded_modules(code: str) -> set[str]:
  """Returns the modules that a new process has loaded after this code."""
  done = run_python("-c", f"{code}\nimport sys\nprint(*sys.modules)")
  assert done.returncode == 0, done.stderr
  return set(done.stdout.splitlines()[-1].split())
