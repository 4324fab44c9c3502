"""The client against a server that delays, fails, truncates and repeats."""

import concurrent.futures
import json
import time

import pytest

from ctd_jax.tasks import chat_client, chat_models
from ctd_jax.tasks.chat_models import Endpoint, Journal
from tests.tasks.chat_server import FAULTS, serving


def endpoint(server, **fields):
  about = {
    "model": "m",
    "base_url": server.url,
    "api_key": "k",
    "timeout": 0.8,
    "backoff": 0.01,
    "prices": (1.0, 2.0),
    **fields,
  }
  return Endpoint(**about)


def user(text):
  return [{"role": "user", "content": text}]


def echo(messages):
  return "答" + messages[-1]["content"]


def faults_of_name(text, attempt):
  """A text names its fault, which strikes the first two attempts."""
  return text.split("-")[0] if attempt <= 2 else ""


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_counts_twice(tmp_path):
  texts = [f"{fault}-{n}" for fault in (*FAULTS, "none") for n in range(4)]
  with (
    serving(echo, faults_of_name) as server,
    Journal(tmp_path / "j.jsonl") as journal,
  ):
    chat = chat_client.ChatClient(endpoint(server), journal)
    # Every text twice, from eight threads at once.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
      replies = list(pool.map(lambda text: chat.ask(user(text)), texts * 2))
    assert [reply.text for reply in replies] == [f"答{t}" for t in texts * 2]
    by_text = dict(zip(texts, replies, strict=False))
    # More where the machine itself is too busy for the time-out.
    assert min(by_text[f"{fault}-0"].attempts for fault in FAULTS) >= 3
    totals = chat.totals()
    assert totals["replies"] == len(texts) == chat.cached
    assert totals["attempts"] >= sum(server.asked.values())
    assert len(server.answered) == len(texts)
    assert totals["cost in USD"] == pytest.approx(len(texts) * 20e-6)
  lines = (tmp_path / "j.jsonl").read_text(encoding="utf-8").splitlines()
  assert len({json.loads(line)["key"] for line in lines}) == len(texts)


def test_a_second_run_asks_nothing(tmp_path):
  with serving(echo) as server:
    for _ in range(2):
      with Journal(tmp_path / "j.jsonl") as journal:
        chat = chat_client.ChatClient(endpoint(server), journal)
        chat.ask(user("a"))
        chat.ask(user("a"), sample=1)
    assert sum(server.asked.values()) == 2
    assert chat.cached == chat.totals()["replies"] == 2


@pytest.fixture
def journal(tmp_path):
  with Journal(tmp_path / "j.jsonl") as journal:
    yield journal


def test_attempts_end(journal):
  with serving(echo, lambda text, attempt: "error") as server:
    chat = chat_client.ChatClient(endpoint(server, attempts=3), journal)
    with pytest.raises(chat_models.NoReplyError, match="in 3 attempts"):
      chat.ask(user("a"))
    assert sum(server.asked.values()) == 3
    assert len(journal) == 0


def test_a_refused_request_is_not_repeated(journal):
  with serving(echo, lambda text, attempt: "refuse") as server:
    chat = chat_client.ChatClient(endpoint(server), journal)
    with pytest.raises(ValueError, match="refuses: .*401"):
      chat.ask(user("a"))
    assert sum(server.asked.values()) == 1


def test_budget(journal):
  with serving(echo) as server:
    chat = chat_client.ChatClient(endpoint(server, budget=30e-6), journal)
    chat.ask(user("a"))
    chat.ask(user("b"))
    with pytest.raises(ValueError, match="--budget=3e-05 USD is spent"):
      chat.ask(user("c"))
    assert chat.ask(user("a")).text == "答a"


def test_pace():
  pace = chat_client.RateLimiter(per_minute=1200)
  begin = time.monotonic()
  for _ in range(5):
    pace.wait()
  assert 0.19 <= time.monotonic() - begin < 1


def test_a_key_is_asked_for(journal, monkeypatch):
  monkeypatch.delenv("OPENAI_API_KEY", raising=False)
  with pytest.raises(ValueError, match="OPENAI_API_KEY"):
    chat_client.ChatClient(Endpoint("m"), journal)
