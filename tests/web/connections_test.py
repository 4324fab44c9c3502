"""Slow clients are closed, and others are answered however many there are."""

import contextlib
import socket
import threading
import time

import pytest
import uvicorn

from ctd_jax.web import connections
from tests.web.conftest import wait_for

SECONDS = 1.0
_LARGE = b"x" * (16 << 20)
_ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer(scope, receive, send):
  """Answers with the number of bytes received, or with a large file."""
  num_bytes, is_whole = 0, False
  while not is_whole:
    message = await receive()
    num_bytes += len(message.get("body", b""))
    is_whole = not message.get("more_body")
  body = _LARGE if scope["path"] == "/large" else str(num_bytes).encode()
  headers = [(b"content-length", str(len(body)).encode())]
  await send({"type": "http.response.start", "status": 200, "headers": headers})
  await send({"type": "http.response.body", "body": body})


@pytest.fixture
def connect(monkeypatch):
  """Yields what opens a connection to a server that has room for six."""
  monkeypatch.setattr(connections, "SECONDS", SECONDS)
  monkeypatch.setattr(connections, "choose_limit", lambda: 6)
  config = uvicorn.Config(
    answer, http=connections.BoundedProtocol, lifespan="off", log_level="error"
  )
  server = uvicorn.Server(config)
  with socket.create_server(("127.0.0.1", 0)) as listener:
    thread = threading.Thread(
      target=server.run, kwargs={"sockets": [listener]}, daemon=True
    )
    thread.start()
    wait_for(lambda: server.started)
    with contextlib.ExitStack() as opened:

      def open_connection(sent=b""):
        connection = socket.create_connection(listener.getsockname(), 20)
        connection.sendall(sent)
        return opened.enter_context(connection)

      yield open_connection
    server.should_exit = True
    thread.join(20)


def is_closed(connection):
  """Waits for an answer and returns whether there is none."""
  try:
    return connection.recv(100) == b""
  except ConnectionResetError:
    return True


def is_answered(connection):
  return connection.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", b"G", _ASK[:-4], _ASK[:-2]])
def test_half_of_a_head_is_not_waited_for(connect, sent):
  connection, begun = connect(sent), time.monotonic()
  assert is_closed(connection)
  assert SECONDS / 2 < time.monotonic() - begun < 10 * SECONDS


def test_second_request_has_to_come_too(connect):
  connection = connect(_ASK)
  assert is_answered(connection)
  connection.sendall(_ASK)
  assert is_answered(connection)
  connection.sendall(b"GET /")
  assert is_closed(connection)


def test_body_has_to_come(connect):
  post = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"
  slow, steady = connect(post), connect(post)
  for _ in range(12):
    steady.sendall(b"x" * 5_000)
    with contextlib.suppress(OSError):
      slow.sendall(b"x")
    time.sleep(SECONDS / 6)
  assert is_answered(steady)
  assert is_closed(slow)


def test_answer_has_to_be_read(connect):
  ask = _ASK.replace(b" / ", b" /large ")
  asleep, steady = connect(ask), connect(ask)
  left = len(_LARGE)
  for _ in range(8):
    left -= len(steady.recv(1 << 20))
    time.sleep(SECONDS / 4)
  while content := steady.recv(1 << 20):
    left -= len(content)
    if left < 0:  # the head is read too
      break
  assert left < 0
  with contextlib.suppress(ConnectionResetError):
    while content := asleep.recv(1 << 20):
      left += len(content)
    assert left < len(_LARGE)


def test_silent_connections_make_room(connect, caplog):
  silent = [connect(b"GET /") for _ in range(20)]
  for _ in range(8):
    assert is_answered(connect(_ASK))
  assert all(map(is_closed, silent[:10]))
  assert "connections are open" in caplog.text


@pytest.mark.parametrize("files", [64, 128, 1024, 1 << 20])
def test_connections_leave_files_for_the_index(monkeypatch, files):
  monkeypatch.setattr(
    connections.resource, "getrlimit", lambda _: (files, files)
  )
  limit = connections.choose_limit()
  assert 16 <= limit <= 1_000
  assert limit < files - 60 or files == 64
