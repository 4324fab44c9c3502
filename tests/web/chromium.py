"""Chromium for tests: a server in a thread, pages that fail on an error."""

import contextlib
import os
import shutil
import socket
import threading
import time

import pytest
import uvicorn

from ctd_jax.web.app import make_app
from ctd_jax.web.settings import WebSettings

CHROMIUM = os.environ.get("CTD_JAX_CHROMIUM") or next(
  filter(
    None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
  ),
  None,
)
MARKS = [
  pytest.mark.slow,
  pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
WIDTHS = {"wide": (1280, 900), "narrow": (390, 844)}
# In a container shared memory is small, and root has no sandbox.
ARGUMENTS = [
  "--disable-dev-shm-usage",
  *(["--no-sandbox"] if os.geteuid() == 0 else []),
]


@contextlib.contextmanager
def serve(folder, **settings):
  """Yields the address of a server of an index."""
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
  app = make_app(WebSettings(index=folder, port=port, **settings))
  config = uvicorn.Config(app, port=port, log_level="error", http="h11")
  server = uvicorn.Server(config)
  thread = threading.Thread(target=server.run, daemon=True)
  thread.start()
  while not server.started:
    time.sleep(0.05)
  yield f"http://127.0.0.1:{port}"
  server.should_exit = True
  thread.join(10)


@contextlib.contextmanager
def launch():
  """Yields the browser."""
  from playwright import sync_api

  with sync_api.sync_playwright() as playwright:
    browser = playwright.chromium.launch(
      executable_path=CHROMIUM, args=ARGUMENTS
    )
    yield browser
    browser.close()


@contextlib.contextmanager
def open_pages(browser, address):
  """Yields what opens a page; it fails at the end if one logged an error."""
  contexts, problems = [], []

  def log(message):
    if message.type == "error":
      problems.append(message.text)

  def open_(path="/", width="wide", scheme="light", **options):
    size = WIDTHS[width]
    context = browser.new_context(
      viewport={"width": size[0], "height": size[1]},
      color_scheme=scheme,
      locale="en-US",
      base_url=address,
      **options,
    )
    contexts.append(context)
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", log)
    page.goto(path)
    return page

  yield open_
  for context in contexts:
    context.close()
  assert not problems


def tab_to(page, locator, max_presses=120):
  """Presses the tabulator key until an element has the focus, which is seen."""
  for _ in range(max_presses):
    page.keyboard.press("Tab")
    if locator.evaluate("it => it === document.activeElement"):
      style = locator.evaluate("it => getComputedStyle(it).outlineStyle")
      assert style != "none"
      return
  pytest.fail(f"{locator} is not reached by the keyboard")


def press(page, locator, key="Enter"):
  """Goes to an element by the tabulator key and presses another on it."""
  tab_to(page, locator)
  page.keyboard.press(key)


def check_page(page, width):
  """Fails if a page is too wide, or axe finds what is serious."""
  from axe_playwright_python import sync_playwright

  used = page.evaluate("document.documentElement.scrollWidth")
  assert used <= WIDTHS[width][0]
  results = sync_playwright.Axe().run(page).response
  serious = [
    (violation["id"], [node["html"][:200] for node in violation["nodes"]][:3])
    for violation in results["violations"]
    if violation["impact"] in ("serious", "critical")
  ]
  assert not serious
