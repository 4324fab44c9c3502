"""Jobs: one at a time, seen by the next server, cancelled, started again."""

import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib

import pytest

from ctd_jax.utils import output
from ctd_jax.web import build_jobs, job_files
from ctd_jax.web.build_jobs import JobRunner
from ctd_jax.web.job_files import UploadBuild
from ctd_jax.web.settings import WebSettings
from tests.web import conftest
from tests.web.conftest import open_client, read_fields
from tests.web.pages_test import read

# Stands for the program that builds an index; the uploaded text is its script.
PROGRAM = (
  *(sys.executable, "-c"),
  "import sys; exec(open(sys.argv[2].removeprefix('--add=')).read())",
)
WAITS = "print('begun', flush=True); import time; time.sleep(60)"


@pytest.fixture
def make_runner(tmp_path):
  """Yields what makes a runner of a folder, and ends all of its jobs."""
  runners = []

  def make(**settings):
    runner = JobRunner(tmp_path, WebSettings(index=tmp_path, **settings))
    runner._program = PROGRAM
    runners.append(runner)
    return runner

  yield make
  for runner in runners:
    for job in runner.list():
      runner.cancel(job.id)
    runner.close()


def start(runner, title, script, subject="", key=""):
  """Starts a job that runs a script."""
  folder = runner._index_folder / "uploads"
  folder.mkdir(exist_ok=True)
  source = f"{zlib.crc32(script.encode())}.txt"
  (folder / source).write_text(script)
  return runner.start(title, UploadBuild(source=source), subject, key)


def wait_for(runner, job_id, state):
  conftest.wait_for(lambda: runner.get(job_id).state == state)
  return runner.get(job_id)


def wait_for_line(runner, job_id, line):
  conftest.wait_for(lambda: line in runner.get(job_id).lines)


def test_job_runs_with_the_folder_and_its_arguments(make_runner, tmp_path):
  runner = make_runner()
  job = start(runner, "redate", "print(sys.argv[1])", "corrections")
  done = wait_for(runner, job.id, "done")
  # Its folder is not told to those who read from elsewhere.
  assert done.lines == (f"--index={tmp_path.name}",)
  assert (done.title, done.subject) == ("redate", "corrections")
  assert done.created <= done.started <= done.ended
  assert done.error == ""
  assert runner.list("corrections") == [done]
  assert runner.list("other") == []
  assert runner.get("99") is runner.get("../1") is None
  for path in (tmp_path / "jobs", *(tmp_path / "jobs").iterdir()):
    assert not path.stat().st_mode & 0o077, path


@pytest.mark.parametrize("is_one_of_several", [True, False])
def test_job_that_goes_on_is_told_by_the_first_process_alone(
  folder, monkeypatch, caplog, is_one_of_several
):
  runner = JobRunner(folder, WebSettings(index=folder))
  runner._program = PROGRAM
  if is_one_of_several:
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "the first")
  job = start(runner, "redate", WAITS, "corrections")
  wait_for(runner, job.id, "running")
  with open_client(folder):
    pass
  assert ("continues without" in caplog.text) is not is_one_of_several
  runner.cancel(job.id)


def test_job_that_fails_has_the_error_of_its_program(make_runner):
  runner = make_runner()
  job = start(runner, "x", "print('a'); sys.exit('error: x.txt: bad')")
  failed = wait_for(runner, job.id, "failed")
  assert failed.error == "x.txt: bad"
  killed = start(runner, "x", "import os; os.kill(os.getpid(), 9)")
  assert "SIGKILL" in str(wait_for(runner, killed.id, "failed").error)
  broken = start(runner, "x", "print('a', flush=True); {}['b']")
  failed = wait_for(runner, broken.id, "failed")
  assert failed.lines == ("a", "KeyError: 'b'")  # without the traceback
  assert failed.error == "KeyError: 'b'"


def test_jobs_run_one_after_the_other_with_lower_priority(make_runner):
  runner = make_runner()
  first = start(runner, "1", WAITS)
  second = start(runner, "2", "import os; print(os.nice(0))")
  assert [job.id for job in runner.list()] == [second.id, first.id]
  wait_for_line(runner, first.id, "begun")
  third = start(runner, "3", WAITS)
  time.sleep(0.5)
  assert runner.get(second.id).state == "waiting"
  assert runner.cancel(third.id).state == "cancelled"
  assert runner.cancel("99") is None
  assert runner.cancel(first.id).state == "cancelled"
  done = wait_for(runner, second.id, "done")
  assert int(done.lines[0]) > os.nice(0)
  time.sleep(0.5)
  assert runner.get(third.id).started == ""


def test_form_that_is_sent_twice_starts_one_job(make_runner):
  runner = make_runner()
  first = start(runner, "1", "print('a')", key="a")
  wait_for(runner, first.id, "done")
  assert start(make_runner(), "1", "print('a')", key="a").id == first.id
  assert runner.restart(first.id, "b").id == "2"
  assert runner.restart(first.id, "b").id == "2"
  assert start(runner, "1", "print('a')").id == "3"
  assert start(runner, "1", "print('a')").id == "4"


def test_program_that_ignores_the_signal_is_ended(make_runner):
  runner = make_runner()
  deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
  job = start(runner, "1", deaf + WAITS)
  wait_for_line(runner, job.id, "begun")
  assert runner.cancel(job.id).state == "cancelled"


def test_job_of_a_killed_server_is_found_again(make_runner, tmp_path):
  script = (
    "import pathlib, sys, time\n"
    "from ctd_jax.web.build_jobs import JobRunner\n"
    "from ctd_jax.web.settings import WebSettings\n"
    "folder = pathlib.Path(sys.argv[1])\n"
    "runner = JobRunner(folder, WebSettings(index=folder))\n"
    f"runner._program = {PROGRAM!r}\n"
    "from tests.web.jobs_test import start\n"
    "start(runner, '1', sys.argv[2])\n"
    "start(runner, '2', \"print('second')\")\n"
    "print('started', flush=True)\n"
    "time.sleep(60)\n"
  )
  gate = tmp_path / "gate"
  waits = (
    "import pathlib, time\n"
    f"while not pathlib.Path({str(gate)!r}).exists(): time.sleep(.02)\n"
    "print('first')\n"
  )
  server = subprocess.Popen(
    [sys.executable, "-c", script, str(tmp_path), waits], stdout=subprocess.PIPE
  )
  assert server.stdout.readline() == b"started\n"
  server.send_signal(signal.SIGKILL)
  server.wait()
  runner = make_runner()
  assert [job.state for job in runner.list()] == ["waiting", "running"]
  gate.touch()
  assert wait_for(runner, "1", "done").lines == ("first",)
  assert wait_for(runner, "2", "done").lines == ("second",)


def test_job_whose_processes_are_gone_is_broken_off_and_starts_again(
  make_runner,
):
  runner = make_runner()
  job = start(runner, "redate", WAITS, "corrections")
  wait_for_line(runner, job.id, "begun")
  pid = job_files.read_job(runner._folder, job.id).pid
  os.killpg(pid, signal.SIGKILL)
  assert wait_for(runner, job.id, "broken_off").is_active is False
  again = runner.restart(job.id)
  assert again.id != job.id
  assert (again.title, again.subject) == ("redate", "corrections")
  wait_for_line(runner, again.id, "begun")
  assert runner.restart("99") is None


def test_orderly_end_of_the_server_breaks_its_job_off(make_runner):
  runner = make_runner()
  job = start(runner, "1", WAITS)
  wait_for_line(runner, job.id, "begun")
  runner.close()
  stored = job_files.read_job(runner._folder, job.id)
  assert stored.state == "broken_off"
  assert not job_files.is_locked(runner._folder, job.id)


def test_server_that_is_read_only_starts_nothing(make_runner):
  runner = make_runner(read_only=True)
  with pytest.raises(ValueError, match="read-only"):
    start(runner, "1", WAITS)
  assert runner.list() == []


DAMAGED = ("", "{", "{}", "null", "[]", b"\xff", '"x"', "[" * 100_000)


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_file_of_a_job_is_passed_over(make_runner, tmp_path, content):
  runner = make_runner()
  whole = start(runner, "1", "print('a')")
  whole = wait_for(runner, whole.id, "done")
  content = content if isinstance(content, bytes) else content.encode()
  (tmp_path / "jobs" / "2.json").write_bytes(content)
  again = make_runner()
  assert again.list() == [whole]
  for use in (again.get, again.cancel, again.restart):
    assert use("2") is None
  third = start(again, "3", "print('b')")
  assert wait_for(again, third.id, "done").id == "3"
  assert (tmp_path / "jobs" / "2.json").read_bytes() == content


def test_file_of_a_job_may_have_more_members_but_not_other_values(
  make_runner, tmp_path
):
  runner = make_runner()
  start(runner, "1", "print('a')")
  wait_for(runner, "1", "done")
  path = tmp_path / "jobs" / "1.json"
  values = json.loads(path.read_text())
  path.write_text(json.dumps(values | {"of a later version": 1}))
  assert runner.get("1").state == "done"
  for change in ({"state": "x"}, {"job_id": "2"}, {"task": "x"}):
    path.write_text(json.dumps(values | change))
    assert runner.list() == []


def test_job_that_runs_and_whose_file_is_damaged_is_not_overtaken(
  make_runner, tmp_path
):
  runner = make_runner()
  # It cannot be cancelled while its file is damaged: the fixture waits for it.
  first = start(runner, "1", WAITS.replace("60", "2"))
  wait_for_line(runner, first.id, "begun")
  path = tmp_path / "jobs" / f"{first.id}.json"
  content = path.read_text()
  path.write_text("")
  second = start(runner, "2", "print('b')")
  time.sleep(0.5)
  assert runner.get(second.id).state == "waiting"
  path.write_text(content)


def write_foreign_job(folder, **changes):
  """Writes a job as a stranger may, and returns its file."""
  values = {
    "job_id": "1",
    "title": "redate",
    "subject": "redate",
    "task": {"type": "redate"},
    "command": ["touch", str(folder / "canary")],
    "state": "waiting",
    "created": "2026-01-01T00:00:00+00:00",
  }
  path = folder / "jobs" / "1.json"
  path.parent.mkdir(exist_ok=True)
  path.write_text(json.dumps(values | changes))
  return path


def test_job_of_a_stranger_is_shown_and_starts_only_by_hand(
  make_runner, tmp_path
):
  write_foreign_job(tmp_path)
  runner = make_runner()
  own = start(runner, "2", "print('own')")
  wait_for(runner, own.id, "done")
  assert runner.get("1").state == "foreign"
  assert not runner.get("1").is_active
  assert runner.cancel("1").state == "foreign"
  runner._program = (sys.executable, "-c", "import sys; print(sys.argv[2:])")
  again = runner.restart("1")
  assert wait_for(runner, again.id, "done").lines == (
    "['--redate', '--changes=jobs/3.changes.json']",
  )
  assert runner.get("1").state == "foreign"
  assert not (tmp_path / "canary").exists()


def test_job_that_moved_with_its_index_waits_for_a_person(
  make_runner, tmp_path
):
  runner = make_runner()
  first = start(runner, "1", WAITS)
  wait_for_line(runner, first.id, "begun")
  start(runner, "2", WAITS)
  copy = shutil.copytree(tmp_path, tmp_path / "copy")
  states = [
    job.state for job in JobRunner(copy, WebSettings(index=copy)).list()
  ]
  assert states == ["foreign", "foreign"]


def test_numbers_of_a_stranger_stop_nothing(make_runner, tmp_path):
  for job_id, changes in (
    ("1", {"state": "failed", "status": -9999}),
    ("2", {"state": "failed", "status": 1 << 70}),
    ("999999999", {"state": "done", "status": 0}),
  ):
    path = write_foreign_job(tmp_path, job_id=job_id, **changes)
    path.rename(path.with_name(f"{job_id}.json"))
  runner = make_runner()
  assert {job.state for job in runner.list()} <= {"failed", "done"}
  assert wait_for(runner, start(runner, "own", "print(1)").id, "done")


def test_process_named_by_a_stranger_gets_no_signal(make_runner, tmp_path):
  victim = subprocess.Popen(("sleep", "60"), start_new_session=True)
  try:
    write_foreign_job(tmp_path, state="running", pid=victim.pid)
    with (tmp_path / "jobs" / "1.lock").open("wb") as lock:
      fcntl.flock(lock, fcntl.LOCK_EX)
      runner = make_runner()
      with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_jobs, "_SECONDS_TO_START", 0.1)
        patch.setattr(build_jobs, "_SECONDS_TO_END", 0.1)
        runner.cancel("1")
    assert victim.poll() is None
  finally:
    victim.kill()
    victim.wait()


@pytest.mark.parametrize(
  "task",
  [
    {"type": "shell", "command": "true"},
    {"type": "upload", "source": "../../etc/passwd"},
    {"type": "upload", "source": "/etc/passwd"},
    {"type": "upload", "source": "a.txt,/etc/passwd"},
    {"type": "upload", "source": "*"},
    {"type": "upload", "source": "link"},
    {"type": "upload", "source": "a.txt", "reigns": "/etc/passwd"},
    {"type": "upload", "source": "a.txt", "unit": "line --runner=x"},
    {"type": "upload", "source": "a.txt", "order": ["a\n--runner=x"]},
  ],
)
def test_task_that_leads_out_of_the_uploads_is_refused(
  make_runner, tmp_path, task
):
  runner = make_runner()
  uploads = tmp_path / "uploads"
  uploads.mkdir()
  (uploads / "a.txt").touch()
  (uploads / "link").symlink_to("/etc")
  write_foreign_job(tmp_path, task=task)
  if runner.get("1") is not None:  # or its file cannot be read
    with pytest.raises(ValueError, match="leads out|upload|calendar|work|link"):
      runner.restart("1")
  assert runner.get("2") is None


def test_names_are_never_taken_for_flags(tmp_path):
  (tmp_path / "uploads" / "--a").mkdir(parents=True)
  task = UploadBuild(source="--a", order=("--runner=x", "a,b"), is_beir=True)
  assert task.list_arguments(tmp_path) == [
    f"--add=beir:{tmp_path}/uploads/--a",
    '--order=--runner=x,"a,b"',
  ]


def test_server_needs_a_place_for_its_secret(tmp_path, monkeypatch):
  (tmp_path / "file").touch()
  monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
  with pytest.raises(ValueError, match="file.*XDG_STATE_HOME.*--read_only"):
    JobRunner(tmp_path, WebSettings(index=tmp_path))
  JobRunner(tmp_path, WebSettings(index=tmp_path, read_only=True))


@pytest.mark.parametrize("name", ["corrections.sqlite", "corrections.jsonl"])
def test_damaged_corrections_are_named_before_an_index_is_served(
  tmp_path, name
):
  (tmp_path / name).write_text("[")
  with pytest.raises(ValueError, match="corrections.*--repair"):
    JobRunner(tmp_path, WebSettings(index=tmp_path, read_only=True))


@pytest.mark.parametrize("content", [None, b"short"])
def test_server_without_home_is_told(tmp_path, monkeypatch, content):
  write_foreign_job(tmp_path)
  if content is None:
    monkeypatch.delenv("XDG_STATE_HOME")
    # As for a user of a container that is in no /etc/passwd.
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
  else:
    path = tmp_path / "state" / "ctd_jax" / "installation"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
  with pytest.raises(ValueError, match="home folder|too short"):
    JobRunner(tmp_path, WebSettings(index=tmp_path))
  runner = JobRunner(tmp_path, WebSettings(index=tmp_path, read_only=True))
  assert runner.get("1").state == "foreign"


@pytest.mark.parametrize(
  "name", ["jobs", "uploads", "jobs/1.log/", "jobs/lock/"]
)
def test_kinds_of_files_are_looked_at_before_an_index_is_served(tmp_path, name):
  path = tmp_path / name
  if name.endswith("/"):
    path.mkdir(parents=True)
  else:
    path.touch()
  with pytest.raises(ValueError, match=f"{path}: expected a f"):
    JobRunner(tmp_path, WebSettings(index=tmp_path))


def test_index_of_another_user_is_served_read_only(tmp_path, monkeypatch):
  """A server keeps jobs and uploads private; others may still read."""
  for name in ("jobs", "uploads"):
    (tmp_path / name).mkdir(mode=0)
  scan, access = os.scandir, os.access

  def refuse(path):
    if str(path).endswith(("jobs", "uploads")):
      raise PermissionError(path)
    return scan(path)

  def deny(path, mode, **options):
    return mode & os.stat(path).st_mode >> 6 == mode and access(path, mode)

  monkeypatch.setattr(os, "scandir", refuse)
  monkeypatch.setattr(os, "access", deny)
  with pytest.raises(ValueError, match="jobs: cannot be written.*--read_only"):
    JobRunner(tmp_path, WebSettings(index=tmp_path))
  read_only = WebSettings(index=tmp_path, read_only=True)
  JobRunner(tmp_path, read_only)
  # What cannot be listed but opened may hold links.
  (tmp_path / "jobs").chmod(0o100)
  with pytest.raises(ValueError, match="jobs: cannot be listed"):
    JobRunner(tmp_path, read_only)
  (tmp_path / "jobs").chmod(0)
  (tmp_path / "corrections.sqlite").touch(mode=0)
  with pytest.raises(ValueError, match="only its owner"):
    JobRunner(tmp_path, read_only)


def test_links_in_a_folder_are_refused_before_it_is_served(tmp_path):
  (tmp_path / "jobs").mkdir()
  (tmp_path / "jobs" / "1.log").symlink_to("/etc/passwd")
  with pytest.raises(ValueError, match="1.log is a link"):
    JobRunner(tmp_path, WebSettings(index=tmp_path, read_only=True))


def test_progress_is_read_as_it_is_written(monkeypatch, tmp_path):
  shown = []
  monkeypatch.setattr(
    output.logging, "info", lambda text, line: shown.append(line)
  )
  monkeypatch.setattr(output, "SECONDS_PER_LINE", 0.0)
  path = tmp_path / "1.log"
  with output.Progress(
    total=1560, desc="full text", unit="record", file=path.open("w")
  ) as bar:
    bar.update(480)
    bar.refresh()
  line = next(line for line in shown if "480" in line)
  path.write_text(f"I1123 16:35:20.123456 140 progress.py:90] {line}\n")
  (logged,) = job_files.read_last_lines(path)
  assert logged == line
  found = job_files.find_progress((logged,))
  assert (found.step, found.done, found.total) == ("full text", 480, 1560)
  assert found.unit == "records"
  assert found.rate > 0
  assert found.left
  assert job_files.find_progress(("dated: 3 works",)) is None
  assert job_files.find_progress((logged, "another line")) is None
  assert job_files.find_progress(("train: 5 of 5 steps (100%)",)) is None


def test_long_log_is_read_from_its_end(tmp_path):
  path = tmp_path / "1.log"
  path.write_bytes(b"x" * 70_000 + b"\n\xff last\n\n")
  assert job_files.read_last_lines(path) == ("\ufffd last",)
  assert job_files.read_last_lines(tmp_path / "2.log") == ()


@pytest.fixture
def client(writer):
  """Returns a client of a server whose jobs run a script."""
  writer.app.state.jobs._program = PROGRAM
  return writer


def test_pages_show_a_job_cancel_it_and_start_it_again(client):
  jobs = client.app.state.jobs
  job = start(jobs, "redate", WAITS, "redate")
  wait_for_line(jobs, job.id, "begun")
  page = read(client, "/jobs/1")
  assert "<h1>Date the corrected works again</h1>" in page
  assert '<noscript><meta http-equiv="refresh"' in page
  assert 'aria-live="polite"' in page
  assert "begun" in page
  part = read(client, "/jobs/1", part="state")
  assert "<html" not in part
  assert 'class="state running"' in part
  assert 'href="/jobs/1"' in read(client, "/jobs")
  response = client.post("/jobs/1/cancel", data=read_fields(page))
  assert response.headers["location"] == "/jobs/1"
  page = read(client, "/jobs/1")
  assert "cancelled" in page
  assert "refresh" not in page
  again = client.post("/jobs/1/restart", data=read_fields(page))
  assert again.headers["location"] == "/jobs/2"
  assert jobs.cancel("2").state == "cancelled"
  assert "There is no job 9" in read(client, "/jobs/9", 404)


def test_programs_read_jobs(client):
  jobs = client.app.state.jobs
  start(jobs, "<b>", "print('<i>'); sys.exit('error: a & b')")
  wait_for(jobs, "1", "failed")
  listed = client.get("/api/jobs").json()["jobs"]
  assert listed == [client.get("/api/jobs/1").json()]
  assert listed[0]["error"] == "a & b"
  assert "task" not in listed[0]
  assert client.get("/api/jobs/x").status_code == 404
  page = read(client, "/jobs/1")
  assert "&lt;b&gt;" in page
  assert "a &amp; b" in page
  assert "<b>" not in page
