"""Date a passage: the page, long passages, an index that dates none."""

import re

import msgspec
import pytest

from ctd_jax.dating.passages.passages import PassageCopy
from ctd_jax.index.manifest import Manifest
from tests.index.answers_test import FixedDater
from tests.web.pages_test import read


@pytest.fixture
def dating_client(client, served, monkeypatch):
  """Returns a client of an index that dates every passage alike."""
  dater = FixedDater(len(served.index.calendar))
  monkeypatch.setitem(vars(served.index), "passage_dater", dater)
  manifest = served.index.manifest
  manifest = msgspec.structs.replace(manifest, passages="passages/1")
  monkeypatch.setattr(served.index, "manifest", manifest)
  return client


def test_a_copy_without_the_date_is_told(dating_client, served):
  served.index.passage_dater.copies = (
    PassageCopy(row=2, is_exact=True, share=0.75),
  )
  page = read(dating_client, "/date", q="五月，葬某公。")
  assert "Word for word, without the date." in page


def test_saved_passage_leads_back_to_the_server_to_ask_anew(dating_client):
  page = dating_client.get("/save/date?q=鄭人伐某").text
  assert 'action="http://localhost/date" method="get">' in page
  assert 'method="post"' not in page


def test_passage_is_dated_with_reasons_and_a_figure(dating_client):
  page = read(dating_client, "/date", q="五月，葬某公。")
  assert '<a href="/month/4">魯隱公元年五月</a>' in page
  assert "No time is sure enough to be named;" in page
  assert "Words &lt;b&gt;" in page
  assert "<svg" in page
  assert "/date?q=%E4%BA%94" in page  # the permanent link
  parallels = page.split("Parallels")[1]
  assert (
    '<span class="work" lang="lzh">Annals</span>' in parallels
  )  # not the name, annals


def test_search_leads_to_the_date_of_a_pasted_passage(dating_client):
  response = dating_client.get("/", params={"q": "五月，葬某公。秋，大雨。"})
  assert response.status_code == 303
  assert response.headers["location"].startswith("/date?q=")


def test_long_passage_is_posted_and_has_no_link(dating_client):
  short = dating_client.post("/date", data={"q": "葬某公。"})
  assert short.status_code == 303
  long = dating_client.post("/date", data={"q": "葬某公。" * 1000})
  assert long.status_code == 200
  assert "too long for a permanent link" in long.text
  assert not re.search(r"index=[0-9a-f]{64}[^<]*Permanent", long.text)


def test_api_dates_passages_too(dating_client):
  question = {"q": "五月，葬某公。秋，大雨。"}
  answer = dating_client.post("/api/ask", json=question)
  assert answer.json()["dates"]["month"]["ordinal"] == 4


def test_index_without_passages_says_why(client, monkeypatch):
  for status, values in ((200, {}), (422, {"q": "五月，葬某公。"})):
    page = read(client, "/date", status, **values)
    assert "built with --nopassages" in page
  # It was built for them, but no record is sure.
  monkeypatch.setattr(Manifest, "is_for_passages", True)
  for status, values in ((200, {}), (422, {"q": "五月，葬某公。"})):
    page = read(client, "/date", status, **values)
    assert "No record in this index has a certain date" in page


def test_too_much_is_refused(client):
  response = client.post("/date", data={"q": "葬" * 100_000})
  assert response.status_code == 413
  assert "Too long" in response.text
  text = client.post("/date", data={"q": "x" * 20_001})
  assert text.status_code == 422
  chunks = (b"q=" + b"x" * 1000 for _ in range(400))
  streamed = client.post(
    "/date",
    content=chunks,
    headers={"content-type": "application/x-www-form-urlencoded"},
  )
  assert streamed.status_code == 413
