"""Takes the picture of the page that README shows.

  ctd-jax index --index=annals --add=chunqiutr/mini
  python docs/assets/page_picture.py --index=annals --output=page.png

It needs the extras [web] and [test] and Chromium, which CTD_JAX_CHROMIUM names
or the search path has.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator

import uvicorn
from playwright import sync_api

from ctd_jax.web.app import make_app
from ctd_jax.web.settings import LOCAL_HOST, WebSettings

SIZE = {"width": 1180, "height": 860}  # pixels
# In a container shared memory is small, and root has no sandbox.
ARGUMENTS = [
  "--disable-dev-shm-usage",
  *(["--no-sandbox"] if os.geteuid() == 0 else []),
]


@contextlib.contextmanager
def serve(index: pathlib.Path) -> Iterator[str]:
  """Yields the address of a server of an index."""
  with socket.socket() as probe:
    probe.bind((LOCAL_HOST, 0))
    port = probe.getsockname()[1]
  settings = WebSettings(index=index, port=port, read_only=True)
  server = uvicorn.Server(
    uvicorn.Config(make_app(settings), port=port, log_level="error")
  )
  thread = threading.Thread(target=server.run, daemon=True)
  thread.start()
  while not server.started:
    time.sleep(0.05)
  yield f"http://{LOCAL_HOST}:{port}"
  server.should_exit = True
  thread.join()


def main() -> None:
  """Serves the index and saves what a question gives."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--index", type=pathlib.Path, required=True)
  parser.add_argument("--output", type=pathlib.Path, required=True)
  parser.add_argument("--question", default="滄昌公二年四月")
  parser.add_argument("--lang", default="en", help="of the interface")
  flags = parser.parse_args()
  chromium = os.environ.get("CTD_JAX_CHROMIUM") or shutil.which("chromium")
  if chromium is None:
    sys.exit("error: no Chromium; name it by CTD_JAX_CHROMIUM")
  query = urllib.parse.urlencode({"q": flags.question, "lang": flags.lang})
  with serve(flags.index) as address, sync_api.sync_playwright() as playwright:
    browser = playwright.chromium.launch(
      executable_path=chromium, args=ARGUMENTS
    )
    page = browser.new_page(viewport=SIZE, color_scheme="light")
    page.goto(f"{address}/?{query}", wait_until="networkidle")
    page.screenshot(path=flags.output)
    browser.close()
  print(f"{flags.output}: {flags.output.stat().st_size:,} bytes")


if __name__ == "__main__":
  main()
