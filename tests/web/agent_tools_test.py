"""Tools for agents, driven by the client of the SDK."""

import asyncio
import json
import pathlib
import re
import sys
import time

import httpx2
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client

from ctd_jax.web import agent_tools
from ctd_jax.web.settings import WebSettings
from tests.index.answers_test import FixedDater

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs/guides/agents.md"
TOKEN = "a-token-of-some-length"
NUM_CALLS = 200


async def ask(server, calls):
  """Returns the answers of a server to calls that are made together."""
  async with mcp.Client(server) as client:
    return await asyncio.gather(
      *(client.call_tool(name, values) for name, values in calls)
    )


def call(server, name, **values):
  """Returns what a tool answers, or its error."""
  (answer,) = asyncio.run(ask(server, [(name, values)]))
  (content,) = answer.content
  if answer.is_error:
    return content.text
  assert json.loads(content.text) == answer.structured_content
  return answer.structured_content


@pytest.fixture(scope="module")
def settings(index_folder):
  return WebSettings(index=index_folder, max_question=500)


@pytest.fixture(scope="module")
def server(settings):
  return agent_tools.make_server(settings)


@pytest.fixture
def dating_server(settings, monkeypatch):
  """Returns a server of an index that dates every passage alike."""

  def date(served, passage):
    vars(served.index)["passage_dater"] = FixedDater(len(served.index.calendar))
    return served.index.date(passage)

  monkeypatch.setattr(agent_tools.record_page, "date_passage", date)
  return agent_tools.make_server(settings)


def test_a_client_learns_what_there_is(server):
  async def look():
    async with mcp.Client(server) as client:
      return client.instructions, (await client.list_tools()).tools

  instructions, tools = asyncio.run(look())
  assert "Annals (722 BCE – 720 BCE)" in instructions
  assert {tool.name for tool in tools} == {
    *("search", "date_passage", "read_month", "read_record", "convert_date")
  }
  for tool in tools:
    assert tool.annotations.read_only_hint
    assert tool.output_schema["properties"]
    assert len(tool.description) > 60


def test_the_transcript_of_the_guide_is_what_the_tools_answer(server):
  page = GUIDE.read_text(encoding="utf-8")
  steps = re.findall(r"^> (\w+) (\{.*\})\n((?:[^\n>`]+\n)+)", page, re.M)
  assert len(steps) >= 4
  for name, values, text in steps:
    answer = call(server, name, **json.loads(values))
    assert answer == (json.loads(text) if text[0] == "{" else text.strip())


def test_records_are_found_page_by_page(server):
  pages = [
    call(server, "search", question="魯隱公元年", limit=2, offset=offset)
    for offset in (0, 2)
  ]
  ids = [record["id"] for page in pages for record in page["records"]]
  assert len({*ids}) == 4
  assert pages[0]["next_offset"] == 2
  notes = call(server, "search", question="鄭人", works=["Notes"])
  assert {record["work"] for record in notes["records"]} == {"Notes"}


@pytest.mark.parametrize(
  ("record", "date", "certainty"),
  [
    ("annals/annals-0", "魯隱公元年正月", "The edition gives this date."),
    ("notes/notes-0", "魯隱公二年", "Almost certainly of this year"),
    ("notes/notes-2", "魯隱公三年春", "Almost certainly of this season"),
  ],
)
def test_no_date_is_finer_than_sure(server, record, date, certainty):
  answer = call(server, "read_record", id=record)
  assert answer["date"] == date
  assert certainty in answer["certainty"]


def test_a_passage_is_dated_with_reasons_and_parallels(dating_server):
  answer = call(dating_server, "date_passage", passage="五月，葬某公。")
  assert answer["date"] == "722 BCE – 595 BCE"  # no month is named
  assert answer["months"][0]["date"] == "魯隱公元年五月"
  assert answer["months"][0]["common_era"] == "722 BCE"
  assert answer["parallels"][0]["id"].startswith("annals/")
  assert all(re.search(r"\w", reason) for reason in answer["reasons"])


def test_a_month_is_read_by_event(server):
  month = call(server, "read_month", month="隱公元年五月")
  assert month["common_era"] == "722 BCE"
  assert month["total"] == len(month["events"]) == 1
  assert "克段" in month["events"][0][0]["text"]


@pytest.mark.parametrize(
  ("name", "values", "note"),
  [
    ("search", {"question": "魯隱公元年", "offset": 99}, "beyond the last"),
    ("search", {"question": "隱公三年二月甲子"}, "prints the day 甲子"),
    ("read_month", {"month": "隱公元年五月", "offset": 99}, "beyond the last"),
    ("read_month", {"month": "隱公元年五月五日"}, "五日 is ignored"),
  ],
)
def test_what_is_left_out_is_said(server, name, values, note):
  (said,) = call(server, name, **values)["notes"]
  assert note in said


def test_many_meanings_are_not_all_named(server):
  found = call(server, "search", question="五月鄭人")
  assert "other times" in found["understood"]
  assert len(found["understood"]) < 200


def test_a_date_is_converted(server):
  answer = call(server, "convert_date", date="萬曆十五年三月廿六日")
  assert answer["meanings"][0]["gregorian"] == "1587-05-03"
  many = call(server, "convert_date", date="建武元年", limit=1)
  assert many["left_out"] > 1


@pytest.mark.parametrize(
  ("name", "values", "problem"),
  [
    ("search", {"question": ""}, "the question is empty"),
    ("search", {"question": "字" * 501}, "the limit is 500"),
    ("search", {"question": "\udcff"}, "not valid Unicode"),
    ("search", {"question": "元年", "works": ["annal"]}, "annals"),
    ("search", {"question": "元年", "limit": 51}, "limit: .*50"),
    ("search", {}, "question: Field required"),
    ("date_passage", {"passage": "葬某公。"}, "without|cannot be dated"),
    ("read_month", {"month": "隱公元年"}, "正月 … .*十二月"),
    ("read_month", {"month": "@99999"}, "@0 … @"),
    ("read_record", {"id": "annals/x"}, "no record annals/x"),
    ("convert_date", {"date": "x"}, "^x: no date found$"),
    ("convert_date", {"date": "685 BCE"}, "^685 BCE: 685 BCE is outside"),
    ("convert_date", {"date": "1700-02-29"}, "not a day: .* Gregorian from"),
    ("convert_date", {"date": "1587", "calendars": "x"}, "no polity 'x'"),
    ("change", {}, "Unknown tool"),
  ],
)
def test_an_error_is_one_sentence(server, name, values, problem):
  error = call(server, name, **values)
  assert isinstance(error, str)
  assert re.search(problem, error)
  assert "\n" not in error
  assert "Error executing" not in error


def test_an_answer_ends_in_time(index_folder, monkeypatch):
  settings = WebSettings(index=index_folder, seconds=0.1)
  server = agent_tools.make_server(settings)
  monkeypatch.setattr(agent_tools, "search", lambda *_: time.sleep(0.5))
  assert "longer than 0.1 s" in call(server, "search", question="元年")


def test_many_calls_at_once_are_answered(server):
  calls = [
    ("search", {"question": ("鄭人", "魯隱公元年", "日食")[number % 3]})
    if number % 2
    else ("read_month", {"month": f"@{number % 30}"})
    for number in range(NUM_CALLS)
  ]
  answers = asyncio.run(ask(server, calls))
  assert not [answer for answer in answers if answer.is_error]
  assert len({answer.content[0].text for answer in answers}) == 15 + 3


def test_http_asks_for_the_token(index_folder):
  settings = WebSettings(index=index_folder, token=TOKEN)
  app = agent_tools.make_http_app(settings)

  async def ask_by_http(**headers):
    async with (
      app.router.lifespan_context(app),
      httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), headers=headers
      ) as http,
    ):
      address = f"http://localhost{agent_tools.PATH}"
      refused = await http.post(
        address, json={}, headers={"Authorization": "Bearer wrong-token-here"}
      )
      foreign = await http.post("http://evil.example/mcp", json={})
      transport = streamable_http_client(address, http_client=http)
      answers = await ask(transport, [("search", {"question": "鄭人"})])
      return refused, foreign, answers

  refused, foreign, (answer,) = asyncio.run(
    ask_by_http(Authorization=f"Bearer {TOKEN}")
  )
  assert (refused.status_code, foreign.status_code) == (401, 400)
  assert refused.json()["error"]["title"] == "Unauthorized"
  assert answer.structured_content["records"]


@pytest.mark.slow
def test_the_command_talks_over_its_standard_input(index_folder):
  command = mcp.StdioServerParameters(
    command=sys.executable,
    args=["-m", "ctd_jax.mcp", f"--index={index_folder}"],
  )
  (answer,) = asyncio.run(ask(command, [("search", {"question": "鄭人"})]))
  assert answer.structured_content["records"]
