"""Builds of uploads: what a reader can do after they have ended."""

import sys

import pytest

from ctd_jax.index.building import sources
from ctd_jax.index.building.sources import DatedWith
from tests.web.conftest import read_fields, send_files, wait_for

TEXT = "隱公\n元年，春，王正月。\n三月，公及邾儀父盟于蔑。\n"
ADDRESS = "/upload/a"


@pytest.fixture
def client(tmp_path, writer):
  """Returns a client whose jobs do what the file `job` says."""
  script = f"exec(open({str(tmp_path / 'job')!r}).read())"
  writer.app.state.jobs._program = (sys.executable, "-c", script)
  bring(writer)
  return writer


def bring(client):
  """Brings a text and waits for its preview."""
  response = send_files(client, ("a.txt", TEXT.encode()))
  assert response.headers["location"] == ADDRESS
  wait_for(lambda: "form class" in client.get(ADDRESS).text)


def send(client, action):
  fields = read_fields(client.get(ADDRESS).text)
  if not fields:  # a text that is built has no buttons
    fields = read_fields(client.get("/upload").text)
  return client.post(ADDRESS, data=fields | {"action": action})


def build(client, tmp_path, script):
  """Builds the text by a job that does what a script says."""
  (tmp_path / "job").write_text(script)
  response = send(client, "build")
  assert response.status_code == 303, response.text
  return response.headers["location"].rpartition("/")[2]


def wait_for_end(client, job_id):
  jobs = client.app.state.jobs
  return wait_for(lambda: not jobs.get(job_id).is_active and jobs.get(job_id))


@pytest.mark.slow
def test_upload_whose_build_failed_is_a_preview_and_can_be_discarded(
  client, tmp_path
):
  job_id = build(client, tmp_path, "import sys; sys.exit('error: bad')")
  assert wait_for_end(client, job_id).state == "failed"
  page = client.get(ADDRESS).text
  assert 'value="build"' in page
  assert 'value="discard"' in page
  uploads = client.app.state.uploads
  assert uploads.get("a").state == "preview"
  uploads.change(uploads.get("a"), created="2020-01-01T00:00:00+00:00")
  uploads.remove_leftovers()  # it waits for its reader
  assert send(client, "discard").headers["location"] == "/upload"
  assert uploads.get("a") is None
  bring(client)  # another one of the name has not failed
  assert client.get(ADDRESS).status_code == 200
  assert uploads.get("a").state == "preview"


@pytest.mark.slow
def test_upload_whose_build_runs_is_not_discarded_but_once_it_is_cancelled(
  client, tmp_path
):
  job_id = build(client, tmp_path, "import time; time.sleep(60)")
  response = send(client, "discard")
  assert response.status_code == 409
  assert "A job is working" in response.text
  client.app.state.jobs.cancel(job_id)
  assert send(client, "discard").status_code == 303


def test_form_of_a_build_that_comes_to_two_processes_starts_one_job(
  client, tmp_path
):
  (tmp_path / "job").write_text("import time; time.sleep(60)")
  fields = read_fields(client.get(ADDRESS).text) | {"action": "build"}
  first = client.post(ADDRESS, data=fields)
  uploads = client.app.state.uploads
  uploads.change(uploads.get("a"), job_key="")  # as the other one has read it
  second = client.post(ADDRESS, data=fields)
  assert first.headers["location"] == second.headers["location"]
  assert len(client.app.state.jobs.list()) == 1


def test_upload_knows_a_build_that_was_started_again(client, tmp_path):
  first = build(client, tmp_path, "import sys; sys.exit(1)")
  wait_for_end(client, first)
  assert "failed" in client.get(ADDRESS).text
  (tmp_path / "job").write_text("print('built')")
  fields = read_fields(client.get(f"/jobs/{first}").text)
  client.post(f"/jobs/{first}/restart", data=fields)
  assert wait_for_end(client, "2").state == "done"
  page = client.get(ADDRESS).text
  assert 'href="/jobs/2"' in page
  assert 'value="build"' not in page
  assert client.app.state.uploads.get("a").state == "accepted"
  response = send(client, "discard")
  assert response.status_code == 409
  assert "is part of the index" in response.text


def test_upload_that_the_index_has_is_kept_whatever_its_job_says(
  client, tmp_path, monkeypatch
):
  job_id = build(client, tmp_path, "import sys; sys.exit(1)")
  wait_for_end(client, job_id)
  uploads = client.app.state.uploads
  source = uploads.source_of(uploads.get("a"))
  state = DatedWith(source=sources.make_request(tmp_path / "index", source))
  monkeypatch.setattr(sources, "read_dated_with", lambda _: state)
  assert send(client, "discard").status_code == 409
  assert uploads.get("a").state == "accepted"
