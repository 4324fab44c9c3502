"""Corrections by several clients of a server that is killed at random moments.

Each client corrects records of its own, every other one by the form of the page
and every other by the API. What gets no answer is sent again with the same key,
as a reader or a program would. The server is killed with SIGKILL and started
anew. After each kill and at the end, every correction that was confirmed has to
be in the store, once, as it was sent; the status is 1 if one is not.

  python tests/benchmarks/correction_durability.py --index=mini.index

The index is copied before; it needs as many records as there are corrections.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import json
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import urlencode

from ctd_jax.index.search import Index
from ctd_jax.index.storage.corrections import Correction, CorrectionStore

_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')
_SECONDS_TO_ANSWER = 60
_SECONDS_TO_START = 120


class Server:
  """A server of an index that is killed and started anew."""

  def __init__(self, folder: pathlib.Path):
    """Starts it."""
    with socket.socket() as probe:
      probe.bind(("127.0.0.1", 0))
      self.port = probe.getsockname()[1]
    self._folder = folder
    self.start()

  def start(self) -> None:
    """Starts the process and waits for its first answer."""
    self.process = subprocess.Popen(
      [
        *(sys.executable, "-m", "ctd_jax.serve"),
        *(f"--index={self._folder}", f"--port={self.port}"),
      ],
      stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline:
      try:
        if self.ask("GET", "/api/corrections").status == 200:
          return
      except OSError:
        time.sleep(0.05)
    raise TimeoutError("the server does not start")

  def kill(self) -> None:
    """Ends the process as a loss of power would."""
    self.process.send_signal(signal.SIGKILL)
    self.process.wait()

  def ask(
    self,
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
  ) -> http.client.HTTPResponse:
    """Returns an answer, whole; OSError or HTTPException if there is none."""
    connection = http.client.HTTPConnection(
      "127.0.0.1", self.port, timeout=_SECONDS_TO_ANSWER
    )
    try:
      connection.request(method, path, body, headers or {})
      response = connection.getresponse()
      response.content = response.read().decode()
      return response
    finally:
      connection.close()


class Client(threading.Thread):
  """Corrects records one after the other."""

  def __init__(
    self,
    server: Server,
    records: list[tuple[str, str]],
    dates: list[str],
    seed: int,
  ):
    """Takes (work, id) of its records and the dates that it gives them."""
    super().__init__(daemon=True)
    self._server = server
    self._records = records
    self._random = random.Random(seed)
    self._dates = dates
    self.confirmed: dict[tuple[str, str], str] = {}
    self.num_sent = 0
    self.refused: list[str] = []

  def run(self) -> None:
    """Corrects all records."""
    for number, record in enumerate(self._records):
      date = self._random.choice(self._dates)
      send = self._send_form if number % 2 else self._send_object
      send(*record, date)

  def _send_object(self, work: str, record_id: str, date: str) -> None:
    body = {
      "work": work,
      "first_record": record_id,
      "date": date,
      "name": self.name,
      "key": f"{self._random.getrandbits(128):032x}",
    }
    self._confirm(
      (work, record_id),
      date,
      201,
      "/api/corrections",
      json.dumps(body),
      {"Content-Type": "application/json"},
    )

  def _send_form(self, work: str, record_id: str, date: str) -> None:
    query = urlencode({"work": work, "first": record_id})
    page = self._ask("GET", f"/correct?{query}")
    fields = dict(_HIDDEN.findall(page.content))
    cookie = (page.getheader("Set-Cookie") or "").partition(";")[0]
    self._confirm(
      (work, record_id),
      date,
      303,
      "/corrections",
      urlencode(fields | {"date": date, "name": self.name}),
      {
        "Content-Type": "application/x-www-form-urlencoded",
        "Cookie": cookie,
      },
    )

  def _confirm(
    self,
    record: tuple[str, str],
    date: str,
    status: int,
    path: str,
    body: str,
    headers: dict[str, str],
  ) -> None:
    response = self._ask("POST", path, body, headers)
    if response.status == status:
      self.confirmed[record] = date
    else:
      self.refused.append(f"{response.status}: {response.content[:300]}")

  def _ask(
    self,
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
  ) -> http.client.HTTPResponse:
    """Returns an answer; asks again until there is one."""
    while True:
      self.num_sent += 1
      try:
        return self._server.ask(method, path, body, headers)
      except (OSError, http.client.HTTPException):
        time.sleep(0.02)


def find_losses(
  store: CorrectionStore, clients: list[Client]
) -> tuple[list[str], int]:
  """Returns what is lost or doubled, and how many corrections there are.

  Args:
    store: of the index, read from the disk.
    clients: what they have had confirmed has to be in it.
  """
  # Before the store is read: clients go on.
  confirmed = [
    item for client in clients for item in [*client.confirmed.items()]
  ]
  stored: dict[tuple[str, str], list[Correction]] = collections.defaultdict(
    list
  )
  for correction in store.history():
    stored[correction.work, correction.first_record].append(correction)
  problems = [
    f"lost: {record} {date}"
    for record, date in confirmed
    if date not in [it.date for it in stored[record]]
  ]
  problems += [
    f"doubled: {record}" for record, those in stored.items() if len(those) > 1
  ]
  return problems, sum(map(len, stored.values()))


def main() -> int:
  """Runs clients and kills, prints what came of it, returns the status."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--index", type=pathlib.Path, required=True)
  parser.add_argument("--corrections", type=int, default=1000)
  parser.add_argument("--clients", type=int, default=4)
  parser.add_argument("--kills", type=int, default=10)
  parser.add_argument("--seed", type=int, default=1)
  values = parser.parse_args()
  with tempfile.TemporaryDirectory() as parent:
    folder = shutil.copytree(values.index, pathlib.Path(parent) / "index")
    return run(folder, values)


def run(folder: pathlib.Path, values: argparse.Namespace) -> int:
  """Corrects the records of an index; see `main`.

  Args:
    folder: of an index that is thrown away.
    values: of the flags.
  """
  chosen = random.Random(values.seed)
  index = Index.open(folder)
  records, dates = list_records(index, values.corrections)
  chosen.shuffle(records)
  began = time.monotonic()
  server = Server(folder)
  clients = [
    Client(server, records[number :: values.clients], dates, number)
    for number in range(values.clients)
  ]
  for client in clients:
    client.start()
  problems: list[str] = []
  for number in range(values.kills):
    share = (number + chosen.random()) / values.kills
    while sum(len(client.confirmed) for client in clients) < share * len(
      records
    ) and any(client.is_alive() for client in clients):
      time.sleep(0.001)
    time.sleep(0.02 * chosen.random())
    server.kill()
    lost, num_stored = find_losses(CorrectionStore(folder), clients)
    problems += lost
    print(f"kill {number + 1}: {num_stored} stored, {len(lost)} problems")
    server.start()
  for client in clients:
    client.join()
  server.kill()
  store = CorrectionStore(folder)
  lost, num_stored = find_losses(store, clients)
  problems += [*lost, *store.check()]
  problems += [text for client in clients for text in client.refused]
  num_confirmed = sum(len(client.confirmed) for client in clients)
  print(
    f"{num_confirmed} of {len(records)} confirmed, {num_stored} stored, "
    f"{sum(client.num_sent for client in clients)} requests, {values.kills} "
    f"kills, {time.monotonic() - began:.0f} s; {len(problems)} problems"
  )
  print("\n".join(problems[:20]))
  return int(bool(problems) or not num_confirmed == num_stored == len(records))


def list_records(
  index: Index, number: int
) -> tuple[list[tuple[str, str]], list[str]]:
  """Returns (work, id) of records, and dates to give them.

  Args:
    index: that has them.
    number: of records.

  Raises:
    ValueError: if there are not so many.
  """
  rows = index.connection.execute(
    "SELECT name, record_id, max(kind) FROM records JOIN works USING (work_id) "
    "WHERE kind != 'heading' GROUP BY name, record_id LIMIT ?",
    (number,),
  ).fetchall()
  if len(rows) < number:
    raise ValueError(f"--corrections={number}: the index has {len(rows)}")
  years = index.calendar.years
  dates = [f"{year:05d}" if year < 0 else f"{year:04d}" for year in {*years}]
  return [(work, record_id) for work, record_id, _ in rows], dates


if __name__ == "__main__":
  sys.exit(main())
