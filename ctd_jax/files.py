"""Writing files so that a cut-off leaves the old one or the new one.

Called by everything that writes text: runs, results, configs, tokenizers.
"""

from __future__ import annotations

import os
import pathlib
import tempfile


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
