"""A small index, and a client that asks the pages about it."""

import contextlib
import re
import shutil
import time

import pytest
from starlette.testclient import TestClient

from ctd_jax.index.asking import Index
from ctd_jax.web import app
from ctd_jax.web.served_index import ServedIndex
from ctd_jax.web.settings import WebSettings
from tests.web import chromium

HOST = "http://localhost"
_SECONDS = 120

# Those that a reader sees, one of each.
READ_PAGES = (
  "/",
  "/?q=鄭人",
  "/?q=元年",
  "/record/notes/notes-0",
  "/month/4",
  "/year/4",
  "/date",
  "/compare?from=魯隱公元年",
  "/convert?q=萬曆十五年三月廿六日",
  "/corrections",
  "/correct?work=notes&first=notes-0&date=魯隱公元年",
  "/jobs",
  "/upload",
  "/about",
)


@pytest.fixture(autouse=True, scope="session")
def own_installation(tmp_path_factory):
  """Keeps the secret of the servers of tests out of the home folder."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    yield


def read_fields(page):
  """Returns the hidden fields of the forms of a page."""
  return dict(
    re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page)
  )


def send_files(client, *files, fields=None, **values):
  """Sends names and contents by the form of a page, and returns the answer."""
  fields = fields or read_fields(client.get("/upload").text)
  return client.post(
    "/upload", data=fields | values, files=[("files", file) for file in files]
  )


def wait_for(function):
  """Returns the first result of a function that is true."""
  deadline = time.monotonic() + _SECONDS
  while not (result := function()):
    assert time.monotonic() < deadline
    time.sleep(0.02)
  return result


@contextlib.contextmanager
def open_client(folder, **settings):
  """Yields a client of a server; failures of pages do not raise."""
  with TestClient(
    app.make_app(WebSettings(index=folder, **settings)),
    base_url=HOST,
    raise_server_exceptions=False,
    follow_redirects=False,
  ) as client:
    yield client


@pytest.fixture(scope="session")
def client(index_folder):
  """Returns a client of a server with the usual settings."""
  with open_client(index_folder) as client:
    yield client


@pytest.fixture(scope="session")
def served(client):
  """Returns the index that the client asks."""
  return client.app.state.holder.get()


@pytest.fixture
def folder(tmp_path, index_folder):
  """Returns a copy of the index that can be changed."""
  return shutil.copytree(index_folder, tmp_path / "index")


@pytest.fixture
def writer(folder, monkeypatch):
  """Yields a client of a server whose index can be changed."""
  # Servers of one test would wait for one another's days of the calendar.
  monkeypatch.setattr(app, "_read_ahead", lambda served: None)
  with open_client(folder) as client:
    yield client
    for job in client.app.state.jobs.list():
      client.app.state.jobs.cancel(job.id)


@pytest.fixture
def serve_calendar(served):
  """Returns what makes an index of the records in another calendar."""

  def make(calendar):
    old = served.index
    index = Index(old.folder, old.manifest, "", old.works)
    vars(index).update(calendar=calendar, printed_reigns=frozenset())
    return ServedIndex(index)

  return make


@pytest.fixture(scope="module")
def browser():
  """Yields Chromium."""
  with chromium.launch() as browser:
    yield browser


@pytest.fixture
def open_page(browser, address):
  """Yields what opens a page of the server at the address of a test module."""
  with chromium.open_pages(browser, address) as open_page:
    yield open_page
