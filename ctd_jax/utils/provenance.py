"""Provenance of results: the command line and the commit of the code."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys


def command_line() -> str:
  """Returns the command line of this process as a user would type it."""
  module = pathlib.Path(sys.argv[0]).stem
  return shlex.join(["python", "-m", f"ctd_jax.{module}", *sys.argv[1:]])


def code_commit() -> str:
  """Returns the commit of the running code, with -dirty if it was changed.

  Where the package does not lie at the top of a git checkout, as in an image,
  $CTD_JAX_COMMIT or "".
  """
  given_commit = os.environ.get("CTD_JAX_COMMIT", "")
  package = pathlib.Path(__file__).resolve().parents[1]

  def run_git(*arguments: str) -> str:
    return subprocess.run(
      ["git", "-C", str(package), *arguments],
      capture_output=True,
      text=True,
      check=True,
    ).stdout.strip()

  try:
    # An installed package may lie inside somebody else's checkout.
    if pathlib.Path(run_git("rev-parse", "--show-toplevel")) != package.parent:
      return given_commit
    changed_files = run_git("status", "--porcelain", "--untracked-files=no")
    return run_git("rev-parse", "HEAD") + "-dirty" * bool(changed_files)
  except (OSError, subprocess.CalledProcessError):
    return given_commit
