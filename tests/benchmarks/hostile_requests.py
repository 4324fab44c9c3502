"""Random requests, sent raw to a server: any method, path, header and body.

  python -m tests.benchmarks.hostile_requests --index=INDEX [--number=10000]

It prints how many answers have each status and the slowest. The status is 1 if
one is 500, or if the server does not answer afterwards.
"""

import argparse
import collections
import pathlib
import random
import socket
import sys
import tempfile
import time
import urllib.request
from concurrent import futures
from urllib.parse import quote

from tests.benchmarks import growth
from tests.benchmarks.page_load import Server
from tests.web.hostile_test import NAMES, PATHS, PAYLOADS

_PATHS = (*PATHS, "/token", "/static/site.css", "/static/../x", "//", "*")
_PATHS += ("/api/docs", "/api/openapi.json", "/save/date", "http://x/")
_METHODS = ("GET",) * 6 + ("POST",) * 4
_METHODS += ("HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "X" * 50)
_TYPES = ("application/json", "application/x-www-form-urlencoded", "")
_TYPES += (
  "multipart/form-data; boundary=x",
  "multipart/form-data",
  "a; b=\xff",
)
_HEADERS = ("Range", "Accept-Language", "Cookie", "If-None-Match", "Origin")
_HEADERS += ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Authorization", "Expect")
_HEADERS += ("X-Forwarded-For", "Upgrade", "Connection", "Transfer-Encoding")
_HEADERS += ("Content-Length", "Accept-Encoding", "Referer")
_VALUES = ("bytes=0-0,1-1,2-2", "bytes=-", "zh;q=1" + ",en;q=0.1" * 200, "*")
_VALUES += ("ctd_form=" + "0" * 32, "ctd_name=%FF%FE", "cross-site", "navigate")
_VALUES += ("Bearer x", "1.2.3.4", "100-continue", "websocket", "Upgrade")
_VALUES += ("chunked", "5", "0", "-1", "9" * 30, "\xe9\xff", "a" * 3_000, '"')
_BODIES = (b"[" * 5_000, b'{"k": 1e999, "q": "a"}', b"&" * 3_000, b"\x00" * 99)
_BODIES += (
  b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\na\r\n--x--',
)
_THREADS = 48


def make_request(seed: int) -> bytes:
  """Returns a request."""
  draw = random.Random(seed)

  def make_text() -> str:
    if draw.random() < 0.6:
      return draw.choice(PAYLOADS)
    return (draw.choice(growth.UNITS) * 300)[: draw.randrange(1, 300)]

  query = "&".join(
    f"{draw.choice(NAMES)}={quote(make_text(), safe='')}"
    for _ in range(draw.randrange(5))
  )
  path = draw.choice(_PATHS)
  if draw.random() < 0.2:
    path += "/" + quote(make_text(), safe="./")
  method = draw.choice(_METHODS)
  headers = [("Host", draw.choice(("localhost",) * 9 + ("evil.example",)))]
  for _ in range(draw.randrange(4)):
    headers.append((draw.choice(_HEADERS), draw.choice(_VALUES)))
  body = b""
  if method not in ("GET", "HEAD"):
    text = make_text()
    own = (f'{{"q": "{text}"}}'.encode(), b"q=" + quote(text).encode())
    body = draw.choice(_BODIES + own + (draw.randbytes(50),))
    headers.append(("Content-Type", draw.choice(_TYPES)))
    headers.append(("Content-Length", str(len(body))))
  head = f"{method} {path}?{query} HTTP/1.1\r\n"
  head += "".join(f"{name}: {value}\r\n" for name, value in headers)
  return f"{head}Connection: close\r\n\r\n".encode("latin1", "replace") + body


def send(port: int, request: bytes) -> tuple[str, float]:
  """Returns the status of the answer, or an error, and the seconds it took."""
  begun = time.monotonic()
  try:
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
      connection.sendall(request)
      answer = connection.recv(64)
      status = answer.split(b" ")[1].decode() if answer else "closed"
  except OSError as error:
    status = type(error).__name__
  return status, time.monotonic() - begun


def main() -> int:
  """Sends the requests; returns 1 if the server fails."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--index", required=True)
  parser.add_argument("--number", type=int, default=10_000)
  flags = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    server = Server(flags.index, pathlib.Path(folder) / "server.log")
    try:
      port = int(server.address.rpartition(":")[2])
      with futures.ThreadPoolExecutor(_THREADS) as pool:
        requests = map(make_request, range(flags.number))
        results = list(pool.map(lambda it: send(port, it), requests))
      with urllib.request.urlopen(f"{server.address}/about", timeout=60):
        pass
    finally:
      server.stop()
  statuses = collections.Counter(status for status, _ in results)
  slowest = max(seconds for _, seconds in results)
  print(dict(statuses.most_common()), f"slowest {slowest:.2f} s")
  return int(statuses["500"] > 0)


if __name__ == "__main__":
  sys.exit(main())
