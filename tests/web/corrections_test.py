"""Corrections on the pages: read, saved once, shown, undone, refused."""

import json
import re
import sqlite3
import sys
from urllib.parse import urlencode

import pytest

from ctd_jax.index import database
from ctd_jax.index.building import sources
from ctd_jax.index.building.sources import DatedWith
from ctd_jax.index.corrections import CorrectionStore
from ctd_jax.web import requests, served_index
from ctd_jax.web.correction_pages import start_redating
from ctd_jax.web.job_files import Redating
from ctd_jax.web.requests import SAFE_METHODS
from tests.index import small_index
from tests.web.conftest import open_client, read_fields, wait_for
from tests.web.pages_test import read

RECORD = "/record/notes/notes-0"
DATE = "魯隱公元年五月"


def look(client, first="notes-0", status=200, **values):
  """Returns the page that reads a date before it is saved."""
  return read(client, "/correct", status, work="notes", first=first, **values)


def open_form(client):
  return read_fields(look(client)) | {"last": "notes-0"}


def save(client, fields=None, **values):
  fields = fields or open_form(client)
  return client.post("/corrections", data=fields | {"date": DATE} | values)


def test_row_leads_to_the_address_that_lasts(client):
  response = client.get("/record/7?lang=en")
  assert response.status_code == 307
  assert response.headers["location"] == f"{RECORD}?lang=en"
  saved = client.get("/save/record/7")
  assert saved.headers["location"] == f"/save{RECORD}"
  page = read(client, RECORD)
  assert 'href="/record/notes/notes-1"' in page
  assert f"{RECORD}?index=" in page
  for path in ("notes/9", "notes"):
    assert f"no record {path}" in read(client, f"/record/{path}", 404)


def test_names_with_slashes_are_quoted():
  path = served_index.make_record_path("a/b c", "1/2?#")
  assert path == "/record/a/b%20c/1%2F2%3F%23"


def test_record_offers_a_form_that_leads_on_but_a_heading_none(client):
  page = read(client, RECORD)
  assert 'action="/correct" method="get"' in page
  assert 'value="notes-0"' in page
  assert '<option value="notes-1">' in page
  assert "<form" not in read(client, "/record/notes/notes-3")
  assert "a heading" in look(client, "notes-3", date=DATE)


def test_date_is_read_before_it_is_saved(client):
  page = look(client, date=DATE)
  assert re.search(r"Understood as\s+<strong lang=\"lzh\">魯隱公元年五月", page)
  assert "722 BCE" in page
  assert "records that get this date: 1." in page
  part = look(client, date="x", part="reading")
  assert "is not a date" in part
  assert "<html" not in part
  assert "莒人使來" in look(client, last="notes-1", date="722 BCE/0-720")
  assert "no record notes/x" in look(client, "x", 404)


def test_correction_is_saved_shown_and_undone(writer):
  response = save(writer, note="<b>見某書</b>\r\n卷一", name="某人")
  assert response.status_code == 303
  assert response.headers["location"] == f"{RECORD}#corrections"
  assert "HttpOnly" in response.headers["set-cookie"]
  page = read(writer, RECORD)
  assert f"Corrected to {DATE}; not dated again yet." in page
  assert "&lt;b&gt;見某書&lt;/b&gt;<br>卷一" in page
  assert "某人" in page
  assert 'value="某人"' in look(writer, "notes-1")
  listed = read(writer, "/corrections")
  assert "Active corrections: 1 of 1" in listed
  assert "the dates shown: 1." in listed
  assert 'action="/corrections/redate"' in listed
  assert "鄭人伐某" in listed
  other = read(writer, "/corrections", work="annals")
  assert "Active corrections: 0 of 0" in other
  fields = read_fields(listed) | {"back": "record"}
  undone = writer.post("/corrections/1/undo", data=fields)
  assert undone.headers["location"] == f"{RECORD}#corrections"
  page = read(writer, RECORD)
  assert "undone by 某人" in page
  assert "not dated again yet" not in page
  assert "Active corrections: 0 of 1" in read(writer, "/corrections")


@pytest.mark.parametrize(
  ("values", "status", "message"),
  [
    ({"date": "寶元元年"}, 422, "寶元"),
    ({"date": "三月甲子"}, 422, "contains a sexagenary day"),
    ({"date": "0975-10"}, 422, "outside the calendar"),
    ({"date": ""}, 422, "empty"),
    ({"last": "notes-9"}, 422, "has no record notes-9"),
    ({"first": "notes-1", "last": "notes-0"}, 422, "comes before"),
    ({"first": "nothing", "last": ""}, 404, "no record notes/nothing"),
    ({"work": "x"}, 404, "no record x/notes-0"),
    ({"name": "x" * 201}, 422, "name: 201 characters"),
    ({"note": "x" * 10_001}, 422, "10,001 characters"),
    ({"date": "\ud800"}, 422, ""),
  ],
)
def test_what_cannot_be_saved_is_said_and_written_again(
  writer, values, status, message
):
  fields = open_form(writer) | {"date": DATE, "note": "kept"} | values
  response = writer.post(
    "/corrections",
    content=urlencode(fields, errors="surrogatepass"),
    headers={"content-type": "application/x-www-form-urlencoded"},
  )
  assert response.status_code == status
  assert message in response.text
  if values.get("date") == "寶元元年":
    assert ">kept</textarea>" in response.text
  assert "Active corrections: 0 of 0" in read(writer, "/corrections")


def test_undoing_what_is_not_there_is_refused(writer):
  fields = open_form(writer)
  for number in ("7", "0", "9" * 30, "x"):
    response = writer.post(f"/corrections/{number}/undo", data=fields)
    assert response.status_code == 404
  save(writer)
  first, second = open_form(writer), open_form(writer)
  assert writer.post("/corrections/1/undo", data=first).status_code == 303
  assert writer.post("/corrections/1/undo", data=first).status_code == 303
  assert writer.post("/corrections/1/undo", data=second).status_code == 409


def list_routes(app, prefix=""):
  """Returns path and method of every route whose path begins so."""
  # FastAPI keeps the routers that are included.
  routers = [getattr(item, "original_router", None) for item in app.routes]
  return [
    (route.path, method)
    for router in filter(None, routers)
    for route in router.routes
    for method in getattr(route, "methods", None) or ()
    if route.path.startswith(prefix)
  ]


def list_changes(app):
  """Returns path and method of every route that may change something."""
  return [
    (path, method)
    for path, method in list_routes(app)
    if method not in SAFE_METHODS and path not in requests.READING_PATHS
  ]


def fill(path):
  return re.sub(r"\{[^}]+\}", "1", path)


def test_no_change_without_a_form_of_this_server(writer):
  changes = list_changes(writer.app)
  assert {("/corrections", "POST"), ("/api/corrections", "POST")} <= {*changes}
  for path, method in changes:
    if not path.startswith("/api/"):
      forged = {"form_token": "0" * 64}
      response = writer.request(method, fill(path), data=forged)
      assert response.status_code == 403, path
      assert "does not come from this server" in response.text


def test_another_site_changes_nothing(writer):
  fields = open_form(writer) | {"date": DATE}
  for headers in (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://localhost:3000"},
    {"origin": "http://localhost:3000"},
    {"origin": "http://evil.example.org"},
    {"origin": "null"},
    {"origin": "http://["},
  ):
    response = writer.post("/corrections", data=fields, headers=headers)
    assert response.status_code == 403, headers
    assert "another site" in response.text
    answer = writer.delete("/api/corrections/1", headers=headers)
    assert answer.status_code == 403
  same = {"sec-fetch-site": "same-origin", "origin": "http://localhost"}
  response = writer.post("/corrections", data=fields, headers=same)
  assert response.status_code == 303


def test_form_outlives_the_server_but_not_the_browser(folder):
  with open_client(folder) as client:
    fields, cookies = open_form(client), dict(client.cookies)
  with open_client(folder) as client:
    assert save(client, fields).status_code == 403
    client.cookies.update(cookies)
    assert save(client, fields).status_code == 303
    client.cookies.set(requests.FORM_COOKIE, "0" * 32)
    assert save(client, fields).status_code == 403
  # A copy of the index does not have it.
  assert not (folder / ".secret").exists()


def test_server_that_is_read_only_has_no_forms_and_refuses(folder):
  with open_client(folder) as client:
    save(client)
  with open_client(folder, read_only=True) as client:
    page = read(client, RECORD)
    assert "Corrected to" in page
    assert 'method="post"' not in page
    assert 'action="/correct"' not in page
    assert 'method="post"' not in read(client, "/corrections")
    assert "read-only" in look(client, status=403)
    for path, method in list_changes(client.app):
      response = client.request(method, fill(path))
      assert response.status_code == 403, path
      assert "read-only" in response.text
    assert client.post("/date", data={"q": "鄭人"}).status_code != 403
    assert "set-cookie" not in client.get(RECORD).headers


def test_folder_that_cannot_be_written_is_said(writer, monkeypatch, caplog):
  def refuse(*_, **__):
    raise PermissionError("/secret/folder: cannot be written")

  monkeypatch.setattr(CorrectionStore, "add", refuse)
  response = save(writer)
  assert response.status_code == 403
  assert "The server cannot write" in response.text
  assert "secret" not in response.text
  assert "/secret/folder" in caplog.text


def test_form_that_is_sent_again_adds_one_and_after_undoing_says_so(writer):
  fields = open_form(writer)
  for _ in range(2):
    assert save(writer, fields).status_code == 303
  assert "Active corrections: 1 of 1." in read(writer, "/corrections")
  writer.post("/corrections/1/undo", data=open_form(writer))
  response = save(writer, fields)
  assert response.status_code == 409
  assert "correction 1, which has since been undone" in response.text
  assert "Active corrections: 0 of 1." in read(writer, "/corrections")
  again = read_fields(response.text)
  assert again[requests.KEY_FIELD] != fields[requests.KEY_FIELD]
  assert save(writer, again | {"last": "notes-0"}).status_code == 303
  assert "Active corrections: 1 of 2" in read(writer, "/corrections")


def test_no_page_that_is_saved_has_a_form_that_changes_something(writer):
  save(writer)
  assert 'method="post"' in read(writer, "/corrections")
  kinds = {path.split("/")[2] for path, _ in list_routes(writer.app, "/save/")}
  pages = ["about", "corrections", "month/4", "year/4", "date", "convert"]
  pages += ["record/notes/notes-0", "?q=鄭人", "compare"]
  assert kinds == {page.split("?")[0].split("/")[0] for page in pages}
  for page in pages:
    response = writer.get(f"/save/{page}")
    assert response.status_code == 200, page
    assert 'method="post"' not in response.text, page
    assert "record" not in page or "<form" not in response.text
    assert "form_token" not in response.text, page
    assert "set-cookie" not in response.headers, page


def test_works_are_dated_again_once_at_a_time(writer):
  jobs = writer.app.state.jobs
  jobs._program = (sys.executable, "-c", "import time; time.sleep(60)")
  save(writer)
  fields = read_fields(read(writer, "/corrections"))
  started = writer.post("/corrections/redate", data=fields)
  assert started.headers["location"] == "/jobs/1"
  wait_for(lambda: jobs.get("1").state == "running")
  started = writer.post("/corrections/redate", data=fields)  # sent twice
  assert started.headers["location"] == "/jobs/1"
  assert jobs.get("1").task == Redating()
  again = start_redating(jobs)  # waits: the first may have read too early
  assert again.id == "2"
  assert start_redating(jobs).id == "2"
  assert "The works are being dated again" in read(writer, "/corrections")


def test_corrections_are_exported(writer):
  save(writer, note="某書")
  page = read(writer, "/corrections")
  assert 'href="/corrections/export/fixed?work=notes"' in page
  for name, suffix in (("csv", "csv"), ("jsonl", "jsonl"), ("tei", "xml")):
    assert f'href="/corrections/export/{name}"' in page
    response = writer.get(f"/corrections/export/{name}?work=notes")
    assert response.headers["x-corrections-left-out"] == "0"
    disposition = response.headers["content-disposition"]
    assert f'"corrections-notes.{suffix}"' in disposition
    assert DATE in response.text
  assert writer.get("/corrections/export/x").status_code == 404


def test_programs_correct_and_undo(writer):
  body = {"work": "notes", "first_record": "notes-0", "date": DATE}
  body["key"] = "program-1"
  added = writer.post("/api/corrections", json=body)
  assert added.status_code == 201
  expected = {"correction_id": 1, "last_record": "notes-0", "state": "pending"}
  assert expected.items() <= added.json().items()
  assert writer.post("/api/corrections", json=body).json() == added.json()
  other = writer.post("/api/corrections", json=body | {"key": "program-2"})
  assert other.status_code == 409
  assert "correction 1" in other.json()["error"]["detail"]
  listed = writer.get("/api/corrections").json()
  assert listed["corrections"] == [added.json()]
  assert (listed["total"], listed["pending"]) == (1, 1)
  assert writer.get("/api/corrections?work=annals").json()["total"] == 0
  assert writer.get("/api/corrections/1").json() == added.json()
  long = writer.delete("/api/corrections/1", params={"name": "x" * 201})
  assert long.status_code == 422
  undone = writer.delete("/api/corrections/1?name=a&key=program-3").json()
  assert (undone["state"], undone["undone_by"]) == ("undone", "a")
  again = writer.delete("/api/corrections/1?name=a&key=program-3")
  assert again.json() == undone
  assert writer.delete("/api/corrections/1").status_code == 409


def test_correction_of_a_work_that_was_removed_is_left_out(writer, folder):
  save(writer)
  with sqlite3.connect(folder / database.DATABASE_FILE) as connection:
    connection.execute("DELETE FROM records WHERE work_id = 2")
    connection.execute("DELETE FROM works WHERE work_id = 2")
  small_index.write_manifest(folder)
  with open_client(folder) as client:
    correction = client.get("/api/corrections/1").json()
    assert correction["state"] == "left_out"
    assert correction["problem"] == "the index has no such work"
    assert '"left_out"' in client.get("/corrections/export/jsonl").text
    assert "the index has no such work" in read(client, "/corrections")


def list_choices(page):
  return re.findall(r'type="radio" name="reading" value="([^"]+)"', page)


def test_date_of_several_reigns_is_chosen_from_a_list(writer):
  page = look(writer, date="元年")
  assert "can mean 12 dates" in page
  choices = list_choices(page)
  assert choices[:2] == ["魯隱公元年", "魯桓公元年"]
  assert "722 BCE" in page
  assert "name a reign" not in page
  chosen = {"date": "元年", "reading": "魯桓公元年", "reading_of": "元年"}
  looked_at = look(writer, **chosen)
  assert 'name="date" lang="lzh" value="魯桓公元年"' in looked_at
  assert not list_choices(looked_at)
  assert save(writer, **chosen).status_code == 303
  assert writer.get("/api/corrections/1").json()["date"] == "魯桓公元年"


def test_choices_are_shown_again_and_give_way_to_another_date(writer):
  response = save(writer, date="元年五月/魯桓公元年")
  assert response.status_code == 422
  assert "Choose below" in response.text
  assert list_choices(response.text)[0] == "魯隱公元年五月/魯桓公元年"
  old = {"reading": "魯桓公元年", "reading_of": "元年"}
  assert save(writer, date="魯隱公元年三月", **old).status_code == 303
  assert writer.get("/api/corrections/1").json()["date"] == "魯隱公元年三月"


def test_programs_read_a_date(client):
  parameters = {"work": "notes", "first_record": "notes-0"}
  parameters |= {"last_record": "notes-1", "date": f"{DATE}/魯隱公元年六月"}
  read_date = client.get("/api/corrections/check", params=parameters).json()
  assert read_date["months"] == [4, 5]
  assert read_date["names"] == [f"{DATE} – 魯隱公元年六月"]
  assert read_date["records"] == 2
  bad = client.get("/api/corrections/check", params=parameters | {"date": "x"})
  assert bad.status_code == 422
  assert "not a date" in bad.json()["error"]["detail"]


def test_programs_are_told_what_is_wrong(writer):
  whole = {"work": "notes", "first_record": "notes-0", "date": DATE}
  for body in (
    {},
    whole | {"first_record": "notes-9"},
    whole | {"work": "x"},
    whole | {"date": "寶元元年"},
    whole | {"key": "short"},
    whole | {"unknown": 1},
    whole | {"note": "x" * 10_001},
  ):
    response = writer.post("/api/corrections", json=body)
    assert response.status_code == 422, body
    assert response.json()["error"]["detail"]
  for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
    response = writer.post(
      "/api/corrections",
      content=json.dumps(whole),
      headers={"content-type": kind},
    )
    assert response.status_code == 422, kind
  assert writer.get("/api/corrections").json()["total"] == 0


def test_marks_stand_beside_the_records_of_other_pages(writer):
  for path in ("/?q=鄭人", "/month/20", "/year/20", "/record/notes/notes-1"):
    assert "corrected to" not in read(writer, path), path
  save(writer)
  for path in ("/?q=鄭人", "/month/20", "/year/20", "/record/notes/notes-1"):
    page = read(writer, path)
    (mark,) = re.findall(r'<a class="state mark pending" href="([^"]+)"', page)
    assert mark.startswith(RECORD), path
    assert mark.endswith("#corrections"), path
    assert f"corrected to {DATE}, not dated again yet" in page
  writer.post("/corrections/1/undo", data=open_form(writer))
  assert "corrected to" not in read(writer, "/?q=鄭人")


@pytest.mark.parametrize(
  ("state", "text"),
  [
    (DatedWith(corrections=(1,)), f"set by a reader: {DATE}"),
    (DatedWith(left_out={1: "gone"}), f"correction to {DATE} not used"),
  ],
)
def test_marks_of_corrections_that_count_or_are_left_out(
  writer, monkeypatch, state, text
):
  save(writer)
  monkeypatch.setattr(sources, "read_dated_with", lambda *_: state)
  assert text in read(writer, "/month/20")
