"""Load on the pages of an index: many readers at once, for a minute.

`ctd-jax serve` is started on the index, and Locust sends it what a reader
opens: searches by time, words and both, passages, months, years, records, the
data of the timeline as it is moved, and the JSON API. Questions are drawn from
the index and hardly one is asked twice. Readers come at random, so that
requests pile up as they do; one whose answer is late waits less for the next.
It prints requests, errors and times by kind, and the memory of the server
before and after. The status is 1 if a limit is not kept: 95 % of the requests
within 400 ms, no error, memory that grows by no more than 5 %.

  python -m venv locust && locust/bin/pip install "locust>=2.40,<3"
  python -m tests.benchmarks.page_load --index=INDEX --locust=locust/bin/locust
    [--hostile] [--rows=FILE]

With --hostile one more client sends the costliest requests it can, on several
connections, as fast as they are answered: hostile questions of every length,
reasons of many records, passages as long as may be, uploads of one line. The
limits are then those of the others: no answer with an error, none after 2 s.

Locust is a program of its own here: its web server and its event loop have no
business in the environment of the tests.
"""

import argparse
import collections
import contextlib
import csv
import http.client
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import numpy as np

from ctd_jax.evaluation import results
from ctd_jax.index import database
from ctd_jax.index.asking import Index
from tests.benchmarks import ask_speed, growth, result_rows

USERS_FILE = pathlib.Path(__file__).with_name("page_load_users.py")
MAX_P95_MS, MAX_GROWTH = 400, 0.05
MAX_SLOWEST_MS = 2_000  # beside a hostile client
_HOSTILE_CONNECTIONS = 8
# How often a reader opens each kind of page.
SHARES = {
  "search time": 18,
  "search words": 14,
  "search both": 8,
  "next page": 6,
  "passage": 6,
  "month": 14,
  "year": 4,
  "record": 16,
  "timeline": 8,
  "api ask": 4,
  "corpus": 2,
}
_TOTAL = "Aggregated"  # row of Locust's table
_NUM_QUESTIONS = 2100  # drawn, of all kinds together
_NUM_ROWS = 600  # months and records
_SECONDS_TO_START = 120
_PROCESSES = 2  # that answer
_USERS, _RATE = 50, 20  # readers, their requests a second
_WARMUP, _LOAD = 90, 60  # seconds, until caches are full and measured
_SEED = 1


class Server:
  """A server of an index, as the command starts it."""

  def __init__(self, index: str, log: pathlib.Path):
    """Starts it and waits for its first answer."""
    with socket.socket() as probe:
      probe.bind(("127.0.0.1", 0))
      port = probe.getsockname()[1]
    self.address = f"http://127.0.0.1:{port}"
    with log.open("wb") as file:
      self.process = subprocess.Popen(
        [
          *(sys.executable, "-m", "ctd_jax.serve"),
          *(f"--index={index}", f"--port={port}"),
          f"--processes={_PROCESSES}",
        ],
        stderr=file,
      )
    deadline = time.monotonic() + _SECONDS_TO_START
    while True:
      try:
        with urllib.request.urlopen(f"{self.address}/about", timeout=60):
          return
      except OSError:
        if time.monotonic() > deadline or self.process.poll() is not None:
          raise SystemExit(f"the server does not start, see {log}") from None
        time.sleep(0.05)

  def read_memory(self) -> float:
    """Returns the MiB that it holds by now, without what are pages of files."""
    kibibytes = 0
    for folder in self._list_processes():
      for line in (folder / "status").read_text().splitlines():
        if line.startswith("RssAnon:"):
          kibibytes += int(line.split()[1])
    return kibibytes / 1024

  def read_processor(self) -> float:
    """Returns the seconds of the processor that it has had."""
    ticks = 0
    for folder in self._list_processes():
      fields = (folder / "stat").read_text().rpartition(")")[2].split()
      ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")

  def _list_processes(self) -> list[pathlib.Path]:
    """Returns the folders of its process and of those that it has started."""
    numbers, folders = [self.process.pid], []
    while numbers:
      folder = pathlib.Path(f"/proc/{numbers.pop()}")
      for task in (folder / "task").iterdir():
        numbers += map(int, (task / "children").read_text().split())
      folders.append(folder)
    return folders

  def stop(self) -> None:
    """Ends it."""
    self.process.terminate()
    self.process.wait()


class HostileClient:
  """A client that sends the costliest requests that it can."""

  def __init__(self, index: Index, address: str):
    """Begins to send them."""
    self.seconds: dict[str, list[float]] = collections.defaultdict(list)
    self.statuses = collections.Counter()
    self._port = int(address.rpartition(":")[2])
    self._is_over = threading.Event()
    rows = index.connection.execute("SELECT text FROM records LIMIT 2000")
    self._text = "".join(text for (text,) in rows)
    self._threads = [
      threading.Thread(target=self._send_all, args=(number,), daemon=True)
      for number in range(_HOSTILE_CONNECTIONS)
    ]
    for thread in self._threads:
      thread.start()

  def stop(self) -> None:
    """Ends it after the answers to come."""
    self._is_over.set()
    for thread in self._threads:
      thread.join()

  def _draw(self, draw: random.Random) -> tuple[str, str, str, dict | None]:
    """Returns kind, method, path and JSON or fields of a request."""
    unit = draw.choice([*growth.UNITS, "之", "a" * 9, self._text[:20_000]])
    question = (unit * 200)[: draw.randint(150, 200)]
    passage = (unit * 20_000)[: draw.randint(15_000, 20_000)]
    return draw.choice(
      (
        ("question", "GET", f"/?{urlencode({'q': question})}", None),
        (
          "words",
          "GET",
          f"/?{urlencode({'q': unit, 'words': question})}",
          None,
        ),
        ("short passage", "GET", f"/date?{urlencode({'q': question})}", None),
        (
          "linked passage",
          "GET",
          f"/date?{urlencode({'q': passage[:1_900]})}",
          None,
        ),
        ("passage", "POST", "/date", {"q": passage}),
        ("passage", "POST", "/date", {"q": self._text[: len(passage)]}),
        ("api passage", "POST", "/api/ask", {"q": passage}),
        (
          "reasons",
          "POST",
          "/api/ask",
          {"q": self._text[:2], "intent": "words", "why": True, "k": 200},
        ),
      )
    )

  def _send_all(self, seed: int) -> None:
    draw = random.Random(seed)
    while not self._is_over.is_set():
      kind, method, path, values = self._draw(draw)
      headers, body = {}, None
      if path == "/date":
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(values).encode()
      elif values is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(values).encode()
      begun = time.monotonic()
      try:
        # Of another address, so that it is another client to the server.
        connection = http.client.HTTPConnection(
          "127.0.0.1", self._port, 60, source_address=("127.0.0.2", 0)
        )
        with contextlib.closing(connection):
          connection.request(method, path, body, headers)
          response = connection.getresponse()
          response.read()
          self.statuses[response.status] += 1
      except OSError as error:
        self.statuses[type(error).__name__] += 1
      self.seconds[kind].append(time.monotonic() - begun)


def send_upload(address: str, text: str) -> float:
  """Returns the seconds until the preview of a text is shown."""
  browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
  with browser.open(f"{address}/upload") as page:
    fields = re.findall(
      r'<input type="hidden" name="([^"]+)" value="([^"]*)">',
      page.read().decode(),
    )
  begun = time.monotonic()
  parts = [f'name="{name}"\r\n\r\n{value}' for name, value in fields]
  parts.append(f'name="files"; filename="{len(text)}.txt"\r\n\r\n{text}')
  lines = [f"--x\r\nContent-Disposition: form-data; {it}\r\n" for it in parts]
  request = urllib.request.Request(
    f"{address}/upload",
    ("".join(lines) + "--x--\r\n").encode(),
    {"Content-Type": "multipart/form-data; boundary=x"},
  )
  with browser.open(request) as page:
    link, content = page.url, page.read()
  while b"<progress" in content:
    time.sleep(0.5)
    with browser.open(link) as page:
      content = page.read()
  return time.monotonic() - begun


def draw_addresses(index: Index, seed: int) -> dict[str, list[str]]:
  """Returns kind of page -> addresses, without host."""
  addresses: dict[str, list[str]] = {kind: [] for kind in SHARES}
  draw = np.random.default_rng(seed)
  for kind, text, intent in ask_speed.draw_questions(
    index, _NUM_QUESTIONS, seed
  ):
    query = urlencode({"q": text} | ({"intent": intent} if intent else {}))
    if kind == "passage":
      addresses["passage"].append(f"/date?{urlencode({'q': text})}")
      continue
    name = {"words": "search words", "words+year": "search both"}.get(
      kind, "search time"
    )
    share = draw.random()
    if share < 0.1:
      addresses["api ask"].append(f"/api/ask?{query}")
    elif share < 0.25:
      addresses["next page"].append(f"/?{query}&page=2")
    elif share < 0.45:
      addresses["timeline"] += _move_timeline(index, query, draw)
    else:
      addresses[name].append(f"/?{query}")
  rows = [row for work in index.works for row in work.rows]
  for number in draw.integers(len(rows), size=_NUM_ROWS):
    row = rows[number]
    record = database.fetch_records(index.connection, [row])[0]
    path = f"{index.work_of(row).name}/{record.record_id}"
    addresses["record"].append(f"/record/{quote(path)}")
    month = min(record.best_month, len(index.calendar) - 1)
    addresses["month"].append(f"/month/{month}")
    addresses["year"].append(f"/year/{month}")
  addresses["corpus"].append("/")
  return {kind: paths for kind, paths in addresses.items() if paths}


def _move_timeline(
  index: Index, query: str, draw: np.random.Generator
) -> Iterator[str]:
  """Yields what the page asks for when its timeline is moved and zoomed."""
  for size in (60, 400):
    first = int(draw.integers(max(len(index.calendar) - size, 1)))
    yield f"/api/timeline?{query}&first={first}&last={first + size - 1}"


def run_locust(
  flags: argparse.Namespace,
  address: str,
  requests: pathlib.Path,
  seconds: float,
  prefix: pathlib.Path,
) -> None:
  """Runs the readers for some seconds; Locust's tables begin with a prefix.

  Raises:
    SystemExit: if Locust itself fails.
  """
  log = prefix.with_suffix(".log")
  with log.open("wb") as file:
    status = subprocess.run(
      [
        *(flags.locust, "--headless", "--only-summary", "--skip-log"),
        *("--exit-code-on-error", "0"),
        *(f"--locustfile={USERS_FILE}", f"--host={address}"),
        *(f"--users={_USERS}", f"--spawn-rate={_USERS}"),
        *(f"--run-time={seconds:g}s", f"--csv={prefix}"),
      ],
      env=os.environ
      | {
        "PAGE_LOAD_REQUESTS": str(requests),
        "PAGE_LOAD_SECONDS": str(_USERS / _RATE),
      },
      stdout=file,
      stderr=file,
      check=False,
    ).returncode
  if status:
    sys.exit(f"{flags.locust}: stopped with {status}:\n{log.read_text()}")


def read_times(prefix: pathlib.Path) -> dict[str, dict[str, float]]:
  """Returns kind of page -> figures, that of all of them last."""
  with open(f"{prefix}_stats.csv", encoding="utf-8", newline="") as file:
    lines = {line["Name"]: line for line in csv.DictReader(file)}
  return {
    "all" if kind == _TOTAL else kind: {
      "requests": float(line["Request Count"]),
      "errors": float(line["Failure Count"]),
      "a_second": float(line["Requests/s"]),
      "median_ms": float(line["50%"]),
      "p95_ms": float(line["95%"]),
      "slowest_ms": float(line["100%"]),
    }
    for kind, line in lines.items()
    if kind == _TOTAL or kind in SHARES
  }


def measure(
  flags: argparse.Namespace, folder: pathlib.Path
) -> dict[str, dict[str, float]]:
  """Returns the figures of a minute of load, by kind of page."""
  index = Index.open(flags.index)
  requests = folder / "requests.json"
  requests.write_text(
    json.dumps({"shares": SHARES, "addresses": draw_addresses(index, _SEED)})
  )
  server = Server(flags.index, folder / "server.log")
  try:
    run_locust(flags, server.address, requests, _WARMUP, folder / "warmup")
    memory, processor = server.read_memory(), server.read_processor()
    hostile = HostileClient(index, server.address) if flags.hostile else None
    run_locust(flags, server.address, requests, _LOAD, folder / "load")
    if hostile is not None:
      hostile.stop()
      for kind, seconds in hostile.seconds.items():
        print(
          f"hostile {kind}: {len(seconds)} requests, slowest "
          f"{max(seconds):.1f} s",
          flush=True,
        )
      print("hostile statuses", dict(hostile.statuses), flush=True)
      seconds = send_upload(server.address, "元年" * 30_000)
      print(f"hostile upload: preview after {seconds:.1f} s", flush=True)
    memory_after = server.read_memory()
    processor = server.read_processor() - processor
  finally:
    server.stop()
  num_failed = 0  # not refused as questions that cannot be read
  with open(folder / "load_failures.csv", encoding="utf-8") as file:
    for line in csv.DictReader(file):
      print(line["Name"], line["Error"], line["Occurrences"], flush=True)
      num_failed += int(line["Occurrences"]) * ("422" not in line["Error"])
  times = read_times(folder / "load")
  total = times["all"]
  total |= {
    "errors": num_failed,
    "processor": processor,
    "load": result_rows.read_load(),
    "mebibytes_before": memory,
    "mebibytes_after": memory_after,
  }
  return times


def list_failures(
  total: dict[str, float], is_hostile: bool = False
) -> list[str]:
  """Returns the limits that were not kept, in words."""
  failures = []
  if total["errors"]:
    failures.append(f"{total['errors']:.0f} errors")
  if is_hostile:
    if total["slowest_ms"] > MAX_SLOWEST_MS:
      failures.append(
        f"slowest {total['slowest_ms']:.0f} ms, limit {MAX_SLOWEST_MS}"
      )
    return failures
  if total["p95_ms"] > MAX_P95_MS:
    failures.append(f"p95 {total['p95_ms']:.0f} ms, limit {MAX_P95_MS}")
  growth = total["mebibytes_after"] / total["mebibytes_before"] - 1
  if growth > MAX_GROWTH:
    failures.append(f"memory grew by {growth:.0%}, limit {MAX_GROWTH:.0%}")
  return failures


def make_rows(
  flags: argparse.Namespace, times: dict[str, dict[str, float]]
) -> list[results.ResultRow]:
  """Returns the result rows of all kinds of pages."""
  about = result_rows.describe_run("page_load", _LOAD)
  system = result_rows.name_system(Index.open(flags.index).num_records)
  rows = []
  for kind, figures in times.items():
    rows += result_rows.make_cost_rows(
      about, flags.name, system, "pages", figures, kind
    )
  return rows


def main() -> int:
  """Puts a server under load; returns 1 if a limit is not kept."""
  parser = result_rows.make_index_parser(__doc__)
  parser.add_argument("--locust", default="locust", help="the program")
  parser.add_argument(
    "--hostile", action="store_true", help="beside a hostile client"
  )
  flags = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    times = measure(flags, pathlib.Path(folder))
  rows = make_rows(flags, times)
  result_rows.print_rows(rows)
  result_rows.write_rows(flags.rows, rows)
  failures = list_failures(times["all"], flags.hostile)
  print("kept all limits" if not failures else "; ".join(failures))
  return int(bool(failures))


if __name__ == "__main__":
  sys.exit(main())
