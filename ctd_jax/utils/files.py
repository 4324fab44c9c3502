"""Writing files so that a cut-off leaves the old one or the new one.

Called by everything that writes text (runs, results, configs, tokenizers),
pictures or weights.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

import matplotlib.figure


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Gives a temporary path whose file takes the place of `path` at the end.

  If anything is raised before, `path` is what it was.

  Args:
    path: folders on the way are made.
  """
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(
    dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"
  ) as folder:
    temporary = pathlib.Path(folder) / path.name
    yield temporary
    # Some writers give 0600; a new file has what the umask leaves.
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(temporary, 0o666 & ~umask)
    os.replace(temporary, path)


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a whole file or nothing.

  Args:
    path: folders on the way are made.
    text: written as UTF-8.
  """
  with atomic_path(path) as temporary:
    temporary.write_text(text, encoding="utf-8")


def write_figure(
  path: str | os.PathLike, figure: matplotlib.figure.Figure
) -> None:
  """Writes a picture as PNG, whole or not at all.

  Args:
    path: folders on the way are made.
    figure: complete.
  """
  with atomic_path(path) as temporary:
    # Without the version of matplotlib: the same figure, the same bytes.
    figure.savefig(
      temporary, dpi=150, format="png", metadata={"Software": None}
    )
