"""Writing files so that a cut-off leaves the old one or the new one.

Called by everything that writes text (runs, results, configs, tokenizers) or
pictures.
"""

from __future__ import annotations

import os
import pathlib
import tempfile

import matplotlib.figure


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a whole file or nothing: to a temporary name, then renamed.

  Args:
    path: folders on the way are made.
    text: written as UTF-8.
  """
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  handle, temporary = tempfile.mkstemp(
    dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"
  )
  try:
    with os.fdopen(handle, "w", encoding="utf-8") as file:
      file.write(text)
    # mkstemp gives 0600; a new file has what the umask leaves.
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(temporary, 0o666 & ~umask)
    os.replace(temporary, path)
  except BaseException:
    os.unlink(temporary)
    raise


def write_figure(
  path: str | os.PathLike, figure: matplotlib.figure.Figure
) -> None:
  """Writes a picture as PNG, whole or not at all.

  Args:
    path: folders on the way are made.
    figure: complete.
  """
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=path.parent) as folder:
    temporary = pathlib.Path(folder) / path.name
    # Without the version of matplotlib: the same figure, the same bytes.
    figure.savefig(
      temporary, dpi=150, format="png", metadata={"Software": None}
    )
    os.replace(temporary, path)
