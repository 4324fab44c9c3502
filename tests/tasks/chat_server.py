"""A chat server on this machine that delays, fails, truncates and repeats."""

import collections
import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator

# What can go wrong with a request.
FAULTS = ("delay", "busy", "error", "drop", "truncate", "garbage", "empty")
# They hold an answer to everything.
THOUGHTS = '也许是清代？否。答案是A，约999年。{"回答": "唐", "评估结果": 1}'


class ChatServer(http.server.ThreadingHTTPServer):
  """Replies with `answer(messages)`, or with what `fault` names.

  It refuses temperature and max_tokens, as some models do, and thinks aloud in
  the content of its message, or in a field for it.

  Attributes:
    asked: request body -> how often it came.
    answered: request body -> how often a whole reply went out.
  """

  daemon_threads = True
  request_queue_size = 64

  def __init__(
    self,
    answer: Callable[[list[dict]], str],
    fault: Callable[[str, int], str] = lambda text, attempt: "",
    thinks: str = "",
  ):
    super().__init__(("127.0.0.1", 0), _Handler)
    self.answer = answer
    self.fault = fault
    self.thinks = thinks
    self.asked: collections.Counter[str] = collections.Counter()
    self.answered: collections.Counter[str] = collections.Counter()
    self.lock = threading.Lock()

  @property
  def url(self) -> str:
    return f"http://127.0.0.1:{self.server_port}/v1"

  def handle_error(self, request, address) -> None:
    """Says nothing where the client has gone, which is what is tested."""


class _Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"
  server: ChatServer

  def do_POST(self) -> None:
    body = self.rfile.read(int(self.headers["Content-Length"])).decode()
    request = json.loads(body)
    messages = request["messages"]
    with self.server.lock:
      self.server.asked[body] += 1
      attempt = self.server.asked[body]
    fault = self.server.fault(messages[-1]["content"], attempt)
    if fault == "delay":
      time.sleep(1.2)
    if fault == "drop":
      self.close_connection = True
      return
    if {"temperature", "max_tokens"} & request.keys():
      fault = "refuse"
    if fault in ("busy", "error", "refuse"):
      status = {"busy": 429, "error": 503, "refuse": 400}[fault]
      self._send(status, json.dumps({"error": {"message": fault}}))
      return
    reply = json.dumps(self._completion(messages, fault), ensure_ascii=False)
    if fault == "garbage":
      reply = "<html>gateway</html>"
    self._send(200, reply, cut=fault == "truncate")
    if fault not in ("garbage", "truncate", "empty"):
      with self.server.lock:
        self.server.answered[body] += 1

  def _completion(self, messages: list[dict], fault: str) -> dict:
    message = {"role": "assistant", "content": self.server.answer(messages)}
    if self.server.thinks == "aloud":
      message["content"] = f"<think>{THOUGHTS}</think>\n{message['content']}"
    elif self.server.thinks:
      message["reasoning_content"] = THOUGHTS
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
      "id": "c",
      "object": "chat.completion",
      "created": 0,
      "model": "m",
      "choices": [] if fault == "empty" else [choice],
      "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
      },
    }

  def _send(self, status: int, text: str, cut: bool = False) -> None:
    content = text.encode()
    self.send_response(status)
    self.send_header("Content-Type", "application/json")
    self.send_header("Content-Length", str(len(content)))
    if status == 429:
      self.send_header("Retry-After", "0.05")
    self.end_headers()
    self.wfile.write(content[: len(content) // 2] if cut else content)
    self.close_connection = cut

  def log_message(self, *unused) -> None:
    """Says nothing."""


@contextlib.contextmanager
def serving(
  answer: Callable[[list[dict]], str],
  fault: Callable[[str, int], str] = lambda text, attempt: "",
  thinks: str = "",
) -> Iterator[ChatServer]:
  """Yields a running server."""
  server = ChatServer(answer, fault, thinks)
  thread = threading.Thread(target=server.serve_forever, args=(0.02,))
  thread.start()
  try:
    yield server
  finally:
    server.shutdown()
    thread.join()
    server.server_close()
