"""Requests that no reader makes: the server answers, and never with a failure.

CTD_JAX_HOSTILE_REQUESTS says how many are made up; a few hundred by default.
"""

import json
import os
import re
import shutil
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.web.conftest import open_client

NUM_REQUESTS = int(os.environ.get("CTD_JAX_HOSTILE_REQUESTS", "300"))
PAYLOADS = (
  "' OR 1=1 --",
  '"; DROP TABLE records; --',
  "鄭人' UNION SELECT sql FROM sqlite_master --",
  'full_text MATCH "a" OR NEAR(',
  '" OR "',
  "* AND *",
  "NEAR(鄭 人, 99999999999)",
  "<script>alert(1)</script>",
  '"><svg/onload=alert(1)>',
  "javascript:alert(1)",
  "{{config}}{{7*7}}${7*7}#{7*7}",
  "../../../../etc/passwd",
  "..%2f..%2f..%2fetc%2fpasswd",
  "file:///etc/passwd",
  "\\\\server\\share",
  "%00",
  "\r\nSet-Cookie: a=b",
  "@-1",
  "@99999999999999999999",
  "99999999999999999999 CE",
  "1e999 BCE",
  "-0 BCE..0 CE",
  "722 BCE..",
  "..719 BCE",
  "元年" * 60,
  "甲子" * 90,
  "《》「」“”",
  "「" * 150,
  "𠀀\U000e0100\u200d\ufeff\u202e",
  "\ufdd0\uffff",
  "魯隱公元年閏十三月三十二日",
  "閏" * 40 + "月",
  "零年零月零日",
  "一" * 190 + "年",
  "０１２３年",
  "null",
  "NaN",
  "[]",
  "a" * 1000,
  "鄭" * 600,
)
# Parameters of the pages and of the API.
PAGE_NAMES = ("q", "from", "to", "words", "work", "kind", "p", "page", "intent")
CORRECTION_NAMES = ("date", "note", "name", "record_id", "part", "limit")
NAMES = (
  *(*PAGE_NAMES, *CORRECTION_NAMES),
  *("lang", "index", "first", "last", "unit", "k", "skip"),
)
PATHS = (
  "/",
  "/save/",
  "/date",
  "/record/1",
  "/record/notes/notes-0",
  "/corrections",
  "/correct",
  "/jobs",
  "/upload",
  "/month/4",
  "/year/4",
  "/about",
  "/api/ask",
  "/api/timeline",
  "/api/records/1",
  "/api/months/4",
  "/api/corrections",
  "/api/corrections/check",
  "/api/jobs",
)
# Of pages with a form, see `forms`.
COOKIE = r"ctd_form=[0-9a-f]{32}; Path=/; HttpOnly; SameSite=Lax"
EXPECTED = {200, 303, 307, 400, 403, 404, 405, 409, 413, 422}
texts = st.one_of(
  st.sampled_from(PAYLOADS),
  st.text(max_size=40),
  st.text(
    alphabet="魯隱公元年閏五月正日甲子春秋至前後間鄭人0123456789@.- ",
    max_size=30,
  ),
  st.integers().map(str),
  st.floats().map(str),
)
queries = st.lists(st.tuples(st.sampled_from(NAMES), texts), max_size=6)
often, seldom = (
  settings(
    max_examples=number,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
  )
  for number in (NUM_REQUESTS, NUM_REQUESTS // 3)
)


def check(response, sent):
  assert response.status_code in EXPECTED, (response.status_code, sent)
  text = response.text
  assert "Traceback" not in text
  assert "root:x:" not in text
  assert "CREATE TABLE" not in text
  is_page = response.headers.get("content-type", "").startswith("text/html")
  if is_page:  # JSON is never shown as a page: the type is not to be guessed
    assert not re.search(r"<script(?![^>]* src=)|<svg/onload", text), sent
  cookie = response.headers.get("set-cookie", "")
  assert re.fullmatch(rf"({COOKIE})?", cookie), cookie


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("path", ["/", "/api/ask", "/api/timeline", "/date"])
def test_known_payloads_are_answered(client, path, payload):
  for name in ("q", "from", "words", "work", "index"):
    parameters = {"q": "鄭人"} | {name: payload}
    address = f"{path}?{urlencode(parameters)}"
    check(client.get(address), address)


@often
@given(path=st.sampled_from(PATHS), query=queries)
def test_any_query_is_answered(client, path, query):
  encoded = urlencode(
    [(name, text.encode("utf-8", "surrogatepass")) for name, text in query]
  )
  check(client.get(f"{path}?{encoded}"), (path, query))


@seldom
@given(
  path=st.sampled_from(
    (
      *("/record", "/record/notes", "/month", "/year", "/static", "/jobs"),
      *("/upload", "/save/upload"),
      *("/api/records", "/api/corrections", "/api/jobs", "/corrections"),
    )
  ),
  tail=st.one_of(texts, st.integers().map(str)),
  method=st.sampled_from(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS")),
)
def test_any_path_and_method_is_answered(client, path, tail, method):
  tail = quote(tail.encode("utf-8", "surrogatepass"), safe="/.")
  check(client.request(method, f"{path}/{tail}"), (method, path, tail))


@seldom
@given(
  path=st.sampled_from(
    ("/api/ask", "/date", "/token", "/corrections", "/api/corrections")
  ),
  body=st.one_of(
    st.binary(max_size=200),
    texts.map(
      lambda text: b"q=" + quote(text.encode("utf-8", "surrogatepass")).encode()
    ),
    st.recursive(
      st.none() | st.booleans() | st.integers() | st.text(max_size=9),
      lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
      ),
    ).map(lambda value: json.dumps(value).encode()),
  ),
  kind=st.sampled_from(
    (
      "application/json",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "text/plain; charset=utf-16",
      "",
    )
  ),
)
def test_any_body_is_answered(client, path, body, kind):
  response = client.post(path, content=body, headers={"content-type": kind})
  check(response, (path, body, kind))


@pytest.fixture(scope="module")
def writer(tmp_path_factory, index_folder):
  """Yields a client of a server whose index can be changed."""
  folder = tmp_path_factory.mktemp("hostile") / "index"
  with open_client(shutil.copytree(index_folder, folder)) as client:
    yield client


FIELDS = ("work", "first", "last", "date", "note", "name", "form_key", "back")
dates = st.text("魯隱公元二三年正五月/.-0123456789 ", min_size=1, max_size=12)


@pytest.mark.slow
@seldom
@given(
  fields=st.dictionaries(st.sampled_from(FIELDS), texts | dates, max_size=4),
  path=st.sampled_from(("/corrections", "/correct")),
)
def test_any_correction_is_answered(writer, fields, path):
  page = writer.get("/correct?work=notes&first=notes-0").text
  hidden = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page)
  form = {"date": "魯隱公元年"} | dict(hidden) | fields
  response = writer.post(
    path,
    content=urlencode(form, errors="surrogatepass"),
    headers={"content-type": "application/x-www-form-urlencoded"},
  )
  response.headers.pop("set-cookie", None)  # of the reader's name
  check(response, form)
  names = {"first": "first_record", "last": "last_record", "form_key": "key"}
  body = {names.get(name, name): text for name, text in fields.items()}
  whole = {"work": "notes", "first_record": "notes-1", "date": "魯隱公元年"}
  answer = writer.post(
    "/api/corrections",
    content=json.dumps(whole | body).encode(),
    headers={"content-type": "application/json"},
  )
  if answer.status_code != 201:
    check(answer, body)
  for path in ("/corrections", "/record/notes/notes-0", "/api/corrections"):
    check(writer.get(path), (path, form))
