"""Folders as tests need them: their contents, and served on this machine."""

import contextlib
import functools
import http.server
import pathlib
import threading
from collections.abc import Iterator


class _Quiet(http.server.SimpleHTTPRequestHandler):
  def log_message(self, *arguments):
    pass


@contextlib.contextmanager
def serve_folder(folder: pathlib.Path) -> Iterator[str]:
  """Gives the URL at which this machine serves a folder."""
  handler = functools.partial(_Quiet, directory=str(folder))
  with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


def read_contents(folder: pathlib.Path) -> dict[str, bytes]:
  """Returns the contents of all files of a folder by their relative paths."""
  return {
    path.relative_to(folder).as_posix(): path.read_bytes()
    for path in folder.rglob("*")
    if path.is_file()
  }
