"""JSON API: the objects of `ask --json`, and its description."""

import html
import json
import pathlib
import re
from urllib.parse import unquote

import jsonschema
import pytest

import ctd_jax
from ctd_jax.index.asking import Index
from ctd_jax.web.rendering import EXPORT_FORMATS

SCHEMA = pathlib.Path(ctd_jax.__file__).parent / ("index/answer.schema.json")


def without_time(answer):
  return answer | {"asked_at": ""}


@pytest.mark.parametrize("question", ["魯隱公元年", "鄭人", "元年", "無人"])
def test_answer_is_that_of_the_index(client, index_folder, question):
  response = client.get("/api/ask", params={"q": question})
  answer = Index.open(index_folder).ask(question)
  expected = json.loads(json.dumps(answer.to_dict()))
  assert without_time(response.json()) == without_time(expected)
  jsonschema.validate(response.json(), json.loads(SCHEMA.read_text()))
  posted = client.post("/api/ask", json={"q": question})
  assert without_time(posted.json()) == without_time(expected)


def test_answer_can_be_narrowed_and_skipped(client):
  def rows(**parameters):
    response = client.get("/api/ask", params=parameters)
    return [record["row"] for record in response.json()["results"]]

  assert rows(q="魯隱公元年", k=2) == [1, 2]
  assert rows(q="魯隱公元年", k=2, offset=2) == [3, 4]
  assert rows(q="魯隱公二年", kind="neg_comment", work=["notes"]) == [8]
  assert rows(q="魯隱公二年", sort="relevance") == [5, 7, 8]
  assert rows(q="日食") == [9]
  assert rows(q="日食", near=True, sort="time", group="event") == [9, 6]


@pytest.mark.parametrize(
  ("path", "name", "number"),
  [
    ("/?q=魯隱公元年", "Annals_魯隱公元年", 4),
    ("/?q=日食&near=1&group=event", "Notes_Annals_日食", 2),
    ("/month/15", "Annals_Notes_魯隱公二年四月", 2),
    ("/year/4", "Annals_魯隱公元年", 4),
    ("/record/notes/notes-0", "Notes_notes-0", 1),
  ],
)
def test_pages_can_be_saved_as_files(client, path, name, number):
  page = client.get(path).text
  addresses = re.findall(r'href="(/export/[^"]+)" download', page)
  assert len(addresses) == len(EXPORT_FORMATS)
  for address, suffix in zip(addresses, EXPORT_FORMATS, strict=True):
    response = client.get(html.unescape(address))
    assert response.status_code == 200
    disposition = unquote(response.headers["content-disposition"])
    assert disposition.endswith(f"''{name}{suffix}")
    if suffix == ".jsonl":
      assert len(response.text.splitlines()) == number
  assert client.get("/export/?q=鄭人&format=doc").status_code == 422
  assert client.get("/export/?format=csv").status_code == 422


def test_record_and_index(client):
  record = client.get("/api/records/7").json()
  assert record == client.get("/api/records/notes/notes-0").json()
  assert record["text"] == "鄭人伐某，取禾。"
  assert record["reasons"]
  assert record["versions"]["generation"] == 1
  works = client.get("/api/index").json()["works"]
  assert [work["name"] for work in works] == ["annals", "notes"]


def test_timeline_has_the_expected_numbers_of_records(client):
  whole = client.get("/api/timeline").json()
  assert sum(bar["records"] for bar in whole["bars"]) == pytest.approx(9, 0.01)
  narrow = {"q": "鄭人", "first": 15, "last": 25}
  months = client.get("/api/timeline", params=narrow).json()
  assert months["unit"] == "month"
  assert [bar["first"] for bar in months["bars"]] == list(range(15, 26))
  by_month = {bar["first"]: bar for bar in months["bars"]}
  assert by_month[20]["matches"] == pytest.approx(0.6, abs=0.01)
  assert by_month[15]["matches"] == 0
  assert by_month[15]["records"] == pytest.approx(1.5, abs=0.05)
  years = client.get("/api/timeline", params={"unit": "year"}).json()
  assert years["bars"][0]["name"] == "魯隱公元年"
  assert years["bars"][0]["records"] == pytest.approx(4, abs=0.05)


@pytest.mark.parametrize(
  ("path", "status"),
  [
    ("/api/ask", 422),
    ("/api/ask?q=", 422),
    ("/api/ask?q=鄭人&k=0", 422),
    ("/api/ask?q=鄭人&wrong=1", 422),
    ("/api/ask?q=寶元元年", 422),
    ("/api/records/0", 404),
    ("/api/records/x", 404),
    ("/api/records/notes/x", 404),
    ("/api/timeline?unit=day", 422),
    ("/api/timeline?first=9&last=3", 422),
    ("/api/nothing", 404),
  ],
)
def test_errors_are_json(client, path, status):
  response = client.get(path)
  assert response.status_code == status
  error = response.json()["error"]
  assert error["status"] == status
  assert error["detail"] or path == "/api/nothing"


def test_body_that_is_no_question_is_refused(client):
  json_type = {"content-type": "application/json"}
  for content in (b"", b"[]", b'{"q": 1}', b'{"q": "\\ud800"}', b"\xff"):
    response = client.post("/api/ask", content=content, headers=json_type)
    assert response.status_code in (400, 422), content
    assert response.json()["error"]["status"] == response.status_code


def test_description_has_the_answer_and_its_page_asks_no_other_host(client):
  description = client.get("/api/openapi.json").json()
  paths = description["paths"]
  assert {"get", "post"} == {*paths["/api/corrections"]}
  assert {"get", "delete"} == {*paths["/api/corrections/{number}"]}
  assert {"/api/jobs", "/api/records/{path}"} <= {*paths}
  answer = paths["/api/ask"]["get"]["responses"]["200"]
  schema = answer["content"]["application/json"]["schema"]
  assert {"question", "results", "dates"} <= set(schema["properties"])
  assert "$ref" not in json.dumps(schema)
  page = client.get("/api/docs").text
  assert "//" not in page.replace("http://localhost", "")
  assert "<script" not in page.split("<main")[1]
  for words in ("GET /api/ask", "DELETE /api/corrections", "Least probability"):
    assert words in page
